#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""Three sessions at once over one service of 8 threads: one that discards what a filter leaves out, a flight recorder with call stacks,
and one that counts. Each has exactly what it would have alone: the same program runs once more below each of them by itself."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

THREADS = 8
COUNT = 20000
SUBBUF_BYTES, SUBBUFS = 64 * 1024, 4
CONDITION = "number % 7 == 3 && writer != 5"


class SideBySide(TracedProgramTest):
    # For each line of input a thread for each writer traces COUNT events, by one way or another, on a processor of its own choice that it
    # keeps: so a ring that is overwritten still has the newest events of each of its writers without a gap.
    PROGRAM = r"""
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>
PLUMB_EVENT(service, order, (u32, writer), (u64, number))
__attribute__((noinline)) void place(unsigned writer, unsigned long number) {
    plumb_trace(service, order, writer, number);
    __asm__ volatile("");
}
__attribute__((noinline)) void even_way(unsigned writer, unsigned long number) {
    place(writer, number);
    __asm__ volatile("");
}
__attribute__((noinline)) void odd_way(unsigned writer, unsigned long number) {
    even_way(writer, number);
    __asm__ volatile("");
}
static void* work(void* argument) {
    const unsigned writer = (unsigned)(unsigned long)argument;
    cpu_set_t all, one;
    int cpu = -1;
    sched_getaffinity(0, sizeof(all), &all);
    for (int left = (int)writer % CPU_COUNT(&all); left >= 0; left--)
        do cpu++; while (!CPU_ISSET(cpu, &all));
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
    for (unsigned long number = 0; number < COUNT; number++) {
        if (number % 2 == 0) even_way(writer, number);
        else odd_way(writer, number);
        if (number % 100 == 99) usleep(500);
    }
    return NULL;
}
int main(void) {
    while (getchar() == '\n') {
        pthread_t threads[8];
        for (long i = 0; i < 8; i++) pthread_create(&threads[i], NULL, work, (void*)i);
        for (long i = 0; i < 8; i++) pthread_join(threads[i], NULL);
        puts("done");
        fflush(stdout);
    }
    return 0;
}
""".replace("COUNT;", f"{COUNT};")

    def start(self, *words, **more):
        process = subprocess.Popen(list(map(str, words)), text=True, stdout=subprocess.PIPE, **more)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()

    def wait_until_on(self, program, count):
        until = time.monotonic() + 60
        while True:
            listed = json.loads(subprocess.run([PLUMB, "list", "--json"], capture_output=True, text=True, timeout=60, check=True).stdout)
            on = [event["sessions"] for process in listed["processes"] if process["pid"] == program
                  for each in process["objects"] for event in each["events"]]
            if on and len(on[0]) == count:
                return
            self.assertLess(time.monotonic(), until, on)
            time.sleep(0.05)

    def run_below(self, name, which):
        """What each of `which` has of one run of the program."""
        program = self.start(self.program, stdin=subprocess.PIPE)
        at = ["-p", program.pid]
        filtered, flown = self.folder / f"{name}-filtered", self.folder / f"{name}-flown"
        words = {
            "filtered": [PLUMB, "record", "-q", "-o", filtered, "--name", "filtered", "--filter", CONDITION, *at],
            "flown": [PLUMB, "record", "-q", "-o", flown, "--name", "flown", "--snapshot", "--context", "callstack",
                      "--subbuf-size", "64K", "--subbuf-count", SUBBUFS, *at],
            "counted": [PLUMB, "stat", "--name", "counted", "--json", "--by", "writer", "--sum", "number", *at]}
        sessions = {each: self.start(*words[each], stderr=subprocess.PIPE) for each in which}
        self.wait_until_on(program.pid, len(which))
        program.stdin.write("\n")
        program.stdin.flush()
        self.assertEqual(program.stdout.readline(), "done\n")
        has = {}
        if "flown" in which:
            done = subprocess.run([PLUMB, "snapshot", str(sessions["flown"].pid)], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            has["flown"] = self.read(flown / "snapshot-1")
        program.stdin.close()
        self.assertEqual(program.wait(60), 0)
        for each, session in sessions.items():
            text, errors = session.communicate(timeout=60)
            self.assertEqual(session.returncode, 0, (each, errors))
            if each == "counted":
                has[each] = json.loads(text.splitlines()[-1])
        if "filtered" in which:
            has["filtered"] = self.read(filtered)
        return has

    def read(self, trace):
        done = subprocess.run([PLUMB, "view", trace, "--json"], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    @staticmethod
    def orders(events):
        orders = [[] for _ in range(THREADS)]
        for event in events:
            orders[event["fields"]["writer"]].append(event["fields"]["number"])
        return orders

    def check_filtered(self, events):
        for writer, numbers in enumerate(self.orders(events)):
            self.assertEqual(numbers, [] if writer == 5 else list(range(3, COUNT, 7)), writer)
        self.assertFalse([event for event in events if "callstack" in event])

    def check_counted(self, counted):
        [event] = counted["events"]
        self.assertEqual((event["event"], event["count"]), ("service:order", THREADS * COUNT))
        self.assertEqual({key["key"]: (key["count"], key["sum"]) for key in event["keys"]},
                         {writer: (COUNT, COUNT * (COUNT - 1) // 2) for writer in range(THREADS)})
        self.assertEqual((counted["not_counted"], counted["damaged_slots"], counted["problems"]), (0, 0, []))

    def check_flown(self, events):
        """By ring the length of what it has, and the stacks."""
        stacks = {}
        for event in events:
            self.assertEqual(event["event_context"]["callstack_user_end"]["label"], "whole", event)
            names = [name.split("+0x")[0] for name in event["callstack"]]
            stacks.setdefault(event["fields"]["number"] % 2, set()).add(tuple(names[names.index("place"):]))
        for is_odd, ways in stacks.items():
            [way] = ways
            self.assertEqual(list(way[:2 + is_odd + 1]), ["place", "even_way", *["odd_way"] * is_odd, "work"])
        by_cpu = {}
        for event in events:
            by_cpu.setdefault(event["cpu"], []).append(event)
        for writer, numbers in enumerate(self.orders(events)):  # threads end at different times: some may be all overwritten
            if numbers:
                self.assertEqual(numbers, list(range(numbers[0], COUNT)), writer)
        return {cpu: len(of) for cpu, of in by_cpu.items()}, stacks

    def test_each_has_what_it_has_alone(self):
        together = self.run_below("together", ["filtered", "flown", "counted"])
        alone = {each: self.run_below(f"alone-{each}", [each])[each] for each in together}
        for has in (together, alone):
            self.check_filtered(has["filtered"])
            self.check_counted(has["counted"])
        lengths, stacks = self.check_flown(together["flown"])
        lengths_alone, stacks_alone = self.check_flown(alone["flown"])
        self.assertEqual(stacks, stacks_alone)
        self.assertEqual(lengths.keys(), lengths_alone.keys())
        # The newest that a ring has room for: all of it but for the sub-buffer that is begun, and the one that makes room.
        most = max([*lengths.values(), *lengths_alone.values()])
        for of in (lengths, lengths_alone):
            for cpu, count in of.items():
                self.assertGreater(count, most * (SUBBUFS - 2) // SUBBUFS, (cpu, lengths, lengths_alone))


if __name__ == "__main__":
    unittest.main()
