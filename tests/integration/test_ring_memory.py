#!/usr/bin/env python3
"""With --rings-on-demand, rings take shared memory when they are first written. Where there is none left then, events are lost with that name and
none of another; nobody gets a SIGBUS; and there are events again when there is memory again. Needs root, for a /dev/shm of
its own that is full when the test says so."""
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import traced_program  # noqa: E402

PLUMB = traced_program.BUILD / "cli/plumb"
SHM = pathlib.Path("/dev/shm")
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
ROUND = 2000


def setUpModule():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) or libc.mount(
            b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"size=24m,mode=1777"):
        sys.exit(77)


def free_bytes():
    room = os.statvfs(SHM)
    return room.f_bavail * room.f_frsize


def channel_bytes():
    return sum(path.stat().st_blocks * 512 for path in SHM.glob(f"plumb-{os.geteuid()}/channel-*"))


class RingMemory(traced_program.TracedProgramTest):
    # For each line on its standard input: so many events, on one CPU; then says so. "filter": from now on the kernel ends it
    # for madvise(). "refuse": the kernel refuses that.
    PROGRAM = r"""
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
PLUMB_EVENT(memory, used, (u64, number), (array, u8, bytes, 100))
static int filter(unsigned action) {
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ, SYS_madvise, 0, 1),
                                 BPF_STMT(BPF_RET, action), BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {4, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
int main(int count, char **arguments) {
    static unsigned char bytes[100];
    static unsigned long number;
    char line[64];
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    CPU_SET(0, &cpu);
    if (sched_setaffinity(0, sizeof(cpu), &cpu)) return 2;
    if (count > 1 && filter(SECCOMP_RET_ERRNO | 1)) return 3; /* from the start */
    (void)arguments;
    while (fgets(line, sizeof(line), stdin)) {
        if (!strncmp(line, "filter", 6) && filter(SECCOMP_RET_KILL_PROCESS)) return 3;
        for (long i = atol(line); i > 0; i--) plumb_trace(memory, used, number++, bytes);
        puts("done");
        fflush(stdout);
    }
    return 0;
}
"""

    def start(self, *arguments):
        self.number = 0
        self.running = subprocess.Popen([self.program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.running.stdout.close)

    def ask(self, line):
        self.running.stdin.write(f"{line}\n")
        self.running.stdin.flush()
        self.assertEqual(self.running.stdout.readline(), "done\n", "the program has ended")

    def end(self):
        self.running.stdin.close()
        self.assertEqual(self.running.wait(timeout=30), 0)

    def record(self, *options):
        size = ("--rings-on-demand", "--subbuf-size", "128K", "--subbuf-count", "8")
        self.recorder = subprocess.Popen([PLUMB, "record", *size, *options, "-o", self.trace, "-p", str(self.running.pid)],
                                         stderr=subprocess.PIPE, text=True)
        while not channel_bytes():
            time.sleep(0.01)
        time.sleep(0.5)

    def finish(self):
        self.recorder.send_signal(2)
        errors = self.recorder.communicate(timeout=60)[1]
        return json.loads((self.trace / "summary.json").read_text()), errors

    def fill(self):
        with (SHM / "filler").open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, free_bytes())
        self.addCleanup((SHM / "filler").unlink, missing_ok=True)

    def test_a_ring_takes_memory_when_it_is_written(self):
        self.start()
        self.record("--mode", "block")
        unwritten = channel_bytes()
        self.assertLess(unwritten, 4 << 20)
        self.ask(1)
        time.sleep(0.5)
        self.assertLessEqual(unwritten + (128 << 10), channel_bytes())
        self.assertLessEqual(channel_bytes(), unwritten + (256 << 10))
        self.ask(20_000)
        time.sleep(0.5)
        self.assertEqual(channel_bytes(), unwritten + (1 << 20), "one CPU's ring is written, and none else")
        self.end()
        summary, _ = self.finish()
        self.assertEqual((summary["events"], summary["events_lost"]), (20_001, 0))

    def test_where_there_is_none_events_are_lost_by_that_name(self):
        for mode in ("discard", "block", "overwrite"):
            with self.subTest(mode=mode):
                self.trace = self.folder / mode
                self.start()
                self.record("--mode", mode)
                self.fill()
                self.ask(ROUND)
                (SHM / "filler").unlink()
                time.sleep(0.2)
                self.ask(ROUND)
                self.end()
                summary, errors = self.finish()
                self.assertEqual(summary["events"], ROUND)
                self.assertEqual(summary["events_lost_by_cause"], {"no_memory": ROUND})
                self.assertIn("/dev/shm was full when a ring needed its memory", errors)

    def test_what_a_ring_has_by_then_is_written(self):
        self.start()
        self.record("--mode", "block")
        self.ask(1)
        time.sleep(0.5)
        self.fill()
        for _ in range(10):
            self.ask(ROUND)
        self.end()
        summary, _ = self.finish()
        lost = summary["events_lost_by_cause"]["no_memory"]
        self.assertEqual(summary["events"] + lost, 10 * ROUND + 1)
        self.assertGreater(summary["events"], 900)  # one sub-buffer of 128 KiB at least

    def test_a_program_that_may_not_ask_for_it_gets_it_from_the_recorder(self):
        self.start()
        self.record()
        self.ask("filter")
        time.sleep(0.5)
        self.ask(1)  # its first event says who the thread is, which takes calls
        self.ask(20_000)
        self.end()
        summary, _ = self.finish()
        self.assertEqual(summary["events"] + summary["events_lost"], 20_001)
        self.assertLessEqual(set(summary["events_lost_by_cause"]), {"held", "full"})

    def test_one_that_is_known_loses_nothing_by_its_filter(self):
        self.start()
        self.record("--mode", "block")
        self.ask(1)
        self.ask("filter")
        time.sleep(0.5)
        for _ in range(10):
            self.ask(ROUND)
            time.sleep(0.1)
        self.end()
        summary, _ = self.finish()
        self.assertEqual((summary["events"], summary["events_lost"]), (10 * ROUND + 1, 0))

    def test_one_whose_filter_refuses_it_loses_what_it_wrote_before_the_recorder_came(self):
        self.start("refused")
        self.record("--seccomp")
        self.ask(1)
        time.sleep(0.5)
        self.ask(ROUND)
        self.end()
        summary, _ = self.finish()
        self.assertEqual((summary["events"], summary["events_lost_by_cause"]), (ROUND, {"no_memory": 1}))


if __name__ == "__main__":
    unittest.main()
