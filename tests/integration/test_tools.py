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
sys.path.insert(0, str(SOURCE / "tools"))
import check_tests  # noqa: E402


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


class Turns(unittest.TestCase):
    """What tools/check leaves out where its time is too short for all tests."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    @staticmethod
    def some(count, seconds, name="integration_long{}", **more):
        return [check_tests.Test(name.format(i), seconds, **{"labels": [], "locks": [], "serial": False, "timeout": 300, **more})
                for i in range(count)]

    def left(self, tests, seconds, commit="1", changed=(), preset="gcc"):
        return set(check_tests.plan(preset, tests, seconds, 4, commit, changed))

    def test_all_run_where_there_is_time(self):
        self.assertEqual(self.left(self.some(20, 100), 600), set())

    def test_what_is_left_out_is_another_half_with_another_commit(self):
        tests = self.some(40, 100)
        first, second = (self.left(tests, 560, commit) for commit in "12")
        self.assertEqual((len(first), len(second)), (20, 20))
        self.assertGreater(len(first - second), 4)
        self.assertEqual(first, self.left(tests, 560, "1"))

    def test_the_short_ones_come_first_and_second_runs_last(self):
        short, second = self.some(20, 5, "unit_short{}"), self.some(20, 40, "unit_{}_no_rseq", labels=["no_rseq"])
        left = self.left(short + second + self.some(10, 40), 140)
        self.assertEqual(left, {test.name for test in second})

    def test_what_was_changed_comes_before_others(self):
        (changed,) = self.some(1, 100, "integration_tools")
        for commit in "123456":
            self.assertNotIn(changed.name, self.left([*self.some(30, 100), changed], 120, commit,
                                                     ["tests/integration/test_tools.py"]))

    def test_what_a_test_is_of_counts_as_well(self):
        (manual,) = self.some(1, 100, "integration_manual")
        for commit in "123456":
            self.assertNotIn(manual.name, self.left([*self.some(30, 100), manual], 120, commit, ["docs/pthread.md"]))
        for path in ("docs-not/pthread.md", "libtrace/emit.c"):
            left = [manual.name in self.left([*self.some(30, 100), manual], 120, commit, [path]) for commit in "123456"]
            self.assertIn(True, left)

    def test_a_row_takes_as_long_as_all_of_it(self):
        self.assertEqual(len(self.left(self.some(10, 100, locks=["boot"]), 560)), 5)
        self.assertEqual(len(self.left(self.some(10, 100, serial=True), 560)), 5)
        self.assertEqual(len(self.left(self.some(10, 100), 560)), 0)

    def test_what_was_cut_off_is_no_failure(self):
        report, log = self.folder / "report.xml", self.folder / "log"
        report.write_text("<testsuite>" + "".join(f'<testcase name="{name}" status="{status}" time="9"/>' for name, status in
                                                  (("good", "run"), ("cut", "fail"), ("bad", "fail"), ("hung", "fail"),
                                                   ("left", "notrun"))) + "</testsuite>")
        log.write_text("1/4 Test #1: cut ......***Timeout  99.00 sec\n2/4 Test #2: bad ...***Failed  9.00 sec\n"
                       "3/4 Test #3: hung ....***Timeout 300.01 sec\n")
        found = check_tests.results(report, log, {"cut": 300, "hung": 300, "bad": 300})
        self.assertEqual(found, (["good"], ["bad", "hung"], ["left"], {"cut"}))


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=sys.argv)
