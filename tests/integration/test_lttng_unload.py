#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""LTTng-UST's providers, and probe functions of the program's own, that come and go while threads are in them."""
import collections
import os
import re
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from lttng_program import BUFFERS, NEWEST, PLUMB, PROGRAMS  # noqa: E402
from lttng_program import STAND_INS, LttngProgramTest, leave_out_if_not_built, lines_of, program_counts  # noqa: E402


class Unloaded(LttngProgramTest):
    """Providers that are unloaded while threads are in their tracepoints, and do not come out."""

    HELD = PROGRAMS / "liblttng_held_provider.so"
    STORM = PROGRAMS / "liblttng_storm_provider.so"
    PLUGIN = PROGRAMS / "liblttng_storm_plugin.so"

    def unload(self, program, *command, options=()):
        """In how many seconds, and whether it is there yet."""
        output = self.record(PROGRAMS / program, *command, options=options)
        found = re.search(r"took ([\d.]+) s, (\w+)", output)
        return float(found.group(1)), found.group(2)

    def check(self, command, seconds_max, becomes, options=()):
        for program in "lttng_unload", "lttng_unload_lgpl":
            with self.subTest(program=program):
                seconds, became = self.unload(program, *command, options=options)
                self.assertLess(seconds, seconds_max)
                self.assertEqual(became, becomes)

    def test_a_thread_stands_still_there(self):
        """It goes on later, in code that is there yet, and its event is recorded."""
        for options, count in ((), 2), (["-e", "held:inside if number == 7"], 1):
            self.check(["inside", self.HELD], 4, "kept", options)
            self.assertEqual(self.events(), {"held:inside": count})

    def test_one_is_loaded_while_another_one_is_registered(self):
        for _ in range(5):
            begin = time.monotonic()
            self.record(PROGRAMS / "lttng_beginning", self.PLUGIN)
            self.assertLess(time.monotonic() - begin, 30)  # they waited for each other for 40
            self.assertEqual(self.events(), {"beginning:a0": 1, "storm:name": 1})

    def test_a_thread_stands_still_in_another_provider(self):
        self.check(["beside", self.HELD, self.STORM], 2, "unloaded")

    def test_a_thread_has_jumped_out_and_sleeps(self):
        self.check(["jumped", self.HELD], 2, "unloaded")

    def test_a_thread_has_jumped_out_and_traces_on(self):
        self.check(["again", self.HELD, self.STORM], 2, "unloaded")

    def test_the_program_ends_while_a_thread_stands_still(self):
        for program, command in (("lttng_unload", ["end", self.HELD]), ("lttng_unload_lgpl", ["end", self.HELD]),
                                 ("lttng_unload_linked", ["end"])):
            begin = time.monotonic()
            self.record(PROGRAMS / program, *command)
            self.assertLess(time.monotonic() - begin, 8, program)

    def test_membarrier_is_refused(self):
        """By a filter that ends the program for it, of which the runtime knows, and by one that it does not know of."""
        for action in ("kill", "errno"):
            done = subprocess.run([PLUMB, "record", *BUFFERS, "-q", "-o", self.trace, "--force", "--preload", "lttng", "-e",
                                   "storm:number if number == 99", "--", PROGRAMS / "lttng_unload", "refused", action, self.STORM],
                                  capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("unloaded", done.stdout)

    def close(self, mode, becomes, seconds_max=3):
        for program in ("lttng_closing", "lttng_closing_lgpl"):
            with self.subTest(mode=mode, program=program):
                seconds, became = self.unload(program, mode, self.HELD)
                self.assertEqual(became, becomes)
                self.assertLess(seconds, seconds_max)

    def test_in_a_tracepoint_of_its_own(self):
        self.close("within", "kept")

    def test_a_thread_computes_there(self):
        self.close("computes", "kept")

    def test_in_forked_children(self):
        self.close("forked", "kept")
        self.close("_forked", "kept")

    def test_behind_a_filter_that_ends_the_program_for_a_look(self):
        self.close("filtered", "kept")

    def test_by_a_thread_that_is_to_be_cancelled(self):
        self.close("cancelled", "kept")
        self.assertIn("closed", self.record(PROGRAMS / "lttng_closing", "cancelled", self.HELD))

    def test_threads_that_take_the_places_of_others(self):
        self.record(PROGRAMS / "lttng_closing", "places", self.STORM)
        counts = collections.Counter(lines_of(self.trace))
        self.assertEqual((len(counts), set(counts.values())), (900, {150}))

    def test_many_times_under_fire(self):
        for environment in ({}, {"PLUMB_RSEQ": "none"}):
            output = self.record(PROGRAMS / "lttng_unload", "storm", self.PLUGIN, self.STORM, 200, 10, environment=environment,
                                 options=["-e", "storm:name", "-e", "storm:in_handler", "-e", "storm:number if number == 99"])
            self.assertNotIn("a child ended", output)
            self.assertEqual(self.recorded["storm:name"], program_counts(output)["storm:name"])
            before, after = (list(map(int, found)) for found in
                             re.findall(r"mappings (\d+) descriptors (\d+) kb (\d+)", output))
            self.assertLess(after[0] - before[0], 8, output)
            self.assertEqual(after[1], before[1], output)
            self.assertLess(after[2] - before[2], 1000, output)
            kinds = re.findall(r"^event \{", (self.trace / "ust/metadata").read_text(), re.MULTILINE)
            self.assertLess(len(kinds), 12)


class OwnProbes(LttngProgramTest):
    """Probe functions that a program itself registers for a tracepoint."""

    def test_called_as_by_lttng(self):
        programs = [folder / "lttng_own_probe" for folder in (PROGRAMS, NEWEST) if (folder / "lttng_own_probe").exists()]
        theirs = subprocess.run([programs[0], "calls", "1000"], capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertIn("first 2000, second 1000\n", theirs)
        for program in programs:
            self.assertEqual(self.record(program, "calls", 1000), theirs)
            self.assertEqual(self.events(), {"storm:number": 3000})
            self.assertEqual(self.record(program, "calls", 1000, options=["-e", "storm:name"]), theirs)
            alone = subprocess.run([program, "calls", "1000"], capture_output=True, text=True, timeout=60, check=True,
                                   env=dict(os.environ, LD_LIBRARY_PATH=str(STAND_INS)))
            self.assertEqual(alone.stdout, theirs)

    def test_registered_and_taken_back_under_fire(self):
        for environment in ({}, {"PLUMB_RSEQ": "none"}):
            output = self.record(PROGRAMS / "lttng_own_probe", "fire", 2, 60, environment=environment)
            self.assertIn("called 1\n", output)
            self.assertEqual({"storm:number": self.recorded["storm:number"]}, program_counts(output))

    def test_of_a_tracepoint_that_comes_and_goes(self):
        """Its provider and its tracepoints are a plug-in's, which is loaded and unloaded meanwhile."""
        output = self.record(PROGRAMS / "lttng_own_probe", "plugins", PROGRAMS / "liblttng_storm_plugin.so", 50, 10)
        self.assertIn("first 500, second 0\n", output)
        self.assertEqual(self.recorded["storm:name"], 500)


if __name__ == "__main__":
    leave_out_if_not_built()
    unittest.main(verbosity=2)
