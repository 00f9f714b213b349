#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
"""plumb record among signals: the command gets each once, however it was sent, and as often as without Plumb; and what ends
the recording is the command, or somebody who insists.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"

# hearer SECONDS: says which signals it gets, each time; lives on for that time after the first one, and ends with 7. It takes
# SIGINT even where a shell lets what runs in its background ignore it.
HEARER = """
import os, select, signal, sys, time
heard, hear = os.pipe()
os.set_blocking(hear, False)
signal.set_wakeup_fd(hear)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGRTMIN, signal.SIGABRT, signal.SIGWINCH): signal.signal(number, lambda *_: None)
end = time.time() + 30
os.write(1, b"ready\\n")
while time.time() < end:
    if not select.select([heard], [], [], 0.01)[0]: continue
    end = min(end, time.time() + float(sys.argv[1]))
    for number in os.read(heard, 100): os.write(1, b"heard %d\\n" % number)
sys.exit(7)
"""


class SignalTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="plumb-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.trace = self.folder / "trace"
        (self.folder / "hearer.py").write_text(HEARER)

    def record(self, *command):
        return [str(PLUMB), "record", "-o", str(self.trace), "--force", "--", *map(str, command)]

    def hearer(self, seconds):
        return [sys.executable, str(self.folder / "hearer.py"), str(seconds)]

    def start(self, command, **options):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def end(self, process):
        """What the command heard, and what the recorder said."""
        heard, said = process.communicate(timeout=60)
        return [int(line.split()[1]) for line in heard.splitlines() if line.startswith("heard ")], said

    def exit_status(self):
        return json.loads((self.trace / "summary.json").read_text())["exit_status"]

    @staticmethod
    def state(process):
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]

    def wait_for_state(self, process, states):
        end = time.time() + 10
        while self.state(process) not in states and time.time() < end:
            time.sleep(0.01)
        self.assertIn(self.state(process), states)

    @staticmethod
    def command_line(process):
        return Path(f"/proc/{process}/cmdline").read_text().strip("\0").replace("\0", " ")

    def has_witness(self, leader):
        try:
            return any(self.command_line(process) == "signal-witness" for process in self.group(leader))
        except OSError:  # one that has ended meanwhile
            return False

    @staticmethod
    def group(leader):
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _, group = stat.read_text().rsplit(")", 1)[1].split()[:3]
            except OSError:
                continue
            if int(group) == leader and state != "Z":
                found.append(int(stat.parent.name))
        return found


class Signals(SignalTest):
    def test_a_signal_to_the_group_reaches_the_command_once(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGRTMIN, signal.SIGABRT, signal.SIGWINCH):
            for again in range(3):
                with self.subTest(number):
                    recorder = self.start(self.record(*self.hearer(0.5)), start_new_session=True)
                    os.killpg(recorder.pid, number)
                    heard, said = self.end(recorder)
                    self.assertEqual(heard, [number])
                    self.assertEqual(recorder.returncode, 7, said)

    def test_a_signal_to_the_recorder_reaches_the_command_once_whatever_the_senders_group(self):
        for own_group in (True, False):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGABRT, signal.SIGWINCH):
                with self.subTest((own_group, number)):
                    recorder = self.start(self.record(*self.hearer(0.5)), start_new_session=own_group)
                    recorder.send_signal(number)
                    heard, said = self.end(recorder)
                    self.assertEqual(heard, [number])
                    self.assertEqual(recorder.returncode, 7, said)

    def test_signals_to_group_and_recorder_in_turn_are_told_apart(self):
        recorder = self.start(self.record(*self.hearer(4)), start_new_session=True)
        for to_group in (True, False, True, False):
            if to_group:
                os.killpg(recorder.pid, signal.SIGHUP)
            else:
                os.kill(recorder.pid, signal.SIGHUP)
            time.sleep(1.2)
        heard, said = self.end(recorder)
        self.assertEqual(heard, 4 * [signal.SIGHUP])
        self.assertEqual(recorder.returncode, 7, said)

    def test_a_command_in_a_group_of_its_own_hears_what_the_recorders_group_is_sent(self):
        recorder = self.start(self.record("setsid", *self.hearer(0.5)), start_new_session=True)
        os.killpg(recorder.pid, signal.SIGTERM)
        heard, said = self.end(recorder)
        self.assertEqual(heard, [signal.SIGTERM])
        self.assertEqual(recorder.returncode, 7, said)

    def test_how_a_command_shuts_down_after_a_time_out_is_recorded(self):
        for options in ([], ["--foreground"]):
            with self.subTest(options):
                recorder = self.start(["timeout", *options, "5", *self.record(*self.hearer(1.5))])
                heard, said = self.end(recorder)
                self.assertEqual(heard, [signal.SIGTERM])
                self.assertNotIn("runs on", said)
                self.assertEqual(self.exit_status(), 7)

    @staticmethod
    def ignore_hang_ups():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def test_under_nohup_a_command_that_hears_hang_ups_hears_them_and_the_recording_goes_on(self):
        for to_group in (False, True):
            with self.subTest(to_group=to_group):
                recorder = self.start(self.record(*self.hearer(2)), start_new_session=True, preexec_fn=self.ignore_hang_ups)
                for _ in range(2):
                    (os.killpg if to_group else os.kill)(recorder.pid, signal.SIGHUP)
                    time.sleep(0.6)
                heard, said = self.end(recorder)
                self.assertEqual(heard, 2 * [signal.SIGHUP])
                self.assertEqual(recorder.returncode, 7, said)

    def test_neither_a_window_nor_under_nohup_a_hang_up_ends_a_recording_without_a_command(self):
        command = [str(PLUMB), "record", "-o", str(self.trace), "--duration", "2"]
        recorder = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=self.ignore_hang_ups)
        time.sleep(0.7)
        for number in (signal.SIGHUP, signal.SIGWINCH):
            recorder.send_signal(number)
        _, said = recorder.communicate(timeout=20)
        self.assertEqual(recorder.returncode, 0, said)
        self.assertGreater(json.loads((self.trace / "summary.json").read_text())["duration_ns"], 1.9e9)

    def test_what_the_command_sends_its_parent_does_not_come_back(self):
        for number in ("USR1", "TERM"):
            script = f"trap 'echo heard 99' {number}; echo ready; kill -{number} $PPID; sleep 0.3; sleep 0.3; exit 7"
            with self.subTest(number):
                recorder = self.start(self.record("sh", "-c", script))
                heard, said = self.end(recorder)
                self.assertEqual(heard, [])
                self.assertEqual(recorder.returncode, 7, said)

    def test_nor_does_what_a_child_of_the_command_sends(self):
        for number in (signal.SIGUSR1, signal.SIGTERM):
            sender = f"import os, time; os.kill($PPID, {int(number)}); time.sleep(0.3)"
            script = f"trap 'echo heard 99' {int(number)}; echo ready; {sys.executable} -c '{sender}'; sleep 0.3; exit 7"
            with self.subTest(number):
                recorder = self.start(self.record("sh", "-c", script.replace("$PPID", "'$PPID'")))
                heard, said = self.end(recorder)
                self.assertEqual(heard, [])
                self.assertEqual(recorder.returncode, 7, said)

    def test_the_first_process_of_a_container_waits_for_its_command(self):
        container = ["unshare", "--pid", "--fork", "--mount-proc"]
        if subprocess.run([*container, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no namespaces here")
        starter = self.start([*container, *self.record(*self.hearer(4))])
        recorder = int(Path(f"/proc/{starter.pid}/task/{starter.pid}/children").read_text())
        for _ in range(3):
            os.kill(recorder, signal.SIGTERM)
            time.sleep(0.6)
        os.kill(recorder, signal.SIGHUP)
        heard, said = self.end(starter)
        self.assertIn("plumb waits for it", said)
        self.assertIn("Recorded", said)
        self.assertEqual(heard, 3 * [signal.SIGTERM] + [signal.SIGHUP])
        self.assertEqual(starter.returncode, 7, said)

    def test_what_names_the_started_process_names_the_command(self):
        names = ["LISTEN_PID", "WATCHDOG_PID", "SYSTEMD_EXEC_PID"]
        given = " ".join(f"{name}=$$" for name in names)
        show = "echo $$ " + " ".join(f"${name}" for name in names) + " $OTHER_PID"
        script = f'OTHER_PID=$$ {given} exec "$@"'
        done = subprocess.run(["sh", "-c", f"echo $$; {script}", "sh", *self.record("sh", "-c", show)], capture_output=True,
                              text=True, timeout=30, check=False)
        recorder, command, *others, other = done.stdout.split()
        self.assertEqual(others, 3 * [command], done.stderr)
        self.assertEqual(other, recorder)

    @unittest.skipUnless(hasattr(os, "pidfd_open"), "Python is too old")
    def test_what_names_the_recorder_by_its_descriptor_does_not_reach_the_command(self):
        script = """
import os, sys
own = os.fstat(os.pidfd_open(os.getpid())).st_ino
os.environ["LISTEN_PIDFDID"] = str(own + int(sys.argv[1]))
os.execv(sys.argv[2], sys.argv[2:])"""
        for off, shown in ((0, "none"), (1, "another's")):
            done = subprocess.run([sys.executable, "-c", script, str(off),
                                   *self.record("sh", "-c", "echo ${LISTEN_PIDFDID-none}")],
                                  capture_output=True, text=True, timeout=30, check=False)
            self.assertEqual(done.stdout.strip() == "none", shown == "none", done.stderr)

    def test_who_waits_for_the_end_of_a_pipe_waits_for_the_command_alone(self):
        read_end, write_end = os.pipe()
        script = f"echo ready >&{write_end}; exec {write_end}>&-; /bin/true; read line; :"
        recorder = subprocess.Popen(self.record("bash", "-c", script), pass_fds=[write_end], stdin=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
        os.close(write_end)
        with open(read_end) as pipe:
            watchdog = threading.Timer(10, recorder.kill)
            watchdog.start()
            self.assertEqual(pipe.read(), "ready\n")
            watchdog.cancel()
        self.assertIsNone(recorder.poll())
        recorder.communicate(b"\n", timeout=20)
        self.assertEqual(recorder.returncode, 0)

    def test_what_was_sent_before_the_command_began_reaches_it(self):
        for to_group in (True, False):
            with self.subTest(to_group):
                recorder = subprocess.Popen(self.record("sleep", 30), start_new_session=True, stderr=subprocess.PIPE, text=True)
                while not self.has_witness(recorder.pid):  # from then on the recorder takes signals
                    time.sleep(0.001)
                (os.killpg if to_group else os.kill)(recorder.pid, signal.SIGTERM)
                _, said = recorder.communicate(timeout=20)
                self.assertEqual(recorder.returncode, -signal.SIGTERM, said)

    def test_what_the_command_sends_its_own_group_does_not_end_the_recording(self):
        script = "trap 'kill -HUP 0' TERM; trap : HUP; echo ready; sleep 1.5 & while ! wait; do :; done; sleep 0.5; exit 7"
        recorder = self.start(self.record("sh", "-c", script), start_new_session=True)
        recorder.send_signal(signal.SIGTERM)
        _, said = self.end(recorder)
        self.assertNotIn("runs on", said)
        self.assertEqual(recorder.returncode, 7, said)

    def test_two_signals_in_quick_succession_end_the_recording_alone(self):
        recorder = self.start(self.record(*self.hearer(4)))
        for _ in range(2):
            recorder.send_signal(signal.SIGHUP)
            time.sleep(1.5)  # as a service that is told to read its configuration again
        self.assertIsNone(recorder.poll())
        for _ in range(2):
            recorder.send_signal(signal.SIGHUP)
            time.sleep(0.6)
        recorder.wait(10)
        heard, said = self.end(recorder)
        self.assertIn("runs on", said)
        self.assertEqual(heard, 4 * [signal.SIGHUP])

    def test_however_many_real_time_signals_come_at_once_the_command_gets_them(self):
        counter = ("import os, signal, sys, time\nheard = 0\ndef hear(*_):\n    global heard\n    heard += 1\n"
                   "signal.signal(signal.SIGRTMIN, hear)\nos.write(1, b'ready\\n')\nend = time.time() + 20\n"
                   "while heard < 1 and time.time() < end: time.sleep(0.01)\ntime.sleep(3)\nsys.exit(7)")
        recorder = self.start(self.record(sys.executable, "-c", counter))
        for _ in range(400):
            recorder.send_signal(signal.SIGRTMIN)
        _, said = recorder.communicate(timeout=60)
        self.assertEqual(recorder.returncode, 7, said)
        self.assertNotIn("the recording ends", said)

    def test_many_signals_at_once_are_one_breath(self):
        recorder = self.start(self.record(*self.hearer(2)))
        for _ in range(15):
            recorder.send_signal(signal.SIGTERM)
            time.sleep(0.05)
        _, said = self.end(recorder)
        self.assertEqual(recorder.returncode, 7, said)
        self.assertNotIn("the recording ends", said)

    def test_two_signals_in_one_breath_are_one(self):
        recorder = self.start(self.record(*self.hearer(1)))
        begun = time.monotonic()
        recorder.send_signal(signal.SIGTERM)  # a script that cleans up in its trap for the signal, and in the one for its end
        time.sleep(0.003)
        recorder.send_signal(signal.SIGTERM)
        took = time.monotonic() - begun
        heard, said = self.end(recorder)
        self.assertNotIn("runs on", said)
        if took < 0.03:  # the recorder waits for so long, and longer, whether the group gets it too
            self.assertEqual(heard, [signal.SIGTERM])
        self.assertEqual(recorder.returncode, 7, said)

    def test_what_comes_a_moment_later_reaches_the_command_and_does_not_insist(self):
        recorder = self.start(self.record(*self.hearer(1)))
        for _ in range(2):
            recorder.send_signal(signal.SIGTERM)
            time.sleep(0.15)
        heard, said = self.end(recorder)
        self.assertNotIn("runs on", said)
        self.assertEqual(heard, 2 * [signal.SIGTERM])
        self.assertEqual(recorder.returncode, 7, said)

    def test_different_signals_in_quick_succession_end_nothing(self):
        recorder = self.start(self.record(*self.hearer(1)))
        for number in (signal.SIGTERM, signal.SIGHUP):  # as systemd does with SendSIGHUP=
            recorder.send_signal(number)
            time.sleep(0.2)
        heard, said = self.end(recorder)
        self.assertNotIn("runs on", said)
        self.assertEqual(heard, [signal.SIGTERM, signal.SIGHUP])
        self.assertEqual(recorder.returncode, 7, said)

    def test_a_flight_recorder_answers_whatever_its_parent_ignores(self):
        command = self.record(*self.hearer(0.1))
        recorder = self.start([*command[:2], "--snapshot", *command[2:]],
                              preexec_fn=lambda: signal.signal(signal.SIGIO, signal.SIG_IGN))
        done = subprocess.run([PLUMB, "snapshot", str(recorder.pid)], capture_output=True, text=True, timeout=20, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        ignored = int(re.search("SigIgn:\\s*(\\w+)", self.status_of_command(recorder))[1], 16)
        self.assertTrue(ignored >> (signal.SIGIO - 1) & 1)
        recorder.send_signal(signal.SIGTERM)
        _, said = self.end(recorder)
        self.assertEqual(recorder.returncode, 7, said)

    def test_what_the_parent_ignores_the_command_ignores(self):
        but = (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD)  # a shell takes the last
        ignored = [number for number in signal.valid_signals() if number not in but]
        recorder = self.start(self.record("sh", "-c", "echo ready; exec sleep 0.5"), restore_signals=False,
                              preexec_fn=lambda: [signal.signal(number, signal.SIG_IGN) for number in ignored])
        mask = int(re.search("SigIgn:\\s*(\\w+)", self.status_of_command(recorder))[1], 16)
        self.assertEqual([number for number in ignored if not mask >> (number - 1) & 1], [])
        self.end(recorder)

    @staticmethod
    def status_of_command(recorder):
        command = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().strip()
        return Path(f"/proc/{command}/status").read_text()

    SHOW_KEPT = """
import ctypes, os
prctl, number = ctypes.CDLL(None).prctl, ctypes.c_int()
for which in (2, 37): prctl(which, ctypes.byref(number), 0, 0, 0); print(number.value)
print(os.sched_getscheduler(0), os.sched_getparam(0).sched_priority)"""

    def test_what_exec_keeps_the_command_has(self):
        script = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None)
for which, value in ((1, signal.SIGUSR2), (36, 1)): libc.prctl(which, value, 0, 0, 0)
try: os.sched_setscheduler(0, os.SCHED_BATCH | os.SCHED_RESET_ON_FORK, os.sched_param(0))
except PermissionError: pass
os.execv(sys.argv[1], sys.argv[1:])"""
        show = [sys.executable, "-c", self.SHOW_KEPT]
        found = [subprocess.run([sys.executable, "-c", script, *command], capture_output=True, text=True, timeout=30, check=False)
                 for command in (show, self.record(*show))]
        self.assertEqual(found[0].stdout, found[1].stdout, found[1].stderr)
        self.assertEqual(found[0].stdout.split()[:2], [str(int(signal.SIGUSR2)), "1"])

    def test_a_command_that_hears_its_parents_end_hears_that_of_the_recorders(self):
        script = """
import ctypes, os, signal, subprocess, sys
subprocess.Popen(sys.argv[1:], preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0))
sys.stdin.read()"""
        starter = self.start([sys.executable, "-c", script, *self.record("sh", "-c", "echo ready; exec sleep 30")],
                             stdin=subprocess.PIPE)
        recorder = Path(f"/proc/{starter.pid}/task/{starter.pid}/children").read_text().strip()
        killed = time.monotonic()
        starter.kill()
        self.assertEqual(starter.stdout.read(), "")  # closed by the command's end
        self.assertLess(time.monotonic() - killed, 20)
        self.end(starter)
        subprocess.run([PLUMB, "extract", "--remove", recorder], capture_output=True, timeout=30, check=False)

    def test_signals_that_are_ignored_do_not_pile_up(self):
        ignored = signal.SIGRTMIN + 6
        recorder = self.start(self.record("sh", "-c", "echo ready; sleep 1; :"), start_new_session=True,
                              preexec_fn=lambda: signal.signal(ignored, signal.SIG_IGN))
        os.killpg(recorder.pid, ignored)
        end = time.monotonic() + 0.7  # one that is just being started has it blocked for a moment
        for process in self.group(recorder.pid):
            while True:
                status = Path(f"/proc/{process}/status").read_text()
                pending = int(next(line for line in status.splitlines() if line.startswith("ShdPnd")).split()[1], 16)
                if not pending >> (ignored - 1) & 1:
                    break
                self.assertLess(time.monotonic(), end, status)
                time.sleep(0.02)
        self.end(recorder)
        self.assertEqual(recorder.returncode, 0)

    def test_a_command_that_does_not_end_in_time_is_named_and_has_no_status(self):
        command = [str(PLUMB), "record", "-o", str(self.trace), "--duration", "0.5", "--", "sh", "-c",
                   "trap '' TERM; echo ready; exec sleep 20 2>&- >&-"]
        recorder = self.start(command)
        _, said = self.end(recorder)
        self.assertEqual(recorder.returncode, 124, said)
        self.assertIn("runs on", said)
        summary = json.loads((self.trace / "summary.json").read_text())
        self.assertIsNone(summary["exit_status"])
        self.assertEqual([process["name"] for process in summary["left_running"]], ["sh"])
        os.kill(summary["left_running"][0]["pid"], signal.SIGKILL)

    def test_orphans_that_become_the_recorders_children_are_waited_for(self):
        become_subreaper = "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1); os.execv(sys.argv[1], sys.argv[1:])"
        script = "for i in 1 2 3 4 5 6 7 8; do sh -c 'sleep 0.1 >&- 2>&- & exit 0'; done; sleep 0.5; exec \"$@\""
        recorder = self.start([sys.executable, "-c", become_subreaper,
                               *self.record("sh", "-c", script, "sh", *self.hearer(0.1))])
        zombies = [p for p in Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()
                   if self.state(p) == "Z"]
        recorder.send_signal(signal.SIGTERM)
        _, said = self.end(recorder)
        self.assertEqual(zombies, [])
        self.assertEqual(recorder.returncode, 7, said)

    def test_a_stopped_command_goes_on_with_its_recorder_which_has_not_stopped(self):
        recorder = self.start(self.record(*self.hearer(0.1)))
        command = int(Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text())
        os.kill(command, signal.SIGSTOP)
        self.wait_for_state(command, "T")
        self.assertNotEqual(self.state(recorder.pid), "T")
        recorder.send_signal(signal.SIGCONT)
        self.wait_for_state(command, "SR")
        recorder.send_signal(signal.SIGTERM)
        _, said = self.end(recorder)
        self.assertEqual(recorder.returncode, 7, said)

    def test_the_witness_is_not_found_by_the_recorders_name_and_ends_with_it(self):
        recorder = self.start(self.record(*self.hearer(0.5)), start_new_session=True)
        def find_others():
            return [p for p in self.group(recorder.pid) if p != recorder.pid and "hearer" not in self.command_line(p)]
        end = time.time() + 10
        while not (others := find_others()) and time.time() < end: # it may have yet to begin
            time.sleep(0.01)
        self.assertEqual(len(others), 1)
        self.assertEqual(self.command_line(others[0]), "signal-witness")
        self.assertEqual(list(Path(f"/proc/{others[0]}/fd").iterdir()), [Path(f"/proc/{others[0]}/fd/0")])
        recorder.kill()
        recorder.wait()
        os.killpg(recorder.pid, signal.SIGTERM)
        for _ in range(100):
            if not self.group(recorder.pid):
                break
            time.sleep(0.1)
        self.assertEqual(self.group(recorder.pid), [])
        self.end(recorder)

    # Runs what follows with close_range() refused, as before Linux 5.9 or in some containers.
    WITHOUT_CLOSE_RANGE = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char** arguments) {
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {4, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return count < 2 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) || execvp(arguments[1], arguments + 1);
}
"""

    def test_helpers_end_where_close_range_is_refused(self):
        launcher = self.folder / "launcher"
        subprocess.run(["cc", "-x", "c", "-", "-o", launcher], input=self.WITHOUT_CLOSE_RANGE, text=True, check=True)
        for _ in range(2):  # the second one takes the directory, which nobody holds any more
            recorder = subprocess.run([launcher, *self.record("timeout", "9", "true")], capture_output=True, text=True, timeout=30, check=False)
            self.assertEqual(recorder.returncode, 0, recorder.stderr)


if __name__ == "__main__":
    unittest.main()
