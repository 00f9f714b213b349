#!/usr/bin/env python3
"""A program with libplumb.a and a preloaded probe with libplumb.so has two runtimes: both listen, and both are recorded."""
import collections
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import babeltrace  # noqa: E402
import traced_program  # noqa: E402

PLUMB = traced_program.BUILD / "cli" / "plumb"
PROBE = traced_program.BUILD / "probes" / "pthread" / "libplumb-pthread.so"


class TwoRuntimes(traced_program.TracedProgramTest):
    PROGRAM = """
    #include <plumb/tracepoint.h>
    #include <pthread.h>
    #include <stdio.h>
    #include <unistd.h>
    PLUMB_EVENT(two, tick, (u64, count))
    int main(void) {
        static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        puts("ready");
        fflush(stdout);
        for (unsigned long i = 0;; i++) {
            pthread_mutex_lock(&mutex);
            plumb_trace(two, tick, i);
            pthread_mutex_unlock(&mutex);
            usleep(1000);
        }
    }
    """

    def test_both_are_attached_to_and_both_let_go(self):
        program = subprocess.Popen([self.program], env=dict(os.environ, LD_PRELOAD=str(PROBE)),
                                   stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(program.stdout.readline(), "ready\n")
            for round_number in range(2):
                trace = f"{self.trace}-{round_number}"
                done = subprocess.run([PLUMB, "record", "-p", str(program.pid), "--duration", "0.5", "-o", trace],
                                      capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                names = {event.name for event in babeltrace.events(trace)}
                self.assertIn("two:tick", names)
                self.assertIn("pthread:mutex_acquired", names)
                summary = json.loads(pathlib.Path(trace, "summary.json").read_text())
                self.assertEqual(summary["unreachable"], [])
        finally:
            program.kill()
            program.wait()


class Children(traced_program.TracedProgramTest):
    PROGRAM = """
    #include <plumb/tracepoint.h>
    #include <pthread.h>
    #include <stdio.h>
    #include <sys/wait.h>
    #include <unistd.h>
    PLUMB_EVENT(two, tick, (u64, count))
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static void lock(int times) {
        for (int i = 0; i < times; i++) {
            pthread_mutex_lock(&mutex);
            plumb_trace(two, tick, i);
            pthread_mutex_unlock(&mutex);
        }
    }
    int main(void) {
        lock(7);
        pid_t child = vfork();
        if (child == 0) {
            lock(1000);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        lock(11);
        printf("%d %d\\n", getpid(), child);
        return status != 0;
    }
    """

    def test_of_vfork_are_themselves_to_both(self):
        done = subprocess.run([PLUMB, "record", "-q", "--preload", "pthread", "--subbuf-size", "1M", "-o", self.trace, "--",
                               self.program], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        parent, child = map(int, done.stdout.split())
        written = collections.Counter()
        shown = subprocess.run([PLUMB, "view", "--json", self.trace], capture_output=True, text=True, timeout=60, check=True)
        for event in map(json.loads, shown.stdout.splitlines()):
            written[event["event"], event["tid"]] += 1
        for name in ("two:tick", "pthread:mutex_released"):
            self.assertEqual((written[name, parent], written[name, child]), (18, 1000), written)


if __name__ == "__main__":
    unittest.main()
