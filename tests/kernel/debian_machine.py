"""A whole Debian 12 (tools/get-root) with Plumb in it, on a disk of a guest: what is recorded of its boot, and what is left in it.

    class Boot(DebianTests): ...          self.boot_settings("enable"), self.run_machine(initrd, "init=..."), self.events(said)
    run_debian_tests()                    of the kernel that is named on the command line"""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

from guest import ACCELERATOR, CPU, KERNELS, QEMU, libraries, run_tests
from guest_module import COUNTER

BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
VERSION = sys.argv[1] if len(sys.argv) > 1 else ""
DEBIAN = KERNELS / "root"
RESULT_BYTES = 64 << 20
BOOT_SECONDS = 250  # some 40 on an idle machine
# Loaded into init and all that it starts.
FIRST = r"""
#include <plumb/tracepoint.h>
#include <unistd.h>
PLUMB_EVENT(first, constructor, (u32, process))
__attribute__((constructor)) static void begin(void) { plumb_trace(first, constructor, (unsigned)getpid()); }
"""
# When the machine is up.
FINISH = """[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'exec >/dev/ttyS1 2>&1; echo "failed: $(systemctl --failed --no-legend)"; ls -d /sys/module/plumb; dmesg | grep "plumb-init: "; \\
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


class DebianTests(unittest.TestCase):
    HAS_BOOT_LOADER = False  # update-grub wants a disk that it knows

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.root = self.folder / "root"
        subprocess.run(["cp", "-a", DEBIAN, self.root], check=True)
        subprocess.run(["cmake", "--install", BUILD, "--prefix", self.root / "usr"], check=True, capture_output=True)
        make_library(self.folder, self.root / "usr")
        if not self.HAS_BOOT_LOADER:
            (self.root / "usr/sbin/update-grub").unlink(missing_ok=True)
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

    def run_machine(self, initrd, parameters):
        """What it said over its second line."""
        disk = self.folder / "disk"
        disk.unlink(missing_ok=True)
        subprocess.run(["/sbin/mke2fs", "-q", "-t", "ext4", "-d", self.root, disk, "1G"], check=True, capture_output=True)
        return self.run_from_disk(disk, "-kernel", KERNELS / VERSION / "vmlinuz", "-initrd", initrd, "-append",
                                  f"console=ttyS0 panic=-1 quiet {COUNTER} root=/dev/vda rw {parameters}")

    def run_from_disk(self, disk, *options):
        """Without more options, as its boot loader starts it."""
        results = self.folder / "results"
        with results.open("wb") as file:
            file.truncate(RESULT_BYTES)
        lines = [argument for name in ("console", "line") for argument in ("-serial", f"file:{self.folder / name}")]
        drives = [argument for file in (disk, results)
                  for argument in ("-drive", f"file={file},format=raw,if=virtio,cache=unsafe")]
        subprocess.run([QEMU, "-accel", ACCELERATOR, "-cpu", CPU, "-smp", "2", "-m", "1G", "-nodefaults", "-no-reboot", "-display", "none",
                        *lines, *drives, *options], check=True, timeout=BOOT_SECONDS)
        said = (self.folder / "line").read_text(errors="replace")
        self.assertIn("finished", said, (self.folder / "console").read_text(errors="replace")[-2000:])
        return said

    def events(self, said):
        """What babeltrace2 reads of the recording that a machine left which came up as ever; its summary, in which nothing is lost."""
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
        return [line for line in shown.stdout.splitlines() if "statedump" not in line], summary

    def check_begin(self, events):
        """The first event of a program is a constructor of process 1, and events of the kernel precede it."""
        first = next(at for at, line in enumerate(events) if "first:constructor" in line)
        self.assertIn("process = 1 }", events[first])
        self.assertTrue(any('filename = "/sbin/init"' in line for line in events[:first]), events[:first])
        self.assertTrue(any("sched_switch" in line for line in events[:first]), "no other event of the kernel before it")


def run_debian_tests(missing=""):
    needs_root = os.geteuid() != 0 or not (DEBIAN / "etc/debian_version").exists()
    run_tests("there is no Debian in build/kernels/root: run tools/get-root, as root" if needs_root else missing)
