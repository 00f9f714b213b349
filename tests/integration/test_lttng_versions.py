#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""Programs with LTTng-UST tracepoints by the version of the headers that they were built with: the newest, and one that is not known."""
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from lttng_program import BUFFERS, EVERY_FIELD_EVENTS, NEWEST, PLUMB, PROGRAMS  # noqa: E402
from lttng_program import STAND_INS, LttngProgramTest, leave_out_if_not_built, lines_of, program_counts  # noqa: E402


@unittest.skipUnless((NEWEST / "lttng_storm").exists(), "nothing is built with newer headers of LTTng-UST (tools/get-lttng)")
class WithNewestHeaders(LttngProgramTest):
    """The same source, built with the newest headers (provider major 4), leaves the same events as with those that are installed,
    which are held to be LTTng's by SameAsLttng."""

    def check_lines(self, program, *arguments, newest_arguments=None):
        self.record(PROGRAMS / program, *arguments)
        expected = lines_of(self.trace)
        self.assertEqual(len(expected), EVERY_FIELD_EVENTS * 3)
        self.record(NEWEST / program, *(newest_arguments or arguments))
        self.assertEqual(lines_of(self.trace), expected)

    def test_same_events(self):
        for program in ("lttng_every_field", "lttng_every_field_cpp", "lttng_every_field_plain", "lttng_every_field_lgpl"):
            with self.subTest(program=program):
                self.check_lines(program, 3)

    def test_loaded_provider(self):
        """Of the program's version, and of the other one."""
        installed, newest = (folder / "liblttng_every_field_probe.so" for folder in (PROGRAMS, NEWEST))
        self.check_lines("lttng_every_field_loaded", 3, installed, newest_arguments=(3, newest))
        self.check_lines("lttng_every_field_loaded", 3, newest, newest_arguments=(3, installed))

    def test_log_levels(self):
        self.check_log_levels(NEWEST / "lttng_every_field")

    def test_exact(self):
        for program, *arguments in (("lttng_storm", "threads", 8, 5000), ("lttng_storm", "handlers", 4, 10000),
                                    ("lttng_storm_lgpl", "handlers", 4, 10000), ("lttng_storm", "forks", 20, 100),
                                    ("lttng_storm", "execs", 20, 100), ("lttng_storm", "leave", 100)):
            with self.subTest(program=program, arguments=arguments):
                self.check_counts(NEWEST / program, *arguments)

    def test_both_versions_in_one_process(self):
        for program, plugin in ((PROGRAMS, NEWEST), (NEWEST, PROGRAMS)):
            with self.subTest(program=program):
                output = self.record(program / "lttng_storm", "plugins", plugin / "liblttng_storm_plugin.so", 50, 10)
                self.assertEqual(self.recorded["storm:name"], program_counts(output)["storm:name"])

    def test_providers_unloaded_under_fire(self):
        for program, provider in ((NEWEST, NEWEST), (PROGRAMS, NEWEST), (NEWEST, PROGRAMS)):
            self.record(program / "lttng_storm_dynamic", "providers", provider / "liblttng_storm_provider.so", 100)
            self.assertGreater(self.recorded["storm:number"], 1000)

    def test_blobs(self):
        """Bytes, as LTTng 2.16 writes them to a trace of CTF 1.8."""
        self.record(NEWEST / "lttng_blobs", 2)
        shown = [f"[{i}] = 0x{byte:X}" for i, byte in enumerate((0, 1, 127, 128, 255, 97, 98))]
        five, three, seven = (f"[ {', '.join(shown[:count])} ]" for count in (5, 3, 7))
        expected = []
        for number in range(2):
            expected += [f"blobs:fixed: {{ bytes = {five}, none = {three}, after = {number} }}",
                         f"blobs:variable: {{ _bytes_length = 7, bytes = {seven}, _again_length = 7, again = {seven}, after = {number} }}",
                         f"blobs:variable: {{ _bytes_length = 0, bytes = [ ], _again_length = 0, again = [ ], after = {number} }}"]
        self.assertEqual(lines_of(self.trace), expected)

    def test_listed(self):
        done = subprocess.run([PLUMB, "list", "--json", NEWEST / "lttng_storm", NEWEST / "lttng_blobs"],
                              capture_output=True, text=True, check=True)
        storm, blobs = json.loads(done.stdout)["files"]
        self.assertEqual([each["tracepoint"] for each in storm["lttng"]],
                         ["storm:in_handler", "storm:name", "storm:number", "storm:parts"])
        self.assertEqual([each["tracepoint"] for each in blobs["lttng"]], ["blobs:fixed", "blobs:variable"])


class OfUnknownVersion(LttngProgramTest):
    """A provider of a major version that the probe does not know: nothing is recorded of it, and that is said once."""

    SAID = (r"storm:in_handler, storm:name, storm:number, storm:parts were not recorded: the provider storm was built with headers of "
            r"a version of LTTng-UST that Plumb does not know \(provider major 99;")

    def run_plumb(self, *arguments, status=0, environment=None):
        done = subprocess.run([PLUMB, *map(str, arguments)], capture_output=True, text=True, timeout=100, check=False,
                              env=dict(os.environ, **(environment or {})))
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def check_said(self, text, said=SAID):
        self.assertEqual(len(re.findall(said, text)), 1, text)

    def test_recording(self):
        done = self.run_plumb("record", "--json", "-o", self.trace, "--preload", "lttng", "--", PROGRAMS / "lttng_storm_unknown",
                              "threads", 2, 100)
        self.check_said(done.stderr)
        self.assertNotIn("No tracepoint of theirs", done.stderr)
        summary = json.loads(done.stdout[done.stdout.index("{\n"):])
        self.assertEqual(summary["events"], 0)
        self.check_said(self.run_plumb("view", self.trace).stderr)
        self.assertEqual(summary["unknown_providers"],
                         [{"provider": "storm", "major": 99, "events": [f"storm:{name}" for name in ("in_handler", "name", "number", "parts")]}])

    def test_those_that_were_asked_for(self):
        """And nothing else: there was nothing to record."""
        done = self.run_plumb("record", "-o", self.trace, "--preload", "lttng", "-e", "storm:num*", "--filter", "number > 7", "--",
                              PROGRAMS / "lttng_storm_unknown", "threads", 2, 100, status=1)
        self.check_said(done.stderr, "storm:number was not recorded: the provider storm ")
        done = self.run_plumb("record", "--force", "-o", self.trace, "--preload", "lttng", "-e", "other:*", "--",
                              PROGRAMS / "lttng_storm_unknown", "threads", 2, 100, status=1)
        self.assertNotIn("provider storm", done.stderr)

    def test_counting(self):
        done = self.run_plumb("stat", "--preload", "lttng", "--", PROGRAMS / "lttng_storm_unknown", "threads", 2, 100)
        self.check_said(done.stderr)
        self.assertNotRegex(done.stderr, r"(?m)^ *0 .*storm:")

    def test_beside_events_that_are_known(self):
        done = self.run_plumb("record", *BUFFERS, "-o", self.trace, "--preload", "lttng", "--", "sh", "-c",
                              f"'{PROGRAMS}/lttng_every_field' 1; '{PROGRAMS}/lttng_storm_unknown' threads 1 1")
        self.check_said(done.stderr)
        self.assertIn("every_field:nothing", done.stderr)
        self.assertIn("Nothing was lost.", done.stderr)

    def test_loaded_and_unloaded(self):
        """Its tracepoints are another file's, which stays."""
        done = self.run_plumb("record", "-o", self.trace, "--preload", "lttng", "--", PROGRAMS / "lttng_storm_dynamic", "providers",
                              PROGRAMS / "liblttng_storm_unknown_provider.so", 20)
        self.check_said(done.stderr)

    def test_session(self):
        """What `plumb destroy` says."""
        name = f"lttng-unknown-{os.getpid()}"
        self.run_plumb("create", name, "-o", self.trace, "--subbuf-size", "64K")
        try:
            self.run_plumb("enable", name, "storm:*")
            self.run_plumb("start", name)
            subprocess.run([PROGRAMS / "lttng_storm_unknown", "threads", "1", "10"], check=True, timeout=60, capture_output=True,
                           env=dict(os.environ, LD_LIBRARY_PATH=str(STAND_INS)))
        finally:
            done = subprocess.run([PLUMB, "destroy", name], capture_output=True, text=True, timeout=60, check=False)
        self.check_said(done.stdout + done.stderr)

    def test_running(self):
        with subprocess.Popen([PROGRAMS / "lttng_storm_unknown", "endless"], stdout=subprocess.DEVNULL,
                              env=dict(os.environ, LD_LIBRARY_PATH=str(STAND_INS))) as program:
            try:
                time.sleep(0.3)
                for command in (["record", "-o", self.trace], ["stat"]):
                    done = subprocess.run([PLUMB, *command, "--duration", "0.3s", "-p", str(program.pid)], capture_output=True, text=True,
                                          timeout=60, check=False)
                    self.check_said(done.stderr)
            finally:
                program.send_signal(signal.SIGKILL)


if __name__ == "__main__":
    leave_out_if_not_built()
    unittest.main(verbosity=2)
