# cmake-once
"""Headers in the compilers and linkers of the machine: wrong arguments are errors that can be read, and no
combination of optimisation, garbage collection and linker loses an event."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["PLUMB_SOURCE_DIR"]
BUILD = os.environ["PLUMB_BUILD_DIR"]
HEADER = """
#include <plumb/tracepoint.h>
#include <plumb/marker.h>
PLUMB_EVENT(shop, order, (u64, id), (string, customer), (enum, u8, status, (0, "new")), (sequence, u32, sizes),
            (f64, price), (ptr, object))
PLUMB_EVENT(shop, empty)
"""
GOOD = "plumb_trace(shop, order, 1, \"bob\", 0, sizes, 2, 1.5, sizes);"
# What is wrong, the statement, words of which the message must hold one, and where it is an error: clang does not look
# at conversions in macros of system headers, and in C++ a double may always become an integer.
WRONG = [
    ("too few arguments", 'plumb_trace(shop, order, 1, "bob");', ["order"], "both"),
    ("too many arguments", "plumb_trace(shop, empty, 1);", ["empty"], "both"),
    ("a pointer for an integer", 'plumb_trace(shop, order, "x", "bob", 0, sizes, 2, 1.5, sizes);', ["id", "argument 1", "uint64_t", "unsigned long", "1st"], "both"),
    ("an integer for a string", "plumb_trace(shop, order, 1, 42, 0, sizes, 2, 1.5, sizes);", ["customer", "argument 2", "const char", "string_argument", "2nd"], "both"),
    ("another element type", 'plumb_trace(shop, order, 1, "bob", 0, shorts, 2, 1.5, sizes);', ["sizes", "argument 4", "uint32_t", "unsigned", "4th"], "both"),
    ("a double for an integer", 'double d = sizes[0]; plumb_trace(shop, order, d, "bob", 0, sizes, 2, 1.5, sizes);', ["double", "float"], "gcc"),
    ("a literal double for an integer", 'plumb_trace(shop, order, 1.5, "bob", 0, sizes, 2, 1.5, sizes);', ["double", "float"], "gcc"),
    ("an integer for a pointer", 'plumb_trace(shop, order, 1, "bob", 0, sizes, 2, 1.5, 77);', ["object", "argument 7", "void", "7th"], "both"),
    ("an event that is not declared", "plumb_trace(shop, sold, 1);", ["sold"], "both"),
    ("a marker's wrong argument", 'plumb_mark(shop, login, "id %d", "bob");', ["%d", "format"], "both"),
    ("a marker without argument", 'plumb_mark(shop, login, "id %d");', ["%d", "format"], "both"),
]
COMPILERS = [c for c in (("gcc", "c"), ("clang", "c"), ("g++", "c++"), ("clang++", "c++")) if shutil.which(c[0])]


def standard(language):
    return "-std=c11" if language == "c" else "-std=c++20"


def program(statement):
    return HEADER + "int main(void) { uint32_t sizes[2] = {1, 2}; short shorts[2] = {1, 2}; (void)sizes; (void)shorts;\n" \
        + statement + "\nreturn 0; }\n"


class Compile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_compiler(self, compiler, language, text, *options):
        source = self.path("x." + ("c" if language == "c" else "cc"))
        with open(source, "w") as file:
            file.write(text)
        return subprocess.run([compiler, standard(language), "-Wall", "-Wextra", f"-I{SOURCE}/include", source, *options],
                              capture_output=True, text=True)

    def test_right_arguments_compile_without_a_warning(self):
        for compiler, language in COMPILERS:
            # -pedantic minds an event without fields, before C23 and C++20.
            pedantic = [] if language == "c" else ["-pedantic", "-Wzero-as-null-pointer-constant", "-Wold-style-cast"]
            for strict in ([], pedantic + ["-Wconversion", "-Wshadow"]):
                done = self.run_compiler(compiler, language, program(GOOD), "-Werror", *strict, "-c", "-o", "/dev/null")
                self.assertEqual(done.returncode, 0, f"{compiler} {strict}:\n{done.stderr}")

    def test_names_that_are_made_of_others(self):
        """A field's name says nothing of what is made for another one; nor does an event's."""
        text = '#include <plumb/tracepoint.h>\n' \
               'PLUMB_EVENT(shop, body, (text, body), (u32, body_bytes), (sequence, u8, data), (u32, data_count))\n' \
               'PLUMB_EVENT(shop, a, (enum, u8, b__c, (0, "x")))\nPLUMB_EVENT(shop, a__b, (enum, u8, c, (0, "y")))\n' \
               'int main(void) { plumb_trace(shop, body, "x", 1, 7, (const uint8_t*)"y", 1, 8); plumb_trace(shop, a, 0); ' \
               'plumb_trace(shop, a__b, 0); return 0; }\n'
        for compiler, language in COMPILERS:
            with self.subTest(compiler):
                done = self.run_compiler(compiler, language, text, "-Werror", "-c", "-o", self.path("x.o"))
                self.assertEqual(done.stderr, "")

    def test_events_beside_those_of_a_namespace_that_is_used(self):
        text = "#include <plumb/tracepoint.h>\nnamespace shop { PLUMB_EVENT(shop, order, (u32, id)) }\nusing namespace shop;\n" \
               "PLUMB_EVENT(depot, sent, (u32, id))\n" \
               "int main() { plumb_trace(shop, order, 1u); plumb_trace(depot, sent, 2u); return 0; }\n"
        for compiler, language in COMPILERS:
            if language == "c":
                continue
            with self.subTest(compiler):
                done = self.run_compiler(compiler, language, text, "-Werror", "-c", "-o", self.path("x.o"))
                self.assertEqual(done.stderr, "")

    def test_the_oldest_standards(self):
        text = "#include <string>\n" + HEADER + """int main() {
            std::string who;
            plumb_trace(shop, order, 1, who, 0, nullptr, 0, 1.5, &who);
            plumb_mark(shop, login, "who %s", who.c_str());
        }"""
        for compiler, language in COMPILERS:
            if language == "c":
                continue
            for oldest in ("-std=c++17", "-std=gnu++17"):
                done = self.run_compiler(compiler, language, text, oldest, "-Werror", "-c", "-o", "/dev/null")
                self.assertEqual(done.returncode, 0, f"{compiler} {oldest}:\n{done.stderr}")

    def test_wrong_arguments_are_errors_that_name_them(self):
        for compiler, language in COMPILERS:
            for what, statement, words, where in WRONG:
                if where not in ("both", compiler):
                    continue
                with self.subTest(compiler=compiler, what=what):
                    done = self.run_compiler(compiler, language, program(statement), "-c", "-o", "/dev/null")
                    self.assertNotEqual(done.returncode, 0, "compiled")
                    errors = [line for line in done.stderr.splitlines() if "error:" in line or "note:" in line]
                    self.assertTrue(any(word in line for line in errors for word in words), done.stderr)
                    self.assertLess(len(done.stderr.splitlines()), 60, "too long to be read:\n" + done.stderr)

    def test_layout_is_the_same_for_32_bits(self):
        text = "#include <plumb/abi/channel.h>\n#include <plumb/abi/state.h>\n#include <plumb/abi/syscall.h>\nint x;\n"
        for compiler, language in COMPILERS:
            for bits in ("-m32", "-m64"):
                done = self.run_compiler(compiler, language, text, bits, "-Werror", "-pedantic", "-c", "-o", "/dev/null")
                if "bits/libc-header-start.h" in done.stderr:
                    continue  # no 32-bit headers on this machine
                self.assertEqual(done.returncode, 0, f"{compiler} {bits}:\n{done.stderr}")

    def entries(self, executable):
        """The addresses in section plumb_events."""
        text = subprocess.run(["readelf", "-SW", executable], capture_output=True, text=True, check=True).stdout
        for line in text.splitlines():
            if " plumb_events " in line:
                return int(line[line.index("PROGBITS"):].split()[3], 16) // 8
        return 0

    def test_no_linker_loses_an_event(self):
        text = HEADER + """
            #include <stdio.h>
            int main(int count, char** names) {
                uint32_t sizes[2] = {1, 2};
                plumb_trace(shop, order, 1, names[0], 0, sizes, 2, 1.5, names);
                plumb_trace(shop, empty);
                plumb_mark(shop, login, "id %d", count);
                return 0;
            }"""
        objects = [f"{BUILD}/tp-async/CMakeFiles/tp-async.dir/tp-async.cc.o", f"{BUILD}/libtrace/libplumb.a"]
        if b"__asan" in open(objects[0], "rb").read() or b"__tsan" in open(objects[0], "rb").read():
            self.skipTest("sanitized objects need their own options")
        collect = ["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]
        tried = 0
        for compiler, language in COMPILERS:
            for linker in ("bfd", "gold", "lld"):
                if not shutil.which("ld." + linker):
                    continue
                for options in (["-O0"], ["-O2"] + collect, ["-O3"] + collect, ["-O2", "-flto"] + collect, ["-O2", "-static"],
                                ["-O2", "-static-pie", "-fPIE"] + collect):
                    if "-flto" in options and ("clang" in compiler) != (linker == "lld"):
                        continue  # their intermediate code is not each other's
                    if "-static-pie" in options and linker == "gold":
                        continue  # which cannot
                    executable = self.path("x")
                    done = self.run_compiler(compiler, language, text, *options, *objects, f"-fuse-ld={linker}", "-o", executable)
                    with self.subTest(compiler=compiler, linker=linker, options=" ".join(options)):
                        self.assertEqual(done.returncode, 0, done.stderr)
                        self.assertGreaterEqual(self.entries(executable), 3)
                        self.assertEqual(subprocess.run([executable]).returncode, 0)
                    tried += 1
        self.assertGreater(tried, 10)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
