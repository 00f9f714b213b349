"""Programs that are instrumented for LTTng-UST (probes/lttng/tests), recorded by Plumb and by LTTng itself."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from recorded_program import BUILD, PLUMB, is_sanitized

STAND_INS = BUILD / "probes/lttng/lttng"
PROGRAMS = BUILD / "probes/lttng/tests"
NEWEST = PROGRAMS / "newest"  # the same, built with the headers that tools/get-lttng has fetched
EVERY_FIELD_EVENTS = 153  # that lttng_every_field leaves in a round
BUFFERS = ["--subbuf-size", "1M", "--subbuf-count", "16", "--mode", "block", "--block-timeout", "30s"]


def lines_of(trace):
    """Events and fields as babeltrace2 prints them, without times and contexts."""
    done = subprocess.run(["babeltrace2", "--no-delta", "--names=payload", trace], capture_output=True, text=True,
                          timeout=200, check=True)
    lines = []
    for line in done.stdout.splitlines():
        found = re.search(r"\s([\w.-]+:[\w.-]+): (?:\{ [^{}]* \}, )*(\{.*\})$", line)
        assert found, line
        if not found.group(1).startswith("plumb_statedump:"):
            # babeltrace2 2.0.4 may print a text of length 0 as the one before it.
            fields = re.sub(r'(_(\w+)_length = 0, \2 = )"[^"]*"', r'\1""', found.group(2))
            lines.append(f"{found.group(1)}: {fields}")
    return lines


def program_counts(output):
    """{"storm:number": 17, ...} of what a program says that it has traced."""
    counts = {}
    for name, count in re.findall(r"^(number|name|in_handler) (\d+)$", output, re.MULTILINE):
        counts[f"storm:{name}"] = counts.get(f"storm:{name}", 0) + int(count)
    return {name: count for name, count in counts.items() if count}


def on_cycle_counter():
    """In front of a command: it sees a machine that keeps time by its cycle counter, where this one's is good for it. For tests of what is
    written only then; whether the processors' counters are in step does not matter to them. As root."""
    source = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    flags = Path("/proc/cpuinfo").read_text()
    if Path(source).read_text() == "tsc\n" or os.geteuid() != 0 or not re.search(r"\bconstant_tsc\b.*\bnonstop_tsc\b", flags):
        return []
    return ["unshare", "--mount", "sh", "-c", f'echo tsc >"$0" && mount --bind "$0" {source} && rm "$0" && exec "$@"',
            tempfile.mkstemp(prefix="plumb-clock-")[1]]


def leave_out_if_not_built():
    if not (PROGRAMS / "lttng_storm").exists() or is_sanitized():
        print("the programs are not built (LTTng-UST's headers are not installed), or the probe is built with a sanitizer")
        sys.exit(77)


class LttngProgramTest(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="plumb-lttng-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.trace = self.directory / "trace"

    def record(self, *command, preload=True, options=(), buffers=BUFFERS, timeout=100, environment=None,
               before=()):
        """What the program printed. It has to end well, and nothing may be lost."""
        shutil.rmtree(self.trace, ignore_errors=True)
        done = subprocess.run(
            [*before, PLUMB, "record", *buffers, "-o", self.trace, *(["--preload", "lttng"] if preload else []), *options,
             "--", *map(str, command)], capture_output=True, text=True, timeout=timeout, check=False,
            env=dict(os.environ, **(environment or {})))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Nothing was lost.", done.stderr, done.stdout + done.stderr)
        self.recorded = {name: int(count.replace(",", ""))
                         for count, name in re.findall(r"^ +([\d,]+)  (\S+:\S+)$", done.stderr, re.MULTILINE)}
        return done.stdout

    def events(self):
        """How many of each name, as babeltrace2 counts them."""
        counts = {}
        for line in lines_of(self.trace):
            name = line.split(": ", 1)[0]
            counts[name] = counts.get(name, 0) + 1
        return counts

    def check_counts(self, *command, **how):
        output = self.record(*command, **how)
        self.assertTrue(program_counts(output), output)
        self.assertEqual(self.events(), program_counts(output))

    def check_log_levels(self, program):
        self.record(program, 1, options=["--log-level", "warning"])
        self.assertEqual(self.events(), {"every_field:instance": 1,
                                         "lttng_ust_tracelog:LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING": 1,
                                         "lttng_ust_tracelog:LTTNG_UST_TRACEPOINT_LOGLEVEL_EMERG": 1})



class SessionDaemon:
    """LTTng's own, where none runs."""

    def __enter__(self):
        self.daemon = None
        if subprocess.run(["lttng", "list"], capture_output=True, check=False).returncode != 0:
            self.daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], stdin=subprocess.DEVNULL,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for _ in range(100):
                time.sleep(0.1)
                if subprocess.run(["lttng", "list"], capture_output=True, check=False).returncode == 0:
                    break
        return self

    def __exit__(self, *_):
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait(timeout=60)

    @staticmethod
    def record(directory, *command, events="every_field:*,lttng_ust_tracef:*,lttng_ust_tracelog:*"):
        name = f"plumb-test-{os.getpid()}"
        for step in (["create", name, f"--output={directory}"],
                     ["enable-event", "-u", "-s", name, events],
                     ["start", name]):
            subprocess.run(["lttng", *step], capture_output=True, check=True, timeout=60)
        try:
            done = subprocess.run(list(map(str, command)), check=True, timeout=60, capture_output=True, text=True)
        finally:
            subprocess.run(["lttng", "destroy", name], capture_output=True, check=True, timeout=60)
        return done.stdout
