#!/usr/bin/env python3
# cmake-timeout: 600
"""The pthread probe: a program behaves as without it, and the trace says exactly what it locked."""
import collections
import json
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
from pthread_recording import BUILD, PLUMB, PROBE, PROGRAMS, SOURCES, Recorded, preload_off, run  # noqa: E402
from recorded_program import leave_out_if_sanitized  # noqa: E402

JEMALLOC = pathlib.Path("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2")
TCMALLOC = pathlib.Path("/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4")


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


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
