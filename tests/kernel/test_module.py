#!/usr/bin/env python3
# cmake-timeout: 900
# cmake-once
# cmake-lock: boot
"""plumb.ko on a stock kernel: built without a warning of the compiler's (W=1) or sparse's; what it answers by its system call and
its device, right questions and wrong ones; its clock page against the kernel's own clocks; loaded and unloaded 100 times while
threads ask it, and refused to unload while it is in use. Two hostile users, under the kernel's own checks of its memory.
With PLUMB_THOROUGH set that is for 5 minutes, and under these checks it is loaded, asked and unloaded 100 times, and
records 100 programs that sleep 1,000 times; it takes some 40 minutes then.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_module.py 6.1 [TEST...]"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from guest import KERNELS, GuestTests, run_tests
from guest_module import ADMINISTRATORS, COUNTER, complaints, guest_with_module, why_not_built

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
VERSION = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else ""
PARAMETERS = COUNTER
LOADS = 100
DKMS = shutil.which("dkms", path=ADMINISTRATORS)
CLOCK_LOOKS = 200_000
PROCESSES = 100

IN_USE = """
insmod /plumb.ko || exit 1
module_calls hold /tmp/held & holder=$!
while ! [ -e /tmp/held ]; do sleep 0.05; done
rmmod plumb 2>$RESULTS/refused && exit 2
rm /tmp/held
wait $holder || exit 3
unload
"""
# A call that waits for its argument for ever: the module goes on working.
STUCK = IN_USE.replace("module_calls hold", "module_calls stuck").replace("rm /tmp/held", "module_calls asked || exit 4; rm /tmp/held")
# Empty ones are no channels; of so many it is not looked.
FILES = """
insmod /plumb.ko || exit 1
module_calls files 5000 || exit 2
sleep 0.5
rmmod plumb 2>$RESULTS/refused && exit 3
module_calls no_files 5000 || exit 4
unload
"""
# What is on the kernel's command line is handed to it by modprobe, for plumb-init.
PARAMETERS_OF_INIT = "insmod /plumb.ko rules=$(printf %02000d 7) boot && unload && insmod /plumb.ko rules=-a boot=off && unload"
HAS_TO_HEAR = IN_USE.replace("module_calls hold", "module_calls waiting")
# While everybody sleeps, and is woken in the middle of the second recording, whose command begins when all is on, and behind it.
SLEEPERS = f"""
mkdir /tmp/sleepers
sleepers {PROCESSES} /tmp/sleepers >$RESULTS/said & sleepers=$!
while ! [ -e /tmp/sleepers/ready ]; do sleep 0.05; done
WAKE='touch /tmp/sleepers/wake; while [ -e /tmp/sleepers/wake ]; do sleep 0.05; done'
plumb record -q -o $RESULTS/asleep -e 'sleepers:*' --duration 500ms || exit 1
plumb record -q -o $RESULTS/awake -e 'sleepers:*' --exe sleepers -- sh -c "$WAKE" || exit 2
sh -c "$WAKE"
touch /tmp/sleepers/end
wait $sleepers || exit 3
rm -r /tmp/sleepers
"""
# One recording behind the other, of a program that sleeps all the time.
ASLEEP_AGAIN = """
sleep 1000 | subject nanosleep >$RESULTS/said & subject=$!
until grep -q ready $RESULTS/said; do sleep 0.05; done
for i in 1 2 3 4 5; do
    plumb record -q -o $RESULTS/$i -e 'subject:*' --duration 100ms || exit $i
done
kill -9 $(pidof subject sleep)
"""
# A program that blocks the signal in every thread, and runs.
BLOCKED = """
sleep 1000 | subject block spin >$RESULTS/said & subject=$!
until grep -q ready $RESULTS/said; do sleep 0.05; done
plumb record -q -o $RESULTS/trace -e 'subject:*' --duration 300ms
kill -9 $(pidof subject sleep)
"""
# One whose workers block it and sleep when it is asked, as those of many servers do; another thread has it open. And one where
# nobody has, while all sleep.
MASKED = """
for who in worker everybody; do
    open=; [ $who = everybody ] || open=futex
    sleep 1000 | subject $open block rest >$RESULTS/said & subject=$!
    until grep -q ready $RESULTS/said; do sleep 0.05; done
    plumb record -q -o $RESULTS/$who -e 'subject:*' --duration 4s
    kill -9 $(pidof subject sleep)
    rm $RESULTS/said
done
"""
THOROUGH = bool(os.environ.get("PLUMB_THOROUGH"))
HOSTILE_SECONDS = 300 if THOROUGH else 15
CHECKS = "slub_debug=FZPU page_poison=1 init_on_free=0 init_on_alloc=0"
CHECKS_ARE_ON = """
for check in sanity_checks poison red_zone store_user; do
    [ "$(cat /sys/kernel/slab/kmalloc-64/$check 2>/dev/null)" = 1 ] || { echo "no $check"; exit 1; }
done
grep -q page_poison=1 /proc/cmdline
"""
HOSTILE = f"""
# Of processes that were killed in the middle, the kernel frees a part a while later.
unreclaimable() {{ sleep 2; sed -n 's/SUnreclaim: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo; }}
module_calls hostile 2 7 || exit 1
unload && insmod /plumb.ko || exit 2
unreclaimable >$RESULTS/before
module_calls hostile {HOSTILE_SECONDS} 11 || exit 3
unload && insmod /plumb.ko || exit 4
unreclaimable >$RESULTS/after
unload
"""
THRASH = "insmod /plumb.ko\n" + HOSTILE.replace(f"hostile {HOSTILE_SECONDS}", f"thrash {HOSTILE_SECONDS * 2 // 3}").replace("hostile", "thrash")
AGAIN_AND_AGAIN = """
rm -f /tmp/over
module_calls traffic /tmp/over 4 >$RESULTS/traffic & traffic=$!
loads=0
refused=0
while [ $loads -lt LOADS ]; do
    insmod /plumb.ko || exit 1
    ASKED
    until rmmod plumb 2>/dev/null; do refused=$((refused + 1)); done
    loads=$((loads + 1))
done
touch /tmp/over
wait $traffic || exit 2
echo $refused >$RESULTS/refused
module_calls without
"""


def again_and_again(loads, asked=False):
    return AGAIN_AND_AGAIN.replace("LOADS", str(loads)).replace("ASKED", "module_calls asked || exit 3" if asked else "")


# Each recording switches on and off for all of them, while they sleep. Now and then they are woken, in a recording and behind it.
ROUNDS = 1000
SLEEPERS_AGAIN = f"""
insmod /plumb.ko || exit 1
mkdir /tmp/sleepers
sleepers {PROCESSES} /tmp/sleepers >$RESULTS/said & sleepers=$!
while ! [ -e /tmp/sleepers/ready ]; do sleep 0.05; done
WAKE='touch /tmp/sleepers/wake; while [ -e /tmp/sleepers/wake ]; do sleep 0.05; done'
for round in $(seq {ROUNDS}); do
    if [ $((round % 50)) = 0 ]; then
        plumb record -q --json -o /tmp/trace --force -e 'sleepers:*' --exe sleepers -- sh -c "$WAKE" || exit 2
        sh -c "$WAKE"
    else
        plumb record -q --json -o /tmp/trace --force -e 'sleepers:*' --duration 10ms || exit 3
    fi >>$RESULTS/summaries
done
touch /tmp/sleepers/end
wait $sleepers || exit 4
rm -r /tmp/sleepers
unload
"""


def build_calls(folder):
    calls = folder / "module_calls"
    sources = [SOURCE / "tests/kernel" / f"module_{part}.c" for part in ("calls", "updates", "runtimes", "waits", "stuck", "channel", "probes", "filters", "directories", "hostile")]
    subprocess.run(["gcc", "-std=gnu11", "-O2", "-g0", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{SOURCE}/include",
                    *sources, "-o", calls], check=True)
    return calls


def guest_with_calls(folder, parameters):
    guest, said = guest_with_module(VERSION, parameters)
    guest.add(build_calls(folder), "/bin/module_calls")
    return guest, said


class Module(GuestTests):
    @classmethod
    def boot(cls, folder):
        guest, cls.build_said = guest_with_calls(folder, PARAMETERS)
        guest.add(BUILD / "cli/plumb", "/bin/plumb")
        guest.add(BUILD / "tests/fixtures/sleepers", "/bin/sleepers")
        guest.step("without", "module_calls without")
        guest.step("sleepers_by_signal", SLEEPERS)
        guest.step("asked", "insmod /plumb.ko && module_calls asked")
        guest.step("doctor", "plumb doctor --json >$RESULTS/loaded; unload && plumb doctor --json >$RESULTS/without; "
                   "insmod /plumb.ko")
        guest.step("clock", f"module_calls clock {CLOCK_LOOKS}")
        guest.step("updates", "module_calls updates")
        guest.step("channels", "module_calls channels")
        guest.step("directories", "module_calls directories")
        guest.step("sleepers", SLEEPERS)
        guest.add(BUILD / "tests/fixtures/subject", "/bin/subject")
        guest.step("asleep_again", ASLEEP_AGAIN)
        guest.step("blocked", BLOCKED)
        guest.step("masked", MASKED)
        for program in ("stress_quiescence", "fixtures/stress_writer"):
            guest.add(BUILD / "tests" / program, str(BUILD / "tests" / program))
        guest.step("quiescence", f"{BUILD}/tests/stress_quiescence --gtest_filter=*.holds_a_thousand_times*")
        guest.step("unloaded", "unload && module_calls without")
        guest.step("in_use", IN_USE)
        guest.step("has_to_hear", HAS_TO_HEAR)
        guest.step("parameters", PARAMETERS_OF_INIT)
        guest.step("files", FILES)
        guest.step("again", again_and_again(LOADS))
        guest.step("stuck", STUCK)
        guest.step("log", "dmesg")
        return guest.boot(folder)

    def test_it_is_built_without_a_warning(self):
        said = [line for line in self.build_said.splitlines() if not line.startswith("Skipping BTF")]
        self.assertEqual(said, [])

    def test_without_it_there_is_no_such_call(self):
        self.passed("without")
        self.passed("unloaded")

    def test_questions_are_answered_or_refused_by_both_ways(self):
        self.passed("asked")

    def test_doctor_says_which_ways_are_open(self):
        folder = self.passed("doctor").folder
        found = {name: next(check["found"] for check in json.loads((folder / name).read_text())["checks"]
                            if check["name"] == "kernel-module") for name in ("loaded", "without")}
        self.assertRegex(found["loaded"], r"plumb is loaded, version 1: system call 417 and /dev/plumb; .* room for [1-9]\d+ MiB")
        self.assertEqual(found["without"], "plumb is not loaded")

    def test_the_clock_page_tells_what_the_kernel_tells(self):
        print(self.passed("clock").out)

    def test_who_maps_the_clock_keeps_the_module(self):
        refused = self.passed("in_use").folder / "refused"
        self.assertIn("Resource temporarily unavailable", refused.read_text())

    def test_an_update_waits_for_its_threads_and_ends_no_call(self):
        print(self.passed("updates").out)

    def test_channels_for_the_kernels_events_are_taken_or_refused(self):
        self.passed("channels")

    def test_directories_are_given_to_whom_they_are_for(self):
        self.passed("directories")

    def sleepers(self, step):
        """Calls that were ended early, and the summaries."""
        folder = self.passed(step).folder
        said = (folder / "said").read_text()
        print(said)
        processes, events, early = map(int, re.match(r"(\d+) asleep, (\d+) events, (\d+) calls ended early", said).groups())
        self.assertEqual((processes, events), (PROCESSES, 2 * 10 * PROCESSES))
        summaries = [json.loads((folder / name / "summary.json").read_text()) for name in ("asleep", "awake")]
        for summary, recorded in zip(summaries, (0, 10 * PROCESSES), strict=True):
            self.assertEqual((summary["events"], summary["events_lost"], summary["unreachable"]), (recorded, 0, []))
        return early, summaries

    def test_programs_that_sleep_are_recorded_and_none_of_their_calls_ends_early(self):
        early, summaries = self.sleepers("sleepers")
        self.assertEqual((early, [summary["disturbed"] for summary in summaries]), (0, [[], []]))

    def test_a_program_that_sleeps_through_recordings_is_not_taken_for_one_that_does_not_answer(self):
        folder = self.passed("asleep_again").folder
        for i in range(1, 6):
            self.assertEqual(json.loads((folder / f"{i}/summary.json").read_text())["unreachable"], [], i)

    def test_who_can_not_be_reached_is_named_for_what_stands_in_the_way(self):
        folder = self.passed("blocked").folder
        unreachable = json.loads((folder / "trace/summary.json").read_text())["unreachable"]
        self.assertEqual(len(unreachable), 1, unreachable)
        self.assertIn("blocked in every thread", unreachable[0]["reason"])

    def test_who_sleeps_and_blocks_the_signal_is_not_taken_for_one_that_will_hear_of_it(self):
        folder = self.passed("masked").folder
        worker, everybody = (json.loads((folder / who / "summary.json").read_text()) for who in ("worker", "everybody"))
        self.assertGreaterEqual(worker["events"], 2, worker)
        self.assertEqual(worker["unreachable"], [])
        self.assertEqual(everybody["events"], 0)
        self.assertIn("blocked in every thread", everybody["unreachable"][0]["reason"])

    def test_after_a_disable_comes_no_further_record(self):
        self.assertIn("1 test from 1 test suite ran", self.passed("quiescence").out)

    def test_without_it_their_calls_end_early(self):
        early, summaries = self.sleepers("sleepers_by_signal")
        self.assertGreater(early, 0)
        self.assertNotEqual(summaries[0]["disturbed"], [])

    def test_who_has_yet_to_hear_of_an_update_keeps_the_module(self):
        refused = self.passed("has_to_hear").folder / "refused"
        self.assertIn("Resource temporarily unavailable", refused.read_text())

    def test_a_call_that_does_not_end_keeps_the_module(self):
        self.assertIn("Resource temporarily unavailable", (self.passed("stuck").folder / "refused").read_text())

    def test_so_many_files_that_they_are_not_looked_through_keep_the_module(self):
        self.assertIn("Resource temporarily unavailable", (self.passed("files").folder / "refused").read_text())

    def test_it_is_loaded_whatever_plumb_init_is_told(self):
        self.passed("parameters")

    def test_loaded_and_unloaded_under_traffic(self):
        result = self.passed("again")
        said = (result.folder / "traffic").read_text()
        print(said, "refused:", (result.folder / "refused").read_text())
        answered, unanswered = map(int, re.match(r"(\d+) answered, (\d+) without", said).groups())
        self.assertGreater(answered, LOADS)
        self.assertGreater(unanswered, LOADS)

    def test_the_kernel_has_nothing_to_say(self):
        self.assertEqual(complaints(self.passed("log").out), [])


class UnderTheKernelsChecks(GuestTests):
    """The kernel fills what is free with patterns, and looks at them when it is taken again, guards what is allocated,
    and knows each allocation's owner (slub_debug, page_poison). There, two users ask for whatever can be asked."""

    @classmethod
    def boot(cls, folder):
        guest, _ = guest_with_calls(folder, f"{PARAMETERS} {CHECKS}")
        for name, script in (("checks", CHECKS_ARE_ON), ("asked", "insmod /plumb.ko && module_calls asked"),
                             ("updates", "module_calls updates"), ("channels", "module_calls channels"),
                             ("directories", "module_calls directories"), ("hostile", HOSTILE),
                             ("thrash", THRASH),
                             ("again", again_and_again(LOADS if THOROUGH else 20, asked=THOROUGH)), ("log", "dmesg")):
            guest.step(name, script)
        return guest.boot(folder, timeout=450 + (4 if THOROUGH else 2) * HOSTILE_SECONDS, step_seconds=200 + HOSTILE_SECONDS)

    def test_the_checks_are_on(self):
        self.passed("checks")

    def test_it_does_what_it_does_without_them(self):
        for name in ("asked", "updates", "channels", "directories", "again"):
            self.passed(name)

    def test_two_hostile_users_come_to_nothing(self):
        """And leave nothing behind: what the module took per process is given back when it is unloaded."""
        result = self.passed("hostile")
        print(result.out)
        before, after = (int((result.folder / name).read_text()) for name in ("before", "after"))
        print(f"unreclaimable slabs: {before} KiB before, {after} KiB after")
        self.assertLess(after - before, 4096)

    def test_what_is_done_to_a_channel_harms_nobody(self):
        result = self.passed("thrash")
        print(result.out)
        before, after = (int((result.folder / name).read_text()) for name in ("before", "after"))
        print(f"unreclaimable slabs: {before} KiB before, {after} KiB after")
        self.assertLess(after - before, 4096)

    def test_the_kernel_has_nothing_to_say(self):
        self.assertEqual(complaints(self.passed("log").out), [])


@unittest.skipUnless(THOROUGH, "it takes half an hour: with PLUMB_THOROUGH=1")
class SleepersAgainAndAgain(GuestTests):
    @classmethod
    def boot(cls, folder):
        guest, _ = guest_with_calls(folder, f"{PARAMETERS} {CHECKS}")
        guest.add(BUILD / "cli/plumb", "/bin/plumb")
        guest.add(BUILD / "tests/fixtures/sleepers", "/bin/sleepers")
        guest.step("checks", CHECKS_ARE_ON)
        guest.step("sleepers", SLEEPERS_AGAIN)
        guest.step("log", "dmesg")
        return guest.boot(folder, timeout=3600, step_seconds=3500)

    def test_programs_that_sleep_are_recorded_and_none_of_their_calls_ends_early(self):
        self.passed("checks")
        folder = self.passed("sleepers").folder
        woken = ROUNDS // 50
        said = (folder / "said").read_text()
        print(said)
        self.assertEqual(said.split("\n")[0], f"{PROCESSES} asleep, {2 * woken * 10 * PROCESSES} events, 0 calls ended early")
        summaries = [json.loads(text) for text in re.split(r"(?<=^})\n", (folder / "summaries").read_text(), flags=re.M) if text.strip()]
        self.assertEqual(len(summaries), ROUNDS)
        for number, summary in enumerate(summaries, 1):
            recorded = 0 if number % 50 else 10 * PROCESSES
            self.assertEqual((summary["events"], summary["events_lost"], summary["unreachable"], summary["disturbed"]),
                             (recorded, 0, [], []), number)

    def test_the_kernel_has_nothing_to_say(self):
        self.assertEqual(complaints(self.passed("log").out), [])


class Dkms(unittest.TestCase):
    """What is installed builds by DKMS, for the kernel that is asked for, and is built again for the next."""

    def dkms(self, *arguments):
        headers = KERNELS / VERSION / "headers"
        release = re.search('"(.*)"', (headers / "include/generated/utsrelease.h").read_text()).group(1)
        done = subprocess.run([DKMS, "--dkmstree", self.folder / "tree", "--sourcetree", self.folder / "src", "--installtree",
                               self.folder / "modules", "--kernelsourcedir", headers, "-k", release, "-a", "x86_64",
                               "--no-depmod", *arguments], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return release, done.stdout

    def test_dkms_leaves_out_the_kernels_that_it_is_not_written_for(self):
        """Else the first update to one of these fails, with whatever the compiler says of it."""
        pattern = re.search('^BUILD_EXCLUSIVE_KERNEL="(.*)"', (SOURCE / "kmod/dkms.conf.in").read_text(), re.M)[1]
        with tempfile.TemporaryDirectory() as stubs:
            (Path(stubs) / "linux").mkdir()
            for name in ("file", "fs", "mm", "sched", "version"):
                (Path(stubs) / f"linux/{name}.h").touch()
            for major, minor in ((5, 10), (6, 0), (6, 1), (6, 2), (6, 9), (6, 10), (6, 12), (6, 13), (6, 18), (7, 0), (7, 1), (16, 1)):
                known = subprocess.run(["gcc", "-E", "-nostdinc", f"-I{stubs}", "-DKERNEL_VERSION(a,b,c)=(((a)<<16)+((b)<<8)+(c))",
                                        f"-DLINUX_VERSION_CODE=KERNEL_VERSION({major},{minor},7)", SOURCE / "kmod/compat.h"],
                                       capture_output=True, text=True, check=False)
                if known.returncode != 0:
                    self.assertIn("plumb.ko is for Linux", known.stderr)
                self.assertEqual((known.returncode == 0, bool(re.search(pattern, f"{major}.{minor}.7-amd64"))),
                                 ((6, 1) <= (major, minor) <= (6, 12),) * 2, f"{major}.{minor}")

    def test_it_is_built_of_what_is_installed(self):
        if not DKMS or os.geteuid() != 0:
            self.skipTest("there is no dkms: run tools/setup" if not DKMS else "dkms is for root")
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        (self.folder / "tree").mkdir()
        subprocess.run(["cmake", "--install", BUILD, "--prefix", self.folder, "--component", "module"], check=True,
                       capture_output=True)
        source, = (self.folder / "src").iterdir()
        name = source.name.replace("-", "/", 1)
        self.dkms("add", name)
        release, _ = self.dkms("build", name)
        module = self.folder / "tree" / name / release / "x86_64/module/plumb.ko"
        about = subprocess.run([shutil.which("modinfo", path=ADMINISTRATORS), module], capture_output=True, text=True, check=True).stdout
        self.assertRegex(about, rf"vermagic: +{re.escape(release)} ")
        (self.folder / "modules" / release).mkdir(parents=True)
        self.dkms("install", name)
        installed, = (self.folder / "modules").rglob("plumb.ko*")
        self.dkms("remove", name)
        self.assertFalse(module.exists() or installed.exists())


if __name__ == "__main__":
    run_tests(why_not_built(VERSION) if VERSION else "")
