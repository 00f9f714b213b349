#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-lock: boot
"""Events that other modules bring along (kmod/plumb_events.h): a module that goes while a recording begins takes its own events away,
and nothing else; what no trace can have is refused; and one that comes wherever
another is recorded keeps none of these away.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_own_events.py 6.1 [TEST...]"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from guest import GuestTests, run_tests
from guest_module import build_beside, complaints, guest_with_module, why_not_built

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
VERSION = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else ""

# The module's events are the last ones: when the first event is on, they have been told of, and are not on yet. There the recorder is
# stopped.
UNLOAD_MEANWHILE = r"""
#include <plumb/abi/kernel_events.h>
#include <plumb/abi/module.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char** arguments) {
    struct plumb_descriptor_request opened = {0, -1};
    static struct plumb_kernel_event first;
    const pid_t recorder = count == 3 ? atoi(arguments[2]) : 0;
    if (recorder <= 0 || syscall(PLUMB_SYSCALL, PLUMB_OPERATION_KERNEL_EVENTS, &opened, sizeof(opened)) != 0) return 2;
    do {
        first.index = 0;
        if (ioctl(opened.descriptor, PLUMB_IOCTL(PLUMB_KERNEL_DESCRIBE, sizeof(first)), &first) != 0) return 3;
    } while (first.recordings == 0);
    kill(recorder, SIGSTOP);
    close(opened.descriptor);
    const long gone = syscall(SYS_delete_module, arguments[1], 0);
    if (gone != 0) perror(arguments[1]);
    kill(recorder, SIGCONT);
    return gone != 0;
}
"""
SYSTEMS = "sched irq signal timer task block power exceptions raw_syscalls net skb tcp example"
GONE = f"""
insmod /example.ko
plumb record -q --kernel-by module -o $RESULTS/trace -a {" ".join(f"-k {system}" for system in SYSTEMS.split())} -- \\
    sh -c 'busybox true; echo ran' & recorder=$!
unload_meanwhile plumb_example $recorder || exit 9
wait $recorder
"""


class OwnEvents(GuestTests):
    @classmethod
    def boot(cls, folder):
        guest, _ = guest_with_module(VERSION)
        for name, source in (("example", "kmod/example"), ("own_events", "tests/kernel/own_events"), ("at_clock", "tests/kernel/at_clock")):
            guest.archive.add(f"/{name}.ko", build_beside(VERSION, folder, SOURCE / source, name).read_bytes(), 0o100644)
        guest.add(BUILD / "cli/plumb", "/bin/plumb")
        (folder / "meanwhile.c").write_text(UNLOAD_MEANWHILE)
        subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/include", folder / "meanwhile.c", "-o", folder / "meanwhile"],
                       check=True)
        guest.add(folder / "meanwhile", "/bin/unload_meanwhile")
        guest.step("load", "insmod /plumb.ko")
        guest.step("gone", GONE)
        guest.step("refused", "insmod /own_events.ko || exit 1; plumb record -q --kernel-by module -o $RESULTS/trace -k 'a_system*' "
                   "--duration 10ms; status=$?; rmmod plumb_own_events; exit $status")
        guest.step("at_clock", "insmod /at_clock.ko || exit 1; plumb record -q --kernel-by module --clock mono -o $RESULTS/trace -k at_clock "
                   "--duration 1s; status=$?; rmmod plumb_at_clock; exit $status")
        guest.step("unload", "unload")
        guest.step("log", "dmesg")
        return guest.boot(folder)

    def events(self, trace, warning=r"\A\Z"):
        done = subprocess.run([BUILD / "cli/plumb", "view", "--json", trace], capture_output=True, text=True, check=True)
        self.assertRegex(done.stderr, warning)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_a_recording_begins_without_what_has_gone_meanwhile(self):
        result = self.passed("gone")
        self.assertEqual(result.out, "ran\n")
        self.assertIn("example:example_program is not recorded", result.error)
        kinds = {event["event"] for event in self.events(result.folder / "trace")}
        self.assertIn("sched_process_exec", kinds)
        self.assertNotIn("example_program", kinds)

    def test_events_that_no_trace_can_have_are_refused(self):
        self.assertEqual([line for line in self.results["log"].out.splitlines() if "plumb_own_events:" in line], [])
        described = (self.passed("refused").folder / "trace/kernel/metadata").read_text(errors="replace")
        for longest in ("an_event_of_63_characters".ljust(63, "_"), "a_name_of_forty_three_characters_no_more___"):
            self.assertRegex(described, rf"{longest}\b")

    def test_an_event_inside_of_what_records_does_not_keep_a_record_away(self):
        trace = self.passed("at_clock").folder / "trace"
        summary = json.loads((trace / "summary.json").read_text())
        numbers = [event["fields"]["number"] for event in self.events(trace, "hits of probes were missed")
                   if event["event"] == "at_clock_outer"]
        hits = int(re.search(r"plumb_at_clock: (\d+) hits for one record", self.results["log"].out)[1])
        print(len(numbers), "records,", hits, "hits in one at the most, of all:", summary["missed"])
        self.assertGreater(len(numbers), 10)
        self.assertEqual(numbers, list(range(numbers[0], numbers[-1] + 1)))
        self.assertEqual(summary["events_lost"], 0)
        self.assertLess(hits, 100)

    def test_the_kernel_has_nothing_to_say(self):
        self.passed("unload")
        self.assertEqual(complaints(self.passed("log").out), [])


if __name__ == "__main__":
    run_tests(why_not_built(VERSION) if VERSION else "")
