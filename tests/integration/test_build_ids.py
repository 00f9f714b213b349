#!/usr/bin/env python3
# cmake-once
"""The build id of a program is in its trace, wherever in the file its linker has put it, and how much memory it takes."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["PLUMB_SOURCE_DIR"]) / "tests/support"))
from traced_program import TracedProgramTest, compile_traced  # noqa: E402

PLUMB = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"


class BuildIds(TracedProgramTest):
    PROGRAM = """
#include <plumb/tracepoint.h>
PLUMB_EVENT(build, step, (u64, number))
int main(void) { plumb_trace(build, step, 1); return 0; }
"""

    def told_and_true(self, program):
        """What its trace says, and what the file holds."""
        subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "--", program], timeout=60, check=True)
        text = subprocess.run(["babeltrace2", self.trace], capture_output=True, text=True, timeout=60, check=True).stdout
        told = re.findall(rf'build_id = "([0-9a-f]*)", path = "{program}"', text)
        self.bytes_told = [int(size, 0) for size in re.findall(rf'size = (\w+), [^}}]*path = "{program}"', text)]
        notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, timeout=60, check=True).stdout
        return told, re.findall(r"Build ID: ([0-9a-f]+)", notes)

    def test_in_the_first_page(self):
        told, true = self.told_and_true(compile_traced(self.PROGRAM, self.folder / "usual", "-Wl,--build-id"))
        self.assertEqual(told, true)
        self.assertEqual(len(true), 1)

    def test_behind_the_first_page(self):
        program = compile_traced(self.PROGRAM, self.folder / "far", "-Wl,--build-id", "-pie",
                                 "-Wl,--section-start=.note.gnu.build-id=0x1380")
        headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertRegex(headers, r"NOTE\s+0x001380")
        self.assertRegex(headers, r"LOAD\s+0x000000 \S+ \S+ 0x00[1-9]", "the notes are not in the first segment")
        told, true = self.told_and_true(program)
        self.assertEqual(told, true)
        self.assertEqual(len(true), 1)

    def test_how_much_memory_it_takes(self):
        """From its first page to the end of what is not in the file: where another object may begin."""
        program = compile_traced("char room[100000];" + self.PROGRAM, self.folder / "large", "-pie")
        self.told_and_true(program)
        headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, timeout=60, check=True).stdout
        loads = [[int(number, 16) for number in load] for load in
                 re.findall(r"LOAD +0x\S+ (0x\S+) 0x\S+ 0x\S+ (0x\S+)", headers)]
        self.assertEqual(self.bytes_told, [max(start + size for start, size in loads) - (loads[0][0] & ~4095)])


if __name__ == "__main__":
    unittest.main()
