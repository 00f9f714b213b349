"""LTTng-UST; and its program, as it is, recorded by Plumb."""
import os
import shutil

from machinery import LttngSession, PlumbSession
from rows import NAME, NUMBER, ORDER, START, TWO, missing, row_of, row_of_two

OFF = "what_does_a_tracepoint_cost_when_off"
# What is measured, and what the same is called among Plumb's own events (bench/run).
QUESTIONS = ((NUMBER, "on, one u64"), (NAME, "on, 15-byte string and u64"), (ORDER, "on, eight fields"),
             (TWO, "on, one u64, 2 threads at once"))


def preloaded(context):
    stand_ins = sorted((context.folder / "probes/lttng/lttng").glob("*.so.1"))
    return ":".join(map(str, [context.folder / "probes/lttng/libplumb-lttng.so", *stand_ins, context.folder / "libtrace/libplumb.so.0"]))


def off(context, who, environment=None):
    return row_of(f"{who}, off", context.runner.one("bench_lttng", OFF + "_lttng_ust", environment))


def on(context, who, environment=None):
    rows = []
    for question, name in QUESTIONS:
        if question == TWO and (os.cpu_count() or 1) < 2:
            continue
        counters = context.runner.one("bench_lttng", question + "_lttng_ust", environment)
        rows.append((row_of_two if question == TWO else row_of)(f"{who}, {name}", counters))
    return rows


def start(context, who, environment_of):
    """From the start of a program that has a tracepoint, and traces it, to its end; beside one that has none."""
    programs = {"plain": "bench_tiny_bare", who: f"bench_tiny_lttng{environment_of}"}
    found = context.runner.counters("bench_start", arguments=[f"{name}={context.runner.program(program)}"
                                                              for name, program in programs.items()])
    us = {name: found[f"{START}/{name}"]["us_median"] for name in programs}
    return {"question": f"{who}, on, start and end of a program", "unit": "us", "median": us[who], "more": us[who] - us["plain"],
            "remark": f"+{us[who] - us['plain']:.0f} us"}


def peer(context):
    runner = context.runner
    if not runner.has("bench_lttng") or not shutil.which("lttng"):
        return [missing("LTTng-UST", "not installed")]
    theirs = [off(context, "LTTng-UST")]
    with LttngSession(context.scratch / "lttng"):
        theirs += on(context, "LTTng-UST")
        theirs.append(start(context, "LTTng-UST", ""))
    who = "its program recorded by Plumb"
    preload = {"LD_PRELOAD": preloaded(context)}
    replaced = [off(context, who, preload)]
    with PlumbSession(context.folder, "plumb_bench:*"):
        replaced += on(context, who, preload)
        replaced.append(start(context, who, f",{preload['LD_PRELOAD']}"))
    ours = {row["question"]: row["median"] for row in context.done.get("events", [])}
    for row, their in zip(replaced, theirs):
        own = ours.get(row["question"].removeprefix(f"{who}, "))
        if "more" in row:
            row["remark"] += f", {row['more'] / their['more']:.2f} x what LTTng-UST adds"
            continue
        row["remark"] = f"{row['median'] / their['median']:.2f} x LTTng-UST"
        if own:
            row["remark"] += f", {row['median'] / own:.2f} x Plumb's own tracepoint"
            their["remark"] = f"{their['median'] / own:.1f} x Plumb"
    return theirs + replaced
