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
    # While the selector says so, calls are its guest's, who makes none: those from outside of the C library, or
    # ("inside") those of its own executable.
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
static int find(struct dl_phdr_info* info, size_t bytes, void* name) {
    (void)bytes;
    if (strstr(info->dlpi_name, name) == 0 || first != 0) return 0;
    first = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)* segment = &info->dlpi_phdr[i];
        const unsigned long end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;
        if (segment->p_type == PT_LOAD && end > last) last = end;
    }
    return 0;
}
static void unknown(int number) { selector = 0; (void)number; _exit(99); }
int main(int count, char** arguments) {
    (void)arguments;
    dl_iterate_phdr(find, count > 1 ? "" : "libc.so"); /* the executable comes first */
    struct sigaction action = {.sa_handler = unknown};
    sigaction(SIGSYS, &action, 0);
    plumb_trace(guest, step, 0);
    if (prctl(59, count > 1 ? 2 : 1, first, last - first, &selector)) return 77;
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
        for how in ([], ["inside"]):
            with self.subTest(how=how):
                self.record_while_it_runs(how)

    def record_while_it_runs(self, how):
        with subprocess.Popen([self.program, *how], stdout=subprocess.PIPE, text=True) as program:
            if program.stdout.readline() != "ready\n":
                self.skipTest("the kernel has no user dispatch of this kind")
            for number in range(2):
                trace = f"{self.trace}-{number}-{len(how)}"
                subprocess.run([PLUMB, "record", "-q", "-o", trace, *(["-p", str(program.pid)] * number), "--duration", "500ms"],
                               timeout=60, check=False, capture_output=True)
        self.assertEqual(program.returncode, 0)

    def test_one_that_is_recorded_from_its_start(self):
        for how in ([], ["inside"]):
            with self.subTest(how=how):
                done = subprocess.run([PLUMB, "record", "-q", "-o", f"{self.trace}-{len(how)}", "--", self.program, *how],
                                      timeout=60, check=False, capture_output=True, text=True)
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
