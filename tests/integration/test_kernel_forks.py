#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-serial
"""sched_process_fork says which processes make and are made, as LTTng's does: of threads that make threads and processes on
all CPUs, beside what the programs themselves write down."""
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
sys.path.insert(0, str(SOURCE / "tests/support"))
from kernel_events import leave_out_without_kernel_events  # noqa: E402
import pretty  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

NUMBERS = ["parent_tid", "parent_pid", "child_tid", "child_pid"]

# Each process has a thread; both make processes, on two CPUs, and the thread on the one whose buffer is read first.
# Who makes whom is one line.
PROGRAM = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static int log_fd, cpus;
static void tell(int thread, int process, int made_thread, int made_process) {
    char line[100];
    int bytes = snprintf(line, sizeof line, "%d %d %d %d\\n", thread, process, made_thread, made_process);
    if (write(log_fd, line, (size_t)bytes) != bytes) abort();
}
static void move_to(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}
static void live(int depth);
static void make(int depth) {
    for (int i = 0; i < 2; i++) {
        const int maker = gettid(), process = getpid();
        const pid_t child = fork();
        if (child == 0) live(depth - 1);
        if (child < 0) abort();
        tell(maker, process, child, child);
    }
}
struct order { int depth, maker; };
static void* run(void* argument) {
    const struct order* order = argument;
    tell(order->maker, getpid(), gettid(), getpid());
    move_to(0);
    if (order->depth > 0) make(order->depth);
    return NULL;
}
static void live(int depth) {
    struct order order = {depth, gettid()};
    pthread_t thread;
    move_to(cpus - 1);
    if (pthread_create(&thread, NULL, run, &order) != 0) abort();
    if (depth > 0) make(depth);
    pthread_join(thread, NULL);
    while (wait(NULL) > 0) {}
    _exit(0);
}
int main(int count, char** arguments) {
    if (count < 3) return 2;
    log_fd = open(arguments[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
    cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    live(atoi(arguments[2]));
}
"""


class Forks(TracedProgramTest):
    PROGRAM = PROGRAM

    def record(self, *options, depth=4):
        log = self.folder / (self.id().split(".")[-1] + ".log")
        command = [self.program, log, str(depth)]
        done = subprocess.run([PLUMB, "record", "-q", "--json", "-o", self.trace, *options, "--", *command],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), {tuple(map(int, line.split())) for line in log.read_text().splitlines()}

    def forks(self, trace):
        fields = [fields for name, fields in pretty.events(trace) if name == "sched_process_fork"]
        self.assertEqual(list(fields[0])[-6:], ["parent_comm", *NUMBERS[:2], "child_comm", *NUMBERS[2:]])
        return {tuple(each[name] for name in NUMBERS) for each in fields}

    def test_of_a_recording(self):
        summary, truth = self.record("-k", "sched:sched_process_fork")
        self.assertEqual((summary["events_lost"], summary["problems"]), (0, []))
        self.assertEqual(len(truth), summary["events_by_name"]["sched_process_fork"])
        self.assertEqual(truth - self.forks(self.trace), set())

    def test_beside_other_events(self):
        summary, truth = self.record("-k", "sched:*", "-k", "syscalls:*", "-a", depth=3)
        self.assertEqual((summary["events_lost"], summary["problems"]), (0, []))
        self.assertEqual(truth - self.forks(self.trace), set())

    def test_of_a_snapshot(self):
        """The processes have ended by then: what they were is in the buffers alone."""
        summary, truth = self.record("--snapshot", "-k", "sched:*")
        trace = summary["snapshots"][-1]
        self.assertEqual(truth - self.forks(trace), set())

    def test_text_shows_them(self):
        self.record("-k", "sched:sched_process_fork", depth=1)
        text = subprocess.run([PLUMB, "view", self.trace], capture_output=True, text=True, check=True).stdout
        self.assertRegex(text, r"parent_tid = \d+, parent_pid = \d+, child_comm = .*, child_tid = (\d+), child_pid = \1 \}")


if __name__ == "__main__":
    leave_out_without_kernel_events(PLUMB)
    unittest.main()
