#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""A daemon or worker that is stopped: commands say whom they wait for, and give up; what was given up is not done later; and who is
only slow is waited for."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
sys.path.insert(0, str(SOURCE / "tests/support"))
from control_socket import ask  # noqa: E402
import sessions  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

PROGRAM = r"""
#include <plumb/tracepoint.h>
PLUMB_EVENT(halt, taken, (u64, number))
int main(void) {
    for (unsigned long i = 0; i < 1000; i++) plumb_trace(halt, taken, i);
    return 0;
}
"""
# Until a command gives up: one that takes no time, and another.
SHORT_S, LONG_S = 5, 10


def plumb(*words, **more):
    """Fails if it is not answered."""
    return sessions.plumb(*words, status=None, timeout=50, **more)


class Stopped(TracedProgramTest):
    PROGRAM = PROGRAM

    def setUp(self):
        super().setUp()
        self.stopped = []
        self.addCleanup(plumb, "destroy", "--all")
        self.addCleanup(self.let_go_on)
        for name in ("halt", "other"):
            self.assertEqual(plumb("create", name, "-o", f"{self.trace}-{name}").returncode, 0)
            self.assertEqual(plumb("enable", name, "halt:*").returncode, 0)
            self.assertEqual(plumb("start", name).returncode, 0)
        subprocess.run([self.program], check=True, timeout=60)
        self.worker = json.loads(plumb("status", "--json", "halt").stdout)["worker_pid"]
        self.daemon = ask(json.dumps({"command": "version"}).encode())["pid"]

    def stop(self, process):
        os.kill(process, signal.SIGSTOP)
        self.stopped.append(process)

    def let_go_on(self):
        while self.stopped:
            os.kill(self.stopped.pop(), signal.SIGCONT)

    def all_at_once(self, *commands):
        """Of each: its status, its standard output, standard error, and how long it took."""
        begin = time.monotonic()
        asked = [subprocess.Popen([PLUMB, *words.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for words in commands]
        try:
            answers, took = {}, {}
            while len(took) < len(asked) and time.monotonic() < begin + 40:
                time.sleep(0.1)
                took.update({words: time.monotonic() - begin for words, each in zip(commands, asked)
                             if words not in took and each.poll() is not None})
            self.assertEqual(sorted(set(commands) - set(took)), [], "they wait for ever")
            for words, each in zip(commands, asked):
                answers[words] = (each.returncode, *each.communicate(), took[words])
            return answers
        finally:
            for each in asked:
                each.kill()

    def check_given_up(self, answers, who, process):
        for words, (status, out, error, took) in answers.items():
            self.assertEqual((status, out), (1, ""), words)
            self.assertIn(f"{who} (process {process}) does not answer: it is stopped, and `kill -CONT {process}`", error, words)
            self.assertLess(took, (SHORT_S if "status" in words else LONG_S) + 8, words)

    def check_nothing_is_done(self):
        self.let_go_on()
        session = json.loads(plumb("status", "--json", "halt").stdout)
        self.assertEqual((session["started"], session["chunks"], [rule["event"] for rule in session["rules"]]), (True, [], ["halt:*"]))
        self.assertEqual(plumb("destroy", "halt").returncode, 0)
        read = subprocess.run(["babeltrace2", f"{self.trace}-halt"], capture_output=True, text=True, check=True)
        self.assertEqual(read.stdout.count("halt:taken"), 1000)

    def test_a_worker(self):
        self.stop(self.worker)
        self.check_given_up(self.all_at_once("status halt", "destroy halt", "rotate halt", "stop halt", "disable halt --all"),
                            "The worker of session halt", self.worker)
        all_of_them = plumb("status")  # the other one is told of
        self.assertEqual(all_of_them.returncode, 0)
        self.assertIn(f"(process {self.worker}) does not answer: it is stopped", all_of_them.stdout)
        self.assertIn("other  started", all_of_them.stdout)
        self.assertEqual(plumb("rotate", "other").returncode, 0)
        self.check_nothing_is_done()

    def test_the_daemon(self):
        self.stop(self.daemon)
        self.check_given_up(self.all_at_once("status", "status halt", "destroy halt", "rotate halt", "save halt",
                                             f"create new -o {self.trace}-new"), "plumb-consumerd", self.daemon)
        self.assertFalse(Path(f"{self.trace}-new").exists())
        self.check_nothing_is_done()
        self.assertFalse(Path(f"{self.trace}-new").exists())

    def test_one_that_goes_on_in_time_is_waited_for(self):
        self.stop(self.worker)
        with subprocess.Popen([PLUMB, "destroy", "halt"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asked:
            time.sleep(6)
            self.let_go_on()
            out, error = asked.communicate(timeout=40)
        self.assertEqual((asked.returncode, out), (0, f"{self.trace}-halt\n"))
        self.assertRegex(error, rf"^plumb: The worker of session halt \(process {self.worker}\) does not answer: it is stopped.*\n$")


if __name__ == "__main__":
    unittest.main()
