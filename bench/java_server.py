"""What a Java server keeps of its throughput while its JVM is traced: Tomcat on one CPU, a real client on another. Ratios against the
same server untraced, in turns, each in a JVM of its own."""
import glob
import json
import os
import re
import shutil
import statistics
import subprocess
from pathlib import Path

from machinery import Failure, call
from service import free_port

SOURCE = Path(__file__).resolve().parent / "JavaServer.java"
JARS = sorted(jar for jar in glob.glob("/usr/share/java/tomcat10-*.jar") if not re.search(r"-10\.\d|i18n", jar))
ROUNDS = 3
CONNECTIONS = 16
WARM_UP_SECONDS, SECONDS = 20, 6  # the first: until what a request needs is compiled, on one CPU


class Server:
    """Until the `with` block ends. `prefix`: what starts the JVM; `options`: the JVM's own."""

    def __init__(self, classes, base, prefix, options):
        self.port = free_port()
        self.command = ["taskset", "-c", "0", *prefix, "java", "-XX:+UseG1GC", "-Xmx256m", *options, "-cp", ":".join([*JARS, str(classes)]),
                        "JavaServer", self.port, base]

    def __enter__(self):
        self.process = subprocess.Popen([str(word) for word in self.command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if line == "ready\n":
                return self
        raise Failure(f"{' '.join(map(str, self.command))} did not start: {self.process.communicate()[1][-800:]}")

    def __exit__(self, kind, *_):
        try:
            said, errors = self.process.communicate("", timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failure(f"{' '.join(map(str, self.command))} did not end") from None
        if kind is None and self.process.returncode != 0:
            raise Failure(f"{' '.join(map(str, self.command))} ended with status {self.process.returncode}: {errors[-800:]}")
        answers, summary = said.split("\n", 1)
        self.answers = int(answers)
        self.events, self.lost = (json.loads(summary)[key] for key in ("events", "events_lost")) if summary else (0, 0)

    def requests_per_second(self, seconds):
        said = call(["taskset", "-c", "1", "ab", "-q", "-k", "-l", "-c", CONNECTIONS, "-t", seconds, "-n", 10_000_000,
                     f"http://127.0.0.1:{self.port}/"], timeout=seconds + 60)
        if not re.search(r"^Failed requests: +0$", said, re.MULTILINE):
            raise Failure(f"ab: requests failed: {said}")
        return float(re.search(r"^Requests per second: +([0-9.]+)", said, re.MULTILINE)[1])


def ways(context):
    """(name, what starts the JVM, its options) of each way to run it."""
    agent = context.folder / "probes/jvm/libplumb-jvm.so"
    trace = context.scratch / "java-server"
    record = [context.folder / "cli/plumb", "record", "--json", "--force", "-o", trace]
    found = [("bare", [], []),
             ("Plumb off: the agent loaded, nothing recorded", [], [f"-agentpath:{agent}"]),
             ("Plumb, plumb record --jvm", [*record, "--jvm", "--"], []),
             ("Plumb, --jvm and --preload pthread", [*record, "--jvm", "--preload", "pthread", "--"], [])]
    if "jdk.jfr@" in call(["java", "--list-modules"]):
        found += [(f"JFR, its {name} settings", [], ["-Xlog:jfr*=off", f"-XX:StartFlightRecording:filename={context.scratch}/server.jfr,settings={name}"])
                  for name in ("default", "profile")]
    return found


def recorded(server):
    """What the last recording of its kind holds, in words."""
    if not server.events:
        return ""
    return f"; {server.events / server.answers:.1f} events an answer, {server.lost:,} lost"


def rows_of(rates, last):
    bare = statistics.median(rates["bare"])
    for name, found in rates.items():
        ratios = [rate / base for rate, base in zip(found, rates["bare"])]
        yield {"question": name, "unit": "events/s", "median": statistics.median(found),
               "remark": f"requests, {CONNECTIONS} connections, the server on one CPU" if name == "bare" else
                         f"{statistics.median(found) / bare:.2f} of bare ({min(ratios):.2f} to {max(ratios):.2f}){recorded(last[name])}"}


def throughput(context):
    if not (context.folder / "probes/jvm/libplumb-jvm.so").exists() or not JARS or not shutil.which("javac") or not shutil.which("ab"):
        return [{"question": "Tomcat", "remark": "no JDK, Tomcat or ab, or none when this was built", "missing": True}]
    if (os.cpu_count() or 1) < 2:
        return [{"question": "Tomcat", "remark": "needs two CPUs", "missing": True}]
    classes = context.scratch / "server"
    call(["javac", "-nowarn", "-cp", ":".join(JARS), "-d", classes, SOURCE])
    known = ways(context)
    rates, last = {name: [] for name, *_ in known}, {}
    for _ in range(1 if context.quick else ROUNDS):
        for name, *how in known:
            with Server(classes, context.scratch / "base", *how) as server:
                server.requests_per_second(1 if context.quick else WARM_UP_SECONDS)
                rates[name].append(server.requests_per_second(1 if context.quick else SECONDS))
            last[name] = server
    return list(rows_of(rates, last))
