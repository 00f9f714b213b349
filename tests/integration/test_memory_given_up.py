#!/usr/bin/env python3
# cmake-of: libtrace/registry.cc libtrace/state_file.cc libtrace/vdso.cc libtrace/process.cc
"""Programs that give up, protect or move memory which the kernel or the C library had made for them: they run as without Plumb, and what
they trace is theirs."""
import collections
import json
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB, leave_out_if_sanitized  # noqa: E402
from traced_program import TracedProgramTest, compile_traced, record_while_it_answers  # noqa: E402


class MemoryGivenUp(TracedProgramTest):
    PROGRAM = r"""
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
PLUMB_EVENT(given, step, (i32, process), (string, what))
extern const char __ehdr_start[];
enum { many = 256 };
static struct { unsigned long begin, end; int is_writable, is_stack, is_vdso, is_heap; } ranges[many];
static int count;
static void know_ranges(void) {
    char line[512], may[5];
    FILE* const maps = fopen("/proc/self/maps", "r");
    while (count < many && fgets(line, sizeof(line), maps) != 0) {
        if (sscanf(line, "%lx-%lx %4s", &ranges[count].begin, &ranges[count].end, may) != 3) exit(3);
        ranges[count].is_stack = strstr(line, "[stack]") != 0;
        ranges[count].is_heap = strstr(line, "[heap]") != 0;
        ranges[count].is_vdso = strstr(line, "[vdso]") != 0 || strstr(line, "[vvar") != 0;
        ranges[count++].is_writable = may[1] == 'w' && may[3] == 'p';
    }
    fclose(maps);
}
static void trace(const char* what) { plumb_trace(given, step, getpid(), what); }
static void fork_some(void) {
    for (int i = 0; i < 3; i++) {
        int status = 0;
        const pid_t child = fork();
        if (child == 0) {
            trace("child");
            _exit(0);
        }
        waitpid(child, &status, 0);
        if (status != 0) _exit(4);
    }
    trace("parent");
}
static int is_asked;
static void obey(void) {
    char line[16];
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != 0) {
        trace("asked");
        puts("traced");
        fflush(stdout);
    }
}
static void without_the_first_stack(void) {
    static char alternate[1 << 16];
    const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
    for (int i = 0; i < count; i++)
        if (ranges[i].is_stack && munmap((void*)ranges[i].begin, ranges[i].end - ranges[i].begin) != 0) _exit(5);
    if (sigaltstack(&stack, 0) != 0) _exit(8);
    if (is_asked)
        obey();
    else
        fork_some();
    _exit(0);
}
static void run_without_the_first_stack(void) {
    static char arena[1 << 18];
    static ucontext_t own, before;
    getcontext(&own);
    own.uc_stack.ss_sp = arena;
    own.uc_stack.ss_size = sizeof(arena);
    makecontext(&own, without_the_first_stack, 0);
    swapcontext(&before, &own);
}
/* As who puts them on huge pages. */
static void move(unsigned long begin, unsigned long bytes) {
    void* const moved = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(moved, (void*)begin, bytes);
    mremap(moved, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void*)begin);
}
int main(int argc, char** argv) {
    const char* const what = argc > 1 ? argv[1] : "";
    trace("begin");
    know_ranges();
    is_asked = argc > 2;
    if (strcmp(what, "stack") == 0) run_without_the_first_stack();
    if (strcmp(what, "header") == 0 && mprotect((void*)__ehdr_start, 4096, PROT_NONE) != 0) return 6;
    for (int i = 0; i < count; i++) {
        const unsigned long bytes = ranges[i].end - ranges[i].begin;
        if (strcmp(what, "vdso") == 0 && ranges[i].is_vdso && munmap((void*)ranges[i].begin, bytes) != 0) return 7;
        if (!ranges[i].is_writable || ranges[i].is_stack || ranges[i].is_heap) continue;
        if (strcmp(what, "kept") == 0) madvise((void*)ranges[i].begin, bytes, MADV_KEEPONFORK);
        if (strcmp(what, "moved") == 0) move(ranges[i].begin, bytes);
    }
    if (is_asked)
        obey();
    else
        fork_some();
    return 0;
}
"""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # All symbols at the start: later the dynamic loader's own look at the header's page would end it.
        cls.program = compile_traced(cls.PROGRAM, cls.folder / "bound", "-Wl,-z,now")

    def record(self, *arguments):
        done = subprocess.run([PLUMB, "record", "-o", self.trace, "--", self.program, *arguments], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stderr

    def events(self):
        shown = subprocess.run([PLUMB, "view", "--json", self.trace], capture_output=True, text=True, timeout=60, check=True)
        return [json.loads(line) for line in shown.stdout.splitlines()]

    def check_whose_they_are(self):
        events = self.events()
        for event in events:
            self.assertEqual(event["pid"], event["fields"]["process"], event)
        self.assertEqual(collections.Counter(event["fields"]["what"] for event in events), {"begin": 1, "child": 3, "parent": 1})
        self.assertEqual(len({event["pid"] for event in events}), 4)

    def test_the_first_stack(self):
        for _ in range(2):
            self.assertEqual(subprocess.run([self.program, "stack"], timeout=60, check=False).returncode, 0, "nobody records")
        self.record("stack")
        self.check_whose_they_are()

    def test_the_executables_header(self):
        self.record("header")
        self.check_whose_they_are()

    def test_pages_that_children_keep(self):
        self.record("kept")
        self.check_whose_they_are()

    def test_pages_that_were_moved(self):
        self.record("moved")
        self.check_whose_they_are()

    def check_that_it_can_be_attached_to(self, what):
        record_while_it_answers(self, [self.program, what, "asked"], "--duration", "1s", "-o", self.trace)
        self.assertGreater(len(self.events()), 0)

    def test_the_vdso(self):
        self.check_that_it_can_be_attached_to("vdso")

    def test_the_first_stack_before_it_is_recorded(self):
        self.check_that_it_can_be_attached_to("stack")


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
