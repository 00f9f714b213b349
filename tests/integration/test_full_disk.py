#!/usr/bin/env python3
# cmake-once
"""A trace that can not be written: on a disk that is full, that becomes read-only or has a quota of bytes for a file, in a
directory that is removed. The recording goes on, says so once, counts what is missing under the right name, leaves a
summary that is whole, and does not end with status 0."""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB, RecordedProgramTest, read_back  # noqa: E402


def setUpModule():
    if os.geteuid() != 0:
        sys.exit(77)


class FullDisk(RecordedProgramTest):
    # Locks and unlocks in bursts, so that there is always something small to write, and something large.
    PROGRAM = r"""
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

    def setUp(self):
        super().setUp()
        self.disk = self.directory
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", self.disk], check=False).returncode != 0:
            self.skipTest("may not mount")
        self.addCleanup(subprocess.run, ["umount", "-l", self.disk], check=False)

    def start(self, bursts, *options, **more):
        return super().start("--preload", "pthread", *options, "--", self.program, bursts, **more)

    def fill(self):
        """Not a page is left."""
        with open(self.disk / "filler", "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(4096))
            except OSError:
                pass

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
        counts, discarded, complaints = read_back(self.trace)
        self.assertEqual((discarded, complaints), (lost, ""))
        self.assertEqual(sum(count for name, count in counts.items() if name.startswith("pthread:")), summary["events"])

    def test_what_can_not_begin_loses_nothing(self):
        self.fill()
        self.assertEqual(self.record(1), 1)
        self.assertIn("No space left on device", self.errors)
        self.assertNotIn("Events are lost", self.errors)

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

    def test_a_snapshot_that_is_not_whole_is_an_error(self):
        recorder = self.start(1000, "--snapshot")
        for _ in range(600):  # until there is more than fits
            if subprocess.run([PLUMB, "list"], capture_output=True, text=True, check=False).stdout.count("locker"):
                break
            time.sleep(0.1)
        time.sleep(2)
        asked = subprocess.run([PLUMB, "snapshot", str(recorder.pid)], capture_output=True, text=True, timeout=60, check=False)
        recorder.terminate()
        _, self.errors = recorder.communicate(timeout=100)
        subprocess.run([PLUMB, "extract", "--remove"], capture_output=True, timeout=60, check=False)  # there may be no room for another one
        self.assertEqual((asked.returncode, asked.stdout), (1, ""), asked.stderr)
        self.assertIn("The snapshot in ", asked.stderr)
        self.assertIn("is not complete: No space left on device", asked.stderr)

    def test_what_a_flight_recorder_holds_at_its_end_is_extracted(self):
        """Where there is no room for a folder, or a file: it stays in shared memory until there is."""
        def no_more_files():
            subprocess.run(["mount", "-o", "remount,nr_inodes=8", self.disk], check=True)
            try:
                for i in range(8):
                    (self.disk / f"file-{i}").touch()
            except OSError:
                pass
        for number, fill in enumerate((no_more_files, self.fill)):
            subprocess.run(["mount", "-o", "remount,nr_inodes=1000", self.disk], check=True)
            trace, rest = self.disk / f"trace-{number}", self.folder / f"rest-{number}"
            with subprocess.Popen([PLUMB, "record", "--preload", "pthread", "-o", trace, "--snapshot", "--subbuf-size", "4M", "--",
                                   self.program, "100"], stderr=subprocess.PIPE, text=True) as recorder:
                for _ in range(600):
                    if trace.exists():
                        break
                    time.sleep(0.01)
                fill()
                _, errors = recorder.communicate(timeout=100)
            self.assertEqual(recorder.returncode, 1, errors)
            self.assertIn("No snapshot was taken: ", errors)
            self.assertIn(f"`plumb extract {recorder.pid} -o DIR`", errors)
            done = subprocess.run([PLUMB, "extract", str(recorder.pid), "-o", rest], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            counts, discarded, complaints = read_back(rest)
            self.assertEqual((discarded, complaints), (0, ""))
            self.assertEqual({count for name, count in counts.items() if name.startswith("pthread:")}, {34 * 4000 + 66 * 20}, counts)

    def test_a_directory_that_can_not_be_made_is_an_error(self):
        subprocess.run(["mount", "-o", "remount,ro", self.disk], check=True)
        self.assertEqual(self.record(1), 1)
        self.assertIn("Could not make the trace directory", self.errors)
        self.assertIn("Read-only file system", self.errors)

    def test_what_is_extracted_is_not_complete_either(self):
        recorder = self.start(1400)
        self.assertIn("No space left on device", recorder.stderr.readline())
        time.sleep(0.5)
        recorder.kill()
        recorder.wait()
        rest = self.directory.parent / f"{self.directory.name}-rest"
        done = subprocess.run([PLUMB, "extract", str(recorder.pid), "-o", rest], capture_output=True, text=True, timeout=60, check=False)
        self.addCleanup(shutil.rmtree, rest)
        self.assertIn("events not_written", done.stderr)
        self.assertFalse(json.loads((rest / "summary.json").read_text())["complete"])
        self.assertEqual(done.returncode, 1)

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
