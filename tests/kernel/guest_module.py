"""plumb.ko for the guests of tests/kernel: what it takes to build it, and what the kernel says when it goes wrong."""
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from guest import KERNELS, SOURCE, Guest

ADMINISTRATORS = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"  # where programs are that not everybody has in PATH
BUILT = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "kmod"

# Behind a program that had a directory of the module's open: the module looks ten times a second for whether all is closed.
UNLOAD = """#!/bin/sh
for i in $(seq 100); do rmmod plumb 2>/dev/null && exit; sleep 0.1; done
rmmod plumb
"""
# The emulator's counter goes evenly; the kernel can not find that out for itself.
COUNTER = "tsc=reliable clocksource=tsc"


def why_not_built(version):
    if not (KERNELS / version / "headers").exists():
        return f"there are no headers of kernel {version}: run tools/get-kernels"
    missing = [program for program in ("make", "sparse", "pahole") if not shutil.which(program)]
    return f"there is no {', '.join(missing)}: run tools/setup" if missing else ""


def key_of(version):
    """What the module is built of: other sources, another one."""
    digest = hashlib.sha256(os.readlink(KERNELS / version / "headers").encode())
    for folder in ("kmod", "include"):
        for path in sorted((SOURCE / folder).rglob("*")):
            if path.is_file():
                digest.update(f"{path.relative_to(SOURCE)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def build_module(version):
    """plumb.ko for that kernel, and what compiler and sparse said. Tests of the same sources share one."""
    BUILT.mkdir(parents=True, exist_ok=True)
    with (BUILT / f"lock-{version}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = BUILT / f"{version}-{key_of(version)}"
        if not (folder / "said.json").exists():
            for old in BUILT.glob(f"{version}-*"):
                shutil.rmtree(old)
            shutil.copytree(SOURCE / "kmod", folder / "kmod")
            shutil.copytree(SOURCE / "include", folder / "include")
            done = subprocess.run(["make", "-s", "-C", KERNELS / version / "headers", f"M={folder}/kmod", "W=1", "C=2", "modules"],
                                  capture_output=True, text=True, check=False)
            (folder / "said.json").write_text(json.dumps([done.returncode, done.stdout + done.stderr]))
        return folder / "kmod/plumb.ko", *json.loads((folder / "said.json").read_text())


def guest_with_module(version, parameters=COUNTER):
    """With /plumb.ko, and `unload`, which takes it away; and what the compiler said of it."""
    module, status, said = build_module(version)
    if status != 0:
        raise RuntimeError(said)
    guest = Guest(version, parameters)
    guest.archive.add("/plumb.ko", module.read_bytes(), 0o100644)
    guest.archive.add("/bin/unload", UNLOAD.encode())
    return guest, said


def build_beside(version, folder, source, name):
    """A module that uses it, built in `folder`."""
    shutil.copytree(source, folder / name)
    plumb = build_module(version)[0].parent
    done = subprocess.run(["make", "-s", "-C", KERNELS / version / "headers", f"M={folder / name}", f"PLUMB={plumb}",
                           f"KBUILD_EXTRA_SYMBOLS={plumb}/Module.symvers", "W=1", "modules"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    return folder / name / f"plumb_{name}.ko"


def complaints(log):
    return [line for line in log.splitlines() if re.search(
        r"WARNING|BUG|Oops|general protection|Call Trace|plumb: no system call|leak|stall|[Cc]orrupt|Poison|Redzone", line)]
