#!/usr/bin/env python3
"""A program whose seccomp filter forbids system calls is recorded without one, whatever its clock: events whose timestamp
would take one are counted and the program is named. A machine whose clock only the kernel can read is imitated by hiding
the vDSO from a program."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import machine_clock  # noqa: E402
import traced_program  # noqa: E402

PLUMB = traced_program.BUILD / "cli" / "plumb"
PROBE = traced_program.BUILD / "probes/pthread/libplumb-pthread.so"

# Runs a program that is not told where its vDSO is, and ends as it does.
HIDES_VDSO = r"""
#include <elf.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char** arguments) {
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execv(arguments[count > 1], arguments + 1);
        _exit(99);
    }
    int status;
    struct user_regs_struct registers;
    waitpid(child, &status, 0);
    if (ptrace(PTRACE_GETREGS, child, 0, &registers)) return 77;
    unsigned long at = registers.rsp + 8 * (ptrace(PTRACE_PEEKDATA, child, registers.rsp, 0) + 2);
    while (ptrace(PTRACE_PEEKDATA, child, at, 0)) at += 8;
    for (at += 8; ptrace(PTRACE_PEEKDATA, child, at, 0); at += 16)
        if (ptrace(PTRACE_PEEKDATA, child, at, 0) == AT_SYSINFO_EHDR) ptrace(PTRACE_POKEDATA, child, at, 1L);
    ptrace(PTRACE_DETACH, child, 0, 0);
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
"""
# Two threads that fight for a mutex; a filter ends them for reading the clock by a system call.
LOCKS = r"""
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int is_over, is_there;
static void fight(void) {
    pthread_mutex_lock(&mutex);
    for (volatile int i = 0; i < 1000; i++);
    pthread_mutex_unlock(&mutex);
}
static void* run(void* unused) {
    for (is_there = 1; !is_over;) fight();
    return unused;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    while (!is_there);
    for (int i = 0; i < 2000; i++) fight();
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), ALLOW(SYS_write),
        ALLOW(SYS_read), ALLOW(SYS_exit_group), ALLOW(SYS_exit), ALLOW(SYS_rt_sigreturn), ALLOW(SYS_futex),
        ALLOW(SYS_munmap), ALLOW(SYS_madvise), ALLOW(SYS_rt_sigprocmask),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
    struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) _exit(3);
    char byte;
    for (int i = 0; i < 20000; i++) fight();
    if (write(1, "x", 1) != 1 || read(0, &byte, 1) < 0) _exit(5);
    is_over = 1;
    fight();
    _exit(0);
}
"""
# Where calls for the clock are fatal.
READS_CLOCK = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 3;
    struct timespec now;
    return clock_gettime(CLOCK_MONOTONIC, &now) || clock_gettime(CLOCK_BOOTTIME, &now) || clock_gettime(CLOCK_REALTIME, &now);
}
"""
EVENTS = 5  # after the filter; one before


class ClockCalls(traced_program.TracedProgramTest):
    PROGRAM = r"""
    #define _GNU_SOURCE
    #include <plumb/tracepoint.h>
    #include <errno.h>
    #include <linux/filter.h>
    #include <linux/seccomp.h>
    #include <stddef.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    PLUMB_EVENT(clocked, tick, (u32, number))
    #define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
    int main(int count, char** arguments) {
        int refuses = count > 1 && arguments[1][0] == 'r', waits = count > 2;
        while (waits && !plumb_enabled(clocked, tick)) usleep(1000);
        plumb_trace(clocked, tick, 1);
        struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            ALLOW(SYS_write), ALLOW(SYS_read), ALLOW(SYS_exit_group), ALLOW(SYS_rt_sigreturn),
            BPF_STMT(BPF_RET | BPF_K, refuses ? SECCOMP_RET_ERRNO | EACCES : SECCOMP_RET_KILL_PROCESS)};
        struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(3);
        errno = 77;
        for (int i = 0; i < 5; i++) plumb_trace(clocked, tick, 2);
        if (errno != 77) _exit(4);
        char byte;
        if (waits && (write(1, "x", 1) != 1 || read(0, &byte, 1) < 0)) _exit(5);
        _exit(0);
    }
    """

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.hidden = cls.folder / "hides_vdso"
        (cls.folder / "hides_vdso.c").write_text(HIDES_VDSO)
        subprocess.run(["cc", "-O1", cls.folder / "hides_vdso.c", "-o", cls.hidden], check=True)

    def record(self, *command, clock, recorder=(), **environment):
        """The summary; the program ends as it would untraced."""
        done = subprocess.run([*recorder, PLUMB, "record", "--json", "-q", "--force", "--clock", clock, "-o", self.trace,
                               "--", *command], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def is_read_without_kernel(self):
        """Whether the vDSO of this machine reads the clock itself: the C library's calls are none then, and end nothing."""
        program = self.folder / "reads_clock"
        if not program.exists():
            program.with_suffix(".c").write_text(READS_CLOCK)
            subprocess.run(["cc", "-O1", program.with_suffix(".c"), "-o", program], check=True)
        status = subprocess.run([program], check=False).returncode
        self.assertIn(status, (0, -signal.SIGSYS))
        return status == 0

    def test_without_a_clock_no_event_and_no_call(self):
        for clock in ("mono", "boot", "real"):
            for how in ("kills", "refuses"):
                for mode in ({}, {"PLUMB_RSEQ": "none"}):
                    with self.subTest(clock=clock, how=how, mode=mode):
                        summary = self.record(self.hidden, self.program, how, clock=clock, **mode)
                        self.assertEqual(summary["events"], 1)
                        self.assertEqual(summary["events_lost_by_cause"], {"clock": EVENTS})

    def test_nor_for_the_second_of_two_recordings(self):
        """Each has a number of its own in the program."""
        first = self.folder / "first"
        recorder = self.begin(PLUMB, "record", "--json", "-q", "--clock", "mono", "-o", first, "-e", "clocked:*", "--exe", "*")
        while not list(first.glob("ust/metadata")) and recorder.poll() is None:
            time.sleep(0.02)
        time.sleep(0.3)
        summary = self.record(self.hidden, self.program, "kills", clock="mono")
        self.assertEqual((summary["events"], summary["events_lost_by_cause"]), (1, {"clock": EVENTS}))
        recorder.terminate()
        summary = json.loads(recorder.communicate(timeout=60)[0])
        self.assertEqual((summary["events"], summary["events_lost_by_cause"]), (1, {"clock": EVENTS}))

    def test_what_the_recorder_says_of_the_machine_is_believed(self):
        summary = self.record(self.program, "kills", clock="mono", recorder=[self.hidden])
        self.assertEqual(summary["events_lost_by_cause"], {"clock": EVENTS})

    def test_a_clock_that_user_space_reads_is_read(self):
        if not self.is_read_without_kernel():
            self.skipTest("the clock of this machine takes a system call to read")
        for clock in ("mono", "boot", "real"):
            for how in ("kills", "refuses"):
                with self.subTest(clock=clock, how=how):
                    summary = self.record(self.program, how, clock=clock)
                    self.assertEqual((summary["events"], summary["events_lost"]), (1 + EVENTS, 0))

    @unittest.skipUnless(machine_clock.has_cycle_counter(), "the cycle counter is no clock here")
    def test_without_sequences_no_call_asks_for_the_cpu(self):
        for how in ("kills", "refuses"):
            with self.subTest(how=how):
                summary = self.record(self.hidden, self.program, how, clock="tsc", PLUMB_RSEQ="none",
                                      GLIBC_TUNABLES="glibc.pthread.rseq=0")
                self.assertEqual((summary["events"], summary["events_lost"]), (1 + EVENTS, 0))

    def begin(self, *command, **more):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, **more)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def assert_named(self, recorder, program, reason):
        """Ends the recorder while the program waits for input: the one that it names, and why."""
        self.assertEqual(program.stdout.read(1), b"x")
        recorder.terminate()
        output = recorder.communicate(timeout=60)[0]
        program.communicate(b"x", timeout=60)
        self.assertEqual(program.returncode, 0)
        reasons = [one["reason"] for one in json.loads(output)["unreachable"]]
        self.assertEqual(len(reasons), 1, output)
        self.assertIn(reason, reasons[0])

    def test_it_is_named(self):
        recorder = self.begin(PLUMB, "record", "--json", "-q", "--clock", "mono", "-o", self.trace, "--exe", self.program)
        program = self.begin(self.hidden, self.program, "kills", "waits", stdin=subprocess.PIPE)
        self.assert_named(recorder, program, "the clock is read by a system call")

    @unittest.skipUnless(machine_clock.has_cycle_counter(), "the events themselves have no time then")
    def test_waits_for_locks_are_then_without_their_time(self):
        if "__asan_" in subprocess.run(["nm", "-D", PROBE], capture_output=True, text=True, check=True).stdout:
            self.skipTest("a sanitizer's run-time library can not be preloaded into programs that lack it")
        locks = self.folder / "locks"
        (self.folder / "locks.c").write_text(LOCKS)
        subprocess.run(["cc", "-O1", self.folder / "locks.c", "-o", locks, "-lpthread"], check=True)
        for command in [locks], [self.hidden, locks]:
            with self.subTest(command=command):
                done = subprocess.run([PLUMB, "record", "--json", "-q", "--force", "-o", self.trace, "--preload", "pthread",
                                       "--", *command], input="x", capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertGreater(json.loads((self.trace / "summary.json").read_text())["events"], 20000)
        trace = self.folder / "named"
        recorder = self.begin(PLUMB, "record", "--json", "-q", "-o", trace, "--exe", locks)
        while not list(trace.glob("ust/metadata")) and recorder.poll() is None:
            time.sleep(0.02)
        time.sleep(0.3)
        preload = f"{traced_program.BUILD}/libtrace/libplumb.so.0:{PROBE}"
        program = self.begin(self.hidden, locks, stdin=subprocess.PIPE, env={**os.environ, "LD_PRELOAD": preload})
        self.assert_named(recorder, program, "how long it waited for locks is not known")


if __name__ == "__main__":
    unittest.main()
