"""What measurements in a guest have in common: plumb.ko is built, and a program runs in there beside it."""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent


def arguments(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("--build", type=Path, default=SOURCE / "build/dev")
    return parser.parse_args()


def measured(options, program, script, names, rounds):
    """`program`: the source of /bin/loop; the script says "NAME NUMBER" for each name, in each round. By name, the numbers."""
    os.environ["PLUMB_SOURCE_DIR"], os.environ["PLUMB_BUILD_DIR"] = str(SOURCE), str(options.build)
    sys.path.insert(0, str(SOURCE / "tests/kernel"))
    from guest import Guest
    from guest_module import COUNTER, build_module

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        module, status, said = build_module(options.version, folder)
        if status != 0:
            sys.exit(said)
        (folder / "loop.c").write_text(program)
        subprocess.run(["gcc", "-O2", f"-I{SOURCE}/include", folder / "loop.c", "-o", folder / "loop"], check=True)
        guest = Guest(options.version, COUNTER)
        guest.archive.add("/plumb.ko", module.read_bytes(), 0o100644)
        guest.add(options.build / "cli/plumb", "/bin/plumb")
        guest.add(folder / "loop", "/bin/loop")
        guest.step("bench", script)
        result = guest.boot(folder)["bench"]
    found = {name: [float(value) for value in re.findall(rf"^{name} ([\d.]+)$", result.out, re.M)] for name in names}
    if any(len(values) != rounds for values in found.values()):
        sys.exit(result.out + result.error)
    return found
