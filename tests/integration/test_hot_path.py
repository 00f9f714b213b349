#!/usr/bin/env python3
# cmake-once
"""The enabled path of an event with one u64 holds no locked instruction and no call up to its commit, and the
check that says so sees one when there is one."""
import os
import platform
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("PLUMB_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ["PLUMB_BUILD_DIR"])
SHOW = SOURCE / "tools/show-hot-path"

# A program with the shape of a traced one: `trace_order` calls `plumb_emit`, which has one restartable sequence.
PROGRAM = """
__asm__(
    ".text\\n.globl trace_order\\n.type trace_order, @function\\n"
    "trace_order: call plumb_emit\\nret\\n.size trace_order, . - trace_order\\n"
    ".globl elsewhere\\n.type elsewhere, @function\\n"
    "elsewhere: ret\\n.size elsewhere, . - elsewhere\\n"
    ".globl plumb_emit\\n.type plumb_emit, @function\\n"
    "plumb_emit: leaq 3f(%rip), %rax\\nmovq %rax, %fs:8(%rdi)\\n"
    "1: testq %rsi, %rsi\\njz 9f\\n{inside}\\nmovq %rsi, (%rdx)\\n"
    "2: movq $0, %fs:8(%rdi)\\nret\\n"
    "9: lock incq (%rdx)\\ncall elsewhere\\nret\\n.size plumb_emit, . - plumb_emit\\n"
    ".pushsection __rseq_cs, \\"aw\\"\\n.balign 32\\n3: .long 0, 0\\n.quad 1b, 2b - 1b, 9b\\n.popsection\\n");
int main(void) {{ return 0; }}
"""


def show(*arguments):
    return subprocess.run([sys.executable, SHOW, *map(str, arguments)], capture_output=True, text=True)


@unittest.skipUnless(platform.machine() == "x86_64", "the restartable sequence is for x86-64")
class HotPath(unittest.TestCase):
    def test_holds_what_it_promises(self):
        result = show("--build", BUILD)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("the one store that publishes the record", result.stdout)
        self.assertIn("timestamp", result.stdout)

    def examine(self, inside):
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder) / "p.c", Path(folder) / "p"
            source.write_text(PROGRAM.format(inside=inside))
            subprocess.run(["cc", "-O2", str(source), "-o", str(program)], check=True)
            return show("--program", program)

    def test_the_check_accepts_what_only_the_slow_path_does(self):
        result = self.examine("nop")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_the_check_sees_what_must_not_be_there(self):
        for inside, what in (("lock addq $1, (%rdx)", "a locked instruction"),
                             ("xchgq %rax, (%rdx)", "xchg with memory"),
                             ("mfence", "a fence"),
                             ("syscall", "a system call"),
                             ("call elsewhere", "a call"),
                             ("call *%rax", "a call")):
            with self.subTest(inside):
                result = self.examine(inside)
                self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                self.assertIn(what, result.stdout)


if __name__ == "__main__":
    unittest.main()
