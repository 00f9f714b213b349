"""Tests of sessions of plumb-consumerd: its commands, and a program of the test's that runs meanwhile."""
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from control_socket import ask  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
STRACE = shutil.which("strace")


def plumb(*words, status=0, timeout=60, **more):
    """`status` None: whatever it is. Fails if it is not answered."""
    done = subprocess.run([PLUMB, *map(str, words)], capture_output=True, text=True, timeout=timeout, check=False, **more)
    assert status is None or done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
    return done


def supervisor():
    """Its process id."""
    return ask(json.dumps({"command": "version"}).encode())["pid"]


def may_be_traced():
    """Whether strace may attach to what is no child of its own."""
    if not STRACE:
        return False
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            strace = subprocess.Popen([STRACE, "-qq", "-o", "/dev/null", "-p", str(sleeper.pid)], stderr=subprocess.DEVNULL)
            time.sleep(0.3)
            attached = strace.poll() is None
            strace.terminate()
            strace.wait(timeout=30)
            return attached
        finally:
            sleeper.kill()


class SessionTest(TracedProgramTest):
    """Its PROGRAM says "begun", and at SIGTERM how much each of its threads wrote."""

    def setUp(self):
        super().setUp()
        self.programs = []
        self.addCleanup(plumb, "destroy", "--all")

    def tearDown(self):
        for program in self.programs:
            if program.poll() is None:
                program.kill()
                program.communicate()

    def start_program(self, burst=20, pause_us=1000, *words):
        program = subprocess.Popen([self.program, str(burst), str(pause_us), *words], stdout=subprocess.PIPE, text=True)
        self.programs.append(program)
        self.assertEqual(program.stdout.readline(), "begun\n")
        return program

    def end_program(self, program):
        """How many each thread wrote."""
        program.terminate()
        text, _ = program.communicate(timeout=60)
        self.assertEqual(program.returncode, 0)
        return [int(line) for line in text.split()]

    def create(self, name, *options):
        output = self.folder / f"{self.id().split('.')[-1]}-{name}"
        self.assertEqual(plumb("create", name, "-o", output, *options).stdout, f"{output}\n")
        self.addCleanup(shutil.rmtree, output, ignore_errors=True)
        return output

    def status(self, name):
        return json.loads(plumb("status", "--json", name).stdout)
