#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
# cmake-lock: lttng
"""LTTng-UST's helper libraries beside the probe."""
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from lttng_program import PROGRAMS, LttngProgramTest, SessionDaemon, leave_out_if_not_built, program_counts  # noqa: E402


def helpers():
    """LTTng's own helper libraries, as the loader finds them."""
    names = ("libc-wrapper", "pthread-wrapper", "dl", "cyg-profile", "cyg-profile-fast", "fork", "fd")
    known = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True,
                           env=dict(os.environ, PATH=os.environ["PATH"] + ":/sbin:/usr/sbin")).stdout
    found = {name: re.search(rf"liblttng-ust-{name}\.so\.1 .*=> (\S+)", known) for name in names}
    return {name: match.group(1) for name, match in found.items() if match}


class Helpers(LttngProgramTest):
    """LTTng's helper libraries beside the probe: 40 rounds more are exactly so many events more, under LTTng as under Plumb."""

    PROGRAM = PROGRAMS / "lttng_helped"
    LOADED = PROGRAMS / "liblttng_every_field_probe.so"
    # Of a round: the program's, and its child's.
    MEMORY = {"malloc": 2, "calloc": 2, "realloc": 2, "posix_memalign": 2, "memalign": 2, "free": 8}
    MUTEX = {"pthread_mutex_lock_req": 2, "pthread_mutex_lock_acq": 2, "pthread_mutex_trylock": 2, "pthread_mutex_unlock": 4}
    CALLS = {"func_entry": 2, "func_exit": 2}

    @classmethod
    def setUpClass(cls):
        if len(helpers()) != 7:
            raise unittest.SkipTest("LTTng's helper libraries are not installed")

    @staticmethod
    def beside(preloaded, *command):
        """The command with these libraries behind what is preloaded already: they are not for the recorder."""
        return ["sh", "-c", 'LD_PRELOAD="$LD_PRELOAD $0" exec "$@"', preloaded, *command]

    def more(self, preloaded, under_lttng=False):
        """What 40 rounds have more than 20, by event."""
        counts = []
        for rounds in (20, 60):
            command = self.beside(preloaded, self.PROGRAM, rounds, self.LOADED)
            if under_lttng:
                shutil.rmtree(self.directory / "lttng", ignore_errors=True)
                SessionDaemon.record(self.directory / "lttng", *command, events="lttng_ust_libc:*,lttng_ust_pthread:*,"
                                     "lttng_ust_dl:*,lttng_ust_cyg_profile:*,lttng_ust_cyg_profile_fast:*")
                self.trace = self.directory / "lttng"
            else:
                self.trace = self.directory / "trace"
                self.record(*command)
            counts.append(self.events())
        return {name: counts[1][name] - counts[0].get(name, 0) for name in counts[1] if counts[1][name] != counts[0].get(name, 0)}

    def expected(self, *parts):
        return {f"{provider}:{name}": count * 40 for provider, events in parts for name, count in events.items()}

    def test_memory(self):
        more = self.more(helpers()["libc-wrapper"])
        mine = self.expected(("lttng_ust_libc", self.MEMORY))
        # The loader and fdopen() take memory, too; only of what they do not use is it known how much.
        for name in ("posix_memalign", "memalign"):
            self.assertEqual(more[f"lttng_ust_libc:{name}"], mine[f"lttng_ust_libc:{name}"])
        for name, count in mine.items():
            self.assertGreaterEqual(more[name], count)
        with SessionDaemon():
            theirs = self.more(helpers()["libc-wrapper"], under_lttng=True)
        for name in ("malloc", "realloc", "posix_memalign", "memalign"):
            self.assertEqual(more[f"lttng_ust_libc:{name}"], theirs[f"lttng_ust_libc:{name}"], (more, theirs))

    def test_mutexes(self):
        self.assertEqual(self.more(helpers()["pthread-wrapper"]), self.expected(("lttng_ust_pthread", self.MUTEX)))

    def test_calls(self):
        for helper, provider in (("cyg-profile", "lttng_ust_cyg_profile"), ("cyg-profile-fast", "lttng_ust_cyg_profile_fast")):
            self.assertEqual(self.more(helpers()[helper]), self.expected((provider, self.CALLS)))

    def test_loader(self):
        more = self.more(helpers()["dl"])
        with SessionDaemon():
            theirs = self.more(helpers()["dl"], under_lttng=True)
        theirs.pop("lttng_ust_dl:debug_link", None)  # of LTTng's library itself, which providers load
        self.assertEqual(more, theirs)
        self.assertEqual(more["lttng_ust_dl:dlopen"], more["lttng_ust_dl:dlclose"])
        self.assertGreaterEqual(more["lttng_ust_dl:dlopen"], 40)

    def test_nothing_of_their_own(self):
        for helper in ("fork", "fd"):
            self.assertEqual(self.more(helpers()[helper]), {})

    def test_all_together(self):
        """And a program that forks and traces by itself."""
        found = helpers()
        del found["cyg-profile-fast"]
        more = self.more(" ".join(found.values()))
        expected = self.expected(("lttng_ust_pthread", self.MUTEX), ("lttng_ust_cyg_profile", self.CALLS))
        self.assertEqual({name: more[name] for name in expected}, expected)
        output = self.record(*self.beside(" ".join(found.values()), PROGRAMS / "lttng_storm", "forks", 20, 100))
        counts = self.events()
        self.assertEqual({name: counts[name] for name in program_counts(output)}, program_counts(output))


if __name__ == "__main__":
    leave_out_if_not_built()
    unittest.main(verbosity=2)
