#!/usr/bin/env python3
# cmake-timeout: 300
"""Programs that forbid themselves to read the cycle counter, or all but a few calls, are not recorded from then on, and named."""
import json
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import guarded_program  # noqa: E402
import machine_clock  # noqa: E402
import traced_program  # noqa: E402
from guarded_program import EVENTS, PLUMB  # noqa: E402


class CycleCounter(guarded_program.GuardedProgramTest):
    def test_strict_mode(self):
        for clock in machine_clock.usable("tsc", "mono"):
            with self.subTest(clock=clock):
                self.trace = self.folder / f"strict-{clock}"
                program = self.start()
                recorder = self.begin(program, "--clock", clock)
                self.ask(program, "trace")
                self.ask(program, "strict")
                self.ask(program, "trace")
                self.assertIn("strict mode", self.finish(recorder, is_complete=False))
                self.ask(program, "trace")
                self.assertEqual(self.summary()["events"], EVENTS)
                self.say(program, "quit")  # of the first thread; the others have no filter

    def test_one_that_forbids_the_cycle_counter_is_not_recorded(self):
        program = self.start()
        recorder = self.begin(program)
        self.ask(program, "trace")
        self.ask(program, "notsc")
        for command in ("trace", "notsc", "thread", "fork", "trace"):
            self.ask(program, command)
        said = self.finish(recorder, is_complete=False)
        self.assertIn("PR_SET_TSC", said)
        self.assertNotIn("Nothing was lost", said)
        self.assertEqual((self.summary()["complete"], self.summary()["not_switched_on"]), (False, {"refused_clock": 1}))
        viewed = subprocess.run([PLUMB, "view", self.trace], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(viewed.returncode, 0)
        self.assertIn("PR_SET_TSC", viewed.stderr)
        self.assertEqual(self.summary()["events"], EVENTS)
        self.trace = self.folder / "later"
        errors = self.record(program, "--seccomp").communicate(timeout=60)[1]
        self.assertIn("PR_SET_TSC", errors)
        self.ask(program, "trace")
        self.end(program)

    def test_nor_by_the_second_of_two_recorders(self):
        """Each has a number of its own in the program."""
        program = self.start()
        traces = [self.folder / "of-first", self.folder / "of-second"]
        recorders = []
        for self.trace in traces:
            recorders.append(self.begin(program))
            time.sleep(0.5)  # until it is on here, too
        self.ask(program, "trace")
        self.ask(program, "notsc")
        self.ask(program, "trace")
        for self.trace, recorder in zip(traces, recorders):
            self.assertIn("PR_SET_TSC", self.finish(recorder, is_complete=False))
            self.assertEqual(self.summary()["events"], EVENTS)
        self.end(program)

    def test_nor_in_a_session_that_is_kept(self):
        """The chunk is not complete, and whoever stops the session hears of it."""
        def plumb(*words):
            return subprocess.run([PLUMB, *words], capture_output=True, text=True, timeout=60, check=True)
        program = self.start()
        plumb("create", "kept", "-o", self.trace)
        self.addCleanup(subprocess.run, [PLUMB, "destroy", "--all"], capture_output=True, timeout=60)
        plumb("enable", "kept", "*")
        plumb("start", "kept")
        for command in ("trace", "notsc", "trace"):
            self.ask(program, command)
        self.assertIn("PR_SET_TSC", plumb("stop", "kept").stderr)
        [chunk] = [path for path in self.trace.glob("chunk-*") if not path.name.endswith(".part")]
        summary = json.loads((chunk / "summary.json").read_text())
        self.assertEqual((summary["complete"], summary["not_switched_on"]), (False, {"refused_clock": 1}))
        self.assertIn("PR_SET_TSC", plumb("destroy", "kept").stderr)
        self.end(program)

    # Forbids the cycle counter, and becomes another program.
    LAUNCHER = """
    #include <linux/prctl.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    int main(int count, char** arguments) {
        return count < 2 || syscall(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) || execv(arguments[1], arguments + 1);
    }
    """

    def test_one_that_may_not_read_the_cycle_counter_since_before_exec_is_left_alone(self):
        """A static one: the dynamic linker reads it."""
        launcher, program = self.folder / "launcher", self.folder / "static"
        subprocess.run(["cc", "-x", "c", "-", "-o", launcher], input=self.LAUNCHER, text=True, check=True)
        traced_program.compile_traced(self.PROGRAM, program, "-static")
        for clock in ([], ["--clock", "mono"]):
            with self.subTest(clock=clock):
                self.trace = self.folder / f"no-clock-{len(clock)}"
                done = subprocess.run([PLUMB, "record", *clock, "-o", self.trace, "--", launcher, program],
                                      input="trace\nthread\nfork\nexit\n", capture_output=True, text=True, timeout=60,
                                      check=False)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("PR_SET_TSC", done.stderr)
                self.assertNotIn("Nothing was lost", done.stderr)
        started = subprocess.Popen([launcher, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(started.wait)
        self.addCleanup(started.kill)
        for stream in (started.stdin, started.stdout):
            self.addCleanup(stream.close)
        self.assertEqual(started.stdout.readline(), "done\n")
        for attempt in range(2):
            self.trace = self.folder / f"no-clock-attached-{attempt}"
            errors = self.record(started).communicate(timeout=60)[1]
            self.assertIn("PR_SET_TSC", errors)
            self.ask(started, "trace")
        self.end(started)


if __name__ == "__main__":
    unittest.main()
