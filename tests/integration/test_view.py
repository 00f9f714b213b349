#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""plumb view and plumb contention: the same events with the same values in the same order as babeltrace2 reads
them, named by who wrote them; selected as asked; and polite to pipes and to people with a broken trace."""
import collections
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import babeltrace_exact  # noqa: E402

BUILD = pathlib.Path(os.environ["PLUMB_BUILD_DIR"])
SOURCE = pathlib.Path(os.environ["PLUMB_SOURCE_DIR"])
PLUMB = BUILD / "cli" / "plumb"

# Every type of field, with values at their limits and others, from two named threads.
SHOP = r"""
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
PLUMB_EVENT(shop, order, (u64, id), (i64, i64), (i32, i32), (i16, i16), (i8, i8), (u8, u8), (x32, flags),
            (x64, mask), (f64, price), (f32, ratio), (bool, paid), (ptr, object), (string, customer), (text, note),
            (enum, u8, status, (0, "new"), (1, "sent")), (enum, i32, way, (-1, "back"), (2000000000, "far")),
            (array, u16, ports, 4), (sequence, u32, sizes), (sequence, i8, signs))
PLUMB_EVENT(shop, nothing)
static void* work(void* name) {
    pthread_setname_np(pthread_self(), name);
    static const char* const customers[] = {"bob", "", "with \"quotes\" and \\", "gr\303\274n", "line\nbreak\t\x01"};
    for (uint64_t i = 0; i < 3000; i++) {
        const uint64_t x = i * 0x9e3779b97f4a7c15ull;
        const uint16_t ports[4] = {(uint16_t)x, 0, 65535, (uint16_t)i};
        const uint32_t sizes[3] = {(uint32_t)x, 0xffffffffu, 0};
        const int8_t signs[2] = {-128, 127};
        const char* const customer = customers[i % 5];
        plumb_trace(shop, order, i == 0 ? UINT64_MAX : i, i == 0 ? INT64_MIN : (int64_t)x, (int32_t)x, (int16_t)x,
                    (int8_t)x, (uint8_t)x, (uint32_t)x, x, (double)(int64_t)x / 1024.0, (float)i / 4.0f, i % 2 != 0,
                    (void*)(uintptr_t)x, customer, customer, strlen(customer) / 2, (uint8_t)(i % 3),
                    i % 3 == 0 ? -1 : i % 3 == 1 ? 2000000000 : 5, ports, sizes, i % 4, signs, i % 3);
        if (i % 3 == 0) plumb_trace(shop, nothing);
    }
    return name;
}
int main(void) {
    pthread_t threads[2];
    char names[2][16] = {"left", "right"};
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, names[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
"""

EXEC = r"""
#include <plumb/tracepoint.h>
#include <unistd.h>
PLUMB_EVENT(image, began)
int main(int count, char** arguments) {
    plumb_trace(image, began);
    return count > 1 ? execl(arguments[1], arguments[1], (char*)0) : 0;
}
"""

# A lock with a name that two threads fight for, and one on the heap that nobody else takes.
LOCKS = r"""
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_mutex_t hot_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t* cold_lock;
static void* work(void* first) {
    for (int i = 0; i < 50; i++) {
        pthread_mutex_lock(&hot_lock);
        usleep(500);
        pthread_mutex_unlock(&hot_lock);
        if (!first) continue;
        pthread_mutex_lock(cold_lock);
        pthread_mutex_unlock(cold_lock);
    }
    return 0;
}
int main(void) {
    pthread_t threads[2];
    cold_lock = malloc(sizeof *cold_lock);
    pthread_mutex_init(cold_lock, 0);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, i == 0 ? &hot_lock : 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
"""


def setUpModule():
    global folder, shop, locks
    folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-view-"))
    compiler = os.environ.get("CC", "cc")
    (folder / "shop.c").write_text(SHOP)
    (folder / "locks.c").write_text(LOCKS)
    (folder / "before.c").write_text(EXEC)
    tp_async = next((BUILD / "tp-async").rglob("tp-async.cc.o"))
    for program in ("shop", "before"):
        subprocess.run([compiler, "-O1", "-pthread", f"-I{SOURCE / 'include'}", "-o", folder / program,
                        folder / f"{program}.c", tp_async, BUILD / "libtrace" / "libplumb.a"], check=True)
    subprocess.run([compiler, "-O1", "-pthread", "-o", folder / "locks", folder / "locks.c"], check=True)
    shop, locks = folder / "shop-trace", folder / "locks-trace"
    record("-e", "shop:*", "-o", shop, "--", folder / "shop")
    record("--preload", "pthread", "-o", locks, "--", folder / "locks")


def tearDownModule():
    shutil.rmtree(folder, ignore_errors=True)


def record(*arguments):
    done = subprocess.run([PLUMB, "record", *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stderr


def plumb(*arguments, status=0, **environment):
    done = subprocess.run([PLUMB, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False,
                          env=dict(os.environ, **environment))
    assert done.returncode == status, (arguments, done.returncode, done.stderr)
    return done


def view(*arguments, **more):
    return plumb("view", *arguments, **more).stdout.splitlines()


def events(*arguments):
    return [json.loads(line) for line in view("--json", *arguments)]


def is_length(name, fields):
    return name.startswith("_") and name.endswith("_length") and name[1:-len("_length")] in fields


class Same(unittest.TestCase):
    """As babeltrace2 reads it, event for event."""
    maxDiff = None

    def same(self, theirs, ours):
        if isinstance(theirs, float):  # babeltrace2 prints six digits
            return abs(theirs - ours) <= 1e-5 * abs(theirs)
        if isinstance(theirs, dict):
            shown = {name for name in theirs if not is_length(name, theirs)}
            return shown == set(ours) and all(self.same(theirs[name], ours[name]) for name in shown)
        if isinstance(theirs, list):
            return len(theirs) == len(ours) and all(map(self.same, theirs, ours))
        # babeltrace2 2.0 prints the string of an earlier event in place of an empty one.
        return theirs == ours or (isinstance(theirs, str) and ours == "")

    def compare(self, trace):
        theirs, ours = babeltrace_exact.read(trace), events(trace)
        self.assertGreater(len(ours), 0)
        self.assertEqual(len(theirs), len(ours))
        clock = None
        for expected, event in zip(theirs, ours):
            self.assertEqual(expected.name, event["event"])
            self.assertEqual(expected.cpu, event.get("cpu"))
            self.assertEqual(expected.scopes[0].get("vtid"), event["tid"])
            self.assertTrue(self.same(expected.fields, event["fields"]), (expected.fields, event))
            if clock is not None:
                self.assertGreaterEqual(event["timestamp_ns"], clock)
            clock = event["timestamp_ns"]

    def test_every_type_of_field(self):
        self.compare(shop)
        ours = events(shop)
        self.assertEqual(len(ours), 2 * 4000)
        for event in ours:
            if event["event"] == "shop:order" and event["fields"]["id"] < 3000:
                fields = event["fields"]
                self.assertEqual(fields["customer"] == "", fields["id"] % 5 == 1, fields)
                self.assertEqual(fields["mask"], fields["id"] * 0x9e3779b97f4a7c15 % 2**64)

    def test_locks_of_an_unmodified_program(self):
        self.compare(locks)

    def test_times_as_babeltrace2_prints_them(self):
        done = subprocess.run(["babeltrace2", "--clock-gmt", "--no-delta", shop], capture_output=True, text=True,
                              check=True, errors="replace")
        theirs = [line.split("]")[0][1:] for line in done.stdout.splitlines() if " shop:" in line]
        ours = [line.split("]")[0][1:] for line in view("--utc", shop)]
        self.assertEqual(len(theirs), len(ours))
        for a, b in zip(theirs, ours):
            self.assertEqual(a[:8], b[:8])
            # babeltrace2 computes in floating point.
            self.assertLessEqual(abs(int(a[9:]) - int(b[9:])), 1, (a, b))


class Select(unittest.TestCase):
    def test_by_event(self):
        self.assertEqual(len(view("-e", "shop:nothing", shop)), 2000)
        self.assertEqual(len(view("-e", "shop", "-e", "!*:nothing", shop)), 6000)
        wrong = plumb("view", "-e", "shop:nonesuch", shop)
        self.assertEqual(wrong.stdout, "")
        self.assertIn("no event that matches shop:nonesuch", wrong.stderr)

    def test_by_thread_and_name(self):
        left = events("--comm", "left", shop)
        threads = {event["tid"] for event in left}
        self.assertEqual(len(threads), 1)
        self.assertEqual({event["comm"] for event in left}, {"left"})
        tid, pid = left[0]["tid"], left[0]["pid"]
        self.assertEqual(len(events("--tid", tid, shop)), 4000)
        self.assertEqual(len(events("--pid", pid, shop)), 8000)
        self.assertEqual(events("--pid", pid + 1000000, shop), [])

    def test_by_time_and_number(self):
        lines = view("--utc", shop)
        when = lines[4000].split("]")[0][1:]
        self.assertEqual(view("--utc", "--since", when, shop)[0].split("]")[0], lines[4000].split("]")[0])
        self.assertEqual(len(view("--utc", "--until", when, "--since", when, "-n", "1", shop)), 1)
        seconds = view("--seconds", shop)[4000].split("]")[0][1:]
        again = view("--seconds", "--since", seconds, shop)
        self.assertEqual(again[0].split("]")[0][1:], seconds)
        self.assertEqual(len(view("-n", "5", shop)), 5)
        self.assertIn("not a point in time", plumb("view", "--since", "later", shop, status=1).stderr)

    def test_statedump_only_if_asked_for(self):
        self.assertFalse(any("plumb_statedump" in line for line in view(shop)))
        names = {event["event"] for event in events("-e", "plumb_statedump:*", shop)}
        self.assertEqual(names, {"plumb_statedump:process", "plumb_statedump:thread", "plumb_statedump:object"})


class Summary(unittest.TestCase):
    def test_counts_are_those_of_the_events(self):
        summary = json.loads(plumb("view", "--summary", "--json", shop).stdout)
        self.assertEqual(summary["by_event"], {"shop:order": 6000, "shop:nothing": 2000})
        self.assertEqual(sorted((t["comm"], t["events"]) for t in summary["threads"]),
                         [("left", 4000), ("right", 4000)])
        self.assertEqual(summary["lost"], {"events": 0, "packets": 0, "damaged_packets": 0, "unknown_events": 0})
        self.assertIn("8,000 events", plumb("view", "--summary", shop).stdout)

    def test_one_event_is_one(self):
        trace = folder / "one-trace"
        record("-e", "image:*", "-o", trace, "--", folder / "before")
        self.assertTrue(plumb("view", "--summary", trace).stdout.startswith("1 event from "))

    def test_each_stream_file_is_an_object(self):
        lines = plumb("view", "--stats", "--json", shop).stdout.splitlines()
        none = {"events": 0, "packets": 0, "damaged_packets": 0, "unknown_events": 0}
        self.assertEqual({line["stream"]: line["lost"] for line in map(json.loads, lines)},
                         {str(file): none for file in (shop / "ust").iterdir() if file.name != "metadata"})
        self.assertEqual(len(plumb("view", "--stats", shop).stdout.splitlines()), len(lines) + 1)

    def test_a_process_that_called_exec_has_its_newest_name(self):
        before, after, trace = folder / "before", folder / "after", folder / "exec-trace"
        shutil.copy(before, after)
        record("-o", trace, "--", before, after)
        threads = json.loads(plumb("view", "--summary", "--json", trace).stdout)["threads"]
        self.assertEqual([(t["comm"], t["events"]) for t in threads], [("after", 2)])


class Growing(unittest.TestCase):
    def test_a_trace_that_is_still_written_is_said_to_be(self):
        trace = folder / "growing"
        program = ["sh", "-c", 'for i in 1 2; do "$0"; echo told; read -r go; done', folder / "before"]
        with subprocess.Popen([PLUMB, "record", "-q", "-e", "image:*", "-o", trace, "--", *program], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as recorder:
            try:
                self.assertEqual(recorder.stdout.readline(), "told\n")
                for options in ((), ("--summary",), ("--json", "-n", "1")):
                    self.assertIn("the trace is still being written", plumb("view", *options, trace).stderr)
                recorder.stdin.write("\n\n")
                recorder.stdin.flush()
                recorder.stdout.read()
                self.assertEqual(recorder.wait(60), 0)
            finally:
                recorder.kill()
        self.assertEqual(plumb("view", trace).stderr, "")

    def test_a_snapshot_is_whole_while_its_recorder_runs(self):
        trace = folder / "flight"
        recorder = subprocess.Popen([PLUMB, "record", "-q", "--snapshot", "-e", "image:*", "-o", trace, "--", "sh", "-c",
                                     '"$0"; echo told; read -r go', folder / "before"],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with recorder:
            try:
                self.assertEqual(recorder.stdout.readline(), "told\n")
                plumb("snapshot", recorder.pid)
                for place in (trace, trace / "snapshot-1"):
                    self.assertEqual(plumb("view", place).stderr, "")
                recorder.stdin.write("\n")
                recorder.stdin.flush()
                recorder.stdout.read()
                self.assertEqual(recorder.wait(60), 0)
            finally:
                recorder.kill()


class Manners(unittest.TestCase):
    def test_quiet_when_nobody_reads_on(self):
        done = subprocess.run(f"{PLUMB} view {shop} | head -n 1", shell=True, capture_output=True, text=True,
                              check=True, executable="/bin/bash")
        self.assertEqual(len(done.stdout.splitlines()), 1)
        self.assertEqual(done.stderr, "")

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([PLUMB, "view", shop], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left", done.stderr)

    def test_no_color_unless_asked_for(self):
        self.assertFalse(any("\x1b" in line for line in view(shop)))
        self.assertIn("\x1b[", plumb("view", "-n", "1", "--color", "always", shop).stdout)

    def test_no_trace_here(self):
        with tempfile.TemporaryDirectory() as empty:
            self.assertIn("holds no trace", plumb("view", empty, status=1).stderr)
            self.assertIn("plumb record", plumb("view", empty, status=1).stderr)
        self.assertIn("no folder", plumb("view", "/nonesuch", status=1).stderr)
        self.assertIn("is not a folder", plumb("view", "/bin/sh", status=1).stderr)
        self.assertEqual(plumb("view", status=2).stdout, "")

    def test_a_chunk_without_its_trace_is_told(self):
        with tempfile.TemporaryDirectory() as name:
            shutil.copytree(shop, pathlib.Path(name) / "chunk-1")
            (pathlib.Path(name) / "chunk-2").mkdir()
            (pathlib.Path(name) / "chunk-2/summary.json").write_text("{}")
            done = plumb("view", name, status=1)
            self.assertEqual(len(done.stdout.splitlines()), len(view(shop)))
            self.assertIn(f"{name}/chunk-2 has a summary, and no trace", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_a_folder_that_may_not_be_read(self):
        """It may well hold a trace: who is told that there is none looks for it elsewhere."""
        with tempfile.TemporaryDirectory() as name:
            os.chmod(name, 0o755)
            other, trace = shutil.copy(PLUMB, name), pathlib.Path(name) / "trace"  # the build may be closed, too
            shutil.copytree(shop, trace)
            def as_another(command, folder=trace):
                done = subprocess.run([other, command, folder], capture_output=True, text=True, check=False, user=65534)
                self.assertEqual(done.returncode, 1, done.stderr)
                return done
            for mode in (0o700, 0o744, 0o711):
                for closed in (trace, trace / "ust"):
                    os.chmod(trace, 0o755)
                    os.chmod(trace / "ust", 0o755)
                    os.chmod(closed, mode)
                    for command in ("view", "contention"):
                        self.assertIn(f"plumb: Could not read {closed}: Permission denied. Read it as root (sudo).",
                                      as_another(command).stderr)
            os.chmod(trace, 0o700)
            os.chown(trace, 65533, -1)
            self.assertIn("Read it as its owner, user 65533, or as root (sudo).", as_another("view").stderr)
            self.assertIn(f"Could not look at {trace}/ust: Permission denied.", as_another("view", trace / "ust").stderr)
            os.chmod(trace, 0o755)
            os.chmod(trace / "ust", 0o700)
            shutil.copytree(shop / "ust", trace / "kernel")
            part = as_another("view")
            self.assertEqual(len(part.stdout.splitlines()), len(view(shop)))
            self.assertEqual(part.stderr, f"plumb: warning: {trace}/ust could not be read: Permission denied. "
                             "What it holds is not shown.\n")

    def test_damage_is_told_and_the_rest_shown(self):
        with tempfile.TemporaryDirectory() as name:
            copy = pathlib.Path(name) / "trace"
            shutil.copytree(shop, copy)
            streams = [file for file in copy.rglob("*") if file.is_file() and file.stat().st_size > 100000]
            os.truncate(streams[0], streams[0].stat().st_size - 1000)
            broken = plumb("view", copy, status=1)
            self.assertIn("the file ends inside the packet", broken.stderr)
            self.assertGreater(len(broken.stdout.splitlines()), 1000)
            self.assertRegex(broken.stderr, r"warning: ust/\S+ is not whole: it has \d+ of \d+ bytes")
            (next(copy.rglob("metadata"))).write_text("trace {\n major = 1;\n minor = oops\n};")
            self.assertIn("line 3", plumb("view", copy, status=1).stderr)

    def test_no_bit_changes_how_many_events_there_are_unseen(self):
        """A length that swallows the next record, the number of another event: what is read is a sound trace, of fewer events."""
        whole = json.loads(plumb("view", "--summary", "--json", locks).stdout)["by_event"]
        chosen = random.Random(7)
        unseen, changed = [], 0
        with tempfile.TemporaryDirectory() as name:
            copy = pathlib.Path(name) / "trace"
            shutil.copytree(locks, copy)
            [stream] = sorted(copy.glob("ust/ring_*"), key=lambda file: file.stat().st_size)[-1:]
            sound = stream.read_bytes()
            for _ in range(150):
                at, bit = chosen.randrange(len(sound)), 1 << chosen.randrange(8)
                stream.write_bytes(sound[:at] + bytes([sound[at] ^ bit]) + sound[at + 1:])
                shown = subprocess.run([PLUMB, "view", "--summary", "--json", copy], capture_output=True, text=True, timeout=60, check=False)
                if shown.returncode == 0 and json.loads(shown.stdout)["by_event"] != whole:
                    unseen.append((at, bit))
                changed += "its files are damaged" in shown.stderr
        self.assertEqual(unseen, [])
        self.assertGreater(changed, 0)

    def test_a_file_that_is_missing_is_told(self):
        """What is left is a sound trace of programs that did less, but for what its recorder wrote down."""
        with tempfile.TemporaryDirectory() as name:
            copy = pathlib.Path(name) / "trace"
            shutil.copytree(shop, copy)
            self.assertEqual(plumb("view", copy).stderr, "")
            for file in copy.rglob("*"):
                if file.is_file() and file.stat().st_size > 100000:
                    file.unlink()
            for arguments in (["--summary"], ["-n", "1"], []):
                lacking = plumb("view", *arguments, copy, status=1)
                self.assertRegex(lacking.stderr, r"warning: ust/\S+ is missing: it was recorded, with \d+ bytes")
            summary = json.loads((copy / "summary.json").read_text())
            summary["files"] = {"../../etc/nosuch": 1, "ust/../nosuch": 1}  # whoever wrote that
            (copy / "summary.json").write_text(json.dumps(summary))
            self.assertEqual(plumb("view", copy).stderr, "")


class Contention(unittest.TestCase):
    def test_the_hot_lock_comes_first_by_its_name(self):
        rows = [json.loads(line) for line in plumb("contention", "--json", locks).stdout.splitlines()]
        hot = rows[0]
        self.assertEqual((hot["kind"], hot["name"], hot["acquired"], hot["released"], hot["threads"]),
                         ("mutex", "hot_lock", 100, 100, 2))
        self.assertGreater(hot["contended"], 0)
        self.assertGreater(hot["waited_ns"], 100_000)
        self.assertGreaterEqual(hot["held_ns"], 100 * 500_000)
        self.assertTrue(hot["waited_for_in"].startswith("work"), hot)
        cold = [row for row in rows if row["acquired"] == 50 and row["threads"] == 1]
        self.assertEqual([(row["contended"], row["waited_ns"]) for row in cold], [(0, 0)])
        self.assertTrue(cold[0]["name"].startswith("0x"))

    def test_agrees_with_the_events(self):
        counted = collections.Counter()
        for event in events("-e", "pthread:mutex_acquired", locks):
            counted[event["fields"]["mutex"]] += event["fields"]["waited_ns"]
        rows = [json.loads(line) for line in plumb("contention", "-n", "0", "--json", locks).stdout.splitlines()]
        self.assertEqual({row["address"]: row["waited_ns"] for row in rows if row["kind"] == "mutex"}, dict(counted))

    def test_table(self):
        table = plumb("contention", locks).stdout.splitlines()
        self.assertIn("mutex hot_lock, waited for in work", table[1])
        self.assertIn("no events of locks", plumb("contention", shop, status=1).stderr)
        self.assertIn("process 4194304 has no events of locks", plumb("contention", "--pid", "4194304", locks, status=1).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
