#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""A recorder that a probe was preloaded into, since it was started in a program that is recorded itself, does not record
itself: with --mode block it would wait for itself when a ring is full.
"""
import json
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_program import LOCKS_AS_TOLD, PLUMB, RecordedProgramTest, leave_out_if_sanitized  # noqa: E402


class RecordedRecorder(RecordedProgramTest):
    PROGRAM = LOCKS_AS_TOLD

    def test_one_that_records_everybody_does_not_wait_for_itself(self):
        locks = 200_000
        script = (f"{PLUMB} record --mode block --block-timeout 20s --subbuf-size 16K --subbuf-count 4 --duration 3 -q "
                  f"-o {self.trace}/inner & echo $!; sleep 1; echo {locks} | {self.program}; wait $!")
        self.trace.mkdir()
        began = time.time()
        done = subprocess.run([PLUMB, "record", "-q", "--preload", "pthread", "-o", self.trace / "outer", "--", "sh", "-c", script],
                              capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(time.time() - began, 20)
        summary = json.loads((self.trace / "inner/summary.json").read_text())
        self.assertGreater(summary["events_by_name"]["pthread:mutex_acquired"], locks - 1)
        recorder = int(done.stdout.split()[0])
        outer = json.loads((self.trace / "outer/summary.json").read_text())
        self.assertIn(recorder, [each["pid"] for each in outer["processes"]])
        self.assertNotIn(recorder, [each["pid"] for each in summary["processes"]])


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
