#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-lock: boot
# cmake-kernel: 6.12
"""Many processors, some of which are off, go off and come while programs trace: no event is lost or counted twice, and a
channel has a ring for each processor that there may ever be. The kernel's events are read of those alone that have been on.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_processors.py 6.12 [TEST...]"""
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from guest import Guest, run_tests

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
VERSION = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else ""
sys.path.insert(0, str(SOURCE / "tests/support"))
from babeltrace import events  # noqa: E402
from traced_program import compile_traced  # noqa: E402

PROCESSORS = 64
AT_BOOT = 40  # the others are off at first
THREADS = 96
COUNT = 400

# Off and on, one after the other, those of the start and others, until the recording has ended.
COMING_AND_GOING = """
off_and_on() {
    changes=0
    processor=1
    while [ ! -e /tmp/over ]; do
        processor=$(((processor * 5 + 3) % %d))
        file=/sys/devices/system/cpu/cpu$processor/online
        [ -e $file ] || continue
        read state <$file
        echo $((1 - state)) >$file && changes=$((changes + 1))
    done
    echo $changes >$RESULTS/changes
}
rm -f /tmp/over
cat /sys/devices/system/cpu/online >$RESULTS/online_before
off_and_on &
"""


def step(environment=""):
    return COMING_AND_GOING.replace("%d", str(PROCESSORS)) + f"""
{environment} plumb record -q --json -o $RESULTS/trace --mode block --block-timeout 60s --subbuf-size 16K \\
    --subbuf-count 4 -- crowd {THREADS} {COUNT} >$RESULTS/said
status=$?
touch /tmp/over
wait
exit $status
"""


# A processor that was never on has no buffer. Then one of them comes on: its events are the only ones there are.
LAST = PROCESSORS - 1
KERNEL_EVENTS = f"""
begin() {{
    plumb record -q --json "$@" >$RESULTS/said & recorder=$!
    until grep -qx 1 /sys/kernel/tracing/instances/plumb_r*/tracing_on; do sleep 0.2; done 2>/dev/null
    sleep 2
}}
ticks() {{
    read -r all </proc/$recorder/stat
    set -- ${{all##*) }}
    echo $((${{12}} + ${{13}}))
}}
begin --exe nobody -k sched:sched_process_exec -o $RESULTS/nobody
before=$(ticks); sleep 4; echo $(($(ticks) - before)) >$RESULTS/ticks_by_executable
kill -INT $recorder; wait $recorder || exit
begin -a -k cpuhp:cpuhp_enter -o $RESULTS/trace
before=$(ticks); sleep 4; echo $(($(ticks) - before)) >$RESULTS/ticks
echo 1 >/sys/devices/system/cpu/cpu{LAST}/online
sleep 2
kill -INT $recorder; wait $recorder
status=$?
echo 0 >/sys/devices/system/cpu/cpu{LAST}/online
exit $status
"""

STEPS = {
    "processors": "cat /sys/devices/system/cpu/possible",
    "kernel": KERNEL_EVENTS,
    "with_sequences": step(),
    "without_sequences": step("PLUMB_RSEQ=none"),
}


class Processors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="plumb-guest-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        guest = Guest(VERSION, f"maxcpus={AT_BOOT}", processors=PROCESSORS)
        guest.add(BUILD / "cli/plumb", "/bin/plumb")
        text = (SOURCE / "tests/kernel/crowd.c").read_text()
        guest.add(compile_traced(text, cls.folder / "crowd"), "/bin/crowd")
        for name, script in STEPS.items():
            guest.step(name, script)
        cls.results = guest.boot(cls.folder)

    def check(self, name):
        result = self.results[name]
        self.assertEqual((result.status, result.error), (0, ""))
        said = (result.folder / "said").read_text()
        expected, used = map(int, said.splitlines()[0].split())
        changes = int((result.folder / "changes").read_text())
        print(f"{name}: {changes} changes of processors, the program was on {used} of {PROCESSORS}")
        summary = json.loads(said[said.index("{\n"):])
        self.assertEqual(summary["events_lost"], 0)
        self.assertEqual((summary["events_by_name"], summary["problems"]), ({"crowd:step": expected}, []))
        # Of each thread, in the order of time, each number once.
        following = collections.Counter()
        wrong_rings = 0
        for event in events(result.folder / "trace"):
            if event.name != "crowd:step":
                continue
            thread = event.fields["thread"]
            self.assertEqual(event.fields["sequence"], following[thread], f"thread {thread}")
            following[thread] += 1
            wrong_rings += event.fields["processor"] >= PROCESSORS
        self.assertEqual(following, {thread: COUNT for thread in range(THREADS)})
        self.assertEqual(wrong_rings, 0)
        self.assertGreater(changes, 5)
        self.assertGreater(used, 16)

    def test_there_are_as_many_as_were_asked_for(self):
        self.assertEqual(self.results["processors"].out.strip(), f"0-{PROCESSORS - 1}")
        before = (self.results["with_sequences"].folder / "online_before").read_text().strip()
        self.assertEqual(before, f"0-{AT_BOOT - 1}")

    def test_events_of_the_kernel_are_waited_for_where_processors_were_never_on(self):
        result = self.results["kernel"]
        self.assertEqual((result.status, result.error), (0, ""))
        summary = json.loads((result.folder / "said").read_text())
        self.assertEqual((summary["problems"], summary["missed"], summary["notes"]), ([], {}, {}))
        shown = subprocess.run(["babeltrace2", result.folder / "trace"], stdout=subprocess.PIPE, text=True,
                               check=True).stdout
        self.assertGreater(shown.count(f"cpuhp_enter: {{ cpu_id = {LAST} }}"), 5)
        for name in ("ticks", "ticks_by_executable"):
            ticks = int((result.folder / name).read_text())
            print(f"{name}: {ticks} in 4 s")
            self.assertLess(ticks, 100, name)

    def test_events_are_exact_while_processors_go_off_and_come(self):
        self.check("with_sequences")

    def test_and_without_restartable_sequences(self):
        self.check("without_sequences")


if __name__ == "__main__":
    run_tests()
