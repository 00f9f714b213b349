#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-serial
"""Events of the kernel over tracefs: in true order with those of the program, limited to it, counted as the kernel
counts them; probes, filters and what is said of bad ones; what a killed recorder left is kept, and then nothing of it."""
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
sys.path.insert(0, str(SOURCE / "tests/support"))
from kernel_events import leave_out_without_kernel_events  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

TRACEFS = Path("/sys/kernel/tracing")
HAS_KPROBES = (TRACEFS / "kprobe_events").exists()
CALLS = 100_000  # of each of two threads

PROGRAM = """
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
PLUMB_EVENT(sandwich, before, (u32, call))
PLUMB_EVENT(sandwich, after, (u32, call))
static int null_fd, calls;
__attribute__((noinline)) void probed_function(void) { __asm__ volatile(""); }
static void* run(void* argument) {
    for (int i = 0; i < calls; i++) {
        if (argument != NULL && i % 1000 == 0) { /* this one moves from CPU to CPU */
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(i / 1000 % (int)sysconf(_SC_NPROCESSORS_ONLN), &one);
            sched_setaffinity(0, sizeof(one), &one);
        }
        plumb_trace(sandwich, before, (unsigned)i % 2);
        if (i % 2 == 0) syscall(SYS_getppid);
        else if (syscall(SYS_write, null_fd, "x", 1) != 1) abort();
        plumb_trace(sandwich, after, (unsigned)i % 2);
    }
    return NULL;
}
int main(int count, char** arguments) {
    if (count < 2) return 2;
    null_fd = open("/dev/null", O_WRONLY);
    calls = atoi(arguments[1]);
    probed_function();
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, run, i == 0 ? NULL : &null_fd);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    if (count > 2) sleep((unsigned)atoi(arguments[2]));
    return 0;
}
"""


def instances():
    return {one.name for one in (TRACEFS / "instances").iterdir() if one.name.startswith("plumb_")}


def probes():
    return [line for line in (TRACEFS / "dynamic_events").read_text().splitlines() if ":plumb_" in line]


class Kernel(TracedProgramTest):
    PROGRAM = PROGRAM

    def setUp(self):
        super().setUp()
        self.before = instances()

    def record(self, *arguments, command=(), status=0):
        done = subprocess.run([PLUMB, "record", "-q", "--json", "-o", self.trace, *arguments, "--", *command],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertLessEqual(instances(), self.before)
        return (json.loads(done.stdout) if status == 0 else None), done.stderr

    def read(self):
        """What babeltrace2 reads: [(event, thread id, line)], in time order."""
        done = subprocess.run(["babeltrace2", self.trace], capture_output=True, text=True, timeout=200, check=True)
        self.assertEqual(done.stderr, "")
        event = re.compile(r"(\S+): \{ cpu_id = \d+ \}, \{.*?tid = (\d+) \}")
        found = (event.search(line) for line in done.stdout.splitlines())
        return [(match[1], match[2], match.string) for match in found if match and "statedump" not in match[1]]

    def test_a_system_call_lies_between_the_events_before_and_after_it(self):
        summary, _ = self.record("-k", "syscalls:getppid", "-k", "syscalls:write", command=[self.program, str(CALLS)])
        self.assertEqual(summary["events_lost"], 0)
        self.assertEqual(summary["notes"], {})
        threads = collections.defaultdict(list)
        for name, thread, line in self.read():
            threads[thread].append((name, line))
        whole = 0
        for events in threads.values():
            names = [name for name, _ in events]
            at = names.index("sandwich:before") if "sandwich:before" in names else len(names)
            while at < len(names):
                call = "getppid" if "call = 0" in events[at][1] else "write"
                self.assertEqual(names[at:at + 4], ["sandwich:before", f"syscall_entry_{call}", f"syscall_exit_{call}",
                                                    "sandwich:after"])
                whole += 1
                at += 4
        self.assertEqual(whole, 2 * CALLS)

    def test_each_chunk_has_its_share_of_the_kernels_counts(self):
        summary, _ = self.record("-k", "syscalls:getppid", "--rotate-period", "100ms",
                                 command=["sh", "-c", f"for i in 1 2 3 4 5; do {self.program} 100; sleep 0.1; done"])
        chunks = [json.loads(path.read_text()) for path in self.trace.glob("chunk-*/summary.json")]
        self.assertGreater(len(chunks), 2)
        read = sum(chunk["kernel_events_read"] for chunk in chunks)
        self.assertGreaterEqual(read, sum(count for name, count in summary["events_by_name"].items() if ":" not in name))
        self.assertLessEqual(read, summary["kernel_events_read"])

    def test_names_of_the_moment_in_each_chunk(self):
        """Also right behind a chunk's beginning, when it is yet to be looked who is there."""
        source = self.trace.parent / "renamed.c"
        source.write_text("""
            #include <stdio.h>
            #include <sys/prctl.h>
            #include <sys/syscall.h>
            #include <unistd.h>
            int main(void) {
                for (int i = 0; i < 1000; i++) {
                    char name[16];
                    sprintf(name, "n%d", i);
                    prctl(PR_SET_NAME, name);
                    syscall(SYS_lseek, -1, i, 88);
                    usleep(1000);
                }
            }""")
        program = source.with_suffix("")
        subprocess.run(["cc", source, "-o", program], check=True)
        self.record("-k", "syscalls:lseek", "--rotate-period", "100ms", command=[program])
        chunks = sorted(self.trace.glob("chunk-*"))
        self.assertGreater(len(chunks), 4)
        for traces in ([self.trace], chunks):
            seen = []
            for trace in traces:
                shown = subprocess.run([PLUMB, "view", "--json", "-e", "syscall_entry_lseek", "--where", "whence == 88", trace], capture_output=True,
                                       text=True, check=True)
                seen += [(event["comm"], event["fields"]["offset"]) for event in map(json.loads, shown.stdout.splitlines())]
            self.assertEqual(sorted(seen, key=lambda pair: pair[1]), [(f"n{i}", i) for i in range(1000)])

    def test_a_filter_is_not_missed_where_the_event_is_left_out(self):
        for options in (("syscalls:access if mode == 4", "!syscalls:sys_exit_access"), ("!syscalls:sys_exit_access", "syscalls:access if mode == 4")):
            told = self.record(*(word for option in options for word in ("-k", option)), "--force", command=["true"])[1]
            self.assertNotIn("without the filter", told)
        self.assertIn("without the filter", self.record("-k", "syscalls:access if mode == 4", "--force", command=["true"])[1])

    def test_counts_are_the_kernels_and_only_the_command_is_recorded(self):
        other = subprocess.Popen([sys.executable, "-c", "import os\nwhile True: os.getppid()"])
        try:
            summary, _ = self.record("-k", "syscalls:*", "-k", "sched:*", command=[self.program, "1000"])
        finally:
            other.kill()
            other.wait()
        # Among them those that tell the names of threads, and calls of the recorder's child before it is the command: they are
        # not in the trace themselves.
        of_kernel = sum(count for name, count in summary["events_by_name"].items() if ":" not in name)
        self.assertLessEqual(of_kernel, summary["kernel_events_read"])
        self.assertLess(summary["kernel_events_read"] - of_kernel, 20 + 2 * 60)
        self.assertEqual((summary["notes"], summary["events_lost"]), ({}, 0))
        # The runtime asks once, too.
        self.assertEqual(summary["events_by_name"]["syscall_entry_getppid"], 1001)
        pairs = subprocess.run([PLUMB, "view", "--pairs", self.trace], capture_output=True, text=True, check=True).stdout
        self.assertEqual(len(re.findall(r" getppid: .*\{ \} -> \{ ret = \d+ \} after 0\.0\d+$", pairs, re.M)), 1001)
        self.assertEqual(len(re.findall(r" write: .*count = 1 \} -> \{ ret = 1 \} after", pairs)), 1000)
        self.assertNotRegex(pairs, "syscall_entry_(getppid|write)")
        self.assertRegex(pairs, "syscall_entry_exit_group")
        events = self.read()
        self.assertNotIn(str(other.pid), {thread for name, thread, _ in events if name.startswith("syscall")})
        self.assertEqual(len(events), summary["events"])

    def test_the_first_call_of_a_command_is_the_one_that_starts_it(self):
        """Its process waits and looks through PATH as the recorder's child: none of that is the command's."""
        path = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        os.environ["PATH"] = "/nosuch:/nosuch/either:" + path
        for command in (["true"], ["/bin/sh", "-c", "true"]):
            shutil.rmtree(self.trace, ignore_errors=True)
            self.record("-k", "syscalls:*", command=command)
            calls = [name for name, _, _ in self.read() if name.startswith("syscall")]
            self.assertEqual(calls[:2], ["syscall_entry_execve", "syscall_exit_execve"])
            self.assertEqual(calls.count("syscall_entry_execve"), 1)
            self.assertIn("syscall_entry_exit_group", calls)

    def test_what_a_full_buffer_drops_is_counted(self):
        summary, _ = self.record("-k", "syscalls:*", "--kernel-buffer-size", "64K", command=[self.program, "50000"])
        lost = summary["events_lost_by_cause"].get("kernel_dropped", 0)
        seen = sum(count for name, count in summary["events_by_name"].items() if name.startswith("syscall"))
        self.assertGreaterEqual(lost + seen, 200_000)
        if lost == 0:
            self.skipTest("the buffer was never full")
        done = subprocess.run(["babeltrace2", self.trace], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              check=True)
        told = sum(int(count) for count in re.findall(r"discarded (\d+) event", done.stderr))
        self.assertEqual(told, summary["events_lost"], done.stderr[:2000])

    def test_probes_of_functions_appear_and_are_gone_afterwards(self):
        kernels = ["-k", "kprobe:vfs_write"] if HAS_KPROBES else []
        summary, _ = self.record("-k", f"uprobe:{self.program}:probed_function", *kernels, command=[self.program, "10"])
        self.assertEqual(summary["events_by_name"]["uprobe_probed_function"], 1)
        self.assertEqual(probes(), [])
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(Path(self.program).parent)
        shutil.rmtree(self.trace)
        beside, _ = self.record("-k", f"uprobe:{Path(self.program).name}:probed_function", command=[self.program, "10"])
        self.assertEqual(beside["events_by_name"]["uprobe_probed_function"], 1)
        if HAS_KPROBES:
            self.assertGreaterEqual(summary["events_by_name"]["kprobe_vfs_write"], 5)

    def test_the_statedump_has_the_block_devices(self):
        self.record("-k", "sched:sched_switch", command=["true"])
        lines = [line.split() for line in Path("/proc/partitions").read_text().splitlines()[2:]]
        there = {(int(major) << 20 | int(minor), name) for major, minor, _, name in lines}
        text = subprocess.run(["babeltrace2", self.trace], capture_output=True, text=True, check=True).stdout
        told = {(int(number), name) for number, name in
                re.findall(r'lttng_statedump_block_device: .*\{ dev = (\d+), diskname = "([^"]+)" \}', text)}
        self.assertEqual(told, there)

    def test_filters_are_the_kernels(self):
        summary, _ = self.record("-k", "syscalls:sys_enter_write if count == 1", "-k", "syscalls:sys_exit_write if ret > 1",
                                 command=[self.program, "100"])
        self.assertEqual(summary["events_by_name"].get("syscall_entry_write"), 100)
        self.assertNotIn("syscall_exit_write", summary["events_by_name"])
        self.assertIn(b'plumb_split_calls = "write";', (self.trace / "kernel/metadata").read_bytes())
        self.assertTrue(self.read())
        shutil.rmtree(self.trace)
        _, error = self.record("-k", "sched:sched_switch if prev_nonsense > 3", command=["true"], status=1)
        self.assertIn("sched:sched_switch", error)
        self.assertIn("prev_nonsense", error)
        self.assertFalse((self.trace / "kernel").exists())

    def test_filters_by_texts_are_those_of_the_program_or_refused(self):
        """To the kernel, `filename` is an address of its own: the comparison was never true, and nothing said so."""
        shown = 'syscalls:openat if filename.ustring == "/etc/passwd"'
        summary, said = self.record("-k", shown, command=["sh", "-c", ": < /etc/passwd"])
        self.assertIn(f"{shown}: recorded without the filter", said)
        self.assertLessEqual(summary["events_by_name"].get("syscall_entry_openat", 0), 1)
        shutil.rmtree(self.trace)
        _, error = self.record("-k", 'syscalls:openat if filename == "/etc/passwd"', command=["true"], status=1)
        self.assertIn("filename.ustring compares the program's text", error)

    def test_an_event_that_is_not_there_is_an_error(self):
        for wrong, words in (("sched:nonsense", "no event sched:nonsense"), ("kprobe:no_such_function", "kprobe"),
                             (f"uprobe:{self.program}:nothing", "has no function nothing"), (":", "no event")):
            _, error = self.record("-k", wrong, command=["true"], status=2 if wrong == ":" else 1)
            self.assertIn(words, error)
        self.assertEqual(probes(), [])

    def killed(self, *options):
        """A recorder that was killed, and the program, which has ended since."""
        recorder = subprocess.Popen([PLUMB, "record", "-q", "-o", self.trace, *options, "--", "sh", "-c",
                                     f"{self.program} 1000 & echo $!; wait; exec sleep 60"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(recorder.stdout.close)
        program = recorder.stdout.readline().strip()
        while os.path.exists(f"/proc/{program}"):
            time.sleep(0.05)
        shell = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()
        recorder.kill()
        recorder.wait()
        for child in shell:
            if Path(f"/proc/{child}/comm").read_text().strip() == "sleep":
                os.kill(int(child), signal.SIGKILL)
        self.addCleanup(subprocess.run, [PLUMB, "extract", "--remove"], capture_output=True, check=False)
        return recorder

    def extract(self, *options, under=()):
        rest = self.folder / "rest"
        shutil.rmtree(rest, ignore_errors=True)
        done = subprocess.run([*under, PLUMB, "extract", "-o", rest, *options], capture_output=True, text=True, timeout=60, check=False)
        return done, json.loads((rest / "summary.json").read_text())

    def test_what_a_killed_recorder_left_in_the_kernels_buffers_is_extracted(self):
        self.killed("--snapshot", "-k", "syscalls:getppid", "-k", f"uprobe:{self.program}:probed_function")
        self.assertTrue(instances() - self.before)
        doctor = json.loads(subprocess.run([PLUMB, "doctor", "--json"], capture_output=True, check=False).stdout)
        kept = [check for check in doctor["checks"] if check["name"].startswith("tracefs-")]
        self.assertEqual([(check["name"], check["status"]) for check in kept], [("tracefs-kept", "limited")])
        for command in (["list"], ["record", "-q", "-o", self.folder / "another", "-k", "sched:*", "--", "true"]):
            subprocess.run([PLUMB, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        self.assertIn("and events of the kernel not written",
                      subprocess.run([PLUMB, "list"], capture_output=True, text=True, check=True).stdout)
        done, summary = self.extract()
        self.assertEqual((done.returncode, summary["complete"], summary["notes"]), (0, True, {}), done.stderr)
        counts = summary["events_by_name"]
        self.assertEqual((counts["sandwich:before"], counts["uprobe_probed_function"]), (2000, 1))
        calls = counts["syscall_entry_getppid"]  # the shell's one among them
        self.assertEqual((calls, counts["syscall_exit_getppid"]), (1002, calls))
        self.assertGreaterEqual(summary["kernel_events_read"], 2 * calls + 1)
        self.trace = self.folder / "rest"
        self.assertEqual(sum(name == "syscall_entry_getppid" for name, _, _ in self.read()), calls)
        self.assertLessEqual(instances(), self.before)
        self.assertEqual(probes(), [])

    def test_it_is_extracted_where_no_program_traced(self):
        recorder = subprocess.Popen([PLUMB, "record", "-q", "--snapshot", "-o", self.trace, "-k", "syscalls:sys_enter_write", "--",
                                     "sh", "-c", "echo begun; exec sleep 60"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(recorder.stdout.close)
        self.assertEqual(recorder.stdout.readline(), "begun\n")
        command = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()
        recorder.kill()
        recorder.wait()
        for child in command:
            os.kill(int(child), signal.SIGKILL)
        done, summary = self.extract()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(summary["events_by_name"], {"syscall_entry_write": 1})
        self.assertLessEqual(instances(), self.before)

    def test_events_of_the_kernel_that_are_gone_are_missed(self):
        self.killed("--snapshot", "-k", "syscalls:getppid")
        for name in instances() - self.before:
            (TRACEFS / "instances" / name).rmdir()
        done, summary = self.extract()
        self.assertEqual((done.returncode, summary["complete"]), (1, False))
        self.assertIn("Events of the kernel that the recorder had not written are missing", summary["problems"][0])
        self.assertEqual(summary["events_by_name"], {"sandwich:before": 2000, "sandwich:after": 2000})
        self.assertIn("No recorder has left anything", subprocess.run([PLUMB, "extract"], capture_output=True, text=True,
                                                           check=False).stderr)

    def test_events_of_the_kernel_that_were_not_extracted_stay_for_the_next_try(self):
        self.killed("--snapshot", "-k", "syscalls:getppid")
        kept = instances() - self.before
        done, summary = self.extract(under=["sh", "-c", 'ulimit -n 14; exec "$@"', "sh"])
        self.assertEqual((done.returncode, summary["complete"], instances() - self.before), (1, False, kept), done.stderr)
        self.assertIn("The next `plumb extract` tries it again", summary["problems"][0])
        done, summary = self.extract("--keep")
        self.assertEqual((done.returncode, summary["kernel_events_read"], instances() - self.before), (1, 0, kept), done.stderr)
        self.assertIn("`plumb extract` without --keep", summary["problems"][0])
        done, summary = self.extract()
        self.assertEqual((done.returncode, summary["events_by_name"]["syscall_entry_getppid"]), (0, 1002), done.stderr)
        self.assertLessEqual(instances(), self.before)

    def test_a_killed_recorder_leaves_nothing_behind_when_it_is_removed(self):
        self.killed("-k", f"uprobe:{self.program}:probed_function")
        self.assertTrue(instances() - self.before)
        subprocess.run([PLUMB, "extract", "--remove"], stdout=subprocess.DEVNULL, check=True)
        self.assertLessEqual(instances(), self.before)
        self.assertEqual(probes(), [])

    @staticmethod
    def elsewhere(*command):
        """Runs a command of Plumb's with a /dev/shm of its own."""
        return subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c",
                               'mount -t tmpfs -o mode=1777 tmpfs /dev/shm && exec "$@"', "sh", PLUMB, *command],
                              capture_output=True, timeout=60, check=True)

    def test_what_it_left_is_not_removed_by_who_has_another_dev_shm(self):
        self.killed("--snapshot", "-k", "syscalls:getppid")
        self.elsewhere("list")
        self.elsewhere("record", "-q", "-o", self.folder / "elsewhere", "-k", "sched:sched_switch", "--", "true")
        done, summary = self.extract()
        self.assertEqual((done.returncode, summary["events_by_name"].get("syscall_entry_getppid")), (0, 1002), done.stderr)
        self.assertLessEqual(instances(), self.before)

    def test_what_can_not_be_judged_is_named(self):
        unknown = TRACEFS / "instances" / "plumb_n1_2_3"  # as older versions called theirs, of another namespace
        unknown.mkdir()
        self.addCleanup(unknown.rmdir)
        subprocess.run([PLUMB, "list"], stdout=subprocess.DEVNULL, check=True)
        doctor = json.loads(subprocess.run([PLUMB, "doctor", "--json"], capture_output=True, check=False).stdout)
        (found,) = [check["found"] for check in doctor["checks"] if check["name"] == "tracefs-unknown"]
        self.assertIn(unknown.name, found)

    def test_a_recorder_killed_with_its_container_does_not_trace_for_ever(self):
        container = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                                      'mount -t tmpfs -o mode=1777 tmpfs /dev/shm; "$@"; exit', "sh", PLUMB, "record", "-q", "-o",
                                      self.trace, "-k", "sched:sched_switch", "-k", f"uprobe:{self.program}:probed_function", "--",
                                      "sh", "-c", "echo begun; exec sleep 60"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(container.stdout.close)
        self.assertEqual(container.stdout.readline(), "begun\n")
        subprocess.run([PLUMB, "list"], stdout=subprocess.DEVNULL, check=True)
        self.assertTrue(instances() - self.before)  # its recorder lives
        left = TRACEFS / "instances" / next(name for name in instances() - self.before if not name.endswith("_numbers"))
        self.assertEqual((left / "tracing_on").read_text(), "1\n")
        self.addCleanup(lambda: left.exists() and left.rmdir())
        container.kill()
        container.wait()
        deadline = time.monotonic() + 20
        while (left / "tracing_on").read_text() == "1\n" and time.monotonic() < deadline:
            subprocess.run([PLUMB, "list"], stdout=subprocess.DEVNULL, check=True)
        self.assertEqual((left / "tracing_on").read_text(), "0\n")
        self.assertEqual((left / "events" / left.name / "enable").read_text(), "0\n")
        doctor = json.loads(subprocess.run([PLUMB, "doctor", "--json"], capture_output=True, check=False).stdout)
        names = [check["name"] for check in doctor["checks"] if check["name"].startswith("tracefs-")]
        self.assertEqual(names, ["tracefs-elsewhere"])  # `plumb extract` finds nothing of it here
        os.utime(left, (time.time() - 4000,) * 2)
        subprocess.run([PLUMB, "list"], stdout=subprocess.DEVNULL, check=True)
        self.assertFalse(left.exists())
        self.assertEqual(probes(), [])

    def test_a_process_without_tracepoints_is_recorded(self):
        program = subprocess.Popen(["sh", "-c", "while :; do sleep 0.05; done"])
        try:
            done = subprocess.run([PLUMB, "record", "--json", "-o", self.trace, "-k", "sched:sched_process_fork", "-p",
                                   str(program.pid), "--duration", "1s"], capture_output=True, text=True, timeout=60, check=False)
        finally:
            program.kill()
            program.wait()
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads(done.stdout)
        self.assertGreater(summary["events_by_name"]["sched_process_fork"], 3)
        self.assertLess(summary["duration_ns"], 1_900_000_000)  # without the second in which it might have shown tracepoints

    def test_threads_of_the_kernel_have_the_names_that_its_events_have(self):
        """/proc has longer ones, with what a worker does at the moment."""
        subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "-a", "-k", "sched:sched_switch", "--duration", "500ms"], check=True,
                       timeout=60)
        shown = subprocess.run([PLUMB, "view", "--json", self.trace], capture_output=True, text=True, check=True).stdout
        switches = [event for event in map(json.loads, shown.splitlines()) if event["event"] == "sched_switch"]
        of_kernel = {(event["comm"], event["fields"]["prev_comm"]) for event in switches
                     if event["fields"]["prev_comm"].startswith(("kworker/", "rcu", "ksoftirqd/", "migration/"))}
        self.assertGreater(len(of_kernel), 0)
        self.assertEqual({pair for pair in of_kernel if pair[0] != pair[1]}, set())

    def test_execveat_ends_as_the_kernel_says(self):
        """Which is as execve(): for the kernel every program that begins comes from there."""
        source = Path(self.trace).parent / "execveat.c"
        source.write_text("""
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    char *arguments[] = {"true", 0}, *none[] = {0};
    syscall(SYS_execveat, AT_FDCWD, "/nosuch", arguments, none, 0);
    return (int)syscall(SYS_execveat, AT_FDCWD, "/bin/true", arguments, none, 0);
}
""")
        program = source.with_suffix("")
        subprocess.run(["cc", source, "-o", program], check=True)
        self.record("-k", "syscalls:execve", "-k", "syscalls:execveat", command=[program])
        lines = subprocess.run([PLUMB, "view", "--pairs", self.trace], capture_output=True, text=True, check=True).stdout
        self.assertEqual([re.search(r"\) (\w+):.* ret = (-?\d+)", line).groups() for line in lines.splitlines()],
                         [("execve", "0"), ("execveat", "-2"), ("execveat", "0")])

    def test_without_root_programs_are_recorded_alone(self):
        with tempfile.TemporaryDirectory() as name:
            os.chmod(name, 0o777)
            copy = shutil.copy(PLUMB, self.folder / "plumb")  # the build may be where nobody else can enter
            done = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", copy, "record",
                                   "-o", f"{name}/trace", "-k", "sched:*", "--", self.program, "10"],
                                  capture_output=True, text=True, timeout=60, check=False)
            subprocess.run(["rm", "-rf", "/dev/shm/plumb-65534"], check=True)
        self.assertEqual(done.returncode, 1, done.stderr)  # it is not what was asked for
        self.assertIn("need root", done.stderr)
        self.assertNotIn("remount", done.stderr)  # a group of tracefs could enter, and write nothing
        self.assertIn("sandwich:before", done.stderr)

    def test_list_shows_what_there_is(self):
        done = subprocess.run([PLUMB, "list", "--kernel", "-e", "sched:sched_switch", "-v"], capture_output=True, text=True,
                              check=True)
        self.assertIn("sched:sched_switch", done.stdout)
        self.assertIn("next_tid: i32", done.stdout)

    def test_list_shows_types_as_the_trace_has_them(self):
        done = subprocess.run([PLUMB, "list", "--kernel", "-e", "syscalls:sys_enter_openat", "--json"], capture_output=True,
                              text=True, check=True)
        self.assertIn({"name": "filename", "type": "string"}, json.loads(done.stdout)["events"][0]["fields"])


if __name__ == "__main__":
    leave_out_without_kernel_events(PLUMB)
    unittest.main()
