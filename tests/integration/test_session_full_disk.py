#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""Chunks of sessions that find no room, or somebody else's in their place: what is missing is told of the chunk that lacks it, behind a kill of
the worker too, and those behind it are whole."""
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from control_socket import FOLDER  # noqa: E402
from disturbed_sessions import DisturbedSessionTest  # noqa: E402
from sessions import plumb  # noqa: E402


class FullDisk(DisturbedSessionTest):
    def disk(self, size, which=""):
        disk = self.folder / f"disk-{self.id().rsplit('.', 1)[-1]}{which}"
        disk.mkdir()
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], check=False).returncode != 0:
            self.skipTest("may not mount")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        self.addCleanup(plumb, "destroy", "--all", status=None)
        return disk

    def fill(self, disk):
        """Not a byte is left."""
        with open(disk / "filler", "ab", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass

    def test_a_chunk_that_can_not_be_renamed_holds_up_nothing(self):
        """Somebody has a copy of it in its place: it keeps its name, and the next worker begins."""
        self.begin("copied")
        subprocess.run([self.program], check=True, timeout=60)
        self.until(lambda: self.status("copied")["events"] == 1000, "written")
        chunk, = self.trace.glob("chunk-*.part")
        shutil.copytree(chunk, chunk.with_suffix(""))
        worker = self.status("copied")["worker_pid"]
        os.kill(worker, signal.SIGKILL)
        self.until(lambda: self.status("copied").get("worker_pid", worker) != worker, "the next worker")
        subprocess.run([self.program], check=True, timeout=60)
        said = plumb("destroy", "copied", status=None).stderr
        self.assertIn("The chunk that was left can not be finished", said)
        self.assertTrue(chunk.exists())
        later, = self.trace.glob("chunk-00000002-*")
        self.assertEqual(plumb("view", later).stdout.count("upset:taken"), 1000)

    def test_a_chunk_waits_for_its_summary(self):
        """A folder in its place stands for a disk without room."""
        self.begin("full")
        subprocess.run([self.program], check=True, timeout=60)
        self.until(lambda: self.status("full")["events"] == 1000, "written")
        in_its_place = Path(self.status("full")["chunk"]) / "summary.json"
        in_its_place.mkdir()
        done = plumb("rotate", "full")
        self.assertEqual(done.stdout, f"{in_its_place.parent}\n")
        self.assertIn("has no summary yet", done.stderr)
        self.assertIn("has no summary yet", plumb("status", "full").stdout)
        in_its_place.rmdir()
        finished = Path(str(in_its_place.parent).removesuffix(".part"))
        self.until(finished.exists, sorted(map(str, self.trace.rglob("*"))))
        self.assertEqual(json.loads((finished / "summary.json").read_text())["events"], 1000)
        self.assertNotIn("has no summary yet", plumb("status", "full").stdout)
        self.assertEqual(plumb("destroy", "full").stderr, "")

    def test_what_a_full_disk_took_is_told_behind_a_kill(self):
        disk = self.disk("2m")
        self.begin("full", trace=disk / "trace")
        subprocess.run([self.program, "400000"], check=True, timeout=60)
        is_told = "No space left on device. Events are lost from the trace until this is mended"
        self.until(lambda: is_told in " ".join(self.status("full")["problems"]), "status says nothing of it")
        self.until(lambda: self.status("full")["events_lost"] > 0, "status has no count of it")
        worker = self.status("full")["worker_pid"]
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        os.kill(worker, signal.SIGKILL)
        self.until(lambda: self.status("full")["worker_pid"] != worker, "the next worker")
        [summary] = [json.loads(path.read_text()) for path in disk.glob("trace/chunk-00000001-*/summary.json")]
        self.assertGreater(summary["events_lost_by_cause"].get("not_written", 0), 0, summary)
        self.assertFalse(summary["complete"], summary)
        self.assertIn("as on a full disk", summary["write_error"])
        self.assertRegex(" ".join(self.status("full")["problems"]), r"[\d,]+ events of chunk-00000001-.* are missing")

    def test_a_file_limit_is_told_as_a_full_disk_is(self):
        self.begin("limited")
        self.addCleanup(plumb, "destroy", "--all", status=None)
        worker = self.status("limited")["worker_pid"]
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        subprocess.run([self.program, "400000"], check=True, timeout=60)
        self.until(lambda: "File too large" in " ".join(self.status("limited").get("problems", [])), "status says nothing of it")
        self.assertEqual(self.status("limited")["worker_pid"], worker)
        plumb("destroy", "limited", status=None)
        [summary] = [json.loads(path.read_text()) for path in self.trace.glob("*/summary.json")]
        self.assertGreater(summary["events_lost_by_cause"].get("not_written", 0), 0, summary)
        self.assertEqual(summary["events"] + summary["events_lost"], 400000, summary)

    @staticmethod
    def sum_up(path):
        """As a worker does where more chunks wait than the file has room for."""
        waiting = json.loads(path.read_text())
        *others, last = waiting["chunks"]
        last["since"] = others[0]["since"]
        for each in others:
            last["summary"]["events"] += each["summary"]["events"]
            last["summary"]["events_lost"] += each["summary"]["events_lost"]
            last["summary"]["complete"] &= each["summary"]["complete"]
        waiting["chunks"] = [last]
        path.write_text(json.dumps(waiting))

    def test_what_a_full_disk_took_over_the_ends_of_chunks_is_told_behind_a_kill(self):
        """Of chunks that wait for their summaries, too. Room is made before the next worker comes, or behind that, or so late that
        chunks were summed up."""
        for when in ("before", "behind", "late"):
            disk = self.disk("4m", f"-{when}")
            name, trace, emitted = f"full-{when}", disk / "trace", 0
            self.begin(name, trace=trace)
            for events in (100000, 50000, 20000, 10000, 5000):
                subprocess.run([self.program, str(events)], check=True, timeout=60)
                emitted += events
                self.until(lambda: self.status(name)["buffers"]["unread_bytes"] == 0, "read")
                self.fill(disk)  # the end of the first chunk has room that it kept
                waits = "has no summary yet" in plumb("rotate", name).stderr
            self.assertTrue(waits)
            waiting = " ".join(self.status(name)["problems"]).count("has no summary yet")
            self.assertGreater(waiting, 2)
            subprocess.run([self.program, "3000"], check=True, timeout=60)
            emitted += 3000
            worker = self.status(name)["worker_pid"]
            if when == "before":
                (disk / "filler").unlink()
            os.kill(worker, signal.SIGKILL)
            if when != "before":  # no worker can begin, and those that try take nothing with them
                self.until(lambda: "No space left" in plumb("status", name, status=None).stderr, "tried")
                if when == "late":
                    self.sum_up(FOLDER / f"sessions/{name}.waiting-chunks")
                (disk / "filler").unlink()
            self.until(lambda: plumb("status", name, status=None).returncode == 0,
                       lambda: plumb("status", name, status=None))
            self.until(lambda: self.status(name)["worker_pid"] != worker, "another one")
            self.assertRegex(" ".join(self.status(name)["problems"]), r"[\d,]+ events of \d+ chunks are missing, which waited for room")
            self.until(lambda: len(list(trace.glob("*.part"))) == 1, sorted(map(str, trace.rglob("*"))))
            subprocess.run([self.program], check=True, timeout=60)
            emitted += 1000
            told = plumb("destroy", name).stderr
            recorded, lost = 0, 0
            chunks = sorted(trace.glob("chunk-*"))
            self.assertGreater(len(chunks), 4)
            for chunk in chunks:
                self.assertNotIn(".part", chunk.name)
                read = subprocess.run(["babeltrace2", chunk], capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(read.returncode, 0, (chunk, read.stderr, sorted(chunk.rglob("*"))))
                plumb("view", "--summary", chunk)
                summary = json.loads((chunk / "summary.json").read_text())
                if "are kept apart" in " ".join(summary["problems"]):
                    self.assertEqual(when, "late")
                    self.assertFalse(summary["complete"])
                    recorded += summary.get("events", 0)
                    lost += summary.get("events_lost", 0)
                    continue
                self.assertEqual(summary["events"], read.stdout.count("upset:taken: "), chunk)
                self.assertEqual(summary["complete"], summary["events_lost_by_cause"].get("not_written", 0) == 0, summary)
                recorded += summary["events"]
                lost += summary["events_lost"]
            self.assertEqual(recorded + lost, emitted, told)
            self.assertEqual(sorted((FOLDER / "sessions").glob(f"{name}*")), [])
            print(f"{emitted} events: {recorded} in {len(chunks)} chunks, {lost} told as lost")

    def test_a_chunk_is_complete_whatever_one_before_it_lacks(self):
        """And the end of the session tells what that one lacks."""
        disk = self.disk("4m")
        self.begin("full", trace=disk / "trace")
        self.fill(disk)
        subprocess.run([self.program, "50000"], check=True, timeout=60)
        self.until(lambda: self.status("full")["buffers"]["unread_bytes"] == 0, "read")
        (disk / "filler").unlink()
        plumb("rotate", "full")
        self.until(lambda: not list(disk.glob("trace/chunk-00000001-*.part")), "the summary of the first chunk")
        subprocess.run([self.program], check=True, timeout=60)
        self.until(lambda: self.status("full")["events"] >= 1000, "written")
        causes = self.status("full")["lost_by_cause"]
        told = plumb("destroy", "full").stderr
        first, last = [json.loads(path.read_text()) for path in sorted(disk.glob("trace/chunk-*/summary.json"))]
        self.assertFalse(first["complete"])
        self.assertEqual((last["complete"], last["problems"], last["events"]), (True, [], 1000))
        self.assertNotIn("not complete", plumb("view", last["trace"]).stderr)
        missing = first["events_lost_by_cause"]["not_written"]
        self.assertEqual(causes, {"not_written": missing})
        self.assertRegex(told, rf"The trace in {disk}/trace is not complete, {missing} events are missing: ")


if __name__ == "__main__":
    unittest.main()
