#!/usr/bin/env python3
"""Which tests tools/check runs where its time is limited, and what came of them.

    check_tests.py plan PRESET SECONDS            the names of those that are left to other commits' checks, a line each
    check_tests.py counts REPORT [LOG]            "PASSED FAILED SKIPPED CUT", then a line of names of each but the last
    check_tests.py durations REPORT... [--into F] what tests take (tests/durations.txt), made or brought up to date

A plan takes what is short, then what tests something that changed lately, then the others in an order that the
commit's number shuffles, so that each has its turn, and stops where the time is full. How long a test takes is in
tests/durations.txt, as it was on two processors beside others; a report (JUnit, by ctest) renews it.
"""
import argparse
import collections
import hashlib
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as tree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DURATIONS = os.path.join(ROOT, "tests/durations.txt")
# As tests/CMakeLists.txt has them: seconds; what takes no longer has no turns, and the COST by which ctest begins with it.
SHORT = 6
BEFORE_OTHERS = 10000
LATELY = 60  # commits
# What the same test takes longer with a sanitizer.
SLOWER = {"asan": 3, "tsan": 4}
# A plan that is exact is one that does not fit every second time.
FILLED = 0.9

Test = collections.namedtuple("Test", "name seconds labels locks serial timeout")


def output_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT).stdout


def tests_of(preset):
    """Those that the preset's filter leaves, with what ctest knows of them."""
    tests = []
    for one in json.loads(output_of("ctest", "--preset", preset, "--show-only=json-v1"))["tests"]:
        properties = {p["name"]: p["value"] for p in one.get("properties", [])}
        cost = float(properties.get("COST", 0))
        cost = (SHORT / 2 if cost == BEFORE_OTHERS else cost) * SLOWER.get(preset, 1)
        tests.append(Test(one["name"], cost, properties.get("LABELS", []), properties.get("RESOURCE_LOCK", []),
                          bool(properties.get("RUN_SERIAL")), float(properties.get("TIMEOUT", 1500))))
    return tests


def source_of(test):
    """Its file in the tree, below tests/."""
    what = re.sub(r"_(no|own)_rseq$", "", test.name)
    kind, _, what = what.partition("_")
    what = re.sub(r"_\d+\.\d+$", "", what)
    for path in (f"{kind}/{what}_test.cc", f"{kind}/test_{what}.py", f"{kind}/{what}_fuzz.cc", f"{kind}/{what}.pml"):
        if os.path.exists(os.path.join(ROOT, "tests", path)):
            return "tests/" + path
    return None


def looks_at(test):
    """What changes it: its file, and what that names in its head as `# cmake-of: PATH...`."""
    source = source_of(test)
    if source is None:
        return ()
    with open(os.path.join(ROOT, source), errors="replace") as file:
        named = re.findall(r"^(?:#|//) cmake-of: (.*)", file.read(4000), re.M)
    return (source, *(path for paths in named for path in paths.split()))


def has_changed(test, changed):
    return any(path == of or path.startswith(of.rstrip("/") + "/") for of in looks_at(test) for path in changed)


def estimate(tests, slots):
    """Seconds: what stands in a row because of a lock, or all of it side by side, whichever is longer."""
    rows = collections.Counter()
    for test in tests:
        for lock in test.locks:
            rows[lock] += test.seconds
    beside = [t.seconds for t in tests if not t.serial]
    alone = sum(t.seconds for t in tests if t.serial)
    return alone + max([sum(beside) / slots, max(beside, default=0), *rows.values()])


def plan(preset, tests, seconds, slots, commit, changed):
    """The names that do not fit, the last in turn first of all."""
    def turn(test):
        second_run = {"no_rseq", "own_rseq"} & set(test.labels)
        is_same = not has_changed(test, changed)
        # A model says the same each time.
        settled = "model" in test.labels and is_same
        return (test.seconds > SHORT * SLOWER.get(preset, 1), bool(second_run) or settled, is_same,
                hashlib.sha256(f"{commit} {test.name}".encode()).digest())

    taken, left = [], []
    for test in sorted(tests, key=turn):
        fits = estimate(taken + [test], slots) <= seconds * FILLED
        (taken if fits else left).append(test)
    return [t.name for t in left]


def print_plan(arguments):
    slots = int(os.environ.get("CTEST_PARALLEL_LEVEL", os.cpu_count()))
    changed = set(output_of("git", "diff", "--name-only", f"HEAD~{LATELY}").split())
    tests = tests_of(arguments.preset)
    for name in plan(arguments.preset, tests, arguments.seconds, slots, output_of("git", "rev-parse", "HEAD").strip(), changed):
        print(name)


def cut_off(log, timeouts):
    """Names of tests that ended since ctest had to stop, before their own time was over; what ctest has not begun is in
    no report."""
    with open(log, errors="replace") as lines:
        found = re.findall(r"Test +#\d+: (\S+) \.*\*\*\*Timeout +([\d.]+) sec", lines.read())
    return {name for name, took in found if float(took) < timeouts.get(name, 0) - 2}


def results(report, log, timeouts):
    """Names: of those that passed, failed, were skipped, and were cut off."""
    states = {}
    for case in tree.parse(report).getroot().iter("testcase"):
        states.setdefault(case.get("status"), []).append(case.get("name"))
    skipped = states.pop("notrun", []) + states.pop("disabled", [])
    good = states.pop("run", [])
    cut = cut_off(log, timeouts) if log else set()
    return good, [name for names in states.values() for name in names if name not in cut], skipped, cut


def print_counts(arguments):
    timeouts = {t.name: t.timeout for t in tests_of(arguments.preset)} if arguments.log else {}
    good, bad, skipped, cut = results(arguments.report, arguments.log, timeouts)
    print(len(good), len(bad), len(skipped), len(cut))
    for names in (good, bad, skipped):
        print(*names)


def print_durations(arguments):
    known = {}
    for path in [DURATIONS] if os.path.exists(DURATIONS) else []:
        with open(path) as lines:
            known = dict(line.split() for line in lines if not line.startswith("#"))
    for report in arguments.reports:
        for case in tree.parse(report).getroot().iter("testcase"):
            if case.get("status") == "run":
                known[case.get("name")] = str(max(1, round(float(case.get("time")))))
    with open(arguments.into, "w") as out:
        out.write("# Seconds that tests take on two processors beside others: tools/check_tests.py durations REPORT\n")
        for name in sorted(known):
            out.write(f"{name} {known[name]}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("plan")
    one.add_argument("preset")
    one.add_argument("seconds", type=float)
    one.set_defaults(run=print_plan)
    one = commands.add_parser("counts")
    one.add_argument("report")
    one.add_argument("--log")
    one.add_argument("--preset", default="gcc")
    one.set_defaults(run=print_counts)
    one = commands.add_parser("durations")
    one.add_argument("reports", nargs="+")
    one.add_argument("--into", default=DURATIONS)
    one.set_defaults(run=print_durations)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
