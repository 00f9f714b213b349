"""The pthread probe under `plumb record`, and preloaded into a program whose events are off."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import babeltrace

BUILD = pathlib.Path(os.environ["PLUMB_BUILD_DIR"])
PLUMB = BUILD / "cli" / "plumb"
PROBE = BUILD / "probes" / "pthread" / "libplumb-pthread.so"
PROGRAMS = BUILD / "probes" / "pthread" / "tests"
SOURCES = pathlib.Path(os.environ["PLUMB_SOURCE_DIR"]) / "probes" / "pthread" / "tests"
# Enough that nothing is discarded on a busy machine.
BUFFERS = ["--subbuf-size", "1M", "--subbuf-count", "16"]


def run(command, preload=(), timeout=120, **environment):
    variables = dict(os.environ, **environment)
    if preload:
        variables["LD_PRELOAD"] = ":".join(map(str, preload))
    done = subprocess.run(list(map(str, command)), env=variables, capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stdout, done.stderr


def preload_off(command, also=(), **options):
    """The probe is in the process, and its events are off."""
    return run(command, preload=[PROBE, *also], **options)


class Recorded:
    """A program run under `plumb record` with every pthread event on."""

    def __init__(self, command, also=(), options=(), buffers=BUFFERS, timeout=120, asan_options=None):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="plumb-pthread-"))
        self.trace = self.directory / "trace"
        if also:
            command = ["env", "LD_PRELOAD=" + ":".join(map(str, [PROBE, *also])), *command]
        self.status, self.output, self.errors = run(
            [PLUMB, "record", "--preload", "pthread", *buffers, *options, "-o", self.trace, "--", *command],
            timeout=timeout, **({} if asan_options is None else {"ASAN_OPTIONS": asan_options}))

    def events(self):
        return babeltrace.events(self.trace)

    def summary(self):
        return json.loads((self.trace / "summary.json").read_text())

    def close(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
