#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""Sessions of plumb-consumerd that are made, changed and ended, one after the other, while processes come and go by the thousand: nothing
grows, in the daemon, in a worker that stays, or in /dev/shm; also when daemon and workers are killed all the time. What a session
records that stays meanwhile is whole. One in eight is asked for by the command, which takes longer to begin than a session does; the
others by their daemon's socket, so that an hour is enough for some ten thousands.

PLUMB_CHURN_SECONDS: for how long, half of it with kills (24 if nothing is said). PLUMB_CHURN_SEED: of what is killed when."""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
SECONDS = float(os.environ.get("PLUMB_CHURN_SECONDS", "24"))
SEED = int(os.environ.get("PLUMB_CHURN_SEED", str(time.time_ns() % 1_000_000)))
sys.path.insert(0, str(SOURCE / "tests/support"))
from control_socket import FOLDER, ask  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

# `program short`: three events. `program spawn`: runs that one after the other until SIGTERM, and says how many there were, and how many of them
# ended otherwise than they should. `program stay`: numbers its events until SIGTERM, and says how many there were.
PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
PLUMB_EVENT(churn, brief, (u32, number))
PLUMB_EVENT(churn, stays, (u64, number))
extern char** environ;
static volatile sig_atomic_t over;
static void end(int number) { (void)number; over = 1; }
int main(int count, char** words) {
    (void)count;
    unsigned long number = 0, odd = 0;
    if (strcmp(words[1], "short") == 0) {
        for (unsigned i = 0; i < 3; i++) plumb_trace(churn, brief, i);
        return 0;
    }
    signal(SIGTERM, end);
    puts("begun");
    fflush(stdout);
    const int spawns = strcmp(words[1], "spawn") == 0;
    for (; !over; number++) {
        if (!spawns) {
            plumb_trace(churn, stays, number);
            usleep(200);
            continue;
        }
        char* child_words[] = {words[0], "short", NULL};
        pid_t child;
        int status = 0;
        if (posix_spawn(&child, words[0], NULL, NULL, child_words, environ) != 0) return 1;
        while (waitpid(child, &status, 0) != child) { }
        odd += status != 0;
    }
    printf("%lu %lu\n", number, odd);
    return 0;
}
"""
STAYS = re.compile(r"churn:stays: .*number = (\d+) \}")


def plumb(*words):
    return subprocess.run([PLUMB, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)


def by_command(*words):
    """What was wrong, if anything was."""
    done = plumb(*words)
    assert done.returncode >= 0, (words, done.returncode)
    return None if done.returncode == 0 else done.stderr


def by_socket(command, name, *words):
    """The same, of words as by_command() has them."""
    request = {"command": command, "session": name}
    if command == "create":
        request["description"] = {"format": 1, "name": name, "output": str(words[1]), "subbuf_bytes": 16384, "subbuf_count": 2}
    if command in ("enable", "disable"):
        event, _, condition = words[0].partition(" if ")
        request["rules"] = [{"event": event, **({"filter": condition} if condition else {})}]
    try:
        answer = ask(json.dumps(request).encode())
    except OSError:
        answer = None
    if answer is None:  # it was killed; the command starts another one
        return by_command("status") or "it was killed"
    return None if answer["ok"] else answer["error"]


def memory_kib(process_id):
    for line in Path(f"/proc/{process_id}/status").read_text(encoding="utf8").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise AssertionError(f"process {process_id} has no memory")


def use_of_machine():
    """Of what all sessions share: files, and KiB of memory."""
    files = [path for path in FOLDER.parent.rglob("*") if path.is_file()]
    return len(files), sum(path.stat().st_blocks // 2 for path in files if path.name != "log")


class Churn(TracedProgramTest):
    PROGRAM = PROGRAM

    def setUp(self):
        super().setUp()
        self.processes = []
        self.made = 0
        self.addCleanup(plumb, "destroy", "--all")

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def begin(self, what):
        process = subprocess.Popen([self.program, what], stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        self.assertEqual(process.stdout.readline(), "begun\n")
        return process

    def end(self, process):
        process.terminate()
        text, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        return [int(word) for word in text.split()]

    def one_session(self, is_disturbed):
        """Its life. Where the daemon is killed, any step may fail, and the next finds out how far it came."""
        name = f"s{self.made}"
        output = self.folder / name
        steps = [("create", name, "-o", output, "--subbuf-size", "16K", "--subbuf-count", "2"), ("enable", name, "churn:brief"),
                 ("start", name), ("enable", name, "churn:* if number > 1"), ("disable", name, "churn:brief"), ("rotate", name),
                 ("stop", name)]
        do = by_command if self.made % 8 == 0 else by_socket
        self.made += 1
        for step in steps if random.random() < 0.8 else random.sample(steps, 4):
            problem = do(*step)
            if not is_disturbed and steps[0] == step:
                self.assertIsNone(problem, step)
        deadline = time.monotonic() + 30
        while do("destroy", name) is not None and by_command("status", name) is None:
            self.assertLess(time.monotonic(), deadline, f"{name} can not be destroyed")
        shutil.rmtree(output, ignore_errors=True)

    def kill_somebody(self):
        try:
            answer = ask(json.dumps({"command": "status"}).encode())
            whom = [ask(json.dumps({"command": "version"}).encode())["pid"]]
            whom += [session["worker_pid"] for session in answer["sessions"] if session.get("worker_pid")]
            os.kill(random.choice(whom), signal.SIGKILL)
        except (OSError, TypeError):
            pass  # it was killed a moment ago

    def churn(self, seconds, kills):
        deadline, next_kill = time.monotonic() + seconds, 0
        while time.monotonic() < deadline:
            if kills and time.monotonic() > next_kill:
                self.kill_somebody()
                next_kill = time.monotonic() + random.uniform(0.1, 1)
            self.one_session(kills)

    def test_nothing_grows(self):
        random.seed(SEED)
        trace = self.folder / "stays"
        self.addCleanup(shutil.rmtree, trace, ignore_errors=True)
        self.assertEqual(plumb("create", "stays", "-o", trace, "--mode", "block", "--block-timeout", "20s").returncode, 0)
        plumb("enable", "stays", "churn:stays")
        plumb("start", "stays")
        stays, spawners = self.begin("stay"), [self.begin("spawn") for _ in range(2)]
        self.churn(SECONDS / 6, kills=False)
        daemon = ask(json.dumps({"command": "version"}).encode())["pid"]
        worker = json.loads(plumb("status", "--json", "stays").stdout)["worker_pid"]
        before = [(memory_kib(each), len(os.listdir(f"/proc/{each}/fd"))) for each in (daemon, worker)]
        files, kib = use_of_machine()
        self.churn(SECONDS / 3, kills=False)
        # A worker knows the last processes, some ten thousands, by name.
        for who, (memory, descriptors), most in ((daemon, before[0], 0), (worker, before[1], 24 * 1024)):
            self.assertLessEqual(memory_kib(who), max(memory + 512, most), "KiB")
            self.assertLessEqual(len(os.listdir(f"/proc/{who}/fd")), descriptors + 2)
        self.churn(SECONDS / 2, kills=True)
        self.assertEqual(plumb("status", "stays").returncode, 0)  # there is a daemon, which has cleaned up
        time.sleep(1)
        files_now, kib_now = use_of_machine()
        self.assertLessEqual(files_now, files + 2, sorted(FOLDER.parent.rglob("*")))
        self.assertLessEqual(kib_now, kib + 2048)
        processes, odd = map(sum, zip(*map(self.end, spawners)))
        self.assertEqual(odd, 0)
        written = self.end(stays)[0]
        self.assertEqual(plumb("destroy", "stays").returncode, 0)
        print(f"{self.made} sessions, {processes} processes, {written} events, seed {SEED}", file=sys.stderr)
        done = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, timeout=240 + SECONDS, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([int(number) for number in STAYS.findall(done.stdout)], list(range(written)))


if __name__ == "__main__":
    unittest.main()
