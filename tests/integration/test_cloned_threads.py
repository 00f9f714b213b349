#!/usr/bin/env python3
# cmake-of: libtrace/thread_data.cc libtrace/rseq.cc libtrace/update_signal.cc
"""Threads that the program has made by clone(), of which the C library knows nothing: one without thread-local data, or with something of
the program's own there, sleeps where the update signal finds it first; one with data as the C library makes them traces."""
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB, leave_out_if_sanitized  # noqa: E402
from traced_program import compile_traced, record_while_it_answers  # noqa: E402

SLEEPS = r"""
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
PLUMB_EVENT(att, tick, (u64, n))
static int word;
static unsigned char own[16384] __attribute__((aligned(64)));
static int sleep_for_ever(void* unused) {
    for (;;) {
        long result;
        register long none __asm__("r10") = 0;
        __asm__ volatile("syscall" : "=a"(result) : "0"(SYS_futex), "D"(&word), "S"(0), "d"(0), "r"(none) : "rcx", "r11", "memory");
    }
    return unused != 0;
}
int main(int argc, char** argv) {
    unsigned char* const data = argc > 1 && strcmp(argv[1], "none") != 0 ? own + 8192 : 0;
    if (argc > 1 && strcmp(argv[1], "self") == 0) memcpy(data, &data, sizeof(data));
    char* const stack = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (clone(sleep_for_ever, stack + 65536, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS,
              0, 0, data, 0) < 0)
        return 1;
    puts("ready");
    fflush(stdout);
    unsigned long n = 0;
    char line[16];
    while (fgets(line, sizeof(line), stdin) != 0) {
        plumb_trace(att, tick, n++);
        puts("traced");
        fflush(stdout);
    }
    for (unsigned i = 0; i < sizeof(own); i++)
        if (own[i] != 0 && (i < 8192 || i >= 8200)) return 3;
    return 0;
}
"""
TRACES = r"""
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
PLUMB_EVENT(att, step, (u32, who), (u64, n))
enum { count = 200000 };
extern void* _dl_allocate_tls(void*);
static volatile int is_over, may_begin;
static void stay_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    syscall(SYS_sched_setaffinity, 0, sizeof(set), &set);
}
static int work(void* unused) {
    stay_on(1);
    while (!may_begin) { }
    for (unsigned long n = 0; n < count; n++) plumb_trace(att, step, 1, n);
    is_over = 1;
    syscall(SYS_exit, 0);
    return unused != 0;
}
int main(void) {
    char* const stack = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void** const data = _dl_allocate_tls(0);
    void* own;
    __asm__("movq %%fs:0, %0" : "=r"(own));
    data[0] = data[2] = data;
    memcpy((char*)data + 0x28, (char*)own + 0x28, 16);
    stay_on(0);
    if (clone(work, stack + (1 << 20), CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS,
              0, 0, data, 0) < 0)
        return 1;
    may_begin = 1;
    for (unsigned long n = 0; n < count; n++) plumb_trace(att, step, 0, n);
    while (!is_over) usleep(1000);
    usleep(20000);
    return 0;
}
"""


class ClonedThreads(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="plumb-test-"))
        self.addCleanup(shutil.rmtree, self.directory)

    def test_one_that_sleeps_without_thread_local_data(self):
        program = compile_traced(SLEEPS, self.directory / "sleeps")
        for data in ("none", "zeros", "self"):
            with self.subTest(data):
                said = record_while_it_answers(self, [program, data], "-e", "att:*", "--duration", "2s", "-o", self.directory / data)
                self.assertIn("att:tick", said)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one processor")
    def test_one_that_traces_with_data_as_the_c_library_makes_them(self):
        program = compile_traced(TRACES, self.directory / "traces")
        trace = self.directory / "trace"
        done = subprocess.run([PLUMB, "record", "-q", "--mode", "block", "-o", trace, program], capture_output=True, text=True, timeout=100,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        shown = subprocess.run([PLUMB, "view", "--json", trace], capture_output=True, text=True, timeout=100, check=True)
        numbers = collections.defaultdict(list)
        for line in shown.stdout.splitlines():
            fields = json.loads(line)["fields"]
            numbers[fields["who"]].append(fields["n"])
        self.assertEqual({who: len(each) for who, each in numbers.items()}, {0: 200000, 1: 200000})
        self.assertTrue(all(each == sorted(each) for each in numbers.values()))


if __name__ == "__main__":
    leave_out_if_sanitized()
    if os.uname().machine != "x86_64":
        sys.exit(77)
    unittest.main()
