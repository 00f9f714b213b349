#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-lock: boot
"""A machine without a disk: a program and the kernel are recorded in a guest that has nothing but a serial line, and the trace
is received on the other side: whole, and with noise on the line, of which each damaged frame is counted and all others arrive.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_serial.py 6.12 [TEST...]"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from guest import Guest, run_tests

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
VERSION = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else ""
sys.path.insert(0, str(SOURCE / "tests/support"))
from traced_program import compile_traced  # noqa: E402

PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <stdlib.h>
#include <unistd.h>
PLUMB_EVENT(serial, step, (u32, number))
int main(int count, char** arguments) {
    for (int i = 0; i < atoi(arguments[count - 1]); i++) {
        plumb_trace(serial, step, (unsigned)i);
        if (i % 50 == 49) usleep(1000);
    }
    return 0;
}
"""
STEPS = 3000


class Serial(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = Path(cls.temporary.name)
        line = cls.folder / "line"
        guest = Guest(VERSION, "tsc=reliable clocksource=tsc", second_line=line)
        guest.add(compile_traced(PROGRAM, cls.folder / "program"), "/bin/program")
        guest.add(BUILD / "cli/plumb", "/bin/plumb")
        guest.step("record", "mount -t tracefs tracefs /sys/kernel/tracing; "
                   "plumb record --json -o /tmp/trace --to serial:/dev/ttyS1 -k sched:sched_switch -- "
                   f"program {STEPS} >$RESULTS/said")
        results = guest.boot(cls.folder)
        result = results["record"]
        assert result.status == 0, result.out + result.error
        cls.summary = json.loads((result.folder / "said").read_text())
        cls.sent = line.read_bytes()

    def receive(self, name, line, status):
        file = self.folder / f"{name}.line"
        file.write_bytes(line)
        trace = self.folder / name
        done = subprocess.run([BUILD / "cli/plumb", "receive", file, "-o", trace], capture_output=True, text=True, timeout=100,
                              check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        shown = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        numbers = [int(number) for number in re.findall(r"serial:step: .*number = (\d+)", shown.stdout)]
        return done.stderr, numbers, shown

    def test_the_whole_arrives(self):
        said, numbers, shown = self.receive("whole", self.sent, 0)
        self.assertEqual(numbers, list(range(STEPS)))
        self.assertEqual((self.summary["events_lost"], "discarded" in shown.stderr, "Lost" in said), (0, False, False))
        switches = shown.stdout.count("sched_switch: ")
        self.assertEqual(switches, self.summary["events"] - STEPS)
        self.assertGreater(switches, 20)

    def test_noise_costs_what_it_hits(self):
        for seed in range(5):
            chance = random.Random(seed)
            noisy = bytearray(self.sent)
            for at in range(len(noisy)):
                if chance.random() < 0.00004:
                    noisy[at] ^= 1 << chance.randrange(8)
            said, numbers, shown = self.receive(f"noisy{seed}", bytes(noisy), 1)
            self.assertRegex(said, r"Lost: \d+ frames? did not arrive, or not whole")
            self.assertTrue(STEPS // 4 < len(numbers), (seed, len(numbers), said))
            self.assertEqual(numbers, sorted(set(numbers)))


if __name__ == "__main__":
    run_tests()
