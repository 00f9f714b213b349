#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 200
"""The agent for Java where nothing is recorded by `plumb record`: counted by `plumb stat --jvm`, and in a session, by
`plumb enable --jvm -p`."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from sessions import plumb  # noqa: E402

BUILD = Path(os.environ["PLUMB_BUILD_DIR"])
AGENT = BUILD / "probes/jvm/libplumb-jvm.so"
if not AGENT.exists() or not shutil.which("javac"):
    print("skipped: no JDK, or none when this was built (openjdk-17-jdk-headless)")
    sys.exit(77)

# As many threads at once as each line of its input says: begun and ended when that is said.
THREADS_AS_TOLD = """
public class Told {
    public static void main(String[] words) throws Exception {
        var input = new java.util.Scanner(System.in);
        System.out.println("there");
        while (input.hasNextInt()) {
            Thread[] threads = new Thread[input.nextInt()];
            for (int i = 0; i < threads.length; i++) (threads[i] = new Thread(() -> { })).start();
            for (Thread each : threads) each.join();
            System.out.println("done");
        }
    }
}
"""


class Elsewhere(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="plumb-jvm-elsewhere-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        (cls.folder / "Told.java").write_text(THREADS_AS_TOLD)
        subprocess.run(["javac", "-d", cls.folder, cls.folder / "Told.java"], check=True, timeout=120)
        cls.command = ["java", "-Xmx64m", "-cp", str(cls.folder), "Told"]

    def start(self):
        java = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(java.stdout.close)
        self.addCleanup(java.wait)
        self.addCleanup(java.stdin.close)
        self.assertEqual(java.stdout.readline(), "there\n")
        return java

    def tell(self, java, threads):
        java.stdin.write(f"{threads}\n")
        java.stdin.flush()
        self.assertEqual(java.stdout.readline(), "done\n")

    def counts(self, text):
        return {event: int(count.replace(",", "")) for count, event in re.findall(r"^ *([\d,]+) +[\d.,]+ +(jvm:\w+)$", text, re.M)}

    def test_a_command_is_counted(self):
        done = subprocess.run([BUILD / "cli/plumb", "stat", "--jvm", "-e", "jvm:thread_start", "--", *self.command],
                              input="7\n5\n", capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "there\ndone\ndone\n")
        self.assertGreaterEqual(self.counts(done.stderr)["jvm:thread_start"], 12)

    def test_a_jvm_that_runs_is_counted(self):
        java = self.start()
        counter = subprocess.Popen([BUILD / "cli/plumb", "stat", "--jvm", "-p", str(java.pid), "-e", "jvm:thread_start", "--interval", "100ms"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        seen = [counter.stderr.readline()]  # it counts by now
        self.tell(java, 9)
        counter.terminate()
        said, told = counter.communicate(timeout=60)
        self.assertGreaterEqual(self.counts("".join(seen) + said + told)["jvm:thread_start"], 9, (seen, said, told))

    def test_what_is_no_jvm_is_named(self):
        with subprocess.Popen(["sleep", "60"]) as other:
            done = subprocess.run([BUILD / "cli/plumb", "stat", "--jvm", "-p", str(other.pid)], capture_output=True, text=True, timeout=60, check=False)
            other.kill()
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"Process {other.pid} is no Java virtual machine", done.stderr)
        self.assertEqual(subprocess.run([BUILD / "cli/plumb", "stat", "--jvm"], capture_output=True, timeout=60, check=False).returncode, 2)

    def test_a_session_has_a_jvm_that_runs(self):
        self.addCleanup(plumb, "destroy", "--all", status=None)
        java = self.start()
        trace = self.folder / "session"
        plumb("create", "web", "-o", trace)
        plumb("start", "web")
        plumb("enable", "web", "jvm:thread_start", "--jvm", "-p", java.pid)
        self.tell(java, 11)
        plumb("destroy", "web")
        self.assertGreaterEqual(plumb("view", trace).stdout.count("jvm:thread_start:"), 11)


if __name__ == "__main__":
    unittest.main()
