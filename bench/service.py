"""What a real service keeps of its throughput while it is traced: memcached with two threads on one CPU, gets from another
CPU, each lock of every mutex an event or two. Ratios against the same service untraced, in turns."""
import contextlib
import os
import shutil
import signal
import socket
import statistics
import subprocess
import time

from machinery import Failure, LttngSession, call

ROUNDS = 3


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


class Service:
    """memcached, started by `prefix`, until the `with` block ends. `environment`: beside our own."""

    def __init__(self, prefix, environment, cpu):
        self.port = free_port()
        user = ["-u", "root"] if os.geteuid() == 0 else []
        self.command = ["taskset", "-c", str(cpu), *map(str, prefix), "memcached", "-l", "127.0.0.1", "-p", str(self.port),
                        "-U", "0", "-t", "2", *user]
        self.environment = {**os.environ, **environment}

    def __enter__(self):
        self.process = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            except OSError:
                time.sleep(0.05)
        self.__exit__()
        raise Failure(f"{' '.join(self.command)} did not start")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # what strace leaves behind when it is ended


def ways(context):
    """(name, prefix, environment, context manager or None) of each way to run it."""
    plumb = context.folder / "cli/plumb"
    probe = context.folder / "probes/pthread/libplumb-pthread.so"
    record = [plumb, "record", "--preload", "pthread", "--force"]
    found = [("bare", [], {}, None),
             ("Plumb off: probe preloaded, nothing recorded", [], {"LD_PRELOAD": str(probe)}, None),
             ("Plumb, flight recorder", [*record, "--snapshot", "-o", context.scratch / "snapshot", "--"], {}, None),
             ("Plumb, to a file", [*record, "-o", context.scratch / "service", "--"], {}, None)]
    wrapper = "liblttng-ust-pthread-wrapper.so"
    if shutil.which("lttng") and "cannot" not in subprocess.run(["true"], env={**os.environ, "LD_PRELOAD": wrapper},
                                                                 capture_output=True, text=True).stderr:
        found.append(("LTTng-UST's pthread wrapper, flight recorder", [], {"LD_PRELOAD": wrapper},
                      LttngSession(context.scratch / "lttng-service", "lttng_ust_pthread:*")))
    if shutil.which("strace"):
        found.append(("strace of futex alone", ["strace", "-f", "-qq", "-e", "trace=futex", "-o", os.devnull], {}, None))
    return found


def requests_per_second(context, prefix, environment, session):
    seconds = 1 if context.quick else 3
    load = context.folder / "bench/bench_service_load"
    with session or contextlib.nullcontext(), Service(prefix, environment, 0) as service:
        call(["taskset", "-c", "1", load, service.port, 0.5])
        return float(call(["taskset", "-c", "1", load, service.port, seconds]))


def throughput(context):
    if not shutil.which("memcached") or (os.cpu_count() or 1) < 2:
        return [{"question": "memcached", "remark": "needs memcached and two CPUs", "missing": True}]
    known = ways(context)
    rates = {name: [] for name, *_ in known}
    for _ in range(1 if context.quick else ROUNDS):
        for name, *how in known:
            rates[name].append(requests_per_second(context, *how))
    bare = statistics.median(rates["bare"])
    rows = []
    for name, found in rates.items():
        ratios = [rate / base for rate, base in zip(found, rates["bare"])]
        row = {"question": name, "unit": "events/s", "median": statistics.median(found)}
        if name != "bare":
            row["remark"] = f"{statistics.median(found) / bare:.2f} of bare ({min(ratios):.2f} to {max(ratios):.2f})"
        rows.append(row)
    rows[0]["remark"] = "requests, two threads on one CPU"
    return rows
