#!/usr/bin/env python3
# cmake-once
"""A recording of processes by their numbers: when one has ended, and another program gets its number, that one was not asked
for, and is not recorded."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["PLUMB_SOURCE_DIR"]) / "tests/support"))
from traced_program import TracedProgramTest  # noqa: E402

BUILD = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"

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


# Ends by SIGQUIT, in a way of its own.
VICTIM = """
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static void quit(int number) { _exit(number); }
int main(void) {
    signal(SIGQUIT, quit);
    puts("there");
    fflush(stdout);
    return getchar() != EOF;
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

    def test_a_stranger_under_the_number_of_a_jvm_is_not_signalled(self):
        """SIGQUIT, by which a JVM is asked to listen, ends most programs."""
        if not shutil.which("javac") or not (BUILD / "probes/jvm/libplumb-jvm.so").exists():
            self.skipTest("there is no JDK")
        folder = pathlib.Path(self.trace).parent
        helper = folder / "as_number"
        subprocess.run(["cc", "-O1", "-x", "c", "-o", helper, "-"], input=AS_NUMBER, text=True, check=True)
        (folder / "Sleeps.java").write_text("public class Sleeps { public static void main(String[] words) throws Exception {"
                                            " System.out.println(\"there\"); Thread.sleep(100000); } }")
        subprocess.run(["javac", "-d", folder, folder / "Sleeps.java"], check=True)
        jvm = subprocess.Popen(["java", "-Xmx32m", "-cp", folder, "Sleeps"], cwd=folder, text=True, stdout=subprocess.PIPE)
        self.addCleanup(jvm.stdout.close)
        self.assertEqual(jvm.stdout.readline(), "there\n")
        # As somebody leaves it who asks the JVM just now: the recorder waits for that.
        (folder / f".attach_pid{jvm.pid}").touch()
        recorder = subprocess.Popen([PLUMB, "record", "--jvm", "-p", str(jvm.pid), "-o", self.trace], text=True, stderr=subprocess.PIPE,
                                    stdout=subprocess.DEVNULL)
        time.sleep(1)
        recorder.send_signal(signal.SIGSTOP)
        jvm.kill()
        jvm.wait()
        victim = folder / "victim"
        subprocess.run(["cc", "-O1", "-x", "c", "-o", victim, "-"], input=VICTIM, text=True, check=True)
        stranger = self.start(helper, jvm.pid, victim)
        (folder / f".attach_pid{jvm.pid}").unlink()
        recorder.send_signal(signal.SIGCONT)
        _, errors = recorder.communicate(timeout=60)
        stranger.stdin.close()
        self.assertEqual((recorder.returncode, stranger.wait(timeout=20)), (1, 0), errors)

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
