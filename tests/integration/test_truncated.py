#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 200
"""Files that another program of the same user shortens, moves or removes while plumb records: the channel in shared memory,
the streams of the trace. The recorder says which, closes the trace and does not end with status 0, nor by a signal."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PROBE, SHM, RecordedProgramTest, read_back, tell_to_lock  # noqa: E402


class Truncated(RecordedProgramTest):
    def setUp(self):
        super().setUp()
        self.traced = subprocess.Popen([self.program], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       env=dict(os.environ, LD_PRELOAD=str(PROBE)))
        tell_to_lock(self.traced, 1)
        self.recorder = self.start("-q", "-p", self.traced.pid)
        end = time.monotonic() + 60
        while self.written() == 0:  # in the trace
            self.assertLess(time.monotonic(), end)
            tell_to_lock(self.traced, 1000)
            time.sleep(0.05)

    def tearDown(self):
        for process in (self.recorder, self.traced):
            process.kill()
            process.wait()
        for pipe in (self.traced.stdin, self.traced.stdout, self.recorder.stdout, self.recorder.stderr):
            pipe.close()

    def streams(self):
        return [path for path in (self.trace / "ust").glob("ring_*") if path.stat().st_size > 0]

    def written(self):
        return len(self.streams()) if (self.trace / "ust").exists() else 0

    def end(self):
        """What the recorder says."""
        _, said = self.recorder.communicate(timeout=60)
        self.assertEqual(self.recorder.returncode, 1, said)
        return said

    def test_a_channel_that_is_shortened_ends_the_recording(self):
        for path in SHM.glob("channel-*"):
            os.truncate(path, 4096)
        self.assertIn("has shortened a channel", self.end())
        self.assertIn("pthread:mutex_acquired", read_back(self.trace)[0])

    def test_a_channel_of_which_nothing_is_left_does_too(self):
        for path in SHM.glob("channel-*"):
            os.truncate(path, 0)
        self.assertIn("has shortened a channel", self.end())

    def test_a_stream_that_is_truncated_is_named(self):
        stream = self.streams()[0]
        os.truncate(stream, 100)
        self.recorder.terminate()
        self.assertIn(f"{stream} was truncated while the trace was written", self.end())

    def test_a_stream_that_is_moved_is_named(self):
        stream = self.streams()[0]
        stream.rename(self.trace / "elsewhere")
        self.recorder.terminate()
        self.assertIn(f"{stream} was moved while the trace was written", self.end())

    def test_a_stream_that_is_removed_is_named(self):
        stream = self.streams()[0]
        stream.unlink()
        self.recorder.terminate()
        self.assertIn(f"{stream} was removed while the trace was written", self.end())

    def test_a_trace_that_is_moved_goes_on_where_it_is(self):
        tell_to_lock(self.traced, 1000)
        moved, other = self.directory / "moved", self.trace
        self.trace.rename(moved)
        other.mkdir()
        for _ in range(20):  # on all processors, each of which has a file
            tell_to_lock(self.traced, 20000)
            time.sleep(0.1)
        self.recorder.terminate()
        _, said = self.recorder.communicate(timeout=60)
        self.assertEqual((self.recorder.returncode, said), (0, ""))
        self.assertEqual(list(other.iterdir()), [])
        summary = json.loads((moved / "summary.json").read_text())
        self.assertEqual((summary["trace"], summary["complete"]), (str(moved), True))
        counts, discarded, complaints = read_back(moved)
        self.assertEqual((discarded, complaints), (0, ""))
        self.assertEqual(sum(counts[name] for name in counts if name.startswith("pthread:")), summary["events"])
        self.assertGreater(summary["events"], 20 * 20000)

    def test_a_trace_that_is_removed_has_no_summary_in_what_stands_there_now(self):
        self.trace.rename(self.directory / "moved")
        self.trace.mkdir()
        shutil.rmtree(self.directory / "moved")
        self.recorder.terminate()
        said = self.end()
        # The second of a file that it was about to make, for a CPU that had written nothing yet.
        self.assertRegex(said, "was removed while the trace was written|Could not make .*/trace/ust/.*: No such file")
        self.assertEqual(list(self.trace.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
