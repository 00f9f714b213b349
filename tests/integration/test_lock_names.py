#!/usr/bin/env python3
"""Locks have names: those in .bss, where most PTHREAD_MUTEX_INITIALIZER locks are, and those of libraries that a
program loads later and that know nothing of tracing."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB, leave_out_if_sanitized  # noqa: E402

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
int main(int count, char **arguments) {
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
        rows = subprocess.run([PLUMB, "contention", "-n", "0", "--json", trace], check=True, capture_output=True,
                              text=True).stdout.splitlines()
        return {json.loads(row)["name"] for row in rows}

    def test_at_an_ordinary_end_the_program_says_what_it_loaded(self):
        names = self.names("ordinary")
        self.assertIn("program_lock", names)
        self.assertIn("plugin_lock", names)

    def test_the_recorder_finds_what_a_running_program_loaded(self):
        self.assertIn("plugin_lock", self.names("sudden", "_exit"))


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
