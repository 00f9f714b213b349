#!/usr/bin/env python3
# cmake-once
"""What plumb says, where nobody can hear it: a full device, a closed terminal, a reader that has gone, descriptors that
were never open. A recording goes on, the command's status is passed on, and no message gets into a file of the trace."""
import fcntl
import json
import os
import select
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"


class Output(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-output-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.recorded = cls.folder / "recorded"
        cls.sh(f"{PLUMB} record -q --preload pthread -o {cls.recorded} -- {BUILD}/cli/plumb doctor > /dev/null", cls.folder)

    def setUp(self):
        self.trace = self.folder / self.id().split(".")[-1]

    @staticmethod
    def sh(script, folder=None, **more):
        return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, cwd=folder, **more)

    def assert_whole(self, trace):
        read = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, timeout=60)
        self.assertEqual((read.returncode, read.stderr), (0, ""))
        summary = json.loads((trace / "summary.json").read_text())
        self.assertEqual((summary["exit_status"], summary["complete"]), (7, True))
        self.assertEqual(summary["events_lost"], 0)

    def test_a_recording_does_not_mind_where_its_messages_go(self):
        gone = "2> >(exec true)"
        for number, place in enumerate(["2>/dev/full", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", gone, ">/dev/full --json"]):
            with self.subTest(place):
                trace = self.folder / f"trace-{number}"
                redirection, _, option = place.partition(" --")
                done = self.sh(f"{PLUMB} record {option and '--' + option} -o {trace} -- "
                               f"sh -c 'sleep 0.2; exit 7' {redirection}")
                self.assertEqual(done.returncode, 7, done.stderr)
                self.assert_whole(trace)

    def test_the_command_has_the_descriptors_that_plumb_was_given(self):
        for closing in ("", "<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            with self.subTest(closing):
                seen = self.folder / "seen"
                wanted = self.folder / "wanted"
                look = "bash -c 'for n in 0 1 2; do [ -e /proc/$$/fd/$n ] && readlink /proc/$$/fd/$n >&4; done; true'"
                self.sh(f"exec 4>{wanted} </dev/null >/dev/null 2>/dev/null; {look} {closing}")
                self.sh(f"exec 4>{seen} </dev/null >/dev/null 2>/dev/null; "
                        f"{PLUMB} record --force -q -o {self.trace} -- {look} {closing}")
                self.assertEqual(seen.read_text(), wanted.read_text())

    def test_input_and_output_are_the_commands_alone(self):
        # Who has let go of them is not kept at them by its recorder.
        begin = time.monotonic()
        script = "exec <&- >&-; sleep 30"
        with subprocess.Popen([PLUMB, "record", "-o", self.trace, "--", "sh", "-c", script], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as recorder:
            self.assertEqual(recorder.stdout.read(), b"")
            with self.assertRaises(BrokenPipeError):
                while time.monotonic() < begin + 20:
                    os.write(recorder.stdin.fileno(), b"x")
            self.assertIsNone(recorder.poll())
            recorder.terminate()
            recorder.stdin.close()

    def test_a_signal_at_the_end_does_not_change_the_status(self):
        recorder = subprocess.Popen([PLUMB, "record", "-q", "-o", self.trace, "--", "sh", "-c", "sleep 0.5; exit 7"],
                                    stderr=subprocess.DEVNULL)
        while not (self.trace / "ust" / "metadata").exists():
            time.sleep(0.02)
        while recorder.poll() is None:
            recorder.send_signal(signal.SIGIO)
        self.assertEqual(recorder.returncode, 7)

    def test_no_name_steers_the_terminal(self):
        hostile = self.folder / "\x1b]0;OWN\x07"
        shutil.copy(PLUMB, hostile)
        done = subprocess.run([PLUMB, "record", "--preload", "pthread", "-o", self.trace, "--", hostile, "doctor"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(set(done.stderr) & set(b"\x1b\x07"), set(), done.stderr)
        self.assertIn(b"\\x1b]0;OWN\\x07 (", done.stderr)
        done = subprocess.run([PLUMB, "record", "--force", "-o", self.trace, "--", f"{hostile}-not"], capture_output=True,
                              timeout=60)
        self.assertEqual(done.returncode, 127)
        self.assertEqual(set(done.stderr) & set(b"\x1b\x07"), set(), done.stderr)

    def test_a_fifo_in_a_trace_is_not_waited_for(self):
        shutil.copytree(self.recorded, self.trace)
        (self.trace / "summary.json").unlink()
        os.mkfifo(self.trace / "summary.json")
        self.assertEqual(self.sh(f"{PLUMB} view --summary {self.trace}").returncode, 0)
        (self.trace / "ust" / "metadata").unlink()
        os.mkfifo(self.trace / "ust" / "metadata")
        for command in (f"view {self.trace}", f"record --force -o {self.trace} -- true"):
            self.assertEqual(self.sh(f"{PLUMB} {command}").returncode, 1)

    def test_an_answer_that_cannot_be_given_is_a_failure_with_its_reason(self):
        for command in ("list", "doctor", "completion bash", "--help", "record --help", f"view --statedump {self.recorded}",
                        f"view --statedump --json {self.recorded}", f"view --summary {self.recorded}"):
            for place, reason in ((">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")):
                with self.subTest(command + place):
                    done = self.sh(f"{PLUMB} {command} {place}")
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn("Could not write to standard output", done.stderr)
                    self.assertIn(reason, done.stderr)

    def test_a_reader_that_goes_away_is_no_failure(self):
        for ignored in (False, True):  # SIGPIPE, by whoever started the pipeline
            for command in ("list --kernel", "doctor", "completion bash", "--help", f"view --statedump {self.recorded}",
                            f"view --statedump --json {self.recorded}"):
                with self.subTest(f"{command} {ignored}"):
                    trap = "trap '' PIPE; " if ignored else ""
                    done = self.sh(f"{trap}(sleep 0.1; {PLUMB} {command}; echo $? > {self.trace}) | true")
                    self.assertEqual(done.stderr, "")
                    self.assertIn(int(self.trace.read_text()), {0, 1 if command == "doctor" else 0,
                                                                0 if ignored else 128 + signal.SIGPIPE})

    def full_pipe(self, room=0):
        """Of the smallest kind, with that many bytes left."""
        read, write = os.pipe()
        for end in (read, write):
            self.addCleanup(os.close, end)
        os.write(write, (fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096) - room) * b"x")
        return read, write

    def test_nobody_waits_for_who_does_not_read_messages(self):
        script = "trap 'exit 3' USR1; echo ready; while :; do sleep 0.05; done"
        recorder = subprocess.Popen([PLUMB, "record", "-o", self.trace, "--", "sh", "-c", script], stdout=subprocess.PIPE,
                                    stderr=self.full_pipe()[1], text=True)
        self.addCleanup(recorder.kill)
        self.addCleanup(recorder.stdout.close)
        self.assertEqual(recorder.stdout.readline(), "ready\n")
        recorder.send_signal(signal.SIGUSR1)
        self.assertEqual(recorder.wait(30), 3)
        self.assertTrue(json.loads((self.trace / "summary.json").read_text())["complete"])

    def flooded(self, write):
        """A flight recorder that has said more than fits: about 90 KB, in messages of 3.5 KB."""
        trace = self.trace
        for _ in range(14):
            trace /= 240 * "x"  # so that each message is long
        trace.parent.mkdir(parents=True)
        recorder = subprocess.Popen([PLUMB, "record", "--snapshot", "-o", trace, "--", "sh", "-c", "echo ready; exec sleep 60"],
                                    stdout=subprocess.PIPE, stderr=write, text=True)
        self.addCleanup(recorder.stdout.close)
        self.addCleanup(recorder.kill)
        self.assertEqual(recorder.stdout.readline(), "ready\n")
        for _ in range(24):
            self.assertEqual(self.sh(f"timeout 20 {PLUMB} snapshot {recorder.pid}").returncode, 0)
        return recorder

    LEFT_OUT = rb"plumb: here (a message|\d+ messages) that nobody read (is|are) left out\."

    def test_how_many_messages_were_too_many_is_said(self):
        read, write = self.full_pipe()
        recorder = self.flooded(write)
        said = b""
        while said.count(b"snapshot of") < 3:
            said += os.read(read, 4096)
        recorder.terminate()
        while b"The trace is in" not in said:
            said += os.read(read, 4096)
        self.assertRegex(said, self.LEFT_OUT)
        recorder.wait(30)

    def test_what_was_left_out_before_the_end_is_said_and_the_summary_is_not_left_out(self):
        read, write = self.full_pipe()
        recorder = self.flooded(write)
        recorder.terminate()
        time.sleep(1)
        said = b""
        while b"The trace is in" not in said:
            self.assertTrue(select.select([read], [], [], 20)[0], said[-300:])
            said += os.read(read, 4096)
        self.assertRegex(said, self.LEFT_OUT + rb"[^$]*The trace is in")
        recorder.wait(30)

    def test_messages_that_nobody_reads_for_a_while_are_kept(self):
        read, write = self.full_pipe()
        recorder = subprocess.Popen([PLUMB, "record", "-o", self.trace, "--", "sh", "-c", "exit 7"], stderr=write)
        time.sleep(2)
        said = b""
        while b"The trace is in" not in said:
            said += os.read(read, 4096)
        self.assertEqual(recorder.wait(30), 7)

    def test_an_answer_is_waited_for_until_it_is_read_or_the_recorder_is_asked_to_end(self):
        for is_read in (True, False):
            with self.subTest(is_read):
                read, write = self.full_pipe(100)
                recorder = subprocess.Popen([PLUMB, "record", "-q", "--json", "--force", "-o", self.trace, "--", "timeout", "9", "true"],
                                            stdout=write, stderr=subprocess.PIPE, text=True)
                self.addCleanup(recorder.kill)
                with self.assertRaises(subprocess.TimeoutExpired):
                    recorder.wait(8)
                said = b""
                if is_read:
                    while not said.endswith(b"}\n"):
                        said += os.read(read, 4096)
                    self.assertTrue(json.loads(said.lstrip(b"x"))["complete"])
                else:
                    recorder.terminate()
                _, complaint = recorder.communicate(timeout=30)
                self.assertEqual("Could not write to standard output" in complaint, not is_read)
                self.assertEqual(recorder.returncode, 0 if is_read else 1)

    def test_a_recording_whose_reader_goes_away_passes_the_status_on(self):
        done = self.sh(f"{PLUMB} record --json -o {self.trace} -- sh -c 'sleep 0.2; exit 7' | true; "
                       "exit ${PIPESTATUS[0]}")
        self.assertEqual(done.returncode, 7)
        self.assert_whole(self.trace)


if __name__ == "__main__":
    unittest.main()
