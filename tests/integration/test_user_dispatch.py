#!/usr/bin/env python3
"""A program that has its own system calls dispatched to itself, as emulators do, gets none of ours; and children of held
processes, and what is loaded there, are told of."""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import traced_program  # noqa: E402

PLUMB = traced_program.BUILD / "cli/plumb"


class UserDispatch(traced_program.TracedProgramTest):
    # The C library's calls are its own; all others, while the selector says so, are its guest's, who makes none.
    PROGRAM = r"""
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
PLUMB_EVENT(guest, step, (u64, number))
static volatile char selector;
static unsigned long first, last;
static int find(struct dl_phdr_info* info, size_t bytes, void* none) {
    (void)bytes, (void)none;
    if (strstr(info->dlpi_name, "libc.so")) first = info->dlpi_addr, last = info->dlpi_addr + 0x200000;
    return 0;
}
static void unknown(int number) { selector = 0; (void)number; _exit(99); }
int main(void) {
    dl_iterate_phdr(find, 0);
    struct sigaction action = {.sa_handler = unknown};
    sigaction(SIGSYS, &action, 0);
    plumb_trace(guest, step, 0);
    if (prctl(59, 1, first, last - first, &selector)) return 77;
    puts("ready");
    fflush(stdout);
    selector = 1;
    for (time_t end = time(0) + 3; time(0) < end;)
        for (int i = 0; i < 1000; i++) plumb_trace(guest, step, 1);
    selector = 0;
    return 0;
}
"""

    def test_it_is_not_taken_for_its_guest(self):
        with subprocess.Popen([self.program], stdout=subprocess.PIPE, text=True) as program:
            if program.stdout.readline() != "ready\n":
                self.skipTest("the kernel has no user dispatch")
            for number in range(2):
                subprocess.run([PLUMB, "record", "-q", "-o", f"{self.trace}-{number}", *(["-p", str(program.pid)] * number),
                                "--duration", "500ms"], timeout=60, check=False, capture_output=True)
        self.assertEqual(program.returncode, 0)

    def test_one_that_is_recorded_from_its_start(self):
        done = subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "--", self.program], timeout=60, check=False,
                              capture_output=True, text=True)
        if done.returncode != 77:
            self.assertEqual(done.returncode, 0, done.stderr)


class Held(traced_program.TracedProgramTest):
    PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
PLUMB_EVENT(held, step, (u64, number))
int main(int count, char** arguments) {
    plumb_trace(held, step, 1);
    struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 3;
    plumb_trace(held, step, 2);
    if (count > 1 && strcmp(arguments[1], "fork") == 0) {
        const pid_t child = fork();
        if (child == 0) {
            plumb_trace(held, step, 3);
            _exit(0);
        }
        waitpid(child, 0, 0);
    }
    return 0;
}
"""

    def test_children_are_told_of(self):
        for how, missed in (("alone", 0), ("fork", 1)):
            trace = f"{self.trace}-{how}"
            done = subprocess.run([PLUMB, "record", "-o", trace, "--", self.program, how], timeout=60, check=False,
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            summary = json.loads(pathlib.Path(trace, "summary.json").read_text())
            self.assertEqual((summary["events"], sum(summary["missed"].values())), (2, missed))
            self.assertEqual("Nothing was lost" in done.stderr, missed == 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
