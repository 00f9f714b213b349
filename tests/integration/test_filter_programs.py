#!/usr/bin/env python3
# cmake-once
"""Filters in programs that are not as others: whose floating point traps, rounds its own way, or knows no small numbers; and
in children that have their parent's memory."""
import json
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

MODES = ["plain", "trap", "flags", "small", "up", "mmx"]
OF_FLOATS = ["d < 5", "d", "f == 0.1", "d + 1e-310 > d", "d * 3 == n * 0.3 || d % 0.3 > 0.15", "n * 1e308 * 10 > 1 || f > 1e38",
             "f == 3.4028235e38", "f == 1e-45", "d + 0.2 == 0.30000000000000004", "0.1 + n >= 5"]


class FilterPrograms(TracedProgramTest):
    # program MODE: traces 200 numbers; says 1 if a flag of floating point was raised by that.
    # program child HOW: a child traces, and its parent before and behind.
    PROGRAM = r"""
#define _GNU_SOURCE
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <plumb/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>
PLUMB_EVENT(fp, number, (u32, n), (f64, d), (f32, f))
PLUMB_EVENT(who, step, (u32, own_pid), (u32, own_tid), (array, u32, cpu, 2))
static double numbers[200];
static float narrow[200];
static void prepare(void) {
    for (int i = 0; i < 200; i++) {
        numbers[i] = i % 7 == 0 ? NAN : i % 11 == 0 ? INFINITY : i % 5 == 0 ? DBL_MIN / 16 : i * 0.1;
        narrow[i] = i % 9 == 0 ? FLT_MAX : i % 8 == 0 ? 1e-45f : (float)(i * 0.1);
    }
}
static void step(void) {
    const unsigned cpu[2] = {7, 8};
    plumb_trace(who, step, (unsigned)syscall(SYS_getpid), (unsigned)syscall(SYS_gettid), cpu);
}
static int child(const char* how) {
    step();
    pid_t made = !strcmp(how, "fork") ? fork() : !strcmp(how, "_Fork") ? _Fork() : vfork();
    if (made == 0) {
        step();
        _exit(0);
    }
    waitpid(made, NULL, 0);
    step();
    return 0;
}
int main(int argc, char** argv) {
    const char* mode = argv[1];
    if (argc > 2) return child(argv[2]);
    prepare();
    feclearexcept(FE_ALL_EXCEPT);
    if (!strcmp(mode, "trap")) feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW);
    if (!strcmp(mode, "small")) _mm_setcsr(_mm_getcsr() | 0x8040);
    if (!strcmp(mode, "up")) fesetround(FE_UPWARD);
    if (!strcmp(mode, "mmx")) __asm__ volatile("movq %%mm0, %%mm1\npxor %%mm0, %%mm0" : : : "memory");
    for (unsigned i = 0; i < 200; i++) plumb_trace(fp, number, i, numbers[i], narrow[i]);
    if (!strcmp(mode, "flags") && fetestexcept(FE_ALL_EXCEPT) != 0) return 1;
    if (!strcmp(mode, "up") && fegetround() != FE_UPWARD) return 2;
    if (!strcmp(mode, "small") && (_mm_getcsr() & 0x8040) != 0x8040) return 3;
    return 0;
}
"""

    def record(self, trace, *options, words):
        done = subprocess.run([PLUMB, "record", "-o", trace, "--force", *options, "--", self.program, *words],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, f"{options} {words}: {done.stderr}")
        self.assertIn("Nothing was lost", done.stderr)

    def shown(self, trace, *options):
        done = subprocess.run([PLUMB, "view", trace, "--json", *options], capture_output=True, text=True, timeout=60, check=True)
        return [json.loads(line)["fields"] for line in done.stdout.splitlines()]

    def test_floating_point_is_the_programs_own(self):
        whole = self.folder / "whole"
        for mode in MODES:
            self.record(whole, words=[mode])
            for condition in OF_FLOATS:
                with self.subTest(mode=mode, condition=condition):
                    self.record(self.trace, "-e", "fp:*", "--filter", condition, words=[mode])
                    self.assertEqual(self.shown(self.trace), self.shown(whole, "--where", condition))

    def test_children_are_asked_themselves(self):
        for how in ("fork", "_Fork", "vfork"):
            for condition, count in (("pid == own_pid && tid == own_tid && vpid == pid", 3), ("pid != own_pid", 0),
                                     ("tid != own_tid", 0)):
                with self.subTest(how=how, condition=condition):
                    self.record(self.trace, "-e", f"who:step if {condition}", words=["child", how])
                    self.assertEqual(len(self.shown(self.trace)), count)

    def test_a_field_goes_before_who_writes_it(self):
        whole = self.folder / "whole-who"
        self.record(whole, words=["child", "fork"])
        for condition, count in (("cpu[1] == 8", 3), ("cpu >= 0 || own_pid > 0", 3)):
            self.record(self.trace, "-e", f"who:step if {condition}", words=["child", "fork"])
            self.assertEqual(len(self.shown(self.trace)), count)
            self.assertEqual(len(self.shown(whole, "-e", "who:step", "--where", condition)), count)

    def test_several_that_go_deep(self):
        deep = 22 * "1 + (" + "n" + 22 * ")" + " > 100"
        self.record(self.trace, "-e", "fp:number if n == 1", "-e", f"fp:* if {deep}", words=["plain"])
        self.assertEqual([each["n"] for each in self.shown(self.trace)], [1, *range(79, 200)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
