#!/usr/bin/env python3
# cmake-once
"""In a real memory cgroup, which all of a container lives in: default rings fit beside the program, nobody is killed for
them, and rings that do not fit are refused with the figures before any of them is reserved."""
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB, PROBE, RecordedProgramTest  # noqa: E402

LIMIT = 64 << 20


def make_cgroup():
    """A folder with the limit set, of version 1 or 2; None if it may not be made."""
    own = pathlib.Path("/proc/self/cgroup").read_text()
    found = re.search(r"^\d+:[^:]*\bmemory\b[^:]*:(.*)$", own, re.M)
    base = pathlib.Path("/sys/fs/cgroup/memory" + found.group(1)) if found else None
    name, value = "memory.limit_in_bytes", str(LIMIT)
    if base is None or not base.exists():
        base, name = pathlib.Path("/sys/fs/cgroup"), "memory.max"
    folder = base / f"plumb-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / name).write_text(value)
    except OSError:
        return None
    return folder


def setUpModule():
    global cgroup
    cgroup = make_cgroup()
    if cgroup is None:
        sys.exit(77)


def tearDownModule():
    for _ in range(50):
        try:
            cgroup.rmdir()
            return
        except OSError:
            time.sleep(0.1)


def enter():
    (cgroup / "cgroup.procs").write_text(str(os.getpid()))


class MemoryLimit(RecordedProgramTest):
    # Uses 24 MiB, which it keeps using, and locks.
    PROGRAM = r"""
#include <pthread.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    static char memory[24 << 20];
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    for (int turn = 0;; turn++) {
        memset(memory, turn, sizeof(memory));
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        usleep(1000);
    }
}
"""

    def plumb(self, *arguments, inside=True, preexec_fn=None):
        return subprocess.run([PLUMB, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False,
                              preexec_fn=preexec_fn or (enter if inside else None))

    def attach(self, inside):
        program = subprocess.Popen([self.program], env=dict(os.environ, LD_PRELOAD=str(PROBE)), preexec_fn=enter)
        try:
            time.sleep(0.5)
            done = self.plumb("record", "-o", self.trace, "-p", program.pid, "--duration", "1s", inside=inside)
            self.assertIsNone(program.poll(), "the program was killed")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("Nothing was lost", done.stderr)
        finally:
            program.send_signal(signal.SIGKILL)
            program.wait()

    def test_nobody_is_killed_for_the_default_rings(self):
        self.attach(inside=True)

    def test_the_limit_of_who_is_attached_to_is_heeded(self):
        self.attach(inside=False)
        summary = (self.trace / "summary.json").read_text()
        bytes_of = {key: int(re.search(rf'"{key}": (\d+)', summary).group(1)) for key in ("subbuf_bytes", "subbuf_count")}
        rings = os.sysconf("SC_NPROCESSORS_CONF") + max(4, min(16, os.sysconf("SC_NPROCESSORS_CONF")))
        self.assertLessEqual(bytes_of["subbuf_bytes"] * bytes_of["subbuf_count"] * rings, LIMIT // 4)

    def test_too_little_is_an_error_with_figures(self):
        done = self.plumb("record", "-o", self.trace, "--subbuf-size", "1M", "--subbuf-count", 64, "--", "true")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"Too little memory for the rings: [\d.]+ MiB are needed, [\d.]+ MiB are left of "
                                      rf"memory cgroup {cgroup} \(64.0 MiB\)")
        self.assertFalse(self.trace.exists())

    def test_doctor_shows_it(self):
        self.assertRegex(self.plumb("doctor").stdout, rf"memory +ok +[\d.]+ MiB may still be used of memory cgroup {cgroup}")

    def test_a_limit_of_file_sizes_is_heeded(self):
        def limited():
            resource.setrlimit(resource.RLIMIT_FSIZE, (12 << 20, 12 << 20))
        done = self.plumb("record", "-o", self.trace, "--", "timeout", "9", "true", preexec_fn=limited)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.plumb("record", "-o", self.trace, "--force", "--subbuf-size", "1M", "--", "true", preexec_fn=limited)
        self.assertEqual(done.returncode, 1)
        self.assertIn("are left of RLIMIT_FSIZE (`ulimit -f`)", done.stderr)

    def test_what_it_says_is_needed_of_a_file_is_enough(self):
        def with_limit(limit):
            least = ("--subbuf-size", "4K", "--subbuf-count", "2", "--", "timeout", "9", "true")
            return self.plumb("record", "-o", self.trace, "--force", *least,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        needed = re.search(r"([\d.]+) MiB are needed", with_limit(1 << 20).stderr)
        self.assertEqual(with_limit(int((float(needed.group(1)) + 0.1) * (1 << 20))).returncode, 0)
        self.assertEqual(with_limit(int((float(needed.group(1)) - 0.1) * (1 << 20))).returncode, 1)


if __name__ == "__main__":
    unittest.main()
