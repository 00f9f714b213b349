#!/usr/bin/env python3
# cmake-once
"""plumb record: where the trace goes. Nothing but an old trace is replaced, and that only when there is another; a directory that was
there stays; who may read it."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB, RecordedProgramTest, tell_to_lock  # noqa: E402


class TraceDirectory(RecordedProgramTest):
    def test_recorders_that_begin_together_choose_directories_of_their_own(self):
        recorders = [subprocess.Popen([PLUMB, "record", "-q", "--", "timeout", "9", "true"], cwd=self.directory, stderr=subprocess.PIPE, text=True)
                     for _ in range(12)]
        for recorder in recorders:
            _, errors = recorder.communicate(timeout=60)
            self.assertEqual(recorder.returncode, 0, errors)
        self.assertEqual(len(list(self.directory.glob("plumb-trace-*/summary.json"))), len(recorders))

    def test_nothing_but_an_old_trace_is_replaced(self):
        self.assertEqual(self.record("--", "timeout", "9", "true"), 0)
        self.assertEqual(self.record("--", "true"), 1)
        self.assertIn("exists already", self.errors)
        self.assertEqual(self.record("--force", "--", "timeout", "9", "true"), 0)
        precious = self.trace / "precious"
        precious.write_text("x")
        self.assertEqual(self.record("--force", "--", "true"), 1)
        self.assertIn("precious is not part of a Plumb trace", self.errors)
        self.assertTrue(precious.exists())
        self.assertTrue((self.trace / "ust" / "metadata").exists())

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_who_looks_while_the_recorder_ends_takes_it_for_no_killed_one(self):
        """The look for the summary is delayed until the recorder has written it and is gone."""
        recorder = self.start("--preload", "pthread", "--", self.program, stdin=subprocess.PIPE)
        tell_to_lock(recorder, 10)
        while not any(file.stat().st_size for file in self.trace.glob("ust/ring_*")):
            time.sleep(0.05)
        end = threading.Timer(1, recorder.communicate)
        end.start()
        shown = subprocess.run(["strace", "-f", "-o", "/dev/null", "-P", self.trace / "summary.json", "-e", "trace=openat",
                                "-e", "inject=openat:delay_exit=3000000:when=1", PLUMB, "view", "--summary", "--json", self.trace],
                               capture_output=True, text=True, timeout=60, check=False)
        end.join()
        self.assertIn('"events":20', shown.stdout)
        self.assertNotIn("recorder was killed", shown.stderr)

    def test_a_name_begins_no_line_of_its_own(self):
        odd = self.directory / "a\nLost: nothing\x1b[31m"
        done = subprocess.run([PLUMB, "record", "-o", odd, "--", "timeout", "9", "true"], capture_output=True, text=True, timeout=60,
                              check=True)
        self.assertIn("The trace is in ", done.stderr)
        self.assertIn("a\\nLost: nothing\\x1b[31m", done.stderr)
        self.assertNotIn("a\nLost", done.stderr)

    def test_a_part_of_another_place_is_a_part(self):
        """As where plumb.ko is loaded, and some programs looked in /dev/shm before."""
        for name in ("ust-0-shm", "ust-1001-module"):
            recorder = self.start("--preload", "pthread", "--", self.program, stdin=subprocess.PIPE)
            tell_to_lock(recorder, 10)
            recorder.communicate(timeout=60)
            (self.trace / "ust").rename(self.trace / name)
            summary = self.summary()
            summary["files"] = {f"{name}/{file.removeprefix('ust/')}": size for file, size in summary["files"].items()}
            (self.trace / "summary.json").write_text(json.dumps(summary))
            shown = subprocess.run([PLUMB, "view", self.trace], capture_output=True, text=True, timeout=60, check=True)
            self.assertEqual((shown.stderr, shown.stdout.count("\n")), ("", 20))
            next((self.trace / name).glob("ring_*")).unlink()
            shown = subprocess.run([PLUMB, "view", self.trace], capture_output=True, text=True, timeout=60, check=False)
            self.assertIn(f"{name}/ring_", shown.stderr)
            self.assertEqual(self.record("--force", "--", "timeout", "9", "true"), 0, self.errors)
            self.assertEqual(sorted(os.listdir(self.trace)), ["summary.json", "ust"])
            shutil.rmtree(self.trace)

    def test_names_alone_make_no_trace(self):
        for name, text in (("summary.json", '{"mine": "results of a week"}'), ("ust/ring_0", "mine"), ("ust/statedump", "mine"),
                           ("snapshot-1/ust/ring_0", "mine"), (".replaced-1/ust/ring_0", "mine")):
            file = self.trace / name
            file.parent.mkdir(parents=True)
            file.write_text(text)
            with self.subTest(name=name):
                self.assertEqual(self.record("--force", "--", "true"), 1)
                self.assertIn("nothing in it says that Plumb wrote it", self.errors)
                self.assertEqual(file.read_text(), text)
            shutil.rmtree(self.trace)
        self.assertEqual(self.record("--", "timeout", "9", "true"), 0)
        shutil.rmtree(self.trace / "ust")  # the summary says so, too
        self.assertEqual(self.record("--force", "--", "timeout", "9", "true"), 0, self.errors)

    def test_an_old_trace_goes_when_there_is_another(self):
        def held():
            return {path.relative_to(self.trace): path.read_bytes() for path in self.trace.rglob("*") if path.is_file()}

        self.assertEqual(self.record("--", "timeout", "9", "true"), 0)
        old = held()
        for options, status in ((("--", "nosuchcommand"), 127), (("--", self.directory), 126),
                                (("-p", os.getpid()), 1),
                                (("--subbuf-size", "1G", "--subbuf-count", 64, "--", "true"), 1),
                                (("-k", "nosuch:*", "--", "true"), 1)):
            self.assertEqual(self.record("--force", *options), status, self.errors)
            self.assertEqual(held(), old)
        (self.trace / "ust").rename(self.directory / "ust")  # of a recorder that was killed in between
        (self.trace / ".replaced-1").mkdir()
        (self.directory / "ust").rename(self.trace / ".replaced-1" / "ust")
        killed = held()
        self.assertEqual(self.record("--force", "--", "nosuchcommand"), 127)
        self.assertEqual(held(), killed)
        shutil.copytree(self.trace / ".replaced-1" / "ust", self.trace / "ust")
        shown = subprocess.run([PLUMB, "view", self.trace], capture_output=True, text=True, timeout=60, check=False)
        self.assertIn(f"{self.trace}/.replaced-1 is not shown", shown.stderr)
        self.assertEqual(self.record("--force", "--", "timeout", "9", "echo", "new"), 0, self.errors)
        self.assertEqual(sorted(os.listdir(self.trace)), ["summary.json", "ust"])
        self.assertEqual(self.summary()["command"][-2:], ["echo", "new"])

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_an_old_trace_in_a_lower_layer_is_replaced(self):
        script = """
mount -t tmpfs tmpfs "$1" && cd "$1" && mkdir lower upper work all && "$2" record -q -o lower/trace -- timeout 9 true || exit 77
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work all || exit 77
cd all; "$2" record -q --force -o trace -- nosuchcommand; [ $? = 127 ] && diff -r trace ../lower/trace || exit 1
"$2" record -q --force -o trace -- timeout 9 echo new; echo $?; ls -A trace"""
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", self.directory, PLUMB], capture_output=True, text=True,
                              timeout=60, check=False)
        if done.returncode == 77:
            self.skipTest(f"no overlayfs here: {done.stderr}")
        self.assertEqual(done.stdout.split(), ["new", "0", "summary.json", "ust"], done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_what_root_records_of_others_is_not_for_all_to_read(self):
        for options, mode in ((("--", "timeout", "9", "true"), 0o755), (("--duration", "0.1"), 0o700), (("--exe", "*nothing", "--", "true"), 0o700)):
            self.assertEqual(self.record(*options, umask=0o022), 0, self.errors)
            self.assertEqual(self.trace.stat().st_mode & 0o777, mode)
            shutil.rmtree(self.trace)
        self.trace.mkdir(mode=0o750)
        self.assertEqual(self.record("--force", "--duration", "0.1"), 0, self.errors)
        self.assertEqual(self.trace.stat().st_mode & 0o777, 0o750)

    def test_a_directory_that_was_there_stays(self):
        self.trace.mkdir()
        self.assertEqual(self.record("--force", "--", "nosuchcommand"), 127)
        self.assertEqual(os.listdir(self.trace), [])
        self.trace.rmdir()
        self.assertEqual(self.record("--", "nosuchcommand"), 127)
        self.assertFalse(self.trace.exists())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
