#!/usr/bin/env python3
# cmake-once
"""Programs that wait in pause(), and end when there was a signal, do not take Plumb's for it. One of their own wakes them as
before, also in sigsuspend()."""
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB, PROBE, leave_out_if_sanitized  # noqa: E402

SYS_TGKILL = 234 if os.uname().machine == "x86_64" else 131

PROGRAM = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void hear(int number) { (void)number; }
static volatile int heard;
static void note(int number) { heard = number; }
static void *lead(void *unused) {
    for (;;) pause();
    return unused;
}
/* Of which a signal is told that nobody handles, and that is queued all the same, since this thread blocks it. */
static void *end_children(void *unused) {
    for (;;) {
        if (fork() == 0) _exit(0);
        wait(0);
    }
    return unused;
}
static int wait_for_ours(void) {
    struct sigaction action = {.sa_handler = note};
    sigset_t ours, before;
    sigfillset(&action.sa_mask);
    sigemptyset(&ours);
    sigaddset(&ours, SIGUSR1);
    sigprocmask(SIG_BLOCK, &ours, &before);
    sigaction(SIGUSR1, &action, 0);
    puts("waits");
    fflush(stdout);
    while (!heard) sigsuspend(&before);
    puts("goes on");
    return 7;
}
int main(int count, char **arguments) {
    sigset_t all, none;
    pthread_t other;
    if (strcmp(arguments[1], "sigsuspend") == 0) return wait_for_ours();
    sigemptyset(&none);
    sigfillset(&all);
    signal(SIGUSR1, hear);
    if (count > 2) { /* a second thread, which takes no signal: cancellation is another way through the C library */
        pthread_sigmask(SIG_BLOCK, &all, 0);
        pthread_create(&other, 0, strcmp(arguments[2], "children") == 0 ? end_children : lead, 0);
    }
    pthread_sigmask(SIG_SETMASK, &none, 0);
    puts("waits");
    fflush(stdout);
    pause();
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

    def start(self, *command):
        program = subprocess.Popen(command, env={**os.environ, "LD_PRELOAD": str(PROBE)}, stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        self.assertEqual(program.stdout.readline(), "waits\n")
        return program

    def record(self, program, name):
        return subprocess.run([PLUMB, "record", "-q", "-o", self.folder / f"{self.id()}-{name}", "-p", str(program.pid),
                               "--duration", "0.2"], capture_output=True, text=True, timeout=60, check=False)

    def assert_waits_for_its_own(self, *command, status=7, recordings=2):
        program = self.start(*command)
        for number in range(recordings):
            done = self.record(program, number)
            self.assertIsNone(program.poll(), "it ended while it was recorded: " + done.stderr)
        program.send_signal(signal.SIGUSR1)
        self.assertEqual(program.stdout.readline(), "goes on\n")
        self.assertEqual(program.wait(10), status)

    def test_in_pause(self):
        self.assert_waits_for_its_own(self.folder / "program", "pause")

    def test_in_pause_beside_another_thread(self):
        self.assert_waits_for_its_own(self.folder / "program", "pause", "threads")

    def test_in_pause_beside_signals_that_it_ignores(self):
        self.assert_waits_for_its_own(self.folder / "program", "pause", "children", recordings=6)

    def test_hears_in_sigsuspend_what_came_together_with_ours(self):
        program = self.start(self.folder / "program", "sigsuspend")
        program.send_signal(signal.SIGSTOP)
        self.record(program, "stopped")  # leaves a signal of ours behind
        # To the thread: the lower number of two that wait there is handled first, and blocks the other meanwhile.
        self.assertEqual(ctypes.CDLL(None).syscall(SYS_TGKILL, program.pid, program.pid, signal.SIGUSR1), 0)
        program.send_signal(signal.SIGCONT)
        self.assertEqual(program.wait(10), 7)

    def test_of_an_interpreter(self):
        script = "import signal; signal.signal(10, lambda *_: 0); print('waits', flush=True); signal.pause(); print('goes on')"
        self.assert_waits_for_its_own(sys.executable, "-c", script, status=0)


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
