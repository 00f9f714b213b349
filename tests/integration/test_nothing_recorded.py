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
import traced_program  # noqa: E402

PLUMB = traced_program.BUILD / "cli/plumb"
PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
PLUMB_EVENT(empty, begun, (i32, count))
/* wait: for a line of input; _exit: ends without destructors */
int main(int count, char** arguments) {
    const char* way = count > 1 ? arguments[1] : "";
    if (strcmp(way, "wait") == 0) getchar();
    plumb_trace(empty, begun, count);
    if (strcmp(way, "_exit") == 0) _exit(0);
    return 0;
}
"""


class NothingRecorded(traced_program.TracedProgramTest):
    PROGRAM = PROGRAM

    def record(self, *arguments):
        """What it says, and its summary."""
        done = subprocess.run([PLUMB, "record", "-o", self.trace, *map(str, arguments)], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr, json.loads((self.trace / "summary.json").read_text())

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
        said, _ = self.record("--", "true")
        self.assertIn("No program with tracepoints is known to have begun meanwhile", said)

    def test_no_such_event(self):
        said, _ = self.record("-e", "emtpy:*", "--", self.program)
        self.assertIn("No tracepoint of theirs is named by -e emtpy:*", said)
        self.trace = self.folder / "once-more"
        said, _ = self.record("-e", "empty:*", "--", self.program, "once")
        self.assertNotIn("No tracepoint", said)

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
