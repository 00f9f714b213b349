#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-serial
"""Whose events of the kernel are recorded: of processes that are attached to, with all their threads, of programs by their
executable as long as they run it, and of everybody; each counted as the program counts its own calls."""
import collections
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
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
sys.path.insert(0, str(SOURCE / "tests/support"))
from kernel_events import leave_out_without_kernel_events  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

TRACEFS = Path("/sys/kernel/tracing")
PATIENCE_S = 60

# Does what it is told by lines: "call 20" makes so many calls, "fork 30" has a child make them, "exec PROGRAM" runs that,
# "run PROGRAM" has a child run it, which makes 9 calls, "end".
# What it has done it says by a line.
PROGRAM = r"""
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
PLUMB_EVENT(told, line, (string, line))
static void call(int count) {
    for (int i = 0; i < count; i++) syscall(SYS_getsid, 0);
}
int main(int count, char** arguments) {
    char line[4096];
    if (count > 1) return call(atoi(arguments[1])), 0;
    setbuf(stdin, NULL);
    dprintf(1, "begun\n");
    while (fgets(line, sizeof(line), stdin) != NULL && strcmp(line, "end\n") != 0) {
        line[strcspn(line, "\n")] = 0;
        char* const what = strchr(line, ' ') + 1;
        plumb_trace(told, line, line);
        if (strncmp(line, "call ", 5) == 0) call(atoi(what));
        if (strncmp(line, "exec ", 5) == 0) execl(what, what, NULL);
        if (strncmp(line, "run ", 4) == 0) {
            if (vfork() == 0) _exit(execl(what, what, "9", NULL));
            wait(NULL);
        }
        if (strncmp(line, "fork ", 5) == 0) {
            if (fork() == 0) _exit((call(atoi(what)), 0));
            wait(NULL);
        }
        dprintf(1, "done\n");
    }
    return 0;
}
"""

# No tracepoints. Threads start threads, until there are as many as were asked for; after SIGUSR1 each makes its calls.
THREADS = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static volatile sig_atomic_t told;
static int count, calls;
static int begun = 1, done;
static void tell(int number) { (void)number; told = 1; }
static void* run(void* argument) {
    (void)argument;
    usleep(2000);
    pthread_t next;
    for (int i = 0; i < 2; i++)
        if (__atomic_add_fetch(&begun, 1, __ATOMIC_RELAXED) <= count) pthread_create(&next, NULL, run, NULL);
    while (!told) usleep(1000);
    for (int i = 0; i < calls; i++) syscall(SYS_getsid, 0);
    if (__atomic_add_fetch(&done, 1, __ATOMIC_RELAXED) == count) dprintf(1, "done\n");
    pause();
    return NULL;
}
int main(int argc, char** arguments) {
    if (argc < 3) return 2;
    count = atoi(arguments[1]);
    calls = atoi(arguments[2]);
    signal(SIGUSR1, tell);
    dprintf(1, "begun\n");
    run(NULL);
    return 0;
}
"""


def own_instances():
    """Of recorders with this /dev/shm."""
    memory = os.stat("/dev/shm")
    return [TRACEFS / "instances" / name for name in os.listdir(TRACEFS / "instances")
            if f"_{memory.st_dev:x}_{memory.st_ino:x}_" in name]


def numbers(file):
    return {int(word) for word in file.read_text().split() if word.isdigit()}


class Told:
    """A program that does as it is told."""

    def __init__(self, test, program):
        self.test = test
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.pid = self.process.pid
        test.addCleanup(self.end)
        test.assertEqual(self.process.stdout.readline(), "begun\n")

    def tell(self, line, answer="done"):
        self.process.stdin.write(line + "\n")
        self.test.assertEqual(self.process.stdout.readline(), answer + "\n")

    def end(self):
        self.process.kill()
        self.process.communicate()


class Who(TracedProgramTest):
    PROGRAM = PROGRAM

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.matching, cls.other = (shutil.copy(cls.program, cls.folder / name) for name in ("told-this", "other"))
        (cls.folder / "threads.c").write_text(THREADS)
        cls.threads = cls.folder / "threads"
        subprocess.run(["cc", "-O1", "-o", cls.threads, cls.folder / "threads.c", "-lpthread"], check=True)

    def begin(self, *arguments):
        """A recorder, when the kernel's events are on."""
        self.assertEqual(own_instances(), [])
        recorder = subprocess.Popen([PLUMB, "record", "--json", "-q", "-o", self.trace, *arguments], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (recorder.kill(), recorder.communicate()) if recorder.returncode is None else None)
        self.wait_for(lambda: recorder.poll() is not None or any(self.is_on(one) for one in own_instances()), "it is on")
        self.assertIsNone(recorder.poll(), recorder.stderr.read() if recorder.poll() is not None else "")
        (self.instance,) = [one for one in own_instances() if not one.name.endswith("_programs")]
        return recorder

    @staticmethod
    def is_on(instance):
        """A new one is on at first, with no events."""
        try:
            return (not instance.name.endswith("_programs") and (instance / "set_event").read_text() != "" and
                    (instance / "tracing_on").read_text() == "1\n")
        except FileNotFoundError:
            return False

    def wait_for(self, condition, what):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"never: {what}")
            time.sleep(0.01)

    def wait_recorded(self, pid):
        self.wait_for(lambda: pid in numbers(self.instance / "set_event_pid") and
                      pid not in numbers(self.instance / "set_event_notrace_pid"), f"{pid} is recorded")

    def wait_hidden(self, pid):
        self.wait_for(lambda: pid in numbers(self.instance / "set_event_notrace_pid"), f"{pid} is hidden")

    def end(self, recorder, status=0):
        recorder.send_signal(signal.SIGINT)
        text, error = recorder.communicate(timeout=PATIENCE_S)
        self.assertEqual(recorder.returncode, status, error)
        self.assertEqual(own_instances(), [])
        return json.loads(text), error

    def calls(self):
        """How often it was called, by thread."""
        done = subprocess.run(["babeltrace2", self.trace], capture_output=True, text=True, timeout=200, check=True)
        self.assertEqual(done.stderr, "")
        return collections.Counter(int(match[1]) for match in
                                   re.finditer(r" syscall_entry_getsid: .*?\btid = (\d+)", done.stdout))

    def test_a_process_that_knows_nothing_of_plumb_is_recorded_with_threads_that_begin_meanwhile(self):
        count, calls = 300, 7
        program = subprocess.Popen([self.threads, str(count), str(calls)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (program.kill(), program.communicate()))
        self.assertEqual(program.stdout.readline(), "begun\n")
        recorder = self.begin("-p", str(program.pid), "-k", "syscalls:getsid")
        program.send_signal(signal.SIGUSR1)
        self.assertEqual(program.stdout.readline(), "done\n")
        summary, error = self.end(recorder)
        found = self.calls()
        self.assertEqual((len(found), set(found.values())), (count, {calls}))
        self.assertTrue(summary["complete"])
        self.assertEqual((summary["unreachable"], error), ([], ""))

    def test_tracepoints_that_were_asked_for_and_are_not_there_are_told(self):
        program = subprocess.Popen([self.threads, "1", "9"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (program.kill(), program.communicate()))
        self.assertEqual(program.stdout.readline(), "begun\n")
        summary, _ = self.end(self.begin("-p", str(program.pid), "-k", "syscalls:getsid", "-e", "told:*"))
        self.assertIn("no tracepoints", summary["unreachable"][0]["reason"])

    def test_processes_with_tracepoints_and_without_are_attached_to_together(self):
        told = Told(self, self.program)
        program = subprocess.Popen([self.threads, "1", "9"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (program.kill(), program.communicate()))
        self.assertEqual(program.stdout.readline(), "begun\n")
        recorder = self.begin("-p", str(told.pid), "-p", str(program.pid), "-k", "syscalls:getsid")
        self.wait_for(lambda: (self.trace / "kernel/metadata").exists(), "there is a trace")
        time.sleep(0.5)  # tracepoints are switched on behind the kernel's events
        told.tell("call 11")
        told.tell("fork 12")
        program.send_signal(signal.SIGUSR1)
        self.assertEqual(program.stdout.readline(), "done\n")
        summary, _ = self.end(recorder)
        self.assertEqual(sorted(self.calls().values()), [9, 11, 12])
        self.assertEqual(summary["events_by_name"]["told:line"], 2)

    def test_a_process_that_is_not_there_is_an_error(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        for options in ((), ("-k", "sched:*")):
            done = subprocess.run([PLUMB, "record", "-o", self.trace, "-p", str(gone.pid), *options], capture_output=True,
                                  text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"There is no process {gone.pid}.", done.stderr)
            self.assertFalse(self.trace.exists())

    def test_one_that_ends_soon_was_recorded_until_then(self):
        """It was named as one that could not be reached."""
        for lives in (0.3, 0.6, 1):
            program = subprocess.Popen(["sleep", str(lives)])
            done = subprocess.run([PLUMB, "record", "--json", "--force", "-o", self.trace, "-p", str(program.pid), "-k", "sched:*"],
                                  capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            program.wait()
            if "There is no process" in done.stderr:  # it has ended before
                continue
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["unreachable"], [])

    def test_tracefs_that_may_not_be_written_is_told(self):
        done = subprocess.run(["unshare", "-m", "sh", "-c", f"mount -o remount,bind,ro {TRACEFS} && exec {PLUMB} list --kernel"],
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertIn(f"{TRACEFS} is mounted read-only", done.stderr)
        self.assertNotIn("There is no tracefs", done.stderr)

    def test_everybody_is_the_kernels_events_alone(self):
        told = Told(self, self.program)
        recorder = self.begin("-a", "-k", "syscalls:getsid", "--kernel-buffer-size", "32M")
        told.tell("call 13")
        late = Told(self, self.program)
        late.tell("call 14")
        summary, _ = self.end(recorder)
        calls = self.calls()
        self.assertEqual((calls[told.pid], calls[late.pid]), (13, 14))
        self.assertFalse([name for name in summary["events_by_name"] if name.startswith("told:")])
        self.assertTrue(summary["complete"])

    def test_everybody_is_not_the_recorders_later_threads(self):
        """One removes the trace that was there; a command and its children, which are the recorder's, are somebody."""
        for command in ([], ["--", "sh", "-c", f"sleep 0.3; {self.program} 9; rm -f {self.folder}/a"]):
            for _ in range(2):
                subprocess.run([PLUMB, "record", "-q", "--force", "-o", self.trace, "-a", "-k", "syscalls:unlink*", "-k", "syscalls:getsid",
                                *(command or ["--duration", "300ms"])], check=True, timeout=PATIENCE_S)
            shown = subprocess.run([PLUMB, "view", "--json", self.trace], capture_output=True, text=True, check=True).stdout
            removed = [fields["pathname"] for event in map(json.loads, shown.splitlines())
                       if str(self.folder) in (fields := event["fields"]).get("pathname", "")]
            self.assertEqual(removed, [f"{self.folder}/a"] if command else [])
            calls = [line for line in shown.splitlines() if "entry_getsid" in line and f'"{Path(self.program).name}"' in line]
            self.assertEqual(len(calls), 9 if command else 0)

    def test_everybodys_tracepoints_are_recorded_too_where_events_are_named(self):
        told = Told(self, self.program)
        recorder = self.begin("-a", "-k", "syscalls:getsid", "-e", "told:*", "--kernel-buffer-size", "32M")
        listing = [PLUMB, "list", "--json"]
        self.wait_for(lambda: b"told" in subprocess.run(listing, capture_output=True, check=False).stdout, "it is listed")
        time.sleep(0.5)
        told.tell("call 15")
        summary, _ = self.end(recorder)
        self.assertEqual(self.calls()[told.pid], 15)
        self.assertEqual(summary["events_by_name"].get("told:line"), 1)

    def test_programs_are_recorded_by_their_executable_and_nobody_else(self):
        before, other = Told(self, self.matching), Told(self, self.other)
        recorder = self.begin("--exe", f"{self.folder}/told-*", "-k", "syscalls:getsid")
        self.wait_recorded(before.pid)
        before.tell("call 21")
        before.tell("fork 22")
        other.tell("call 23")
        later = Told(self, self.matching)
        self.wait_recorded(later.pid)
        later.tell("call 24")
        other_later = Told(self, self.other)
        other_later.tell("call 25")
        self.end(recorder)
        calls = self.calls()
        self.assertEqual((calls.pop(before.pid), calls.pop(later.pid)), (21, 24))
        self.assertEqual(list(calls.values()), [22])

    def test_who_starts_a_matching_program_later_has_its_name_and_process(self):
        """It was there before anything of it was recorded: no event tells."""
        starts = Told(self, self.other)
        recorder = self.begin("--exe", "told-*", "-k", "syscalls:getsid", "-k", "sched:sched_switch")
        self.wait_for(lambda: (self.trace / "kernel/metadata").exists(), "there is a trace")
        time.sleep(0.5)  # so that the statedump was made
        later = Told(self, self.matching)
        self.wait_recorded(later.pid)
        later.tell("call 61")
        later.tell("fork 62")
        starts.tell(f"exec {self.matching}", "begun")
        self.wait_recorded(starts.pid)
        starts.tell("call 63")
        self.end(recorder)
        done = subprocess.run([PLUMB, "view", "--summary", "--json", self.trace / "kernel"], capture_output=True, text=True, check=True)
        threads = {thread["tid"]: (thread["pid"], thread["comm"]) for thread in json.loads(done.stdout)["threads"]}
        for pid in (later.pid, starts.pid):
            self.assertEqual(threads[pid], (pid, "told-this"))
        (child,) = set(self.calls()) - {later.pid, starts.pid}
        self.assertEqual(threads[child], (child, "told-this"))

    def test_who_runs_another_program_is_not_recorded_until_he_runs_a_matching_one_again(self):
        told, starts = Told(self, self.matching), Told(self, self.other)
        recorder = self.begin("--exe", "told-*", "-k", "syscalls:getsid")
        self.wait_recorded(told.pid)
        told.tell("call 30")
        told.tell("exec /proc/self/exe", "begun")
        told.tell("call 1")
        told.tell(f"exec {self.other}", "begun")
        self.wait_hidden(told.pid)
        told.tell("call 32")
        told.tell("fork 33")
        starts.tell("call 34")
        starts.tell(f"exec {self.matching}", "begun")
        self.wait_recorded(starts.pid)
        starts.tell("call 35")
        told.tell(f"exec {self.matching}", "begun")
        self.wait_recorded(told.pid)
        told.tell("call 36")
        told.tell("fork 37")
        self.end(recorder)
        calls = self.calls()
        self.assertEqual((calls.pop(told.pid), calls.pop(starts.pid)), (31 + 36, 35))
        self.assertEqual(list(calls.values()), [37])

    def test_who_comes_back_from_another_program_has_its_own_name(self):
        """Sooner than it is noticed that it was away."""
        becomes, starts = self.folder / "becomes", self.folder / "starts"
        becomes.write_text(f"#!/bin/sh\nexec {self.matching} 9\n")
        starts.write_text(f"#!/bin/sh\n{self.matching} 9\n:\n")
        for script in (becomes, starts):
            script.chmod(0o755)
        told = Told(self, self.matching)
        recorder = self.begin("--exe", "told-*", "-k", "syscalls:getsid", "-k", "syscalls:execve")
        self.wait_recorded(told.pid)
        for _ in range(20):
            told.tell(f"run {becomes}")
            told.tell(f"run {starts}")
        self.end(recorder)
        shown = subprocess.run([PLUMB, "view", "--json", self.trace], capture_output=True, text=True, check=True).stdout
        events = [json.loads(line) for line in shown.splitlines() if "entry_getsid" in line]
        names = collections.Counter((event.get("comm"), event.get("pid") == event.get("tid")) for event in events)
        self.assertGreater(len(events), 200, names)
        self.assertEqual(set(names), {("told-this", True)}, names)
        pairs = [line for line in subprocess.run([PLUMB, "view", "--pairs", self.trace], capture_output=True, text=True,
                                                 check=True).stdout.splitlines() if " execve: " in line]
        self.assertTrue(pairs)
        self.assertEqual([line for line in pairs if not line.endswith(" <the exit may be of a later call>")], [])

    def test_of_a_matching_program_nothing_is_recorded_that_its_children_do_as_others(self):
        told = Told(self, self.matching)
        script = self.folder / "script"
        script.write_text(f"#!{self.other}\n")  # its interpreter takes the path for a number of calls: none
        script.chmod(0o755)
        recorder = self.begin("--exe", "told-*", "-k", "syscalls:getsid", "-k", "sched:sched_switch")
        self.wait_recorded(told.pid)
        for _ in range(50):
            told.tell(f"run {self.other}")
            told.tell("fork 51")
            told.tell(f"run {script}")
            told.tell(f"run {self.matching}")
        self.end(recorder)
        self.assertEqual(collections.Counter(self.calls().values()), {51: 50, 9: 50})
        text = subprocess.run(["babeltrace2", self.trace / "kernel"], capture_output=True, text=True, check=True).stdout
        switches = re.findall(r' sched_switch: .*prev_comm = "([^"]+)".*next_comm = "([^"]+)"', text)
        # Each of 100 would be in one at its end; in the middle of exec() it has the name and not yet the program.
        self.assertLess(sum("told-this" not in pair and "other" in pair for pair in switches), 50)

    def test_nobody_is_recorded_where_no_program_matches(self):
        other = Told(self, self.other)
        recorder = self.begin("--exe", "no-such-*", "-k", "syscalls:*", "-k", "sched:*")
        other.tell("call 41")
        time.sleep(0.2)
        summary, _ = self.end(recorder)
        self.assertEqual(summary["kernel_events_read"], 0, summary)

    def test_what_a_command_starts_is_recorded_beside_programs_by_their_executable(self):
        told = Told(self, self.matching)
        script = f"read line; printf 'call 42\\nend\\n' | {self.other}"
        recorder = subprocess.Popen([PLUMB, "record", "-q", "--json", "-o", self.trace, "--exe", "told-*",
                                     "-k", "syscalls:getsid", "--", "sh", "-c", script], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (recorder.kill(), recorder.communicate()) if recorder.returncode is None else None)
        self.wait_for(lambda: any(self.is_on(one) for one in own_instances()), "it is on")
        told.tell("call 43")
        text, _ = recorder.communicate("go on\n", timeout=PATIENCE_S)
        self.assertEqual(recorder.returncode, 0, (self.trace / "summary.json").read_text())
        calls = self.calls()
        self.assertEqual(calls.pop(told.pid), 43)
        self.assertEqual(list(calls.values()), [42])


if __name__ == "__main__":
    leave_out_without_kernel_events(PLUMB)
    if os.stat("/proc/self/ns/pid").st_ino != 0xEFFFFFFC:
        print("skipped: this is a process-id namespace: tracefs shows other numbers (integration_kernel_namespaces)")
        sys.exit(77)
    unittest.main()
