#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 400
"""A session that is kept, whose drain is killed again and again, at any moment and between any two steps, while programs trace with
room to spare, are killed and begin: the chunks together hold every event once, each is read alone, with everybody's names, and what
is lost is told once."""
import json
import mmap
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

FIXTURES = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "tests/fixtures"
PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
# Longer by hand: so many seconds of kills.
SECONDS = float(os.environ.get("PLUMB_TAKEN_OVER_SECONDS", "10"))
KILL_PAUSE_S = tuple(float(part) for part in os.environ.get("PLUMB_TAKEN_OVER_PAUSES", "0.02,0.2").split(","))
KILLS_OF_WRITERS = 100
# In the order of consumerd/sink/kill_point.h.
KILL_POINTS = ("packet_begun packet_filled packet_written settled handed_back entries_freed chunk_cut chunk_closed chunk_entered "
               "chunk_described chunk_begun left_cut left_closed taken_over").split()
WRITERS_MAX = 4096
TICK = re.compile(rb"paced:tick: (?:.*?)_?tid = (\d+).*? writer = (\d+), number = (\d+)|(plumb_statedump:thread): .* tid = (\d+)")


class Board:
    """What writers say they have done: see paced_writer."""

    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(16 * WRITERS_MAX))
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)

    def counts(self, writer):
        return struct.unpack_from("QQ", self.memory, 16 * writer)


class TakenOver(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="plumb-taken-over-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.trace = self.directory / "trace"
        self.trace.mkdir()
        self.board = Board(self.directory / "board")
        self.writers, self.next_writer, self.options = [], 0, []
        self.drainer = None
        self.addCleanup(self.stop_all)

    def stop_all(self):
        if self.drainer and self.drainer.returncode != 0:  # the session must not be left to the next test
            self.kill_drainer()
            if self.start_drainer():
                self.drainer.communicate(b"", timeout=60)
        for process in [self.drainer] + self.writers:
            if process and process.poll() is None:
                process.kill()
                process.wait()
        for process in [self.drainer] + self.writers:
            for pipe in (process.stdin, process.stdout, process.stderr) if process else ():
                if pipe:
                    pipe.close()

    def start_drainer(self, *options):
        """Returns whether it drains: else it was killed before."""
        if self.drainer:
            for pipe in (self.drainer.stdin, self.drainer.stdout, self.drainer.stderr):
                pipe.close()
        self.drainer = subprocess.Popen([FIXTURES / "kept_drainer", self.trace, *self.options, *options],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        is_ready = self.drainer.stdout.readline() == b"ready\n"
        if not is_ready and self.drainer.wait() != -signal.SIGKILL:
            self.fail(f"the drainer could not begin: {self.drainer.stderr.read().decode()}")
        return is_ready

    def kill_drainer(self):
        self.drainer.kill()
        self.drainer.wait()

    def end_drainer(self):
        _, errors = self.drainer.communicate(b"", timeout=60)
        self.assertEqual((self.drainer.returncode, errors), (0, b""))

    def start_writer(self, threads=3, burst=2, pause_us=2000):
        process = subprocess.Popen([FIXTURES / "paced_writer", self.board.path, str(self.next_writer), str(threads), str(burst),
                                    str(pause_us)], stdin=subprocess.PIPE)
        self.next_writer += threads
        self.writers.append(process)
        return process

    def end_writers(self):
        for writer in self.writers:
            if writer.poll() is None:
                writer.communicate(b"")

    def chunks(self):
        self.assertEqual([path.name for path in self.trace.glob("*.part")], [])
        return sorted(self.trace.glob("chunk-*"))

    def read_chunk(self, chunk, may_lose):
        """(writer, number) of each event. Every thread that has one is named in the chunk."""
        read = subprocess.run(["babeltrace2", chunk], capture_output=True)
        self.assertEqual(read.returncode, 0, (chunk, list(chunk.glob("*/*")), read.stderr))
        self.assertRegex(read.stderr, rb"\A(WARNING: Tracer discarded .*\n)*\Z" if may_lose else rb"\A\Z")
        ticks, named, seen = [], set(), set()
        for thread, writer, number, statedump, named_thread in TICK.findall(read.stdout):
            if statedump:
                named.add(named_thread)
            else:
                seen.add(thread)
                ticks.append((int(writer), int(number)))
        self.assertLessEqual(seen, named, f"{chunk}: threads without a name")
        return ticks

    def check(self, is_complete=True, counts_losses=True):
        """Every event that was done is there once, and of those that were only begun none twice; numbers of the chunks' totals are
        those of what they hold. Returns how many events there are."""
        found, total, lost = {}, 0, 0
        self.lost_in_chunks, self.last_numbers = [], {}
        for chunk in self.chunks():
            ticks = self.read_chunk(chunk, not is_complete)
            told = [int(word) for word in (chunk / "totals").read_text().split()]
            self.assertEqual(told[0], len(ticks), chunk)
            self.assertEqual(told[1], told[3], chunk)
            lost += told[1]
            self.lost_in_chunks.append(told[1] + told[2])
            for writer, number in ticks:
                found.setdefault(writer, {}).setdefault(number, []).append(chunk.name[:14])
            total += len(ticks)
        done = 0
        for writer in range(self.next_writer):
            begun, ended = self.board.counts(writer)
            numbers = sorted(found.get(writer, {}))
            doubled = [(number, chunks) for number, chunks in found.get(writer, {}).items() if len(chunks) > 1]
            self.assertEqual(doubled, [], f"writer {writer}: doubled events")
            if is_complete:
                self.assertIn(numbers, [list(range(count)) for count in {ended, begun}], f"writer {writer}")
            self.last_numbers[writer] = (numbers[-1] if numbers else None, begun - 1)
            done += begun
        if is_complete:
            self.assertEqual(lost, 0)
        elif counts_losses:
            self.assertEqual(done, total + lost)
        return total

    def test_killed_at_random_moments(self):
        random.seed(7)
        self.options = ["rotate=20"]
        self.assertTrue(self.start_drainer())
        for _ in range(3):
            self.start_writer()
        until, kills = time.monotonic() + SECONDS, 0
        while time.monotonic() < until:
            time.sleep(random.uniform(*KILL_PAUSE_S))
            self.kill_drainer()
            kills += 1
            self.assertTrue(self.start_drainer())
        self.end_writers()
        self.end_drainer()
        total = self.check()
        print(f"killed {kills} times: {total} events in {len(self.chunks())} chunks")
        self.assertGreater(kills, 20)

    def kill_at(self, points, counts):
        for point in points:
            for count in counts:
                self.kill_drainer()
                if self.start_drainer(f"kill={KILL_POINTS.index(point)}:{count}"):
                    is_of_taking_over = point in ("left_cut", "left_closed", "taken_over")
                    try:
                        self.drainer.wait(timeout=2 if is_of_taking_over else 20)
                    except subprocess.TimeoutExpired:
                        self.assertTrue(is_of_taking_over and count > 1, (point, count))
                        self.kill_drainer()
                self.assertEqual(self.drainer.returncode, -signal.SIGKILL)
                self.assertTrue(self.start_drainer())

    def test_killed_between_any_two_steps(self):
        self.options = ["rotate=30"]
        self.assertTrue(self.start_drainer())
        for _ in range(2):
            self.start_writer(burst=4)
        self.kill_at(KILL_POINTS, (1, 4))
        self.end_writers()
        self.end_drainer()
        self.check()

    def test_killed_between_steps_where_writers_wait_for_room(self):
        # What was handed back is written over at once.
        self.options = ["rotate=30", "full"]
        self.assertTrue(self.start_drainer())
        self.start_writer(threads=2, burst=50, pause_us=500)
        self.kill_at("packet_written settled handed_back chunk_cut chunk_entered taken_over".split(), (1, 8))
        self.end_writers()
        self.end_drainer()
        self.check(is_complete=False)

    def test_programs_are_killed_too(self):
        random.seed(8)
        self.options = ["rotate=100"]
        self.assertTrue(self.start_drainer())
        self.start_writer()
        for turn in range(KILLS_OF_WRITERS):
            writer = self.start_writer(threads=2)
            time.sleep(random.uniform(0.01, 0.07))
            if turn % 5 == 0:
                self.kill_drainer()
            writer.kill()
            writer.wait()
            if turn % 5 == 0:
                later = self.start_writer(threads=1)  # while nobody drains
                time.sleep(0.02)
                self.assertTrue(self.start_drainer())
                later.communicate(b"")
        self.end_writers()
        self.end_drainer()
        self.check()

    def test_what_is_lost_is_told_once(self):
        self.options = ["rotate=50", "full"]
        self.assertTrue(self.start_drainer())
        for _ in range(2):
            self.start_writer(burst=200, pause_us=1000)
        for _ in range(20):
            time.sleep(0.1)
            self.kill_drainer()
            time.sleep(0.05)
            self.assertTrue(self.start_drainer())
        self.end_writers()
        self.end_drainer()
        self.check(is_complete=False)

    def test_who_waited_for_room_in_vain_waits_again(self):
        self.options = ["rotate=50", "full", "block"]
        self.assertTrue(self.start_drainer())
        self.start_writer(threads=2, burst=100, pause_us=1000)
        time.sleep(0.3)
        self.kill_drainer()
        before = len(list(self.trace.glob("chunk-*")))
        time.sleep(1.5)  # the rings are full, and nobody waits any more
        self.assertTrue(self.start_drainer())
        time.sleep(0.5)
        self.end_writers()
        self.end_drainer()
        self.check(is_complete=False)
        self.assertEqual(sum(self.lost_in_chunks[:before - 1]), 0)
        self.assertGreater(sum(self.lost_in_chunks[before - 1:before + 2]), 0)
        self.assertEqual(sum(self.lost_in_chunks[before + 2:]), 0, self.lost_in_chunks)

    def test_a_flight_recorder_keeps_the_newest(self):
        self.options = ["full", "overwrite"]
        self.assertTrue(self.start_drainer())
        self.start_writer(threads=2, burst=100, pause_us=1000)
        for _ in range(5):
            time.sleep(0.1)
            self.kill_drainer()
            time.sleep(0.1)
            self.assertTrue(self.start_drainer())
        self.kill_drainer()
        self.end_writers()
        self.assertTrue(self.start_drainer())
        self.end_drainer()
        self.check(is_complete=False, counts_losses=False)
        self.assertGreater(sum(self.lost_in_chunks), 0)
        for writer, (found, done) in self.last_numbers.items():
            self.assertEqual(found, done, f"writer {writer}: its last event")

    def channel(self):
        channels = list(Path("/dev/shm").glob("plumb-*/channel-*"))
        if len(channels) != 1:
            self.skipTest("this /dev/shm is not ours alone")
        return channels[0]

    def test_what_was_written_over_the_channel_costs_no_more_than_its_own_events(self):
        random.seed(9)
        self.options = ["rotate=50"]
        self.assertTrue(self.start_drainer())
        precious = self.directory / "precious"
        precious.write_bytes(b"x" * 100_000)
        self.start_writer()
        for _ in range(12):
            time.sleep(0.1)
            self.kill_drainer()
            with open(self.channel(), "r+b") as file:
                size = file.seek(0, os.SEEK_END)
                controls = struct.unpack_from("Q", os.pread(file.fileno(), 96, 0), 88)[0] if random.random() < 0.7 else 4096
                for _ in range(200):
                    at = controls + 8 * random.randrange(min(size - controls, 4096) // 8)
                    os.pwrite(file.fileno(), struct.pack("Q", random.choice((0, 2**63, random.getrandbits(62), 8192))), at)
            self.assertTrue(self.start_drainer())
        self.end_writers()
        _, errors = self.drainer.communicate(b"", timeout=60)
        self.assertEqual(self.drainer.returncode, 0, errors)
        for chunk in self.chunks():
            self.assertEqual(subprocess.run(["babeltrace2", chunk], capture_output=True).returncode, 0, chunk)
        self.assertEqual(precious.read_bytes(), b"x" * 100_000)

    def plumb(self, *arguments):
        return subprocess.run([PLUMB, *arguments], capture_output=True, text=True, cwd=self.directory)

    def test_commands_leave_it_alone_and_say_what_it_is(self):
        self.assertTrue(self.start_drainer())
        self.start_writer()
        time.sleep(0.2)
        self.kill_drainer()
        channel = self.channel()
        self.assertEqual(self.plumb("record", "-q", "-o", "other", "--duration", "100ms").returncode, 0)
        self.assertIn("exact  kept: programs write to it", self.plumb("list").stdout)
        session, = json.loads(self.plumb("list", "--json").stdout)["sessions"]
        self.assertEqual((session["name"], session["alive"], session["kept"]), ("exact", False, True))
        self.assertIn("kept, and read by nobody now: exact", self.plumb("doctor").stdout)
        extracted = self.plumb("extract", "-o", "rest")
        self.assertNotEqual(extracted.returncode, 0)
        self.assertIn("Of sessions that are kept, as exact", extracted.stderr)
        copied = self.directory / "copy"
        copied.write_bytes(channel.read_bytes())
        self.assertEqual(self.plumb("extract", "-o", "copied", "./copy").returncode, 0)
        self.assertTrue(channel.exists())
        self.assertTrue(self.start_drainer())
        self.end_writers()
        self.end_drainer()
        self.check()


if __name__ == "__main__":
    unittest.main(verbosity=2)
