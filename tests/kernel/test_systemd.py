#!/usr/bin/env python3
# cmake-timeout: 500
# cmake-once
# cmake-lock: boot
"""plumb boot with Debian's own init: a whole Debian 12 (tools/get-root) on a disk, whose systemd is recorded from the first
constructor in it on, by a stock kernel; it comes up as ever, also where plumb is missing, and is as it was when that is disabled.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_systemd.py 6.12 [TEST...]"""
import os
import re
import shutil
import unittest
from pathlib import Path

from debian_machine import VERSION, DebianTests, run_debian_tests, what_is_there
from guest import Archive, Modules, libraries

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


class Systemd(DebianTests):
    def initramfs(self):
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
        archive.write(self.folder / "initrd")
        return self.folder / "initrd"

    def test_it_is_recorded_from_its_first_constructor(self):
        before = what_is_there(self.root)
        os.environ["PLUMB_PROBE_DIR"] = "/usr/lib/plumb"
        init = re.search(r"init=(\S+)", self.boot_settings("enable", "--preload", "first", "--", "-a", "-k", "sched:sched_switch", "-k",
                                                           "sched:sched_process_exec", "-e", "first:*"))[1]
        said = self.run_machine(self.initramfs(), f"init={init}")
        events, summary = self.events(said)
        self.check_begin(events)
        programs = {process["executable"] for process in summary["processes"]}
        # Services, too, but for those with seccomp filters.
        self.assertIn("/usr/lib/systemd/systemd-modules-load", programs)
        self.assertGreater(sum("first:constructor" in line for line in events), 20)
        self.boot_settings("disable")
        self.assertEqual(what_is_there(self.root), before)

    def test_it_comes_up_without_plumb(self):
        init = re.search(r"init=(\S+)", self.boot_settings("enable"))[1]
        (self.root / "usr/bin/plumb").unlink()
        said = self.run_machine(self.initramfs(), f"init={init}")
        self.assertRegex(said, r"(?m)^failed: \r?$")
        self.assertIn("plumb-init: could not run /usr/bin/plumb", said)


if __name__ == "__main__":
    run_debian_tests()
