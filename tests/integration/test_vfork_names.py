#!/usr/bin/env python3
"""A child of vfork() that traces before it calls exec() is described in the trace: its number, its parent's, its name."""
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
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
PLUMB_EVENT(family, step, (u64, number))
int main(void) {
    prctl(PR_SET_NAME, "the-parent", 0, 0, 0);
    plumb_trace(family, step, 1);
    const pid_t child = vfork();
    if (child == 0) {
        prctl(PR_SET_NAME, "the-child", 0, 0, 0);
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
        parent, child = done.stdout.split()
        text = subprocess.run(["babeltrace2", self.trace], capture_output=True, text=True, timeout=60, check=True).stdout
        for number, writer in ((1, parent), (2, child), (3, parent)):
            self.assertRegex(text, rf"family:step: [^\n]*vtid = {writer} }}, {{ number = {number} }}")
        threads = re.findall(r'plumb_statedump:thread: [^\n]*pid = (\d+), tid = (\d+), name = "([^"]*)"', text)
        self.assertIn((child, child, "the-child"), threads, text)
        self.assertIn((parent, parent, "the-parent"), threads, text)
        self.assertRegex(text, rf'plumb_statedump:process: [^\n]*pid = {child}, ppid = {parent}, ')


if __name__ == "__main__":
    unittest.main()
