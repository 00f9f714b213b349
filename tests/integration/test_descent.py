#!/usr/bin/env python3
"""What a recorder launches is recorded, and what that launches, also where the environment that says so is taken away."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import traced_program  # noqa: E402

PLUMB = traced_program.BUILD / "cli/plumb"
PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char** environ;
PLUMB_EVENT(descent, tick, (i32, number))
/* COUNT [fork|slowly|title]: that many events; and one in a child; one each millisecond; none, but a title over its
 * environment, and no call that ends early before it is to end */
int main(int count, char** arguments) {
    const int slowly = count > 2 && arguments[2][0] == 's';
    if (count > 2 && arguments[2][0] == 't') {
        struct pollfd input = {0, POLLIN, 0};
        for (char** variable = environ; *variable; variable++) memset(*variable, 'x', strlen(*variable));
        puts("titled");
        fflush(stdout);
        return poll(&input, 1, 60000) != 1;
    }
    if (count > 2 && !slowly && fork() == 0) arguments[1] = "1";
    for (int i = 0; i < atoi(arguments[1]); i++) {
        plumb_trace(descent, tick, i);
        if (slowly) usleep(1000);
    }
    return 0;
}
"""


class Descent(traced_program.TracedProgramTest):
    PROGRAM = PROGRAM

    def record(self, *command):
        done = subprocess.run([PLUMB, "record", "-o", self.trace, "--", *map(str, command)], capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((self.trace / "summary.json").read_text())

    def test_a_child_without_environment(self):
        self.assertEqual(self.record("sh", "-c", f"{self.program} 10; env -i {self.program} 200")["events"], 210)

    def test_a_program_in_the_place_of_the_command(self):
        self.assertEqual(self.record("env", "-i", self.program, 20)["events"], 20)

    def test_its_children_that_outlive_it(self):
        script = f"env -i sh -c '{self.program} 20 fork'; sleep 0.2"
        self.assertEqual(self.record("sh", "-c", script)["events"], 21)

    @unittest.skipUnless(os.getuid() == 0, "only root becomes others")
    def test_another_user_without_environment(self):
        # Who becomes another user is found some time after it has begun.
        summary = self.record("setpriv", "--reuid", 65534, "--clear-groups", "env", "-i", self.program, 2000, "slowly")
        self.assertGreater(summary["events"], 500)
        self.assertEqual([each["reason"].split(",")[0] for each in summary["reached_late"]],
                         ["what it traced before is missing"])

    def test_strangers_are_not(self):
        with subprocess.Popen(["sh", "-c", f"read go; exec {self.program} 40"], stdin=subprocess.PIPE) as stranger, \
             subprocess.Popen([PLUMB, "record", "-o", self.trace, "--", "sh", "-c", f"{self.program} 1; echo; read end"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as recorder:
            recorder.stdout.read(1)
            stranger.stdin.close()
            self.assertEqual(stranger.wait(30), 0)
            recorder.communicate(timeout=60)
        self.assertEqual(json.loads((self.trace / "summary.json").read_text())["events"], 1)

    def test_strangers_with_a_title_over_their_environment_are_not(self):
        users = [[]]
        if os.getuid() == 0:
            users.append(["setpriv", "--reuid", "65534", "--clear-groups"])
        for user in users:
            trace = self.trace.with_name(f"{self.trace.name}-{len(user)}")
            with self.subTest(user), subprocess.Popen([*user, self.program, "0", "title"], stdin=subprocess.PIPE,
                                                      stdout=subprocess.PIPE) as stranger:
                stranger.stdout.readline()
                done = subprocess.run([PLUMB, "record", "-o", trace, "--", "timeout", "9", "sleep", "0.3"], capture_output=True, text=True,
                                      timeout=60, check=False)
                stranger.stdin.close()
                self.assertEqual(stranger.wait(30), 0, "its call ended early")
                self.assertEqual(done.returncode, 0, done.stderr)
                summary = json.loads((trace / "summary.json").read_text())
                self.assertEqual([summary["unreachable"], summary["reached_late"], summary["disturbed"]], [[], [], []])


if __name__ == "__main__":
    unittest.main()
