"""Compiles a C program with tracepoints as its developer would: one object and the static library; and tests that record
one."""
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()


def compile_traced(text, program, *options, compiler="cc", glue="tp-async"):
    """`program`: where it goes; its source stays beside it. `glue`: the object that it links."""
    source = Path(f"{program}.c")
    source.write_text(text)
    subprocess.run([compiler, "-O2", *options, source, f"-I{SOURCE}/include", BUILD / f"{glue}/CMakeFiles/{glue}.dir/{glue}.cc.o",
                    BUILD / "libtrace/libplumb.a", "-lpthread", "-lm", "-o", program], check=True)
    return program


def record_while_it_answers(test, program, *options):
    """Of a program that says "ready", and "traced" for each line that it is told: both end well. What the recorder said."""
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        test.assertEqual(process.stdout.readline(), "ready\n")
        with subprocess.Popen([BUILD / "cli/plumb", "record", "-p", str(process.pid), *options], stderr=subprocess.PIPE, text=True) as recorder:
            while recorder.poll() is None:
                process.stdin.write("once more\n")
                process.stdin.flush()
                test.assertEqual(process.stdout.readline(), "traced\n")
            said = recorder.stderr.read()
        process.stdin.close()
        test.assertEqual((process.wait(timeout=30), recorder.returncode), (0, 0), said)
    return said


class TracedProgramTest(unittest.TestCase):
    """Compiles PROGRAM once, into a folder that other users may enter; each test has a directory for its trace."""
    PROGRAM = None

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="plumb-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.folder.chmod(0o755)
        cls.program = compile_traced(cls.PROGRAM, cls.folder / "program")

    def setUp(self):
        self.trace = self.folder / self.id().split(".")[-1]
