#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
"""Time stamps against CLOCK_MONOTONIC and CLOCK_REALTIME, which the traced program reads beside each event.

    PLUMB_CLOCK_SECONDS=60 PLUMB_SOURCE_DIR=. PLUMB_BUILD_DIR=build/dev tests/integration/test_clock.py

An event's time must lie between two readings of the program. The report gives its distance from the middle of them,
of all events, so with those between whose readings the program was interrupted; and how it grows: the slope of a line
through the medians of ten stretches of the recording. What the test holds does not depend on how quiet the machine
is: no event outside of its readings by more than is allowed, and the median in the middle, from beginning to end."""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
SECONDS = float(os.environ.get("PLUMB_CLOCK_SECONDS", "8"))
sys.path.insert(0, str(SOURCE / "tests/support"))
import machine_clock  # noqa: E402
from traced_program import compile_traced  # noqa: E402

ALLOWED_NS = 1000  # at the 99.9th percentile
MEDIAN_NS = 100
STRETCHES = 10
# Rings that the program can fill once before it begins: a page's first fault takes microseconds, between the readings
# of one event in 60. Sub-buffers of which each holds 4,000 events: at the end of one the consumer is woken.
RINGS = ("--subbuf-size", "256K", "--subbuf-count", "4", "--mode", "block")

PROGRAM = """
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
/* The readings before this event, and those behind the event before it. */
PLUMB_EVENT(beside, readings, (u64, real_before), (u64, mono_before), (u64, last_mono_after), (u64, last_real_after))
PLUMB_EVENT(beside, warm_up, (u64, a), (u64, b), (u64, c), (u64, d))
static void fill_rings(void) {
    cpu_set_t before, one;
    sched_getaffinity(0, sizeof(before), &before);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &before)) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof(one), &one);
        for (int i = 0; i < (1 << 20) / 48 + 1; i++) plumb_trace(beside, warm_up, 0, 0, 0, 0);
    }
    sched_setaffinity(0, sizeof(before), &before);
}
static uint64_t now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}
int main(int count, char** arguments) {
    fill_rings();
    const uint64_t end = now(CLOCK_MONOTONIC) + (uint64_t)(atof(arguments[count - 1]) * 1e9);
    const struct timespec pause = {0, 100000};
    uint64_t mono_after = 0, real_after = 0;
    do {
        for (int i = 0; i < 4; i++) { /* the first of them with caches gone cold */
            const uint64_t real_before = now(CLOCK_REALTIME), mono_before = now(CLOCK_MONOTONIC);
            plumb_trace(beside, readings, real_before, mono_before, mono_after, real_after);
            mono_after = now(CLOCK_MONOTONIC);
            real_after = now(CLOCK_REALTIME);
        }
        nanosleep(&pause, NULL);
    } while (mono_after < end);
    return 0;
}
"""

LINE = re.compile(r"^\[(\d+)\.(\d{9})\] .*? beside:readings: .*real_before = (\d+), mono_before = (\d+), "
                  r"last_mono_after = (\d+), last_real_after = (\d+)")


def percentile(numbers, part):
    ordered = sorted(numbers)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)]


class Errors:
    """Distances of time stamps from the middle of two readings, in nanoseconds."""

    def __init__(self, name):
        self.name = name
        self.errors = []  # (time stamp, distance)
        self.outside = []  # how far it is not even between its readings
        self.widths = []

    def add(self, before, stamp, after):
        self.errors.append((stamp, (2 * stamp - before - after) / 2))  # whole until here: a float has 53 bits
        self.outside.append(max(before - stamp, stamp - after, 0))
        self.widths.append(after - before)

    def median(self):
        return statistics.median(error for _, error in self.errors)

    def percentile(self, part):
        return percentile((abs(error) for _, error in self.errors), part)

    def drift_ns(self):
        """What a line through the medians of the stretches gains from the first to the last."""
        size = len(self.errors) // STRETCHES
        medians = [statistics.median(error for _, error in self.errors[i * size:(i + 1) * size]) for i in range(STRETCHES)]
        return statistics.linear_regression(range(STRETCHES), medians).slope * (STRETCHES - 1)

    def report(self):
        span = (self.errors[-1][0] - self.errors[0][0]) / 1e9
        print(f"{self.name}: {len(self.errors):,} events in {span:.1f} s, readings {statistics.median(self.widths):.0f} ns apart; "
              f"error median {self.median():+.0f} ns, |error| p50 {self.percentile(0.5):.0f}, "
              f"p99 {self.percentile(0.99):.0f}, p99.9 {self.percentile(0.999):.0f}, largest {self.percentile(1):.0f} ns; "
              f"outside of their readings {sum(map(bool, self.outside)):,}, by {max(self.outside)} ns at most; drift {self.drift_ns():+.1f} ns", flush=True)


class Clock(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="plumb-clock-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.program = compile_traced(PROGRAM, cls.folder / "program")

    def stamps(self, trace, reader):
        """(time stamp, the readings that the event carries) of each event."""
        lines = subprocess.run([*reader, trace], stdout=subprocess.PIPE, text=True, check=True).stdout
        found = [LINE.match(line) for line in lines.splitlines()]
        return [(int(match[1]) * 10**9 + int(match[2]), *map(int, match.groups()[2:])) for match in found if match]

    def measure(self, clock, seconds):
        trace = self.folder / clock
        summary = json.loads(subprocess.run([PLUMB, "record", "-q", "--json", "--clock", clock, "-o", trace, *RINGS, "--", self.program,
                                             str(seconds)], stdout=subprocess.PIPE, check=True).stdout)
        self.assertEqual(summary["events_lost"], 0)
        real, mono = Errors(f"{clock}, against CLOCK_REALTIME"), Errors(f"{clock}, against CLOCK_MONOTONIC")
        walls = self.stamps(trace, ["babeltrace2", "--clock-seconds", "--no-delta"])
        monotonic = self.stamps(trace, [PLUMB, "view", "--monotonic"])
        self.assertEqual(len(walls), summary["events_by_name"]["beside:readings"])
        self.assertEqual(len(monotonic), len(walls))
        for this, following in zip(walls, walls[1:]):
            real.add(this[1], this[0], following[4])
        for this, following in zip(monotonic, monotonic[1:]):
            mono.add(this[2], this[0], following[3])
        for errors in (real, mono):
            errors.report()
            self.assertLessEqual(percentile(errors.outside, 0.999), ALLOWED_NS)
            self.assertLessEqual(abs(errors.median()), MEDIAN_NS)
            self.assertLess(abs(errors.drift_ns()), MEDIAN_NS)
        return summary

    def test_time_stamps_of_the_session_clock_are_right(self):
        if not machine_clock.has_cycle_counter():
            self.skipTest("the cycle counter is no clock here")
        summary = self.measure("tsc", SECONDS)
        print(f"rate from {summary['clock']['rate_source']}, refined over {summary['clock']['baseline_ns'] / 1e9:.1f} s, "
              f"worst deviation of the consumer's own readings {summary['clock']['worst_deviation_ns']} ns")

    def test_time_stamps_in_nanoseconds_are_right(self):
        self.measure("mono", min(SECONDS, 2))


if __name__ == "__main__":
    unittest.main()
