#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""Several that attach to a JVM at the same moment: each has its recording, and the program says what it says without."""
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_jvm import PLUMB, InFolder  # noqa: E402
from recorded_jvm import setUpModule, tearDownModule  # noqa: E402, F401


class AtOnce(InFolder):
    def record_into(self, server, name):
        return subprocess.Popen(list(map(str, [PLUMB, "record", "-q", "--jvm", "-p", server.pid, "-e", "jvm:thread_running", "--force",
                                               "-o", self.folder / name, "--duration", "0.2s"])),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def check_recorder(self, recorder, status=0):
        output, errors = recorder.communicate(timeout=60)
        self.assertEqual((recorder.returncode, output, errors), (status, "", ""))

    def test_recorders(self):
        """A JVM that is asked a second time behind its answer prints a list of its threads."""
        for _ in range(12):
            server = self.serve("Serves")
            recorders = [self.record_into(server, f"trace{i}") for i in range(3)]
            for recorder in recorders:
                self.check_recorder(recorder)
            self.finish(server)

    def test_one_that_is_killed(self):
        for i in range(6):
            server = self.serve("Serves")
            killed = self.record_into(server, "killed")
            other = self.record_into(server, "other")
            try:
                killed.wait(0.02 * i + 0.001)
            except subprocess.TimeoutExpired:
                killed.kill()
            killed.communicate()
            self.check_recorder(other)
            self.finish(server)

    @unittest.skipUnless(shutil.which("jcmd"), "needs jcmd")
    def test_jcmd(self):
        for _ in range(6):
            server = self.serve("Serves")
            jcmd = subprocess.Popen(["jcmd", str(server.pid), "VM.version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            recorder = self.record_into(server, "trace")
            self.assertIn("VM version", jcmd.communicate(timeout=60)[0])
            self.check_recorder(recorder)
            self.finish(server)


if __name__ == "__main__":
    unittest.main()
