#!/usr/bin/env python3
# cmake-once
"""A recording that is sent over a line, and received on the other side: the same events, exactly; over a line that changes
and loses bytes: whole packets of them, as many fewer as the noise has hit, and everybody says what is missing. Nobody who does
not read holds up the recorder, or the program."""
import os
import pathlib
import pty
import random
import shutil
import struct
import subprocess
import sys
import threading
import time
import tty
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB, RecordedProgramTest, leave_out_if_sanitized, read_back  # noqa: E402

MAGIC = b"\x89PlB"
HEADER = struct.Struct("<4sIIIB3xI")
PACKET, PART, END = 1, 3, 4
SMALL = ["--subbuf-size", "16K", "--subbuf-count", "64"]


def frames_in(line):
    """(begin, end, type) of each; an independent reader of what consumerd/line/frame.h describes."""
    found = []
    at = 0
    while at < len(line):
        magic, _, number, size, kind, _ = HEADER.unpack_from(line, at)
        assert magic == MAGIC and number == len(found), (at, magic, number)
        end = at + HEADER.size + size + 4
        found.append((at, end, kind))
        at = end
    return found


def crc32c_of_byte(value):
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value


CRC32C = [crc32c_of_byte(value) for value in range(256)]


def crc32c(content):
    check = 0xFFFFFFFF
    for byte in content:
        check = check >> 8 ^ CRC32C[(check ^ byte) & 0xFF]
    return check ^ 0xFFFFFFFF


def frame(recording, number, kind, name, content):
    payload = bytes([len(name)]) + name + content
    header = struct.pack("<4sIIIB3x", MAGIC, recording, number, len(payload), kind)
    return header + struct.pack("<I", crc32c(header)) + payload + struct.pack("<I", crc32c(payload))


def file_frames(recording, name, content, first=0):
    """A whole file, as a sender sends it."""
    parts = range(0, len(content), 1024)
    return b"".join(frame(recording, first + i, PART, name, struct.pack("<III", 1, len(content), at) +
                          content[at:at + 1024]) for i, at in enumerate(parts))


class SerialLine(RecordedProgramTest):
    PROGRAM = r"""
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char** argv) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    for (long i = 0; i < atol(argv[1]); i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        if (i % 1000 == 999) usleep(1000);
    }
    return 0;
}
"""

    def sent(self, count):
        """What a recorder puts on a line that takes everything."""
        line = self.directory / "line"
        line.touch()
        self.assertEqual(self.record("--to", f"serial:{line}", "--preload", "pthread", *SMALL, "--", self.program, count), 0,
                         self.errors)
        return line.read_bytes()

    def receive(self, line, name, status=0):
        """The trace of these bytes, and what was said."""
        file = self.directory / f"{name}.line"
        file.write_bytes(line)
        trace = self.directory / name
        done = subprocess.run([PLUMB, "receive", file, "-o", trace], capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return trace, done.stderr

    def test_everything_arrives_over_a_terminal(self):
        master, slave = pty.openpty()
        received = bytearray()

        def carry():
            try:
                while some := os.read(master, 4096):
                    received.extend(some)
            except OSError:  # nobody has it open any more
                return
        carrier = threading.Thread(target=carry)
        carrier.start()
        status = self.record("--to", f"serial:{os.ttyname(slave)}:921600", "--preload", "pthread", *SMALL, "--", self.program,
                             3000)
        os.close(slave)
        carrier.join()
        os.close(master)
        self.assertEqual(status, 0, self.errors)
        trace, said = self.receive(bytes(received), "received")
        counts, discarded, complaints = read_back(trace)
        events = {name: count for name, count in counts.items() if name.startswith("pthread:")}
        self.assertEqual((events, discarded, complaints),
                         ({"pthread:mutex_acquired": 3000, "pthread:mutex_released": 3000}, 0, ""))
        self.assertEqual(counts["plumb_statedump:process"], 1)
        self.assertNotIn("Lost", said)
        self.assertTrue((trace / "summary.json").exists())
        shown = subprocess.run([PLUMB, "view", trace], capture_output=True, text=True, check=False)
        self.assertEqual((shown.returncode, shown.stderr, shown.stdout.count("\n")), (0, "", 6000))
        self.assertIn("The trace was sent to serial:", self.errors)
        self.assertFalse(list(self.trace.glob("ust/ring_*")), "the directory holds what describes the trace alone")
        shown = subprocess.run([PLUMB, "view", self.trace], capture_output=True, text=True, check=False)
        self.assertIn("the trace is where `plumb receive` has put it", shown.stderr)

    def test_noise_costs_the_packets_that_it_hits(self):
        clean = self.sent(30_000)
        whole, _ = self.receive(clean, "whole")
        all_events = read_back(whole)[0]["pthread:mutex_acquired"]
        self.assertEqual(all_events, 30_000)
        for seed in range(4):
            chance = random.Random(seed)
            noisy, hit = bytearray(), {PACKET: 0, PART: 0, END: 0, 2: 0}
            for begin, end, kind in frames_in(clean):
                frame = bytearray(clean[begin:end])
                hits = [at for at in range(len(frame)) if chance.random() < 0.00005]
                hit[kind] += bool(hits)
                for at in reversed(hits):
                    if chance.random() < 0.5:
                        frame[at] ^= 1 << chance.randrange(8)
                    else:
                        del frame[at]
                noisy += frame
            trace, said = self.receive(bytes(noisy), f"noisy{seed}", status=1)
            packets = sum(kind == PACKET for _, _, kind in frames_in(clean)) - hit[PACKET]
            self.assertIn(f"Received {packets:,} packets", said)
            self.assertIn(f"Lost: {sum(hit.values()):,} frame", said)
            self.assertIn(f"On the line: Lost: {sum(hit.values()):,} frame", (trace / "summary.json").read_text())
            self.assertGreater(hit[PACKET], 5)
            shown = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, timeout=200, check=False)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertRegex(shown.stderr, "Tracer discarded [0-9]+ packets?")
            events = shown.stdout.count("pthread:mutex_acquired: ")
            self.assertTrue(0.5 * all_events < events < all_events, events)
            own = subprocess.run([PLUMB, "view", "--statedump", trace], capture_output=True, text=True, timeout=200, check=False)
            self.assertEqual(own.stdout.count("\n"), len(shown.stdout.splitlines()))

    def test_what_is_not_a_recording(self):
        for name, line in (("nothing", b""), ("noise", random.Random(5).randbytes(1 << 20))):
            trace, said = self.receive(line, name, status=1)
            self.assertIn("Nothing came over", said)
            self.assertFalse(trace.exists())

    def test_a_summary_that_is_no_recorders(self):
        """Whatever it would take to read it: more of the stack than there is, or gigabytes."""
        for name, summary in (("deep", b"[" * 300_000), ("deep_object", b'{"problems":' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
                              ("wide", b'{"problems":[' + b"0," * 2_200_000 + b"0]}")):
            trace, said = self.receive(file_frames(7, b"summary.json", summary), name, status=1)
            self.assertIn("The end did not arrive", said)
            self.assertIn("what the line has lost is not noted in the summary", said)
            self.assertEqual((trace / "summary.json").read_bytes(), summary)
        _, said = self.receive(file_frames(7, b"summary.json", b'{"problems":{"[": "]"}}'), "small", status=1)
        self.assertNotIn("is not noted", said)

    def test_a_sender_that_is_killed(self):
        clean = self.sent(5000)
        trace, said = self.receive(clean[:len(clean) // 2], "half", status=1)
        self.assertIn("The end did not arrive", said)
        shown = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertGreater(shown.stdout.count("pthread:mutex_acquired: "), 1000)

    def test_nobody_who_reads_holds_nothing_up(self):
        master, slave = pty.openpty()
        tty.setraw(slave)
        self.addCleanup(os.close, master)
        self.addCleanup(os.close, slave)
        begin = time.monotonic()
        status = self.record("--to", f"serial:{os.ttyname(slave)}", "--preload", "pthread", *SMALL, "--", self.program, 20_000)
        self.assertEqual(status, 1)
        self.assertLess(time.monotonic() - begin, 60)
        self.assertIn("takes nothing: does anybody read on the other side?", self.errors)
        summary = self.summary()
        self.assertEqual(summary["exit_status"], 0)
        self.assertGreater(summary["events_lost_by_cause"]["not_written"], 10_000)

    def test_a_pause_of_the_line_loses_nothing(self):
        """In the middle of a frame, longer than the receiver waits before it looks for another one."""
        clean = self.sent(2000)
        fifo, trace = self.directory / "fifo", self.directory / "paused"
        os.mkfifo(fifo)
        with subprocess.Popen([PLUMB, "receive", fifo, "-o", trace], stderr=subprocess.PIPE, text=True) as receiver:
            with open(fifo, "wb", buffering=0) as line:
                half = len(clean) // 2
                line.write(clean[:half])
                time.sleep(5)
                line.write(clean[half:])
            said = receiver.communicate(timeout=60)[1]
        self.assertEqual((receiver.returncode, "Damaged" in said), (0, False), said)
        self.assertEqual(read_back(trace)[0]["pthread:mutex_acquired"], 2000)

    def test_a_slow_line_can_be_ended(self):
        """While metadata is sent before anything else, and while the rest is at the end: seconds, not minutes."""
        for count, seconds in ((10, 0.5), (20_000, 4)):
            master, slave = pty.openpty()
            over = threading.Event()

            def read_slowly(master=master, over=over):
                while not over.is_set():
                    time.sleep(0.1)
                    os.set_blocking(master, False)
                    try:
                        os.read(master, 100)
                    except OSError:
                        pass
            reader = threading.Thread(target=read_slowly)
            reader.start()
            recorder = self.start("--force", "--to", f"serial:{os.ttyname(slave)}", "--preload", "pthread", *SMALL, "--",
                                  self.program, count)
            time.sleep(seconds)
            begin = time.monotonic()
            while recorder.poll() is None and time.monotonic() - begin < 40:
                recorder.terminate()
                time.sleep(1.5)
            took = time.monotonic() - begin
            recorder.kill()
            _, errors = recorder.communicate(timeout=60)
            over.set()
            reader.join()
            os.close(slave)
            os.close(master)
            self.assertLess(took, 30, errors)
            shutil.rmtree(self.trace, ignore_errors=True)

    def test_wrong_words(self):
        full = self.directory / "full"
        full.write_text("something")
        for words, status, said in ((["serial:/dev/nosuch"], 1, "Could not open /dev/nosuch: No such file"),
                                    (["/dev/ttyS1"], 2, "Give it as serial:/dev/ttyS1"),
                                    (["serial:/dev/ttyS1:77"], 2, '"77" is no speed of a line'),
                                    ([f"serial:{full}"], 1, "There is something in"),
                                    (["serial:x", "--snapshot"], 2, "--snapshot drains nothing")):
            self.assertEqual(self.record("--to", *words, "--", "true"), status)
            self.assertIn(said, self.errors)
            self.assertFalse(self.trace.exists())
        for line, status, said in (("/dev/ttyS1:77", 2, "is no speed"), ("", 2, "names no line"),
                                   ("/dev/nosuch", 1, "Could not open /dev/nosuch")):
            done = subprocess.run([PLUMB, "receive", line, "-o", self.trace], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertFalse(self.trace.exists())


if __name__ == "__main__":
    leave_out_if_sanitized()
    shutil.which("babeltrace2") or sys.exit("babeltrace2 is missing: run tools/setup")
    unittest.main()
