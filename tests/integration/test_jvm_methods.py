#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 600
"""Entry and exit of methods that are asked for by name: code that compilers write rarely; JVMs that run already, whose code is their own
again behind the recording; and what makes no sense."""
import collections
import json
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from called_methods import VERIFIED, Called, counts_of, methods_words  # noqa: E402
from recorded_jvm import AGENT, BUFFERS, BUILD, PLUMB, InFolder, java, named, run, setUpModule, tearDownModule  # noqa: E402, F401

WITNESS = BUILD / "tests/fixtures/libjvm_witness.so"
FULL_LINES = 5460  # of 12 bytes each: there is room for 13 more


class MadeCode(Called):
    """What compilers write rarely."""

    def write(self):
        locals_ = "".join(f"        long l{i} = from + {i};\n" for i in range(300))
        total = " + ".join(f"l{i}" for i in range(300))
        filler = "            sum += (sum ^ %d) * 31;\n"
        source = ("public class Made {\n    static long wide(long from) {\n" + locals_ + "        for (int i = 0; i < 3; i++) l299++;\n"
                  "        switch ((int) l3) { case 3: return l1; case 4: l2++; break; case 5: l4++; default: l5++; }\n"
                  "        switch ((int) l4) { case 3000: return l1; case -4: l2++; break; case 500: l4++; default: l5++; }\n"
                  f"        return {total};\n    }}\n"
                  "    static long far(long sum, int n) {\n        for (int i = 0; i < n; i++) {\n"
                  + "".join(filler % (i + 70000) for i in range(5000)) + "            if (sum == 0) return 1;\n        }\n        return sum;\n    }\n"
                  "    static long near(long sum, int n) {\n        for (int i = 0; i < n; i++) {\n"
                  + "".join(filler % (i + 70000) for i in range(2715)) + "            if (sum == 1) return 1;\n" * 20
                  + "        }\n        return sum;\n    }\n"
                  "    static long full(long sum) {\n" + "".join(filler % (i + 70000) for i in range(FULL_LINES)) + "        return sum;\n    }\n"
                  "    public static void main(String[] words) {\n        long sum = 0;\n"
                  "        for (int i = 0; i < 3; i++) sum += wide(i) + far(i + 1, 2) + near(i, 1) + full(i);\n"
                  "        System.out.println(sum);\n    }\n}\n")
        (self.folder / "Made.java").write_text(source)
        subprocess.run(["javac", "-d", self.folder, self.folder / "Made.java"], check=True, timeout=300)

    def test_wide_and_long_code(self):
        self.write()
        program = ["java", *VERIFIED, "-cp", self.folder, "Made"]
        bare = run(program)
        status, output, errors = self.record(program, options=("--jvm", *methods_words("Made::*"), "-e", "jvm:method_*"))
        self.assertEqual((status, output), bare[:2], errors)
        events = self.events()
        told = collections.Counter(call["method"] for call in self.calls(events))
        self.assertEqual(told, {"wide": 3, "far": 3, "main": 1})
        left = {each["method"]: each["reason"] for each in named(events, "method_left_alone")}
        self.assertEqual(left, {"near": "with hooks a jump would be too far", "full": "with hooks its code would be too long"})


    def write_old(self):
        (self.folder / "Jsr.java").write_text("class Jsr { static int five() { return 0; } }")
        (self.folder / "Old.java").write_text("""
            public class Old {
                final Object held;
                Old(boolean which) { this(which ? new Object() : new int[3]); }
                Old(Object held) {
                    this.held = held;
                    for (int i = 0; i < 3; i++) if (held == this) throw new IllegalStateException();
                }
                int guarded(long from, int kind) {
                    try {
                        switch (kind) { case 0: return 1; case 1: throw new IllegalStateException("one"); default: from += kind; }
                    } catch (RuntimeException e) {
                        return e.getMessage().length();
                    } finally {
                        from++;
                    }
                    synchronized (held) { while (from > 1000) from /= 2; }
                    return (int) from;
                }
                public static void main(String[] words) {
                    long sum = Jsr.five();
                    for (int i = 0; i < 4; i++) sum += new Old(i % 2 == 0).guarded(1L << 20, i);
                    System.out.println(sum);
                }
            }""")
        subprocess.run(["javac", "--release", "8", "-Xlint:-options", "-d", self.folder, self.folder / "Jsr.java", self.folder / "Old.java"],
                       check=True, timeout=300)
        old = (self.folder / "Old.class").read_bytes()
        (self.folder / "Old.class").write_bytes(old[:7] + b"\x31" + old[8:])  # Java 5: the JVM looks at no frames
        texts = [b"Jsr", b"java/lang/Object", b"five", b"()I", b"Code"]
        constants = b"".join(b"\x01" + len(text).to_bytes(2, "big") + text for text in texts) + b"\x07\0\x01\x07\0\x02"
        code = bytes([0xa8, 0, 5, 0x08, 0xac, 0x4b, 0xa9, 0])  # jsr 5; iconst_5; ireturn; 5: astore_0; ret 0
        content = b"\0\x01\0\x01" + len(code).to_bytes(4, "big") + code + bytes(4)
        (self.folder / "Jsr.class").write_bytes(b"\xca\xfe\xba\xbe\0\0\0\x31\0\x08" + constants + b"\0\x20\0\x06\0\x07" + bytes(4) + b"\0\x01"
                                                + b"\0\x08\0\x03\0\x04\0\x01\0\x05" + len(content).to_bytes(4, "big") + content + bytes(2))

    def test_old_classes(self):
        self.write_old()
        program = ["java", *VERIFIED, "-cp", self.folder, "Old"]
        bare = run(program)
        self.assertEqual((bare[0], bare[2]), (0, ""))
        status, output, errors = self.record(program, options=("--jvm", *methods_words("Old::*", "Jsr::*"), "-e", "jvm:method_*"))
        self.assertEqual((status, output), bare[:2], errors)
        events = self.events()
        told = collections.Counter(call["method"] for call in self.calls(events))
        self.assertEqual(told, {"<init>": 4, "guarded": 4, "main": 1})
        left = {each["method"] + each["signature"]: each["reason"] for each in named(events, "method_left_alone")}
        self.assertEqual(left, {"five()I": "it has subroutines (jsr), as of old compilers",
                                "<init>(Z)V": "where it calls this() or super() is not found"})


class Attached(Called):
    def start(self, *options):
        """With all of its classes loaded."""
        server = self.serve("Calls", f"-agentpath:{WITNESS}={self.folder}", *VERIFIED, *options, words=("serve",))
        until = time.monotonic() + 60
        while "Calls$Kind$1.size()I" not in self.code() and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(0.5)
        return server

    def answer(self):
        answer = self.folder / "answer"
        answer.unlink(missing_ok=True)
        (self.folder / "ask").touch()
        until = time.monotonic() + 60
        while not answer.exists() and time.monotonic() < until:
            time.sleep(0.01)
        return answer.read_text().splitlines()

    def code(self):
        """Of each method its code, as the JVM has it; without classes that it makes of lambdas."""
        return {line.split(" ")[1]: line.split(" ")[2] for line in self.answer() if line.startswith("code ") and "$$" not in line}

    def wait_for_code(self, expected):
        until = time.monotonic() + 60
        while self.code() != expected and time.monotonic() < until:
            time.sleep(0.1)
        self.assertEqual(self.code(), expected)

    def wait_until_changed(self, before):
        until = time.monotonic() + 60
        changed = []
        while len(changed) < 40 and time.monotonic() < until:
            code = self.code()
            changed = [name for name in before if before[name] != code[name]]
        self.assertGreaterEqual(len(changed), 40)
        time.sleep(1)  # rounds

    def test_ten_times_under_load(self):
        server = self.start()
        before = self.code()
        self.assertGreater(len(before), 40)
        for i in range(10):
            recorder = self.attach_begin(server, "--mode", "block", "-e", "jvm:method_*", *methods_words("Calls*::*"), seconds=0.3)
            if i % 5 == 0:
                self.wait_until_changed(before)
            self.attach_end(recorder)
            self.wait_for_code(before)
            if i % 5 == 0:
                events = self.events()
                calls = collections.Counter(each["method"] for each in named(events, "method_exit"))
                self.assertGreater(calls["fib"], 100)
                self.assertTrue([each for each in named(events, "method_exit") if each["exception"]])
        self.assertIn("capabilities " + "0" * 32, self.answer())
        self.finish(server)

    def test_other_methods_take_their_place(self):
        server = self.start()
        before = self.code()
        first = self.attach_begin(server, "-e", "jvm:method_*", *methods_words("Calls::fib"), seconds=1)
        self.assertEqual([name for name, code in self.code().items() if code != before.get(name, code)], ["Calls.fib(I)I"])
        self.attach_end(first)
        self.assertEqual({each["method"] for each in named(self.events(), "method_exit")}, {"fib"})
        second = self.attach_begin(server, "-e", "jvm:method_*", *methods_words("Calls::sp?n", "Calls::ta*(I)Ljava/lang/String;"), seconds=1)
        self.attach_end(second)
        self.assertEqual({each["method"] for each in named(self.events(), "method_exit")}, {"spin", "table"})
        self.attach_end(self.attach_begin(server, "-e", "jvm:*", "-e", "!jvm:exception_*", seconds=1))
        self.assertFalse(named(self.events(), "method_exit"))  # nobody asked
        self.wait_for_code(before)
        self.finish(server)

    def test_what_matches_nothing_is_said(self):
        server = self.start()
        recorder = self.attach_begin(server, "-e", "jvm:method_*", *methods_words("Calls::fib", "Calls::nosuch", "No*Class::*"), seconds=1)
        _, _, errors = self.attach_end(recorder)
        self.assertIn(f"process {server.pid}: no method of a class that is loaded matches Calls::nosuch, No*Class::*; "
                      "classes that are loaded later are looked at", errors)
        self.assertIn(f"process {server.pid}: no method has matched Calls::nosuch", errors)
        self.assertIn(f"process {server.pid}: no method has matched No*Class::*", errors)
        self.assertEqual([(each["pattern"], each["methods"]) for each in named(self.events(), "method_pattern")],
                         [("Calls::fib", 1), ("Calls::nosuch", 0), ("No*Class::*", 0)])
        self.finish(server)

    def test_no_more_than_the_limit(self):
        server = self.start()
        self.attach_end(self.attach_begin(server, "-e", "jvm:*", "-e", "!jvm:exception_*", *methods_words("Calls*::*"), "--jvm-methods-limit", "3",
                                          seconds=1))
        events = self.events()
        self.assertEqual([each["events"] for each in named(events, "not_available")], ["jvm:method_*"])
        self.assertLessEqual(len({(each["class_name"], each["method"], each["signature"]) for each in named(events, "method_exit")}), 3)
        self.finish(server)

    def test_counted(self):
        server = self.start()
        status, output, errors = run([PLUMB, "stat", "--json", "--jvm", "-e", "jvm:method_exit", "--by", "method", "--sum", "duration_ns",
                                      *methods_words("Calls::fib"), "-p", server.pid, "--duration", "1s"])
        self.assertEqual(status, 0, errors)
        (line,) = [line for line in output.splitlines() if line.startswith("{")]
        (key,) = json.loads(line)["events"][0]["keys"]
        self.assertEqual(key["key"], "fib")
        self.assertGreater(key["sum"], key["count"])
        self.finish(server)


class Loaded(Called):
    """Classes that are there already."""

    def call(self, server, count):
        server.stdin.write("\n")
        server.stdin.flush()
        self.assertEqual(server.stdout.readline(), f"called {2 * count + 2}\n")

    def told(self, recorder):
        self.attach_end(recorder)
        return collections.Counter((each["class_name"], each["method"]) for each in self.calls(self.events()))

    def test_in_a_jvm_that_has_just_begun(self):
        """It takes who attaches before it gives agents an environment."""
        count, words = 20, methods_words("Loaders$Plug::go")
        for _ in range(3):
            server = subprocess.Popen(list(map(str, java("Loaders", str(count)))), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)
            self.addCleanup(server.stdout.close)
            self.addCleanup(server.stderr.close)
            recorder = self.attach_begin(server, "-e", "jvm:method_entry", "-e", "jvm:method_exit", *words)
            self.assertEqual(server.stdout.readline(), "ready\n")
            if recorder.poll() is not None:  # on a busy machine: "has a libjvm.so and no JVM in it yet"
                self.assertIn("Try again when it has begun.", recorder.communicate()[1])
                recorder = self.attach_begin(server, "-e", "jvm:method_entry", "-e", "jvm:method_exit", *words)
            time.sleep(4)
            self.call(server, count)
            self.assertEqual(self.told(recorder)["Loaders$Plug", "go"], count)
            self.assertEqual(len(named(self.events(), "method_pattern")), 1)  # whatever is asked for of calls
            self.finish(server, "others who loaded: nobody\n")

    def test_by_many_loaders_and_not_linked(self):
        """Each of a name is changed, and none is linked before the program does it, which would run its loader in our thread."""
        count, words = 150, methods_words("Loaders$Plug::go", "Loaders$Late::go", "Loaders$Late::m*")
        server = self.serve("Loaders", words=(str(count),))
        recorder = self.attach_begin(server, "-e", "jvm:method_*", *words, seconds=2)
        self.call(server, count)
        time.sleep(1)  # it is linked now, and is changed soon
        self.call(server, count)
        told = self.told(recorder)
        self.assertEqual(told["Loaders$Plug", "go"], 2 * count)
        self.assertGreaterEqual(told["Loaders$Late", "go"], 1)
        (missed,) = named(self.events(), "method_calls_missed")
        self.assertEqual(missed["class_name"], "Loaders$Late")
        self.assertTrue(0 < missed["missed_ns"] < 60e9, missed)
        time.sleep(0.5)  # until they are given back
        recorder = self.attach_begin(server, "-e", "jvm:method_*", seconds=2, agent="")  # the methods are those that were asked for
        self.call(server, count)
        self.assertEqual(self.told(recorder), {("Loaders$Plug", "go"): count, ("Loaders$Late", "go"): 1, ("Loaders$Late", "make"): 1})
        self.assertEqual(named(self.events(), "method_calls_missed"), [])
        self.finish(server, "others who loaded: nobody\n")

    def test_one_that_is_defined_again(self):
        """In vain, by loaders without a lock. It was there before the recording, so it is changed like any other."""
        (self.folder / "Again.java").write_text("""
            public class Again extends ClassLoader {
                public static class Plug { public static int go(int number) { return number + 1; } }
                final byte[] bytes;
                Again(byte[] bytes) { this.bytes = bytes; }
                Class<?> define() {
                    try { return defineClass("Again$Plug", bytes, 0, bytes.length); }
                    catch (LinkageError e) { return findLoadedClass("Again$Plug"); }
                }
                public static void main(String[] words) throws Exception {
                    Again loader = new Again(Again.class.getResourceAsStream("Again$Plug.class").readAllBytes());
                    var go = loader.define().getMethod("go", int.class);
                    go.invoke(null, 1);
                    for (Runnable each : new Runnable[] {loader::define, () -> {
                            try { go.invoke(null, 1); Thread.sleep(1); } catch (Exception e) { throw new Error(e); } }}) {
                        Thread thread = new Thread(() -> { while (true) each.run(); });
                        thread.setDaemon(true);
                        thread.start();
                    }
                    System.out.println("ready");
                    System.in.read();
                }
            }""")
        subprocess.run(["javac", "-d", self.folder, self.folder / "Again.java"], check=True, timeout=300)
        server = subprocess.Popen(["java", "-cp", self.folder, "Again"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.stderr.close)
        self.assertEqual(server.stdout.readline(), "ready\n")
        for _ in range(8):
            recorder = self.attach_begin(server, "-e", "jvm:method_*", *methods_words("Again$Plug::go"), seconds=1)
            told = self.told(recorder)["Again$Plug", "go"]
            self.assertTrue(told > 10 or named(self.events(), "method_calls_missed"), told)
        self.finish(server, "")


class Launched(Called):
    """Classes that come while what is loaded already is looked at."""

    def test_are_not_given_anew(self):
        """They have their hooks: of a method that runs on, the JVM would know neither file nor line any more, and nothing is missed."""
        (self.folder / "Traces.java").write_text("""
            public class Traces {
                static void go() { }
                public static void main(String[] words) throws Exception {
                    for (int i = 0; i < 40; i++) {
                        Thread.sleep(10);
                        go();
                        new java.util.concurrent.ConcurrentSkipListMap<String, String>().put("a", "b");
                        System.out.println(new Throwable().getStackTrace()[0]);
                    }
                }
            }""")
        subprocess.run(["javac", "-d", self.folder, self.folder / "Traces.java"], check=True, timeout=300)
        for _ in range(3):
            shutil.rmtree(self.trace, ignore_errors=True)
            status, output, errors = self.record(["java", "-cp", self.folder, "Traces"],
                                                 options=("--jvm", *methods_words("*::main", "*::go"), "-e", "jvm:method_*"))
            self.assertEqual((status, output), (0, "Traces.main(Traces.java:9)\n" * 40), errors)
            events = self.events()
            self.assertEqual(collections.Counter(call["method"] for call in self.calls(events) if call["class_name"] == "Traces"),
                             {"go": 40, "main": 1})
            self.assertEqual([each for each in named(events, "method_calls_missed") if each["class_name"] == "Traces"], [])


class Words(InFolder):
    def test_what_makes_no_sense(self):
        for words in (methods_words("x"), methods_words("::a"), methods_words("A::"), methods_words("A::(I)V"), methods_words("a/B::c"),
                      methods_words("A::b,A::c"), ["--jvm-methods-limit", "5"], [*methods_words("A::b"), "--jvm-methods-limit", "0"]):
            shutil.rmtree(self.trace, ignore_errors=True)
            status, _, errors = run([PLUMB, "record", *BUFFERS, "--jvm", *words, "-o", self.trace, "--", "true"])
            self.assertEqual(status, 2, errors)
            self.assertIn("--jvm-methods", errors)
            self.assertFalse(self.trace.exists())
        status, _, errors = run([PLUMB, "record", "--jvm", "-e", "jvm:method_entry", "-o", self.trace, "--", "true"])
        self.assertEqual(status, 2, errors)
        self.assertIn("--jvm-methods", errors)

    def test_with_the_agent_by_hand(self):
        """Its options are for all recordings."""
        options = (f"-agentpath:{AGENT}=methods=Calls::fib,methods=Calls::nosuch",)
        status, output, errors = self.record(java("Calls", options=options), options=("-e", "jvm:*"))
        self.assertEqual(status, 7, errors)
        events = self.events()
        self.assertEqual(len(named(events, "method_entry")), counts_of(output)["fib"])
        self.assertEqual([(each["pattern"], each["methods"]) for each in named(events, "method_pattern")][-2:],
                         [("Calls::fib", 1), ("Calls::nosuch", 0)])


if __name__ == "__main__":
    unittest.main()
