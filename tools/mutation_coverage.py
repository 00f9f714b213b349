"""Which tests execute which lines of the core, for tools/mutate.

A build of its own (cover/build) notes each block of code that runs in files that it maps shared: mutation_coverage.c
says how. So nothing is lost where a program is killed, ends by _exit() or becomes another one, and neither in handlers of
signals nor in programs that know nothing of the environment. What it cannot say, and what is believed then:

    a test of TOO_SLOW, which would not end there    it is not run; it reaches everything
    a test fails or hangs in that build (also since a program could not note: it ends at once then)    it reaches everything
    a program without lines, or built by a test and gone: what applications have in them    everything of RUNTIME
    a header of applications, where a test starts programs that have libplumb (they may be compiled by it)    all of it
    kernel tests: their programs run in a machine of their own    not run here; they reach everything
    a line without code (a constant, a declaration)    the caller looks at which objects it changes
    order that chance decides    outside RUNTIME, what a test reaches in either of its two ways counts for both
"""
import bisect
import collections
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess

RUNTIME = ("libtrace/", "tp-", "include/")
FLAGS = "-fsanitize-coverage=trace-pc -O0 -g1 -w"  # lines of their own for all blocks
NOTE = "__sanitizer_cov_trace_pc"
TOO_SLOW = re.compile("stress_objects")  # each of thousands of plug-ins would be kept and noted


def bits(lines):
    mask = 0
    for line in lines:
        mask |= 1 << line
    return mask


class Module:
    """A program or library: which lines belong to each place that its note names."""

    def __init__(self, elf, sources):
        self.lines = collections.defaultdict(set)
        data = elf.read_bytes()
        symbols = subprocess.run(["nm", elf], capture_output=True, text=True, check=True).stdout
        known = {parts[2]: int(parts[0], 16) for parts in map(str.split, symbols.splitlines()) if len(parts) == 3}
        base = known["__ehdr_start"]
        functions = {int(parts[0], 16) for parts in map(str.split, symbols.splitlines())
                     if len(parts) == 3 and parts[1] in "tTwWiu"}
        calls = sorted(call for offset, address, size in self._code(data)
                       for call in self._calls(data[offset:offset + size], address, known[NOTE]))
        # What a function does before its first call belongs to that block.
        marks = [(call, (call + 5 - base) // 4) for call in calls]
        for function in functions:
            at = bisect.bisect_left(calls, function)
            if at < len(calls):
                marks.append((function, marks[at][1]))
        marks.sort()
        addresses = [mark[0] for mark in marks]
        for address, source, line in self._rows(elf, sources):
            at = bisect.bisect_right(addresses, address) - 1
            if at >= 0:
                self.lines[marks[at][1]].add((source, line))

    @staticmethod
    def _code(data):
        table, = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        for number in range(count):
            kind, flags, offset, address, _, bytes_ = struct.unpack_from("<IIQQQQ", data, table + number * size)
            if kind == 1 and flags & 1:
                yield offset, address, bytes_

    @staticmethod
    def _calls(code, address, target):
        for found in re.finditer(b"\xe8(?=(....))", code, re.S):
            at = address + found.start()
            if at + 5 + struct.unpack("<i", found.group(1))[0] == target:
                yield at

    @staticmethod
    def _rows(elf, sources):
        """(address, source, line) of the core, as the debug information has them. A file's whole name stands above its
        rows, but not always."""
        dump = subprocess.Popen(["objdump", "--dwarf=decodedline", elf], stdout=subprocess.PIPE, text=True,
                                stderr=subprocess.DEVNULL, errors="replace")
        above = ""
        found = {}
        head = re.compile(r"(?:CU: )?(\S+):(?:\[\++\])?$")
        for text in dump.stdout:
            parts = text.split()
            if len(parts) >= 3 and parts[2].startswith("0x") and parts[1].isdigit():
                name = above if os.path.basename(above) == parts[0] else parts[0]
                if name not in found:
                    found[name] = sources(name)
                for source in found[name]:
                    yield int(parts[2], 16), source, int(parts[1])
            elif path := head.match(text.rstrip()):
                above = path.group(1)
        dump.wait()


class Coverage:
    def __init__(self, work, runner):
        self.work = work
        self.runner = runner
        self.folder = work.directory / "cover"
        self.build = self.folder / "build"
        self.file = work.directory / "coverage.json"
        self.tests = {}  # how each went here: verdict, seconds, own_processes, and the seconds that were allowed
        self.reached = {}  # test that passed: source: bits of its lines
        self.code = {}  # source: bits of the lines that have code
        self.modules = {}
        if self.file.exists():
            kept = json.loads(self.file.read_text())
            self.tests = kept["tests"]
            self.code = {source: int(mask, 16) for source, mask in kept["code"].items()}
            self.reached = {test: {source: int(mask, 16) for source, mask in found.items()}
                            for test, found in kept["reached"].items()}

    def keep(self):
        as_text = {test: {source: hex(mask) for source, mask in found.items()} for test, found in self.reached.items()}
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps({"tests": self.tests, "reached": as_text,
                                   "code": {source: hex(mask) for source, mask in self.code.items()}}))
        new.rename(self.file)

    def configure(self):
        for name in ("ran", "elf", "bin"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            (self.folder / name).chmod(0o1777)
        note = self.folder / "note.o"
        source = pathlib.Path(__file__).resolve().with_suffix(".c")
        if not note.exists() or note.stat().st_mtime < source.stat().st_mtime:
            subprocess.run(["gcc", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-stack-protector", "-ffreestanding",
                            f'-DMUTATION_COVERAGE="{self.folder}"', "-c", source, "-o", note], check=True)
        # What tests build themselves. Other compilers only link the notes, which the objects of the build call.
        for name, flags in {**dict.fromkeys(("cc", "gcc", "c++", "g++"), FLAGS), "clang": "", "clang++": ""}.items():
            wrapper = self.folder / "bin" / name
            if not shutil.which(name):
                continue
            wrapper.write_text(f"""#!/bin/sh
case " $* " in *" -c "* | *" -E "* | *" -S "* | *" -M"*) link= ;; *) link="-x none {note} -Wl,--build-id=sha1" ;; esac
exec {shutil.which(name)} {flags} "$@" $link
""")
            wrapper.chmod(0o755)
        return [f"-DCMAKE_{language}_FLAGS={FLAGS}" for language in ("C", "CXX")] + [
            f"-DCMAKE_{kind}_LINKER_FLAGS={note} -Wl,--build-id=sha1" for kind in ("EXE", "SHARED", "MODULE")] + [
            "-DCMAKE_BUILD_TYPE=Coverage", "-DPLUMB_LARGE_UNITS=ON"]

    def learn(self, builder):
        """Runs each test that is not known yet in a build that notes where it was."""
        def allowed(test):
            return min(test.timeout, self.runner.longest or test.timeout)

        def is_missing(test):
            # What was too slow when less time was allowed is tried again.
            return "kernel" not in test.labels and not TOO_SLOW.match(test.name) and (
                test.name not in self.tests or
                self.tests[test.name]["verdict"] == "hung" and self.tests[test.name]["allowed"] < allowed(test))

        if not any(is_missing(test) for test in self.runner.tests(self.work.build)):
            return
        print("building and testing with coverage", flush=True)
        builder.configure_one(self.build, self.configure())
        missing = [test for test in self.runner.tests(self.build) if is_missing(test)]
        built, output = builder.make_for(missing, self.build)
        if not built:
            raise RuntimeError(f"the copy does not build with coverage:\n{output[-3000:]}")
        again = []
        for width, tests in self.runner.by_width(missing, self.tests):
            for test, verdict, seconds in self.runner.run_beside(tests, width, lambda test: self.start(test, allowed(test))):
                if verdict == "failed":
                    again.append(test)
                else:
                    self.learned(test, verdict, seconds, allowed(test))
        for test in again:
            # Once more, alone, since the machine may have been busy; some need the machine's process ids.
            for own_processes in (False, True):
                verdict, seconds = self.runner.wait(self.start(test, allowed(test), own_processes))
                if verdict != "failed":
                    break
            self.learned(test, verdict, seconds, allowed(test), own_processes)

    def notes(self, test):
        """Tests that run beside each other note in folders of their own, each of which is seen as the one."""
        return self.folder / "ran" / test.name if self.runner.is_root else self.folder / "ran"

    def start(self, test, timeout, own_processes=True):
        ran = self.notes(test)
        ran.mkdir(exist_ok=True)
        ran.chmod(0o1777)
        for left in ran.glob("?" * 40):
            left.unlink()
        return self.runner.start(test, timeout, own_processes, seen_as=(ran, self.folder / "ran"),
                                 path=f"{self.folder / 'bin'}:{os.environ['PATH']}")

    def learned(self, test, verdict, seconds, allowed, own_processes=True):
        self.tests[test.name] = {"verdict": verdict, "seconds": seconds, "allowed": allowed, "own_processes": own_processes}
        if verdict == "passed":
            self.reached[test.name] = self.lines_of(self.notes(test))
        self.keep()
        print(f"  {test.name}: {verdict}, {seconds:.1f} s" +
              ("; is taken to reach everything" if verdict in ("failed", "hung") else "") +
              ("" if own_processes else " (no namespace)"), flush=True)

    def usual(self, test):
        return self.tests.get(test.name, {"seconds": test.timeout / 6, "own_processes": True, "verdict": "unknown"})

    def is_usable(self, test, longest):
        usual = self.usual(test)
        return usual["verdict"] != "skipped" and usual["seconds"] <= (longest or float("inf"))

    def lines_of(self, ran):
        """What was executed, by source; RUNTIME as a source if a program of those that ran is not known."""
        found = collections.Counter()
        for note in ran.glob("?" * 40):
            module = self.module(note.name)
            if not module:
                found["unknown"] = 1
                continue
            lines = collections.defaultdict(set)
            for hit in re.finditer(b"\x01", note.read_bytes()):
                for source, line in module.lines.get(hit.start(), ()):
                    lines[source].add(line)
            for source, numbers in lines.items():
                found[source] |= bits(numbers)
            note.unlink()
        return dict(found)

    def module(self, name):
        if name not in self.modules:
            try:
                module = self.modules[name] = Module(self.folder / "elf" / name, self.sources)
            except (OSError, KeyError, struct.error, subprocess.CalledProcessError):
                self.modules[name] = None  # gone before it was kept, or without symbols
                return None
            lines = collections.defaultdict(set)
            for place in module.lines.values():
                for source, line in place:
                    lines[source].add(line)
            for source, numbers in lines.items():
                self.code[source] = self.code.get(source, 0) | bits(numbers)
        return self.modules[name]

    def sources(self, path):
        """Those of the core that are meant by a name in debug information: relative to the build folder, or without one."""
        if "/" not in path:
            return [source for source in self.work.sources() if os.path.basename(source) == path]
        full = os.path.normpath(self.build / path)
        name = os.path.relpath(full, self.work.tree)
        return [name] if name.startswith(self.work.folders) else []

    def size(self, test):
        """How many lines of the core a test executes."""
        return sum(mask.bit_count() for mask in self.reached[test].values()) if test in self.reached else 1 << 30

    def has_code(self, source, lines):
        return bool(self.code.get(source, 0) & bits(lines))

    def reaches(self, test, source, lines=None):
        """Whether it executes one of these lines, or any of the file's; True where that is not known."""
        ways = [test.name]
        if not source.startswith(RUNTIME):
            ways = [test.base, f"{test.base}_no_rseq"]
        known = [self.reached[way] for way in ways if way in self.reached]
        if test.name not in self.reached or not known:
            return True
        if source.startswith(RUNTIME) and any("unknown" in one for one in known):
            return True
        # Programs that a test compiles itself note what is in libplumb, and nothing of what they have of the headers.
        if source.startswith("include/") and test.starts_others:
            return any(name.startswith("libtrace/") for one in known for name in one)
        mask = bits(lines) if lines else -1
        return any(one.get(source, 0) & mask for one in known)
