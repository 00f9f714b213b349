#!/usr/bin/env python3
"""A child of vfork() that traces before it calls exec() is described in the trace: its number, its parent's, its name."""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from traced_program import BUILD, TracedProgramTest  # noqa: E402


class VforkNames(TracedProgramTest):
    PROGRAM = """
#include <plumb/tracepoint.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
PLUMB_EVENT(family, step, (u64, number))
/* Another one of another name, that had the same number. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void have_had_one(int number) {
    char text[16];
    const pid_t child = vfork();
    if (child == 0) {
        prctl(PR_SET_NAME, "another", 0, 0, 0);
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        plumb_trace(family, step, number);
        _exit(0);
    }
    waitpid(child, 0, 0);
    const int last = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
    const int length = sprintf(text, "%d", (int)child - 1);
    if (last >= 0 && write(last, text, length) == length) printf("%d ", (int)child);
    else printf("0 ");
    close(last);
}
int main(void) {
    prctl(PR_SET_NAME, "the-parent", 0, 0, 0);
    plumb_trace(family, step, 1);
    have_had_one(0);
    const pid_t child = vfork();
    if (child == 0) {
        prctl(PR_SET_NAME, "the-child", 0, 0, 0);
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        plumb_trace(family, step, 2);
        _exit(0);
    }
    plumb_trace(family, step, 3);
    int status;
    waitpid(child, &status, 0);
    printf("%d %d\\n", (int)getpid(), (int)child);
    return status;
}
"""

    def test_the_child_has_its_number_and_name(self):
        done = subprocess.run([BUILD / "cli/plumb", "record", "-q", "-o", self.trace, "--", self.program],
                              capture_output=True, text=True, timeout=60, check=True)
        other, parent, child = done.stdout.split()
        text = subprocess.run(["babeltrace2", self.trace], capture_output=True, text=True, timeout=60, check=True).stdout
        for number, writer in ((1, parent), (2, child), (3, parent)):
            self.assertRegex(text, rf"family:step: [^\n]*vtid = {writer} }}, {{ number = {number} }}")
        threads = re.findall(r'plumb_statedump:thread: [^\n]*pid = (\d+), tid = (\d+), name = "([^"]*)"', text)
        self.assertIn((child, child, "the-child"), threads, text)
        self.assertIn((parent, parent, "the-parent"), threads, text)
        self.assertRegex(text, rf'plumb_statedump:process: [^\n]*pid = {child}, ppid = {parent}, ')
        if other == child: # unless somebody else has forked in between
            view = subprocess.run([BUILD / "cli/plumb", "view", "--json", self.trace], capture_output=True, text=True, timeout=60, check=True)
            names = {event["fields"]["number"]: event["comm"] for event in map(json.loads, view.stdout.splitlines())}
            self.assertEqual(names, {0: "another", 1: "the-parent", 2: "the-child", 3: "the-parent"})

    def test_in_each_runtime(self):
        """That of a probe is another one; the program's vfork() is in front."""
        done = subprocess.run([BUILD / "cli/plumb", "record", "-q", "--preload", "pthread", "-e", "pthread:*", "-o", self.trace, "--",
                               self.program], capture_output=True, text=True, timeout=60, check=True)
        other, parent, child = done.stdout.split()
        view = subprocess.run([BUILD / "cli/plumb", "view", "--json", self.trace], capture_output=True, text=True, timeout=60, check=True)
        names = [event["comm"] for event in map(json.loads, view.stdout.splitlines()) if str(event["pid"]) != parent]
        if other == child:
            self.assertEqual(sorted(set(names)), ["another", "the-child"], names)


if __name__ == "__main__":
    unittest.main()
