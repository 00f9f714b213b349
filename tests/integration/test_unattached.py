#!/usr/bin/env python3
# cmake-once
"""Programs that can not attach to a recording when they begin, and then can, or become another program, or are killed: what
they traced until then is missing, and the recording says whose it is."""
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["PLUMB_SOURCE_DIR"]) / "tests/support"))
from traced_program import TracedProgramTest, compile_traced  # noqa: E402

PLUMB = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
NO_MEMORY = "it could not open the session's channel: Cannot allocate memory"


class Unattached(TracedProgramTest):
    # Does what its arguments say, one after the other; those behind `exec` are the next program's.
    PROGRAM = """
#include <plumb/control.h>
#include <plumb/tracepoint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
PLUMB_EVENT(unattached, step, (i32, number))
static void limit(int what, int is_low) {
    struct rlimit limit;
    getrlimit(what, &limit);
    limit.rlim_cur = is_low ? 0 : limit.rlim_max;
    setrlimit(what, &limit);
}
int main(int count, char** arguments) {
    for (int i = 1; i < count; i++) {
        const char* step = arguments[i];
        if (strcmp(step, "trace") == 0) plumb_trace(unattached, step, i);
        if (strcmp(step, "memory") == 0) limit(RLIMIT_AS, 0);
        if (strcmp(step, "ask") == 0) plumb_refresh();
        if (strcmp(step, "no-files") == 0) limit(RLIMIT_NOFILE, 1);
        if (strcmp(step, "files") == 0) limit(RLIMIT_NOFILE, 0);
        if (strcmp(step, "say") == 0) puts("there"), fflush(stdout);
        if (strcmp(step, "wait") == 0) getchar();
        if (strcmp(step, "leave") == 0) _exit(0);
        arguments[i] = arguments[0];
        if (strcmp(step, "exec") == 0) execv("/proc/self/exe", arguments + i);
    }
    return 0;
}
"""

    def record(self, script):
        """What is said of a command in which nobody has room for rings of 16 MiB, unless it makes itself some."""
        done = subprocess.run([PLUMB, "record", "-o", self.trace, "--subbuf-size", "1M", "--subbuf-count", "16", "--", "sh", "-c",
                               f"ulimit -Sv 65536; {script}"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("\nNothing was lost", done.stderr)
        return json.loads((self.trace / "summary.json").read_text()), done.stderr

    def start(self, *command):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def check_one_is_late(self, *steps, events):
        summary, said = self.record(f"exec {self.program} {' '.join(steps)}")
        self.assertEqual((summary["events"], summary["unreachable"]), (events, []), said)
        self.assertEqual(len(summary["reached_late"]), 1, said)
        self.assertEqual(summary["reached_late"][0]["reason"], f"what it traced before is missing, since {NO_MEMORY}")
        self.assertIn(f"Process {summary['reached_late'][0]['pid']} was reached late: what it traced", said)
        self.assertIn("Of what was recorded, nothing was lost", said)

    def test_one_that_asks_once_is_not_waited_for(self):
        program = self.start(compile_traced(self.PROGRAM, self.folder / "once", glue="tp-sync"), "say", "wait", "ask", "trace", "say", "wait")
        self.assertEqual(program.stdout.readline(), "there\n")
        recorder = self.start(PLUMB, "record", "-o", self.trace, "-p", str(program.pid))
        said = recorder.communicate(timeout=30)[1]
        self.assertEqual(recorder.returncode, 1, said)
        self.assertIn("linked with tp-sync.o alone", said)
        recorder = self.start(PLUMB, "record", "-o", self.trace, "--force", "--duration", "2s", "-p", str(program.pid))
        while not (self.trace / "ust/metadata").exists():
            time.sleep(0.01)
        time.sleep(0.5)
        program.stdin.write("x")
        program.stdin.flush()
        said = recorder.communicate(timeout=30)[1]
        self.assertEqual(json.loads((self.trace / "summary.json").read_text())["events"], 1, said)

    def test_it_can_attach_later(self):
        self.check_one_is_late("trace", "memory", "ask", "trace", "trace", events=2)

    def test_it_becomes_another_program_that_can(self):
        self.check_one_is_late("trace", "memory", "exec", "trace", "trace", "trace", events=3)

    def test_it_becomes_another_program_that_can_not(self):
        summary, said = self.record(f"exec {self.program} trace exec trace")
        self.assertEqual((summary["events"], summary["reached_late"]), (0, []), said)
        self.assertEqual([each["reason"] for each in summary["unreachable"]], [f"it has ended, and while it ran {NO_MEMORY}"])

    def test_it_was_never_late(self):
        self.record(f"exec {self.program} trace exec trace")
        self.trace = self.folder / "afterwards"
        done = subprocess.run([PLUMB, "record", "-o", self.trace, "--", self.program, "trace", "ask", "exec", "trace"],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("\nNothing was lost", done.stderr)
        self.assertNotIn("late", done.stderr)

    def test_its_slot_is_cleaned_up_before_the_end(self):
        summary, said = self.record(f"{self.program} trace leave; ulimit -Sv unlimited; "
                                    f"{PLUMB} record -q -o {self.folder}/beside -- timeout 9 true")
        self.assertEqual((summary["events"], summary["reached_late"]), (0, []), said)
        self.assertEqual([each["reason"] for each in summary["unreachable"]], [f"it has ended, and while it ran {NO_MEMORY}"])

    def test_without_a_free_descriptor_it_is_not_said_to_have_a_filter(self):
        program = self.start(self.program, "no-files", "say", "wait", "files", "ask", "trace")
        self.assertEqual(program.stdout.readline(), "there\n")
        recorder = self.start(PLUMB, "record", "-o", self.trace, "-p", str(program.pid))
        said = recorder.stderr.readline()
        program.communicate("\n", timeout=60)
        recorder.communicate(timeout=60)
        self.assertIn("could not look in /proc whether it has a seccomp filter from the start: Too many open files", said)
        summary = json.loads((self.trace / "summary.json").read_text())
        self.assertEqual((summary["events"], summary["unreachable"]), (1, []), said)
        self.assertEqual([each["pid"] for each in summary["reached_late"]], [program.pid], said)


def start_child_of(test, *arguments):
    """Starts its program, which says the number of a child that waits."""
    program = subprocess.Popen([test.program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    test.addCleanup(program.communicate)
    return int(program.stdout.readline())


class ChildOfFiltered(TracedProgramTest):
    # Puts a filter on itself that allows everything, and forks a child that waits and traces.
    PROGRAM = """
#include <plumb/tracepoint.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
PLUMB_EVENT(unattached, step, (i32, number))
int main(void) {
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {1, &allow};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) return 3;
    const pid_t child = fork();
    if (child == 0) {
        printf("%d\\n", getpid());
        fflush(stdout);
        getchar();
        plumb_trace(unattached, step, 1);
        _exit(0);
    }
    return waitpid(child, NULL, 0) != child;
}
"""

    def check(self, *options):
        child = start_child_of(self)
        done = subprocess.run([PLUMB, "record", "-o", self.trace, "--duration", "0.5s", *options], capture_output=True, text=True,
                              timeout=60, check=False)
        summary = json.loads((self.trace / "summary.json").read_text())
        reasons = {each["pid"]: each["reason"] for each in summary["unreachable"]}
        self.assertIn(child, reasons, done.stderr)
        self.assertIn("it has a seccomp filter, and had it before", reasons[child])

    def test_it_is_named(self):
        self.check()

    def test_it_is_named_where_its_user_insists(self):
        self.check("--seccomp")


class ChildUnheardOf(TracedProgramTest):
    # Has a child that no fork handler told of, with no handler for the signal, or (argument "own") one of its own.
    PROGRAM = """
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
PLUMB_EVENT(unattached, step, (i32, number))
static void handle(int number) { (void)number; }
int main(int count, char** arguments) {
    (void)arguments;
    const pid_t child = _Fork();
    if (child == 0) {
        signal(SIGURG, count > 1 ? handle : SIG_DFL);
        printf("%d\\n", getpid());
        fflush(stdout);
        getchar();
        plumb_trace(unattached, step, 1);
        _exit(0);
    }
    return waitpid(child, NULL, 0) != child;
}
"""
    UNHEARD = "it was forked without a word to Plumb (by _Fork() or clone()), and has no handler for Plumb's signal"

    def record(self, *options):
        return subprocess.run([PLUMB, "record", "-o", self.trace, "--duration", "0.5s", *options], capture_output=True, text=True,
                              timeout=60, check=False).stderr

    def test_it_is_named(self):
        child = start_child_of(self)
        self.assertIn(f"Process {child} could not be reached: {self.UNHEARD}", self.record())

    def test_it_is_not_said_to_have_no_tracepoints(self):
        child = start_child_of(self)
        self.assertIn(f"process {child} could not be reached: {self.UNHEARD}", self.record("-p", str(child)))

    def test_nor_where_it_hears_the_signal_itself(self):
        child = start_child_of(self, "own")
        self.assertIn(f"process {child} could not be reached: Plumb is in it, but it is not in the list",
                      self.record("-p", str(child)))


if __name__ == "__main__":
    unittest.main()
