#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 600
"""Typed events of Java code: each value arrives as it was given, none is lost, nothing is allocated, and what is off is nothing."""
import json
import math
import re
import shutil
import struct
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import babeltrace_exact  # noqa: E402
from emitting_java import SOURCE, InFolder, compile_java, java, newer_java, setUpModule  # noqa: E402, F401
from recorded_program import PLUMB, leave_out_if_sanitized  # noqa: E402


def comparable(value):
    """A float by its bits, but for those of a NaN; an enum by both that it is shown by."""
    if isinstance(value, list):
        return [comparable(each) for each in value]
    if isinstance(value, dict) and "double" in value:
        number = struct.unpack("<d", struct.pack("<Q", value["double"]))[0]
        return "NaN" if math.isnan(number) else struct.pack("<d", number)
    if isinstance(value, dict) and "float" in value:
        number = struct.unpack("<f", struct.pack("<I", value["float"]))[0]
        return "NaN" if math.isnan(number) else struct.pack("<f", number)
    return value


def shown_as(value, given):
    if isinstance(given, list):
        return [shown_as(*both) for both in zip(value, given)] + value[len(given):]
    special = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    if isinstance(given, dict) and ("double" in given or "float" in given):
        number = special.get(value, value)
        if math.isnan(number):
            return "NaN"
        return struct.pack("<d" if "double" in given else "<f", number)
    return value


class Fields(InFolder):
    def test_each_arrives_exactly(self):
        said = [json.loads(line) for line in self.record("Fields").splitlines()]
        events = self.events()
        self.assertEqual(len(events), len(said))
        self.assertGreater(len(said), 4000)
        for event, (name, given) in zip(events, said):
            self.assertEqual(event["event"], name)
            self.assertEqual(list(event["fields"]), list(given))
            for field, value in given.items():
                self.assertEqual(shown_as(event["fields"][field], value), comparable(value), (name, field))

    def test_edges(self):
        self.record("Edges")
        order = self.fields("order")
        self.assertEqual([each["customer"] for each in order],
                         ["Köchin 小さい 🙂 ? ? ß \0 nul", "(null)", "", "ends in half ?"])
        self.assertEqual([each["total"] for each in order], ["NaN", "Infinity", "-Infinity", -0.0])
        self.assertEqual(math.copysign(1, order[3]["total"]), -1)
        self.assertEqual(self.fields("state"), [{"was": {"value": -1, "label": "null"}, "is": {"value": 2, "label": "größer"}}])
        self.assertEqual(self.fields("both"), [{"id": 5}])
        self.assertEqual(self.fields("nothing"), [{}])
        self.assertEqual(self.fields("lists"), [{"bytes": [], "names": [], "totals": []}] * 2 +
                         [{"bytes": [255, 0, 128], "names": [0xd800, 0, 0xffff], "totals": [0.1, "NaN", -0.0]}])
        self.assertEqual(self.fields("shown"), [{"word": 0xffffffff, "small": 255, "long": 2 ** 64 - 1}])
        # The other reader: text ends at its NUL there, and the length says what was behind.
        theirs = [event for event in babeltrace_exact.read(self.trace) if event.name.startswith("shop:")]
        ours = self.events()
        self.assertEqual([event.name for event in theirs], [event["event"] for event in ours])
        (last,) = [event.fields["totals"] for event in theirs if event.name == "shop:lists" and event.fields["totals"]]
        self.assertEqual((float(last[0]), math.isnan(last[1]), len(last)), (0.1, True, 3))
        self.assertEqual([event.fields["customer"] for event in theirs if event.name == "shop:order"],
                         ["Köchin 小さい 🙂 ? ? ß ", "(null)", "", "ends in half ?"])
        shown = subprocess.run([PLUMB, "view", self.trace], capture_output=True, text=True, timeout=100, check=True).stdout
        self.assertIn("word = 0xffffffff, small = 255", shown)

    def test_what_is_too_long_is_cut_and_counted(self):
        self.record("TooLong", options=("--subbuf-size", "1M"), warns=True)
        texts = self.fields("text")
        most = 65528 - 16 - 8
        cut = most - 8  # where more than one field is there to be cut
        self.assertEqual([each["text"] for each in texts],
                         ["x" * 5000, "я" * 20000, "x" * most, "я" * ((cut - 4) // 2), "z" * (cut - 2), "z" * (most - 1) + "y",
                          "я" * ((cut - 10000) // 2), "x" * 4095 + "🙂" + "x" * 9000 + "é" + "x" * 5000, "я" * 2047 + "🙂" + "小" * 2000])
        self.assertEqual([each["behind"] for each in texts],
                         ["", "", "", "none", "я", "", "é" * 5000, "x" * 4097, "я" * 2048 + "?"])
        self.assertEqual([len(each["longs"]) for each in self.fields("longs")], [(65528 - 16 - 2) // 8, 3])
        summary = subprocess.run([PLUMB, "view", "--summary", self.trace], capture_output=True, text=True, timeout=100, check=True)
        self.assertRegex(summary.stdout, r"\b5 events cut\b")

    def test_level_and_condition(self):
        self.record("Edges", options=("--log-level", "info"))
        self.assertEqual({event["event"] for event in self.events()}, {"shop:order"})
        shutil.rmtree(self.trace)
        self.record("Edges", options=("--filter", 'customer == "(null)"'))
        self.assertEqual([event["fields"]["customer"] for event in self.events() if event["event"] == "shop:order"], ["(null)"])
        shutil.rmtree(self.trace)
        # An element that is a floating-point number has no value for a program's filter; its bits would be some number.
        self.record("Edges", options=("--filter", 'customer == "(null)" || totals[0] != 5'), warns=True)
        self.assertEqual({event["event"] for event in self.events()}, {"shop:order"})


class Many(InFolder):
    def test_a_million_of_eight_threads(self):
        each = 125000
        self.record("Many", "threads", str(each), options=("--mode", "block"))
        numbers = [[] for _ in range(8)]
        with subprocess.Popen([PLUMB, "view", "--json", self.trace], stdout=subprocess.PIPE, text=True) as view:
            for line in view.stdout:
                event = json.loads(line)
                fields = event["fields"]
                if event["event"] == "shop:number":
                    numbers[fields["thread"]].append(fields["number"])
                else:
                    number = fields["items"][1]
                    self.assertEqual(fields, {"id": fields["id"], "customer": f"customer {number}", "total": number,
                                              "items": [fields["id"], number]})
                    numbers[fields["id"]].append(number)
        self.assertEqual(view.returncode, 0)
        for own in numbers:
            self.assertEqual(own, list(range(each)))

    def test_nothing_is_allocated(self):
        said = self.record("Many", "allocation", options=("--mode", "block", "-e", "shop:*"))
        self.assertEqual(said, "0\n0\n")
        self.assertEqual(self.run_java("Many", "allocation").stdout, "0\n0\n")
        self.assertEqual(len(self.events()), 2 * (10 * 100 + 100000 + 10 * 1000))


    def test_virtual_threads(self):
        newer = newer_java()
        if newer is None:
            self.skipTest("no Java 21 or newer in /usr/lib/jvm")
        each = 200
        command = java("Many", "virtual", str(each), options=("--enable-native-access=ALL-UNNAMED",))
        done = subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "-e", "shop:*", "--mode", "block", "--", newer, *command[1:]],
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        orders = [[] for _ in range(200)]
        for order in self.fields("order"):
            orders[order["id"]].append((order["customer"], order["total"], order["items"]))
        for own, found in enumerate(orders):
            self.assertEqual(found, [(f"customer {number}", number, [own, number]) for number in range(each)])


class Documented(InFolder):
    def test_the_examples_of_the_docs(self):
        text = (SOURCE / "docs/java-events.md").read_text()
        shop, stock = re.findall(r"^```java\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        for name, example in (("Shop", shop), ("Stock", stock)):
            (self.folder / f"{name}.java").write_text(example)
            compile_java(self.folder / f"{name}.java", to=self.folder)
            shutil.rmtree(self.trace, ignore_errors=True)
            self.record(name, classes=self.folder)
            (event,) = [event for event in babeltrace_exact.read(self.trace) if event.name.startswith("shop:")]
            expected = {"Shop": ("shop:order", {"id": 7, "customer": "bob", "total": 12.5}), "Stock": ("shop:stock", {"items": 42})}[name]
            self.assertEqual((event.name, {key: value for key, value in event.fields.items() if key in expected[1]}), expected)
            if name == "Shop":
                shown = subprocess.run([PLUMB, "view", self.trace], capture_output=True, text=True, timeout=100, check=True).stdout
                self.assertIn(re.search(r"shop:order: \{.*", text)[0].rsplit(", { ", 1)[1], shown)


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
