#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-lock: boot
"""Of a program that crashes, plumb extract makes a trace of its core. And the kernel crashes while a program traces at full
speed: of the machine's memory, as QEMU writes it, plumb extract makes a trace of every event that was published, and of no
other; damaged, it costs what is damaged.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_crash.py 6.12 [TEST...]"""
import random
import re
import sys
import tempfile
from pathlib import Path

from crashed_machine import BRIEF, CRASH, LONG, CrashedMachine, add_what_crashes, published_in
from guest import Guest, run_tests
from guest_module import COUNTER, why_not_built

VERSION = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else ""
PAGE = 4096
# The recorder is stopped: else it may read what is to be in the core while that is written.
CORE = """
echo /tmp/core >/proc/sys/kernel/core_pattern
echo 0x3b >/proc/self/coredump_filter
ulimit -c unlimited
plumb record -q -o /tmp/lived --mode overwrite -- sh -c 'kill -STOP $PPID; program abort; kill -CONT $PPID'
plumb extract /tmp/core -o /tmp/extracted 2>/dev/ttyS1
plumb view /tmp/extracted | wc -l >/dev/ttyS1
"""


class Crash(CrashedMachine):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        cls.dump = cls.folder / "vmcore"
        cls.compressed = cls.folder / "vmcore.zlib"
        line = cls.folder / "line"
        guest = Guest(VERSION, f"{COUNTER} panic=0", second_line=line, memory="512M")
        add_what_crashes(guest, VERSION, cls.folder)
        guest.step("core", CORE)
        guest.step("crash", CRASH)
        guest.boot_to_panic(cls.folder, {"elf": cls.dump, "kdump-zlib": cls.compressed})
        cls.said = line.read_text()
        cls.published = published_in(cls.said)

    def test_a_core_has_what_its_program_traced(self):
        self.assertRegex(self.said, rf"Extracted 1,000 events of /tmp/core \(session \S+, recorded by process \d+\)\.\s"
                         rf"[^\n]*\n{BRIEF}\s")

    def test_every_published_event_is_there(self):
        self.assert_all_is_there("whole")

    def test_the_kernels_events_are_beside_them(self):
        self.assert_the_kernels_events_are_beside_them("kernel")

    def test_a_compressed_dump_has_the_same(self):
        made = []
        for name, dump in ("elf", self.dump), ("zlib", self.compressed):
            done, trace = self.extract(name, dump)
            self.assertEqual(done.returncode, 0, done.stderr)
            made.append(self.numbers(trace)[0])
        self.assertTrue(made[0] == made[1])

    def test_damage_costs_what_is_damaged(self):
        pages = self.dump.stat().st_size // PAGE
        for seed in range(6):
            chance = random.Random(seed)
            hit = {chance.randrange(pages): chance.randbytes(PAGE) for _ in range(pages // 50)}
            with self.dump.open("r+b") as file:
                before = {}
                for page, noise in hit.items():
                    file.seek(page * PAGE)
                    before[page] = file.read(PAGE)
                    file.seek(page * PAGE)
                    file.write(noise)
                file.flush()
                done, trace = self.extract(f"damaged{seed}")
                for page, bytes_ in before.items():
                    file.seek(page * PAGE)
                    file.write(bytes_)
            with self.subTest(seed):
                self.assertIn(done.returncode, (0, 1), done.stderr)
                self.assertNotEqual(done.stderr, "")
                if trace.exists():
                    numbers, _ = self.numbers(trace)
                    for child in LONG:
                        sound = [number for number in numbers[child] if number < 1 << 32]  # others are noise behind a header
                        self.assertTrue(sound == sorted(set(sound)), child)
                        self.assertLess(len(numbers[child]) - len(sound), len(hit))


if __name__ == "__main__":
    run_tests(why_not_built(VERSION) if VERSION else "")
