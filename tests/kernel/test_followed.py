#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-lock: boot
"""Whose events plumb.ko records where a command or -p names some: all that their threads do, and what these start, threads, children
and the kernel's workers for them, whichever way they are made; when the scheduler switches to them or wakes them; and nothing of
others, not even of who gets the number of one that has ended.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_followed.py 6.1 [TEST...]"""
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from guest import GuestTests, run_tests
from guest_module import complaints, guest_with_module, why_not_built

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
VERSION = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else ""

EVENTS = "-k syscalls:getppid -k syscalls:getpgid -k syscalls:execve -k sched:sched_switch -k 'sched:sched_wak*' -k task:task_newtask --kernel-buffer-size 16M"
WAKING = ("sched_wakeup", "sched_wakeup_new", "sched_waking")
COMMAND = """
{record} -o $RESULTS/trace {events} -- followed tree 20 >$RESULTS/made
status=$?
exit $status
"""
ATTACHED = """
mkfifo $RESULTS/fifo
followed told 5 $RESULTS/fifo >$RESULTS/made & told=$!
until [ -e /proc/$told/task ] && set -- /proc/$told/task/* && [ $# = 4 ]; do sleep 0.05; done
{record} -o $RESULTS/trace {events} -k syscalls:getsid -p $told & recorder=$!
until [ -s $RESULTS/trace/kernel/ring_0 ] || [ -s $RESULTS/trace/kernel/ring_1 ]; do sleep 0.05; done
echo -n abc >$RESULTS/fifo
wait $told
status=$?
kill -INT $recorder
wait $recorder
rm $RESULTS/fifo
exit $status
"""


class Followed(GuestTests):
    @classmethod
    def boot(cls, folder):
        guest, _ = guest_with_module(VERSION)
        guest.add(BUILD / "cli/plumb", "/bin/plumb")
        subprocess.run(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", SOURCE / "tests/kernel/followed.c", "-o",
                        folder / "followed"], check=True)
        guest.add(folder / "followed", "/bin/followed")
        # Numbers come round soon, and are others' by then.
        guest.step("load", "insmod /plumb.ko && echo 400 >/proc/sys/kernel/pid_max")
        guest.step("others", "for i in 1 2; do followed others & done; sleep 0.5")
        record = "plumb record -q --kernel-by module"
        guest.step("command", COMMAND.format(record=record, events=EVENTS))
        guest.step("command_by_tracefs", COMMAND.format(record="plumb record -q", events=EVENTS))
        guest.step("scheduled", f"echo 32768 >/proc/sys/kernel/pid_max; {COMMAND.format(record=record, events=EVENTS)}")
        guest.step("attached", ATTACHED.format(record=record, events=EVENTS))
        guest.step("ended", f"{record} -o $RESULTS/trace {EVENTS} -- true; {record} -o $RESULTS/later {EVENTS} --duration 100ms -p $$")
        guest.step("everybody", f"{record} -o $RESULTS/trace {EVENTS} -a -- followed tree 1 >$RESULTS/made")
        guest.step("killed", "killall followed; unload")
        guest.step("log", "dmesg")
        return guest.boot(folder, step_seconds=60)

    def events(self, name):
        trace = self.left_by(name) / "trace"
        summary = json.loads((trace / "summary.json").read_text())
        self.assertEqual(summary["events_lost"], 0)
        done = subprocess.run([BUILD / "cli/plumb", "view", "--json", trace], capture_output=True, text=True, check=True)
        other = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, check=False)
        self.assertEqual((done.stderr, other.returncode, other.stderr), ("", 0, ""))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def check_whose(self, found, made):
        """All calls of those that are followed, and none of others."""
        kinds = Counter(event["event"] for event in found)
        print(kinds.most_common(10))
        self.assertEqual(kinds["syscall_entry_getppid"], int(made.split()[0]))
        self.assertEqual(kinds["syscall_entry_getpgid"], 0)

    def check_scheduling(self, found):
        """What is about one of them, and all of it: who is switched to is switched from next, on each processor."""
        ours = {event["tid"] for event in found if event["event"] not in WAKING and event["event"] != "sched_switch"}
        ours |= {event["fields"]["pid"] for event in found if event["event"] == "task_newtask"}
        running, switches = {}, 0
        for event in found:
            fields, cpu = event["fields"], event["cpu"]
            if event["event"] in WAKING:
                self.assertTrue({event["tid"], fields["tid"]} & ours, event)
            if event["event"] != "sched_switch":
                continue
            self.assertTrue({fields["prev_tid"], fields["next_tid"]} & ours, event)
            if running.get(cpu) in ours:
                self.assertEqual(fields["prev_tid"], running[cpu], event)
                switches += 1
            running[cpu] = fields["next_tid"]
        self.assertGreater(switches, 50)

    def test_a_command_and_all_that_it_starts(self):
        found = self.events("command")
        self.check_whose(found, (self.left_by("command") / "made").read_text())
        # From its exec() on: what its maker does before is nobody's.
        self.assertEqual([event["event"] for event in found if event["event"].startswith("syscall_")][0], "syscall_entry_execve")

    def test_who_is_switched_to_and_who_is_woken(self):
        self.check_scheduling(self.events("scheduled"))

    def test_as_by_tracefs(self):
        """Which may take one that gets the number of another one for it."""
        kinds = Counter(event["event"] for event in self.events("command_by_tracefs"))
        self.assertEqual(kinds["syscall_entry_getppid"], int((self.left_by("command_by_tracefs") / "made").read_text().split()[0]))

    def test_a_worker_of_the_kernels_is_its_processes(self):
        if "worker" not in (self.left_by("command") / "made").read_text():
            self.skipTest("this kernel has no io_uring")
        names = {event["fields"]["prev_comm"] for event in self.events("command") if event["event"] == "sched_switch"}
        self.assertTrue([name for name in names if name.startswith("iou-wrk")], names)

    def test_threads_that_were_there(self):
        found = self.events("attached")
        self.check_whose(found, (self.left_by("attached") / "made").read_text())
        self.check_scheduling(found)

    def test_who_has_ended_leaves_nobody(self):
        self.check_whose(self.events("ended"), "0")

    def test_everybody_where_that_is_asked_for(self):
        kinds = Counter(event["event"] for event in self.events("everybody"))
        self.assertGreater(kinds["syscall_entry_getpgid"], 0)
        self.assertEqual(kinds["syscall_entry_getppid"], int((self.left_by("everybody") / "made").read_text().split()[0]))

    def test_the_kernel_has_nothing_to_say(self):
        self.left_by("killed")
        self.left_by("log")
        self.assertEqual(complaints(self.results["log"].out), [])


if __name__ == "__main__":
    run_tests(why_not_built(VERSION) if VERSION else "")
