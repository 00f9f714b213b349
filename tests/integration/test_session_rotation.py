#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""A session under load that begins a chunk again and again, by hand and by time: the chunks together hold every event exactly once,
each in its order, and each can be read alone.

PLUMB_ROTATION_SECONDS   for how long, each second a chunk (default: 3, and three chunks a second)
"""
import json
import os
import re
import subprocess
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
sys.path.insert(0, str(SOURCE / "tests/support"))
from traced_program import TracedProgramTest  # noqa: E402

SECONDS = float(os.environ.get("PLUMB_ROTATION_SECONDS", "0"))
PERIOD_S = 1 if SECONDS else 0.3
THREADS = 4
PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
PLUMB_EVENT(shop, order, (u32, writer), (u64, number))
static volatile sig_atomic_t over;
static unsigned long numbers[4];
static void end(int number) { (void)number; over = 1; }
static void* work(void* argument) {
    const unsigned writer = (unsigned)(unsigned long)argument;
    while (!over) {
        for (int i = 0; i < 10; i++) plumb_trace(shop, order, writer, numbers[writer]++);
        usleep(1000);
    }
    return NULL;
}
int main(void) {
    pthread_t threads[4];
    signal(SIGTERM, end);
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void*)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) printf("%lu\n", numbers[i]);
    return 0;
}
"""
ORDER = re.compile(r"shop:order: .*writer = (\d+), number = (\d+) \}")


def plumb(*words):
    return subprocess.run([PLUMB, *map(str, words)], capture_output=True, text=True, timeout=60, check=True).stdout


class Rotation(TracedProgramTest):
    PROGRAM = PROGRAM

    def record(self, rotate_by_hand, *options):
        """The numbers of events that each thread has written."""
        self.addCleanup(plumb, "destroy", "--all")
        plumb("create", "web", "-o", self.trace, "--mode", "block", "--block-timeout", "60s", *options)
        plumb("enable", "web", "shop:order")
        plumb("start", "web")
        with subprocess.Popen([self.program], stdout=subprocess.PIPE, text=True) as program:
            begin = time.monotonic()
            until = begin + (SECONDS or 3)
            while time.monotonic() < until:
                time.sleep(max(0, PERIOD_S - (time.monotonic() - begin) % PERIOD_S))
                if rotate_by_hand:
                    plumb("rotate", "web")
            program.terminate()
            written = [int(line) for line in program.communicate(timeout=60)[0].split()]
        self.assertEqual(json.loads(plumb("status", "--json", "web"))["lost_by_cause"], {})
        plumb("destroy", "web")
        return written

    def check(self, written):
        next_numbers = [0] * THREADS
        chunks = sorted(self.trace.iterdir())
        for chunk in chunks:
            count = 0
            with subprocess.Popen(["babeltrace2", chunk], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
                for line in reader.stdout:
                    found = ORDER.search(line)
                    if not found:
                        continue  # who and what was there when the chunk began
                    writer, number = map(int, found.groups())
                    self.assertEqual(number, next_numbers[writer], (chunk.name, writer))
                    next_numbers[writer] += 1
                    count += 1
                self.assertEqual((reader.stderr.read(), reader.wait()), ("", 0), chunk.name)
            summary = json.loads((chunk / "summary.json").read_text())
            self.assertEqual((summary["complete"], summary["events"]), (True, count), chunk.name)
        self.assertEqual(next_numbers, written)
        self.assertGreaterEqual(len(chunks), (SECONDS or 3) / PERIOD_S * 0.8)
        print(f"{sum(written)} events in {len(chunks)} chunks")

    def test_by_hand(self):
        self.check(self.record(True))

    def test_by_time(self):
        self.check(self.record(False, "--rotate-period", f"{int(PERIOD_S * 1000)}ms"))


if __name__ == "__main__":
    unittest.main()
