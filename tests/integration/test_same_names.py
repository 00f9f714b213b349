#!/usr/bin/env python3
# cmake-once
"""Events of two files of a program whose names, or definitions, are nearly the same: each is recorded as what it is."""
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
# The one's provider and name run into each other as the other's do; its levels, and the lengths of its arrays, are others.
FIRST = HEAD + """
PLUMB_EVENT(net, tcp__open, (u32, x))
PLUMB_EVENT(io, _read, (u32, x))
PLUMB_EVENT_LEVEL(svc, failed, PLUMB_WARNING, (u32, x))
PLUMB_EVENT(svc, bytes, (array, u8, data, 2), (u32, x))
extern %s void other(void);
int main(void) {
    const unsigned char two[] = {1, 2};
    plumb_trace(net, tcp__open, 1);
    plumb_trace(io, _read, 2);
    plumb_trace(svc, failed, 3);
    plumb_trace(svc, bytes, two, 4);
    other();
    return 0;
}
"""
OTHER = HEAD + """
PLUMB_EVENT(net__tcp, open, (u32, x))
PLUMB_EVENT(io_, read, (u32, x))
PLUMB_EVENT_LEVEL(svc, failed, PLUMB_ERR, (u32, x))
PLUMB_EVENT(svc, bytes, (array, u8, data, 3), (u32, x))
extern %s void other(void);
void other(void) {
    const unsigned char three[] = {1, 2, 3};
    plumb_trace(net__tcp, open, 101);
    plumb_trace(io_, read, 102);
    plumb_trace(svc, failed, 103);
    plumb_trace(svc, bytes, three, 104);
}
"""
EVENTS = [("net:tcp__open", {"x": 1}), ("io:_read", {"x": 2}), ("svc:failed", {"x": 3}), ("svc:bytes", {"data": [1, 2], "x": 4}),
          ("net__tcp:open", {"x": 101}), ("io_:read", {"x": 102}), ("svc:failed", {"x": 103}),
          ("svc:bytes", {"data": [1, 2, 3], "x": 104})]


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

    def build(self, compiler, order):
        suffix, linkage, standard = ("cc", '"C"', "c++17") if "++" in compiler else ("c", "", "c11")
        for name, text in (("first", FIRST), ("other", OTHER)):
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
                program = self.build(compiler, order)
                self.assertEqual(self.record(program), EVENTS)
                self.assertEqual([fields["x"] for _, fields in self.record(program, "--log-level", "err")], [103])
                self.assertEqual(self.record(program, "-e", "net__tcp:*"), [EVENTS[4]])


if __name__ == "__main__":
    unittest.main()
