#!/usr/bin/env python3
# cmake-timeout: 120
# cmake-once
"""A process that is called otherwise before each of its many children: with the kernel's events beside it each event bears the name that its thread
had just then, and not one that came a little later; and where numbers come round soon, the number of its own process, and not that of a
dead one whose number its thread has got."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from kernel_events import leave_out_without_kernel_events  # noqa: E402
from traced_program import BUILD, TracedProgramTest  # noqa: E402

CHILDREN = 400
KERNEL = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])


class NamesBesideForks(TracedProgramTest):
    PROGRAM = """
#include <plumb/tracepoint.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
PLUMB_EVENT(family, step, (u32, process), (u32, thread), (string, name))
static int children;
static void step(void) {
    char name[16];
    prctl(PR_GET_NAME, name, 0, 0, 0);
    plumb_trace(family, step, (uint32_t)getpid(), (uint32_t)syscall(SYS_gettid), name);
    usleep(300);
}
static void* thread(void* argument) {
    char name[16];
    snprintf(name, sizeof(name), "thread-%d", children);
    prctl(PR_SET_NAME, name, 0, 0, 0);
    for (int i = 0; i < 5; i++)
        step();
    return argument;
}
int main(void) {
    for (; children < CHILDREN; children++) {
        char name[16];
        snprintf(name, sizeof(name), "parent-%d", children);
        prctl(PR_SET_NAME, name, 0, 0, 0);
        step();
        const pid_t child = fork();
        if (child == 0) {
            pthread_t id;
            step();
            pthread_create(&id, NULL, thread, NULL);
            pthread_join(id, NULL);
            _exit(0);
        }
        step();
        if (children % 3 == 0) step();
        waitpid(child, NULL, 0);
    }
    return 0;
}
""".replace("CHILDREN", str(CHILDREN))

    def recorded(self, number, around=()):
        trace = f"{self.trace}-{number}"
        done = subprocess.run([*around, BUILD / "cli/plumb", "record", "-q", "-k", "sched", "-o", trace, "--", self.program],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        shown = subprocess.run([BUILD / "cli/plumb", "view", "--json", "-e", "family:*", trace], capture_output=True, text=True,
                               timeout=60, check=True)
        events = [json.loads(line) for line in shown.stdout.splitlines()]
        self.assertEqual(len(events), CHILDREN * 8 + (CHILDREN + 2) // 3)
        return events

    def test_each_event_has_the_name_of_its_moment(self):
        for number in range(4):
            wrong = [event for event in self.recorded(number) if event["comm"] != event["fields"]["name"]]
            self.assertEqual(wrong, [])

    @unittest.skipIf(KERNEL < (6, 14), "the largest number is that of the whole machine")
    def test_a_thread_with_a_dead_process_s_number_is_not_that_process(self):
        in_namespace = ("unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", 'echo 400 >/proc/sys/kernel/pid_max; exec "$0" "$@"')
        for number in range(2):
            wrong = [event for event in self.recorded(number, in_namespace)
                     if (event["pid"], event["tid"]) != (event["fields"]["process"], event["fields"]["thread"])]
            self.assertEqual(wrong, [])


if __name__ == "__main__":
    leave_out_without_kernel_events(BUILD / "cli/plumb")
    unittest.main()
