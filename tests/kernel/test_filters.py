#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-lock: boot
"""`-k 'EVENT if FILTER'` by plumb.ko: of what one program does, each recording has what a viewer finds by the same filter in a recording
of all.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_filters.py 6.1 [TEST...]"""
import json
import os
import subprocess
import sys
from pathlib import Path

from guest import GuestTests, run_tests
from guest_module import complaints, guest_with_module, why_not_built

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
VERSION = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else ""

SEEK, OPEN, SWITCH = "syscalls:sys_enter_lseek", "syscalls:sys_enter_openat", "sched:sched_switch"
PROBE, RETURN, EXIT = "kprobe:ksys_lseek(place=%si:s64, how=%dx:u32)", "kretprobe:ksys_lseek(result=$retval:s64)", "syscalls:sys_exit_lseek"
SHOWN = {SEEK: "syscall_entry_lseek", OPEN: "syscall_entry_openat", SWITCH: "sched_switch", PROBE: "kprobe_ksys_lseek",
         RETURN: "kretprobe_ksys_lseek", EXIT: "syscall_exit_lseek"}
# Each a recording; with other words for the viewer where the kernel's names are not the trace's.
FILTERS = [
    {SEEK: "offset > 100 && whence == 1", OPEN: 'filename ~ "/etc/*"', SWITCH: ("prev_pid == 0", "prev_tid == 0"), PROBE: "place < 0"},
    {SEEK: "offset & 0x10", OPEN: 'filename == "/tmp/shop-1" || flags & 0x40', SWITCH: "prev_state == 0", PROBE: "(place & 0xff) == 7 || how == 3"},
    {SEEK: "!(offset < 0 || offset >= 200)", OPEN: 'filename !~ "/*" && filename != ""', PROBE: ('COMM == "shop-7"', 'comm == "shop-7"')},
    {SEEK: 'comm ~ "shop-1*"', OPEN: "flags == 0x1ff || flags < 5", RETURN: "result == -9"},
    {SEEK: "fd != 4294967290 && fd > 4294967286", OPEN: ("CPU == 1", "cpu == 1"), RETURN: "result != -9"},
    {SEEK: "0x7fffffff < offset", OPEN: "mode == 0600", EXIT: "ret == -9"},
    {EXIT: "(ret & -16) == -16", RETURN: "(result & 0xffffffffffffffff) == 0xfffffffffffffff7", PROBE: "(place & -2) < 0"},
]

# A recording has begun when its first packets are there: of a call that the program makes until it is told to go on.
ATTACHED = """
mkfifo $RESULTS/fifo
filtered_calls $RESULTS/fifo & told=$!
record() {{ name=$1; shift; plumb record -q --kernel-by module --kernel-buffer-size 1M --subbuf-size 64K --subbuf-count 4 -o $RESULTS/$name -k syscalls:sys_enter_getsid "$@" -p $told & recorders="$recorders $!"; }}
{recorders}
begun() {{ for each in $RESULTS/*/kernel; do [ -s $each/ring_0 ] || [ -s $each/ring_1 ] && echo; done | wc -l; }}
until [ $(begun) = {count} ]; do sleep 0.1; done
echo -n a >$RESULTS/fifo
wait $told
status=$?
kill -INT $recorders
wait $recorders
rm $RESULTS/fifo
exit $status
"""
REFUSED = """
refused() {{ plumb record --kernel-by module -o $RESULTS/trace -k "$1" -- true; [ $? != 0 ]; }}
refused '{seek} if no > 3' && refused '{seek} if offset > fd' && refused 'syscalls:*lseek if no > 3'
"""


def words(asked):
    return " ".join(f"-k '{text}'" for text in asked)


class Filters(GuestTests):
    @classmethod
    def boot(cls, folder):
        guest, _ = guest_with_module(VERSION)
        guest.add(BUILD / "cli/plumb", "/bin/plumb")
        subprocess.run(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", SOURCE / "tests/kernel/filtered_calls.c", "-o",
                        folder / "filtered_calls"], check=True)
        guest.add(folder / "filtered_calls", "/bin/filtered_calls")
        guest.step("load", "insmod /plumb.ko")
        recorders = [f"record all {words(SHOWN)}"]
        for i, asked in enumerate(FILTERS):
            recorders.append(f"record some{i} " + words(
                f"{event} if {text if isinstance(text, str) else text[0]}" for event, text in asked.items()))
        recorders.append("record joined " + words([f"{SEEK} if offset == 5", f"{SEEK} if whence == 2 && offset < 3",
                                                   "syscalls:lseek if offset == 7"]))
        guest.step("attached", ATTACHED.format(recorders="\n".join(recorders), count=len(recorders)))
        guest.step("refused", REFUSED.format(seek=SEEK))
        guest.step("unload", "unload")
        guest.step("log", "dmesg")
        return guest.boot(folder, step_seconds=120)

    def events(self, name, *options):
        trace = self.left_by("attached") / name
        summary = json.loads((trace / "summary.json").read_text())
        self.assertEqual(summary["events_lost"], 0)
        done = subprocess.run([BUILD / "cli/plumb", "view", "--json", *options, trace], capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        found = [(event["event"], event.get("comm"), event["cpu"], event["fields"]) for event in map(json.loads, done.stdout.splitlines())]
        for *_, fields in found:
            fields.pop("__probe_ret_ip", None)  # of several probes of a function, all but one are told the kernel's own
        # From the last call before the work on: until then recordings have begun, one behind the other.
        calls = [i for i, each in enumerate(found) if each[0] == "syscall_entry_getsid"]
        return found[calls[-1] + 1:] if calls else found

    def viewed(self, shown, text):
        found = self.events("all", "--where", f'event ~ "*getsid" || (event ~ "*{shown}" && ({text}))')
        self.assertEqual({each[0] for each in found} - {shown}, set())
        return found

    def test_each_has_what_a_viewer_finds(self):
        whole = self.events("all")
        self.assertEqual(sum(event == "syscall_entry_lseek" for event, *_ in whole), 2000)
        for i, asked in enumerate(FILTERS):
            some = self.events(f"some{i}")
            for event, text in asked.items():
                shown = SHOWN[event]
                with self.subTest(recording=i, event=event):
                    found = self.viewed(shown, text if isinstance(text, str) else text[1])
                    self.assertEqual([each for each in some if each[0] == shown], found)
                    if shown not in ("sched_switch", "syscall_entry_openat"):
                        self.assertTrue(0 < len(found) < 2000)

    def test_of_several_any_is_enough(self):
        joined = self.events("joined")
        entries = [each for each in joined if each[0] == "syscall_entry_lseek"]
        wanted = "offset == 5 || (whence == 2 && offset < 3) || offset == 7"
        self.assertEqual(entries, self.viewed("syscall_entry_lseek", wanted))
        exits = [each for each in joined if each[0] == "syscall_exit_lseek"]
        self.assertEqual(len(exits), 2000)
        self.assertGreater(len(entries), 3)

    def test_what_can_not_be_is_refused(self):
        said = self.passed("refused").error
        self.assertIn("has no field no", said)
        self.assertIn("compares a field with a number or a text", said)
        self.assertIn("None of the events that syscalls:*lseek matches has the fields", said)

    def test_the_kernel_says_nothing(self):
        self.passed("unload")
        self.left_by("log")
        self.assertEqual(complaints(self.results["log"].out), [])


if __name__ == "__main__":
    run_tests(why_not_built(VERSION) if VERSION else "")
