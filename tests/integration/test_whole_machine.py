#!/usr/bin/env python3
# cmake-once
# cmake-lock: everybody
# cmake-timeout: 300
# cmake-serial
"""A whole machine in one recording of root's, with events of the kernel: a database server of its own user under load, a program in a
container with process ids and a /dev/shm of its own, one of root's, and those of two ordinary users. Names, numbers and counts are what
the programs say themselves. Meanwhile each of the two users records his own, and can neither see nor disturb what is others', also when
he has filled all that he can fill."""
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"]).resolve()
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
sys.path.insert(0, str(SOURCE / "tests/support"))
import database  # noqa: E402
from kernel_events import leave_out_without_kernel_events  # noqa: E402
from recorded_program import leave_out_if_sanitized  # noqa: E402
from traced_program import compile_traced  # noqa: E402

# `program COUNT`: says who it is. When its events are on it numbers so many, a half each time that it is told to, makes a system call behind
# each fourth, and says how many there were of both.
PROGRAM = r"""
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
PLUMB_EVENT(machine, tick, (u64, number))
int main(int argc, char** argv) {
    unsigned long number = 0, calls = 0;
    if (argc != 2) return 1;
    const unsigned long count = strtoul(argv[1], NULL, 10);
    printf("%d\n", getpid());
    fflush(stdout);
    while (number < count) {
        if (number % (count / 2) == 0) {
            if (getchar() == EOF) return 1;
            while (!plumb_enabled(machine, tick)) usleep(1000);
        }
        plumb_trace(machine, tick, number);
        number++;
        if (number % 4 == 0) {
            (void)syscall(SYS_getsid, 0);
            calls++;
        }
        if (number % 64 == 0) usleep(1000);
    }
    printf("%lu %lu\n", number, calls);
    return 0;
}
"""
ALICE, BOB = 64111, 64112
CONTAINER = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o mode=1777,size=1g tmpfs /dev/shm && exec "$@"', "sh",
             "unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
CPUS = os.sysconf("SC_NPROCESSORS_CONF")
# Room to spare, of which a machine with many processors has enough anyway; and what all channels together take, twice.
SUBBUFS, SUBBUF_KIB = 8, 1024 if CPUS <= 8 else 256
RINGS = ("--subbuf-size", f"{SUBBUF_KIB}K", "--subbuf-count", str(SUBBUFS))
MEMORY_MIB = 2 * 6 * (CPUS + 8) * SUBBUFS * SUBBUF_KIB // 1024 + 128
TRANSACTIONS = 300
COUNT = 20_000
PATIENCE_S = 60
LINE = re.compile(r"^\[[^\]]*\] \([^)]*\) \S+ (\S+): \{[^}]*\}, \{ (?:vtid|tid) = (\d+)[^}]*\}, \{ ?(.*?) ?\}$")

# What a user may try with others, as a program of his: prints what he was not refused.
INTRUDER = r"""
import json, os, signal, sys
wanted = json.loads(sys.argv[1])
done = []
def attempt(what, act):
    try:
        act()
        done.append(what)
    except PermissionError:
        pass
    except OSError as error:
        done.append(f"{what}: {error}")
for path in wanted["folders"]:
    attempt(f"list {path}", lambda: os.listdir(path))
    attempt(f"make {path}/mine", lambda: os.close(os.open(f"{path}/mine", os.O_CREAT | os.O_WRONLY)))
for path in wanted["files"]:
    attempt(f"read {path}", lambda: os.close(os.open(path, os.O_RDONLY)))
    attempt(f"write {path}", lambda: os.close(os.open(path, os.O_WRONLY)))
    attempt(f"remove {path}", lambda: os.unlink(path))
for process in wanted["processes"]:
    for number in (signal.SIGURG, signal.SIGWINCH, signal.SIGINT, signal.SIGKILL, 0):
        attempt(f"signal {process}", lambda: os.kill(process, number))
    attempt(f"look at {process}", lambda: os.listdir(f"/proc/{process}/map_files"))
print(json.dumps(done))
"""


def as_user(user):
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]


def setUpModule():
    for words in (CONTAINER, as_user(BOB)):
        done = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"skipped: {' '.join(words)}: {done.stderr.strip()}")
            sys.exit(77)
    if lacking := database.missing():
        print(f"skipped: not installed: {', '.join(lacking)} (mariadb-server-core, mariadb-client-core, sysbench)")
        sys.exit(77)
    leave_out_if_sanitized()
    global folder
    folder = Path(tempfile.mkdtemp(prefix="plumb-machine-"))
    folder.chmod(0o755)
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)


class Ticker:
    """`process`: its number as seen from here; `inside`: as it sees itself."""

    def __init__(self, test, name, prefix=()):
        program = folder / name
        if not program.exists():
            shutil.copy2(folder / "ticker", program)
        self.name = name
        self.starter = subprocess.Popen([*prefix, program, str(COUNT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.end)
        self.inside = int(self.starter.stdout.readline())
        self.process = self.starter.pid
        while children := Path(f"/proc/{self.process}/task/{self.process}/children").read_text().split():
            self.process = int(children[0])

    def go_on(self):
        self.starter.stdin.write("\n")
        self.starter.stdin.flush()

    def finish(self):
        """It is told to, and says how many events and calls there were."""
        self.go_on()
        self.ticks, self.calls = map(int, self.starter.communicate(timeout=PATIENCE_S)[0].split())
        assert self.starter.returncode == 0

    def end(self):
        self.starter.kill()
        self.starter.communicate()


class Recorder:
    def __init__(self, test, trace, words, prefix=()):
        self.trace = trace
        self.process = subprocess.Popen([*prefix, test.plumb, "record", "--json", "-q", "-o", trace, *RINGS, *map(str, words)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        test.addCleanup(self.end)
        self.until(lambda: (trace / "ust/metadata").exists())

    def until(self, what):
        deadline = time.monotonic() + PATIENCE_S
        while not what():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def finish(self):
        """The summary."""
        self.process.send_signal(signal.SIGINT)
        output, self.errors = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, (self.errors, output)
        return json.loads(output)

    def end(self):
        self.process.kill()
        self.process.communicate()


def read_independently(trace):
    """What babeltrace2 reads but the statedump: by thread, events in the order of time as (name, fields)."""
    threads = collections.defaultdict(list)
    with subprocess.Popen(["babeltrace2", trace], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
        for line in reader.stdout:
            if "statedump" in line:
                continue
            name, thread, fields = LINE.match(line).groups()
            threads[int(thread)].append((name, fields))
        said = reader.stderr.read()
    assert (reader.returncode, said) == (0, ""), said
    return threads


def read_names(trace):
    """What `plumb view` calls whoever had events: (thread, name of the event) -> {(process, command)}."""
    names = collections.defaultdict(set)
    with subprocess.Popen([BUILD / "cli/plumb", "view", "--json", trace], stdout=subprocess.PIPE, text=True) as view:
        for line in view.stdout:
            event = json.loads(line)
            names[event["tid"], event["event"]].add((event["pid"], event["comm"]))
    assert view.returncode == 0
    return names


class WholeMachine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        compile_traced(PROGRAM, folder / "ticker")
        cls.plumb = shutil.copy2(BUILD / "cli/plumb", folder)  # where other users may start it
        cls.database = database.Database(folder / "database")
        cls.addClassCleanup(cls.database.stop)

    def one_of(self, user):
        """A folder of his for his trace, and his recorder."""
        own = folder / f"of-{user}"
        own.mkdir(mode=0o700)
        os.chown(own, user, user)
        return Recorder(self, own / "trace", ["-e", "machine:*"], as_user(user))

    def intrude(self, user, victims, recorders, traces):
        """What `user` can do to the processes, recordings and traces of others."""
        others = [path for path in Path("/dev/shm").glob("plumb-*") if path.name != f"plumb-{user}"]
        self.assertGreaterEqual(len(others), 3)
        files = [str(path) for other in others for path in other.iterdir() if path.is_file()]
        self.assertGreaterEqual(len(files), 6)
        wanted = {"folders": [*map(str, others), *map(str, traces)], "files": files,
                  "processes": victims + [each.process.pid for each in recorders]}
        done = subprocess.run([*as_user(user), "/usr/bin/python3", "-c", INTRUDER, json.dumps(wanted)], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        self.assertEqual((done.stdout, done.stderr), ("[]\n", ""))
        listed = subprocess.run([*as_user(user), self.plumb, "list", "--json"], capture_output=True, text=True, timeout=PATIENCE_S,
                                check=True).stdout
        seen = {each["pid"] for each in json.loads(listed)["processes"]}
        self.assertEqual(seen & set(victims), set())
        for victim in victims:
            done = subprocess.run([*as_user(user), self.plumb, "record", "-o", folder / f"of-{user}" / "stolen", "-p", str(victim)],
                                  capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, r"belongs to user \d+")

    def fill(self, user):
        """All places for recordings that he has, and then all memory that there is; how many places those were."""
        taken = []
        small = ["--subbuf-size", "16K", "--subbuf-count", "2"]
        while len(taken) < 20:
            recorder = subprocess.Popen([*as_user(user), self.plumb, "record", "-q", "-o", folder / f"of-{user}" / f"more-{len(taken)}",
                                         *small, "-e", "nobody:*"], stderr=subprocess.PIPE, text=True)
            taken.append(recorder)
            self.addCleanup(recorder.communicate)
            self.addCleanup(recorder.kill)
            until = time.monotonic() + PATIENCE_S
            while not (folder / f"of-{user}" / f"more-{len(taken) - 1}" / "ust/metadata").exists() and recorder.poll() is None:
                self.assertLess(time.monotonic(), until)
                time.sleep(0.02)
            if recorder.poll() is not None:
                self.assertIn("16", recorder.stderr.read())
                break
        for left_pages in range(0, 128, 8):  # somebody may take some meanwhile
            free = os.statvfs("/dev/shm")
            filler = subprocess.run([*as_user(user), "fallocate", "-l", str((free.f_bavail - left_pages) * free.f_frsize),
                                     "/dev/shm/filled"], capture_output=True, text=True, check=False)
            if filler.returncode == 0:
                break
        self.assertEqual(filler.returncode, 0, filler.stderr)
        self.assertLess(os.statvfs("/dev/shm").f_bavail, 256)
        return len(taken) - 1

    def assert_ticker(self, ticker, threads, with_calls):
        """Each event once and in its order, and the system calls between the events where they were made."""
        found = threads[ticker.process]
        wanted = []
        for number in range(ticker.ticks):
            wanted.append(("machine:tick", f"number = {number}"))
            if with_calls and number % 4 == 3:
                wanted += [("syscall_entry_getsid", "pid = 0"), ("syscall_exit_getsid", None)]
        self.assertEqual(len(found), len(wanted), ticker.name)
        for (name, fields), (wanted_name, wanted_fields) in zip(found, wanted):
            self.assertEqual(name, wanted_name, ticker.name)
            self.assertIn(wanted_fields, (None, fields), ticker.name)

    def assert_database(self, threads, summary):
        server = self.database
        events = {thread: [(name, fields) for name, fields in each if name.startswith("pthread:")] for thread, each in threads.items()}
        counts = collections.Counter(name for each in events.values() for name, _ in each)
        own = server.locks()
        self.assertEqual({name: counts[f"pthread:{name}"] for name in own}, own)
        self.assertGreater(own["mutex_acquired"], TRANSACTIONS * 20)
        by_mutex = collections.defaultdict(collections.Counter)
        for each in events.values():
            for name, fields in each:
                if name in ("pthread:mutex_acquired", "pthread:mutex_released"):
                    by_mutex[fields.split(",")[0]][name] += 1
        for mutex, each in by_mutex.items():
            self.assertEqual(each["pthread:mutex_acquired"], each["pthread:mutex_released"], mutex)
        self.assertGreater(len(by_mutex), 50)
        accepted = [fields for name, fields in threads[server.process.pid] if name == "syscall_exit_accept4" and "= -" not in fields]
        self.assertEqual(len(accepted), self.accepted)
        self.assertEqual(len([each for each in summary["processes"] if each["name"] == "mariadbd"]), 1)

    def test_everybody_in_one_trace_and_each_user_for_himself(self):
        trace = folder / "trace"
        root = Recorder(self, trace, ["--all-users", *(f"--user={user}" for user in (self.database.user, ALICE, BOB)), "-e", "pthread:*",
                                      "-e", "machine:*", "--context", "vpid,procname", "-k", "syscalls:getsid", "-k", "syscalls:accept4"])
        root.until(lambda: all((trace / f"ust-{user}/metadata").exists() for user in (self.database.user, ALICE, BOB)))
        of_alice, of_bob = self.one_of(ALICE), self.one_of(BOB)
        time.sleep(0.5)
        self.database.start()
        boxed = Ticker(self, "boxed", CONTAINER)
        rooted, alice = Ticker(self, "rooted"), Ticker(self, "alice", as_user(ALICE))
        bobs = [Ticker(self, "bob", as_user(BOB))]
        everybody = [boxed, rooted, alice, *bobs]
        for each in everybody:
            each.go_on()
        # In the container it is found late, and waits until then.
        self.assertEqual(boxed.inside, 1)
        theirs = {ALICE: [alice], BOB: bobs}
        for user, other in ((ALICE, BOB), (BOB, ALICE)):
            victims = [each.process for each in theirs[other]] + [rooted.process, boxed.process, self.database.process.pid]
            self.intrude(user, victims, [root, of_bob if user == ALICE else of_alice], [trace, folder / f"of-{other}"])
        places = self.fill(ALICE)
        self.assertGreaterEqual(places, 10)
        # With no memory left, and none of her places: the others go on, and one of Bob's begins.
        late_bob, late_root = Ticker(self, "bob", as_user(BOB)), Ticker(self, "rooted")
        bobs.append(late_bob)
        everybody += [late_bob, late_root]
        late_bob.go_on()
        late_root.go_on()
        self.database.load(TRANSACTIONS)
        self.accepted = self.database.accepted()
        for each in everybody:
            each.finish()
        self.assertEqual(self.database.stop(), 0)
        Path("/dev/shm/filled").unlink()
        summary, alices, bobs_own = root.finish(), of_alice.finish(), of_bob.finish()

        for each in (summary, alices, bobs_own):
            self.assertEqual((each["complete"], each["events_lost"], each["problems"], each["unreachable"]), (True, 0, [], []))
        wanted = {(each.process, each.name) for each in everybody} | {(self.database.process.pid, "mariadbd")}
        self.assertLessEqual(wanted, {(each["pid"], each["name"]) for each in summary["processes"]})
        threads = read_independently(trace)
        self.assertEqual(sum(map(len, threads.values())), summary["events"])
        for each in everybody:
            self.assert_ticker(each, threads, with_calls=True)
        names = read_names(trace)
        self.assert_names(trace, everybody, names)
        server = self.database.process.pid
        self.assert_database({thread: threads[thread] for (thread, _), who in names.items() if (server, "mariadbd") in who}, summary)
        for recorder, own in ((of_alice, [alice]), (of_bob, bobs)):
            threads = read_independently(recorder.trace)
            self.assertEqual({thread for thread, each in threads.items() if any(name == "machine:tick" for name, _ in each)},
                             {each.process for each in own})
            for each in own:
                self.assert_ticker(each, threads, with_calls=False)

    def assert_names(self, trace, everybody, names):
        """The same in events of programs and of the kernel: numbers as seen from here, and the program's name."""
        for each in everybody:
            for event in ("machine:tick", "syscall_entry_getsid", "syscall_exit_getsid"):
                self.assertEqual(names[each.process, event], {(each.process, each.name)}, event)
        server = self.database.process.pid
        for (thread, event), who in names.items():
            if any(process == server for process, _ in who):
                self.assertEqual(who, {(server, "mariadbd")}, (thread, event))
        boxed = everybody[0]
        shown = subprocess.run(["babeltrace2", trace], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual(len(re.findall(rf'machine:tick: .* vtid = {boxed.process}, vpid = 1, procname = "boxed" ', shown)), boxed.ticks)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: other users and namespaces need root")
        sys.exit(77)
    # It fills /dev/shm: one of its own, of its own size.
    if os.environ.get("PLUMB_TEST_MEMORY") != "own":
        os.execvpe("unshare", ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                               f'mount -t tmpfs -o mode=1777,size={MEMORY_MIB}m tmpfs /dev/shm && exec "$@"', "sh", sys.executable,
                               *sys.argv], {**os.environ, "PLUMB_TEST_MEMORY": "own"})
    leave_out_without_kernel_events(BUILD / "cli/plumb")
    unittest.main()
