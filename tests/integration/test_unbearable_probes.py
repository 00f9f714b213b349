#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-serial
"""Places where a probe of the kernel's would end a program, or make it compute something else: Plumb puts none there."""
import platform
import re
import signal
import subprocess

from test_user_probes import PLUMB, TRACEFS, UserProbesTest, left_by, main

KERNEL = tuple(map(int, re.match(r"(\d+)\.(\d+)", platform.release()).groups()))
REPLACES_NOPS = KERNEL >= (6, 18)
RETURNS_BY_A_CALL = KERNEL >= (6, 11)


class UnbearableProbes(UserProbesTest):
    # `leaf` keeps its variables below the stack pointer, as a function may that calls no other.
    PROGRAM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#define LONG_NOP ".byte 0x0f,0x1f,0x44,0x00,0x00\\n"
#define NOTE(name, place) ".pushsection .note.stapsdt,\\"\\",\\"note\\"; .balign 4; .4byte 8, 2f-1f, 3;" \\
    ".asciz \\"stapsdt\\"; 1: .8byte " place ", 0, 0;" \\
    ".asciz \\"shop\\"; .asciz \\"" name "\\"; .asciz \\"\\"; .balign 4; 2: .popsection\\n"
__attribute__((noinline)) long leaf(long a, long b) {
    volatile long kept[4] = {a, b, a ^ b, a + b};
    __asm__ volatile("inside: 9: " LONG_NOP NOTE("long", "9b") "8: nop\\n" NOTE("short", "8b"));
    return kept[0] * 3 + kept[1] * 5 + kept[2] * 7 + kept[3] * 11;
}
__attribute__((naked, noinline)) void step_flags(void) { __asm__("pushfq\\n popfq\\n nop\\n nop\\n ret"); }
__attribute__((naked, noinline)) void step_count(int* to) { __asm__("lock incl (%rdi)\\n ret"); }
__attribute__((naked, noinline)) void step_nop(void) { __asm__(LONG_NOP "ret"); }
int main(void) {
    int count = 0;
    for (long i = 0; i < 100; i++) {
        const long a = i, b = i * 17 + 1;
        if (leaf(a, b) != a * 3 + b * 5 + (a ^ b) * 7 + (a + b) * 11) return 3;
        step_flags();
        step_count(&count);
        step_nop();
    }
    return dlsym(RTLD_NEXT, "puts") && count == 100 ? 0 : 4;
}
"""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "bears.c").write_text(cls.PROGRAM)
        cls.compile("cc", "-O2", "-fcf-protection=none", "bears.c", "-o", "bears")
        cls.program = cls.folder / "bears"
        symbols = subprocess.run(["nm", cls.program], capture_output=True, text=True, check=True).stdout
        cls.inside = int(re.search(r"(\w+) t inside", symbols).group(1), 16)

    def test_a_nop_that_becomes_a_call_where_variables_are(self):
        for place in (f"uprobe:{self.program}:{self.inside:#x}", f"usdt:{self.program}:shop:long"):
            if REPLACES_NOPS:
                _, said = self.record(place, command=[self.program], status=1)
                self.assertIn("a nop of five bytes", said)
            else:
                counts, _ = self.record(place, command=[self.program])
                self.assertEqual(list(counts.values()), [100], place)

    def test_other_markers_and_functions_are_probed(self):
        counts, said = self.record(f"usdt:{self.program}:shop:*", f"uprobe:{self.program}:step_nop",
                                   f"uprobe:{self.program}:leaf", command=[self.program])
        self.assertEqual(counts, {"shop:short": 100, "uprobe_step_nop": 100, "uprobe_leaf": 100} |
                         ({} if REPLACES_NOPS else {"shop:long": 100}))
        self.assertEqual("1 of 2 markers can not be probed" in said, REPLACES_NOPS)

    def test_instructions_that_are_not_what_they_were_in_another_place(self):
        for name, why in (("step_flags", "SIGTRAP"), ("step_count", "lock or segment prefix")):
            for kind in ("uprobe", "uretprobe"):
                _, said = self.record(f"{kind}:{self.program}:{name}", command=[self.program], status=1)
                self.assertIn(why, said)
        counts, said = self.record(f"uprobe:{self.program}:step_*", command=[self.program])
        self.assertEqual(counts, {"uprobe_step_nop": 100})
        self.assertIn("left out step_count, step_flags", said)

    def test_returns_of_who_looks_at_who_calls(self):
        words = subprocess.run(["ldd", self.program], capture_output=True, text=True, check=True).stdout.split()
        library = next(word for word in words if word.startswith("/") and "libc.so" in word)
        _, said = self.record(f"uretprobe:{library}:dlsym", command=[self.program], status=1)
        self.assertIn("looks at who calls it", said)
        counts, said = self.record(f"uprobe:{library}:dlsym", f"uretprobe:{library}:dl*", command=[self.program])
        self.assertEqual(counts.get("uprobe_dlsym"), 1)
        self.assertIn("dlsym", said)

    def test_a_program_that_dispatches_its_system_calls(self):
        (self.folder / "dispatches.c").write_text("""
            #include <sys/prctl.h>
            static volatile char selector;
            __attribute__((noinline)) int called(int n) { __asm__ volatile("" : "+r"(n)); return n; }
            __attribute__((naked, noinline)) int with_nop(int n) { __asm__(".byte 0x0f,0x1f,0x44,0,0; lea 1(%rdi),%eax; ret"); }
            int main(void) {
                if (prctl(59, 1, 0, 0, (char*)&selector)) return 77; /* PR_SET_SYSCALL_USER_DISPATCH */
                selector = 1;
                const int result = called(0);
                int count = 0;
                for (int i = 0; i < 20; i++) count = with_nop(count);
                selector = 0;
                return result + count - 20;
            }
            """)
        self.compile("cc", "-O2", "-fcf-protection=none", "dispatches.c", "-o", "dispatches")
        program = self.folder / "dispatches"
        if subprocess.run([program], check=False).returncode == 77:
            self.skipTest("the kernel knows no dispatch to user space")
        ended_by_signal = 128 + signal.SIGSYS if RETURNS_BY_A_CALL else 0
        _, said = self.record(f"uretprobe:{program}:called", command=["sh", "-c", f"{program}; exit $?"],
                              status=ended_by_signal)
        self.assertEqual("PR_SET_SYSCALL_USER_DISPATCH" in said, RETURNS_BY_A_CALL)
        counts, _ = self.record(f"uprobe:{program}:called", command=[program])
        self.assertEqual(counts, {"uprobe_called": 1})
        self.record(f"uprobe:{program}:with_nop(n=%di:s32)", command=[program])
        self.assertEqual([int(re.search(r" n = (\d+)", line)[1]) for line in self.lines()], list(range(20)))

    def test_a_file_that_is_replaced_meanwhile(self):
        """We read the file; the kernel takes its name, once for each probe."""
        def build(name, first):
            """The same functions, at other places."""
            functions = "".join(f"__attribute__((noinline)) int part{i}(int n) {{ return n * {i + 7} + 1; }}\n" for i in range(400))
            calls = "".join(f"n = part{i}(n);" for i in range(400))
            (self.folder / "replaced.c").write_text(f"{first}{functions}int main(void) {{ volatile int n = 1; {calls} return 0; }}")
            self.compile("cc", "-O1", "replaced.c", "-o", name)
        build("replaced", "")
        build("newer", "__attribute__((noinline, used)) int shift(int n) { return n / 3 + (n ^ 5) % 11; }")
        program = self.folder / "replaced"
        with subprocess.Popen([PLUMB, "record", "--force", "-o", self.trace, "-k", f"uprobe:{program}:part*", "--duration", "1s"],
                              stderr=subprocess.PIPE, text=True) as recorder:
            while str(program) not in (TRACEFS / "uprobe_events").read_text():
                self.assertIsNone(recorder.poll())
            (self.folder / "newer").rename(program)
            while recorder.poll() is None:
                self.assertEqual(subprocess.run([program], check=False).returncode, 0)
            self.assertIn("was replaced, or written to, while its probes were made", recorder.stderr.read())
        self.assertEqual(recorder.returncode, 1)
        self.assertEqual(left_by(recorder.pid, self.folder), ([], []))


if __name__ == "__main__":
    main()
