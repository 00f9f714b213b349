#!/usr/bin/env python3
# cmake-once
"""A program that nobody may look at, as ssh-agent, has no signal from a recorder of its user: it may be no program with tracepoints."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
USER = 65534
AS_USER = ["setpriv", f"--reuid={USER}", "--clear-groups"]


class Strangers(unittest.TestCase):
    # Its mappings may not be seen, and it has a handler for the update signal.
    PROGRAM = r"""
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
static volatile sig_atomic_t heard;
static void hear(int number) { (void)number; heard++; }
int main(void) {
    struct sigaction action = {.sa_handler = hear};
    sigaction(SIGWINCH, &action, 0);
    sigaction(SIGURG, &action, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {}
    printf("%d\n", (int)heard);
    return 0;
}
"""

    def setUp(self):
        # Where everybody may enter: the build folder may be root's alone.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-strangers-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.folder.chmod(0o755)
        shutil.copy(BUILD / "cli/plumb", self.folder)

    def test_a_program_that_may_not_be_looked_at_gets_no_signal(self):
        source, program = self.folder / "stranger.c", self.folder / "stranger"
        source.write_text(self.PROGRAM)
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-o", program, source], check=True)
        with subprocess.Popen([*AS_USER, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stranger:
            self.assertEqual(stranger.stdout.readline(), "ready\n")
            with tempfile.TemporaryDirectory(prefix="plumb-stranger-") as directory:
                os.chown(directory, USER, USER)
                done = subprocess.run([*AS_USER, self.folder / "plumb", "record", "-o", f"{directory}/trace", "--duration", "500ms"],
                                      capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(stranger.communicate(timeout=60)[0], "0\n")


if __name__ == "__main__":
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        sys.exit(77)
    unittest.main()
