#!/usr/bin/env python3
# cmake-once
# cmake-lock: everybody
# cmake-timeout: 300
"""Who records whom across containers and users: real namespaces (process ids, mounts, ipc), /dev/shm shared and
not, root and another user. Whoever may be recorded is recorded exactly and named as the recorder sees him; whoever may
not is left alone, and the reason is said.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/integration/test_containers.py [TEST...]"""
import json
import os
import signal
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
sys.path.insert(0, str(SOURCE / "tests/support"))
from babeltrace import events  # noqa: E402
from traced_program import compile_traced  # noqa: E402

# Counts until SIGTERM, or N events, so many at a time; then says how far it came.
PROGRAM = r"""
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
PLUMB_EVENT(ticker, tick, (u64, number))
static volatile sig_atomic_t over;
static void end(int number) { (void)number; over = 1; }
int main(int argc, char** argv) {
    unsigned long number = 0, count = argc > 1 ? strtoul(argv[1], 0, 10) : ~0ul;
    unsigned long at_a_time = argc > 2 ? strtoul(argv[2], 0, 10) : 1;
    signal(SIGTERM, end);
    printf("%d\n", getpid());
    fflush(stdout);
    while (!over && number < count) {
        plumb_trace(ticker, tick, number);
        number++; /* whether it is traced or not */
        if (number % at_a_time == 0) usleep(500);
    }
    printf("%lu\n", number);
    return 0;
}
"""

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
# A container that shares /dev/shm, as --ipc=host does, and one that does not.
CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
OWN_MEMORY = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o mode=1777 tmpfs /dev/shm && exec "$@"', "sh")
OWN_IPC = ("unshare", "--ipc")


def why_not():
    """What keeps namespaces from being made here; an empty text if nothing does."""
    if os.geteuid() != 0:
        return "other users and namespaces need root"
    for words in (CONTAINER, OWN_MEMORY, OWN_IPC, AS_NOBODY):
        done = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return f"{' '.join(words)}: {done.stderr.strip()}"
    return ""


class Ticker:
    """A program that runs, in some container; `process`: its number as seen from here, `inside`: as it sees itself."""

    def __init__(self, test, *prefix):
        self.starter = subprocess.Popen([*prefix, test.program], stdout=subprocess.PIPE, text=True)
        self.inside = int(self.starter.stdout.readline())
        self.process = self._find(self.starter.pid)
        test.addCleanup(self.end)

    @staticmethod
    def _find(process):
        """The last of the line of starters."""
        while children := Path(f"/proc/{process}/task/{process}/children").read_text().split():
            process = int(children[0])
        return process

    def end(self):
        """How many events it had."""
        if self.starter.stdout.closed:
            return 0
        os.kill(self.process, signal.SIGTERM)
        said = self.starter.communicate(timeout=20)[0]
        return int(said)


class Containers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="plumb-containers-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.folder.chmod(0o777)
        cls.program = compile_traced(PROGRAM, cls.folder / "ticker")
        cls.plumb = shutil.copy2(BUILD / "cli/plumb", cls.folder)  # where other users may start it

    def setUp(self):
        self.trace = self.folder / self.id().split(".")[-1]

    def start(self, arguments, prefix=()):
        return subprocess.Popen([*prefix, self.plumb, "record", "--json", "-q", "-o", self.trace, *map(str, arguments)],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def record(self, *arguments, prefix=()):
        """The summary, or None; self.errors is what was said."""
        recorder = self.start(arguments, prefix)
        return self.finish(recorder)

    def finish(self, recorder):
        output, self.errors = recorder.communicate(timeout=60)
        self.status = recorder.returncode
        return json.loads(output[output.index("{\n"):]) if "{\n" in output else None

    def numbers(self):
        return [event.fields["number"] for event in events(self.trace) if event.name == "ticker:tick"]

    def threads(self):
        """Whom the trace calls otherwise than they call themselves: tid -> (vpid, vtid)."""
        return {event.fields["tid"]: (event.fields["vpid"], event.fields["vtid"]) for event in events(self.trace)
                if event.name == "plumb_statedump:namespace"}

    def assert_recorded(self, summary, ticker):
        """Without a gap, by its number here, and reached."""
        self.assertIsNotNone(summary, self.errors)
        self.assertEqual(summary["unreachable"], [])
        numbers = self.numbers()
        self.assertGreater(len(numbers), 10)
        self.assertEqual(numbers, list(range(numbers[0], numbers[-1] + 1)))
        self.assertEqual([process["pid"] for process in summary["processes"]], [ticker.process])

    def assert_left_alone(self, summary, reason):
        """Nothing of it is recorded, and why is said, by the summary or before there is one."""
        said = self.errors + json.dumps(summary)
        self.assertRegex(said, reason)
        self.assertNotIn("has no tracepoints", said)
        self.assertEqual((summary or {"events": 0})["events"], 0)

    def sessions(self):
        done = subprocess.run([self.plumb, "list", "--json"], capture_output=True, text=True, timeout=60, check=True)
        return json.loads(done.stdout)["sessions"]

    def wait_for_session(self):
        """Until a session records, and for some events; its recorder, as seen from here."""
        for _ in range(600):
            for session in self.sessions():
                if session["alive"] and session["patterns"]:
                    time.sleep(1)
                    return session["pid"]
            time.sleep(0.1)
        self.fail("there is no session")

    # Process ids --------------------------------------------------------------------------------------------------

    def test_a_recorder_in_a_container_leaves_programs_outside_alone(self):
        ticker = Ticker(self)
        summary = self.record("--exe", "ticker", "--duration", "300ms", prefix=CONTAINER)
        self.assert_left_alone(summary, "another process-id namespace, which cannot be seen from here")
        self.assertIsNone(ticker.starter.poll())

    def test_a_recorder_in_a_container_leaves_the_container_beside_it_alone(self):
        Ticker(self, *CONTAINER)
        summary = self.record("--exe", "ticker", "--duration", "300ms", prefix=CONTAINER)
        self.assert_left_alone(summary, "another process-id namespace, which cannot be seen from here")

    def test_a_recorder_in_a_container_does_not_find_a_number_of_outside(self):
        ticker = Ticker(self)
        summary = self.record("-p", ticker.process, "--duration", "300ms", prefix=CONTAINER)
        self.assert_left_alone(summary, "There is no process")

    def test_a_recorder_that_sees_the_proc_of_outside_leaves_everybody_alone(self):
        ticker = Ticker(self, *CONTAINER)
        inside = ("nsenter", "-p", "-t", str(ticker.process))
        for whom in (["--exe", "ticker"], ["-p", ticker.inside]):
            summary = self.record(*whom, "--duration", "300ms", "--force", prefix=inside)
            self.assert_left_alone(summary, "/proc is another process-id namespace's here")
        self.assert_recorded(self.record("-p", ticker.process, "--duration", "500ms", "--force"), ticker)

    def test_a_recorder_outside_records_a_program_in_a_container(self):
        ticker = Ticker(self, *CONTAINER)
        self.assertNotEqual(ticker.inside, ticker.process)
        summary = self.record("-p", ticker.process, "--duration", "500ms")
        self.assert_recorded(summary, ticker)
        self.assertEqual(self.threads(), {ticker.process: (ticker.inside, ticker.inside)})

    def test_equal_numbers_of_two_containers_are_two_processes(self):
        tickers = [Ticker(self, *CONTAINER), Ticker(self, *CONTAINER)]
        self.assertEqual(tickers[0].inside, tickers[1].inside)
        summary = self.record("--exe", "ticker", "--duration", "500ms")
        outside = {ticker.process for ticker in tickers}
        self.assertEqual({process["pid"] for process in summary["processes"]}, outside)
        numbers = {}
        for event in events(self.trace):
            if event.name == "ticker:tick":
                numbers.setdefault(event.fields["vtid"], []).append(event.fields["number"])
        self.assertEqual(set(numbers), outside)
        for each in numbers.values():
            self.assertEqual(each, list(range(each[0], each[-1] + 1)))
        self.assertEqual(self.threads(), {ticker.process: (ticker.inside, ticker.inside) for ticker in tickers})

    def test_containers_that_follow_one_another_are_several_processes(self):
        """The kernel gives a new namespace the number of one that has just gone, and its first process is 1 again."""
        count = 8000
        containers = f"for each in 1 2 3 4 5 6 7 8; do {' '.join(CONTAINER)} {self.program} {count} 20; done"
        summary = self.record("--mode", "block", "--subbuf-size", "4K", "--subbuf-count", "2", "--",
                              "sh", "-c", containers)
        self.assertIsNotNone(summary, self.errors)
        numbers = {}
        for event in events(self.trace):
            if event.name == "ticker:tick":
                numbers.setdefault(event.fields["vtid"], []).append(event.fields["number"])
        self.assertEqual(sum(map(len, numbers.values())), 8 * count)
        for thread, each in numbers.items():
            self.assertEqual(each, list(range(count)) * (len(each) // count), f"of {thread}")
        self.assertGreater(len(numbers), 1)

    def test_who_is_not_seen_has_a_number_that_nobody_else_has(self):
        recorder = self.start(["--exe", "ticker"], CONTAINER)
        inside = self.wait_for_session()
        ticker = Ticker(self)  # finds the session by itself
        time.sleep(1)
        os.kill(inside, signal.SIGINT)
        summary = self.finish(recorder)
        numbers = self.numbers()
        self.assertGreater(len(numbers), 0)
        self.assertEqual(numbers, list(range(len(numbers))))
        threads = self.threads()
        self.assertEqual(list(threads.values()), [(ticker.process, ticker.process)])
        self.assertGreaterEqual(min(threads), 1 << 22)  # no process id is as large
        self.assertEqual([process["pid"] for process in summary["processes"]], list(threads))

    def test_a_session_outside_survives_recorders_in_containers(self):
        ticker = Ticker(self)
        recorder = self.start(["-p", ticker.process, "--duration", "2s"])
        for _ in range(5):
            done = subprocess.run([*CONTAINER, self.plumb, "record", "-q", "-o", self.folder / "inside", "--force", "--",
                                   self.program, "100"], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_recorded(self.finish(recorder), ticker)

    def test_a_number_means_the_process_of_the_recorders_namespace(self):
        tickers = [Ticker(self, *CONTAINER), Ticker(self, *CONTAINER)]
        self.assertEqual(tickers[0].inside, tickers[1].inside)
        inside = ("nsenter", "--target", str(tickers[0].process), "--pid", "--mount", "--root")
        self.record("-p", tickers[0].inside, "--duration", "500ms", prefix=inside)
        self.assertEqual(self.status, 0, self.errors)
        numbers = self.numbers()  # of one of them: each has every number once
        self.assertGreater(len(numbers), 10)
        self.assertEqual(numbers, list(range(numbers[0], numbers[-1] + 1)))

    def test_what_a_recorder_killed_in_a_container_left_is_had_outside(self):
        recorder = self.start(["--", self.program], prefix=CONTAINER)
        inside = self.wait_for_session()
        os.kill(inside, signal.SIGSTOP)  # so that there is something that it has not written
        time.sleep(0.5)
        os.kill(inside, signal.SIGKILL)  # the first process there: all others end with it
        recorder.communicate(timeout=60)
        saved = self.folder / "saved"
        done = subprocess.run([self.plumb, "extract", "-o", saved], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.sessions(), [])
        numbers = [event.fields["number"] for event in events(saved) if event.name == "ticker:tick"]
        self.assertGreater(len(numbers), 0)
        self.assertEqual(numbers, list(range(numbers[0], numbers[-1] + 1)))

    def test_a_recorder_in_a_container_records_what_runs_there(self):
        self.record("--", self.program, 300, prefix=CONTAINER)
        self.assertEqual(self.status, 0, self.errors)
        self.assertEqual(self.numbers(), list(range(300)))

    # Memory -------------------------------------------------------------------------------------------------------

    def test_a_recorder_with_the_same_memory_of_its_own_records(self):
        self.record("--", self.program, 300, prefix=(*CONTAINER, *OWN_MEMORY))
        self.assertEqual(self.status, 0, self.errors)
        self.assertEqual(self.numbers(), list(range(300)))

    def test_root_reaches_who_has_a_memory_of_his_own(self):
        ticker = Ticker(self, *CONTAINER, *OWN_MEMORY)
        self.assert_recorded(self.record("-p", ticker.process, "--duration", "500ms"), ticker)
        self.assertEqual(self.threads(), {ticker.process: (ticker.inside, ticker.inside)})
        self.assert_nothing_is_left_with(ticker)

    def test_who_has_a_memory_of_his_own_and_another_user_is_reached(self):
        ticker = Ticker(self, *CONTAINER, *OWN_MEMORY, *AS_NOBODY)
        self.assert_recorded(self.record("-p", ticker.process, "--duration", "500ms"), ticker)

    def test_root_of_a_user_namespace_with_a_memory_of_his_own_is_reached(self):
        ticker = Ticker(self, *AS_NOBODY, "unshare", "--user", "--map-root-user", *CONTAINER, *OWN_MEMORY)
        self.assert_recorded(self.record("-p", ticker.process, "--duration", "500ms"), ticker)

    def test_what_a_container_puts_in_the_place_of_its_memory_leads_nowhere_else(self):
        """Its root may make /dev/shm a link."""
        outside = self.folder / "outside"
        outside.mkdir()
        link = ("unshare", "--mount", "sh", "-c",
                f'mount -t tmpfs -o mode=1777 tmpfs /mnt && mkdir /mnt/dev && mount --rbind /dev /mnt/dev && '
                f'mount -t tmpfs tmpfs /dev && ln -s {outside} /dev/shm && exec "$@"', "sh")
        ticker = Ticker(self, *link)
        summary = self.record("-p", ticker.process, "--duration", "300ms")
        self.assertEqual((summary or {"events": 0})["events"], 0)
        self.assertEqual([path.name for path in outside.rglob("channel-*")], [])  # which is no shared memory

    def test_what_a_container_mounts_on_the_directory_is_not_entered(self):
        """Else its root could lead whoever opens files there to any file system of his."""
        ticker = Ticker(self, *CONTAINER, *OWN_MEMORY)
        inside = ("nsenter", "--target", str(ticker.process), "--mount")
        subprocess.run([*inside, "mount", "-t", "tmpfs", "-o", "mode=700", "tmpfs", "/dev/shm/plumb-0"], check=True)
        summary = self.record("-p", ticker.process, "--duration", "300ms")
        self.assertRegex(self.errors + json.dumps(summary), "of another file system than the /dev/shm around it")
        self.assertEqual(os.listdir(f"/proc/{ticker.process}/root/dev/shm/plumb-0"), [])

    def test_another_user_is_told_of_a_memory_of_its_own(self):
        ticker = Ticker(self, *CONTAINER, *OWN_MEMORY, *AS_NOBODY)
        summary = self.record("-p", ticker.process, "--duration", "300ms", prefix=AS_NOBODY)
        self.assert_left_alone(summary, "it has another /dev/shm")

    def test_all_users_and_containers_are_one_trace(self):
        """Those that run already, and those that come."""
        before = [Ticker(self), Ticker(self, *AS_NOBODY), Ticker(self, *CONTAINER, *OWN_MEMORY)]
        recorder = self.start(["--all-users", "-e", "ticker:*"])
        self.wait_for_session()
        behind = [Ticker(self), Ticker(self, *CONTAINER, *OWN_MEMORY)]
        time.sleep(3)
        counts = {ticker.process: ticker.end() for ticker in before + behind}
        recorder.send_signal(signal.SIGINT)
        summary = self.finish(recorder)
        self.assertIsNotNone(summary, self.errors)
        self.assertEqual({process["pid"] for process in summary["processes"]}, set(counts))
        numbers = {}
        for event in events(self.trace):
            if event.name == "ticker:tick":
                numbers.setdefault(event.fields["vtid"], []).append(event.fields["number"])
        self.assertEqual(set(numbers), set(counts))
        for process, count in counts.items():  # from when they were found to their end, each once
            self.assertEqual(numbers[process], list(range(numbers[process][0], count)))
        self.assertEqual(numbers[behind[0].process][0], 0)

    def bound(self, folder):
        """What starts a program whose /dev/shm is that folder."""
        folder.mkdir()
        folder.chmod(0o1777)
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        return [*CONTAINER, "sh", "-c", f'mount --bind {folder} /dev/shm && exec "$@"', "sh"]

    def test_a_memory_that_is_a_folder_of_ours_is_one_of_its_own(self):
        """As that of a Flatpak application."""
        ticker = Ticker(self, *self.bound(Path(f"/dev/shm/folder-{os.getpid()}")))
        recorder = self.start(["--all-users", "-e", "ticker:*"])
        self.wait_for_events_of_container(1)
        count = ticker.end()
        recorder.send_signal(signal.SIGINT)
        self.assertIsNotNone(self.finish(recorder), self.errors)
        numbers = self.numbers_by_process()[ticker.process]
        self.assertEqual(numbers, list(range(numbers[0], count)))

    def test_a_memory_on_a_disk_is_told(self):
        ticker = Ticker(self, *self.bound(self.folder / "disk"))
        for options in (["--all-users"], ["-p", ticker.process]):
            shutil.rmtree(self.trace, ignore_errors=True)
            self.record(*options, "--duration", "3s")
            self.assertIn("their /dev/shm is a folder of a disk", self.errors)
            self.assertNotIn("start it again", self.errors)

    def wait_for_events_of_container(self, number):
        """Until there are some of so many containers in the trace."""
        for _ in range(400):
            if len([path for path in self.trace.glob("ust-0-in-*/metadata") if b"ticker:tick" in path.read_bytes()]) >= number:
                time.sleep(0.3)
                return
            time.sleep(0.05)
        self.fail("it is not found")

    def numbers_by_process(self):
        numbers = {}
        for event in events(self.trace):
            if event.name == "ticker:tick":
                numbers.setdefault(event.fields["vtid"], []).append(event.fields["number"])
        return numbers

    def test_containers_that_follow_one_another_are_each_recorded_to_their_end(self):
        recorder = self.start(["--all-users", "-e", "ticker:*"])
        self.wait_for_session()
        counts = {}
        for number in range(4):  # the kernel gives them all the same number
            ticker = Ticker(self, *CONTAINER, *OWN_MEMORY)
            self.wait_for_events_of_container(number + 1)
            counts[ticker.process] = ticker.end()
        time.sleep(3)  # whether somebody's directory was removed is looked at every two seconds
        recorder.send_signal(signal.SIGINT)
        summary = self.finish(recorder)
        self.assertEqual((self.status, self.errors, summary["complete"], summary["problems"]), (0, "", True, []))
        numbers = self.numbers_by_process()
        self.assertEqual(set(numbers), set(counts))
        for process, count in counts.items():
            self.assertEqual(numbers[process], list(range(numbers[process][0], count)))

    def test_a_container_goes_on_without_the_process_by_which_it_was_found(self):
        recorder = self.start(["--all-users", "-e", "ticker:*"])
        self.wait_for_session()
        first = Ticker(self, *OWN_MEMORY)
        self.wait_for_events_of_container(1)
        second = Ticker(self, "nsenter", "--target", str(first.process), "--mount")
        first.end()
        time.sleep(3)
        third = Ticker(self, "nsenter", "--target", str(second.process), "--mount")
        time.sleep(0.3)
        counts = {ticker.process: ticker.end() for ticker in (second, third)}
        recorder.send_signal(signal.SIGINT)
        summary = self.finish(recorder)
        self.assertEqual((self.status, self.errors, summary["complete"], summary["problems"]), (0, "", True, []))
        numbers = self.numbers_by_process()
        for process, count in counts.items():
            self.assertEqual(numbers[process], list(range(count)))

    def assert_nothing_is_left_with(self, ticker):
        left = os.listdir(f"/proc/{ticker.process}/root/dev/shm/plumb-0")
        self.assertEqual([name for name in left if name.startswith("channel-")], [])

    def test_an_ipc_namespace_makes_no_difference(self):
        ticker = Ticker(self, *OWN_IPC)
        self.assert_recorded(self.record("-p", ticker.process, "--duration", "500ms"), ticker)

    # Users --------------------------------------------------------------------------------------------------------

    def test_root_records_a_program_of_another_user(self):
        ticker = Ticker(self, *AS_NOBODY)
        self.assert_recorded(self.record("-p", ticker.process, "--duration", "500ms"), ticker)

    def test_root_records_a_command_that_changes_its_user(self):
        self.record("--user", NOBODY, "--", *AS_NOBODY, self.program, 300)
        self.assertEqual(self.status, 0, self.errors)
        self.assertEqual(self.numbers(), list(range(300)))

    def test_another_user_is_told_whom_a_program_belongs_to(self):
        ticker = Ticker(self)
        summary = self.record("-p", ticker.process, "--duration", "300ms", prefix=AS_NOBODY)
        self.assert_left_alone(summary, "belongs to user 0")

    def test_another_user_records_his_own(self):
        ticker = Ticker(self, *AS_NOBODY)
        self.assert_recorded(self.record("-p", ticker.process, "--duration", "500ms", prefix=AS_NOBODY), ticker)


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
