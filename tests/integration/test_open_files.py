#!/usr/bin/env python3
# cmake-once
"""A recorder that may have few files open takes what it is allowed to; the command that it starts gets what it was given."""
import os
import pathlib
import re
import resource
import subprocess
import tempfile
import unittest

PLUMB = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
FEW, MORE = 64, 512


def limit(text):
    return re.search(r"^Max open files +(\d+) +(\d+)", text, re.MULTILINE).groups()


class OpenFiles(unittest.TestCase):
    def test_the_recorder_raises_its_limit_and_the_command_does_not_see_it(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([PLUMB, "record", "-q", "-o", f"{folder}/trace", "--", "sh", "-c",
                                   "cat /proc/$PPID/limits; echo; cat /proc/self/limits"], capture_output=True, text=True, timeout=60,
                                  check=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, MORE)))
        recorder, command = done.stdout.split("\n\n")
        self.assertEqual(limit(recorder), (str(MORE), str(MORE)))
        self.assertEqual(limit(command), (str(FEW), str(MORE)))


if __name__ == "__main__":
    unittest.main()
