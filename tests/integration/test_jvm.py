#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 600
"""The agent for Java: a JVM does what it does without it, and the trace says what it did."""
import collections
import json
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_jvm import (AGENT, JAVA_TOOL_LINE, PLUMB, InFolder, java, named, run, said, setUpModule,  # noqa: E402, F401
                          tearDownModule)


class Recorded(InFolder):
    """Events against what the program itself counts, with each collector, and interpreted."""

    def check_contention(self, events, rounds):
        enters = [each for each in named(events, "monitor_contended_enter") if each["class_name"] == "Deeds$Lock"]
        entered = {each["id"]: each for each in named(events, "monitor_contended_entered")}
        self.assertEqual(len(enters), rounds)
        self.assertEqual(len({each["monitor"] for each in enters}), 1)
        names = {each["tid"]: each["name"] for each in named(events, "thread_start")}
        main = next(each for each in named(events, "thread_running") if each["name"] == "main")
        for i, enter in enumerate(enters):
            self.assertEqual(names[enter["tid"]], f"waiter-{i}")
            self.assertEqual((enter["owner_name"], enter["owner_os_thread_id"], enter["owner_java_thread_id"]),
                             ("main", main["os_thread_id"], 1))
            self.assertEqual((entered[enter["id"]]["tid"], entered[enter["id"]]["monitor"]), (enter["tid"], enter["monitor"]))
            self.assertGreater(entered[enter["id"]]["waited_ns"], 0)
        waited = [entered[enter["id"]]["waited_ns"] for enter in enters]
        status, output, errors = run([PLUMB, "contention", "--json", "--limit", "0", self.trace])
        self.assertEqual((status, errors), (0, ""))
        (lock,) = [lock for lock in map(json.loads, output.splitlines()) if lock["name"] == "Deeds$Lock"]
        self.assertEqual(lock, {"kind": "monitor", "pid": lock["pid"], "monitor": enters[0]["monitor"], "name": "Deeds$Lock",
                                "contended": rounds, "waited_ns": sum(waited), "max_waited_ns": max(waited), "threads": rounds,
                                "held_by": "main"})
        status, output, errors = run([PLUMB, "contention", self.trace])
        self.assertRegex(output, rf'(?m)^ +- +{rounds} +- .* - +- +{rounds}  monitor Deeds\$Lock #\d+, held by "main" \[java {lock["pid"]}\]$')

    def check_threads(self, events, count):
        expected = ["plain", "größe-ß", "поток", "线程二", "スレッド", "نسيج", "तार", "😀-𝕏", "half-\ufffd", "nul\\?inside", "x" * 5000]
        self.assertEqual(count, len(expected))  # babeltrace2 escapes the question mark
        for event in ("thread_start", "thread_end"):
            told = [each["name"] for each in named(events, event) if each["name"] in expected]
            self.assertEqual(told, expected, event)
        starts = collections.Counter((each["tid"], each["name"]) for each in named(events, "thread_start"))
        for each in named(events, "thread_end"):
            if each["name"] in expected:
                self.assertEqual(starts[each["tid"], each["name"]], 1)

    def check_all(self, *options, same_count=True):
        # Who attaches to all JVMs (another test's session) has each make a thread, which takes a number.
        options = (*options, "-XX:+DisableAttachMechanism")
        bare = run(java("Deeds", options=options))
        self.assertEqual(bare[0], 7, bare)
        status, output, errors = self.record(java("Deeds", options=options))
        self.assertEqual(status, 7, errors)
        counts, events = said(output), self.events()
        for word in ("threads", "contended", "waits", "exceptions", "overflows", "next thread", "hash"):
            self.assertEqual(counts[word], said(bare[1])[word], word)
        self.check_threads(events, int(counts["threads"]))
        self.check_contention(events, int(counts["contended"]))
        waits = [each for each in named(events, "monitor_wait") if each["class_name"] == "Deeds$Lock"]
        waited = {each["id"]: each for each in named(events, "monitor_waited")}
        self.assertEqual([each["timeout_ms"] for each in waits], [2] * int(counts["waits"]))
        self.assertEqual([waited[each["id"]]["timed_out"] for each in waits], [1] * len(waits))
        for kind in ("throw", "catch"):
            thrown = [each for each in named(events, "exception_" + kind) if each["exception"] == "java.lang.IllegalStateException"]
            self.assertEqual(len(thrown), int(counts["exceptions"]), kind)
        messages = [each["message"] for each in named(events, "exception_throw")
                    if each["exception"] == "java.lang.IllegalStateException"]
        self.assertEqual(messages, [f"message №{i}" for i in range(len(messages))])
        overflows = [each for each in named(events, "exception_throw") if each["exception"] == "java.lang.StackOverflowError"]
        self.assertEqual(len(overflows), int(counts["overflows"]))
        begun, ended = ([each["id"] for each in named(events, "gc_" + kind)] for kind in ("start", "finish"))
        self.assertEqual(begun, ended)
        self.assertEqual(len(set(begun)), len(begun))
        self.assertGreaterEqual(len(begun), 4)
        if same_count:
            self.assertEqual(len(begun), int(counts["collections"]))
        self.assertIn("Deeds", [each["class_name"] for each in named(events, "class_prepare")])

    def test_serial(self):
        self.check_all("-XX:+UseSerialGC")

    def test_parallel(self):
        self.check_all("-XX:+UseParallelGC", "-XX:-ScavengeBeforeFullGC")  # else two collections in a pause

    def test_g1(self):
        self.check_all("-XX:+UseG1GC", same_count=False)  # pauses of its concurrent cycles count there, and not in the bean

    def test_z(self):
        self.check_all("-XX:+UseZGC", same_count=False)

    def test_shenandoah(self):
        if run(["java", "-XX:+UseShenandoahGC", "-version"])[0] != 0:
            self.skipTest("this JVM has no Shenandoah")
        self.check_all("-XX:+UseShenandoahGC", same_count=False)

    def test_interpreted(self):
        self.check_all("-Xint", "-XX:+UseSerialGC")


class Unharmed(InFolder):
    def test_output_is_the_same(self):
        command = java("-version")
        bare = run(command)
        self.assertEqual(run(java("-version", options=[f"-agentpath:{AGENT}"])), bare)
        status, output, errors = self.record(command)
        self.assertEqual((status, output), bare[:2])
        self.assertIn(bare[2], JAVA_TOOL_LINE.sub("", errors))

    def test_an_option_that_means_nothing_is_told(self):
        bare = run(java("-version"))
        said = ("libplumb-jvm.so: there is no option 'nosuch', it is left out; there are: exceptions, allocation_interval=BYTES, "
                "methods=CLASS::METHOD, methods_limit=NUMBER\n")
        for options, told in (("", ""), ("=", ""), ("=exceptions", ""), ("=nosuch", said), ("=exceptions,,nosuch", said),
                              ("=allocation_interval=64K,exceptions", "")) + tuple(
                                  (f"=allocation_interval={wrong}", said.replace("nosuch", f"allocation_interval={wrong}"))
                                  for wrong in ("", "K", "64Q", "64K1", "2048M", "-1", "99999999999")) + tuple(
                                      (f"={wrong}", said.replace("nosuch", wrong))
                                      for wrong in ("methods=", "methods=a", "methods=::b", "methods=a::", "methods_limit=0", "methods_limit=x")):
            status, output, errors = run(java("-version", options=[f"-agentpath:{AGENT}{options}"]))
            self.assertEqual((status, output), bare[:2], options)
            self.assertEqual(errors, told + bare[2], options)

    def test_exceptions_are_not_there_unasked(self):
        for patterns in ((), ("-e", "other:*")):
            shutil.rmtree(self.trace, ignore_errors=True)
            status, _, errors = self.record(java("Deeds"), options=("--jvm", *patterns))
            self.assertEqual(status, 7, errors)
            events = self.events()
            self.assertTrue(named(events, "thread_start"))
            self.assertFalse([event.name for event in events if "exception" in event.name])

    def test_twice_is_once(self):
        copy = self.folder / "libplumb-jvm.so"
        shutil.copy(AGENT, copy)
        twice = [f"-agentpath:{AGENT}", f"-agentpath:{AGENT}", f"-agentpath:{copy}"]
        status, output, errors = self.record(java("Deeds", options=twice))
        self.assertEqual(status, 7, errors)
        thrown = [each for each in named(self.events(), "exception_throw")
                  if each["exception"] == "java.lang.IllegalStateException"]
        self.assertEqual(len(thrown), int(said(output)["exceptions"]))

    def test_ends_at_every_moment(self):
        for how, status in (("exit", 3), ("halt", 3), ("return", 0)):
            for delay_ms in (0, 1, 7, 40, 150):
                shutil.rmtree(self.trace, ignore_errors=True)
                done = self.record(java("Ends", how, str(delay_ms)), timeout=60)
                self.assertEqual(done[0], status, (how, delay_ms, done[2]))


class Attached(InFolder):
    """To a JVM that runs, again and again."""

    def test_again_and_again(self):
        server = self.serve("Serves")
        for i in range(4):
            status, _, errors = self.attach(server, 2)
            self.assertEqual(status, 0, errors)
            events = self.events()
            running = {each["name"]: each for each in named(events, "thread_running")}
            self.assertLessEqual({"server-0", "server-1", "main"}, set(running), (i, errors))
            owners = collections.Counter(each["owner_name"] for each in named(events, "monitor_contended_enter"))
            self.assertTrue(owners["server-0"] or owners["server-1"], (i, owners))
            for each in named(events, "monitor_contended_enter"):
                if each["owner_name"] in running:
                    self.assertEqual(each["owner_os_thread_id"], running[each["owner_name"]]["os_thread_id"])
                    self.assertNotEqual(each["owner_os_thread_id"], each["tid"])
            self.assertTrue(named(events, "compiled_method_load"), i)
        self.finish(server)

    def test_exceptions_are_said_to_be_missing(self):
        server = self.serve("Serves")
        status, _, errors = self.attach(server, 2, "-e", "jvm:*")
        self.assertEqual(status, 0, errors)
        self.assertIn("jvm:exception_*", errors)
        self.assertEqual([each["events"] for each in named(self.events(), "not_available")], ["jvm:exception_*"])
        self.finish(server)

    def test_what_is_no_jvm_is_left_alone(self):
        with subprocess.Popen(["sleep", "60"]) as sleeper:
            status, _, errors = self.attach(sleeper, 1)
            self.assertNotEqual(status, 0)
            self.assertIn("is no Java virtual machine", errors)
            self.assertIsNone(sleeper.poll())
            sleeper.kill()


if __name__ == "__main__":
    unittest.main()
