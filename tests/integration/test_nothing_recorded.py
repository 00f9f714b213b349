#!/usr/bin/env python3
"""A recording without events says why: programs that could not attach and have ended, no tracepoints, no such event. And a
program is found by its executable's name when that file was replaced or removed while it ran."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import recorded_program  # noqa: E402
import traced_program  # noqa: E402

PLUMB = traced_program.BUILD / "cli/plumb"
PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
PLUMB_EVENT(empty, begun, (i32, count))
static void hear(int number) { (void)number; }
/* wait: for a line of input; owns: so, and has a handler of its own for our signal; _exit: ends without destructors */
int main(int count, char** arguments) {
    const char* way = count > 1 ? arguments[1] : "";
    if (strcmp(way, "owns") == 0) signal(SIGURG, hear);
    if (strcmp(way, "wait") == 0 || strcmp(way, "owns") == 0) getchar();
    plumb_trace(empty, begun, count);
    if (strcmp(way, "_exit") == 0) _exit(0);
    return 0;
}
"""


class NothingRecorded(traced_program.TracedProgramTest):
    PROGRAM = PROGRAM

    def record(self, *arguments, status=0):
        """What it says, and its summary."""
        done = subprocess.run([PLUMB, "record", "-o", self.trace, *map(str, arguments)], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr, json.loads(next(self.trace.rglob("summary.json")).read_text())

    # For the program, and not for rings of 16 MiB.
    LITTLE_ROOM = ("--subbuf-size", "1M", "--subbuf-count", "16", "--", "sh", "-c")

    def check_that_one_is_named(self, script):
        said, summary = self.record(*self.LITTLE_ROOM, f"ulimit -v 65536; {script}")
        self.assertEqual(summary["events"], 0)
        self.assertNotIn("\nNothing was lost", said)
        self.assertEqual(len(summary["unreachable"]), 1, summary["unreachable"])
        reason = summary["unreachable"][0]["reason"]
        self.assertIn("it has ended, and while it ran it could not open the session's channel: Cannot allocate memory", reason)
        self.assertIn(f"Process {summary['unreachable'][0]['pid']} could not be reached: {reason}", said)
        return reason

    def test_one_that_could_not_attach_and_has_ended(self):
        self.check_that_one_is_named(f"exec {self.program}")

    def test_one_that_ended_without_destructors(self):
        self.check_that_one_is_named(f"exec {self.program} _exit")

    def test_many_are_counted(self):
        reason = self.check_that_one_is_named(f"for i in 1 2 3 4 5; do {self.program}; done")
        self.assertTrue(reason.endswith("; 4 more like it have ended, too"), reason)
        self.trace = self.folder / "another"
        said, summary = self.record("--", self.program)  # those were the other session's
        self.assertEqual((summary["events"], summary["unreachable"]), (1, []), said)

    def test_no_tracepoints(self):
        said, _ = self.record("--", "true", status=1)
        self.assertIn("true has no tracepoints: it neither links plumb nor was a probe preloaded", said)
        said, _ = self.record("-q", "--force", "--", "true", status=1)  # no failure without a word
        self.assertIn("true has no tracepoints", said)
        for command in ("view", "contention"):  # who looks at it later asks the same
            shown = subprocess.run([PLUMB, command, self.trace], capture_output=True, text=True, check=False)
            self.assertIn("true has no tracepoints: it neither links plumb", shown.stderr)
        self.record("--force", "--duration", "0.2", "--", "sleep", "60")  # it might have started another one yet

    def test_a_child_that_never_came(self):
        """Something might have been recorded: that is no error."""
        said, _ = self.record("--", "sh", "-c", "/bin/true; true")
        self.assertIn("No program with tracepoints is known to have begun meanwhile", said)
        said, _ = self.record("--force", "--exe", "nosuch", "--duration", "10ms")
        self.assertIn("is known to have run meanwhile whose executable matches --exe 'nosuch'", said)

    def test_an_executable_that_was_mistyped(self):
        with subprocess.Popen([self.program, "wait"], stdin=subprocess.PIPE) as program:
            self.addCleanup(program.kill)
            time.sleep(0.2)
            for pattern, there in (("pogram", "of a name like it there is program."),
                                   ("*/prgram*", "of a name like it there is program."), ("nosuch", "there is program.")):
                said, _ = self.record("--force", "--exe", pattern, "--duration", "10ms")
                self.assertIn("No program with tracepoints (that links plumb, or was started with a probe) is known to "
                              f"have run meanwhile whose executable matches --exe '{pattern}'; {there}\n", said)
                self.assertNotIn("is preloaded", said)
            said, _ = self.record("--force", "--exe", "prog*", "--duration", "10ms")
            self.assertNotIn("--exe", said)
            program.communicate(b"\n", timeout=60)

    def test_a_static_program_under_a_probe(self):
        source, static = self.folder / "static.c", self.folder / "static"
        source.write_text("int main(void) { return 0; }")
        subprocess.run(["cc", "-static", source, "-o", static], check=True)
        said, _ = self.record("--preload", "pthread", "--", static, status=1)
        self.assertIn(f"{static} is statically linked: no probe can be preloaded into it", said)

    def test_a_static_program_with_tracepoints_under_a_probe(self):
        static = traced_program.compile_traced(self.PROGRAM, self.folder / "static", "-static")
        line = (f"{static} is statically linked: no probe can be preloaded into it, "
                "and only its own tracepoints can be recorded.")
        said, summary = self.record("--preload", "pthread", "--", static)
        self.assertEqual((summary["events"], summary["why_empty"]), (1, [line]))
        self.assertIn(line, said)
        said, _ = self.record("--force", "--preload", "pthread", "-e", "pthread:*", "--", static, status=1)
        self.assertIn(line, said)
        said, _ = self.record("--force", "--preload", "pthread", "--", "sh", "-c", f"{static}; true")
        self.assertIn("static is statically linked: no probe can be preloaded into it, and only its own", said)
        for arguments in (["--", static], ["--preload", "pthread", "--", self.program]):
            self.assertNotIn("statically", self.record("--force", *arguments)[0])

    @unittest.skipIf(recorded_program.is_sanitized(), "the probe is built with a sanitizer, and the programs are not")
    def test_a_program_of_another_language_under_a_probe(self):
        """Its locks are no locks of the C library's. (The mark is what Rust's standard library leaves in every program.)"""
        source, program = self.folder / "rust.c", self.folder / "rust"
        source.write_text('const char mark[] = "/rustc/0123/library/std"; int main(void) { return 0; }')
        subprocess.run(["cc", source, "-o", program], check=True)
        said, _ = self.record("--preload", "pthread", "--", program)
        self.assertIn(f"{program} has code that is written in Rust, whose locks wait in the kernel by themselves", said)
        # What a filter or a pattern has left out may have happened.
        for left_out in (["--filter", "waited_ns > 5"], ["-e", "pthread:rwlock_*"], ["-e", "!pthread:mutex_init"]):
            self.assertNotIn("Rust", self.record("--force", "--preload", "pthread", *left_out, "--", program)[0])
        self.assertIn("Rust", self.record("--force", "--preload", "pthread", "-e", "pthread:*", "--", program)[0])
        said, _ = self.record("--force", "--preload", "pthread", "--", "true")
        self.assertNotIn("Rust", said)
        self.assertRegex(said, r"No thread came by what was on: pthread:.*[^,] and \d+ more\.\n")

    def test_no_such_event(self):
        for way in ([], ["--snapshot"]):
            said, summary = self.record(*way, "-e", "emtpy:*", "--", self.program, status=1)
            line = f"No event of {self.program} matches 'emtpy:*'; it has empty:begun."
            self.assertIn(line, said)
            self.assertEqual(summary["why_empty"], [line])
            shutil.rmtree(self.trace)
        self.trace = self.folder / "once-more"
        said, summary = self.record("-e", "empty:*", "--", self.program, "once")
        self.assertNotIn("No event", said)
        self.assertNotIn("why_empty", summary)

    def test_the_status_of_a_command_that_failed_is_its_own(self):
        self.record("-e", "emtpy:*", "--", "sh", "-c", f"{self.program}; exit 7", status=7)

    def test_one_pattern_of_several(self):
        said, summary = self.record("-e", "emtpy:*", "-e", "empty:*", "--", self.program)
        self.assertEqual(summary["events"], 1)
        self.assertIn(f"No event of {self.program} matches 'emtpy:*'; it has empty:begun.", said)
        said, _ = self.record("--force", "-e", "emtpy:*", "-e", "empty:*", "--", "sh", "-c", f"{self.program}; true")
        self.assertIn("No event of the recorded programs matches 'emtpy:*'; by the others empty:begun was on.", said)

    def test_left_out(self):
        said, _ = self.record("-e", "empty:*", "-e", "!*:begun", "--", self.program, status=1)
        self.assertIn(f"empty:begun of {self.program} is left out by -e '!*:begun'", said)
        said, _ = self.record("--force", "--log-level", "crit", "--", self.program, status=1)
        self.assertIn(f"empty:begun of {self.program} is of level debug_line, which --log-level crit leaves out", said)

    def test_attached(self):
        """It is said at once, and not only at the end."""
        with subprocess.Popen([self.program, "wait"], stdin=subprocess.PIPE, text=True) as program:
            self.addCleanup(program.kill)
            time.sleep(0.1)
            with subprocess.Popen([PLUMB, "record", "-o", self.trace, "-e", "emtpy:*", "-p", str(program.pid)], text=True,
                                  stderr=subprocess.PIPE) as recorder:
                self.assertIn(f"program ({program.pid}) matches 'emtpy:*'; it has empty:begun.", recorder.stderr.readline())
                program.communicate("\n", timeout=60)
                recorder.communicate(timeout=60)
                self.assertEqual(recorder.returncode, 1)

    def test_nobody_of_those_named_could_be_reached(self):
        with subprocess.Popen([self.program, "owns"], stdin=subprocess.PIPE) as program:
            while "SigCgt:\t0000000000000000" in pathlib.Path(f"/proc/{program.pid}/status").read_text():
                time.sleep(0.01)
            time.sleep(0.2)
            said, summary = self.record("-p", program.pid, "--duration", "0.2s", status=1)
            self.assertEqual((summary["events"], [each["pid"] for each in summary["unreachable"]]), (0, [program.pid]))
            self.assertIn(f"Process {program.pid} could not be reached", said)

    def check_executable(self, change):
        file = self.folder / f"shop-{change.__name__}"
        shutil.copy(self.program, file)
        with subprocess.Popen([file, "wait"], stdin=subprocess.PIPE, text=True) as program:
            time.sleep(0.1)
            change(file)
            with subprocess.Popen([PLUMB, "record", "-o", self.trace, "--exe", file.name, "--duration", "30s"], text=True,
                                  stderr=subprocess.PIPE) as recorder:
                for _ in range(300):
                    if "/channel-" in pathlib.Path(f"/proc/{program.pid}/maps").read_text():
                        break
                    time.sleep(0.1)
                program.communicate("\n", timeout=60)
                recorder.send_signal(2)
                said = recorder.communicate(timeout=60)[1]
        summary = json.loads((self.trace / "summary.json").read_text())
        self.assertEqual(summary["events"], 1, said)
        self.assertEqual(summary["processes"][0]["executable"], str(file))

    def test_an_executable_that_was_removed(self):
        self.check_executable(os.unlink)

    def test_an_executable_that_was_replaced(self):
        def replace(file):
            shutil.copy("/bin/true", f"{file}.new")
            os.replace(f"{file}.new", file)
        self.check_executable(replace)


if __name__ == "__main__":
    unittest.main()
