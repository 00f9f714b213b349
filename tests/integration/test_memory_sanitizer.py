#!/usr/bin/env python3
# cmake-once
"""Programs that are built with MemorySanitizer, recorded: what our own code writes, which is not built with it, is no report."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from recorded_program import BUILD, PLUMB, is_sanitized  # noqa: E402

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
OBJECTS = [BUILD / "tp-async/CMakeFiles/tp-async.dir/tp-async.cc.o", BUILD / "libtrace/libplumb.a"]

# The stack below is full of what is not written when events are put together, and when the update signal comes.
PROGRAM = r"""
#include <plumb/marker.h>
#include <plumb/tracepoint.h>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <unistd.h>
PLUMB_EVENT(sanitized, view, (text, view), (string, again), (u32, number))
__attribute__((noinline)) static int leave_unwritten(int depth) {
    char unwritten[600];
    __asm__ volatile("" : : "r"(unwritten) : "memory");
    return depth == 0 ? 0 : leave_unwritten(depth - 1) + 1;
}
int main(int count, char**) {
    static char text[500];
    std::memset(text, 'x', sizeof(text) - 1);
    if (count > 1) {
        std::puts("there");
        std::fflush(stdout);
        while (!plumb_enabled(sanitized, view)) {
            leave_unwritten(100);
            usleep(1000);
        }
    }
    for (unsigned i = 0; i < 400; i++) {
        leave_unwritten(50);
        plumb_trace(sanitized, view, std::string_view(text, i), text + i, i);
        leave_unwritten(50);
        plumb_mark(sanitized, part, "%.7s of %u", text, i);
    }
    return 0;
}
"""


class MemorySanitizer(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="plumb-msan-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        (self.directory / "program.cc").write_text(PROGRAM)
        done = subprocess.run(["clang++", "-std=c++17", "-O1", "-g", "-fsanitize=memory", "-I", SOURCE / "include", "program.cc", "-x", "none",
                               *OBJECTS, "-o", "program", "-pthread"], cwd=self.directory, capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.program, self.trace = self.directory / "program", self.directory / "trace"

    def record(self, *options):
        done = subprocess.run([PLUMB, "record", "-o", self.trace, "--mode", "block", *options], capture_output=True, text=True, timeout=100,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("MemorySanitizer", done.stderr)
        self.assertIn("Nothing was lost.", done.stderr)
        return done.stderr

    def test_from_its_start(self):
        self.assertIn("400  sanitized:view", self.record("--", self.program))

    def test_filters_and_contexts(self):
        told = self.record("--context", "callstack,procname", "-e", 'sanitized:view if view ~ "xxx*" && again != "x"', "--", self.program)
        self.assertIn("397  sanitized:view", told)

    def test_attached_to(self):
        program = subprocess.Popen([self.program, "waits"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(program.kill)
        self.assertEqual(program.stdout.readline(), "there\n")
        self.assertIn("400  sanitized:view", self.record("-p", str(program.pid)))
        _, errors = program.communicate(timeout=60)
        self.assertEqual((program.returncode, errors), (0, ""))


if __name__ == "__main__":
    if is_sanitized() or os.uname().machine != "x86_64" or not shutil.which("clang++"):
        sys.exit(77)
    unittest.main()
