#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""The owner of a monitor or a lock has the name that its thread has when somebody waits for it, whatever it was called at its start."""
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_jvm import InFolder, java, named  # noqa: E402
from recorded_jvm import setUpModule, tearDownModule  # noqa: E402, F401


class Renamed(InFolder):
    def check(self, events, kind, what):
        """A thread that has just taken it may still be called as before."""
        started = {each["java_thread_id"]: each["name"] for each in named(events, "thread_start")}
        told = [each for each in named(events, kind) if re.match(r"t\d+\Z", started.get(each["owner_java_thread_id"], ""))]
        self.assertGreater(len(told), 100)
        for each in told:
            self.assertEqual(each["owner_name"].split("-")[0], started[each["owner_java_thread_id"]])
        now = [each for each in told if f"-{what}-" in each["owner_name"]]
        self.assertGreater(len(now), 0.8 * len(told), told[:3])
        self.assertGreater(len({each["owner_name"] for each in now}), 100)

    def check_all(self, *options):
        status, _, errors = self.record(java("Renamed", options=options))
        self.assertEqual(status, 0, errors)
        events = self.events()
        self.check(events, "monitor_contended_enter", "monitor")
        self.check(events, "park", "lock")

    def test_owners_are_called_as_they_are_now(self):
        self.check_all()

    def test_interpreted(self):
        self.check_all("-Xint")

    def test_while_the_jvm_checks_what_is_asked_of_it(self):
        self.check_all("-XX:+UseZGC", "-Xcheck:jni")


if __name__ == "__main__":
    unittest.main()
