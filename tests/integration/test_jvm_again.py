#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""One recording of a JVM behind another, while its threads wait all the time: of what had begun before it, or in the one before, no
recording is told the end. And JVMs that may not be asked to attach, or can not answer."""
import collections
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_jvm import CLASSES, PLUMB, InFolder, java, named, setUpModule, tearDownModule  # noqa: E402, F401

PAIRS = (("monitor_wait", "monitor_waited", "waited_ns"), ("park", "parked", "waited_ns"),
         ("monitor_contended_enter", "monitor_contended_entered", "waited_ns"), ("method_entry", "method_exit", "duration_ns"))
LONGEST_NS = 2_000_000_000  # of 400 ms, on a machine that is busy


class OneBehindAnother(InFolder):
    def test_no_end_without_its_beginning(self):
        server = self.serve("Waits")
        for number in range(4):
            status, _, errors = self.attach(server, 1.5, "--jvm-methods", "Waits::slow", "-e", "jvm:monitor_*", "-e", "jvm:park*", "-e", "jvm:method_*")
            self.assertEqual(status, 0, errors)
            events = self.events()
            for begin, end, field in PAIRS:
                begun = {each["id"] for each in named(events, begin)}
                ends = named(events, end)
                self.assertGreater(len(ends), 0, (number, end))
                for each in ends:
                    self.assertIn(each["id"], begun, (number, end, each))
                    self.assertLess(each[field], LONGEST_NS, (number, end, each))
            if number % 2 == 0:
                time.sleep(0.7)  # long enough for the agent to give all back
        self.finish(server)

    def test_one_begins_when_what_the_one_before_has_changed_is_given_back(self):
        """Thousands of methods take the agent a while."""
        server = self.serve("Serves")
        with_events = 0
        for _ in range(4):
            status, _, errors = self.attach(server, 0.1, "-e", "jvm:method_entry", "--jvm-methods", "java.**::*", "--jvm-methods", "sun.**::*",
                                            "--jvm-methods", "jdk.**::*")
            self.assertEqual(status, 0, errors)
            recorder = self.attach_begin(server, "-e", "jvm:monitor*", "--duration", "0.25s")
            _, errors = recorder.communicate(timeout=60)
            self.assertEqual(recorder.returncode, 0, errors)
            with_events += bool(self.events())
        self.assertGreaterEqual(with_events, 2)  # on a machine that is busy nobody may have waited for a monitor for so long
        self.finish(server)

    def test_code_is_told_once(self):
        """While the JVM begins it tells of what it makes, and is asked what it has made."""
        for options in ((), ("-XX:+UseSerialGC",)):
            shutil.rmtree(self.trace, ignore_errors=True)
            status, _, errors = self.record(java("Parks", options=options),
                                            options=("--jvm", "-e", "jvm:compiled_method_*", "-e", "jvm:dynamic_code_generated"))
            self.assertEqual(status, 7, errors)
            there, told = {}, collections.Counter()
            for each in self.events():
                fields = {name: each.fields[name] for name in each.fields if name not in ("cpu_id", "vtid", "tid")}
                if each.name == "jvm:compiled_method_load":
                    self.assertNotEqual(there.get(fields["code"]), fields)
                    there[fields["code"]] = fields
                elif each.name == "jvm:compiled_method_unload":
                    there.pop(fields["code"], None)
                elif each.name == "jvm:dynamic_code_generated":
                    told[tuple(sorted(fields.items()))] += 1
            self.assertGreater(len(there), 20)
            self.assertGreater(len(told), 100)
            self.assertEqual(set(told.values()), {1})

    def test_each_thread_is_told_once(self):
        """Also one that begins while it is asked who is there."""
        server = self.serve("Waits")
        with_many = 0  # on a machine that is busy hardly any may begin in 0.3 s
        for number in range(30):
            status, _, errors = self.attach(server, 0.3, "-e", "jvm:thread_*")
            self.assertEqual(status, 0, errors)
            events = self.events()
            told = [each["java_thread_id"] for kind in ("thread_running", "thread_start") for each in named(events, kind)]
            self.assertEqual([each for each, times in collections.Counter(told).items() if times > 1], [], number)
            with_many += len(told) > 100
            if with_many == 6:
                break
        self.assertEqual(with_many, 6)
        self.finish(server)

    def test_ends_alone_are_told_of_what_began_meanwhile(self):
        server = self.serve("Waits")
        status, _, errors = self.attach(server, 2, "-e", "jvm:monitor_waited", "-e", "jvm:parked")
        self.assertEqual(status, 0, errors)
        for end in ("monitor_waited", "parked"):
            waited = [each["waited_ns"] for each in named(self.events(), end)]
            self.assertGreater(len(waited), 1, end)
            self.assertGreater(min(waited), 300_000_000, end)
        self.finish(server)


class WhoIsNotAsked(InFolder):
    """What a JVM does that is asked and does not attach: it writes a list of its threads on its output."""

    def refused(self, server, expected):
        done = subprocess.run([PLUMB, "record", "--jvm", "-p", str(server.pid), "-o", self.trace], capture_output=True, text=True, timeout=100, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(expected, done.stderr)

    def test_wherever_the_option_comes_from(self):
        option = "-XX:+DisableAttachMechanism"
        (self.folder / "words").write_text(option + "\n")
        (self.folder / "flags").write_text("+DisableAttachMechanism\n")
        for options in ([option], [f"@{self.folder}/words"], [f"-XX:VMOptionsFile={self.folder}/words"], [f"-XX:Flags={self.folder}/flags"]):
            server = self.serve("Waits", *options)
            self.refused(server, option)
            self.finish(server)

    def test_a_socket_that_is_there_is_used(self):
        server = self.serve("Waits", "-Xrs")
        status, _, errors = self.attach(server, 1)
        self.assertEqual(status, 0, errors)
        self.assertTrue(named(self.events(), "monitor_waited"))
        self.finish(server)

    def test_one_that_is_stopped_is_left_alone(self):
        server = self.serve("Waits")
        os.kill(server.pid, signal.SIGSTOP)
        self.addCleanup(server.kill)
        while pathlib.Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
            time.sleep(0.01)
        self.refused(server, "is stopped")
        os.kill(server.pid, signal.SIGCONT)
        time.sleep(0.5)
        self.finish(server)

    def test_nothing_is_left_of_one_that_ended(self):
        folder = self.folder / "there"
        folder.mkdir()
        with subprocess.Popen(list(map(str, java("Waits", "x"))), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            self.assertEqual(server.stdout.readline(), "ready\n")
            stopper = subprocess.Popen(["sh", "-c", f"until [ -e {folder}/.attach_pid{server.pid} ]; do :; done; kill -9 {server.pid}"])
            self.addCleanup(stopper.wait)
            done = subprocess.run([PLUMB, "record", "--jvm", "-p", str(server.pid), "-o", self.trace], capture_output=True, text=True, timeout=100,
                                  check=False)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            server.wait()
        self.assertEqual(list(folder.iterdir()), [])
        shutil.rmtree(self.trace, ignore_errors=True)


if __name__ == "__main__":
    unittest.main()
