#!/usr/bin/env python3
# cmake-timeout: 200
# cmake-once
# cmake-serial
"""Where events of the kernel are missing since its buffer was full: babeltrace2 is told of it there, and `plumb view --pairs` marks
a pair whose entry and exit may be of different calls."""
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
sys.path.insert(0, str(SOURCE / "tests/support"))
from kernel_events import leave_out_without_kernel_events  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

BURSTS, CALLS = 40, 20_000
LOST = re.compile(r"discarded (\d+) events? between \[([\d.]+)\] and \[([\d.]+)\]")
MARK = "<events were lost meanwhile>"


class LossPlaces(TracedProgramTest):
    # A call returns its argument. The recorder stands still in each burst, and comes after it in the pauses.
    PROGRAM = f"""
    #define _GNU_SOURCE
    #include <fcntl.h>
    #include <sched.h>
    #include <signal.h>
    #include <time.h>
    #include <unistd.h>
    int main(int count, char **arguments) {{
        const int file = open(arguments[0], O_RDONLY);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        sched_setaffinity(0, sizeof one, &one);
        long at = count - 1;
        for (int burst = 0; burst < {BURSTS}; burst++) {{
            kill(getppid(), SIGSTOP);
            for (int i = 0; i < {CALLS} / 2; i++) lseek(file, ++at, SEEK_SET);
            kill(getppid(), SIGCONT);
            for (int i = 0; i < {CALLS} / 2; i++) lseek(file, ++at, SEEK_SET);
            const struct timespec pause = {{0, burst % 3 * 10000000}};
            nanosleep(&pause, 0);
        }}
        return 0;
    }}
    """

    def record(self, *options):
        subprocess.run([PLUMB, "record", "-q", "-k", "syscalls:lseek", "--kernel-buffer-size", "64K", *options, "-o", self.trace, "--",
                        self.program], check=True, timeout=100)

    def test_a_pair_across_a_loss_is_marked_and_few_others_are(self):
        for mode in ("discard", "overwrite"):
            with self.subTest(mode=mode):
                self.record("--force", "--mode", mode)
                lines = subprocess.run([PLUMB, "view", "--pairs", self.trace], capture_output=True, text=True,
                                       check=True).stdout.splitlines()
                pairs = [(int(found[1]), int(found[2]), MARK in line) for line in lines
                         if (found := re.search(r"offset = (\d+).* -> \{ ret = (\d+) \}", line))]
                self.assertGreater(len(pairs), 1000)
                self.assertEqual([pair for pair in pairs if pair[0] != pair[1] and not pair[2]], [])
                marked = sum(is_marked for *_, is_marked in pairs)
                self.assertGreater(marked, 0)
                self.assertLess(marked, 20 * BURSTS + len(pairs) / 100)

    def test_babeltrace_is_told_of_it_where_numbers_do_not_follow_each_other(self):
        self.record()
        read = subprocess.run(["babeltrace2", "--clock-seconds", self.trace], capture_output=True, text=True, timeout=100, check=True)
        told = [(float(begin), float(end)) for _, begin, end in LOST.findall(read.stderr)]
        entries = [(float(found[1]), int(found[2])) for line in read.stdout.splitlines()
                   if (found := re.match(r"\[([\d.]+)\].*syscall_entry_lseek.* offset = (\d+)", line))]
        missing = [(since, until) for (since, before), (until, after) in zip(entries, entries[1:]) if after > before + 1]
        self.assertGreater(len(missing), 5)
        untold = [gap for gap in missing if not any(begin <= gap[1] and gap[0] <= end for begin, end in told)]
        self.assertEqual(untold, [])


if __name__ == "__main__":
    leave_out_without_kernel_events(PLUMB)
    unittest.main()
