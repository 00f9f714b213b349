#!/usr/bin/env python3
# cmake-timeout: 120
# cmake-once
# cmake-serial
"""What other tools change in the tracing instance that is recorded from, as `trace-cmd stop -a` and `reset -a` do in all that there
are. Nothing counts the events that are missing then, so it has to be said."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
PLUMB = Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"
sys.path.insert(0, str(SOURCE / "tests/support"))
from kernel_events import leave_out_without_kernel_events  # noqa: E402

TRACEFS = Path("/sys/kernel/tracing")
COMMAND = "kill -0 $$; touch go; while [ -e go ]; do sleep 0.05; done; kill -0 $$; kill -0 $$"
CALL = "syscalls/sys_enter_kill"


class Changed(unittest.TestCase):
    def record(self, *changes, behind_s=0):
        """The summary, and what was said, of a recording in the middle of which files of its instance were written to."""
        folder = Path(tempfile.mkdtemp(prefix="plumb-changed-"))
        self.addCleanup(shutil.rmtree, folder)
        with subprocess.Popen([PLUMB, "record", "-q", "-o", "trace", "-k", "syscalls:kill", "--", "sh", "-c", COMMAND],
                              cwd=folder, stderr=subprocess.PIPE, text=True) as recorder:
            while not (folder / "go").exists() and recorder.poll() is None:
                time.sleep(0.02)
            instance, = (TRACEFS / "instances").glob(f"plumb_r{recorder.pid}_*")
            time.sleep(behind_s)
            for file, text in changes:
                (instance / file).write_text(text)
            time.sleep(1.5)
            (folder / "go").unlink()
            _, said = recorder.communicate(timeout=60)
        self.assertFalse(instance.exists())
        summary = json.loads((folder / "trace/summary.json").read_text())
        self.assertEqual(recorder.returncode == 0, summary["complete"])
        return summary, said

    def named(self, what, *changes):
        summary, said = self.record(*changes)
        self.assertFalse(summary["complete"])
        problem, = summary["problems"]
        self.assertIn("Somebody else has changed the kernel's tracing", problem)
        self.assertIn(what, problem)
        self.assertEqual(problem in said, "tracing_on" in what, said)
        return summary

    def test_nobody_has(self):
        summary, said = self.record()
        self.assertEqual((summary["events_by_name"]["syscall_entry_kill"], summary["complete"], said), (3, True, ""))

    def test_who_stops_it_is_named_at_once(self):
        summary = self.named("tracing_on (1, now 0)", ("tracing_on", "0"))
        self.assertEqual(summary["events_by_name"]["syscall_entry_kill"], 1)

    def test_who_stops_it_for_a_moment_is_named_if_that_was_seen(self):
        self.named("tracing_on", (f"events/{CALL}/trigger", "traceoff"), ("tracing_on", "0"))

    def test_who_takes_an_event_away_is_named(self):
        self.named("set_event", (f"events/{CALL}/enable", "0"))
        self.named("set_event", ("set_event", ""))

    def test_who_sets_a_filter_is_named(self):
        self.named(f"events/{CALL}/filter", (f"events/{CALL}/filter", "sig == 9"))

    def test_who_leaves_out_processors_is_named(self):
        self.named("tracing_cpumask", ("tracing_cpumask", "1"))

    def test_who_makes_the_buffers_smaller_is_named(self):
        self.named("buffer_size_kb", ("buffer_size_kb", "100"))

    @unittest.skipUnless((TRACEFS / "buffer_subbuf_size_kb").exists(), "the kernel has pages of one size")
    def test_who_makes_the_pages_larger_is_named(self):
        self.named("buffer_subbuf_size_kb (4, now 64)", ("buffer_subbuf_size_kb", "64"))

    def test_who_empties_the_buffers_is_named(self):
        """By what the kernel has forgotten to have given to the recorder."""
        summary, _ = self.record(("trace", ""), behind_s=1.5)
        problem, = summary["problems"]
        self.assertIn("Somebody else has emptied the kernel's buffers", problem)

    def test_who_empties_the_buffers_of_a_flight_recorder_is_named(self):
        """Which has read nothing of them."""
        folder = Path(tempfile.mkdtemp(prefix="plumb-changed-"))
        self.addCleanup(shutil.rmtree, folder)
        for is_emptied in (False, True):
            with subprocess.Popen([PLUMB, "record", "--snapshot", "-a", "-k", "sched", "-q", "--force", "-o", "trace"], cwd=folder,
                                  stderr=subprocess.PIPE, text=True) as recorder:
                time.sleep(5)
                instance, = (TRACEFS / "instances").glob(f"plumb_r{recorder.pid}_*")
                if is_emptied:
                    (instance / "trace").write_text("")
                snapshot = subprocess.run([PLUMB, "snapshot", str(recorder.pid)], cwd=folder, capture_output=True, text=True,
                                          timeout=60, check=False)
                self.assertEqual(snapshot.returncode, 0, snapshot.stderr)
                summary = json.loads((folder / "trace/snapshot-1/summary.json").read_text())
                recorder.terminate()
                _, said = recorder.communicate(timeout=60)
            self.assertEqual(["Somebody else has emptied the kernel's buffers" in problem for problem in summary["problems"]],
                             [True] * is_emptied, summary["problems"])
            self.assertEqual("Somebody else has emptied" in said, is_emptied, said)
            self.assertEqual(summary["complete"], not is_emptied)


if __name__ == "__main__":
    leave_out_without_kernel_events(PLUMB)
    unittest.main()
