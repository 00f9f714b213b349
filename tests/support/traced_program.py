"""Compiles a C program with tracepoints as its developer would: one object and the static library."""
import os
import subprocess
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()


def compile_traced(text, program):
    """`program`: where it goes; its source stays beside it."""
    source = Path(f"{program}.c")
    source.write_text(text)
    subprocess.run(["cc", "-O2", source, f"-I{SOURCE}/include", BUILD / "tp-async/CMakeFiles/tp-async.dir/tp-async.cc.o",
                    BUILD / "libtrace/libplumb.a", "-lpthread", "-o", program], check=True)
    return program
