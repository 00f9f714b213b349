#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
# cmake-of: probes/lttng
"""Records of LTTng-UST's programs that are made of all values at once: numbers of all sizes and strings, in any order and of any number, while
signals come, in sub-buffers that end all the time."""
import collections
import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from lttng_program import BUFFERS, NEWEST, PLUMB, PROGRAMS, LttngProgramTest, leave_out_if_not_built, lines_of, on_cycle_counter  # noqa: E402

LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCD"


def expected_value(field, i):
    """As layouts.h has it."""
    kind, place = (field[0], int(field[1:])) if field[0] == "s" else (field.split("_")[0], int(field.split("_")[1]))
    if kind == "s":
        return LETTERS[len(LETTERS) - (i + 7 * place & (1 << 64) - 1) % (len(LETTERS) + 1):]
    value = ((i + 1) * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> 7 * (place % 5)
    if kind == "f64":
        return float(value)
    bits = int(kind[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "i" and value >> bits - 1 else value


def of_json(trace):
    """What each event had for values, of `plumb view --json`."""
    found = collections.defaultdict(collections.Counter)
    with subprocess.Popen([PLUMB, "view", "--json", trace], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            event = json.loads(line)
            name, fields = event["event"], event.get("fields", {})
            if name.startswith("layouts:"):
                found[name, tuple(fields)][tuple(fields.values())] += 1
    assert process.returncode == 0
    return found


class Layouts(LttngProgramTest):
    def check(self, found, threads, rounds, handled):
        numbers = [*range(threads * rounds), *((1 << 64) - 2 - i for i in range(handled))]
        self.assertEqual(len(found), 37)
        for (name, fields), rows in found.items():
            expected = collections.Counter(tuple(expected_value(field, i) for field in fields) for i in numbers)
            if rows != expected:
                self.fail(f"{name} {fields}: {len(rows - expected)} rows that are not expected, such as "
                          f"{list((rows - expected).items())[:2]}; {sum((expected - rows).values())} are missing, such as "
                          f"{list((expected - rows).items())[:2]}")

    def record_layouts(self, threads, rounds, every_us, options=()):
        return int(self.record(PROGRAMS / "lttng_layouts", threads, rounds, every_us, options=options, before=on_cycle_counter(),
                               buffers=["--subbuf-size", "8K", "--subbuf-count", "64", *BUFFERS[4:]]))

    def test_babeltrace_reads_the_same(self):
        self.record_layouts(1, 50, 0)
        counts = collections.Counter(line.split(": ", 1)[0] for line in lines_of(self.trace))
        self.assertEqual(set(counts.values()), {50})
        self.check(of_json(self.trace), 1, 50, 0)

    def test_while_signals_come(self):
        """Which abort what is half written, and trace the same themselves."""
        handled = self.record_layouts(3, 3000, 300)
        self.assertGreater(handled, 20)
        self.check(of_json(self.trace), 3, 3000, handled)

    def test_without_packing(self):
        self.record_layouts(2, 1000, 0, options=["--plain"])
        self.check(of_json(self.trace), 2, 1000, 0)

    def test_other_clock(self):
        """Then no record goes the quickest way."""
        handled = self.record_layouts(2, 500, 500, options=["--clock", "mono"])
        self.check(of_json(self.trace), 2, 500, handled)


class Texts(LttngProgramTest):
    def test_nothing_behind_their_end_is_read(self):
        """Where a page ends with them, and none is behind it."""
        for program in (PROGRAMS / "lttng_page_end", NEWEST / "lttng_page_end"):
            if not program.exists():
                continue
            self.assertEqual(self.record(program), "done\n")
            found = re.findall(r'page_end:(\w+): .*text = "([^"]*)"', "\n".join(lines_of(self.trace)))
            sizes = [(f"array_{size}", size) for size in (1, 5, 16, 40)] + [("sequence", size) for size in range(1, 41)]
            expected = [(name, "e" * size) for name, size in sizes] + [(name, "e" * (size - 3 if size > 2 else size)) for name, size in sizes]
            # babeltrace2 shows an empty text as the one before.
            self.assertEqual([pair for pair, other in zip(found, expected) if other[1]], [pair for pair in expected if pair[1]])
            self.assertEqual(len(found), len(expected))

    def test_lengths_that_can_not_be_right(self):
        """Nothing is read by them, and the rest of the event is there."""
        subprocess.run([PLUMB, "record", *BUFFERS, "--preload", "lttng", "-o", self.trace, "--", PROGRAMS / "lttng_page_end", "wrong"], check=True,
                       capture_output=True, timeout=60)
        summary = json.loads((self.trace / "summary.json").read_text())
        self.assertEqual((summary["events"], summary["events_lost"]), (9, 0))
        shown = subprocess.run([PLUMB, "view", "--json", self.trace], capture_output=True, text=True, check=True)
        events = [json.loads(line)["fields"] for line in shown.stdout.splitlines()]
        self.assertEqual([each["length"] for each in events], [0, 16, 1 << 20, 1 << 31, 1 << 40, 1 << 63, *((1 << 64) - n for n in (64, 16, 1))])
        for each in events:
            right = each["length"] if each["length"] == 16 else 0
            self.assertEqual((each["first"], len(each["bytes"]), each["text"], each["again"]), ([101] * 32, right, "e" * right, each["length"]))

    def test_arrays_that_fill_a_record(self):
        """They are cut, and what is not in the way is whole."""
        command = [PLUMB, "record", *BUFFERS, "--preload", "lttng", "-o", self.trace, "--", PROGRAMS / "lttng_page_end", "long"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 events cut", done.stderr)
        self.assertNotIn("damaged", done.stderr)
        shown = subprocess.run([PLUMB, "view", "--json", "-e", "page_end:long_*", self.trace], capture_output=True, text=True, check=True)
        events = {event["event"]: event["fields"] for event in map(json.loads, shown.stdout.splitlines())}
        self.assertEqual({name: fields["number"] for name, fields in events.items()}, {"page_end:long_array": 7, "page_end:long_arrays": 8})
        array = events["page_end:long_array"]["bytes"]
        self.assertGreater(len(array), 60000)
        self.assertEqual(array, [i % 251 for i in range(len(array))])
        self.assertEqual(events["page_end:long_arrays"]["first"], [i % 251 for i in range(30000)])
        self.assertGreater(len(events["page_end:long_arrays"]["second"]), 10000)


if __name__ == "__main__":
    leave_out_if_not_built()
    unittest.main()
