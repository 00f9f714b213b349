"""What an event of Java code costs, beside one of the JVM's own flight recorder (JFR), in one JVM, in turns."""
import json
import shutil
from pathlib import Path

from machinery import PlumbSession, call

SOURCE = Path(__file__).resolve().parent / "JavaCosts.java"
ROWS = (("clock", "System.nanoTime()", ""), ("loop", "the loop around all of these", ""),
        ("off", "off", ""), ("number", "on, one long", ""), ("name", "on, 15-byte string and long", ""),
        ("jfr_off", "JFR, off", ""), ("jfr_number", "JFR, on, one long", "without a stack trace"),
        ("jfr_name", "JFR, on, 15-byte string and long", "without a stack trace"),
        ("jfr_stack", "JFR, on, one long, with a stack trace", "its default; the stack is two frames deep"))
PEERS = {"off": "jfr_off", "number": "jfr_number", "name": "jfr_name"}


def missing(why):
    return [{"question": "an event of Java code", "remark": why, "missing": True}]


def costs(context):
    jar = context.folder / "probes/java/java/plumb.jar"
    if not jar.exists() or not shutil.which("javac"):
        return missing("no JDK, or none when this was built")
    modules = call(["java", "--list-modules"])
    if "jdk.jfr@" not in modules:
        return missing("this JDK has no jdk.jfr")
    runner = context.runner
    classes = context.scratch / "java"
    call(["javac", "-parameters", "-cp", jar, "-d", classes, SOURCE])
    pinned = ["taskset", "-c", runner.cpu] if runner.cpu is not None and shutil.which("taskset") else []
    with PlumbSession(context.folder, "bench:*"):
        clock = runner.one("bench_floor", "what_does_the_clock_read_cost")["warm_median"] if runner.has("bench_floor") else None
        found = json.loads(call([*pinned, "java", "-XX:+UseSerialGC", "-cp", f"{jar}:{classes}", "JavaCosts", runner.chunks], timeout=900))
    loop, java_clock = found["loop"]["median"], found["clock"]["median"]
    rows = []
    for name, question, remark in ROWS:
        figures = found[name]
        row = {"question": question, "unit": "ns", **figures, "remark": remark}
        if clock is not None:
            row["ratio"], row["clock"] = figures["median"] / clock, clock
        told = [remark] if remark else []
        if name not in ("clock", "loop"):
            told.append(f"{figures['median'] / java_clock:.2f} x System.nanoTime()")
        if name.endswith("off"):
            told.append(f"{figures['median'] - loop:+.2f} ns to the loop")
        elif name in PEERS:
            told.append(f"JFR {found[PEERS[name]]['median'] / figures['median']:.1f} x")
        row["remark"] = ", ".join(told)
        rows.append(row)
    return rows
