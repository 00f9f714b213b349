#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-serial
"""Events of the kernel, recorded from inside of a process-id namespace: of whom was asked for and nobody else, under the
numbers that are seen there; threads of outside under numbers that nobody has; nothing at all where that can not be."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
sys.path.insert(0, str(SOURCE / "tests/support"))
from traced_program import TracedProgramTest  # noqa: E402

TRACEFS = Path("/sys/kernel/tracing")
CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
UNSEEN = 1_000_000_000

# Threads and processes, by fork, vfork with exec, and clone, that last no longer than their few calls; each says its number
# and how many calls it made. With an argument: only that many calls; with two, then it waits to be ended.
PROGRAM = r"""
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
PLUMB_EVENT(called, times, (u32, count))
static void call(int count) {
    for (int i = 0; i < count; i++) syscall(SYS_getsid, 0);
    plumb_trace(called, times, (unsigned)count);
    dprintf(1, "%ld %d\n", syscall(SYS_gettid), count);
}
static void* run(void* argument) {
    call((int)(long)argument);
    return NULL;
}
static void reuse_a_number(void) {
    const int first = fork();
    pthread_t thread;
    if (first == 0) {
        pthread_create(&thread, NULL, run, (void*)1L); /* its number is the next one */
        pthread_join(thread, NULL);
        _exit(0);
    }
    while (wait(NULL) > 0) {}
    FILE* last = fopen("/proc/sys/kernel/ns_last_pid", "w");
    fprintf(last, "%d", first);
    fclose(last);
    if (vfork() == 0) {
        call(10);
        usleep(500000);
        call(100);
        _exit(0);
    }
    while (wait(NULL) > 0) {}
    usleep(200000);
}
int main(int count, char** arguments) {
    if (count > 3) {
        reuse_a_number();
        return 0;
    }
    if (count > 1) {
        call(atoi(arguments[1]));
        if (count > 2) pause();
        return 0;
    }
    pthread_t threads[100];
    for (int i = 0; i < 100; i++) {
        char number[12];
        snprintf(number, sizeof(number), "%d", 1000 + i);
        if (fork() == 0) {
            if (i % 10 == 0 && fork() == 0) _exit((call(2000 + i), 0));
            call(100 + i);
            _exit(0);
        }
        if (i % 10 == 0 && vfork() == 0) {
            execl(arguments[0], arguments[0], number, NULL);
            _exit(1);
        }
        pthread_create(&threads[i], NULL, run, (void*)(long)(300 + i));
        if (i % 2 == 0) pthread_join(threads[i], NULL);
    }
    for (int i = 1; i < 100; i += 2) pthread_join(threads[i], NULL);
    while (wait(NULL) > 0) {}
    call(5);
    return 0;
}
"""


class Namespaces(TracedProgramTest):
    PROGRAM = PROGRAM

    def record(self, *arguments, container=CONTAINER, script=None, status=0):
        """In a container; what the programs said goes to standard output, and so into `said`: (number, calls)."""
        command = [PLUMB, "record", "-o", self.trace, *arguments]
        if script is not None:
            command = ["sh", "-c", script, "sh", *command]
        done = subprocess.run([*container, *command], capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        memory = os.stat("/dev/shm")
        left = {name for name in os.listdir(TRACEFS / "instances") if f"_{memory.st_dev:x}_{memory.st_ino:x}_" in name}
        self.assertEqual(left, set())
        return [tuple(map(int, line.split())) for line in done.stdout.splitlines()], done.stderr

    def calls(self, event="syscall_entry_getsid"):
        """How often it was called, by thread, as babeltrace2 reads it."""
        done = subprocess.run(["babeltrace2", self.trace], capture_output=True, text=True, timeout=200, check=True)
        self.assertEqual(done.stderr, "")
        return collections.Counter(int(match[1]) for match in re.finditer(rf" {event}: .*?\bv?tid = (\d+)", done.stdout))

    def test_everybody_has_the_number_that_is_seen_there(self):
        said, _ = self.record("-k", "syscalls:getsid", "--", self.program)
        self.assertEqual(len(said), 221)
        self.assertEqual(self.calls(), collections.Counter(dict(said)))

    def test_a_child_of_vfork_that_takes_its_time_has_its_own_number_at_once(self):
        """Which a thread of another process had before: it is found before its maker is told of it."""
        said, _ = self.record("-k", "syscalls:getsid", "--", self.program, "1", "2", "3")
        (thread, _), (child, _), (_, _) = said
        self.assertEqual(thread, child)
        shown = subprocess.run([PLUMB, "view", "--json", "-e", "syscall_entry_getsid", self.trace], capture_output=True, text=True, check=True)
        whose = collections.Counter((event["pid"], event["tid"]) for event in map(json.loads, shown.stdout.splitlines()))
        self.assertEqual(whose, {(thread - 1, thread): 1, (child, child): 110})

    def test_fields_have_them_too_and_strangers_none(self):
        said, _ = self.record("-k", "sched:*", "-k", "syscalls:getsid", "--", self.program)
        self.assertEqual(self.calls(), collections.Counter(dict(said)))
        text = subprocess.run(["babeltrace2", self.trace / "kernel"], capture_output=True, text=True, check=True).stdout
        began = re.findall(r" sched_process_fork: .*child_tid = (\d+)", text)
        self.assertEqual(len(began), len(set(began)))
        self.assertEqual({str(number) for number, count in said if count != 5} - set(began), set())  # the first one makes 5
        for pattern in (r'prev_comm = "swapper/\d+", prev_tid = (\d+)', r'comm = "rcu_preempt", tid = (\d+)'):
            for number in re.findall(pattern, text):
                self.assertTrue(int(number) == 0 or int(number) > UNSEEN, number)
        # By the numbers that /proc has for them there, but for those of outside.
        ours = {int(number) for number in re.findall(r"(?:next|prev|child|parent)_tid = (\d+)", text)}
        self.assertLess(max(number for number in ours if number < UNSEEN), 1000)

    def test_of_the_whole_machine_those_outside_have_numbers_of_their_own(self):
        outside = subprocess.Popen([sys.executable, "-c", "import os\nwhile True: os.getsid(0)"])
        try:
            said, _ = self.record("-a", "-k", "syscalls:sys_enter_getsid", "--kernel-buffer-size", "64M", "--",
                                  self.program, "7000")
        finally:
            outside.kill()
            outside.wait()
        calls = self.calls()
        self.assertEqual(calls[said[0][0]], 7000)
        self.assertGreater(calls[UNSEEN + outside.pid], 0)
        self.assertEqual({number for number in calls if number < UNSEEN}, {said[0][0]})

    def test_a_process_is_attached_to_by_the_number_that_is_seen_there(self):
        script = f"""{self.program} 1 wait & first=$!
            sh -c 'while sleep 0.01; do {self.program} 20; done' & second=$!
            "$@" -p $second -k syscalls:getsid --duration 2s; status=$?
            kill $first $second; exit $status"""
        said, _ = self.record(script=script)
        calls = self.calls()
        self.assertGreater(len(calls), 3)
        self.assertLessEqual(calls.keys(), {number for number, count in said if count == 20})
        # The first and the last of them may have been in the middle.
        self.assertLessEqual(sum(count != 20 for count in calls.values()), 2)

    def test_who_is_in_a_namespace_within_bears_no_number_of_somebody_else(self):
        nested = f"unshare --pid --fork --kill-child sh -c '{self.program} 3000; {self.program} 3001; {self.program} 3002'"
        said, _ = self.record("-k", "syscalls:getsid", "-k", "sched:sched_process_fork", "--", "sh", "-c",
                              f"{self.program} 4000; {nested}")
        calls = self.calls()
        self.assertEqual(sorted(calls.values()), [3000, 3001, 3002, 4000])
        (own,) = [number for number, count in said if count == 4000]
        self.assertEqual(calls[own], 4000)
        inside = {number for number, count in said if count != 4000}  # as they call themselves
        self.assertFalse(inside & {number for number, count in calls.items() if count != 4000})

    def test_where_numbers_can_not_be_found_out_the_kernels_events_are_left_out(self):
        said, error = self.record("-k", "syscalls:getsid", "--", self.program, "10", container=CONTAINER[:-1], status=1)
        self.assertEqual(len(said), 1)
        self.assertIn("could not be found out in this process-id namespace", error)
        self.assertIn("Recording programs alone", error)
        self.assertFalse((self.trace / "kernel").exists())
        self.assertEqual(len(self.calls("called:times")), 1)

    def test_a_flight_recorder_has_them_too(self):
        said, _ = self.record("--snapshot", "-k", "syscalls:getsid", "--", self.program)
        (self.trace,) = self.trace.glob("snapshot-*")
        self.assertEqual(self.calls(), collections.Counter(dict(said)))

    def test_what_a_killed_recorder_left_is_extracted_with_them(self):
        script = f""""$@" --snapshot -k syscalls:getsid -- sh -c '{self.program} 50; {self.program} 60 wait' & recorder=$!
            while [ $(pgrep -c -x program) -lt 1 ] || ! pgrep -x program | grep -q .; do sleep 0.1; done; sleep 1
            kill -9 $recorder; wait $recorder
            {PLUMB} extract -o {self.folder}/rest; status=$?; pkill -x program; exit $status"""
        self.addCleanup(shutil.rmtree, self.folder / "rest", ignore_errors=True)
        said, _ = self.record(script=script)
        self.trace = self.folder / "rest"
        calls = self.calls()
        self.assertEqual(calls[said[1][0]], 60)  # it lives
        self.assertEqual(sorted(calls.values()), [50, 60])
        (dead,) = [number for number, count in calls.items() if count == 50]
        self.assertTrue(dead == said[0][0] or dead > UNSEEN)


def why_not():
    if os.geteuid() != 0:
        return "events of the kernel need root"
    subprocess.run([PLUMB, "list", "--kernel", "-e", "sched:none"], capture_output=True, check=False)  # mounts tracefs
    if not os.access(TRACEFS / "instances", os.W_OK):
        return "there is no tracefs that may be used here"
    done = subprocess.run([*CONTAINER, "true"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"no namespace can be made: {done.stderr.strip()}"
    if os.stat("/proc/self/ns/pid").st_ino != 0xEFFFFFFC:
        return "this is a process-id namespace itself: what those outside are called can not be compared"
    return ""


if __name__ == "__main__":
    if (reason := why_not()):
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
