#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""Rules by control group, in real ones: which programs are recorded, to the last event; those that run and those that begin
later, in groups below, in cgroup namespaces of their own, moved while they run.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/integration/test_control_groups.py [TEST...]"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(os.environ["PLUMB_SOURCE_DIR"]) / "tests/support"))
from babeltrace import events  # noqa: E402
from traced_program import BUILD, TracedProgramTest  # noqa: E402

PLUMB = BUILD / "cli/plumb"
NAME = f"plumb-test-{os.getpid()}"
IN_NAMESPACE = ("unshare", "--cgroup")


def hierarchy():
    """Where version 2 is mounted as a whole."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split(" - ")
        if words[1].split()[0] == "cgroup2" and words[0].split()[3] == "/":
            return Path(words[0].split()[4])
    return None


def why_not():
    """What keeps groups from being made here; an empty text if nothing does."""
    if os.geteuid() != 0:
        return "control groups need root"
    if hierarchy() is None:
        return "no hierarchy of version 2 is mounted"
    try:
        (hierarchy() / NAME).mkdir()
        (hierarchy() / NAME).rmdir()
    except OSError as error:
        return f"no control group can be made: {error}"
    return ""


class ControlGroups(TracedProgramTest):
    # Says that it is there, then traces as often as each line of its input says, and says when that is done.
    PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
PLUMB_EVENT(group, step, (u64, number))
static void* step(void* first) {
    unsigned long from = 0, times;
    if (first) sscanf(first, "%lu", &from);
    if (getenv("FIRST_THREAD_ENDS")) usleep(100000);
    puts("there");
    fflush(stdout);
    while (scanf("%lu", &times) == 1) {
        while (times--) plumb_trace(group, step, from++);
        puts("done");
        fflush(stdout);
    }
    exit(0);
}
int main(int count, char** arguments) {
    pthread_t thread;
    (void)count;
    if (!getenv("FIRST_THREAD_ENDS")) step(arguments[1]);
    pthread_create(&thread, NULL, step, arguments[1]);
    pthread_exit(NULL);
}
"""

    def setUp(self):
        super().setUp()
        self.group = hierarchy() / NAME
        self.outer, self.inner, self.other = self.group / "shop", self.group / "shop/cart", self.group / "shopping"
        for folder in (self.group, self.outer, self.inner, self.other):
            folder.mkdir()
        self.addCleanup(self.remove_groups)

    def remove_groups(self):
        for folder in (self.inner, self.outer, self.other, self.group):
            for _ in range(100):
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.05)

    def start(self, group, first, *prefix):
        """In the group from its first instruction on; its numbers begin with `first`."""
        into = f"echo $$ > {group}/cgroup.procs && exec \"$@\""
        process = subprocess.Popen(["sh", "-c", into, "sh", *prefix, self.program, str(first)], text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "there\n")
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

    @staticmethod
    def step(process, times):
        process.stdin.write(f"{times}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"

    def record(self, *arguments, on):
        """Returns when the process `on` is recorded."""
        process = subprocess.Popen([PLUMB, "record", "--json", "-q", "-o", self.trace, *map(str, arguments)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end_recorder, process)
        self.wait_until_on(on)
        return process

    @staticmethod
    def end_recorder(process):
        process.kill()
        process.communicate()

    def wait_until_on(self, process):
        """It maps the channel, and reads what it is told behind that."""
        deadline = time.monotonic() + 20
        while not any("/channel-" in path.read_text() for path in Path(f"/proc/{process.pid}/task").glob("*/maps")):
            self.assertLess(time.monotonic(), deadline, "it was not told")
            time.sleep(0.02)

    def summary(self, process):
        process.send_signal(signal.SIGINT)
        said, complaints = process.communicate(timeout=60)
        self.assertTrue(said, complaints)
        return json.loads(said)

    def numbers(self):
        return sorted(event.fields["number"] for event in events(self.trace) if event.name == "group:step")

    def expect(self, *ranges):
        self.assertEqual(self.numbers(), sorted(number for first, count in ranges for number in range(first, first + count)))

    def test_those_that_run_and_those_that_begin_later(self):
        inside, below, outside = self.start(self.outer, 1000), self.start(self.inner, 2000), self.start(self.other, 3000)
        recorder = self.record("--cgroup", self.outer, on=inside)
        self.wait_until_on(below)
        later, later_outside = self.start(self.inner, 4000), self.start(self.group, 5000)
        for process, times in ((inside, 11), (below, 12), (outside, 13), (later, 14), (later_outside, 15)):
            self.step(process, times)
        summary = self.summary(recorder)
        self.assertEqual(summary["unreachable"], [])
        self.expect((1000, 11), (2000, 12), (4000, 14))

    def test_as_proc_has_it(self):
        inside, outside = self.start(self.inner, 0), self.start(self.outer, 100)
        recorder = self.record("--cgroup", f"{NAME}/shop/cart", on=inside)
        self.step(inside, 3)
        self.step(outside, 3)
        self.summary(recorder)
        self.expect((0, 3))

    def test_who_has_no_first_thread_any_more(self):
        """Of which the kernel shows no namespaces then: it is recorded on, and can be attached to."""
        inside = self.start(self.inner, 0)
        ended = self.start(self.inner, 100, "env", "FIRST_THREAD_ENDS=1")
        recorder = self.record("--cgroup", self.outer, on=ended)
        self.wait_until_on(inside)
        self.step(ended, 3)
        other = subprocess.run([PLUMB, "record", "-q", "-p", str(ended.pid), "--duration", "200ms", "-o", f"{self.trace}-other"], text=True,
                               capture_output=True, timeout=60, check=False)
        self.assertEqual(other.returncode, 0, other.stderr)
        self.step(ended, 3)
        self.step(inside, 2)
        self.assertEqual(self.summary(recorder)["unreachable"], [])
        self.expect((0, 2), (100, 6))

    def test_several_and_executables(self):
        shutil.copy2(self.program, self.folder / "named")
        first, second, third = self.start(self.inner, 0), self.start(self.other, 100), self.start(self.group, 200)
        recorder = self.record("--cgroup", self.inner, "--cgroup", self.other, "--exe", "named", on=second)
        self.wait_until_on(first)
        for process in (first, second, third):
            self.step(process, 5)
        named = subprocess.run([self.folder / "named", "300"], input="5\n", text=True, capture_output=True, check=True)
        self.assertIn("done", named.stdout)
        self.summary(recorder)
        self.expect((0, 5), (100, 5), (300, 5))

    def test_who_is_moved_follows_when_rules_change(self):
        process = self.start(self.outer, 0)
        recorder = self.record("--cgroup", self.outer, on=process)
        self.step(process, 4)
        (self.other / "cgroup.procs").write_text(str(process.pid))
        self.step(process, 4)  # still, since it has not asked again
        subprocess.run([PLUMB, "record", "-o", self.folder / "beside", "-q", "-e", "no:such", "--duration", "0.2"],
                       check=False, capture_output=True)
        self.step(process, 4)
        self.summary(recorder)
        self.expect((0, 8))

    def test_a_group_that_is_made_again(self):
        recorder = self.record("--cgroup", self.other, "--cgroup", self.inner, on=self.start(self.other, 100))
        self.inner.rmdir()
        self.inner.mkdir()
        self.step(self.start(self.inner, 0), 6)
        self.summary(recorder)
        self.expect((0, 6))

    def test_in_a_namespace_within_the_group(self):
        """It sees / there: who looks from outside tells it, and says what was missed until then."""
        inside, outside = self.start(self.inner, 0, *IN_NAMESPACE), self.start(self.other, 100, *IN_NAMESPACE)
        self.assertIn("0::/\n", subprocess.run(["nsenter", "-t", str(inside.pid), "--cgroup", "cat", f"/proc/{inside.pid}/cgroup"],
                                               capture_output=True, text=True, check=True).stdout)
        recorder = self.record("--cgroup", self.outer, on=inside)
        self.step(inside, 7)
        self.step(outside, 7)
        summary = self.summary(recorder)
        self.expect((0, 7))
        self.assertNotIn(outside.pid, [each["pid"] for each in summary["unreachable"]])

    def test_of_a_namespace_around_the_group(self):
        """The group has another name there, shop/cart being below its root."""
        into = f"echo $$ > {self.inner}/cgroup.procs && exec \"$@\""
        process = self.start(self.outer, 0, *IN_NAMESPACE, "sh", "-c", into, "sh")
        beside = self.start(self.outer, 100, *IN_NAMESPACE)
        recorder = self.record("--cgroup", self.inner, on=process)
        self.step(process, 7)
        self.step(beside, 7)
        self.summary(recorder)
        self.expect((0, 7))

    def test_those_that_begin_later_in_a_namespace(self):
        """The first one there is told, and what it missed is said; the next ones know at once."""
        recorder = self.record("--cgroup", self.outer, on=self.start(self.outer, 1000))
        time.sleep(0.5)  # it has begun: who comes before that misses nothing
        os.kill(recorder.pid, signal.SIGSTOP)  # and sees it when it runs already
        first = self.start(self.inner, 0, *IN_NAMESPACE)
        os.kill(recorder.pid, signal.SIGCONT)
        self.wait_until_on(first)
        next_one = self.start(self.inner, 100, "nsenter", "-t", str(first.pid), "--cgroup")
        self.step(next_one, 5)
        self.step(first, 5)
        summary = self.summary(recorder)
        self.expect((0, 5), (100, 5))
        self.assertEqual([each["pid"] for each in summary["reached_late"]], [first.pid])
        self.assertEqual(summary["unreachable"], [])

    def test_who_ended_before_it_was_told_is_named(self):
        recorder = self.record("--cgroup", self.outer, on=self.start(self.outer, 100))
        os.kill(recorder.pid, signal.SIGSTOP)
        process = self.start(self.inner, 0, *IN_NAMESPACE)
        self.step(process, 5)
        process.stdin.close()
        process.wait()
        os.kill(recorder.pid, signal.SIGCONT)
        summary = self.summary(recorder)
        self.assertRegex(json.dumps(summary["unreachable"]), f'{process.pid}.*can not see whether it is in the control group')

    def test_counted(self):
        inside, outside = self.start(self.outer, 0), self.start(self.other, 0)
        counter = subprocess.Popen([PLUMB, "stat", "--json", "--cgroup", self.outer, "--duration", "3"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.wait_until_on(inside)
        self.step(inside, 21)
        self.step(outside, 22)
        said, complaints = counter.communicate(timeout=60)
        self.assertEqual([each["count"] for each in json.loads(said or complaints)["events"]], [21])

    def test_what_can_not_be_is_refused(self):
        for words, why in (((f"{NAME}/nosuch",), f"There is no control group /{NAME}/nosuch. .*mkdir {self.group}/nosuch"),
                           (("../x",), "can not be a control group"), (("",), "it is empty"),
                           ((self.outer, "-k", "sched:*"), "Add --system-wide")):
            done = subprocess.run([PLUMB, "record", "-o", self.trace, "--cgroup", *map(str, words)], capture_output=True, text=True,
                                  check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr.replace("\n", " "), why)
            self.assertFalse(self.trace.exists())

    def test_sessions_that_are_kept(self):
        def plumb(*words, status=0):
            done = subprocess.run([PLUMB, *map(str, words)], capture_output=True, text=True, check=False, timeout=60,
                                  env={**os.environ, "PLUMB_CONSUMERD": str(PLUMB.parent / "plumb-consumerd")})
            self.assertEqual(done.returncode, status, done.stderr)
            return done
        inside, outside = self.start(self.inner, 0), self.start(self.other, 100)
        plumb("create", "groups", "-o", self.trace)
        self.addCleanup(plumb, "destroy", "groups")
        self.assertIn("There is no control group", plumb("enable", "groups", "group:*", "--cgroup", "no/such", status=1).stderr)
        plumb("enable", "groups", "group:*", "--cgroup", self.outer)
        plumb("start", "groups")
        later = self.start(self.outer, 200)
        for process in (inside, outside, later):
            self.step(process, 9)
        saved = json.loads(plumb("save", "groups").stdout)
        self.assertEqual(saved["rules"], [{"event": "group:*", "cgroup": f"/{NAME}/shop"}])
        self.assertIn(f"in /{NAME}/shop", plumb("status", "groups").stdout)
        plumb("disable", "groups", "group:*", "--cgroup", f"{NAME}/shop")
        self.step(inside, 9)
        plumb("stop", "groups")
        self.expect((0, 9), (200, 9))


if __name__ == "__main__":
    if reason := why_not():
        print(reason)
        sys.exit(77)
    unittest.main()
