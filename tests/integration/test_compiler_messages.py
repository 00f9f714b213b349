# cmake-once
# cmake-timeout: 900
"""What a compiler says of a mistake, as a newcomer makes it: the first error is a sentence that says what to do, and only a
few follow, with every compiler and every standard that the headers work with. And what is no mistake compiles."""
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import babeltrace  # noqa: E402

SOURCE = os.environ["PLUMB_SOURCE_DIR"]
BUILD = os.environ["PLUMB_BUILD_DIR"]
OBJECTS = [f"{BUILD}/tp-async/CMakeFiles/tp-async.dir/tp-async.cc.o", f"{BUILD}/libtrace/libplumb.a"]
COMPILERS = [c for c in ("gcc", "clang", "g++", "clang++") if shutil.which(c)]
STANDARDS = {"c": ["c11", "gnu17"], "c++": ["c++17", "gnu++20", "c++2b"]}
CONTEXT = ("cpu_id", "vtid", "vpid", "procname")
# A name of several tokens is an error wherever it stands: those follow its sentence.
ERRORS_MAX, ERRORS_OF_NAMES_MAX = 7, 22
TRACEPOINT = "#include <plumb/tracepoint.h>\n"
MARKER = "#include <plumb/marker.h>\n"
STRING = "#include <string>\n#include <string_view>\n"
FIELDS_33 = ", ".join(f"(u8, f{i})" for i in range(33))
VALUES_33 = ", ".join("1" for _ in range(33))
LABELS_33 = ", ".join(f'({i}, "l{i}")' for i in range(33))
# What is wrong, its language, the lines, and words of the first error.
MISTAKES = [
    ("33 fields", "both", TRACEPOINT + f"PLUMB_EVENT(shop, order, {FIELDS_33})\n"
     f"int main(void) {{ plumb_trace(shop, order, {VALUES_33}); return 0; }}", "shop:order: an event has at most 32 fields"),
    ("40 fields", "both", TRACEPOINT + f"PLUMB_EVENT(shop, order, {FIELDS_33}, (u8, a), (u8, b), (u8, c), (u8, d))",
     "shop:order: an event has at most 32 fields"),
    ("a dash in the provider", "both", TRACEPOINT + "PLUMB_EVENT(my-shop, order, (u64, id))\n"
     "int main(void) { return 0; }", "my-shop:order: names of providers and events are made of"),
    ("a dash in the event", "both", TRACEPOINT + "PLUMB_EVENT(shop, order-new, (u64, id))\n",
     "shop:order-new: names of providers and events are made of"),
    ("a namespace in the provider", "both", TRACEPOINT + "PLUMB_EVENT(my::shop, order, (u64, id))\n",
     "my::shop:order: names of providers and events are made of"),
    ("no parentheses", "both", TRACEPOINT + "PLUMB_EVENT(shop, o2, u32, id)\n"
     "int main(void) { plumb_trace(shop, o2, 1); return 0; }", "shop:o2: each field stands in parentheses"),
    ("no parentheses around the second", "both", TRACEPOINT + "PLUMB_EVENT(shop, o2, (u32, id), u64, n)\n"
     "int main(void) { plumb_trace(shop, o2, 1, 2); return 0; }", "shop:o2: each field stands in parentheses"),
    ("a comma too many", "both", TRACEPOINT + "PLUMB_EVENT(shop, o2, (u32, id),)\n"
     "int main(void) { plumb_trace(shop, o2, 1); return 0; }", "shop:o2: each field stands in parentheses"),
    ("an unknown type", "both", TRACEPOINT + "PLUMB_EVENT(shop, order, (u32, n), (u33, id))\n"
     "int main(void) { plumb_trace(shop, order, 1, 2); return 0; }", "shop:order: there is no type of fields u33"),
    ("a type of several words", "both", TRACEPOINT + "PLUMB_EVENT(shop, order, (unsigned long, id))\n"
     "int main(void) { plumb_trace(shop, order, 1); return 0; }", "shop:order: there is no type of fields unsigned long"),
    ("a pointer's type", "both", TRACEPOINT + "PLUMB_EVENT(shop, order, (const char*, who))\n"
     "int main(void) { plumb_trace(shop, order, \"a\"); return 0; }", "shop:order: there is no type of fields const char*"),
    ("a type of C++", "c++", TRACEPOINT + STRING + "PLUMB_EVENT(shop, order, (std::string, who))\n"
     "int main() { plumb_trace(shop, order, std::string()); }", "shop:order: there is no type of fields std::string"),
    ("an unknown type of elements", "both", TRACEPOINT + "PLUMB_EVENT(shop, order, (sequence, u33, ids))\n"
     "int main(void) { plumb_trace(shop, order, 0, 0); return 0; }", "shop:order: the second part is a type of integers"),
    ("a sequence of strings", "both", TRACEPOINT + "PLUMB_EVENT(shop, order, (sequence, string, ids))\n"
     "int main(void) { plumb_trace(shop, order, 0, 0); return 0; }", "shop:order: the second part is a type of integers"),
    ("a field without a name", "both", TRACEPOINT + "PLUMB_EVENT(shop, order, (u32))\n"
     "int main(void) { plumb_trace(shop, order, 1); return 0; }", "shop:order: a field is (u32, id)"),
    ("two parentheses", "both", TRACEPOINT + "PLUMB_EVENT(shop, order, ((u32, id)))\n"
     "int main(void) { plumb_trace(shop, order, 1); return 0; }", "shop:order: a field is (u32, id)"),
    ("an enum without labels", "both", TRACEPOINT + "PLUMB_EVENT(shop, order, (enum, u8, status))\n"
     "int main(void) { plumb_trace(shop, order, 1); return 0; }", "shop:order: a field is (u32, id), (enum, u8, status"),
    ("an array without a count", "both", TRACEPOINT + "PLUMB_EVENT(shop, order, (array, u8, status))\n"
     "int main(void) { plumb_trace(shop, order, 0); return 0; }", "shop:order: a field is (u32, id), (enum, u8, status"),
    ("an enum without a type", "both", TRACEPOINT + 'PLUMB_EVENT(shop, order, (enum, status, (0, "new"), (1, "sent")))\n'
     "int main(void) { plumb_trace(shop, order, 1); return 0; }", "shop:order: the second part is a type of integers"),
    ("an array with a negative count", "both", TRACEPOINT + "PLUMB_EVENT(shop, order, (u8, id), (array, u8, sizes, -1))\n",
     "shop:order: the count of array sizes is negative: -1"),
    ("an array that is too large", "both", TRACEPOINT + "PLUMB_EVENT(shop, order, (array, u8, sizes, 4097))\n",
     "shop:order: its arrays are larger than 4096 bytes"),
    ("33 labels", "both", TRACEPOINT + f"PLUMB_EVENT(shop, order, (enum, u8, status, {LABELS_33}))\n"
     "int main(void) { plumb_trace(shop, order, 1); return 0; }", "shop:order: an enum has at most 32 labels; status"),
    ("a label that does not fit", "both", TRACEPOINT +
     'PLUMB_EVENT(shop, order, (enum, u8, status, (0, "new"), (300, "sent")))\n'
     "int main(void) { plumb_trace(shop, order, 1); return 0; }", "shop:order: the value of label sent of status, 300"),
    ("a negative label", "both", TRACEPOINT + 'enum e { GONE = -1 };'
     'PLUMB_EVENT(shop, order, (enum, u32, status, (GONE, "gone")))\n',
     "shop:order: the value of label gone of status, GONE"),
    ("a range that ends before it begins", "both", TRACEPOINT +
     'PLUMB_EVENT(shop, order, (enum, u8, status, (0, "new"), (9, 1, "sent")))\n',
     "shop:order: the first value of label sent of status, 9, is behind its last, 1"),
    ("a range that does not fit", "both", TRACEPOINT + 'PLUMB_EVENT(shop, order, (enum, i8, status, (0, 128, "new")))\n',
     "shop:order: the value of label new of status, 128"),
    ("a field's name that is a macro", "both", "#include <errno.h>\n" + TRACEPOINT +
     "PLUMB_EVENT(shop, order, (int, errno))\n"
     "int main(void) { plumb_trace(shop, order, 1); return 0; }", "shop:order: the name of this field is a macro"),
    ("a name used twice", "both", TRACEPOINT + "PLUMB_EVENT(shop, order, (u32, id))\nPLUMB_EVENT(shop, order, (u32, id))\n"
     "int main(void) { plumb_trace(shop, order, 1); return 0; }", "shop:order: this event was defined before"),
    ("a name used twice, with other fields", "both", TRACEPOINT + "PLUMB_EVENT(shop, order, (u32, id))\n"
     "PLUMB_EVENT(shop, order, (string, who))\nint main(void) { return 0; }", "shop:order: this event was defined before"),
    ("a level beyond the last", "both", TRACEPOINT + "PLUMB_EVENT_LEVEL(shop, order, 15, (u32, id))",
     "shop:order: a level is from PLUMB_EMERG to PLUMB_DEBUG"),
    ("a level below the first", "both", TRACEPOINT + "PLUMB_EVENT_LEVEL(shop, order, -1, (u32, id))",
     "shop:order: a level is from PLUMB_EMERG to PLUMB_DEBUG"),
    ("a level that is none", "both", TRACEPOINT + "PLUMB_EVENT_LEVEL(shop, order, (u32, id))\n"
     "int main(void) { plumb_trace(shop, order, 1); return 0; }",
     "shop:order: the third part of PLUMB_EVENT_LEVEL is a level"),
    ("an event in a function", "both", TRACEPOINT + "int main(void) { PLUMB_EVENT(shop, order, (u32, id))\nreturn 0; }",
     "shop:order: an event is defined outside of functions"),
    ("an event in an unnamed namespace", "c++", TRACEPOINT + "namespace { PLUMB_EVENT(shop, order, (u32, id)) }\n",
     "shop:order: not in an unnamed namespace"),
    ("a marker without its header", "both", TRACEPOINT + 'void f(void) { plumb_mark(shop, login, "id %d", 1); }',
     "for plumb_mark, include <plumb/marker.h>"),
    ("an event without its header", "both", MARKER + "PLUMB_EVENT(shop, order, (u32, id))",
     "for PLUMB_EVENT, include <plumb/tracepoint.h>"),
    ("a format that is no literal", "both", MARKER + "void f(const char* format) { plumb_mark(shop, login, format, 1); }",
     "marker shop:login: the format is a string literal"),
    ("a format that is a variable", "both", MARKER + "const char* format = \"id %d\";\n"
     "void f(void) { plumb_mark(shop, login, format, 1); }", "marker shop:login: the format is a string literal"),
    ("a format that is a std::string", "c++", MARKER + STRING +
     "void f(std::string format) { plumb_mark(shop, login, format, 1); }",
     "marker shop:login: the format is a string literal"),
    ("a std::string in a marker", "c++", MARKER + STRING +
     "void f(std::string who) { plumb_mark(shop, login, \"who %s\", who); }",
     "marker shop:login: a marker takes numbers, enumerations, strings (const char*) and other pointers; of a std::string"),
    ("a std::string_view in a marker", "c++", MARKER + STRING
     + "void f(std::string_view who) { plumb_mark(shop, login, \"who %s\", who); }",
     "marker shop:login: a marker takes numbers"),
    ("an object in a marker in a template", "c++", MARKER + STRING +
     "template <typename T> void f(T who) { plumb_mark(shop, login, "
     "\"who %s\", who); }\nvoid g() { f(std::string()); }", "marker shop:login: a marker takes numbers"),
    ("a marker with 40 arguments", "c", MARKER + f"void f(void) {{ plumb_mark(shop, login, \"{'a %d ' * 40}\", "
     + ", ".join("1" for _ in range(40)) + "); }", "marker shop:login: a marker has at most"),
    ("a marker with 17 arguments", "c", MARKER + f"void f(void) {{ plumb_mark(shop, login, \"{'a %d ' * 17}\", "
     + ", ".join("1" for _ in range(17)) + "); }", "marker shop:login: a marker has at most 16 arguments"),
    ("a marker with 33 arguments", "c++", MARKER + f"void f() {{ plumb_mark(shop, login, \"{'a %d ' * 33}\", "
     + ", ".join("1" for _ in range(33)) + "); }", "marker shop:login: a marker has at most 32 arguments"),
]


def compile_text(compiler, standard, text, folder, *options):
    language = "c++" if "++" in compiler else "c"
    source = os.path.join(folder, "x.c" if language == "c" else "x.cc")
    with open(source, "w") as file:
        file.write(text + "\n")
    return subprocess.run([compiler, f"-std={standard}", f"-I{SOURCE}/include", source, *options],
                          capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})


class Messages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_the_first_error_says_what_to_do(self):
        """By each compiler; the standards take turns."""
        for compiler, (number, (what, where, text, words)) in itertools.product(COMPILERS, enumerate(MISTAKES)):
            language = "c++" if "++" in compiler else "c"
            if where not in ("both", language):
                continue
            standard = STANDARDS[language][number % len(STANDARDS[language])]
            with self.subTest(compiler=compiler, standard=standard, what=what):
                done = compile_text(compiler, standard, text, self.folder.name, "-c", "-o", "/dev/null")
                errors = [line for line in done.stderr.splitlines() if "error:" in line]
                self.assertTrue(errors, f"compiled:\n{done.stderr}")
                self.assertIn(words, errors[0], done.stderr)
                self.assertLess(done.stderr.splitlines().index(errors[0]), 8, done.stderr)
                most = ERRORS_OF_NAMES_MAX if "names of providers" in words else ERRORS_MAX
                self.assertLessEqual(len(errors), most, done.stderr)


    def test_an_older_standard_is_one_line(self):
        text = TRACEPOINT + MARKER + """
            PLUMB_EVENT(shop, order, (u64, id), (string, who))
            PLUMB_EVENT_LEVEL(shop, refused, PLUMB_WARNING, (u64, id))
            int main(void) {
                if (plumb_enabled(shop, order)) plumb_trace(shop, order, 1, "bob");
                plumb_mark(shop, login, "id %d", 1);
                return 0;
            }"""
        for compiler in COMPILERS:
            old = ["c++14", "gnu++11", "c++98"] if "++" in compiler else ["c99", "gnu89"]
            for standard, wanted in itertools.product(old, [compiler]):
                with self.subTest(compiler=wanted, standard=standard):
                    done = compile_text(compiler, standard, text, self.folder.name, "-c", "-o", "/dev/null")
                    errors = [line for line in done.stderr.splitlines() if "error:" in line]
                    self.assertEqual(len(errors), 1, done.stderr)
                    self.assertIn("need C++17 or newer: compile with -std=c++17" if "++" in compiler else
                                  "need C11 or newer: compile with -std=c11", errors[0])

    def test_32_bits_are_one_line(self):
        text = TRACEPOINT + MARKER + """
            PLUMB_EVENT(shop, order, (u64, id), (string, who))
            int main(void) {
                plumb_trace(shop, order, 1, "bob");
                plumb_mark(shop, login, "id %d", 1);
                return 0;
            }"""
        for compiler in COMPILERS:
            with self.subTest(compiler=compiler):
                standard = "c++17" if "++" in compiler else "c11"
                done = compile_text(compiler, standard, text, self.folder.name, "-m32", "-c", "-o", "/dev/null")
                errors = [line for line in done.stderr.splitlines() if "error:" in line]
                self.assertEqual(len(errors), 1, done.stderr)
                self.assertIn("for programs of 64 bits", errors[0])

    def test_a_forgotten_object_is_named(self):
        text = TRACEPOINT + "PLUMB_EVENT(shop, order, (string, who))\nint main(void) { plumb_trace(shop, order, \"bob\"); }"
        for compiler, linker in itertools.product(COMPILERS, ("bfd", "gold", "lld")):
            if not shutil.which("ld." + linker):
                continue
            with self.subTest(compiler=compiler, linker=linker):
                options = [f"-fuse-ld={linker}", OBJECTS[1], "-o", os.path.join(self.folder.name, "x")]
                standard = "c++17" if "++" in compiler else "c11"
                done = compile_text(compiler, standard, text, self.folder.name, *options)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("plumb_emit__link_tp_async.o__or_tp_async_lib.o__or_tp_sync.o", done.stderr)
                self.assertNotIn("undefined reference to `plumb_emit'", done.stderr)
                done = compile_text(compiler, standard, text, self.folder.name, OBJECTS[0], *options)
                self.assertEqual(done.returncode, 0, done.stderr)


def sources(folder, files):
    for name, text in files.items():
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)


class Works(unittest.TestCase):
    """What newcomers write, and what is no mistake."""

    def record(self, files, pairs=(("gcc", "g++"), ("clang", "clang++")), standard="c++17", options=()):
        """The events of a program made of these files, as names and fields, once for each pair of compilers."""
        recorded = []
        for c_compiler, cpp_compiler in pairs:
            if not (shutil.which(c_compiler) and shutil.which(cpp_compiler)):
                continue
            with tempfile.TemporaryDirectory() as folder:
                sources(folder, files)
                objects = []
                for name in (name for name in files if not name.endswith(".h")):
                    compiler = [c_compiler, "-std=c11"] if name.endswith(".c") else [cpp_compiler, f"-std={standard}"]
                    done = subprocess.run([*compiler, *options, "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/include", "-c",
                                           name, "-o", name + ".o"], cwd=folder, capture_output=True, text=True)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    objects.append(name + ".o")
                done = subprocess.run([cpp_compiler, *options, *objects, *OBJECTS, "-o", "x"], cwd=folder,
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                done = subprocess.run([f"{BUILD}/cli/plumb", "record", "-o", "trace", "--", "./x"], cwd=folder, timeout=60,
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                recorded.append([(event.name, {name: value for name, value in event.fields.items() if name not in CONTEXT})
                                 for event in babeltrace.events(os.path.join(folder, "trace"))
                                 if not event.name.startswith("plumb_statedump")])
        self.assertTrue(recorded, "no pair of compilers")
        return recorded

    def test_an_event_in_a_namespace(self):
        """Defined and used in one; in a C file, and in another C++ file at file scope, it is the same event."""
        event = "PLUMB_EVENT(shop, order, (u64, id), (string, who))\n"
        files = {
            "main.cc": TRACEPOINT + "namespace shop { namespace inner {\n" + event + """
                template <typename T> void f(T id) { plumb_trace(shop, order, id, "template"); }
                static bool is_on() { return plumb_enabled(shop, order); }
                }  // namespace inner
                }  // namespace shop
                extern "C" void in_c(void);
                void outside();
                int main() {
                    if (!shop::inner::is_on()) return 1;
                    shop::inner::f(1u);
                    in_c();
                    outside();
                }""",
            "other.cc": TRACEPOINT + event + "void outside() { plumb_trace(shop, order, 3, \"outside\"); }",
            "in.c": TRACEPOINT + event + "void in_c(void);\nvoid in_c(void) { plumb_trace(shop, order, 2, \"c\"); }",
        }
        for standard in ("c++17", "c++20"):
            for events in self.record(files, standard=standard):
                self.assertEqual([(name, fields["id"], fields["who"]) for name, fields in events],
                                 [("shop:order", 1, "template"), ("shop:order", 2, "c"), ("shop:order", 3, "outside")])

    def test_a_header_of_c(self):
        """C++ includes it within extern "C", Plumb's headers with it."""
        files = {
            "shop.h": TRACEPOINT + MARKER + "PLUMB_EVENT(shop, order, (u64, id), (text, note))\nvoid in_c(void);\n",
            "main.cc": 'extern "C" {\n#include "shop.h"\n}\n' + STRING + """
                int main() {
                    plumb_trace(shop, order, 1, std::string("a"));
                    plumb_mark(shop, login, "id %d", 2);
                    in_c();
                }""",
            "in.c": '#include "shop.h"\nvoid in_c(void) { plumb_trace(shop, order, 3, "abc", 2); }',
        }
        for events in self.record(files):
            self.assertEqual([(name, fields["id"]) for name, fields in events],
                             [("shop:order", 1), ("shop:login", 2), ("shop:order", 3)])

    def test_a_name_with_other_fields_in_another_file(self):
        """Two events of one name, each recorded as it was defined, whoever of them a linker meets first."""
        for suffix in ("c", "cc"):
            files = {
                f"a.{suffix}": TRACEPOINT + 'PLUMB_EVENT(shop, order, (u64, id), (enum, u8, how, (1, "cash")))\n'
                "void b(void);\nint main(void) { plumb_trace(shop, order, 7, 1); b(); return 0; }",
                f"b.{suffix}": TRACEPOINT + 'PLUMB_EVENT(shop, order, (x64, at), (enum, u8, how, (1, "blue")))\n'
                "void b(void);\nvoid b(void) { plumb_trace(shop, order, 9, 1); }",
            }
            for optimisation in ("-O0", "-O2"):
                for events in self.record(files, options=[optimisation]):
                    self.assertEqual([(name, sorted(fields)) for name, fields in events],
                                     [("shop:order", ["how", "id"]), ("shop:order", ["at", "how"])])
                    self.assertIn("cash", str(events[0][1]["how"]))
                    self.assertIn("blue", str(events[1][1]["how"]))

    def test_text_takes_strings(self):
        files = {"main.cc": TRACEPOINT + STRING + """
            PLUMB_EVENT(shop, note, (text, body), (u64, id), (text, end))
            int main() {
                const std::string body = "of a string";
                const char* none = nullptr;
                plumb_trace(shop, note, body, 1, std::string_view("a viewed part").substr(2, 6));
                plumb_trace(shop, note, "counted", 5, 2, "end", 3);
                plumb_trace(shop, note, "literal", 3, none);
                plumb_trace(shop, note, std::string(300, 'x'), 4, std::string());
            }"""}
        for standard in ("c++17", "c++20"):
            for events in self.record(files, standard=standard):
                self.assertEqual([(fields["body"], fields["id"], fields["end"]) for _, fields in events],
                                 [("of a string", 1, "viewed"), ("count", 2, "end"), ("literal", 3, ""), ("x" * 300, 4, "")])

    def test_markers_of_every_standard(self):
        """In inline functions of several files, in templates and lambdas; a local constant may be the format."""
        header = MARKER + """
            inline void shared(int id) { plumb_mark(shop, shared, "id %d", id); }
            template <typename T> void of(T value) { plumb_mark(shop, of, "size %zu", sizeof(value)); }
            constexpr char format[] = "n %d name %.2s";
            """
        files = {
            "m.h": header,
            "a.cc": '#include "m.h"\nvoid b();\nint main() { shared(1); of(\'a\'); of(2.5); b();\n'
            'auto f = [](int n) { plumb_mark(shop, lambda, format, n, "bob"); }; f(4); }',
            "b.cc": '#include "m.h"\nvoid b() { shared(2); of(1.5f); }',
        }
        for standard, options in (("c++17", []), ("gnu++17", ["-O2"]), ("c++20", ["-O2"]), ("c++2b", [])):
            for events in self.record(files, standard=standard, options=options):
                self.assertEqual([(name, *fields.values()) for name, fields in events],
                                 [("shop:shared", 1), ("shop:of", 1), ("shop:of", 8), ("shop:shared", 2), ("shop:of", 4),
                                  ("shop:lambda", 4, "bo")])

    def test_letters_beyond_ascii(self):
        event = TRACEPOINT + "PLUMB_EVENT(laden, größe, (u64, size))\n"
        files = {"main.cc": event + "int main() { plumb_trace(laden, größe, 7); }", "other.c": event}
        for events in self.record(files):
            self.assertEqual(events, [("laden:größe", {"size": 7})])

    def test_names_that_are_macros(self):
        files = {"main.c": "#include <errno.h>\n#include <stdio.h>\n" + TRACEPOINT + MARKER + """
            #define order bestellung
            PLUMB_EVENT(linux, errno, (i32, value))
            PLUMB_EVENT(stdin, order)
            int main(void) {
                plumb_trace(linux, errno, -1);
                if (plumb_enabled(stdin, order)) plumb_trace(stdin, order);
                plumb_mark(unix, stderr, "n %d", 1);
                return 0;
            }"""}
        for events in self.record(files, options=["-std=gnu11"]):
            self.assertEqual([name for name, _ in events], ["linux:errno", "stdin:order", "unix:stderr"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
