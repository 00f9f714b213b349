#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 900
"""Call stacks go on through Java: as Throwable.getStackTrace() says at the same place, whatever the code is run by while it is compiled,
thrown away and collected around; by name, in each chunk. PLUMB_STACK_SAMPLES=100000 compares so many for each JVM."""
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import babeltrace  # noqa: E402
from recorded_program import BUILD, PLUMB, leave_out_if_sanitized  # noqa: E402

PROGRAMS = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve() / "tests/integration/java"
JAR = BUILD / "probes/java/java/plumb.jar"
if not JAR.exists() or not shutil.which("javac"):
    print("skipped: no JDK, or none when this was built (openjdk-17-jdk-headless)")
    sys.exit(77)
SAMPLES = int(os.environ.get("PLUMB_STACK_SAMPLES", "1500"))
CLASSES = tempfile.mkdtemp(prefix="plumb-test-classes-")
BUFFERS = ["--subbuf-size", "2M", "--subbuf-count", "8"]
HIDDEN = re.compile(r"\$\$Lambda\$|/0x|LambdaForm\$")  # of which Throwable does not tell


def setUpModule():
    subprocess.run(["javac", "-parameters", "-cp", JAR, "-d", CLASSES, PROGRAMS / "Stacked.java", PROGRAMS / "Parked.java"], check=True, timeout=200)


def tearDownModule():
    shutil.rmtree(CLASSES, ignore_errors=True)


def stacked(samples, threads=2, depth=20, seed=7, options=(), java="java"):
    return [java, "-Xmx256m", *options, "-cp", f"{JAR}:{CLASSES}", "Stacked", *map(str, (samples, threads, depth, seed))]


def version_of(java):
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    return int(re.search(r'version "(\d+)', said)[1])


def newer_java():
    for folder in Path("/usr/lib/jvm").glob("*"):
        if (folder / "bin/java").exists() and version_of(folder / "bin/java") > 17:
            return folder / "bin/java"
    return None


def java_frames(event):
    """By name, from the method that traced on."""
    frames = [name for address, name in zip(event["event_context"]["callstack_user"], event["callstack"]) if address >> 62 == 2]
    while frames and not frames[0].startswith("Stacked.sample"):
        frames.pop(0)
    return [frame for frame in frames if not HIDDEN.search(frame)]


class JavaStacksTest(unittest.TestCase):
    def setUp(self):
        if version_of("java") != 17:
            self.skipTest("java is not version 17")
        self.folder = Path(tempfile.mkdtemp(prefix="plumb-test-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.trace = self.folder / "trace"

    def record(self, command, *options, context="callstack:512", patterns=("shop:*", "!jvm:*")):
        chosen = [word for pattern in patterns for word in ("-e", pattern)]
        done = subprocess.run([PLUMB, "record", "-q", "--force", "--jvm", "--context", context, *BUFFERS, *chosen, *options, "-o",
                               self.trace, "--", *command], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(re.sub(r"(?m)^(Picked up JAVA_TOOL_OPTIONS: .*|WARNING: .*|)\n", "", done.stderr), "")  # a newer JVM's
        return int(re.search(r"samples (\d+)", done.stdout)[1])

    def events(self, trace=None):
        shown = subprocess.run([PLUMB, "view", "--json", trace or self.trace], capture_output=True, text=True, timeout=300, check=True)
        return [json.loads(line) for line in shown.stdout.splitlines()]

    def places(self):
        return [event for event in self.events() if event["event"] == "shop:place"]

    def check(self, *options):
        count = self.record(stacked(SAMPLES, options=options))
        places = self.places()
        self.assertEqual(len(places), count)
        for event in places:
            self.assertEqual(java_frames(event), event["fields"]["stack"].splitlines(), event["callstack"])
            self.assertEqual(event["event_context"]["callstack_user_end"]["label"], "whole", event["callstack"])
            self.assertIn("start_thread", event["callstack"][-2], event["callstack"])
        print(f"{count} stacks compared")

    def test_compiled_and_interpreted(self):
        self.check()

    def test_interpreted(self):
        self.check("-Xint")

    def test_compiled_by_c1(self):
        self.check("-XX:TieredStopAtLevel=1")

    def test_compiled_by_c2(self):
        self.check("-XX:-TieredCompilation")

    def test_in_a_code_cache_that_is_too_small(self):
        self.check("-XX:ReservedCodeCacheSize=4m", "-XX:+UseCodeCacheFlushing")

    def test_serial(self):
        self.check("-XX:+UseSerialGC")

    def test_parallel(self):
        self.check("-XX:+UseParallelGC")

    def test_z(self):
        self.check("-XX:+UseZGC")

    def test_shenandoah(self):
        if subprocess.run(["java", "-XX:+UseShenandoahGC", "-version"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this JVM has no Shenandoah")
        self.check("-XX:+UseShenandoahGC")

    def test_deeper_than_is_asked_for(self):
        self.record(stacked(300), context="callstack:12")
        deeper = 0
        for event in self.places():
            context, told = event["event_context"], event["fields"]["stack"].splitlines()
            self.assertLessEqual(len(context["callstack_user"]), 12)
            frames = java_frames(event)
            self.assertEqual(frames, told[:len(frames)])
            deeper += context["callstack_user_end"]["label"] == "deeper"
        self.assertGreater(deeper, 100)

    def test_of_the_jvm_and_of_its_native_code(self):
        """The agent's own events, and locks that the JVM's native code takes on behalf of Java."""
        self.record(stacked(1000, threads=3), "--preload", "pthread", patterns=("shop:*", "jvm:monitor_*", "jvm:class_prepare", "pthread:*"))
        ends, in_java = collections.Counter(), collections.Counter()
        for event in self.events():
            provider = event["event"].split(":")[0]
            ends[provider, event["event_context"]["callstack_user_end"]["label"]] += 1
            frames = [re.sub(r":\d+$", "", name) for name in event["callstack"]]
            if event["event"] == "jvm:class_prepare" and event["fields"]["class_name"] == "Stacked$Second":
                at = frames.index("Stacked$Loader.made")
                self.assertIn("Stacked.overridden", frames[at:])
                in_java["class_prepare"] += 1
            if event["event"] == "jvm:monitor_contended_enter" and event["fields"]["class_name"] == "Stacked$Monitor":
                self.assertIn("Stacked$Walker.locked", frames)
                in_java["monitor"] += 1
            in_java[provider] += any(address >> 62 == 2 for address in event["event_context"]["callstack_user"])
        self.assertGreater(in_java["class_prepare"], 0)
        self.assertGreater(in_java["monitor"], 0)
        self.assertGreater(in_java["pthread"], 100)
        self.assertGreater(ends["pthread", "whole"], 5 * ends["pthread", "unknown_code"])

    def test_exceptions_are_thrown_where_the_stack_begins(self):
        """JVMTI says where, too: of interpreted code, which is not at a call of Java, and of compiled code."""
        for options in ((), ("-Xint",)):
            self.record(stacked(1000, options=options), patterns=("jvm:exception_throw",))
            thrown = [event for event in self.events() if event["fields"]["class_name"].startswith("Stacked")]
            self.assertGreater(len(thrown), 50)
            for event in thrown:
                place = "{class_name}.{method}:{line}".format(**event["fields"])
                frames = [name for address, name in zip(event["event_context"]["callstack_user"], event["callstack"])
                          if address >> 62 == 2]
                self.assertEqual(frames[0], place, event["callstack"])

    def test_flame_has_methods_without_lines(self):
        count = self.record(stacked(500))
        done = subprocess.run([PLUMB, "flame", "--folded", "-e", "shop:*", self.trace], capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        weights = collections.Counter()
        for line in done.stdout.splitlines():
            stack, weight = line.rsplit(" ", 1)
            frames = stack.split(";")
            self.assertEqual(frames[-1], "Stacked.sample")
            self.assertIn("java.lang.Thread.run", frames)
            self.assertFalse([frame for frame in frames if re.search(r":\d+$|/0x", frame)], line)
            weights["all"] += int(weight)
        self.assertEqual(weights["all"], count)

    def test_each_chunk_has_the_names(self):
        self.record(stacked(6000), "--rotate-size", "1M")
        chunks = sorted(folder for folder in self.trace.iterdir() if folder.name.startswith("chunk-"))
        self.assertGreater(len(chunks), 2)
        for chunk in chunks:
            for event in self.events(chunk):
                self.assertEqual(java_frames(event), event["fields"]["stack"].splitlines())

    def test_a_name_is_told_once_and_is_no_object(self):
        self.record(stacked(1000))
        told = collections.Counter()
        for event in babeltrace.events(self.trace):
            if event.name == "plumb_statedump:object" and int(event.fields["base"]) >> 62 == 2:
                told[event.fields["path"]] += 1
        self.assertIn("Stacked$Walker.go", told)
        self.assertEqual(set(told.values()), {1}, told)
        summary = json.loads((self.trace / "summary.json").read_text())
        self.assertNotIn("not_described", {key for key, value in summary.items() if value and key == "not_described"})

    def test_attached_to_and_again(self):
        with subprocess.Popen(list(map(str, stacked(10**9))), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
            try:
                time.sleep(2)
                for _ in range(2):
                    recorder = subprocess.Popen([PLUMB, "record", "-q", "--force", "--jvm", "-p", str(program.pid), "--context",
                                                 "callstack:512", *BUFFERS, "-e", "shop:*", "-e", "!jvm:*", "-o", self.trace],
                                                stderr=subprocess.PIPE, text=True)
                    time.sleep(3)
                    recorder.send_signal(signal.SIGINT)
                    recorder.communicate(timeout=60)
                    self.assertEqual(recorder.returncode, 0)
                    places = self.places()
                    self.assertGreater(len(places), 10)
                    for event in places[len(places) // 2:]:
                        self.assertEqual(java_frames(event), event["fields"]["stack"].splitlines())
                self.assertIsNone(program.poll())
            finally:
                program.kill()

    def test_of_methods_whose_class_was_changed_since(self):
        """Those that run on have the code that they began with, of which the class knows no more."""
        with subprocess.Popen(["java", "-cp", CLASSES, "Parked"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
            try:
                program.stdout.readline()
                for methods in (["--jvm-methods", "Parked::step", "-e", "jvm:method_exit"], []):
                    subprocess.run([PLUMB, "record", "-q", "--force", "--jvm", "-p", str(program.pid), "--context", "callstack", *BUFFERS,
                                    "-e", "jvm:park", *methods, "--duration", "1s", "-o", self.trace], check=True, timeout=60)
                    stacks = [event for event in self.events() if event["event"] == "jvm:park"]
                    self.assertGreater(len(stacks), 100)
                    for event in stacks[len(stacks) // 2:]:
                        self.assertRegex(" ".join(event["callstack"]), r"Parked\.park:8 Parked\.step:12 Parked\.runOn:18 Parked\.main:23 ")
                        self.assertEqual(event["event_context"]["callstack_user_end"]["label"], "whole", event["callstack"])
            finally:
                program.kill()

    def test_long_names_are_cut_and_stay_apart(self):
        """In the middle of no character; and a class that only looks like a hidden one keeps its name."""
        names = ["x" + "\u00e4" * 290 + "\U00020000" * 20 + end for end in "ab"]
        calls = "".join(f"{name}(); " for name in names)
        methods = "".join(f"static void {name}() {{ park(); }} " for name in names)
        (self.folder / "Long.java").write_text(
            "public class Long { static void park() { for (int i = 0; i < 3; i++) java.util.concurrent.locks.LockSupport.parkNanos(1000); } "
            f"{methods} public static void main(String[] a) {{ {calls} System.out.println(\"samples 1\"); }} }}", encoding="utf-8")
        subprocess.run(["javac", "-encoding", "utf-8", "-d", self.folder, self.folder / "Long.java"], check=True, timeout=200)
        self.record(["java", "-cp", self.folder, "Long"], patterns=("jvm:park",))
        found = {event["callstack"][event["callstack"].index("Long.park:1") + 1] for event in self.events() if "Long.park:1" in event["callstack"]}
        self.assertEqual(len(found), 2, found)
        for name in found:
            self.assertRegex(name, r"\ALong\.x\u00e4{290}\U00020000+~[0-9a-f]{8}:1\Z")

    def test_of_another_version_ends_at_its_code(self):
        java = newer_java()
        if java is None:
            self.skipTest("no newer JVM")
        self.record(stacked(300, java=java))
        for event in self.places():
            self.assertEqual(event["event_context"]["callstack_user_end"]["label"], "unknown_code")
            self.assertEqual(event["callstack"][-1], hex(event["event_context"]["callstack_user"][-1]))


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
