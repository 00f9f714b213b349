#!/usr/bin/env python3
# cmake-once
"""Log levels of rules: up to one, one alone, from one to another; by `plumb record`, `plumb stat` and sessions that are kept."""
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(os.environ["PLUMB_SOURCE_DIR"]) / "tests/support"))
from babeltrace import events  # noqa: E402
from traced_program import BUILD, TracedProgramTest  # noqa: E402

PLUMB = BUILD / "cli/plumb"
LEVELS = ("crit", "err", "warning", "notice", "info")


class LogLevels(TracedProgramTest):
    # One event of each level, and one that has none of its own.
    PROGRAM = "#include <plumb/tracepoint.h>\n" + "".join(
        f"PLUMB_EVENT_LEVEL(level, {name}, PLUMB_{name.upper()}, (u64, id))\n" for name in LEVELS) + """
PLUMB_EVENT(level, plain, (u64, id))
int main(void) {""" + "".join(f" plumb_trace(level, {name}, 1);" for name in (*LEVELS, "plain")) + " }\n"

    def plumb(self, *words, status=0):
        done = subprocess.run([PLUMB, *map(str, words)], capture_output=True, text=True, check=False, timeout=60,
                              env={**os.environ, "PLUMB_CONSUMERD": str(PLUMB.parent / "plumb-consumerd")})
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def names(self, trace):
        return [event.name.split(":")[1] for event in events(trace) if event.name.startswith("level:")]

    def test_recorded(self):
        for number, (words, expected) in enumerate((
                (("--log-level", "warning"), ["crit", "err", "warning"]), (("--log-level-only", "warning"), ["warning"]),
                (("--log-level", "ERR..WARNING"), ["err", "warning"]), (("--log-level", "3..5"), ["err", "warning", "notice"]),
                (("--log-level", "notice.."), ["notice", "info", "plain"]), (("--log-level", "..err"), ["crit", "err"]))):
            with self.subTest(words=words):
                trace = f"{self.trace}-{number}"
                self.plumb("record", "-q", "-o", trace, *words, "--", self.program)
                self.assertEqual(self.names(trace), expected)

    def test_counted(self):
        said = self.plumb("stat", "--json", "--log-level", "err..notice", "--", self.program).stdout
        self.assertEqual(sorted(each["event"] for each in json.loads(said)["events"]), ["level:err", "level:notice", "level:warning"])

    def test_sessions_that_are_kept(self):
        self.plumb("create", "levels", "-o", self.trace)
        self.addCleanup(self.plumb, "destroy", "levels")
        self.plumb("enable", "levels", "level:*", "--log-level", "err..warning")
        self.plumb("enable", "levels", "level:*", "--log-level-only", "info")
        self.plumb("start", "levels")
        subprocess.run([self.program], check=True)
        rules = json.loads(self.plumb("save", "levels").stdout)["rules"]
        self.assertEqual(rules, [{"event": "level:*", "log_level": "err..warning"}, {"event": "level:*", "log_level": "info..info"}])
        status = self.plumb("status", "levels").stdout
        self.assertIn("err to warning", status)
        self.assertIn("info alone", status)
        self.plumb("disable", "levels", "level:*", "--log-level-only", "info")
        subprocess.run([self.program], check=True)
        self.plumb("stop", "levels")
        self.assertEqual(self.names(self.trace), ["err", "warning", "info", "err", "warning"])

    def test_what_makes_no_sense_is_refused(self):
        for words, why in ((("--log-level", "warning..err"), "The more severe one comes first: err..warning"),
                           (("--log-level", "loud"), "There is no log level 'loud'"),
                           (("--log-level-only", "err..warning"), "There is no log level 'err..warning'"),
                           (("--log-level-only", "err", "--log-level", "err"), "--log-level")):
            for command in ("record", "stat"):
                done = self.plumb(command, *words, "--", self.program, status=2)
                self.assertIn(why, done.stderr)
                self.assertFalse(self.trace.exists())

    def test_what_is_left_out_is_told(self):
        done = self.plumb("record", "-o", self.trace, "--log-level-only", "debug", "--", self.program, status=1)
        self.assertIn("--log-level debug..debug leaves out", done.stderr)


if __name__ == "__main__":
    unittest.main()
