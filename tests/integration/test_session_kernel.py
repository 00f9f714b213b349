#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
# cmake-serial
"""The kernel's events in sessions of plumb-consumerd: each that a program counted is there once, whatever is killed meanwhile; chunks
have both domains, cut at the same moment; stopped, nothing is recorded; nothing is left in the kernel in the end."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
INSTANCES = Path("/sys/kernel/tracing/instances")
sys.path.insert(0, str(SOURCE / "tests/support"))
from control_socket import FOLDER  # noqa: E402
from kernel_events import leave_out_without_kernel_events  # noqa: E402
from sessions import PLUMB, SessionTest, plumb, supervisor  # noqa: E402

# `program BURST PAUSE_US`: until SIGTERM, two threads make a system call of a rare kind, whose arguments say which it is, and an event
# before each. Says at the end how many there were.
PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
PLUMB_EVENT(shop, call, (u32, writer), (u64, number))
static volatile sig_atomic_t over;
static unsigned long numbers[2], burst, pause_us;
static void end(int number) { (void)number; over = 1; }
static void* work(void* argument) {
    const unsigned writer = (unsigned)(unsigned long)argument;
    unsigned long number = 0;
    while (!over) {
        for (unsigned long i = 0; i < burst; i++) {
            plumb_trace(shop, call, writer, number);
            syscall(SYS_ioprio_get, 1000 + writer, number++);
        }
        if (pause_us) usleep((unsigned)pause_us);
    }
    numbers[writer] = number;
    return NULL;
}
int main(int count, char** words) {
    (void)count;
    pthread_t threads[2];
    burst = strtoul(words[1], NULL, 10);
    pause_us = strtoul(words[2], NULL, 10);
    signal(SIGTERM, end);
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, (void*)i);
    puts("begun");
    fflush(stdout);
    for (long i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (long i = 0; i < 2; i++) printf("%lu\n", numbers[i]);
    return 0;
}
"""
CALLS = "syscalls:sys_enter_ioprio_get"
CALL = re.compile(r"syscall_entry_ioprio_get: .*which = (\w+), who = (\w+)")
EVENT = re.compile(r"shop:call: .*writer = (\d+), number = (\d+) \}")


def instances():
    return {path.name for path in INSTANCES.iterdir() if path.name.startswith("plumb_")}


class KernelOfSessions(SessionTest):
    PROGRAM = PROGRAM

    def setUp(self):
        super().setUp()
        self.instances = instances()

    def read(self, trace, has_losses=False):
        """Numbers by thread: of calls, as the kernel has them, and of events."""
        done = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, errors="replace", timeout=120, check=False)
        said = [line for line in done.stderr.splitlines() if not has_losses or "Tracer discarded" not in line]
        self.assertEqual((done.returncode, said), (0, []), trace)
        calls, events = {0: [], 1: []}, {0: [], 1: []}
        for which, number in CALL.findall(done.stdout):
            if int(which, 0) >= 1000:
                calls[int(which, 0) - 1000].append(int(number, 0))
        for writer, number in EVENT.findall(done.stdout):
            events[int(writer)].append(int(number))
        return calls, events

    def chunks(self, trace):
        return sorted(path for path in trace.iterdir() if path.name.startswith("chunk-"))

    def lost(self, trace):
        found = {}
        for chunk in self.chunks(trace):
            for name, count in json.loads((chunk / "summary.json").read_text())["events_lost_by_cause"].items():
                found[name] = found.get(name, 0) + count
        return found

    def check_nothing_is_left(self):
        self.assertEqual(instances(), self.instances)
        self.assertFalse(list((FOLDER / "sessions").iterdir()))

    def test_both_domains_in_each_chunk(self):
        trace = self.create("web", "-k", CALLS)
        plumb("enable", "web", "shop:*")
        plumb("start", "web")
        program = self.start_program()
        for _ in range(3):
            time.sleep(0.3)
            plumb("rotate", "web")
        written = self.end_program(program)
        status = self.status("web")
        self.assertEqual(status["kernel"]["events"], [CALLS])
        self.assertGreater(status["kernel"]["events_recorded"], 0)
        self.assertIn(CALLS, plumb("status", "web").stdout)
        self.assertEqual(instances() - self.instances, {status["kernel"]["instance"]})
        plumb("destroy", "web")
        chunks = self.chunks(trace)
        self.assertEqual(len(chunks), 4)
        begins = [0, 0]
        for chunk in chunks:
            self.assertTrue((chunk / "kernel/metadata").is_file() and (chunk / "ust/metadata").is_file(), chunk)
            calls, events = self.read(chunk)
            for writer in range(2):  # an event comes before its call: cut at one moment, one call at most is on the other side
                self.assertEqual(calls[writer], list(range(begins[writer], begins[writer] + len(calls[writer]))))
                begins[writer] += len(calls[writer])
                if events[writer]:
                    self.assertIn(events[writer][-1] - calls[writer][-1], (0, 1))
        self.assertEqual(begins, written)
        self.assertEqual(self.lost(trace), {})
        self.check_nothing_is_left()

    def test_stop_start_clear(self):
        trace = self.create("web", "-k", CALLS, "--kernel-buffer-size", "1M")
        plumb("start", "web")
        program = self.start_program()
        time.sleep(0.4)
        plumb("stop", "web")
        stopped, _ = self.read(trace)
        self.assertGreater(len(stopped[0]), 0)
        time.sleep(0.4)
        self.assertEqual(self.read(trace)[0], stopped)
        plumb("start", "web")
        time.sleep(0.3)
        plumb("clear", "web")
        time.sleep(0.3)
        written = self.end_program(program)
        plumb("destroy", "web")
        calls, _ = self.read(trace)
        for writer in range(2):
            self.assertGreater(calls[writer][0], stopped[writer][-1] + 1)
            self.assertEqual(calls[writer], list(range(calls[writer][0], written[writer])))
        self.check_nothing_is_left()

    def killed(self, turns, burst, pause_us, *options):
        trace = self.create("web", "-k", CALLS, *options)
        plumb("enable", "web", "shop:nothing")
        plumb("start", "web")
        name = self.status("web")["kernel"]["instance"]
        program = self.start_program(burst, pause_us)
        for turn in range(turns):
            time.sleep(0.4)
            os.kill(self.status("web")["worker_pid"], signal.SIGKILL)
            if turn % 3 == 1:
                os.kill(supervisor(), signal.SIGKILL)
        self.assertEqual(self.status("web")["kernel"]["instance"], name)  # it has gone on
        self.assertGreater(self.status("web")["worker_restarts"], 0)
        written = self.end_program(program)
        plumb("destroy", "web")
        return trace, written

    def test_killed_again_and_again(self):
        """Nothing is missing, nothing is there twice."""
        trace, written = self.killed(9, 20, 1000, "--rotate-period", "300ms")
        calls, _ = self.read(trace)
        self.assertEqual(self.lost(trace), {})
        for writer in range(2):
            self.assertEqual(sorted(calls[writer]), list(range(written[writer])))
        self.check_nothing_is_left()

    def test_killed_while_much_comes(self):
        """As fast as two threads can, and what found no room is counted."""
        trace, written = self.killed(6, 1000, 200)
        calls, _ = self.read(trace, has_losses=True)
        for writer in range(2):
            self.assertEqual(len(calls[writer]), len(set(calls[writer])))
        lost = self.lost(trace)
        self.assertLessEqual(set(lost), {"kernel_dropped"})
        told = len(calls[0]) + len(calls[1]) + sum(lost.values())
        self.assertGreaterEqual(told, sum(written))
        self.assertLess(told, sum(written) + 1000)  # calls of others may be among what found no room
        self.check_nothing_is_left()

    def test_nobody_removes_it_between_two_workers(self):
        self.create("web", "-k", CALLS)
        plumb("start", "web")
        name = self.status("web")["kernel"]["instance"]
        daemon, worker = supervisor(), self.status("web")["worker_pid"]
        os.kill(daemon, signal.SIGSTOP)  # nobody starts the next worker
        try:
            os.kill(worker, signal.SIGKILL)
            time.sleep(0.2)
            subprocess.run([PLUMB, "doctor"], capture_output=True, timeout=60, check=False)
            subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "-k", CALLS, "--", "true"], capture_output=True,
                           timeout=60, check=False)
            self.assertIn(name, instances())
            self.assertEqual((INSTANCES / name / "tracing_on").read_text(), "1\n")
        finally:
            os.kill(daemon, signal.SIGCONT)
        plumb("destroy", "web")
        self.check_nothing_is_left()

    def test_destroyed_while_nobody_works(self):
        self.create("web", "-k", CALLS)
        plumb("start", "web")
        os.kill(self.status("web")["worker_pid"], signal.SIGKILL)
        plumb("destroy", "web")
        self.check_nothing_is_left()

    def test_saved_and_loaded(self):
        self.create("web", "-k", CALLS, "-k", "sched:sched_process_exec", "--kernel-buffer-size", "2M", "--no-file-names")
        saved = json.loads(plumb("save", "web").stdout)
        self.assertEqual(saved["kernel"], {"events": [CALLS, "sched:sched_process_exec"], "buffer_bytes": 2 << 20,
                                           "file_names": False})
        plumb("destroy", "web")
        saved["output"] = str(self.folder / "loaded")
        self.addCleanup(shutil.rmtree, saved["output"], ignore_errors=True)
        (self.folder / "saved.json").write_text(json.dumps(saved))
        plumb("load", self.folder / "saved.json")
        self.assertEqual(self.status("web")["kernel"]["buffer_bytes"], 2 << 20)
        plumb("destroy", "web")
        self.check_nothing_is_left()

    def test_the_session_itself_is_left_out(self):
        """Also the worker that comes next, from its first call."""
        trace = self.create("web", "-k", "syscalls:sys_enter_*", "--no-file-names")
        plumb("start", "web")
        own = set()
        for _ in range(2):
            worker = self.status("web")["worker_pid"]
            own |= {int(path.name) for path in Path(f"/proc/{worker}/task").iterdir()}
            time.sleep(0.3)
            os.kill(worker, signal.SIGKILL)
        plumb("destroy", "web")
        text = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, errors="replace", check=True, timeout=120).stdout
        seen = [int(tid) for tid in re.findall(r" syscall_entry_\w+: \{[^}]*\}, \{ tid = (\d+) \}", text)]
        self.assertGreater(len(seen), 100)
        self.assertEqual([tid for tid in seen if tid in own][:3], [])
        self.check_nothing_is_left()

    def test_what_can_not_be(self):
        refused = {("--snapshot", "-k", CALLS): "a flight recorder that is kept has no events of the kernel",
                   ("-k", CALLS, "--kernel-by", "module"): "--kernel-by module is for `plumb record`",
                   ("--kernel-buffer-size", "8M"): "--kernel-buffer-size means nothing without -k",
                   ("-k", CALLS, "--kernel-buffer-size", "8"): "a buffer holds something, a page at least",
                   ("-k", CALLS, "--clock", "real"): "no clock of real time"}
        for options, why in refused.items():
            self.assertIn(why, plumb("create", "web", "-o", self.trace, *options, status=2).stderr)
        self.assertIn("The kernel has no event nosuch:event", plumb("create", "web", "-o", self.trace, "-k", "nosuch:event", status=1).stderr)
        self.check_nothing_is_left()

    def test_a_refused_one_leaves_nothing(self):
        """Nobody was killed: no channel is kept for `plumb extract`, where it would take the place of another one's."""
        self.create("keeps-the-daemon")
        files = {path.name for path in FOLDER.parent.iterdir()}
        for number, event in enumerate(("nosuch:event", "kprobe:nosuch", "uprobe:/bin/ls:nosuch")):
            trace = self.folder / f"refused-{number}"
            plumb("create", "web", "-o", trace, "-k", event, status=1)
            self.assertFalse(trace.exists(), event)
            self.assertEqual({path.name for path in FOLDER.parent.iterdir()} - files, set(), event)
        self.assertNotIn("Left by killed recorders", plumb("list").stdout)
        self.assertNotIn("is removed, though", (FOLDER / "log").read_text())
        self.assertEqual(instances(), self.instances)


if __name__ == "__main__":
    leave_out_without_kernel_events(PLUMB)
    unittest.main()
