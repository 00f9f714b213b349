#!/usr/bin/env python3
# cmake-timeout: 120
"""One ring for all CPUs (--buffers global): exact however many threads, processes and handlers write to it, whoever is killed while
he has it; it takes a fraction of the memory; a session of plumb-consumerd has it, too, and goes on with it behind a kill."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from collections import defaultdict
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
sys.path.insert(0, str(SOURCE / "tests/support"))
from babeltrace import events  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

THREADS = 6

# `program COUNT`: so many events of each thread, and of a handler that comes again and again; says how many each wrote. With COUNT
# 0, until it is ended. A child of fork does the same.
PROGRAM = r"""
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
PLUMB_EVENT(shop, order, (i32, pid), (u32, writer), (u64, number))
static unsigned long count, in_handler;
static void handler(int number) {
    (void)number;
    const unsigned long mine = __atomic_fetch_add(&in_handler, 1, __ATOMIC_RELAXED); /* of several threads at once */
    plumb_trace(shop, order, getpid(), 99, mine);
}
static void* work(void* argument) {
    const unsigned writer = (unsigned)(unsigned long)argument;
    const int pid = getpid();
    for (unsigned long number = 0; count == 0 || number < count; number++) plumb_trace(shop, order, pid, writer, number);
    return NULL;
}
int main(int argc, char** words) {
    (void)argc;
    pthread_t threads[6];
    count = strtoul(words[1], NULL, 10);
    const pid_t child = fork();
    if (count != 0) {
        signal(SIGALRM, handler);
        const struct itimerval every = {{0, 700}, {0, 700}};
        setitimer(ITIMER_REAL, &every, NULL);
    }
    for (long i = 0; i < 6; i++) pthread_create(&threads[i], NULL, work, (void*)i);
    for (long i = 0; i < 6; i++) pthread_join(threads[i], NULL);
    const struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    if (child != 0) while (waitpid(child, NULL, 0) < 0) {}
    printf("%d %lu\n", getpid(), in_handler);
    return 0;
}
"""


class Buffers(TracedProgramTest):
    PROGRAM = PROGRAM

    def plumb(self, *words, status=0, timeout=90):
        done = subprocess.run([BUILD / "cli/plumb", *map(str, words)], capture_output=True, text=True, timeout=timeout, check=False)
        self.assertEqual(done.returncode, status, (words, done.stdout, done.stderr))
        return done

    def numbers(self):
        """Of each process and writer, in order of time."""
        found = defaultdict(list)
        for event in events(self.trace):
            if event.name == "shop:order":
                found[event.fields["pid"], event.fields["writer"]].append(event.fields["number"])
        return found

    def assert_whole(self, said, count):
        found = self.numbers()
        for line in said.split("\n")[:2]:
            pid, in_handler = map(int, line.split())
            for writer in range(THREADS):
                self.assertEqual(found.pop((pid, writer)), list(range(count)))
            self.assertEqual(sorted(found.pop((pid, 99), [])), list(range(in_handler)))
            self.assertGreater(in_handler, 3)
        self.assertEqual(dict(found), {})

    def test_everything_of_all_in_one_ring(self):
        count = 4000
        done = self.plumb("record", "-q", "--buffers", "global", "--mode", "block", "--block-timeout", "30s", "-o", self.trace, "--",
                          self.program, count)
        self.assert_whole(done.stdout, count)
        streams = [path for path in (self.trace / "ust").iterdir() if path.name not in ("metadata", "statedump")]
        self.assertEqual(len(streams), 1, streams)
        summary = json.loads((self.trace / "summary.json").read_text())
        self.assertEqual(summary["lost"] if "lost" in summary else summary.get("events_lost", 0), 0)

    def test_who_is_killed_with_the_ring_in_his_hands_keeps_it_from_nobody(self):
        recorder = subprocess.Popen([BUILD / "cli/plumb", "record", "-q", "--buffers", "global", "-o", self.trace, "--exe", "program"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(0.5)
        for _ in range(20):
            program = subprocess.Popen([self.program, "0"], stdout=subprocess.DEVNULL, start_new_session=True)
            time.sleep(0.03)
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
        count = 300
        done = subprocess.run([self.program, str(count)], capture_output=True, text=True, check=True, timeout=60)
        recorder.send_signal(signal.SIGINT)
        said = recorder.communicate(timeout=60)[1]
        self.assertEqual(recorder.returncode, 0, said)
        found = self.numbers()
        for line in done.stdout.split("\n")[:2]:
            pid = int(line.split()[0])
            for writer in range(THREADS):
                self.assertEqual(found[pid, writer], list(range(count)))

    def test_it_takes_little_memory(self):
        self.addCleanup(self.plumb, "destroy", "--all")
        for buffers in ("cpu", "global"):
            self.plumb("create", buffers, "-o", f"{self.trace}-{buffers}", "--buffers", buffers, "--subbuf-size", "64K", "--subbuf-count", 8)
        memory = {name: json.loads(self.plumb("status", name, "--json").stdout)["buffers"] for name in ("cpu", "global")}
        self.assertEqual(memory["global"]["rings"], 1)
        self.assertGreaterEqual(memory["cpu"]["rings"], os.cpu_count() + 4)
        self.assertEqual(json.loads(self.plumb("save", "global").stdout)["buffers"], "global")

    def worker(self):
        return json.loads(self.plumb("status", "one", "--json").stdout)["worker_pid"]

    def test_behind_a_kill(self):
        self.addCleanup(self.plumb, "destroy", "--all")
        self.plumb("create", "one", "-o", self.trace, "--buffers", "global", "--mode", "block", "--block-timeout", "30s")
        self.plumb("enable", "one", "shop:*")
        self.plumb("start", "one")
        count = 20000
        program = subprocess.Popen([self.program, str(count)], stdout=subprocess.PIPE, text=True)
        for _ in range(3):
            time.sleep(0.15)
            worker = self.worker()
            os.kill(worker, signal.SIGKILL)
            while self.worker() == worker:
                time.sleep(0.01)
        said = program.communicate(timeout=60)[0]
        self.plumb("destroy", "one")
        self.assert_whole(said, count)

    def test_other_words_are_refused(self):
        self.assertIn("--buffers", self.plumb("record", "--buffers", "many", "--", "true", status=2).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
