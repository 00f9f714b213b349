#!/usr/bin/env python3
# cmake-once
"""A program that gets no more memory is not made to wait for records that are too large for the channel: they are counted."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import traced_program  # noqa: E402

PLUMB = traced_program.BUILD / "cli/plumb"


class NoMemory(traced_program.TracedProgramTest):
    # Ends with 3 if its events take seconds.
    PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <sys/resource.h>
#include <time.h>
PLUMB_EVENT(memory, fixed, (array, u8, bytes, 2048))
PLUMB_EVENT(memory, variable, (sequence, u8, bytes))
PLUMB_EVENT(memory, small, (u64, number))
int main(void) {
    static unsigned char bytes[2048];
    plumb_trace(memory, small, 0);
    struct rlimit limit = {64 << 10, 64 << 10};
    if (setrlimit(RLIMIT_AS, &limit)) return 2;
    const time_t began = time(0);
    for (unsigned long i = 0; i < 10; i++) {
        plumb_trace(memory, small, i); /* one that is recorded ends what was given up */
        plumb_trace(memory, fixed, bytes);
        plumb_trace(memory, small, i);
        plumb_trace(memory, variable, bytes, sizeof(bytes));
    }
    return time(0) - began > 2 ? 3 : 0;
}
"""

    def test_large_records_are_counted_at_once(self):
        done = subprocess.run([PLUMB, "record", "--subbuf-size", "4K", "-o", self.trace, "--", self.program], timeout=60,
                              check=False, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads((self.trace / "summary.json").read_text())
        self.assertEqual((summary["events"], summary["events_lost"]), (31, 10))  # the sequences fit the stack, when they are cut


class AddressSpace(traced_program.TracedProgramTest):
    # Needs 60 MiB, again and again. With an argument its first thread ends, and a second one goes on beside 90 MiB.
    PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
PLUMB_EVENT(space, used, (u64, number))
static void *go_on(void *unused) {
    for (unsigned long i = 0; i < 2000; i++) {
        plumb_trace(space, used, i);
        usleep(5000);
    }
    _exit(0);
    return unused;
}
int main(int count, char **arguments) {
    (void)arguments;
    if (count > 1) {
        mmap(0, 90 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pthread_t other;
        if (pthread_create(&other, 0, go_on, 0)) return 3;
        pthread_exit(0);
    }
    for (unsigned long i = 0; i < 100; i++) {
        void* place = mmap(0, 60 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (place == MAP_FAILED) return 3;
        plumb_trace(space, used, i);
        munmap(place, 60 << 20);
    }
    return 0;
}
"""

    def record(self, limit_kib, size):
        done = subprocess.run([PLUMB, "record", "--subbuf-size", size, "--subbuf-count", "8", "-o", self.trace, "--", "bash", "-c",
                               f"ulimit -v {limit_kib}; exec {self.program}"], timeout=60, check=False,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((self.trace / "summary.json").read_text())

    def test_a_limit_of_the_address_space_is_the_programs(self):
        summary = self.record(100_000, "1M")
        self.assertEqual(summary["events"], 0)
        self.assertIn("Cannot allocate memory", summary["unreachable"][0]["reason"])

    def test_what_fits_beside_it_is_recorded(self):
        self.assertEqual(self.record(200_000, "16K")["events"], 100)

    def test_a_channel_takes_up_to_half_of_what_is_left(self):
        """Two fifths are more than a third, and less than half."""
        processors = os.sysconf("SC_NPROCESSORS_CONF")
        rings = processors + max(4, min(16, processors))
        channel_mib = 8 * rings + 6  # with what goes with them
        self.assertEqual(self.record(int(channel_mib * 2.5 + 5) * 1024, "1M")["events"], 100)

    def record_without_first_thread(self, limit_kib, whom, *options):
        with subprocess.Popen(["bash", "-c", f"ulimit -v {limit_kib}; exec {self.program} left"]) as program:
            while ") Z " not in pathlib.Path(f"/proc/{program.pid}/stat").read_text():
                time.sleep(0.01)
            subprocess.run([PLUMB, "record", *options, "-o", self.trace, whom,
                            self.program if whom == "--exe" else str(program.pid), "--duration", "0.3s"], timeout=60,
                           check=True, capture_output=True)
            program.kill()
        return json.loads((self.trace / "summary.json").read_text())

    def test_so_it_is_when_the_first_thread_has_ended(self):
        summary = self.record_without_first_thread(230_000, "--exe", "--subbuf-size", "1M", "--subbuf-count", "16")
        self.assertEqual(summary["events"], 0)
        self.assertIn("Cannot allocate memory", summary["unreachable"][0]["reason"])

    def test_default_rings_fit_beside_it_then_too(self):
        summary = json.dumps(self.record_without_first_thread(141_000, "-p"))
        sizes = [int(re.search(rf'"{key}": (\d+)', summary).group(1)) for key in ("subbuf_bytes", "subbuf_count")]
        rings = os.sysconf("SC_NPROCESSORS_CONF") + max(4, min(16, os.sysconf("SC_NPROCESSORS_CONF")))
        self.assertLessEqual(sizes[0] * sizes[1] * rings, ((141_000 << 10) - (90 << 20)) // 4)


class RecorderWithout(traced_program.TracedProgramTest):
    # Each of so many threads tells of itself; one of them lives at a time.
    PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <pthread.h>
PLUMB_EVENT(memory, thread, (u64, number))
static void *trace(void *number) {
    plumb_trace(memory, thread, (unsigned long)number);
    return 0;
}
int main(void) {
    pthread_t thread;
    for (unsigned long i = 0; i < 30000; i++) {
        if (pthread_create(&thread, 0, trace, (void *)i)) return 3;
        pthread_join(thread, 0);
    }
    return 7;
}
"""

    def record(self, limit_kib, command):
        shutil.rmtree(self.trace, ignore_errors=True)
        return subprocess.run(["bash", "-c", f"ulimit -v {limit_kib}; exec {PLUMB} record -o {self.trace} -- {command}"],
                              timeout=200, check=False, capture_output=True, text=True)

    def least_kib(self):
        """With which a recording begins."""
        too_few, enough = 10_000, 120_000
        while enough - too_few > 500:
            middle = (too_few + enough) // 2
            if self.record(middle, "sh -c 'exit 9'").returncode == 9:
                enough = middle
            else:
                too_few = middle
        return enough

    def test_the_commands_status_is_passed_on_and_the_trace_closed(self):
        least_kib = self.least_kib()
        for limit_kib, has_enough in ((least_kib, False), (least_kib + 1500, False), (2 * least_kib, True)):
            done = self.record(limit_kib, self.program)
            if done.returncode == 1 and not has_enough: # said before the program began: not each time it is the same
                self.assertRegex(done.stderr, "ulimit|RLIMIT|memory")
                continue
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertTrue((self.trace / "summary.json").exists(), done.stderr)
            summary = json.loads((self.trace / "summary.json").read_text())
            self.assertEqual(summary["exit_status"], 7)
            self.assertEqual(summary["events"] + summary["events_lost"], 30000, done.stderr)
            if has_enough:
                self.assertEqual(summary["events_lost"], 0, done.stderr)
            subprocess.run(["babeltrace2", self.trace], timeout=100, check=True, capture_output=True)


if __name__ == "__main__":
    unittest.main()
