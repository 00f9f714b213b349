#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""Programs and recorders in time namespaces (`unshare --time`, as root), whose CLOCK_MONOTONIC and CLOCK_BOOTTIME are
shifted: a living program is not taken for one that is gone, whichever way, and times in traces are the machine's."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import machine_clock  # noqa: E402
import traced_program  # noqa: E402

PLUMB = traced_program.BUILD / "cli" / "plumb"
STATE = Path(f"/dev/shm/plumb-{os.geteuid()}/state")
HOUR = 3600
MINUTES = 600
EVENTS = 20


def shifted(seconds):
    return ["unshare", "--time", "--monotonic", str(seconds), "--boottime", str(seconds)]


def why_not():
    if os.geteuid() != 0:
        return "time namespaces need root"
    if not Path("/proc/self/timens_offsets").exists():
        return "this kernel has no time namespaces"
    with open("/proc/uptime", encoding="ascii") as uptime:
        if float(uptime.read().split()[0]) < MINUTES + 60:
            return "this machine has not been up for long enough to be set back"
    done = subprocess.run([*shifted(HOUR), "true"], capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


class TimeNamespaces(traced_program.TracedProgramTest):
    # leads: ticks from a thread, when the first one has ended; leaves: ticks from a child, in a root without /proc
    # fork: each event is a child's, in the namespace that the program has made for children; ticks: until it is ended
    PROGRAM = r"""
    #define _GNU_SOURCE
    #include <plumb/tracepoint.h>
    #include <fcntl.h>
    #include <pthread.h>
    #include <sched.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/wait.h>
    #include <unistd.h>
    PLUMB_EVENT(shifted, tick, (u32, number))
    static void* tick_for_ever(void* unused) {
        usleep(200000);
        for (;;) { plumb_trace(shifted, tick, 0); usleep(10000); }
        return unused;
    }
    int main(int count, char** arguments) {
        const char* how = count > 1 ? arguments[1] : "";
        if (!strcmp(how, "fork")) {
            int fd = 0;
            plumb_trace(shifted, tick, 0);
            if (unshare(0x80 /* CLONE_NEWTIME */) || (fd = open("/proc/self/timens_offsets", O_WRONLY)) < 0) return 3;
            if (dprintf(fd, "monotonic %s 0\nboottime %s 0\n", arguments[2], arguments[2]) < 0) return 4;
        }
        if (!strcmp(how, "ticks")) for (;;) { plumb_trace(shifted, tick, 0); usleep(10000); }
        if (!strcmp(how, "leads")) {
            pthread_t thread;
            pthread_create(&thread, NULL, tick_for_ever, NULL);
            pthread_exit(NULL);
        }
        if (!strcmp(how, "leaves")) {
            int status = 0;
            plumb_trace(shifted, tick, 0);
            if (chroot(arguments[2]) || chdir("/")) return 6;
            pid_t child = fork();
            for (int i = 0; child == 0 && i < 19; i++) { plumb_trace(shifted, tick, 0); usleep(10000); }
            if (child == 0) _exit(0);
            return waitpid(child, &status, 0) != child || status != 0;
        }
        for (unsigned i = 1; i < 20; i++) {
            int status = 0;
            pid_t child = strcmp(how, "fork") ? 0 : fork();
            if (child == 0) plumb_trace(shifted, tick, i);
            if (!strcmp(how, "fork") && child == 0) _exit(0);
            if (child > 0 && (waitpid(child, &status, 0) != child || status != 0)) return 5;
        }
        if (strcmp(how, "fork")) plumb_trace(shifted, tick, 20);
    }
    """

    def record(self, *arguments, prefix=()):
        done = subprocess.run([*prefix, PLUMB, "record", "--json", "-q", "--force", "-o", self.trace, *map(str, arguments)],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def start(self, *words):
        program = subprocess.Popen(words)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        return program

    def times(self):
        """Of the events in the trace, seconds since 1970."""
        shown = subprocess.run(["babeltrace2", "--clock-seconds", self.trace], capture_output=True, text=True, timeout=60,
                               check=True).stdout
        return [float(line[1:line.index("]")]) for line in shown.splitlines() if " shifted:tick: " in line]

    def check_times(self, began, count):
        times = self.times()
        self.assertEqual(len(times), count)
        self.assertEqual(times, sorted(times))
        self.assertGreaterEqual(times[0], began - 1)
        self.assertLessEqual(times[-1], time.time() + 1)

    def test_a_program_that_runs_already_is_found(self):
        for seconds in (-MINUTES, HOUR):
            with self.subTest(seconds=seconds):
                program = self.start(*shifted(seconds), self.program, "ticks")
                time.sleep(0.5)
                listed = subprocess.run([PLUMB, "list"], capture_output=True, text=True, timeout=60, check=True).stdout
                self.assertIn(str(program.pid), listed)
                for whom in ((), ("-p", program.pid)):
                    summary = self.record("--duration", "0.5s", *whom)
                    self.assertGreater(summary["events"], 0)
                    self.assertEqual(summary["unreachable"], [])
                program.kill()
                program.wait()

    def test_what_a_dead_one_left_is_seen_to_be_old(self):
        """Not younger than whatever process gets its number next."""
        program = self.start(*shifted(HOUR), self.program, "ticks")
        time.sleep(0.5)
        registered = [slot[1] for slot in self.slots() if slot[0] >> 10 & 0x3fffff == program.pid]
        self.assertEqual(len(registered), 1)
        self.assertLessEqual(registered[0], time.clock_gettime_ns(time.CLOCK_BOOTTIME))

    @staticmethod
    def slots():
        """Claim and time of registering of each slot that is taken."""
        words = memoryview(STATE.read_bytes()[274432:]).cast("Q")
        return [(words[i], words[i + 1]) for i in range(0, len(words), 8) if words[i] != 0]

    def test_times_are_those_of_the_machine(self):
        for clock in machine_clock.usable("mono", "boot", "real", "tsc"):
            for seconds in (-MINUTES, HOUR):
                with self.subTest(clock=clock, seconds=seconds):
                    began = time.time()
                    script = f"{self.program}; {' '.join(shifted(seconds))} {self.program}; {self.program}"
                    summary = self.record("--clock", clock, "--", "sh", "-c", script)
                    self.assertEqual((summary["events"], summary["events_lost"]), (3 * EVENTS, 0))
                    self.check_times(began, 3 * EVENTS)

    def test_a_child_in_a_namespace_that_its_parent_made(self):
        for clock in ("mono", "boot"):
            for seconds in (-MINUTES, HOUR):
                with self.subTest(clock=clock, seconds=seconds):
                    began = time.time()
                    summary = self.record("--clock", clock, "--", self.program, "fork", str(seconds))
                    self.assertEqual((summary["events"], summary["events_lost"]), (EVENTS, 0))
                    self.check_times(began, EVENTS)

    def test_a_recorder_in_one(self):
        for clock in machine_clock.usable("mono", "boot", "tsc"):
            for seconds in (-MINUTES, HOUR):
                with self.subTest(clock=clock, seconds=seconds):
                    outside = self.start(self.program, "ticks")
                    time.sleep(0.3)
                    began = time.time()
                    before = time.clock_gettime(time.CLOCK_MONOTONIC)
                    summary = self.record("--clock", clock, "--duration", "0.5s", "--exe", self.program,
                                          prefix=shifted(seconds))
                    self.assertGreater(summary["events"], 0)
                    self.assertEqual((summary["events_lost"], summary["unreachable"]), (0, []))
                    self.check_times(began, summary["events"])
                    first = self.first_monotonic()
                    self.assertTrue(before - 1 <= first <= time.clock_gettime(time.CLOCK_MONOTONIC) + 1, (before, first))
                    outside.send_signal(signal.SIGKILL)
                    outside.wait()

    def test_one_whose_first_thread_has_ended(self):
        """Nothing is known any more of that one: neither of its namespaces nor of its clocks."""
        for clock in ("mono", "boot"):
            for seconds in (-MINUTES, HOUR):
                with self.subTest(clock=clock, seconds=seconds):
                    program = self.start(*shifted(seconds), self.program, "leads")
                    time.sleep(0.5)
                    began = time.time()
                    summary = self.record("--clock", clock, "--duration", "0.5s", "-p", program.pid)
                    self.assertGreater(summary["events"], 0)
                    self.assertEqual(summary["unreachable"], [])
                    self.check_times(began, summary["events"])
                    program.kill()
                    program.wait()

    def test_one_that_leaves_the_root_with_proc_goes_on_with_what_it_knew(self):
        root = self.folder / "empty"
        root.mkdir()
        for clock in ("mono", "boot"):
            for seconds in (-MINUTES, HOUR):
                with self.subTest(clock=clock, seconds=seconds):
                    began = time.time()
                    summary = self.record("--clock", clock, "--", *shifted(seconds), self.program, "leaves", root)
                    self.assertEqual((summary["events"], summary["events_lost"]), (EVENTS, 0))
                    self.check_times(began, EVENTS)

    def first_monotonic(self):
        """CLOCK_MONOTONIC of the first event, by the trace's own clock."""
        shown = subprocess.run([PLUMB, "view", "--monotonic", self.trace], capture_output=True, text=True, timeout=60,
                               check=True).stdout
        line = next(line for line in shown.splitlines() if "shifted:tick" in line)
        return float(line.strip("[ ").split()[0].strip("[]"))

    def test_without_proc_times_that_may_be_shifted_are_not_written(self):
        root = self.folder / "root"
        script = (f"mkdir -p {root}/dev/shm && mount --bind / {root} && mount --bind /dev/shm {root}/dev/shm && "
                  f"mount -t tmpfs none {root}/proc && exec chroot {root} {self.program} ticks")
        program = self.start("unshare", "--mount", "sh", "-c", script)
        time.sleep(1)
        for clock in machine_clock.usable("tsc", "real", "mono", "boot"):
            is_recorded = clock in ("tsc", "real")
            with self.subTest(clock=clock):
                summary = self.record("--clock", clock, "--duration", "0.5s")
                self.assertEqual(summary["events"] > 0, is_recorded, summary)
                reasons = [one["reason"] for one in summary["unreachable"] if one["pid"] == program.pid]
                self.assertEqual(["time namespace" in reason for reason in reasons], [] if is_recorded else [True])


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(reason)
        sys.exit(77)
    unittest.main()
