#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""Sessions that are disturbed: whose worker is killed while they are made or ended, whose disk is full, whose channel a program
has written over, whose answer nobody could be given. What is said is what is true, and nothing stays behind."""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests/support"))
from control_socket import FOLDER, ask, framed, receive  # noqa: E402
from disturbed_sessions import DisturbedSessionTest  # noqa: E402
from sessions import PLUMB, STRACE, may_be_traced, plumb  # noqa: E402

# What a supervisor does none of while a session is made; and what changes something while one ends.
MAKING = "mkdirat,fallocate,bind"
ENDING = "openat,close,mkdirat,renameat,renameat2,unlinkat,unlink,write,pwrite64,ftruncate,rmdir"

IS_STRACED = may_be_traced()


class Disturbed(DisturbedSessionTest):
    def killed_at(self, process, calls, step, *words):
        """What the command said, and whether somebody was killed at this call of that process or its children."""
        seen = self.folder / "calls"
        strace = subprocess.Popen([STRACE, "-f", "-qq", "-o", seen, "-p", str(process), "-e", f"trace={calls}",
                                   "-e", f"inject={calls}:signal=KILL:when={step}"], stderr=subprocess.DEVNULL)
        self.until(lambda: self.is_followed(process), "strace")
        done = plumb(*words, status=None)
        strace.terminate()
        try:
            strace.wait(timeout=3)
        except subprocess.TimeoutExpired:
            strace.kill()
            strace.wait(timeout=30)
        return done, "killed by SIGKILL" in seen.read_text()

    @staticmethod
    def is_followed(process):
        try:
            statuses = [path.read_text() for path in Path(f"/proc/{process}/task").glob("*/status")]
        except OSError:
            return True
        return all(not re.search(r"TracerPid:\s+0\n", status) for status in statuses)

    @unittest.skipUnless(IS_STRACED, "strace can not attach to other processes here")
    def test_a_creation_that_is_killed_leaves_nothing(self):
        plumb("create", "keeps-the-daemon", "-o", self.folder / f"{self._testMethodName}-keeper")
        daemon = ask(json.dumps({"command": "version"}).encode())["pid"]
        before = {path.name for path in FOLDER.parent.iterdir()}
        step, kills, was_killed = 1, 0, True
        while was_killed:
            trace = self.folder / f"made-{step}"
            done, was_killed = self.killed_at(daemon, MAKING, step, "create", "made", "-o", trace)
            if was_killed:
                self.assertEqual(done.returncode, 1, (step, done.stdout, done.stderr))
                self.assertIn("ended as it began", done.stderr, step)
                sessions = [each["name"] for each in json.loads(plumb("list", "--json").stdout)["sessions"]]
                self.assertEqual(sessions, ["keeps-the-daemon"], step)
                self.assertFalse(trace.exists(), (step, list(trace.rglob("*")) if trace.exists() else ()))
                self.assertEqual({path.name for path in FOLDER.parent.iterdir()} - before, set(), step)
                self.assertEqual([path.name for path in (FOLDER / "sessions").iterdir() if path.name.startswith("made")], [], step)
                kills += 1
            step += 1
        print(f"create: killed at {kills} steps")
        self.assertGreater(kills, 2)
        plumb("destroy", "made")

    def test_a_creation_that_fails_removes_nobody_elses_directory(self):
        """Which another one makes at the same moment."""
        plumb("create", "keeps-the-daemon", "-o", self.folder / f"{self._testMethodName}-keeper")
        made = 0
        for turn in range(12):
            trace = self.folder / f"both-{turn}"
            with subprocess.Popen([PLUMB, "create", "both", "-o", trace], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  text=True) as creation:
                while turn % 2 and not (FOLDER / "sessions/both.json").exists() and creation.poll() is None:
                    pass  # every other time, between the daemon's look and its worker's
                try:
                    trace.mkdir()
                    is_ours = True
                except FileExistsError:
                    is_ours = False
                _, said = creation.communicate(timeout=60)
            self.assertEqual(creation.returncode, 1 if is_ours else 0, said)
            self.assertTrue(trace.is_dir(), turn)
            if is_ours:
                self.assertIn("exists already", said)
                made += 1
            else:
                plumb("destroy", "both")
        print(f"{made} of 12 directories were made before the session's")

    def test_what_is_the_daemons_own_is_refused(self):
        """And answered."""
        plumb("create", "keeps-the-daemon", "-o", self.folder / f"{self._testMethodName}-keeper")
        own = {"ending": True, "cookie": "0000000000000005", "snapshots": 3, "directory": {"inode": 1, "device": 1, "made_ns": 1}}
        for key, value in own.items():
            description = {"format": 1, "name": "odd", "output": str(self.trace), key: value}
            answer = ask(json.dumps({"command": "create", "description": description}).encode())
            self.assertFalse(answer["ok"], key)
            self.assertIn(f'"{key}" is the daemon\'s own', answer["error"])
            self.assertFalse(self.trace.exists(), key)

    @unittest.skipUnless(IS_STRACED, "strace can not attach to other processes here")
    def test_an_end_that_is_killed_is_gone_on_with_and_told(self):
        kills = 0
        for step in (1, 2, 4, 7, 11, 16, 24, 40):
            trace = self.folder / f"ended-{step}"
            self.begin("ended", trace=trace)
            subprocess.run([self.program], check=True, timeout=60)
            done, was_killed = self.killed_at(self.status("ended")["worker_pid"], ENDING, step, "destroy", "ended")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"{trace}\n", ""), step)
            self.assertNotIn("ended", [each["name"] for each in json.loads(plumb("status", "--json").stdout)["sessions"]], step)
            read = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, timeout=60, check=True)
            self.assertEqual(read.stdout.count("upset:taken: "), 1000, step)
            kills += was_killed
        self.assertGreater(kills, 3)

    def test_an_answer_that_can_not_be_given(self):
        done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", PLUMB, "create", "mute", "-o", self.trace], stderr=subprocess.PIPE,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is done all the same", done.stderr)
        self.assertIn("mute  stopped", plumb("status", "mute").stdout)

    def test_a_worker_is_of_its_session_alone(self):
        plumb("create", "mine", "-o", self.trace)
        for name, is_ok in (("mine", True), ("yours", False)):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(30)
                connection.connect(str(FOLDER / "sessions/mine.socket"))
                connection.sendall(framed(json.dumps({"command": "start", "session": name}).encode()))
                answer = receive(connection)
            self.assertEqual(answer["ok"], is_ok, answer)
        self.assertIn("This is the worker of session mine, and not of yours", answer["error"])
        answer = ask(json.dumps({"command": "status", "session": ""}).encode())
        self.assertEqual([each.get("problem") for each in answer["sessions"]], [None])

    def test_a_trigger_is_no_session_of_its_own(self):
        self.begin("web")
        plumb("trigger", "web", "add", "slow", "--on", "event upset:taken", "--do", "rotate", "--at-most", "1")
        sessions = json.loads(plumb("list", "--json").stdout)["sessions"]
        self.assertEqual(sorted((each["name"], each.get("trigger", "")) for each in sessions), [("web", ""), ("web", "slow")])
        self.assertIn("web, its trigger slow  ", plumb("list").stdout)

    def test_damage_is_told_at_the_end(self):
        self.begin("torn")
        [channel] = FOLDER.parent.glob("channel-*")
        with open(channel, "r+b", buffering=0) as file:
            for at in range(4096, min(channel.stat().st_size, 32 << 20), 1 << 20):
                os.pwrite(file.fileno(), b"\x5a" * (1 << 20), at)
        subprocess.run([self.program], check=False, timeout=60)
        done = plumb("destroy", "torn", status=None)
        self.assertIn("Some program wrote over the session's channel", done.stderr)

    def test_what_a_removed_directory_takes_is_told_and_can_be_extracted(self):
        self.begin("moved")
        subprocess.run([self.program], check=True, timeout=60)
        self.until(lambda: self.status("moved")["events"] == 1000, "written")
        elsewhere = self.folder / "elsewhere"
        self.trace.rename(elsewhere)
        os.kill(self.status("moved")["worker_pid"], signal.SIGKILL)
        self.until(lambda: "Could not open the directory" in plumb("status", "moved", status=None).stderr, "the next worker")
        subprocess.run([self.program], check=True, timeout=60)
        problems = " ".join(json.loads(plumb("destroy", "moved", "--json").stdout)["problems"])
        self.assertIn(f"Could not open the directory {self.trace}: No such file", problems)
        self.assertRegex(problems, r"Not in the trace: [\d,]+ bytes of what its programs wrote.*plumb extract")
        plumb("extract", "-o", self.folder / "extracted")
        for trace in (elsewhere, self.folder / "extracted"):
            self.assertEqual(plumb("view", trace).stdout.count("upset:taken"), 1000, trace)

    def move_away(self, name, makes_it_anew):
        """Kills the worker, too; where the session's directory is now."""
        self.begin(name)
        subprocess.run([self.program], check=True, timeout=60)
        self.until(lambda: self.status(name)["events"] == 1000, "written")
        elsewhere = self.folder / f"{self._testMethodName}-elsewhere"
        worker = self.status(name)["worker_pid"]
        self.trace.rename(elsewhere)
        makes_it_anew(elsewhere, self.trace)
        os.kill(worker, signal.SIGKILL)
        return elsewhere

    def test_a_directory_in_the_place_of_a_sessions_own_gets_nothing(self):
        """Neither an empty one, nor one with what the session had written."""
        for which, make in (("new", lambda _, new: new.mkdir()), ("copied", shutil.copytree)):
            elsewhere = self.move_away(which, make)
            self.until(lambda: "is not the directory of the session" in plumb("status", which, status=None).stderr, "noticed")
            before = sorted(self.trace.rglob("*"))
            subprocess.run([self.program], check=True, timeout=60)
            problems = " ".join(json.loads(plumb("destroy", which, "--json").stdout)["problems"])
            self.assertIn(f"{self.trace} is not the directory of the session", problems)
            self.assertRegex(problems, r"Not in the trace: [\d,]+ bytes of what its programs wrote.*plumb extract")
            self.assertEqual(sorted(self.trace.rglob("*")), before)
            extracted = self.folder / f"extracted-{which}"
            plumb("extract", "-o", extracted)
            for trace in (elsewhere, extracted):
                self.assertEqual(plumb("view", trace).stdout.count("upset:taken"), 1000, trace)
            shutil.rmtree(self.trace)
            shutil.rmtree(elsewhere)

    def summaries(self):
        return [json.loads(path.read_text()) for path in sorted(self.trace.glob("chunk-*/summary.json"))]

    def test_a_way_in_that_is_lost_is_told_of_each_chunk(self):
        for what in ("state", "channel"):
            with self.subTest(what):
                self.trace = self.folder / f"{self._testMethodName}-{what}"
                self.begin("upset")
                subprocess.run([self.program, "10"], check=True, timeout=60)
                plumb("rotate", "upset")
                for path in FOLDER.parent.glob("state" if what == "state" else "channel-*"):
                    path.unlink()
                for _ in range(2):
                    subprocess.run([self.program, "10"], check=True, timeout=60)
                    plumb("rotate", "upset")
                told = [each for each in self.status("upset")["problems"] if "Programs that started since" in each]
                self.assertEqual(len(told), 1, told)
                said = plumb("destroy", "upset").stderr
                self.assertIn("Programs that started since are not recorded", said)
                whole, *others = self.summaries()
                self.assertTrue(whole["complete"])
                self.assertGreaterEqual(len(others), 2)
                for each in others:
                    self.assertFalse(each["complete"])
                    self.assertIn("Programs that started since are not recorded", " ".join(each["problems"]))

    def test_a_channel_that_is_shortened_is_told(self):
        self.begin("upset")
        subprocess.run([self.program, "10"], check=True, timeout=60)
        plumb("rotate", "upset")
        for path in FOLDER.parent.glob("channel-*"):
            os.truncate(path, 0)
        plumb("rotate", "upset")
        text = " ".join(self.status("upset")["problems"])
        self.assertIn("has shortened the session's channel", text)
        plumb("destroy", "upset")
        self.assertEqual([each["complete"] for each in self.summaries()], [True, False, False])

    def test_a_session_that_begins_anew_behind_a_kill_says_so(self):
        self.begin("upset")
        subprocess.run([self.program, "10"], check=True, timeout=60)
        worker = self.status("upset")["worker_pid"]
        os.kill(worker, signal.SIGSTOP)
        next(FOLDER.parent.glob("channel-*")).unlink()
        os.kill(worker, signal.SIGKILL)
        self.until(lambda: json.loads(plumb("status", "--json", "upset", status=None).stdout or "{}").get("worker_pid", worker) != worker,
                   "another worker")
        self.assertIn("The session begins anew", " ".join(self.status("upset")["problems"]))
        subprocess.run([self.program, "10"], check=True, timeout=60)
        self.assertIn("The session begins anew", plumb("destroy", "upset").stderr)
        self.assertIn("The session begins anew", " ".join(self.summaries()[-1]["problems"]))

    def test_a_last_chunk_of_what_was_refused_is_there(self):
        self.begin("upset", "--clock", "tsc")
        subprocess.run([self.program, "10"], check=True, timeout=60)
        plumb("rotate", "upset")
        subprocess.run([self.program, "10", "without-clock"], check=True)
        self.assertIn("forbade reading the cycle counter", plumb("destroy", "upset").stderr)
        last = self.summaries()[-1]
        self.assertEqual((len(self.summaries()), last["complete"]), (2, False))

    def test_what_a_flight_recorder_has_no_room_for_at_its_end_is_extracted(self):
        disk = self.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("a disk that is full can not be made here")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        self.begin("upset", "--snapshot", trace=disk / "trace")
        subprocess.run([self.program, "500"], check=True, timeout=60)
        with open(disk / "filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(b"x" * 4096)
        self.assertIn("`plumb extract` makes a trace of it", plumb("destroy", "upset").stderr)
        plumb("extract", "-o", self.trace)
        self.addCleanup(plumb, "extract", "--remove", status=None)
        text = plumb("view", self.trace).stdout
        self.assertEqual(text.count("upset:taken"), 500)
        self.assertEqual([path.name for path in FOLDER.parent.glob("channel-*")], [])

    def test_a_directory_that_is_moved_back_is_gone_on_with(self):
        elsewhere = self.move_away("back", lambda _, new: new.mkdir())
        self.until(lambda: "is not the directory of the session" in plumb("status", "back", status=None).stderr, "noticed")
        self.trace.rmdir()
        elsewhere.rename(self.trace)
        self.until(lambda: plumb("status", "back", status=None).returncode == 0, "the next worker")
        subprocess.run([self.program], check=True, timeout=60)
        self.assertEqual(plumb("destroy", "back").stderr, "")
        self.assertEqual(plumb("view", self.trace).stdout.count("upset:taken"), 2000)

    def test_a_session_is_destroyed_though_its_next_worker_can_not_begin(self):
        """Asked for while that one is tried."""
        for turn in range(5):
            name, trace = f"gone-{turn}", self.folder / f"gone-{turn}"
            self.begin(name, trace=trace)
            worker = self.status(name)["worker_pid"]
            trace.rename(self.folder / f"gone-elsewhere-{turn}")
            os.kill(worker, signal.SIGKILL)
            problems = " ".join(json.loads(plumb("destroy", name, "--json").stdout)["problems"])
            self.assertIn(f"Could not open the directory {trace}: No such file", problems)

    def test_a_killed_worker_is_told_with_its_signal(self):
        self.begin("killed")
        for number, name in ((signal.SIGKILL, "SIGKILL"), (signal.SIGSEGV, "SIGSEGV")):
            worker = self.status("killed")["worker_pid"]
            os.kill(worker, number)
            self.until(lambda: self.status("killed").get("worker_pid", worker) != worker, "the next worker")
            self.assertIn(f"It was ended by {name}", self.status("killed")["worker_last_end"])
        plumb("destroy", "killed")

    def test_a_damaged_description_is_named_with_its_file(self):
        self.begin("damaged")
        described = Path(f"/dev/shm/plumb-{os.geteuid()}/consumerd/sessions/damaged.json")
        whole = json.loads(described.read_text())
        for content, why in (("{", "It is no JSON"), (json.dumps(whole | {"mode": "odd"}), 'There is no mode "odd"'),
                             (json.dumps(whole | {"name": "other"}), "It is that of other")):
            described.write_text(content)
            os.kill(self.status("damaged")["worker_pid"], signal.SIGKILL)
            self.until(lambda: f"({described}) is damaged: {why}" in plumb("status", "damaged", status=None).stderr, why)
            described.write_text(json.dumps(whole))
            self.until(lambda: plumb("status", "damaged", status=None).returncode == 0, "the next worker")
        plumb("destroy", "damaged")

    def test_a_lost_journal_doubles_nothing_and_is_told(self):
        """Removed, or damaged, and the worker killed: the channel alone says how far it was read."""
        for name, disturb in (("gone", Path.unlink), ("short", lambda journal: os.truncate(journal, 10))):
            trace = self.folder / f"journal-{name}"
            self.begin(name, trace=trace)
            subprocess.run([self.program], check=True, timeout=60)
            self.until(lambda: self.status(name)["events"] == 1000, "written")
            disturb(trace / ".plumb-journal")
            worker = self.status(name)["worker_pid"]
            os.kill(worker, signal.SIGKILL)
            self.until(lambda: self.status(name).get("worker_pid", worker) != worker, "the next worker")
            subprocess.run([self.program], check=True, timeout=60)
            is_told = "may be there twice, here and in the chunk before"
            self.assertIn(is_told, " ".join(self.status(name)["problems"]))
            self.assertIn(is_told, plumb("destroy", name).stderr)
            [summary] = [json.loads(path.read_text()) for path in trace.glob("chunk-00000002-*/summary.json")]
            self.assertIn(is_told, " ".join(summary["problems"]))
            self.assertFalse(summary["complete"])
            self.assertEqual(plumb("view", trace).stdout.count("upset:taken"), 2000, name)


if __name__ == "__main__":
    unittest.main()
