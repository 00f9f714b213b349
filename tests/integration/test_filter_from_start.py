#!/usr/bin/env python3
"""Programs that start with a seccomp filter in place, as those of services and containers do: left alone and named, unless
the recorder has as many filters, or its user insists. (Filters that a program installs itself: test_seccomp.py.)"""
import ctypes
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["PLUMB_SOURCE_DIR"]) / "tests/support"))
import machine_clock  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

PLUMB = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
EVENTS = 10000
# What tracing needs and ld.so does not.
CALLS = ["process_vm_readv", "readlink", "readlinkat", "ftruncate", "fallocate"]


def filtered(calls, groups=0):
    """For a child, before its exec(): a filter that ends it for these calls; and so many groups of its user."""
    numbers = calls and subprocess.run(["cc", "-E", "-P", "-x", "c", "-"], check=True, capture_output=True, text=True,
                                       input="#include <sys/syscall.h>\nNUMBERS " + " ".join(f"__NR_{c}" for c in calls)
                                       ).stdout.split("NUMBERS")[1].split()
    load, jump_equal, give, kill, allow = 0x20, 0x15, 0x06, 0x80000000, 0x7FFF0000
    code = [(load, 0, 0, 0)]
    for number in numbers:
        code += [(jump_equal, 0, 1, int(number)), (give, 0, 0, kill)]
    code = b"".join(struct.pack("HBBI", *line) for line in [*code, (give, 0, 0, allow)])
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None)

    def install():
        if groups:
            os.setgroups(range(10_000_000, 10_000_000 + groups))
        kept = buffer  # `program` points at it
        if not kept or libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
            os._exit(93)
    return install


class FromTheStart(TracedProgramTest):
    # Traces, says so, and waits for a line.
    PROGRAM = """
#include <plumb/tracepoint.h>
#include <stdio.h>
PLUMB_EVENT(filtered, step, (u64, number))
int main(void) {
    for (unsigned long i = 0; i < 10000; i++) plumb_trace(filtered, step, i);
    puts("done");
    fflush(stdout);
    return getchar() == EOF;
}
"""

    def record(self, calls, *options, groups=0, **of_recorder):
        """A program with such a filter starts while it is recorded: what the recorder said, and the program's process id."""
        recorder = subprocess.Popen([PLUMB, "record", "--subbuf-size", "1M", "-o", self.trace, *options], text=True,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **of_recorder)
        self.addCleanup(recorder.wait)
        self.addCleanup(recorder.kill)
        self.addCleanup(recorder.stderr.close)
        while not list(self.trace.glob("ust/metadata")) and recorder.poll() is None:
            time.sleep(0.02)
        time.sleep(0.5)
        program = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   preexec_fn=filtered(calls, groups))
        self.assertEqual(program.stdout.readline(), "done\n")
        time.sleep(0.3)
        recorder.send_signal(signal.SIGINT)
        errors = recorder.communicate(timeout=60)[1]
        self.assertIn(recorder.returncode, (0, -signal.SIGINT), errors)
        program.communicate("\n", timeout=60)
        self.assertEqual(program.returncode, 0)
        self.events = json.loads((self.trace / "summary.json").read_text())["events"]
        return errors, program.pid

    def test_it_is_left_alone_and_named(self):
        for how, whom in (("by its name", ("--exe", self.program)), ("with everybody", ("-e", "filtered:*"))):
            with self.subTest(how=how):
                self.trace = self.folder / how.replace(" ", "-")
                errors, process_id = self.record(CALLS, *whom)
                self.assertIn(f"{process_id}", errors)
                self.assertIn("has a seccomp filter", errors)
                self.assertEqual(self.events, 0)

    @unittest.skipIf(os.geteuid() != 0, "only root may choose groups")
    def test_it_is_so_too_if_its_user_has_many_groups(self):
        """They stand before the filters in /proc/PID/status."""
        for groups in (300, 400, 4000):
            with self.subTest(groups=groups):
                self.trace = self.folder / f"of-{groups}-groups"
                errors = self.record(CALLS, "--exe", self.program, groups=groups)[0]
                self.assertIn("has a seccomp filter", errors)
                self.assertEqual(self.events, 0)

    def test_who_insists_records_it(self):
        self.record([], "--seccomp", "--exe", self.program)
        self.assertEqual(self.events, EVENTS)

    def test_a_signal_that_is_not_ours_makes_no_calls(self):
        """Nobody records: urgent data, the terminal's new size."""
        with subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              preexec_fn=filtered(CALLS)) as program:
            self.assertEqual(program.stdout.readline(), "done\n")
            for number in (signal.SIGURG, signal.SIGWINCH, signal.SIGURG):
                program.send_signal(number)
                time.sleep(0.05)
            program.communicate("\n", timeout=60)
            self.assertEqual(program.returncode, 0)

    def test_a_filter_that_the_recorder_has_too_is_none(self):
        self.record([], "--exe", self.program, preexec_fn=filtered([]))
        self.assertEqual(self.events, EVENTS)


@unittest.skipIf(os.geteuid() != 0, "mounts")
class WithoutProc(TracedProgramTest):
    """Nothing there knows whether it has a filter."""
    # Traces for four seconds.
    PROGRAM = """
#include <plumb/tracepoint.h>
#include <time.h>
PLUMB_EVENT(hidden, step, (u64, number))
int main(void) {
    for (time_t end = time(0) + 4; time(0) < end;)
        for (int i = 0; i < 1000; i++) plumb_trace(hidden, step, 1);
    return 0;
}
"""
    # JAIL FILTERED PROGRAM
    JAIL = """
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define KILL(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
int main(int count, char** arguments) {
    (void)count;
    if (unshare(CLONE_NEWNS) || mount("none", "/", 0, MS_REC | MS_PRIVATE, 0) || mount("tmpfs", "/proc", "tmpfs", 0, 0)) return 2;
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        KILL(SYS_getppid), KILL(SYS_prctl), KILL(SYS_process_vm_readv), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 3;
    if (arguments[1][0] == '1' && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 4;
    execv(arguments[2], arguments + 2);
    return 5;
}
"""

    def test_it_is_recorded_when_the_recorder_has_seen_that_there_is_none(self):
        jail = self.folder / "jail"
        subprocess.run(["cc", "-x", "c", "-", "-o", jail], input=self.JAIL, text=True, check=True)
        clock = machine_clock.usable("tsc", "real")[0]  # without /proc a time namespace may shift the others
        for filtered_too in (0, 1):
            with self.subTest(filtered=filtered_too):
                trace = self.folder / f"trace-{filtered_too}"
                done = subprocess.run([PLUMB, "record", "--mode", "overwrite", "--clock", clock, "-o", trace, "--", jail,
                                       str(filtered_too), self.program], timeout=60, check=False, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                events = json.loads((trace / "summary.json").read_text())["events"]
                self.assertEqual(events > 0, filtered_too == 0, done.stderr)


class BeforeTheRuntime(TracedProgramTest):
    # Asks the kernel for a filter that it does not take, before any library has begun.
    PROGRAM = """
#include <plumb/tracepoint.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
PLUMB_EVENT(early, step, (u64, number))
static int error;
static void ask(void) {
    struct sock_filter code = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog too_short = {0, &code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &too_short, 0, 0) == -1) error = errno;
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = ask;
int main(void) {
    for (unsigned long i = 0; i < 100; i++) plumb_trace(early, step, i);
    return error == EINVAL ? 0 : 9;
}
"""

    def test_a_filter_that_the_kernel_refuses_keeps_nothing_off(self):
        subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "--", self.program], timeout=60, check=True)
        summary = json.loads((self.trace / "summary.json").read_text())
        self.assertEqual((summary["events"], summary["unreachable"]), (100, []))


if __name__ == "__main__":
    unittest.main()
