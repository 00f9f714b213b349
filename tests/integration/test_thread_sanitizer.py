#!/usr/bin/env python3
# cmake-once
"""Programs that are built with ThreadSanitizer, recorded: the same output and exit status as without, and what they leave is whole."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from recorded_program import BUILD, PLUMB, is_sanitized  # noqa: E402

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
OBJECTS = [BUILD / "tp-async/CMakeFiles/tp-async.dir/tp-async.cc.o", BUILD / "libtrace/libplumb.a"]

# Strings that need a scratch buffer, of which threads have few between them.
EVENTS = r"""
#include <plumb/tracepoint.h>
#include <pthread.h>
PLUMB_EVENT(sanitized, both, (u64, number), (string, text), (u32, thread))
static char text[400];
static void* trace(void* argument) {
    for (unsigned i = 0; i < 20000; i++)
        plumb_trace(sanitized, both, i, text + 399 - i * 7 % 300, (unsigned)(long)argument);
    return NULL;
}
int main(void) {
    pthread_t threads[3];
    __builtin_memset(text, 'x', 399);
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], NULL, trace, (void*)i);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    return 0;
}
"""

# libtsan has functions of conditions without a version, so the program asks for none.
CONDITIONS = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition;
static int ready;
static void* wake(void* unused) {
    usleep(100000);
    pthread_mutex_lock(&mutex);
    ready = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    return unused;
}
static struct timespec in_seconds(int seconds) {
    struct timespec when;
    clock_gettime(CLOCK_MONOTONIC, &when);
    when.tv_sec += seconds;
    return when;
}
int main(void) {
    pthread_t thread;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&condition, &attributes);
    const struct timespec before = in_seconds(0), soon = in_seconds(1), later = in_seconds(20);
    pthread_mutex_lock(&mutex);
    const int timed_out = pthread_cond_timedwait(&condition, &mutex, &soon);
    const struct timespec behind = in_seconds(0);
    pthread_mutex_unlock(&mutex);
    printf("%s, %s\n", strerrorname_np(timed_out), behind.tv_sec > before.tv_sec ? "not at once" : "at once");
    pthread_create(&thread, NULL, wake, NULL);
    pthread_mutex_lock(&mutex);
    int result = 0;
    while (!ready && result == 0) result = pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &later);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    printf("%s\n", result == 0 ? "signalled" : strerrorname_np(result));
    return 0;
}
"""

# Taken in both orders, by one thread.
INVERTED = r"""
#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t mutex[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_rwlock_t rwlock[2] = {PTHREAD_RWLOCK_INITIALIZER, PTHREAD_RWLOCK_INITIALIZER};
int main(void) {
    for (int i = 0; i < 2; i++) {
        pthread_mutex_lock(&mutex[i]);
        pthread_mutex_lock(&mutex[!i]);
        pthread_mutex_unlock(&mutex[!i]);
        pthread_mutex_unlock(&mutex[i]);
        pthread_rwlock_wrlock(&rwlock[i]);
        pthread_rwlock_rdlock(&rwlock[!i]);
        pthread_rwlock_unlock(&rwlock[!i]);
        pthread_rwlock_unlock(&rwlock[i]);
    }
    return 0;
}
"""

# A string that another thread writes.
RACE = r"""
#include <plumb/tracepoint.h>
#include <pthread.h>
PLUMB_EVENT(sanitized, racing, (string, text))
static char text[40];
static pthread_barrier_t begin;
static void* write_there(void* unused) {
    pthread_barrier_wait(&begin);
    for (int i = 0; i < 20000; i++) text[5] = 'a' + i % 26;
    return unused;
}
int main(void) {
    pthread_t thread;
    __builtin_memset(text, 'x', 39);
    pthread_barrier_init(&begin, NULL, 2);
    pthread_create(&thread, NULL, write_there, NULL);
    pthread_barrier_wait(&begin);
    for (int i = 0; i < 20000; i++) plumb_trace(sanitized, racing, text);
    pthread_join(thread, NULL);
    return 0;
}
"""

# Plug-ins, each loaded by a thread of its own, one behind the other: what puts them in order is in the runtime.
PLUGIN = r"""
#include <plumb/tracepoint.h>
PLUMB_EVENT(NAME, one, (int, number), (string, text))
PLUMB_EVENT(NAME, two, (int, number), (string, text))
void trace(void) {
    plumb_trace(NAME, one, 1, "x");
    plumb_trace(NAME, two, 1, "x");
}
"""
LOADER = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>
static int turn;
static void* load(void* path) {
    usleep(100000 * (unsigned)__atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED));
    void (*trace)(void) = (void (*)(void))dlsym(dlopen(path, RTLD_NOW), "trace");
    trace();
    usleep(500000);
    return NULL;
}
int main(int count, char** paths) {
    pthread_t threads[3];
    for (int i = 0; i < count - 1; i++) pthread_create(&threads[i], NULL, load, paths[i + 1]);
    for (int i = 0; i < count - 1; i++) pthread_join(threads[i], NULL);
    return 0;
}
"""


class ThreadSanitizer(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="plumb-tsan-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def build(self, source, *objects, name="program", compiler=("gcc",)):
        (self.directory / f"{name}.c").write_text(source)
        done = subprocess.run([*compiler, "-O1", "-g", "-fsanitize=thread", "-I", SOURCE / "include", f"{name}.c", "-x", "none", *objects, "-o", name, "-pthread"],
                              cwd=self.directory, capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return self.directory / name

    def record(self, program, *options):
        bare = subprocess.run([program], capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual((bare.returncode, bare.stderr), (0, ""))
        trace = self.directory / "trace"
        done = subprocess.run([PLUMB, "record", "-o", trace, "--mode", "block", *options, "--", program], capture_output=True,
                              text=True, timeout=100, check=False)
        self.assertNotIn("ThreadSanitizer", done.stderr)
        self.assertEqual((done.returncode, done.stdout), (0, bare.stdout), done.stderr)
        self.assertIn("Nothing was lost.", done.stderr)
        return done

    def test_events(self):
        done = self.record(self.build(EVENTS, *OBJECTS))
        self.assertIn("60,000  sanitized:both", done.stderr)

    def test_events_in_cpp(self):
        """Whose compiler knows functions of the sanitizer's by itself."""
        done = self.record(self.build(EVENTS, *OBJECTS, compiler=("g++", "-x", "c++")))
        self.assertIn("60,000  sanitized:both", done.stderr)

    def test_conditions(self):
        done = self.record(self.build(CONDITIONS), "--preload", "pthread")
        self.assertEqual(done.stdout, "ETIMEDOUT, not at once\nsignalled\n")
        self.assertRegex(done.stderr, r" 2  pthread:cond_wait_end")

    def reports(self, *words, **environment):
        done = subprocess.run(words, env=dict(os.environ, **environment), capture_output=True, text=True, timeout=100, check=False)
        return done.returncode, done.stderr.count("WARNING: ThreadSanitizer: lock-order-inversion"), done.stderr.count("WARNING: ThreadSanitizer: data race")

    def test_inverted_locks_are_reported_as_without(self):
        program, trace = self.build(INVERTED), self.directory / "trace"
        for words in ([program], [PLUMB, "record", "-o", trace, "--preload", "pthread", "--", program]):
            status, inversions, races = self.reports(*words)
            self.assertEqual((status, races), (66, 0))
            self.assertIn(inversions, (1, 2))  # it does not always tell of both, with us or without
        (self.directory / "known").write_text("deadlock:main\n")
        for words in ([program], [PLUMB, "record", "--force", "-o", trace, "--preload", "pthread", "--", program]):
            self.assertEqual(self.reports(*words, TSAN_OPTIONS=f"suppressions={self.directory}/known"), (0, 0, 0))

    def test_what_the_runtime_does_is_not(self):
        library = BUILD / "libtrace"
        for name in "abc":
            self.build(PLUGIN.replace("NAME", name), "-shared", "-fPIC", OBJECTS[0], f"-L{library}", "-lplumb", f"-Wl,-rpath,{library}", name=name)
        words = [self.build(LOADER), *(self.directory / name for name in "abc")]
        self.assertEqual(self.reports(*words), (0, 0, 0))
        self.assertEqual(self.reports(PLUMB, "record", "-o", self.directory / "trace", "--", *words), (0, 0, 0))

    def test_races_in_strings_are_reported(self):
        program, trace = self.build(RACE, *OBJECTS), self.directory / "trace"
        self.assertEqual(self.reports(program), (0, 0, 0))  # nothing is read
        status, _, races = self.reports(PLUMB, "record", "-o", trace, "--mode", "block", "--", program)
        self.assertEqual(status, 66)
        self.assertGreater(races, 0)


if __name__ == "__main__":
    if is_sanitized() or not shutil.which("gcc"):
        print("Plumb is built with a sanitizer itself, or there is no gcc")
        sys.exit(77)
    unittest.main()
