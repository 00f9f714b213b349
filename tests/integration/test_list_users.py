#!/usr/bin/env python3
# cmake-once
"""Root's `plumb list` names the other users who have programs with tracepoints, and the command that reaches them."""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["PLUMB_SOURCE_DIR"]) / "tests/support"))
from traced_program import TracedProgramTest  # noqa: E402

PLUMB = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
USER = 65532  # nobody else's in these tests


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root")
class ListUsers(TracedProgramTest):
    PROGRAM = """
#include <plumb/tracepoint.h>
#include <stdio.h>
PLUMB_EVENT(users, step, (u64, number))
int main(void) {
    plumb_trace(users, step, 1);
    puts("there");
    fflush(stdout);
    return getchar() == 0;
}
"""

    def test_root_is_told_how_to_record_them(self):
        # A recorder of that user makes what the programs look for.
        copy = shutil.copy(PLUMB, self.folder / "plumb")
        as_user = ["setpriv", f"--reuid={USER}", "--clear-groups"]
        self.folder.chmod(0o777)
        subprocess.run([*as_user, copy, "record", "-q", "-o", self.folder / "first", "timeout", "9", "true"], timeout=60, check=True)
        with subprocess.Popen([*as_user, self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
            self.assertEqual(program.stdout.readline(), "there\n")
            listed = subprocess.run([PLUMB, "list"], capture_output=True, text=True, timeout=60, check=True).stdout
            program.stdin.close()
            program.wait(timeout=60)
        self.assertIn(f"    user {USER}: 1 program with tracepoints; `plumb record --user {USER}` records them\n", listed)


if __name__ == "__main__":
    unittest.main()
