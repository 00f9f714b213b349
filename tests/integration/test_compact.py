#!/usr/bin/env python3
# cmake-once
"""A compact trace holds what the program traced, for babeltrace2 and plumb view, also of a recorder that was killed."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["PLUMB_SOURCE_DIR"]) / "tests/support"))
from traced_program import TracedProgramTest, compile_traced  # noqa: E402

PLUMB = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
ROUNDS = 5000


class Compact(TracedProgramTest):
    # More kinds than the smallest header has numbers for.
    KINDS = "".join(f"PLUMB_EVENT(many, e{i}, (u64, n), (string, text))\n" for i in range(40))
    PROGRAM = f"""
#include <plumb/tracepoint.h>
#include <stdlib.h>
#include <unistd.h>
{KINDS}
int main(int count, char **arguments) {{
    long rounds = atol(arguments[1]);
    for (long n = 0; rounds == 0 || n < rounds; n++) {{
        {"".join(f'plumb_trace(many, e{i}, n, "text {i}");' for i in range(0, 40, 3))}
        if (count > 2 && n % 1000 == 0) usleep(100000); /* longer than the smallest header can say */
    }}
    return 0;
}}
"""

    def lines(self):
        return subprocess.run(["babeltrace2", "--no-delta", self.trace], capture_output=True, text=True, timeout=120,
                              check=True).stdout.splitlines()

    def test_holds_every_event_with_its_values(self):
        subprocess.run([PLUMB, "record", "-q", "--mode", "block", "-o", self.trace, "--",
                        self.program, str(ROUNDS), "slowly"], check=True, timeout=120)
        pattern = re.compile(r'many:e(\d+): .*{ n = (\d+), text = "text (\d+)" }$')
        found = [tuple(map(int, match.groups())) for match in map(pattern.search, self.lines()) if match]
        self.assertEqual(found, [(i, n, i) for n in range(ROUNDS) for i in range(0, 40, 3)])
        shown = subprocess.run([PLUMB, "view", "--json", self.trace], capture_output=True, text=True, timeout=120,
                               check=True).stdout.splitlines()
        events = [json.loads(line) for line in shown]
        self.assertEqual([(int(event["event"].removeprefix("many:e")), event["fields"]["n"],
                           int(event["fields"]["text"].removeprefix("text "))) for event in events], found)
        times = [event["timestamp_ns"] for event in events]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[-1] - times[0], 400_000_000)

    def test_plain_records_are_as_they_lie_in_the_rings(self):
        layouts = {}
        for option in ((), ("--plain",)):
            subprocess.run([PLUMB, "record", "-q", "--force", *option, "--mode", "block", "-o", self.trace, "--",
                            self.program, "100"], check=True, timeout=120)
            self.assertEqual(len([line for line in self.lines() if "many:e" in line]), 100 * len(range(0, 40, 3)))
            packets = sum(file.stat().st_size for file in (self.trace / "ust").glob("*ring_*"))
            layouts[option] = ("compact" in (self.trace / "ust/metadata").read_text(), packets)
        self.assertTrue(layouts[()][0])
        self.assertFalse(layouts["--plain",][0])
        self.assertGreater(layouts["--plain",][1], layouts[()][1])

    def test_of_a_killed_recorder_can_be_read(self):
        with subprocess.Popen([PLUMB, "record", "-q", "-o", self.trace, "--", self.program, "0"],
                              process_group=0) as recorder:
            stream = self.trace / "ust"
            while sum(file.stat().st_size for file in stream.glob("*ring_*")) < 4_000_000:
                self.assertIsNone(recorder.poll())
                time.sleep(0.01)
            recorder.kill()
        os.killpg(recorder.pid, signal.SIGKILL)  # the program
        numbers = [int(n) for n in re.findall(r"many:e0: .*{ n = (\d+),", "\n".join(self.lines()))]
        self.assertGreater(len(numbers), 1000)
        self.assertEqual(numbers, sorted(numbers))


if __name__ == "__main__":
    unittest.main()
