#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 200
"""Sessions whose description can not be written, as where /dev/shm is full: what was refused is not done, now or behind a death of
the worker, and what was on goes on."""
import contextlib
import json
import os
import signal
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests/support"))
from babeltrace import events  # noqa: E402
from control_socket import FOLDER  # noqa: E402
from sessions import SessionTest, plumb  # noqa: E402

PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
PLUMB_EVENT(room, tick, (u64, number))
static volatile sig_atomic_t over;
static void end(int number) { (void)number; over = 1; }
int main(int count, char** words) {
    unsigned long number = 0;
    (void)count;
    signal(SIGTERM, end);
    puts("begun");
    fflush(stdout);
    while (!over) {
        plumb_trace(room, tick, number++);
        usleep((unsigned)atoi(words[2]));
    }
    printf("%lu\n", number);
    return 0;
}
"""


@contextlib.contextmanager
def no_room_for(session):
    """Its next description can not be written, where that begins."""
    obstacle = FOLDER / f"sessions/.{session}.json.new"
    obstacle.mkdir()
    try:
        yield
    finally:
        obstacle.rmdir()


class Room(SessionTest):
    PROGRAM = PROGRAM

    def begin(self):
        trace = self.create("roomy")
        plumb("enable", "roomy", "room:*")
        plumb("start", "roomy")
        return trace

    def kill_worker(self):
        before = self.status("roomy")["worker_pid"]
        os.kill(before, signal.SIGKILL)
        self.until(lambda: self.status("roomy").get("worker_pid", before) != before)

    def until(self, is_so):
        end = time.monotonic() + 30
        while not is_so():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def causes(self):
        return json.loads(plumb("trigger", "roomy", "list", "--json").stdout)["triggers"][0]["causes"]

    def test_a_session_that_can_not_be_destroyed_goes_on_behind_a_death_too(self):
        trace = self.begin()
        program = self.start_program()
        with no_room_for("roomy"):
            self.assertIn("roomy.json", plumb("destroy", "roomy", status=1).stderr)
        plumb("enable", "roomy", "room:later")  # stores all that is known
        self.assertNotIn('"ending"', (FOLDER / "sessions/roomy.json").read_text())
        self.kill_worker()
        time.sleep(0.3)
        written, = self.end_program(program)
        plumb("destroy", "roomy")
        numbers = [event.fields["number"] for event in events(trace) if event.name == "room:tick"]
        self.assertEqual(numbers, list(range(written)))

    def test_triggers_of_one_that_can_not_be_destroyed_go_on(self):
        self.begin()
        plumb("trigger", "roomy", "add", "counted", "--on", "event room:tick", "--do", "run true", "--every", "1h")
        program = self.start_program()
        with no_room_for("roomy"):
            plumb("destroy", "roomy", status=1)
        before = self.causes()
        self.until(lambda: self.causes() > before + 10)
        self.end_program(program)

    def test_a_trigger_that_can_not_be_removed_is_there(self):
        self.begin()
        plumb("trigger", "roomy", "add", "kept", "--on", "event room:tick", "--do", "run true", "--every", "1h")
        program = self.start_program()
        with no_room_for("roomy"):
            self.assertIn("roomy.json", plumb("trigger", "roomy", "remove", "kept", status=1).stderr)
        before = self.causes()
        self.until(lambda: self.causes() > before + 10)
        self.end_program(program)
        plumb("trigger", "roomy", "remove", "kept")
        self.assertEqual(json.loads(plumb("trigger", "roomy", "list", "--json").stdout)["triggers"], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
