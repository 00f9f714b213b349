#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 200
"""A real server in Java, Tomcat, under load by a real client: its JVM, its native locks and the kernel in one trace, in one order.
What a thread says of a monitor that it waits for stands around the system calls by which it slept meanwhile, and while the collector
has stopped all threads, none of them says anything."""
import collections
import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ["PLUMB_BUILD_DIR"])
PLUMB = BUILD / "cli/plumb"
JARS = [jar for jar in glob.glob("/usr/share/java/tomcat10-*.jar") if not re.search(r"-10\.\d|i18n", jar)]
if not (BUILD / "probes/jvm/libplumb-jvm.so").exists() or not shutil.which("javac") or not JARS or not shutil.which("ab"):
    print("skipped: no JDK, or no Tomcat (openjdk-17-jdk-headless, libtomcat10-java, apache2-utils)")
    sys.exit(77)
if os.geteuid() != 0 or not Path("/sys/kernel/tracing/events").exists():
    print("skipped: only root has the kernel's events")
    sys.exit(77)

SHOP = """
import jakarta.servlet.http.*;
import org.apache.catalina.startup.Tomcat;
public class Shop extends HttpServlet {
    private final Object stock = new Object();
    private long sold, mixed;
    @Override protected void doGet(HttpServletRequest request, HttpServletResponse response) throws java.io.IOException {
        byte[][] garbage = new byte[128][];
        for (int i = 0; i < garbage.length; i++) garbage[i] = new byte[1024];
        synchronized (stock) {
            sold++;
            for (int i = 0; i < 200_000; i++) mixed += i * mixed + garbage[i % 128].length;
        }
        response.getWriter().println("sold");
    }
    public static void main(String[] words) throws Exception {
        Tomcat tomcat = new Tomcat();
        Shop shop = new Shop();
        tomcat.setBaseDir(words[1]);
        tomcat.setPort(Integer.parseInt(words[0]));
        tomcat.getConnector();
        var context = tomcat.addContext("", words[1]);
        Tomcat.addServlet(context, "shop", shop);
        context.addServletMappingDecoded("/", "shop");
        tomcat.start();
        System.out.println("ready");
        System.in.read();
        tomcat.stop();
        tomcat.destroy();
        System.out.println("sold " + shop.sold);
    }
}
"""
REQUESTS = 2000
EVENT = re.compile(r"^\[(\d+):(\d+):(\d+)\.(\d+)\] \([^)]*\) \S+ (\S+): \{ cpu_id = \d+ \}, \{ v?tid = (\d+) \}, \{ (.*) \}$")
ASLEEP = (1, 2)  # prev_state: by its own will
OF_JAVA_THREADS = ("jvm:monitor_", "jvm:thread_", "jvm:class_prepare", "jvm:park")


class Wait:
    def __init__(self):
        self.calls = self.sleeps = self.sleeps_outside = 0
        self.in_call = False


class Waits:
    """For monitors, and what the threads did meanwhile."""

    def __init__(self):
        self.open, self.done = {}, []

    def take(self, name, thread, fields):
        wait = self.open.get(thread)
        if name == "jvm:monitor_contended_enter":
            assert wait is None, fields
            self.open[thread] = Wait()
        elif name == "jvm:monitor_contended_entered":
            self.done.append(self.open.pop(thread))
        elif wait and name == "syscall_entry_futex":
            wait.calls += 1
            wait.in_call = True
        elif wait and name == "syscall_exit_futex":
            wait.in_call = False
        elif wait and name == "sched_switch" and int(re.search(r"prev_state = (\d+)", fields)[1]) in ASLEEP:
            wait.sleeps += 1
            wait.sleeps_outside += not wait.in_call


class JavaServer(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="plumb-java-server-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "Shop.java").write_text(SHOP)
        subprocess.run(["javac", "-nowarn", "-cp", ":".join(JARS), "-d", self.folder, self.folder / "Shop.java"], check=True, timeout=120,
                       capture_output=True)

    def serve(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        said = open(self.folder / "said", "wb")
        self.addCleanup(said.close)
        recorder = subprocess.Popen(
            [PLUMB, "record", "--jvm", "--preload", "pthread", "-k", "syscalls:*futex*", "-k", "sched:*", "--mode", "block", "--kernel-buffer-size",
             "32M", "-o", self.folder / "trace", "--", "java", "-Xmx48m", "-cp", ":".join([*JARS, str(self.folder)]), "Shop", str(port),
             self.folder / "base"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True)
        self.assertEqual(recorder.stdout.readline(), "ready\n")
        client = subprocess.run(["ab", "-q", "-n", str(REQUESTS), "-c", "16", f"http://127.0.0.1:{port}/"], capture_output=True, text=True,
                                timeout=100, check=False)
        answer, _ = recorder.communicate("\n", timeout=60)
        told = (self.folder / "said").read_text()
        self.assertEqual(client.returncode, 0, client.stderr)
        self.assertRegex(client.stdout, rf"Complete requests: +{REQUESTS}\nFailed requests: +0\n")
        self.assertEqual((recorder.returncode, answer), (0, f"sold {REQUESTS}\n"), told)
        self.assertIn("Nothing was lost.", told)

    def test_the_trace_is_in_true_order(self):
        self.serve()
        read = subprocess.run(["babeltrace2", self.folder / "trace"], capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual((read.returncode, read.stderr), (0, ""))
        waits, in_pause, pauses, counts = Waits(), False, 0, collections.Counter()
        for line in read.stdout.splitlines():
            found = EVENT.match(line)
            if not found:
                continue
            *_, name, thread, fields = found.groups()
            counts[name] += 1
            waits.take(name, thread, fields)
            if name == "jvm:gc_start":
                in_pause, pauses = True, pauses + 1
            elif name == "jvm:gc_finish":
                in_pause = False
            self.assertFalse(in_pause and name.startswith(OF_JAVA_THREADS), line)
        self.assertEqual(waits.open, {})
        self.assertGreater(len(waits.done), 100)
        self.assertGreater(sum(wait.calls > 0 for wait in waits.done), 50)
        # One that only spun made no call; none slept but in one.
        self.assertEqual([vars(wait) for wait in waits.done if wait.sleeps_outside or wait.sleeps > wait.calls], [])
        self.assertGreater(pauses, 2)
        self.assertGreater(counts["pthread:mutex_acquired"], 1000)
        self.assertGreaterEqual(counts["jvm:thread_start"], 10)


if __name__ == "__main__":
    unittest.main()
