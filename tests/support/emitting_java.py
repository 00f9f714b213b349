"""Tests of typed events of Java code: the programs of tests/integration/java, compiled once, a recorder, and what is read back."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from recorded_program import BUILD, PLUMB

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
PROGRAMS = SOURCE / "tests/integration/java"
JAR = BUILD / "probes/java/java/plumb.jar"
if not JAR.exists() or not shutil.which("javac"):
    print("skipped: no JDK, or none when this was built (openjdk-17-jdk-headless)")
    sys.exit(77)

SCRATCH = tempfile.TemporaryDirectory(prefix="plumb-test-")
CLASSES = Path(SCRATCH.name)


def compile_java(*sources, to=CLASSES, options=("-parameters",)):
    subprocess.run(["javac", "-encoding", "UTF-8", *options, "-cp", JAR, "-d", to, *sources], check=True, timeout=200)


def setUpModule():
    compile_java(*PROGRAMS.glob("*.java"))
    unittest.addModuleCleanup(SCRATCH.cleanup)


def java(*words, classes=CLASSES, options=(), jar=JAR):
    return ["java", "-Xmx256m", *options, "-cp", f"{jar}:{classes}", *words]


def java_version():
    shown = subprocess.run(["java", "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=100, check=True)
    return int(re.search(r"java\.specification\.version = (?:1\.)?(\d+)", shown.stderr)[1])


def whole_number(text):
    """As JSON's numbers have it, -0 is one, and a float's."""
    return -0.0 if text == "-0" else int(text)


def newer_java():
    """One that has virtual threads."""
    for folder in Path("/usr/lib/jvm").glob("*"):
        release = folder / "release"
        version = re.search(r'^JAVA_VERSION="(\d+)', release.read_text(), re.MULTILINE) if release.exists() else None
        if version and int(version[1]) >= 21 and (folder / "bin/java").exists():
            return folder / "bin/java"
    return None


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="plumb-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.trace = self.folder / "trace"

    def record(self, *words, options=(), warns=False, **more):
        done = subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "-e", "shop:*", *options, "--", *java(*words, **more)],
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        if not warns:
            self.assertEqual(done.stderr, "")
        return done.stdout

    def events(self, *options):
        shown = subprocess.run([PLUMB, "view", "--json", *options, self.trace], capture_output=True, text=True, timeout=200, check=True)
        return [json.loads(line, parse_int=whole_number) for line in shown.stdout.split("\n") if line]

    def fields(self, name):
        return [event["fields"] for event in self.events() if event["event"] == f"shop:{name}"]

    def run_java(self, *words, **more):
        return subprocess.run(java(*words, **more), capture_output=True, text=True, timeout=100, check=False)
