#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 200
"""docs/java.md, as it stands: its commands are run over its service, under load, and show what it says that they show."""
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

SOURCE, BUILD = Path(os.environ["PLUMB_SOURCE_DIR"]), Path(os.environ["PLUMB_BUILD_DIR"])
PAGE = (SOURCE / "docs/java.md").read_text()
JAR = BUILD / "probes/java/java/plumb.jar"
ORDERS, CLIENTS = 400, 8

if not JAR.exists() or not shutil.which("javac"):
    print("skipped: no JDK, or none when this was built (openjdk-17-jdk-headless)")
    sys.exit(77)
if os.geteuid() != 0 or not Path("/sys/kernel/tracing/events").exists():
    print("skipped: only root has the kernel's events")
    sys.exit(77)


def commands(section):
    """Its blocks, each line of which is a command."""
    text = re.search(rf"^## {section}\. .*?(?=^## |\Z)", PAGE, re.M | re.S).group()
    return [line for block in re.findall(r"```sh\n(.*?)```", text, re.S) for line in block.splitlines()]


def buy(port, items):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for item in items:
        connection.request("GET", f"/order/{item}")
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read().startswith(b"order "), answer.status
    connection.close()


def load(port):
    share = ORDERS // CLIENTS
    clients = [threading.Thread(target=buy, args=(port, ["tea", "milk"] * (share // 2))) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()


class Tutorial(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="plumb-java-tutorial-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        shutil.copy(SOURCE / "examples/java-service/Shop.java", cls.folder)
        tools = cls.folder / "bin"
        tools.mkdir()
        (tools / "plumb").symlink_to(BUILD / "cli/plumb")
        cls.environment = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", PLUMB_JAR=str(JAR),
                               PLUMB_PROBE_DIR=os.environ.get("PLUMB_PROBE_DIR", ""))
        if not cls.environment["PLUMB_PROBE_DIR"]:
            del cls.environment["PLUMB_PROBE_DIR"]
        place, build, cls.start = commands(1)
        assert place == "PLUMB_JAR=/usr/local/lib/plumb/java/plumb.jar", place
        cls.shell(build)

    @classmethod
    def shell(cls, command, **variables):
        done = subprocess.run(["bash", "-c", command], cwd=cls.folder, env=dict(cls.environment, **variables), capture_output=True,
                              text=True, timeout=120, check=False)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def serve(self, command):
        """The service, at a port of its own, until its input ends."""
        service = subprocess.Popen(["bash", "-c", "exec " + command.replace("Shop 8080", "Shop 0")], cwd=self.folder, env=self.environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for stream in (service.stdin, service.stdout, service.stderr):
            self.addCleanup(stream.close)
        self.addCleanup(service.wait)
        self.addCleanup(service.stdin.close)
        return service, int(re.fullmatch(r"at port (\d+)\n", service.stdout.readline()).group(1))

    def test_from_its_start(self):
        record, _ = commands(2)
        service, port = self.serve(record)
        load(port)
        said, told = service.communicate(timeout=60)
        self.assertEqual((service.returncode, said), (0, f"{ORDERS} orders\n"), told)

        [contention] = commands(3)
        # On a slow machine the first ten may all be those of the JVM's own start.
        shown = self.shell(contention + " --limit 0")
        self.assertRegex(shown, r'monitor java\.util\.HashMap #\d+, held by "pool-1-thread-\d" \[java \d+\]\n')
        self.assertRegex(shown, r'synchronizer ReentrantLock #\d+, held by "pool-1-thread-\d" \[java \d+\]\n')

        first, tea, by_thread = commands(4)
        self.assertEqual(self.shell(first).count("shop:order: "), 5)
        self.assertEqual(self.shell(tea).count('item = "tea", left = -'), ORDERS // 2)
        waits = self.shell("plumb view --json -e jvm:monitor_contended_enter -e jvm:monitor_contended_entered -e syscall_entry_futex trace")
        thread = self.one_that_slept(map(json.loads, waits.splitlines()))
        story = re.findall(r"\) (\S+): ", self.shell(by_thread, TID=str(thread)))
        self.assertRegex(" ".join(story), r"jvm:monitor_contended_enter syscall_entry_futex .*sched_switch .*jvm:monitor_contended_entered")

    def one_that_slept(self, events):
        """In a wait for a monitor: it made a call there."""
        waiting = set()
        for event in events:
            thread = event["tid"]
            if event["event"] == "jvm:monitor_contended_enter":
                waiting.add(thread)
            elif event["event"] == "syscall_entry_futex" and thread in waiting:
                return thread
            else:
                waiting.discard(thread)
        return self.fail("no thread has slept")

    def test_one_that_runs(self):
        _, attach = commands(2)
        self.assertIn("--duration 10s", attach)
        service, port = self.serve(self.start)
        recorder = subprocess.Popen(["bash", "-c", "exec " + attach.replace("10s", "60s")], cwd=self.folder, stderr=subprocess.PIPE, text=True,
                                    env=dict(self.environment, PID=str(service.pid)))
        self.addCleanup(recorder.stderr.close)
        while "libplumb-jvm" not in Path(f"/proc/{service.pid}/maps").read_text():
            self.assertIsNone(recorder.poll())
            time.sleep(0.02)
        time.sleep(1)  # what is switched on takes a JVM that runs some milliseconds more
        load(port)
        recorder.terminate()
        _, told = recorder.communicate(timeout=60)
        said, _ = service.communicate(timeout=60)
        self.assertEqual((recorder.returncode, said), (0, f"{ORDERS} orders\n"), told)
        self.assertGreater(self.shell("plumb view -e jvm:monitor_contended_entered later").count("HashMap"), 3)
        self.assertGreater(self.shell("plumb view -e shop:order later").count("shop:order: "), ORDERS // 2)


if __name__ == "__main__":
    unittest.main()
