#!/usr/bin/env python3
# cmake-timeout: 600
"""The pthread probe: a program behaves as without it, and the trace says exactly what it locked."""
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import babeltrace  # noqa: E402
import memcached_client  # noqa: E402

BUILD = pathlib.Path(os.environ["PLUMB_BUILD_DIR"])
PLUMB = BUILD / "cli" / "plumb"
PROBE = BUILD / "probes" / "pthread" / "libplumb-pthread.so"
PROGRAMS = BUILD / "probes" / "pthread" / "tests"
SOURCES = pathlib.Path(os.environ["PLUMB_SOURCE_DIR"]) / "probes" / "pthread" / "tests"
JEMALLOC = pathlib.Path("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2")
TCMALLOC = pathlib.Path("/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4")
# Enough that nothing is discarded on a busy machine.
BUFFERS = ["--subbuf-size", "1M", "--subbuf-count", "16"]


def run(command, preload=(), timeout=120, **environment):
    variables = dict(os.environ, **environment)
    if preload:
        variables["LD_PRELOAD"] = ":".join(map(str, preload))
    done = subprocess.run(list(map(str, command)), env=variables, capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stdout, done.stderr


def preload_off(command, also=(), **options):
    """The probe is in the process, and its events are off."""
    return run(command, preload=[PROBE, *also], **options)


class Recorded:
    """A program run under `plumb record` with every pthread event on."""

    def __init__(self, command, also=(), options=(), timeout=120, asan_options=None):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="plumb-pthread-"))
        self.trace = self.directory / "trace"
        if also:
            command = ["env", "LD_PRELOAD=" + ":".join(map(str, [PROBE, *also])), *command]
        self.status, self.output, self.errors = run(
            [PLUMB, "record", "--preload", "pthread", *BUFFERS, *options, "-o", self.trace, "--", *command],
            timeout=timeout, **({} if asan_options is None else {"ASAN_OPTIONS": asan_options}))

    def events(self):
        return babeltrace.events(self.trace)

    def summary(self):
        return json.loads((self.trace / "summary.json").read_text())

    def close(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def program_lines(output):
    """What the program printed, without what `plumb record` adds."""
    return [line for line in output.splitlines()
            if re.match(r"(mutex|rwlock|spin|cond|barrier) 0x|[\w ,-]+: .* = ", line)]


class SameResults(unittest.TestCase):
    """Every call on every kind of lock returns the same bare, preloaded and off, preloaded and on."""

    def check(self, name):
        program = PROGRAMS / name
        bare = run([program])
        self.assertEqual(bare[0], 0, bare)
        self.assertGreater(len(bare[1].splitlines()), 50)
        self.assertEqual(preload_off([program]), bare)
        with Recorded([program]) as recorded:
            self.assertEqual(recorded.status, 0, recorded.errors)
            self.assertEqual(program_lines(recorded.output), program_lines(bare[1]))
            self.assertEqual(sum(1 for event in recorded.events() if event.name.startswith("pthread:")),
                             recorded.summary()["events"])

    def test_mutexes(self):
        self.check("same_mutex")

    def test_conditions(self):
        self.check("same_condition")

    def test_conditions_of_old_binaries(self):
        if not (PROGRAMS / "same_condition_old").exists():
            self.skipTest("this architecture has one version of the condition functions")
        self.check("same_condition_old")

    def test_rwlocks_spin_locks_barriers(self):
        self.check("same_other")


class Tally:
    """Counts of a trace by object, and what breaks the promises of probes/pthread/events.h."""

    def __init__(self, events):
        self.counts = collections.Counter()
        self.broken = []
        self.held = {}
        self.depth = collections.Counter()
        self.waiting = {}
        self.waited = collections.Counter()
        for event in events:
            provider, _, name = event.name.partition(":")
            if provider == "pthread":
                self.add(name, event.fields)

    def add(self, name, fields):
        kind, _, what = name.partition("_")
        address = fields.get(kind)
        thread = fields.get("tid", fields.get("thread_id", fields.get("vtid")))
        self.counts[address, kind, what] += 1
        if kind in ("mutex", "spin"):
            self.follow(kind, what, address, thread, fields)

    def follow(self, kind, what, address, thread, fields):
        if what == "wait":
            if thread in self.waiting:
                self.broken.append(f"thread {thread} waits twice")
            self.waiting[thread] = address
        elif what in ("acquired", "lock_failed"):
            was_waiting = self.waiting.pop(thread, None)
            if was_waiting not in (None, address):
                self.broken.append(f"thread {thread} waited for {was_waiting:#x} and got {address:#x}")
            if kind == "mutex" and (was_waiting is None) != (fields["waited_ns"] == 0):
                self.broken.append(f"mutex {address:#x}: waited {fields['waited_ns']} ns, wait seen: {was_waiting}")
            self.waited[address] += fields["waited_ns"]
        if what == "acquired":
            if self.depth[address] and self.held.get(address) != thread:
                self.broken.append(f"{kind} {address:#x}: {thread} acquired it while {self.held[address]} held it")
            self.held[address] = thread
            self.depth[address] += 1
        elif what == "released":
            if self.held.get(address) != thread or not self.depth[address]:
                self.broken.append(f"{kind} {address:#x}: {thread} released what it did not hold")
            self.depth[address] -= 1


def expected_counts(output):
    """Lines of the counting programs -> {(address, kind, event): count}"""
    renamed = {("cond", "begin"): "wait_begin", ("cond", "end"): "wait_end",
               ("barrier", "begin"): "wait_begin", ("barrier", "end"): "wait_end"}
    counts = {}
    for line in program_lines(output):
        kind, address, _, *values = line.split()
        for value in values:
            what, _, number = value.partition("=")
            if what != "serial":
                counts[int(address, 16), kind, renamed.get((kind, what), what)] = int(number)
    return counts


def address_of(output, name):
    return next(int(line.split()[1], 16) for line in program_lines(output) if line.split()[2] == name)


class Counts(unittest.TestCase):
    """The trace has as many events of each kind as the program counted itself."""

    def check(self, name, also=()):
        with Recorded([PROGRAMS / name], also=also) as recorded:
            self.assertEqual(recorded.status, 0, recorded.errors)
            wanted = expected_counts(recorded.output)
            self.assertGreater(len(wanted), 10, recorded.output)
            self.assertEqual(recorded.summary()["events_lost"], 0)
            tally = Tally(recorded.events())
            got = {key: tally.counts[key] for key in wanted}
            self.assertEqual(got, wanted)
            self.assertEqual(tally.broken[:5], [])
            return tally, recorded.output

    def test_in_c(self):
        tally, output = self.check("count_locks")
        for name in ("early", "in_child", "after_main"):
            address = address_of(output, name)
            kinds = {what for (at, _, what) in tally.counts if at == address}
            self.assertEqual(kinds, {"acquired", "released"}, f"{name}: no other thread wants it")
        busy = address_of(output, "busy")
        self.assertGreater(tally.counts[busy, "mutex", "wait"], 0)
        self.assertGreater(tally.waited[busy], 1000000, "threads sleep with it held, so somebody waits")

    def test_in_cpp(self):
        self.check("count_cpp")

    def test_with_an_allocator_that_locks(self):
        self.check("count_locks", also=[PROGRAMS / "locking_malloc.so"])


class Wrappers(unittest.TestCase):
    """What is preloaded behind the probe stays in use, however it is linked."""

    WRAPPER = r"""
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <pthread.h>
        #include <stdio.h>
        static long count;
        static int counted(pthread_mutex_t* mutex) {
            static int (*next)(pthread_mutex_t*);
            if (!next) *(void**)&next = dlsym(RTLD_NEXT, "pthread_mutex_lock");
            __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
            return next(mutex);
        }
        #ifdef CHOSEN
        static void* choose(void) { return (void*)counted; }
        int pthread_mutex_lock(pthread_mutex_t* mutex) __attribute__((ifunc("choose")));
        #else
        int pthread_mutex_lock(pthread_mutex_t* mutex) { return counted(mutex); }
        #endif
        __attribute__((destructor)) static void end(void) { printf("locked %ld\n", count); }"""
    PROGRAM = """
        #include <pthread.h>
        int main(void) {
            pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
            for (int i = 0; i < 50; i++) { pthread_mutex_lock(&mutex); pthread_mutex_unlock(&mutex); }
            return 0;
        }"""

    def test_however_they_are_linked(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-wrapper-"))
        self.addCleanup(shutil.rmtree, folder)
        subprocess.run(["gcc", "-x", "c", "-", "-o", folder / "main"], input=self.PROGRAM, text=True, check=True)
        (folder / "versions").write_text("WRAPPER_1 { pthread_mutex_lock; };")
        for options in ([], ["-Wl,--hash-style=sysv"], ["-Wl,--hash-style=gnu"], ["-DCHOSEN"],
                        [f"-Wl,--version-script={folder}/versions"]):
            subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", folder / "wrapper.so", *options],
                           input=self.WRAPPER, text=True, check=True)
            self.assertEqual(preload_off([folder / "main"], also=[folder / "wrapper.so"])[:2], (0, "locked 50\n"), options)


class Constructors(unittest.TestCase):
    """The loader begins with the libraries of a program and ends with what was preloaded into it: what their constructors lock
    is not traced, and nothing is asked there that the program is not prepared for."""

    LIBRARY = """
        #include <dlfcn.h>
        #include <linux/filter.h>
        #include <linux/seccomp.h>
        #include <pthread.h>
        #include <stddef.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        static pthread_mutex_t early = PTHREAD_MUTEX_INITIALIZER;
        #define FATAL(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
        static void filter(void) {
            struct sock_filter lines[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                          FATAL(SYS_getpid), FATAL(SYS_gettid), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
            struct sock_fprog program = {sizeof(lines) / sizeof(*lines), lines};
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
        }
        __attribute__((constructor)) static void begin(void) {
            FIRST;
            for (int i = 0; i < 100; i++) {
                pthread_mutex_lock(&early);
                pthread_mutex_unlock(&early);
            }
            THEN;
        }
        int used(void) { (void)filter; return 7; }"""

    def check(self, first, then="(void)0"):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-early-"))
        self.addCleanup(shutil.rmtree, folder)
        subprocess.run(["gcc", "-shared", "-fPIC", f"-DFIRST={first}", f"-DTHEN={then}", "-x", "c", "-", "-o", folder / "libearly.so"],
                       input=self.LIBRARY, text=True, check=True)
        subprocess.run(["gcc", "-x", "c", "-", "-x", "none", folder / "libearly.so", "-o", folder / "main"],
                       input="int used(void); int main(void) { return used(); }", text=True, check=True)
        for preloaded in ([], [BUILD / "libtrace/libplumb.so.0", PROBE]):
            self.assertEqual(run([folder / "main"], preloaded, timeout=30)[0], 7, preloaded)
        with Recorded([folder / "main"]) as recorded:
            self.assertEqual(recorded.status, 7, recorded.errors)

    def test_first_of_all_is_a_mutex(self):
        self.check("(void)0")

    def test_behind_a_filter_of_its_own(self):
        self.check("filter()")

    def test_behind_an_error_that_nobody_has_asked_for_yet(self):
        """dlerror() tells of the last failure of any dl function, and then forgets it."""
        self.check('dlopen("/nosuch.so", RTLD_LAZY)', then="if (strlen(dlerror()) < 5) abort()")

    def test_under_an_allocator_that_begins_with_a_lock(self):
        """Its first steps are under pthread_once(), within which nobody may allocate."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-once-"))
        self.addCleanup(shutil.rmtree, folder)
        (folder / "main.cc").write_text("""
            #include <pthread.h>
            #include <cstddef>
            #include <iostream>
            static pthread_once_t once = PTHREAD_ONCE_INIT;
            static pthread_mutex_t mutex;
            static void begin() { pthread_mutex_init(&mutex, nullptr); }
            alignas(16) static char memory[1 << 24];
            static size_t used;
            extern "C" void* malloc(size_t bytes) {
                pthread_once(&once, begin);
                pthread_mutex_lock(&mutex);
                char* const given = memory + used + 16;
                used += (bytes + 31) / 16 * 16;
                pthread_mutex_unlock(&mutex);
                *reinterpret_cast<size_t*>(given - 16) = bytes;
                return given;
            }
            extern "C" void free(void*) {}
            extern "C" void* calloc(size_t count, size_t bytes) { return malloc(count * bytes); }
            extern "C" void* realloc(void* old, size_t bytes) {
                char* const given = static_cast<char*>(malloc(bytes));
                const size_t had = old ? *reinterpret_cast<size_t*>(static_cast<char*>(old) - 16) : 0;
                for (size_t i = 0; i < had && i < bytes; i++) given[i] = static_cast<char*>(old)[i];
                return given;
            }
            int main() { std::cout << "well" << std::endl; return 7; }""")
        subprocess.run(["g++", "-O1", "-fno-builtin", folder / "main.cc", "-o", folder / "main"], check=True)
        for preloaded in ([], [PROBE]):
            self.assertEqual(run([folder / "main"], preloaded, timeout=30)[:2], (7, "well\n"), preloaded)
        with Recorded([folder / "main"]) as recorded:
            self.assertEqual(recorded.status, 7, recorded.errors)


class AnotherLibrary(unittest.TestCase):
    """Programs of musl: the probe is compiled for glibc, and LD_PRELOAD reaches whatever a command starts."""

    def setUp(self):
        if shutil.which("musl-gcc") is None:
            self.skipTest("musl-gcc is not installed")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-musl-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def compile(self, name):
        program = self.folder / name
        subprocess.run(["musl-gcc", "-O1", "-D_GNU_SOURCE", SOURCES / f"{name}.c", "-o", program], check=True)
        return program

    def test_same_results(self):
        SameResults.check(self, self.compile("same_condition"))

    def test_counts(self):
        Counts.check(self, self.compile("count_locks"))

    def test_no_error_of_ours_is_the_programs(self):
        (self.folder / "error.c").write_text("""
            #include <dlfcn.h>
            #include <stdio.h>
            int main(void) { const char* error = dlerror(); puts(error ? error : "none"); return 3; }""")
        subprocess.run(["musl-gcc", self.folder / "error.c", "-o", self.folder / "error"], check=True)
        with Recorded([self.folder / "error"]) as recorded:
            self.assertEqual((recorded.status, recorded.output.split("\n")[0]), (3, "none"), recorded.errors)

    def test_as_a_child_that_forks(self):
        program = self.folder / "forks"
        (self.folder / "forks.c").write_text(r"""
            #include <pthread.h>
            #include <stdio.h>
            #include <sys/wait.h>
            #include <unistd.h>
            static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
            static void lock(int times) {
                for (int i = 0; i < times; i++) {
                    pthread_mutex_lock(&mutex);
                    pthread_mutex_unlock(&mutex);
                }
            }
            int main(void) {
                lock(3);
                for (int i = 0; i < 5; i++) {
                    if (fork() == 0) {
                        lock(7);
                        _exit(0);
                    }
                }
                int status, all = 0;
                while (wait(&status) > 0) all += status == 0;
                printf("%d\n", all);
                return 3;
            }""")
        subprocess.run(["musl-gcc", self.folder / "forks.c", "-o", program], check=True)
        with Recorded(["sh", "-c", f"{program}; echo $?; {program}"]) as recorded:
            self.assertEqual(recorded.status, 3, recorded.errors)
            self.assertEqual(recorded.output.split()[:3], ["5", "3", "5"])
            locks = collections.Counter(event.fields["vtid"] for event in recorded.events()
                                        if event.name == "pthread:mutex_acquired")
            self.assertEqual(sorted(locks.values()), [3] * 2 + [7] * 10)


class OtherPrograms(unittest.TestCase):
    """Programs that know nothing of the probe, and libraries preloaded beside it."""

    def check(self, command, also=(), **environment):
        bare = run(command, preload=also, **environment)
        self.assertEqual(bare[0], 0, bare)
        off = preload_off(command, also=also, **environment)
        self.assertEqual(off[:2], bare[:2], off)
        with Recorded(command, also=also) as recorded:
            self.assertEqual(recorded.status, 0, recorded.errors)
            tally = Tally(recorded.events())
            self.assertEqual(tally.broken[:5], [])
            return tally

    def test_bash(self):
        self.check(["bash", "-c", "for i in 1 2 3; do (echo $i; true) | cat; done"])

    def test_python(self):
        code = ("import threading, queue\n"
                "q = queue.Queue()\n"
                "ts = [threading.Thread(target=lambda: [q.put(i) for i in range(500)]) for _ in range(4)]\n"
                "[t.start() for t in ts]; [t.join() for t in ts]\n"
                "print(sum(q.get() for _ in range(2000)))\n")
        self.check([sys.executable, "-c", code])

    def test_java(self):
        if not shutil.which("java"):
            self.skipTest("no Java here")
        with tempfile.TemporaryDirectory() as folder:
            command = ["java", "-version"]
            if shutil.which("javac"):
                source = pathlib.Path(folder) / "Locks.java"
                source.write_text(JAVA_PROGRAM)
                subprocess.run(["javac", "-d", folder, str(source)], check=True)
                command = ["java", "-cp", folder, "Locks"]
            tally = self.check(command)
            self.assertGreater(sum(tally.counts.values()), 100)

    def test_a_program_of_the_address_sanitizer(self):
        with tempfile.TemporaryDirectory(prefix="plumb-asan-") as directory:
            source, program = pathlib.Path(directory, "locker.c"), pathlib.Path(directory, "locker")
            source.write_text("#include <pthread.h>\nint main(void) { pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;"
                              " return pthread_mutex_lock(&m) + pthread_mutex_unlock(&m); }\n")
            if not shutil.which("gcc") or subprocess.run(["gcc", "-fsanitize=address", "-o", program, source],
                                                         capture_output=True, check=False).returncode != 0:
                self.skipTest("there is no gcc with its address sanitizer")
            with Recorded([program]) as recorded:
                self.assertEqual(recorded.status, 0, recorded.errors)
                self.assertIn("pthread:mutex_acquired", {event.name for event in recorded.events()})

    def test_what_the_user_tells_the_address_sanitizer(self):
        for said, given in (("", "verify_asan_link_order=0"), ("color=never", "color=never:verify_asan_link_order=0"),
                            ("verify_asan_link_order=1", "verify_asan_link_order=1")):
            with Recorded(["sh", "-c", "echo $ASAN_OPTIONS"], asan_options=said) as recorded:
                self.assertIn(given, recorded.output.splitlines())

    def test_other_allocators(self):
        tried = 0
        for allocator in (JEMALLOC, TCMALLOC):
            if allocator.exists():
                tried += 1
                bare = run([PROGRAMS / "count_cpp"], preload=[allocator])
                self.assertEqual(bare[0], 0, bare)
                for order in ([PROBE, allocator], [allocator, PROBE]):
                    done = run([PROGRAMS / "count_cpp"], preload=order)
                    self.assertEqual(done[0], 0, done)
                Counts.check(self, "count_cpp", also=[allocator])
        if not tried:
            self.skipTest("neither jemalloc nor tcmalloc is installed")


JAVA_PROGRAM = """
import java.util.concurrent.*;
public class Locks {
    static int sum;
    static final Object lock = new Object();
    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        for (int i = 0; i < 2000; i++) {
            final int value = i;
            pool.submit(() -> { synchronized (lock) { sum += value; byte[] b = new byte[10000]; } });
        }
        pool.shutdown();
        pool.awaitTermination(60, TimeUnit.SECONDS);
        System.gc();
        System.out.println(sum);
    }
}
"""


@unittest.skipUnless(shutil.which("memcached"), "memcached is not installed")
class Memcached(unittest.TestCase):
    """An unmodified memcached under a client that checks every answer."""

    def test_under_load(self):
        port = memcached_client.free_port()
        directory = pathlib.Path(tempfile.mkdtemp(prefix="plumb-memcached-"))
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        trace = directory / "trace"
        recorder = subprocess.Popen(
            [str(PLUMB), "record", "--preload", "pthread", "--subbuf-size", "4M", "--subbuf-count", "8",
             "-o", str(trace), "--", "memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", str(port), "-U", "0",
             "-t", "4"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            memcached_client.wait_until_up(port)
            requests, errors = memcached_client.load(port, 1.5, 4)
        finally:
            recorder.send_signal(2)
            output, _ = recorder.communicate(timeout=60)
        self.assertEqual(errors, 0)
        self.assertGreater(requests, 2000)
        summary = json.loads((trace / "summary.json").read_text())
        tally = Tally(babeltrace.events(trace))
        self.assertEqual(sum(tally.counts.values()), summary["events"], output)
        self.assertEqual(summary["events_lost"], 0, output)
        self.assertEqual(tally.broken[:5], [], output)
        acquired = sum(n for (_, _, what), n in tally.counts.items() if what == "acquired")
        self.assertGreater(acquired, requests, output)
        # At exit a thread may hold a mutex; its acquisition is then the mutex's last event.
        open_at_exit = 0
        for (address, kind, what), count in tally.counts.items():
            if (kind, what) == ("mutex", "acquired"):
                self.assertEqual(count - tally.counts[address, kind, "released"], tally.depth[address], hex(address))
                self.assertIn(tally.depth[address], (0, 1))
                open_at_exit += tally.depth[address]
        self.assertLessEqual(open_at_exit, 2)


class Library(unittest.TestCase):
    def imports(self, library):
        output = subprocess.run(["nm", "-D", "--undefined-only", str(library)], check=True, capture_output=True,
                                text=True).stdout
        return {line.split()[-1].split("@")[0] for line in output.splitlines()}

    def test_tracing_takes_no_pthread_lock(self):
        """Or it would arrive at the probe while the probe traces."""
        locks = re.compile(r"pthread_(mutex|rwlock|cond|spin|barrier)_(?!.*attr)")
        library = next(BUILD.glob("libtrace/libplumb.so"))
        self.assertEqual({name for name in self.imports(library) if locks.match(name)}, set())

    def test_needs_libc_and_libplumb_alone(self):
        output = subprocess.run(["readelf", "-d", str(PROBE)], check=True, capture_output=True, text=True).stdout
        needed = re.findall(r"NEEDED.*\[(.*)\]", output)
        self.assertTrue(all(re.match(r"libplumb\.so|libc\.so|ld-linux", name) for name in needed), needed)


def is_sanitized():
    output = subprocess.run(["nm", "-D", str(PROBE)], capture_output=True, text=True).stdout
    return "__asan_" in output or "__tsan_" in output or "__ubsan_" in output


if __name__ == "__main__":
    if is_sanitized():
        print("a sanitizer's run-time library can not be preloaded into programs that lack it")
        sys.exit(77)
    unittest.main()
