#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-lock: boot
"""Of a program that crashes, plumb extract makes a trace of its core. And the kernel crashes while a program traces at full speed: of the machine's memory, as a file, plumb extract makes a trace of
every event that was published, and of no other; damaged, it costs what is damaged.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_crash.py 6.12 [TEST...]"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
from collections import Counter, defaultdict
from pathlib import Path

from guest import Guest, run_tests
from guest_module import COUNTER, build_module, why_not_built

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
VERSION = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else ""
sys.path.insert(0, str(SOURCE / "tests/support"))
from traced_program import compile_traced  # noqa: E402

# Two of its children trace ever greater numbers until the end, and tell over the line which one was published. Others come
# and go: what those wrote is in no page table any more. When there was enough of all, it crashes the kernel.
PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <plumb/tracepoint.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
PLUMB_EVENT(crash, step, (u32, child), (u64, number))
static volatile unsigned long* published;
static void run(unsigned child, unsigned long count) {
    int line = open("/dev/ttyS1", O_WRONLY);
    char text[64];
    for (unsigned long number = 0; number < count; number++) {
        plumb_trace(crash, step, child, number);
        published[child] = number;
        if (number % TOLD == TOLD - 1 && write(line, text, sprintf(text, "child %u: %lu\n", child, number)) < 0) _exit(1);
    }
    _exit(0);
}
int main(int count, char** unused) {
    if (count > 1) {
        for (unsigned long number = 0; number < BRIEF; number++) plumb_trace(crash, step, 0, number);
        abort();
    }
    kill(getppid(), SIGSTOP); // the recorder: what it has read is not in the dump
    published = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (unsigned child = 1; child <= 2; child++)
        if (fork() == 0) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(child - 1, &one);
            sched_setaffinity(0, sizeof(one), &one); // one ring, and so one row of numbers, whatever was overwritten
            run(child, -1ul);
        }
    for (unsigned child = 3; child < 7 || published[1] < 3000 || published[2] < 3000; child++) {
        pid_t next = fork();
        if (next == 0) run(child, BRIEF);
        waitpid(next, NULL, 0);
    }
    return write(open("/proc/sysrq-trigger", O_WRONLY), "c", 1) != 1;
}
"""
BRIEF = 1000
TOLD = 500
OF_A_HANDLER = -1  # the number that rt_sigreturn() leaves
LONG = (1, 2)
PAGE = 4096


class Crash(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = Path(cls.temporary.name)
        cls.dump = cls.folder / "vmcore"
        line = cls.folder / "line"
        guest = Guest(VERSION, f"{COUNTER} panic=0", second_line=line, memory="512M")
        guest.add(compile_traced(PROGRAM, cls.folder / "program", f"-DBRIEF={BRIEF}", f"-DTOLD={TOLD}"), "/bin/program")
        guest.add(BUILD / "cli/plumb", "/bin/plumb")
        guest.step("core", "echo /tmp/core >/proc/sys/kernel/core_pattern; echo 0x3b >/proc/self/coredump_filter; "
                   # Else the recorder may read it while the core is written.
                   "ulimit -c unlimited; plumb record -q -o /tmp/lived --mode overwrite -- "
                   "sh -c 'kill -STOP $PPID; program abort; kill -CONT $PPID'; "
                   "plumb extract /tmp/core -o /tmp/extracted 2>/dev/ttyS1; plumb view /tmp/extracted | wc -l >/dev/ttyS1")
        module, status, said = build_module(VERSION)
        if status != 0:
            raise RuntimeError(said)
        guest.archive.add("/plumb.ko", module.read_bytes(), 0o100644)
        guest.step("crash", "insmod /plumb.ko; plumb record -q -o /tmp/trace --mode overwrite --subbuf-size 2M --subbuf-count 16 "
                   "-a -k raw_syscalls --kernel-by module --kernel-buffer-size 8M -- program 2>/dev/ttyS1")
        cls.compressed = cls.folder / "vmcore.zlib"
        guest.boot_to_panic(cls.folder, {"elf": cls.dump, "kdump-zlib": cls.compressed})
        cls.published = {}
        cls.said = line.read_text()
        for child, number in re.findall(r"child (\d+): (\d+)\r?\n", cls.said):
            cls.published[int(child)] = int(number)

    def extract(self, name, dump=None):
        trace = self.folder / name
        done = subprocess.run([BUILD / "cli/plumb", "extract", "--force", dump or self.dump, "-o", trace], capture_output=True, text=True,
                              timeout=100, check=False)
        return done, trace

    def numbers(self, trace):
        """By child, in the order of the trace."""
        shown = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        numbers = defaultdict(list)
        for child, number in re.findall(r"crash:step: .*child = (\d+), number = (\d+)", shown.stdout):
            numbers[int(child)].append(int(number))
        return numbers, shown.stderr

    def test_a_core_has_what_its_program_traced(self):
        self.assertRegex(self.said, rf"Extracted 1,000 events of /tmp/core \(session \S+, recorded by process \d+\)\.\s"
                         rf"[^\n]*\n{BRIEF}\s")

    def test_every_published_event_is_there(self):
        done, trace = self.extract("whole")
        self.assertEqual(done.returncode, 0, (done.stderr, self.published))
        numbers, complaints = self.numbers(trace)
        self.assertEqual(complaints, "")
        summary = json.loads((trace / "summary.json").read_text())
        self.assertEqual((summary["events_lost"], summary["notes"], summary["problems"]), (0, {}, []), done.stderr)
        self.assertGreater(min(self.published[child] for child in LONG), 200, self.published)
        for child in LONG:
            seen = numbers[child]
            self.assertNotEqual(seen, [], (child, self.published, done.stderr, summary))
            self.assertTrue(seen == list(range(seen[0], seen[0] + len(seen))), child)
            self.assertGreaterEqual(seen[-1], self.published[child], child)
        for child, seen in numbers.items():
            self.assertTrue(seen == sorted(set(seen)), child)
        # The last of the others had ended just before.
        self.assertTrue(numbers[max(numbers)] == list(range(BRIEF)), numbers[max(numbers)][:3])
        self.assertGreater(max(numbers), 5)
        self.assertIn("program", {process["name"] for process in summary["processes"]})

    def test_the_kernels_events_are_beside_them(self):
        """Each number that is told over the line is told by a write()."""
        done, trace = self.extract("kernel")
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = subprocess.run([BUILD / "cli/plumb", "view", "--json", trace], capture_output=True, text=True, check=True)
        told, written, open_calls, begun = Counter(), Counter(), {}, set()
        for line in shown.stdout.splitlines():
            event = json.loads(line)
            kind, fields, tid = event["event"], event["fields"], event.get("tid", 0)
            if kind == "crash:step":
                if event["cpu"] in begun and fields["child"] in LONG and fields["number"] % TOLD == TOLD - 1:
                    told[tid] += 1
                continue
            begun.add(event["cpu"])
            if kind == "sys_enter":
                self.assertNotIn(tid, open_calls, event)
                open_calls[tid] = fields["id"]
            elif kind == "sys_exit":
                if tid in open_calls:
                    self.assertIn(fields["id"], (open_calls.pop(tid), OF_A_HANDLER), event)
                written[tid] += fields["id"] == 1
            else:
                self.assertIn(kind, ("task_newtask", "task_rename"), event)
        print("told:", dict(told), "written:", {tid: written[tid] for tid in told})
        for tid, count in told.items():
            self.assertIn(written[tid], (count - 1, count, count + 1), tid)
        self.assertEqual(len(told), len(LONG))

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
