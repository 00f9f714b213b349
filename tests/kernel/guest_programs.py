"""Puts into a guest what the workloads of syscall_workloads.py run: a C compiler, make, git, sqlite3."""
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

PROGRAMS = ("cc", "make", "git", "sqlite3")
OF_COMPILER = ("cc1", "collect2", "as", "ld")
LINKED_BY_COMPILER = ("crt1.o", "Scrt1.o", "crti.o", "crtn.o", "crtbegin.o", "crtbeginS.o", "crtend.o", "crtendS.o",
                      "libc.so", "libc_nonshared.a", "libc.so.6", "ld-linux-x86-64.so.2", "libgcc.a", "libgcc_s.so",
                      "libgcc_s.so.1", "liblto_plugin.so")


def why_not_programs():
    """What is missing for it; an empty text if nothing is."""
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    return f"there is no {', '.join(missing)}: run tools/setup" if missing else ""


def said_by_compiler(*arguments):
    return subprocess.run(["cc", *arguments], capture_output=True, text=True, check=True).stdout


def headers_of(source):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "source.c"
        file.write_text(source)
        return [name for name in re.split(r"[\s\\]+", said_by_compiler("-M", "-O1", file)) if name.endswith(".h")]


def add_programs(guest):
    for program in PROGRAMS:
        guest.add(shutil.which(program), f"/usr/bin/{program}")
    for program in OF_COMPILER:
        path = shutil.which(said_by_compiler(f"-print-prog-name={program}").strip())
        guest.add(path, Path(path).parent.resolve() / program)
    files = [said_by_compiler(f"-print-file-name={name}").strip() for name in LINKED_BY_COMPILER]
    for file in filter(Path.is_absolute, map(Path, [*files, *headers_of("#include <stdio.h>")])):
        guest.copy(file)
