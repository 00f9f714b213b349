#!/usr/bin/env python3
# cmake-once
"""Words that can not be meant are refused, before anything is made, with what is wanted: an empty variable of a script, a
letter in a number, a glob that matches nothing, `--` with no command."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]) / "cli" / "plumb"


class Refused(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="plumb-options-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def refused(self, why, *arguments):
        done = subprocess.run([PLUMB, *arguments], capture_output=True, text=True, timeout=60, check=False, cwd=self.folder)
        self.assertNotEqual(done.returncode, 0, arguments)
        self.assertIn(why, done.stderr, arguments)
        self.assertEqual(os.listdir(self.folder), [], arguments)

    def test_empty_words(self):
        for option in ("--log-level", "--subbuf-size", "-o", "--name", "--kernel-pages"):
            self.refused("it is empty", "record", option, "", "--", "true")
        self.refused('"" is not a number of sub-buffers', "record", "--subbuf-count", "", "--", "true")
        self.refused("it is empty", "view", "--since", "", ".")
        self.refused("it is empty", "extract", "-o", "")

    def test_globs_that_match_nothing(self):
        for glob in ("", "[", "[!]", "a\\"):
            self.refused("can not be an executable", "record", "--exe", glob, "--duration", "1ms")
        for arguments in (("view", "-e", "[", "."), ("view", "--comm", "[", "."), ("list", "-e", "["), ("list", "-e", "!")):
            self.refused("can not match anything", *arguments)
        self.refused("more than one colon", "record", "-e", "a:b:c", "--", "true")

    def test_numbers(self):
        self.refused('--pid: "abc" is not a process id', "record", "-p", "abc")
        self.refused('--pid: "" is not a process id', "view", "--pid", "", ".")
        self.refused('--tid: "x" is not a thread id', "view", "--tid", "x", ".")
        for number in ("0", "-1", "many"):
            self.refused(f'--limit: "{number}" is not a number of events', "view", "-n", number, ".")
        self.refused('"abc" is not a process id', "snapshot", "abc")

    def test_no_command(self):
        self.refused("there is no command behind --", "record", "-o", "trace", "--")
        self.refused("the command's name is empty", "record", "-o", "trace", "--", "")

    def test_names(self):
        self.refused('There is no user "nobody-of-that-name"', "extract", "--user", "nobody-of-that-name")
        done = subprocess.run([PLUMB, "record", "--preload", "foo", "--", "true"], capture_output=True, text=True, timeout=60,
                              check=False, cwd=self.folder)
        self.assertIn('There is no probe "foo"', done.stderr)


if __name__ == "__main__":
    unittest.main()
