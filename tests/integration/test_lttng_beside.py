#!/usr/bin/env python3
# cmake-once
# cmake-lock: lttng
"""Programs with LTTng-UST tracepoints, where LTTng's own library comes as well; and what is said where they are not recorded."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
PROBE = BUILD / "probes/lttng/libplumb-lttng.so"
STAND_INS = BUILD / "probes/lttng/lttng"
HAS_HEADERS = subprocess.run(["pkg-config", "--exists", "lttng-ust"], check=False).returncode == 0


def is_sanitized():
    symbols = subprocess.run(["nm", "-D", PROBE], capture_output=True, text=True, check=True).stdout
    return any(name in symbols for name in ("__asan_", "__tsan_", "__ubsan_"))


def own_library():
    """LTTng's, by its path."""
    lines = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout.splitlines()
    return next((line.split(" => ")[1] for line in lines if line.split()[:1] == ["liblttng-ust.so.1"] and "x86-64" in line), None)


class Beside(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="plumb-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.shop = cls.folder / "shop"
        sources = SOURCE / "tests/integration/lttng"
        subprocess.run(["gcc", "-O2", "-g", "-I", sources, sources / "shop.c", "-o", cls.shop, "-llttng-ust", "-ldl"], check=True,
                       timeout=100)
        cls.trace = cls.folder / "trace"

    def run_plumb(self, *words, **environment):
        done = subprocess.run([PLUMB, *map(str, words)], capture_output=True, text=True, timeout=100, check=False,
                              env=dict(os.environ, **environment))
        return done.returncode, done.stderr

    def record(self, *words, **environment):
        shutil.rmtree(self.trace, ignore_errors=True)
        return self.run_plumb("record", "-o", self.trace, *words, **environment)

    def test_its_own_library_by_path_ends_nothing(self):
        for name in (own_library(), "liblttng-ust.so"):
            with self.subTest(name):
                bare = subprocess.run([self.shop, "1", name], capture_output=True, timeout=60, check=False)
                self.assertEqual(bare.returncode, 3, bare.stderr)
                status, said = self.record("--preload", "lttng", "--", self.shop, 7, name)
                self.assertEqual(status, 3, said)
                self.assertIn("Recorded 7 events", said)

    def test_its_own_library_preloaded_ends_nothing(self):
        status, said = self.record("--preload", "lttng", "--", self.shop, 7, LD_PRELOAD="liblttng-ust.so")
        self.assertEqual(status, 3, said)
        service = subprocess.run([self.shop, "7"], capture_output=True, text=True, timeout=60, check=False,
                                 env=dict(os.environ, LD_LIBRARY_PATH=str(STAND_INS), LD_PRELOAD=own_library()))
        self.assertEqual((service.returncode, service.stderr), (3, ""))

    def test_without_the_probe_it_is_said_which_one_records_them(self):
        for words in ((), ("-e", "shop:*"), ("--preload", "pthread", "-e", "shop:*")):
            status, said = self.record(*words, "--", self.shop)
            if "--preload" not in words:
                self.assertNotEqual(status, 0)
                self.assertIn(f"{self.shop} has tracepoints of LTTng-UST: `--preload lttng` records them.", said)
            self.assertNotIn("has no tracepoints", said)

    def test_a_pattern_for_a_running_one_is_not_said_to_match_nothing(self):
        process = subprocess.Popen([self.shop, "100000", "", "1000"], env=dict(os.environ, LD_LIBRARY_PATH=str(STAND_INS)))
        try:
            time.sleep(0.5)
            status, said = self.record("-e", "shop:order", "-p", process.pid, "--duration", "0.3s")
            self.assertEqual(status, 0, said)
            self.assertNotIn("No event of", said)
            self.assertRegex(said, r"\n +\d+  shop:order\n")
            _, said = self.record("-e", "shop:ordre", "-p", process.pid, "--duration", "0.3s")
            self.assertRegex(said, r"No event of shop \(\d+\) matches 'shop:ordre'; it has shop:order, ")
        finally:
            process.kill()
            process.wait()

    def test_what_the_probe_brings_is_not_listed_as_what_nobody_came_by(self):
        _, said = self.record("--preload", "lttng", "--", "true")
        self.assertIn("none was on but those of lttng_ust_tracef() and lttng_ust_tracelog()", said)
        _, said = self.record("--preload", "lttng", "--", self.shop, 0)
        self.assertIn("No thread came by what was on: shop:order.", said)

    def test_a_call_stack_begins_in_the_program(self):
        status, said = self.record("--preload", "lttng", "--context", "callstack", "--", self.shop, 3)
        self.assertEqual(status, 3, said)
        shown = subprocess.run([PLUMB, "view", "--json", self.trace], capture_output=True, text=True, timeout=60, check=True).stdout
        stacks = [json.loads(line)["callstack"] for line in shown.splitlines()]
        self.assertEqual(len(stacks), 3)
        for stack in stacks:
            self.assertRegex(stack[0], "^lttng_ust__event_probe__shop___order")
            self.assertTrue(any(name.startswith("take_order") for name in stack), stack)


if __name__ == "__main__":
    if not PROBE.exists() or is_sanitized() or not own_library() or not HAS_HEADERS:
        print("skipped: LTTng-UST is not installed, or the probe is built with a sanitizer")
        sys.exit(77)
    unittest.main(verbosity=2)
