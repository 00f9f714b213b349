#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 600
"""Events of Java code and of its logging where memory is used up: nothing is thrown into the program, what is lost is counted, and what
threads have once emitted keeps no memory."""
import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from logged_java import JAR, SOURCE  # noqa: E402
from recorded_program import BUILD, PLUMB, leave_out_if_sanitized  # noqa: E402

LOG4J = re.findall(r"^PLUMB_LOG4J_(?:API|CORE):FILEPATH=(/.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
if not JAR.exists() or not shutil.which("javac"):
    print("skipped: no JDK, or none when this was built (openjdk-17-jdk-headless)")
    sys.exit(77)

SCRATCH = tempfile.TemporaryDirectory(prefix="plumb-test-")
CLASSES = Path(SCRATCH.name)
LITTLE_DIRECT = "-XX:MaxDirectMemorySize=1m"
LONG = "x" * 20000

LOG4J_PROGRAM = r"""
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.Logger;
import org.apache.logging.log4j.message.Message;
import org.apache.logging.log4j.message.SimpleMessage;

public class Short4j {
    static class Deep extends SimpleMessage {
        public String getFormattedMessage() { return new Deep().getFormattedMessage() + "."; }
    }

    public static void main(String[] words) throws Exception {
        final Logger log = LogManager.getLogger("shop");
        final List<ByteBuffer> kept = new ArrayList<>();
        for (int size = 1 << 20; size >= 16; size >>= 4)
            try {
                while (true) kept.add(ByteBuffer.allocateDirect(size));
            } catch (OutOfMemoryError none) {
            }
        log.info("first");
        final Thread thread = new Thread(() -> {
            log.info("x".repeat(20000));
            log.info((Message) new Deep());
            log.info("last");
        });
        thread.start();
        thread.join();
        System.out.println("end " + kept.isEmpty());
    }
}
"""


def setUpModule():
    unittest.addModuleCleanup(SCRATCH.cleanup)
    compile_java(SOURCE / "tests/integration/java/Short.java")
    for name in ("Again", "Depth", "Late"):
        compile_java(SOURCE / f"tests/integration/java/{name}.java")


def compile_java(source, *more):
    subprocess.run(["javac", "-encoding", "UTF-8", "-parameters", "-proc:none", "-cp", ":".join([str(JAR), *more]), "-d", CLASSES, source],
                   check=True, timeout=200)


class Memory(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="plumb-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.trace = self.folder / "trace"

    def record(self, *command, class_path=(), loses=False):
        """What it prints. To the terminal it says nothing, and neither does the recorder if nothing was lost."""
        options, words = [each for each in command if each.startswith("-")], [each for each in command if not each.startswith("-")]
        done = subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "-e", "shop:*", "-e", "java:*", "--mode", "block", "--", "java",
                               "-Xmx256m", "-XX:+UseSerialGC", *options, "-cp", ":".join([str(JAR), str(CLASSES), *class_path]), *words],
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        if not loses:
            self.assertEqual(done.stderr, "")
        self.assertNotIn("Exception", done.stderr)
        self.assertNotIn("OutOfMemoryError", done.stderr)
        return done.stdout

    def values(self, field):
        shown = subprocess.run([PLUMB, "view", "--json", self.trace], capture_output=True, text=True, timeout=200, check=True)
        return [json.loads(line)["fields"][field] for line in shown.stdout.splitlines()]

    def check_lost(self, count):
        summary = subprocess.run([PLUMB, "view", "--summary", self.trace], capture_output=True, text=True, timeout=100, check=True)
        self.assertRegex(summary.stdout, rf"(?m)^lost: {count} events?,")

    def test_events_where_direct_memory_is_used_up(self):
        self.assertEqual(self.record(LITTLE_DIRECT, "Short", "direct"), "null\n")
        self.assertEqual(self.values("text"), ["short", LONG] * 5)

    def test_logging_where_direct_memory_is_used_up(self):
        self.assertEqual(self.record(LITTLE_DIRECT, "Short", "direct", "log"), "null\n")
        self.assertEqual(self.values("message"), ["short", LONG] * 5)

    def test_the_first_event_where_direct_memory_is_used_up(self):
        self.assertEqual(self.record(LITTLE_DIRECT, "Late", "event"), "false\n")
        self.assertEqual(self.values("text"), ["said"])

    def test_the_first_handler_where_direct_memory_is_used_up(self):
        self.assertEqual(self.record(LITTLE_DIRECT, "Late", "log"), "false\n")
        self.assertEqual(self.values("message"), ["said"])

    @unittest.skipIf(len(LOG4J) != 2, "no log4j2 when this was built (liblog4j2-java)")
    def test_log4j_where_direct_memory_is_used_up(self):
        program, configuration = self.folder / "Short4j.java", self.folder / "log4j2.xml"
        program.write_text(LOG4J_PROGRAM)
        compile_java(program, *LOG4J)
        configuration.write_text('<Configuration status="warn"><Appenders><Plumb name="plumb"/></Appenders>'
                                 '<Loggers><Root level="all"><AppenderRef ref="plumb"/></Root></Loggers></Configuration>')
        self.assertEqual(self.record(LITTLE_DIRECT, f"-Dlog4j2.configurationFile={configuration}", "-Dlog4j2.enable.threadlocals=false",
                                     "Short4j", class_path=LOG4J, loses=True), "end false\n")
        self.assertEqual(self.values("message"), ["first", LONG, "last"])
        self.check_lost(1)

    def test_where_the_heap_is_used_up(self):
        """Not even a long text is put together there."""
        self.assertEqual(self.record("-Xmx32m", "Short", "heap"), "null\n")
        self.assertEqual(self.values("text"), ["short", LONG] * 50)

    def check_nearly_full(self, field, *words):
        """A JVM that ends when its heap is used up does that before what is thrown could be caught."""
        self.assertEqual(self.record("-Xms12m", "-Xmx12m", "-Xmn2m", "-XX:+ExitOnOutOfMemoryError", "Short", "nearly", *words), "null\n")
        self.assertEqual([len(text) for text in self.values(field)], [5] + [30000] * 19)

    def test_events_where_the_heap_is_nearly_used_up(self):
        self.check_nearly_full("text")

    def test_logging_where_the_heap_is_nearly_used_up(self):
        self.check_nearly_full("message", "log")

    def test_a_message_that_can_not_be_made_is_lost(self):
        self.assertEqual(self.record("Short", "message", loses=True), "null\n")
        self.assertEqual(self.values("message"), ["said"])
        self.check_lost(3)

    def test_the_first_record_where_the_stack_is_nearly_full(self):
        """What formatting loads can not be loaded any more by anybody, if there is no room for it the first time."""
        returned, formatted = map(int, self.record("Again", "deep", loses=True).split())
        self.assertEqual((returned, formatted), (11, 1))
        messages = self.values("message")
        self.assertEqual(messages[-1], "last 1")
        summary = json.loads((self.trace / "summary.json").read_text())
        self.assertEqual(len(messages) + summary["events_lost"], returned + 1, messages)

    def test_events_where_the_stack_is_nearly_full(self):
        """emit() throws where it does while the event is off, and what it does not throw for is recorded or counted as lost."""
        for mode in ("-Xint", "-Xcomp"):
            with self.subTest(mode):
                off = subprocess.run(["java", mode, "-cp", f"{JAR}:{CLASSES}", "Depth"], capture_output=True, text=True, timeout=300,
                                     check=True).stdout
                returned, thrown = map(int, self.record(mode, "Depth", loses=True).split())
                summary = json.loads((self.trace / "summary.json").read_text())
                self.assertEqual(len(self.values("number")) + summary["events_lost"], returned + 1)
                if mode == "-Xint":
                    self.assertEqual(f"{returned} {thrown}\n", off)
                    self.assertGreater(summary["events_lost"], 0)
                shutil.rmtree(self.trace)

    def test_one_loader_behind_the_other(self):
        grown = int(self.record("Again", "loaders", str(JAR)))
        self.assertEqual(self.values("message"), ["loaded"] * 45)
        self.assertLess(grown, 20)  # what those have put their records together in, kept, would be 48

    def check_threads(self, *words):
        said = self.record("-Xss256k", "Short", "threads", *words).split()
        *megabytes, resident, thrown = said
        self.assertEqual(thrown, "null")
        for heap, direct in zip(megabytes[::2], megabytes[1::2]):
            self.assertLess(int(heap), 24, said)
            self.assertLess(int(direct), 8, said)
        # What each of 2,000 threads had to put its text together would be 125, or more. (40 to 71 on a busy machine.)
        self.assertLess(int(resident), 100, said)

    def test_threads_keep_nothing_of_long_events(self):
        self.check_threads()
        self.assertEqual([len(text) for text in self.values("text")], [60000] * 4000)

    def test_threads_keep_nothing_of_long_records(self):
        self.check_threads("log")
        self.assertEqual([len(text) for text in self.values("message")], [60000] * 4000)


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
