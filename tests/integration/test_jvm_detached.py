#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 600
"""Behind a recording, a JVM is as it was before: what was asked of it is given back, what was bound is bound as it was, and nothing of the
agent's is called. Looked at by another agent (tests/fixtures/jvm_witness.c), by HotSpot's own log and by jcmd: no time is measured."""
import collections
import pathlib
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_jvm import (AGENT, BUILD, InFolder, named, setUpModule, tearDownModule)  # noqa: E402, F401

WITNESS = BUILD / "tests/fixtures/libjvm_witness.so"
VM_DEATH = 51  # the agent ends with the JVM
SOME_EVENTS = {52, 53, 68, 75, 76, 81, 82, 86}  # threads, compiled methods, monitors, collections, sampled allocations
NOTHING = "0" * 32
PARK = re.compile(r"^(\d+) \d+ (\d+) jdk\.internal\.misc\.Unsafe\.park\(ZJ\)V", re.M)


class Detached(InFolder):
    def start(self, program, *options):
        self.log = self.folder / "log"
        return self.serve(program, f"-agentpath:{WITNESS}={self.folder}",
                          f"-Xlog:gc+phases=trace,jni+resolve=debug:file={self.log}:none", *options)

    def ask(self, server, *words):
        return subprocess.run(["jcmd", str(server.pid), *words], capture_output=True, text=True, check=True, timeout=60).stdout

    def state(self):
        """Of each environment what it has: (capabilities, events); and the last interval."""
        answer = self.folder / "answer"
        answer.unlink(missing_ok=True)
        (self.folder / "ask").touch()
        until = time.monotonic() + 30
        while not answer.exists() and time.monotonic() < until:
            time.sleep(0.01)
        lines = [line.split(" ") for line in answer.read_text().splitlines()]
        capabilities = [line[1] for line in lines if line[0] == "capabilities"]
        events = [set(map(int, line[1:])) for line in lines if line[0] == "events"]
        return list(zip(capabilities, events)), int(lines[-1][1])

    def wait_until_given_back(self, expected):
        """The agent follows some moments behind the recorder's end."""
        until = time.monotonic() + 30
        while self.state()[0] != expected and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual(self.state()[0], expected)

    def tags(self, server):
        """How many the collector goes through. The first collection finds those whose objects are gone."""
        for _ in range(2):
            self.ask(server, "GC.run")
        return int(re.findall(r"JVMTI Tag Weak OopStorage .*?\bTotal +Min: .*? Sum: (\d+)", self.log.read_text(), re.S)[-1])

    def agent_threads(self, server):
        """Those of the kernel, and how often each has been asleep."""
        found = {}
        for task in pathlib.Path(f"/proc/{server.pid}/task").iterdir():
            if (task / "comm").read_text() == "plumb-jvm\n":
                found[task.name] = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.M)[1]
        return found

    def bindings(self):
        return self.log.read_text().count("[Registering JNI native method jdk.internal.misc.Unsafe.park]")

    def check_nothing_left(self, server, recordings):
        self.wait_until_given_back([(NOTHING, {VM_DEATH})])
        self.assertEqual(self.bindings(), 1 + 3 * recordings)  # the last one is the JVM's own
        threads = self.agent_threads(server)
        self.assertEqual(len(threads), 1)
        self.assertNotIn("plumb", self.ask(server, "Thread.print"))
        time.sleep(1)
        self.assertEqual(self.agent_threads(server), threads)  # it slept, and was never called
        self.assertEqual(self.state()[1], 512 * 1024)

    def test_all_is_given_back(self):
        server = self.start("Keeps")
        self.assertEqual(self.state(), ([], -1))
        before = self.tags(server)
        for i in range(3):
            recorder = self.attach_begin(server, "-e", "jvm:*", "-e", "!jvm:exception_*", "--allocation-interval", "64K")
            until = time.monotonic() + 30
            while time.monotonic() < until and not (self.state()[0] and SOME_EVENTS <= self.state()[0][0][1]):
                time.sleep(0.05)
            time.sleep(2)  # a round
            during, interval = self.state()
            self.assertLessEqual(SOME_EVENTS, during[0][1])
            self.assertEqual(interval, 64 * 1024)
            self.assertNotEqual(during[0][0], NOTHING)
            self.assertGreaterEqual(self.tags(server), 600)
            self.attach_end(recorder)
            self.check_nothing_left(server, i + 1)
            # One for each class that was waited for.
            self.assertLess(self.tags(server) - before, 20)
            kept = collections.Counter(each["monitor"] for each in named(self.events(), "monitor_wait"))
            self.assertEqual(len(kept), 300)
        self.finish(server)

    def test_fifty_times_under_load(self):
        """The program counts what its threads hand to each other: `finish` looks whether anything is missing."""
        server = self.start("ServesParks")
        for i in range(50):
            recorder = self.attach_begin(server)
            if i % 10 == 0:
                time.sleep(0.5)
            self.attach_end(recorder)
        self.wait_until_given_back([(NOTHING, {VM_DEATH})])
        bound = self.bindings()
        self.check_nothing_left(server, (bound - 1) // 3)  # a short recording may end before the agent follows
        during = {number for number, state in PARK.findall(self.ask(server, "Compiler.codelist")) if state != "0"}
        self.assertTrue(during)  # code that called the agent is in use no more
        self.assertLessEqual(len([state for _, state in PARK.findall(self.ask(server, "Compiler.codelist")) if state == "0"]), 1)
        self.assertLess(self.tags(server), 40)
        self.finish(server)

    def test_asked_for_at_the_start(self):
        """VMInit is asked for, and its notification is of no more use."""
        server = self.start("Keeps", f"-agentpath:{AGENT}")
        self.attach_end(self.attach_begin(server, seconds=1))
        self.wait_until_given_back([(NOTHING, {VM_DEATH})])
        self.finish(server)


if __name__ == "__main__":
    unittest.main()
