#!/usr/bin/env python3
"""A thread whose filter answers calls in the kernel's place, and was installed by an instruction of its own, so that nobody has heard of it:
what it records is its own or counted as lost, and under no number that is the answer's."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["PLUMB_SOURCE_DIR"]) / "tests/support"))
from traced_program import TracedProgramTest  # noqa: E402

PLUMB = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
EVENTS = 1000


class Answered(TracedProgramTest):
    PROGRAM = """
#include <plumb/tracepoint.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
PLUMB_EVENT(answered, step, (u64, number))
static long call(long number, long a, long b, long c) {
    long result;
    register long fourth __asm__("r10") = 0, fifth __asm__("r8") = 0;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth) : "rcx", "r11", "memory");
    return result;
}
static void* filtered(void* unused) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    if (call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0) != 0 || call(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program) != 0)
        return filtered;
    for (unsigned long i = 1; i <= 1000; i++) plumb_trace(answered, step, i);
    return unused;
}
int main(void) {
    pthread_t thread;
    void* failed;
    plumb_trace(answered, step, 0);
    return pthread_create(&thread, 0, filtered, 0) != 0 || pthread_join(thread, &failed) != 0 || failed != 0;
}
"""

    def test_no_record_is_of_a_number_that_nobody_has(self):
        done = subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "-e", "answered:*", "--", self.program], capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads((self.trace / "summary.json").read_text())
        shown = subprocess.run([PLUMB, "view", "--json", self.trace], capture_output=True, text=True, timeout=60, check=False).stdout
        events = [json.loads(line) for line in shown.splitlines()]
        self.assertLess(max(event["tid"] for event in events), 1 << 22)
        self.assertEqual(len(events) + summary["events_lost"], EVENTS + 1)


if __name__ == "__main__":
    unittest.main()
