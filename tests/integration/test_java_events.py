#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 600
"""Typed events of Java code: each value arrives as it was given, none is lost, nothing is allocated, and what is off is nothing."""
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import babeltrace_exact  # noqa: E402
from recorded_program import BUILD, PLUMB, leave_out_if_sanitized  # noqa: E402

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
PROGRAMS = SOURCE / "tests/integration/java"
JAR = BUILD / "probes/java/java/plumb.jar"
if not JAR.exists() or not shutil.which("javac"):
    print("skipped: no JDK, or none when this was built (openjdk-17-jdk-headless)")
    sys.exit(77)

SCRATCH = tempfile.TemporaryDirectory(prefix="plumb-test-")
CLASSES = Path(SCRATCH.name)


def compile_java(*sources, to=CLASSES, options=("-parameters",)):
    subprocess.run(["javac", "-encoding", "UTF-8", *options, "-cp", JAR, "-d", to, *sources], check=True, timeout=200)


def setUpModule():
    compile_java(*PROGRAMS.glob("*.java"))
    unittest.addModuleCleanup(SCRATCH.cleanup)


def java(*words, classes=CLASSES, options=(), jar=JAR):
    return ["java", "-Xmx256m", *options, "-cp", f"{jar}:{classes}", *words]


def java_version():
    shown = subprocess.run(["java", "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=100, check=True)
    return int(re.search(r"java\.specification\.version = (?:1\.)?(\d+)", shown.stderr)[1])


def whole_number(text):
    """As JSON's numbers have it, -0 is one, and a float's."""
    return -0.0 if text == "-0" else int(text)


def newer_java():
    """One that has virtual threads."""
    for folder in Path("/usr/lib/jvm").glob("*"):
        release = folder / "release"
        version = re.search(r'^JAVA_VERSION="(\d+)', release.read_text(), re.MULTILINE) if release.exists() else None
        if version and int(version[1]) >= 21 and (folder / "bin/java").exists():
            return folder / "bin/java"
    return None


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="plumb-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.trace = self.folder / "trace"

    def record(self, *words, options=(), warns=False, **more):
        done = subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "-e", "shop:*", *options, "--", *java(*words, **more)],
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        if not warns:
            self.assertEqual(done.stderr, "")
        return done.stdout

    def events(self, *options):
        shown = subprocess.run([PLUMB, "view", "--json", *options, self.trace], capture_output=True, text=True, timeout=200, check=True)
        return [json.loads(line, parse_int=whole_number) for line in shown.stdout.split("\n") if line]

    def fields(self, name):
        return [event["fields"] for event in self.events() if event["event"] == f"shop:{name}"]

    def run_java(self, *words, **more):
        return subprocess.run(java(*words, **more), capture_output=True, text=True, timeout=100, check=False)


def comparable(value):
    """A float by its bits, but for those of a NaN; an enum by both that it is shown by."""
    if isinstance(value, list):
        return [comparable(each) for each in value]
    if isinstance(value, dict) and "double" in value:
        number = struct.unpack("<d", struct.pack("<Q", value["double"]))[0]
        return "NaN" if math.isnan(number) else struct.pack("<d", number)
    if isinstance(value, dict) and "float" in value:
        number = struct.unpack("<f", struct.pack("<I", value["float"]))[0]
        return "NaN" if math.isnan(number) else struct.pack("<f", number)
    return value


def shown_as(value, given):
    if isinstance(given, list):
        return [shown_as(*both) for both in zip(value, given)] + value[len(given):]
    special = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    if isinstance(given, dict) and ("double" in given or "float" in given):
        number = special.get(value, value)
        if math.isnan(number):
            return "NaN"
        return struct.pack("<d" if "double" in given else "<f", number)
    return value


class Fields(InFolder):
    def test_each_arrives_exactly(self):
        said = [json.loads(line) for line in self.record("Fields").splitlines()]
        events = self.events()
        self.assertEqual(len(events), len(said))
        self.assertGreater(len(said), 4000)
        for event, (name, given) in zip(events, said):
            self.assertEqual(event["event"], name)
            self.assertEqual(list(event["fields"]), list(given))
            for field, value in given.items():
                self.assertEqual(shown_as(event["fields"][field], value), comparable(value), (name, field))

    def test_edges(self):
        self.record("Edges")
        order = self.fields("order")
        self.assertEqual([each["customer"] for each in order],
                         ["Köchin 小さい 🙂 ? ? ß \0 nul", "(null)", "", "ends in half ?"])
        self.assertEqual([each["total"] for each in order], ["NaN", "Infinity", "-Infinity", -0.0])
        self.assertEqual(math.copysign(1, order[3]["total"]), -1)
        self.assertEqual(self.fields("state"), [{"was": {"value": -1, "label": "null"}, "is": {"value": 2, "label": "größer"}}])
        self.assertEqual(self.fields("both"), [{"id": 5}])
        self.assertEqual(self.fields("nothing"), [{}])
        self.assertEqual(self.fields("lists"), [{"bytes": [], "names": [], "totals": []}] * 2 +
                         [{"bytes": [255, 0, 128], "names": [0xd800, 0, 0xffff], "totals": [0.1, "NaN", -0.0]}])
        self.assertEqual(self.fields("shown"), [{"word": 0xffffffff, "small": 255, "long": 2 ** 64 - 1}])
        # The other reader: text ends at its NUL there, and the length says what was behind.
        theirs = [event for event in babeltrace_exact.read(self.trace) if event.name.startswith("shop:")]
        ours = self.events()
        self.assertEqual([event.name for event in theirs], [event["event"] for event in ours])
        (last,) = [event.fields["totals"] for event in theirs if event.name == "shop:lists" and event.fields["totals"]]
        self.assertEqual((float(last[0]), math.isnan(last[1]), len(last)), (0.1, True, 3))
        self.assertEqual([event.fields["customer"] for event in theirs if event.name == "shop:order"],
                         ["Köchin 小さい 🙂 ? ? ß ", "(null)", "", "ends in half ?"])
        shown = subprocess.run([PLUMB, "view", self.trace], capture_output=True, text=True, timeout=100, check=True).stdout
        self.assertIn("word = 0xffffffff, small = 255", shown)

    def test_what_is_too_long_is_cut_and_counted(self):
        self.record("TooLong", options=("--subbuf-size", "1M"), warns=True)
        texts = self.fields("text")
        most = 65528 - 16 - 8
        cut = most - 8  # where more than one field is there to be cut
        self.assertEqual([each["text"] for each in texts],
                         ["x" * 5000, "я" * 20000, "x" * most, "я" * ((cut - 4) // 2), "z" * (cut - 2), "z" * (most - 1) + "y",
                          "я" * ((cut - 10000) // 2), "x" * 4095 + "🙂" + "x" * 9000 + "é" + "x" * 5000, "я" * 2047 + "🙂" + "小" * 2000])
        self.assertEqual([each["behind"] for each in texts],
                         ["", "", "", "none", "я", "", "é" * 5000, "x" * 4097, "я" * 2048 + "?"])
        self.assertEqual([len(each["longs"]) for each in self.fields("longs")], [(65528 - 16 - 2) // 8, 3])
        summary = subprocess.run([PLUMB, "view", "--summary", self.trace], capture_output=True, text=True, timeout=100, check=True)
        self.assertRegex(summary.stdout, r"\b5 events cut\b")

    def test_level_and_condition(self):
        self.record("Edges", options=("--log-level", "info"))
        self.assertEqual({event["event"] for event in self.events()}, {"shop:order"})
        shutil.rmtree(self.trace)
        self.record("Edges", options=("--filter", 'customer == "(null)"'))
        self.assertEqual([event["fields"]["customer"] for event in self.events() if event["event"] == "shop:order"], ["(null)"])
        shutil.rmtree(self.trace)
        # An element that is a floating-point number has no value for a program's filter; its bits would be some number.
        self.record("Edges", options=("--filter", 'customer == "(null)" || totals[0] != 5'), warns=True)
        self.assertEqual({event["event"] for event in self.events()}, {"shop:order"})


class Many(InFolder):
    def test_a_million_of_eight_threads(self):
        each = 125000
        self.record("Many", "threads", str(each), options=("--mode", "block"))
        numbers = [[] for _ in range(8)]
        with subprocess.Popen([PLUMB, "view", "--json", self.trace], stdout=subprocess.PIPE, text=True) as view:
            for line in view.stdout:
                event = json.loads(line)
                fields = event["fields"]
                if event["event"] == "shop:number":
                    numbers[fields["thread"]].append(fields["number"])
                else:
                    number = fields["items"][1]
                    self.assertEqual(fields, {"id": fields["id"], "customer": f"customer {number}", "total": number,
                                              "items": [fields["id"], number]})
                    numbers[fields["id"]].append(number)
        self.assertEqual(view.returncode, 0)
        for own in numbers:
            self.assertEqual(own, list(range(each)))

    def test_nothing_is_allocated(self):
        said = self.record("Many", "allocation", options=("--mode", "block", "-e", "shop:*"))
        self.assertEqual(said, "0\n0\n")
        self.assertEqual(self.run_java("Many", "allocation").stdout, "0\n0\n")
        self.assertEqual(len(self.events()), 2 * (10 * 100 + 100000 + 10 * 1000))


    def test_virtual_threads(self):
        newer = newer_java()
        if newer is None:
            self.skipTest("no Java 21 or newer in /usr/lib/jvm")
        each = 200
        command = java("Many", "virtual", str(each), options=("--enable-native-access=ALL-UNNAMED",))
        done = subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "-e", "shop:*", "--mode", "block", "--", newer, *command[1:]],
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        orders = [[] for _ in range(200)]
        for order in self.fields("order"):
            orders[order["id"]].append((order["customer"], order["total"], order["items"]))
        for own, found in enumerate(orders):
            self.assertEqual(found, [(f"customer {number}", number, [own, number]) for number in range(each)])


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


class Declarations(InFolder):
    def test_what_is_wrong_is_said(self):
        said = self.record("Wrong").splitlines()
        expected = (
            ("Name", 'has the name "shop order": it has to be provider:event, of ASCII letters, digits and _'),
            ("Letters", 'has the name "shop:größe"'),
            ("Plain", 'is no interface with @Event("provider:event")'),
            ("NoInterface", "is no interface with"),
            ("Type", "has a field what of type java.lang.Object: a field is of a primitive type, String, an enum, or an array"),
            ("Arrays", "has a field all of type java.lang.String[]"),
            ("Boxed", "has a field id of type java.lang.Integer"),
            ("Result", "may have one abstract method that returns void, and boolean isOn(); not also public abstract int"),
            ("Two", "may have one abstract method that returns void"),
            ("None", "has no abstract method that returns void"),
            ("UnsignedDouble", "has @Unsigned or @Hex at total, which is not a byte, short, int or long"),
            ("UnsignedFloats", "has @Unsigned or @Hex at all, which is not"),
            ("HexEnum", "has @Unsigned or @Hex at the enum state"),
            ("FieldName", 'has a field "two words": names are made of'),
            ("SameNames", "has two fields id"),
            ("Sealed", "is sealed or hidden, and can not be implemented"),
            ("Fuller", "has 33 fields; an event has at most 32"),
            ("Order", "can not be implemented from this lookup; it takes MethodHandles.lookup() of a class in the interface's package"))
        self.assertEqual(len(said), len(expected), said)
        for line, (name, problem) in zip(said, expected):
            self.assertTrue(line.startswith(f"plumb: Wrong${name} {problem}"), line)
        # What is right beside it is recorded; equal declarations are one event, and others of its name stand beside that.
        self.assertEqual(self.fields("order"), [{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4, "customer": "bob"}, {"id": 5}, {"id": 6}])
        orders = [event for event in babeltrace_exact.read(self.trace) if event.name == "shop:order"]
        self.assertEqual([(event.fields["id"], event.fields.get("customer")) for event in orders],
                         [(1, None), (2, None), (3, None), (4, "bob"), (5, None), (6, None)])
        self.assertEqual([list(each.values()) for each in self.fields("full")], [list(range(1, 33))])

    def test_an_enum_is_not_initialised(self):
        """It may need what is being initialised as the event is declared: in this thread, which hands it nothing yet, or in another one, so
        that each waits for the other. And it may declare the event itself."""
        (self.folder / "Early.java").write_text("""
            public class Early {
                @plumb.Event("shop:early") interface Painted { void emit(int id, Color color); }
                static final Painted PAINTED = plumb.Plumb.event(Painted.class);
                static final java.util.Map<String, Color> BY_NAME = new java.util.HashMap<>();
                enum Color {
                    RED { @Override boolean isWarm() { return true; } },
                    BLUE;
                    public static final Color DEFAULT = BLUE;
                    Color() {
                        BY_NAME.put(name(), this);
                        plumb.Plumb.event(Painted.class).emit(ordinal(), null);
                    }
                    boolean isWarm() { return false; }
                    static { System.out.println("initialised"); }
                }
                public static void main(String[] words) {
                    System.out.println("declared");
                    PAINTED.emit(2, Color.DEFAULT);
                    PAINTED.emit(3, BY_NAME.get("RED"));
                }
            }""")
        compile_java(self.folder / "Early.java", to=self.folder)
        self.assertEqual(self.record("Early", classes=self.folder), "declared\ninitialised\n")
        self.assertEqual([(each["id"], each["color"]["label"]) for each in self.fields("early")],
                         [(0, "null"), (1, "null"), (2, "BLUE"), (3, "RED")])
        (self.folder / "Early$Color.class").unlink()
        done = self.run_java("Early", classes=self.folder)
        self.assertIn("IllegalArgumentException: plumb: Early$Painted can not be read: java.lang.NoClassDefFoundError: Early$Color",
                      done.stderr)

    def test_an_enum_of_which_a_class_is_missing(self):
        """Of an optional dependency, say, which the program does without: in a public field; in a method as well, which leaves no names."""
        (self.folder / "Optional.java").write_text("""
            public class Optional {
                interface Gone {}
                enum Kind { A, B; public Gone gone; }
                enum Other { A, B; public Gone gone; public Gone more() { return null; } }
                @plumb.Event("shop:optional") interface Kinds { void emit(Kind kind, Other other); }
                static final Kinds KINDS = plumb.Plumb.event(Kinds.class);
                public static void main(String[] words) {
                    KINDS.emit(Kind.B, Other.B);
                    KINDS.emit(Kind.A, null);
                    System.out.println("went on");
                }
            }""")
        compile_java(self.folder / "Optional.java", to=self.folder)
        (self.folder / "Optional$Gone.class").unlink()
        self.assertEqual(self.record("Optional", classes=self.folder), "went on\n")
        first, second = self.fields("optional")
        self.assertEqual((first["kind"]["label"], second["kind"]["label"], second["other"]["label"]), ("B", "A", "null"))
        self.assertEqual(first["other"], {"value": 1, "label": None})
        self.assertEqual(self.run_java("Optional", classes=self.folder).stdout, "went on\n")

    def test_an_enum_that_is_not_public(self):
        """Of a method that was inherited from another package: the interface's own may not name it."""
        sources = {"colors/Base.java": "package colors; public interface Base { void emit(Color color, int id); boolean isOn(); }",
                   "colors/Color.java": "package colors; enum Color { RED, BLUE }",
                   "colors/Use.java": "package colors; public class Use { public static void go(Base to) { to.emit(Color.BLUE, 5); } }",
                   "shop/Inherits.java": """package shop;
                       public class Inherits {
                           @plumb.Event("shop:inherited") interface Painted extends colors.Base {}
                           public static void main(String[] words) {
                               colors.Use.go(plumb.Plumb.event(Painted.class));
                               colors.Use.go(plumb.Plumb.event(Painted.class, java.lang.invoke.MethodHandles.lookup()));
                           }
                       }"""}
        for name, text in sources.items():
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_text(text)
        compile_java(*(self.folder / name for name in sources), to=self.folder)
        self.record("shop.Inherits", classes=self.folder)
        self.assertEqual([(each["color"]["label"], each["id"]) for each in self.fields("inherited")], [("BLUE", 5)] * 2)
        done = self.run_java("shop.Inherits", classes=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_names_are_needed(self):
        (self.folder / "Nameless.java").write_text("""
            public class Nameless {
                @plumb.Event("shop:nameless") interface Order { void emit(int id); }
                public static void main(String[] words) { plumb.Plumb.event(Order.class); }
            }""")
        compile_java(self.folder / "Nameless.java", to=self.folder, options=())
        done = self.run_java("Nameless", classes=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("plumb: Nameless$Order was compiled without names of parameters: compile it with -parameters, or give each "
                      'its name by @Field("name")', done.stderr)

    def test_without_the_library_it_is_off(self):
        jar = shutil.copy(JAR, self.folder)
        (self.folder / "Off.java").write_text("""
            public class Off {
                @plumb.Event("shop:off") interface Order { void emit(int id, String customer); boolean isOn(); }
                public static void main(String[] words) {
                    final Order order = plumb.Plumb.event(Order.class);
                    order.emit(1, "bob");
                    System.out.println(order.isOn() + " " + plumb.Plumb.problem());
                }
            }""")
        compile_java(self.folder / "Off.java", to=self.folder)
        done = self.run_java("Off", classes=self.folder, jar=jar)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith(f"false plumb.Plumb: libplumb-java.so is none of [{self.folder}/libplumb-java.so, "),
                        done.stdout)
        self.assertIn("PLUMB_PROBE_DIR", done.stdout)
        done = self.run_java("Off", classes=self.folder)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "false null\n", ""))

    def test_under_a_security_manager(self):
        """Whose policy gives plumb.jar what it needs, and the program nothing; or nobody anything: then events are off."""
        if java_version() >= 24:
            self.skipTest("a Java that has no security manager any more")
        (self.folder / "Guarded.java").write_text("""
            public class Guarded {
                @plumb.Event("shop:guarded") interface Order { void emit(int id, String customer); }
                @plumb.Event("shop:looked_up") interface Other { void emit(int id); }
                public static void main(String[] words) {
                    plumb.Plumb.event(Other.class, java.lang.invoke.MethodHandles.lookup()).emit(1);
                    System.out.println(plumb.Plumb.problem());
                    try {
                        plumb.Plumb.event(Order.class).emit(2, "bob");
                    } catch (IllegalArgumentException refused) {
                        System.out.println(refused.getMessage());
                    }
                }
            }""")
        compile_java(self.folder / "Guarded.java", to=self.folder)
        policy = self.folder / "policy"
        options = ("-Djava.security.manager", f"-Djava.security.policy=={policy}")
        policy.write_text(f'grant codeBase "file:{JAR}" {{ permission java.security.AllPermission; }};')
        command = java("Guarded", classes=self.folder, options=options)
        done = subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "-e", "shop:*", "--", *command], capture_output=True, text=True,
                              timeout=100, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "null\n"), done.stderr)
        self.assertEqual([event["fields"] for event in self.events()], [{"id": 1}, {"id": 2, "customer": "bob"}])
        policy.write_text("grant { };")
        done = self.run_java("Guarded", classes=self.folder, options=options)
        self.assertEqual(done.returncode, 0, done.stderr)
        problem, refused = done.stdout.splitlines()
        self.assertIn("access denied", problem)
        self.assertTrue(refused.startswith("plumb: Guarded$Order can not be implemented from here; Plumb.event(Order.class, "
                                           "MethodHandles.lookup()) can: access denied "), refused)

    def test_another_loader(self):
        """Whose classes only their own lookup can stand beside; and which goes, with all that its events had."""
        for name, fields, values in (("one", "int id", "7"), ("two", "int id, String customer", '8, "bob"')):
            (self.folder / name).mkdir()
            (self.folder / name / "Loaded.java").write_text(f"""
                public class Loaded {{
                    enum Status {{ NEW }}
                    @plumb.Event("shop:loaded") interface Order {{ void emit({fields}, Status status); }}
                    static final Order ORDER = plumb.Plumb.event(Order.class, java.lang.invoke.MethodHandles.lookup());
                    public static void emit() {{ ORDER.emit({values}, Status.NEW); }}
                }}""")
            compile_java(self.folder / name / "Loaded.java", to=self.folder / name)
        one, two = f"{self.folder}/one/", f"{self.folder}/two/"
        self.assertEqual(self.record("Collected", one, one, two), "gone\ngone\ngone\n")
        self.assertEqual([each.get("customer", each["id"]) for each in self.fields("loaded")], [7, 7, "bob"])
        shutil.rmtree(self.trace)
        self.record("Collected", "at once", one, two, one)
        self.assertEqual([each.get("customer", each["id"]) for each in self.fields("loaded")], [7, "bob", 7])

    def test_the_first_lookup_says_which_it_needs(self):
        (self.folder / "Loaded.java").write_text("""
            public class Loaded {
                @plumb.Event("shop:loaded") interface Order { void emit(int id); }
                public static void emit() { plumb.Plumb.event(Order.class); }
            }""")
        compile_java(self.folder / "Loaded.java", to=self.folder)
        done = self.run_java("Collected", f"{self.folder}/")
        self.assertEqual(done.returncode, 1)
        self.assertIn("plumb: Loaded$Order can not be implemented from here; Plumb.event(Order.class, MethodHandles.lookup()) can",
                      done.stderr)


class Documented(InFolder):
    def test_the_examples_of_the_docs(self):
        text = (SOURCE / "docs/java-events.md").read_text()
        shop, stock = re.findall(r"^```java\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        for name, example in (("Shop", shop), ("Stock", stock)):
            (self.folder / f"{name}.java").write_text(example)
            compile_java(self.folder / f"{name}.java", to=self.folder)
            shutil.rmtree(self.trace, ignore_errors=True)
            self.record(name, classes=self.folder)
            (event,) = [event for event in babeltrace_exact.read(self.trace) if event.name.startswith("shop:")]
            expected = {"Shop": ("shop:order", {"id": 7, "customer": "bob", "total": 12.5}), "Stock": ("shop:stock", {"items": 42})}[name]
            self.assertEqual((event.name, {key: value for key, value in event.fields.items() if key in expected[1]}), expected)
            if name == "Shop":
                shown = subprocess.run([PLUMB, "view", self.trace], capture_output=True, text=True, timeout=100, check=True).stdout
                self.assertIn(re.search(r"shop:order: \{.*", text)[0].rsplit(", { ", 1)[1], shown)


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
