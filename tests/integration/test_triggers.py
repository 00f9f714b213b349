#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""Triggers of sessions: each cause with each action; they fire once for each cause, whatever is killed meanwhile; what makes no sense
is refused."""
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
sys.path.insert(0, str(SOURCE / "tests/support"))
from control_socket import FOLDER  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

# Reads how many events it is to write, and says when it has; "d" has it die by SIGSEGV, "e" end as it should.
PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
PLUMB_EVENT(shop, order, (u64, number))
PLUMB_EVENT(shop, noise, (u64, number))
int main(void) {
    char line[64];
    unsigned long number = 0;
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    puts("begun");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (line[0] == 'd') raise(SIGSEGV);
        if (line[0] == 'e') break;
        for (unsigned long i = strtoul(line, NULL, 10); i != 0; i--, number++) {
            plumb_trace(shop, noise, number);
            plumb_trace(shop, order, number);
        }
        puts("done");
        fflush(stdout);
    }
    return 0;
}
"""
# What `run` runs: a line for each run, with what it is told.
COMMAND = r"""#!/bin/sh
echo "$1 $PLUMB_SESSION $PLUMB_TRIGGER $PLUMB_CAUSE_COUNT ${PLUMB_PID:-none} ${PLUMB_SIGNAL:-none} ${PLUMB_SNAPSHOT:-none} $PLUMB_FIRING $PLUMB_TRACE" >>"$2"
exit 3
"""

# Older kernels tell of deaths to root alone.
TELLS_OF_DEATHS = os.geteuid() == 0 or tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (6, 15)


def plumb(*words, status=0):
    done = subprocess.run([PLUMB, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
    return done


def wait_for(what, seconds=20):
    until = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.02)
    return found


class Triggers(TracedProgramTest):
    PROGRAM = PROGRAM

    def setUp(self):
        super().setUp()
        self.programs = []
        self.addCleanup(plumb, "destroy", "--all")
        self.ran = self.folder / f"{self.id().split('.')[-1]}.ran"
        self.command = self.folder / "command"
        self.command.write_text(COMMAND)
        self.command.chmod(0o755)

    def tearDown(self):
        for program in self.programs:
            if program.poll() is None:
                program.kill()
            program.communicate()

    def start_program(self):
        program = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.programs.append(program)
        self.assertEqual(program.stdout.readline(), "begun\n")
        return program

    def write(self, program, count):
        program.stdin.write(f"{count}\n")
        program.stdin.flush()
        self.assertEqual(program.stdout.readline(), "done\n")

    def die(self, program):
        program.stdin.write("d\n")
        program.stdin.flush()
        self.assertEqual(program.wait(timeout=20), -signal.SIGSEGV)

    def session(self, name, *options, rule="shop:order"):
        output = self.folder / f"{self.id().split('.')[-1]}-{name}"
        plumb("create", name, "-o", output, "--subbuf-size", "16K", "--subbuf-count", "4", *options)
        plumb("enable", name, rule)
        plumb("start", name)
        return output

    def add(self, session, name, on, *do, more=()):
        plumb("trigger", session, "add", name, "--on", on, *(word for each in do for word in ("--do", each)), *more)

    def run_words(self, tag="x"):
        return f"run {self.command} '{tag}' \"{self.ran}\""

    def status(self, name):
        return json.loads(plumb("status", "--json", name).stdout)

    def trigger(self, session, name):
        listed = json.loads(plumb("trigger", session, "list", "--json").stdout)["triggers"]
        return next(each for each in listed if each["name"] == name)

    def wait_fired(self, session, name, count):
        wait_for(lambda: self.trigger(session, name)["fired"] >= count)
        return self.trigger(session, name)

    def runs(self):
        return self.ran.read_text().splitlines() if self.ran.exists() else []

    def wait_runs(self, count):
        wait_for(lambda: len(self.runs()) >= count)
        return [line.split() for line in self.runs()]

    def kill_worker(self, name):
        worker = self.status(name)["worker_pid"]
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: self.worker_of(name) not in (worker, 0))

    @staticmethod
    def worker_of(name):
        """0: there is none at the moment."""
        done = subprocess.run([PLUMB, "status", "--json", name], capture_output=True, text=True, timeout=60, check=False)
        return json.loads(done.stdout)["worker_pid"] if done.returncode == 0 else 0

    @staticmethod
    def chunks(output):
        return sorted(path.name for path in output.iterdir() if path.name.startswith("chunk-") and not path.name.endswith(".part"))

    def events(self, trace):
        done = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.count("shop:order:")

    # Makes each cause happen once.
    def cause_event(self, session):
        self.write(self.start_program(), 1)

    def cause_signal(self, session):
        os.kill(self.status(session)["worker_pid"], signal.SIGUSR1)

    def cause_death(self, session):
        program = self.start_program()
        time.sleep(0.2)
        self.die(program)

    def cause_fill(self, session):
        worker = self.status(session)["worker_pid"]
        os.kill(worker, signal.SIGSTOP)
        self.write(self.start_program(), 20000)
        os.kill(worker, signal.SIGCONT)

    CAUSES = {"event": "event shop:order if number == 0", "signal": "signal USR1", "death": "death SIGSEGV", "fill": "fill 80%"}

    def test_each_cause_with_each_action(self):
        for kind, on in self.CAUSES.items():
            if kind == "death" and not TELLS_OF_DEATHS:
                continue
            make = getattr(self, f"cause_{kind}")
            with self.subTest(cause=kind, action="run"):
                self.ran.unlink(missing_ok=True)
                self.session("web")
                self.add("web", "t", on, self.run_words())
                make("web")
                said = self.wait_runs(1)[0]
                self.assertEqual(said[1:4], ["web", "t", "1"])
                if kind == "death":
                    self.assertEqual(said[4:6], [str(self.programs[-1].pid), "SEGV"])
                time.sleep(0.3)
                self.assertEqual((len(self.runs()), self.trigger("web", "t")["fired"]), (1, 1))
                self.assertIn("has ended with status 3", (FOLDER / "log").read_text())
                plumb("destroy", "web")
            self.remove_traces("web")
            with self.subTest(cause=kind, action="rotate"):
                output = self.session("web")
                self.write(self.start_program(), 1) if kind != "event" else None
                before = self.chunks(output)
                self.add("web", "t", on, "rotate")
                make("web")
                wait_for(lambda: len(self.chunks(output)) == len(before) + 1)
                self.assertEqual(self.wait_fired("web", "t", 1)["fired"], 1)
                plumb("destroy", "web")
            self.remove_traces("web")
            with self.subTest(cause=kind, action="stop"):
                output = self.session("web")
                self.add("web", "t", on, "stop")
                make("web")
                wait_for(lambda: not self.status("web")["started"])
                self.assertEqual(self.trigger("web", "t")["fired"], 1)
                plumb("destroy", "web")
            self.remove_traces("web")
            if kind == "fill":
                continue
            with self.subTest(cause=kind, action="snapshot"):
                output = self.session("web", "--snapshot")
                self.add("web", "t", on, "snapshot", self.run_words("y"))
                self.ran.unlink(missing_ok=True)
                make("web")
                self.assertEqual(self.wait_runs(1)[0][6], str(output / "snapshot-1"))
                if kind == "event":
                    self.assertEqual(self.events(output / "snapshot-1"), 1)
                plumb("destroy", "web")
            self.remove_traces("web")

    def remove_traces(self, name):
        path = self.folder / f"{self.id().split('.')[-1]}-{name}"
        subprocess.run(["rm", "-rf", path], check=True)

    @unittest.skipUnless(TELLS_OF_DEATHS, "this kernel tells root alone how processes die")
    def test_once_for_each_of_a_hundred(self):
        """Events, deaths and queued signals, with kills of the worker in between; of a flight recorder, which nobody drains."""
        self.session("web", "--snapshot")
        self.add("web", "e", "event shop:order if number % 2 == 1", self.run_words("e"))
        self.add("web", "d", "death SEGV", self.run_words("d"))
        self.add("web", "s", "signal RTMIN+3", self.run_words("s"))
        program = self.start_program()
        for _ in range(4):
            self.write(program, 50)
            self.kill_worker("web")
        worker = self.status("web")["worker_pid"]
        for _ in range(100):
            os.kill(worker, signal.SIGRTMIN + 3)
        victims = [self.start_program() for _ in range(10)]
        time.sleep(0.3)
        for victim in victims:
            self.die(victim)
        for name, causes in (("e", 100), ("d", 10), ("s", 100)):
            wait_for(lambda: self.trigger("web", name)["causes"] == causes and self.trigger("web", name)["waiting"] == 0)
        wait_for(lambda: not any("command_pid" in self.trigger("web", name) for name in "eds"))
        said = [line.split() for line in self.runs()]
        firings = [line[7] for line in said if line[0] == "e"]
        self.assertEqual(len(set(firings)), len(firings))  # none twice
        self.assertLessEqual(100 - len(firings), self.trigger("web", "e")["interrupted"])  # and what is missing is told
        self.assertLessEqual(self.trigger("web", "e")["interrupted"], 4)
        counts = {tag: sum(line[0] == tag for line in said) for tag in "eds"}
        self.assertEqual((counts["d"], counts["s"]), (10, 100))
        self.assertEqual({line[4] for line in said if line[0] == "d"}, {str(victim.pid) for victim in victims})
        event = self.trigger("web", "e")
        self.assertEqual((event["causes"], event["fired"], event["waiting"]), (100, 100, 0))
        self.assertEqual((event["events_not_counted"], event["left_out"]), (0, 0))

    def test_deaths_that_wait_are_served_behind_a_kill(self):
        """Each with its own process, and none with another's."""
        if not TELLS_OF_DEATHS:
            self.skipTest("deaths are told to root alone")
        self.session("web")
        self.add("web", "d", "death", f"run sh -c \"{self.command} d '{self.ran}'; sleep 1\"")
        victims = [self.start_program() for _ in range(4)]
        time.sleep(0.3)
        for victim in victims[:3]:
            victim.kill()
        wait_for(lambda: self.trigger("web", "d")["causes"] == 3)
        self.kill_worker("web")
        self.die(victims[3])
        wait_for(lambda: self.trigger("web", "d")["causes"] == 4 and self.trigger("web", "d")["waiting"] == 0)
        said = self.wait_runs(4)
        dead, of = [line[4] for line in said], [str(victim.pid) for victim in victims]
        self.assertEqual((sorted(dead[:3]), dead[3:]), (sorted(of[:3]), of[3:]))
        self.assertEqual(self.trigger("web", "d")["interrupted"], 0)

    def test_what_is_written_serves_all_causes_so_far(self):
        output = self.session("web")
        self.add("web", "r", "event shop:order", "rotate", self.run_words())
        self.write(self.start_program(), 100)
        wait_for(lambda: self.trigger("web", "r")["causes"] == 100 and self.trigger("web", "r")["waiting"] == 0)
        wait_for(lambda: sum(int(line.split()[3]) for line in self.runs()) == 100)
        self.assertEqual(len(self.chunks(output)), self.trigger("web", "r")["fired"])
        self.assertLessEqual(self.trigger("web", "r")["fired"], 3)
        plumb("destroy", "web")
        self.assertEqual(self.events(output), 100)

    def test_at_most_and_every(self):
        self.session("web")
        self.add("web", "most", "event shop:order", self.run_words("m"), more=("--at-most", "2"))
        self.add("web", "every", "event shop:order", self.run_words("v"), more=("--every", "1h"))
        program = self.start_program()
        self.write(program, 7)
        wait_for(lambda: self.trigger("web", "most")["left_out"] == 5)
        wait_for(lambda: self.trigger("web", "every")["left_out"] == 6)
        self.kill_worker("web")
        self.write(program, 1)
        wait_for(lambda: self.trigger("web", "most")["left_out"] == 6)
        wait_for(lambda: self.trigger("web", "every")["left_out"] == 7)
        self.assertEqual(sorted(line[0] for line in self.wait_runs(3)), ["m", "m", "v"])

    def test_a_level_is_passed_again_when_it_was_below(self):
        self.session("web")
        self.add("web", "full", "fill 80%", self.run_words())
        for turn in range(3):
            self.cause_fill("web")
            self.wait_fired("web", "full", turn + 1)
            time.sleep(0.4)  # it is below
        self.kill_worker("web")
        time.sleep(0.4)
        self.assertEqual(self.trigger("web", "full")["fired"], 3)

    def test_a_command_that_hangs_holds_nothing_up(self):
        output = self.session("web", "--mode", "block")
        self.add("web", "slow", "event shop:order", "run sleep 100")
        program = self.start_program()
        started = time.monotonic()
        self.write(program, 20000)
        self.assertEqual(self.trigger("web", "slow")["fired"], 1)
        self.assertLess(time.monotonic() - started, 20)
        os.kill(self.trigger("web", "slow")["command_pid"], signal.SIGKILL)
        plumb("trigger", "web", "remove", "slow")
        plumb("destroy", "web")
        self.assertEqual(self.events(output), 20000)

    def test_only_while_started_and_gone_when_removed(self):
        self.session("web")
        self.add("web", "e", "event shop:order", self.run_words("e"))
        self.add("web", "s", "signal USR2", self.run_words("s"))
        program = self.start_program()
        plumb("stop", "web")
        self.write(program, 3)
        os.kill(self.status("web")["worker_pid"], signal.SIGUSR2)
        time.sleep(0.3)
        plumb("start", "web")
        self.write(program, 1)
        self.assertEqual([line[0] for line in self.wait_runs(1)], ["e"])
        self.assertIn("on event shop:order  do run", plumb("trigger", "web", "list").stdout)
        plumb("trigger", "web", "remove", "e")
        plumb("trigger", "web", "remove", "s")
        self.write(program, 1)
        os.kill(self.status("web")["worker_pid"], signal.SIGUSR2)
        time.sleep(0.3)
        self.assertEqual(len(self.runs()), 1)
        self.assertIn("has no trigger", plumb("trigger", "web", "list").stdout)
        self.assertEqual(len(list(FOLDER.parent.glob("channel-*"))), 1)
        plumb("destroy", "web")
        self.assertFalse(list(FOLDER.parent.glob("channel-*")) + list(FOLDER.parent.glob("left-*")))

    def test_saved_and_loaded(self):
        self.session("web")
        self.add("web", "e", "event shop:order if number == 5", "rotate", "run sleep 'a b'", more=("--every", "2s", "--at-most", "3"))
        self.add("web", "f", "fill 50%", "stop")
        self.write(self.start_program(), 10)
        self.wait_fired("web", "e", 1)
        saved = self.folder / "triggers.json"
        plumb("save", "web", saved)
        described = json.loads(saved.read_text())["triggers"]
        self.assertEqual(described[0], {"name": "e", "on": "event", "event": "shop:order", "filter": "number == 5",
                                        "do": ["rotate", "run"], "command": ["sleep", "a b"], "at_most": 3, "every_ns": 2000000000})
        plumb("load", saved, "--name", "again", "-o", self.folder / "again")
        self.assertEqual(self.trigger("again", "e")["fired"], 0)
        self.write(self.start_program(), 10)
        self.wait_fired("again", "e", 1)
        self.assertEqual(json.loads(plumb("save", "again").stdout)["triggers"], described)
        self.assertIn("trigger:", plumb("status", "web").stdout)

    def test_what_makes_no_sense_is_refused(self):
        self.session("web")
        self.session("recorder", "--snapshot")
        for on, do, why in (("event", "stop", "Write it like 'event shop:order"), ("event a:b:c", "stop", "more than one colon"),
                            ("event shop:* if", "stop", "a condition is missing"), ("event !shop:order", "stop", "leaves events out"),
                            ("event shop:* if number >", "stop", "something is missing here"), ("fill 0%", "stop", "1% to 100%"),
                            ("fill 101", "stop", "1% to 100%"), ("fill much", "stop", "fill 80%"), ("signal", "stop", "signal USR1"),
                            ("signal TERM", "stop", "means something else"), ("signal NOSUCH", "stop", "no signal"),
                            ("death NOSUCH", "stop", "no signal"), ("birth", "stop", "no cause"), ("signal USR1", "dance", "can not be done"),
                            ("signal USR1", "run", "needs a command"), ("signal USR1", "run 'a", "has no end")):
            self.assertIn(why, plumb("trigger", "web", "add", "t", "--on", on, "--do", do, status=2).stderr, (on, do))
        for session, on, do, why in (("web", "signal USR1", "snapshot", "no flight recorder"), ("recorder", "signal USR1", "rotate", "no chunks"),
                                     ("recorder", "fill 50%", "stop", "always full")):
            self.assertIn(why, plumb("trigger", session, "add", "t", "--on", on, "--do", do, status=2).stderr)
        self.assertIn("has no trigger t. It has none at all", plumb("trigger", "web", "remove", "t", status=1).stderr)
        self.assertIn("--on is missing", plumb("trigger", "web", "add", "t", "--do", "stop", status=2).stderr)
        self.assertIn("--do is missing", plumb("trigger", "web", "add", "t", "--on", "death", status=2).stderr)
        self.assertIn("Give its name", plumb("trigger", "web", "remove", status=2).stderr)
        self.assertIn("can not be the name", plumb("trigger", "web", "add", "a/b", "--on", "death", "--do", "stop", status=2).stderr)
        self.assertIn("no session nosuch", plumb("trigger", "nosuch", "list", status=1).stderr)
        self.add("web", "t", "signal USR1", "run /no/such/command")
        self.assertIn("has a trigger t already", plumb("trigger", "web", "add", "t", "--on", "death", "--do", "stop", status=1).stderr)
        os.kill(self.status("web")["worker_pid"], signal.SIGUSR1)
        wait_for(lambda: "Could not run /no/such/command" in " ".join(self.status("web")["problems"]))


if __name__ == "__main__":
    unittest.main()
