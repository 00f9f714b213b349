#!/usr/bin/env python3
# cmake-once
"""Scripts of tools/ on machines that are not as usual: what they can not do they say at once, and what they left half done they
do not take for whole. Programs that they call are others here, in front of the machine's own."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()


class Tools(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("cmake", "apt-get", "sudo"):
            self.program(name, "exit 1")
        self.program("dpkg-query", "echo installed")
        self.program("sleep", "")

    def program(self, name, script):
        file = self.folder / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def run_tool(self, *command, cwd=None):
        environment = dict(os.environ, PATH=f"{self.folder}/bin:{os.environ['PATH']}")
        return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=60, check=False,
                              stdin=subprocess.DEVNULL)

    def test_the_demo_does_not_build_what_it_can_not_show(self):
        for place in ("with space", "with:colon"):
            tool = self.folder / place / "tools/demo"
            tool.parent.mkdir(parents=True)
            shutil.copy(SOURCE / "tools/demo", tool)
            done = self.run_tool(tool)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("clone Plumb to another place", done.stderr)

    def test_the_demos_directory_is_the_callers_and_is_not_there_yet(self):
        (self.folder / "mine/trace").mkdir(parents=True)
        (self.folder / "mine/trace/metadata").touch()
        done = self.run_tool(SOURCE / "tools/demo", "trace", cwd=self.folder / "mine")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"{self.folder}/mine/trace is there already", done.stderr)

    def test_a_package_for_two_architectures_is_there(self):
        self.program("dpkg-query", "printf 'installed installed '")
        done = self.run_tool(SOURCE / "tools/setup")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.program("dpkg-query", "printf 'not-installed '")
        self.assertEqual(self.run_tool(SOURCE / "tools/setup").returncode, 1)

    @unittest.skipIf(os.geteuid() != 0, "it is for root")
    def test_a_half_made_debian_is_not_taken_for_a_whole_one(self):
        place = self.folder / "debian"
        self.program("debootstrap", 'mkdir -p "$3/etc"; echo 12 >"$3/etc/debian_version"; exit 1')
        for _ in range(2):
            done = self.run_tool(SOURCE / "tools/bare", place, "true")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("debootstrap failed", done.stderr)
            self.assertFalse((place / "etc").exists())
        place.mkdir(exist_ok=True)
        (place / "mine").touch()
        done = self.run_tool(SOURCE / "tools/bare", place, "true")
        self.assertIn("is neither empty nor a Debian 12", done.stderr)
        self.assertTrue((place / "mine").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=sys.argv)
