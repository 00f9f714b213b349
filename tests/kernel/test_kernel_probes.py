#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-lock: boot
"""Probes of the kernel's functions by plumb.ko: the same hits, with the same arguments, as tracefs tells of them, and as the program
says that it did; of returns, all of a crowd that sleeps in one function; probes in what the writer itself calls, and in an interrupt;
memory that is not there; who may not, and what can not be probed; a recorder that is killed leaves none behind.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_kernel_probes.py 6.1 [TEST...]"""
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from guest import GuestTests, run_tests
from guest_module import complaints, guest_with_module, why_not_built

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
VERSION = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else ""

BY_MODULE = "plumb record -q --kernel-by module"
OPENED = "do_sys_openat2(dfd=%di:s32, name=+0(%si):ustring, who=$comm, flags=+0(%dx):x64)"
PROBES = " ".join(f"-k '{probe}'" for probe in (
    f"kprobe:{OPENED}", "kretprobe:do_sys_openat2(result=$retval:s64)",
    "kprobe:vfs_read(bytes=%dx:u64, low=%dx:u8, place=+0(%cx):s64, argument=$arg3:u32, ops=+0(+40(%di)):x64, minus=\\-5:s16)",
    "kretprobe:vfs_read($retval)", "kprobe:vfs_read+0x0(none=+0(@16):u64, text=+0(@16):string)"))
THREADS = 300
# Each of these is called by whoever writes a record, or reads for a probe.
INNER = " ".join(f"-k 'kprobe:{function}({argument})'" for function, argument in (
    ("copy_from_kernel_nofault", "n=%dx"), ("ktime_get_mono_fast_ns", "$comm"), ("strnlen", "n=%si"), ("irq_work_queue", "%di"),
    ("hrtimer_interrupt", "first=+0(%di):x64"), ("try_to_wake_up", "who=+0(%di):x64")))
NESTED = f"""
{BY_MODULE} --clock mono -o $RESULTS/trace -a -k sched -k timer -k raw_syscalls {INNER} --kernel-buffer-size 64M -- \\
    sh -c 'dd if=/dev/zero of=/dev/null bs=1 count=1000 2>/dev/null; prober 4'
"""
REFUSED = f"""
try() {{ {BY_MODULE} -o /tmp/none --duration 10ms "$@" && echo "was taken: $*"; }}
try -k kprobe:no_such_function
try -k kprobe:do_int3
try -k kprobe:plumb_leave
try -k kprobe:$(awk '$2 == "t" {{ print $3 }}' /proc/kallsyms | sort | uniq -d | head -n 1)
try -k 'kprobe:vfs_read(n=%di:u24)'
try -k 'kprobe:vfs_read if n == 1'
try -k uprobe:/bin/busybox:0x1000
mkdir -p /etc
echo 'somebody:x:1234:1234::/:/bin/sh' >>/etc/passwd
chmod 1777 /tmp
su -s /bin/sh -c '{BY_MODULE} -k kprobe:vfs_read -o /tmp/none --duration 10ms' somebody && echo 'somebody may'
:
"""
KILLED = f"""
mkdir -p /debug && mount -t debugfs none /debug
{BY_MODULE} -o $RESULTS/trace {PROBES} & recorder=$!
until [ -s $RESULTS/trace/kernel/ring_0 ] || [ -s $RESULTS/trace/kernel/ring_1 ]; do prober >/dev/null; sleep 0.1; done
kill -STOP $recorder
prober >/dev/null
grep -c vfs_read /debug/kprobes/list >$RESULTS/before
kill -9 $recorder
wait $recorder
sleep 0.3
grep vfs_read /debug/kprobes/list >$RESULTS/after
plumb extract -o $RESULTS/extracted >/dev/null || exit 1
unload && insmod /plumb.ko
"""
MANY = f"""
patterns=$(awk '$2 == "t" && $3 ~ /^(ext4|vfs|do_sys|tcp|udp|sock)_[a-z_]*$/ && $3 !~ /init|exit/ {{ print $3 }}' /proc/kallsyms |
           sort | uniq -u | head -n 200 | sed 's/^/-k kprobe:/')
echo $patterns | wc -w
time {BY_MODULE} -o $RESULTS/trace $patterns --duration 10ms
"""


class KernelProbes(GuestTests):
    @classmethod
    def boot(cls, folder):
        guest, _ = guest_with_module(VERSION)
        guest.add(BUILD / "cli/plumb", "/bin/plumb")
        subprocess.run(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", SOURCE / "tests/kernel/prober.c",
                        "-o", folder / "prober"], check=True)
        guest.add(folder / "prober", "/bin/prober")
        guest.step("load", "insmod /plumb.ko")
        guest.step("by_module", f"{BY_MODULE} -o $RESULTS/trace -a {PROBES} -- prober")
        guest.step("by_tracefs", f"plumb record -q -o $RESULTS/trace -a {PROBES} -- prober")
        guest.step("returns", f"{BY_MODULE} -o $RESULTS/trace -a -k 'kprobe:hrtimer_nanosleep' "
                   f"-k 'kretprobe:hrtimer_nanosleep($retval:s32)' -- prober {THREADS}")
        guest.step("nested", NESTED)
        guest.step("refused", REFUSED)
        guest.step("killed", KILLED)
        guest.step("many", MANY)
        guest.step("unloaded", "unload")
        guest.step("log", "dmesg")
        return guest.boot(folder, step_seconds=60)

    def events(self, trace):
        done = subprocess.run([BUILD / "cli/plumb", "view", "--json", trace], capture_output=True, text=True, check=True)
        other = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, check=False)
        self.assertEqual((other.returncode, other.stderr), (0, ""))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def of_program(self, step):
        """[(event, fields)] of the program's own thread, in order."""
        found = [event for event in self.events(self.left_by(step) / "trace") if event.get("comm") == "prober"]
        return [(event["event"], event["fields"]) for event in found]

    def test_hits_are_those_that_tracefs_tells(self):
        module, tracefs = self.of_program("by_module"), self.of_program("by_tracefs")
        print(Counter(name for name, _ in module))
        self.assertEqual(len(module), len(tracefs))
        for one, other in zip(module, tracefs):
            self.assertEqual(one, other)

    def test_hits_are_what_the_program_did(self):
        did = [line.split() for line in self.passed("by_module").out.splitlines()]
        found = self.of_program("by_module")
        opened = [fields["name"] for name, fields in found if name == "kprobe_do_sys_openat2"]
        results = [fields["result"] for name, fields in found if name == "kretprobe_do_sys_openat2"]
        wanted = [(what[1], int(what[2])) for what in did if what[0] == "open"]
        at = opened.index(wanted[0][0])  # behind what the program's start opens
        self.assertEqual(list(zip(opened, results))[at:at + len(wanted)], wanted)
        reads = [fields for name, fields in found if name == "kprobe_vfs_read"]
        sizes = [int(what[1]) for what in did if what[0] == "read"]
        of_zero = [fields for fields in reads if fields["bytes"] in sizes][-len(sizes):]
        self.assertEqual([(fields["bytes"], fields["low"], fields["argument"], fields["minus"]) for fields in of_zero],
                         [(size, size % 256, size, -5) for size in sizes])
        unreadable = [fields for name, fields in found if name == "kprobe_vfs_read+0x0"]
        self.assertEqual({(fields["none"], fields["text"]) for fields in unreadable}, {(0, "(fault)")})

    def test_each_of_a_crowd_is_told_when_it_returns(self):
        kinds = Counter(event["event"] for event in self.events(self.left_by("returns") / "trace") if event.get("comm") == "prober")
        print(kinds)
        self.assertEqual((kinds["kprobe_hrtimer_nanosleep"], kinds["kretprobe_hrtimer_nanosleep"]), (THREADS, THREADS))
        self.assertEqual(json.loads((self.left_by("returns") / "trace/summary.json").read_text())["events_lost"], 0)

    def test_probes_in_what_the_writer_calls_are_counted_where_they_are_not_told(self):
        found = self.events(self.left_by("nested") / "trace")
        kinds, last = Counter(), {}
        for event in found:
            kinds[event["event"]] += 1
            self.assertGreaterEqual(event["timestamp_ns"], last.get(event["cpu"], 0), event)
            last[event["cpu"]] = event["timestamp_ns"]
        print(kinds.most_common(12))
        self.assertGreater(kinds["sys_enter"], 2 * 1000)
        self.assertGreater(kinds["kprobe_hrtimer_interrupt"], 10)
        summary = json.loads((self.left_by("nested") / "trace/summary.json").read_text())
        print({name: summary[name] for name in summary if "los" in name or "miss" in name})
        self.assertEqual(summary["events_lost"], 0)
        self.assertIn("hits of probes were missed by the kernel, of whichever process", json.dumps(summary))

    def test_what_can_not_be_probed_is_told(self):
        self.left_by("refused")
        said = self.results["refused"]
        self.assertEqual(said.out, "")
        for text in ("no_such_function: this kernel has no function", "do_int3: the kernel lets nobody probe",
                     "plumb_leave: the kernel lets nobody probe", " functions of that name", "the type u24",
                     "vfs_read has no field n", "not of programs", "CAP_PERFMON"):
            self.assertIn(text, said.error)

    def test_a_killed_recorder_leaves_no_probe(self):
        folder = self.left_by("killed")
        self.assertEqual(((folder / "before").read_text().strip(), (folder / "after").read_text()), ("3", ""))
        kinds = Counter()
        for trace in folder.glob("extracted*"):
            kinds.update(event["event"] for event in self.events(trace))
        self.assertGreater(kinds["kprobe_vfs_read"], 50)

    def test_the_kernel_has_nothing_to_say(self):
        print(self.passed("many").out, self.passed("many").error)
        self.left_by("unloaded")
        self.left_by("log")
        self.assertEqual(complaints(self.results["log"].out), [])


if __name__ == "__main__":
    run_tests(why_not_built(VERSION) if VERSION else "")
