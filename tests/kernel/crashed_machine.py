"""A machine that crashes while a program, and the kernel, trace at full speed; and what plumb extract has to make of its memory."""
import json
import os
import re
import subprocess
import sys
import unittest
from collections import Counter, defaultdict
from pathlib import Path

from guest_module import build_module

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
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
CRASH = """
insmod /plumb.ko
plumb record -q -o /tmp/trace --mode overwrite --subbuf-size 2M --subbuf-count 16 -a -k raw_syscalls --kernel-by module \\
    --kernel-buffer-size 8M -- program 2>/dev/ttyS1
"""


def add_what_crashes(guest, version, folder):
    """The programs, and plumb.ko, that CRASH needs; its second line is to be looked at by published_in()."""
    guest.add(compile_traced(PROGRAM, folder / "program", f"-DBRIEF={BRIEF}", f"-DTOLD={TOLD}"), "/bin/program")
    guest.add(BUILD / "cli/plumb", "/bin/plumb")
    module, status, said = build_module(version)
    if status != 0:
        raise RuntimeError(said)
    guest.archive.add("/plumb.ko", module.read_bytes(), 0o100644)


def published_in(said):
    """By child, the last number that it told to have published."""
    return {int(child): int(number) for child, number in re.findall(r"child (\d+): (\d+)\r?\n", said)}


class CrashedMachine(unittest.TestCase):
    """Of one crash: `folder`, `dump` and `published` are the class's."""

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

    def assert_all_is_there(self, name, dump=None):
        """Every event that was published, and no other. The numbers."""
        done, trace = self.extract(name, dump)
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
        return numbers

    def assert_the_kernels_events_are_beside_them(self, name, dump=None):
        """Each number that is told over the line is told by a write()."""
        done, trace = self.extract(name, dump)
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
