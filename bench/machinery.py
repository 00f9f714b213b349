"""What bench/run needs to start programs: the build, Plumb's and LTTng's sessions, and `plumb record`.

Everything that is started here is ended here, by its process id.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

RING_SUBBUF_BYTES = 512 * 1024
RING_SUBBUF_COUNT = 8
RECORD_SUBBUF_COUNT = 32  # of plumb record, by default
RING_BYTES = RING_SUBBUF_BYTES * RING_SUBBUF_COUNT
NO_RSEQ = {"PLUMB_RSEQ": "none"}


class Failure(Exception):
    """Something did not work: what was tried, and what went wrong."""


def call(command, environment=None, timeout=300):
    """Standard output of a command that must succeed."""
    variables = dict(os.environ)
    for name in ("PLUMB_SESSIONS", "LD_PRELOAD"):
        variables.pop(name, None)
    variables.update(environment or {})
    result = subprocess.run([str(word) for word in command], env=variables, text=True, timeout=timeout,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if result.returncode != 0:
        raise Failure(f"{' '.join(str(word) for word in command)} ended with status {result.returncode}: "
                      f"{(result.stderr or result.stdout).strip()[-800:]}")
    return result.stdout


def build(source, folder):
    """A release build with the benchmarks in it."""
    if not (folder / "CMakeCache.txt").exists():
        call(["cmake", "-G", "Ninja", "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
              "-DPLUMB_TESTS=OFF", "-DPLUMB_BENCH=ON"], timeout=600)
    call(["cmake", "--build", folder], timeout=3600)


class PlumbSession:
    """A flight recorder with the given patterns, while the `with` block runs. No consumer is needed. With `full`, rings that
    nobody reads: nearly all is lost; with `empty`, nothing is to arrive; with `context`, PLUMB_CONTEXT_* of each event; with
    `count`, tables that count by these fields: key, sum, histogram; with `buffers` "global", one ring for all CPUs."""

    def __init__(self, folder, *patterns, full=False, empty=False, context=0, count=None, buffers="cpu"):
        self.full = full
        self.empty = empty
        how = ["--count", *count] if count else [*(["--discard"] if full else []), *(["--global"] if buffers == "global" else []),
                                                 *(["--context", context] if context else []),
                                                 RING_SUBBUF_BYTES, RING_SUBBUF_COUNT]
        self.command = [folder / "bench/bench_session", *how, *patterns]

    def __enter__(self):
        self.process = subprocess.Popen([str(word) for word in self.command], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"the session of the benchmarks did not start: {self.process.stderr.read().strip()}")
        self.begun = json.loads(line)
        return self

    def __exit__(self, kind, value, trace):
        out, error = self.process.communicate(timeout=60)
        if kind is not None:
            return
        if self.process.returncode != 0:
            raise Failure(f"the session of the benchmarks did not end well: {error.strip()}")
        totals = self.totals = json.loads(out)
        if (totals["bytes_written"] == 0) != self.empty:
            raise Failure("no event arrived in the session of the benchmarks, or some did that should not: the figures mean nothing")
        if (totals["lost"] != 0) != self.full:
            raise Failure(f"the session of the benchmarks lost {totals['lost']} events: the figures mean nothing")


class LttngSession:
    """LTTng's flight recorder with the same events and rings; or, with `to_files`, a recording with as large rings as
    Plumb's default, and each event with its thread. Starts a session daemon if none runs."""

    def __init__(self, output, events="plumb_bench:*", to_files=False, begins=True, name=""):
        self.output = output
        self.begins = begins
        self.events = events
        self.to_files = to_files
        self.daemon = None
        self.name = f"plumb-bench-{os.getpid()}{name}"

    def __enter__(self):
        if subprocess.run(["lttng", "list"], capture_output=True).returncode != 0:
            self.daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], stdin=subprocess.DEVNULL,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for _ in range(100):
                time.sleep(0.1)
                if subprocess.run(["lttng", "list"], capture_output=True).returncode == 0:
                    break
        try:
            call(["lttng", "create", self.name, *([] if self.to_files else ["--snapshot"]), f"--output={self.output}"])
            call(["lttng", "enable-channel", "-u", "-s", self.name, f"--subbuf-size={RING_SUBBUF_BYTES}",
                  f"--num-subbuf={RECORD_SUBBUF_COUNT if self.to_files else RING_SUBBUF_COUNT}", "ring"])
            if self.to_files:
                call(["lttng", "add-context", "-u", "-s", self.name, "-c", "ring", "-t", "vtid"])
            call(["lttng", "enable-event", "-u", "-s", self.name, "-c", "ring", self.events])
            if self.begins:
                call(["lttng", "start", self.name])
        except Failure:
            self.end()
            raise
        return self

    def __exit__(self, kind, value, trace):
        self.end()

    def discarded(self):
        """Events, behind the end of the recording."""
        call(["lttng", "stop", self.name])
        found = re.search(r"Discarded events: (\d+)", call(["lttng", "list", self.name]))
        if not found:
            raise Failure("lttng list does not say how many events were discarded")
        return int(found.group(1))

    def end(self):
        subprocess.run(["lttng", "destroy", self.name], capture_output=True)
        if self.daemon is not None:
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
            self.daemon = None


class Runner:
    """Runs the benchmark programs of one build folder and returns their counters by name."""

    def __init__(self, folder, chunks, cpu):
        self.folder = folder
        self.chunks = chunks
        self.cpu = cpu

    def has(self, program):
        return (self.folder / "bench" / program).exists()

    def program(self, name):
        return self.folder / "bench" / name

    def counters(self, program, question="", environment=None, arguments=()):
        command = [self.program(program), *arguments, "--benchmark_format=json", f"--chunks={self.chunks}"]
        if self.cpu is not None:
            command.append(f"--cpu={self.cpu}")
        if question:
            command.append(f"--benchmark_filter=^{question}/")
        variables = {"PLUMB_BENCH_RING_BYTES": str(RING_BYTES), **(environment or {})}
        found = {}
        for benchmark in json.loads(call(command, variables))["benchmarks"]:
            name = benchmark["name"].removesuffix("/iterations:1/manual_time")
            if benchmark.get("error_occurred"):
                raise Failure(f"{program}, {name}: {benchmark['error_message']}")
            found[name] = {key: value for key, value in benchmark.items()
                           if key == "ratio" or key.endswith(("_ratio", "_median", "_p5", "_p95"))}
        return found

    def one(self, program, question, environment=None):
        return self.counters(program, question, environment)[question]


def bytes_below(directory):
    return sum(path.stat().st_size for path in Path(directory).rglob("*") if path.is_file())


def record_lttng(folder, directory, seconds, *producer):
    """The same by LTTng-UST."""
    with LttngSession(directory, to_files=True) as session:
        made = json.loads(call([folder / "bench/bench_producer_lttng", 0, seconds, *producer]))
        lost = session.discarded()
    return {"emitted": made["events"], "written": made["events"] - lost, "lost": lost,
            "per_second": made["events"] * 1e9 / made["ns"], "bytes": bytes_below(directory)}


def record(folder, directory, per_second, seconds, *producer, options=()):
    """`plumb record` of one producer. Returns events emitted and written, and the rate that was reached."""
    shutil.rmtree(directory, ignore_errors=True)
    out = call([folder / "cli/plumb", "record", "--json", "-o", directory, "-e", "bench:*", *options, "--",
                folder / "bench/bench_producer", per_second, seconds, *producer])
    start = out.index("\n") + 1
    producer, summary = json.loads(out[:start]), json.loads(out[start:])
    return {"emitted": producer["events"], "written": summary["events"],
            "lost": producer["events"] - summary["events"],
            "per_second": producer["events"] * 1e9 / producer["ns"],
            "bytes": bytes_below(directory)}


def seconds_of(command):
    """How long a command takes that must succeed; its output is thrown away."""
    begin = time.monotonic()
    with open(os.devnull, "w") as nowhere:
        result = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=nowhere,
                                stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        raise Failure(f"{command[0]} ended with status {result.returncode}: {result.stderr.strip()[-800:]}")
    return time.monotonic() - begin
