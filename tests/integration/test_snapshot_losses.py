#!/usr/bin/env python3
# cmake-once
"""What a flight recorder overwrote before one snapshot is not forgotten with the next one: the last words of the recording
and `plumb view` of its folder name every snapshot's losses."""
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["PLUMB_SOURCE_DIR"]) / "tests/support"))
from traced_program import TracedProgramTest  # noqa: E402

PLUMB = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"


class SnapshotLosses(TracedProgramTest):
    # As many events as each line of its input says; for 0 one that is too long.
    PROGRAM = """
#include <plumb/tracepoint.h>
#include <stdio.h>
PLUMB_EVENT(loss, step, (u64, number))
PLUMB_EVENT(loss, told, (string, text))
int main(void) {
    static char text[3000];
    for (unsigned i = 0; i + 1 < sizeof(text); i++) text[i] = 'x';
    unsigned long count, number = 0;
    while (scanf("%lu", &count) == 1) {
        if (count == 0) plumb_trace(loss, told, text);
        for (unsigned long i = 0; i < count; i++) plumb_trace(loss, step, number++);
        puts("done");
        fflush(stdout);
    }
}
"""

    def record(self, *counts):
        """A snapshot behind each; the words at the end."""
        recorder = subprocess.Popen([PLUMB, "record", "--snapshot", "--subbuf-size", "4K", "--subbuf-count", "4", "-o", self.trace,
                                     "--", self.program], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
        self.addCleanup(lambda: recorder.poll() is None and recorder.communicate())
        self.addCleanup(recorder.kill)
        for i, count in enumerate(counts):
            recorder.stdin.write(f"{count}\n")
            recorder.stdin.flush()
            self.assertEqual(recorder.stdout.readline(), "done\n")
            if i + 1 < len(counts):
                subprocess.run([PLUMB, "snapshot", str(recorder.pid)], capture_output=True, timeout=60, check=True)
        _, error = recorder.communicate(timeout=60)
        return error

    def test_the_last_words_speak_of_all(self):
        said = self.record(100_000, 3)
        self.assertIn("Nothing was lost in the last snapshot.\nLost in the snapshots before:\n", said)
        self.assertIn("overwritten", said)
        shown = subprocess.run([PLUMB, "view", self.trace], capture_output=True, text=True, timeout=60, check=False).stderr
        self.assertRegex(shown, r"snapshot-1: \S+ sub-buffers? overwritten")
        self.assertNotIn("no summary.json", shown)

    def test_they_speak_of_what_was_not_whole(self):
        said = self.record(0, 3)
        self.assertIn("Nothing was lost in the last snapshot.\nNot whole in the snapshots before:\n  1 event cut", said)

    def test_nothing_is_said_of_what_was_not_lost(self):
        self.assertIn("Nothing was lost in 3 snapshots.\n", self.record(3, 3, 3))


if __name__ == "__main__":
    unittest.main()
