#!/usr/bin/env python3
"""plumb contention says of locks that are used in unusual ways what the program did: the times come from a clock of its
own, which only has to be within a wide margin."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB, leave_out_if_sanitized  # noqa: E402

PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
enum { ms = 1000 };
pthread_mutex_t checked, robust, recursive;
pthread_mutex_t handed = PTHREAD_MUTEX_INITIALIZER, forked = PTHREAD_MUTEX_INITIALIZER, timed = PTHREAD_MUTEX_INITIALIZER;

static void make(pthread_mutex_t *mutex, int type, int robustness) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, type);
    pthread_mutexattr_setrobust(&attributes, robustness);
    pthread_mutex_init(mutex, &attributes);
}
static void *release_checked(void *unused) {
    for (int i = 0; i < 1000; i++) pthread_mutex_unlock(&checked);
    return unused;
}
static void *release_handed(void *unused) {
    pthread_mutex_unlock(&handed);
    return unused;
}
static void *try_timed(void *unused) {
    struct timespec when;
    clock_gettime(CLOCK_REALTIME, &when);
    when.tv_nsec += 50 * 1000 * 1000;
    if (when.tv_nsec >= 1000000000) when.tv_nsec -= 1000000000, when.tv_sec++;
    pthread_mutex_timedlock(&timed, &when);
    return unused;
}
static void in_thread(void *(*work)(void *)) {
    pthread_t other;
    pthread_create(&other, 0, work, 0);
    pthread_join(other, 0);
}

int main(void) {
    make(&checked, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED);
    make(&robust, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST);
    make(&recursive, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED);
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&robust);
        pthread_mutex_unlock(&robust);
    }
    pthread_mutex_lock(&checked);
    usleep(50 * ms);
    in_thread(release_checked);
    usleep(50 * ms);
    for (int i = 0; i < 11; i++) pthread_mutex_unlock(&checked); /* only the first is allowed */
    for (int i = 0; i < 5; i++) {
        for (int depth = 0; depth < 10; depth++) pthread_mutex_lock(&recursive);
        usleep(10 * ms);
        for (int depth = 0; depth < 10; depth++) pthread_mutex_unlock(&recursive);
    }
    for (int i = 0; i < 5; i++) {
        pthread_mutex_lock(&handed);
        usleep(10 * ms);
        in_thread(release_handed);
    }
    pthread_mutex_lock(&forked);
    if (fork() == 0) {
        pthread_mutex_unlock(&forked);
        pthread_mutex_lock(&forked);
        usleep(10 * ms);
        pthread_mutex_unlock(&forked);
        _exit(0);
    }
    wait(0);
    pthread_mutex_unlock(&forked);
    pthread_mutex_lock(&timed);
    in_thread(try_timed);
    pthread_mutex_unlock(&timed);
    return 0;
}
"""


class Contention(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="plumb-contention-")
        cls.addClassCleanup(cls.scratch.cleanup)
        directory = pathlib.Path(cls.scratch.name)
        (directory / "program.c").write_text(PROGRAM)
        subprocess.run([os.environ.get("CC", "cc"), "-g", "-pthread", "program.c", "-o", "program"], cwd=directory, check=True)
        subprocess.run([PLUMB, "record", "-q", "--preload", "pthread", "-o", directory / "trace", "--", directory / "program"],
                       check=True, timeout=60)
        done = subprocess.run([PLUMB, "contention", "-n", "0", "--json", directory / "trace"], check=True,
                              capture_output=True, text=True, timeout=60)
        cls.rows = [json.loads(line) for line in done.stdout.splitlines()]
        cls.warnings = done.stderr

    def rows_of(self, name):
        return [row for row in self.rows if row["name"] == name]

    def assert_held(self, row, count, milliseconds):
        self.assertEqual(row["held"], count, row)
        self.assertGreaterEqual(row["held_ns"], count * milliseconds * 1_000_000)
        self.assertLess(row["held_ns"], count * (milliseconds + 500) * 1_000_000)

    def test_refused_unlocks_are_no_releases(self):
        row, = self.rows_of("checked")
        self.assertEqual(row["released"], 1)
        self.assert_held(row, 1, 100)

    def test_a_robust_mutex_that_nobody_else_takes_is_not_waited_for(self):
        row, = self.rows_of("robust")
        self.assertEqual((row["acquired"], row["contended"], row["waited_ns"]), (1000, 0, 0))

    def test_a_recursive_mutex_is_held_once(self):
        self.assert_held(self.rows_of("recursive")[0], 5, 10)

    def test_a_mutex_may_be_released_by_another_thread(self):
        row, = self.rows_of("handed")
        self.assert_held(row, 5, 10)
        self.assertGreaterEqual(row["max_held_ns"], 10_000_000)

    def test_what_a_child_inherited_is_no_hold_of_its(self):
        parent, child = sorted(self.rows_of("forked"), key=lambda row: row["acquired"] - row["released"], reverse=True)
        self.assertEqual((child["acquired"], child["released"]), (1, 2))
        for row in (parent, child):
            self.assert_held(row, 1, 10)

    def test_waiting_in_vain_is_waiting(self):
        row, = self.rows_of("timed")
        self.assertEqual((row["acquired"], row["contended"], row["in_vain"]), (1, 1, 1))
        self.assertGreater(row["waited_ns"], 40_000_000)
        self.assertIn("try_timed", row["waited_for_in"])

    def test_nothing_is_left_out(self):
        self.assertEqual(self.warnings, "")


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
