#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 200
"""Files that another program of the same user shortens, moves or removes while plumb records: the channel in shared memory,
the streams of the trace. The recorder says which, closes the trace and does not end with status 0, nor by a signal."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
PROBE = BUILD / "probes/pthread/libplumb-pthread.so"
SHM = pathlib.Path(f"/dev/shm/plumb-{os.geteuid()}")

# Locks as often as each line of its input says, and says when that is done.
SOURCE = r"""
#include <pthread.h>
#include <stdio.h>
int main(void) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    long count;
    while (scanf("%ld", &count) == 1) {
        for (long i = 0; i < count; i++) { pthread_mutex_lock(&mutex); pthread_mutex_unlock(&mutex); }
        puts("done");
        fflush(stdout);
    }
    return 0;
}
"""


def setUpModule():
    global folder, PROGRAM
    folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-truncated-"))
    (folder / "program.c").write_text(SOURCE)
    PROGRAM = str(folder / "program")
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-pthread", "-o", PROGRAM, folder / "program.c"], check=True)


def tearDownModule():
    shutil.rmtree(folder, ignore_errors=True)


class Truncated(unittest.TestCase):
    def setUp(self):
        self.trace = folder / self.id().split(".")[-1]
        self.program = subprocess.Popen([PROGRAM], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=dict(os.environ, LD_PRELOAD=str(PROBE)))
        self.lock(1)
        self.recorder = subprocess.Popen([PLUMB, "record", "-q", "-o", self.trace, "-p", str(self.program.pid)],
                                         text=True, stderr=subprocess.PIPE)
        end = time.monotonic() + 60
        while self.written() == 0:  # in the trace
            self.assertLess(time.monotonic(), end)
            self.lock(1000)
            time.sleep(0.05)

    def tearDown(self):
        for process in (self.recorder, self.program):
            process.kill()
            process.wait()
        self.program.stdin.close()
        self.program.stdout.close()
        self.recorder.stderr.close()

    def lock(self, count):
        self.program.stdin.write(f"{count}\n")
        self.program.stdin.flush()
        self.assertEqual(self.program.stdout.readline(), "done\n")

    def streams(self):
        return [path for path in (self.trace / "ust").glob("ring_*") if path.stat().st_size > 0]

    def written(self):
        return len(self.streams()) if (self.trace / "ust").exists() else 0

    def end(self):
        """What the recorder says."""
        _, said = self.recorder.communicate(timeout=60)
        self.assertEqual(self.recorder.returncode, 1, said)
        return said

    def test_a_channel_that_is_shortened_ends_the_recording(self):
        for path in SHM.glob("channel-*"):
            os.truncate(path, 4096)
        self.assertIn("has shortened a channel", self.end())
        done = subprocess.run(["babeltrace2", self.trace], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, "pthread:mutex_acquired" in done.stdout), (0, True), done.stderr)

    def test_a_channel_of_which_nothing_is_left_does_too(self):
        for path in SHM.glob("channel-*"):
            os.truncate(path, 0)
        self.assertIn("has shortened a channel", self.end())

    def test_a_stream_that_is_truncated_is_named(self):
        stream = self.streams()[0]
        os.truncate(stream, 100)
        self.recorder.terminate()
        self.assertIn(f"{stream} was truncated while the trace was written", self.end())

    def test_a_stream_that_is_moved_is_named(self):
        stream = self.streams()[0]
        stream.rename(self.trace / "elsewhere")
        self.recorder.terminate()
        self.assertIn(f"{stream} was moved while the trace was written", self.end())

    def test_a_stream_that_is_removed_is_named(self):
        stream = self.streams()[0]
        stream.unlink()
        self.recorder.terminate()
        self.assertIn(f"{stream} was removed while the trace was written", self.end())


if __name__ == "__main__":
    unittest.main()
