#!/usr/bin/env python3
# cmake-once
"""Records of java.util.logging become events: each with its level, fields in any script, and none while it is off."""
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from logged_java import JAR, SOURCE, LoggedJava  # noqa: E402
import babeltrace  # noqa: E402
from recorded_program import PLUMB, leave_out_if_sanitized  # noqa: E402

if not JAR.exists() or not shutil.which("javac"):
    print("skipped: no JDK, or none when this was built (openjdk-17-jdk-headless)")
    sys.exit(77)

PROGRAM = r"""
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.logging.*;
import plumb.logging.PlumbHandler;

public class Logs {
    static final Logger log = Logger.getLogger("shop.orders");

    static class Between extends Level {
        Between(int value) { super("between", value); }
    }

    static class BadException extends Exception {
        public String getMessage() { throw new IllegalStateException("bad exception"); }
    }

    static class Told {
        public String toString() {
            System.out.println("asked");
            return "told";
        }
    }

    static int endless(int depth) { return endless(depth + 1) + 1; }

    /** Of a class of its own, whose caller is found as LogRecord does it. */
    static class Tagged extends LogRecord {
        Tagged(String text) { super(Level.INFO, text); }
    }

    /** A logging facade, whose records find who called that, and remember in their own way that they did. */
    static class Facade {
        static void warn(String text) { log.log(new Found(text)); }
        static void plain(String text) { log.info(text); }
    }

    static class Found extends LogRecord {
        private boolean isFound;

        Found(String text) { super(Level.WARNING, text); }

        private void find() {
            if (isFound) return;
            isFound = true;
            final StackTraceElement[] frames = new Throwable().getStackTrace();
            int above = 0;
            while (!frames[above].getClassName().equals(Facade.class.getName())) above++;
            setSourceClassName(frames[above + 1].getClassName());
            setSourceMethodName(frames[above + 1].getMethodName());
        }

        public String getSourceClassName() {
            find();
            return super.getSourceClassName();
        }

        public String getSourceMethodName() {
            find();
            return super.getSourceMethodName();
        }
    }

    public static void main(String[] words) throws Exception {
        final PlumbHandler handler = new PlumbHandler();
        log.setUseParentHandlers(false);
        log.setLevel(Level.ALL);
        log.addHandler(handler);
        switch (words[0]) {
            case "levels":
                for (int level : new int[] {1200, 1000, 950, 900, 800, 750, 700, 600, 500, 400, 300, 100})
                    log.log(new Between(level), "at {0}", level);
                break;
            case "fields":
                final Thread thread = new Thread(() -> log.logp(Level.INFO, "Größe", "計る", "小さい 🙂 \ud800 {0}", "ß"), "Köchin");
                thread.start();
                thread.join();
                log.log(Level.SEVERE, "lost", new IllegalStateException("why"));
                log.info((String) null);
                log.info("x".repeat(30000) + "я".repeat(2000) + "end");
                handler.setFormatter(new Formatter() {
                    public String format(LogRecord record) { return "<" + record.getMessage() + ">"; }
                });
                log.info("formatted");
                break;
            case "long":
                log.logp(Level.INFO, "Größe", "計る", "x".repeat(70000));
                log.logp(Level.INFO, "y".repeat(70000), "計る", "x".repeat(30000));
                break;
            case "off":
                log.log(Level.FINE, "{0}", new Told());
                log.log(Level.SEVERE, "{0}", new Told());
                System.out.println(PlumbHandler.isOn(Level.FINE) + " " + PlumbHandler.isOn(Level.SEVERE));
                break;
            case "bad":
                handler.setErrorManager(new ErrorManager() {
                    public void error(String message, Exception problem, int code) { System.out.println(code + " " + problem.getMessage()); }
                });
                for (Level level : new Level[] {Level.SEVERE, Level.WARNING, Level.FINEST}) log.log(level, "lost", new BadException());
                handler.setFormatter(new Formatter() {
                    public String format(LogRecord record) {
                        if (record.getMessage().equals("lost")) throw new IllegalStateException("bad formatter");
                        return record.getMessage();
                    }
                });
                log.severe("lost");
                log.severe("said");
                break;
            case "filters":
                handler.setErrorManager(new ErrorManager() {
                    public void error(String message, Exception problem, int code) { System.out.println(code + " " + problem.getMessage()); }
                });
                handler.setFilter(record -> endless(0) > 0);
                log.severe("too deep");
                handler.setFilter(record -> { throw new IllegalStateException("bad filter"); });
                log.severe("lost");
                handler.setFilter(record -> record.getMessage().equals("said"));
                log.severe("left out");
                log.severe("said");
                System.out.println("went on");
                break;
            case "behind":
                final ExecutorService other = Executors.newSingleThreadExecutor();
                log.addHandler(new Handler() {
                    public void publish(LogRecord record) {
                        try {
                            other.submit(() -> System.out.println(record.getSequenceNumber() + " " + record.getSourceClassName() + " "
                                + record.getSourceMethodName() + " " + record.getMessage())).get();
                        } catch (Exception never) {
                            throw new IllegalStateException(never);
                        }
                    }
                    public void flush() {}
                    public void close() {}
                });
                log.info("found");
                log.log(Level.INFO, "bad {0}", new Object() { public String toString() { throw new IllegalStateException(); } });
                log.logp(Level.INFO, "Named", "method", "named");
                final LogRecord asked = new LogRecord(Level.INFO, "asked");
                System.out.println(asked.getSourceMethodName());
                log.log(asked);
                log.log(new Tagged("tagged"));
                other.shutdown();
                break;
            case "own":
            case "facade":
                log.addHandler(new Handler() {
                    public void publish(LogRecord record) {
                        System.out.println(record.getSourceClassName() + " " + record.getSourceMethodName());
                    }
                    public void flush() {}
                    public void close() {}
                });
                if (words[0].equals("own")) {
                    Facade.warn("hello");
                } else {
                    Facade.plain("hello");
                    System.getLogger("shop.orders").log(System.Logger.Level.INFO, "hello");
                }
                break;
            case "meanwhile":
                final LogRecord shared = new LogRecord(Level.INFO, "{0}");
                final Thread namer = new Thread(() -> {
                    shared.setSourceClassName("Named");
                    shared.setSourceMethodName("meanwhile");
                });
                shared.setParameters(new Object[] {new Object() {
                    public String toString() {
                        namer.start();
                        try {
                            namer.join();
                        } catch (InterruptedException never) {
                            throw new IllegalStateException(never);
                        }
                        return "named";
                    }
                }});
                log.log(shared);
                if (namer.getState() == Thread.State.NEW) shared.getParameters()[0].toString();
                System.out.println(shared.getSourceClassName() + " " + shared.getSourceMethodName());
                break;
            case "many":
                final Thread[] threads = new Thread[8];
                for (int i = 0; i < threads.length; i++) {
                    final int number = i;
                    threads[i] = new Thread(() -> {
                        for (int j = 0; j < 20000; j++) log.log(Level.INFO, "t" + number + " " + j);
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


def callers_of(events):
    return [(event["fields"]["class_name"], event["fields"]["method"]) for event in events]


class JavaLogging(LoggedJava):
    PROGRAM = PROGRAM
    CLASS_PATH = (JAR,)

    def java(self, *words, classes=None, name="Logs", options=()):
        return ["java", "-Xshare:auto", *options, "-cp", f"{JAR}:{classes or self.classes}", name, *words]

    def record(self, what, *options, warns=False):
        return self.events_of(self.java(what), options, warns)

    def record_as_alone(self, what):
        """It prints what it prints without a recording."""
        events = self.events_of(self.java(what), warns=True)
        done = subprocess.run(self.java(what), capture_output=True, text=True, timeout=100, check=True)
        self.assertEqual(self.said, done.stdout)
        return events

    def test_each_level_is_an_event(self):
        events = self.record("levels")
        self.assertEqual([(event["event"], event["fields"]["level"], event["fields"]["message"]) for event in events], [
            (f"java:{name}", level, f"at {level:,}") for name, level in
            (("severe", 1200), ("severe", 1000), ("warning", 950), ("warning", 900), ("info", 800), ("config", 750), ("config", 700),
             ("fine", 600), ("fine", 500), ("finer", 400), ("finest", 300), ("finest", 100))])

    def test_levels_are_chosen(self):
        events = self.record("levels", "-e", "java:*", "--log-level", "warning")
        self.assertEqual([event["fields"]["level"] for event in events], [1200, 1000, 950, 900])

    def test_fields(self):
        small, lost, nothing, long, formatted = [event["fields"] for event in self.record("fields")]
        self.assertEqual(small["message"], "小さい 🙂 ? ß")
        self.assertEqual((small["logger"], small["thread"], small["class_name"], small["method"]),
                         ("shop.orders", "Köchin", "Größe", "計る"))
        self.assertRegex(lost["message"], r"\Alost\njava\.lang\.IllegalStateException: why\n\tat Logs\.main\(Logs\.java:\d+\)\Z")
        self.assertEqual((lost["thread"], lost["class_name"], lost["method"]), ("main", "Logs", "main"))
        self.assertEqual(nothing["message"], "")
        self.assertEqual(long["message"], "x" * 30000 + "я" * 2000 + "end")
        self.assertEqual(formatted["message"], "<formatted>")

    def test_a_long_message_leaves_the_others_whole(self):
        first, second = [event["fields"] for event in
                         self.record("long", "-e", "java:*", "--subbuf-size", "1M", warns=True)]
        names = {"logger": "shop.orders", "thread": "main", "class_name": "Größe", "method": "計る"}
        self.assertEqual({name: first[name] for name in names}, names)
        room = 65528 - 16 - 5 * 2 - 4 - 8  # as of typed events: the last word is left where a field is cut
        self.assertEqual(first["message"], "x" * (room - len("".join(names.values()).encode())))
        self.assertEqual((second["message"], second["method"]), ("x" * 30000, "計る"))
        self.assertEqual(second["class_name"], "y" * (room - 30000 - len("shop.ordersmain計る".encode())))

    def test_what_is_off_is_not_formatted(self):
        self.check_off(self.record("off", "-e", "java:severe"), "asked\nfalse true\n", self.java("off"), "false false\n")

    def test_what_can_not_be_formatted_is_counted(self):
        events = self.record("bad", warns=True)
        self.assertEqual([event["fields"]["message"] for event in events], ["said"])
        self.assertEqual(self.said, "5 bad exception\n" * 3 + "5 bad formatter\n")
        self.check_lost(4)
        shutil.rmtree(self.trace)
        self.record("bad", "-e", "java:finest", warns=True)
        self.check_lost(1)

    def test_what_a_filter_throws_does_not_reach_the_program(self):
        events = self.record("filters", warns=True)
        self.assertEqual([event["fields"]["message"] for event in events], ["said"])
        self.assertEqual(self.said, "5 bad filter\nwent on\n")
        self.check_lost(2)

    def test_a_record_does_not_keep_its_caller(self):
        """A handler behind ours that asks for it in another thread finds what it finds while nothing is recorded."""
        events = self.record_as_alone("behind")
        for message in ("found", "tagged"):
            self.assertIn(f"null null {message}\n", self.said)
        self.assertIn("Named method named\n", self.said)
        self.assertEqual(callers_of(events), [("Logs", "main")] * 2 + [("Named", "method"), ("", ""), ("Logs", "main")])

    def test_a_record_that_finds_its_caller_in_its_own_way(self):
        events = self.record_as_alone("own")
        self.assertEqual((callers_of(events), self.said), ([("Logs", "main")], "Logs main\n"))

    def test_what_another_thread_puts_into_a_record_stays(self):
        events = self.record_as_alone("meanwhile")
        self.assertEqual((callers_of(events), self.said), ([("Named", "meanwhile")], "Named meanwhile\n"))

    def test_a_caller_is_found_behind_what_the_jdk_leaves_out(self):
        """Packages of facades, which are named to it; and loggers of the JDK's own interface."""
        for options, caller in (((), ("Logs$Facade", "plain")), (("-Djdk.logger.packages=none,Logs$Facade",), ("Logs", "main"))):
            events = self.events_of(self.java("facade", options=options))
            self.assertEqual(callers_of(events), [caller, ("Logs", "main")])
            self.assertEqual(self.said, " ".join(caller) + "\nLogs main\n")
            shutil.rmtree(self.trace)

    def test_many_threads(self):
        self.check_many(self.record("many", "-e", "java:*", "--mode", "block"), 20000)

    def test_the_example_of_the_docs(self):
        (example,) = re.findall(r"^```java\n(.*?)^```$", (SOURCE / "docs/java-logging.md").read_text(), re.MULTILINE | re.DOTALL)
        folder = self.trace.parent
        (folder / "Shop.java").write_text(example)
        subprocess.run(["javac", "-cp", JAR, "-d", folder, folder / "Shop.java"], check=True)
        subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "-e", "java:*", "--", *self.java(classes=folder, name="Shop")],
                       capture_output=True, timeout=100, check=True)
        shown = subprocess.run(["babeltrace2", self.trace], capture_output=True, text=True, timeout=100, check=True)
        (line,) = [line for line in shown.stdout.splitlines() if " java:" in line]
        for part in ("java:warning: ", 'logger = "shop"', 'message = "only 3 left"', "level = 900", 'thread = "main"',
                     'class_name = "Shop"', 'method = "main"'):
            self.assertIn(part, line)

    def plain_java(self, handlers, jar=JAR, options=()):
        """A program that knows nothing of Plumb, but for its logging.properties."""
        properties, source = self.folder / "logging.properties", self.folder / "Plain.java"
        properties.write_text(f"handlers = {handlers}\n.level = FINE\n")
        source.write_text("""
            public class Plain {
                public static void main(String[] words) {
                    java.util.logging.Logger.getLogger("plain").fine("said");
                    java.util.logging.Logger.getLogger("plain").warning("warned");
                    System.out.println("went on");
                }
            }""")
        subprocess.run(["javac", "-d", self.folder, source], check=True)
        return ["java", *options, f"-Djava.util.logging.config.file={properties}", "-cp", f"{jar}:{self.folder}", "Plain"]

    def test_by_properties_alone(self):
        subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "-e", "java:fine", "--", *self.plain_java("plumb.logging.PlumbHandler")],
                       timeout=100, check=True)
        shown = subprocess.run([PLUMB, "view", self.trace], capture_output=True, text=True, timeout=100, check=True)
        self.assertIn('message = "said"', shown.stdout)

    def test_without_the_library_it_says_where_it_looked(self):
        jar = shutil.copy(JAR, self.trace.parent)
        done = subprocess.run(["java", "-cp", f"{jar}:{self.classes}", "Logs", "off"], capture_output=True, text=True, timeout=100,
                              check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"libplumb-java.so is none of [{self.trace.parent}/libplumb-java.so, ", done.stderr)
        self.assertIn("PLUMB_PROBE_DIR", done.stderr)

    def test_a_configured_program_goes_on_without_the_library(self):
        jar = shutil.copy(JAR, self.folder)
        command = self.plain_java("plumb.logging.PlumbHandler, java.util.logging.ConsoleHandler", jar)
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "went on\n"), done.stderr)
        self.assertIn(f"libplumb-java.so is none of [{self.folder}/libplumb-java.so, ", done.stderr)
        self.assertIn("WARNING: warned", done.stderr)

    def test_where_the_library_is_not_there_nothing_is_on(self):
        (self.folder / "Asks.java").write_text("""
            public class Asks {
                public static void main(String[] words) {
                    for (int i = 0; i < 2; i++) {
                        try {
                            new plumb.logging.PlumbHandler();
                        } catch (IllegalStateException problem) {
                            System.out.println(problem.getMessage().contains("PLUMB_PROBE_DIR"));
                        }
                        System.out.println(plumb.logging.PlumbHandler.isOn(java.util.logging.Level.SEVERE));
                    }
                }
            }""")
        subprocess.run(["javac", "-cp", JAR, "-d", self.folder, self.folder / "Asks.java"], check=True)
        jar = shutil.copy(JAR, self.folder)
        done = subprocess.run(["java", "-cp", f"{jar}:{self.folder}", "Asks"], capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "true\nfalse\n" * 2), done.stderr)

    def test_under_a_security_manager_the_right_of_the_jar_suffices(self):
        """For a handler, the JDK wants of who makes it that it may control logging, and nothing else is wanted."""
        (self.folder / "Guarded.java").write_text("""
            import java.util.logging.*;
            public class Guarded {
                public static void main(String[] words) {
                    final Logger logger = Logger.getLogger("shop");
                    logger.addHandler(new plumb.logging.PlumbHandler());
                    logger.setUseParentHandlers(false);
                    logger.info("sold");
                }
            }""")
        subprocess.run(["javac", "-cp", JAR, "-d", self.folder, self.folder / "Guarded.java"], check=True)
        policy = self.folder / "policy"
        policy.write_text(f'grant codeBase "file:{JAR}" {{ permission java.security.AllPermission; }};'
                          'grant { permission java.util.logging.LoggingPermission "control"; };')
        command = ["java", "-Djava.security.manager", f"-Djava.security.policy=={policy}", "-cp", f"{JAR}:{self.folder}", "Guarded"]
        done = subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "-e", "java:*", "--", *command], capture_output=True, text=True,
                              timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        (event,) = [event for event in babeltrace.events(self.trace) if event.name == "java:info"]
        self.assertEqual([event.fields[name] for name in ("message", "class_name", "method")], ["sold", "Guarded", "main"])

    def run_small(self, text, record):
        """A program of one class, Small: what it prints, recorded or not, with a handler of ours."""
        (self.folder / "Small.java").write_text("import java.util.*; import java.util.logging.*; import java.text.*;\n" + text)
        subprocess.run(["javac", "-cp", JAR, "-d", self.folder, self.folder / "Small.java"], check=True)
        recorder = [PLUMB, "record", "-q", "-o", self.trace, "-e", "java:*", "--"] if record else []
        done = subprocess.run([*recorder, "java", "-cp", f"{JAR}:{self.folder}", "Small"], capture_output=True, text=True, timeout=100,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_handler_looks_at_no_property_that_the_program_sets_later(self):
        program = """
            public class Small {
                static { Logger.getLogger("shop").addHandler(%s); }
                public static void main(String[] words) {
                    System.setProperty("user.timezone", "Asia/Tokyo");
                    System.setProperty("java.locale.providers", "COMPAT");
                    Logger.getLogger("shop").config("sold");
                    System.out.println(new Date(0));
                    System.out.println(DateFormat.getDateTimeInstance(DateFormat.FULL, DateFormat.FULL, Locale.GERMANY).format(new Date(0)));
                }
            }"""
        without = self.run_small(program % "new ConsoleHandler()", False)
        self.assertIn("JST", without)
        self.assertEqual(self.run_small(program % "new plumb.logging.PlumbHandler()", False), without)

    def test_what_is_no_error_either_does_not_reach_the_program(self):
        program = """
            public class Small {
                static class Control extends Throwable {}
                @SuppressWarnings("unchecked") static <T extends Throwable> void throwAny(Throwable any) throws T { throw (T) any; }
                public String toString() { Small.<RuntimeException>throwAny(new Control()); return ""; }
                public static void main(String[] words) {
                    final Logger logger = Logger.getLogger("shop");
                    logger.setUseParentHandlers(false);
                    logger.addHandler(new plumb.logging.PlumbHandler());
                    logger.log(Level.INFO, "sold {0}", new Small());
                    System.out.println("end");
                }
            }"""
        self.assertEqual(self.run_small(program, True), "end\n")
        self.check_lost(1)


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
