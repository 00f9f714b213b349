"""Tests of what the functions of call stacks are called."""
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from recorded_program import PLUMB
from traced_program import BUILD, SOURCE

HEAD = """
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
PLUMB_EVENT(then, hit, (string, place))
"""
# Of plug-ins, which have their tracepoints in an object of their own.
GLUE = [f"-I{SOURCE}/include", BUILD / "tp-async/CMakeFiles/tp-async.dir/tp-async.cc.o", f"-L{BUILD}/libtrace", "-lplumb",
        f"-Wl,-rpath,{BUILD}/libtrace"]


class WithNames(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.trace = self.folder / "trace"

    def record(self, *command):
        done = subprocess.run([PLUMB, "record", "-q", "--force", "--context", "callstack", "-o", self.trace, "--", *map(str, command)],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def stacks(self):
        """Of each event, what it says of its place, and the functions from main() on."""
        shown = subprocess.run([PLUMB, "view", "--json", self.trace], capture_output=True, text=True, timeout=60, check=True)
        self.errors = shown.stderr
        return [(event["fields"]["place"], [name.split("+0x")[0] for name in event["callstack"]])
                for event in map(json.loads, shown.stdout.splitlines())]
