#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 900
# cmake-lock: lttng
"""Programs that are instrumented for LTTng-UST: what Plumb records of them is what LTTng records, and exact; nothing ends them."""
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
PROBE = BUILD / "probes/lttng/libplumb-lttng.so"
STAND_INS = BUILD / "probes/lttng/lttng"
PROGRAMS = BUILD / "probes/lttng/tests"
NEWEST = PROGRAMS / "newest"  # the same, built with the headers that tools/get-lttng has fetched
BUFFERS = ["--subbuf-size", "1M", "--subbuf-count", "16", "--mode", "block", "--block-timeout", "30s"]


def is_sanitized():
    symbols = subprocess.run(["nm", "-D", PROBE], capture_output=True, text=True, check=True).stdout
    return any(name in symbols for name in ("__asan_", "__tsan_", "__ubsan_"))


def lines_of(trace):
    """Events and fields as babeltrace2 prints them, without times and contexts."""
    done = subprocess.run(["babeltrace2", "--no-delta", "--names=payload", trace], capture_output=True, text=True,
                          timeout=200, check=True)
    lines = []
    for line in done.stdout.splitlines():
        found = re.search(r"\s([\w.-]+:[\w.-]+): (?:\{ [^{}]* \}, )*(\{.*\})$", line)
        assert found, line
        if not found.group(1).startswith("plumb_statedump:"):
            # babeltrace2 2.0.4 may print a text of length 0 as the one before it.
            fields = re.sub(r'(_(\w+)_length = 0, \2 = )"[^"]*"', r'\1""', found.group(2))
            lines.append(f"{found.group(1)}: {fields}")
    return lines


def program_counts(output):
    """{"storm:number": 17, ...} of what a program says that it has traced."""
    counts = {}
    for name, count in re.findall(r"^(number|name|in_handler) (\d+)$", output, re.MULTILINE):
        counts[f"storm:{name}"] = counts.get(f"storm:{name}", 0) + int(count)
    return {name: count for name, count in counts.items() if count}


class LttngProgramTest(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="plumb-lttng-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.trace = self.directory / "trace"

    def record(self, *command, preload=True, options=(), timeout=100, environment=None):
        """What the program printed. It has to end well, and nothing may be lost."""
        shutil.rmtree(self.trace, ignore_errors=True)
        done = subprocess.run(
            [PLUMB, "record", *BUFFERS, "-o", self.trace, *(["--preload", "lttng"] if preload else []), *options,
             "--", *map(str, command)], capture_output=True, text=True, timeout=timeout, check=False,
            env=dict(os.environ, **(environment or {})))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Nothing was lost.", done.stderr, done.stdout + done.stderr)
        self.recorded = {name: int(count.replace(",", ""))
                         for count, name in re.findall(r"^ +([\d,]+)  (\S+:\S+)$", done.stderr, re.MULTILINE)}
        return done.stdout

    def events(self):
        """How many of each name, as babeltrace2 counts them."""
        counts = {}
        for line in lines_of(self.trace):
            name = line.split(": ", 1)[0]
            counts[name] = counts.get(name, 0) + 1
        return counts

    def check_counts(self, *command, **how):
        output = self.record(*command, **how)
        self.assertTrue(program_counts(output), output)
        self.assertEqual(self.events(), program_counts(output))


class SessionDaemon:
    """LTTng's own, where none runs."""

    def __enter__(self):
        self.daemon = None
        if subprocess.run(["lttng", "list"], capture_output=True, check=False).returncode != 0:
            self.daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], stdin=subprocess.DEVNULL,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for _ in range(100):
                time.sleep(0.1)
                if subprocess.run(["lttng", "list"], capture_output=True, check=False).returncode == 0:
                    break
        return self

    def __exit__(self, *_):
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait(timeout=60)

    @staticmethod
    def record(directory, *command, events="every_field:*,lttng_ust_tracef:*,lttng_ust_tracelog:*"):
        name = f"plumb-test-{os.getpid()}"
        for step in (["create", name, f"--output={directory}"],
                     ["enable-event", "-u", "-s", name, events],
                     ["start", name]):
            subprocess.run(["lttng", *step], capture_output=True, check=True, timeout=60)
        try:
            subprocess.run(list(map(str, command)), check=True, timeout=60)
        finally:
            subprocess.run(["lttng", "destroy", name], capture_output=True, check=True, timeout=60)


class SameAsLttng(LttngProgramTest):
    """The same binary under both."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = SessionDaemon()
        cls.daemon.__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)

    def check(self, *command):
        self.daemon.record(self.directory / "lttng", *command)
        theirs = lines_of(self.directory / "lttng")
        self.record(*command)
        ours = lines_of(self.trace)
        self.assertEqual(len(theirs), 34 * 3)
        # An enumeration with ranges of more than 256 values is an integer in Plumb's description.
        theirs = [re.sub(r'(wide_enum: .* b = )\( "\w+" : container = (\d+) \)', r"\1\2", line) for line in theirs]
        self.assertEqual(ours, theirs)

    def test_c(self):
        self.check(PROGRAMS / "lttng_every_field", 3)

    def test_cpp(self):
        self.check(PROGRAMS / "lttng_every_field_cpp", 3)

    def test_not_position_independent_and_not_optimised(self):
        self.check(PROGRAMS / "lttng_every_field_plain", 3)

    def test_with_read_side_inlined(self):
        self.check(PROGRAMS / "lttng_every_field_lgpl", 3)

    def test_loaded_provider(self):
        self.check(PROGRAMS / "lttng_every_field_loaded", 3, PROGRAMS / "liblttng_every_field_probe.so")


def helpers():
    """LTTng's own helper libraries, as the loader finds them."""
    names = ("libc-wrapper", "pthread-wrapper", "dl", "cyg-profile", "cyg-profile-fast", "fork", "fd")
    known = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True,
                           env=dict(os.environ, PATH=os.environ["PATH"] + ":/sbin:/usr/sbin")).stdout
    found = {name: re.search(rf"liblttng-ust-{name}\.so\.1 .*=> (\S+)", known) for name in names}
    return {name: match.group(1) for name, match in found.items() if match}


class Helpers(LttngProgramTest):
    """LTTng's helper libraries beside the probe: 40 rounds more are exactly so many events more, under LTTng as under Plumb."""

    PROGRAM = PROGRAMS / "lttng_helped"
    LOADED = PROGRAMS / "liblttng_every_field_probe.so"
    # Of a round: the program's, and its child's.
    MEMORY = {"malloc": 2, "calloc": 2, "realloc": 2, "posix_memalign": 2, "memalign": 2, "free": 8}
    MUTEX = {"pthread_mutex_lock_req": 2, "pthread_mutex_lock_acq": 2, "pthread_mutex_trylock": 2, "pthread_mutex_unlock": 4}
    CALLS = {"func_entry": 2, "func_exit": 2}

    @classmethod
    def setUpClass(cls):
        if len(helpers()) != 7:
            raise unittest.SkipTest("LTTng's helper libraries are not installed")

    @staticmethod
    def beside(preloaded, *command):
        """The command with these libraries behind what is preloaded already: they are not for the recorder."""
        return ["sh", "-c", 'LD_PRELOAD="$LD_PRELOAD $0" exec "$@"', preloaded, *command]

    def more(self, preloaded, under_lttng=False):
        """What 40 rounds have more than 20, by event."""
        counts = []
        for rounds in (20, 60):
            command = self.beside(preloaded, self.PROGRAM, rounds, self.LOADED)
            if under_lttng:
                shutil.rmtree(self.directory / "lttng", ignore_errors=True)
                SessionDaemon.record(self.directory / "lttng", *command, events="lttng_ust_libc:*,lttng_ust_pthread:*,"
                                     "lttng_ust_dl:*,lttng_ust_cyg_profile:*,lttng_ust_cyg_profile_fast:*")
                self.trace = self.directory / "lttng"
            else:
                self.trace = self.directory / "trace"
                self.record(*command)
            counts.append(self.events())
        return {name: counts[1][name] - counts[0].get(name, 0) for name in counts[1] if counts[1][name] != counts[0].get(name, 0)}

    def expected(self, *parts):
        return {f"{provider}:{name}": count * 40 for provider, events in parts for name, count in events.items()}

    def test_memory(self):
        more = self.more(helpers()["libc-wrapper"])
        mine = self.expected(("lttng_ust_libc", self.MEMORY))
        # The loader and fdopen() take memory, too; only of what they do not use is it known how much.
        for name in ("posix_memalign", "memalign"):
            self.assertEqual(more[f"lttng_ust_libc:{name}"], mine[f"lttng_ust_libc:{name}"])
        for name, count in mine.items():
            self.assertGreaterEqual(more[name], count)
        with SessionDaemon():
            theirs = self.more(helpers()["libc-wrapper"], under_lttng=True)
        for name in ("malloc", "realloc", "posix_memalign", "memalign"):
            self.assertEqual(more[f"lttng_ust_libc:{name}"], theirs[f"lttng_ust_libc:{name}"], (more, theirs))

    def test_mutexes(self):
        self.assertEqual(self.more(helpers()["pthread-wrapper"]), self.expected(("lttng_ust_pthread", self.MUTEX)))

    def test_calls(self):
        for helper, provider in (("cyg-profile", "lttng_ust_cyg_profile"), ("cyg-profile-fast", "lttng_ust_cyg_profile_fast")):
            self.assertEqual(self.more(helpers()[helper]), self.expected((provider, self.CALLS)))

    def test_loader(self):
        more = self.more(helpers()["dl"])
        with SessionDaemon():
            theirs = self.more(helpers()["dl"], under_lttng=True)
        theirs.pop("lttng_ust_dl:debug_link", None)  # of LTTng's library itself, which providers load
        self.assertEqual(more, theirs)
        self.assertEqual(more["lttng_ust_dl:dlopen"], more["lttng_ust_dl:dlclose"])
        self.assertGreaterEqual(more["lttng_ust_dl:dlopen"], 40)

    def test_nothing_of_their_own(self):
        for helper in ("fork", "fd"):
            self.assertEqual(self.more(helpers()[helper]), {})

    def test_all_together(self):
        """And a program that forks and traces by itself."""
        found = helpers()
        del found["cyg-profile-fast"]
        more = self.more(" ".join(found.values()))
        expected = self.expected(("lttng_ust_pthread", self.MUTEX), ("lttng_ust_cyg_profile", self.CALLS))
        self.assertEqual({name: more[name] for name in expected}, expected)
        output = self.record(*self.beside(" ".join(found.values()), PROGRAMS / "lttng_storm", "forks", 20, 100))
        counts = self.events()
        self.assertEqual({name: counts[name] for name in program_counts(output)}, program_counts(output))


@unittest.skipUnless((NEWEST / "lttng_storm").exists(), "nothing is built with newer headers of LTTng-UST (tools/get-lttng)")
class WithNewestHeaders(LttngProgramTest):
    """The same source, built with the newest headers (provider major 4), leaves the same events as with those that are installed,
    which are held to be LTTng's by SameAsLttng."""

    def check_lines(self, program, *arguments, newest_arguments=None):
        self.record(PROGRAMS / program, *arguments)
        expected = lines_of(self.trace)
        self.assertEqual(len(expected), 34 * 3)
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
        self.record(NEWEST / "lttng_every_field", 1, options=["--log-level", "warning"])
        self.assertEqual(self.events(), {"every_field:instance": 1,
                                         "lttng_ust_tracelog:LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING": 1,
                                         "lttng_ust_tracelog:LTTNG_UST_TRACEPOINT_LOGLEVEL_EMERG": 1})

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


class Exact(LttngProgramTest):
    """Against what the programs count themselves."""

    def test_threads(self):
        self.check_counts(PROGRAMS / "lttng_storm", "threads", 8, 20000)

    def test_handlers(self):
        self.check_counts(PROGRAMS / "lttng_storm", "handlers", 4, 30000)

    def test_handlers_with_read_side_inlined(self):
        self.check_counts(PROGRAMS / "lttng_storm_lgpl", "handlers", 4, 30000)

    def test_forks(self):
        self.check_counts(PROGRAMS / "lttng_storm", "forks", 40, 100)

    def test_execs(self):
        self.check_counts(PROGRAMS / "lttng_storm", "execs", 40, 100)

    def test_threads_that_end(self):
        self.check_counts(PROGRAMS / "lttng_storm", "leave", 300)

    def test_plugins(self):
        output = self.record(PROGRAMS / "lttng_storm", "plugins", PROGRAMS / "liblttng_storm_plugin.so", 100, 10)
        self.assertEqual(self.recorded["storm:name"], program_counts(output)["storm:name"])

    def test_path_alone(self):
        self.check_counts(PROGRAMS / "lttng_storm", "threads", 2, 1000, preload=False,
                          environment={"LD_LIBRARY_PATH": str(STAND_INS)})

    def test_killed(self):
        said = self.directory / "said"
        self.record("sh", "-c", f"'{PROGRAMS}/lttng_storm' endless > '{said}' & sleep 0.5; kill -9 $!; wait $! || true")
        said = int(said.read_text().splitlines()[-2])
        numbers = [int(re.search(r"number = (\d+)", line).group(1)) for line in lines_of(self.trace)]
        self.assertEqual(numbers, list(range(len(numbers))))
        self.assertGreater(len(numbers), said)

    def test_filter(self):
        self.record(PROGRAMS / "lttng_storm", "threads", 2, 1000,
                    options=["-e", "storm:name", "--filter", 'name == "short" && number < 10'])
        self.assertEqual(self.events(), {"storm:name": 12})

    def test_log_levels(self):
        self.record(PROGRAMS / "lttng_every_field", 1, options=["--log-level", "warning"])
        self.assertEqual(self.events(), {"every_field:instance": 1,
                                         "lttng_ust_tracelog:LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING": 1,
                                         "lttng_ust_tracelog:LTTNG_UST_TRACEPOINT_LOGLEVEL_EMERG": 1})


class Large(LttngProgramTest):
    """Events that outgrow the room that a thread has for them."""

    SIZES = (3800, 3900, 3990, 4032, 4100, 5000, 30000, 65000)

    def names(self):
        """What each event's name was, in order."""
        return [re.search(r'name = "([a-z.]*)", number', line).group(1) for line in lines_of(self.trace)]

    def test_are_recorded_whole(self):
        whole = [("abcdefghijklmnopqrstuvwxyz" * 3000)[:size - 10] + "." for size in self.SIZES]
        for options in ([], ["--context", "vpid,procname"], ["--context", "callstack"], ["--filter", "number < 100"],
                        ["--buffers", "global"]):
            with self.subTest(options=options):
                self.record(PROGRAMS / "lttng_storm", "large", *self.SIZES, options=options)
                self.assertEqual(self.names(), whole)

    def test_are_cut_above_what_an_event_may_have_and_counted(self):
        done = subprocess.run([PLUMB, "record", "--json", "-q", "--subbuf-size", "1M", "-o", self.trace, "--preload", "lttng", "--",
                               PROGRAMS / "lttng_storm", "large", "66000", "100000"],
                              capture_output=True, text=True, timeout=100, check=True)
        summary = json.loads(done.stdout[done.stdout.index("{"):])
        self.assertEqual((summary["events"], summary["events_lost"], summary["notes"]), (2, 0, {"cut": 2}), summary)
        for number, line in enumerate(lines_of(self.trace)):
            self.assertRegex(line, rf'name = "[a-z]{{65400,65500}}", number = {number} ')

    def test_what_is_short_stays_whole_and_the_longest_share_the_rest(self):
        room = 65528 - 16 - 32 - 3 - 2 - 8  # of three NULs, a count, a number; and what the probe leaves free
        for sizes, expected in (((100000, 3, 8, 6), (room - 12 - 14, 3, 8, 6)),
                                ((8, 30000, 6, 5), (8, (room - 19) // 4, 6, 5)),
                                ((8, 3, 6, 100000), (8, 3, 6, room - 26)),
                                ((100000, 3, 100000, 6), ((room - 18) // 2, 3, (room - 18) // 2, 6)),
                                ((20000, 20000, 100000, 6), (20000, (room - 20006) // 8, (room - 20006) // 2, 6)),
                                ((100000, 100000, 100000, 100000), (room // 4, room // 16, room // 4, room // 4))):
            with self.subTest(sizes=sizes):
                subprocess.run([PLUMB, "record", "-q", "--force", "--subbuf-size", "1M", "-o", self.trace, "--preload", "lttng", "--",
                                PROGRAMS / "lttng_storm", "parts", *map(str, sizes)], capture_output=True, timeout=100, check=True)
                shown = subprocess.run([PLUMB, "view", "--json", self.trace], capture_output=True, text=True, timeout=100, check=True)
                (event,) = [json.loads(line)["fields"] for line in shown.stdout.splitlines()]
                self.assertEqual(event["number"], sizes[1])
                self.assertEqual(event["numbers"], list(range(len(event["numbers"]))))
                for name, letter in (("first", "a"), ("second", "b"), ("third", "c")):
                    self.assertEqual(set(event[name]), {letter})
                left = [len(event[name]) for name in ("first", "numbers", "second", "third")]
                for got, wanted in zip(left, expected):
                    self.assertLessEqual(abs(got - wanted), 8, (left, expected))

    def test_are_counted(self):
        done = subprocess.run([PLUMB, "stat", "--preload", "lttng", "-e", "storm:*", "--", PROGRAMS / "lttng_storm", "large",
                               *map(str, self.SIZES)], capture_output=True, text=True, timeout=100, check=True)
        self.assertRegex(done.stdout + done.stderr, rf"(?m)^ *{len(self.SIZES)} .*storm:name|storm:name +{len(self.SIZES)}\b")
        self.assertNotIn("contended", done.stdout + done.stderr)


class Survives(LttngProgramTest):
    """What is not exact by its nature: the program ends as it would."""

    def test_jumps_out_of_tracepoints(self):
        for program in ("lttng_storm", "lttng_storm_lgpl"):
            self.record(PROGRAMS / program, "jumps", 300)
            self.assertGreater(self.recorded["storm:name"], 300)

    def test_providers_unloaded_under_fire(self):
        self.record(PROGRAMS / "lttng_storm_dynamic", "providers", PROGRAMS / "liblttng_storm_provider.so", 100)
        self.assertGreater(self.recorded["storm:number"], 1000)

    def test_ends_while_threads_trace(self):
        for _ in range(20):
            self.record(PROGRAMS / "lttng_storm", "exit", 4)

    def test_not_recorded(self):
        """Through the path alone, with nobody who records."""
        for command in (["threads", "4", "1000"], ["providers", PROGRAMS / "liblttng_storm_provider.so", "300"],
                        ["exit", "4"], ["forks", "10", "10"], ["refused", "kill", PROGRAMS / "liblttng_storm_provider.so"]):
            program = {"providers": "lttng_storm_dynamic", "refused": "lttng_unload"}.get(command[0], "lttng_storm")
            done = subprocess.run([PROGRAMS / program, *command], timeout=100, check=False, capture_output=True,
                                  env=dict(os.environ, LD_LIBRARY_PATH=str(STAND_INS)))
            self.assertEqual((done.returncode, done.stderr), (0, b""), command)


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
        for program in ("lttng_unload", "lttng_unload_lgpl"):
            with self.subTest(program=program):
                seconds, became = self.unload(program, *command, options=options)
                self.assertLess(seconds, seconds_max)
                self.assertEqual(became, becomes)

    def test_a_thread_stands_still_there(self):
        """It goes on later, in code that is there yet, and its event is recorded."""
        for options, count in ((), 2), (["-e", "held:inside if number == 7"], 1):
            self.check(["inside", self.HELD], 4, "kept", options)
            self.assertEqual(self.events(), {"held:inside": count})

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


class OnAndOff(LttngProgramTest):
    """A program that runs: recorded for a while, several times, and not between."""

    def test_late(self):
        with subprocess.Popen([PROGRAMS / "lttng_storm", "endless"], stdout=subprocess.DEVNULL,
                              env=dict(os.environ, LD_LIBRARY_PATH=str(STAND_INS))) as program:
            try:
                last = -1
                for _ in range(3):
                    shutil.rmtree(self.trace, ignore_errors=True)
                    subprocess.run([PLUMB, "record", *BUFFERS, "-o", self.trace, "--duration", "0.2s", "-p",
                                    str(program.pid)], check=True, timeout=60, capture_output=True)
                    numbers = [int(re.search(r"number = (\d+)", line).group(1)) for line in lines_of(self.trace)]
                    self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
                    self.assertGreater(numbers[0], last + 1)
                    last = numbers[-1]
            finally:
                program.send_signal(signal.SIGKILL)


class Listed(LttngProgramTest):
    def test_file(self):
        done = subprocess.run([PLUMB, "list", "--json", PROGRAMS / "lttng_storm", PROGRAMS / "lttng_every_field_plain"],
                              capture_output=True, text=True, check=True)
        storm, every_field = json.loads(done.stdout)["files"]
        self.assertEqual([each["tracepoint"] for each in storm["lttng"]],
                         ["storm:in_handler", "storm:name", "storm:number", "storm:parts"])
        self.assertEqual(storm["lttng"][1]["arguments"], "const char*, name, uint64_t, number")
        self.assertIn("every_field:sequences", [each["tracepoint"] for each in every_field["lttng"]])

    def levels(self, file):
        done = subprocess.run([PLUMB, "list", "--json", file], capture_output=True, text=True, check=True)
        return {each["tracepoint"]: each["log_level"] for each in json.loads(done.stdout)["files"][0]["lttng"]}

    def test_log_levels(self):
        """As the providers in the file have them: position-independent or not, with symbols or without."""
        stripped = self.directory / "stripped"
        subprocess.run(["strip", "-o", stripped, PROGRAMS / "lttng_every_field"], check=True)
        for file in (PROGRAMS / "lttng_every_field", PROGRAMS / "lttng_every_field_plain", PROGRAMS / "lttng_every_field_cpp", stripped):
            levels = self.levels(file)
            self.assertEqual(levels["every_field:instance"], "warning", file)
            self.assertEqual(levels["every_field:sequences"], "debug_line", file)
        self.assertEqual(set(self.levels(PROGRAMS / "lttng_storm_dynamic").values()), {""})  # its provider is elsewhere

    def test_where_they_are_on(self):
        """By the level, of a provider that is in another file."""
        program = [PROGRAMS / "lttng_every_field_loaded", 100000000, PROGRAMS / "liblttng_every_field_probe.so"]
        with subprocess.Popen(list(map(str, program)), stdout=subprocess.DEVNULL,
                              env=dict(os.environ, LD_LIBRARY_PATH=str(STAND_INS))) as process, \
             subprocess.Popen([PLUMB, "record", "-q", "-o", self.trace, "--log-level", "warning", "-p", str(process.pid)],
                              stderr=subprocess.DEVNULL) as recorder:
            try:
                time.sleep(1)
                done = subprocess.run([PLUMB, "list", "--json"], capture_output=True, text=True, check=True)
                (found,) = [each for each in json.loads(done.stdout)["processes"] if each["pid"] == process.pid]
                on = {each["tracepoint"] for each in found["lttng"] if each["sessions"]}
                self.assertEqual(on, {"every_field:instance"})
            finally:
                recorder.send_signal(signal.SIGINT)
                recorder.wait()
                process.kill()

    def test_process(self):
        with subprocess.Popen([PROGRAMS / "lttng_storm", "endless"], stdout=subprocess.DEVNULL,
                              env=dict(os.environ, LD_LIBRARY_PATH=str(STAND_INS))) as program:
            try:
                time.sleep(0.5)
                done = subprocess.run([PLUMB, "list", "--json"], capture_output=True, text=True, check=True)
                found = [process for process in json.loads(done.stdout)["processes"] if process["pid"] == program.pid]
                names = [each["tracepoint"] for each in found[0]["lttng"]]
                self.assertEqual(names, ["storm:in_handler", "storm:name", "storm:number", "storm:parts"])
            finally:
                program.send_signal(signal.SIGKILL)



class InTheWay(LttngProgramTest):
    """What can not be recorded as it is, and what to do is said."""

    def build(self, soname):
        """A program that is linked with a library of that name, and sleeps."""
        folder = self.directory / soname
        folder.mkdir()
        (folder / "library.c").write_text("int library_value(void);\nint library_value(void) { return 0; }\n")
        (folder / "program.c").write_text("#include <unistd.h>\nint library_value(void);\n"
                                          "int main(int argc, char** argv) { (void)argv; if (argc > 1) sleep(60);"
                                          " return library_value(); }\n")
        library = folder / soname
        subprocess.run(["gcc", "-shared", "-fPIC", f"-Wl,-soname,{soname}", folder / "library.c", "-o", library], check=True)
        subprocess.run(["gcc", folder / "program.c", library, f"-Wl,-rpath,{folder}", "-o", folder / "program"], check=True)
        return folder / "program"

    def refusal(self, program):
        """What is said of the running one by -p."""
        process = subprocess.Popen([program, "sleeps"])
        try:
            time.sleep(0.3)
            for command in ("record", "stat"):
                done = subprocess.run([PLUMB, command, *(["-o", self.trace] if command == "record" else []), "-p", str(process.pid)],
                                      capture_output=True, text=True, timeout=60, check=False)
                self.assertNotEqual(done.returncode, 0)
                yield done.stderr
        finally:
            process.kill()
            process.wait()

    def test_its_own_library_is_loaded(self):
        for said in self.refusal(self.build("liblttng-ust.so.1")):
            self.assertIn("start it by `plumb record --preload lttng -- COMMAND`", said)

    def test_the_library_is_an_old_one(self):
        program = self.build("liblttng-ust.so.0")
        for said in self.refusal(program):
            self.assertIn("LTTng-UST 2.12 or older", said)
        done = subprocess.run([PLUMB, "record", "-o", self.trace, "--preload", "lttng", "--", program], capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertIn("is linked with LTTng-UST 2.12 or older (liblttng-ust.so.0)", done.stderr)


if __name__ == "__main__":
    if not (PROGRAMS / "lttng_storm").exists() or is_sanitized():
        print("the programs are not built (LTTng-UST's headers are not installed), or the probe is built with a sanitizer")
        sys.exit(77)
    unittest.main(verbosity=2)
