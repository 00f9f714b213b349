#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 400
# cmake-serial
"""A recording in chunks: each is a trace that is read alone, with everybody's names; together they hold every event once, in
order; what is finished is named so, may be taken away, and is removed when it is too much. Whatever happens in between (a killed
recorder, a full disk, an end in the middle) leaves chunks that are whole."""
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
sys.path.insert(0, str(SOURCE / "tests/support"))
from traced_program import TracedProgramTest  # noqa: E402

HAS_KERNEL = os.geteuid() == 0 and Path("/sys/kernel/tracing/instances").is_dir()
WRITERS = 4

# Each of its threads numbers its events, and says at the end how many there were: `rotor THREADS BURST PAUSE_US SECONDS`. SECONDS of 0:
# until it is told to end. One thread ends early, and is of no later chunk.
PROGRAM = r"""
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
PLUMB_EVENT(turn, step, (u32, writer), (u64, number))
PLUMB_EVENT(turn, once, (u64, number))
static volatile sig_atomic_t over;
static unsigned burst, pause_us;
static unsigned long numbers[64];
static void end(int number) { (void)number; over = 1; }
static void* early(void* nothing) {
    pthread_setname_np(pthread_self(), "early");
    plumb_trace(turn, once, 1);
    return nothing;
}
static void* write_all(void* argument) {
    const unsigned writer = (unsigned)(unsigned long)argument;
    char name[16];
    snprintf(name, sizeof name, "writer-%u", writer);
    pthread_setname_np(pthread_self(), name);
    unsigned long number = 0;
    while (!over) {
        for (unsigned i = 0; i < burst; i++) {
            plumb_trace(turn, step, writer, number++);
            if (i % 16 == 0) syscall(SYS_getppid);
        }
        if (pause_us) usleep(pause_us);
    }
    numbers[writer] = number;
    return NULL;
}
int main(int count, char** words) {
    (void)count;
    const long writers = atol(words[1]);
    pthread_t threads[64], first;
    burst = (unsigned)atol(words[2]);
    pause_us = (unsigned)atol(words[3]);
    signal(SIGTERM, end);
    signal(SIGALRM, end);
    pthread_create(&first, NULL, early, NULL);
    pthread_join(first, NULL);
    for (long i = 0; i < writers; i++) pthread_create(&threads[i], NULL, write_all, (void*)i);
    if (atol(words[4]) != 0) alarm((unsigned)atol(words[4]));
    for (long i = 0; i < writers; i++) pthread_join(threads[i], NULL);
    for (long i = 0; i < writers; i++) printf("%lu\n", numbers[i]);
    return 0;
}
"""
STEP = re.compile(r"turn:step: .*writer = (\d+), number = (\d+) \}")
CHUNK = re.compile(r"chunk-\d{8}-\d{8}T\d{6}[+-]\d{4}(\.part)?$")


class Rotation(TracedProgramTest):
    PROGRAM = PROGRAM

    def setUp(self):
        super().setUp()
        self.recorders = []

    def tearDown(self):
        for recorder in self.recorders:
            if recorder.poll() is None:
                recorder.send_signal(signal.SIGTERM)
                recorder.communicate(timeout=60)

    def start(self, *options, program=(WRITERS, 50, 2000, 0), trace=None, command=True, **more):
        words = ["--", self.program, *program] if command else []
        recorder = subprocess.Popen([PLUMB, "record", "-o", trace or self.trace, *map(str, options), *map(str, words)],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
        self.recorders.append(recorder)
        return recorder

    def end(self, recorder, number=None):
        """How many each thread wrote; what was said is in self.said."""
        if number is not None:
            recorder.send_signal(number)
        text, self.said = recorder.communicate(timeout=120)
        return [int(line) for line in text.split()]

    def record(self, *options, **more):
        return self.end(self.start(*options, **more))

    def chunks(self, trace=None):
        found = sorted(path for path in (trace or self.trace).iterdir() if path.name.startswith("chunk-"))
        for path in found:
            self.assertRegex(path.name, CHUNK)
        return found

    def wait_for_chunks(self, count, trace=None, patience_s=60):
        """Finished ones: whose names are whole."""
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            if (trace or self.trace).is_dir():
                finished = [path for path in self.chunks(trace) if not path.name.endswith(".part")]
                if len(finished) >= count:
                    return finished
            time.sleep(0.02)
        self.fail(f"there are no {count} finished chunks")

    def read(self, chunk):
        """Steps by writer, in the order of time, and all of the text. It is read alone, and without a word of complaint."""
        done = subprocess.run(["babeltrace2", chunk], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), chunk)
        steps = {}
        for writer, number in STEP.findall(done.stdout):
            steps.setdefault(int(writer), []).append(int(number))
        return steps, done.stdout

    def view(self, *arguments, status=0):
        done = subprocess.run([PLUMB, "view", *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def check_whole(self, written, trace=None):
        """Together, the chunks hold all that each thread wrote, once, one chunk behind the other."""
        together = {writer: [] for writer in range(len(written))}
        for chunk in self.chunks(trace):
            steps, _ = self.read(chunk)
            for writer, numbers in steps.items():
                together[writer] += numbers
        for writer, count in enumerate(written):
            self.assertEqual(together[writer], list(range(count)), f"writer {writer}")

    def check_summaries(self, trace=None, removed_events=0):
        whole = json.loads(((trace or self.trace) / "summary.json").read_text())
        of_chunks = [json.loads((chunk / "summary.json").read_text()) for chunk in self.chunks(trace)]
        self.assertEqual(whole["chunks"], [chunk.name for chunk in self.chunks(trace)])
        self.assertEqual([each["trace"] for each in of_chunks], [str(chunk.resolve()) for chunk in self.chunks(trace)])
        self.assertEqual(whole["events"], removed_events + sum(each["events"] for each in of_chunks))
        for name, count in whole["events_by_name"].items():
            if not removed_events:
                self.assertEqual(count, sum(each["events_by_name"].get(name, 0) for each in of_chunks), name)
        for before, behind in zip(of_chunks, of_chunks[1:]):
            self.assertEqual(before["chunk"]["number"] + 1, behind["chunk"]["number"])
            self.assertLess(before["chunk"]["end_ns"], behind["chunk"]["end_ns"])
        return whole, of_chunks

    def test_each_event_is_in_one_chunk_and_each_chunk_is_a_trace(self):
        written = self.record("--rotate-period", "500ms", program=(WRITERS, 100, 4000, 8))
        self.assertEqual(len(written), WRITERS, self.said)
        chunks = self.chunks()
        self.assertGreaterEqual(len(chunks), 12)
        self.check_whole(written)
        whole, of_chunks = self.check_summaries()
        self.assertEqual((whole["complete"], whole["events_lost"], whole["events"]), (True, 0, sum(written) + 1))
        self.assertIn(f"in {len(chunks)} chunks", self.said)
        for chunk, summary in zip(chunks, of_chunks):
            steps, text = self.read(chunk)
            self.assertEqual(summary["events_by_name"].get("turn:step", 0), sum(map(len, steps.values())))
            for writer in steps:  # told again in each
                self.assertIn(f'name = "writer-{writer}"', text)
            self.assertIn('name = "program"', text)
            self.assertEqual(summary["processes"][0]["name"], "program")
        # Of who has ended before it, no chunk but the one behind that tells.
        self.assertIn('"early"', self.read(chunks[0])[1])
        for chunk in chunks[2:]:
            self.assertNotIn('"early"', self.read(chunk)[1])

    def test_all_chunks_are_shown_as_one_trace_in_order(self):
        written = self.record("--rotate-period", "200ms", program=(WRITERS, 400, 8000, 4))
        shown = {writer: [] for writer in range(WRITERS)}
        last_ns = 0
        for line in self.view("--json", self.trace).stdout.splitlines():
            event = json.loads(line)
            self.assertGreaterEqual(event["timestamp_ns"], last_ns)
            last_ns = event["timestamp_ns"]
            if event["event"] == "turn:step":
                self.assertEqual(event["comm"], f"writer-{event['fields']['writer']}")
                shown[event["fields"]["writer"]].append(event["fields"]["number"])
        self.assertEqual([shown[writer] for writer in range(WRITERS)], [list(range(count)) for count in written])
        for chunk in self.chunks()[1:3]:
            text = self.view(chunk)
            self.assertEqual(text.stderr, "")
            self.assertIn('comm = "writer-1"', text.stdout)

    def test_of_a_chunk_without_a_summary_that_of_the_recording_tells(self):
        self.record("--rotate-period", "200ms", program=(WRITERS, 100, 4000, 2))
        chunk = self.chunks()[1]
        (chunk / "summary.json").unlink()
        chunk.rename(chunk.with_name(chunk.name + ".part"))
        whole = json.loads((self.trace / "summary.json").read_text())
        whole.update(complete=False, events_lost=12345, events_lost_by_cause={"not_written": 12345})
        (self.trace / "summary.json").write_text(json.dumps(whole))
        said = subprocess.run([PLUMB, "view", "--summary", self.trace], capture_output=True, text=True, timeout=100, check=False).stderr
        self.assertIn("no summary.json of their own", said)
        self.assertEqual(said.count("12,345 events not_written"), 1)
        self.assertNotIn("was killed", said)

    def test_chunks_end_when_they_are_large_enough(self):
        written = self.record("--rotate-size", "1M", program=(WRITERS, 400, 4000, 4))
        chunks = self.chunks()
        self.assertGreater(len(chunks), 4)
        for chunk in chunks[:-1]:
            # At the first look behind that: what was written meanwhile is in it, too.
            self.assertGreaterEqual(json.loads((chunk / "summary.json").read_text())["bytes"], 1 << 20)
        self.check_whole(written)
        self.check_summaries()

    def test_by_hand(self):
        recorder = self.start("--rotate", "--name", "by-hand")
        self.wait_for_chunks(0)
        time.sleep(0.5)
        ended = []
        for words in ([], [self.trace], ["by-hand"], [recorder.pid]):
            done = subprocess.run([PLUMB, "rotate", *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)
            ended.append(done.stdout.strip())
            self.assertTrue(Path(ended[-1], "summary.json").is_file())
            self.view(ended[-1])  # and so it is while the recording goes on
            time.sleep(0.2)
        unfinished = [chunk.name for chunk in self.chunks() if chunk.name.endswith(".part")]
        self.assertEqual(len(unfinished), 1)
        written = self.end(recorder, signal.SIGTERM)
        self.assertEqual(ended, [str(chunk.resolve()) for chunk in self.chunks()][:4])
        self.check_whole(written)
        done = subprocess.run([PLUMB, "rotate"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("There is no chunk recorder of yours. Start one with `plumb record --rotate`", done.stderr)

    def test_a_recording_without_chunks_has_nothing_to_end(self):
        recorder = self.start()
        time.sleep(0.5)
        done = subprocess.run([PLUMB, "rotate", self.trace], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"Process {recorder.pid} is no chunk recorder. Start it with `plumb record --rotate`.", done.stderr)
        self.end(recorder, signal.SIGTERM)

    def test_only_so_many_are_kept_and_the_others_are_named(self):
        self.record("--rotate-period", "200ms", "--keep-chunks", "3", program=(WRITERS, 50, 1000, 4))
        whole, of_chunks = self.check_summaries(removed_events=json.loads(
            (self.trace / "summary.json").read_text())["removed_chunks"]["events"])
        self.assertEqual(len(of_chunks), 3)
        removed = whole["removed_chunks"]
        self.assertEqual(removed["count"], of_chunks[0]["chunk"]["number"] - 1)
        self.assertIn(f"{removed['count']} older chunks were removed, as --keep-chunks asked: {removed['first']} to "
                      f"{removed['last']}", self.said)

    def test_only_so_much_is_kept(self):
        recorder = self.start("--rotate-size", "256K", "--keep-size", "1M", program=(WRITERS, 100, 2000, 0))
        largest = 0
        for _ in range(150):
            size = 0
            for folder, _, files in os.walk(self.trace):  # passes over what vanishes
                for name in files:
                    try:
                        size += os.stat(os.path.join(folder, name)).st_size
                    except FileNotFoundError:
                        pass
            largest = max(largest, size)
            time.sleep(0.02)
        self.end(recorder, signal.SIGTERM)
        self.assertGreater(json.loads((self.trace / "summary.json").read_text())["removed_chunks"]["count"], 3)
        kept = sum(path.stat().st_size for path in self.trace.rglob("*") if path.is_file())
        self.assertGreater(kept, 1 << 17)  # one chunk at least; on a busy machine chunks are larger than was asked for
        self.assertLess(kept, 3 << 19)
        self.assertLess(largest, 3 << 20)  # between two looks, on a busy machine

    def test_finished_chunks_may_be_taken_away(self):
        recorder = self.start("--rotate-period", "200ms", "--keep-chunks", "4")
        self.wait_for_chunks(2)
        taken = self.directory_for_taken()
        for _ in range(4):
            oldest = self.wait_for_chunks(2)[0]
            try:
                shutil.move(oldest, taken)
            except FileNotFoundError:
                continue  # it was too old just then
        self.end(recorder, signal.SIGTERM)
        self.assertNotIn("Could not", self.said)
        self.assertTrue(json.loads((self.trace / "summary.json").read_text())["complete"])
        for chunk in taken.iterdir():
            self.assertEqual(self.view(chunk).stderr, "")

    def directory_for_taken(self):
        taken = self.folder / "taken"
        taken.mkdir()
        self.addCleanup(shutil.rmtree, taken, ignore_errors=True)
        return taken

    def test_a_period_in_which_nothing_happened_has_a_chunk_that_is_read(self):
        recorder = self.start("--rotate-period", "200ms", "-e", "no:such", command=False)
        chunks = self.wait_for_chunks(3)
        for chunk in chunks[:3]:
            self.assertEqual(self.read(chunk)[0], {})
            self.assertEqual(json.loads((chunk / "summary.json").read_text())["events"], 0)
        self.end(recorder, signal.SIGINT)

    def test_what_a_killed_recorder_left_is_whole(self):
        for _ in range(6):  # in the middle of anything, also of a rotation
            shutil.rmtree(self.trace, ignore_errors=True)
            recorder = self.start("--rotate-period", "100ms", program=(WRITERS, 200, 1000, 0), start_new_session=True)
            self.wait_for_chunks(2)
            time.sleep(0.1)
            recorder.kill()
            recorder.wait()
            program = int(subprocess.run(["pgrep", "-f", f"^{self.program} "], capture_output=True, text=True,
                                         check=True).stdout.split()[-1])
            os.kill(program, signal.SIGTERM)
            written = self.end(recorder)
            left = self.folder / "left"
            shutil.rmtree(left, ignore_errors=True)
            done = subprocess.run([PLUMB, "extract", "-o", left, str(recorder.pid)], capture_output=True, text=True, timeout=60,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            together = {writer: [] for writer in range(WRITERS)}
            chunks = self.chunks()
            self.assertTrue(chunks[-1].name.endswith(".part"))
            for chunk in [*chunks, left]:
                if not list(chunk.rglob("ring_*")) and not list(chunk.rglob("statedump")):
                    continue  # it had just been made
                for writer, numbers in self.read(chunk)[0].items():
                    together[writer] += numbers
            for writer, count in enumerate(written):
                self.assertEqual(sorted(together[writer]), list(range(count)), f"writer {writer}")

    @unittest.skipUnless(os.geteuid() == 0, "mounts a disk")
    def test_a_full_disk_ends_no_recording_and_what_is_lost_adds_up(self):
        disk = self.directory_for_taken()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", disk], check=False).returncode != 0:
            self.skipTest("may not mount")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        trace = disk / "trace"
        recorder = self.start("--rotate-period", "300ms", trace=trace, program=(WRITERS, 1000, 1000, 0))
        time.sleep(3)
        for chunk in self.wait_for_chunks(1, trace):  # somebody makes room
            shutil.rmtree(chunk)
        time.sleep(1.5)
        written = self.end(recorder, signal.SIGTERM)
        self.assertIn("No space left on device", self.said)
        whole = json.loads((trace / "summary.json").read_text())
        self.assertFalse(whole["complete"])
        self.assertEqual(whole["events"] + whole["events_lost_by_cause"]["not_written"], sum(written) + 1)
        for chunk in self.chunks(trace):
            if not list(chunk.rglob("ring_*")):
                continue
            done = subprocess.run(["babeltrace2", chunk], capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            if not (chunk / "summary.json").exists():
                continue
            summary = json.loads((chunk / "summary.json").read_text())
            self.assertEqual(len(STEP.findall(done.stdout)), summary["events_by_name"].get("turn:step", 0), chunk)

    @unittest.skipUnless(os.geteuid() == 0, "mounts a disk")
    def test_a_chunk_is_complete_whatever_one_before_it_lacks(self):
        disk = self.directory_for_taken()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], check=False).returncode != 0:
            self.skipTest("may not mount")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        trace = disk / "trace"
        recorder = self.start("--rotate-period", "300ms", trace=trace)
        self.wait_for_chunks(1, trace)
        with open(disk / "filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(b"x" * 4096)
        time.sleep(1)
        (disk / "filler").unlink()
        time.sleep(1.2)
        self.end(recorder, signal.SIGTERM)
        whole = json.loads((trace / "summary.json").read_text())
        self.assertEqual((whole["complete"], len(whole["problems"]) > 0), (False, True))
        summaries = [json.loads(path.read_text()) for path in sorted(trace.glob("chunk-*/summary.json"))]
        for each in summaries:
            lacks = each["events_lost_by_cause"].get("not_written", 0)
            self.assertEqual(each["complete"], not each["problems"], each["trace"])
            self.assertFalse(lacks and each["complete"], each["trace"])
        self.assertEqual((summaries[-1]["complete"], summaries[-1]["problems"]), (True, []))
        self.assertNotIn("not complete", self.view(summaries[-1]["trace"]).stderr)
        self.assertRegex(self.said, rf"The trace in {trace} is not complete, [\d,]+ events are missing: ")

    def test_losses_are_told_in_the_chunk_where_they_happened_and_add_up(self):
        written = self.record("--rotate-period", "300ms", "--subbuf-size", "16K", "--subbuf-count", "4",
                              program=(WRITERS, 20000, 50000, 4))
        whole = json.loads((self.trace / "summary.json").read_text())
        lost = whole["events_lost_by_cause"]["full"]
        self.assertEqual(whole["events"] + lost, sum(written) + 1)
        discarded = 0
        for chunk in self.chunks():
            done = subprocess.run(["babeltrace2", chunk], capture_output=True, text=True, timeout=100, check=True)
            here = sum(int(n) for n in re.findall(r"discarded (\d+) events?", done.stderr))
            summary = json.loads((chunk / "summary.json").read_text())
            self.assertEqual((summary["events_lost"], summary["events_lost_by_cause"].get("full", 0)), (here, here), chunk)
            discarded += here
        self.assertEqual(discarded, lost)

    def test_a_directory_that_is_removed_ends_nothing(self):
        recorder = self.start("--rotate-period", "200ms")
        self.wait_for_chunks(2)
        shutil.rmtree(self.trace)
        time.sleep(1)
        self.end(recorder, signal.SIGTERM)
        self.assertFalse(self.trace.exists())
        self.assertEqual(recorder.returncode, 1)
        self.assertEqual(len(re.findall("No chunk was ended: .* was removed while the trace was written", self.said)), 1, self.said)

    def test_chunks_are_replaced_by_force_and_nothing_else_is(self):
        self.record("--rotate-period", "200ms", program=(1, 10, 1000, 1))
        self.record("--rotate-period", "200ms", "--force", program=(1, 10, 1000, 1))
        self.check_summaries()
        (self.chunks()[0] / "notes").write_text("mine")
        self.record("--rotate-period", "200ms", "--force", program=(1, 10, 1000, 1))
        self.assertIn("was not replaced", self.said)
        self.assertEqual((self.chunks()[0] / "notes").read_text(), "mine")

    def test_the_time_of_a_recording_is_kept(self):
        recorder = self.start("--rotate-period", "300ms", "--duration", "1.5", command=False)
        self.end(recorder)
        self.assertEqual(recorder.returncode, 0, self.said)
        self.assertIn(len(self.chunks()), (4, 5, 6))
        self.check_summaries()

    def test_what_makes_no_sense_is_refused(self):
        for options, why in ((["--rotate", "--snapshot"], "--snapshot writes when it is asked"),
                             (["--rotate-period", "1s", "--mode", "overwrite"], "--mode overwrite leaves holes"),
                             (["--rotate-size", "1M", "--to", "serial:/dev/null"], "--to sends one trace over a line"),
                             (["--rotate-period", "1ms"], "--rotate-period 1ms is less than 100ms"),
                             (["--rotate-size", "10"], "--rotate-size 10 is less than 64K"),
                             (["--keep-chunks", "3"], "--keep-chunks means nothing without --rotate"),
                             (["--keep-size", "1G"], "--keep-size means nothing without --rotate")):
            self.record(*options)
            self.assertEqual(self.recorders[-1].returncode, 2, self.said)
            self.assertIn(why, self.said)
            self.assertFalse(self.trace.exists())

    @unittest.skipUnless(HAS_KERNEL, "needs root and tracefs")
    def test_the_kernel_is_cut_at_the_same_moments(self):
        written = self.record("--rotate-period", "1s", "-k", "syscalls:getppid", "-k", "sched:sched_switch",
                              program=(WRITERS, 160, 10000, 8))
        self.check_whole(written)
        whole, of_chunks = self.check_summaries()
        self.assertEqual(whole["events_lost"], 0, self.said)
        chunks = self.chunks()
        self.assertGreaterEqual(len(chunks), 6)
        calls = 0
        for chunk, summary in zip(chunks, of_chunks):
            _, text = self.read(chunk)
            here = len(re.findall(r" syscall_entry_getppid: ", text))
            calls += here
            self.assertIn('lttng_statedump_process_state', text)
            for writer in range(WRITERS):
                self.assertIn(f'name = "writer-{writer}"', text)
            # Every 16th event has a call behind it: at the cut, one side has at most that one more.
            steps = summary["events_by_name"].get("turn:step", 0)
            if chunk != chunks[-1]:
                self.assertGreater(min(here, steps), 0, chunk)
            self.assertLess(abs(here * 16 - steps), WRITERS * 17 + 160 * (chunk == chunks[0]), chunk)
            shown = self.view("-e", "syscall_entry_getppid", "-n", "50", chunk).stdout
            self.assertEqual(len(re.findall(r'comm = "(?:writer-\d|program)"', shown)), len(shown.splitlines()))
        self.assertGreaterEqual(calls, sum(-(-count // 160) * 10 for count in written))  # the runtime asks, too, as it begins
        self.assertLessEqual(calls, sum(-(-count // 160) * 10 for count in written) + 10)
        shown = self.view("--json", self.trace).stdout.splitlines()
        times = [json.loads(line)["timestamp_ns"] for line in shown]
        self.assertEqual(times, sorted(times))


if __name__ == "__main__":
    unittest.main()
