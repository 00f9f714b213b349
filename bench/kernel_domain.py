"""What recording the kernel's scheduler and system calls costs, with Plumb and with trace-cmd, and how much a busy machine
can do without a loss. Needs root, tracefs, stress-ng and trace-cmd.

Both drain the same kind of buffer of the kernel. trace-cmd only moves its pages into a file, and leaves decoding to
trace-cmd report; plumb record decodes while it records, so its trace can be read at once.
"""
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import time
from pathlib import Path

from machinery import Failure, call

TRACEFS = Path("/sys/kernel/tracing")
# A fixed amount of work, of all that makes these events: switches, forks, pipes, futexes.
WORK = ["stress-ng", "--quiet", "--switch", "2", "--switch-ops", "600000", "--fork", "1", "--fork-ops", "6000", "--pipe", "1",
        "--pipe-ops", "1500000", "--futex", "1", "--futex-ops", "300000"]
# Everything at once, for a time, with more threads than CPUs.
BUSY = ["stress-ng", "--quiet", "--switch", "2", "--fork", "2", "--pipe", "2", "--futex", "2", "--get", "2", "--poll", "2",
        "--mmap", "1", "--timeout"]
FUNCTION_FILES = ("set_ftrace_filter", "set_ftrace_notrace", "set_ftrace_pid", "set_graph_function", "set_graph_notrace")
SETTLE_SECONDS = 3  # until all events are on


class Recorder:
    """A recorder in the background, ended with SIGINT; `cpu_ns` is what it and its children used."""

    def __init__(self, command, folder):
        self.command, self.folder = [str(word) for word in command], folder

    def __enter__(self):
        self.log = open(self.folder / "recorder.log", "w+")
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)
        time.sleep(SETTLE_SECONDS)
        if self.process.poll() is not None:
            raise Failure(f"{self.command[0]} ended too early: {self.output()}")
        self.began = time.monotonic()
        return self

    def __exit__(self, kind, value, trace):
        self.seconds = time.monotonic() - self.began
        self.process.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_ns = (usage.ru_utime + usage.ru_stime) * 1e9

    def output(self):
        self.log.flush()
        return Path(self.log.name).read_text()


def with_plumb(context, directory, buffer_size, *more):
    shutil.rmtree(directory, ignore_errors=True)
    return Recorder([context.folder / "cli/plumb", "record", "-q", "--json", "-o", directory, "-a", "-k", "sched:*", "-k", "syscalls:*",
                     "--kernel-buffer-size", buffer_size, *more], context.scratch)


def with_trace_cmd(file, buffer_kilobytes, compression):
    command = ["trace-cmd", "record", "-C", "x86-tsc", "-b", buffer_kilobytes, "-e", "sched", "-e", "syscalls", "-o", file,
               "--compression", compression]
    return Recorder([*without_function_filters(file.parent), *command], file.parent)


def without_function_filters(scratch):
    """Some kernels refuse to open the files of the function tracer, which trace-cmd resets before it records anything, and
    without which it gives up. Then an empty file stands in for each, in a mount namespace of its own."""
    try:
        with open(TRACEFS / "set_ftrace_filter", "w"):
            return []
    except PermissionError:
        empty = scratch / "empty"
        empty.touch()
        refused = [file for file in (*(TRACEFS / name for name in FUNCTION_FILES), Path("/proc/sys/kernel/ftrace_enabled"))
                   if file.exists()]
        mounts = "".join(f"mount --bind {empty} {file} && " for file in refused)
        return ["unshare", "--mount", "sh", "-c", mounts + 'exec "$@"', "sh"]


def summary_of(recorder):
    return json.loads(recorder.output())


def plumb_row(context, directory):
    with with_plumb(context, directory, "32M") as recorder:
        work_seconds = seconds_of_work()
    summary = summary_of(recorder)
    # Those that only tell the names of threads, too: it had to read them.
    return {"events": summary["kernel_events_read"], "lost": summary["events_lost"], "bytes": summary["bytes"],
            "cpu_ns": recorder.cpu_ns, "work_seconds": work_seconds}


def trace_cmd_row(context, compression):
    file = context.scratch / "trace.dat"
    with with_trace_cmd(file, 32768, compression) as recorder:
        work_seconds = seconds_of_work()
    # "CPU: 0 / entries: 0 / overrun: 0 / ... / read events: 123"
    text = call(["trace-cmd", "report", "--stat", file], timeout=600)
    read = [int(count) for count in re.findall(r"read events: (\d+)", text)]
    lost = [int(count) for count in re.findall(r"(?:overrun|dropped events): (\d+)", text)]
    if not read:
        raise Failure(f"trace-cmd does not say how many events it read: {text[-400:]}")
    row = {"events": sum(read), "lost": sum(lost), "bytes": file.stat().st_size, "cpu_ns": recorder.cpu_ns,
           "work_seconds": work_seconds}
    file.unlink()
    return row


def seconds_of_work():
    began = time.monotonic()
    call(WORK, timeout=600)
    return time.monotonic() - began


def cost_row(question, runs, alone_seconds):
    def middle(value):
        return statistics.median(value(run) for run in runs)
    return {"question": question, "unit": "ns", "median": middle(lambda run: run["cpu_ns"] / run["events"]),
            "remark": f"CPU time for each of {middle(lambda run: run['events']):,.0f} events, {middle(lambda run: run['lost']):,.0f} lost; "
                      f"{middle(lambda run: run['bytes'] / run['events']):.1f} bytes an event; the work took "
                      f"{middle(lambda run: run['work_seconds']) / alone_seconds:.2f} x as long as alone"}


def missing_row(question, *programs):
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        return [{"question": question, "remark": f"{' and '.join(missing)}: not installed", "missing": True}]
    return None


def costs(context):
    if row := missing_row("sched and syscalls", "stress-ng", "trace-cmd"):
        return row
    times = 1 if context.quick else 3
    directory = context.scratch / "kernel-trace"
    pages = context.scratch / "kernel-pages"
    alone = statistics.median(seconds_of_work() for _ in range(times))
    plumb, peer, compressed = [], [], []
    for _ in range(times):  # in turns
        plumb.append(plumb_row(context, directory))
        peer.append(trace_cmd_row(context, "none"))
        compressed.append(trace_cmd_row(context, "any"))
    rows = [cost_row("plumb record, decoded", plumb, alone), cost_row("trace-cmd record, not decoded", peer, alone),
            cost_row("trace-cmd record, compressed at the end", compressed, alone)]
    shutil.rmtree(pages, ignore_errors=True)
    with with_plumb(context, directory, "32M", "--kernel-pages", pages):
        call(WORK, timeout=600)
    found = json.loads(call([context.folder / "bench/bench_translate", pages, 5 if context.quick else 20]))
    rows.append({"question": "  of that, decoding", "unit": "ns", "median": found["ns_per_event"],
                 "remark": f"{found['copy_ns_per_event']:.1f} ns to copy the same pages"})
    shutil.rmtree(pages)
    shutil.rmtree(directory)
    return rows


def busy(context):
    """The smallest buffer that loses nothing."""
    if row := missing_row("everything", "stress-ng"):
        return row
    seconds = 5 if context.quick else 30
    directory = context.scratch / "kernel-trace"
    rows = []
    for size in ("2M", "8M", "32M", "128M"):
        with with_plumb(context, directory, size) as recorder:
            call([*BUSY, str(seconds)], timeout=600)
        summary = summary_of(recorder)
        events, lost = summary["kernel_events_read"], summary["events_lost"]
        share = recorder.cpu_ns / 1e9 / recorder.seconds
        rows.append({"question": f"{seconds} s of everything, {size} for each CPU", "unit": "events/s", "median": events / recorder.seconds,
                     "remark": f"{events:,} events, {lost:,} lost; the recorder used {100 * share:.1f} % of one CPU, "
                               f"{100 * share / os.cpu_count():.1f} % of the machine; {summary['bytes'] / recorder.seconds / 1e6:.0f} MB/s"})
        if summary["notes"]:
            rows[-1]["remark"] += f"; {summary['notes']}"
        shutil.rmtree(directory)
        if lost == 0:
            return rows
    return rows
