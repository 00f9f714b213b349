#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""plumb-consumerd under a small limit of descriptors: it takes what the hard limit allows, says what to do where that is too little,
and nobody who asks it waits for an answer that can not come."""
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
sys.path.insert(0, str(SOURCE / "tests/support"))
from control_socket import FOLDER, ask, connect  # noqa: E402
import sessions  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

PROGRAM = r"""
#include <plumb/tracepoint.h>
PLUMB_EVENT(few, taken, (u64, number))
int main(void) {
    for (unsigned long i = 0; i < 1000; i++) plumb_trace(few, taken, i);
    return 0;
}
"""
COMMANDS = ("create", "enable", "start", "status", "rotate", "save", "clear", "stop", "destroy")
# Enough for a session: the least that a worker begins with.
ENOUGH = 64 + os.sysconf("SC_NPROCESSORS_CONF")


def limited(soft, hard=None):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard or soft))


def plumb(*words, **more):
    """Fails if it is not answered."""
    return sessions.plumb(*words, status=None, timeout=30, **more)


def end_daemon():
    """One that nothing is left of."""
    try:
        os.kill(ask(json.dumps({"command": "version"}).encode())["pid"], signal.SIGKILL)
    except OSError:
        return
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            connect().close()
        except OSError:
            return
        time.sleep(0.01)


class Descriptors(TracedProgramTest):
    PROGRAM = PROGRAM

    def setUp(self):
        super().setUp()
        end_daemon()
        self.addCleanup(end_daemon)
        self.addCleanup(plumb, "destroy", "--all")

    def use(self, trace, limit, is_client_limited):
        """What a session says when each of its commands is asked; its first refusal, if there is one."""
        for command in COMMANDS:
            words = [command, "few", *(["-o", trace] if command == "create" else []), *(["few:*"] if command == "enable" else [])]
            done = plumb(*words, preexec_fn=limit if command == "create" or is_client_limited else None)
            if command == "start" and done.returncode == 0:
                subprocess.run([self.program], check=True, timeout=60)
            if done.returncode != 0 or done.stderr:
                return command, done.stderr
        return None, ""

    def test_each_limit_is_enough_or_is_said(self):
        for number in [*range(5, 32), 40, 48, 63, 64, ENOUGH - 1, ENOUGH]:
            trace = self.folder / f"hard-{number}"
            command, said = self.use(trace, limited(number), False)
            self.assertEqual(command, None if number >= ENOUGH else "create", (number, said))
            if number < ENOUGH:
                self.assertIn("ulimit", said, number)
                self.assertFalse(trace.exists(), number)
            end_daemon()

    def test_a_soft_limit_is_raised(self):
        for number in (20, 64):
            trace = self.folder / f"soft-{number}"
            self.assertEqual(self.use(trace, limited(number, 4096), False), (None, ""), number)
            end_daemon()

    def test_commands_that_have_few_themselves(self):
        """With a daemon that has enough."""
        self.assertEqual(plumb("create", "kept", "-o", self.trace).returncode, 0)
        for number in range(5, 21):
            for command in ("status", "save", "stop"):
                done = plumb(command, "kept", preexec_fn=limited(number))
                if done.returncode != 0 and command != "stop":
                    self.assertIn("ulimit", done.stderr, (number, command))

    def test_who_comes_when_no_descriptor_is_left_is_refused(self):
        """Not left waiting: connections take what the daemon has."""
        done = plumb("create", "few", "-o", self.trace, preexec_fn=limited(ENOUGH))
        self.assertEqual(done.returncode, 0, done.stderr)
        worker = json.loads(plumb("status", "--json", "few").stdout)["worker_pid"]
        for path, process in (("control", ask(json.dumps({"command": "version"}).encode())["pid"]), ("sessions/few.socket", worker)):
            held = []
            for _ in range(120):
                connection = socket.socket(socket.AF_UNIX)
                self.addCleanup(connection.close)
                connection.connect(str(FOLDER / path))
                held.append(connection)
            begin = time.monotonic()
            done = plumb("status", "few")
            self.assertLess(time.monotonic() - begin, 5, path)
            self.assertIn(f"Process {process} of plumb-consumerd has no descriptor left", done.stdout + done.stderr, path)
            used = self.processor_ticks(process)
            time.sleep(0.5)
            self.assertLess(self.processor_ticks(process) - used, 20, path)
            for connection in held:
                connection.close()
            self.assertEqual(plumb("status", "few").returncode, 0)
        self.assertEqual(plumb("destroy", "few").returncode, 0)

    @staticmethod
    def processor_ticks(process):
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return int(words[11]) + int(words[12])


if __name__ == "__main__":
    unittest.main()
