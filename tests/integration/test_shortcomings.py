#!/usr/bin/env python3
# cmake-once
"""What a recording does not have whole is told by a cause of its own, with what to do about it: kinds of events that a
session has no room for, and events that were cut. Then nobody says that nothing was lost."""
import json
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from traced_program import BUILD, TracedProgramTest, compile_traced  # noqa: E402

PLUMB = BUILD / "cli" / "plumb"
ROOM = 4095  # kinds of events in a session
KINDS = ROOM + 5

# Kinds of events that are never written, and one event that is longer than a quarter of a small sub-buffer.
SOURCE = "#include <plumb/tracepoint.h>\nPLUMB_EVENT(shop, note, (string, words))\n" + \
    "".join(f"PLUMB_EVENT(many, e{i})\n" for i in range(KINDS)) + "int main(void) {\nstatic char words[20000];\n" \
    "__builtin_memset(words, 'x', sizeof words - 1);\nplumb_trace(shop, note, words);\nreturn 0;\n}\n"


class Shortcomings(TracedProgramTest):
    PROGRAM = "int main(void) { return 0; }"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.many = compile_traced(SOURCE, cls.folder / "many", "-O0")

    def plumb(self, *arguments):
        return subprocess.run([PLUMB, *map(str, arguments)], capture_output=True, text=True, timeout=100, check=False)

    def test_more_kinds_of_events_than_a_session_has_room_for(self):
        done = self.plumb("record", "-e", "many:*", "-o", self.trace, "--", self.many)
        self.assertEqual(done.returncode, 1, done.stderr)
        summary = json.loads((self.trace / "summary.json").read_text())
        times, rest = divmod(summary["not_switched_on"]["event_slots"], KINDS - ROOM)
        self.assertEqual((times > 0, rest), (True, 0))  # counted each time that the program tries
        self.assertFalse(summary["complete"])
        self.assertIn(" events not_switched_on, each counted as often as its program tried (a session has room for 4,095 kinds of events", done.stderr)
        self.assertNotIn("Nothing was lost", done.stderr)
        self.assertIn(" events not_switched_on", self.plumb("view", "--summary", self.trace).stdout)

    def test_events_that_were_cut(self):
        done = self.plumb("record", "-e", "shop:*", "--subbuf-size", "32K", "-o", self.trace, "--", self.many)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 event cut (", done.stderr)
        self.assertIn("--subbuf-size", done.stderr)
        self.assertNotIn("Nothing was lost", done.stderr)
        self.assertIn("1 event cut (", self.plumb("view", "--summary", self.trace).stdout)

    def test_one_that_is_whole(self):
        done = self.plumb("record", "-e", "shop:*", "-o", self.trace, "--", self.many)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Nothing was lost.", done.stderr)
        self.assertTrue(json.loads((self.trace / "summary.json").read_text())["complete"])


if __name__ == "__main__":
    unittest.main()
