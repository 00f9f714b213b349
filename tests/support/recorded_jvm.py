"""Tests that record Java programs (those of probes/jvm/tests) with the agent: the programs, the recorder, and what babeltrace2 reads back."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import babeltrace

BUILD = pathlib.Path(os.environ["PLUMB_BUILD_DIR"])
PLUMB = BUILD / "cli" / "plumb"
AGENT = BUILD / "probes" / "jvm" / "libplumb-jvm.so"
SOURCES = pathlib.Path(os.environ["PLUMB_SOURCE_DIR"]) / "probes" / "jvm" / "tests"
BUFFERS = ["--subbuf-size", "1M", "--subbuf-count", "16"]
JAVA_TOOL_LINE = re.compile(r"^Picked up JAVA_TOOL_OPTIONS: .*\n", re.M)

if not AGENT.exists() or not shutil.which("javac"):
    print("skipped: no JDK, or none when this was built (openjdk-17-jdk-headless)")
    sys.exit(77)

CLASSES = tempfile.mkdtemp(prefix="plumb-jvm-classes-")


def setUpModule():
    subprocess.run(["javac", "-d", CLASSES, *map(str, SOURCES.glob("*.java"))], check=True, timeout=300)


def tearDownModule():
    shutil.rmtree(CLASSES, ignore_errors=True)


def java(*words, options=()):
    return ["java", "-Xmx128m", *options, "-cp", CLASSES, *words]


def run(command, timeout=180, **environment):
    done = subprocess.run(list(map(str, command)), env=dict(os.environ, **environment), capture_output=True, text=True,
                          timeout=timeout, check=False)
    return done.returncode, done.stdout, done.stderr


def said(output):
    """What the program counted: "contended 20"."""
    return dict(line.rsplit(" ", 1) for line in output.splitlines() if re.match(r"[a-z ]+ -?\d+$", line))


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-jvm-"))
        self.trace = self.folder / "trace"
        self.addCleanup(shutil.rmtree, self.folder, True)

    def record(self, command, options=("--jvm", "-e", "jvm:*"), **more):
        return run([PLUMB, "record", *BUFFERS, *options, "-o", self.trace, "--", *command], **more)

    def attach_begin(self, server, *options, seconds=0, agent="--jvm"):
        shutil.rmtree(self.trace, ignore_errors=True)
        recorder = subprocess.Popen(list(map(str, [PLUMB, "record", *agent.split(), "-p", server.pid, *BUFFERS, *options, "-o", self.trace])),
                                    stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        until = time.monotonic() + 60
        while not (self.trace / "ust").exists() and recorder.poll() is None and time.monotonic() < until:
            time.sleep(0.02)  # before that a signal may end it
        time.sleep(seconds)
        return recorder

    def attach_end(self, recorder, status=0):
        recorder.send_signal(signal.SIGINT)
        output, errors = recorder.communicate(timeout=60)
        if status is not None:
            self.assertEqual(recorder.returncode, status, errors)
        return recorder.returncode, output, errors

    def attach(self, server, seconds, *options):
        return self.attach_end(self.attach_begin(server, *options, seconds=seconds), None)

    def serve(self, program, *options, words=()):
        """One that says when it is ready, and ends when its input does."""
        server = subprocess.Popen(list(map(str, java(program, *words, options=options))), stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.stderr.close)
        self.assertEqual(server.stdout.readline(), "ready\n")
        return server

    def finish(self, server, said="rounds true\n"):
        output, errors = server.communicate(timeout=60)
        self.assertEqual((server.returncode, output, errors), (0, said, ""))

    def events(self):
        """Those of the agent; that nothing was lost is looked at by the way."""
        summary = json.loads((self.trace / "summary.json").read_text())
        found = list(babeltrace.events(self.trace))
        found = [event for event in found if event.name.startswith("jvm:")]
        self.assertEqual(len(found), summary["events"])
        for event in found:
            for name in [name for name in event.fields if event.fields.get(f"_{name}_length") == 0]:
                event.fields[name] = ""  # babeltrace2 shows an empty text as the one before
            event.fields["tid"] = event.fields.get("tid", event.fields.get("thread_id", event.fields.get("vtid")))
        return found


class WithEachCollector:
    """Beside InFolder: check_all(*options) with each of a JVM's collectors."""

    def test_serial(self):
        self.check_all("-XX:+UseSerialGC")

    def test_parallel(self):
        self.check_all("-XX:+UseParallelGC")

    def test_g1(self):
        self.check_all("-XX:+UseG1GC")

    def test_z(self):
        self.check_all("-XX:+UseZGC", "-Xmx512m")

    def test_shenandoah(self):
        if run(["java", "-XX:+UseShenandoahGC", "-version"])[0] != 0:
            self.skipTest("this JVM has no Shenandoah")
        self.check_all("-XX:+UseShenandoahGC")


def named(events, name):
    return [event.fields for event in events if event.name == "jvm:" + name]
