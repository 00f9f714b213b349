#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""Recordings of one JVM that overlap: each is told of what it has seen the begin of, and once of what was there before it."""
import collections
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_jvm import InFolder, named, setUpModule, tearDownModule  # noqa: E402, F401

PAIRS = (("monitor_wait", "monitor_waited"), ("park", "parked"), ("monitor_contended_enter", "monitor_contended_entered"),
         ("method_entry", "method_exit"))
EVENTS = ["--jvm-methods", "Waits::slow"]
for kind in ("monitor_*", "park*", "method_*", "thread_*", "compiled_method_*", "dynamic_code_generated"):
    EVENTS += ["-e", "jvm:" + kind]


class Overlapping(InFolder):
    def check_pairs(self, events, who):
        for begin, end in PAIRS:
            begun = {each["id"] for each in named(events, begin)}
            ends = [each["id"] for each in named(events, end)]
            self.assertGreater(len(ends), 0, (who, end))
            self.assertEqual([each for each in ends if each not in begun], [], (who, end))

    def check_threads(self, events, who):
        told = collections.Counter(each["java_thread_id"] for kind in ("thread_running", "thread_start") for each in named(events, kind))
        self.assertGreater(len(told), 20, who)  # on a machine that is busy
        self.assertEqual([each for each, times in told.items() if times > 1], [], who)

    def check_code(self, events, who):
        there, told = {}, collections.Counter()
        for each in events:
            fields = {name: each.fields[name] for name in each.fields if name not in ("cpu_id", "vtid", "tid")}
            if each.name == "jvm:compiled_method_load":
                self.assertNotEqual(there.get(fields["code"]), fields, who)
                there[fields["code"]] = fields
            elif each.name == "jvm:compiled_method_unload":
                self.assertIsNotNone(there.pop(fields["code"], None), (who, fields))
            elif each.name == "jvm:dynamic_code_generated":
                told[tuple(sorted(fields.items()))] += 1
        self.assertGreater(len(there), 20, who)
        self.assertGreater(len(told), 100, who)
        self.assertEqual(set(told.values()), {1}, who)

    def test_nobody_is_told_for_another(self):
        server = self.serve("Waits")
        early, late = self.folder / "early", self.folder / "late"
        self.trace = early
        first = self.attach_begin(server, *EVENTS, seconds=1.5)
        for number in range(3):
            self.trace = late
            status, _, errors = self.attach(server, 1.5, *EVENTS)
            self.assertEqual(status, 0, errors)
            self.check_all((number, "late"))
        self.trace = early
        self.attach_end(first)
        self.check_all("early")
        self.finish(server)

    def check_all(self, who):
        events = self.events()
        self.check_pairs(events, who)
        self.check_threads(events, who)
        self.check_code(events, who)


if __name__ == "__main__":
    unittest.main()
