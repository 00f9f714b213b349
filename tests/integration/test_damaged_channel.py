#!/usr/bin/env python3
# cmake-once
"""A traced program writes over its channel's header: what can be read is written, others can read it, and the damage is named."""
import json
import os
import pathlib
import re
import shutil
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


class Extracted(DamagedChannel):
    """What a killed recorder left, with one word of the clock page written over."""
    WORDS = {"mode": (4, "I"), "mult": (8, "I"), "shift": (12, "I"), "base_cycles": (16, "Q"), "base_monotonic_ns": (24, "Q"),
             "realtime_offset_ns": (32, "Q"), "frequency_hz": (40, "Q")}

    def leave(self, clock):
        """Bytes of a channel that nobody has read."""
        shutil.rmtree(self.trace, ignore_errors=True)
        recorder = self.start("--clock", clock)
        recorder.send_signal(signal.SIGSTOP)
        self.trace_steps(recorder, 100)
        content = self.channel.read_bytes()
        self.end(recorder)
        return content

    def extract(self, content, **values):
        damaged = bytearray(content)
        for word, value in values.items():
            offset, kind = self.WORDS[word]
            struct.pack_into("<" + kind, damaged, CLOCK_PAGE + offset, value)
        copy = self.folder / "copy"
        copy.write_bytes(damaged)
        done = subprocess.run([PLUMB, "extract", "--force", "-o", self.trace, copy], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        read = subprocess.run(["babeltrace2", "--clock-seconds", self.trace], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual((read.returncode, read.stderr), (0, ""), values)
        self.assertEqual([int(number) for number in re.findall(r" damage:step: .*number = (\d+)", read.stdout)][-100:],
                         list(range(10, 110)), values)
        for second in re.findall(r"^\[(\d+\.\d+)\]", read.stdout, re.MULTILINE):
            self.assertLess(abs(float(second) - time.time()), 600, (values, second))
        is_told = "wrote over the channel's clock" in done.stderr
        self.assertEqual(self.summary(self.trace)["notes"].get("damaged_clock"), 1 if is_told else None)
        return is_told

    def test_a_clock_that_is_whole_is_left_alone(self):
        for clock in ["mono", "boot", "real"]:
            self.assertFalse(self.extract(self.leave(clock)), clock)

    def test_a_damaged_clock_is_replaced_by_what_is_known(self):
        for clock in ["mono", "real"]:
            content = self.leave(clock)
            for word in self.WORDS:
                self.assertTrue(self.extract(content, **{word: 0xffff_fff0}), (clock, word))
            self.extract(content, frequency_hz=0, base_monotonic_ns=1 << 63, base_cycles=1 << 62)

    def test_so_is_the_rate_of_the_cycle_counter(self):
        if subprocess.run([PLUMB, "record", "-q", "--clock", "tsc", "-o", self.trace, "timeout", "9", "true"], capture_output=True,
                          check=False).returncode != 0:
            self.skipTest("no cycle counter to record by")
        content = self.leave("tsc")
        self.assertFalse(self.extract(content))
        for word in self.WORDS:
            self.extract(content, **{word: 0})
        self.extract(content, mult=0, frequency_hz=1)


if __name__ == "__main__":
    unittest.main()
