#!/usr/bin/env python3
# cmake-once
"""Programs with LTTng-UST tracepoints where something else stands beside, or in the way: what happens, and what is said."""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from lttng_program import PLUMB, PROGRAMS, STAND_INS, LttngProgramTest, leave_out_if_not_built  # noqa: E402


def own_library():
    """LTTng's, by its path."""
    lines = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout.splitlines()
    return next(line.split(" => ")[1] for line in lines if line.split()[:1] == ["liblttng-ust.so.1"] and "x86-64" in line)


class Beside(LttngProgramTest):
    """LTTng's own library comes as well; and what is said where tracepoints are not recorded."""

    PROGRAM = PROGRAMS / "lttng_beside"

    def said(self, *words, **environment):
        """The exit status of a recording, and what was said of it."""
        shutil.rmtree(self.trace, ignore_errors=True)
        done = subprocess.run([PLUMB, "record", "-o", self.trace, *map(str, words)], capture_output=True, text=True, timeout=100,
                              check=False, env=dict(os.environ, **environment))
        return done.returncode, done.stderr

    @contextlib.contextmanager
    def running(self):
        """A service that was started with the path of the libraries, and traces."""
        process = subprocess.Popen([self.PROGRAM, "100000", "", "1000"], env=dict(os.environ, LD_LIBRARY_PATH=str(STAND_INS)))
        try:
            time.sleep(0.5)
            yield process
        finally:
            process.kill()
            process.wait()

    def test_its_own_library_by_path_ends_nothing(self):
        for name in (own_library(), "liblttng-ust.so"):
            with self.subTest(name):
                bare = subprocess.run([self.PROGRAM, "1", name], capture_output=True, timeout=60, check=False)
                self.assertEqual(bare.returncode, 3, bare.stderr)
                status, said = self.said("--preload", "lttng", "--", self.PROGRAM, 7, name)
                self.assertEqual(status, 3, said)
                self.assertIn("Recorded 7 events", said)

    def test_its_own_library_preloaded_ends_nothing(self):
        status, said = self.said("--preload", "lttng", "--", self.PROGRAM, 7, LD_PRELOAD="liblttng-ust.so")
        self.assertEqual(status, 3, said)
        service = subprocess.run([self.PROGRAM, "7"], capture_output=True, text=True, timeout=60, check=False,
                                 env=dict(os.environ, LD_LIBRARY_PATH=str(STAND_INS), LD_PRELOAD=own_library()))
        self.assertEqual((service.returncode, service.stderr), (3, ""))

    def test_without_the_probe_it_is_said_which_one_records_them(self):
        for words in ((), ("-e", "storm:*"), ("--preload", "pthread", "-e", "storm:*")):
            status, said = self.said(*words, "--", self.PROGRAM)
            if "--preload" not in words:
                self.assertNotEqual(status, 0)
                self.assertIn(f"{self.PROGRAM} has tracepoints of LTTng-UST: `--preload lttng` records them.", said)
            self.assertNotIn("has no tracepoints", said)

    def test_a_pattern_for_a_running_one_is_not_said_to_match_nothing(self):
        with self.running() as process:
            status, said = self.said("-e", "storm:number", "-p", process.pid, "--duration", "0.3s")
            self.assertEqual(status, 0, said)
            self.assertNotIn("No event of", said)
            self.assertRegex(said, r"\n +\d+  storm:number\n")
            _, said = self.said("-e", "storm:nubmer", "-p", process.pid, "--duration", "0.3s")
            self.assertRegex(said, r"No event of lttng_beside \(\d+\) matches 'storm:nubmer'; it has storm:in_handler, storm:name, storm:number, ")

    def test_a_filter_that_makes_no_sense_of_a_running_one_is_refused(self):
        """As of a program of Plumb's own; one that does is not, even beside events of tracef(), which lack the field."""
        with self.running() as process:
            status, said = self.said("-e", "storm:number if numbr > 7", "-p", process.pid, "--duration", "0.3s")
            self.assertEqual(status, 2, said)
            self.assertIn("has a field numbr, but some have number", said)
            status, said = self.said("-e", "storm:* if number > \"a\"", "-p", process.pid, "--duration", "0.3s")
            self.assertEqual(status, 2, said)
            for words in (("-e", "storm:number if number >= 0"), ("-e", "*", "--filter", "number >= 0")):
                status, said = self.said(*words, "-p", process.pid, "--duration", "0.3s")
                self.assertEqual(status, 0, said)
                self.assertRegex(said, r"\n +\d+  storm:number\n")

    def test_what_the_probe_brings_is_not_listed_as_what_nobody_came_by(self):
        _, said = self.said("--preload", "lttng", "--", "true")
        self.assertIn("none was on but those of lttng_ust_tracef() and lttng_ust_tracelog()", said)
        _, said = self.said("--preload", "lttng", "--", self.PROGRAM, 0)
        self.assertIn("No thread came by what was on: storm:in_handler, storm:name, storm:number, storm:parts.", said)

    def test_a_call_stack_begins_in_the_program(self):
        status, said = self.said("--preload", "lttng", "--context", "callstack", "--", self.PROGRAM, 3)
        self.assertEqual(status, 3, said)
        shown = subprocess.run([PLUMB, "view", "--json", self.trace], capture_output=True, text=True, timeout=60, check=True).stdout
        stacks = [json.loads(line)["callstack"] for line in shown.splitlines()]
        self.assertEqual(len(stacks), 3)
        for stack in stacks:
            self.assertRegex(stack[0], "^lttng_ust__event_probe__storm___number")
            self.assertTrue(any(name.startswith("trace_number") for name in stack), stack)


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

    def test_its_own_library_is_loaded_and_a_session_names_it(self):
        """`plumb enable -p`, before the session starts and while it is started; `plumb start`; and `plumb status` until it ends."""
        name = f"lttng-in-the-way-{os.getpid()}"
        sentence = "it has LTTng-UST's own library loaded, and no tracepoints of Plumb's: start it by `plumb record --preload lttng -- COMMAND`"
        program = self.build("liblttng-ust.so.1")
        processes = [subprocess.Popen([program, "sleeps"]) for _ in range(2)]

        def plumb(*arguments):
            return subprocess.run([PLUMB, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=True)

        def named():
            return {each["pid"]: each["reason"] for each in json.loads(plumb("status", name, "--json").stdout)["unreachable"]}

        try:
            plumb("create", name, "-o", self.trace, "--subbuf-size", "64K")
            first, second = (process.pid for process in processes)
            said = f"process {first} could not be reached: {sentence}"
            self.assertIn(said, plumb("enable", name, "shop:*", "-p", first).stderr)
            self.assertIn(said, plumb("start", name).stderr)
            self.assertEqual(plumb("enable", name, "shop:*").stderr, "")
            answer = plumb("enable", name, "shop:*", "-p", second, "--json")
            self.assertEqual([each["pid"] for each in json.loads(answer.stdout)["unreachable"]], [second])
            self.assertEqual(set(named()), {first, second})
            self.assertTrue(named()[first].startswith(sentence))
            self.assertRegex(plumb("status", name).stdout, rf"unreachable: +{first}  {sentence[:40]}")
            processes[0].kill()
            processes[0].wait()
            self.assertEqual(set(named()), {second})
        finally:
            subprocess.run([PLUMB, "destroy", name], capture_output=True, timeout=60, check=False)
            for process in processes:
                process.kill()
                process.wait()

    def test_the_library_is_an_old_one(self):
        program = self.build("liblttng-ust.so.0")
        for said in self.refusal(program):
            self.assertIn("LTTng-UST 2.12 or older", said)
        done = subprocess.run([PLUMB, "record", "-o", self.trace, "--preload", "lttng", "--", program], capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertIn("is linked with LTTng-UST 2.12 or older (liblttng-ust.so.0)", done.stderr)
        self.assertNotIn("No thread came by", done.stderr)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("is linked with LTTng-UST 2.12 or older (liblttng-ust.so.0)", self.said_without_probe(program))

    def said_without_probe(self, program):
        done = subprocess.run([PLUMB, "record", "--force", "-o", self.trace, "-e", "storm:*", "--", program], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_nothing_can_be_preloaded(self):
        """It is not told to do what can not work."""
        folder = Path(os.environ["PLUMB_SOURCE_DIR"]) / "probes/lttng/tests"
        program, source = self.directory / "linked_statically", self.directory / "linked_statically.c"
        source.write_text("#define LTTNG_UST_TRACEPOINT_DEFINE\n#define LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE\n"
                          '#include "held.h"\nint main(void) { lttng_ust_tracepoint(held, inside, 1); return 0; }\n')
        subprocess.run(["gcc", "-w", "-static", "-D_GNU_SOURCE", "-I", folder, source, "-o", program], check=True, capture_output=True)
        self.assertIn("but is statically linked: nothing can be preloaded into it; `lttng` records them", self.said_without_probe(program))

    @unittest.skipUnless(os.geteuid() == 0, "makes a file of another user")
    def test_it_has_more_rights(self):
        os.chmod(self.directory, 0o755)
        program = shutil.copy(PROGRAMS / "lttng_beside", self.directory / "of_nobody")
        os.chown(program, 65534, 65534)
        os.chmod(program, 0o4755)
        self.assertIn("but is set-user-ID or set-group-ID: nothing can be preloaded", self.said_without_probe(program))

    def test_no_provider_is_loaded(self):
        done = subprocess.run([PLUMB, "record", "-o", self.trace, "--preload", "lttng", "-e", "every_field:w*", "--",
                               PROGRAMS / "lttng_every_field_loaded", "1"], capture_output=True, text=True, timeout=60, check=False)
        self.assertRegex(done.stderr, "has every_field:wide_enum, every_field:words, but no provider of LTTng-UST events that describes them")
        self.assertNotEqual(done.returncode, 0)

    def test_a_provider_is_listed_as_one(self):
        done = subprocess.run([PLUMB, "list", PROGRAMS / "liblttng_every_field_probe.so"], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertIn("is a provider of events for LTTng-UST", done.stderr)


if __name__ == "__main__":
    leave_out_if_not_built()
    unittest.main(verbosity=2)
