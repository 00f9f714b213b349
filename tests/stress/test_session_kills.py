#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""A service traces into a session with room to spare, while plumb-consumerd is killed again and again, supervisor and worker by turns and
both at once; and while the service itself is killed, and started again. Nothing is lost, nothing is there twice, nothing is left behind.

PLUMB_KILL_SECONDS: for how long the daemon is killed, once a second (10 if nothing is said). PLUMB_KILL_COUNT: how often the service is
(10). PLUMB_KILL_SEED: of the moments."""
import json
import mmap
import os
import random
import re
import signal
import struct
import subprocess
import sys
import time
import unittest
from collections import defaultdict
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
SECONDS = float(os.environ.get("PLUMB_KILL_SECONDS", "10"))
COUNT = int(os.environ.get("PLUMB_KILL_COUNT", "10"))
SEED = int(os.environ.get("PLUMB_KILL_SEED", str(time.time_ns() % 1_000_000)))
PATIENCE_S = 30
sys.path.insert(0, str(SOURCE / "tests/support"))
from control_socket import FOLDER, ask  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

THREADS = 4
# `program RUN FILE`: each thread numbers its events, and notes in the file how many it has begun and how many are done: whoever is killed has
# traced as many as are done, or the one that is begun besides.
PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
PLUMB_EVENT(service, request, (u32, run), (u32, writer), (u64, number))
struct progress { unsigned long begun, done; };
static volatile struct progress* progress;
static volatile sig_atomic_t over;
static unsigned run;
static void end(int number) { (void)number; over = 1; }
static void* work(void* argument) {
    const unsigned writer = (unsigned)(unsigned long)argument;
    for (unsigned long number = 0; !over; number++) {
        progress[writer].begun = number + 1;
        plumb_trace(service, request, run, writer, number);
        progress[writer].done = number + 1;
        if (number % 16 == 15) usleep(1000);
    }
    return NULL;
}
int main(int count, char** words) {
    pthread_t threads[4];
    if (count != 3) return 1;
    run = (unsigned)atoi(words[1]);
    const int file = open(words[2], O_RDWR);
    progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (progress == MAP_FAILED) return 1;
    signal(SIGTERM, end);
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void*)i);
    puts("begun");
    fflush(stdout);
    for (long i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    return 0;
}
"""
REQUEST = re.compile(r"service:request: .*run = (\d+), writer = (\d+), number = (\d+) \}")


def plumb(*words):
    done = subprocess.run([PLUMB, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def supervisor():
    return ask(json.dumps({"command": "version"}).encode())["pid"]


class Service:
    """One run of it."""

    def __init__(self, test, run):
        self.run = run
        path = test.folder / f"progress-{run}"
        path.write_bytes(bytes(mmap.PAGESIZE))
        test.addCleanup(path.unlink)
        with path.open("r+b") as file:
            self.progress = mmap.mmap(file.fileno(), 0)
        self.process = subprocess.Popen([test.program, str(run), path], stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.kill)
        assert self.process.stdout.readline() == "begun\n"

    def kill(self, number=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(timeout=PATIENCE_S)
            self.process.stdout.close()
        return self.process.returncode

    def counts(self, writer):
        """How many events of a thread are in the trace at least, and at most."""
        begun, done = struct.unpack_from("<QQ", self.progress, 16 * writer)
        return done, begun


class Kills(TracedProgramTest):
    PROGRAM = PROGRAM

    def setUp(self):
        super().setUp()
        random.seed(SEED)
        self.kills = {"worker": 0, "supervisor": 0, "both": 0}
        self.services = []
        self.addCleanup(subprocess.run, [PLUMB, "destroy", "--all"], capture_output=True, check=False)
        plumb("create", "kept", "-o", self.trace)  # in discard mode: nobody waits for who was killed
        plumb("enable", "kept", "service:*")
        plumb("start", "kept")

    def begin_service(self):
        self.services.append(Service(self, len(self.services)))
        return self.services[-1]

    def status(self):
        """Of a session whose worker runs; asking is what starts a supervisor that was killed."""
        until = time.monotonic() + PATIENCE_S
        while True:
            done = subprocess.run([PLUMB, "status", "--json", "kept"], capture_output=True, text=True, timeout=60, check=False)
            status = json.loads(done.stdout) if done.returncode == 0 else {}
            if status.get("worker_pid"):
                return status
            self.assertLess(time.monotonic(), until, done.stderr)
            time.sleep(0.02)

    def kill(self, whom):
        """Both are others afterwards, and the session is as it was."""
        pids = {"worker": self.status()["worker_pid"], "supervisor": supervisor()}
        killed = list(pids) if whom == "both" else [whom]
        for each in killed:
            os.kill(pids[each], signal.SIGKILL)
        self.kills[whom] += 1
        now = self.status()
        until = time.monotonic() + PATIENCE_S
        while now["worker_pid"] == pids["worker"] and "worker" in killed:
            self.assertLess(time.monotonic(), until)
            now = self.status()
        self.assertEqual((now["started"], now["lost_by_cause"]), (True, {}))
        if whom == "supervisor":
            self.assertEqual(now["worker_pid"], pids["worker"], "it goes on")
        if "supervisor" in killed:
            self.assertNotEqual(supervisor(), pids["supervisor"])

    def numbers(self):
        """By run and thread, in the order of time."""
        found = defaultdict(list)
        with subprocess.Popen(["babeltrace2", self.trace], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
            for line in reader.stdout:
                if event := REQUEST.search(line):
                    run, writer, number = map(int, event.groups())
                    found[run, writer].append(number)
            said = reader.stderr.read()
        self.assertEqual((reader.returncode, said), (0, ""))
        return found

    def check(self):
        status = self.status()
        self.assertEqual((status["lost_by_cause"], status.get("problems", [])), ({}, []))
        plumb("destroy", "kept")
        found = self.numbers()
        total = 0
        for service in self.services:
            for writer in range(THREADS):
                least, most = service.counts(writer)
                numbers = found.pop((service.run, writer), [])
                self.assertLessEqual(most - least, 1)
                self.assertIn(len(numbers), (least, most), (service.run, writer))
                self.assertEqual(numbers, list(range(len(numbers))), (service.run, writer))
                total += len(numbers)
        self.assertEqual(found, {})
        shown = json.loads(subprocess.run([PLUMB, "view", "--summary", "--json", self.trace], capture_output=True, text=True,
                                          check=True).stdout)
        self.assertEqual(shown["by_event"], {"service:request": total})
        left = [path.name for path in FOLDER.parent.iterdir() if path.name.startswith(("channel-", "left-"))]
        self.assertEqual((left, list((FOLDER / "sessions").iterdir())), ([], []))
        self.assertEqual([path.name for path in self.trace.iterdir() if not re.fullmatch(r"chunk-\d{8}-\w+[+-]\d+", path.name)], [])
        return total

    def say(self, total):
        kills = ", ".join(f"{whom} {count}" for whom, count in self.kills.items())
        chunks = len(list(self.trace.iterdir()))
        print(f"{len(self.services)} runs of the service, {total} events in {chunks} chunks; killed: {kills}; seed {SEED}",
              file=sys.stderr)

    def test_the_daemon_is_killed(self):
        service = self.begin_service()
        begun = time.monotonic()
        turn = 0
        while time.monotonic() < begun + SECONDS:
            time.sleep(max(0.0, begun + turn - time.monotonic()))
            self.kill(("worker", "supervisor", "both")[turn % 3])
            turn += 1
        self.assertEqual(service.kill(signal.SIGTERM), 0)
        self.assertEqual(service.counts(0)[0], service.counts(0)[1])
        total = self.check()
        self.assertGreater(total, 1000 * SECONDS)
        self.say(total)

    def test_the_service_is_killed(self):
        """Most of the time alone, and sometimes with the daemon."""
        for turn in range(COUNT):
            service = self.begin_service()
            time.sleep(random.uniform(0.02, 0.4))
            self.assertEqual(service.kill(), -signal.SIGKILL)
            if turn % 5 == 4:
                self.kill(("both", "worker", "supervisor")[turn // 5 % 3])
        total = self.check()
        self.assertGreater(total, 100 * COUNT)
        self.say(total)


if __name__ == "__main__":
    unittest.main()
