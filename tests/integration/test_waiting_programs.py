#!/usr/bin/env python3
# cmake-once
"""Programs that wait for a signal, and end when there was one, do not take Plumb's for it; their own wakes them as before."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB, PROBE, leave_out_if_sanitized  # noqa: E402

PROGRAM = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static void hear(int number) { (void)number; }
static void *lead(void *unused) {
    for (;;) pause();
    return unused;
}
int main(int count, char **arguments) {
    sigset_t all, none;
    pthread_t other;
    sigemptyset(&none);
    sigfillset(&all);
    signal(SIGUSR1, hear);
    if (count > 2) { /* a second thread, which takes no signal: cancellation is another way through the C library */
        pthread_sigmask(SIG_BLOCK, &all, 0);
        pthread_create(&other, 0, lead, 0);
    }
    pthread_sigmask(SIG_SETMASK, strcmp(arguments[1], "pause") == 0 ? &none : &all, 0);
    puts("waits");
    fflush(stdout);
    if (strcmp(arguments[1], "pause") == 0) pause();
    else sigsuspend(&none);
    puts("goes on");
    return 7;
}
"""


class WaitingPrograms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="plumb-waiting-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        (cls.folder / "program.c").write_text(PROGRAM)
        subprocess.run([os.environ.get("CC", "cc"), "-pthread", "program.c", "-o", "program"], cwd=cls.folder, check=True)

    def assert_waits_for_its_own(self, *command, status=7):
        program = subprocess.Popen(command, env={**os.environ, "LD_PRELOAD": str(PROBE)}, stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        self.assertEqual(program.stdout.readline(), "waits\n")
        for number in range(2):
            trace = self.folder / f"{self.id()}-{number}"
            done = subprocess.run([PLUMB, "record", "-q", "-o", trace, "-p", str(program.pid), "--duration", "0.2"],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertIsNone(program.poll(), "it ended while it was recorded: " + done.stderr)
        program.send_signal(signal.SIGUSR1)
        self.assertEqual(program.stdout.readline(), "goes on\n")
        self.assertEqual(program.wait(10), status)

    def test_in_pause(self):
        self.assert_waits_for_its_own(self.folder / "program", "pause")

    def test_in_pause_beside_another_thread(self):
        self.assert_waits_for_its_own(self.folder / "program", "pause", "threads")

    def test_in_sigsuspend_beside_another_thread(self):
        self.assert_waits_for_its_own(self.folder / "program", "sigsuspend", "threads")

    def test_of_an_interpreter(self):
        script = "import signal; signal.signal(10, lambda *_: 0); print('waits', flush=True); signal.pause(); print('goes on')"
        self.assert_waits_for_its_own(sys.executable, "-c", script, status=0)


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
