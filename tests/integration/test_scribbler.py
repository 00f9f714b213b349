#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""A program of the same user writes at random over all of one session's channel, header, tables and rings, for PLUMB_SCRIBBLE_SECONDS:
the traced program and the daemon live on, a session and a `plumb stat` beside it are exact, and the damage is counted and named."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests/support"))
from control_socket import FOLDER, ask  # noqa: E402
from recorded_program import PLUMB  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

SECONDS = float(os.environ.get("PLUMB_SCRIBBLE_SECONDS", "4"))
SEED = int(os.environ.get("PLUMB_SCRIBBLE_SEED", "1"))
THREADS = 4

# `scribbler CHANNEL SEED`: until SIGTERM. Words at random places, one in eight in the header and the tables behind it, and
# bits of what is there, since a number that is nearly right gets past more checks.
SCRIBBLER = r"""
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int count, char** words) {
    struct stat status;
    const int file = open(words[1], O_RDWR);
    if (count < 3 || file < 0 || fstat(file, &status) != 0) return 1;
    volatile uint64_t* const channel = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (channel == MAP_FAILED) return 1;
    const uint64_t all = (uint64_t)status.st_size / 8;
    uint64_t random = strtoull(words[2], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
    for (unsigned long turn = 0;; turn++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        const uint64_t among = random >> 61 == 0 ? (all < 1024 ? all : 1024) : all;
        volatile uint64_t* const place = &channel[(random >> 8) % among];
        switch (random & 3) {
        case 0: *place = random * 0xbf58476d1ce4e5b9u; break;
        case 1: *place ^= (uint64_t)1 << (random >> 2 & 63); break;
        case 2: *place = random & 4 ? 0 : UINT64_MAX; break;
        default: *place += random & 0xfff; break;
        }
        if (turn % 64 == 0) usleep(200);
    }
}
"""
ORDER = re.compile(r"shop:order: .*writer = (\d+), number = (\d+) \}")


def plumb(*words, statuses=(0,)):
    done = subprocess.run([PLUMB, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in statuses, (words, done.returncode, done.stdout, done.stderr)
    return done


class Scribbler(TracedProgramTest):
    # `program FILE`: each thread numbers its events until SIGTERM; the file has its process id, and at the end how many there were.
    PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
PLUMB_EVENT(shop, order, (u32, writer), (u64, number))
static volatile sig_atomic_t over;
static unsigned long numbers[4];
static void end(int number) { (void)number; over = 1; }
static void* work(void* argument) {
    const unsigned writer = (unsigned)(unsigned long)argument;
    unsigned long number = 0;
    while (!over) {
        for (int i = 0; i < 20; i++) plumb_trace(shop, order, writer, number++);
        usleep(1000);
    }
    numbers[writer] = number;
    return NULL;
}
int main(int count, char** words) {
    FILE* const file = count > 1 ? fopen(words[1], "w") : NULL;
    pthread_t threads[4];
    if (!file) return 1;
    signal(SIGTERM, end);
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void*)i);
    fprintf(file, "%d\n", (int)getpid());
    fflush(file);
    for (long i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (long i = 0; i < 4; i++) fprintf(file, "%lu\n", numbers[i]);
    return fclose(file);
}
"""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.scribbler = cls.folder / "scribbler"
        source = cls.folder / "scribbler.c"
        source.write_text(SCRIBBLER)
        subprocess.run(["cc", "-O2", source, "-o", cls.scribbler], check=True)

    def setUp(self):
        super().setUp()
        self.addCleanup(plumb, "destroy", "--all")

    def start(self, *words, **more):
        process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True, **more)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def create(self, name, *options):
        """Its trace, and its channel."""
        before = set(FOLDER.parent.glob("channel-*"))
        trace = self.folder / f"{self.id().split('.')[-1]}-{name}"
        plumb("create", name, "-o", trace, *options)
        plumb("enable", name, "shop:order")
        plumb("start", name)
        [channel] = set(FOLDER.parent.glob("channel-*")) - before
        self.addCleanup(shutil.rmtree, trace, ignore_errors=True)
        return trace, channel

    def scribble(self, *options):
        sound, _ = self.create("sound", "--mode", "block", "--subbuf-size", "256K")
        torn, channel = self.create("torn", *options)
        supervisor = ask(b'{"command":"version"}')["pid"]
        workers = {name: self.status(name)["worker_pid"] for name in ("sound", "torn")}
        report = self.folder / "report"
        report.unlink(missing_ok=True)
        stat = self.start(PLUMB, "stat", "--json", "--by", "writer", "--", self.program, report, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 30
        while not report.exists() or not report.read_text().endswith("\n"):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        program = int(report.read_text())
        scribbler = self.start(self.scribbler, channel, SEED)
        time.sleep(SECONDS)
        self.assertIsNone(scribbler.poll())
        self.assertIsNone(stat.poll(), "the program, or what counts it, has ended")
        os.kill(program, signal.SIGTERM)
        counted, _ = stat.communicate(timeout=60)
        self.assertEqual(stat.returncode, 0)
        scribbler.kill()
        written = [int(line) for line in report.read_text().split()[1:]]
        # The daemon, and what is beside the damage.
        self.assertEqual(ask(b'{"command":"version"}')["pid"], supervisor)
        self.assertEqual(self.status("sound")["worker_pid"], workers["sound"])
        plumb("destroy", "sound")
        done = subprocess.run(["babeltrace2", sound], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        orders = [[] for _ in range(THREADS)]
        for writer, number in ORDER.findall(done.stdout):
            orders[int(writer)].append(int(number))
        for writer, count in enumerate(written):
            self.assertEqual(sorted(orders[writer]), list(range(count)), writer)
        self.check_counted(json.loads(counted.splitlines()[-1]), written)
        return torn, workers["torn"]

    def check_counted(self, counted, written):
        self.assertEqual((counted["damaged_slots"], counted["not_counted"], counted["problems"]), (0, 0, []))
        [event] = counted["events"]
        self.assertEqual((event["event"], event["count"]), ("shop:order", sum(written)))
        self.assertEqual({key["key"]: key["count"] for key in event["keys"]}, dict(enumerate(written)))

    def status(self, name):
        return json.loads(plumb("status", "--json", name).stdout)

    def test_one_torn_session_is_torn_alone(self):
        torn, worker = self.scribble("--mode", "discard")
        status = self.status("torn")
        self.assertEqual(status["worker_pid"], worker)
        self.assertEqual(status["worker_restarts"], 0)
        self.assertIn("wrote over the session's channel", " ".join(status["problems"]))
        self.assertIn("wrote over the session's channel", plumb("status", "torn").stdout)
        self.check_believable(status)
        plumb("destroy", "torn", statuses=(0, 1))
        [summary] = [json.loads(path.read_text()) for path in torn.rglob("summary.json")]
        self.assertGreater(sum(count for what, count in summary["notes"].items() if what.startswith("damaged_")), 0)
        self.assertGreater(summary["notes"]["damaged_header"], 0)
        self.check_believable(summary)
        done = subprocess.run(["babeltrace2", torn], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])

    def check_believable(self, told):
        """No number of what is missing is one that a scribbler made up."""
        for what in ("events_lost_by_cause", "lost_by_cause", "missed", "not_switched_on", "not_described"):
            for name, count in told.get(what, {}).items():
                self.assertLess(count, 1 << 50, (what, name))
        for what in ("events_lost", "events_cut", "subbufs_lost"):
            self.assertLess(told.get(what, 0), 1 << 50, what)


if __name__ == "__main__":
    unittest.main()
