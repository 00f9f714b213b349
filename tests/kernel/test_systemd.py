#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-lock: boot
# cmake-cost: 60
"""plumb boot with Debian's own init: a whole Debian 12 (tools/get-root) on a disk, whose systemd is recorded from the first
constructor in it on, by a stock kernel; it comes up as ever, also where plumb is missing, and is as it was when that is disabled.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_systemd.py 6.12 [TEST...]"""
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

from guest import ACCELERATOR, CPU, KERNELS, QEMU, Archive, Modules, libraries, run_tests
from guest_module import COUNTER

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
VERSION = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else ""
DEBIAN = KERNELS / "root"
RESULT_BYTES = 64 << 20
# Loaded into init and all that it starts.
FIRST = r"""
#include <plumb/tracepoint.h>
#include <unistd.h>
PLUMB_EVENT(first, constructor, (u32, process))
__attribute__((constructor)) static void begin(void) { plumb_trace(first, constructor, (unsigned)getpid()); }
"""
# What an initramfs of Debian's does: the root, and what is mounted by then goes there.
INITRAMFS = """#!/bin/busybox sh
busybox() { /bin/busybox "$@"; }
busybox mkdir -p /proc /sys /dev /root /run
busybox mount -t devtmpfs dev /dev -o nosuid,mode=0755
busybox mount -t proc proc /proc -o nodev,noexec,nosuid
busybox mount -t sysfs sysfs /sys -o nodev,noexec,nosuid
busybox mount -t tmpfs tmpfs /run -o nodev,noexec,nosuid,mode=0755
for module in MODULES; do busybox insmod /modules/$module; done
until busybox mount -t ext4 /dev/vda /root 2>/dev/null; do busybox sleep 0.1; done
init=/sbin/init
for word in $(busybox cat /proc/cmdline); do case $word in init=*) init=${word#init=};; esac; done
for place in run sys proc dev; do busybox mount -o move /$place /root/$place; done
exec /bin/busybox switch_root /root $init
"""
# When the machine is up.
FINISH = """[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'exec >/dev/ttyS1 2>&1; echo "failed: $(systemctl --failed --no-legend)"; dmesg | grep "plumb-init: "; \\
    plumb boot status; plumb boot stop; plumb boot status; tar -C /run/plumb-boot -cf /dev/vdb .; echo finished; \\
    systemctl poweroff --force --force'
"""


def what_is_there(root):
    """Of a system's settings, and of what is installed."""
    found = {}
    for folder in ("etc", "usr/sbin", "usr/lib/systemd"):
        for path in sorted((root / folder).rglob("*")):
            state = path.lstat()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""
            found[str(path.relative_to(root))] = (state.st_mode, content)
    return found


def make_library(folder, installed):
    """By what is installed, as somebody who makes a probe does."""
    source, library = folder / "first.c", installed / "lib/plumb/libplumb-first.so"
    source.write_text(FIRST)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", f"-I{installed}/include", source, installed / "lib/plumb/tp-async-lib.o", "-o", library,
                    f"-L{installed}/lib", "-lplumb"], check=True)


class Systemd(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.root = self.folder / "root"
        subprocess.run(["cp", "-a", DEBIAN, self.root], check=True)
        subprocess.run(["cmake", "--install", BUILD, "--prefix", self.root / "usr"], check=True, capture_output=True)
        make_library(self.folder, self.root / "usr")
        for library in libraries(BUILD / "cli/plumb"):
            there = self.root / library[1:]
            if not there.exists():
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(Path(library).resolve(), there)
        service = self.root / "etc/systemd/system/finish.service"
        service.write_text(FINISH)
        wants = service.parent / "multi-user.target.wants"
        wants.mkdir(exist_ok=True)
        (wants / service.name).symlink_to(f"../{service.name}")
        (self.root / "etc/machine-id").write_text("")

    def boot_settings(self, *words):
        """`plumb boot`, in that system."""
        return subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c",
                               "mount -t proc proc $0/proc && mount -t sysfs sysfs $0/sys && mount -t tmpfs tmpfs $0/dev/shm && "
                               "exec chroot $0 plumb boot \"$@\"", self.root, *words], capture_output=True, text=True, check=True).stdout

    def run_machine(self, init):
        """What it said over its second line."""
        disk, results, initrd = (self.folder / name for name in ("disk", "results", "initrd"))
        disk.unlink(missing_ok=True)
        subprocess.run(["/sbin/mke2fs", "-q", "-t", "ext4", "-d", self.root, disk, "1G"], check=True, capture_output=True)
        archive, loaded, every = Archive(), {}, Modules(VERSION)
        archive.console()
        for name in ("virtio_pci", "virtio_blk", "ext4"):
            every.load(name, loaded)
        for name, data in loaded.items():
            archive.add(f"/modules/{name}", data, 0o100644)
        busybox = shutil.which("busybox")
        for file in (busybox, *libraries(busybox)):
            archive.add("/bin/busybox" if file == busybox else file, Path(file).resolve().read_bytes())
        archive.add("/init", INITRAMFS.replace("MODULES", " ".join(loaded)).encode())
        archive.write(initrd)
        with results.open("wb") as file:
            file.truncate(RESULT_BYTES)
        lines = [argument for name in ("console", "line") for argument in ("-serial", f"file:{self.folder / name}")]
        drives = [argument for file in (disk, results)
                  for argument in ("-drive", f"file={file},format=raw,if=virtio,cache=unsafe")]
        subprocess.run([QEMU, "-accel", ACCELERATOR, "-cpu", CPU, "-smp", "2", "-m", "1G", "-nodefaults", "-no-reboot", "-display", "none",
                        *lines, "-kernel", KERNELS / VERSION / "vmlinuz", "-initrd", initrd, *drives, "-append",
                        f"console=ttyS0 panic=-1 quiet {COUNTER} root=/dev/vda rw init={init}"], check=True, timeout=120)
        said = (self.folder / "line").read_text(errors="replace")
        self.assertIn("finished", said, (self.folder / "console").read_text(errors="replace")[-2000:])
        return said

    def test_it_is_recorded_from_its_first_constructor(self):
        before = what_is_there(self.root)
        os.environ["PLUMB_PROBE_DIR"] = "/usr/lib/plumb"
        init = re.search(r"init=(\S+)", self.boot_settings("enable", "--preload", "first", "--", "-a", "-k", "sched:sched_switch", "-k",
                                                           "sched:sched_process_exec", "-e", "first:*"))[1]
        said = self.run_machine(init)
        print(said)
        self.assertRegex(said, r"(?m)^failed: \r?$")
        self.assertNotIn("plumb-init: ", said)
        self.assertIn("This boot: is being recorded", said)
        self.assertIn("This boot: was recorded", said)
        with tarfile.open(self.folder / "results") as results:
            results.extractall(self.folder / "recorded")
        trace = self.folder / "recorded/trace"
        summary = json.loads((trace / "summary.json").read_text())
        self.assertEqual((summary["events_lost"], summary["subbufs_lost"], summary["problems"]), (0, 0, []))
        shown = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        events = [line for line in shown.stdout.splitlines() if "statedump" not in line]
        first = next(at for at, line in enumerate(events) if "first:constructor" in line)
        self.assertIn("process = 1 }", events[first])
        self.assertTrue(any("sched_switch" in line for line in events[:first]), "no event of the kernel before it")
        self.assertTrue(any('filename = "/sbin/init"' in line for line in events[:first]), events[:first])
        programs = {process["executable"] for process in summary["processes"]}
        # Services, too, but for those with seccomp filters.
        self.assertIn("/usr/lib/systemd/systemd-modules-load", programs)
        self.assertGreater(sum("first:constructor" in line for line in events), 20)
        self.boot_settings("disable")
        self.assertEqual(what_is_there(self.root), before)

    def test_it_comes_up_without_plumb(self):
        init = re.search(r"init=(\S+)", self.boot_settings("enable"))[1]
        (self.root / "usr/bin/plumb").unlink()
        said = self.run_machine(init)
        self.assertRegex(said, r"(?m)^failed: \r?$")
        self.assertIn("plumb-init: could not run /usr/bin/plumb", said)


if __name__ == "__main__":
    needs_root = os.geteuid() != 0 or not (DEBIAN / "etc/debian_version").exists()
    run_tests("there is no Debian in build/kernels/root: run tools/get-root, as root" if needs_root else "")
