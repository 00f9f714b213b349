#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""Sessions of plumb-consumerd: made, changed, stopped and ended while programs run; several over one program at once; each holds
exactly what its rules say, whatever is killed meanwhile; what is asked wrongly, or by others, is refused."""
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import unittest
from collections import Counter
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
sys.path.insert(0, str(SOURCE / "tests/support"))
from control_socket import FOLDER, ask, connect, framed, receive  # noqa: E402
from sessions import SessionTest, plumb, supervisor  # noqa: E402

THREADS = 4
SESSION_NAME = 176  # in a channel's header

# `program BURST PAUSE_US`: until SIGTERM each thread numbers its events, and SIGUSR1 stops and goes on with them. Says at the end
# how many there were.
PROGRAM = r"""
#include <plumb/tracepoint.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
PLUMB_EVENT(shop, order, (u32, writer), (u64, number))
PLUMB_EVENT(shop, noise, (u64, number))
static volatile sig_atomic_t over, paused;
static unsigned long numbers[4], burst, pause_us;
static void end(int number) { (void)number; over = 1; }
static void pause_or_go_on(int number) { (void)number; paused = !paused; }
static void* work(void* argument) {
    const unsigned writer = (unsigned)(unsigned long)argument;
    unsigned long number = 0;
    while (!over) {
        for (unsigned long i = 0; i < burst && !paused; i++) {
            plumb_trace(shop, order, writer, number);
            plumb_trace(shop, noise, number);
            number++;
        }
        usleep((unsigned)pause_us);
    }
    numbers[writer] = number;
    return NULL;
}
int main(int count, char** words) {
    (void)count;
    pthread_t threads[4];
    burst = strtoul(words[1], NULL, 10);
    pause_us = strtoul(words[2], NULL, 10);
    paused = words[3] != NULL;
    signal(SIGTERM, end);
    signal(SIGUSR1, pause_or_go_on);
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void*)i);
    puts("begun");
    fflush(stdout);
    for (long i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (long i = 0; i < 4; i++) printf("%lu\n", numbers[i]);
    return 0;
}
"""
ORDER = re.compile(r"shop:order: .*writer = (\d+), number = (\d+) \}")
NOISE = re.compile(r"shop:noise: ")


def channels_of(*sessions):
    """Also those that were left. Recorders of everybody, in other tests, have theirs here, too."""
    found = []
    for path in FOLDER.parent.glob("*-*"):
        try:
            with path.open("rb") as file:
                name = file.read(4096)[SESSION_NAME:][:64].split(b"\0")[0].decode()
        except (FileNotFoundError, IsADirectoryError):
            continue
        if name in sessions:
            found.append(path.name)
    return found


class Sessions(SessionTest):
    PROGRAM = PROGRAM

    def read(self, trace, has_losses=False):
        """Orders by writer, and how many noises."""
        done = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, "" if has_losses else done.stderr), (0, ""), trace)
        orders = {writer: [] for writer in range(THREADS)}
        for writer, number in ORDER.findall(done.stdout):
            orders[int(writer)].append(int(number))
        return orders, len(NOISE.findall(done.stdout))

    def check_all(self, trace, written, wanted=lambda number: True):
        orders, noises = self.read(trace)
        for writer, count in enumerate(written):
            self.assertEqual(sorted(orders[writer]), [number for number in range(count) if wanted(number)], writer)
        return noises

    def test_three_at_once_each_as_if_alone(self):
        every = self.create("every")
        third = self.create("third", "--mode", "block")
        recorder = self.create("recorder", "--snapshot", "--subbuf-size", "64K", "--subbuf-count", "4")
        plumb("enable", "every", "shop:order")
        plumb("enable", "third", "shop:* if number % 3 == 1", "!shop:noise")
        plumb("enable", "recorder", "shop:noise")
        for name in ("every", "third", "recorder"):
            plumb("start", name)
        written = self.end_program_after(self.start_program(), 1.5)
        plumb("stop", "third")
        self.assertEqual(self.check_all(third, written, lambda number: number % 3 == 1), 0)
        snapshot = plumb("snapshot", "recorder").stdout.strip()
        _, noises = self.read(snapshot, has_losses=True)
        self.assertGreater(noises, 1000)
        self.assertLessEqual(noises, sum(written))
        self.assertEqual(plumb("destroy", "every").stdout, f"{every}\n")
        self.assertEqual(self.check_all(every, written), 0)
        for name in ("third", "recorder"):
            plumb("destroy", name)
        self.assertEqual(self.check_all(third, written, lambda number: number % 3 == 1), 0)
        self.assertEqual([path.name for path in sorted(recorder.iterdir())], ["snapshot-1", "snapshot-2"])
        self.assertFalse(channels_of("every", "third", "recorder"))
        self.assertFalse(list((FOLDER / "sessions").iterdir()))

    def end_program_after(self, program, seconds):
        time.sleep(seconds)
        return self.end_program(program)

    def test_rules_change_while_it_records(self):
        trace = self.create("web")
        program = self.start_program(20, 1000, "paused")
        self.assertEqual(plumb("enable", "web", "shop:noise", "-p", program.pid).stderr, "")
        self.assertEqual(plumb("enable", "web", "shop:order if writer == 1").stderr, "")
        self.assertIn("No event of a program that runs now matches 'shop:oder'; what begins, or is loaded, later is asked.",
                      plumb("enable", "web", "shop:oder").stderr)
        self.assertIn(f"No event of process {program.pid} matches 'sched:*'; what it loads later is asked.",
                      plumb("enable", "web", "sched:*", "-p", program.pid).stderr)
        plumb("start", "web")
        self.assertEqual([(each["pid"], each["events"]) for each in self.status("web")["processes"]], [(program.pid, 2)])
        program.send_signal(signal.SIGUSR1)
        time.sleep(0.4)
        plumb("disable", "web", "shop:noise")  # from here on there is none any more
        noises = self.count_after_rotation("web", trace)
        time.sleep(0.3)
        plumb("enable", "web", "shop:order", "--filter", "writer != 1")
        time.sleep(0.3)
        plumb("disable", "web", "shop:order", "--filter", "writer == 1")
        time.sleep(0.3)
        done = plumb("disable", "web", "shop:nosuch", status=1)
        self.assertIn("has no rule shop:nosuch. It has: shop:oder; ", done.stderr)
        written = self.end_program(program)
        plumb("destroy", "web")
        orders, all_noises = self.read(trace)
        self.assertEqual(all_noises, noises)
        self.assertGreater(noises, 0)
        for writer in (0, 2, 3):  # on late, and to the end
            self.assertEqual(orders[writer], list(range(orders[writer][0], written[writer])))
            self.assertGreater(orders[writer][0], 0)
        self.assertEqual(orders[1], list(range(orders[1][-1] + 1)))  # on from the beginning, and off early
        self.assertLess(orders[1][-1] + 1, written[1])

    def count_after_rotation(self, name, trace):
        chunk = Path(plumb("rotate", name).stdout.strip())
        self.assertEqual(chunk.parent, trace)
        self.assertTrue((chunk / "summary.json").is_file())
        return self.read(chunk)[1]

    def test_stop_start_clear(self):
        trace = self.create("web")
        plumb("enable", "web", "shop:order")
        program = self.start_program(20, 1000, "paused")
        self.assertIn("is stopped already", plumb("stop", "web", status=1).stderr)
        plumb("start", "web")
        self.assertIn("is started already", plumb("start", "web", status=1).stderr)
        program.send_signal(signal.SIGUSR1)
        time.sleep(0.3)
        plumb("stop", "web")
        stopped = self.read(trace)  # it is whole
        self.assertGreater(len(stopped[0][0]), 0)
        time.sleep(0.2)
        self.assertEqual(self.read(trace), stopped)
        plumb("start", "web")
        time.sleep(0.3)
        plumb("clear", "web")
        self.assertEqual([path.name for path in trace.iterdir() if not path.name.endswith(".part")], [".plumb-journal"])
        time.sleep(0.3)
        written = self.end_program(program)
        plumb("destroy", "web")
        orders, _ = self.read(trace)
        for writer in range(THREADS):
            self.assertGreater(orders[writer][0], stopped[0][writer][-1])
            self.assertEqual(orders[writer], list(range(orders[writer][0], written[writer])))

    def test_killed_again_and_again(self):
        """Workers and supervisor, while programs trace with room to spare: nothing is missing, nothing is there twice."""
        trace = self.create("web", "--mode", "block", "--rotate-period", "300ms")
        plumb("enable", "web", "shop:order")
        plumb("start", "web")
        programs = [self.start_program(burst=10), self.start_program(burst=10)]
        for turn in range(12):
            time.sleep(0.25)
            os.kill(self.status("web")["worker_pid"], signal.SIGKILL)
            if turn % 3 == 1:
                os.kill(supervisor(), signal.SIGKILL)
            if turn % 4 == 2:
                written = self.end_program(programs[1])
                self.ended = getattr(self, "ended", [])
                self.ended.append(written)
                programs[1] = self.start_program(burst=10)
        self.assertGreater(self.status("web")["worker_restarts"], 0)
        self.ended += [self.end_program(program) for program in programs]
        plumb("destroy", "web")
        orders, _ = self.read(trace)
        for writer in range(THREADS):
            wanted = sorted(number for written in self.ended for number in range(written[writer]))
            self.assertEqual(sorted(orders[writer]), wanted, writer)
        self.assertFalse([path.name for path in trace.iterdir() if not re.fullmatch(r"chunk-\d{8}-\w+[+-]\d+", path.name)])

    def test_context_stays_over_a_kill(self):
        trace = self.create("deep", "--mode", "block", "--context", "procname,vpid", "--context", "callstack:3")
        self.assertEqual(json.loads(plumb("save", "deep").stdout)["context"], "procname,vpid,callstack:3")
        plumb("create", "odd", "-o", self.trace, "--context", "vpid,nonsense", status=2)
        answer = ask(json.dumps({"command": "create", "description": {"format": 1, "name": "odd", "output": "/tmp/odd",
                                                                      "context": "nonsense"}}).encode())
        self.assertIn("There is no context", answer["error"])
        plumb("enable", "deep", "shop:order")
        plumb("start", "deep")
        program = self.start_program()
        for _ in range(3):
            time.sleep(0.4)
            os.kill(self.status("deep")["worker_pid"], signal.SIGKILL)
            os.kill(supervisor(), signal.SIGKILL)
        written = self.end_program_after(program, 0.5)
        plumb("destroy", "deep")
        self.check_all(trace, written)
        lines = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, check=True).stdout.splitlines()
        lines = [line for line in lines if "shop:order" in line]
        for here in (f"vpid = {program.pid},", 'procname = "program"'):
            self.assertEqual([line for line in lines if here not in line][:2], [])
        stacks = Counter(len(re.findall("0x", line[line.index("callstack"):])) for line in lines)
        self.assertEqual(set(stacks), {3}, "from work() through the C library")

    @staticmethod
    def snapshot_by_the_next_worker(session):
        """Who asks just then may ask the dead one, which is said."""
        for _ in range(20):
            done = plumb("snapshot", session, status=None)
            if "ended before it answered" not in done.stderr:
                break
            time.sleep(0.2)
        return done.stdout.strip()

    def test_a_flight_recorder_keeps_what_it_has_over_a_kill(self):
        self.create("recorder", "--snapshot")
        plumb("enable", "recorder", "shop:order")
        plumb("start", "recorder")
        written = self.end_program_after(self.start_program(), 0.5)
        os.kill(self.status("recorder")["worker_pid"], signal.SIGKILL)
        self.check_all(self.snapshot_by_the_next_worker("recorder"), written)
        os.kill(self.status("recorder")["worker_pid"], signal.SIGKILL)
        self.assertEqual(self.read(self.snapshot_by_the_next_worker("recorder"))[0][0], [])
        self.assertIn("is a flight recorder", plumb("rotate", "recorder", status=1).stderr)

    def test_a_worker_that_can_not_begin_is_told_and_its_session_can_be_destroyed(self):
        trace = self.create("web")
        worker = self.status("web")["worker_pid"]
        shutil.rmtree(trace)
        os.kill(worker, signal.SIGKILL)
        until = time.monotonic() + 30
        while "No such file" not in plumb("status").stdout:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.1)
        until = time.monotonic() + 30
        while subprocess.run([PLUMB, "destroy", "web"], capture_output=True, timeout=60, check=False).returncode != 0:
            self.assertLess(time.monotonic(), until)  # it was just beginning once more
        self.assertEqual(plumb("status").stdout, "There is no session: `plumb create` makes one.\n")
        self.assertFalse(list(FOLDER.parent.glob("channel-*")))

    def test_only_so_many(self):
        until = time.monotonic() + 60
        for number in range(16):
            words = ("create", f"s{number}", "-o", self.folder / f"s{number}", "--subbuf-size", "16K", "--subbuf-count", "2")
            while plumb(*words, status=None).returncode != 0:
                self.assertLess(time.monotonic(), until)  # a recorder of everybody, in another test, may have a place here, too
                time.sleep(0.2)
            self.addCleanup(plumb, "destroy", f"s{number}", status=None)
        done = plumb("create", "onemore", "-o", self.trace, status=1)
        self.assertIn("There are 16 sessions, and no more are possible. Remove one of them: `plumb destroy NAME`", done.stderr)
        self.assertFalse(self.trace.exists())
        plumb("destroy", "s3")
        plumb("create", "onemore", "-o", self.trace, "--subbuf-size", "16K", "--subbuf-count", "2")

    def test_save_and_load(self):
        self.create("web", "--mode", "block", "--block-timeout", "2s", "--subbuf-size", "64K", "--subbuf-count", "8", "--clock",
                    "mono", "--context", "cpu,callstack:8", "--rotate-period", "10s", "--keep-chunks", "5", "--plain")
        plumb("enable", "web", "shop:order if number > 7", "!shop:noise", "--log-level", "warning")
        plumb("enable", "web", "shop:*", "--exe", "*/program")
        plumb("start", "web")
        saved = self.folder / "saved.json"
        plumb("save", "web", saved)
        self.assertEqual(plumb("save", "web").stdout, saved.read_text())
        output = self.folder / "loaded"
        self.addCleanup(shutil.rmtree, output, ignore_errors=True)
        plumb("load", saved, "--name", "again", "-o", output)
        again = json.loads(plumb("save", "again").stdout)
        self.assertEqual(again, {**json.loads(saved.read_text()), "name": "again", "output": str(output)})
        self.assertTrue(again["started"])
        written = json.loads(saved.read_text())
        for change, why in (({"mode": "sideways"}, "There is no mode"), ({"nosuch": 1}, '"nosuch" is not known'),
                            ({"rules": [{"event": "a:b:c"}]}, "more than one colon"), ({"output": "here"}, "no path from the root"),
                            ({"subbuf_count": 3}, "3 sub-buffers are not possible"), ({"name": "../x"}, "can not be the name")):
            saved.write_text(json.dumps({**written, **change}))
            self.assertIn(why, plumb("load", saved, status=1).stderr)

    def test_save_replaces_nothing_but_files(self):
        self.create("web")
        text = plumb("save", "web").stdout
        fifo, target, link = (self.folder / name for name in ("fifo", "target", "link"))
        os.mkfifo(fifo)
        with subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE, text=True) as reader:
            plumb("save", "web", fifo)
            self.assertEqual(reader.communicate(timeout=60)[0], text)
        self.assertTrue(stat.S_ISFIFO(fifo.lstat().st_mode))
        target.write_text("before")
        link.symlink_to(target)
        plumb("save", "web", link)
        self.assertTrue(link.is_symlink())
        self.assertEqual(target.read_text(), text)
        (self.folder / "directory").mkdir()
        self.assertIn(f"{self.folder}/directory", plumb("save", "web", self.folder / "directory", status=1).stderr)

    def test_a_name_for_the_trace_that_is_free(self):
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(self.folder)
        made = set()
        for _ in range(3):
            made.add(plumb("create", "web").stdout)
            plumb("destroy", "web")
        self.assertEqual(len(made), 3)
        self.assertIn("no UTF-8", plumb("create", "web", "-o", os.fsdecode(b"a\xff"), status=1).stderr)

    def test_what_makes_no_sense_is_refused(self):
        self.assertIn("There is no session web. `plumb create` makes one.", plumb("start", "web", status=1).stderr)
        self.create("web")
        self.assertIn("There is a session web already", plumb("create", "web", "-o", self.trace, status=1).stderr)
        self.assertIn("exists already", plumb("create", "other", "-o", self.folder, status=1).stderr)
        self.assertIn("something is missing here", plumb("enable", "web", "shop:* if number >", status=2).stderr)
        self.assertIn("more than one colon", plumb("enable", "web", "a:b:c", status=2).stderr)
        self.assertIn("can not be the name", plumb("create", "a/b", status=2).stderr)
        self.assertIn("which rules?", plumb("disable", "web", status=2).stderr)
        self.assertIn("There is no process 4194304", plumb("enable", "web", "-p", "4194304", status=1).stderr)
        self.assertIn("--block-timeout means nothing without --mode block",
                      plumb("create", "b", "--block-timeout", "1s", status=2).stderr)

    def test_hostile_bytes(self):
        self.create("web")
        for data in (b"GET / HTTP/1.0\r\n\r\n", framed(b"{}", magic=b"XXXX"), framed(b"{}", version=7),
                     framed(b"", length=0xffffffff), b"PLCM\1\0\1\0" + b"\0" * 4, os.urandom(4096)):
            with connect() as connection:
                connection.sendall(data)
                answer = receive(connection)
                self.assertFalse(answer["ok"], data)
                self.assertIsNone(receive(connection))  # and nothing more
        for body in (b"", b"nonsense", b"[1]", b"{}", b'{"command": 7}', b"[" * 100000, b'{"a":' * 50000, b'{"command":"nosuch"}',
                     b'{"command":"enable","session":"web","rules":7}', b'{"command":"enable","session":"web","rules":[7]}',
                     b'{"command":"enable","session":"web","rules":[{"event":"\\u0000"}]}', b'{"command":"start","session":"../web"}',
                     b'{"command":"create","description":{}}', b'{"command":"create","description":{"format":1,"name":"\xff"}}'):
            self.assertFalse(ask(body)["ok"], body)
        silent = [connect() for _ in range(40)]
        self.addCleanup(lambda: [connection.close() for connection in silent])
        for connection in silent:
            connection.sendall(b"PLCM")  # and never the rest
        self.assertEqual(self.status("web")["name"], "web")
        with connect() as connection:  # several requests, in pieces, over one connection
            for byte in framed(b'{"command":"version"}') * 3:
                connection.sendall(bytes([byte]))
            self.assertEqual([receive(connection)["ok"] for _ in range(3)], [True] * 3)
        self.assertEqual(self.status("web")["worker_restarts"], 0)

    def test_activated_by_its_socket(self):
        """As systemd starts it: it is given a socket that listens, and leaves that there when it ends."""
        self.create("before")  # makes the folders
        plumb("destroy", "before")
        os.kill(supervisor(), signal.SIGTERM)
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        (FOLDER / "control").unlink(missing_ok=True)
        listener.bind(str(FOLDER / "control"))
        self.addCleanup((FOLDER / "control").unlink)
        listener.listen()

        def give_socket():
            os.dup2(listener.fileno(), 3)
            os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
            os.execv(PLUMB.parent / "plumb-consumerd", ["plumb-consumerd"])  # with this environment
        with subprocess.Popen(["true"], preexec_fn=give_socket, pass_fds=[3], stderr=subprocess.PIPE) as daemon:
            self.assertEqual(supervisor(), daemon.pid)
            self.create("web")
            self.assertEqual(self.status("web")["started"], False)
            plumb("destroy", "web")
            daemon.wait(30)
        self.assertEqual(daemon.returncode, 0)
        self.assertTrue((FOLDER / "control").exists())

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_another_user_has_sessions_of_his_own(self):
        self.create("web")
        as_nobody = {"user": 65534, "group": 65534, "extra_groups": []}
        self.assertEqual(plumb("status", **as_nobody).stdout, "There is no session: `plumb create` makes one.\n")
        self.assertIn("There is no session web", plumb("destroy", "web", status=1, **as_nobody).stderr)
        script = f"import socket; socket.socket(socket.AF_UNIX).connect('{FOLDER}/control')"
        done = subprocess.run(["/usr/bin/python3", "-c", script], capture_output=True, text=True, check=False, **as_nobody)
        self.assertIn("PermissionError", done.stderr)
        FOLDER.parent.chmod(0o755)  # should somebody open the way
        FOLDER.chmod(0o755)
        (FOLDER / "control").chmod(0o777)
        try:
            script = ("import socket; s = socket.socket(socket.AF_UNIX); s.settimeout(30); "
                      f"s.connect('{FOLDER}/control'); print(s.recv(1000))")
            done = subprocess.run(["/usr/bin/python3", "-c", script], capture_output=True, text=True, check=False, **as_nobody)
        finally:
            FOLDER.parent.chmod(0o700)
            FOLDER.chmod(0o700)
            (FOLDER / "control").chmod(0o600)
        self.assertIn("These are the sessions of another user", done.stdout + done.stderr)

    def test_idle_it_sleeps_and_ends_when_nobody_needs_it(self):
        self.create("web")
        plumb("enable", "web")
        plumb("start", "web")
        workers = [self.status("web")["worker_pid"], supervisor()]
        time.sleep(5)

        def switches(process):
            return sum(int(line.split()[-1]) for task in Path(f"/proc/{process}/task").iterdir()
                       for line in (task / "status").read_text().splitlines() if line.startswith("voluntary_ctxt"))
        before = [switches(process) for process in workers]
        time.sleep(10)
        after = [switches(process) for process in workers]
        for process, first, last in zip(workers, before, after):
            self.assertLessEqual(last - first, 13, process)
            rss = int(re.search(r"^VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text(), re.M).group(1))
            self.assertLess(rss, 16 * 1024, process)
        plumb("destroy", "web")
        until = time.monotonic() + 30
        while (FOLDER / "control").exists():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.1)


if __name__ == "__main__":
    unittest.main()
