#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 600
# cmake-lock: lttng
"""Programs that are instrumented for LTTng-UST: what Plumb records of them is what LTTng records, and exact; nothing ends them."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from lttng_program import BUFFERS, EVERY_FIELD_EVENTS, PLUMB, PROGRAMS, STAND_INS  # noqa: E402
from lttng_program import LttngProgramTest, SessionDaemon, leave_out_if_not_built, lines_of, program_counts  # noqa: E402


class SameAsLttng(LttngProgramTest):
    """The same binary under both."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = SessionDaemon()
        cls.daemon.__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)

    def check(self, *command, rounds=3):
        command = (command[0], rounds, *command[1:])
        self.daemon.record(self.directory / "lttng", *command)
        theirs = lines_of(self.directory / "lttng")
        self.record(*command)
        ours = lines_of(self.trace)
        self.assertEqual(len(theirs), EVERY_FIELD_EVENTS * rounds)
        self.assertEqual(ours, theirs)

    def test_c(self):
        self.check(PROGRAMS / "lttng_every_field")

    def test_cpp(self):
        self.check(PROGRAMS / "lttng_every_field_cpp")

    def test_as_often_as_it_takes_to_go_the_other_way(self):
        """At once there are those whose probe functions only compute (pure_code.c)."""
        self.check(PROGRAMS / "lttng_every_field", rounds=60)
        self.check(PROGRAMS / "lttng_every_field_cpp", rounds=60)

    def test_not_position_independent_and_not_optimised(self):
        self.check(PROGRAMS / "lttng_every_field_plain")

    def test_with_read_side_inlined(self):
        self.check(PROGRAMS / "lttng_every_field_lgpl")

    def test_expressions_that_do_more_than_compute(self):
        """They change what others read, release it, count, and of fields that nobody writes lead nowhere."""
        for program in ("computed", "computed_lgpl", "computed_plain", "computed_small", "computed_cpp"):
            with self.subTest(program=program):
                command = (PROGRAMS / f"lttng_{program}", 40)
                said = self.daemon.record(self.directory / program, *command, events="computed:*")
                theirs = lines_of(self.directory / program)
                self.assertEqual(len(theirs), 12 * 40)
                self.assertEqual(self.record(*command, options=["-e", "computed:*"]), said)
                self.assertEqual(lines_of(self.trace), theirs)

    def test_loaded_provider(self):
        self.check(PROGRAMS / "lttng_every_field_loaded", PROGRAMS / "liblttng_every_field_probe.so")


class Ranges(LttngProgramTest):
    """Of enumerations: a value is shown, chosen and counted by the first label that has it."""

    WIDE = {0: "low", 999: "low", 1000: "high", 1000000: "high", 1000001: None}

    @staticmethod
    def plumb(*arguments):
        return subprocess.run([PLUMB, *arguments], capture_output=True, text=True, timeout=100, check=True).stdout

    def fields(self, *options):
        """Of each event, {"b": (999, "low")}."""
        shown = self.plumb("view", "--json", *options, self.trace)
        return [{name: (value["value"], value["label"]) for name, value in json.loads(line)["fields"].items()}
                for line in shown.splitlines()]

    def test_are_shown(self):
        self.record(PROGRAMS / "lttng_every_field", options=["-e", "every_field:wide_enum"])
        self.assertEqual([each["b"] for each in self.fields()], list(self.WIDE.items()))
        self.assertEqual([each["b"][0] for each in self.fields("--where", 'b == "high"')], [1000, 1000000])
        text = self.plumb("view", self.trace)
        for value, label in self.WIDE.items():
            self.assertIn(f"{{ b = {label} ({value}) }}" if label else f"{{ b = {value} }}", text)

    def test_of_64_bits(self):
        self.record(PROGRAMS / "lttng_every_field", options=["-e", "every_field:all_of_64_bits"])
        self.assertEqual([each["a"] for each in self.fields()],
                         [(value, "all") for value in (-2**63, -1, 0, 1, 2**63 - 1)])
        self.assertEqual([each["b"] for each in self.fields()],
                         [(2**63, "upper"), (2**64 - 1, "upper"), (0, "all"), (1, "all"), (2**63 - 1, "all")])

    def test_that_meet(self):
        self.record(PROGRAMS / "lttng_every_field", options=["-e", "every_field:ranges"])

        def label(value):
            for first, last, name in ((-1000, -1, "minus"), (0, 9, "again"), (-5, 25, "across"), (20, 300, "again"), (301, 301, "behind")):
                if first <= value <= last:
                    return name
            return None

        found = self.fields()
        self.assertEqual(len(found), 18)
        for each in found:
            for name in ("several", "small", "large"):
                self.assertEqual(each[name][1], label(each[name][0]), (name, each))

    def test_are_known_to_filters(self):
        for condition, values in (('b == "low"', [0, 999]), ('b != "low"', [1000, 1000000, 1000001]), ('b ~ "h*"', [1000, 1000000])):
            self.record(PROGRAMS / "lttng_every_field", options=["-e", "every_field:wide_enum", "--filter", condition])
            self.assertEqual([each["b"][0] for each in self.fields()], values, condition)
        self.record(PROGRAMS / "lttng_every_field", options=["-e", "every_field:all_of_64_bits", "--filter", 'b == "upper"'])
        self.assertEqual([each["b"][0] for each in self.fields()], [2**63, 2**64 - 1])

    def test_are_counted_by_value(self):
        done = self.plumb("stat", "--json", "--preload", "lttng", "-e", "every_field:wide_enum", "--by", "b", "--",
                          PROGRAMS / "lttng_every_field", "3")
        (event,) = [each for each in json.loads(done[done.index('{"version"'):])["events"] if each["count"]]
        self.assertEqual({key["key"]: (key.get("label"), key["count"]) for key in event["keys"]},
                         {value: (label, 3) for value, label in self.WIDE.items()})


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
        self.check_log_levels(PROGRAMS / "lttng_every_field")


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

    def test_handlers_on_a_stack_above_the_thread_s_own(self):
        """The kernel does not tell that they are on one, where it disarms itself: what they have interrupted has not been left."""
        for how in ("plain", "disarmed"):
            counts = [int(word) for word in self.record(PROGRAMS / "lttng_disarmed", how).split()]
            self.assertEqual(self.events(), {"held:long_text": counts[0], "held:many_words": counts[1]}, how)
            texts = re.findall(r'text = "([a-z]*)", .*, number = (\d+) ', "\n".join(lines_of(self.trace)))
            self.assertEqual(texts, [(chr(ord("a") + i % 26) * 2100, str(i)) for i in range(counts[0])], how)

    def test_providers_unloaded_under_fire(self):
        self.record(PROGRAMS / "lttng_storm_dynamic", "providers", PROGRAMS / "liblttng_storm_provider.so", 100)
        self.assertGreater(self.recorded["storm:number"], 1000)

    def test_ends_while_threads_trace(self):
        for _ in range(20):
            self.record(PROGRAMS / "lttng_storm", "exit", 4)

    def test_hooks_of_functions_that_trace(self):
        """-finstrument-functions: what lays out values is instrumented, too, and LTTng does not have it run."""
        for program in ("lttng_hooked", "lttng_hooked_plain"):
            entered = int(self.record(PROGRAMS / program))
            self.assertEqual(self.recorded["hooked:enter"], entered)
            self.assertIn(entered, range(100, 110))

    def test_not_recorded(self):
        """Through the path alone, with nobody who records."""
        for command in (["threads", "4", "1000"], ["providers", PROGRAMS / "liblttng_storm_provider.so", "300"],
                        ["exit", "4"], ["forks", "10", "10"], ["refused", "kill", PROGRAMS / "liblttng_storm_provider.so"]):
            program = {"providers": "lttng_storm_dynamic", "refused": "lttng_unload"}.get(command[0], "lttng_storm")
            done = subprocess.run([PROGRAMS / program, *command], timeout=100, check=False, capture_output=True,
                                  env=dict(os.environ, LD_LIBRARY_PATH=str(STAND_INS)))
            self.assertEqual((done.returncode, done.stderr), (0, b""), command)


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

    def test_status_of_a_session(self):
        """How many of a process are on in it: as many as `plumb list` says, and none of those of tracef() but by their own rule."""
        name = f"lttng-status-{os.getpid()}"
        with subprocess.Popen([PROGRAMS / "lttng_storm", "endless"], stdout=subprocess.DEVNULL,
                              env=dict(os.environ, LD_LIBRARY_PATH=str(STAND_INS))) as program:
            def plumb(*arguments):
                return subprocess.run([PLUMB, *arguments], capture_output=True, text=True, timeout=60, check=True).stdout

            def events_on():
                return {each["pid"]: each["events"] for each in json.loads(plumb("status", name, "--json"))["processes"]}

            try:
                time.sleep(0.5)
                plumb("create", name, "-o", self.trace, "--subbuf-size", "64K")
                plumb("enable", name, "storm:n*")
                plumb("start", name)
                self.assertEqual(events_on(), {program.pid: 2})
                self.assertRegex(plumb("status", name), rf"processes: +{program.pid}  lttng_storm  2 events")
                (found,) = [each for each in json.loads(plumb("list", "--json"))["processes"] if each["pid"] == program.pid]
                brought = sum(len(each["events"]) for each in found["objects"])
                plumb("enable", name, "*")
                self.assertEqual(events_on(), {program.pid: 4 + brought})
            finally:
                subprocess.run([PLUMB, "destroy", name], capture_output=True, timeout=60, check=False)
                program.send_signal(signal.SIGKILL)

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


if __name__ == "__main__":
    leave_out_if_not_built()
    unittest.main(verbosity=2)
