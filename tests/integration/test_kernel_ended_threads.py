#!/usr/bin/env python3
# cmake-timeout: 120
# cmake-once
# cmake-serial
"""A process whose threads begin and end all the time is attached to: no number of a thread that has ended stays among those that the kernel
records, or a stranger that gets it next would be recorded under the name of that process."""
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
sys.path.insert(0, str(SOURCE / "tests/support"))
from kernel_events import TRACEFS, leave_out_without_kernel_events  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

PATIENCE_S = 30
ATTACHED = 4


class KernelEndedThreads(TracedProgramTest):
    PROGRAM = r"""
#include <pthread.h>
#include <unistd.h>
static void* nothing(void* argument) { return argument; }
static void* loop(void* argument) {
    for (;;) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, nothing, NULL) == 0) pthread_join(thread, NULL);
    }
    return argument;
}
int main(void) {
    for (int i = 0; i < 8; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, loop, NULL);
    }
    for (;;) pause();
}
"""

    def list_of(self, recorder):
        """The numbers that the kernel records, once it does."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            for instance in Path(f"{TRACEFS}/instances").glob("plumb*"):
                numbers = (instance / "set_event_pid").read_text().split()
                if str(self.server.pid) in numbers and (instance / "tracing_on").read_text() == "1\n":
                    return instance
            self.assertIsNone(recorder.poll())
            time.sleep(0.01)
        return self.fail("nothing is recorded")

    def test_no_number_of_an_ended_thread_stays_in_the_list(self):
        self.server = subprocess.Popen([self.program])
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.kill)
        time.sleep(0.2)
        for number in range(ATTACHED):
            recorder = subprocess.Popen([PLUMB, "record", "-q", "-o", f"{self.trace}-{number}", "-p", str(self.server.pid), "-k",
                                         "syscalls:getppid", "--duration", "1s"])
            try:
                instance = self.list_of(recorder)
                os.kill(self.server.pid, signal.SIGSTOP)
                time.sleep(0.1)
                listed = set((instance / "set_event_pid").read_text().split())
                threads = set(os.listdir(f"/proc/{self.server.pid}/task"))
            finally:
                os.kill(self.server.pid, signal.SIGCONT)
                recorder.wait()
            self.assertEqual(recorder.returncode, 0)
            self.assertLessEqual(threads, listed)
            self.assertEqual({each for each in listed - threads if int(each) < 4194304}, set())


if __name__ == "__main__":
    leave_out_without_kernel_events(PLUMB)
    unittest.main()
