#!/usr/bin/env python3
# cmake-once
"""Files that the runtime opens while a program runs leave the low descriptors to the program, which may count on them."""
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import traced_program  # noqa: E402

PLUMB = traced_program.BUILD / "cli" / "plumb"
CALL = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+)")
FIRST_OF_OURS = 48  # of the 64 that a table begins with


class Descriptors(traced_program.TracedProgramTest):
    PROGRAM = """
    #include <plumb/tracepoint.h>
    #include <stdio.h>
    #include <unistd.h>
    PLUMB_EVENT(descriptors, tick, (u64, count))
    int main(void) {
        printf("%d\\n", (int)getpid());
        fflush(stdout);
        for (unsigned long i = 0;; i++) {
            plumb_trace(descriptors, tick, i);
            usleep(1000);
        }
    }
    """

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_the_lowest_numbers_stay_free(self):
        log = self.folder / "log"
        tracer = subprocess.Popen(["strace", "-o", log, "-f", "-e", "trace=openat,fcntl,close,write", self.program],
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(tracer.wait)
        self.addCleanup(tracer.kill)
        self.addCleanup(tracer.stdout.close)
        process_id = tracer.stdout.readline().strip()
        subprocess.run([PLUMB, "record", "-q", "-p", process_id, "--duration", "0.3", "-o", self.trace], check=True, timeout=60)
        subprocess.run(["kill", process_id], check=True)
        tracer.wait(timeout=30)
        calls = [match.groups() for match in map(CALL.match, log.read_text().splitlines()) if match]
        calls = calls[[name for _, name, _, _ in calls].index("write"):]
        opened = 0
        for at, (thread, name, arguments, number) in enumerate(calls):
            if name != "openat" or not re.search("channel-|maps", arguments):
                continue
            opened += 1
            then = [call for call in calls[at + 1:] if call[0] == thread][:3]
            self.assertEqual(then[0][1:3], ("fcntl", f"{number}, F_DUPFD_CLOEXEC, {FIRST_OF_OURS}"), calls)
            self.assertEqual(then[1][1:3], ("close", number), calls)
            self.assertIn((thread, "close", then[0][3], "0"), calls[at:])
        self.assertGreaterEqual(opened, 2)

    def test_a_program_without_the_standard_ones_is_recorded(self):
        """What the runtime opens first has number 0 then."""
        program = traced_program.compile_traced(self.PROGRAM.replace("for (unsigned long i = 0;;", "for (unsigned long i = 0; i < 5;"),
                                                self.folder / "brief")
        subprocess.run([PLUMB, "record", "-q", "-o", self.trace, "--", "sh", "-c", f"exec {program} <&- >&- 2>&-"], check=True,
                       timeout=60)
        shown = subprocess.run([PLUMB, "view", self.trace], capture_output=True, text=True, check=True, timeout=60)
        self.assertEqual(shown.stdout.count("descriptors:tick"), 5, shown)


if __name__ == "__main__":
    unittest.main()
