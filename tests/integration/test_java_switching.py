#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""Typed events of a Java program that runs: switched on and off again and again, whatever becomes of their recorder and of the thread that hears of it."""
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from emitting_java import InFolder, compile_java, java, java_version, setUpModule  # noqa: E402, F401
from recorded_program import PLUMB, leave_out_if_sanitized  # noqa: E402


class Switching(InFolder):
    """Of a program that runs."""

    def start(self, *words):
        program = subprocess.Popen(java(*words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.stdin.close)
        self.addCleanup(program.wait, timeout=60)
        self.addCleanup(program.kill)
        self.assertEqual(program.stdout.readline(), "ready false false\n")
        return program

    def tell(self, program, line):
        program.stdin.write(line + "\n")
        program.stdin.flush()
        return program.stdout.readline().strip()

    def begin(self, program, *patterns):
        shutil.rmtree(self.trace, ignore_errors=True)
        recorder = subprocess.Popen([PLUMB, "record", "-q", "-o", self.trace, "-p", str(program.pid), "--mode", "block",
                                     *(word for pattern in patterns for word in ("-e", pattern))],
                                    stderr=subprocess.PIPE, text=True)
        self.addCleanup(recorder.stderr.close)
        self.addCleanup(recorder.wait, timeout=60)
        self.addCleanup(recorder.kill)
        return recorder

    def end(self, recorder):
        recorder.send_signal(2)
        self.assertEqual(recorder.wait(timeout=60), 0, recorder.stderr.read())

    def test_again_and_again(self):
        program = self.start("Switched")
        self.assertEqual(self.tell(program, "emit 0 100000"), "done")  # which compiles it, with nothing in it
        for turn in range(6):
            recorder = self.begin(program, *(("shop:first",), ("shop:*",))[turn % 2])
            self.assertEqual(self.tell(program, f"await true {'true' if turn % 2 else 'false'}"), "done")
            self.assertEqual(self.tell(program, "emit 0 20000"), "done")
            self.end(recorder)
            self.assertEqual(self.tell(program, "emit 30000 30100"), "done")  # off, wherever Java's call sites lead
            self.assertEqual(self.tell(program, "await false false"), "done")
            self.assertEqual(self.tell(program, "emit 40000 60000"), "done")
            self.assertEqual(self.fields("first"), [{"number": number} for number in range(20000)])
            self.assertEqual(len(self.fields("second")), 20000 if turn % 2 else 0)
        self.assertEqual(self.tell(program, "threads"), "[plumb-updates true]")
        program.stdin.close()
        self.assertEqual(program.wait(timeout=60), 0)

    def test_what_runs_is_not_said_to_have_no_such_event(self):
        """What Java code has declared is in no file: its recorder knows at the end which were on."""
        for pattern, said in (("shop:second", ""), ("shop:nosuch", "matches 'shop:nosuch'; it has java:config, java:fine")):
            with self.subTest(pattern):
                program = self.start("Switched")
                recorder = subprocess.Popen([PLUMB, "record", "-o", self.trace, "-p", str(program.pid), "-e", pattern],
                                            stderr=subprocess.PIPE, text=True)
                if said:
                    time.sleep(1)
                else:
                    self.assertEqual(self.tell(program, "await false true"), "done")
                    self.assertEqual(self.tell(program, "emit 0 10"), "done")
                recorder.send_signal(2)
                _, errors = recorder.communicate(timeout=60)
                self.assertEqual(errors.count("No event of "), 1 if said else 0, errors)
                self.assertIn(said, errors)
                shutil.rmtree(self.trace)

    def test_its_thread_is_stopped(self):
        """As where a program stops all that it finds: the next event that is declared begins another one, which follows all."""
        if java_version() > 19:
            self.skipTest("a Java that has no Thread.stop() any more")
        (self.folder / "Stopped.java").write_text("""
            public class Stopped {
                @plumb.Event("shop:first") interface First { void emit(int number); boolean isOn(); }
                @plumb.Event("shop:second") interface Second { void emit(int number); boolean isOn(); }
                @SuppressWarnings({"deprecation", "removal"})
                public static void main(String[] words) throws Exception {
                    final First first = plumb.Plumb.event(First.class);
                    for (Thread each : Thread.getAllStackTraces().keySet())
                        if (each.getName().equals("plumb-updates")) {
                            each.stop();
                            System.out.println("stopped");
                            each.join(); // asleep, it hears of that when it is woken
                        }
                    final Second second = plumb.Plumb.event(Second.class);
                    System.out.println("declared");
                    for (int i = 0; i < 6000 && !(first.isOn() && second.isOn()); i++) Thread.sleep(10);
                    System.out.println(first.isOn() + " " + second.isOn());
                }
            }""")
        compile_java(self.folder / "Stopped.java", to=self.folder)
        program = subprocess.Popen(java("Stopped", classes=self.folder), stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait, timeout=60)
        self.addCleanup(program.kill)
        self.assertEqual(program.stdout.readline(), "stopped\n")
        recorder = self.begin(program, "shop:first")
        self.assertEqual(program.stdout.readline(), "declared\n")
        recorder.send_signal(2)
        self.assertIn(recorder.wait(timeout=60), (0, -2))  # it may not have begun
        recorder = self.begin(program, "shop:*")
        self.assertEqual(program.stdout.readline(), "true true\n")
        self.end(recorder)

    def test_its_recorder_is_killed(self):
        program = self.start("Switched")
        recorder = self.begin(program, "shop:*")
        self.assertEqual(self.tell(program, "await true true"), "done")
        self.assertEqual(self.tell(program, "emit 0 1000"), "done")
        recorder.kill()
        recorder.wait(timeout=60)
        self.trace = self.folder / "second"
        recorder = self.begin(program, "shop:second")
        self.assertEqual(self.tell(program, "await false true"), "done")
        self.assertEqual(self.tell(program, "emit 1000 1010"), "done")
        self.end(recorder)
        self.assertEqual([event["fields"]["number"] for event in self.events()], list(range(1000, 1010)))


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
