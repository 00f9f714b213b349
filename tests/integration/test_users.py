#!/usr/bin/env python3
# cmake-once
# cmake-lock: everybody
"""Root records programs of several users in one trace: launched, attached, changing their user before or after exec. Who may
not is told whose they are. Another user's directory can not lead root astray."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PROBE = BUILD / "probes/pthread/libplumb-pthread.so"
PLUMB = BUILD / "cli/plumb"
USER = 65534
AS_USER = ["setpriv", f"--reuid={USER}", "--clear-groups"]

# Locks as often as each line of its input says, and says when that is done; "drop" makes it another user.
SOURCE = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    char line[64];
    while (fgets(line, sizeof(line), stdin)) {
        if (!strcmp(line, "drop\n") && setuid(65534) != 0) return 1;
        for (long i = 0; i < atol(line); i++) { pthread_mutex_lock(&mutex); pthread_mutex_unlock(&mutex); }
        puts("done");
        fflush(stdout);
    }
    return 0;
}
"""

# All places for processes taken, anew all the time: by itself, whose environment is long, and by whoever else has a number.
LIAR = r"""
import mmap, os, struct, time
with open(f"/dev/shm/plumb-{os.getuid()}/state", "r+b") as file:
    state = mmap.mmap(file.fileno(), 0)
space = os.stat("/proc/self/ns/pid").st_ino
others = [int(name) for name in os.listdir("/proc") if name.isdigit()]
print("ready", flush=True)
count = 0
while True:
    count = (count + 1) % 1024
    for index in range(4096):
        at = 274432 + 64 * index
        number = others[index // 8 % len(others)] if index % 8 == 0 else os.getpid()
        claim = space << 32 | number << 10 | count
        struct.pack_into("<QQQI", state, at, claim, time.clock_gettime_ns(time.CLOCK_BOOTTIME), 0, count << 16 | 4)
    time.sleep(0.01)
"""


REFUSED = r"""
import mmap, os, struct
with open(f"/dev/shm/plumb-{os.getuid()}/state", "r+b") as file:
    state = mmap.mmap(file.fileno(), 0)
struct.pack_into("<I", state, 80, struct.unpack_from("<I", state, 80)[0] + 3)
"""


def setUpModule():
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        sys.exit(77)
    global folder, PROGRAM, ENVIRONMENT
    folder = pathlib.Path(tempfile.mkdtemp(prefix="plumb-users-"))
    folder.chmod(0o755)
    (folder / "program.c").write_text(SOURCE)
    PROGRAM = str(folder / "program")
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-pthread", "-o", PROGRAM, folder / "program.c"], check=True)
    # Where everybody may enter: the build folder may be root's alone.
    shutil.copy(PROBE, folder)
    shutil.copy(PLUMB, folder)
    ENVIRONMENT = dict(os.environ, PLUMB_PROBE_DIR=str(folder))


def tearDownModule():
    shutil.rmtree(folder, ignore_errors=True)


def say(process, line):
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


class Users(unittest.TestCase):
    def setUp(self):
        self.trace = folder / self.id().split(".")[-1]

    def start(self, command, **more):
        process = subprocess.Popen([str(word) for word in command], text=True, stdin=subprocess.PIPE, env=ENVIRONMENT,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_program(self, *prefix):
        process = self.start(["env", f"LD_PRELOAD={PROBE if not prefix else folder / PROBE.name}", *prefix, PROGRAM])
        say(process, 1)
        return process

    def record_attached(self, process, count, *prefix):
        recorder = self.start([*prefix, folder / "plumb", "record", "-o", self.trace, "-p", process.pid])
        for _ in range(600):
            if (self.trace / "ust").exists() and recorder.poll() is None:
                break
            time.sleep(0.05)
        time.sleep(0.7)
        if recorder.poll() is None:
            say(process, count)
            process.stdin.close()
        self.errors = recorder.communicate(timeout=30)[1]
        return recorder.returncode

    def acquired(self, *path):
        done = subprocess.run(["babeltrace2", self.trace.joinpath(*path)], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return len(re.findall(r" pthread:mutex_acquired: ", done.stdout))

    def assert_exact(self, count, *path):
        self.assertEqual(self.acquired(*path), count, getattr(self, "errors", ""))
        summary = json.loads((self.trace / "summary.json").read_text())
        self.assertEqual(summary["events_by_name"]["pthread:mutex_acquired"], self.acquired())
        shown = subprocess.run([PLUMB, "view", "--summary", "--json", self.trace], capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(shown.stdout)["by_event"]["pthread:mutex_acquired"], self.acquired())
        self.assertEqual([path.name for path in pathlib.Path("/dev/shm").glob("plumb-*/channel-*")], [])

    def test_a_named_user_is_recorded_from_the_first_event(self):
        recorder = self.start([PLUMB, "record", "-o", self.trace, "--preload", "pthread", "--user", USER, "--", *AS_USER,
                               PROGRAM])
        for _ in range(10):
            say(recorder, 100)
        self.errors = recorder.communicate(timeout=30)[1]
        self.assertEqual(recorder.returncode, 0, self.errors)
        self.assert_exact(1000, f"ust-{USER}")

    def test_who_changes_the_user_before_exec_is_found(self):
        recorder = self.start([PLUMB, "record", "-o", self.trace, "--preload", "pthread", "--", *AS_USER, PROGRAM])
        say(recorder, 0)
        for _ in range(200):
            if (self.trace / f"ust-{USER}").exists():
                break
            time.sleep(0.05)
        time.sleep(1)
        say(recorder, 1000)
        self.errors = recorder.communicate(timeout=30)[1]
        self.assertEqual(recorder.returncode, 0, self.errors)
        self.assert_exact(1000, f"ust-{USER}")

    def test_who_changed_the_user_and_ended_before_it_was_found_is_told(self):
        for _ in range(10):  # it may be found in time
            shutil.rmtree(self.trace, ignore_errors=True)
            recorder = self.start([PLUMB, "record", "-o", self.trace, "--preload", "pthread", "--", *AS_USER, "true"])
            self.errors = recorder.communicate(timeout=30)[1]
            self.assertEqual(recorder.returncode, 0, self.errors)
            if (self.trace / f"ust-{USER}").exists():
                continue
            self.assertIn(f"it ended as user {USER} before it was found", self.errors)
            self.assertIn("Of what was recorded, nothing was lost.", self.errors)
            self.assertNotIn("No thread came by", self.errors)
            return
        self.fail("it was found each time")

    def told_of_unseen(self, *command):
        shutil.rmtree(self.trace, ignore_errors=True)
        done = subprocess.run([PLUMB, "record", "-o", self.trace, "--preload", "pthread", "--", *command], env=ENVIRONMENT,
                              input="", stderr=subprocess.PIPE, text=True, timeout=60, check=True)
        return json.loads((self.trace / "summary.json").read_text()), done.stderr

    def test_children_of_other_users_that_end_before_they_are_found_are_told(self):
        """Once the command is another process than they, and once they are its own children who end before it does."""
        locks = ["sh", "-c", f"echo 100 | {PROGRAM}"]
        for command in (["sh", "-c", 'for i in 1 2 3; do "$@"; done; exit 0', "sh", *AS_USER, *locks],
                        [*AS_USER, "sh", "-c", f"echo 100 | {PROGRAM}; sleep 0.3"]):
            summary, said = self.told_of_unseen(*command)
            self.assertEqual(summary["unseen_users"], [USER], said)
            self.assertIn(f"Programs of user {USER} with tracepoints began and ended before that user was recorded", said)
            self.assertIn("Of what was recorded, nothing was lost.", said)
        summary, said = self.told_of_unseen("true")
        self.assertEqual(summary["unseen_users"], [], said)

    def test_who_comes_and_goes_beside_everybody_is_recorded_or_told(self):
        recorder = self.start([PLUMB, "record", "-o", self.trace, "--all-users", "-e", "pthread:mutex_lock"])
        until = time.monotonic() + 30
        while not (self.trace / "ust").exists() and time.monotonic() < until:
            time.sleep(0.01)
        subprocess.run([*AS_USER, "env", f"LD_PRELOAD={folder / PROBE.name}", "sh", "-c", f"for i in $(seq 40); do echo 100 | {PROGRAM} > {os.devnull}; done"],
                       timeout=60, check=True)
        time.sleep(2)
        recorder.send_signal(signal.SIGINT)
        self.errors = recorder.communicate(timeout=30)[1]
        self.assertEqual(recorder.returncode, 0, self.errors)
        summary = json.loads((self.trace / "summary.json").read_text())
        if (self.trace / f"ust-{USER}").exists() and summary["unseen_users"] == []:
            self.assertGreaterEqual(summary["events"], 4000, self.errors)
        else:
            self.assertEqual(summary["unseen_users"], [USER], self.errors)

    def test_everybody_is_found_at_once_without_a_command_too(self):
        shutil.rmtree(f"/dev/shm/plumb-{USER}", ignore_errors=True)
        recorder = self.start([PLUMB, "record", "-o", self.trace, "--all-users"])
        for _ in range(200):
            if (self.trace / "ust").exists():
                break
            time.sleep(0.05)
        time.sleep(0.7)
        other = self.start_program(*AS_USER)
        time.sleep(0.5)  # without a command, and without a terminal
        say(other, 100)
        other.kill()
        other.wait()
        recorder.send_signal(signal.SIGINT)
        _, errors = recorder.communicate(timeout=30)
        self.assertIn("another user's than the recorder", errors)
        self.assertIn(self.acquired(f"ust-{USER}"), (100, 101), errors)

    def test_who_changed_the_user_and_ended_when_it_was_found_is_told(self):
        for turn in range(10):
            shutil.rmtree(self.trace, ignore_errors=True)
            recorder = self.start([PLUMB, "record", "-o", self.trace, "--preload", "pthread", "--", *AS_USER, PROGRAM])
            say(recorder, 0)
            time.sleep(0.005 * turn)
            say(recorder, 1000)
            self.errors = recorder.communicate(timeout=30)[1]
            self.assertEqual(recorder.returncode, 0, self.errors)
            self.assertRegex(self.errors, r"before it was found|had just been found|was reached late")
            self.assertNotIn("No thread came by", self.errors)

    def test_who_changes_the_user_while_it_is_recorded_by_number_is_told(self):
        """It becomes another program, which ends at once, or when its user's programs are just looked for."""
        for turn in range(8):
            shutil.rmtree(self.trace, ignore_errors=True)
            process = self.start(["env", f"LD_PRELOAD={folder / PROBE.name}", "sh", "-c", 'read go; exec "$@"', "sh", *AS_USER, PROGRAM])
            recorder = self.start([folder / "plumb", "record", "-o", self.trace, "-p", process.pid])
            for _ in range(600):
                if (self.trace / "ust").exists():
                    break
                time.sleep(0.05)
            time.sleep(0.3)
            process.stdin.write("go\n")
            process.stdin.flush()
            time.sleep(0.02 * turn)
            say(process, 1000)
            process.stdin.close()
            self.errors = recorder.communicate(timeout=30)[1]
            self.assertRegex(self.errors, rf"{process.pid}.*(before it was found|had just been found|was reached late)", f"turn {turn}")

    def test_who_changes_the_user_afterwards_goes_on(self):
        recorder = self.start([PLUMB, "record", "-o", self.trace, "--preload", "pthread", "--", PROGRAM])
        say(recorder, 500)
        say(recorder, "drop")
        say(recorder, 500)
        self.errors = recorder.communicate(timeout=30)[1]
        self.assert_exact(1000, "ust")

    def test_root_attaches_to_a_process_of_another_user(self):
        self.assertEqual(self.record_attached(self.start_program(*AS_USER), 1000), 0, self.errors)
        self.assert_exact(1000, f"ust-{USER}")

    def test_what_a_killed_recorder_left_with_several_users_is_one_trace(self):
        self.trace.mkdir()
        recorder = self.start([PLUMB, "record", "-o", self.trace / "read", "--preload", "pthread", "--user", USER, "--",
                               *AS_USER, PROGRAM])
        say(recorder, 1)
        recorder.send_signal(signal.SIGSTOP)
        say(recorder, 300)
        recorder.kill()
        recorder.wait()
        done = subprocess.run([PLUMB, "extract", "-o", self.trace / "rest"], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"of process {recorder.pid} ", done.stderr)
        self.assertGreater(self.acquired("rest", f"ust-{USER}"), 0)
        self.assertEqual(self.acquired(), 301)
        self.assertEqual(list(pathlib.Path("/dev/shm").glob("plumb-*/left-*")), [])

    def test_what_a_user_has_damaged_keeps_nobody_elses_events_back(self):
        self.trace.mkdir()
        recorder = self.start([PLUMB, "record", "-q", "-o", self.trace / "read", "--user", USER])
        for _ in range(200):
            if (self.trace / "read" / f"ust-{USER}" / "metadata").exists():
                break
            time.sleep(0.05)
        time.sleep(0.3)
        programs = [self.start_program(), self.start_program(*AS_USER)]
        recorder.send_signal(signal.SIGSTOP)
        for program in programs:
            say(program, 300)
        recorder.kill()
        recorder.wait()
        damage = (f"for file in /dev/shm/plumb-{USER}/channel-*; do "
                  "printf '\\003' | dd of=$file bs=1 seek=104 conv=notrunc 2>/dev/null; done")  # event_slots
        subprocess.run([*AS_USER, "sh", "-c", damage], check=True)
        self.addCleanup(subprocess.run, [PLUMB, "extract", "--remove"], capture_output=True, check=False)
        done = subprocess.run([PLUMB, "extract", "-o", self.trace / "rest"], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(self.acquired("rest", "ust"), (300, 301))  # the first one may have been read before
        problems = json.loads((self.trace / "rest/summary.json").read_text())["problems"]
        self.assertRegex(problems[0], f"^/dev/shm/plumb-{USER}/left-.* can not be extracted: The channel is damaged")
        left = [path.parent.name for path in pathlib.Path("/dev/shm").glob("plumb-*/left-*")]
        self.assertEqual(left, [f"plumb-{USER}"], "what is in the trace was not removed, or something else was")

    def test_root_attaches_to_a_service_that_has_changed_its_user(self):
        service = self.start_program()
        say(service, "drop")
        self.assertEqual(self.record_attached(service, 1000), 0, self.errors)
        self.assert_exact(1000, f"ust-{USER}")

    def test_who_may_not_is_told_whose_it_is(self):
        folder.chmod(0o777)
        self.addCleanup(folder.chmod, 0o755)
        self.assertEqual(self.record_attached(self.start_program(), 1, *AS_USER), 1)
        self.assertIn("it belongs to user 0: only that user, or root, can record it", self.errors)
        self.assertNotIn("has no tracepoints", self.errors)

    def record_two(self):
        """Root records everybody of its own and a user; one program of each, after 100 rounds."""
        recorder = self.start([PLUMB, "record", "--json", "-o", self.trace, "--user", USER])
        for _ in range(200):
            if (self.trace / f"ust-{USER}" / "metadata").exists():
                break
            time.sleep(0.05)
        time.sleep(0.3)
        programs = [self.start_program(), self.start_program(*AS_USER)]
        for program in programs:
            say(program, 99)
        return recorder, *programs

    def end(self, recorder):
        recorder.send_signal(signal.SIGINT)
        said, self.errors = recorder.communicate(timeout=30)
        return json.loads(said)

    def test_who_shortens_a_channel_ends_the_recording_of_that_user_alone(self):
        recorder, own, other = self.record_two()
        shorten = f"for file in /dev/shm/plumb-{USER}/channel-*; do truncate -s 4096 $file; done"
        subprocess.run([*AS_USER, "sh", "-c", shorten], check=True)
        time.sleep(2.5)  # the recorder looks every two seconds
        self.assertIsNone(recorder.poll())
        say(own, 400)
        summary = self.end(recorder)
        self.assertEqual(self.acquired("ust"), 500)
        self.assertFalse(summary["complete"])
        self.assertIn(f"A program of user {USER} has shortened a channel", "\n".join(summary["problems"]))
        self.assertNotIn("Nothing was lost", self.errors)
        self.assertEqual(recorder.returncode, 1)
        other.kill()

    def test_a_channel_that_a_user_removes_is_told(self):
        recorder, _own, _other = self.record_two()
        subprocess.run([*AS_USER, "sh", "-c", f"rm /dev/shm/plumb-{USER}/channel-*"], check=True)
        time.sleep(1)
        summary = self.end(recorder)
        self.assertFalse(summary["complete"])
        text = "\n".join(summary["problems"])
        self.assertIn(f"Programs that started since were not recorded: Programs of user {USER}: ", text)
        self.assertIn("removed or replaced", text)
        self.assertNotIn("Nothing was lost", self.errors)

    def record_launched(self, *command, options=(), rounds=100):
        """What the summary says of a command that works a second after its start, as another user."""
        recorder = self.start([*command, PLUMB, "record", "--json", "-o", self.trace, "--preload", "pthread", *options])
        say(recorder, 0)
        time.sleep(1)
        say(recorder, rounds)
        said, self.errors = recorder.communicate(timeout=30)
        self.assertEqual(recorder.returncode, 1, self.errors)
        self.assertNotIn("Nothing was lost", self.errors)
        summary = json.loads(said)
        self.assertFalse(summary["complete"])
        return "\n".join(summary["problems"])

    def test_a_directory_of_the_users_that_is_open_to_others_is_told(self):
        directory = pathlib.Path(f"/dev/shm/plumb-{USER}")
        directory.mkdir(exist_ok=True)
        os.chown(directory, USER, USER)
        directory.chmod(0o755)
        self.addCleanup(directory.chmod, 0o700)
        problems = self.record_launched(options=["--", *AS_USER, PROGRAM])
        self.assertIn(f"Programs of user {USER} can not be recorded", problems)
        self.assertIn("may be entered by others", problems)

    def test_who_locked_himself_out_is_told_how_to_come_back(self):
        """As by a program that made the directory under a umask that takes its owner's permissions."""
        directory = pathlib.Path(f"/dev/shm/plumb-{USER}")
        directory.mkdir(exist_ok=True)
        os.chown(directory, USER, USER)
        self.addCleanup(directory.chmod, 0o700)
        for mode in (0o000, 0o300, 0o500):
            for left in directory.iterdir():
                left.unlink()
            directory.chmod(mode)
            done = subprocess.run([*AS_USER, folder / "plumb", "record", "-o", "/tmp/none", "--", "true"], env=ENVIRONMENT,
                                  capture_output=True, text=True, timeout=30, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"chmod 700 {directory}", done.stderr)
            self.assertNotIn("another user", done.stderr)

    def test_too_little_memory_for_a_users_rings_is_told(self):
        inside = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=256m,mode=1777 tmpfs /dev/shm; exec "$@"', "sh"]
        fill = "fallocate -l $(($(df --output=avail -B1 /dev/shm | tail -1) - 3000000)) /dev/shm/fill"
        small = ["--subbuf-size", "1M", "--subbuf-count", "4"]
        problems = self.record_launched(*inside, options=[*small, "--", "sh", "-c", f'{fill}; exec "$@"', "sh", *AS_USER,
                                                          PROGRAM])
        self.assertIn(f"Programs of user {USER} can not be recorded", problems)
        self.assertIn("Too little shared memory", problems)

    def test_processes_that_a_user_makes_up_take_little_of_the_recorders_time(self):
        self.start_program(*AS_USER)  # makes the state
        long = [f"LONG_{i}={'x' * 100_000}" for i in range(10)]
        liar = self.start([*AS_USER, "env", *long, "/usr/bin/python3", "-c", LIAR])
        self.assertEqual(liar.stdout.readline(), "ready\n")
        recorder = self.start([PLUMB, "record", "-q", "-o", self.trace, "--", "sleep", "60"])

        def used_s():
            """Of processor time, by the thread that looks after processes and signals."""
            fields = pathlib.Path(f"/proc/{recorder.pid}/task/{recorder.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        time.sleep(2)
        before_s, began_s = used_s(), time.monotonic()
        time.sleep(4)
        self.assertLess(used_s() - before_s, 0.25 * (time.monotonic() - began_s))
        recorder.send_signal(signal.SIGTERM)
        recorder.wait(60)

    def test_programs_of_a_named_user_that_found_no_place_are_told(self):
        self.start_program(*AS_USER)
        recorder = self.start([PLUMB, "record", "-o", self.trace, "--user", USER, "--duration", "2s"])
        while not (self.trace / f"ust-{USER}").exists():
            time.sleep(0.05)
        time.sleep(0.3)
        subprocess.run([*AS_USER, "/usr/bin/python3", "-c", REFUSED], check=True)
        self.errors = recorder.communicate(timeout=30)[1]
        self.assertIn("3 processes that started since went by the rules of their start alone", self.errors)

    def test_a_flight_recorder_says_whom_it_does_not_record(self):
        small = ["--subbuf-size", "64K", "--subbuf-count", "4"]
        problems = self.record_launched(options=["--snapshot", *small, "--", *AS_USER, PROGRAM])
        self.assertIn(f"Programs of user {USER} can not be recorded: A flight recorder keeps events of one user", problems)
        program = self.start_program(*AS_USER)
        done = subprocess.run([PLUMB, "record", "--snapshot", *small, "--force", "-o", self.trace, "-p", str(program.pid)],
                              capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"it belongs to user {USER}: A flight recorder keeps events of one user", done.stderr)
        self.assertNotIn("no tracepoints", done.stderr)

    def test_a_link_in_place_of_a_users_directory_is_not_followed(self):
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        os.chown(elsewhere, 65533, 65533)
        elsewhere.chmod(0o700)
        link = pathlib.Path("/dev/shm/plumb-65533")
        link.symlink_to(elsewhere)
        self.addCleanup(link.unlink)
        done = subprocess.run([PLUMB, "record", "-o", self.trace, "--user", "65533", "--", "true"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Programs of user 65533 can not be recorded", done.stderr)
        self.assertEqual(list(elsewhere.iterdir()), [])

    def test_a_program_goes_by_its_number_outside_of_its_user_namespace(self):
        """In a memory that is from outside: it is its user's, and is in nobody's way."""
        become_root = [*AS_USER, "unshare", "--user", "--map-root-user"]
        if subprocess.run([*become_root, "true"], capture_output=True, check=False).returncode:
            self.skipTest("users may not make user namespaces here")
        script = 'mount -t tmpfs -o mode=1777 tmpfs /dev/shm && echo 1 | "$@" && ls /dev/shm'
        for become, directory in ((become_root, [f"plumb-{USER}"]), (["unshare", "--map-user=1000"], ["plumb-0"]),
                                  ([*AS_USER, "unshare", "--user"], []), ([*become_root, "unshare", "--user", "--map-root-user"], []),
                                  ([*become_root, "unshare", "--user", "--map-user=1000"], [])):
            done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *become, "env", f"LD_PRELOAD={folder / PROBE.name}", PROGRAM],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stderr, done.stdout.split()), (0, "", ["done", *directory]), become)
        anybodys = folder / "anybodys"
        anybodys.mkdir()
        anybodys.chmod(0o777)
        script = 'mount -t tmpfs -o mode=1777 tmpfs /dev/shm && "$@"; ls /dev/shm'
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *become_root, folder / PLUMB.name, "record", "-o",
                               anybodys / "trace", "true"], capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("/dev/shm is not of this user namespace", done.stderr)
        self.assertNotIn("plumb-0", done.stdout)

    def test_programs_in_user_namespaces_are_recorded(self):
        if subprocess.run([*AS_USER, "unshare", "--map-root-user", "true"], capture_output=True, check=False).returncode:
            self.skipTest("users may not make user namespaces here")
        for become, options in ((["unshare", "--map-user=1000"], []), (["unshare", "--map-root-user"], []),
                                ([*AS_USER, "unshare", "--map-root-user"], ["--user", USER]),
                                ([*AS_USER, *["unshare", "--map-root-user"] * 3], ["--user", USER]),
                                ([*AS_USER, "unshare", "--map-root-user", "unshare", "--map-user=60003"], ["--user", USER])):
            shutil.rmtree(self.trace, ignore_errors=True)
            recorder = self.start([PLUMB, "record", "-o", self.trace, "--preload", "pthread", *options, "--", "sh", "-c", '"$@"; exit $?', "sh",
                                   *become, PROGRAM])
            say(recorder, 100)
            self.errors = recorder.communicate(timeout=30)[1]
            self.assertEqual(recorder.returncode, 0, self.errors)
            self.assertEqual(self.acquired(), 100, (become, self.errors))


if __name__ == "__main__":
    unittest.main()
