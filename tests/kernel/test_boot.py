#!/usr/bin/env python3
# cmake-timeout: 600
# cmake-once
# cmake-lock: boot
"""A machine whose boot is recorded without a module: plumb-init stands in front of its init. The first event of a program is that of
a constructor of process 1, the kernel's events go on before and behind it, and nothing is lost; and the machine comes up
whatever is missing.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_boot.py 6.12 [TEST...]"""
import json
import os
import re
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
from traced_program import compile_traced  # noqa: E402

PLUMB = BUILD / "cli/plumb"
PLUMB_INIT = BUILD / "probes/init/plumb-init"
# An init that traces from its constructor on, and goes on as the guest's own.
INIT = r"""
#include <plumb/tracepoint.h>
#include <unistd.h>
PLUMB_EVENT(first, constructor, (u32, process))
PLUMB_EVENT(first, step, (u32, number))
__attribute__((constructor)) static void begin(void) { plumb_trace(first, constructor, (unsigned)getpid()); }
int main(int count, char** arguments) {
    for (unsigned i = 0; i < STEPS; i++) plumb_trace(first, step, i);
    execv("/init", arguments);
    return count;
}
"""
STEPS = 5000
RECORDED = """
plumb boot status >$RESULTS/before
plumb boot stop || { dmesg | grep plumb-init: ; cat /run/plumb-boot/log; exit 1; }
plumb boot status >$RESULTS/after
cp -r /run/plumb-boot/trace $RESULTS/trace
dmesg | grep 'plumb-init: ' && exit 2
true
"""
# One way after the other in which it can be broken; each boots.
BROKEN = {"no settings": (None, "could not read /etc/plumb/boot"),
          "no plumb": ("record=/bin/nothing\nfolder=/run/plumb-boot\n", "could not run /bin/nothing"),
          "wrong words": ("record=/bin/plumb\nrecord=nonsense\nfolder=/run/plumb-boot\n", "the recorder has ended with status 2"),
          "no folder": ("record=/bin/plumb\nrecord=record\nfolder=/nowhere/at/all\n", "could not make /nowhere/at/all"),
          "no init": ("init=/bin/gone\nrecord=/bin/plumb\n", "could not run /bin/gone"),
          "noise": ("\xff\xfe=\n===\nrecord\n", "says nothing of a recording")}


def events_of(trace):
    """As babeltrace2 shows them, without a warning."""
    shown = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, timeout=100, check=False)
    if shown.returncode != 0 or shown.stderr:
        raise RuntimeError(shown.stderr)
    return shown.stdout.splitlines()


class Boot(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def guest(self, parameters=""):
        guest = Guest(VERSION, f"tsc=reliable clocksource=tsc rdinit={PLUMB_INIT} {parameters}")
        guest.add(PLUMB, str(PLUMB))
        guest.add(PLUMB, "/bin/plumb")
        guest.add(PLUMB_INIT, str(PLUMB_INIT))
        guest.archive.add("/sbin/init", b"#!/bin/busybox sh\nexec /init\n")
        return guest

    def test_init_is_recorded_from_its_first_constructor(self):
        first = compile_traced(INIT, self.folder / "first", f"-DSTEPS={STEPS}")
        root = self.folder / "root"
        (root / "bin").mkdir(parents=True)
        (root / "bin/first").write_bytes(first.read_bytes())
        (root / "bin/first").chmod(0o755)
        installed = root / str(PLUMB_INIT)[1:]
        installed.parent.mkdir(parents=True)
        installed.touch(mode=0o755)
        subprocess.run([PLUMB, "boot", "enable", "--root", root, "--init", "/bin/first", "--", "-a", "-k", "sched:sched_process_exec",
                        "-k", "sched:sched_switch", "-e", "first:*"], check=True, capture_output=True)
        guest = self.guest()
        guest.add(first, "/bin/first")
        guest.archive.add("/etc/plumb/boot", (root / "etc/plumb/boot").read_bytes(), 0o100644)
        guest.step("recorded", RECORDED)
        result = guest.boot(self.folder)["recorded"]
        self.assertEqual(result.status, 0, result.out + result.error)
        self.assertIn("This boot: is being recorded", (result.folder / "before").read_text())
        self.assertIn("This boot: was recorded", (result.folder / "after").read_text())
        summary = json.loads((result.folder / "trace/summary.json").read_text())
        self.assertEqual((summary["events_lost"], summary["subbufs_lost"], summary["problems"]), (0, 0, []))
        shown = subprocess.run(["babeltrace2", result.folder / "trace"], capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        names = re.findall(r"\) \S+ ([\w:]+): ", shown.stdout)
        of_programs = [name for name in names if name.startswith("first:")]
        self.assertEqual(of_programs, ["first:constructor"] + ["first:step"] * STEPS)
        self.assertIn("process = 1 }", shown.stdout)
        at = names.index("first:constructor")
        self.assertTrue(any(name == "sched_switch" for name in names[:at]), "no event of the kernel before it")
        executed = [line for line in shown.stdout.splitlines()[:at] if "sched_process_exec" in line]
        self.assertTrue(any('filename = "/bin/first"' in line for line in executed), executed)

    def test_the_kernels_command_line_says_what_is_recorded(self):
        """Without any settings, and with the quotes where a boot loader puts them; and the trace is fetched later."""
        guest = self.guest('"plumb.rules=-a -k sched:sched_process_exec"')
        guest.step("fetched", "plumb record --boot --duration 100ms -o $RESULTS/trace || exit 1\n"
                              "plumb boot status; ls /run/plumb-boot/trace && exit 2; dmesg | grep 'plumb-init: ' && exit 3; true")
        result = guest.boot(self.folder)["fetched"]
        self.assertEqual(result.status, 0, result.out + result.error)
        self.assertIn("its trace taken away", result.out)
        shown = subprocess.run(["babeltrace2", result.folder / "trace"], capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        self.assertIn('filename = "/sbin/init"', shown.stdout)

    def check_switches(self, lines):
        """Those from one thread of a recorder to another one are not in the trace."""
        running, recorders = {}, set(re.findall(r'_comm = "plumb", \w+_tid = (\d+)', "\n".join(lines)))
        for line in lines:
            if "sched_switch" in line:
                cpu = re.search(r"cpu_id = (\d+)", line)[1]
                left, came = ("a recorder" if tid in recorders else tid for tid in re.findall(r"_tid = (\d+)", line))
                self.assertEqual(running.get(cpu, left), left, line)
                running[cpu] = came
        self.assertEqual(set(running), {"0", "1"})

    def test_the_kernels_own_start_is_in_it(self):
        """Each switch of a CPU goes on where the one before ended: none is missing, and none there twice, where the kernel's own
        recording ends and ours begins either."""
        root = self.folder / "root"
        installed = root / str(PLUMB_INIT)[1:]
        installed.parent.mkdir(parents=True)
        installed.touch(mode=0o755)
        subprocess.run([PLUMB, "boot", "enable", "--root", root, "--kernel-start", "--", "-a", "-k", "sched:sched_switch", "-k",
                        "sched:sched_process_exec", "--clock", "mono"], check=True, capture_output=True)
        parameters = re.search(r"(trace_event=.*)\"", (root / "etc/default/grub.d/plumb.cfg").read_text())[1]
        guest = self.guest(parameters)
        guest.archive.add("/etc/plumb/boot", (root / "etc/plumb/boot").read_bytes(), 0o100644)
        guest.step("recorded", RECORDED)
        guest.step("left", "cd /sys/kernel/tracing; cat set_event trace_clock tracing_on buffer_size_kb; grep -v '^#' trace")
        results = guest.boot(self.folder)
        self.assertEqual(results["recorded"].status, 0, results["recorded"].out + results["recorded"].error)
        self.assertRegex(results["left"].out, r"^\[local\] [^\[]*\n1\n14\d\d\n$")
        trace = results["recorded"].folder / "trace"
        summary = json.loads((trace / "summary.json").read_text())
        self.assertEqual((summary["events_lost"], summary["problems"], summary["notes"]), (0, [], {}))
        lines = [line for line in events_of(trace) if " sched_" in line]
        before = next(i for i, line in enumerate(lines) if 'filename = "/sbin/init"' in line)
        self.assertGreater(len(lines[:before]), 500)
        self.assertIn('prev_comm = "swapper/0"', lines[0])
        self.assertTrue(any('next_comm = "kthreadd"' in line for line in lines[:before]))
        self.check_switches(lines)

    def test_what_is_missing_of_the_kernels_own_start_is_told(self):
        rules = '"plumb.rules=-a -k sched:sched_switch --clock mono --kernel-start"'
        for parameters, lost, said in (("trace_event=sched:sched_switch trace_clock=mono trace_buf_size=64k", True, None),
                                       ("trace_event=sched: trace_clock=x86-tsc", False, "has the clock x86-tsc, and the recording mono"),
                                       ("quiet", False, "its command line has no trace_event=")):
            with self.subTest(parameters), tempfile.TemporaryDirectory() as folder:
                guest = self.guest(f"{rules} {parameters}")
                guest.step("recorded", RECORDED)
                result = guest.boot(Path(folder))["recorded"]
                self.assertEqual(result.status, 0, result.out + result.error)
                summary = json.loads((result.folder / "trace/summary.json").read_text())
                self.assertEqual(summary["events_lost"] > 0, lost, summary)
                if lost:
                    self.assertEqual(set(summary["events_lost_by_cause"]), {"kernel_start"}, summary)
                else:
                    self.assertIn(said, summary["problems"][0])

    def test_it_comes_up_whatever_is_missing(self):
        for name, (settings, said) in BROKEN.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                guest = self.guest()
                if settings is not None:
                    guest.archive.add("/etc/plumb/boot", settings.encode("latin1"), 0o100644)
                guest.step("log", "dmesg | grep 'plumb-init: '; plumb boot status; plumb boot stop")
                result = guest.boot(Path(folder))["log"]
                self.assertIn(said, result.out)
                self.assertEqual(result.status, 1)

    def test_it_can_be_left_out_from_the_boot_loader(self):
        """Probes for init as well."""
        guest = self.guest("plumb.boot=off")
        guest.archive.add("/etc/plumb/boot", b"init=/bin/real\npreload=/nowhere.so\nrecord=/bin/plumb\nrecord=record\nfolder=/run/plumb-boot\n",
                          0o100644)
        guest.archive.add("/bin/real", b"#!/bin/busybox sh\nexport REAL=1\nexec /init\n")
        guest.step("log", "dmesg | grep 'plumb-init: '; ls /run; tr '\\0' '\\n' </proc/1/environ | grep -E 'PRELOAD|REAL'")
        self.assertEqual(guest.boot(self.folder)["log"].out, "REAL=1\n")

    def test_an_initramfs_begins_only_what_the_boot_loader_asks_for(self):
        """Its recovery mode has the same one."""
        guest = Guest(VERSION)
        guest.add(PLUMB, "/bin/plumb")
        guest.add(PLUMB_INIT, "/bin/plumb-init")
        guest.archive.add("/etc/plumb/boot", b"record=/bin/plumb\nrecord=nonsense\nfolder=/run/plumb-boot\n", 0o100644)
        ours = "init=/usr/lib/plumb/plumb-init"
        lines = {"single": False, ours: True, f"{ours} init=/bin/sh": False, f"{ours} plumb.boot=off": False, "plumb.rules=-a": True}
        for number, line in enumerate(lines):
            guest.step(f"begun_{number}", f"echo '{line}' >/line; mount --bind /line /proc/cmdline; rm -rf /run/plumb-boot\n"
                                          "/bin/plumb-init --begin; ls -d /run/plumb-boot; umount /proc/cmdline")
        guest.add(PLUMB_INIT, "/lib/plumb/plumb-init")
        guest.step("other", "rm /etc/plumb/boot; echo 'quiet init=/bin/other' >/line; mount --bind /line /proc/cmdline; plumb boot enable; echo $?; "
                            "umount /proc/cmdline; ls /etc/plumb")
        results = guest.boot(self.folder)
        self.assertIn("This machine's init is /bin/other", results["other"].error)
        self.assertEqual(results["other"].out, "1\n")
        for number, (line, is_begun) in enumerate(lines.items()):
            self.assertEqual(results[f"begun_{number}"].out, "/run/plumb-boot\n" if is_begun else "", line)

    def test_a_flight_recorder_of_the_boot_is_ended_and_fetched(self):
        guest = self.guest('"plumb.rules=-a -k sched:sched_process_exec --snapshot"')
        guest.step("fetched", "plumb boot stop || exit 1; plumb boot status | grep 'was recorded, into' || exit 2\n"
                              "plumb record --boot -o $RESULTS/trace || exit 3; ls $RESULTS/trace")
        result = guest.boot(self.folder)["fetched"]
        self.assertEqual(result.status, 0, result.out + result.error)
        self.assertIn("snapshot", result.out)

    def test_who_holds_it_ends_with_its_recorder(self):
        guest = self.guest('"plumb.rules=-a -k sched:sched_process_exec"')
        guest.step("killed", "kill -9 $(awk '/PPid/ { print $2 }' /proc/$(cat /run/plumb-boot/hold)/status); sleep 0.5\n"
                             "plumb boot status; plumb boot stop")
        result = guest.boot(self.folder)["killed"]
        self.assertIn("This boot: was", result.out)
        self.assertIn("No recording of this boot is under way", result.error)


if __name__ == "__main__":
    run_tests()
