"""Runs the tests of a build for tools/mutate, each in a sandbox of its own, some beside each other."""
import contextlib
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import time

# In this order; the second of a pair runs only for what is written into applications, where it makes the difference.
SUITES = [("unit", False), ("unit", True), ("stress", False), ("stress", True),
          ("integration", False), ("integration", True), ("kernel", False)]
# What waits more than it computes runs beside others of its suite.
BESIDE_EACH_OTHER = {"integration": 4}
# Models do not see the code. These look at documents, packages and compilers, not at what the core does.
LEFT_OUT = re.compile(r"integration_(completion|documentation|compile|hot_path|install|manual)")
STARTS_FIXTURES = re.compile(r'#include "tests/support/(subject|child)\.h"')
GIB = 1 << 30

# $1: what can be written; $2: the directory; $3, $4: a directory that is seen as another, if not empty.
SANDBOX = """
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -o remount,bind,ro /
mount -o remount,bind,rw "$1"
cd "$1"
mount -t tmpfs -o mode=1777,size=3g tmpfs /tmp
[ -e "$1" ] || { mkdir -p "$1" && mount --no-canonicalize --bind . "$1"; } # it lies in /tmp
mount -t tmpfs -o mode=1777,size=3g tmpfs /dev/shm
[ $$ != 1 ] || mount -t proc proc /proc
[ -z "$3" ] || mount --bind "$3" "$4"
cd "$2"
shift 4
"$@"
exit $?
"""


def become_subreaper():
    import ctypes
    ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0)


def kill_descendants():
    """What a test left behind came to us (see become_subreaper). Only while none runs."""
    while True:
        children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        if not children:
            return
        for child in children:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(int(child), signal.SIGKILL)
                os.waitpid(int(child), 0)


class Test:
    def __init__(self, given, build, source_of_unit):
        properties = {one["name"]: one["value"] for one in given.get("properties", [])}
        self.name = given["name"]
        self.labels = properties.get("LABELS", [])
        self.environment = dict(one.split("=", 1) for one in properties.get("ENVIRONMENT", []))
        self.directory = properties.get("WORKING_DIRECTORY", str(build))
        self.timeout = float(properties.get("TIMEOUT", 300))
        self.locks = set(properties.get("RESOURCE_LOCK", []))
        self.serial = properties.get("RUN_SERIAL", False)
        self.second_way = "no_rseq" in self.labels
        self.base = self.name.removesuffix("_no_rseq").removesuffix("_own_rseq")
        # ctest does not say it before the program is there.
        self.command = given.get("command") or [f"{build}/tests/{self.base}"]
        # The first failure is enough.
        if any("unittest.main()" in pathlib.Path(part).read_text() for part in self.command if part.endswith(".py")):
            self.command = [*self.command, "--failfast"]
        self.program = self.base if os.path.basename(self.command[0]) == self.base else None
        self.starts_others = not self.base.startswith("unit_")  # other programs of the build
        source = source_of_unit / f"{self.base.removeprefix('unit_')}_test.cc"
        self.starts_fixtures = source.exists() and bool(STARTS_FIXTURES.search(source.read_text()))

    def suite(self):
        for number, (label, second_way) in enumerate(SUITES):
            if label in self.labels and second_way == self.second_way:
                return number
        return None


class Running:
    def __init__(self, test, process, timeout):
        self.test = test
        self.process = process
        self.begin = time.monotonic()
        self.end = self.begin + timeout

    def verdict(self):
        """None as long as it runs; 'passed', 'failed', 'skipped' or 'hung', and the seconds."""
        status = self.process.poll()
        now = time.monotonic()
        if status is None and now < self.end:
            return None
        return {0: "passed", 77: "skipped", None: "hung"}.get(status, "failed"), now - self.begin

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Runner:
    def __init__(self, work, suites=None, longest=None, names=""):
        self.work = work
        self.names = names  # that match this alone
        self.suites = suites  # of these labels alone
        self.longest = longest  # seconds
        self.is_root = os.getuid() == 0

    def tests(self, build):
        listed = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, check=True, capture_output=True)
        found = [Test(given, build, self.work.tree / "tests/unit") for given in json.loads(listed.stdout)["tests"]]
        return [test for test in found if test.suite() is not None and not LEFT_OUT.match(test.name) and
                (not self.suites or self.suites & set(test.labels)) and re.search(self.names, test.name)]

    def start(self, test, timeout, own_processes, seen_as=("", ""), path=None):
        # Whoever started us may ignore signals (a shell's background job those of the terminal), which children inherit.
        command = ["prlimit", f"--data={3 * GIB}:", f"--fsize={1024 * GIB}:", "--core=0", "--", "env", "--default-signal",
                   *test.command]
        if self.is_root:
            name_spaces = ["--mount"] + (["--pid", "--fork", "--kill-child"] if own_processes else [])
            command = ["unshare", *name_spaces, "bash", "-c", SANDBOX, "sh", str(self.work.directory), test.directory,
                       *map(str, seen_as), *command]
        environment = {**os.environ, "GTEST_FAIL_FAST": "1", **test.environment, **({"PATH": path} if path else {})}
        logs = self.work.directory / "logs"
        logs.mkdir(exist_ok=True)
        with (logs / test.name).open("wb") as output:
            process = subprocess.Popen(command, cwd=test.directory, env=environment, stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        return Running(test, process, timeout)

    def wait(self, running):
        """'passed', 'failed', 'skipped' or 'hung', and the seconds."""
        try:
            while not (verdict := running.verdict()):
                time.sleep(0.02)
        finally:
            running.kill()
            kill_descendants()
        return verdict

    def run_beside(self, tests, width, start):
        """Gives (test, verdict, seconds) of each as it ends; `start` starts one. Who asks for no more ends what runs."""
        waiting, running = list(tests), []
        try:
            while waiting or running:
                busy = set().union(*(one.test.locks for one in running))
                alone = any(one.test.serial for one in running)
                for test in list(waiting):
                    if len(running) >= width or alone or busy & test.locks or (test.serial and running):
                        continue
                    waiting.remove(test)
                    running.append(start(test))
                    busy |= test.locks
                    alone = test.serial
                time.sleep(0.02)
                for one in list(running):
                    if verdict := one.verdict():
                        running.remove(one)
                        one.kill()
                        yield one.test, *verdict
        finally:
            for one in running:
                one.kill()
            kill_descendants()

    def by_width(self, tests, known):
        """(how many at once, tests), suite by suite: what sees others' processes, or has no sandbox, runs alone."""
        def width(test):
            alone = not self.is_root or test.serial or not known.get(test.name, {"own_processes": True})["own_processes"]
            return 1 if alone else max(BESIDE_EACH_OTHER.get(label, 1) for label in test.labels)

        def group(test):
            return test.suite(), width(test)

        for (_, at_once), some in itertools.groupby(sorted(tests, key=group), group):
            yield at_once, list(some)
