"""Tests of sessions that are disturbed: a program that traces some events and ends, and what its session says meanwhile."""
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from sessions import plumb  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <stdlib.h>
#include <sys/prctl.h>
PLUMB_EVENT(upset, taken, (u64, number))
int main(int count, char** words) {
    if (count > 2) prctl(PR_SET_TSC, PR_TSC_SIGSEGV); /* no clock for it */
    const unsigned long events = count > 1 ? strtoul(words[1], NULL, 10) : 1000;
    for (unsigned long i = 0; i < events; i++) plumb_trace(upset, taken, i);
    return 0;
}
"""


class DisturbedSessionTest(TracedProgramTest):
    PROGRAM = PROGRAM

    def setUp(self):
        super().setUp()
        self.addCleanup(plumb, "destroy", "--all", status=None)

    def begin(self, name, *options, trace=None):
        plumb("create", name, "-o", trace or self.trace, *options)
        plumb("enable", name, "upset:*")
        plumb("start", name)

    def status(self, name):
        return json.loads(plumb("status", "--json", name).stdout)

    def until(self, is_so, what):
        end = time.monotonic() + 30
        while not (value := is_so()):
            self.assertLess(time.monotonic(), end, what() if callable(what) and time.monotonic() >= end else what)
            time.sleep(0.05)
        return value
