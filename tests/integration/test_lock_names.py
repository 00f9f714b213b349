#!/usr/bin/env python3
"""Locks have names: those in .bss, where most PTHREAD_MUTEX_INITIALIZER locks are, and those of libraries that a
program loads later and that know nothing of tracing."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB, PROBE, leave_out_if_sanitized  # noqa: E402

# One thread holds the lock until another waits for it.
USE = r"""
#include <pthread.h>
#include <unistd.h>
static char filler[%(filler)d]; /* so that .bss has pages of its own */
static pthread_mutex_t %(name)s = PTHREAD_MUTEX_INITIALIZER;
static void *wait_for_it(void *unused) {
    (void)unused;
    pthread_mutex_lock(&%(name)s);
    filler[0]++;
    pthread_mutex_unlock(&%(name)s);
    return 0;
}
void use_%(name)s(void) {
    pthread_t other;
    pthread_mutex_lock(&%(name)s);
    pthread_create(&other, 0, wait_for_it, 0);
    usleep(50000);
    pthread_mutex_unlock(&%(name)s);
    pthread_join(other, 0);
}
"""
MAIN = r"""
#include <dlfcn.h>
#include <stdlib.h>
static void *use_again_and_again(void *unused) {
    for (int i = 0; i < 200; i++)
        use_program_lock();
    _exit(0);
    return unused;
}
int main(int count, char **arguments) {
    if (count == 1) { /* the first thread ends */
        pthread_t other;
        pthread_create(&other, 0, use_again_and_again, 0);
        pthread_exit(0);
    }
    use_program_lock();
    void *plugin = dlopen(arguments[1], RTLD_NOW);
    void (*use)(void) = plugin ? (void (*)(void))dlsym(plugin, "use_plugin_lock") : 0;
    if (use == 0) return 1;
    use();
    if (count > 2) {
        sleep(2);
        _exit(0);
    }
    return 0;
}
"""


class LockNames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="plumb-lock-names-")
        cls.directory = pathlib.Path(cls.scratch.name)
        compiler = os.environ.get("CC", "cc")
        (cls.directory / "plugin.c").write_text(USE % {"name": "plugin_lock", "filler": 200000})
        (cls.directory / "program.c").write_text(USE % {"name": "program_lock", "filler": 200000} + MAIN)
        subprocess.run([compiler, "-g", "-shared", "-fPIC", "-pthread", "plugin.c", "-o", "plugin.so"],
                       cwd=cls.directory, check=True)
        subprocess.run([compiler, "-g", "-pthread", "program.c", "-o", "program", "-ldl"], cwd=cls.directory, check=True)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def names(self, trace, *arguments):
        trace = self.directory / trace
        subprocess.run([PLUMB, "record", "--preload", "pthread", "-o", trace, "--", self.directory / "program",
                        self.directory / "plugin.so", *arguments], check=True, capture_output=True, timeout=60)
        return self.names_in(trace)

    @staticmethod
    def names_in(trace):
        rows = subprocess.run([PLUMB, "contention", "-n", "0", "--json", trace], check=True, capture_output=True,
                              text=True).stdout.splitlines()
        return {json.loads(row)["name"] for row in rows}

    def test_at_an_ordinary_end_the_program_says_what_it_loaded(self):
        names = self.names("ordinary")
        self.assertIn("program_lock", names)
        self.assertIn("plugin_lock", names)

    def test_the_recorder_finds_what_a_running_program_loaded(self):
        self.assertIn("plugin_lock", self.names("sudden", "_exit"))

    def test_a_program_whose_first_thread_has_ended_says_what_it_loaded(self):
        trace = self.directory / "left"
        with subprocess.Popen([self.directory / "program"], env=dict(os.environ, LD_PRELOAD=str(PROBE))) as program:
            status = pathlib.Path(f"/proc/{program.pid}/stat")
            while ") Z " not in status.read_text():
                time.sleep(0.01)
            subprocess.run([PLUMB, "record", "-o", trace, "-p", str(program.pid), "--duration", "0.5s"], check=True,
                           capture_output=True, timeout=60)
            program.kill()
        self.assertIn("program_lock", self.names_in(trace))


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
