#!/usr/bin/env python3
# cmake-once
"""A trace that can not be written: on a disk that is full, that becomes read-only or has a quota of bytes for a file, in a
directory that is removed. The recording goes on, says so once, counts what is missing under the right name, leaves a
summary that is whole, and does not end with status 0."""
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"

# Locks and unlocks in bursts, so that there is always something small to write, and something large.
SOURCE = r"""
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char** argv) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    for (long burst = 0; burst < atol(argv[1]); burst++) {
        for (long i = 0; i < (burst % 3 ? 20 : 4000); i++) { pthread_mutex_lock(&mutex); pthread_mutex_unlock(&mutex); }
        usleep(5000);
    }
    return 0;
}
"""


def setUpModule():
    if os.geteuid() != 0:
        sys.exit(77)
    global folder, PROGRAM
    folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-full-disk-"))
    (folder / "program.c").write_text(SOURCE)
    PROGRAM = str(folder / "program")
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-pthread", "-o", PROGRAM, folder / "program.c"], check=True)


def tearDownModule():
    shutil.rmtree(folder, ignore_errors=True)


class FullDisk(unittest.TestCase):
    def setUp(self):
        self.disk = folder / self.id().split(".")[-1]
        self.disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", self.disk], check=False).returncode != 0:
            self.skipTest("may not mount")
        self.addCleanup(subprocess.run, ["umount", "-l", self.disk], check=False)
        self.trace = self.disk / "trace"

    def start(self, bursts, *options, **more):
        command = [PLUMB, "record", "--preload", "pthread", "-o", self.trace, *options, "--", PROGRAM, str(bursts)]
        return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def record(self, *arguments, **more):
        recorder = self.start(*arguments, **more)
        self.output, self.errors = recorder.communicate(timeout=100)
        return recorder.returncode

    def read_back(self):
        done = subprocess.run(["babeltrace2", self.trace], capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        rest = [line for line in done.stderr.splitlines() if "Tracer discarded" not in line]
        self.assertEqual(rest, [])
        discarded = sum(int(n) for n in re.findall(r"discarded (\d+) events?", done.stderr))
        return len(re.findall(r" pthread:", done.stdout)), discarded

    def summary(self):
        return json.loads((self.trace / "summary.json").read_text())

    def lines_with(self, text):
        return [line for line in self.errors.splitlines() if text in line]

    def test_what_does_not_fit_is_said_once_counted_and_named(self):
        self.assertEqual(self.record(60), 1)
        self.assertEqual(len(self.lines_with("plumb: ")), 1, self.errors)
        self.assertIn("No space left on device", self.lines_with("plumb: ")[0])
        summary = self.summary()
        self.assertEqual((summary["complete"], summary["exit_status"]), (False, 0))
        self.assertEqual(list(summary["events_lost_by_cause"]), ["not_written"])
        lost = summary["events_lost_by_cause"]["not_written"]
        self.assertEqual(summary["write_error"], "No space left on device")
        self.assertEqual(len(self.lines_with(f"{lost:,} events not_written (the trace could not be written: No space left")),
                         1, self.errors)
        read, discarded = self.read_back()
        self.assertEqual(discarded, lost)
        self.assertEqual(read, summary["events"])

    def test_readers_name_the_cause_that_counts(self):
        self.record(60)
        for options in ([], ["--summary"]):
            shown = subprocess.run([PLUMB, "view", *options, self.trace], capture_output=True, text=True, check=False)
            self.assertNotIn("full", shown.stderr)
            self.assertIn("the trace could not be written: No space left on device", shown.stderr)
            if options:
                self.assertIn("not_written (the trace could not be written: No space left on device)", shown.stdout)

    def test_it_goes_on_when_there_is_room_again(self):
        filler = self.disk / "filler"
        filler.write_bytes(bytes(700 << 10))
        recorder = self.start(1400)
        time.sleep(3)
        subprocess.run(["mount", "-o", "remount,size=512m", self.disk], check=True)
        _, self.errors = recorder.communicate(timeout=100)
        self.assertEqual(recorder.returncode, 1)
        said = self.lines_with("plumb: ")
        self.assertEqual(len(said), 2, self.errors)
        lost = self.summary()["events_lost_by_cause"]["not_written"]
        self.assertIn(f"It can be written again: the trace goes on. {lost} events were lost", said[1])

    def test_a_directory_that_is_removed_holds_nothing(self):
        subprocess.run(["mount", "-o", "remount,size=64m", self.disk], check=True)
        recorder = self.start(400)
        for _ in range(600):  # until all of its files are there
            if any(file.stat().st_size > 0 for file in self.trace.glob("ust/ring_*")):
                break
            time.sleep(0.1)
        time.sleep(1)
        shutil.rmtree(self.trace)
        _, self.errors = recorder.communicate(timeout=100)
        self.assertEqual(recorder.returncode, 1)
        self.assertEqual(len(self.lines_with("plumb: ")), 1, self.errors)
        self.assertIn("removed while the trace was written", self.lines_with("plumb: ")[0])
        self.assertIn("Recorded 0 events", self.errors)
        self.assertIn("The trace has no summary", self.errors)

    def test_a_directory_that_can_not_be_made_is_an_error(self):
        subprocess.run(["mount", "-o", "remount,ro", self.disk], check=True)
        self.assertEqual(self.record(1), 1)
        self.assertIn("Could not make the trace directory", self.errors)
        self.assertIn("Read-only file system", self.errors)

    def test_a_limit_of_file_sizes_costs_events_and_the_command_has_the_usual_signal(self):
        subprocess.run(["mount", "-o", "remount,size=64m", self.disk], check=True)

        def limited():
            resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, resource.RLIM_INFINITY))
        script = "ulimit -S -f 1; head -c 4096 /dev/zero > " + str(self.disk / "file") + "; test $? -eq 153 && exit 7"
        done = subprocess.run([PLUMB, "record", "--subbuf-size", "64K", "--subbuf-count", "4", "-o", self.trace, "--", "sh",
                               "-c", script], preexec_fn=limited, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 7, done.stderr)


if __name__ == "__main__":
    unittest.main()
