#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 120
# cmake-serial
"""Flight recorders: nothing is written until somebody asks; then the newest events are there, of programs and of the
kernel, without a hole up to the moment of asking, and the next snapshot goes on where that one ended."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
sys.path.insert(0, str(SOURCE / "tests/support"))
from traced_program import TracedProgramTest  # noqa: E402

HAS_KERNEL = os.geteuid() == 0 and Path("/sys/kernel/tracing/instances").is_dir()

# Says how far it is, every time before a pause: what it said was traced already.
PROGRAM = """
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
PLUMB_EVENT(flight, step, (u64, number))
int main(int count, char** arguments) {
    const unsigned long burst = count > 1 ? strtoul(arguments[1], NULL, 10) : 10;
    for (unsigned long number = 0;;) {
        for (unsigned long i = 0; i < burst; i++) {
            plumb_trace(flight, step, number++);
            syscall(SYS_getppid);
        }
        printf("%lu\\n", number);
        fflush(stdout);
        usleep(1000);
    }
}
"""

# Does not even wait for the answer.
ASKER = """
import socket, sys
while True:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect("\\0" + sys.argv[1])
"""


class Snapshot(TracedProgramTest):
    PROGRAM = PROGRAM

    def setUp(self):
        super().setUp()
        self.recorders = []

    def tearDown(self):
        for recorder in self.recorders:
            if recorder.poll() is None:
                self.end(recorder)

    def start(self, *options, trace=None, burst=10, pinned=False, **more):
        recorder = subprocess.Popen([PLUMB, "record", "-q", "--json", "--snapshot", "-o", trace or self.trace, *options, "--",
                                     *(["taskset", "-c", "0"] if pinned else []), self.program, str(burst)],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
        self.recorders.append(recorder)
        return recorder

    def steps_of(self, recorder, least):
        """Reads what the program says until it is that far."""
        while True:
            said = int(recorder.stdout.readline())
            if said >= least:
                return said

    def end(self, recorder):
        recorder.send_signal(signal.SIGINT)
        text, error = recorder.communicate(timeout=60)
        self.assertEqual(error, "")
        return json.loads(text[text.index("{"):])

    def ask(self, *arguments, status=0):
        done = subprocess.run([PLUMB, "snapshot", *arguments], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return (done.stdout if status == 0 else done.stderr).strip()

    def numbers(self, directory):
        """Those of the steps, and how many getppid() there are, as babeltrace2 reads the trace."""
        done = subprocess.run(["babeltrace2", directory], capture_output=True, text=True, timeout=100, check=True)
        return ([int(number) for number in re.findall(r"flight:step: .*number = (\d+) \}", done.stdout)],
                len(re.findall(r" syscall_entry_getppid: ", done.stdout)), done.stderr)

    def test_each_snapshot_goes_on_where_the_one_before_ended(self):
        recorder = self.start()
        self.steps_of(recorder, 500)
        self.assertEqual(list(self.trace.iterdir()), [])
        first = self.ask()
        self.assertEqual(first, str(self.trace.resolve() / "snapshot-1"))
        behind = self.steps_of(recorder, 2000)
        second = self.ask(str(recorder.pid))
        summary = self.end(recorder)
        self.assertEqual([Path(path).name for path in summary["snapshots"]], ["snapshot-1", "snapshot-2", "snapshot-3"])
        taken = [self.numbers(path) for path in summary["snapshots"]]
        self.assertEqual([error for _, _, error in taken], [""] * 3)
        self.assertGreaterEqual(len(taken[0][0]), 500)
        self.assertGreaterEqual(taken[1][0][-1] + 1, behind)
        every = [number for numbers, _, _ in taken for number in numbers]
        self.assertEqual(every, list(range(len(every))))
        together, _, error = self.numbers(self.trace)  # none is taken for a part of another
        self.assertEqual((sorted(together), error), (every, ""))
        stored = json.loads(Path(second, "summary.json").read_text())
        self.assertEqual(stored["events"], len(taken[1][0]))
        self.assertEqual(stored["events_lost"], 0)

    def test_a_recorder_that_is_stopped_is_waited_for_and_named(self):
        recorder = self.start()
        self.steps_of(recorder, 500)
        recorder.send_signal(signal.SIGSTOP)
        try:
            with subprocess.Popen([PLUMB, "snapshot", str(recorder.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) as asking:
                time.sleep(3)
                recorder.send_signal(signal.SIGCONT)
                taken, said = asking.communicate(timeout=60)
        finally:
            recorder.send_signal(signal.SIGCONT)
        self.assertIn(f"Recorder {recorder.pid} is stopped", said)
        self.assertEqual((asking.returncode, Path(taken.strip()).name), (0, "snapshot-1"))
        self.end(recorder)

    def test_small_rings_hold_the_newest_events(self):
        # On one CPU: rings overwrite one by one, so of a thread that moves there may be a hole.
        recorder = self.start("--subbuf-size", "16K", "--subbuf-count", "4", burst=1000, pinned=True)
        behind = 0
        for _ in range(10):  # a program that overtakes the reading leaves a hole, where the machine is busy
            behind = self.steps_of(recorder, behind + 100_000)
            directory = self.ask()
            numbers, _, error = self.numbers(directory)
            self.assertIn("discarded", error)  # how many is in the packets
            self.assertGreaterEqual(numbers[-1] + 1, behind)
            self.assertGreater(len(numbers), 1000)
            if numbers == list(range(numbers[0], numbers[-1] + 1)):
                break
        else:
            self.fail("each of ten snapshots has holes")
        self.end(recorder)
        self.assertGreater(json.loads(Path(directory, "summary.json").read_text())["subbufs_lost_by_cause"]["overwritten"], 0)
        for options, is_part in ([], False), (["--limit", "1"], True):
            said = subprocess.run([PLUMB, "view", *options, directory], capture_output=True, text=True, check=True).stderr
            self.assertIn("were lost while recording", said)
            self.assertEqual("were lost while recording, up to where it was read" in said, is_part, said)

    @unittest.skipUnless(HAS_KERNEL, "needs root and tracefs")
    def test_the_kernel_is_part_of_it(self):
        recorder = self.start("-k", "syscalls:getppid")
        self.steps_of(recorder, 500)
        first = self.ask()
        behind = self.steps_of(recorder, 2000)
        self.ask()
        summary = self.end(recorder)
        self.assertEqual((summary["notes"], summary["events_lost"], summary["problems"]), ({}, 0, []))
        taken = [self.numbers(path) for path in summary["snapshots"]]
        self.assertEqual([error for _, _, error in taken], [""] * 3)
        self.assertGreaterEqual(taken[0][1], 500)
        self.assertGreaterEqual(sum(calls for _, calls, _ in taken[:2]), behind)
        self.assertAlmostEqual(sum(calls for _, calls, _ in taken), sum(len(numbers) for numbers, _, _ in taken), delta=2)
        named = subprocess.run([PLUMB, "view", first], capture_output=True, text=True, check=True).stdout.splitlines()
        self.assertEqual([line for line in named if 'comm = "program"' not in line], [])

    @unittest.skipUnless(HAS_KERNEL, "needs root and tracefs")
    def test_a_full_kernel_buffer_holds_the_newest_events(self):
        recorder = self.start("-k", "syscalls:getppid", "--kernel-buffer-size", "64K", burst=1000)
        self.steps_of(recorder, 100_000)
        directory = self.ask()
        summary = self.end(recorder)
        self.assertEqual(summary["notes"], {})
        stored = json.loads(Path(directory, "summary.json").read_text())
        self.assertGreater(stored["events_lost_by_cause"]["kernel_overrun"], 50_000)
        self.assertGreater(self.numbers(directory)[1], 500)

    def test_who_can_not_be_asked_is_named(self):
        self.assertIn("There is no flight recorder of yours.", self.ask(status=1))
        self.assertIn("Process 1 is no flight recorder", self.ask("1", status=1))
        one, other = self.start(), self.start(trace=self.folder / "other")
        for recorder in (one, other):
            self.steps_of(recorder, 10)
        message = self.ask(status=1)
        self.assertIn("There are 2 flight recorders", message)
        self.assertIn(str(other.pid), message)
        self.assertEqual(self.ask(str(other.pid)), str((self.folder / "other").resolve() / "snapshot-1"))

    def test_a_name_that_was_taken_before_hinders_nobody(self):
        def take_names():
            for end in ("", "-0123456789abcdef"):
                taken = socket.socket(socket.AF_UNIX)
                taken.bind(f"\0plumb-recorder-{os.getpid()}{end}")
                taken.set_inheritable(True)
                taken.detach()
        recorder = self.start(preexec_fn=take_names, close_fds=False)
        self.steps_of(recorder, 10)
        self.assertEqual(self.ask(str(recorder.pid)), str(self.trace.resolve() / "snapshot-1"))

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_nobody_elses_recorder_obeys(self):
        recorder = self.start()
        self.steps_of(recorder, 10)
        copy = shutil.copy(PLUMB, self.folder / "plumb")  # the build may be where nobody else can enter
        for named, words in (([], "no flight recorder of yours"), ([str(recorder.pid)], "of another user")):
            done = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", copy, "snapshot", *named],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(words, done.stderr)
        self.assertEqual(list(self.trace.iterdir()), [])

    def test_who_asks_all_the_time_keeps_nobody_waiting(self):
        recorder = self.start()
        self.steps_of(recorder, 10)
        name = re.search(rf"@(plumb-recorder-{recorder.pid}-\w+)", Path("/proc/net/unix").read_text()).group(1)
        for _ in range(4):
            asking = subprocess.Popen([sys.executable, "-c", ASKER, name], stderr=subprocess.DEVNULL)
            self.addCleanup(asking.wait)
            self.addCleanup(asking.kill)
        while not (self.trace / "snapshot-8").is_dir():
            time.sleep(0.01)
        self.assertRegex(self.ask(str(recorder.pid)), r"/snapshot-\d+$")
        self.end(recorder)

    def test_options_that_would_be_ignored_are_errors(self):
        for options, words in ((["--snapshot", "--mode", "block"], "--mode block"), (["--kernel-pages", "x"], "-k"),
                               (["--snapshot", "-k", "sched", "--kernel-pages", "x"], "--snapshot drains nothing")):
            done = subprocess.run([PLUMB, "record", "-o", self.trace, *options, "--", "true"], capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(words, done.stderr)

    def test_what_stands_in_the_place_of_a_snapshot_is_left_alone(self):
        recorder = self.start()
        self.steps_of(recorder, 100)
        (self.trace / "snapshot-1").mkdir(mode=0o700)
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        (self.trace / "snapshot-2").symlink_to(elsewhere)
        self.assertEqual(Path(self.ask()).name, "snapshot-3")
        self.end(recorder)
        self.assertEqual(self.numbers(self.trace / "snapshot-3")[0][0], 0)
        self.assertEqual(list((self.trace / "snapshot-1").iterdir()) + list(elsewhere.iterdir()), [])

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_root_asks_no_other_users_recorder_that_it_did_not_name(self):
        """One of another user, by the name of a flight recorder, that says more than any path is long."""
        ready, told = os.pipe()
        number = os.fork()
        if number == 0:
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                listening = socket.socket(socket.AF_UNIX)
                listening.bind(f"\0plumb-recorder-{os.getpid()}-{0:016x}")
                listening.listen()
                os.write(told, b".")
                asking = listening.accept()[0]
                while True:
                    asking.send(b"ok " + b"x" * 65536)
            finally:
                os._exit(0)
        self.addCleanup(os.waitpid, number, 0)
        self.addCleanup(os.kill, number, signal.SIGKILL)
        self.assertEqual(os.read(ready, 1), b".")
        os.close(ready)
        os.close(told)
        self.assertNotIn(str(number), self.ask(status=1))
        self.assertIn("more than a path", self.ask(str(number), status=1))

    def test_a_directory_of_snapshots_can_be_replaced(self):
        recorder = self.start()
        self.steps_of(recorder, 10)
        self.end(recorder)
        self.assertTrue((self.trace / "snapshot-1/ust/metadata").exists())
        recorder = self.start("--force")
        self.steps_of(recorder, 10)
        summary = self.end(recorder)
        self.assertEqual(len(summary["snapshots"]), 1)
        Path(self.trace, "snapshot-1", "notes").touch()
        refused = subprocess.run([PLUMB, "record", "--snapshot", "--force", "-o", self.trace, "--", "true"], capture_output=True,
                                 text=True, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("snapshot-1/notes is not part of a Plumb trace", refused.stderr)


if __name__ == "__main__":
    unittest.main()
