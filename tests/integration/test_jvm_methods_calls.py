#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 600
"""Entry and exit of methods that are asked for by name, however the JVM runs them (each collector, interpreted, compiled): each call is told,
in what order, how it ended; the JVM verifies what it is given in place of its classes, and the program does what it does without."""
import collections
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from called_methods import OTHER_JAVA, VERIFIED, Called, counts_of, methods_words  # noqa: E402
from recorded_jvm import WithEachCollector, java, named, run, setUpModule, tearDownModule  # noqa: E402, F401

OWN = {"Base.init": ("Calls$Base", "<init>"), "Derived.one": ("Calls$Derived", "<init>", "(I)V"), "Late.clinit": ("Calls$Late", "<clinit>"),
       "compareTo": ("Calls$Derived", "compareTo", "(LCalls$Derived;)I"), "area": ("Calls$Shape", "area"), "of": ("Calls$Shape", "of"),
       "plain": ("Calls$Kind", "size"), "large": ("Calls$Kind$1", "size"), "lambda": ("Calls", "lambda$applied")}


class Recorded(WithEachCollector, Called):
    """Against what the program itself counts, with each collector, and interpreted."""

    def check_methods(self, calls, counts):
        told = collections.Counter()
        for call in calls:
            for key in ((call["class_name"], call["method"]), (call["class_name"], call["method"], call["signature"])):
                told[key] += 1
            if call["method"].startswith("lambda$applied"):
                told["Calls", "lambda$applied"] += 1
        for name, count in counts.items():
            if not name.startswith("threw ") and name not in ("Derived.init", "Inner.init"):  # which return in between
                self.assertEqual(told[OWN.get(name, ("Calls", name))], count, name)
        rounds = counts["greatest"]
        self.assertEqual(told["Calls$Derived", "<init>", "(ZI)V"], rounds * (6 + 6 + 4 - 2))  # two threw in this()
        self.assertEqual(told["Calls$Derived", "compareTo", "(Ljava/lang/Object;)I"], told["Calls$Derived", "compareTo", "(LCalls$Derived;)I"])
        self.assertEqual(told["Calls$Inner", "<init>"], rounds * 2)
        self.assertEqual(told["Calls", "round"], rounds)

    def check_exceptions(self, calls, counts):
        thrown = collections.Counter((call["class_name"], call["method"], call["exception"]) for call in calls if call["exception"])
        rounds = counts["greatest"]
        state, argument = "java.lang.IllegalStateException", "java.lang.IllegalArgumentException"
        self.assertEqual({key: count for key, count in thrown.items() if not key[1].startswith("lambda$")}, {
            ("Calls", "thrower", state): rounds * 21, ("Calls", "table", argument): rounds * 1, ("Calls", "texts", state): rounds,
            ("Calls", "guarded", "java.lang.OutOfMemoryError"): rounds, ("Calls", "inObject", state): rounds,
            ("Calls$Base", "<init>", state): rounds * 3, ("Calls$Pair", "<init>", argument): rounds})
        lambdas = sum(count for key, count in thrown.items() if key[1].startswith("lambda$"))
        self.assertEqual(lambdas, sum(count for name, count in counts.items() if name.startswith("threw ")))

    def check_all(self, *options, java_path="java"):
        program = java("Calls", options=(*VERIFIED, *options))
        program[0] = java_path
        bare = run(program)
        self.assertEqual(bare[0], 7, bare)
        status, output, errors = self.record(program, options=("--jvm", "-e", "jvm:method_*", *methods_words("Calls*::*")))
        self.assertEqual((status, output), bare[:2], errors)
        events, counts = self.events(), counts_of(output)
        calls = self.calls(events)
        self.assertLessEqual(set(self.open), {"main"})  # it exits
        self.check_methods(calls, counts)
        self.check_exceptions(calls, counts)
        for each in calls:
            self.assertTrue(0 < each["duration_ns"] < 100_000_000_000, each)
        patterns = named(events, "method_pattern")
        self.assertEqual((patterns[-1]["pattern"], patterns[-1]["left_alone"]), ("Calls*::*", 2))  # abstract: Shape.side(), Part.run()
        self.assertGreater(patterns[-1]["methods"], 50)
        self.assertEqual({each["reason"] for each in named(events, "method_left_alone")}, {"it has no code (abstract)"})

    def test_interpreted(self):
        self.check_all("-Xint")

    def test_compiled(self):
        self.check_all("-Xcomp", "-XX:TieredStopAtLevel=1")

    def test_compiled_by_c2(self):
        self.check_all("-XX:-TieredCompilation", "-XX:CompileThreshold=200")

    def test_nothing_to_complain_of(self):
        """-Xcheck:jni prints where JNI is used in a way that is not allowed."""
        self.check_all("-Xcheck:jni")

    def test_newer_java(self):
        if not OTHER_JAVA:
            self.skipTest("there is no newer JDK")
        self.check_all(java_path=str(OTHER_JAVA[-1]))


if __name__ == "__main__":
    unittest.main()
