#!/usr/bin/env python3
"""A program that has its own system calls dispatched to itself, as emulators do, gets none of ours; and children of held
processes, and what is loaded there, are told of."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
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


class OwnCalls(unittest.TestCase):
    """Calls of the program's own by prctl(), syscall(), vfork() and sigaltstack(), where only the C library's text may make some."""
    PROGRAM = r"""
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <link.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
PLUMB_EVENT(own, call, (u64, number))
static volatile char selector;
static unsigned long first, last;
static int find(struct dl_phdr_info* info, size_t bytes, void* none) {
    (void)bytes, (void)none;
    if (strstr(info->dlpi_name, "libc.so") == 0) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)* segment = &info->dlpi_phdr[i];
        const unsigned long start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_X) == 0) continue;
        first = start, last = start + segment->p_memsz;
    }
    return 0;
}
static void unknown(int number) { selector = 0; (void)number; _exit(99); }
static int make_calls(void) {
    errno = 0;
    if (syscall(SYS_gettid) != getpid() || errno != 0) return 1;
    if (syscall(SYS_close, -1) != -1 || errno != EBADF) return 2;
    errno = 0;
    if (prctl(PR_SET_NAME, "another") != 0 || errno != 0) return 3;
    if (prctl(PR_SET_DUMPABLE, 9) != -1 || errno != EINVAL) return 4;
    for (int i = 0; i < 3; i++) {
        const pid_t child = vfork();
        if (child == 0) _exit(7);
        int status = 0;
        if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7) return 5;
    }
    static char room[65536];
    const stack_t stack = {.ss_sp = room, .ss_size = sizeof(room)};
    const stack_t wrong = {.ss_sp = room, .ss_size = sizeof(room), .ss_flags = 77};
    stack_t there = {.ss_sp = 0};
    errno = 0;
    if (sigaltstack(&stack, 0) != 0 || sigaltstack(0, &there) != 0 || there.ss_sp != room || errno != 0) return 8;
    if (sigaltstack(&wrong, 0) != -1 || errno != EINVAL) return 9;
    errno = 0;
    if (sigaltstack((void*)8, 0) != -1 || errno != EFAULT) return 10;
    errno = 0;
    if (sigaltstack(&stack, (void*)8) != -1 || errno != EFAULT) return 11;
    struct sock_filter code = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog too_short = {0, &code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &too_short) != -1 || errno != EINVAL) return 6;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &too_short) != -1 || errno != EINVAL) return 7;
    return 0;
}
/* Ends the program for these calls from elsewhere; addresses are compared by their lower halves. */
static int filter_by_address(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sigaltstack, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_vfork, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (unsigned)first, 0, 2),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (unsigned)last, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
    struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
int main(int count, char** arguments) {
    dl_iterate_phdr(find, 0);
    if ((first >> 32) != (last >> 32)) return 0;
    signal(SIGSYS, unknown);
    plumb_trace(own, call, 1);
    const int wrong_before = make_calls();
    if (wrong_before != 0) return wrong_before;
    if (count > 1 && strcmp(arguments[1], "filter") == 0) {
        if (filter_by_address()) return 12;
        return make_calls();
    }
    if (prctl(59, 1, first, last - first, &selector)) return 77;
    signal(SIGSYS, unknown);
    selector = 1;
    const int wrong = make_calls();
    selector = 0;
    return wrong;
}
"""

    def test_they_come_from_the_c_library(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-test-"))
        self.addCleanup(shutil.rmtree, folder)
        build = traced_program.BUILD
        source = folder / "program.c"
        source.write_text(self.PROGRAM)
        for library in (["-L", build / "libtrace", f"-Wl,-rpath,{build}/libtrace", "-lplumb"], [build / "libtrace/libplumb.a"]):
            subprocess.run(["cc", "-O2", source, f"-I{traced_program.SOURCE}/include",
                            build / "tp-async/CMakeFiles/tp-async.dir/tp-async.cc.o", *library, "-o", folder / "program"], check=True)
            for how in ("dispatch", "filter"):
                with self.subTest(library=str(library[-1]), how=how):
                    done = subprocess.run([folder / "program", how], timeout=60, check=False)
                    self.assertIn(done.returncode, (0, 77))


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


class SwitchedOff(traced_program.TracedProgramTest):
    """What restricts nobody is no reason to stop."""
    PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
PLUMB_EVENT(off, step, (u64, number))
int main(void) {
    plumb_trace(off, step, 1);
    if (prctl(59, 0, 0, 0, 0)) return 77; /* PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF */
    plumb_trace(off, step, 2);
    const pid_t child = fork(); /* children of who is held back are missed */
    if (child == 0) {
        plumb_trace(off, step, 3);
        _exit(0);
    }
    waitpid(child, 0, 0);
    return 0;
}
"""

    def test_it_is_traced_on(self):
        done = subprocess.run([PLUMB, "record", "-o", self.trace, "--", self.program], timeout=60, check=False, capture_output=True,
                              text=True)
        if done.returncode == 77:
            self.skipTest("the kernel has no user dispatch")
        summary = json.loads(pathlib.Path(self.trace, "summary.json").read_text())
        self.assertEqual((done.returncode, summary["events"], sum(summary["missed"].values())), (0, 3, 0), done.stderr)


if __name__ == "__main__":
    unittest.main()
