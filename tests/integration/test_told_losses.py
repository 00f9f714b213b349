#!/usr/bin/env python3
# cmake-once
"""What is missing from a trace is said wherever the trace is read: losses behind the last packet of a recorder that was
killed, what the summary knows and no stream counts, and that there is no summary."""
import json
import os
import resource
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from traced_program import BUILD, TracedProgramTest  # noqa: E402

PLUMB = BUILD / "cli" / "plumb"
SHM = Path("/dev/shm")

STILL_WRITTEN = r"\Aplumb: warning: the trace is still being written: [^\n]*\n\Z"


class ToldLosses(TracedProgramTest):
    # Ten events; at each line of input ten that are too large for sub-buffers of 4 KiB.
    PROGRAM = """
    #include <plumb/tracepoint.h>
    #include <stdio.h>
    PLUMB_EVENT(shop, order, (u64, id))
    PLUMB_EVENT(shop, big, (array, u64, x, 200))
    int main(void) {
        static uint64_t x[200];
        for (int i = 0; i < 10; i++) plumb_trace(shop, order, i);
        puts("begun");
        fflush(stdout);
        while (getchar() != EOF) {
            for (int i = 0; i < 10; i++) plumb_trace(shop, big, x);
            puts("done");
            fflush(stdout);
        }
        return 0;
    }
    """

    def plumb(self, *arguments, **more):
        return subprocess.run([PLUMB, *map(str, arguments)], capture_output=True, text=True, timeout=100, check=False, **more)

    def start(self):
        recorder = subprocess.Popen([PLUMB, "record", "-q", "--subbuf-size", "4K", "-o", self.trace, "--", self.program],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for stream in (recorder.stdin, recorder.stdout):
            self.addCleanup(stream.close)
        self.addCleanup(recorder.wait)
        self.addCleanup(recorder.kill)
        self.assertEqual(recorder.stdout.readline(), "begun\n")
        end = time.monotonic() + 60
        while sum(file.stat().st_size for file in self.trace.glob("ust/ring_*")) == 0:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        return recorder

    def test_losses_behind_the_last_packet_of_a_killed_recorder_are_extracted(self):
        recorder = self.start()
        recorder.stdin.write("\n")
        recorder.stdin.flush()
        self.assertEqual(recorder.stdout.readline(), "done\n")
        time.sleep(2)  # however long it has to write them, without a record there is no packet
        recorder.kill()
        recorder.wait()
        rest = self.folder / "rest"
        self.plumb("record", "-q", "-o", self.folder / "next", "true")
        self.assertIn("10 losses", self.plumb("list").stdout)
        done = self.plumb("extract", "-o", rest)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("10 events too_large", done.stderr)
        self.assertIn("10 events and 0 packets were lost", self.plumb("view", rest).stderr)
        read = subprocess.run(["babeltrace2", rest], capture_output=True, text=True, timeout=60, check=True)
        self.assertIn("discarded 10 events", read.stderr)
        self.assertNotIn("1970", read.stderr)

    def test_a_trace_without_a_summary_is_said_to_be_of_a_killed_recorder(self):
        above = self.folder / "above"
        above.mkdir()
        self.trace = above / "trace"
        recorder = self.start()
        link = self.folder / "link"
        link.symlink_to(self.trace)
        for path in (self.trace, self.trace / "ust", link, f"{link}/", above):  # while it is written
            self.assertRegex(self.plumb("view", path).stderr, STILL_WRITTEN, path)
        recorder.kill()
        recorder.wait()
        for path in (self.trace, self.trace / "ust"):
            self.assertIn("no summary.json: its recorder was killed", self.plumb("view", path).stderr)
        self.plumb("extract", "--remove")

    def test_a_recorder_killed_before_its_first_packet_leaves_no_stream(self):
        killer = self.folder / "killer.so"
        source = self.folder / "killer.c"
        source.write_text("""
            #define _GNU_SOURCE
            #include <errno.h>
            #include <signal.h>
            #include <string.h>
            #include <sys/uio.h>
            ssize_t pwritev(int fd, const struct iovec* parts, int count, off_t at) {
                (void)fd; (void)parts; (void)count; (void)at;
                if (strcmp(program_invocation_short_name, "plumb") == 0) raise(SIGKILL);
                return -1;
            }""")
        subprocess.run(["cc", "-shared", "-fPIC", source, "-o", killer], check=True)
        done = self.plumb("record", "-q", "-o", self.trace, "--", self.program, stdin=subprocess.DEVNULL,
                          env=dict(os.environ, LD_PRELOAD=str(killer)))
        self.assertEqual(done.returncode, -9)
        end = time.monotonic() + 20
        while (left := [file.name for file in self.trace.glob("ust/*")]) != ["metadata"] and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(left, ["metadata"])
        (self.trace / "ust" / "ring_0").touch()  # nobody was left to remove it
        shown = self.plumb("view", self.trace)
        self.assertIn("no summary.json: its recorder was killed", shown.stderr)
        self.assertEqual((shown.stdout, len(shown.stderr.splitlines())), ("", 1), shown.stderr)
        subprocess.run(["babeltrace2", self.trace], capture_output=True, timeout=60, check=True)
        self.plumb("extract", "--remove")

    def test_what_stands_beside_a_recorder_is_not_taken_for_it(self):
        recorder = self.start()
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if (folder / "exe").samefile(PLUMB):
                    found[int(folder.name)] = (folder / "cmdline").read_bytes()
            except OSError:
                pass
        self.assertIn("stream-keeper", {line.split(b"\0")[0].decode() for line in found.values()})
        self.assertEqual([process for process, line in found.items() if str(self.trace).encode() in line], [recorder.pid])

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_what_another_killed_recorder_left_and_can_not_be_opened_is_told(self):
        recorder = self.start()
        recorder.kill()
        recorder.wait()
        (channel,) = SHM.glob("plumb-0/channel-*")
        channel.chmod(0o644)
        self.assertIn("is not a private file", self.plumb("record", "-o", self.folder / "beside", "true").stderr)
        channel.chmod(0o600)
        self.plumb("extract", "--remove")

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_a_trace_on_another_disk_with_the_same_number_is_not_being_written(self):
        disks = [self.folder / "a", self.folder / "b"]
        for disk in disks:
            disk.mkdir()
            if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], check=False).returncode != 0:
                self.skipTest("may not mount")
            self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        self.trace = disks[0] / "trace"
        recorder = self.start()
        recorder.kill()
        recorder.wait()
        self.trace = disks[1] / "trace"
        self.start()
        self.assertEqual(*(os.stat(disk / "trace").st_ino for disk in disks))
        self.assertIn("its recorder was killed", self.plumb("view", disks[0] / "trace").stderr)
        self.assertRegex(self.plumb("view", disks[1] / "trace").stderr, STILL_WRITTEN)
        self.plumb("extract", "--remove")

    def test_what_no_stream_counts_is_told_as_well(self):
        recorder = self.start()
        recorder.stdin.close()
        self.assertEqual(recorder.wait(timeout=60), 0)
        self.assertEqual(self.plumb("view", self.trace).stderr, "")
        path = self.trace / "summary.json"
        summary = json.loads(path.read_text())
        summary.update({"complete": False, "problems": ["The events of a user are missing."],
                        "missed": {"pages of the kernel's buffers were damaged": 3}})
        path.write_text(json.dumps(summary))
        for done in (self.plumb("view", self.trace).stderr, self.plumb("view", self.trace / "ust").stderr,
                     self.plumb("view", "--summary", self.trace).stdout):
            self.assertIn("The events of a user are missing.", done)
            self.assertIn("3 pages of the kernel's buffers were damaged", done)

    def test_of_several_traces_each_is_told(self):
        both = self.folder / "both"
        both.mkdir()
        for name in ("one", "two"):
            self.trace = both / name
            recorder = self.start()
            recorder.stdin.close()
            self.assertEqual(recorder.wait(timeout=60), 0)
        self.assertEqual(self.plumb("view", both).stderr, "")
        path = both / "one/summary.json"
        summary = json.loads(path.read_text())
        summary.update({"complete": False, "problems": ["The events of a user are missing."]})
        path.write_text(json.dumps(summary))
        for done in (self.plumb("view", both).stderr, self.plumb("view", "--summary", both).stdout):
            self.assertIn("one: The events of a user are missing.", done)
        path.write_text("{")
        self.assertIn("one/summary.json is no summary", self.plumb("view", both).stderr)
        path.unlink()
        told = self.plumb("view", both).stderr
        self.assertIn("one: the trace has no summary.json: its recorder was killed", told)
        self.assertNotIn("two", told)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_a_directory_of_another_user_is_not_replaced(self):
        self.trace.mkdir()
        os.chown(self.trace, 65534, 65534)
        done = self.plumb("record", "--force", "-o", self.trace, "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("belongs to user 65534", done.stderr)
        self.assertEqual(list(self.trace.iterdir()), [])

    def test_a_summary_goes_where_no_link_leads(self):
        precious = self.folder / "precious"
        precious.write_text("precious")
        recorder = self.start()
        (self.trace / ".summary.json.new").symlink_to(precious)
        recorder.stdin.close()
        self.assertEqual(recorder.wait(timeout=60), 0)
        self.assertEqual(precious.read_text(), "precious")
        self.assertIn("events", json.loads((self.trace / "summary.json").read_text()))
        self.assertFalse((self.trace / "summary.json").is_symlink())

    def test_a_link_that_leads_in_a_circle_is_no_part_of_a_trace(self):
        self.trace.mkdir()
        (self.trace / "summary.json").symlink_to("summary.json")
        done = self.plumb("record", "--force", "-o", self.trace, "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("summary.json is not part of a Plumb trace", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_directories_that_others_make_do_not_hold_up_a_recording(self):
        for number in range(100_000, 102_000):
            (SHM / f"plumb-{number}").mkdir(mode=0o700)
            self.addCleanup((SHM / f"plumb-{number}").rmdir)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(self.plumb("record", "-q", "-o", self.trace, "timeout", "9", "sleep", "0.5").returncode, 0)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertLess(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2)


if __name__ == "__main__":
    unittest.main()
