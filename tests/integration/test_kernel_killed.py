#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
# cmake-serial
"""Whose events they are, where the recorder was killed: names and processes of the newest events were not
told any more. No event bears a wrong one: those that have none are counted, and said. Where nobody was killed, all have theirs."""
import json
import os
import re
import subprocess
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
sys.path.insert(0, str(SOURCE / "tests/support"))
from kernel_events import leave_out_without_kernel_events  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

# `program COUNT PAUSE_US`: calls itself by a number before each call that has the number; and so does a process of its own now and
# then. Ends early when its parent does.
PROGRAM = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile sig_atomic_t over;
static void end(int number) { (void)number; over = 1; }
static void call(char kind, long number) {
    char name[16];
    snprintf(name, sizeof name, "%c%ld", kind, number);
    prctl(PR_SET_NAME, name);
    syscall(SYS_lseek, getpid(), number, 700 + kind);
}
int main(int count, char** words) {
    (void)count;
    const pid_t parent = getppid();
    const long calls = atol(words[1]);
    signal(SIGTERM, end);
    puts("begun");
    fflush(stdout);
    for (long i = 0; i < calls && !over && getppid() == parent; i++) {
        call('n', i);
        if (i % 10 == 0 && fork() == 0) {
            call('c', i);
            _exit(0);
        }
        while (wait(NULL) > 0) {}
        usleep((unsigned)atol(words[2]));
    }
    return 0;
}
"""
CALLS = "syscalls:lseek"
NAMELESS = re.compile(r"([\d,]+) events of the kernel have no name and no process of their thread")


class Names:
    """What `plumb view` makes of the program's calls in a trace."""

    def __init__(self, trace):
        done = subprocess.run([PLUMB, "view", "--json", trace], capture_output=True, text=True, timeout=120, check=True)
        self.said = done.stderr
        self.right, self.wrong, self.nameless = [], [], []
        self.all_nameless = 0
        for line in done.stdout.splitlines():
            event = json.loads(line)
            self.all_nameless += "comm" not in event
            kind = event["fields"].get("whence", 0) - 700
            if event["event"] != "syscall_entry_lseek" or kind not in (ord("n"), ord("c")):
                continue
            number, told = event["fields"]["offset"], (event.get("comm"), event.get("pid"))
            found = (self.nameless if told == (None, None) else
                     self.right if told == (f"{chr(kind)}{number}", event["fields"]["fd"]) else self.wrong)
            found.append((number, *told))

    def told(self):
        """The number of those without a name."""
        return sum(int(number.replace(",", "")) for number in NAMELESS.findall(self.said))


def check_tools_read_it(test, trace):
    done = subprocess.run(["babeltrace2", trace], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=120,
                          check=False)
    test.assertEqual((done.returncode, done.stderr), (0, ""))


class KilledRecorder(TracedProgramTest):
    PROGRAM = PROGRAM

    def begin(self, calls, pause_us):
        recorder = subprocess.Popen([PLUMB, "record", "-q", "-o", self.trace, "--force", "-k", CALLS, "--", self.program,
                                     str(calls), str(pause_us)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (recorder.kill(), recorder.wait(), recorder.stderr.close()))
        self.addCleanup(subprocess.run, [PLUMB, "extract", "--remove"], capture_output=True, timeout=60, check=False)
        return recorder

    def wait_for_calls(self, least):
        """In a trace that still grows; none of them has a wrong name."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            time.sleep(0.1)
            if not (self.trace / "kernel/metadata").exists():
                continue
            names = Names(self.trace)
            self.assertEqual(names.wrong, [])
            self.assertEqual(names.told(), names.all_nameless)
            if len(names.right) >= least:
                return names
        return self.fail("the trace does not grow")

    def test_no_name_is_wrong(self):
        nameless = 0
        for calls in (300, 1000, 2000):
            self.trace = self.trace.with_name(f"trace-{calls}")  # not where the one before is just being replaced
            recorder = self.begin(1000000, 300)
            self.wait_for_calls(calls)
            recorder.kill()
            recorder.communicate()
            time.sleep(0.3)  # who cuts its streams back has done so
            names = Names(self.trace)
            self.assertEqual(names.wrong, [])
            self.assertGreaterEqual(len(names.right), calls)
            self.assertEqual(names.told(), names.all_nameless)
            if names.all_nameless:
                self.assertIn("was killed", names.said)
            nameless += len(names.nameless)
            check_tools_read_it(self, self.trace)
        self.assertGreater(nameless, 0)

    def test_what_is_extracted_of_a_thread_that_has_ended(self):
        """Its calls have no name, and that is said, by extract and of the trace."""
        seeks = "import os, time\nfor _ in range(3000):\n  os.lseek(0, 0, 0); time.sleep(0.0005)"
        recorder = subprocess.Popen([PLUMB, "record", "-q", "-o", self.trace, "--force", "-k", CALLS, "--", sys.executable, "-c", seeks],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (recorder.kill(), recorder.wait(), recorder.stderr.close()))
        self.addCleanup(subprocess.run, [PLUMB, "extract", "--remove"], capture_output=True, timeout=60, check=False)
        time.sleep(1)
        recorder.kill()
        recorder.communicate()
        time.sleep(3)
        done = subprocess.run([PLUMB, "extract", "-o", self.trace, "--force"], capture_output=True, text=True, timeout=60, check=True)
        names = Names(self.trace)
        self.assertGreater(names.all_nameless, 0)
        said = rf"{names.all_nameless:,} events of the kernel have no name and no process: their threads had ended"
        self.assertIn(said, done.stderr)
        self.assertIn(said, names.said)

    def test_all_names_at_a_normal_end(self):
        recorder = self.begin(3000, 300)
        self.wait_for_calls(500)
        _, said = recorder.communicate(timeout=120)
        self.assertEqual((recorder.returncode, said), (0, ""))
        names = Names(self.trace)
        self.assertEqual((names.wrong, names.nameless, names.all_nameless, names.said), ([], [], 0, ""))
        self.assertEqual(len(names.right), 3000 + 300)
        check_tools_read_it(self, self.trace)


if __name__ == "__main__":
    leave_out_without_kernel_events(PLUMB)
    unittest.main()
