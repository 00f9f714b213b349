"""Tests that record a C program without tracepoints, whose locks the preloaded probe `pthread` sees: the program, its
recorder, and what babeltrace2 reads back. (One with tracepoints: traced_program.py.)"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
PROBE = BUILD / "probes/pthread/libplumb-pthread.so"
SHM = Path(f"/dev/shm/plumb-{os.geteuid()}")

# Locks as often as each line of its input says, and says when that is done.
LOCKS_AS_TOLD = r"""
#include <pthread.h>
#include <stdio.h>
int main(void) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    long count;
    while (scanf("%ld", &count) == 1) {
        for (long i = 0; i < count; i++) { pthread_mutex_lock(&mutex); pthread_mutex_unlock(&mutex); }
        puts("done");
        fflush(stdout);
    }
    return 0;
}
"""


def is_sanitized():
    """A sanitizer's run-time library can not be preloaded into programs that lack it."""
    symbols = subprocess.run(["nm", "-D", PROBE], capture_output=True, text=True, check=True).stdout
    return any(f" U {name}" in symbols for name in ("__asan_", "__tsan_", "__ubsan_"))  # not those that may be absent


def leave_out_if_sanitized():
    if is_sanitized():
        print("the probe is built with a sanitizer, and the programs are not")
        sys.exit(77)


def tell_to_lock(process, count):
    """`process`: has the input and output of LOCKS_AS_TOLD."""
    process.stdin.write(f"{count}\n")
    process.stdin.flush()
    said = process.stdout.readline()
    assert said == "done\n", said


def read_back(trace):
    """Events by name, how many were discarded, and everything else that babeltrace2 said."""
    done = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    counts = {}
    for name in re.findall(r"^\[[^\]]*\] \([^)]*\) \S+ (\S+:\S+): ", done.stdout, re.MULTILINE):
        counts[name] = counts.get(name, 0) + 1
    discarded = sum(int(n) for n in re.findall(r"discarded (\d+) events?", done.stderr))
    rest = [line for line in done.stderr.splitlines() if "Tracer discarded" not in line]
    return counts, discarded, "\n".join(rest)


class RecordedProgramTest(unittest.TestCase):
    """Compiles PROGRAM once, to `self.program`; each test has a directory, and room in it for its trace."""
    PROGRAM = LOCKS_AS_TOLD

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="plumb-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.program = cls.folder / "locker"
        source = cls.folder / "locker.c"
        source.write_text(cls.PROGRAM)
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-pthread", "-o", cls.program, source], check=True)

    def setUp(self):
        self.directory = self.folder / self.id().split(".")[-1]
        self.directory.mkdir()
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.trace = self.directory / "trace"

    def start(self, *arguments, **more):
        """A recorder into the test's trace."""
        return subprocess.Popen([PLUMB, "record", "-o", self.trace, *map(str, arguments)], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def record(self, *arguments, **more):
        """Its status; what it said is in `self.output` and `self.errors`."""
        recorder = self.start(*arguments, **more)
        self.output, self.errors = recorder.communicate(timeout=100)
        return recorder.returncode

    def summary(self):
        return json.loads((self.trace / "summary.json").read_text())
