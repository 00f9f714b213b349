#!/usr/bin/env python3
"""A program that gets no more memory is not made to wait for records that are too large for the channel: they are counted."""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import traced_program  # noqa: E402

PLUMB = traced_program.BUILD / "cli/plumb"


class NoMemory(traced_program.TracedProgramTest):
    # Ends with 3 if its events take seconds.
    PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <sys/resource.h>
#include <time.h>
PLUMB_EVENT(memory, fixed, (array, u8, bytes, 2048))
PLUMB_EVENT(memory, variable, (sequence, u8, bytes))
PLUMB_EVENT(memory, small, (u64, number))
int main(void) {
    static unsigned char bytes[2048];
    plumb_trace(memory, small, 0);
    struct rlimit limit = {64 << 10, 64 << 10};
    if (setrlimit(RLIMIT_AS, &limit)) return 2;
    const time_t began = time(0);
    for (unsigned long i = 0; i < 10; i++) {
        plumb_trace(memory, small, i); /* one that is recorded ends what was given up */
        plumb_trace(memory, fixed, bytes);
        plumb_trace(memory, small, i);
        plumb_trace(memory, variable, bytes, sizeof(bytes));
    }
    return time(0) - began > 2 ? 3 : 0;
}
"""

    def test_large_records_are_counted_at_once(self):
        done = subprocess.run([PLUMB, "record", "--subbuf-size", "4K", "-o", self.trace, "--", self.program], timeout=60,
                              check=False, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads((self.trace / "summary.json").read_text())
        self.assertEqual((summary["events"], summary["events_lost"]), (31, 10))  # the sequences fit the stack, when they are cut


if __name__ == "__main__":
    unittest.main()
