#!/usr/bin/env python3
"""What a full ring lost is told where it is missing: babeltrace2's intervals of discarded events stand where numbers do not
follow each other, with as many events as are missing there."""
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from traced_program import BUILD, TracedProgramTest  # noqa: E402

PLUMB = BUILD / "cli" / "plumb"
LOST = re.compile(r"discarded (\d+) events? between \[([\d:.]+)\] and \[([\d:.]+)\]")
EVENT = re.compile(r"^\[([\d:.]+)\].*\bid = (\d+)")


def nanoseconds(time):
    hours, minutes, seconds = time.split(":")
    whole, fraction = seconds.split(".")
    return ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 10**9 + int(fraction)


class LossPlaces(TracedProgramTest):
    # On one CPU, so in one ring; the recorder stands still while it is filled, and comes after it in the pauses.
    PROGRAM = """
    #define _GNU_SOURCE
    #include <plumb/tracepoint.h>
    #include <sched.h>
    #include <signal.h>
    #include <time.h>
    #include <unistd.h>
    PLUMB_EVENT(shop, order, (u64, id))
    int main(void) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        sched_setaffinity(0, sizeof one, &one);
        uint64_t id = 0;
        for (int burst = 0; burst < 20; burst++) {
            kill(getppid(), SIGSTOP);
            for (int i = 0; i < 20000; i++) plumb_trace(shop, order, id++);
            kill(getppid(), SIGCONT);
            const struct timespec pause = {0, burst % 3 * 10000000};
            nanosleep(&pause, 0);
        }
        return 0;
    }
    """

    def test_what_a_full_ring_lost_is_told_where_it_is_missing(self):
        subprocess.run([PLUMB, "record", "-q", "--subbuf-size", "4K", "--subbuf-count", "4", "-o", self.trace, "--", self.program],
                       check=True, timeout=60)
        read = subprocess.run(["babeltrace2", self.trace], capture_output=True, text=True, timeout=60, check=True)
        told = [(int(count), nanoseconds(begin), nanoseconds(end)) for count, begin, end in LOST.findall(read.stderr)]
        events = [(nanoseconds(found[1]), int(found[2])) for found in map(EVENT.match, read.stdout.splitlines()) if found]
        missing = [(after - before - 1, since, until)
                   for (since, before), (until, after) in zip(events, events[1:]) if after != before + 1]
        if events[-1][1] != 20 * 20000 - 1:
            missing.append((20 * 20000 - 1 - events[-1][1], events[-1][0], told[-1][2]))
        self.assertGreater(len(missing), 0)
        self.assertEqual(sum(count for count, _, _ in told), sum(count for count, _, _ in missing))
        # An event that is being refused while room is made may be told one gap later.
        gaps = 0
        for count, _, until in missing:
            gaps += count
            self.assertAlmostEqual(sum(count for count, begin, _ in told if begin < until), gaps, delta=1)
        for count, begin, end in told:
            self.assertTrue(count == 1 or any(begin <= until and since <= end for _, since, until in missing), count)


if __name__ == "__main__":
    unittest.main()
