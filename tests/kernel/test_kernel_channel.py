#!/usr/bin/env python3
# cmake-timeout: 600
# cmake-once
# cmake-lock: boot
"""The kernel's events by plumb.ko, into a channel: the same names, fields and numbers as tracefs has them, each system call
between the events that the program made around it, threads by their names, losses counted; in all of that every record whole,
and in the order of time, while timers interrupt system calls and interrupts are interrupted. A recorder that is killed,
users who may not, a channel that is written over and cut to nothing while the kernel writes to it.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_kernel_channel.py 6.1 [TEST...]"""
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

from guest import GuestTests, run_tests
from guest_module import build_beside, complaints, guest_with_module, why_not_built

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
VERSION = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else ""
sys.path.insert(0, str(SOURCE / "tests/support"))
from traced_program import compile_traced  # noqa: E402

CALLS = 5_000
CHILDREN = 50
BY_MODULE = "plumb record -q --kernel-by module"
ACTIVITY = f"""
dd if=/dev/vda of=/dev/null bs=64k count=16 2>/dev/null
i=0
while [ $i -lt {CHILDREN} ]; do busybox true; i=$((i + 1)); done
sleep 0.05
"""
SYSTEMS = "sched irq signal timer task block power exceptions raw_syscalls"
PATTERNS = " ".join(f"-k {system}" for system in SYSTEMS.split())
# Timers of both threads' CPUs go off in the middle of calls, as often as the machine can.
INTERRUPTED = f"{BY_MODULE} -o $RESULTS/trace -a {PATTERNS} --kernel-buffer-size 32M -- crowd_of_timers 4 {4 * CALLS}"
# In threads, tasklets, timers' interrupts, calls from other processors and NMIs at once: with room for all, and without, where the
# recorder stands still for a while.
CONTEXTS = 5
NESTED = {"all": ("pause_us=500", "--kernel-buffer-size 64M", ""),
          "dropped": ("pause_us=2000", "--kernel-buffer-size 128K", "kill -STOP $recorder; sleep 0.4; kill -CONT $recorder; sleep 0.3"),
          "overwritten": ("pause_us=2000", "--kernel-buffer-size 128K --mode overwrite",
                          "kill -STOP $recorder; sleep 0.4; kill -CONT $recorder; sleep 0.3")}
NESTING = f"""
insmod /nesting.ko period_us=200 {{parameters}}
{BY_MODULE} -o $RESULTS/trace -k nesting {{options}} & recorder=$!
until [ -e $RESULTS/trace/kernel/ring_0 ]; do sleep 0.05; done
sleep 0.4
{{then}}
kill -INT $recorder
wait $recorder
status=$?
rmmod plumb_nesting
exit $status
"""
# While the recorder looks who is there, of whom there are many, threads get other names, are made, and are gone.
RENAMER = r"""
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
static void take_name(const char* kind, unsigned number) {
    char name[16];
    snprintf(name, sizeof(name), "%s%u", kind, number);
    prctl(PR_SET_NAME, name);
    getppid();
}
static void* be_short(void* number) {
    getppid();
    take_name("short", *(unsigned*)number);
    return 0;
}
int main(void) {
    for (unsigned number = 0;; number++) {
        pthread_t other;
        take_name("long", number);
        if (pthread_create(&other, 0, be_short, &number) != 0 || pthread_join(other, 0) != 0) return 1;
        usleep(1000);
        getppid();
    }
}
"""
RENAMED = """
i=0
while [ $i -lt 150 ]; do sleep 1000 & sleepers="$sleepers $!"; i=$((i + 1)); done
renamer & renamer=$!
plumb record -q --kernel-by {by} -o $RESULTS/trace -a -k task:task_rename -k task:task_newtask -k syscalls:getppid {options}
status=$?
kill $renamer $sleepers
exit $status
"""
# However slow the machine is: a slow guest makes fewer chunks in a given time.
UNTIL_FIVE_CHUNKS = """--rotate-period 500ms -- sh -c '
i=0
while [ $(ls -d $RESULTS/trace/chunk-* 2>/dev/null | wc -l) -lt 5 ] && [ $i -lt 60 ]; do sleep 1; i=$((i + 1)); done'"""
# It goes while it is recorded, and comes again.
EXAMPLE = f"""
insmod /example.ko
rmmod plumb 2>$RESULTS/refused && exit 1
{BY_MODULE} -o $RESULTS/trace -a -k example -k sched:sched_process_exec -- \\
    sh -c 'busybox true; rmmod plumb_example; busybox true; insmod /example.ko; busybox true' || exit 2
plumb record -q --kernel-by module -o $RESULTS/again -k example --duration 10ms || exit 3
rmmod plumb_example
"""
KILLED = f"""
{BY_MODULE} -o $RESULTS/trace -k raw_syscalls & recorder=$!
until [ -e $RESULTS/trace/kernel/ring_0 ]; do sleep 0.05; done
kill -STOP $recorder
dd if=/dev/zero of=/dev/null bs=1 count=2000 2>/dev/null
rmmod plumb 2>$RESULTS/refused && exit 1
kill -9 $recorder
wait $recorder
sleep 0.3
rmmod plumb 2>$RESULTS/kept && exit 2 # what it had not written lies there
plumb list >$RESULTS/listed
plumb extract -o $RESULTS/extracted >$RESULTS/said || exit 3
unload && insmod /plumb.ko || exit 4
"""
# Who was told of an event by its index asks for that one, and for none that has come in its place.
SWAPPED = """
insmod /example.ko
first=$(event_index example) || exit 1
rmmod plumb_example
insmod /nesting.ko
second=$(event_index nesting) || exit 2
rmmod plumb_nesting
insmod /example.ko
third=$(event_index example) || exit 3
rmmod plumb_example
echo $first $second $third
"""
EVENT_INDEX = r"""
#include <plumb/abi/kernel_events.h>
#include <plumb/abi/module.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char** arguments) {
    struct plumb_descriptor_request opened = {0, -1};
    static struct plumb_kernel_event event;
    if (count != 2 || syscall(PLUMB_SYSCALL, PLUMB_OPERATION_KERNEL_EVENTS, &opened, sizeof(opened)) != 0) return 2;
    for (; ioctl(opened.descriptor, PLUMB_IOCTL(PLUMB_KERNEL_DESCRIBE, sizeof(event)), &event) == 0; event.index++)
        if (strcmp(event.system, arguments[1]) == 0) return printf("%u\\n", event.index) < 0;
    return 1;
}
"""
AGAIN = f"""
dd if=/dev/zero of=/dev/null bs=1 2>/dev/null & busy=$!
i=0
while [ $i -lt 3 ]; do # each takes the kernel seconds beside a busy processor: it changes its own code
    {BY_MODULE} -o $RESULTS/trace$i -k sched -k raw_syscalls --duration 20ms || exit 1
    rm -r $RESULTS/trace$i
    i=$((i + 1))
done
kill $busy
"""
VANDAL = f"""
dd if=/dev/zero of=/dev/null bs=1 2>/dev/null & busy=$!
for seed in 1 2; do
    {BY_MODULE} -o $RESULTS/trace$seed -a {PATTERNS} --duration 20s 2>$RESULTS/said$seed & recorder=$!
    until [ -e $RESULTS/trace$seed/kernel/metadata ]; do sleep 0.05; done
    vandalised=
    for each in /proc/$recorder/map_files/*; do # they lie where no path leads to
        case "$vandalised" in *" $(stat -L -c %i $each) "*) continue ;; esac
        channel_vandal $each $seed 2
        case $? in 0) vandalised="$vandalised $(stat -L -c %i $each) " ;; 6) ;; *) exit 1 ;; esac
    done
    [ "$vandalised" ] || exit 2
    kill -INT $recorder
    wait $recorder
    echo $? >$RESULTS/status$seed
    rm -r $RESULTS/trace$seed
done
kill $busy
"""
REFUSED = """
mkdir -p /etc
echo 'somebody:x:1234:1234::/:/bin/sh' >>/etc/passwd
chmod 1777 /tmp
su -s /bin/sh -c 'plumb record -q --kernel-by module -k sched -o /tmp/none --duration 1s' somebody
echo $?
plumb record -q --kernel-by module -k 'syscalls:no_such_call' -o /tmp/none --duration 1s
echo $?
plumb record -q --kernel-by module -k 'sched:sched_switch if no == 1' -o /tmp/none --duration 1s
echo $?
plumb record -q --kernel-by module -k sched -o /tmp/none --exe /bin/true
echo $?
unload
plumb record -q --kernel-by module -k sched -o /tmp/none --duration 1s
echo $?
insmod /plumb.ko
"""
SMALL = f"{BY_MODULE} --json -o $RESULTS/trace --kernel-buffer-size 128K -k raw_syscalls -a {{mode}} -- " \
        f"sh -c 'kill -STOP $PPID; dd if=/dev/zero of=/dev/null bs=1 count={CALLS} 2>/dev/null; kill -CONT $PPID' >$RESULTS/summary.json"


class KernelChannel(GuestTests):
    @classmethod
    def boot(cls, folder):
        guest, _ = guest_with_module(VERSION)
        for name, source in (("nesting", "tests/kernel/nesting"), ("example", "kmod/example")):
            guest.archive.add(f"/{name}.ko", build_beside(VERSION, folder, SOURCE / source, name).read_bytes(), 0o100644)
        guest.add(BUILD / "cli/plumb", "/bin/plumb")
        guest.add(compile_traced((SOURCE / "tests/kernel/sandwich.c").read_text(), folder / "sandwich"), "/bin/sandwich")
        for program in ("channel_vandal", "crowd_of_timers"):
            subprocess.run(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{SOURCE}/include",
                            SOURCE / f"tests/kernel/{program}.c", "-o", folder / program], check=True)
            guest.add(folder / program, f"/bin/{program}")
        guest.step("load", "insmod /plumb.ko")
        guest.step("by_module", f"{BY_MODULE} -o $RESULTS/trace -a {PATTERNS} -- sh -c '{ACTIVITY}'")
        guest.step("by_tracefs", f"plumb record -q -o $RESULTS/trace -a {PATTERNS} -- sh -c '{ACTIVITY}'")
        guest.step("sandwich", f"{BY_MODULE} -o $RESULTS/trace -a -e 'sandwich:*' -k raw_syscalls -- sandwich {CALLS}")
        guest.step("interrupted", INTERRUPTED)
        for name, (parameters, options, then) in NESTED.items():
            guest.step(f"nested_{name}", NESTING.format(parameters=parameters, options=options, then=then))
        guest.step("dropped", SMALL.format(mode=""))
        guest.step("overwritten", SMALL.format(mode="--mode overwrite"))
        for program, source in (("event_index", EVENT_INDEX), ("renamer", RENAMER)):
            (folder / f"{program}.c").write_text(source)
            subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{SOURCE}/include", folder / f"{program}.c",
                            "-o", folder / program], check=True)
            guest.add(folder / program, f"/bin/{program}")
        for by in ("module", "tracefs"):
            guest.step(f"renamed_by_{by}", RENAMED.format(by=by, options="--duration 1s"))
            guest.step(f"renamed_in_chunks_by_{by}", RENAMED.format(by=by, options=UNTIL_FIVE_CHUNKS))
        guest.step("example", EXAMPLE)
        guest.step("swapped", SWAPPED)
        guest.step("killed", KILLED)
        guest.step("again", AGAIN)
        guest.step("refused", REFUSED)
        guest.step("vandal", VANDAL)
        for name, pattern in (("in_part", "tcp"), ("whole", "tcp:tcp_retransmit*")):
            guest.step(name, f"plumb record --kernel-by module -k '{pattern}' -o $RESULTS/trace --duration 10ms")
        guest.step("unloaded", "unload")
        guest.step("log", "dmesg")
        return guest.boot(folder)

    def summary(self, name):
        return json.loads((self.left_by(name) / "trace/summary.json").read_text())

    def events(self, trace, warning=""):
        """As `plumb view` tells them; babeltrace2 reads as many, without a complaint."""
        done = subprocess.run([BUILD / "cli/plumb", "view", "--json", trace], capture_output=True, text=True, check=True)
        self.assertRegex(done.stderr, warning if warning else r"\A\Z")
        found = [json.loads(line) for line in done.stdout.splitlines()]
        other = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, check=False)
        self.assertEqual((other.returncode, other.stderr if not warning else ""), (0, ""))
        shown = [line for line in other.stdout.splitlines() if "lttng_statedump_" not in line and "plumb_statedump" not in line]
        self.assertEqual(len(found), len([line for line in shown if re.search(r"\) (\S+ )?[\w:]+: ", line)]))
        return found

    def test_names_fields_and_types_are_those_of_tracefs(self):
        layouts = {name: {event["event"]: list(event["fields"]) for event in self.events(self.left_by(name) / "trace")}
                   for name in ("by_module", "by_tracefs")}
        both = set(layouts["by_module"]) & set(layouts["by_tracefs"])
        print(len(both), "kinds of events by both")
        self.assertGreater(len(both), 30)
        self.assertEqual({name: layouts["by_module"][name] for name in both},
                         {name: layouts["by_tracefs"][name] for name in both})

    def test_what_happened_is_what_tracefs_tells(self):
        counts = {}
        for name in ("by_module", "by_tracefs"):
            summary = self.summary(name)
            self.assertEqual((summary["events_lost"], summary["kernel_events_read"]), (0, summary["events"]))
            found, forks = Counter(), 0
            for event in self.events(self.left_by(name) / "trace"):
                kind = event["event"]
                if kind == "sched_process_exec":
                    found["exec", event["fields"]["filename"]] += 1
                if kind == "block_rq_issue":
                    found[kind, event["fields"]["rwbs"], event["fields"]["rwbs_text"]] += 1
                forks += kind == "sched_process_fork"
            counts[name] = found
            self.assertGreaterEqual(forks, CHILDREN)
        print(counts["by_module"])
        self.assertEqual(counts["by_module"], counts["by_tracefs"])

    def test_threads_have_their_names(self):
        names, switched = {}, Counter()
        for event in self.events(self.left_by("by_module") / "trace"):
            if event["event"] == "sched_process_fork":
                self.assertEqual(event["fields"]["child_pid"], event["fields"]["child_tid"]) # no threads here
            if event["event"] == "sched_switch" and event["fields"]["prev_tid"] != 0:
                names[event["fields"]["prev_tid"]] = event["fields"]["prev_comm"]
                switched[event.get("comm", "")] += 1
        print(switched)
        self.assertNotIn("", switched)
        self.assertGreater(switched["busybox"] + switched["sh"], CHILDREN)

    def check_names(self, events):
        names, begun, wrong, right = {}, set(), [], Counter()
        for event in events: # before its first one here
            if event["event"] == "task_rename":
                names.setdefault(event["fields"].get("pid", event["tid"]), event["fields"]["oldcomm"])
        for event in events:
            thread, fields = event["tid"], event["fields"]
            if event["event"] == "task_newtask":
                names[fields["pid"]] = fields["comm"]
                begun.add(fields["pid"])
            if thread in names and event["event"] != "task_rename": # that is shown under the new name
                kind = "begun" if thread in begun else "old"
                right[kind] += names[thread] == event.get("comm")
                if names[thread] != event.get("comm"):
                    wrong.append((names[thread], event.get("comm"), event["event"], thread, event["timestamp_ns"]))
            if event["event"] == "task_rename":
                names[fields.get("pid", thread)] = fields["newcomm"]
        print(right, len(wrong))
        self.assertEqual(wrong[:3], [])
        self.assertGreater(min(right["begun"], right["old"]), 50)

    def test_names_are_those_of_their_time_from_the_first_event_on(self):
        for by in ("module", "tracefs"):
            self.check_names(self.events(self.left_by(f"renamed_by_{by}") / "trace"))

    def test_names_are_those_of_their_time_in_each_chunk_alone(self):
        for by in ("module", "tracefs"):
            chunks = sorted((self.left_by(f"renamed_in_chunks_by_{by}") / "trace").glob("chunk-*"))
            self.assertGreater(len(chunks), 3)
            self.check_names([event for chunk in chunks for event in self.events(chunk)])

    def test_each_call_lies_between_the_events_around_it(self):
        by_thread = defaultdict(list)
        getppid, write = 110, 1  # not those of the runtime's own, at a thread's first event
        for event in self.events(self.left_by("sandwich") / "trace"):
            if event["fields"].get("id", write) in (getppid, write):
                by_thread[event["tid"]].append(event)
        threads = 0
        for happened in by_thread.values():
            kinds = [event["event"] for event in happened]
            if "sandwich:before" not in kinds:
                continue
            threads += 1
            begins = [at for at, kind in enumerate(kinds) if kind == "sandwich:before"]
            self.assertEqual(len(begins), CALLS)
            for at in begins:
                inner = kinds[at:at + 4]
                if inner[1:3] != ["sys_enter", "sys_exit"] or inner[3] != "sandwich:after":
                    self.fail(f"{happened[max(0, at - 3):at + 8]}")
        self.assertEqual(threads, 2)

    def test_records_are_whole_and_in_order_while_interrupts_nest(self):
        """A call's entry and exit follow each other in each thread, whatever came between; and each CPU's switches fit."""
        summary = self.summary("interrupted")
        self.assertEqual((summary["events_lost"], summary.get("subbufs_lost", 0)), (0, 0))
        open_calls, running, kinds, last = {}, {}, Counter(), defaultdict(int)
        for event in self.events(self.left_by("interrupted") / "trace"):
            kind, cpu, tid = event["event"], event["cpu"], event.get("tid", 0)
            kinds[kind] += 1
            self.assertGreaterEqual(event["timestamp_ns"], last[cpu])
            last[cpu] = event["timestamp_ns"]
            if cpu in running:
                self.assertEqual(tid, running[cpu], event)
            if kind == "sys_enter":
                self.assertNotIn(tid, open_calls, event)
                open_calls[tid] = event["fields"]["id"]
            if kind == "sys_exit" and tid in open_calls:
                self.assertIn(event["fields"]["id"], (open_calls.pop(tid), -1), event)  # -1: rt_sigreturn() leaves that
            if kind == "sched_switch":
                running[cpu] = event["fields"]["next_tid"]
        print(kinds.most_common(12))
        self.assertGreater(kinds["timer_hrtimer_expire_entry"], 1000)

    def nested(self, name, warning=""):
        """How many each processor wrote in each context, and how many are missing between its first and its last."""
        counts, missing, last = Counter(), Counter(), {}
        for event in self.events(self.left_by(f"nested_{name}") / "trace", warning):
            fields = event["fields"]
            self.assertEqual((event["event"], fields["cpu"]), ("step", event["cpu"]))
            context, number, writer = fields["context"], fields["number"], (fields["cpu"], fields["context"])
            self.assertEqual(fields["check"] % (1 << 64), (number * CONTEXTS + context) * 0x9e3779b97f4a7c15 % (1 << 64), event)
            self.assertEqual(fields["filling"], chr(ord("a") + context) * (number % 61), event)
            self.assertGreater(number, last.get(writer, -1), event)
            missing[writer] += number - last.get(writer, number - 1) - 1
            last[writer] = number
            counts[writer] += 1
        print(name, dict(counts), "missing:", sum(missing.values()))
        self.assertEqual(len(counts), 2 * CONTEXTS)
        return counts, missing, self.summary(f"nested_{name}")

    def test_writers_that_interrupt_each_other_lose_nothing(self):
        counts, missing, summary = self.nested("all")
        self.assertEqual((summary["events_lost"], sum(missing.values())), (0, 0))
        for processor in range(2):
            for context in range(CONTEXTS):
                self.assertGreater(counts[processor, context], 100)

    def test_writers_that_interrupt_each_other_count_what_finds_no_room(self):
        _, missing, summary = self.nested("dropped", "kernel_dropped")
        self.assertGreater(sum(missing.values()), 0)
        self.assertLessEqual(sum(missing.values()), summary["events_lost"])
        _, missing, summary = self.nested("overwritten", "sub-buffers overwritten")
        self.assertGreater(sum(missing.values()), 0)
        self.assertEqual(summary["events_lost_by_cause"], {})
        self.assertGreater(summary["subbufs_lost"], 0)

    def test_what_finds_a_full_buffer_is_counted(self):
        summary = self.summary("dropped")
        self.assertGreater(summary["events_lost"], 0)
        self.assertEqual(list(summary["losses"]["events"]) if "losses" in summary else [], [])
        self.assertGreaterEqual(summary["events"] + summary["events_lost"], 4 * CALLS)

    def test_in_overwrite_mode_the_newest_stay(self):
        summary = self.summary("overwritten")
        self.assertGreater(summary["subbufs_lost"], 0)
        found = self.events(self.left_by("overwritten") / "trace", "sub-buffers overwritten")
        kills = [event for event in found if event["event"] == "sys_enter" and event["fields"]["id"] == 62]
        self.assertIn(18, [event["fields"]["args"][1] for event in kills]) # SIGCONT, at the end

    def test_another_modules_events_are_recorded_as_long_as_it_is_there(self):
        folder = self.left_by("example")
        self.assertIn("temporarily unavailable", (folder / "refused").read_text())
        own, kernels = [], []
        for event in self.events(folder / "trace"):
            (own if event["event"] == "example_program" else kernels).append(event["fields"]["filename"])
        print(own, len(kernels))
        # The shell and the first busybox; what is loaded then is another one, which nobody has switched on.
        self.assertEqual(own, kernels[:len(own)])
        self.assertEqual((len(own), len(kernels)), (2, 4))

    def test_no_event_takes_the_place_of_one_that_has_gone(self):
        indices = self.passed("swapped").out.split()
        self.assertEqual(len(set(indices)), 3, indices)

    def test_a_killed_recorder_takes_its_events_with_it_and_leaves_what_was_not_read(self):
        folder = self.left_by("killed")
        self.assertIn("Resource temporarily unavailable", (folder / "refused").read_text())
        print((folder / "said").read_text())
        kinds = Counter()
        for trace in folder.glob("extracted*/**/metadata"):
            if trace.parent.name == "kernel":
                kinds.update(event["event"] for event in self.events(trace.parent.parent))
        self.assertGreaterEqual(kinds["sys_enter"], 2 * 2000)

    def test_switched_on_and_off_beside_a_busy_program(self):
        self.left_by("again")

    def test_who_may_not_is_told_and_what_it_has_not(self):
        self.left_by("refused")
        result = self.results["refused"]
        self.assertEqual(result.out.split(), ["1", "1", "1", "2", "1"])
        for said in ("CAP_PERFMON", "syscalls:no_such_call", "has no field no", "--system-wide", "not loaded"):
            self.assertIn(said, result.error)

    def test_it_says_what_is_left_to_tracefs(self):
        self.left_by("in_part")
        self.left_by("whole")
        names = "tcp_destroy_sock, tcp_probe, tcp_rcv_space_adjust, tcp_receive_reset"
        self.assertIn(names, self.results["in_part"].error)
        self.assertNotIn("tracefs", self.results["whole"].error)

    def test_whoever_writes_over_a_channel_harms_the_trace_alone(self):
        folder = self.left_by("vandal")
        print(self.results["vandal"].out, *(file.read_text()[-500:] for file in folder.glob("said*")))
        for seed in (1, 2):
            self.assertNotEqual((folder / f"status{seed}").read_text().strip(), "0") # and it says so

    def test_the_kernel_has_nothing_to_say(self):
        self.left_by("unloaded")
        self.left_by("log")
        self.assertEqual(complaints(self.results["log"].out), [])


if __name__ == "__main__":
    run_tests(why_not_built(VERSION) if VERSION else "")
