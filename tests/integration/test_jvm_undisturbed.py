#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""What a JVM does beside recordings that last, threads that are stopped, virtual ones, and a program that says who may make threads."""
import collections
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from called_methods import OTHER_JAVA, Called, methods_words  # noqa: E402
from recorded_jvm import named, run, setUpModule, tearDownModule  # noqa: E402, F401


def version_of(java):
    return int(re.search(r'version "(\d+)', run([java, "-version"])[2])[1])


class Undisturbed(Called):
    def compile(self, source, name="Program", java=None):
        (self.folder / f"{name}.java").write_text(source)
        subprocess.run([java.with_name("javac") if java else "javac", "-Xlint:-removal", "-d", self.folder, self.folder / f"{name}.java"],
                       check=True, timeout=300)
        return [java or "java", "-Xmx64m", "-cp", self.folder, name]

    def serve_program(self, program):
        server = subprocess.Popen(list(map(str, program)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.stderr.close)
        self.assertEqual(server.stdout.readline(), "ready\n")
        return server

    def test_threads_that_are_stopped_as_they_begin(self):
        """HotSpot keeps what is to be thrown there until the thread asks for an exception, as the agent did."""
        if version_of("java") > 19:
            self.skipTest("this JVM has no Thread.stop()")
        program = self.compile("""
            public class Program {
                @SuppressWarnings({"deprecation", "removal"})
                public static void main(String[] words) throws Exception {
                    int stopped = 0;
                    for (int i = 0; i < 50; i++) {
                        Thread thread = new Thread(() -> { while (true) Thread.onSpinWait(); });
                        thread.setUncaughtExceptionHandler((its, thrown) -> { });
                        thread.setDaemon(true);
                        thread.start();
                        thread.stop();
                        thread.join(10000);
                        if (thread.isAlive()) break;
                        stopped++;
                    }
                    System.out.println("stopped " + stopped);
                    System.exit(0);
                }
            }""")
        self.assertEqual(run(program)[1], "stopped 50\n")
        for event in ("jvm:thread_start", "jvm:monitor_contended_enter", "jvm:park"):
            with self.subTest(event):
                status, output, errors = self.record(program, options=("--force", "--jvm", "-e", event))
                self.assertEqual((status, output), (0, "stopped 50\n"), errors)

    def test_monitors_of_virtual_threads(self):
        """Who waits leaves the thread that carries it, and goes on in any."""
        newer = [java for java in OTHER_JAVA if version_of(java) >= 24]
        if not newer:
            self.skipTest("there is no JVM in whose virtual threads wait for monitors without their carriers")
        program = self.compile("""
            import java.util.*;
            public class Program {
                static class First { }
                static class Second { }
                static Thread go(Object monitor, long[] waited) {
                    long began = System.nanoTime();
                    return Thread.ofVirtual().start(() -> { synchronized (monitor) { waited[0] = System.nanoTime() - began; } });
                }
                static Thread hold(Object monitor, int milliseconds) throws Exception {
                    Object held = new Object();
                    Thread holder = new Thread(() -> {
                        synchronized (monitor) {
                            synchronized (held) { held.notify(); }
                            try { Thread.sleep(milliseconds); } catch (InterruptedException e) { throw new Error(e); }
                        }
                    });
                    synchronized (held) { holder.start(); held.wait(); }
                    return holder;
                }
                public static void main(String[] words) throws Exception {
                    Object first = new First(), second = new Second(), crowded = new Program();
                    long[] of_first = {0}, of_second = {0};
                    Thread[] holders = {hold(first, 400), hold(second, 1600)};
                    Thread one = go(first, of_first);
                    Thread.sleep(200);
                    Thread other = go(second, of_second);
                    one.join();
                    other.join();
                    System.out.println("first " + of_first[0] / 1000000 + "\\nsecond " + of_second[0] / 1000000);
                    List<Thread> crowd = new ArrayList<>();
                    synchronized (crowded) {
                        for (int i = 0; i < 100; i++) crowd.add(go(crowded, of_first));
                        Thread.sleep(300);
                    }
                    for (Thread each : crowd) each.join();
                }
            }""", java=newer[-1])
        program[1:1] = ["-Djdk.virtualThreadScheduler.parallelism=1"]
        status, output, errors = self.record(program, options=("--jvm", "-e", "jvm:monitor_contended_*"))
        self.assertEqual(status, 0, errors)
        truth = {line.split()[0]: int(line.split()[1]) for line in output.splitlines()}
        events = self.events()
        pairs = collections.defaultdict(list)
        for event in events:
            pairs[event.fields["id"]].append((event.name, event.fields["class_name"]))
        for class_name, waited in (("First", truth["first"]), ("Second", truth["second"])):
            ends = [each for each in named(events, "monitor_contended_entered") if each["class_name"] == f"Program${class_name}"]
            # Waits for the other one differ by more than a second; a busy machine stands still for less between two readings of the clock.
            self.assertEqual([round(each["waited_ns"] / 1e9 - waited / 1e3) for each in ends], [0], (ends, truth))
        self.assertGreaterEqual(sum(names[0][1] == "Program" for names in pairs.values()), 90)
        for names in pairs.values():
            self.assertEqual([name for name, _ in names], ["jvm:monitor_contended_enter", "jvm:monitor_contended_entered"])
            self.assertEqual(len({class_name for _, class_name in names}), 1)

    def test_a_virtual_thread_that_owns_a_monitor(self):
        """No table has it, but from JDK 24 on a monitor says whose it is by the number that Java has for it."""
        newer = [java for java in OTHER_JAVA if version_of(java) >= 24]
        if not newer:
            self.skipTest("there is no JVM whose monitors name virtual threads")
        program = self.compile("""
            import java.util.concurrent.CountDownLatch;
            public class Program {
                public static void main(String[] words) throws Exception {
                    Object monitor = new Object();
                    synchronized (monitor) { monitor.wait(1); } // which makes it one of the JVM's own
                    for (int i = 0; i < 5; i++) {
                        CountDownLatch held = new CountDownLatch(1);
                        Thread owner = Thread.ofVirtual().start(() -> {
                            synchronized (monitor) {
                                held.countDown();
                                try { Thread.sleep(200); } catch (InterruptedException e) { throw new Error(e); }
                            }
                        });
                        held.await();
                        synchronized (monitor) { System.out.println(owner.threadId()); }
                        owner.join();
                    }
                }
            }""", java=newer[-1])
        status, output, errors = self.record(program, options=("--jvm", "-e", "jvm:monitor_contended_enter"))
        self.assertEqual(status, 0, errors)
        owners = {(each["owner_java_thread_id"], each["owner_os_thread_id"], each["owner_name"])
                  for each in named(self.events(), "monitor_contended_enter") if each["class_name"] == "java.lang.Object"}
        # One that was late, on a busy machine, has waited for nobody.
        self.assertTrue(owners, output)
        self.assertLessEqual(owners, {(int(line), 0, "") for line in output.splitlines()})

    def test_a_recording_of_many_days(self):
        program = self.compile("""
            public class Program {
                static void before() { }
                static void after() { }
                public static void main(String[] words) throws Exception {
                    for (int i = 0; i < 10; i++) before();
                    new java.io.File(words[0]).createNewFile();
                    for (int i = 0; i < 10; i++) after();
                }
            }""")
        (self.folder / "days.c").write_text("""
            #include <stdint.h>
            #include <stdlib.h>
            #include <time.h>
            #include <unistd.h>
            uint64_t plumb_monotonic_ns(void) {
                struct timespec now;
                clock_gettime(CLOCK_MONOTONIC, &now);
                const uint64_t days = access(getenv("LATER"), F_OK) == 0 ? (uint64_t)atoi(getenv("DAYS")) : 0;
                return ((uint64_t)now.tv_sec + days * 86400) * 1000000000 + (uint64_t)now.tv_nsec;
            }
            """)
        subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", self.folder / "days.so", self.folder / "days.c"], check=True)
        for days in (1, 27, 45, 51, 100):
            later = self.folder / f"later{days}"
            with self.subTest(days=days):
                words = ["env", f"LD_PRELOAD={self.folder}/days.so", f"LATER={later}", f"DAYS={days}", *program, later]
                status, _, errors = self.record(words, options=(
                    "--force", "--jvm", "-e", "jvm:method_*", *methods_words("Program::before", "Program::after")))
                self.assertEqual(status, 0, errors)
                calls = collections.Counter(call["method"] for call in self.calls(self.events()))
                self.assertEqual(calls, {"before": 10, "after": 10})

    def test_a_program_that_says_who_may_make_threads(self):
        if version_of("java") > 23:
            self.skipTest("this JVM has no SecurityManager")
        program = self.compile("""
            @SuppressWarnings("removal")
            public class Program {
                static class Strict extends SecurityManager {
                    public void checkPermission(java.security.Permission permission) { }
                    public void checkAccess(ThreadGroup group) {
                        if (!Thread.currentThread().getThreadGroup().parentOf(group)) throw new SecurityException("not yours");
                    }
                }
                public static void main(String[] words) throws Exception {
                    System.setSecurityManager(new Strict());
                    Thread reader = new Thread(() -> { try { System.in.read(); } catch (Exception e) { throw new Error(e); } });
                    reader.start();
                    System.out.println("ready");
                    for (; reader.isAlive(); Thread.sleep(10)) {
                        Thread thread = new Thread(() -> { });
                        thread.start();
                        thread.join();
                    }
                }
            }""")
        program[1:1] = ["-Djava.security.manager=allow"]
        server = self.serve_program(program)
        for events in ("jvm:gc_*", "jvm:thread_*"):
            _, _, errors = self.attach(server, 0.5, "-e", events)
        self.assertGreater(len(named(self.events(), "thread_start")), 5, errors)
        server.stdin.close()
        server.stdin = None
        self.assertEqual(server.wait(timeout=60), 0)


if __name__ == "__main__":
    unittest.main()
