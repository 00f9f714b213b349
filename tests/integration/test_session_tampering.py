#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""Sessions whose files in shared memory other programs of the user hold, shorten or change: what is recorded is all there, or it is
said what is not."""
import contextlib
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests/support"))
from control_socket import FOLDER, connect, framed, receive  # noqa: E402
from sessions import PLUMB, plumb  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <stdlib.h>
PLUMB_EVENT(upset, taken, (u64, number))
int main(int count, char** words) {
    const unsigned long events = count > 1 ? strtoul(words[1], NULL, 10) : 1000;
    for (unsigned long i = 0; i < events; i++) plumb_trace(upset, taken, i);
    return 0;
}
"""
CLOSED_OFFSET = 448  # in include/plumb/abi/channel.h
HOLDER = """
import fcntl, os, struct, sys
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(file, fcntl.LOCK_EX)
fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_SETLK
print("held", flush=True)
sys.stdin.read()
"""


class Tampering(TracedProgramTest):
    PROGRAM = PROGRAM

    def setUp(self):
        super().setUp()
        self.addCleanup(plumb, "destroy", "--all", status=None)

    def begin(self, *options):
        plumb("create", "upset", "-o", self.trace, *options)
        plumb("enable", "upset", "upset:*")
        plumb("start", "upset")

    def trace_events(self, count):
        subprocess.run([self.program, str(count)], check=True, timeout=60)

    def status(self):
        return json.loads(plumb("status", "--json", "upset").stdout)

    def until(self, is_so, what):
        end = time.monotonic() + 30
        while not (value := is_so()):
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)
        return value

    def until_told(self, text):
        self.until(lambda: text in " ".join(self.status()["problems"]), text)

    def summaries(self):
        return [json.loads(path.read_text()) for path in sorted(self.trace.glob("*/summary.json"))]

    @contextlib.contextmanager
    def locked_state(self):
        with subprocess.Popen([sys.executable, "-c", HOLDER, FOLDER.parent / "state"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as holder:
            self.assertEqual(holder.stdout.readline(), "held\n")
            yield
            holder.stdin.close()

    def test_what_could_not_be_destroyed_goes_on(self):
        self.begin()
        with self.locked_state():
            self.assertIn("stays locked by another process", plumb("destroy", "upset", status=1).stderr)
        self.trace_events(1000)
        plumb("destroy", "upset")
        self.assertEqual([(each["complete"], each["events"]) for each in self.summaries()], [(True, 1000)])

    def test_who_asks_while_it_is_destroyed_is_told_that_it_is(self):
        self.begin()
        with contextlib.ExitStack() as asked:
            with self.locked_state():
                destroyer = subprocess.Popen([PLUMB, "destroy", "upset"], stdout=subprocess.DEVNULL)
                self.until(lambda: json.loads((FOLDER / "sessions/upset.json").read_text()).get("ending"), "begun")
                late = {command: asked.enter_context(connect()) for command in ("rotate", "destroy")}
                for command, connection in late.items():
                    connection.sendall(framed(json.dumps({"command": command, "session": "upset"}).encode()))
                time.sleep(0.3)  # it waits for the worker now
            self.assertEqual(destroyer.wait(timeout=60), 0)
            self.assertIn("Session upset was destroyed.", receive(late["rotate"])["error"])
            answer = receive(late["destroy"])
            self.assertTrue(answer["ok"] or "was destroyed" in answer["error"], answer)

    def test_a_session_that_another_program_has_removed_can_be_destroyed(self):
        self.begin()
        self.trace_events(100)
        [channel] = FOLDER.parent.glob("channel-*")
        cookie = struct.pack("<Q", int(channel.name.removeprefix("channel-"), 16))
        with open(FOLDER.parent / "state", "r+b") as file, mmap.mmap(file.fileno(), 0) as state:
            while (at := state.find(cookie)) >= 0:
                state[at:at + len(cookie)] = bytes(len(cookie))
        self.assertIn("The session is not in the state file any more", plumb("destroy", "upset").stderr)
        [summary] = self.summaries()
        self.assertEqual((summary["complete"], summary["events"]), (False, 100))
        self.assertEqual(list(FOLDER.parent.glob("channel-*")), [])

    def test_a_channel_that_another_program_has_closed_is_told(self):
        self.begin()
        [channel] = FOLDER.parent.glob("channel-*")
        with open(channel, "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), struct.pack("<I", 1), CLOSED_OFFSET)
        self.until_told("was closed by another program")
        plumb("destroy", "upset")
        self.assertEqual([each["complete"] for each in self.summaries()], [False])

    def test_a_channel_that_is_shortened_behind_what_is_read_is_told(self):
        for is_looked_at in (True, False):
            with self.subTest(is_looked_at=is_looked_at):
                self.trace = self.folder / f"{self._testMethodName}-{is_looked_at}"
                self.begin()
                [channel] = FOLDER.parent.glob("channel-*")
                os.truncate(channel, 8 << 20)
                if is_looked_at:
                    self.until_told("has shortened the session's channel")
                self.assertIn("has shortened the session's channel", plumb("destroy", "upset").stderr)
                self.assertEqual([each["complete"] for each in self.summaries()], [False])

    def begin_anew(self):
        """By a channel that is gone, behind a kill of the worker."""
        worker = self.status()["worker_pid"]
        os.kill(worker, signal.SIGSTOP)
        next(FOLDER.parent.glob("channel-*")).unlink()
        os.kill(worker, signal.SIGKILL)
        self.until(lambda: json.loads(plumb("status", "--json", "upset", status=None).stdout or "{}").get("worker_pid", worker) != worker,
                   "another worker")

    def test_a_flight_recorder_that_begins_anew_says_so_in_its_next_snapshot(self):
        self.begin("--snapshot")
        self.trace_events(100)
        self.begin_anew()
        plumb("snapshot", "upset")
        plumb("snapshot", "upset")
        first, second = self.summaries()[:2]
        self.assertIn("The session begins anew", " ".join(first["problems"]))
        self.assertEqual((first["complete"], second["complete"], second["problems"]), (False, True, []))

    @unittest.skipUnless(os.geteuid() == 0, "others' programs are recorded by root alone")
    def test_a_session_that_begins_anew_leaves_none_at_other_users(self):
        self.begin("--user", "daemon")
        there = Path("/dev/shm/plumb-1")
        [old] = there.glob("channel-*")
        self.begin_anew()
        self.assertFalse(old.exists())
        plumb("destroy", "upset")
        self.assertEqual(list(there.glob("channel-*")), [])


if __name__ == "__main__":
    unittest.main()
