#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-lock: boot
"""System calls by plumb.ko: the same as tracefs tells, of the same programs, with the same strings, flags and results; a text whose page is
not in memory when the call begins is told when it returns; all calls at once; calls of 32 bits, and numbers that are no calls.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_kernel_calls.py 6.1 [TEST...]"""
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
ALL = "-k syscalls --kernel-buffer-size 16M"
# Each of a recording, of which a program's texts are not in memory.
FILTERS = {
    "some_texts": {"openat": 'flags == 2 && filename == "/x"', "renameat2": 'newname == "/x"'},
    "no_texts": {"openat": '!(flags != 12345 || filename ~ "/l*")', "renameat2": 'oldname == "/late" && newname == "/x"'},
    "all_texts": {"openat": '(filename == "/x" || flags == 7) && flags == 2', "renameat2": 'newname == "/x" || oldname != "/y"'},
}
# What is another one in each run.
NUMBERS = {("syscall_exit_getppid", "ret"), ("syscall_exit_vfork", "ret"), ("syscall_exit_wait4", "ret"), ("syscall_exit_getpid", "ret"),
           ("syscall_entry_kill", "pid"), ("syscall_entry_wait4", "upid")}


def comparable(event):
    """Without numbers of processes, addresses, lists, and what is behind the longest text that there is room for."""
    name, fields = event
    found = {}
    for field, value in fields.items():
        if (name, field) in NUMBERS or field == "argv" or (isinstance(value, int) and abs(value) >> 44 in (5, 7)):
            value = type(value).__name__ if field != "argv" else "list"
        elif isinstance(value, str):
            value = value[:2500]
        found[field] = value
    return name, found


class KernelCalls(GuestTests):
    @classmethod
    def boot(cls, folder):
        guest, _ = guest_with_module(VERSION)
        guest.add(BUILD / "cli/plumb", "/bin/plumb")
        for program in ("caller", "late_texts"):
            subprocess.run(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", SOURCE / f"tests/kernel/{program}.c", "-o",
                            folder / program], check=True)
            guest.add(folder / program, f"/bin/{program}")
        guest.step("load", "insmod /plumb.ko && mkdir -p /tmp && cp /bin/caller /tmp/texts")
        for name, how in (("by_module", BY_MODULE), ("by_tracefs", "plumb record -q")):
            guest.step(name, f"cd /; {how} -o $RESULTS/trace -a {ALL} -- caller /tmp/texts")
        guest.step("chosen", f"{BY_MODULE} -o $RESULTS/trace -a -k 'syscalls:open*' -k '!syscalls:openat' -k 'syscalls:sys_exit_getppid' -- caller /tmp/texts")
        guest.step("killed", f"""
{BY_MODULE} -o $RESULTS/trace {ALL} & recorder=$!
until [ -s $RESULTS/trace/kernel/ring_0 ] || [ -s $RESULTS/trace/kernel/ring_1 ]; do sleep 0.05; done
kill -STOP $recorder
caller /tmp/texts
kill -9 $recorder
wait $recorder
sleep 0.3
plumb extract -o $RESULTS/extracted >/dev/null || exit 1
""")
        for how in ("exec", "thread", "denied"):
            guest.step(how, f"{BY_MODULE} -o $RESULTS/trace -k syscalls:execve -- late_texts {how} /tmp/{how}")
        for name, filters in FILTERS.items():
            asked = " ".join(f"-k 'syscalls:sys_enter_{call} if {text}'" for call, text in filters.items())
            guest.step(name, f"{BY_MODULE} -o $RESULTS/trace {asked} -- late_texts open /tmp/{name}")
        guest.step("lost", f"""
{BY_MODULE} -o $RESULTS/trace --kernel-buffer-size 64K -k syscalls:sys_enter_openat & recorder=$!
until [ -s $RESULTS/trace/kernel/ring_0 ] || [ -s $RESULTS/trace/kernel/ring_1 ]; do cat /etc/none 2>/dev/null; sleep 0.05; done
late_texts lost /tmp/lost $recorder || exit 1
kill -INT $recorder
wait $recorder
""")
        guest.step("unloaded", "unload")
        guest.step("log", "dmesg")
        return guest.boot(folder, step_seconds=60)

    def viewed(self, trace):
        done = subprocess.run([BUILD / "cli/plumb", "view", "--json", trace], capture_output=True, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def events(self, trace):
        other = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, check=False)
        self.assertEqual((other.returncode, other.stderr), (0, ""))
        return self.viewed(trace)

    def of_program(self, step):
        """[(event, fields)] of the program, from its mark on."""
        found = [(event["event"], event["fields"]) for event in self.events(self.left_by(step) / "trace") if event.get("comm") == "caller"]
        marks = [at for at, (name, _) in enumerate(found) if name == "syscall_entry_getppid"]
        self.assertEqual(len(marks), 2, Counter(name for name, _ in found))
        return found[marks[0]:marks[1]]

    def test_calls_are_those_that_tracefs_tells(self):
        module, tracefs = self.of_program("by_module"), self.of_program("by_tracefs")
        print(Counter(name for name, _ in module).most_common(8))
        for one, other in zip(module, tracefs):
            self.assertEqual(comparable(one), comparable(other))
        self.assertEqual(len(module), len(tracefs))

    def test_strings_are_those_that_were_given(self):
        found = self.of_program("by_module")
        opened = [fields["filename"] for name, fields in found if name == "syscall_entry_openat"]
        self.assertEqual(opened[:3], ["/etc/no\"thing\n\x01", "(null)", "(not read)"])
        self.assertEqual(opened[3], "/" + "x" * (len(opened[3]) - 4) + "...")
        self.assertGreater(len(opened[3]), 2500)
        late = [fields for name, fields in found if name == "syscall_late_text"]
        print(late)
        self.assertEqual(late, [{"call": "openat", "argument": "filename", "text": "/not/yet/there"},
                                {"call": "renameat2", "argument": "oldname", "text": "/not/yet/there"},
                                {"call": "renameat2", "argument": "newname", "text": "/not/yet/there"}])

    def test_a_text_of_a_call_that_succeeded_is_told_of_no_other(self):
        """execve() that succeeds leaves nothing to look at, and the new program's calls have texts of their own."""
        other = "/no/such/program"
        for how, tried in (("exec", [other]), ("thread", [other]), ("denied", [])):
            with self.subTest(how):
                found = self.events(self.left_by(how) / "trace")
                self.assertEqual([event["fields"]["filename"] for event in found if event["event"] == "syscall_entry_execve"][1:],
                                 ["(not read)", *tried])
                self.assertEqual([event["fields"] for event in found if event["event"] == "syscall_late_text"], [])

    def test_what_is_known_of_a_call_decides_where_its_text_can_not(self):
        """A comparison with a text that was not read may be either; the others are what they are."""
        opened = [("openat", {"filename": "(not read)", "flags": 2}), ("late", {"text": "/late"})]
        renamed = [("renameat2", {"oldname": "(not read)", "newname": "/known"}), ("late", {"text": "/late"})]
        for name, wanted in (("some_texts", opened), ("no_texts", []), ("all_texts", [*opened, *renamed])):
            with self.subTest(name):
                found = [(event["event"].split("_")[-1 if "late" not in event["event"] else 1], event["fields"])
                         for event in self.events(self.left_by(name) / "trace") if event.get("comm") == "late_texts"]
                self.assertEqual([(call, {field: fields.get(field) for field in expected}) for (call, fields), (_, expected) in zip(found, wanted)],
                                 wanted)
                self.assertEqual(len(found), len(wanted))

    def test_a_text_whose_entry_was_lost_is_not_told(self):
        """It would stand behind an older one that was not read."""
        trace = self.results["lost"].folder / "trace"
        self.assertGreater(json.loads((trace / "summary.json").read_text())["events_lost"], 1000)
        found = [event for event in self.viewed(trace) if event.get("comm") == "late_texts"]
        names = Counter(event["fields"].get("filename") for event in found)
        self.assertEqual(names["(not read)"], 1)
        self.assertEqual([event["fields"] for event in found if event["event"] == "syscall_late_text"], [])

    def test_what_was_asked_for_is_recorded_and_nothing_else(self):
        kinds = Counter(event["event"] for event in self.events(self.left_by("chosen") / "trace") if event.get("comm") == "caller")
        print(kinds)
        self.assertEqual(set(kinds), {"syscall_entry_open", "syscall_exit_open", "syscall_exit_getppid"})

    def test_a_killed_recorder_leaves_what_was_not_read(self):
        kinds = Counter()
        for trace in self.left_by("killed").glob("extracted*"):
            kinds.update(event["event"] for event in self.events(trace))
        self.assertGreater(kinds["syscall_entry_openat"], 4)

    def test_the_kernel_has_nothing_to_say(self):
        self.left_by("unloaded")
        self.left_by("log")
        self.assertEqual(complaints(self.results["log"].out), [])


if __name__ == "__main__":
    run_tests(why_not_built(VERSION) if VERSION else "")
