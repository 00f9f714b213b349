#!/usr/bin/env python3
# cmake-once
# cmake-timeout: 300
"""plumb record --filter: what it leaves in a trace is what `plumb view --where` shows of everything; for programs that are
launched and attached to, with and without restartable sequences, for several recordings at once; and what can not be is said."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

CONDITIONS = [
    "id > 990",
    'id >= 500 && path ~ "/api/*"',
    'path == "/static/3" || delta < -990',
    'status == "sent" && price > 100.25',
    "status != \"sent\" && status != \"new\"",
    "ports[2] & 0xff == 7 || ports[0] % 50 == 49",
    "weight == 12.3",
    'note !~ "no*" || !(id < 998)',
    'event == "shop:start" && number / 2 * 2 == number',
    'comm == "program" && cpu >= 0 && id < 3',
    "big > 18446744073709550000 && id << 3 == 7992",
    "text_of_marker == \"odd\" && of_marker > 900",
    "1",
    "id",
    "vtid == tid && id == 6",
    "id / (id - id) == 1 || number == 17",
]


class Filter(TracedProgramTest):
    # program COUNT [wait]: traces so many of each; with "wait" when a line comes, as often as lines come.
    PROGRAM = r"""
#include <plumb/marker.h>
#include <plumb/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
PLUMB_EVENT(shop, order, (u32, id), (string, path), (f64, price), (enum, u8, status, (0, "new"), (1, "sent")),
    (sequence, u16, ports), (i64, delta), (f32, weight), (text, note), (u64, big))
PLUMB_EVENT(shop, start, (u32, number))
static void trace(int count) {
    for (int i = 0; i < count; i++) {
        uint16_t ports[3] = {(uint16_t)(i % 100), 80, (uint16_t)i};
        char path[32];
        const char* note = i % 50 ? "note" : "other";
        snprintf(path, sizeof(path), i % 3 ? "/api/v%d" : "/static/%d", i % 7);
        plumb_trace(shop, order, i, path, i * 0.5, i % 4, ports, i % 4, -i, i * 0.1f, note, strlen(note), ~0ull - i);
        plumb_trace(shop, start, i);
        plumb_mark(shop, mark, "of_marker %d text_of_marker %s", i, i % 2 ? "odd" : "even");
    }
}
int main(int argc, char** argv) {
    char line[80];
    if (argc < 3) trace(atoi(argv[1]));
    while (argc > 2 && fgets(line, sizeof(line), stdin)) {
        trace(atoi(argv[1]));
        puts("done");
        fflush(stdout);
    }
    return 0;
}
"""
    COUNT = 1000

    def record(self, *options, trace=None, environment=None, command=None):
        """What it said; the status is in `returncode`."""
        return subprocess.run([PLUMB, "record", "-o", trace or self.trace, "--force", *options, "--",
                               *(command or [self.program, str(self.COUNT)])],
                              capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, **(environment or {})})

    def lines(self, trace, *options):
        """Without what differs from one run to the next."""
        done = subprocess.run([PLUMB, "view", trace, "--json", *options], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        return [(event["event"], json.dumps(event["fields"])) for event in events]

    def compare(self, conditions, *options, environment=None):
        whole = self.folder / "whole"
        self.record(*options, trace=whole, environment=environment)
        self.assertEqual(len(self.lines(whole)), 3 * self.COUNT)
        for condition in conditions:
            with self.subTest(condition=condition, options=options):
                done = self.record("--filter", condition, *options, environment=environment)
                self.assertEqual(done.returncode, 0, done.stderr)
                expected = self.lines(whole, "--where", condition)
                self.assertEqual(self.lines(self.trace), expected)
                self.assertTrue(expected, "nothing is compared")
                self.assertIn("Nothing was lost", done.stderr)

    def test_leaves_what_view_shows(self):
        self.compare(CONDITIONS)

    def test_without_sequences(self):
        self.compare(CONDITIONS[:9:2], environment={"PLUMB_RSEQ": "none"})

    def test_with_another_clock_and_mode(self):
        self.compare(CONDITIONS[:10:3], "--clock", "mono", "--mode", "block")

    def test_of_each_pattern(self):
        done = self.record("-e", "shop:order if id == 7 || id == 8", "-e", 'shop:mark if text_of_marker == "odd" && of_marker < 4',
                           "-e", "shop:start", "-e", "!shop:nothing", "--filter", "id != 8 || number < 2 || of_marker >= 0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([fields for _, fields in self.lines(self.trace, "-e", "shop:start")],
                         ['{"number": 0}', '{"number": 1}'])
        self.assertEqual([json.loads(fields)["id"] for _, fields in self.lines(self.trace, "-e", "shop:order")], [7])
        self.assertEqual([json.loads(fields)["of_marker"] for _, fields in self.lines(self.trace, "-e", "shop:mark")], [1, 3])

    def test_of_one_event_by_two_patterns(self):
        self.record("-e", "shop:order if id == 3", "-e", "shop:ord* if id == 5")
        self.assertEqual([json.loads(fields)["id"] for _, fields in self.lines(self.trace)], [3, 5])
        self.record("-e", "shop:order if id == 3", "-e", "shop:ord*")
        self.assertEqual(len(self.lines(self.trace)), self.COUNT)

    def test_of_programs_that_run(self):
        """Two recordings with contrary filters, while one without sees all."""
        with subprocess.Popen([self.program, str(self.COUNT), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as program:
            recorders = []
            for name, options in (("low", ["--filter", "id < 100"]), ("high", ["--filter", "id >= 100"]), ("all", [])):
                trace = self.folder / f"attached-{name}"
                recorders.append((trace, subprocess.Popen(
                    [PLUMB, "record", "-o", trace, "--force", "-e", "shop:order", *options, "-p", str(program.pid)],
                    stderr=subprocess.PIPE, text=True)))
                listed = []
                while len(listed) < len(recorders):
                    listed = json.loads(subprocess.run([PLUMB, "list", "--json"], capture_output=True, text=True,
                                                       check=True).stdout)["sessions"]
            until = time.monotonic() + 60
            while time.monotonic() < until:
                shown = json.loads(subprocess.run([PLUMB, "list", "--json"], capture_output=True, text=True, check=True).stdout)
                if sum(bool(session["patterns"]) for session in shown["sessions"]) == len(recorders):
                    break
            time.sleep(0.5)  # what the program has been asked for by the last one, it has done
            shown = subprocess.run([PLUMB, "list"], capture_output=True, text=True, check=True).stdout
            self.assertEqual(shown.count("shop:order if ..."), 2, shown)
            self.trace_once(program)
            self.trace_once(program)
            counts = []
            for trace, recorder in recorders:
                recorder.send_signal(signal.SIGINT)
                said = recorder.communicate(timeout=30)[1]
                self.assertEqual(recorder.returncode, 0, said)
                counts.append(len(self.lines(trace)))
            self.trace_once(program)
            program.stdin.close()
        self.assertEqual(program.returncode, 0)
        complete = counts[2] // self.COUNT
        self.assertGreaterEqual(complete, 1)
        self.assertEqual(counts, [100 * complete, (self.COUNT - 100) * complete, self.COUNT * complete])

    @staticmethod
    def trace_once(program):
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.stdout.readline() == "done\n"

    def test_says_what_makes_no_sense(self):
        for options, said in (
                (["--filter", "id >"], "--filter: something is missing here:\n    id >\n        ^"),
                (["-e", "shop:order if id = 3"], "-e shop:order: there is no operation here: == is one"),
                (["-e", "shop:order if "], "The condition is empty"),
                (["-e", "shop:order if"], "The condition is empty"),
                (["--filter", "id", "--filter", "id >"], "--filter: something is missing here"),
                (["--filter", "\"a\" == 1"], "they can not be compared"),
                (["--filter", "path ~ \"[a\""], "this is not a pattern"),
                (["-e", "!shop:order if id == 3"], "leaves events out, all of them, and has no filter"),
                (["--filter", 'path == "' + 300 * "a" + '"'], "a text in a filter has at most 255 bytes"),
                (["--filter", " && ".join(f'path != "{i}{200 * "a"}"' for i in range(20))], "The filter is too long"),
                (["--filter", "a.b == 1"], "fields of programs' events have no parts")):
            with self.subTest(options=options):
                done = self.record(*options)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(said, done.stderr)
                self.assertFalse(self.trace.exists())

    def test_says_what_is_known_of_fields(self):
        """A command may load more events: of those in its file it is said, and what was left out in the end."""
        done = self.record("-e", "shop:order", "--filter", "idd == 3")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("no event that is recorded has a field idd, but some have id:\n    idd == 3\n    ^", done.stderr)
        self.assertIn("shop:order was left out: the filter asks for idd, which it does not have.", done.stderr)
        summary = json.loads((self.trace / "summary.json").read_text())
        self.assertEqual(summary["left_out_by_filter"], [{"event": "shop:order", "missing_fields": ["idd"]}])
        done = self.record("-e", "shop:order", "--filter", "id == 5000")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("No thread came by what was on with an event that fulfils its filter: shop:order", done.stderr)

    def test_refuses_what_a_running_program_can_not_mean(self):
        with subprocess.Popen([self.program, "1", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
            self.trace_once(program)
            done = subprocess.run([PLUMB, "record", "-o", self.trace, "-p", str(program.pid), "--filter", "path > 3"],
                                  capture_output=True, text=True, timeout=30, check=False)
            program.stdin.close()
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("path is a text, and 3 is a number: they can not be compared:\n    path > 3\n         ^", done.stderr)
        self.assertFalse(self.trace.exists())

    def test_has_room_for_so_many(self):
        patterns = [word for i in range(33) for word in ("-e", f"shop:order if id == {i}")]
        done = self.record(*patterns)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("33 different filters are asked for, and 32 are possible", done.stderr)
        done = self.record(*patterns[:64])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([json.loads(fields)["id"] for _, fields in self.lines(self.trace)], list(range(32)))

    def test_is_of_programs(self):
        done = subprocess.run([PLUMB, "record", "-o", self.trace, "-a", "-k", "sched:*", "--filter", "id == 3"],
                              capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("The kernel has filters of its own: -k 'EVENT if FILTER'", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
