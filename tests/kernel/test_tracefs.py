#!/usr/bin/env python3
# cmake-timeout: 500
# cmake-once
# cmake-lock: boot
"""plumb record -k on stock kernels of Debian: probes, order of events, formats, filters, losses, statedump, and what
killed recorders leave. One boot of a kernel runs all recordings; the tests then read what it brought back.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_tracefs.py 6.1 [TEST...]"""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from guest import Guest, run_tests
from guest_programs import add_programs, why_not_programs

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
VERSION = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else ""
sys.path.insert(0, str(SOURCE / "tests/support"))
import syscall_workloads as workloads  # noqa: E402
from strace_calls import STRACE, VIEW, compare  # noqa: E402
from traced_program import compile_traced  # noqa: E402

STRACE_HERE = shutil.which("strace")
CALLS = 5000  # of each of two threads
SLEEPERS = 100

# The kernel keeps time by the cycle counter then, as it does on real machines.
PARAMETERS = "tsc=reliable clocksource=tsc"
# QEMU's emulated processor does not say that its counter is invariant; it is that of the host, which is.
CLAIM_INVARIANT_COUNTER = """
sed 's/^flags.*/& constant_tsc nonstop_tsc/' /proc/cpuinfo >/tmp/cpuinfo
mount --bind /tmp/cpuinfo /proc/cpuinfo
"""
WHAT_IS_LEFT = """
ls /sys/kernel/tracing/instances >$RESULTS/instances
cat /sys/kernel/tracing/dynamic_events >$RESULTS/dynamic_events
"""


def recording(arguments):
    """A step that records; its status is the recorder's."""
    return f"plumb record -q --json -o $RESULTS/trace {arguments} >$RESULTS/summary.json\nstatus=$?\n" + \
        WHAT_IS_LEFT + "exit $status\n"


SANDWICH = "-k 'syscalls:getppid' -k 'syscalls:write'"
KILLED = """
plumb record -q -o /tmp/trace -k kprobe:vfs_read -k 'sched:*' -- sleep 30 &
recorder=$!
while ! grep -q plumb_ /sys/kernel/tracing/dynamic_events || ! [ -s /tmp/trace/kernel/metadata ]; do sleep 0.1; done
sleep 0.5
kill -9 $recorder
wait
""" + WHAT_IS_LEFT + """
plumb doctor --json >$RESULTS/doctor.json
plumb list >/dev/null
ls /sys/kernel/tracing/instances >$RESULTS/instances_kept
plumb extract --remove >/dev/null
ls /sys/kernel/tracing/instances >$RESULTS/instances_afterwards
cat /sys/kernel/tracing/dynamic_events >$RESULTS/dynamic_events_afterwards
"""
# The buffers are full soon: the recorder, which is the parent, does not read meanwhile.
UNREAD = f"""--kernel-buffer-size 64K -k 'syscalls:*' -- \\
    sh -c 'kill -STOP $PPID; sandwich {CALLS}; kill -CONT $PPID'"""
ACTIVITY = """
dd if=/dev/vda of=/dev/null bs=64k count=16 2>/dev/null
rmmod dummy
insmod /modules/dummy
sandwich 200
"""

# Begins as root's first process there: the machine knows it by another number.
NAMESPACE = f"""
unshare -m -p -f --mount-proc plumb record -q --json -o $RESULTS/trace {SANDWICH} -- sandwich {CALLS} >$RESULTS/summary.json
status=$?
""" + WHAT_IS_LEFT + "exit $status\n"
WRITES = 30
# By a shell that runs already; what is not of its executable is not recorded.
EXECUTABLES = f"""
sandwich 100000000 & other=$!
plumb record -q --json -o $RESULTS/trace --exe busybox -k syscalls:sys_enter_getppid \\
    -k 'syscalls:sys_enter_write if count == 7' >$RESULTS/summary.json & recorder=$!
instance=
until [ -n "$instance" ] && grep -qx $$ $instance/set_event_pid && grep -qx 1 $instance/tracing_on; do
    sleep 0.1
    instance=$(ls -d /sys/kernel/tracing/instances/plumb_r* 2>/dev/null | grep -v _programs)
done
for i in $(seq {WRITES}); do echo sixsix >/dev/null; done
kill -INT $recorder
wait $recorder
status=$?
kill $other
""" + WHAT_IS_LEFT + "exit $status\n"

# What somebody has set for the machine's first buffer, new instances begin with, but for the size of its pages.
OTHERS_OPTIONS = """
set_options() {
    for option in stacktrace userstacktrace block; do echo $1 >/sys/kernel/tracing/options/$option; done
    echo $((1 - $1)) >/sys/kernel/tracing/options/markers
    [ ! -e /sys/kernel/tracing/buffer_subbuf_size_kb ] || echo $2 >/sys/kernel/tracing/buffer_subbuf_size_kb
}
set_options 1 16
trap 'set_options 0 4' EXIT
"""

# A minute of emulation, for what is the same code on both: all of them on one kernel, and on both with PLUMB_THOROUGH=1.
THOROUGH = "6.12"
WORKLOADS = {"compiler": workloads.COMPILER, "build": workloads.BUILD, "git": workloads.GIT, "database": workloads.DATABASE}

STEPS = {
    "probes": "yes >/dev/null &\ntrap 'kill $!' EXIT\n" + recording(
        f"-k kprobe:vfs_write -k kretprobe:vfs_write {SANDWICH} -k uprobe:/bin/sandwich:probed_function "
        f"-k uretprobe:/bin/sandwich:probed_function -- sandwich {CALLS}"),
    "crowd": recording("-k kprobe:hrtimer_nanosleep -k kretprobe:hrtimer_nanosleep -- "
                       f"sh -c 'for i in $(seq {SLEEPERS}); do sleep 2 & done; wait'"),
    "nested": recording("--kernel-buffer-size 64K -k kprobe:vfs_write -k kprobe:arch_irq_work_raise -- "
                        f"sandwich {CALLS}"),
    "system": f"cat >/tmp/activity <<'END'{ACTIVITY}END\n" + recording(
        "-a --statedump-files -k 'sched:*' -k 'syscalls:*' -k 'irq:*' -k 'irq_vectors:*' -k 'timer:*' -k 'block:*' "
        "-k 'module:*' -k 'task:*' -- sh /tmp/activity"),
    "every": recording("-a -k '*:*' --kernel-buffer-size 32M -- sh /tmp/activity"),
    "dropped": recording(UNREAD),
    "overwritten": recording(f"--mode overwrite {UNREAD}"),
    "filtered": recording("-k 'syscalls:sys_enter_write if count == 1' -k 'syscalls:sys_exit_write if ret > 1' "
                          "-k 'kprobe:vfs_write if common_pid == 1' -- sandwich 200"),
    "user_probes": recording(
        "2>$RESULTS/said -k 'usdt:/bin/shop:*' -k 'uprobe:/bin/shop:order(count=%di:s32, name=+0(%si):string)' "
        "-k 'kprobe:vfs_write(count=%dx:u64)' -k 'kretprobe:vfs_write($retval:s64)' "
        "-k 'uretprobe:/bin/shop:worth($retval:s32)' -k 'uprobe:/bin/sandwich:probed_function' -- sh -c 'shop 50 >$RESULTS/printed 2>/dev/null; sandwich 1'"),
    "no_function": recording("-k kprobe:no_such_function -- true"),
    "bad_argument": recording("-k 'kprobe:vfs_write(count=%dx, name=%si:nonsense)' -- true"),
    "bad_filter": recording("-k 'sched:sched_switch if prev_nonsense > 3' -- true"),
    "bad_probe_filter": recording("-k 'kprobe:vfs_write if nonsense > 3' -- true"),
    "killed": KILLED,
    "namespace": NAMESPACE,
    "executables": EXECUTABLES,
    "file_names": recording(
        "-k 'syscalls:*' -- sh -c 'cd /tmp; mv none other 2>&-; cat \"a file\" 2>&-; mkdir new; rmdir new'"),
    "strace": recording(f"""-k 'syscalls:*' --kernel-buffer-size 16M -- {' '.join(STRACE)} -o $RESULTS/log sh -c '
        exec >/dev/null; cd /tmp; date >file; ls -l file nothing 2>&-; cp file other; mv other third; ln -s third link; cat link nothing 2>&-
        chmod 600 file; touch -d 2020-01-01 file; stat file; mkdir folder; rm -r folder link third; sandwich 10; sleep 0.01
        trap : USR1; kill -USR1 $$; true'"""),
    "others_options": OTHERS_OPTIONS + recording(f"{SANDWICH} -- sandwich {CALLS}"),
    "others_in_namespace": OTHERS_OPTIONS + NAMESPACE,
    "monotonic": recording(f"{SANDWICH} -- sandwich {CALLS}"),
    "cycles": CLAIM_INVARIANT_COUNTER + recording(f"{SANDWICH} -- sandwich {CALLS}"),
}


class Tracefs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="plumb-guest-"))
        guest = Guest(VERSION, PARAMETERS, modules=["dummy"])
        guest.add(PLUMB, "/bin/plumb")
        text = (SOURCE / "tests/kernel/sandwich.c").read_text()
        guest.add(compile_traced(text, cls.folder / "sandwich"), "/bin/sandwich")
        subprocess.run(["cc", "-O2", SOURCE / "tests/support/marked_shop.c", "-o", cls.folder / "shop"], check=True)
        guest.add(cls.folder / "shop", "/bin/shop")
        for name, script in STEPS.items():
            guest.step(name, script)
        missing = why_not_programs()
        if missing:
            print(missing)
        else:
            add_programs(guest)
        cls.workloads = {} if missing or not STRACE_HERE else WORKLOADS
        if VERSION != THOROUGH and not os.environ.get("PLUMB_THOROUGH"):
            cls.workloads = {name: cls.workloads[name] for name in cls.workloads if name == "compiler"}
        if STRACE_HERE:
            guest.add(STRACE_HERE, "/bin/strace")
            for name, script in cls.workloads.items():
                guest.archive.add(f"/workloads/{name}", script.encode())
                guest.step(name, f"mkdir /tmp/{name}\ncd /tmp/{name}\n" + recording(
                    f"-k 'syscalls:*' --kernel-buffer-size 16M -- {' '.join(STRACE)} -o $RESULTS/log sh /workloads/{name}"))
        cls.results = guest.boot(cls.folder)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def summary(self, name, missed=()):
        """Of a step that recorded, and left nothing behind. `missed`: what the summary has to say is missing."""
        step = self.results[name]
        self.assertEqual((step.status, step.error), (0, ""), name)
        self.assert_nothing_is_left(step)
        summary = json.loads((step.folder / "summary.json").read_text())
        self.assertEqual(summary["problems"], [])
        lost = summary["events_lost"]  # among them what told strings, perhaps
        self.assertIn(summary["notes"], ({}, {"kernel_lost_with_texts": lost}) if lost else ({},))
        self.assertEqual(list(summary["missed"]), list(missed))
        return summary

    def assert_nothing_is_left(self, step):
        self.assertEqual((step.folder / "instances").read_text(), "")
        self.assertEqual((step.folder / "dynamic_events").read_text(), "")

    def babeltrace(self, name):
        """What babeltrace2 prints of the step's trace, and what it complains of."""
        with tempfile.TemporaryFile("w+", dir=self.folder) as printed:
            done = subprocess.run(["babeltrace2", self.results[name].folder / "trace"], stdout=printed,
                                  stderr=subprocess.PIPE, text=True, check=True)
            printed.seek(0)
            return printed.read().splitlines(), done.stderr

    def read(self, name):
        """[(event, thread id, line)] in time order, as babeltrace2 reads them, without complaint."""
        lines, complaint = self.babeltrace(name)
        self.assertEqual(complaint, "")
        event = re.compile(r"(\S+): \{ cpu_id = \d+ \}, \{.*?tid = (\d+) \}")
        found = (event.search(line) for line in lines)
        return [(match[1], match[2], match.string) for match in found if match and "statedump" not in match[1]]

    def assert_calls_lie_between_their_events(self, name, around_write=("syscall_entry_write", "syscall_exit_write")):
        threads = collections.defaultdict(list)
        for event, thread, line in self.read(name):
            threads[thread].append((event, line))
        calls = collections.Counter()
        for thread, events in threads.items():
            names = [event for event, _ in events]
            at = names.index("sandwich:before") if "sandwich:before" in names else len(names)
            while at < len(names):
                is_write = "call = 1" in events[at][1]
                inner = around_write if is_write else ("syscall_entry_getppid", "syscall_exit_getppid")
                expected = ["sandwich:before", *inner, "sandwich:after"]
                self.assertEqual(names[at:at + len(expected)], expected)
                calls[thread, is_write] += 1
                at += len(expected)
        self.assertEqual(sorted(calls.values()), [CALLS // 2] * 4, calls)

    def test_probes_of_the_kernels_functions_lie_in_their_system_call(self):
        summary = self.summary("probes")
        self.assertEqual(summary["events_lost"], 0)
        self.assert_calls_lie_between_their_events(
            "probes", ("syscall_entry_write", "kprobe_vfs_write", "kretprobe_vfs_write", "syscall_exit_write"))
        fields = {event: line.split(" }, ")[-1] for event, _, line in self.read("probes")}
        self.assertRegex(fields["kprobe_vfs_write"], r"^\{ __probe_ip = 0xFFFFFFFF\w+ \}$")
        self.assertRegex(fields["kretprobe_vfs_write"],
                         r"^\{ __probe_func = 0xFFFFFFFF\w+, __probe_ret_ip = 0xFFFFFFFF\w+ \}$")
        # There is another process that writes all the time: nothing of it.
        self.assertEqual(summary["events_by_name"] | {
            "kprobe_vfs_write": CALLS, "kretprobe_vfs_write": CALLS, "syscall_entry_write": CALLS,
            "uprobe_probed_function": 1, "uretprobe_probed_function": 1}, summary["events_by_name"])

    def test_arguments_of_user_probes_are_what_the_program_printed(self):
        counts = self.summary("user_probes")["events_by_name"]
        self.assertEqual(counts, {"shop:order": 50, "shop:memory": 50, "shop:hard": 50, "shop:twice": 50, "uprobe_order": 50,
                                  "uretprobe_worth": 50, "uprobe_probed_function": 1} |
                         {name: count for name, count in counts.items() if name.startswith(("sandwich:", "k"))})
        printed = collections.defaultdict(list)
        for line in (self.results["user_probes"].folder / "printed").read_text().splitlines():
            name, *values = line.split("|")
            printed[name].append(values)
        recorded = collections.defaultdict(list)
        for name, _, line in self.read("user_probes"):
            recorded[name].append(dict(re.findall(r'(\w+) = (".*?"|[^ ,]+)', line.split(" }, ")[-1])))
        # Files take all that they are given; one process writes at a time.
        self.assertGreater(len(recorded["kprobe_vfs_write"]), 0)
        self.assertEqual([event["count"] for event in recorded["kprobe_vfs_write"]],
                         [event["arg1"] for event in recorded["kretprobe_vfs_write"]])
        for values, event in zip(printed["order"], recorded["shop:order"], strict=True):
            self.assertEqual([event[f"arg{i}"] for i in (1, 3, 4, 5)], [values[i] for i in (0, 2, 3, 4)])
        for values, event in zip(printed["order"], recorded["uprobe_order"], strict=True):
            self.assertEqual([event["count"], event["name"]], [values[0], f'"{values[1]}"'])
        for values, event in zip(printed["hard"], recorded["shop:hard"], strict=True):
            self.assertEqual([event[f"arg{i}"] for i in (*range(1, 11), 13, 14)], values)
        for values, event in zip(printed["memory"], recorded["shop:memory"], strict=True):
            self.assertEqual([float(event[f"arg{i}"]) for i in range(1, 5)], [float(value) for value in values])
        self.assertEqual([[event["arg1"]] for event in recorded["uretprobe_worth"]], printed["worth"])

    def test_a_kretprobe_sees_everybody_return_who_waits_in_the_function(self):
        counts = self.summary("crowd")["events_by_name"]
        self.assertEqual(counts, {"kprobe_hrtimer_nanosleep": SLEEPERS, "kretprobe_hrtimer_nanosleep": SLEEPERS})

    def test_hits_that_the_kernel_misses_are_told(self):
        # The buffer wakes its reader while the probe of vfs_write is handled; the probe of the waking is not hit then.
        summary = self.summary("nested", ["hits of probes were missed by the kernel, of whichever process"])
        self.assertEqual(summary["events_by_name"]["kprobe_vfs_write"], CALLS)

    def test_system_calls_lie_between_the_events_of_the_program_on_either_clock(self):
        for name, clock in (("monotonic", "mono"), ("cycles", "tsc")):
            with self.subTest(name):
                summary = self.summary(name)
                self.assertEqual(summary["clock"]["name"], clock)
                self.assertEqual(summary["events_lost"], 0)
                self.assert_calls_lie_between_their_events(name)

    def test_options_that_others_have_set_for_the_first_buffer_do_not_count(self):
        for name in ("others_options", "others_in_namespace"):
            with self.subTest(name):
                self.assertEqual(self.summary(name)["events_lost"], 0)
                self.assert_calls_lie_between_their_events(name)

    def test_events_of_the_whole_machine_are_those_that_the_kernel_counted(self):
        summary = self.summary("system")
        self.assertEqual(summary["events_lost"], 0)
        counts = summary["events_by_name"]
        of_kernel = sum(count for name, count in counts.items() if ":" not in name)
        self.assertEqual(of_kernel, summary["kernel_events_read"])
        self.assertEqual(len(self.read("system")), summary["events"])
        for name in ("sched_switch", "sched_process_exec", "irq_handler_entry", "irq_softirq_entry",
                     "x86_irq_vectors_local_timer_entry", "timer_start", "block_rq_issue", "module_load",
                     "module_free", "task_newtask", "syscall_entry_finit_module", "syscall_exit_read"):
            self.assertGreater(counts.get(name, 0), 0, name)

    def test_in_a_namespace_events_have_the_numbers_that_are_seen_there(self):
        self.assertEqual(self.summary("namespace")["events_lost"], 0)
        self.assert_calls_lie_between_their_events("namespace")

    def test_by_the_executable_nobody_else_is_recorded(self):
        self.assertEqual(self.summary("executables")["events_by_name"], {"syscall_entry_write": WRITES})

    def test_file_names_stand_at_system_calls(self):
        self.assertEqual(self.summary("file_names")["events_lost"], 0)
        lines = [line for _, _, line in self.read("file_names")]
        texts = [re.findall(r'"([^"]*)"', line.rpartition(" { ")[2]) for line in lines
                 if "syscall_entry_" in line or "syscall_late_text" in line]
        for expected in (["/tmp"], ["none", "other"], ["a file"], ["new"]):
            self.assertTrue(any(found == expected or found[-1:] == expected for found in texts), (expected, texts))
        arguments = re.findall(r'filename = "[^"]*", argv = "(.*)", envp = ', "\n".join(lines))
        self.assertIn(r'[\"sh\", \"-c\", \"cd /tmp; mv none', "\n".join(arguments))
        # What was not read at first was told late, but for what execve() took away.
        late = sum("syscall_late_text" in line and "execve" not in line for line in lines)
        self.assertEqual(sum("(not read)" in line and "execve" not in line for line in lines), late, texts)

    @unittest.skipUnless(STRACE_HERE, "strace is not installed")
    def test_system_calls_are_those_that_strace_tells(self):
        for name in ("strace", *self.workloads):
            with self.subTest(name):
                self.assertEqual(self.summary(name)["events_lost"], 0)
                folder = self.results[name].folder
                view = subprocess.run([PLUMB, "view", "--json", *VIEW, folder / "trace"], capture_output=True, text=True,
                                      check=True)
                with open(folder / "log") as lines:
                    differences, compared = compare(lines, map(json.loads, view.stdout.splitlines()))
                self.assertEqual(differences, [])
                self.assertGreater(compared["strings", "openat"] + compared["strings", "open"], 10, compared)
                self.assertGreater(compared["argv", "execve"], 0, compared)

    def test_names_and_labels_are_read_from_the_formats(self):
        lines = [line for _, _, line in self.read("system")]
        for expected in (r' sched_switch: .* prev_comm = "sandwich", prev_tid = \d+',
                         r' sched_process_exec: .* filename = "/bin/sandwich"',
                         r' module_load: .* name = "dummy"', r" irq_softirq_entry: .* vec = \d+ ",
                         r' timer_hrtimer_init: .* clockid = \( "CLOCK_MONOTONIC" : container = 1 \)',
                         r" syscall_entry_write: .* fd = \d+, buf = 0x[0-9A-F]+, count = 1 ",
                         r" block_rq_issue: .* sector = \d+, .*rwbs_text = \"R"):
            self.assertTrue(any(re.search(expected, line) for line in lines), expected)

    def test_every_event_of_the_kernel_can_be_recorded(self):
        self.summary("every")
        lines, complaint = self.babeltrace("every")
        self.assertEqual(re.sub(r".*discarded \d+ event.*\n", "", complaint), "")
        self.assertGreater(len(lines), 1000)

    def test_what_a_full_buffer_loses_is_counted(self):
        for name, cause in (("dropped", "kernel_dropped"), ("overwritten", "kernel_overrun")):
            with self.subTest(name):
                summary = self.summary(name)
                self.assertEqual(list(summary["events_lost_by_cause"]), [cause])
                seen = sum(count for event, count in summary["events_by_name"].items() if event.startswith("syscall"))
                calls = summary["events_lost"] + seen - 2 * 2 * CALLS
                self.assertTrue(100 < calls < 1000, calls)  # what shell and program do besides
                _, complaint = self.babeltrace(name)
                told = sum(int(count) for count in re.findall(r"discarded (\d+) event", complaint))
                self.assertEqual(told, summary["events_lost"])

    def test_filters_are_the_kernels(self):
        counts = self.summary("filtered")["events_by_name"]
        self.assertEqual(counts.get("syscall_entry_write"), 200)
        self.assertNotIn("syscall_exit_write", counts)
        self.assertNotIn("kprobe_vfs_write", counts)

    def test_what_the_kernel_refuses_is_shown(self):
        for name, words in (("no_function", ["kprobe:no_such_function", "/proc/kallsyms"]),
                            ("bad_argument", ["Unknown type is specified", "name=%si:nonsense\n           ^"]),
                            ("bad_filter", ["sched:sched_switch", "prev_nonsense > 3", "^", "Field not found"]),
                            ("bad_probe_filter", ["kprobe_vfs_write", "nonsense > 3", "^", "Field not found"])):
            step = self.results[name]
            self.assertEqual(step.status, 1)
            for word in words:
                self.assertIn(word, step.error)
            self.assert_nothing_is_left(step)
            self.assertFalse((step.folder / "trace/kernel").exists())

    def test_a_killed_recorder_leaves_nothing_behind_when_it_is_removed(self):
        step = self.results["killed"]
        self.assertEqual(step.status, 0, step.error)
        self.assertRegex((step.folder / "instances").read_text(), r"^plumb_r\d+_[0-9a-f]+_[0-9a-f]+_[0-9a-f]{16}\n$")
        self.assertRegex((step.folder / "dynamic_events").read_text(), r"^p:plumb_r\d+_[0-9a-f]+_[0-9a-f]+_[0-9a-f]{16}/kprobe_vfs_read ")
        checks = json.loads((step.folder / "doctor.json").read_text())["checks"]
        left = [(check["status"], check["found"]) for check in checks if check["name"].startswith("tracefs-")]
        self.assertEqual(left, [("limited", "killed recorders left events of the kernel in 1 instance in /sys/kernel/tracing")])
        self.assertEqual((step.folder / "instances_kept").read_text(), (step.folder / "instances").read_text())
        self.assertEqual((step.folder / "instances_afterwards").read_text(), "")
        self.assertEqual((step.folder / "dynamic_events_afterwards").read_text(), "")

    def test_the_statedump_tells_threads_files_interrupts_and_modules(self):
        shown = subprocess.run([PLUMB, "view", "--statedump", self.results["system"].folder / "trace"],
                               capture_output=True, text=True, check=True).stdout
        for expected in (r'lttng_statedump_process_state: .* tid = 1, pid = 1, ppid = 0, name = "init", .*USER_THREAD',
                         r'lttng_statedump_process_state: .* name = "kthreadd", .*KERNEL_THREAD',
                         r'lttng_statedump_file_descriptor: .* filename = "/dev/console"',
                         r'lttng_statedump_interrupt: .* action = "ttyS0"',
                         r'lttng_statedump_module: .* address = 0x[f]{8}[0-9a-f]+, size = \d+, name = "virtio_blk"'):
            self.assertRegex(shown, expected)

    def test_plumb_view_shows_calls_as_pairs(self):
        pairs = subprocess.run([PLUMB, "view", "--pairs", self.results["cycles"].folder / "trace"], capture_output=True,
                               text=True, check=True).stdout
        self.assertEqual(len(re.findall(r" write: .*count = 1 \} -> \{ ret = 1 \} after", pairs)), CALLS)


if __name__ == "__main__":
    run_tests("" if shutil.which("babeltrace2") else "there is no babeltrace2: run tools/setup")
