#!/usr/bin/env python3
# cmake-once
"""plumb flame counts each stack where it was, in text and in a picture that is sound XML and shows every function, whatever the
functions are called."""
import subprocess
import sys
import unittest
import xml.etree.ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from traced_program import BUILD, TracedProgramTest, compile_traced  # noqa: E402

PLUMB = BUILD / "cli" / "plumb"

# A thread with a name that nobody would give it, and numbers whose sum is more than one has room for.
NAMED = r"""
#include <plumb/tracepoint.h>
#include <sys/prctl.h>
PLUMB_EVENT(flame, named, (u64, large), (f64, real))
int main(void) {
    prctl(PR_SET_NAME, "@NAME@");
    for (int i = 0; i < 5; i++) plumb_trace(flame, named, ~0ull >> 1, i == 0 ? 1e300 : 1.0);
    return 0;
}
"""

FRACTIONS = r"""
#include <plumb/tracepoint.h>
PLUMB_EVENT(flame, half, (f32, value))
PLUMB_EVENT(flame, small, (f64, seconds))
__attribute__((noinline)) void inner(void) { plumb_trace(flame, small, 2.5e-7); __asm__ volatile(""); }
int main(void) {
    for (int i = 1; i <= 4; i++) plumb_trace(flame, half, (float)i / 2);
    for (int i = 1; i <= 90; i++) plumb_trace(flame, small, i / 1000.0);
    plumb_trace(flame, small, -1.0);
    plumb_trace(flame, small, 0.0 / 0.0);
    inner();
    return 0;
}
"""


class FlameTest(TracedProgramTest):
    PROGRAM = r"""
    #include <plumb/tracepoint.h>
    #include <pthread.h>
    PLUMB_EVENT(flame, spark, (u32, bytes))
    PLUMB_EVENT(flame, other)
    __attribute__((noinline)) void spark(int bytes) { plumb_trace(flame, spark, bytes); __asm__ volatile(""); }
    __attribute__((noinline)) void first(void) { spark(10); __asm__ volatile(""); }
    __attribute__((noinline)) void second(void) { spark(1); spark(2); first(); __asm__ volatile(""); }
    static void* run(void* unused) { second(); return unused; }
    int main(void) {
        pthread_t thread;
        for (int i = 0; i < 5; i++) first();
        for (int i = 0; i < 3; i++) second();
        spark(0);
        plumb_trace(flame, other);
        pthread_create(&thread, 0, run, 0);
        pthread_join(thread, 0);
        return 0;
    }
    """

    def setUp(self):
        super().setUp()
        self.record("callstack")

    def record(self, context):
        subprocess.run([PLUMB, "record", "-q", "--force", *(["--context", context] if context else []), "-o", self.trace, "--",
                        self.program], check=True)

    def flame(self, *options, status=0):
        done = subprocess.run([PLUMB, "flame", self.trace, *options], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        self.errors = done.stderr
        return done.stdout

    def folded(self, *options):
        """Of the functions of the program: their sum."""
        found = {}
        for line in self.flame("--folded", *options).splitlines():
            stack, count = line.rsplit(" ", 1)
            names = stack.split(";")
            begin = next(i for i, name in enumerate(names) if name in ("main", "run"))
            found[";".join(names[begin:])] = int(count)
        return found

    def test_counts_each_stack_where_it_was(self):
        self.assertEqual(self.folded("-e", "flame:spark"),
                         {"main;first;spark": 5, "main;second;spark": 6, "main;second;first;spark": 3, "main;spark": 1,
                          "run;second;spark": 2, "run;second;first;spark": 1})
        self.assertEqual(self.errors, "")
        self.assertEqual(self.folded("-e", "flame:other"), {"main": 1})

    def test_weighs_by_a_field(self):
        self.assertEqual(self.folded("-e", "flame:spark", "--weight", "bytes"),
                         {"main;first;spark": 50, "main;second;spark": 9, "main;second;first;spark": 30,
                          "run;second;spark": 3, "run;second;first;spark": 10})
        self.assertIn("1 event left out, whose weight is not known, or not above 0.", self.errors)
        self.assertEqual(self.folded("-e", "flame:spark", "--where", "bytes == 10 && tid != pid"), {"run;second;first;spark": 1})

    def test_tells_threads_and_processes_apart(self):
        lines = self.flame("--folded", "--by-process", "--by-thread").splitlines()
        firsts = {tuple(line.split(";")[:2]) for line in lines}
        self.assertEqual(len({process for process, _ in firsts}), 1)
        self.assertEqual(len(firsts), 2)

    def test_draws_a_picture(self):
        picture = self.trace / "flame.svg"
        self.assertEqual(self.flame("-o", picture, "--title", "sparks & <flames>"), "")
        root = xml.etree.ElementTree.parse(picture).getroot()
        space = "{http://www.w3.org/2000/svg}"
        titles = [title.text for title in root.iter(f"{space}title")]
        self.assertEqual(titles[0], "all (19 events, 100.00%)")
        self.assertIn("main (16 events, 84.21%)", titles)
        self.assertIn("sparks & <flames>", [text.text for text in root.iter(f"{space}text")])
        self.assertEqual(len(list(root.iter(f"{space}script"))), 1)
        width = {group.find(f"{space}title").text.split(" ")[0]: float(group.find(f"{space}rect").get("width"))
                 for group in root.iter(f"{space}g")}
        self.assertAlmostEqual(width["main"] / width["all"], 16 / 19, places=2)

    def test_a_thread_may_have_any_name(self):
        for name in (r"\xff<\x01&", r"\xed\xa0\x80\xef\xbf\xbe", r"\xc3\xa9\xc0\x80", r"fourteen_long_\xc3", r"\xf0\x9f\x98\x80\xf5\x80"):
            program = compile_traced(NAMED.replace("@NAME@", name), self.folder / "named")
            subprocess.run([PLUMB, "record", "-q", "--force", "--context", "callstack", "-o", self.trace, "--", program], check=True)
            done = subprocess.run([PLUMB, "flame", self.trace, "--by-thread"], capture_output=True, check=True)
            root = xml.etree.ElementTree.fromstring(done.stdout)
            self.assertIn("main", " ".join(title.text for title in root.iter("{http://www.w3.org/2000/svg}title")))

    def test_folded_text_is_text(self):
        """Whatever bytes a name has, and a semicolon is between functions alone."""
        program = compile_traced(NAMED.replace("@NAME@", "caf\\xe9;\\xc3\\xa9\\x7f"), self.folder / "named")
        subprocess.run([PLUMB, "record", "-q", "--force", "--context", "callstack", "-o", self.trace, "--", program], check=True)
        done = subprocess.run([PLUMB, "flame", self.trace, "--folded", "--by-thread"], capture_output=True, check=True)
        self.assertTrue(done.stdout.decode().startswith("caf\\xe9:\u00e9\\x7f "), done.stdout)

    def test_a_sum_that_does_not_fit_is_said(self):
        program = compile_traced(NAMED.replace("@NAME@", "name"), self.folder / "named")
        subprocess.run([PLUMB, "record", "-q", "--force", "--context", "callstack", "-o", self.trace, "--", program], check=True)
        [line] = self.flame("--folded", "--weight", "large").splitlines()
        self.assertEqual(int(line.rsplit(" ", 1)[1]), 2 * (2**63 - 1))
        self.assertIn("3 events left out: the sum of the weights would not fit into 64 bits with them.", self.errors)
        [line] = self.flame("--folded", "--weight", "real").splitlines()
        self.assertEqual(int(line.rsplit(" ", 1)[1]), 4)
        self.assertIn("1 event left out: the sum of the weights would not fit into 64 bits with them.", self.errors)

    def test_fractions_are_summed_as_they_are(self):
        program = compile_traced(FRACTIONS, self.folder / "fractions")
        subprocess.run([PLUMB, "record", "-q", "--force", "--context", "callstack", "-o", self.trace, "--", program], check=True)

        def weighed(*options):
            return dict(line.rsplit(" ", 1) for line in self.flame("--folded", *options).splitlines())
        lines = weighed("-e", "flame:half", "--weight", "value")
        self.assertEqual(list(lines.values()), ["5"])
        self.assertEqual(self.errors, "")
        lines = weighed("-e", "flame:small", "--weight", "seconds")
        self.assertEqual({stack.split(";")[-1]: weight for stack, weight in lines.items()}, {"main": "4.095", "inner": "0.00000025"})
        self.assertIn("2 events left out, whose weight is not known, or not above 0.", self.errors)
        picture = self.flame("-e", "flame:small", "--weight", "seconds")
        self.assertIn("<title>all (4.09500025 seconds, 100.00%)</title>", picture)

    def test_says_what_is_missing(self):
        self.flame("-e", "nothing:*", status=1)
        self.assertIn("has no events with call stacks, of those that were asked for.", self.errors)
        self.flame("--weight", "nonsense", status=1)
        self.assertIn("has a field nonsense that is a number above 0.", self.errors)
        self.record(None)
        self.flame(status=1)
        self.assertIn("Record them with `plumb record --context callstack", self.errors)
        self.record("callstack:1")
        self.flame("--folded")
        self.assertIn("shown below [not known]", self.errors)


if __name__ == "__main__":
    unittest.main()
