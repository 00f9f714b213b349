#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""Declarations of typed events of Java code: what is wrong is said, what is asked of the program and its classes changes nothing of them, and who has not the
library, or little rights, goes on."""
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import babeltrace_exact  # noqa: E402
from emitting_java import JAR, InFolder, compile_java, java, java_version, setUpModule  # noqa: E402, F401
from recorded_program import PLUMB, leave_out_if_sanitized  # noqa: E402


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


if __name__ == "__main__":
    leave_out_if_sanitized()
    unittest.main()
