#!/usr/bin/env python3
# cmake-timeout: 200
"""kill -9 of plumb record: what it had not written can be had, for a while, by plumb extract; its writers stop; its shared
memory does not stay. And nobody replaces a trace that is being written."""
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB, SHM, RecordedProgramTest, read_back, tell_to_lock  # noqa: E402


def plumb(*arguments):
    return subprocess.run([PLUMB, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


def is_in_use(path):
    """By a recorder that lives: no test's own does when it asks; one of everybody, in another test, comes here, too."""
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, FileNotFoundError):
        return True
    return False


def files():
    return sorted(path.name for path in SHM.glob("*-*") if not is_in_use(path)) if SHM.exists() else []


def acquired(trace):
    counts, discarded, complaints = read_back(trace)
    assert (discarded, complaints) == (0, ""), (discarded, complaints)
    return counts.get("pthread:mutex_acquired", 0)


class Killed(RecordedProgramTest):
    def setUp(self):
        super().setUp()
        plumb("extract", "--remove")
        self.started = []

    def tearDown(self):
        for process in self.started:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()

    def start_into(self, trace, *options):
        recorder = subprocess.Popen([PLUMB, "record", "-q", "-o", trace, "--preload", "pthread", *options, "--", self.program],
                                    text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.started.append(recorder)
        tell_to_lock(recorder, 5)
        return recorder

    def kill(self, recorder, count):
        """With so many events that it had no time to write."""
        recorder.send_signal(signal.SIGSTOP)
        tell_to_lock(recorder, count)
        recorder.kill()
        recorder.wait()

    def killed(self, count=1000, name="trace", *options):
        recorder = self.start_into(self.directory / name, *options)
        self.kill(recorder, count)
        return recorder

    def test_what_it_wrote_ends_with_a_whole_packet(self):
        # Much at a time, so that one of them is killed while it writes.
        for i in range(5):
            trace = self.directory / f"trace{i}"
            recorder = self.start_into(trace, "--subbuf-size", "8M", "--subbuf-count", "2")
            recorder.stdin.write("5000000\n")
            recorder.stdin.flush()
            while sum(file.stat().st_size for file in trace.glob("ust/*ring_*")) < 4 << 20:
                time.sleep(0.005)
            time.sleep(0.02 * i)
            recorder.kill()
            recorder.wait()
            for left in range(100, -1, -1):  # what cuts it is another process
                time.sleep(0.1)
                done = subprocess.run(["babeltrace2", "-o", "dummy", trace], capture_output=True, text=True, timeout=60, check=False)
                if done.returncode == 0:
                    break
                self.assertGreater(left, 0, done.stderr)
            self.assertGreater(sum(file.stat().st_size for file in trace.glob("ust/*ring_*")), 1 << 20)
            shutil.rmtree(trace)
            plumb("extract", "--remove")

    def test_what_it_had_not_written_is_extracted(self):
        recorder = self.killed()
        self.assertEqual(len(files()), 1)
        done = plumb("extract", "-o", self.directory / "rest")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"of process {recorder.pid} ", done.stderr)
        self.assertEqual(acquired(self.trace) + acquired(self.directory / "rest"), 1005)
        self.assertEqual(json.loads((self.directory / "rest/summary.json").read_text())["events_lost"], 0)
        self.assertEqual(files(), [])
        done = plumb("extract", "-o", self.directory / "again")
        self.assertEqual((done.returncode, (self.directory / "again").exists()), (1, False))
        self.assertIn("No recorder has left anything", done.stderr)

    def test_both_traces_are_read_together(self):
        self.killed()
        for name in ("one", "two"):
            self.assertEqual(plumb("extract", "--keep", "-o", self.directory / name).returncode, 0)
        done = subprocess.run(["babeltrace2", self.trace, self.directory / "one"], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(re.findall(r" pthread:mutex_acquired: ", done.stdout)), 1005)
        metadata = [(self.directory / name / "ust/metadata").read_text() for name in ("trace", "one", "two")]
        self.assertEqual(len({re.search(r'uuid = "(.*)"', text)[1] for text in metadata}), 3)

    def test_losses_are_told_by_one_of_the_traces(self):
        # In one ring: what another one lost waits for that one's next record, or for who saves what is left.
        everywhere = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, everywhere)
        os.sched_setaffinity(0, {min(everywhere)})
        recorder = self.start_into(self.trace, "--subbuf-size", "4K", "--subbuf-count", "4")
        recorder.send_signal(signal.SIGSTOP)
        tell_to_lock(recorder, 10_000)
        recorder.send_signal(signal.SIGCONT)
        tell_to_lock(recorder, 1)
        end = time.monotonic() + 60
        while b"discarded" not in subprocess.run(["babeltrace2", self.trace], capture_output=True, timeout=60,
                                                 check=False).stderr:
            self.assertLess(time.monotonic(), end, "the losses were not written")
            tell_to_lock(recorder, 1)
            time.sleep(0.1)
        time.sleep(0.5)
        self.kill(recorder, 3)
        self.assertEqual(plumb("extract", "-o", self.directory / "rest").returncode, 0)
        self.assertGreaterEqual(acquired(self.directory / "rest"), 3)  # without a word about losses
        self.assertEqual(json.loads((self.directory / "rest/summary.json").read_text())["events_lost"], 0)

    def test_the_next_recording_keeps_it_and_says_so(self):
        recorder = self.killed()
        done = plumb("record", "-o", self.directory / "next", "true")
        self.assertIn(f"`plumb extract {recorder.pid}`", done.stderr)
        self.assertNotIn("plumb extract", plumb("record", "--force", "-o", self.directory / "next", "true").stderr)
        self.assertIn(f"`plumb extract {recorder.pid}`", plumb("list").stdout)
        self.assertEqual([left["pid"] for left in json.loads(plumb("list", "--json").stdout)["left"]], [recorder.pid])
        self.assertIn("left-channels", plumb("doctor").stdout)
        self.assertEqual(plumb("extract", "-o", self.directory / "rest", recorder.pid).returncode, 0)
        self.assertEqual(acquired(self.trace) + acquired(self.directory / "rest"), 1005)
        self.assertNotIn("left-channels", plumb("doctor").stdout)

    def test_its_writers_stop(self):
        recorder = self.killed()
        plumb("record", "-q", "-o", self.directory / "next", "true")
        before = json.loads(plumb("list", "--json").stdout)["left"][0]["unread_bytes"]
        tell_to_lock(recorder, 1000)
        self.assertEqual(json.loads(plumb("list", "--json").stdout)["left"][0]["unread_bytes"], before)

    def test_what_was_read_is_given_back_when_nobody_maps_it(self):
        recorder = self.killed(1000, "trace", "--subbuf-size", "64K", "--subbuf-count", "16")
        recorder.stdin.close()
        recorder.stdout.read()  # its end
        time.sleep(0.2)
        plumb("record", "-q", "-o", self.directory / "next", "true")
        left = json.loads(plumb("list", "--json").stdout)["left"][0]
        self.assertLess(left["memory_bytes"], (4 << 20) + left["unread_bytes"])
        self.assertEqual(plumb("extract", "-o", self.directory / "rest").returncode, 0)
        self.assertEqual(acquired(self.trace) + acquired(self.directory / "rest"), 1005)

    def test_nothing_is_kept_where_nothing_waits_to_be_read(self):
        recorder = self.start_into(self.trace)
        time.sleep(1.5)
        recorder.kill()
        recorder.wait()
        done = plumb("record", "-o", self.directory / "next", "true")
        self.assertNotIn("plumb extract", done.stderr)
        self.assertEqual(files(), [])

    def test_a_flight_recorder_is_extracted_whole(self):
        self.killed(1000, "trace", "--snapshot")
        self.assertEqual(plumb("extract", "-o", self.directory / "rest").returncode, 0)
        self.assertEqual(acquired(self.directory / "rest"), 1005)

    def test_no_more_than_four_are_kept_and_none_for_ever(self):
        recorders = [self.killed(10, f"trace-{i}", "--subbuf-size", "4K", "--subbuf-count", "4") for i in range(6)]
        plumb("record", "-q", "-o", self.directory / "next", "true")
        plumb("record", "-q", "--force", "-o", self.directory / "next", "true")
        left = json.loads(plumb("list", "--json").stdout)["left"]
        self.assertEqual(len(left), 4)
        self.assertLessEqual({each["pid"] for each in left}, {recorder.pid for recorder in recorders})
        done = plumb("extract")
        self.assertEqual(done.returncode, 1)
        self.assertIn("Say which", done.stderr)
        for path in SHM.glob("left-*"):
            os.utime(path, (time.time() - 4000, time.time() - 4000))
        plumb("record", "-q", "--force", "-o", self.directory / "next", "true")
        self.assertEqual(files(), [])

    def test_what_is_left_goes_with_a_recording_and_not_unsaid(self):
        recorders = [self.start_into(self.directory / f"trace-{i}", "--subbuf-size", "4K", "--subbuf-count", "4") for i in range(6)]
        for recorder in recorders:
            self.kill(recorder, 10)
        done = plumb("extract", "-o", self.directory / "rest", recorders[0].pid)
        self.assertEqual(done.returncode, 0, done.stderr)
        for _ in range(2):
            self.assertIn("Say which", plumb("extract").stderr)
            self.assertEqual(len(files()), 5)
            for path in SHM.glob("left-*"):
                os.utime(path, (time.time() - 4000, time.time() - 4000))
        said = plumb("record", "-o", self.directory / "next", "true").stderr
        self.assertEqual(said.count("had not written was removed, "), 5, said)
        self.assertIn(f"What killed process {recorders[2].pid} (session ", said)
        self.assertEqual(files(), [])

    def test_it_can_be_kept_or_thrown_away(self):
        recorder = self.killed()
        self.assertEqual(plumb("extract", "--keep", "-o", self.directory / "one").returncode, 0)
        self.assertEqual(plumb("extract", "--keep", "-o", self.directory / "two").returncode, 0)
        self.assertEqual(acquired(self.directory / "one"), acquired(self.directory / "two"))
        done = plumb("extract", "--remove", recorder.pid)
        self.assertIn("of shared memory", done.stdout)
        self.assertEqual(files(), [])

    def test_a_copy_of_a_channel_will_do(self):
        recorder = self.start_into(self.trace)
        recorder.send_signal(signal.SIGSTOP)
        tell_to_lock(recorder, 100)
        copy = self.directory / "copy"
        shutil.copyfile(next(SHM.glob("channel-*")), copy)
        recorder.send_signal(signal.SIGCONT)
        self.assertEqual(plumb("extract", "-o", self.directory / "rest", copy).returncode, 0)
        self.assertIn(acquired(self.directory / "rest"), range(100, 106))
        for mode in 0o600, 0o644:  # root's trace of what not everybody may read can not be read by everybody either
            copy.chmod(mode)
            out = self.directory / f"of-{mode:o}"
            self.assertEqual(plumb("extract", "-o", out, copy).returncode, 0)
            is_open = out.stat().st_mode & 0o077 != 0
            self.assertEqual(is_open, mode == 0o644 or os.geteuid() != 0)
        recorder.stdin.close()
        recorder.wait(timeout=30)
        whole = copy.stat().st_size
        os.truncate(copy, 3 << 30)  # with a hole that takes no disk, and would take memory
        done = plumb("extract", "-o", self.directory / "long", copy)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"has {3 << 30} bytes, and the channel in it {whole}", done.stderr)
        self.assertFalse((self.directory / "long").exists())
        copy.write_bytes(b"nonsense" * 1000)
        self.assertEqual(plumb("extract", "-o", self.directory / "bad", copy).returncode, 1)
        self.assertFalse((self.directory / "bad").exists())

    def test_ctrl_c_leaves_no_part_of_a_trace(self):
        self.killed(3_000_000, "trace", "--snapshot")
        rest = self.directory / "rest"
        for _ in range(30):  # it may be done before it hears of it
            extracting = subprocess.Popen([PLUMB, "extract", "--keep", "-o", rest], stderr=subprocess.DEVNULL)
            while not rest.exists() and extracting.poll() is None:
                pass
            extracting.send_signal(signal.SIGINT)
            if extracting.wait(timeout=60) != 0:
                break
            shutil.rmtree(rest)
        self.assertEqual(extracting.returncode, -signal.SIGINT)
        self.assertFalse(rest.exists())
        self.assertEqual(plumb("extract", "-o", rest).returncode, 0)

    def test_a_trace_that_is_being_written_is_not_replaced(self):
        recorder = self.start_into(self.trace)
        for command in (["record", "--force", "-o", self.trace, "true"], ["record", "-o", self.trace, "true"]):
            done = plumb(*command)
            self.assertEqual(done.returncode, 1)
            if "--force" in command:
                self.assertIn(f"is being written by process {recorder.pid} (plumb)", done.stderr)
        tell_to_lock(recorder, 10)
        recorder.stdin.close()
        self.assertEqual(recorder.wait(timeout=30), 0)
        self.assertEqual(acquired(self.trace), 15)
        self.assertEqual(plumb("record", "--force", "-o", self.trace, "timeout", "9", "true").returncode, 0)

    def test_the_trace_of_a_killed_recorder_may_be_replaced(self):
        self.killed()
        self.assertEqual(plumb("record", "--force", "-o", self.trace, "timeout", "9", "true").returncode, 0)

    def test_an_old_trace_is_replaced_by_whatever_name(self):
        self.killed(1000, "killed")
        plumb("record", "-o", self.trace, "true")
        for inside, name in ((self.directory, "trace/"), (self.directory, "./trace//"), (self.trace, "./"), (self.trace, ".")):
            with self.subTest(name):
                done = subprocess.run([PLUMB, "extract", "--keep", "--force", "-o", name], cwd=inside, capture_output=True,
                                      text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(sorted(os.listdir(self.trace)), ["summary.json", "ust"])
                self.assertEqual(acquired(self.trace) + acquired(self.directory / "killed"), 1005)

    def test_what_is_left_is_removed_though_nobody_listens(self):
        self.killed()
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([PLUMB, "extract", "-o", self.directory / "rest"], stderr=writer, timeout=60, check=False)
        os.close(writer)
        self.assertEqual((done.returncode, files()), (0, []))


if __name__ == "__main__":
    unittest.main()
