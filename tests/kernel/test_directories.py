#!/usr/bin/env python3
# cmake-timeout: 400
# cmake-once
# cmake-lock: boot
"""Users' directories in plumb.ko: programs, recorders and what is left of them, with the module loaded before and behind them,
with no /dev/shm, with no /dev at all, under filters, in namespaces, of another user.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_directories.py 6.1 [TEST...]"""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from guest import GuestTests, run_tests
from guest_module import complaints, guest_with_module, why_not_built

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
VERSION = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else ""

# begin NAME COMMAND...: a program that writes events until it is killed, with its number in /tmp/NAME; COMMAND runs it.
PRELUDE = """
begin() {
    name=$1; shift
    mkfifo /tmp/$name.in
    "$@" subject trace </tmp/$name.in >/tmp/$name.out & echo $! >/tmp/$name
    eval "exec $fd>/tmp/$name.in"; fd=$((fd + 1))
    until grep -q ready /tmp/$name.out; do sleep 0.05; done
}
fd=3
"""
RECORD = "plumb record -q -o $RESULTS/trace --duration 300ms"
STEPS = {
    "usual": """
insmod /plumb.ko || exit 1
begin usual env
RECORD -e 'subject:*' || exit 2
plumb list >$RESULTS/list
kill $(cat /tmp/usual)
unload
""",
    # Two programs in one recording: one looks in /dev/shm, since the module was not there yet.
    "earlier": """
begin earlier env
insmod /plumb.ko || exit 1
begin later env
plumb list >$RESULTS/list
RECORD -e 'subject:*' || exit 2
kill $(cat /tmp/earlier) $(cat /tmp/later)
unload
""",
    "no_shm": """
umount /dev/shm && rmdir /dev/shm || exit 1
insmod /plumb.ko || exit 2
begin no_shm env
RECORD -e 'subject:*' || exit 3
kill $(cat /tmp/no_shm)
""",
    # The module is still loaded, and there is no way to it but the call.
    "no_device": """
rm /dev/plumb || exit 1
begin no_device env
RECORD -e 'subject:*' || exit 2
kill $(cat /tmp/no_device)
unshare -p -f filtered subject nap </dev/null | grep -q ready || exit 4 # a container's first process
mkdir /dev/shm && mount -t tmpfs -o mode=1777 tmpfs /dev/shm || exit 3
unload
""",
    # Nobody may be ended for a question that a filter does not expect: it looks in /dev/shm, and is recorded.
    "filtered": """
insmod /plumb.ko || exit 1
begin filtered filtered
begin free env
RECORD -e 'subject:*' --seccomp || exit 2
kill $(cat /tmp/filtered) $(cat /tmp/free)
unload
""",
    "container": """
insmod /plumb.ko || exit 1
begin container unshare -p -f
RECORD -e 'subject:*' || exit 2
kill -9 $(pidof subject)
unload
""",
    # A recording from before the module came: who begins behind that is in it, once the recorder has seen it.
    "behind": """
plumb record -q -o $RESULTS/trace -e 'subject:*' & recorder=$!
until plumb list | grep -q "of process"; do sleep 0.1; done
insmod /plumb.ko || exit 1
sleep 2
begin behind env
sleep 0.3
kill -INT $recorder; wait $recorder || exit 2
kill $(cat /tmp/behind)
unload
""",
    # Of another user, too.
    "theirs_behind": """
begin before as_user
plumb record -q -o $RESULTS/trace -e 'subject:*' --user 1001 & recorder=$!
until grep -q 1001 $RESULTS/trace/ust-1001/metadata 2>/dev/null || [ -e $RESULTS/trace/ust-1001 ]; do sleep 0.1; done
sleep 0.3
insmod /plumb.ko || exit 1
sleep 2
begin behind as_user
sleep 0.3
kill -INT $recorder; wait $recorder || exit 2
kill $(cat /tmp/before) $(cat /tmp/behind)
unload
""",
    # There is no /dev/shm at first, and then one that nobody can be recorded in.
    "too_small": """
insmod /plumb.ko || exit 1
umount /dev/shm || exit 2
rmdir /dev/shm || exit 3
plumb record -o $RESULTS/trace -e 'subject:*' 2>$RESULTS/said & recorder=$!
until plumb list | grep -q "of process"; do sleep 0.1; done
mkdir /tmp/small && mount -t tmpfs -o mode=1777,size=64k tmpfs /tmp/small && ln -s /tmp/small /dev/shm || exit 4
sleep 1
kill -INT $recorder; wait $recorder
rm /dev/shm && umount /tmp/small && mkdir /dev/shm && mount -t tmpfs -o mode=1777 tmpfs /dev/shm || exit 5
unload
""",
    # Whoever begins during a recording is there from its first event on, wherever it looks.
    "later": """
insmod /plumb.ko || exit 1
cat >/tmp/each <<'END'
rm -f /tmp/each.in /tmp/each.out; mkfifo /tmp/each.in
$1 subject trace </tmp/each.in >/tmp/each.out &
exec 3>/tmp/each.in
until grep -qs ready /tmp/each.out; do sleep 0.02; done
sleep 0.1
END
plumb record -q -o $RESULTS/trace -e 'subject:*' --seccomp & recorder=$!
until plumb list | grep -q "of process"; do sleep 0.1; done
for way in env filtered "unshare -p -f"; do sh /tmp/each "$way"; done
sleep 0.2
kill -INT $recorder; wait $recorder || exit 2
plumb record -q -o $RESULTS/launched -e 'subject:*' --seccomp -- sh -c 'for way in env filtered "unshare -p -f"; do sh /tmp/each "$way"; done' || exit 3
unload
""",
    # Root records another user's, and he records himself.
    "others": """
insmod /plumb.ko || exit 1
begin theirs as_user
begin ours env
RECORD -e 'subject:*' -p $(cat /tmp/theirs) -p $(cat /tmp/ours) || exit 2
mkdir -m 777 $RESULTS/own
as_user plumb record -q -o $RESULTS/own/trace -e 'subject:*' --duration 300ms || exit 3
as_user plumb list >$RESULTS/list
kill $(cat /tmp/theirs) $(cat /tmp/ours)
unload
""",
    # What a killed recorder leaves keeps the module until somebody has fetched it.
    "killed": """
insmod /plumb.ko || exit 1
begin killed env
plumb record -q -o $RESULTS/cut -e 'subject:*' --snapshot & recorder=$!
until plumb list | grep -q "of process"; do sleep 0.1; done
sleep 0.5
plumb doctor --json >$RESULTS/doctor
kill -9 $recorder
kill $(cat /tmp/killed)
sleep 0.5
rmmod plumb 2>$RESULTS/refused && exit 2
plumb list >$RESULTS/list
plumb doctor --json >$RESULTS/doctor_behind
plumb extract -o $RESULTS/trace || exit 3
plumb list >$RESULTS/list_behind
unload
""",
    # What a user does to his own keeps neither the module, nor others from being recorded.
    "damaged": """
insmod /plumb.ko || exit 1
mkdir -m 777 $RESULTS/own
as_user directory_vandal damage || exit 2
RECORD -e 'subject:*' --user 1001 || exit 3
as_user directory_vandal open
as_user plumb record -q -o $RESULTS/own/none -e 'subject:*' --duration 300ms 2>$RESULTS/open && exit 4
RECORD --force -e 'subject:*' --user 1001 2>$RESULTS/open_to_root
as_user directory_vandal close
as_user directory_vandal fifo
as_user plumb record -q -o $RESULTS/own/none -e 'subject:*' --duration 300ms 2>$RESULTS/fifo && exit 5
as_user plumb doctor >$RESULTS/doctor
as_user directory_vandal remove
unload
""",
    "full": """
insmod /plumb.ko || exit 1
plumb doctor --json >$RESULTS/empty || exit 2
as_user directory_vandal fill || exit 3
plumb doctor --json >$RESULTS/full && exit 4
as_user directory_vandal remove
unload
""",
    # Each of them has two parts, and we have two ourselves.
    "crowd": """
insmod /plumb.ko || exit 1
users=; for user in $(seq 2001 2016); do users="$users --user $user"; done
SMALL="--subbuf-size 4K --subbuf-count 2"
RECORD -e 'subject:*' $SMALL $users 2>$RESULTS/said || exit 2
plumb record -q -o $RESULTS/none -e 'subject:*' $SMALL $users --user 2017 --duration 300ms 2>$RESULTS/too_many && exit 3
unload
""",
}


class Directories(GuestTests):
    @classmethod
    def boot(cls, folder):
        guest, _ = guest_with_module(VERSION)
        guest.add(BUILD / "cli/plumb", "/bin/plumb")
        guest.add(BUILD / "tests/fixtures/subject", "/bin/subject")
        filtered = folder / "filtered"
        subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/include",
                        SOURCE / "tests/kernel/filtered.c", "-o", filtered], check=True)
        guest.add(filtered, "/bin/filtered")
        vandal = folder / "directory_vandal"
        subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/include",
                        SOURCE / "tests/kernel/directory_vandal.c", "-o", vandal], check=True)
        guest.add(vandal, "/bin/directory_vandal")
        guest.add(shutil.which("setpriv"), "/usr/local/bin/setpriv")
        guest.archive.add("/bin/as_user", b'#!/bin/sh\nexec /usr/local/bin/setpriv --reuid 1001 --regid 1001 --clear-groups "$@"\n')
        for name, script in STEPS.items():
            guest.step(name, PRELUDE + script.replace("RECORD", RECORD))
        guest.step("log", "dmesg")
        return guest.boot(folder)

    def recorded(self, step, programs, trace="trace"):
        """Each program has events in the trace, nothing is lost, and an independent reader finds what the summary says."""
        folder = self.left_by(step) / trace
        summary = json.loads((folder / "summary.json").read_text())
        self.assertEqual((summary["events_lost"], summary["problems"], summary["unreachable"]), (0, [], []))
        self.assertEqual([process["name"] for process in summary["processes"]], ["subject"] * programs)
        read = subprocess.run(["babeltrace2", folder], capture_output=True, text=True, check=True)
        if step != "killed":  # where the oldest were overwritten
            self.assertEqual(read.stderr, "")
        ticks = re.findall(r"(\S+) subject:tick:", read.stdout)
        self.assertEqual(len(ticks), summary["events_by_name"]["subject:tick"])
        tids = collections.Counter(re.findall(r"subject:tick:.*? v?tid = (\d+)", read.stdout))
        self.assertEqual(len(tids), programs)
        self.assertGreater(min(tids.values()), 100)
        return summary

    def folders(self, step):
        return sorted(each.name for each in (self.left_by(step) / "trace").iterdir() if each.is_dir())

    def test_programs_and_recorders_meet_in_the_modules(self):
        self.recorded("usual", 1)
        self.assertEqual(self.folders("usual"), ["ust"])
        self.assertIn("subject:tick", (self.left_by("usual") / "list").read_text())

    def test_who_began_before_the_module_came_is_in_the_same_trace(self):
        self.recorded("earlier", 2)
        self.assertEqual(self.folders("earlier"), ["ust", "ust-0-shm"])
        self.assertEqual((self.left_by("earlier") / "list").read_text().count("subject:tick"), 2)

    def test_a_recorder_that_was_there_before_the_module_has_who_comes_behind_it(self):
        self.recorded("behind", 1)
        self.assertEqual(self.folders("behind"), ["ust", "ust-0-module"])

    def test_a_named_users_programs_are_in_it_also_behind_the_module(self):
        self.recorded("theirs_behind", 2)
        self.assertEqual(self.folders("theirs_behind"), ["ust", "ust-1001", "ust-1001-module"])

    def test_it_is_told_where_somebody_could_be_and_is_not_recorded(self):
        said = (self.left_by("too_small") / "said").read_text()
        self.assertEqual(said.count("can not be recorded"), 2, said) # when it is found, and at the end

    def test_there_need_be_no_shared_memory_to_be_seen(self):
        self.recorded("no_shm", 1)

    def test_nor_a_device_and_a_container_is_not_asked_by_the_call_alone(self):
        self.recorded("no_device", 1)

    def test_a_filter_is_not_asked_to_let_the_question_pass(self):
        self.recorded("filtered", 2)

    def test_who_is_in_a_container_is_in_the_same_trace(self):
        self.recorded("container", 1)

    def test_who_begins_later_is_there_from_its_first_event_on(self):
        for trace in ("trace", "launched"):
            self.recorded("later", 3, trace)
            read = subprocess.run(["babeltrace2", self.left_by("later") / trace], capture_output=True, text=True, check=True)
            first = {}
            for tid, number in re.findall(r"subject:tick:.*? v?tid = (\d+).*count = (\d+)", read.stdout):
                first.setdefault(tid, int(number))
            self.assertEqual(list(first.values()), [1, 1, 1], trace)

    def test_users_have_their_own(self):
        summary = self.recorded("others", 2)
        self.assertEqual(self.folders("others"), ["ust", "ust-1001"])
        self.recorded("others", 1, "own/trace")
        self.assertEqual((self.left_by("others") / "list").read_text().count("subject:tick"), 1, summary)

    def test_what_a_killed_recorder_leaves_is_there_until_it_is_fetched(self):
        folder = self.left_by("killed")
        self.assertIn("Resource temporarily unavailable", (folder / "refused").read_text())
        self.recorded("killed", 1)

    def test_doctor_looks_where_recorders_are(self):
        def found(name):
            checks = json.loads((self.left_by("killed") / name).read_text())["checks"]
            return [(check["name"], check["found"]) for check in checks if not check["found"].startswith("in /dev/shm: ")]

        self.assertRegex(dict(found("doctor"))["sessions"], r"^active: .*pid ")
        self.assertRegex(dict(found("doctor"))["state-file"], "^version .*[1-9] processes registered")
        self.assertNotIn("left behind", dict(found("doctor"))["sessions"])
        self.assertRegex(dict(found("doctor_behind"))["sessions"], r"left behind: .*\(pid \d+, [\d.]+ MiB\)")
        for name in ("doctor", "doctor_behind"):
            self.assertEqual([each for each, _ in found(name)].count("state-file"), 1)

    def test_what_a_user_does_to_his_own_keeps_nobody_and_the_remedy_can_be_followed(self):
        folder = self.left_by("damaged")
        for said in ("open", "open_to_root", "fifo", "doctor"):
            text = (folder / said).read_text()
            self.assertIn("plumb.ko:/plumb-1001", text)
            self.assertIn("`rmmod plumb; modprobe plumb`", text)
            self.assertNotRegex(text, "[Rr]emove (it|plumb.ko)|chmod")

    def test_doctor_says_when_nobody_finds_room(self):
        def room(name):
            checks = json.loads((self.left_by("full") / name).read_text())["checks"]
            return next((check["status"], check["advice"]) for check in checks if check["name"] == "module-room")

        self.assertEqual(room("empty"), ("ok", ""))
        status, advice = room("full")
        self.assertEqual(status, "missing")
        self.assertIn("plumb extract --remove", advice)

    def test_a_user_is_one_in_however_many_places(self):
        folder = self.left_by("crowd")
        self.assertEqual((folder / "said").read_text(), "")
        self.assertEqual(json.loads((folder / "trace/summary.json").read_text())["problems"], [])
        self.assertIn("16 other users at most", (folder / "too_many").read_text())

    def test_the_kernel_has_nothing_to_say(self):
        self.assertEqual(complaints(self.results["log"].out), [])


if __name__ == "__main__":
    run_tests(why_not_built(VERSION) if VERSION else "")
