#!/usr/bin/env python3
# cmake-timeout: 600
# cmake-once
# cmake-lock: boot
# cmake-kernel: 6.12
"""plumb boot as on a machine that GRUB starts: `enable` runs update-initramfs and update-grub in a Debian on a partitioned disk, the
machine is started from that disk alone, and after `disable` its boot loader's configuration is, byte by byte, what it was.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_grub.py 6.12 [TEST...]"""
import difflib
import os
import shutil
import struct
import subprocess

from debian_machine import DEBIAN, VERSION, DebianTests, run_debian_tests
from guest import KERNELS
from guest_module import COUNTER

SECTOR = 512
FIRST_SECTOR = 2048  # of the one partition; GRUB's own image is in front of it
DISK_BYTES = 1 << 30
SETTINGS = f"""GRUB_TIMEOUT=0
GRUB_TERMINAL=serial
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX="console=ttyS0 panic=-1 {COUNTER}"
"""
# Where there are no nodes of them (in a chroot), too.
LOOP_DEVICES = """set -e
mount -t tmpfs tmpfs /dev
mknod /dev/loop-control c 10 237
for number in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do mknod /dev/loop$number b 7 $number; done
mknod -m 666 /dev/null c 1 3
"""
# update-grub asks for the root's device, by which the kernel shall find it: it has the name that it has on that machine. (Of a loop
# device's own name it says nothing.)
AS_ON_THAT_MACHINE = LOOP_DEVICES + """
root=$1 offset=$2
shift 2
loop=$(losetup --find --show --offset "$offset" "$root.disk")
trap 'umount -R "$root"; losetup --detach "$loop"' EXIT
mknod /dev/vda1 b 7 ${loop#/dev/loop}
mknod -m 666 /dev/zero c 1 5
mknod -m 666 /dev/urandom c 1 9
mkdir -p /dev/disk/by-uuid /dev/shm
ln -s /dev/vda1 "/dev/disk/by-uuid/$(blkid -s UUID -o value /dev/vda1)"
mount /dev/vda1 "$root"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
chroot "$root" "$@"
"""


class Grub(DebianTests):
    HAS_BOOT_LOADER = True

    def setUp(self):
        super().setUp()
        modules = (KERNELS / VERSION / "modules").resolve()
        self.release = modules.name
        shutil.copytree(modules, self.root / "lib/modules" / self.release, symlinks=True, ignore=shutil.ignore_patterns("build", "source"))
        subprocess.run(["chroot", self.root, "depmod", self.release], check=True)
        (self.root / "etc/initramfs-tools/conf.d/list").write_text("MODULES=list\n")
        (self.root / "etc/initramfs-tools/modules").write_text("virtio_pci\nvirtio_blk\next4\n")
        (self.root / "etc/default/grub").write_text(SETTINGS)
        (self.root / "etc/machine-id").write_text(f"{1:032x}\n")  # else its first boot writes one
        (self.root / "etc/fstab").write_text("/dev/vda1 / ext4 defaults 0 0\n")  # the kernel mounts it `ro`
        shutil.copy(next((KERNELS / VERSION).resolve().rglob("config-*")), self.root / "boot")
        shutil.copy(KERNELS / VERSION / "vmlinuz", self.root / f"boot/vmlinuz-{self.release}")
        self.disk, self.mounted = self.folder / "disk", self.folder / "mounted"
        self.mounted.mkdir()
        self.make_disk()

    def make_disk(self):
        """A partition with the system, and GRUB in front of it as `grub-install` has it there."""
        shutil.copytree(self.root / "usr/lib/grub/i386-pc", self.root / "boot/grub/i386-pc")
        with self.disk.open("wb") as file:
            file.truncate(DISK_BYTES)
        subprocess.run(["/sbin/mke2fs", "-q", "-t", "ext4", "-E", f"offset={FIRST_SECTOR * SECTOR}", "-d", self.root, self.disk,
                        f"{(DISK_BYTES - FIRST_SECTOR * SECTOR) >> 10}K"], check=True, capture_output=True)
        subprocess.run(["chroot", self.root, "grub-mkimage", "-O", "i386-pc", "-p", "(hd0,msdos1)/boot/grub", "-o", "/tmp/core.img",
                        "biosdisk", "part_msdos", "ext2", "normal", "search", "search_fs_uuid", "linux", "serial"], check=True)
        loader = bytearray((self.root / "usr/lib/grub/i386-pc/boot.img").read_bytes()[:SECTOR])
        partition = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", FIRST_SECTOR, DISK_BYTES // SECTOR - FIRST_SECTOR)
        loader[446:] = partition + bytes(48) + b"\x55\xaa"
        core = (self.root / "tmp/core.img").read_bytes()
        self.assertLess(len(core), (FIRST_SECTOR - 1) * SECTOR)
        with self.disk.open("r+b") as file:
            file.write(loader + core)
        (self.folder / "mounted.disk").symlink_to(self.disk)

    def there(self, *command):
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", AS_ON_THAT_MACHINE, "sh", self.mounted,
                               str(FIRST_SECTOR * SECTOR), *command], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def configuration(self):
        return self.there("sh", "-c", "cat /boot/grub/grub.cfg; cd /etc; find . -type f | LC_ALL=C sort | xargs sha256sum")

    def test_it_is_recorded_as_enabled_and_starts_as_ever_once_that_is_disabled(self):
        self.there("update-initramfs", "-c", "-k", self.release)
        self.there("update-grub")
        before = self.configuration()
        os.environ["PLUMB_PROBE_DIR"] = "/usr/lib/plumb"
        print(self.there("plumb", "boot", "enable", "--initramfs", "--preload", "first", "--", "-a", "-k", "sched:sched_switch", "-k",
                         "sched:sched_process_exec", "-e", "first:*"))
        self.assertTrue("init=/usr/lib/plumb/plumb-init" in self.configuration(), "update-grub was not run")
        events, _ = self.events(self.run_from_disk(self.disk))
        self.check_begin(events)
        self.there("plumb", "boot", "disable")
        self.assertEqual([line for line in difflib.unified_diff(before.splitlines(), self.configuration().splitlines())], [])


def why_not():
    if not (DEBIAN / "usr/lib/grub/i386-pc/boot.img").exists():
        return "there is no GRUB in it: run tools/get-root"
    has_loop_devices = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", f"{LOOP_DEVICES}losetup --find"],
                                      capture_output=True, check=False).returncode == 0
    return "" if has_loop_devices else "there are no loop devices, on which to make the disk"


if __name__ == "__main__":
    run_debian_tests(why_not())
