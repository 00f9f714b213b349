#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 600
"""A worker that is killed at each step of a command, at one of its system calls after the other: whatever the step was, what the session
recorded is in its trace exactly once, and nothing of it stays behind. And a command that comes to a worker together with the end of
its session."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests/support"))
from control_socket import FOLDER, ask, framed, receive  # noqa: E402
from sessions import PLUMB, STRACE, may_be_traced, plumb  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

# `program FIRST COUNT`: numbers so many events. `program FIRST COUNT wait`: says that it has begun, and does so when it is told to.
PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
PLUMB_EVENT(step, taken, (u64, number))
int main(int count, char** words) {
    if (count > 3) {
        puts("begun");
        fflush(stdout);
        (void)getchar();
    }
    const unsigned long first = strtoul(words[1], NULL, 10), events = strtoul(words[2], NULL, 10);
    for (unsigned long i = first; i < first + events; i++) plumb_trace(step, taken, i);
    return 0;
}
"""
EVENTS = 2000
# What changes something that the next worker sees.
CALLS = "openat,close,sendto,rt_tgsigqueueinfo,rt_sigqueueinfo,pidfd_send_signal,mkdirat,renameat,renameat2,unlinkat,unlink,write,pwrite64,ftruncate,rmdir,mmap,futex"
STEPS_MAX = 400
IS_STRACED = may_be_traced()


class Steps(TracedProgramTest):
    PROGRAM = PROGRAM

    def setUp(self):
        super().setUp()
        self.addCleanup(plumb, "destroy", "--all", status=None)

    def write(self, first):
        subprocess.run([self.program, str(first), str(EVENTS)], check=True, timeout=60)

    def numbers(self, trace):
        done = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), trace)
        return sorted(int(number) for number in re.findall(r"step:taken: .*number = (\d+) \}", done.stdout))

    def worker(self, name):
        return json.loads(plumb("status", "--json", name).stdout)["worker_pid"]

    def killed_at(self, worker, step, *words):
        """Whether the worker got as far as this system call of the command, and was killed there."""
        seen = self.folder / "calls"
        strace = subprocess.Popen([STRACE, "-f", "-qq", "-o", seen, "-p", str(worker), "-e", f"trace={CALLS}",
                                   "-e", f"inject={CALLS}:signal=KILL:when={step}"], stderr=subprocess.DEVNULL)
        until = time.monotonic() + 30
        while not self.is_followed(worker):
            self.assertIsNone(strace.poll())
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)
        plumb(*words, status=None)
        strace.terminate()
        try:
            strace.wait(timeout=3)
        except subprocess.TimeoutExpired:  # it waits for threads of the killed one now and then
            strace.kill()
            strace.wait(timeout=30)
        return "killed by SIGKILL" in seen.read_text()

    @staticmethod
    def is_followed(process):
        try:
            statuses = [path.read_text() for path in Path(f"/proc/{process}/task").glob("*/status")]
        except OSError:
            return True
        return all(not re.search(r"TracerPid:\s+0\n", status) for status in statuses)

    def at_each_step(self, command, *options, then=()):
        """Once the command, killed at its first step, its second, ... until it is through; what else is asked, and the end."""
        kills, in_a_row, step = 0, 0, 1
        while in_a_row < 3:
            self.assertLess(step, STEPS_MAX)
            trace = self.folder / f"{command}-{step}"
            plumb("create", "step", "-o", trace, *options)
            plumb("enable", "step", "step:taken")
            plumb("start", "step")
            self.write(0)
            was_killed = self.killed_at(self.worker("step"), step, command, "step")
            kills += was_killed
            in_a_row = 0 if was_killed else in_a_row + 1
            for words in then:
                plumb(*words)
            until = time.monotonic() + 30
            while plumb("destroy", "step", status=None).returncode == 0 or "step" in plumb("status").stdout:
                self.assertLess(time.monotonic(), until)
                time.sleep(0.02)
            self.assertEqual(self.numbers(trace), list(range(EVENTS)), f"{command}, killed at step {step}")
            self.assertEqual([path.name for path in trace.iterdir() if not re.fullmatch(r"(chunk-\d{8}-[\dT+-]+|snapshot-\d+)", path.name)],
                             [], f"{command}, killed at step {step}")
            self.assertEqual([path.name for path in FOLDER.parent.iterdir() if path.name.startswith(("channel-", "left-"))], [],
                             f"{command}, killed at step {step}")
            shutil.rmtree(trace)
            step += 1 if step < 30 else 9
        print(f"{command} {' '.join(options)}: killed at {kills} steps")
        self.assertGreater(kills, 5)

    @unittest.skipUnless(IS_STRACED, "strace can not attach to other processes here")
    def test_a_snapshot_is_taken_once(self):
        self.at_each_step("snapshot", "--snapshot", "--subbuf-size", "256K", "--subbuf-count", "4")

    @unittest.skipUnless(IS_STRACED, "strace can not attach to other processes here")
    def test_a_flight_recorder_that_ends_has_its_last_snapshot(self):
        self.at_each_step("destroy", "--snapshot", "--subbuf-size", "256K", "--subbuf-count", "4")

    @unittest.skipUnless(IS_STRACED, "strace can not attach to other processes here")
    def test_a_session_that_ends_is_whole(self):
        self.at_each_step("destroy", "--mode", "block", "--subbuf-size", "256K", "--subbuf-count", "4")

    def switched_at_each_step(self, command, *words):
        """Of a program that runs meanwhile, and that the next worker has to tell what the one before did not."""
        is_on = command in ("start", "enable")
        in_a_row, step, kills = 0, 1, 0
        # It looks at all threads of the machine, and of those there may be many: not at each of these steps.
        while in_a_row < 3 and step < STEPS_MAX // 2:
            trace = self.folder / f"{command}-{step}"
            plumb("create", "step", "-o", trace, "--subbuf-size", "256K", "--subbuf-count", "4")
            if command != "enable":
                plumb("enable", "step", "step:taken")
            if command != "start":
                plumb("start", "step")
            with subprocess.Popen([self.program, "0", str(EVENTS), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True) as program:
                self.assertEqual(program.stdout.readline(), "begun\n")
                was_killed = self.killed_at(self.worker("step"), step, command, "step", *words)
                kills += was_killed
                in_a_row = 0 if was_killed else in_a_row + 1
                status = json.loads(plumb("status", "--json", "step").stdout)
                if bool(status["started"] and status["rules"]) != is_on:
                    plumb(command, "step", *words)
                program.communicate("\n", timeout=60)
            plumb("destroy", "step")
            self.assertEqual(self.numbers(trace), list(range(EVENTS)) if is_on else [], f"{command}, killed at step {step}")
            shutil.rmtree(trace)
            step += 1 if step < 30 else 9
        print(f"{command}: killed at {kills} steps")
        self.assertGreater(kills, 5)

    @unittest.skipUnless(IS_STRACED, "strace can not attach to other processes here")
    def test_what_is_started_is_on_behind_a_kill(self):
        self.switched_at_each_step("start")

    @unittest.skipUnless(IS_STRACED, "strace can not attach to other processes here")
    def test_what_is_enabled_is_on_behind_a_kill(self):
        self.switched_at_each_step("enable", "step:taken")

    @unittest.skipUnless(IS_STRACED, "strace can not attach to other processes here")
    def test_what_is_stopped_is_off_behind_a_kill(self):
        self.switched_at_each_step("stop")

    @unittest.skipUnless(IS_STRACED, "strace can not attach to other processes here")
    def test_what_is_disabled_is_off_behind_a_kill(self):
        self.switched_at_each_step("disable", "step:taken")

    def test_what_comes_behind_the_end_finds_no_session(self):
        """Several at once, all of which the worker reads in one look."""
        for last in ("destroy", "snapshot", "clear", "start", "stop", "enable", "status"):
            trace = self.folder / f"late-{last}"
            plumb("create", "late", "-o", trace)
            plumb("enable", "late", "step:taken")
            plumb("start", "late")
            self.write(0)
            worker = self.worker("late")
            os.kill(worker, signal.SIGSTOP)
            connections = []
            for command in ("destroy", last):
                connection = socket.socket(socket.AF_UNIX)
                self.addCleanup(connection.close)
                connection.settimeout(30)
                connection.connect(str(FOLDER / "sessions/late.socket"))
                connection.sendall(framed(json.dumps({"command": command, "session": "late", "rules": [{"event": "a:b"}]}).encode()))
                connections.append(connection)
            os.kill(worker, signal.SIGCONT)
            first, second = (receive(connection) for connection in connections)
            self.assertTrue(first["ok"], (last, first))
            if second is not None:
                self.assertFalse(second["ok"], (last, second))
                self.assertIn("Session late was destroyed", second["error"])
            self.assertEqual(self.numbers(trace), list(range(EVENTS)), last)
            self.assertFalse([path.name for path in trace.iterdir() if path.name.startswith("snapshot")], last)
            until = time.monotonic() + 10
            while Path(f"/proc/{worker}").exists():
                self.assertLess(time.monotonic(), until)
                time.sleep(0.02)
            self.assertFalse((FOLDER / "sessions/late.json").exists(), last)

    def test_a_worker_that_is_not_found_at_once_is_found_later(self):
        """As one that was just beginning when the daemon was killed: it holds the session, and can not be spoken to yet."""
        trace = self.folder / "found"
        plumb("create", "found", "-o", trace)
        plumb("enable", "found", "step:taken")
        plumb("start", "found")
        self.write(0)
        worker = self.worker("found")
        here, away = FOLDER / "sessions/found.socket", FOLDER / "sessions/found.away"
        here.rename(away)
        os.kill(ask(json.dumps({"command": "version"}).encode())["pid"], signal.SIGKILL)
        with subprocess.Popen([PLUMB, "status", "--json", "found"], stdout=subprocess.PIPE, text=True) as asked:
            time.sleep(0.25)
            away.rename(here)
            answer, _ = asked.communicate(timeout=30)
        self.assertEqual(json.loads(answer)["worker_pid"], worker)
        self.assertEqual(plumb("destroy", "found").stdout, f"{trace}\n")
        self.assertEqual(self.numbers(trace), list(range(EVENTS)))


if __name__ == "__main__":
    unittest.main()
