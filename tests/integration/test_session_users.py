#!/usr/bin/env python3
# cmake-once
# cmake-lock: everybody
# cmake-serial
# cmake-timeout: 300
"""Sessions of root's plumb-consumerd over programs of other users and in containers: each is recorded exactly, whatever is killed
meanwhile; a place that vanishes, or whose user is hostile, costs the others nothing; who is not root is refused."""
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
from collections import defaultdict
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
sys.path.insert(0, str(SOURCE / "tests/support"))
from babeltrace import events  # noqa: E402
from control_socket import ask  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

# Counts until SIGTERM, some at a time; then says how far it came. With a word, it is that user from then on.
PROGRAM = r"""
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
PLUMB_EVENT(ticker, tick, (i32, pid), (u64, number))
static volatile sig_atomic_t over;
static void end(int number) { (void)number; over = 1; }
int main(int argc, char** argv) {
    unsigned long number = 0;
    const int pid = getpid();
    const int is_brief = argc > 1 && !atoi(argv[1]);
    signal(SIGTERM, end);
    if (argc > 1 && !is_brief && (setgid((gid_t)atoi(argv[1])) != 0 || setuid((uid_t)atoi(argv[1])) != 0)) return 1;
    printf("%d\n", pid);
    fflush(stdout);
    if (is_brief) {
        for (; number < 50; number++) plumb_trace(ticker, tick, pid, number);
        return 0;
    }
    while (!over) {
        plumb_trace(ticker, tick, pid, number);
        number++; /* whether it is traced or not */
        if (number % 16 == 0) usleep(500);
    }
    printf("%lu\n", number);
    return 0;
}
"""

NOBODY, OTHER = 65534, 12321


def as_user(user):
    return ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")


# A /dev/shm and process ids of its own.
CONTAINER = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o mode=1777 tmpfs /dev/shm && exec "$@"', "sh",
             "unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def why_not():
    if os.geteuid() != 0:
        return "other users and namespaces need root"
    for words in (CONTAINER, as_user(NOBODY)):
        done = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return f"{' '.join(words)}: {done.stderr.strip()}"
    return ""


class Ticker:
    """`process`: its number as seen from here; `inside`: as it sees itself."""

    def __init__(self, test, *prefix, words=()):
        self.starter = subprocess.Popen([*prefix, test.program, *map(str, words)], stdout=subprocess.PIPE, text=True)
        self.inside = int(self.starter.stdout.readline())
        self.process = self.starter.pid
        while children := Path(f"/proc/{self.process}/task/{self.process}/children").read_text().split():
            self.process = int(children[0])
        self.mounts = os.stat(f"/proc/{self.process}/ns/mnt").st_ino
        test.addCleanup(self.end)

    def end(self):
        """How many events it had."""
        if self.starter.stdout.closed:
            return 0
        os.kill(self.process, signal.SIGTERM)
        return int(self.starter.communicate(timeout=20)[0])


class SessionUsers(TracedProgramTest):
    PROGRAM = PROGRAM

    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.program.chmod(0o755)
        self.addCleanup(self.plumb, "destroy", "--all")

    def plumb(self, *words, status=0, prefix=()):
        done = subprocess.run([*prefix, BUILD / "cli/plumb", *map(str, words)], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, status, (words, done.stdout, done.stderr))
        return done

    def begin(self, *options):
        self.plumb("create", "all", "-o", self.trace, *options)
        self.plumb("enable", "all", "ticker:*")
        self.plumb("start", "all")

    def status(self):
        return json.loads(self.plumb("status", "all", "--json").stdout)

    def wait_until(self, what, seconds=20):
        for _ in range(seconds * 10):
            if what():
                return
            time.sleep(0.1)
        self.fail("it does not come")

    def wait_for_places(self, count):
        self.wait_until(lambda: len(self.status()["places"]) >= count)

    def numbers(self):
        """By process, as it calls itself, and folder."""
        found = defaultdict(list)
        for event in events(self.trace):
            if event.name == "ticker:tick":
                found[event.fields["pid"]].append(event.fields["number"])
        return found

    def assert_exact(self, numbers, first=None, last=None):
        """Each once, from the first one to the last."""
        self.assertGreater(len(numbers), 10)
        self.assertEqual(sorted(numbers), list(range(numbers[0], numbers[0] + len(numbers))))
        if first is not None:
            self.assertEqual(min(numbers), first)
        if last is not None:
            self.assertEqual(max(numbers), last)

    def kill_worker(self):
        os.kill(self.status()["worker_pid"], signal.SIGKILL)

    def kill_daemon(self):
        daemon = ask(json.dumps({"command": "version"}).encode())["pid"]
        os.kill(daemon, signal.SIGKILL)
        self.wait_until(lambda: not Path(f"/proc/{daemon}/cmdline").exists() or not Path(f"/proc/{daemon}/cmdline").read_bytes())

    def test_everybody_exactly_whoever_is_killed(self):
        of_root, of_nobody = Ticker(self), Ticker(self, *as_user(NOBODY))
        inside, user_inside = Ticker(self, *CONTAINER), Ticker(self, *CONTAINER, *as_user(OTHER))
        self.begin("--all-users", "--context", "vpid,uid")
        self.wait_for_places(3)
        for turn in range(4):
            time.sleep(0.5)
            worker = self.status()["worker_pid"]
            if turn % 2:
                self.kill_daemon()
            os.kill(worker, signal.SIGKILL)
            self.wait_for_places(3)
            if turn == 1:
                self.plumb("rotate", "all")
        later = Ticker(self, *as_user(NOBODY))  # where somebody is recorded already: from its first event
        time.sleep(0.3)
        counts = {each.process: each.end() for each in (of_root, of_nobody, inside, user_inside, later)}
        status = self.status()
        self.assertEqual(status["lost_by_cause"], {})
        self.plumb("destroy", "all")
        found = self.numbers()
        for each in (of_root, of_nobody, later):
            self.assert_exact(found[each.inside], 0 if each is later else None, counts[each.process] - 1)
        in_containers = sorted(found[inside.inside])  # two of them with the same number
        self.assertEqual(inside.inside, user_inside.inside)
        for each in (inside, user_inside):
            last = counts[each.process] - 1
            self.assertIn(last, in_containers)
        names = subprocess.run([BUILD / "cli/plumb", "view", "--summary", "--json", self.trace], capture_output=True, text=True,
                               check=True).stdout
        for each in (of_root, of_nobody, inside, user_inside, later):
            self.assertRegex(names, rf'"pid": ?{each.process}\b')
        for user, prefix in ((NOBODY, as_user(NOBODY)),):
            self.plumb("status", "all", status=1, prefix=prefix)
        folders = {path.name for chunk in self.trace.iterdir() if chunk.is_dir() for path in chunk.iterdir() if path.is_dir()}
        self.assertLessEqual({f"ust-{NOBODY}", f"ust-0-in-{inside.mounts}", f"ust-{OTHER}-in-{user_inside.mounts}"}, folders)
        self.assertEqual(list(self.trace.glob(".plumb-journal*")), [])
        self.assertEqual(list(self.trace.glob("*.part")), [])

    def test_a_place_that_comes_while_the_disk_is_full(self):
        disk = self.folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        self.trace = disk / "trace"
        self.begin("--all-users")
        with open(disk / "filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(b"x" * 4096)
        of_nobody, inside = Ticker(self, *as_user(NOBODY)), Ticker(self, *CONTAINER)

        def told():
            return [each for each in self.status()["problems"] if f"of user {NOBODY} can not be recorded" in each]
        self.wait_until(told)
        time.sleep(2.5)  # tried again, and not told again
        self.assertEqual(len(told()), 1, told())
        folders = (f"ust-{NOBODY}", f"ust-0-in-{inside.mounts}")
        self.wait_until(lambda: not any(list(self.trace.glob(f"*/{name}")) for name in folders))  # but in the middle of a try
        (disk / "filler").unlink()
        self.wait_until(lambda: {each["folder"] for each in self.status()["places"]} >= set(folders))
        time.sleep(0.3)
        counts = {each.process: each.end() for each in (of_nobody, inside)}
        late = {each["pid"] for each in self.status()["reached_late"] if each["reason"].startswith("what it traced before")}
        self.assertLessEqual({of_nobody.process, inside.process}, late)
        self.plumb("destroy", "all")
        found = self.numbers()
        for each in (of_nobody, inside):
            self.assert_exact(found[each.inside], None, counts[each.process] - 1)

    def test_each_in_a_container_once(self):
        inside = Ticker(self, *CONTAINER)
        self.begin("--all-users")
        self.wait_for_places(1)
        for _ in range(3):
            time.sleep(0.4)
            self.kill_worker()
            self.wait_for_places(1)
        count = inside.end()
        self.plumb("destroy", "all")
        self.assert_exact(self.numbers()[inside.inside], last=count - 1)

    def test_a_named_user_from_the_first_event(self):
        self.begin("--user", NOBODY)
        program = Ticker(self, *as_user(NOBODY))
        other = Ticker(self, *as_user(OTHER))
        time.sleep(0.3)
        self.kill_worker()
        self.wait_for_places(1)
        self.plumb("stop", "all")
        self.plumb("start", "all")
        time.sleep(0.2)
        count = program.end()
        other.end()
        self.assertEqual([place["user"] for place in self.status()["places"]], [NOBODY])
        self.plumb("disable", "all", "--all")
        unseen = Ticker(self, *as_user(NOBODY))
        time.sleep(0.2)
        unseen.end()
        self.plumb("destroy", "all")
        found = self.numbers()
        self.assertEqual(list(found), [program.inside])
        numbers = sorted(found[program.inside])
        self.assertEqual((numbers[0], numbers[-1]), (0, count - 1))
        self.assertEqual(len(numbers), len(set(numbers)))

    def test_one_that_changes_its_user(self):
        self.begin()
        program = Ticker(self, words=[NOBODY])
        self.wait_for_places(1)
        time.sleep(0.5)
        count = program.end()
        self.plumb("destroy", "all")
        self.assert_exact(self.numbers()[program.inside], last=count - 1)

    def test_who_holds_his_channel_keeps_only_his_own_out(self):
        of_root, of_nobody = Ticker(self), Ticker(self, *as_user(NOBODY))
        self.begin("--all-users")
        self.wait_for_places(1)
        channel = next(Path(f"/dev/shm/plumb-{NOBODY}").glob("channel-*"))
        before = self.status()["worker_pid"]
        held = channel.open("rb")  # what any program of that user can do
        self.kill_worker()
        fcntl.flock(held, fcntl.LOCK_EX)
        self.wait_until(lambda: self.status().get("worker_pid", before) != before)
        self.assertEqual([place for place in self.status()["places"] if place["user"] == NOBODY], [])
        self.assertRegex(" ".join(self.status()["problems"]), rf"Programs of user {NOBODY}.*")
        held.close()
        self.wait_for_places(1)
        counts = [of_root.end(), of_nobody.end()]
        self.plumb("destroy", "all")
        found = self.numbers()
        self.assert_exact(found[of_root.inside], last=counts[0] - 1)
        self.assert_exact(found[of_nobody.inside], last=counts[1] - 1)

    def test_who_holds_his_channel_can_not_keep_a_session_that_is_destroyed(self):
        program = Ticker(self, *as_user(NOBODY))
        self.begin("--all-users")
        self.wait_for_places(1)
        channel = next(Path(f"/dev/shm/plumb-{NOBODY}").glob("channel-*"))
        before = self.status()["worker_pid"]
        with channel.open("rb") as held:
            self.kill_worker()
            fcntl.flock(held, fcntl.LOCK_EX)
            self.wait_until(lambda: self.status().get("worker_pid", before) != before)
            said = self.plumb("destroy", "all").stderr
        self.assertRegex(said, rf"Programs of user {NOBODY}.*left for `plumb extract`")
        program.end()
        # Whoever makes a session there next does away with it.
        self.plumb("record", "-q", "--user", NOBODY, "-o", f"{self.trace}-next", "--duration", "100ms")
        self.assertFalse(channel.exists())

    def test_who_shortens_his_channel_is_recorded_again(self):
        first = Ticker(self, *as_user(NOBODY))
        self.begin("--all-users")
        self.wait_for_places(1)
        subprocess.run([*as_user(NOBODY), "sh", "-c", f"truncate -s 0 /dev/shm/plumb-{NOBODY}/channel-*"], check=True)
        self.plumb("rotate", "all")  # before the session may have looked
        self.wait_until(lambda: any("has shortened a channel" in each for each in self.status()["problems"]))
        waiting = Ticker(self, *as_user(NOBODY))
        self.wait_for_places(1)
        self.plumb("rotate", "all")
        later = Ticker(self, *as_user(NOBODY))
        time.sleep(0.3)
        count = later.end()
        waiting.end()
        first.starter.communicate(timeout=20)  # it did not outlive that
        said = self.plumb("destroy", "all").stderr
        self.assertEqual(said.count("has shortened a channel"), 1, said)
        summaries = sorted(self.trace.glob("chunk-*/summary.json"))
        self.trace = summaries[-1].parent
        self.assert_exact(self.numbers()[later.inside], 0, count - 1)
        chunks = [json.loads(path.read_text()) for path in summaries]
        self.assertIn("has shortened a channel", " ".join(chunks[0]["problems"]))
        self.assertEqual([chunk["complete"] for chunk in chunks], [False] * (len(chunks) - 1) + [True])

    def test_who_ended_before_he_was_found_is_told_of_his_chunk(self):
        user = 43210
        shutil.rmtree(f"/dev/shm/plumb-{user}", ignore_errors=True)
        self.begin("--all-users")
        time.sleep(0.5)
        subprocess.run([*as_user(user), self.program, "--brief"], check=True, stdout=subprocess.DEVNULL)
        self.wait_until(lambda: any(f"Programs of user {user} with" in each for each in self.status()["problems"]))
        self.plumb("rotate", "all")
        self.assertIn(f"Programs of user {user} with", self.plumb("destroy", "all").stderr)
        summary = json.loads(min(self.trace.glob("chunk-*/summary.json")).read_text())
        self.assertEqual(summary["unseen_users"], [user])

    def test_containers_without_room_are_not_held(self):
        self.begin("--all-users")
        small = [*CONTAINER[:4], 'mount -t tmpfs -o mode=1777,size=6m tmpfs /dev/shm && head -c 4m /dev/zero > /dev/shm/big && exec "$@"',
                 *CONTAINER[5:]]
        inside = Ticker(self, *small)
        self.wait_until(lambda: any("can not be recorded" in each for each in self.status()["problems"]))
        self.kill_worker()  # the next one sees it, too
        self.wait_until(lambda: "worker_pid" in self.status())
        time.sleep(0.5)
        inside.end()

        def held():
            folders = Path(f"/proc/{self.status()['worker_pid']}/fd").iterdir()
            return [path for path in folders if (path / "big").exists()]
        self.wait_until(lambda: not held(), seconds=5)

    def test_containers_that_are_there_behind_a_death_are_not_held(self):
        named = Ticker(self, *as_user(NOBODY))
        self.begin("--user", NOBODY)
        self.wait_for_places(1)
        with subprocess.Popen([*CONTAINER[:4], 'mount -t tmpfs tmpfs /dev/shm && touch /dev/shm/big && exec sleep 60']) as other:
            time.sleep(0.3)
            self.kill_worker()
            self.wait_for_places(1)
            folders = Path(f"/proc/{self.status()['worker_pid']}/fd").iterdir()
            self.assertEqual([path for path in folders if (path / "big").exists()], [])
            other.kill()
        named.end()

    def test_containers_that_vanish(self):
        self.begin("--all-users")

        def is_recorded(program):
            return any(f"-in-{program.mounts}" in place["folder"] for place in self.status()["places"])

        counts = {}
        for turn in range(3):
            inside = Ticker(self, *CONTAINER)
            self.wait_until(lambda: is_recorded(inside))
            time.sleep(0.2)
            counts[turn] = inside.end()
            self.wait_until(lambda: not is_recorded(inside))
        description = json.loads(Path("/dev/shm/plumb-0/consumerd/sessions/all.json").read_text())
        self.assertEqual([place for place in description.get("places", []) if str(inside.mounts) in place["folder"]], [])
        self.plumb("destroy", "all")
        # They have the same number, and so have their namespaces.
        found = [[event.fields["number"] for event in events(folder) if event.name == "ticker:tick"]
                 for folder in self.trace.glob("chunk-*/ust-0-in-*")]
        for count in counts.values():
            of_it = [numbers for numbers in found if numbers and numbers[-1] == count - 1]
            self.assertEqual(len(of_it), 1, count)
            self.assert_exact(of_it[0])

    def test_who_may_not_is_told(self):
        as_nobody = as_user(NOBODY)
        program = self.folder / "plumb"
        for name in ("plumb", "plumb-consumerd"):
            (self.folder / name).write_bytes((BUILD / "cli" / name).read_bytes())
            (self.folder / name).chmod(0o755)
        for option in (["--all-users"], ["--user", "0"]):
            done = subprocess.run([*as_nobody, program, "create", "mine", "-o", "/tmp/no", *option], capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("only root can record programs of other users", done.stderr)
            done = self.plumb("create", "all", "--snapshot", *option, status=2)
            self.assertIn("keeps events of one user alone", done.stderr)
        self.assertIn("There is no user", self.plumb("create", "all", "--user", "no-such-one", status=2).stderr)


if __name__ == "__main__":
    if reason := why_not():
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(verbosity=2)
