"""Runs commands on a stock kernel under QEMU, in software emulation, and brings back what they said and wrote.

    guest = Guest("6.1")                      # of build/kernels; why_not("6.1") says what is missing
    guest.add(BUILD / "cli/plumb", "/bin/plumb")
    guest.step("doctor", "plumb doctor --json > $RESULTS/doctor.json")
    results = guest.boot(folder)              # results["doctor"].status, .out, .error, .folder

The guest is an initial RAM disk: busybox, the programs with the shared libraries they need, and the few modules
without which it has no disk. Steps are scripts; they run one after the other, each for a limited time, and leave
files in $RESULTS. At the end all of that goes as one tar archive onto a raw disk, which the host reads: no file
system, no network, nothing that needs root on the host."""
import contextlib
import json
import lzma
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
KERNELS = SOURCE / "build/kernels"
QEMU = "qemu-system-x86_64"
# One thread runs both processors in turns. With two, a processor may meet a breakpoint that the other has put into the
# code, and taken out again, to switch a tracepoint: the emulation is late to see the change, and the kernel panics.
ACCELERATOR = "tcg,thread=single"
# Without cmpxchg16b: if it has no lock prefix, QEMU 7.2 leaves wrong flags behind it, and Linux 6.12 uses it so.
CPU = "qemu64,-cx16"
DISK_BYTES = 512 << 20  # sparse
FINISHED = "guest: all steps done"

INIT = f"""#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /sbin /usr/bin /usr/sbin /results
/bin/busybox --install -s
[ -e /proc/mounts ] || mount -t proc proc /proc
is_mounted() {{ grep -q " $1 " /proc/mounts; }}
is_mounted /sys || mount -t sysfs sysfs /sys
is_mounted /dev || mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm
is_mounted /dev/shm || mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs tmpfs /results
export HOME=/ LC_ALL=C.UTF-8
while read module; do insmod /modules/$module || echo "guest: no module $module"; done </modules/order
for step in /steps/*; do
    name=${{step##*/[0-9][0-9]_}}
    export RESULTS=/results/$name
    mkdir $RESULTS
    read before rest </proc/uptime
    timeout -s KILL $(cat /step_seconds) sh $step >$RESULTS/out 2>$RESULTS/error
    echo $? >$RESULTS/status
    read after rest </proc/uptime
    echo "guest: $name $before $after"
done
tar -cf /dev/vda -C /results . && echo "{FINISHED}"
poweroff -f
"""


def take_precedence():
    """A guest keeps one processor busy for a minute, and its clock goes on while others have that. As root alone."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -5)


def why_not(version):
    """What is missing for booting it; an empty text if nothing is."""
    if not (KERNELS / version / "package").exists():
        return f"there is no kernel {version}: run tools/get-kernels"
    for program in (QEMU, "busybox"):
        if not shutil.which(program):
            return f"there is no {program}: run tools/setup"
    if subprocess.run(["busybox", "insmod", "--help"], capture_output=True, check=False).returncode != 0:
        return "this busybox can not load modules: run tools/setup"
    return ""


def run_tests(missing=""):
    """Of a test of tests/kernel, `test_NAME.py VERSION [TEST...]`; `missing`: what it needs beyond a guest."""
    missing = (why_not(sys.argv[1]) if len(sys.argv) > 1 else "no kernel was named, of those in tools/kernels.txt") or missing
    if missing:
        print(missing)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])


class Archive:
    """A cpio archive of the form that the kernel unpacks ("newc")."""

    def __init__(self):
        self.bytes = bytearray()
        self.known = set()

    def _put(self, name, mode, data, device=(0, 0)):
        encoded = name.encode() + b"\0"
        numbers = (len(self.known), mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0)
        self.bytes += b"070701" + b"".join(b"%08x" % number for number in numbers) + encoded
        self.bytes += bytes(-len(self.bytes) % 4) + data
        self.bytes += bytes(-len(self.bytes) % 4)

    def add(self, path, data, mode=0o100755):
        """A file, and the directories above it; `path` is absolute."""
        path = Path(path)
        if path in self.known:
            return
        for folder in list(path.parents)[-2::-1]:
            if folder not in self.known:
                self.known.add(folder)
                self._put(str(folder)[1:], 0o040755, b"")
        self.known.add(path)
        self._put(str(path)[1:], mode, data)

    def console(self):
        """What init writes to before there is a /dev."""
        self._put("dev", 0o040755, b"")
        self._put("dev/console", 0o020600, b"", (5, 1))

    def write(self, file):
        self._put("TRAILER!!!", 0, b"")
        file.write_bytes(self.bytes)


def libraries(program):
    """Of a dynamic executable: the shared libraries and the loader; of a static one nothing."""
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    if "not found" in done.stdout:
        raise RuntimeError(f"{program}: {done.stdout}")
    return re.findall(r"(?:=>\s+|^\s+)(/\S+) \(0x", done.stdout, re.M)


def without_debug_information(program):
    """What the guest needs of it: less to load."""
    with tempfile.TemporaryDirectory() as folder:
        stripped = Path(folder) / "stripped"
        subprocess.run(["strip", "--strip-debug", program, "-o", stripped], check=True)
        return stripped.read_bytes()


class Modules:
    """The modules of a kernel by name. Debian makes the list of what needs what when it installs a kernel; these are
    not installed, so it is read from the modules."""

    def __init__(self, version):
        folder = KERNELS / version / "modules"
        self.files = {self._name(file): file for file in folder.resolve().rglob("*.ko*")}
        self.built_in = {self._name(Path(line)) for line in (folder / "modules.builtin").read_text().split()}

    @staticmethod
    def _name(file):
        return file.name.split(".")[0].replace("-", "_")

    def load(self, name, loaded):
        """Adds {name: bytes} to `loaded`: first what it needs, then itself."""
        if name in self.built_in or name in loaded:
            return
        data = self.files[name].read_bytes()
        if self.files[name].suffix == ".xz":
            data = lzma.decompress(data)
        for needed in re.search(rb"\0depends=([^\0]*)", data)[1].decode().split(","):
            if needed:
                self.load(needed, loaded)
        loaded[name] = data


class StepResult:
    """Of one step: status (None if it did not get so far), out, error, and the folder with the files it left."""

    def __init__(self, folder):
        self.folder = folder
        self.out, self.error = (self._text(name) for name in ("out", "error"))
        self.status = int(self._text("status") or -1) if folder.exists() else None

    def _text(self, name):
        file = self.folder / name
        return file.read_text(errors="replace") if file.exists() else ""


class GuestTests(unittest.TestCase):
    """Of one guest, which is booted once for all of them: boot(folder), of the class, says what came of its steps."""
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.results = cls.boot(Path(temporary.name))

    def passed(self, name):
        """The step's result."""
        result = self.results[name]
        self.assertEqual(result.status, 0, f"{name}:\n{result.out}{result.error}")
        return result

    def left_by(self, name):
        """The folder with what the step left, which passed."""
        return self.passed(name).folder


class Guest:
    def __init__(self, version, parameters="", modules=(), processors=2, second_line=None, memory="1G", second_disk=None):
        """`parameters`: for the kernel's command line; `modules`: beside those that the disk needs; `second_line`: a file
        that gets what the guest sends over /dev/ttyS1; `second_disk`: one that is /dev/vdb."""
        self.processors = processors
        self.memory = memory
        self.more = ["-serial", f"file:{second_line}"] if second_line else []
        self.second_disk = second_disk
        self.kernel = KERNELS / version / "vmlinuz"
        self.parameters = parameters
        self.archive = Archive()
        self.steps = []
        self.archive.console()
        self.add(shutil.which("busybox"), "/bin/busybox")
        self.archive.add("/init", INIT.encode())
        loaded = {}
        every = Modules(version)
        for name in ("virtio_pci", "virtio_blk", *modules):
            every.load(name, loaded)
        for name, data in loaded.items():
            self.archive.add(f"/modules/{name}", data, 0o100644)
        self.archive.add("/modules/order", "".join(f"{name}\n" for name in loaded).encode(), 0o100644)

    def add(self, program, path):
        """A program of the host, with its libraries."""
        self.archive.add(path, without_debug_information(program))
        for library in libraries(program):
            self.archive.add(library, Path(library).resolve().read_bytes())

    def copy(self, file):
        """A file of the host, where it is here, and where it is by the links to it."""
        data = Path(file).read_bytes()
        for path in {os.path.normpath(file), os.path.realpath(file)}:
            self.archive.add(path, data, 0o100755)

    def step(self, name, script):
        self.steps.append(name)
        self.archive.add(f"/steps/{len(self.steps):02}_{name}", script.encode())

    def write_initrd(self, file, step_seconds):
        self.archive.add("/step_seconds", str(step_seconds).encode())
        self.archive.write(file)

    def command(self, folder, step_seconds):
        """That of the emulator, with all that the guest needs in `folder`."""
        self.write_initrd(folder / "initrd", step_seconds)
        disks = []
        for path in filter(None, (folder / "disk", self.second_disk)):
            with path.open("wb") as file:
                file.truncate(DISK_BYTES if path != self.second_disk else 2 * DISK_BYTES)
            disks += ["-drive", f"file={path},format=raw,if=virtio,cache=unsafe"]
        return [QEMU, "-accel", ACCELERATOR, "-cpu", CPU, "-smp", str(self.processors), "-m", self.memory, "-nodefaults",
                "-no-reboot", "-display", "none", "-serial", f"file:{folder / 'console'}", *self.more, "-kernel", self.kernel,
                "-initrd", folder / "initrd", *disks, "-append", f"console=ttyS0 panic=-1 quiet {self.parameters}"]

    def boot(self, folder, timeout=550, step_seconds=200, until=None):
        """Runs all steps; {name: StepResult}. `folder`: where everything goes. `until`: the guest that this one becomes when its
        kernel crashes; the steps are that one's then."""
        disk, console = folder / "disk", folder / "console"
        start = time.monotonic()
        command = self.command(folder, step_seconds)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False,
                                  preexec_fn=take_precedence)
            error = done.stderr
        except subprocess.TimeoutExpired:
            error = f"it did not end within {timeout} s"
        said = console.read_text(errors="replace") if console.exists() else ""
        if FINISHED not in said:
            raise RuntimeError(f"the guest did not come to its end: {error}\n{said[-4000:]}")
        for name, before, after in re.findall(r"guest: (\S+) ([\d.]+) ([\d.]+)", said):
            print(f"{name}: {float(after) - float(before):.1f} s from second {before} on")
        print(f"the guest ran for {time.monotonic() - start:.1f} s")
        with tarfile.open(disk) as results:
            results.extractall(folder / "results")
        disk.unlink()
        return {name: StepResult(folder / "results" / name) for name in (until or self).steps}

    def boot_to_panic(self, folder, dumps, timeout=200):
        """Runs the steps, one of which is to crash the kernel; the parameters have panic=0. Then QEMU writes the guest's memory
        to `dumps`, {format: file}."""
        console, control = folder / "console", folder / "control"
        emulator = subprocess.Popen([*self.command(folder, timeout), "-qmp", f"unix:{control},server=on,wait=off"],
                                    preexec_fn=take_precedence)
        try:
            end = time.monotonic() + timeout
            while not console.exists() or b"Kernel panic" not in console.read_bytes():
                if time.monotonic() > end or emulator.poll() is not None:
                    raise RuntimeError(f"the kernel did not crash:\n{console.read_text(errors='replace')[-4000:]}")
                time.sleep(0.2)
            time.sleep(1)  # the other processors have stopped
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(str(control))
                line.settimeout(timeout)
                answers = line.makefile("r")
                for command in ({"execute": "qmp_capabilities"},
                                *({"execute": "dump-guest-memory",
                                   "arguments": {"paging": False, "protocol": f"file:{dump}", "format": kind}}
                                  for kind, dump in dumps.items())):
                    line.sendall(json.dumps(command).encode())
                    for answer in answers:
                        if '"error"' in answer:
                            raise RuntimeError(answer)
                        if '"return"' in answer:
                            break
        finally:
            emulator.kill()
            emulator.wait()
            (folder / "disk").unlink()
