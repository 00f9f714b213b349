#!/usr/bin/env python3
# cmake-once
"""What log4j2 logs becomes events, those of java.util.logging's levels: by its configuration alone, and none while it is off."""
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from logged_java import JAR, SOURCE, LoggedJava  # noqa: E402
from recorded_program import BUILD, PLUMB, leave_out_if_sanitized  # noqa: E402

LOG4J = re.findall(r"^PLUMB_LOG4J_(?:API|CORE):FILEPATH=(/.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
if not JAR.exists() or not shutil.which("javac") or len(LOG4J) != 2:
    print("skipped: no JDK or no log4j2, or none when this was built (openjdk-17-jdk-headless, liblog4j2-java)")
    sys.exit(77)

PROGRAM = r"""
import org.apache.logging.log4j.*;

public class Logs {
    static final Logger log = LogManager.getLogger("shop.orders");

    static class BadException extends Exception {
        public String getMessage() { throw new IllegalStateException("bad exception"); }
    }

    static class Told {
        public String toString() {
            System.out.println("asked");
            return "told";
        }
    }

    public static void main(String[] words) throws Exception {
        switch (words[0]) {
            case "levels":
                for (int level : new int[] {1, 100, 200, 250, 300, 350, 400, 450, 500, 600, 700, 2147483646})
                    log.log(Level.forName("L" + level, level), "at {}", level);
                log.fatal("fatal");
                log.error("error");
                log.warn("warn");
                log.info("info");
                log.debug("debug");
                log.trace("trace");
                break;
            case "fields":
                final Thread thread = new Thread(() -> log.info("小さい 🙂 \ud800 {}", "ß"), "Köchin");
                thread.start();
                thread.join();
                log.error("lost {}", 7, new IllegalStateException("why"));
                log.info((String) null);
                log.info("x".repeat(30000) + "я".repeat(2000) + "end");
                break;
            case "bad":
                log.error("lost", new BadException());
                log.error("said");
                break;
            case "off":
                log.debug("{}", new Told());
                log.error("{}", new Told());
                break;
            case "many":
                final Thread[] threads = new Thread[8];
                for (int i = 0; i < threads.length; i++) {
                    final int number = i;
                    threads[i] = new Thread(() -> {
                        for (int j = 0; j < 5000; j++) log.info("t{} {}", number, j);
                    });
                }
                for (Thread each : threads) each.start();
                for (Thread each : threads) each.join();
                break;
            default:
        }
    }
}
"""
PLAIN = '<Plumb name="plumb"/>'
LAYOUT = '<Plumb name="plumb"><PatternLayout pattern="&lt;%m&gt;"/><ThresholdFilter level="ERROR"/></Plumb>'
ASYNC = '<Plumb name="kept"/><Async name="plumb"><AppenderRef ref="kept"/></Async>'


class Log4j(LoggedJava):
    PROGRAM = PROGRAM
    CLASS_PATH = LOG4J

    def java(self, what, appenders, options=(), jar=JAR):
        configuration = self.folder / "log4j2.xml"
        configuration.write_text(appenders if appenders.startswith("<Configuration") else
                                 f'<Configuration status="warn"><Appenders>{appenders}</Appenders>'
                                 '<Loggers><Root level="all"><AppenderRef ref="plumb"/></Root></Loggers></Configuration>')
        # Else log4j2 itself formats what its logger lets through.
        return ["java", "-Dlog4j2.enable.threadlocals=false", *options, f"-Dlog4j2.configurationFile={configuration}", "-cp", ":".join([str(jar), *LOG4J, str(self.classes)]),
                "Logs", what]

    def record(self, what, *options, appenders=PLAIN, warns=False):
        return self.events_of(self.java(what, appenders), options, warns)

    def test_each_level_is_an_event(self):
        events = self.record("levels")
        self.assertEqual([(event["event"], event["fields"]["level"], event["fields"]["message"]) for event in events], [
            (f"java:{name}", level, f"at {at}") for name, level, at in
            (("severe", 1199, 1), ("severe", 1100, 100), ("severe", 1000, 200), ("warning", 950, 250), ("warning", 900, 300),
             ("info", 850, 350), ("info", 800, 400), ("config", 700, 450), ("fine", 500, 500), ("finer", 400, 600), ("finest", 300, 700),
             ("finest", 1000 - 2147483646, 2147483646))] + [
            (f"java:{name}", level, said) for name, level, said in
            (("severe", 1100, "fatal"), ("severe", 1000, "error"), ("warning", 900, "warn"), ("info", 800, "info"), ("fine", 500, "debug"),
             ("finer", 400, "trace"))])

    def test_fields(self):
        small, lost, nothing, long = [event["fields"] for event in self.record("fields")]
        self.assertEqual((small["message"], small["logger"], small["thread"]), ("小さい 🙂 ? ß", "shop.orders", "Köchin"))
        self.assertRegex(lost["message"], r"\Alost 7\njava\.lang\.IllegalStateException: why\n\tat Logs\.main\(Logs\.java:\d+\)\Z")
        self.assertEqual((lost["thread"], lost["class_name"], lost["method"]), ("main", "Logs", "main"))
        self.assertIn(nothing["message"], ("", "null"))
        self.assertEqual(long["message"], "x" * 30000 + "я" * 2000 + "end")

    def test_layout_and_filter(self):
        messages = [event["fields"]["message"] for event in self.record("levels", appenders=LAYOUT)]
        self.assertEqual(messages, ["<at 1>", "<at 100>", "<at 200>", "<fatal>", "<error>"])

    def test_behind_an_asynchronous_one(self):
        small, lost, *_ = [event["fields"] for event in self.record("fields", appenders=ASYNC)]
        self.assertEqual((small["thread"], small["class_name"], small["method"]), ("Köchin", "", ""))
        self.assertEqual(lost["thread"], "main")

    def test_what_is_off_is_not_formatted(self):
        self.check_off(self.record("off", "-e", "java:severe"), "asked\n", self.java("off", PLAIN), "")

    def test_what_can_not_be_formatted_is_counted(self):
        events = self.record("bad", warns=True)
        self.assertEqual([event["fields"]["message"] for event in events], ["said"])
        self.check_lost(1)

    def test_many_threads(self):
        self.check_many(self.record("many", "-e", "java:*", "--mode", "block"), 5000)

    def test_the_configuration_of_the_docs(self):
        (example,) = re.findall(r"^```xml\n(.*?)^```$", (SOURCE / "docs/java-logging.md").read_text(), re.MULTILINE | re.DOTALL)
        events = self.record("levels", appenders=example)
        self.assertEqual([event["fields"]["message"] for event in events[-4:]], ["fatal", "error", "warn", "info"])
        self.assertIn("info", self.said)  # on the console

    def test_without_the_library_it_says_where_it_looked(self):
        jar = shutil.copy(JAR, self.folder)
        done = subprocess.run(self.java("off", PLAIN, jar=jar), capture_output=True, text=True, timeout=100, check=False)
        self.assertIn("libplumb-java.so is none of", done.stdout + done.stderr)


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
