#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""Methods that match and can not be hooked without the program's noticing: they stay as they are, and are named."""
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from called_methods import Called, methods_words  # noqa: E402
from class_file import old_constructor, reused_parameter  # noqa: E402
from recorded_jvm import named, run, setUpModule, tearDownModule  # noqa: E402, F401


class LeftAlone(Called):
    def check_same(self, source, *patterns, options=()):
        """What is told of it, behind the program has done what it does without."""
        (self.folder / "Program.java").write_text(source)
        subprocess.run(["javac", "-Xlint:-removal", "-d", self.folder, self.folder / "Program.java"], check=True, timeout=300)
        program = ["java", "-Xmx64m", *options, "-cp", self.folder, "Program"]
        bare = run(program)
        self.assertEqual(bare[0], 0, bare)
        status, output, errors = self.record(program, options=("--jvm", "-e", "jvm:method_*", *methods_words(*patterns)))
        self.assertEqual((status, output), bare[:2], errors)
        events = self.events()
        return {call["method"] for call in self.calls(events)}, {
            (each["class_name"], each["method"]): each["reason"] for each in named(events, "method_left_alone")}

    def test_a_constructor_whose_handler_reaches_over_the_call_of_super(self):
        """In a class without frames, what is known at the range's begin is all that is known in the handler."""
        for version in (45, 49):
            (self.folder / f"Old{version}.class").write_bytes(old_constructor(f"Old{version}", version))
        told, alone = self.check_same("""
            public class Program {
                static void go() { }
                public static void main(String[] words) throws Exception {
                    go();
                    for (int version : new int[] {45, 49})
                        System.out.println(Class.forName("Old" + version).getConstructor().newInstance().getClass());
                }
            }""", "Old*::*", "Program::go", options=("-Xverify:all",))
        self.assertEqual(told, {"go"})
        self.assertEqual(set(alone), {("Old45", "<init>"), ("Old49", "<init>")})

    def test_a_parameter_that_is_used_again(self):
        """Without frames, a handler is checked with what all of its range leaves there: the JVM would look for both classes."""
        for version in (49, 50):
            (self.folder / f"Old{version}.class").write_bytes(reused_parameter(f"Old{version}", version))
        told, alone = self.check_same("""
            class There { }
            public class Program {
                static int again(Object one, long wide, Object other) { one = other; return one == null ? 1 : 2; }
                public static void main(String[] words) throws Exception {
                    for (int version : new int[] {49, 50})
                        System.out.println(Class.forName("Old" + version).getMethod("go", There.class, boolean.class).invoke(null, null, false));
                    System.out.println(again(null, 1, ""));
                }
            }""", "Old*::*", "Program::again", options=("-Xverify:all",))
        self.assertEqual((told, set(alone)), ({"again"}, {("Old49", "go"), ("Old50", "go")}))
        self.assertIn("checked without frames", alone["Old49", "go"])

    def test_a_finalizer_that_does_nothing(self):
        """The JVM makes objects of such a class as if there were none."""
        told, alone = self.check_same("""
            import java.lang.ref.*;
            import java.util.*;
            public class Program {
                static class Empty { int value; protected void finalize() { } }
                static class Full { protected void finalize() { finalized++; } }
                static volatile int finalized;
                static void make(ReferenceQueue<Object> gone, List<Object> kept) {
                    for (int i = 0; i < 1000; i++)
                        kept.add(new PhantomReference<>(new Empty(), gone));
                    new Full();
                }
                public static void main(String[] words) throws Exception {
                    ReferenceQueue<Object> gone = new ReferenceQueue<>();
                    List<Object> kept = new ArrayList<>();
                    make(gone, kept);
                    System.gc();
                    int count = 0;
                    while (count < 1000 && gone.remove(5000) != null)
                        count++;
                    for (int i = 0; i < 500 && finalized == 0; i++)
                        Thread.sleep(10);
                    System.out.println(count + " " + finalized);
                }
            }""", "Program$*::*")
        self.assertEqual(told, {"<init>", "finalize"})
        self.assertEqual([key for key in alone], [("Program$Empty", "finalize")])
        self.assertIn("empty finalize()", alone["Program$Empty", "finalize"])

    def test_classes_for_which_there_is_no_room(self):
        """A JVM that ends where it does not get the memory for its classes, and needs a sixth of what it may have."""
        (self.folder / "Limited.java").write_text("""
            public class Limited {
                static volatile boolean ends;
                static void work() {
                    while (!ends)
                        if (!String.format("%d %s", 5, new java.util.ArrayList<>(java.util.List.of("a", "b"))).equals("5 [a, b]"))
                            System.out.println("wrong");
                }
                public static void main(String[] words) throws Exception {
                    Thread worker = new Thread(Limited::work);
                    worker.start();
                    System.out.println("ready");
                    System.in.read();
                    ends = true;
                    worker.join();
                }
            }""")
        subprocess.run(["javac", "-d", self.folder, self.folder / "Limited.java"], check=True, timeout=300)
        server = subprocess.Popen(["java", "-Xmx64m", "-XX:MaxMetaspaceSize=6m", "-XX:+ExitOnOutOfMemoryError", "-cp", self.folder, "Limited"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.stderr.close)
        self.assertEqual(server.stdout.readline(), "ready\n")
        for _ in range(3):
            status, _, errors = self.attach(server, 0.5, *methods_words("java.*::*"), "--jvm-methods-limit", "100000", "-e",
                                            "jvm:method_exit if duration_ns > 10000000000")
            self.assertEqual((server.poll(), status), (None, 0), errors)
        reasons = [each["reason"] for each in named(self.events(), "method_left_alone")]
        self.assertTrue([reason for reason in reasons if "room for classes" in reason])
        self.finish(server, "")

    def test_hooks_that_can_not_be_given_back(self):
        """Of classes that were loaded with them: as they were, they would take more than half of what the program has for classes."""
        (self.folder / "Kept.java").write_text("public class Kept { public static int go(int value) { return value + 1; } %s }" % " ".join(
            f"int other{i}(int value) {{ return value * {i} + {i} / 7; }}" for i in range(40)))
        (self.folder / "Keeping.java").write_text("""
            import java.nio.file.*;
            import java.util.*;
            public class Keeping extends ClassLoader {
                Class<?> define(byte[] bytes) { return defineClass("Kept", bytes, 0, bytes.length); }
                public static void main(String[] words) throws Exception {
                    byte[] bytes = Files.readAllBytes(Path.of(words[0], "Kept.class"));
                    List<java.lang.reflect.Method> kept = new ArrayList<>();
                    System.out.println("ready");
                    System.in.read();
                    for (int i = 0; i < 1000; i++)
                        kept.add(new Keeping().define(bytes).getDeclaredMethod("go", int.class));
                    for (var go : kept) go.invoke(null, 1);
                    System.out.println("called");
                    System.in.read();
                    for (var go : kept) go.invoke(null, 1);
                    System.out.println("done");
                }
            }""")
        subprocess.run(["javac", "-d", self.folder, self.folder / "Kept.java", self.folder / "Keeping.java"], check=True, timeout=300)
        (self.folder / "kept").mkdir()
        (self.folder / "Kept.class").rename(self.folder / "kept/Kept.class")
        server = subprocess.Popen(["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:MaxMetaspaceSize=24m", "-XX:+ExitOnOutOfMemoryError", "-cp", self.folder,
                                   "Keeping", self.folder / "kept"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.stderr.close)
        self.assertEqual(server.stdout.readline(), "ready\n")
        recorder = self.attach_begin(server, *methods_words("Kept::go"), "-e", "jvm:method_*", seconds=0.5)
        server.stdin.write("\n")
        server.stdin.flush()
        self.assertEqual(server.stdout.readline(), "called\n")
        self.attach_end(recorder)
        self.assertGreater(len(named(self.events(), "method_exit")), 300)
        time.sleep(1)  # the hooks are given back
        server.stdin.write("\n")
        server.stdin.flush()
        self.assertEqual(server.stdout.readline(), "done\n")
        time.sleep(1)  # what was left over is tried
        self.finish(server, "")

    def test_classes_that_go_while_they_are_looked_at(self):
        """Each in a loader of its own, as those of scripts are: who holds them while others are changed ends the JVM."""
        (self.folder / "Short.java").write_text("class Short { static int go(int value) { return value + 1; } %s }" % " ".join(
            f"int other{i}(int value) {{ return value * {i}; }}" for i in range(40)))
        (self.folder / "Loading.java").write_text("""
            import java.nio.file.*;
            public class Loading extends ClassLoader {
                static volatile boolean ends;
                Class<?> define(byte[] bytes) { return defineClass("Short", bytes, 0, bytes.length); }
                public static void main(String[] words) throws Exception {
                    byte[] bytes = Files.readAllBytes(Path.of(words[0], "Short.class"));
                    Thread reader = new Thread(() -> { try { System.in.read(); } catch (Exception e) { throw new Error(e); } ends = true; });
                    reader.start();
                    for (int i = 0; !ends; i++) {
                        var go = new Loading().define(bytes).getDeclaredMethod("go", int.class);
                        go.setAccessible(true);
                        if ((int)go.invoke(null, i) != i + 1) System.out.println("wrong");
                        if (i == 0) System.out.println("ready");
                        if (i % 4 == 0) Thread.sleep(1);
                    }
                }
            }""")
        subprocess.run(["javac", "-d", self.folder, self.folder / "Short.java", self.folder / "Loading.java"], check=True, timeout=300)
        (self.folder / "short").mkdir()
        (self.folder / "Short.class").rename(self.folder / "short/Short.class")
        server = subprocess.Popen(["java", "-Xmx128m", "-XX:MaxMetaspaceSize=16m", "-XX:+ExitOnOutOfMemoryError", "-cp", self.folder,
                                   "Loading", self.folder / "short"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.stderr.close)
        self.assertEqual(server.stdout.readline(), "ready\n")
        for _ in range(2):
            status, _, errors = self.attach(server, 2, *methods_words("Short::go"), "-e", "jvm:method_*", "--mode", "block")
            self.assertEqual((server.poll(), status), (None, 0), errors)
        self.finish(server, "")


if __name__ == "__main__":
    unittest.main()
