#!/usr/bin/env python3
# cmake-once
"""An event that finds its ring full is counted, and costs its program no system call."""
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import pthread_recording  # noqa: E402

LOCKS = r"""
#include <pthread.h>
#include <stdlib.h>
int main(int count, char** arguments) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    for (long i = count > 1 ? atol(arguments[1]) : 0; i > 0; i--) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    return 0;
}
"""
PAIRS = 20000
# Smaller than what is traced, and read by nobody until it is over.
RINGS = ["--subbuf-size", "64K", "--subbuf-count", "2"]


class FullRing(unittest.TestCase):
    def calls_in_full_rings(self, *options):
        """How often the program made which system call while its recorder was stopped; and the recording's summary."""
        with tempfile.TemporaryDirectory(prefix="plumb-full-") as folder:
            program, log = Path(folder, "locks"), Path(folder, "calls")
            subprocess.run(["cc", "-x", "c", "-O1", "-pthread", "-o", program, "-"], input=LOCKS, text=True, check=True)
            stopped = f"kill -STOP $PPID; strace -f -c -U calls,name -o {log} {program} {PAIRS}; kill -CONT $PPID"
            with pthread_recording.Recorded(["sh", "-c", stopped],
                                            options=["--mode", "discard", *options], buffers=RINGS) as recorded:
                self.assertEqual(recorded.status, 0, recorded.errors)
                calls = {name: int(count) for count, name in re.findall(r"^ *(\d+) (\w+)$", log.read_text(), re.M)}
                return calls, recorded.summary()

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_costs_no_system_call(self):
        for options in [], ["--clock", "mono"]:
            with self.subTest(options):
                calls, summary = self.calls_in_full_rings(*options)
                lost = summary["events_lost_by_cause"]["full"]
                self.assertGreater(lost, PAIRS)
                self.assertGreaterEqual(summary["events"] + summary["events_lost"], 2 * PAIRS)  # strace locks, too
                self.assertLess(sum(calls.values()), lost / 20, calls)


if __name__ == "__main__":
    unittest.main()
