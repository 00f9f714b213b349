#!/usr/bin/env python3
# cmake-once
"""Markers take their arguments as printf does: strings end where it would end them, and behind a precision nothing is read
or recorded; each argument is evaluated once."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import babeltrace  # noqa: E402
import traced_program  # noqa: E402

PLUMB = traced_program.BUILD / "cli" / "plumb"
# The string ends with its page, without a NUL; the next page can not be read.
PROGRAM = """
#include <plumb/marker.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
int main(void) {
    char* page = (char*)mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char* text = page + 4092;
    const char* none = 0;
#ifdef __cplusplus
    struct { unsigned a : 3; int b : 5; } bits = {5, -3};
    plumb_mark(part, bits, "a %u b %d", bits.a, bits.b);
#endif
    mprotect(page + 4096, 4096, PROT_NONE);
    memcpy(text, "abcd", 4);
    plumb_mark(part, fixed, "text %.4s", text);
    plumb_mark(part, star, "text %.*s", 3, text);
    plumb_mark(part, both, "a %d%% b %-*.*s c %.2f d %s e %.0s f %5.1lu", 7, 9, 2, text, 1.5, "whole", text, 8ul);
    plumb_mark(part, shorter, "text %.100s", "ab");
    plumb_mark(part, negative, "text %.*s", -1, "all of it");
    plumb_mark(part, least, "text %.*s", -2147483647 - 1, "all of it");
    plumb_mark(part, nothing, "text %.9s", none);
    plumb_mark(part, placed, "text %1$.4s", text);
    plumb_mark(part, placed_star, "n %3$d text %2$.*1$s", 3, text, 7);
    plumb_mark(part, star_behind, "text %1$-8.*2$s all %3$s", text, 2, "end");
    plumb_mark(part, twice, "text %1$.4s again %1$.2s", text);
    plumb_mark(part, addressed, "at %1$p text %1$.4s", text);
    char* gone = (char*)mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char expected[32];
    snprintf(expected, sizeof expected, "%p", (void*)gone);
    plumb_mark(part, address, "at %p text %s is %-20p none %p", gone, expected, gone, none);
    plumb_mark(part, address_placed, "n %2$d at %1$p", gone, 3);
    plumb_mark(part, placed_negative, "b %2$.*3$s a %1$.*4$s", "first", "second", -1, 1);
    return 0;
}
"""
# Whatever reaches printf as an int may be a precision: the string behind it can not be read further than that.
PRECISIONS = """
#include <plumb/marker.h>
#include <string.h>
#include <sys/mman.h>
enum width { none, three = 3 };
struct bits { unsigned three : 3; int minus : 5; enum width width : 4; };
#ifdef __cplusplus
enum narrow : unsigned char { narrow_three = 3 };
enum below : signed char { below_zero = -1 };
#else
enum narrow { narrow_three = 3 } __attribute__((__packed__));
enum below { below_zero = -1 };
#endif
int main(void) {
    char* page = (char*)mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char* text = page + 4093;
    struct bits bits = {3, -3, three};
    enum width width = three;
    enum narrow narrow = narrow_three;
    enum below below = below_zero;
    short small = 3;
    signed char smaller = 3;
    unsigned char byte = 3;
    mprotect(page + 4096, 4096, PROT_NONE);
    memcpy(text, "abc", 3);
    plumb_mark(precision, enumerator, "text %.*s", three, text);
    plumb_mark(precision, enumeration, "text %.*s", width, text);
    plumb_mark(precision, narrow_enumeration, "text %.*s", narrow, text);
    plumb_mark(precision, bit_field, "text %.*s", bits.three, text);
    plumb_mark(precision, enumeration_in_bits, "text %.*s", bits.width, text);
    plumb_mark(precision, small, "text %.*s", small, text);
    plumb_mark(precision, smaller, "text %.*s", smaller, text);
    plumb_mark(precision, byte, "text %.*s", byte, text);
    plumb_mark(precision, placed, "of %2$d text %1$.*2$s", text, width);
    plumb_mark(precision, below_zero, "text %.*s", below, "abc");
    plumb_mark(precision, in_bits_below_zero, "text %.*s", bits.minus, "abc");
    plumb_mark(value, bits, "a %u b %d c %d d %d", bits.three, bits.minus, bits.width, below);
    return 0;
}
"""
# Strings that outgrow the buffer on the stack are put a second time.
LARGE = """
#include <plumb/marker.h>
#include <string.h>
static int calls;
static int next(void) { return ++calls; }
static const char* name_of(const char* text) { next(); return text; }
static double half(void) { return next() / 2.0; }
int main(void) {
    static char text[4000];
    int i = 0, j = 0;
    const char letters[] = "abcdefghijkl";
    const char* at = letters;
    volatile const short least = -7;
    for (int length = 100; length < 4000; length += 400) {
        memset(text, 'x', (size_t)length);
        plumb_mark(large, called, "id %d path %s", next(), text);
        plumb_mark(large, counted, "id %d path %s n %d letter %c", i++, text, --j, *at++);
        plumb_mark(large, others, "path %s name %.*s ratio %f least %hd at %p", text, next() % 2 + 3, name_of("abcdefgh"),
                   half(), least, (const void*)&letters[next() % 8]);
    }
    return 0;
}
"""
# Arguments of each kind of number: they are recorded with the size that they have.
NUMBERS = """
#include <plumb/marker.h>
int main(void) {
    float single = 1.25f;
    double whole = -2.5;
    unsigned char byte = 200;
    signed char letter = -100;
    unsigned short small = 60000;
    long long large = -1234567890123LL;
    unsigned long long largest = 0xfedcba9876543210ULL;
    bool yes = 1;
    plumb_mark(number, real, "a %f b %g c %e", single, whole, 0.5f);
    plumb_mark(number, integer, "a %u b %d c %u d %lld e %llu f %d", byte, letter, small, large, largest, yes);
    return 0;
}
"""
STRICT = ["-Wall", "-Wextra", "-Wshadow", "-pedantic", "-Werror"]
COMPILERS = [("gcc", "c", "gnu11"), ("clang", "c", "gnu17"), ("g++", "c++", "c++20"), ("clang++", "c++", "c++20")]


class Markers(unittest.TestCase):
    def check_by_each_compiler(self, source, options, check):
        """check: is given the events that the program recorded."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-test-"))
        self.addCleanup(shutil.rmtree, folder)
        build = traced_program.BUILD
        for compiler, language, standard in COMPILERS:
            if shutil.which(compiler) is None:
                continue
            for optimisation in ("-O0", "-O2"):
                with self.subTest(compiler=compiler, optimisation=optimisation):
                    trace, program = folder / f"{compiler}{optimisation}", folder / "program"
                    subprocess.run([compiler, f"-std={standard}", "-Wall", "-Wextra", optimisation, *options,
                                    f"-I{traced_program.SOURCE}/include", "-x", language, "-", "-x", "none",
                                    build / "tp-async/CMakeFiles/tp-async.dir/tp-async.cc.o", build / "libtrace/libplumb.a",
                                    "-lpthread", "-o", program], input=source, text=True, check=True)
                    done = subprocess.run([PLUMB, "record", "-o", trace, "--", program], capture_output=True, text=True,
                                          timeout=60, check=False)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    check(list(babeltrace.events(trace)))

    def test_precisions(self):
        def check(events):
            seen = {event.name: event.fields for event in events if event.name.startswith("part:")}
            for name, texts in (("fixed", ["abcd"]), ("star", ["abc"]), ("both", ["ab", "whole", ""]),
                                ("shorter", ["ab"]), ("negative", ["all of it"]), ("least", ["all of it"]), ("nothing", ["(null)"]),
                                ("placed", ["abcd"]), ("placed_star", ["abc"]), ("star_behind", ["ab", "end"]),
                                ("twice", ["abcd"]), ("addressed", ["abcd"]), ("placed_negative", ["f", "second"])):
                recorded = [value for value in seen[f"part:{name}"].values() if isinstance(value, str)]
                self.assertEqual(recorded, texts, name)
            if "part:bits" in seen:  # C++
                self.assertLessEqual({"a": 5, "b": -3}.items(), seen["part:bits"].items())
            shown = seen["part:address"]
            self.assertLessEqual(dict.fromkeys(("at", "is"), shown["text"]).items() | {("none", "(nil)")}, shown.items())
            self.assertRegex(shown["text"], "^0x[0-9a-f]+$")
            self.assertLessEqual({"at": shown["text"], "n": 3}.items(), seen["part:address_placed"].items())
            self.assertLessEqual({"arg0": 3, "text": "abc", "n": 7}.items(), seen["part:placed_star"].items())
            self.assertLessEqual({"a": "f", "b": "second"}.items(), seen["part:placed_negative"].items())
        self.check_by_each_compiler(PROGRAM, ["-Wno-format-overflow"], check)

    def test_precisions_of_any_integer_type(self):
        def check(events):
            seen = {event.name: event.fields for event in events if event.name.startswith(("precision:", "value:"))}
            values = seen.pop("value:bits")
            self.assertLessEqual({"a": 3, "b": -3, "c": 3, "d": -1}.items(), values.items())
            self.assertEqual({name: fields["text"] for name, fields in seen.items()}, dict.fromkeys(seen, "abc"))
            self.assertEqual(len(seen), 11)
        self.check_by_each_compiler(PRECISIONS, STRICT, check)

    def test_numbers_have_the_values_that_they_had(self):
        def check(events):
            seen = {event.name: event.fields for event in events if event.name.startswith("number:")}
            self.assertLessEqual({"a": 1.25, "b": -2.5, "c": 0.5}.items(), seen["number:real"].items())
            self.assertLessEqual({"a": 200, "b": -100, "c": 60000, "d": -1234567890123, "e": 0xfedcba9876543210, "f": 1}.items(),
                                 seen["number:integer"].items())
        self.check_by_each_compiler(NUMBERS, ["-include", "stdbool.h"], check)

    def test_arguments_are_evaluated_once(self):
        """Whatever the length of the strings."""
        def check(events):
            seen = {name: [event.fields for event in events if event.name == f"large:{name}"]
                    for name in ("called", "counted", "others")}
            times = range(10)
            lengths = [100 + 400 * i for i in times]
            for name, fields in seen.items():
                self.assertEqual([len(one["path"]) for one in fields], lengths, name)
            self.assertEqual([one["id"] for one in seen["called"]], [1 + 5 * i for i in times])
            self.assertEqual([(one["id"], one["n"]) for one in seen["counted"]], [(i, -1 - i) for i in times])
            self.assertEqual([one["letter"] for one in seen["counted"]], [ord(one) for one in "abcdefghij"])
        self.check_by_each_compiler(LARGE, STRICT, check)


if __name__ == "__main__":
    unittest.main()
