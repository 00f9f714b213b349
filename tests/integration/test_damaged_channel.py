#!/usr/bin/env python3
"""A traced program writes over its channel's header: what can be read is written, others can read it, and the damage is named."""
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["PLUMB_SOURCE_DIR"]) / "tests/support"))
from babeltrace import events  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

PLUMB = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
SHM = pathlib.Path(f"/dev/shm/plumb-{os.geteuid()}")
CLOCK_PAGE = 0x140  # in the channel's header


class DamagedChannel(TracedProgramTest):
    # As many events as each line of its input says.
    PROGRAM = """
#include <plumb/tracepoint.h>
#include <stdio.h>
PLUMB_EVENT(damage, step, (u64, number))
int main(void) {
    unsigned long count, number = 0;
    while (scanf("%lu", &count) == 1) {
        for (unsigned long i = 0; i < count; i++) plumb_trace(damage, step, number++);
        puts("done");
        fflush(stdout);
    }
}
"""

    def start(self, *options):
        before = set(SHM.glob("channel-*"))
        recorder = subprocess.Popen([PLUMB, "record", "-o", self.trace, *options, "--", self.program], text=True,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, recorder)
        self.trace_steps(recorder, 10)
        [self.channel] = set(SHM.glob("channel-*")) - before
        return recorder

    @staticmethod
    def end(recorder):
        if recorder.returncode is None:
            recorder.kill()
            recorder.communicate()

    @staticmethod
    def trace_steps(recorder, count):
        recorder.stdin.write(f"{count}\n")
        recorder.stdin.flush()
        assert recorder.stdout.readline() == "done\n"

    def write(self, offset, content):
        with open(self.channel, "r+b") as file:
            file.seek(offset)
            file.write(content)

    def steps(self, trace):
        return [event.fields["number"] for event in events(trace) if event.name == "damage:step"]

    @staticmethod
    def summary(trace):
        return json.loads((trace / "summary.json").read_text())


class FlightRecorder(DamagedChannel):
    def test_the_header_is_known_and_is_mended(self):
        recorder = self.start("--snapshot")
        self.write(0, bytes(CLOCK_PAGE + 8))  # with the clock's kind
        done = subprocess.run([PLUMB, "snapshot", str(recorder.pid)], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        first = pathlib.Path(done.stdout.strip())
        self.assertEqual(self.steps(first), list(range(10)))
        self.assertEqual(self.summary(first)["notes"], {"damaged_header": 1})
        self.trace_steps(recorder, 5)
        _, said = recorder.communicate(timeout=60)
        self.assertIn("header was written over", said)
        last = self.trace / "snapshot-2"
        self.assertEqual(self.steps(last), list(range(10, 15)))
        self.assertEqual(self.summary(last)["notes"], {})  # the first has mended it


if __name__ == "__main__":
    unittest.main()
