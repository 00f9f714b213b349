#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-lock: boot
# cmake-kernel: 6.12
"""The kernel crashes while a program and the kernel trace at full speed, and another kernel, that kexec had put beside it,
boots and saves /proc/vmcore: as it is, and by makedumpfile. Of either, plumb extract makes a trace of every event that was
published, and of no other; of one without the page cache it says that it has none.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/kernel/test_kdump.py 6.12 [TEST...]"""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from crashed_machine import CRASH, CrashedMachine, add_what_crashes, published_in
from guest import KERNELS, Guest, run_tests
from guest_module import ADMINISTRATORS, COUNTER, why_not_built

VERSION = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else ""
KEXEC, MAKEDUMPFILE = (shutil.which(name, path=ADMINISTRATORS) for name in ("kexec", "makedumpfile"))
LOAD = """
kexec -p /crash/vmlinuz --initrd=/crash/initrd --append="console=ttyS0 panic=-1 quiet nr_cpus=1 reset_devices" || exit 1
[ $(cat /sys/kernel/kexec_crash_loaded) = 1 ]
"""
SAVE = """
stat -c %s /proc/vmcore >$RESULTS/bytes
cp /proc/vmcore /dev/vdb
"""
KEEPS_CHANNELS = 1 + 8 + 16  # all that makedumpfile's -d can leave out without them
WITHOUT_CACHE = (2, 4)
SAVE_COMPRESSED = f"makedumpfile -c -d {KEEPS_CHANNELS} /proc/vmcore $RESULTS/vmcore"


class Kdump(CrashedMachine):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        cls.dump = cls.folder / "vmcore"
        line = cls.folder / "line"
        saver = Guest(VERSION)
        saver.add(MAKEDUMPFILE, "/bin/makedumpfile")
        saver.step("plain", SAVE)
        saver.step("compressed", SAVE_COMPRESSED)
        saver.write_initrd(cls.folder / "initrd_of_saver", 100)
        guest = Guest(VERSION, f"{COUNTER} crashkernel=192M", second_line=line, memory="704M", second_disk=cls.dump)
        add_what_crashes(guest, VERSION, cls.folder)
        guest.add(KEXEC, "/bin/kexec")
        guest.archive.add("/crash/vmlinuz", (KERNELS / VERSION / "vmlinuz").read_bytes(), 0o100644)
        guest.archive.add("/crash/initrd", (cls.folder / "initrd_of_saver").read_bytes(), 0o100644)
        guest.step("load", LOAD)
        guest.step("crash", CRASH)
        cls.results = guest.boot(cls.folder, timeout=200, until=saver)
        cls.published = published_in(line.read_text())
        for name, step in cls.results.items():
            if step.status != 0:
                raise RuntimeError(f"{name}: {step.error or line.read_text()}")
        with cls.dump.open("r+b") as file:
            file.truncate(int((cls.results["plain"].folder / "bytes").read_text()))
        cls.compressed = cls.results["compressed"].folder / "vmcore"

    def test_every_published_event_is_there(self):
        numbers = [self.assert_all_is_there(name, dump) for name, dump in (("plain", self.dump), ("compressed", self.compressed))]
        self.assertTrue(numbers[0] == numbers[1])

    def test_the_kernels_events_are_beside_them(self):
        self.assert_the_kernels_events_are_beside_them("kernel", self.compressed)

    def test_without_the_page_cache_there_are_none(self):
        for level in WITHOUT_CACHE:
            dump = self.folder / f"level{level}"
            subprocess.run([MAKEDUMPFILE, "-c", "-d", str(KEEPS_CHANNELS + level), self.dump, dump], capture_output=True, check=True)
            done, trace = self.extract(f"of_level{level}", dump)
            self.assertEqual((done.returncode, trace.exists()), (1, False), done.stderr)
            self.assertIn(f"There is no channel in {dump}", done.stderr)
            self.assertIn("2 or 4 in its sum", done.stderr)


if __name__ == "__main__":
    missing = "" if KEXEC and MAKEDUMPFILE else "there is no kexec, or no makedumpfile: run tools/setup"
    run_tests(missing or (why_not_built(VERSION) if VERSION else ""))
