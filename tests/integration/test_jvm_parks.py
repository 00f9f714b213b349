#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 600
"""Waits of java.util.concurrent: the trace says which thread waited for what, how long, and whose it was; the program does what it does
without."""
import collections
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_jvm import AGENT, PLUMB, InFolder, WithEachCollector, java, named, run, said  # noqa: E402
from recorded_jvm import setUpModule, tearDownModule  # noqa: E402, F401

LOCKS = "java.util.concurrent.locks."
LOCK, FAIR = LOCKS + "ReentrantLock$NonfairSync", LOCKS + "ReentrantLock$FairSync"
SHARED = LOCKS + "ReentrantReadWriteLock$NonfairSync"
SEMAPHORE, LATCH = "java.util.concurrent.Semaphore$NonfairSync", "java.util.concurrent.CountDownLatch$Sync"
LIMIT_NS = 200_000_000  # of the program's timed waits
CONDITION = LOCKS + "AbstractQueuedSynchronizer$ConditionObject"


def by_thread(events):
    """Of each thread's name, the pairs of a wait: (park, parked)."""
    names = {each["tid"]: each["name"] for each in named(events, "thread_start")}
    ends = {each["id"]: each for each in named(events, "parked")}
    pairs = collections.defaultdict(list)
    for each in named(events, "park"):
        pairs[names.get(each["tid"], "")].append((each, ends.get(each["id"])))
    return pairs


class Recorded(WithEachCollector, InFolder):
    """Against what the program itself counts, with each collector, and interpreted."""

    def check_contention(self, pairs, main, count):
        for what, class_name, owner in (("lock", LOCK, True), ("fair", FAIR, True), ("reader", SHARED, True),
                                        ("writer", SHARED, False), ("stamped", LOCKS + "StampedLock", False),
                                        ("permit", SEMAPHORE, False), ("latch", LATCH, False)):
            rounds = int(count[{"permit": "permits", "latch": "latches"}.get(what, what)])
            told = [pairs[f"{what}-{i}"] for i in range(rounds)]
            self.assertEqual([len(each) for each in told], [1] * rounds, what)
            for (begin, end), in told:
                self.assertEqual((begin["class_name"], begin["timeout_ns"], begin["until"]), (class_name, 0, 0), what)
                self.assertEqual(begin["synchronizer"], int(what != "stamped"))
                self.assertEqual((begin["owner_name"], begin["owner_os_thread_id"], begin["owner_java_thread_id"]),
                                 ("main", main["os_thread_id"], 1) if owner else ("", 0, 0), what)
                self.assertEqual([end[field] for field in ("tid", "blocker", "class_name", "synchronizer", "timed_out")],
                                 [begin[field] for field in ("tid", "blocker", "class_name", "synchronizer")] + [0])
                self.assertGreater(end["waited_ns"], 0)
            blockers = {begin["blocker"] for (begin, _), in told}
            self.assertEqual(len(blockers), rounds if what == "latch" else 1, what)
            self.assertNotIn(0, blockers)

    def check_times(self, pairs, count):
        for i in range(int(count["timed"])):
            (begin, end), = pairs[f"timed-{i}"]
            self.assertEqual((begin["class_name"], begin["owner_name"], begin["until"], end["timed_out"]), (LOCK, "main", 0, 1))
            self.assertTrue(0 < begin["timeout_ns"] <= LIMIT_NS, begin)
            self.assertGreaterEqual(end["waited_ns"], begin["timeout_ns"])
        (begin, end), = pairs["until"]
        self.assertEqual((begin["class_name"], begin["synchronizer"], begin["until"], end["timed_out"]), ("java.lang.String", 0, 1, 1))
        self.assertTrue(0 < begin["timeout_ns"] <= LIMIT_NS, begin)
        (begin, end), = pairs["over"]
        self.assertTrue(begin["timeout_ns"] < 0 and begin["until"] == end["timed_out"] == 1, begin)

    def check_others(self, pairs, count):
        for name in (*(f"bare-{i}" for i in range(int(count["bare"]))), "permitted"):
            (begin, end), = pairs[name]
            self.assertEqual([begin[field] for field in ("blocker", "class_name", "synchronizer", "owner_os_thread_id", "timeout_ns")],
                             [0, "", 0, 0, 0])
            self.assertEqual(end["timed_out"], 0)
        (begin, end), = pairs["interrupted"]
        self.assertEqual((begin["class_name"], end["timed_out"]), (LOCK, 0))
        told = {(begin["class_name"], begin["synchronizer"]) for begin, _ in pairs["pool"]}
        self.assertIn((CONDITION, 0), told)
        self.assertLessEqual(told, {(CONDITION, 0), (LOCK, 1)})  # the lock of its queue

    def check_answer(self, pairs, count):
        """plumb contention: the locks, by the names that people know, and nobody who waits for work, a result or a latch."""
        status, output, errors = run([PLUMB, "contention", "--json", "--limit", "0", self.trace])
        self.assertEqual((status, errors), (0, ""))
        locks = {lock["blocker"]: lock for lock in map(json.loads, output.splitlines()) if lock["kind"] == "synchronizer"}
        for what, name in (("lock", "ReentrantLock"), ("fair", "ReentrantLock (fair)"), ("reader", "ReentrantReadWriteLock"),
                           ("stamped", "StampedLock"), ("permit", "Semaphore")):
            rounds = int(count["permits" if what == "permit" else what])
            waits = [pair for i in range(rounds) for pair in pairs[f"{what}-{i}"]]
            if what == "reader":
                waits += [pair for i in range(int(count["writer"])) for pair in pairs[f"writer-{i}"]]
            begin, waited = waits[0][0], [end["waited_ns"] for _, end in waits]
            self.assertEqual(locks[begin["blocker"]], {
                "kind": "synchronizer", "pid": locks[begin["blocker"]]["pid"], "blocker": begin["blocker"], "name": name,
                "class_name": begin["class_name"], "contended": len(waits), "waited_ns": sum(waited), "max_waited_ns": max(waited),
                "threads": len(waits), "held_by": "main" if what in ("lock", "fair", "reader") else None})
        self.assertLessEqual({lock["class_name"] for lock in locks.values()}, {LOCK, FAIR, SHARED, LOCKS + "StampedLock", SEMAPHORE})
        status, output, errors = run([PLUMB, "contention", "-n", "0", self.trace])
        self.assertRegex(output, r'(?m)^ +- +20 +- .* - +- +20  synchronizer ReentrantLock #\d+, held by "main" \[java \d+\]$')

    def check_all(self, *options):
        bare = run(java("Parks", options=options))
        self.assertEqual((bare[0], bare[2]), (7, ""))
        status, output, errors = self.record(java("Parks", options=options))
        self.assertEqual((status, output), bare[:2], errors)
        events, count = self.events(), said(output)
        pairs = by_thread(events)
        main = next(each for each in named(events, "thread_running") if each["name"] == "main")
        self.check_contention(pairs, main, count)
        self.check_times(pairs, count)
        self.check_others(pairs, count)
        self.check_answer(pairs, count)
        ids = [each["id"] for each in named(events, "park")]
        self.assertEqual(len(set(ids)), len(ids))
        self.assertLessEqual({each["id"] for each in named(events, "parked")}, set(ids))

    def test_interpreted(self):
        self.check_all("-Xint")

    def test_compiled(self):
        self.check_all("-Xcomp", "-XX:TieredStopAtLevel=1")

    def test_nothing_to_complain_of(self):
        """-Xcheck:jni prints where JNI is used in a way that is not allowed."""
        self.check_all("-Xcheck:jni")


class Asked(InFolder):
    """What nobody records is not there."""

    def test_parks_alone(self):
        status, _, errors = self.record(java("Parks"), options=("--jvm", "-e", "jvm:park"))
        self.assertEqual(status, 7, errors)
        self.assertEqual({event.name for event in self.events()}, {"jvm:park"})

    def test_owners_without_events_of_threads(self):
        status, _, errors = self.record(java("Parks"), options=("--jvm", "-e", "jvm:park*"))
        self.assertEqual(status, 7, errors)
        owners = collections.Counter(each["owner_name"] for each in named(self.events(), "park"))
        self.assertGreaterEqual(owners["main"], 20 + 3 + 3 + 3 + 1)  # and now and then of the lock of the pool's queue

    def bindings(self, log):
        return log.read_text().count("[Registering JNI native method jdk.internal.misc.Unsafe.park]")

    def test_nothing_is_bound_that_is_not_recorded(self):
        """HotSpot's own log tells how often the native method was given a function: once by the JVM itself."""
        log = self.folder / "log"
        server = self.serve("ServesParks", f"-agentpath:{AGENT}", f"-Xlog:jni+resolve=debug:file={log}")
        self.assertEqual(self.attach(server, 1, "-e", "jvm:gc_*", "-e", "jvm:monitor_*")[0], 0)
        self.assertEqual(self.bindings(log), 1)
        for i in range(1, 3):
            self.assertEqual(self.attach(server, 1, "-e", "jvm:park")[0], 0)
            self.assertTrue(named(self.events(), "park"))
            given_back = 1 + 3 * i  # two, and the JVM's again
            until = time.monotonic() + 20
            while self.bindings(log) < given_back and time.monotonic() < until:
                time.sleep(0.05)
            self.assertEqual(self.bindings(log), given_back)
        self.finish(server)


class Attached(InFolder):
    """To a JVM that runs under load, again and again."""

    def check_again_and_again(self, times, *options):
        server = self.serve("ServesParks", *options)
        for i in range(times):
            is_looked_at = i % 4 == 0
            status, _, errors = self.attach(server, 2 if is_looked_at else 0.3, "-e", "jvm:park*", "-e", "jvm:thread_running")
            self.assertEqual(status, 0, errors)
            if is_looked_at:
                self.check_one(self.events())
        self.finish(server)

    def check_one(self, events):
        names = {each["os_thread_id"]: each["name"] for each in named(events, "thread_running")}
        told, owners = collections.defaultdict(set), set()
        for each in named(events, "park"):
            told[names.get(each["tid"])].add(each["class_name"])
            if each["owner_os_thread_id"]:
                self.assertEqual(each["owner_name"], names[each["owner_os_thread_id"]])
                self.assertNotEqual(each["owner_os_thread_id"], each["tid"])
                owners.add(each["owner_name"])
        self.assertTrue(owners & {f"contends-{i}" for i in range(4)}, owners)
        for i in range(4):
            self.assertIn(LOCK, told[f"contends-{i}"])
        self.assertIn(LATCH, told["interrupted"])
        self.assertNotIn("waits", told)

    def test_again_and_again(self):
        self.check_again_and_again(12)

    def test_interpreted(self):
        self.check_again_and_again(4, "-Xint")

    def test_checked(self):
        self.check_again_and_again(4, "-Xcheck:jni", "-XX:+UseZGC")

    def test_who_waits_when_it_ends_goes_on(self):
        """A thread that began to wait in a recording comes back when nobody records any more: `finish` looks at what it says."""
        server = self.serve("ServesParks", f"-agentpath:{AGENT}")
        for _ in range(2):
            self.assertEqual(self.attach(server, 1.5, "-e", "jvm:park*")[0], 0)
        time.sleep(0.2)
        self.finish(server)


class InKernel(InFolder):
    def test_waits_in_the_kernel_lie_in_those_of_java(self):
        """Each wait that lasts has its futex calls inside."""
        subprocess.run([PLUMB, "list", "--kernel", "-e", "sched:none"], capture_output=True, check=False)  # mounts tracefs
        if os.geteuid() != 0 or not os.access("/sys/kernel/tracing/instances", os.W_OK):
            self.skipTest("events of the kernel can not be recorded here")
        status, _, errors = self.record(java("Parks"), options=("--jvm", "-e", "jvm:*", "-k", "syscalls:futex", "--kernel-buffer-size", "16M"))
        self.assertEqual(status, 7, errors)
        done = run([PLUMB, "view", "--json", self.trace])
        self.assertEqual(done[0], 0, done[2])
        inside, waits, names = {}, [], {}
        for event in map(json.loads, done[1].splitlines()):
            thread, name, fields = event["tid"], event["event"], event["fields"]
            if name == "jvm:thread_start":
                names[thread] = fields["name"]
            elif name == "jvm:park":
                inside[thread] = []
            elif name == "jvm:parked" and thread in inside:
                waits.append((names.get(thread), fields, inside.pop(thread)))
            elif thread in inside and "futex" in name:
                inside[thread].append(name)
        slept = [(name, fields, calls) for name, fields, calls in waits if name and name.split("-")[0] in ("lock", "timed", "permit", "bare")]
        self.assertEqual(len(slept), 20 + 3 + 5 + 3)
        # One that was called before it came so far, as a busy machine has it, needs no sleep.
        self.assertLessEqual(len([name for name, _, calls in slept if not calls]), 2, slept)


if __name__ == "__main__":
    unittest.main()
