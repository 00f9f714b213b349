#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 600
"""Typed events of Java code: each value arrives as it was given, none is lost, nothing is allocated, and what is off is nothing."""
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import babeltrace_exact  # noqa: E402
from recorded_program import BUILD, PLUMB, leave_out_if_sanitized  # noqa: E402

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
PROGRAMS = SOURCE / "tests/integration/java"
JAR = BUILD / "probes/java/java/plumb.jar"
if not JAR.exists() or not shutil.which("javac"):
    print("skipped: no JDK, or none when this was built (openjdk-17-jdk-headless)")
    sys.exit(77)

SCRATCH = tempfile.TemporaryDirectory(prefix="plumb-test-")
CLASSES = Path(SCRATCH.name)


def compile_java(*sources, to=CLASSES, options=("-parameters",)):
    subprocess.run(["javac", "-encoding", "UTF-8", *options, "-cp", JAR, "-d", to, *sources], check=True, timeout=200)


def setUpModule():
    compile_java(*PROGRAMS.glob("*.java"))
    unittest.addModuleCleanup(SCRATCH.cleanup)


def java(*words, classes=CLASSES, options=(), jar=JAR):
    return ["java", "-Xmx256m", *options, "-cp", f"{jar}:{classes}", *words]


def whole_number(text):
    """As JSON's numbers have it, -0 is one, and a float's."""
    return -0.0 if text == "-0" else int(text)


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="plumb-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.trace = self.folder / "trace"

    def record(self, *words, options=(), warns=False, **more):
        done = subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "-e", "shop:*", *options, "--", *java(*words, **more)],
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        if not warns:
            self.assertEqual(done.stderr, "")
        return done.stdout

    def events(self, *options):
        shown = subprocess.run([PLUMB, "view", "--json", *options, self.trace], capture_output=True, text=True, timeout=200, check=True)
        return [json.loads(line, parse_int=whole_number) for line in shown.stdout.split("\n") if line]

    def fields(self, name):
        return [event["fields"] for event in self.events() if event["event"] == f"shop:{name}"]

    def run_java(self, *words, **more):
        return subprocess.run(java(*words, **more), capture_output=True, text=True, timeout=100, check=False)


def comparable(value):
    """A float by its bits, but for those of a NaN; an enum by both that it is shown by."""
    if isinstance(value, dict) and "double" in value:
        number = struct.unpack("<d", struct.pack("<Q", value["double"]))[0]
        return "NaN" if math.isnan(number) else struct.pack("<d", number)
    if isinstance(value, dict) and "float" in value:
        number = struct.unpack("<f", struct.pack("<I", value["float"]))[0]
        return "NaN" if math.isnan(number) else struct.pack("<f", number)
    return value


def shown_as(value, given):
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
        self.assertEqual(self.fields("nothing"), [{}])
        self.assertEqual(self.fields("lists"), [{"bytes": [], "names": []}, {"bytes": [], "names": []},
                                                {"bytes": [255, 0, 128], "names": [0xd800, 0, 0xffff]}])
        self.assertEqual(self.fields("shown"), [{"word": 0xffffffff, "small": 255, "long": 2 ** 64 - 1}])
        # The other reader: text ends at its NUL there, and the length says what was behind.
        theirs = [event for event in babeltrace_exact.read(self.trace) if event.name.startswith("shop:")]
        ours = self.events()
        self.assertEqual([event.name for event in theirs], [event["event"] for event in ours])
        self.assertEqual([event.fields["customer"] for event in theirs if event.name == "shop:order"],
                         ["Köchin 小さい 🙂 ? ? ß ", "(null)", "", "ends in half ?"])
        shown = subprocess.run([PLUMB, "view", self.trace], capture_output=True, text=True, timeout=100, check=True).stdout
        self.assertIn("word = 0xffffffff, small = 255", shown)

    def test_what_is_too_long_is_cut_and_counted(self):
        self.record("TooLong", options=("--subbuf-size", "1M"), warns=True)
        texts = self.fields("text")
        most = 65528 - 16 - 8
        self.assertEqual([each["text"] for each in texts],
                         ["x" * 5000, "я" * 20000, "x" * most, "я" * (most // 2), "z" * (most - 1), "z" * (most - 1) + "y"])
        self.assertEqual([len(each["longs"]) for each in self.fields("longs")], [(65528 - 16 - 2) // 8, 3])
        summary = subprocess.run([PLUMB, "view", "--summary", self.trace], capture_output=True, text=True, timeout=100, check=True)
        self.assertRegex(summary.stdout, r"\b4 events cut\b")

    def test_level_and_condition(self):
        self.record("Edges", options=("--log-level", "info"))
        self.assertEqual({event["event"] for event in self.events()}, {"shop:order"})
        shutil.rmtree(self.trace)
        self.record("Edges", options=("--filter", 'customer == "(null)"'))
        self.assertEqual([event["fields"]["customer"] for event in self.events() if event["event"] == "shop:order"], ["(null)"])


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
