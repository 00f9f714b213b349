#!/usr/bin/env python3
# cmake-timeout: 700
# cmake-once
# cmake-lock: boot
"""plumb boot --module --initramfs: Debian's own initramfs (initramfs-tools) loads plumb.ko and begins the recording, which goes with
the machine to its real root; systemd is recorded from its first constructor on, by plumb.ko's directories.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_initramfs.py 6.12 [TEST...]"""
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from debian_machine import DEBIAN, VERSION, DebianTests, run_debian_tests, what_is_there
from guest import KERNELS
from guest_module import build_module, why_not_built

# What a machine with such disks needs; all that there is would be much.
SETTINGS = "MODULES=list\n"
NEEDED = "virtio_pci\nvirtio_blk\next4\n"


class Initramfs(DebianTests):
    @classmethod
    def setUpClass(cls):
        """The module and the kernel's others, of which mkinitramfs takes what is needed."""
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        folder = Path(temporary.name)
        module, status, said = build_module(VERSION)
        if status != 0:
            raise RuntimeError(said)
        modules = (KERNELS / VERSION / "modules").resolve()
        cls.release, cls.modules = modules.name, folder / modules.name
        shutil.copytree(modules, cls.modules, symlinks=True, ignore=shutil.ignore_patterns("build", "source"))
        (cls.modules / "updates").mkdir()
        shutil.copy(module, cls.modules / "updates")

    def setUp(self):
        super().setUp()
        shutil.copytree(self.modules, self.root / "lib/modules" / self.release, symlinks=True)
        subprocess.run(["chroot", self.root, "depmod", self.release], check=True)
        (self.root / "etc/initramfs-tools/conf.d/list").write_text(SETTINGS)
        (self.root / "etc/initramfs-tools/modules").write_text(NEEDED)
        shutil.copy(next((KERNELS / VERSION).resolve().rglob("config-*")), self.root / "boot")

    def initramfs(self):
        """As `update-initramfs` would make it for this kernel."""
        subprocess.run(["chroot", self.root, "mkinitramfs", "-o", "/tmp/initrd", self.release], check=True, capture_output=True)
        return (self.root / "tmp/initrd").rename(self.folder / "initrd")

    def test_it_is_recorded_from_the_initramfs_on(self):
        before = what_is_there(self.root)
        os.environ["PLUMB_PROBE_DIR"] = "/usr/lib/plumb"
        init = re.search(r"init=(\S+)", self.boot_settings("enable", "--module", "--initramfs", "--preload", "first", "--", "-a", "-k",
                                                           "sched:sched_process_exec", "-e", "first:*"))[1]
        said = self.run_machine(self.initramfs(), f'init={init} plumb.rules="-k sched:sched_switch"')
        events, summary = self.events(said)
        executed = [re.search(r'filename = "([^"]*)"', line)[1] for line in events if "sched_process_exec" in line]
        # The initramfs' own programs, before the machine's init and its first constructor.
        self.assertIn("/sbin/init", executed)
        self.assertTrue(any("run-init" in name for name in executed[:executed.index("/sbin/init")]), executed[:40])
        self.check_begin(events)
        self.assertIn("/sys/module/plumb", said)
        self.assertIn("/usr/lib/systemd/systemd-modules-load", {process["executable"] for process in summary["processes"]})
        self.boot_settings("disable")
        self.assertEqual(what_is_there(self.root), before)

    def test_it_comes_up_where_module_and_plumb_were_removed(self):
        init = re.search(r"init=(\S+)", self.boot_settings("enable", "--module", "--initramfs"))[1]
        (self.root / "usr/bin/plumb").unlink()
        (self.root / "lib/modules" / self.release / "updates/plumb.ko").unlink()
        subprocess.run(["chroot", self.root, "depmod", self.release], check=True)
        said = self.run_machine(self.initramfs(), f"init={init}")
        self.assertRegex(said, r"(?m)^failed: \r?$")
        self.assertIn("the recording goes without plumb.ko", said)
        self.assertIn("plumb-init: could not run /usr/bin/plumb", said)


if __name__ == "__main__":
    has_tools = (DEBIAN / "usr/share/initramfs-tools/hook-functions").exists()
    run_debian_tests(why_not_built(VERSION) if has_tools else "there is no initramfs-tools in it: run tools/get-root")
