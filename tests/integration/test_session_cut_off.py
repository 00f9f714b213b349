#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 200
"""Sessions whose folder in shared memory is taken away, as systemd-logind does at a user's last logout: nobody can reach them any
more, so they end by themselves, say in what they wrote that they did, and leave nothing; what is made later is not touched."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests/support"))
from babeltrace import events  # noqa: E402
from control_socket import FOLDER, connect, framed, receive  # noqa: E402
from sessions import plumb, supervisor  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
PLUMB_EVENT(cut, off, (u64, number))
int main(int count, char** words) {
    const unsigned long events = strtoul(words[1], NULL, 10);
    (void)count;
    for (unsigned long i = 0; i < events; i++) plumb_trace(cut, off, i);
    puts("traced");
    fflush(stdout);
    return getchar() == EOF ? 0 : 1;
}
"""
SHM = FOLDER.parent
ELSEWHERE = SHM.with_name("elsewhere")
EVENTS = 1000
CUT_OFF = "nobody could reach it any more"


def remove():
    shutil.rmtree(SHM)


def replace():
    SHM.rename(ELSEWHERE)
    SHM.mkdir(mode=0o700)


def traced(trace):
    return [each for each in events(trace) if each.name == "cut:off"]


def memory():
    """In use in /dev/shm."""
    room = os.statvfs("/dev/shm")
    return (room.f_blocks - room.f_bfree) * room.f_frsize


def runs(process):
    """One that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class CutOff(TracedProgramTest):
    PROGRAM = PROGRAM

    def setUp(self):
        super().setUp()
        self.addCleanup(shutil.rmtree, ELSEWHERE, ignore_errors=True)
        self.addCleanup(plumb, "destroy", "--all", status=None)

    def begin(self, name, *options):
        """The process ids of what keeps it."""
        trace = self.folder / f"{self._testMethodName}-{name}"
        plumb("create", name, "-o", trace, *options)
        plumb("enable", name, "cut:*")
        plumb("start", name)
        return trace, {json.loads(plumb("status", "--json", name).stdout)["worker_pid"], supervisor()}

    def run_program(self):
        """One that goes on when it has traced; the caller ends it."""
        program = subprocess.Popen([self.program, str(EVENTS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.communicate)
        self.assertEqual(program.stdout.readline(), "traced\n")
        return program

    def until_ended(self, processes):
        end = time.monotonic() + 20
        while any(map(runs, processes)):
            self.assertLess(time.monotonic(), end, "daemon and worker run on")
            time.sleep(0.05)

    def summary(self, trace):
        [path] = trace.glob("*/summary.json")
        return json.loads(path.read_text())

    def test_a_session_that_is_cut_off_ends_and_says_so(self):
        for take_away in (remove, replace):
            with self.subTest(take_away.__name__):
                before = memory()
                trace, processes = self.begin(take_away.__name__)
                program = self.run_program()
                take_away()
                self.run_program().communicate()  # not found by it any more
                self.until_ended(processes)
                program.communicate()
                summary = self.summary(trace)
                self.assertEqual((summary["complete"], summary["events"], len(traced(trace))), (False, EVENTS, EVENTS))
                problems = " ".join(summary["problems"])
                self.assertIn("Programs that started since are not recorded", problems)
                self.assertIn(CUT_OFF, problems)
                self.assertIn(CUT_OFF, plumb("view", "--summary", trace).stdout)
                shutil.rmtree(ELSEWHERE, ignore_errors=True)
                shutil.rmtree(SHM, ignore_errors=True)
                self.assertLess(memory(), before + (1 << 20))

    def test_one_that_is_made_there_meanwhile_is_not_touched(self):
        old, processes = self.begin("same")
        replace()
        new = self.folder / "made-meanwhile"
        plumb("create", "same", "-o", new)
        plumb("enable", "same", "cut:*")
        plumb("start", "same")
        self.until_ended(processes)
        self.run_program().communicate()
        self.assertEqual(plumb("destroy", "same").stdout, f"{new}\n")
        self.assertEqual((self.summary(new)["complete"], len(traced(new))), (True, EVENTS))
        self.assertIn(CUT_OFF, " ".join(self.summary(old)["problems"]))

    def test_all_sessions_end_whatever_they_are(self):
        traces = []
        processes = set()
        for name, options in (("chunks", ()), ("recorder", ("--snapshot",)), ("still", ()), ("triggered", ())):
            trace, of_it = self.begin(name, *options)
            traces.append(trace)
            processes |= of_it
        plumb("trigger", "triggered", "add", "often", "--on", "event cut:off", "--do", "rotate")
        self.run_program().communicate()
        plumb("stop", "still")
        remove()
        self.until_ended(processes)
        for trace in traces:
            with self.subTest(trace.name):
                summaries = [json.loads(path.read_text()) for path in trace.glob("*/summary.json")]
                self.assertEqual([each for each in trace.iterdir() if each.name.endswith(".part")], [])
                self.assertIn(CUT_OFF, " ".join(text for each in summaries for text in each["problems"]))
                self.assertEqual(len(traced(trace)), EVENTS)

    def test_a_worker_that_is_ended_before_it_has_seen_it_says_so(self):
        trace, processes = self.begin("told")
        self.run_program().communicate()
        [worker] = processes - {supervisor()}
        os.kill(worker, signal.SIGSTOP)
        remove()
        os.kill(worker, signal.SIGTERM)
        os.kill(worker, signal.SIGCONT)
        self.until_ended(processes)
        summary = self.summary(trace)
        self.assertEqual((summary["complete"], summary["events"]), (False, EVENTS))
        self.assertIn(CUT_OFF, " ".join(summary["problems"]))

    def test_who_asks_it_still_is_told(self):
        _, processes = self.begin("asked")
        [worker] = processes - {supervisor()}
        os.kill(worker, signal.SIGSTOP)
        with connect() as connection:
            replace()
            connection.sendall(framed(json.dumps({"command": "status", "session": "asked"}).encode()))
            self.assertIn("was removed or replaced", receive(connection)["error"])
            os.kill(worker, signal.SIGCONT)
            self.until_ended(processes)


if __name__ == "__main__":
    unittest.main()
