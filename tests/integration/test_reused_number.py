#!/usr/bin/env python3
# cmake-once
"""A recording of processes by their numbers: when one has ended, and another program gets its number, that one was not asked
for, and is not recorded."""
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["PLUMB_SOURCE_DIR"]) / "tests/support"))
from traced_program import TracedProgramTest  # noqa: E402

PLUMB = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"

# NUMBER PROGRAM: runs it under that number.
AS_NUMBER = r"""
#define _GNU_SOURCE
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char** arguments) {
    pid_t number = atoi(arguments[1]);
    struct clone_args asked = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&number, .set_tid_size = 1};
    int status = count;
    pid_t child = syscall(SYS_clone3, &asked, sizeof(asked));
    if (child == 0) execv(arguments[2], arguments + 2);
    if (child != number || waitpid(child, &status, 0) != child) return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}
"""


@unittest.skipIf(os.geteuid() != 0, "takes root, to choose a number")
class ReusedNumber(TracedProgramTest):
    # Traces once for each line.
    PROGRAM = """
#include <plumb/tracepoint.h>
#include <stdio.h>
PLUMB_EVENT(reused, step, (string, who))
int main(int count, char** arguments) {
    char line[64];
    puts("there");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        plumb_trace(reused, step, count > 1 ? arguments[1] : "");
        puts("done");
        fflush(stdout);
    }
}
"""

    def start(self, *command):
        process = subprocess.Popen([str(word) for word in command], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "there\n")
        return process

    @staticmethod
    def end(process):
        process.stdin.close()
        process.wait()
        process.stdout.close()

    @staticmethod
    def say(process):
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()

    def test_a_stranger_under_the_number_of_one_that_has_ended_is_not_recorded(self):
        helper = pathlib.Path(self.trace).parent / "as_number"
        subprocess.run(["cc", "-O1", "-x", "c", "-o", helper, "-"], input=AS_NUMBER, text=True, check=True)
        first, second = self.start(self.program, "first"), self.start(self.program, "second")
        recorder = subprocess.Popen([PLUMB, "record", "-q", "-o", self.trace, "-p", str(first.pid), "-p", str(second.pid)])
        try:
            until = time.monotonic() + 20
            while not (self.trace / "ust").exists() and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(0.7)
            self.say(first)
            first.stdin.close()
            first.wait()
            time.sleep(0.5)
            stranger = self.start(helper, first.pid, self.program, "stranger")
            time.sleep(0.3)
            for _ in range(10):
                self.say(stranger)
                self.say(second)
            self.end(stranger)
        finally:
            self.end(second)
            recorder.wait(30)
        shown = subprocess.run([PLUMB, "view", "--json", self.trace], capture_output=True, text=True, check=True).stdout
        said = [json.loads(line)["fields"]["who"] for line in shown.splitlines()]
        self.assertEqual([said.count(who) for who in ("first", "second", "stranger")], [1, 10, 0])
        summary = json.loads((self.trace / "summary.json").read_text())
        self.assertEqual((summary["unreachable"], summary["problems"]), ([], []))


if __name__ == "__main__":
    unittest.main()
