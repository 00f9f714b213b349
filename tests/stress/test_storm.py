#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-serial
"""The storm: programs that do what may disturb tracing, while sessions start, end, are killed, are stopped and fill
their disks. No program may end otherwise than it does without Plumb, and each trace must be exact against what the programs
counted themselves.

    PLUMB_BUILD_DIR=build/dev PLUMB_SOURCE_DIR=. python3 tests/stress/test_storm.py

PLUMB_STORM_SECONDS   how long it blows, in rounds of 15 s (default 6)
PLUMB_STORM_SEED      default: the time
PLUMB_STORM_ACTS      these alone, joined by commas; PLUMB_STORM_WITHOUT: all but these
PLUMB_STORM_RSEQ      N: every N-th program runs without restartable sequences, whatever the others do
PLUMB_STORM_SESSIONS  kinds of sessions, joined by commas: the names of the functions below without session_
PLUMB_STORM_KEEP      where the traces of what broke are kept (default: the working directory, which is then left)

As root it has a /dev/shm of its own, acts that change their user, and disks that are full. Otherwise it does without.
"""
import collections
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PROGRAMS = BUILD / "tests/stress/storm"
PLUMB = BUILD / "cli/plumb"
SECONDS = float(os.environ.get("PLUMB_STORM_SECONDS", "6"))
SEED = int(os.environ.get("PLUMB_STORM_SEED", str(int(time.time()))))
ROUND_SECONDS = 15
BOARD_BYTES = 64 + (1 << 20) * 32
IS_ROOT = os.geteuid() == 0
SESSIONS_AT_ONCE = 3
NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
SUMMARY_SECONDS = 120  # until a recorder must have ended


class Board:
    """What the programs of one nursery count on."""

    def __init__(self, path):
        self.path = path
        with path.open("wb") as file:
            file.truncate(BOARD_BYTES)
        path.chmod(0o666)

    def stop(self):
        with self.path.open("r+b") as file:
            file.seek(4)
            file.write(struct.pack("<I", 1))


class Storm:
    def __init__(self, folder):
        self.folder = folder
        self.random = random.Random(SEED)
        self.programs = folder / "programs"
        self.broken = []
        self.counts = collections.Counter()
        self.unreachable = collections.Counter()
        self.losses = collections.Counter()
        self.lock = threading.Lock()
        self.traces = []  # (session, options for storm_check)
        self.deadline = 0
        self.nobodys_board = None
        self.number = 0

    def broke(self, what):
        with self.lock:
            self.broken.append(what)
        print("BROKE", what, flush=True)

    # Programs -----------------------------------------------------------------------------------------------------

    def install(self):
        """Where other users may start them."""
        self.folder.chmod(0o755)
        self.programs.mkdir()
        for file in PROGRAMS.iterdir():
            if file.is_file() and file.name.startswith(("storm_", "libstorm_")):
                shutil.copy2(file, self.programs)
        for file in (*(BUILD / "libtrace").glob("libplumb.so*"), BUILD / "probes/pthread/libplumb-pthread.so"):
            shutil.copy2(file, self.programs)
        shutil.copy2(self.programs / "storm_subject", self.programs / "storm_launched")  # which --exe does not mean
        shutil.copy2(self.programs / "storm_subject", self.programs / "storm_nobody")
        shutil.copy2(PLUMB, self.programs)
        os.environ["LD_LIBRARY_PATH"] = str(self.programs)

    def nursery_command(self, board, seed, at_once):
        variables = {name: os.environ.get(f"PLUMB_STORM_{name.upper()}") for name in ("acts", "without", "rseq")}
        return [self.programs / "storm_nursery", board.path, seed, f"at-once={at_once}",
                *(f"{name}={value}" for name, value in variables.items() if value)]

    def start_nursery(self, board, *options, prefix=(), at_once=4):
        command = [*prefix, *self.nursery_command(board, self.random.getrandbits(31), at_once), *options]
        return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)

    def end_nursery(self, nursery, name):
        try:
            said = nursery.communicate(timeout=400)[0]
        except subprocess.TimeoutExpired:
            nursery.kill()
            said = "broke: the nursery does not end\n" + nursery.communicate()[0]
        self.take_nursery(said, nursery.returncode, name)

    def take_nursery(self, said, status, name):
        lines = said.splitlines()
        summary = [line for line in lines if line.startswith("programs=")]
        if status != 0 or not summary:
            self.broke(f"{name}: status {status}\n" + "\n".join(lines))
        for word in summary[0].split() if summary else ():
            key, _, number = word.partition("=")
            self.counts[f"{name}: {key}"] += int(number)

    def check_plain(self):
        """The acts do what they promise, without Plumb: else what follows says nothing."""
        board = Board(self.folder / "board-plain")
        self.end_nursery(self.start_nursery(board, "plain", "program=storm_plain", at_once=8), "without Plumb")

    # Sessions -----------------------------------------------------------------------------------------------------

    def new_folder(self, kind):
        with self.lock:
            self.number += 1
            folder = self.folder / "sessions" / f"{self.number}-{kind}"
        folder.mkdir(parents=True)
        return folder

    def record(self, folder, arguments, **more):
        """Starts a recorder; `output` is its trace."""
        folder.chmod(0o777)
        output = more.pop("output", folder / "trace")
        command = [str(word) for word in (*more.pop("prefix", ()), self.programs / "plumb", "record", "--json", "-o",
                                          output, *arguments)]
        (folder / "command").write_text(" ".join(command) + "\n")
        with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
            return subprocess.Popen(command, stdout=out, stderr=err, **more)

    def observer(self, board, folder, milliseconds):
        return ["--", self.programs / "storm_observer", board.path, folder / "begin", folder / "end", milliseconds]

    def sizes(self, chance):
        size, count = chance.choice([("64K", 64), ("512K", 8), ("16K", 128), ("1M", 4)])
        return ["--subbuf-size", size, "--subbuf-count", count]

    def modes(self, chance):
        return chance.choice([[], [], ["--mode", "block", "--block-timeout", "20s"], ["--clock", "mono"]])

    def end_recorder(self, recorder, folder, expected=(0,)):
        try:
            recorder.wait(timeout=SUMMARY_SECONDS)
        except subprocess.TimeoutExpired:
            stack = subprocess.run(["gdb", "-p", str(recorder.pid), "-batch", "-ex", "thread apply all bt 12"],
                                   capture_output=True, text=True, check=False).stdout if shutil.which("gdb") else ""
            recorder.kill()
            recorder.wait()
            self.broke(f"{folder}: the recorder does not end\n{stack[-3000:]}")
            return False
        if recorder.returncode not in expected:
            said = (folder / "err").read_text()
            self.broke(f"{folder}: the recorder ended with status {recorder.returncode}: {said}")
            return False
        return True

    def check_later(self, folder, board, *options, trace=None):
        self.traces.append((folder, trace or folder / "trace", board, options))

    def session_observed(self, board, chance, kind="observed", disturb=None, whom=("--exe", "storm_subject"), **more):
        """From a moment when everybody has been told, to one at which everybody still is."""
        folder = self.new_folder(kind)
        recorder = self.record(folder, [*self.sizes(chance), *self.modes(chance), *whom,
                                        *self.observer(board, folder, chance.randrange(300, 2500))], **more)
        if disturb:
            disturb(recorder, folder)
        if self.end_recorder(recorder, folder):
            self.check_later(folder, board, f"begin={folder / 'begin'}", f"end={folder / 'end'}",
                             *(["without-nobody"] if kind in ("observed", "stopped") else []))

    def session_of_nobody(self, board, chance):
        """Another user's programs, recorded by himself."""
        del board
        if IS_ROOT:
            self.session_observed(self.nobodys_board, chance, "of_nobody", whom=("--exe", "storm_nobody"),
                                  prefix=AS_NOBODY)

    def session_of_users(self, board, chance):
        """Everybody's, by root."""
        if IS_ROOT:
            whom = ("--user", NOBODY, "--exe", chance.choice(["storm_subject", "storm_nobody"]))
            self.session_observed(self.nobodys_board if whom[-1] == "storm_nobody" else board, chance, "of_users",
                                  whom=whom)

    def session_stopped(self, board, chance):
        """The recorder itself is stopped for a while, again and again."""
        def stop_and_go(recorder, folder):
            while recorder.poll() is None and not (folder / "end").exists():
                time.sleep(chance.uniform(0.05, 0.3))
                recorder.send_signal(signal.SIGSTOP)
                time.sleep(chance.uniform(0.05, 0.8))
                recorder.send_signal(signal.SIGCONT)
        self.session_observed(board, chance, "stopped", stop_and_go)

    def session_killed(self, board, chance):
        """kill -9 of the recorder, at any moment. What it wrote and what it left in memory are the whole together."""
        folder = self.new_folder("killed")
        recorder = self.record(folder, [*self.sizes(chance), *self.modes(chance), "--exe", "storm_subject",
                                        *self.observer(board, folder, 3000)], start_new_session=True)
        time.sleep(chance.choice([0.05, 0.2, 1.0, 2.5]) * chance.random())
        subprocess.run([self.programs / "storm_observer", board.path, folder / "end"], check=True)
        os.killpg(recorder.pid, signal.SIGKILL)
        recorder.wait()
        rest = folder / "rest"
        extracted = subprocess.run([self.programs / "plumb", "extract", str(recorder.pid), "-o", rest],
                                   capture_output=True, text=True, timeout=SUMMARY_SECONDS, check=False)
        (folder / "extracted").write_text(extracted.stdout + extracted.stderr)
        if extracted.returncode not in (0, 1):
            self.broke(f"{folder}: plumb extract: status {extracted.returncode}: {extracted.stderr}")
        if (folder / "begin").exists() and extracted.returncode == 0:
            self.check_later(folder, board, f"begin={folder / 'begin'}", f"end={folder / 'end'}", "seen-only",
                             trace=folder)
        elif list(folder.glob("trace/**/metadata")):
            self.check_later(folder, board, "partial")

    def session_interrupted(self, board, chance):
        """Ctrl-C, without a command, at any moment."""
        folder = self.new_folder("interrupted")
        recorder = self.record(folder, [*self.sizes(chance), "--exe", "storm_subject"])
        time.sleep(chance.uniform(0.2, 1.5))
        recorder.send_signal(signal.SIGINT)
        if self.end_recorder(recorder, folder, expected=(0, -signal.SIGINT)) and list(folder.glob("trace/*/metadata")):
            self.check_later(folder, board, "partial")

    def session_full_disk(self, board, chance):
        """A disk of a few megabytes, that the trace does not fit on."""
        if not IS_ROOT:
            return
        folder = self.new_folder("full_disk")
        disk = folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={chance.choice(['300k', '1m', '3m'])}", "tmpfs", disk],
                       check=True)
        recorder = self.record(folder, [*self.sizes(chance), "--exe", "storm_subject",
                                        *self.observer(board, folder, chance.randrange(800, 2500))],
                               output=disk / "trace")
        if self.end_recorder(recorder, folder, expected=(0, 1)):
            self.check_later(folder, board, f"begin={folder / 'begin'}", f"end={folder / 'end'}",
                             "names-may-miss", "without-nobody", trace=disk / "trace")

    def session_launched(self, board, chance):
        """A nursery and all its programs: exact from the first to the last event."""
        del board
        folder = self.new_folder("launched")
        own = Board(folder / "board")
        recorder = self.record(folder, [*self.sizes(chance), *self.modes(chance), "--",
                                        *self.nursery_command(own, chance.getrandbits(31), 2),
                                        "program=storm_launched"])
        time.sleep(chance.uniform(0.5, 2.5))
        own.stop()
        if self.end_recorder(recorder, folder, expected=(0, 1)):
            said = (folder / "out").read_text().partition('{\n  "trace"')[0]
            self.take_nursery(said, recorder.returncode, "launched")
            self.check_later(folder, own, "without-nobody")

    def session_flight(self, board, chance):
        """A flight recorder, its snapshots, and rings that are overwritten."""
        folder = self.new_folder("flight")
        recorder = self.record(folder, ["--subbuf-size", "16K", "--subbuf-count", 4, "--snapshot", "--exe",
                                        "storm_subject", *self.observer(board, folder, chance.randrange(600, 2000))])
        if self.end_recorder(recorder, folder):
            self.check_later(folder, board, "partial")

    def session_processes(self, board, chance):
        """Those that run, by their numbers; they end, or become others, meanwhile."""
        folder = self.new_folder("processes")
        running = subprocess.run(["pgrep", "-x", "storm_subject"], capture_output=True, text=True, check=False)
        chosen = [word for pid in running.stdout.split()[:6] for word in ("-p", pid)]
        if not chosen:
            return
        recorder = self.record(folder, [*self.sizes(chance), *chosen, "--duration", "1s"])
        if self.end_recorder(recorder, folder, expected=(0, 1)) and list(folder.glob("trace/*/metadata")):
            self.check_later(folder, board, "partial")

    def session_looks(self, board, chance):
        """Who only looks."""
        del board
        for command in (["list"], ["doctor"]):
            done = subprocess.run([self.programs / "plumb", *command], capture_output=True, text=True, timeout=60,
                                  check=False)
            if done.returncode not in (0, 1):
                self.broke(f"plumb {command[0]}: status {done.returncode}: {done.stderr}")
        time.sleep(chance.random())

    def blow(self, board, seed):
        """Sessions one after the other, in this thread."""
        chance = random.Random(seed)
        kinds = [name for name in dir(self) if name.startswith("session_")]
        if os.environ.get("PLUMB_STORM_SESSIONS"):
            kinds = [f"session_{kind}" for kind in os.environ["PLUMB_STORM_SESSIONS"].split(",")]
        kinds = kinds + ["session_observed"] * 3 * ("session_observed" in kinds)
        try:
            while time.monotonic() < self.deadline:
                kind = chance.choice(kinds)
                self.counts[kind] += 1
                getattr(self, kind)(board, chance)
        except Exception as error:  # pylint: disable=broad-except
            self.broke(f"the driver itself: {error!r}")
            raise

    # Rounds -------------------------------------------------------------------------------------------------------

    def round(self, seconds):
        self.traces = []
        self.deadline = time.monotonic() + seconds
        board = Board(self.folder / f"board-{self.number}")
        nursery = self.start_nursery(board, f"preload={self.programs / 'libplumb-pthread.so'}")
        if IS_ROOT:
            self.nobodys_board = Board(self.folder / f"board-{self.number}-nobody")
            nobodys = self.start_nursery(self.nobodys_board, f"user={NOBODY}", "program=storm_nobody", at_once=1)
        threads = [threading.Thread(target=self.blow, args=(board, self.random.getrandbits(31)))
                   for _ in range(SESSIONS_AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        board.stop()
        self.end_nursery(nursery, "attached")
        if IS_ROOT:
            self.nobodys_board.stop()
            self.end_nursery(nobodys, "of nobody")
        for trace in self.traces:
            self.check(*trace)
        if not self.broken:
            for file in self.folder.glob("board-*"):
                file.unlink()
        for folder in (self.folder / "sessions").glob("*"):
            if not (folder / "keep").exists():
                self.remove(folder)

    @staticmethod
    def remove(folder):
        if (folder / "disk").exists():
            subprocess.run(["umount", folder / "disk"], check=False)
        shutil.rmtree(folder)

    def check(self, folder, trace, board, options):
        summary = self.summary_of(folder)
        is_whole = not {"partial", "seen-only"} & set(options)
        if is_whole and summary is None:
            self.broke(f"{folder}: no summary: {(folder / 'out').read_text()[-1000:]}")
            (folder / "keep").touch()
            return
        summary = summary or {"unreachable": [], "reached_late": [], "events_lost": 0}
        named = summary["unreachable"] + summary["reached_late"]
        for cause, count in summary.get("events_lost_by_cause", {}).items():
            self.losses[cause] += count
        # Of a recorder that stood still, or had more programs than there was room for.
        nameless = summary.get("not_described", {}).get("refused_entry_slots", 0)
        self.losses["entries not described"] += nameless
        if nameless:
            options = [*options, "names-may-miss"]
        excepted = ",".join(str(each["pid"]) for each in named)
        command = [self.programs / "storm_check", board.path, trace, *options,
                   *([f"except={excepted}"] if excepted else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.broke(f"{folder}: storm_check: status {done.returncode}: {done.stderr}")
            (folder / "keep").touch()
            return
        acts = json.loads(done.stdout).get("excepted", {})
        for each in named:
            self.unreachable[f"{acts.get(str(each['pid']), each['pid'])}: {each['reason']}"] += 1
        complaints = self.judge(json.loads(done.stdout), summary if is_whole else None, "partial" in options)
        if complaints:
            (folder / "keep").touch()
            (folder / "checked").write_text(done.stdout)
            self.broke(f"{folder}: " + "; ".join(complaints) + f"\n  {' '.join(map(str, command))}\n" + done.stdout)

    def summary_of(self, folder):
        text = (folder / "out").read_text()
        start = text.find('{\n  "trace"')  # behind what its command said
        try:
            return json.loads(text[start:]) if start >= 0 else None
        except json.JSONDecodeError:
            return None

    def judge(self, result, summary, is_partial):
        """`summary`: None of a recorder that was killed; then the trace says what was lost."""
        if "unreadable" in result:
            return [f"cannot be read: {result['unreadable']}"]
        self.counts["traces"] += 1
        self.counts["records"] += result["records"]
        self.counts["required"] += result["required"]
        complaints = []
        if result["complaint_count"]:
            complaints.append(f"{result['complaint_count']} records are wrong")
        told = summary["notes"].get("cut", 0) if summary else result["cut"]
        if result["cut"] > told:
            complaints.append(f"{result['cut']} records are cut, {told} were counted")
        if is_partial:
            return complaints
        lost = summary["events_lost"] if summary else result["discarded"]
        if result["missing"] > lost:
            complaints.append(f"{result['missing']} events are missing, {lost} were counted as lost")
        if result["damaged_packets"] or result["unknown_events"]:
            complaints.append("the trace is damaged")
        if summary and summary["complete"] and not lost and (result["discarded"] or result["packets_lost"]):
            complaints.append("the summary says that nothing was lost, the trace says otherwise")
        return complaints

    def run(self):
        self.install()
        self.check_plain()
        end = time.monotonic() + SECONDS
        while (left := end - time.monotonic()) > 1:
            self.round(min(left, ROUND_SECONDS))
            if len(self.broken) > 40:
                break
        for name, counter in (("counts", self.counts), ("not reached", self.unreachable), ("lost", self.losses)):
            print(f"{name}:")
            for key, count in sorted(counter.items()):
                print(f"  {count:10,} {key}")
        print(f"seed {SEED}: {len(self.broken)} broken")
        return 1 if self.broken else 0


def enter_own_shared_memory():
    """Sessions of everybody are none of others' business, nor theirs of ours."""
    if not IS_ROOT or os.environ.get("PLUMB_STORM_INSIDE"):
        return
    os.environ["PLUMB_STORM_INSIDE"] = "1"
    script = 'mount -t tmpfs -o mode=1777 tmpfs /dev/shm && exec "$@"'
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh",
                          sys.executable, *sys.argv])


def main():
    enter_own_shared_memory()
    folder = Path(tempfile.mkdtemp(prefix="plumb-storm-"))
    if IS_ROOT:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755,size=4g", "tmpfs", folder], check=True)
    storm = Storm(folder)
    status = 1
    try:
        status = storm.run()
    finally:
        if status != 0:
            kept = Path(os.environ.get("PLUMB_STORM_KEEP", f"{folder}-kept"))
            subprocess.run(["cp", "-a", "--sparse=always", folder, kept], check=False)
            print(f"what broke is in {kept}")
        if IS_ROOT:
            subprocess.run(["umount", "-R", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
