#!/usr/bin/env python3
# cmake-once
"""Definitions of events: names that are nearly the same are two, and numbers may be more than one word."""
import itertools
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
HEAD = "#include <plumb/tracepoint.h>\n"
# The one's provider and name run into each other as the other's do.
FIRST = HEAD + """
PLUMB_EVENT(net, tcp__open, (u32, x))
PLUMB_EVENT(io, _read, (u32, x))
extern %s void other(void);
int main(void) {
    plumb_trace(net, tcp__open, 1);
    plumb_trace(io, _read, 2);
    other();
    return 0;
}
"""
OTHER = HEAD + """
PLUMB_EVENT(net__tcp, open, (u32, x))
PLUMB_EVENT(io_, read, (u32, x))
extern %s void other(void);
void other(void) {
    plumb_trace(net__tcp, open, 101);
    plumb_trace(io_, read, 102);
}
"""
# What stands for a number in a definition may be more than one word.
WORDS = HEAD + """
#define TWICE (2 * 2)
PLUMB_EVENT(words, array, (array, u8, data, 2 + 1), (array, u8, more, sizeof(int)), (array, u8, yet, TWICE))
PLUMB_EVENT_LEVEL(words, level, PLUMB_ERR + 1, (u32, x))
int main(void) {
    const unsigned char data[] = {1, 2, 3, 4};
    plumb_trace(words, array, data, data, data);
    plumb_trace(words, level, 5);
    return 0;
}
"""
EVENTS = [("net:tcp__open", {"x": 1}), ("io:_read", {"x": 2}), ("net__tcp:open", {"x": 101}), ("io_:read", {"x": 102})]


class SameNames(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="plumb-names-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def record(self, program, *options):
        trace = self.folder / "trace"
        subprocess.run([PLUMB, "record", "-q", "--force", "-o", trace, *options, "--", program], check=True)
        shown = subprocess.run([PLUMB, "view", "--json", trace], capture_output=True, text=True, check=True).stdout
        events = [json.loads(line) for line in shown.splitlines()]
        return [(event["event"], event["fields"]) for event in events]

    def build(self, compiler, *order):
        suffix, linkage, standard = ("cc", '"C"', "c++17") if "++" in compiler else ("c", "", "c11")
        for name, text in (("first", FIRST), ("other", OTHER), ("words", WORDS)):
            (self.folder / f"{name}.{suffix}").write_text(text.replace("%s", linkage))
        program = self.folder / f"{compiler}_{'_'.join(order)}"
        subprocess.run([compiler, f"-std={standard}", "-O0", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/include",
                        *(self.folder / f"{name}.{suffix}" for name in order),
                        BUILD / "tp-async/CMakeFiles/tp-async.dir/tp-async.cc.o", BUILD / "libtrace/libplumb.a", "-lpthread", "-o", program],
                       check=True)
        return program

    def test_each_event_is_recorded_as_what_it_is(self):
        for compiler, order in itertools.product(("gcc", "g++", "clang++"), (("first", "other"), ("other", "first"))):
            with self.subTest(compiler=compiler, order=order):
                program = self.build(compiler, *order)
                self.assertEqual(self.record(program), EVENTS)
                self.assertEqual(self.record(program, "-e", "net__tcp:*"), [EVENTS[2]])

    def test_a_length_or_a_level_may_be_an_expression(self):
        for compiler in ("gcc", "clang", "g++", "clang++"):
            with self.subTest(compiler=compiler):
                self.assertEqual(self.record(self.build(compiler, "words")),
                                 [("words:array", {"data": [1, 2, 3], "more": [1, 2, 3, 4], "yet": [1, 2, 3, 4]}), ("words:level", {"x": 5})])


if __name__ == "__main__":
    unittest.main()
