"""A Java program `Logs` whose log records become events: java_logging and log4j2."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from recorded_program import BUILD, PLUMB

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
JAR = BUILD / "probes/java/java/plumb.jar"


class LoggedJava(unittest.TestCase):
    PROGRAM = ""
    CLASS_PATH = ()  # to compile it

    @classmethod
    def setUpClass(cls):
        cls.classes = Path(tempfile.mkdtemp(prefix="plumb-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.classes)
        (cls.classes / "Logs.java").write_text(cls.PROGRAM)
        subprocess.run(["javac", "-encoding", "UTF-8", "-proc:none", "-cp", ":".join(map(str, cls.CLASS_PATH)), "-d", cls.classes,
                        cls.classes / "Logs.java"], check=True, timeout=100)

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="plumb-test-"))
        self.trace = self.folder / "trace"
        self.addCleanup(shutil.rmtree, self.folder)

    def events_of(self, command, options=(), warns=False):
        """What it logged; self.said: what it printed."""
        done = subprocess.run([PLUMB, "record", "-q", "-o", self.trace, *(options or ("-e", "java:*")), "--", *command],
                              capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual((done.returncode, done.stderr if not warns else ""), (0, ""))
        self.said = done.stdout
        shown = subprocess.run([PLUMB, "view", "--json", self.trace], capture_output=True, text=True, timeout=100, check=True)
        return [json.loads(line) for line in shown.stdout.splitlines()]

    def check_lost(self, count):
        self.assertEqual(json.loads((self.trace / "summary.json").read_text())["events_lost"], count)

    def check_many(self, events, count):
        """Of each of 8 threads, in order."""
        self.assertEqual(len(events), 8 * count)
        for who in range(8):
            own = [event["fields"]["message"] for event in events if event["fields"]["message"].startswith(f"t{who} ")]
            self.assertEqual(own, [f"t{who} {i}" for i in range(count)])

    def check_off(self, events, said, command, said_alone):
        """Only what is on was formatted; without a recording, nothing."""
        self.assertEqual([event["fields"]["message"] for event in events], ["told"])
        self.assertEqual(self.said, said)
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, said_alone, ""))
