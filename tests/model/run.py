#!/usr/bin/env python3
"""Lets spin go through all states of a model, and asks it for each defect that the model can bring back.

    run.py MODEL.pml [NAME...]      all checks and defects of the model, or those
    run.py --trail MODEL.pml NAME   the steps that lead to what a check or defect finds
    run.py --self-test              whether it would notice: models of a few lines that must fail, and one that must not

The head of a model lists what is run:

    *   * check  NAME [-DSWITCH...]                     every state is visited, every promise kept, nobody stuck
    *   * defect NAME in CHECK [-DSWITCH...] breaks PROMISE   with -DDEFECT_NAME, exactly that promise is broken

A promise is written PROMISE(name, condition). The promise `no_wait_without_end` is also what an end state breaks
in which somebody still waits. A search that was cut short, by depth or memory, is a failure, and so is a step of
the model that no check reaches, since nothing was said about it; `/* not reached */` on its line, with the reason
beside it, excepts one.
"""

import concurrent.futures
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

MEMORY_LIMIT_MB = 900
SECONDS_LIMIT = 240  # of processor time, of each program
DEPTH_LIMIT = 20_000  # the longest way so far has 1,139 steps; room for each costs memory in every run
STUCK = "no_wait_without_end"


class Run:
    def __init__(self, name, switches, promise):
        self.name = name
        self.switches = switches
        self.promise = promise  # None: a check


def read_runs(path):
    checks, defects = {}, []
    with open(path, encoding="utf-8") as model:
        for line in model:
            if not line.startswith(" *   * "):
                continue
            words = line[7:].split()
            if words[0] == "check":
                checks[words[1]] = Run(words[1], words[2:], None)
            elif words[0] == "defect":
                name, check, promise = words[1], words[3], words[-1]
                more = words[4 : words.index("breaks")]
                defects.append(Run(name, checks[check].switches + more + [f"-DDEFECT_{name}"], promise))
    return list(checks.values()) + defects


def call(command, folder, seconds=600):
    limit = (MEMORY_LIMIT_MB + 300) << 20

    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS_LIMIT, SECONDS_LIMIT))

    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=seconds, preexec_fn=limited, check=False)
    return done.returncode, done.stdout


def make_verifier(path, run, folder):
    shutil.copy(path, os.path.join(folder, "model.pml"))
    status, output = call(["spin", "-a", *run.switches, "model.pml"], folder)
    if status != 0 or not os.path.exists(os.path.join(folder, "pan.c")) or "syntax error" in output:
        return f"spin -a failed:\n{output}"
    # Breadth first would give shorter trails, but takes several times the memory.
    # A defect is found after a few states, so that compiling takes longest: tcc does it in a thirtieth of gcc's time.
    compiler = ["cc", "-Og"] if run.promise is None else ["tcc"] if shutil.which("tcc") else ["cc", "-O0"]
    status, output = call([*compiler, "-w", "-DSAFETY", "-DNOCLAIM", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_LIMIT_MB}",
                           "-DVECTORSZ=4096", "-o", "pan", "pan.c"], folder)
    return None if status == 0 else f"the verifier does not compile:\n{output}"


def search(run, *more):
    # A table for 4 million states, or 250,000: it grows when it has to, but is all touched before the first one.
    return ["./pan", f"-m{DEPTH_LIMIT}", "-w22" if run.promise is None else "-w18", *more]


def broken_promise(output):
    """What the search found first: a promise, or None."""
    found = re.search(r"^pan:\d+: (.*?)(?: \(at depth \d+\))?$", output, re.MULTILINE)
    if not found:
        return None
    if found[1].startswith("invalid end state"):
        return STUCK
    name = re.findall(r"promise_(\w+)", found[1])
    return name[-1] if name else found[1]


def lines_of(folder, output):
    """The lines of the model that this run has, and those of them that it did not reach."""
    _, listing = call(["./pan", "-d"], folder)
    there = {int(line) for line in re.findall(r"model\.pml:(\d+)", listing)}
    states = {}
    for line, state in re.findall(r"model\.pml:(\d+), state (\d+)", output):
        states.setdefault(int(line), set()).add(state)
    all_states = {}
    for state, line in re.findall(r"state +(\d+) -\(tr.*?model\.pml:(\d+)", listing):
        all_states.setdefault(int(line), set()).add(state)
    missed = {line for line, there_not in states.items() if there_not >= all_states.get(line, there_not)}
    return there, missed


class Outcome:
    def __init__(self, run, problem=None, note="", there=(), missed=()):
        self.run, self.problem, self.note, self.there, self.missed = run, problem, note, there, missed


def perform(path, run):
    with tempfile.TemporaryDirectory(prefix="plumb-model-") as folder:
        problem = make_verifier(path, run, folder)
        if problem:
            return Outcome(run, problem)
        status, output = call(search(run), folder)
        broken = broken_promise(output)
        if run.promise is not None:
            if broken != run.promise:
                return Outcome(run, f"found {broken or 'nothing'} instead of {run.promise} broken:\n{output[-2000:]}")
            return Outcome(run, note=f"breaks {broken}, as it should")
        if broken is not None:
            return Outcome(run, f"breaks {broken}; see run.py --trail {path} {run.name}\n{output[-2000:]}")
        complete = ("Search not completed" not in output and "max search depth too small" not in output
                    and "out of memory" not in output and re.search(r"errors: 0\b", output) and status == 0)
        if not complete:
            return Outcome(run, f"the search was not complete:\n{output[-2000:]}")
        count = re.search(r"(\S+) states, stored", output)
        memory = re.search(r"(\S+)\s+total actual memory", output)
        there, missed = lines_of(folder, output)
        return Outcome(run, None, f"{float(count[1]):.0f} states, {memory[1] if memory else '?'} MB", there, missed)


def dead_lines(path, outcomes):
    """Steps of the model that no check reached."""
    there, reached = set(), set()
    for outcome in outcomes:
        there |= set(outcome.there)
        reached |= set(outcome.there) - set(outcome.missed)
    with open(path, encoding="utf-8") as model:
        lines = model.read().split("\n")
    return [f"{path}:{line}: {lines[line - 1].strip()}" for line in sorted(there - reached)
            if "/* not reached" not in lines[line - 1]]


def show_trail(path, run):
    with tempfile.TemporaryDirectory(prefix="plumb-model-") as folder:
        problem = make_verifier(path, run, folder)
        if problem:
            sys.exit(problem)
        _, output = call(search(run), folder)
        if broken_promise(output) is None:
            sys.exit(f"nothing is broken:\n{output}")
        # The shortest within the depth of the first one.
        call(search(run, "-i"), folder)
        _, steps = call(["spin", "-t", "-p", "-g", "-l", *run.switches, "model.pml"], folder)
        print(steps)


SELF_TEST_MODEL = """/*
 *   * check  counted -DSTEPS=3
 *   * defect {defect} in counted breaks {promise}
 */
hidden byte promise_is_small, promise_is_even;
#define PROMISE(name, condition) assert((condition) || promise_##name != 0)
byte count, waits;
active proctype counter() {{
    do
    :: atomic {{ count < STEPS -> count++ }}
    :: atomic {{ count == STEPS -> break }}
    od;
#ifdef DEFECT_ONE_MORE
    count++;
#endif
    if
    :: {condition} -> skip
    :: {condition} && count == 200 -> waits = 1{mark}
    fi;
    PROMISE(is_small, count <= {bound})
}}
"""
SELF_TESTS = [
    # what is tried, what the model has, whether it passes
    ("a model that is right", {}, True),
    ("a defect that nothing finds", {"defect": "OF_NOBODY"}, False),
    ("a defect that breaks another promise", {"promise": "is_even"}, False),
    ("a promise that is broken without a defect", {"bound": 2}, False),
    ("somebody who waits for ever", {"condition": "count == 77"}, False),
    ("a step that is never reached", {"mark": ""}, False),
]


def self_test():
    failed = False
    for what, fields, passes in SELF_TESTS:
        with tempfile.TemporaryDirectory(prefix="plumb-model-") as folder:
            path = os.path.join(folder, "small.pml")
            given = {"defect": "ONE_MORE", "promise": "is_small", "condition": "count > 0", "bound": 3,
                     "mark": " /* not reached */", **fields}
            with open(path, "w", encoding="utf-8") as model:
                model.write(SELF_TEST_MODEL.format(**given))
            status = subprocess.run([sys.executable, __file__, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True, check=False)
        right = (status.returncode == 0) == passes
        failed |= not right
        print(f"{what}: {'passes' if status.returncode == 0 else 'fails'}" + (", as it should" if right else f"\n{status.stdout}"))
    return 1 if failed else 0


def main():
    arguments = sys.argv[1:]
    trail = arguments[:1] == ["--trail"]
    if shutil.which("spin") is None:
        print("spin is not there: it is in Debian's package spin (tools/setup)")
        return 77
    if arguments == ["--self-test"]:
        return self_test()
    path, *names = arguments[1:] if trail else arguments
    runs = [run for run in read_runs(path) if not names or run.name in names]
    if not runs or (names and {run.name for run in runs} != set(names)):
        print(f"{path} has no such checks: {' '.join(names) or 'none at all'}")
        return 1
    if trail:
        show_trail(path, runs[0])
        return 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("PLUMB_MODEL_JOBS", "1"))) as pool:
        outcomes = []
        for outcome in pool.map(lambda run: perform(path, run), runs):
            kind = "check" if outcome.run.promise is None else "defect"
            print(f"{kind} {outcome.run.name}: {outcome.problem or outcome.note}", flush=True)
            outcomes.append(outcome)
    failed = any(outcome.problem for outcome in outcomes)
    if not names and not failed:
        for line in dead_lines(path, [o for o in outcomes if o.run.promise is None]):
            print(f"no check reaches {line}")
            failed = True
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{len(runs)} runs, {used.ru_utime + used.ru_stime:.0f} s of processor time")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
