#!/usr/bin/env python3
"""A program whose clock_gettime() or sched_getcpu() is not the C library's is recorded as any other: the runtime and the probe go
past it. Such a function may take a lock that is traced, write events, or stand still."""
import os
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import traced_program  # noqa: E402

BUILD = traced_program.BUILD
PLUMB = BUILD / "cli" / "plumb"
PROBE = BUILD / "probes/pthread/libplumb-pthread.so"
SMALL_RINGS = ["--subbuf-size", "4K", "--subbuf-count", "2"]
# Takes a lock around the kernel's clock, as libfaketime does.
LOCKS = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
int clock_gettime(clockid_t clock, struct timespec* time) {
    pthread_mutex_lock(&lock);
    int result = syscall(SYS_clock_gettime, clock, time);
    pthread_mutex_unlock(&lock);
    return result;
}
"""
ASKS = r"""
#include <pthread.h>
#include <stddef.h>
#include <time.h>
static void* ask(void* unused) {
    struct timespec time;
    for (int i = 0; i < 20000; i++) clock_gettime(CLOCK_MONOTONIC, &time);
    return unused;
}
int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, ask, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}
"""


class ReplacedClock(traced_program.TracedProgramTest):
    # What it is told: "frozen", its clock stands still; "traced", its clock writes events.
    PROGRAM = r"""
    #define _GNU_SOURCE
    #include <plumb/tracepoint.h>
    #include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>
    PLUMB_EVENT(replaced, asked, (u32, clock))
    PLUMB_EVENT(replaced, tick, (u64, number))
    PLUMB_EVENT(replaced, placed, (u32, cpu))
    static int frozen;
    int sched_getcpu(void) {
        unsigned cpu = 0;
        plumb_trace(replaced, placed, 0);
        return syscall(SYS_getcpu, &cpu, NULL, NULL) == 0 ? (int)cpu : -1;
    }
    int clock_gettime(clockid_t clock, struct timespec* time) {
        if (!frozen) {
            plumb_trace(replaced, asked, clock);
            return syscall(SYS_clock_gettime, clock, time);
        }
        *time = (struct timespec){1000, 0};
        return 0;
    }
    int main(int count, char** arguments) {
        struct timespec time;
        frozen = count > 1 && arguments[1][0] == 'f';
        while (frozen && !plumb_enabled(replaced, tick)) usleep(1000);
        if (frozen && write(1, "x", 1) != 1) return 2;
        for (unsigned long i = 0; i < 20000; i++) {
            plumb_trace(replaced, tick, i);
            if (!frozen) clock_gettime(CLOCK_MONOTONIC, &time);
        }
    }
    """

    def record(self, *command, options=(), environment=None):
        return subprocess.run([PLUMB, "record", "--force", "-o", self.trace, *options, "--", *command],
                              capture_output=True, text=True, timeout=100, check=False, env=environment)

    def test_one_that_takes_a_lock_in_a_program_whose_locks_are_traced(self):
        library, asks, script = self.folder / "liblocks.so", self.folder / "asks", self.folder / "asks.sh"
        for text, to, options in (LOCKS, library, ["-shared", "-fPIC"]), (ASKS, asks, []):
            Path(f"{to}.c").write_text(text)
            subprocess.run(["cc", "-O1", *options, f"{to}.c", "-o", to, "-lpthread"], check=True)
        script.write_text(f'export LD_PRELOAD="$LD_PRELOAD:{library}"; exec {asks}')
        for options in ["--mode", "discard"], ["--mode", "block", *SMALL_RINGS]:
            with self.subTest(options=options):
                done = self.record("sh", script, options=[*options, "--preload", "pthread"])
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout + done.stderr, r"pthread:mutex_acquired")

    def test_one_that_writes_events_in_block_mode(self):
        done = self.record(self.program, "traced", options=["--mode", "block", *SMALL_RINGS])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Nothing was lost", done.stdout + done.stderr)

    def test_nobody_asks_the_program_for_its_cpu(self):
        """In one ring for all, and without restartable sequences, where a writer looks for a free ring by its CPU."""
        libc_alone = dict(os.environ, PLUMB_RSEQ="libc", GLIBC_TUNABLES="glibc.pthread.rseq=0")
        for options, environment in (["--buffers", "global"], None), ([], libc_alone), (["--buffers", "global"], libc_alone):
            with self.subTest(options=options, environment=environment and "no sequences"):
                done = self.record(self.program, "traced", options=["-e", "replaced:tick", "-e", "replaced:placed", *options],
                                   environment=environment)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("20,000  replaced:tick", done.stdout + done.stderr)
                self.assertNotRegex(done.stdout + done.stderr, r"\d  replaced:placed")

    def test_one_that_stands_still_does_not_keep_a_writer_waiting_for_ever(self):
        recorder = subprocess.Popen([PLUMB, "record", "-q", "-o", self.trace, "--mode", "block", "--block-timeout", "300ms",
                                     *SMALL_RINGS, "--exe", self.program], stdout=subprocess.DEVNULL)
        self.addCleanup(recorder.wait)
        self.addCleanup(recorder.kill)
        program = subprocess.Popen([self.program, "frozen"], stdout=subprocess.PIPE)
        self.addCleanup(program.communicate)
        self.addCleanup(program.kill)
        self.assertEqual(program.stdout.read(1), b"x")
        recorder.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        self.assertEqual(program.wait(timeout=60), 0)
        self.assertLess(time.monotonic() - began, 60)


class Imports(unittest.TestCase):
    def test_no_object_of_ours_asks_the_c_library_for_the_time_or_the_cpu(self):
        """Whoever replaces its functions would be called from within a record, or by a wait of ours."""
        replaced = re.compile(r"((sched_)?getcpu|clock_(gettime|getres|nanosleep)|gettimeofday|time|times|clock|timespec_get|nanosleep"
                              r"|usleep)$")
        for path in (BUILD / "libtrace/libplumb.so", BUILD / "libtrace/libplumb.a", PROBE):
            output = subprocess.run(["nm", *(["-D"] if path.suffix == ".so" else []), "--undefined-only", path], check=True,
                                    capture_output=True, text=True).stdout
            names = {line.split()[-1].split("@")[0] for line in output.splitlines() if line.strip() and not line.endswith(":")}
            self.assertTrue(names, path)
            self.assertEqual({name for name in names if replaced.match(name)}, set(), path)


if __name__ == "__main__":
    if "__asan_" in subprocess.run(["nm", "-D", PROBE], capture_output=True, text=True, check=True).stdout:
        print("a sanitizer's run-time library can not be preloaded into programs that lack it")
        sys.exit(77)
    unittest.main()
