#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
"""plumb record at a terminal: what its keys and its end mean for the command is what they mean without Plumb, whichever of both
leads the job, the session, or a group of its own.
"""
import os
import pty
import select
import shlex
import signal
import sys
import time
import unittest
from pathlib import Path

from test_signals import PLUMB, SignalTest


def setUpModule():
    try:
        for end in os.openpty():
            os.close(end)
    except OSError as error:
        print(f"There are no terminals to be had here: {error}")
        sys.exit(77)


class TerminalTest(SignalTest):
    """A recorder at a terminal of its own, with a shell that controls jobs or without one."""

    def open(self, command):
        process, self.terminal = pty.fork()
        if process == 0:
            os.environ["PS1"] = "SHELL> "
            os.execvp(command[0], command)
        self.addCleanup(os.close, self.terminal)
        self.addCleanup(os.waitpid, process, 0)
        self.addCleanup(os.kill, process, signal.SIGKILL)
        self.shown = ""
        return process

    def show_until(self, text, seconds=20):
        end = time.time() + seconds
        while text not in self.shown and time.time() < end:
            if select.select([self.terminal], [], [], 0.1)[0]:
                try:
                    self.shown += os.read(self.terminal, 4096).decode(errors="replace")
                except OSError:
                    break
        self.assertTrue(text in self.shown, self.shown[-1000:])

    def hang_up(self):
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), self.terminal, inheritable=False)

    @staticmethod
    def wait(process, seconds=20):
        """Its status, as from waitpid(); it is left for the clean-up."""
        end = time.time() + seconds
        while time.time() < end:
            if found := os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT | os.WNOHANG):
                return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
            time.sleep(0.02)
        return None

    def press(self, keys):
        os.write(self.terminal, keys.encode())


class StatusLine(TerminalTest):
    def lines_at(self, columns):
        """What is drawn, each in the place of the one before."""
        record = shlex.join([str(PLUMB), "record", "--force", "-o", str(self.trace), "--duration", "0.7"])
        recorder = self.open(["sh", "-c", f"stty cols {columns}; exec {record}"])
        self.show_until("The trace is in")
        self.assertIsNotNone(self.wait(recorder))
        return [line for line in self.shown.split("Recorded")[0].split("\r\x1b[K") if line]

    def test_it_keeps_to_the_width_of_the_terminal(self):
        """A line that goes on in the next one is never taken away again."""
        self.assertTrue(all(line.endswith(" bytes") or line.endswith(" KiB") for line in self.lines_at(200)), self.shown)
        narrow = self.lines_at(20)
        self.assertTrue(narrow and all(line.startswith("00:0") and len(line) == 19 for line in narrow), self.shown)

    def test_there_is_none_beside_a_command(self):
        self.open([str(PLUMB), "record", "-o", str(self.trace), "--", "sh", "-c", "echo ready; sleep 1; exit 7"])
        self.show_until("Recorded")
        self.assertEqual(self.shown.split("Recorded")[0], "ready\r\n")


class CtrlC(TerminalTest):
    def test_what_the_command_survived_does_not_count(self):
        self.open(self.record(*self.hearer(6)))
        self.show_until("ready")
        for _ in range(3):
            self.press("\x03\x03")
            time.sleep(1.6)
        self.show_until("Recorded")
        self.assertFalse("runs on" in self.shown, self.shown[-1000:])
        self.assertEqual(self.exit_status(), 7)

    def test_three_at_once_end_the_recording_alone(self):
        self.open(self.record(*self.hearer(20)))
        self.show_until("ready")
        for _ in range(3):
            self.press("\x03")
            time.sleep(0.2)
        self.show_until("runs on")
        self.show_until("Recorded")

    # Forwards SIGINT to what follows, after this time.
    WRAPPER = """
import signal, subprocess, sys, time
child = subprocess.Popen(sys.argv[2:])
signal.signal(signal.SIGINT, lambda *_: (time.sleep(float(sys.argv[1])), child.send_signal(signal.SIGINT)))
sys.exit(child.wait())
"""

    def test_who_forwards_it_does_not_insist(self):
        wrappers = [["timeout", "20"], ["timeout", "--foreground", "20"]]
        wrappers += [[sys.executable, "-c", self.WRAPPER, delay] for delay in ("0", "0.05")]
        for wrapper in wrappers:
            for again in range(2):
                with self.subTest(wrapper=wrapper, again=again):
                    process = self.open([*wrapper, *self.record(*self.hearer(1))])
                    self.show_until("ready")
                    self.press("\x03")
                    self.show_until("Recorded")
                    self.assertFalse("runs on" in self.shown, self.shown[-1000:])
                    self.assertIn(self.wait(process), (7, 124))  # the latter of timeout(1)
                    self.assertEqual(self.exit_status(), 7)

    def test_it_ends_the_loop_of_a_shell(self):
        record = shlex.join(self.record("sh", "-c", "echo ready; exec sleep 20"))
        shell = self.open(["bash", "-c", f"for i in 1 2; do echo begin $i; {record}; done"])
        self.show_until("ready")
        self.press("\x03")
        self.assertEqual(self.wait(shell), -signal.SIGINT)
        self.show_until("The trace is in")
        self.assertNotIn("begin 2", self.shown)

    def test_a_command_in_a_group_of_its_own_hears_it_once(self):
        recorder = self.open(self.record("setsid", *self.hearer(0.5)))
        self.show_until("ready")
        self.press("\x03")
        self.show_until("Recorded")
        self.assertEqual(self.shown.count("heard 2"), 1, self.shown)
        self.assertEqual(self.wait(recorder), 7)


class HangUp(TerminalTest):
    """The end of a terminal is told to the leader of its session; the group hears of it when the leader ends."""

    def hearer_of_hang_ups(self):
        script = f"trap 'echo x >> {self.folder}/heard; n=7' HUP; n=; echo ready; while [ -z $n ]; do sleep 0.1; done; sleep 0.5; exit 7"
        return self.record("sh", "-c", script)

    def assert_heard_once(self):
        end = time.time() + 20
        while not (self.trace / "summary.json").exists() and time.time() < end:
            time.sleep(0.05)
        self.assertEqual(self.exit_status(), 7)
        self.assertEqual((self.folder / "heard").read_text(), "x\n")

    def test_reaches_the_command_of_a_recorder_that_leads_the_session(self):
        recorder = self.open(self.hearer_of_hang_ups())
        self.show_until("ready")
        self.hang_up()
        self.assertEqual(self.wait(recorder), 7)
        self.assert_heard_once()

    def test_reaches_it_where_nobody_can_tell_whom_a_signal_reached(self):
        recorder = self.open(self.hearer_of_hang_ups())
        self.show_until("ready")
        for process in self.group(recorder):
            if self.command_line(process) == "signal-witness":
                os.kill(process, signal.SIGKILL)
        self.hang_up()
        self.assertEqual(self.wait(recorder), 7)
        self.assert_heard_once()

    def test_reaches_the_command_once_below_a_shell(self):
        for shell in (["sh", "-c"], ["bash", "-mc"]):
            with self.subTest(shell):
                self.trace = self.folder / shell[0]
                self.open([*shell, shlex.join(self.hearer_of_hang_ups()) + "; true"])
                self.show_until("ready")
                self.hang_up()
                self.assert_heard_once()
                (self.folder / "heard").unlink()


class CtrlS(TerminalTest):
    def test_who_reads_a_terminal_at_leisure_holds_nobody_up(self):
        heard = self.folder / "heard"
        recorder = self.open(self.record("sh", "-c", f"trap 'echo x > {heard}; exit 7' TERM; echo ready; while :; do sleep 0.1; done"))
        self.show_until("ready")
        self.press("\x13")
        time.sleep(1)
        os.kill(recorder, signal.SIGTERM)
        self.assertEqual(self.wait(recorder), 7)
        self.assertTrue(heard.exists())

    def test_nor_does_the_status_line(self):
        recorder = self.open([str(PLUMB), "record", "-o", str(self.trace)])
        self.show_until("lost")
        self.press("\x13")
        time.sleep(1)
        os.kill(recorder, signal.SIGTERM)
        self.assertEqual(self.wait(recorder), 0)

    def test_what_was_said_meanwhile_is_shown_afterwards(self):
        recorder = self.open(self.record("sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.1; done"))
        self.show_until("ready")
        self.press("\x13")
        time.sleep(1)
        os.kill(recorder, signal.SIGTERM)
        time.sleep(2)
        self.press("\x11")
        self.show_until("The trace is in")
        self.assertEqual(self.wait(recorder), 7)

    def test_the_time_is_kept(self):
        command = self.record("sh", "-c", "echo ready; exec sleep 30")
        recorder = self.open([*command[:2], "--duration", "2", *command[2:]])
        self.show_until("ready")
        self.press("\x13")
        self.assertEqual(self.wait(recorder), 0)


class Jobs(TerminalTest):
    def press_ctrl_z(self):
        self.press("\x1a")
        self.show_until("Stopped")

    def goes_on_and_ends_with(self, status):
        self.press("fg\n")
        self.show_until("The trace is in")
        self.assertEqual(self.exit_status(), status)

    def in_a_shell(self, *command):
        self.open(["bash", "--norc", "--noprofile", "-i"])
        self.show_until("SHELL> ")
        self.press(" ".join(self.record(*command)) + "; echo status=$?\n")

    def test_a_command_that_stops_itself_gives_the_terminal_back(self):
        self.in_a_shell("sh", "-c", "'echo ready; kill -STOP $$; echo goes on; exit 7'")
        self.show_until("Stopped")
        self.press("fg\n")
        self.show_until("goes on")
        self.show_until("The trace is in")
        self.assertEqual(self.exit_status(), 7)

    def test_the_shell_hears_how_the_command_stopped(self):
        self.in_a_shell("sh", "-c", "'echo ready; kill -TSTP $$; exit 7'")
        self.show_until("Stopped")
        self.show_until(f"status={128 + signal.SIGTSTP}")
        self.goes_on_and_ends_with(7)

    def make_search_slow(self):
        """A PATH in which a command is found late: its folders lie behind links that go round in a folder for long."""
        (self.folder / "round").symlink_to("./" * 2000)
        (self.folder / "last").mkdir()
        command = self.folder / "last" / "found-late"
        command.write_text("#!/bin/sh\nsleep 0.5; exit 7\n")
        command.chmod(0o755)
        path, here = os.environ["PATH"], os.getcwd()
        self.addCleanup(os.environ.update, PATH=path)
        self.addCleanup(os.chdir, here)
        os.chdir(self.folder)
        os.environ["PATH"] = ":".join(["/".join(["round"] * 38)] * 500 + [str(command.parent), path])

    def forked(self):
        """The command of the recorder, before it has its program."""
        recorder = self.recorder()
        for _ in range(2000):
            for child in Path(f"/proc/{recorder}/task/{recorder}/children").read_text().split():
                try:
                    status = Path(f"/proc/{child}/status").read_text()
                except FileNotFoundError:  # another child, which has ended
                    continue
                # One that looks for something else comes before there is a trace.
                if "SigBlk:\t0000000000000000" in status and "Name:\tplumb\n" in status and (self.trace / "ust").is_dir():
                    return int(child)
            time.sleep(0.001)
        self.fail("the command is not on its way")

    def test_ctrl_z_stops_a_command_that_has_no_program_yet(self):
        self.make_search_slow()
        self.in_a_shell("found-late")
        self.forked()
        self.press_ctrl_z()
        self.goes_on_and_ends_with(7)

    def test_what_ends_a_command_that_has_no_program_yet(self):
        self.make_search_slow()
        self.in_a_shell("found-late")
        self.forked()
        os.kill(self.recorder(), signal.SIGTERM)
        self.show_until(f"status={128 + signal.SIGTERM}")
        self.assertEqual(self.exit_status(), 128 + signal.SIGTERM)

    def test_ctrl_z_stops_both(self):
        # Not sh: one that waits in vfork() for a child that is stopped does not stop, with Plumb or without.
        self.in_a_shell("bash", "-c", "'echo ready; sleep 2; echo goes on; exit 7'")
        self.show_until("ready\r")
        self.press_ctrl_z()
        self.goes_on_and_ends_with(7)

    def test_a_command_that_does_not_care_for_ctrl_z_is_not_stopped(self):
        self.in_a_shell("sh", "-c", "'trap \"\" TSTP; echo ready; sleep 2; echo finished; exit 7'")
        self.show_until("ready\r")
        self.press("\x1a")
        self.show_until("status=7")
        self.assertIn("finished", self.shown)
        self.assertNotIn("Stopped", self.shown)

    def test_ctrl_z_stops_a_command_in_a_group_of_its_own(self):
        self.in_a_shell("timeout", "20", "sh", "-c", "'echo ready; sleep 1; exit 7'")
        self.show_until("ready\r")
        self.press_ctrl_z()
        self.goes_on_and_ends_with(7)

    def test_ctrl_z_stops_a_recorder_that_is_no_job_by_itself(self):
        self.open(["bash", "--norc", "--noprofile", "-i"])
        self.show_until("SHELL> ")
        self.press(shlex.join(["sh", "-c", shlex.join(self.record("bash", "-c", "echo ready; sleep 1; exit 7")) + "; true"]) + "\n")
        self.show_until("ready\r")
        self.press_ctrl_z()
        self.wait_for_state(self.recorder(), "T")
        self.goes_on_and_ends_with(7)

    def test_ctrl_z_stops_a_recorder_without_a_command(self):
        self.open(["bash", "--norc", "--noprofile", "-i"])
        self.show_until("SHELL> ")
        self.press(f"{PLUMB} record -o {self.trace} --duration 2\n")
        self.show_until("lost")  # the status line
        self.press_ctrl_z()
        self.wait_for_state(self.recorder(), "T")
        self.press("fg\n")
        self.show_until("The trace is in")

    def recorder(self):
        """Its number, once there is one for the trace."""
        for _ in range(200):
            for line in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    words = line.read_text().split("\0")
                    name = (line.parent / "comm").read_text()
                except OSError:
                    continue
                if name == "plumb\n" and words[0] == str(PLUMB) and str(self.trace) in words:
                    return int(line.parent.name)
            time.sleep(0.05)
        self.fail("no recorder")

    def test_a_stopped_job_goes_on_when_its_recorder_is_continued_alone(self):
        self.in_a_shell("sh", "-c", "'echo ready; exec sleep 2'")
        self.show_until("ready\r")
        recorder = self.recorder()
        self.press_ctrl_z()
        os.kill(recorder, signal.SIGCONT)
        self.show_until("The trace is in")
        self.assertEqual(self.exit_status(), 0)

    def test_what_the_recorder_draws_stops_nobody_in_the_background(self):
        self.open(["bash", "--norc", "--noprofile", "-i"])
        self.show_until("SHELL> ")
        self.press(f"stty tostop; {PLUMB} record -o {self.trace} --duration 1 &\n")
        for _ in range(200):
            if (self.trace / "summary.json").exists():
                break
            time.sleep(0.05)
        self.show_until("The trace is in")

    def test_a_command_has_its_terminal_to_itself(self):
        self.open(self.record("sh", "-c", "printf 'Go on? '; read x; echo got $x"))
        self.show_until("Go on? ")
        time.sleep(1)
        self.press("yes\n")
        self.show_until("The trace is in")
        self.assertIn("Go on? yes\r\ngot yes\r\n", self.shown)

    def test_the_status_line_is_drawn_a_few_times_a_second(self):
        self.open([str(PLUMB), "record", "-o", str(self.trace), "--duration", "3"])
        self.show_until("The trace is in")
        self.assertIn("events  ", self.shown)
        self.assertLess(self.shown.count("\r\x1b[K00:"), 25)


if __name__ == "__main__":
    unittest.main()
