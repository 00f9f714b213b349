"""What it takes to switch an event on, and off, in many idle processes, until all have said so."""
import shutil
import statistics
import subprocess
import time

from machinery import Failure, LttngSession, PlumbSession, call
from rows import missing


class Idle:
    """So many processes that wait for the end of their input."""

    def __init__(self, program, count):
        self.program = program
        self.count = count

    def __enter__(self):
        self.processes = [subprocess.Popen([self.program], stdin=subprocess.PIPE) for _ in range(self.count)]
        time.sleep(2)  # until all of them wait
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait()


def plumb(context, count, rounds):
    on, off = [], []
    for _ in range(rounds):
        session = PlumbSession(context.folder, "bench_off:*", empty=True)
        with session:
            pass
        on.append(session.begun)
        off.append(session.totals)
    for report in on + off:
        if report["acknowledged"] != count or report["unreachable"] != 0:
            raise Failure(f"{report['acknowledged']} of {count} processes acknowledged, {report['unreachable']} could not")
    return [statistics.median(report["ms"] for report in reports) for reports in (on, off)]


def lttng(context, rounds):
    times = {"start": [], "stop": []}
    for number in range(rounds):
        with LttngSession(context.scratch / f"many-{number}", begins=False, name=f"many-{number}") as session:
            for command, taken in times.items():
                begin = time.monotonic()
                call(["lttng", command, session.name])
                taken.append(1000 * (time.monotonic() - begin))
    return [statistics.median(taken) for taken in times.values()]


def rows(name, count, milliseconds):
    return [{"question": f"{name}: {what} in {count} idle processes", "unit": "ms", "median": taken}
            for what, taken in zip(("on", "off"), milliseconds)]


def enabling(context):
    count, rounds = (100, 2) if context.quick else (1000, 7)
    with Idle(context.runner.program("bench_idle_plumb"), count):
        found = rows("Plumb", count, plumb(context, count, rounds))
    if not context.runner.has("bench_idle_lttng") or not shutil.which("lttng"):
        return found + [missing("LTTng-UST", "not installed")]
    # The daemon is there before them.
    with LttngSession(context.scratch / "many", begins=False), Idle(context.runner.program("bench_idle_lttng"), count):
        return found + rows("LTTng-UST", count, lttng(context, 3))
