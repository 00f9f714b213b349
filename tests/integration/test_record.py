#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""plumb record: every event accounted for, status and signals passed on, nothing overwritten, nothing hidden.

The traced program is compiled here and counts its own locks, so what the trace must hold is known exactly.
"""
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB, PROBE, RecordedProgramTest, read_back  # noqa: E402
from traced_program import compile_traced  # noqa: E402

# Traces as long as its event is on, says that it is off, and ends.
OUTLIVES = r"""
#include <fcntl.h>
#include <plumb/tracepoint.h>
#include <unistd.h>
PLUMB_EVENT(outlives, step)
int main(int count, char** arguments) {
    while (count == 2 && plumb_enabled(outlives, step)) {
        plumb_trace(outlives, step);
        usleep(500);
    }
    _exit(write(open(arguments[1], O_WRONLY | O_CREAT, 0600), "off", 3) != 3);
}
"""


class Record(RecordedProgramTest):
    # locker THREADS LOCKS [STATUS | wait | forever]: each thread locks and unlocks its own mutex.
    PROGRAM = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static volatile sig_atomic_t asked;
static long locks;
static void on_signal(int number) { asked = number; }
static void* run(void* unused) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    for (long i = 0; i < locks; i++) { pthread_mutex_lock(&mutex); pthread_mutex_unlock(&mutex); }
    return unused;
}
int main(int argc, char** argv) {
    pthread_t threads[64];
    int count = atoi(argv[1]);
    const char* then = argc > 3 ? argv[3] : "0";
    struct sigaction action = {0};
    action.sa_handler = on_signal;
    locks = atol(argv[2]);
    if (!strcmp(then, "wait")) { sigaction(SIGTERM, &action, 0); sigaction(SIGINT, &action, 0); }
    do {
        for (int i = 0; i < count; i++) pthread_create(&threads[i], 0, run, 0);
        for (int i = 0; i < count; i++) pthread_join(threads[i], 0);
        if (!strcmp(then, "forever")) usleep(1000);
    } while (!strcmp(then, "forever"));
    printf("locked\n");
    fflush(stdout);
    while (!strcmp(then, "wait") && !asked) usleep(1000);
    return asked ? 40 + asked : atoi(then);
}
"""

    def test_every_event_arrives_and_the_status_is_passed_on(self):
        self.assertEqual(self.record("--preload", "pthread", "--subbuf-count", 32, "--", self.program, 4, 5000, 7), 7)
        counts, discarded, complaints = read_back(self.trace)
        summary = self.summary()
        self.assertEqual(self.output, "locked\n")
        self.assertEqual(complaints, "")
        self.assertEqual(discarded, summary["events_lost"])
        self.assertEqual(summary["events_by_name"],
                         {name: count for name, count in counts.items() if not name.startswith("plumb_statedump:")})
        self.assertEqual(summary["events_lost"], 0)
        self.assertEqual(counts["pthread:mutex_acquired"], counts["pthread:mutex_released"])
        self.assertGreaterEqual(counts["pthread:mutex_acquired"], 20000)
        self.assertEqual(summary["exit_status"], 7)
        self.assertEqual([p["name"] for p in summary["processes"]], ["locker"])
        self.assertIn("Nothing was lost.", self.errors)

    def test_read_and_discarded_events_add_up_when_rings_are_too_small(self):
        self.assertEqual(self.record("-e", "pthread:mutex_acquired", "-e", "pthread:mutex_released", "--preload",
                                     "pthread", "-e", "!pthread:[!m]*", "-e", "!pthread:mutex_[iwtd]*",
                                     "--subbuf-size", "4K", "--subbuf-count", 2, "--", self.program, 4, 100000), 0)
        counts, discarded, complaints = read_back(self.trace)
        summary = self.summary()
        self.assertEqual(complaints, "")
        self.assertGreater(discarded, 0)
        self.assertEqual(discarded, summary["events_lost"])
        self.assertEqual(sum(summary["events_lost_by_cause"].values()), discarded)
        recorded = sum(summary["events_by_name"].values())
        self.assertEqual(set(summary["events_by_name"]), {"pthread:mutex_acquired", "pthread:mutex_released"})
        # 800,000 by the program's own threads; libc's own locks are not seen by the probe.
        self.assertEqual(recorded + discarded, 800000)

    def test_patterns_select_and_exclude(self):
        self.assertEqual(self.record("--preload", "pthread", "-e", "!pthread:mutex_released", "--", self.program, 1, 10), 0)
        names = set(self.summary()["events_by_name"])
        self.assertIn("pthread:mutex_acquired", names)
        self.assertNotIn("pthread:mutex_released", names)

    def test_children_are_traced(self):
        self.assertEqual(self.record("--preload", "pthread", "sh", "-c", f"{self.program} 1 10 & {self.program} 1 10; wait"), 0)
        lockers = [p for p in self.summary()["processes"] if p["name"] == "locker"]
        self.assertEqual(len(lockers), 2)
        self.assertEqual(self.summary()["events_by_name"]["pthread:mutex_acquired"], 20)

    def test_all_modes_and_clocks_leave_a_trace(self):
        for options in (["--mode", "overwrite"], ["--mode", "block"], ["--clock", "mono"], ["--clock", "boot"],
                        ["--clock", "real"]):
            with self.subTest(options):
                self.assertEqual(self.record(*options, "--force", "--preload", "pthread", "--", self.program, 2, 1000), 0)
                counts, _, complaints = read_back(self.trace)
                self.assertEqual(complaints, "")
                self.assertEqual(counts["pthread:mutex_acquired"], 2000, self.errors)

    def test_blocking_loses_nothing_in_small_rings(self):
        self.assertEqual(self.record("--mode", "block", "--block-timeout", "30s", "--subbuf-size", "4K",
                                     "--subbuf-count", 2, "--preload", "pthread", "--", self.program, 2, 20000), 0)
        self.assertEqual(self.summary()["events_lost"], 0)
        self.assertEqual(self.summary()["events_by_name"]["pthread:mutex_acquired"], 40000)

    def test_signals_are_passed_on(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                recorder = self.start("--force", "--preload", "pthread", "--", self.program, 1, 10, "wait")
                self.assertEqual(recorder.stdout.readline(), "locked\n")
                recorder.send_signal(number)
                recorder.communicate(timeout=30)
                self.assertEqual(recorder.returncode, 40 + number)
                self.assertEqual(self.summary()["events_by_name"]["pthread:mutex_acquired"], 10)

    def test_whatever_ends_a_process_ends_the_recording_well(self):
        for number in (signal.SIGABRT, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGXCPU, signal.SIGPWR,
                       signal.SIGSTKFLT, signal.SIGRTMIN, signal.SIGRTMAX):
            with self.subTest(number):
                recorder = self.start("--force", "--preload", "pthread", "--", self.program, 1, 10, "wait")
                self.assertEqual(recorder.stdout.readline(), "locked\n")
                recorder.send_signal(number)
                _, errors = recorder.communicate(timeout=30)
                self.assertEqual(recorder.returncode, -number)
                self.assertIn("Recorded", errors)
                self.assertEqual(self.summary()["events_by_name"]["pthread:mutex_acquired"], 10)

    def test_a_limit_of_the_recorders_own_ends_the_recording_alone(self):
        # A timer outlives exec().
        script = f"import os, signal; signal.setitimer(signal.ITIMER_REAL, 2); os.execv({str(PLUMB)!r}, " \
                 f"['plumb', 'record', '-o', {str(self.trace)!r}, '--', 'sh', '-c', 'exec sleep 20 2>&- >&-'])"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 124, done.stderr)
        self.assertIn("sh runs on", done.stderr)
        self.assertIn("Recorded", done.stderr)

    def test_a_limit_of_processor_time_that_would_kill_ends_the_recording_alone(self):
        # The command gets the limit as it was; it takes no time of its own, but its children do.
        for seconds in (1, 2):
            shutil.rmtree(self.trace, ignore_errors=True)
            script = f"ulimit -t {seconds}; exec {PLUMB} record --mode block --preload pthread -o {self.trace} -- sh -c " \
                     f"'ulimit -St; exec 2>&- >&-; while :; do {self.program} 4 300000; done'"
            recorder = subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        start_new_session=True)
            try:
                limit, errors = recorder.communicate(timeout=100)
                self.assertEqual(recorder.returncode, 124, errors)
                self.assertEqual(limit, f"{seconds}\n")
                self.assertIn("sh runs on", errors)
                self.assertIn("Recorded", errors)
            finally:
                os.killpg(recorder.pid, signal.SIGKILL)

    def test_small_stacks_are_refused_and_threads_have_their_own(self):
        for kib in (40, 48, 64, 128):  # of much less, not even the dynamic linker is sure
            shutil.rmtree(self.trace, ignore_errors=True)
            done = subprocess.run(["bash", "-c", f"ulimit -c 0; ulimit -s {kib}; exec {PLUMB} record -o {self.trace} -- timeout 9 true"],
                                  capture_output=True, text=True, timeout=60)
            with self.subTest(kib=kib):
                self.assertEqual(done.returncode, 1 if kib < 48 else 0, done.stderr)
                self.assertIn("and plumb needs 49152" if kib < 48 else "Recorded", done.stderr)

    def test_kill_reaches_a_recorder_in_the_background_of_a_script(self):
        # Whom the shell started with & ignores SIGINT; the program's "wait" takes it again.
        script = (f"{PLUMB} record -o {self.trace} --preload pthread -- {self.program} 1 10 wait > {self.directory}/said & "
                  f"until grep -q locked {self.directory}/said; do sleep 0.1; done; kill -INT $!; wait $!")
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 40 + signal.SIGINT, done.stderr)
        self.assertIn("Recorded", done.stderr)

    def test_ctrl_c_reaches_command_and_recorder_and_keeps_the_trace(self):
        recorder = self.start("--preload", "pthread", "--", self.program, 1, 10, "forever", start_new_session=True)
        time.sleep(1)
        os.killpg(recorder.pid, signal.SIGINT)
        _, errors = recorder.communicate(timeout=30)
        self.assertEqual(recorder.returncode, -signal.SIGINT)
        self.assertIn("Recorded", errors)
        self.assertEqual(read_back(self.trace)[2], "")

    def test_death_by_signal_is_passed_on(self):
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE, signal.SIGRTMIN):
            with self.subTest(number):
                self.assertEqual(self.record("--force", "--", "sh", "-c", f"kill -{int(number)} $$"), -number)
                self.assertEqual(self.summary()["exit_status"], 128 + number)
                self.assertEqual(list(self.directory.glob("*core*")), [])

    def test_a_command_that_cannot_run_leaves_nothing(self):
        self.assertEqual(self.record("--", "/no/such/command"), 127)
        self.assertIn("Could not run /no/such/command", self.errors)
        self.assertFalse(self.trace.exists())
        self.assertEqual(self.record("--", "/etc/passwd"), 126)

    def test_the_commands_own_options_are_not_ours(self):
        self.assertEqual(self.record("-q", "timeout", "9", "echo", "-e", "--force", "--", "-p"), 0)
        self.assertEqual(self.output, "--force -- -p\n")
        shutil.rmtree(self.trace)
        self.assertEqual(self.record("-q", "--", "timeout", "9", "echo", "--", "-p"), 0)
        self.assertEqual(self.output, "-- -p\n")
        self.assertEqual(self.errors, "")

    def test_what_makes_no_sense_is_refused_before_anything_starts(self):
        self.assertEqual(self.record("--", "timeout", "9", "true"), 0)
        before = (self.trace / "ust" / "metadata").read_bytes()
        for options, said in (
                (["-e", ""], "pattern is empty"),
                (["-e", ":x"], "it has no provider"),
                (["-e", "shop:"], "it has no event"),
                (["-e", "shop:["], "has no end"),
                (["-e", "!shop:[a"], "has no end"),
                (["-e", " shop:order"], "it has a space"),
                (["-e", "shop:{a,b}"], "it has a '{'"),
                (["-e", "!!shop:order"], "it has a '!'"),
                (["--duration", ""], "is not a time"),
                (["--duration", "-1s"], "is not a time"),
                (["--duration", "0ms"], "no time"),
                (["--subbuf-size", "3X"], "is not a size"),
                (["--subbuf-size", "0"], "a sub-buffer holds something"),
                (["--subbuf-count", "0"], "at least 2"),
                (["--snapshot", "--mode", "block"], "--snapshot keeps the newest events, and --mode block"),
                (["--snapshot", "--mode", "discard"], "--snapshot keeps the newest events, and --mode discard"),
                (["--block-timeout", "1s"], "--block-timeout means nothing without --mode block"),
                (["--kernel-pages", "pages"], "--kernel-pages means nothing without -k"),
                (["--kernel-buffer-size", "1M"], "--kernel-buffer-size means nothing without -k"),
                (["-k", "sched:*", "--kernel-buffer-size", "0"], "a buffer holds something"),
                (["-k", "sched:*", "--kernel-pages", self.trace / "pages"], "are no part of the trace"),
                (["--system-wide"], "--system-wide means nothing without -k"),
                (["--no-file-names"], "--no-file-names means nothing without -k"),
                (["--statedump-files"], "--statedump-files means nothing without -k"),
                (["--snapshot", "--user", "0"], "--snapshot keeps events of one user alone, and --user")):
            with self.subTest(options=options):
                self.assertEqual(self.record("--force", *options, "--", "touch", self.directory / "ran"), 2)
                self.assertIn(said, self.errors)
        self.assertFalse((self.directory / "ran").exists())
        self.assertEqual((self.trace / "ust" / "metadata").read_bytes(), before)

    def test_a_misspelt_option_is_no_command(self):
        self.assertEqual(self.record("--duraton", "5s", "--", "touch", self.directory / "ran"), 2)
        self.assertIn("--duraton", self.errors)
        self.assertFalse((self.directory / "ran").exists())

    def test_a_duration_is_that_of_recording(self):
        shortest = 1000
        for _ in range(3):  # the machine may be busy
            self.assertEqual(self.record("--force", "--duration", "1s", "--json"), 0, self.errors)
            shortest = min(shortest, json.loads(self.output)["duration_ns"] / 1e9)
            self.assertGreaterEqual(shortest, 1)
            if shortest < 2:
                return
        self.fail(f"{shortest} s")

    def test_attaching_to_a_running_program(self):
        program = subprocess.Popen([self.program, "2", "100", "forever"], env=dict(os.environ, LD_PRELOAD=str(PROBE)))
        try:
            time.sleep(0.5)
            self.assertEqual(self.record("-p", program.pid, "--duration", "1s", "--json"), 0)
            summary = json.loads(self.output)
            self.assertGreater(summary["events_by_name"]["pthread:mutex_acquired"], 100)
            self.assertEqual([p["pid"] for p in summary["processes"]], [program.pid])
            self.assertEqual(read_back(self.trace)[2], "")
            self.assertIsNone(program.poll())
        finally:
            program.kill()
            program.wait()

    def test_a_process_without_tracepoints_is_named(self):
        program = subprocess.Popen(["sleep", "100"])
        try:
            self.assertEqual(self.record("-p", program.pid), 1)
            self.assertIn(f"process {program.pid} could not be reached: it has no tracepoints", self.errors)
        finally:
            program.kill()
            program.wait()

    def test_a_thread_is_named_as_one(self):
        script = "import threading, time; threading.Thread(target=time.sleep, args=(100,), daemon=True).start(); time.sleep(100)"
        program = subprocess.Popen([sys.executable, "-c", script])
        try:
            threads = []
            while len(threads) < 2:
                threads = [int(each.name) for each in pathlib.Path(f"/proc/{program.pid}/task").iterdir()]
            self.assertEqual(self.record("-p", max(threads)), 1)
            self.assertIn(f"could not be reached: it is a thread of process {program.pid}", self.errors)
        finally:
            program.kill()
            program.wait()

    def test_it_ends_with_the_last_of_those_that_it_records(self):
        other = subprocess.Popen(["sleep", "100"])
        program = subprocess.Popen([self.program, "2", "100", "forever"], env=dict(os.environ, LD_PRELOAD=str(PROBE)))
        try:
            time.sleep(0.5)
            recorder = self.start("-p", other.pid, "-p", program.pid)
            time.sleep(2)
            self.assertIsNone(recorder.poll())
            program.kill()
            program.wait()
            _, errors = recorder.communicate(timeout=20)
            self.assertIn(f"process {other.pid} could not be reached: it has no tracepoints", errors)
        finally:
            other.kill()
            other.wait()

    def test_the_recording_ends_with_the_time_and_so_does_the_command(self):
        began = time.monotonic()
        self.assertEqual(self.record("--duration", "500ms", "--", "sleep", 100), 0)
        self.assertLess(time.monotonic() - began, 20)

    def test_a_command_that_is_stopped_ends_with_the_time(self):
        self.assertEqual(self.record("--duration", "500ms", "--", "sh", "-c", "kill -STOP $$; sleep 100"), 0)
        self.assertNotIn("runs on", self.errors)

    def test_what_outlives_the_command_is_named(self):
        pid_file = self.directory / "pid"
        try:
            self.assertEqual(self.record("--preload", "pthread", "--", "sh", "-c",
                                         f"{self.program} 1 10 forever >/dev/null 2>&1 & echo $! > {pid_file}; sleep 0.5"), 0)
            pid = int(pid_file.read_text())
            self.assertIn(pid, [p["pid"] for p in self.summary()["left_running"]])
        finally:
            os.kill(int(pid_file.read_text()), signal.SIGKILL)

    def test_what_outlives_the_command_and_has_traced_nothing_is_named(self):
        pid_file = self.directory / "pid"
        child = f"echo $$ > {pid_file}; sleep 0.5; exec {self.program} 1 10 forever"
        try:
            self.assertEqual(self.record("--preload", "pthread", "--", "sh", "-c",
                                         f"sh -c '{child}' >/dev/null 2>&1 & while ! [ -s {pid_file} ]; do sleep 0.01; done"), 0)
            pid = int(pid_file.read_text())
            self.assertIn(pid, [p["pid"] for p in self.summary()["left_running"]])
            self.assertIn(f"({pid}) still runs; it is not traced any more.", self.errors)
        finally:
            os.kill(int(pid_file.read_text()), signal.SIGKILL)

    def test_what_outlives_the_command_for_a_moment_is_named(self):
        """It ends when it is told that the recording does, while the recorder closes the trace."""
        pid_file, told = self.directory / "pid", self.directory / "told"
        program = compile_traced(OUTLIVES, self.directory / "outlives")
        self.assertEqual(self.record("-k", "sched:sched_process_exit", "--", "sh", "-c",
                                     f"{program} {told} & echo $! > {pid_file}; sleep 0.3"), 0)
        self.assertEqual(told.read_text(), "off")
        pid = int(pid_file.read_text())
        self.assertIn((pid, "outlives"), [(p["pid"], p["name"]) for p in self.summary()["ended_since"]])
        self.assertNotIn(pid, [p["pid"] for p in self.summary()["left_running"]])
        self.assertIn(f"outlives ({pid}) ran on when the recording ended, and has ended since", self.errors)

    def test_who_has_the_number_of_one_that_ended_is_not_called_a_traced_one(self):
        container = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if subprocess.run([*container, "sh", "-c", "echo 5000 > /proc/sys/kernel/ns_last_pid"], check=False,
                          capture_output=True).returncode != 0:
            self.skipTest("numbers of processes can not be chosen")
        pids = self.directory / "pids"
        script = (f"LD_PRELOAD=$0 {self.program} 1 10 >/dev/null & traced=$!; wait; sleep 0.1;"
                  "echo $((traced - 1)) > /proc/sys/kernel/ns_last_pid;"
                  f"env -i sleep 20 & echo $traced $! > {pids}")
        subprocess.run([*container, PLUMB, "record", "-o", self.trace, "--preload", "pthread", "--", "sh", "-c",
                        'exec env -u LD_PRELOAD sh -c "$0" "$LD_PRELOAD"', script],
                       check=True, capture_output=True, text=True)
        traced, stranger = pids.read_text().split()
        self.assertEqual(traced, stranger)
        self.assertIn(int(traced), [p["pid"] for p in self.summary()["processes"]])
        self.assertEqual(self.summary()["left_running"], [])

    def test_a_file_limit_costs_events_but_not_the_trace(self):
        limit = 8 << 20  # more than the channel, less than the trace

        def limited():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        status = self.record("--subbuf-size", "64K", "--subbuf-count", 4, "--mode", "block", "--block-timeout", "30s",
                             "--preload", "pthread", "--", self.program, 1, 400000, preexec_fn=limited)
        self.assertEqual(status, 1, "the command ended with 0, but its trace is not complete")
        summary = self.summary()
        self.assertFalse(summary["complete"])
        self.assertGreater(summary["events_lost_by_cause"]["not_written"], 0)
        self.assertIn("File too large", self.errors)
        counts, discarded, complaints = read_back(self.trace)
        acquired = counts["pthread:mutex_acquired"] + counts["pthread:mutex_released"]
        self.assertGreater(acquired, 10000)

    def test_a_killed_recorder_leaves_a_readable_trace(self):
        recorder = self.start("--preload", "pthread", "--", self.program, 2, 100, "forever")
        time.sleep(1.5)
        child = int(pathlib.Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()[0])
        recorder.kill()
        recorder.wait(timeout=30)
        recorder.stdout.close()
        recorder.stderr.close()
        os.kill(child, signal.SIGKILL)
        counts, _, complaints = read_back(self.trace)
        self.assertEqual(complaints, "")
        self.assertGreater(counts["pthread:mutex_acquired"], 100)

    def test_wrong_settings_are_refused_with_the_reason(self):
        for options, status, reason in (
                (["--subbuf-size", "5000"], 2, "power of two"), (["--duration", "soon"], 2, "not a time"),
                (["--preload", "nothing"], 1, "no probe"), (["-p", "4194304"], 1, "no process"),
                (["--user", "4294967295"], 1, "no user")):
            with self.subTest(options):
                command = [] if options[0] == "-p" else ["true"]
                self.assertEqual(self.record(*options, *(["--", *command] if command else [])), status)
                self.assertIn(reason, self.errors)
                self.assertFalse(self.trace.exists())

    def test_too_few_descriptors_are_called_so(self):
        said = []
        for least in range(4, 14):
            done = subprocess.run(["sh", "-c", f'ulimit -n {least}; exec "$@"', "sh", PLUMB, "record", "-q", "-o", self.trace, "timeout", "9",
                                   "true"],
                                  capture_output=True, text=True, timeout=60, check=False)
            said.append(done.stderr)
            shutil.rmtree(self.trace, ignore_errors=True)
        self.assertEqual([text for text in said if text and "Too many open files" not in text], [])
        self.assertTrue(any(said))

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_a_thread_that_can_not_be_started_is_called_so(self):
        self.folder.chmod(0o755)
        self.directory.chmod(0o777)
        copy = shutil.copy(PLUMB, self.directory / "plumb")  # the build may be where nobody else can enter
        done = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "prlimit", "--nproc=1", copy,
                               "record", "-o", self.trace, "--duration", "1s"], capture_output=True, text=True, timeout=60,
                              check=False)
        shutil.rmtree("/dev/shm/plumb-65534", ignore_errors=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Could not start the thread that writes the trace", done.stderr)
        self.assertIn("ulimit -u", done.stderr)


if __name__ == "__main__":
    unittest.main()
