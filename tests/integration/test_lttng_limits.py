#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 200
# cmake-of: probes/lttng
"""Programs with LTTng-UST's tracepoints that may do little, or leave them in the middle: they run as without, and what is not recorded is
counted."""
import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from lttng_program import PLUMB, PROGRAMS, LttngProgramTest, leave_out_if_not_built  # noqa: E402


class Limits(LttngProgramTest):
    def check(self, *mode, is_whole=True, program="lttng_limits"):
        shutil.rmtree(self.trace, ignore_errors=True)
        done = subprocess.run([PLUMB, "record", "--preload", "lttng", "--subbuf-size", "1M", "--subbuf-count", "16", "-o", self.trace, "--",
                               PROGRAMS / program, *mode], capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        traced, left = map(int, done.stdout.split())
        summary = json.loads((self.trace / "summary.json").read_text())
        recorded, lost = summary["events"], summary["events_lost"]
        self.assertEqual(recorded + lost, traced - left, done.stderr)
        if is_whole:
            self.assertEqual(lost, 0, done.stderr)
        return recorded

    def test_jumps_behind_a_filter(self):
        self.check("filtered", "jump")

    def test_one_in_another_behind_a_filter(self):
        self.check("filtered", "nested", is_whole=False)

    def test_threads_that_begin_to_trace_behind_a_filter(self):
        self.check("filtered", "threads", is_whole=False)

    def test_large_ones_that_are_left(self):
        self.check("left")

    def test_many_large_ones_at_once(self):
        self.assertGreaterEqual(self.check("at_once", is_whole=False), 200)

    def test_threads_that_begin_to_trace_without_memory(self):
        self.check("no_memory", is_whole=False)

    def test_in_each_other_without_an_end(self):
        """LTTng goes four deep; where each comes by the next one twice, and nobody said stop, there would be 2^270."""
        for program in ("lttng_limits", "lttng_limits_lgpl"):
            for kind in ("small", "large", "numbers", "far"):
                with self.subTest(program, kind=kind):
                    recorded = self.check("around", kind, is_whole=False, program=program)
                    self.assertGreaterEqual(recorded, 15)
                    self.assertLess(recorded, 1000)

    def test_functions_in_place_of_the_c_library_s(self):
        self.assertGreaterEqual(self.check("own_calls"), 2)


if __name__ == "__main__":
    leave_out_if_not_built()
    if os.uname().machine != "x86_64":
        sys.exit(77)
    unittest.main()
