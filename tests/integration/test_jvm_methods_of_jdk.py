#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 900
"""Entry and exit of methods of the JDK, which the JVM itself calls, also while it records them: each class is one that it verifies, and what
runs on them does what it does without."""
import collections
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from called_methods import OTHER_JAVA, VERIFIED, Called, methods_words  # noqa: E402
from recorded_jvm import SOURCES, java, named, run, said, setUpModule, tearDownModule  # noqa: E402, F401

ENDED = "jvm:method_exit if duration_ns > 60000000000"  # on, and next to nothing


class OfTheJdk(Called):
    def check(self, *patterns):
        program = java("Calls", options=VERIFIED)
        bare = run(program)
        status, output, errors = self.record(
            program, options=("--jvm", "-e", "jvm:method_*", *methods_words(*patterns)), timeout=400)
        self.assertEqual((status, output), bare[:2], errors)
        return json.loads((self.trace / "summary.json").read_text())["events"]

    def test_hash_codes(self):
        self.assertGreater(self.check("java.lang.String::hashCode"), 1000)

    def test_objects(self):
        self.assertGreater(self.check("java.lang.Object::*"), 1000)

    def test_maps(self):
        self.assertGreater(self.check("java.util.HashMap::*", "java.util.concurrent.ConcurrentHashMap::*"), 1000)

    def test_threads(self):
        self.assertGreater(self.check("java.lang.Thread::*", "java.lang.ThreadGroup::*"), 20)

    def test_loaders_and_exceptions(self):
        self.assertGreater(self.check("java.lang.ClassLoader::*", "java.lang.Throwable::*", "jdk.internal.loader.*::*"), 100)

    def check_module(self, java_path, module):
        program = java("LoadsAll", module, options=VERIFIED)
        program[0] = java_path
        options = ("--jvm", "-e", ENDED, "-e", "jvm:method_pattern", "-e", "jvm:method_left_alone", "--jvm-methods-limit", "1000000",
                   *methods_words("*::*"))
        status, output, errors = self.record(program, options=options, timeout=800)
        self.assertEqual((status, said(output).get("refused")), (0, "0"), output + errors)
        events = self.events()
        reasons = collections.Counter(each["reason"] for each in named(events, "method_left_alone"))
        print(module, output, named(events, "method_pattern")[-1], reasons)
        self.assertLessEqual(set(reasons), {"it is native", "it has no code (abstract)", "its class is hidden: it can not be changed",
                                           "it is an empty finalize(): with a hook the JVM would keep each object until it was called"})
        self.assertGreater(named(events, "method_pattern")[-1]["methods"], 50000)

    def test_all_of_it(self):
        """Each method of each class of java.base, which the JVM verifies, and runs on meanwhile. (HotSpot's C2 ended here while the
        constructor of Object had a handler.)"""
        self.check_module("java", "java.base")

    def test_all_of_a_newer_one(self):
        if not OTHER_JAVA:
            self.skipTest("there is no newer JDK")
        self.check_module(str(OTHER_JAVA[-1]), "java.base")

    def test_a_compiler_compiles_the_same(self):
        written = {}
        for name in ("bare", "recorded"):
            folder = self.folder / name
            program = ["java", *VERIFIED, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-g", "-d", folder, *SOURCES.glob("*.java")]
            if name == "bare":
                done = run(program)
            else:
                done = self.record(program, options=("--jvm", "-e", "jvm:method_exit if duration_ns > 1000000", "-e", "jvm:method_pattern",
                                                     "--jvm-methods-limit", "100000", *methods_words("com.sun.tools.javac.*::*")), timeout=400)
            self.assertEqual(done[0], 0, done)
            written[name] = {path.name: path.read_bytes() for path in folder.iterdir()}
        self.assertEqual(written["bare"], written["recorded"])
        self.assertGreater(named(self.events(), "method_pattern")[-1]["methods"], 5000)


if __name__ == "__main__":
    unittest.main()
