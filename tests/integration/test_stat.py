#!/usr/bin/env python3
# cmake-own-rseq
"""plumb stat: what it counts is exactly what the programs did, by event and key, whatever they do meanwhile."""
import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from recorded_program import PLUMB, SHM  # noqa: E402
from traced_program import TracedProgramTest, compile_traced  # noqa: E402

CREATOR = 152  # in a channel's header: the process id of who made it
PATHS = ["/api/orders", "/api/users", "/"]
LONG = "/" + 150 * "x"


def child_of(process_id):
    """The process that it has started, as soon as that is there."""
    while True:
        for child in Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split():
            if Path(f"/proc/{child}/comm").read_text() in ("program\n", "sleep\n"):
                return int(child)
        time.sleep(0.01)


def creator_of(channel):
    """Who made it; 0: it is gone, another test's."""
    try:
        with channel.open("rb") as file:
            return struct.unpack_from("<I", file.read(4096), CREATOR)[0]
    except FileNotFoundError:
        return 0


def in_bucket(value):
    """As [from, to) of the histogram that it belongs to."""
    if value < 0:
        return (None, 0)
    return (0, 1) if value == 0 else (1 << (value.bit_length() - 1), 1 << value.bit_length())


OTHER_VERSION = r"""
#include <plumb/tracepoint.h>
#include <unistd.h>
PLUMB_EVENT(shop, order, (u64, id))
int main(void) {
    for (int i = 0; i < 100000; i++) {
        plumb_trace(shop, order, i);
        usleep(1000);
    }
}
"""


LIKE_EACH_OTHER = r"""
#include <math.h>
#include <plumb/tracepoint.h>
PLUMB_EVENT(shop, like, (enum, u8, kind, (0, "one"), (1, 9, "several")), (f64, ratio))
int main(void) {
    const double ratios[] = {NAN, INFINITY, -INFINITY, 0.5};
    for (int i = 0; i < 4; i++) plumb_trace(shop, like, i, ratios[i]);
}
"""


class Stat(TracedProgramTest):
    # program HOW COUNT: see main().
    PROGRAM = r"""
#define _GNU_SOURCE
#include <fenv.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <plumb/tracepoint.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
PLUMB_EVENT(shop, order, (string, path), (i32, change), (u32, id), (f64, price), (f32, share),
            (enum, u8, kind, (0, "new"), (1, "sent"), (7, "lost")), (text, note), (u64, wait_ns), (u16, flags))
PLUMB_EVENT(shop, tick, (u64, number))
PLUMB_EVENT(shop, by_handler, (u32, id))
PLUMB_EVENT(shop, hexed, (ptr, at), (x32, mask))
static const char* const paths[] = {"/api/orders", "/api/users", "/"};
static int count;
static void order(int i) {
    const int kinds[] = {0, 1, 7};
    plumb_trace(shop, order, paths[i % 3], i % 200 - 50, i, i * 0.25, (float)i * 0.5f, kinds[i % 2], "note", 4, (uint64_t)i * 3, i & 3);
}
static void* orders(void* unused) {
    for (int i = 0; i < count; i++) {
        order(i);
        plumb_trace(shop, tick, i);
    }
    return unused;
}
static void threads(int number) {
    pthread_t made[16];
    for (int i = 0; i < number; i++) pthread_create(&made[i], NULL, orders, NULL);
    for (int i = 0; i < number; i++) pthread_join(made[i], NULL);
}
static unsigned handled; /* by several threads at the same time */
static void handle(int number) { plumb_trace(shop, by_handler, __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED)); (void)number; }
/* What the test is told of a program that ends by a signal: how far it was. */
static volatile unsigned long* progress;
int main(int argc, char** argv) {
    const char* const how = argv[1];
    count = atoi(argv[2]);
    if (argc > 3) {
        FILE* file = fopen(argv[3], "r+");
        progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    }
    if (!strcmp(how, "threads")) threads(4);
    if (!strcmp(how, "forks")) {
        for (int i = 0; i < 5; i++) {
            const pid_t child = i == 4 ? _Fork() : fork();
            if (child == 0) { orders(NULL); _exit(0); }
        }
        orders(NULL);
        while (wait(NULL) > 0) {}
    }
    if (!strcmp(how, "vfork")) {
        for (int i = 0; i < count; i++) {
            plumb_trace(shop, tick, i);
            const pid_t child = vfork();
            if (child == 0) { plumb_trace(shop, tick, i); _exit(0); }
            waitpid(child, NULL, 0);
            plumb_trace(shop, tick, i);
        }
    }
    if (!strcmp(how, "exec")) {
        orders(NULL);
        execl(argv[0], argv[0], "threads", argv[2], NULL);
    }
    if (!strcmp(how, "signals")) {
        struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
        sigaction(SIGALRM, &action, NULL);
        const struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
        setitimer(ITIMER_REAL, &often, NULL);
        threads(4);
        setitimer(ITIMER_REAL, &never, NULL);
        printf("%u\n", handled);
    }
    if (!strcmp(how, "killed")) {
        for (unsigned long i = 0;; i++) {
            plumb_trace(shop, tick, 1);
            progress[0] = i + 1;
        }
    }
    if (!strcmp(how, "hexed")) plumb_trace(shop, hexed, (void*)0x7f1234567890, 0xff00);
    if (!strcmp(how, "long")) {
        char path[200] = "/";
        memset(path + 1, 'x', 150);
        for (int i = 0; i < count; i++) plumb_trace(shop, order, path, 0, 0, 0, 0, 0, "", 0, 0, 0);
    }
    if (!strcmp(how, "keys")) for (int i = 0; i < count; i++) order(i);
    if (!strcmp(how, "trapping")) {
        feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INEXACT);
        for (int i = 0; i < count; i++) order(i);
    }
    if (!strcmp(how, "flags")) {
        feclearexcept(FE_ALL_EXCEPT);
        plumb_trace(shop, order, "", 0, 0, 1e300, 1, 0, "", 0, 0, 0);
        plumb_trace(shop, order, "", 0, 0, 1, 1e-45f, 0, "", 0, 0, 0);
        return fetestexcept(FE_ALL_EXCEPT) != 0;
    }
    if (!strcmp(how, "slowly")) for (int i = 0; i < count; i++) { order(i); usleep(1000); }
    if (!strcmp(how, "held")) {
        struct sock_filter steps[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, 0}, {BPF_JMP | BPF_JEQ | BPF_K, 2, 0, SYS_gettid},
                                      {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, SYS_getpid},
                                      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
                                      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS}};
        struct sock_fprog filter = {5, steps};
        order(0);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != 0) return 1;
        orders(NULL);
        threads(3); /* new threads, which no channel knows */
    }
    return 0;
}
"""

    def stat(self, *options, words, json_too=True, timeout=100):
        done = subprocess.run([PLUMB, "stat", *(["--json"] if json_too else []), *options, "--", self.program, *map(str, words)],
                              capture_output=True, text=True, timeout=timeout, check=False)
        if not json_too:
            return done
        self.assertEqual(done.returncode, 0, f"{options} {words}: {done.stderr}")
        said, _, counted = done.stdout.rpartition("{\"version\"")
        self.said = said
        counted = json.loads("{\"version\"" + counted)
        self.assertEqual((counted["not_counted"], counted["damaged_slots"], counted["problems"], counted["unreachable"]),
                         (0, 0, [], []))
        return {event["event"].removeprefix("shop:"): event for event in counted["events"] if event["count"]}

    def counts(self, events):
        return {name: event["count"] for name, event in events.items()}

    def keys(self, event, what="count"):
        self.assertEqual(event["others"]["count"], 0)
        return {key.get("label", key["key"]): key[what] for key in event["keys"]}

    def test_threads(self):
        self.assertEqual(self.counts(self.stat(words=["threads", 50000])), {"order": 200000, "tick": 200000})

    def test_children(self):
        self.assertEqual(self.counts(self.stat(words=["forks", 20000])), {"order": 120000, "tick": 120000})
        self.assertEqual(self.counts(self.stat("-e", "shop:tick", words=["vfork", 300])), {"tick": 900})
        self.assertEqual(self.counts(self.stat(words=["exec", 20000])), {"order": 100000, "tick": 100000})
        for option in ("--by", "--sum"):
            event = self.stat(option, "number", "-e", "shop:tick", words=["vfork", 200])["tick"]
            self.assertEqual(event["count"], 600)
            if option == "--by":
                self.assertEqual(set(self.keys(event).values()), {3})

    def test_signal_handlers(self):
        for options in ([], ["--by", "id"], ["--by", "kind", "--hist", "wait_ns", "--sum", "price"]):
            events = self.stat(*options, "--keys", "30000", words=["signals", 20000])
            handled = int(self.said)
            self.assertGreater(handled, 5)
            self.assertEqual(self.counts(events), {"order": 80000, "tick": 80000, "by_handler": handled})
            if options == ["--by", "id"]:
                self.assertEqual(set(self.keys(events["order"]).values()), {4})

    def test_by_each_kind_of_field(self):
        n = 30000
        every = range(n)
        wanted = {"path": lambda i: PATHS[i % 3], "change": lambda i: i % 200 - 50, "kind": lambda i: ["new", "sent"][i % 2],
                  "note": lambda i: "note", "flags": lambda i: i & 3}
        for field, value in wanted.items():
            with self.subTest(field=field):
                expected = {}
                for i in every:
                    expected[value(i)] = expected.get(value(i), 0) + 4
                event = self.stat("--by", field, words=["threads", n])["order"]
                self.assertEqual(event["count"], 4 * n)
                self.assertEqual(self.keys(event), expected)
        event = self.stat("--by", "price", words=["keys", 100])["order"]
        self.assertEqual(self.keys(event), {i * 0.25: 1 for i in range(100)})
        event = self.stat("--by", "share", words=["keys", 100])["order"]
        self.assertEqual(self.keys(event), {i * 0.5: 1 for i in range(100)})

    def test_keys_are_told_apart(self):
        program = compile_traced(LIKE_EACH_OTHER, self.folder / "like")
        def counted(*options):
            return subprocess.run([PLUMB, "stat", *options, "--", program], capture_output=True, text=True, timeout=60, check=True)
        shown = counted("--by", "kind").stderr
        self.assertEqual(sorted(re.findall(r"  ((?:one|several).*)$", shown, re.M)), ["one", "several (1)", "several (2)", "several (3)"])
        keys = json.loads(counted("--by", "ratio", "--json").stdout)["events"][0]["keys"]
        self.assertEqual({key["key"] for key in keys}, {"NaN", "Infinity", "-Infinity", 0.5})

    def test_sums(self):
        n = 30000
        for field, value in {"change": lambda i: i % 200 - 50, "wait_ns": lambda i: 3 * i, "price": lambda i: i * 0.25,
                             "share": lambda i: i * 0.5, "kind": lambda i: i % 2}.items():
            with self.subTest(field=field):
                events = self.stat("--sum", field, words=["threads", n])
                self.assertEqual(events["order"]["sum"], 4 * sum(map(value, range(n))))
                self.assertEqual(events["order"]["sum_of"], field)
                self.assertNotIn("sum", events["tick"])
                by_path = self.stat("--sum", field, "--by", "path", words=["threads", n])["order"]
                self.assertEqual(self.keys(by_path, "sum"),
                                 {path: 4 * sum(value(i) for i in range(k, n, 3)) for k, path in enumerate(PATHS)})

    def test_histograms(self):
        n = 30000
        for options, field, value in (([], "change", lambda i: i % 200 - 50), (["--by", "kind"], "wait_ns", lambda i: 3 * i)):
            expected, sums = {}, {}
            for i in range(n):
                key = ("new", "sent")[i % 2] if options else None
                expected.setdefault(key, {}).setdefault(in_bucket(value(i)), 0)
                expected[key][in_bucket(value(i))] += 4
                sums[key] = sums.get(key, 0) + 4 * value(i)
            events = self.stat("--hist", field, *options, words=["threads", n])
            self.assertEqual(events["tick"]["count"], 4 * n)
            found = {key.get("label", key["key"]): {(b["from"], b["to"]): b["count"] for b in key["buckets"]}
                     for key in events["order"]["keys"]}
            self.assertEqual(found, expected)
            self.assertEqual(self.keys(events["order"], "sum"), sums)

    def test_more_keys_than_room(self):
        event = self.stat("--by", "id", "--sum", "wait_ns", "--keys", "100", words=["keys", 5000])["order"]
        self.assertEqual((event["count"], event["sum"]), (5000, sum(3 * i for i in range(5000))))
        self.assertGreaterEqual(len(event["keys"]), 100)
        self.assertGreater(event["others"]["count"], 4000)
        self.assertEqual(sum(key["count"] for key in event["keys"]) + event["others"]["count"], 5000)
        said = self.stat("--by", "id", "--keys", "100", words=["keys", 5000], json_too=False).stderr
        self.assertIn("(others, for which there was no room: --keys)", said)
        self.assertIn("further keys not shown: --top)", said)

    def test_long_texts_and_hexadecimal_ones(self):
        event = self.stat("--by", "path", words=["long", 10])["order"]
        self.assertEqual(event["keys"], [{"key": LONG[:112], "cut": True, "count": 10}])
        said = self.stat("--by", "path", words=["long", 10], json_too=False).stderr
        self.assertIn(LONG[:112] + "...\n", said)
        self.assertIn("  0x7f1234567890\n", self.stat("--by", "at", words=["hexed", 1], json_too=False).stderr)
        self.assertIn("  0xff00\n", self.stat("--by", "mask", words=["hexed", 1], json_too=False).stderr)

    def test_who_writes_it(self):
        self.assertEqual(self.keys(self.stat("--by", "comm", words=["forks", 100])["tick"]), {"program": 600})
        self.assertEqual(sorted(self.keys(self.stat("--by", "pid", words=["forks", 100])["tick"]).values()), 6 * [100])
        self.assertEqual(sorted(self.keys(self.stat("--by", "tid", words=["threads", 100])["tick"]).values()), 4 * [100])
        by_cpu = self.keys(self.stat("--by", "cpu", words=["threads", 100])["tick"])
        self.assertEqual(sum(by_cpu.values()), 400)
        self.assertLessEqual(set(by_cpu), set(range(os.cpu_count())))

    def test_floating_point_is_the_programs_own(self):
        for field in ("price", "share"):
            event = self.stat("--sum", field, words=["trapping", 1000])["order"]
            self.assertEqual(event["sum"], sum(range(1000)) * (0.25 if field == "price" else 0.5))
            self.stat("--sum", field, words=["flags", 0])

    def test_held_programs_count_on(self):
        """Also in threads that begin behind the filter, of which no record could be written."""
        for options in ([], ["--by", "kind", "--sum", "price"], ["--filter", "id >= 0 || number >= 0"]):
            self.assertEqual(self.counts(self.stat(*options, words=["held", 1000])), {"order": 4001, "tick": 4000})
        events = self.stat("--by", "comm", words=["held", 1000])
        self.assertEqual(self.keys(events["order"]), {"program": 1, None: 4000})  # and none as if it had found no room
        shown = self.stat("--by", "comm", words=["held", 1000], json_too=False).stderr
        self.assertRegex(shown, r"(?m)^ *4,000 .* \(without one\)$")
        self.assertNotIn("--keys", shown)

    def test_filters(self):
        events = self.stat("-e", "shop:order if id < 10", "-e", "shop:tick if number % 2 == 0", words=["threads", 1000])
        self.assertEqual(self.counts(events), {"order": 40, "tick": 2000})
        events = self.stat("--filter", "kind == \"sent\" || number >= 0", "--by", "kind", "--hist", "wait_ns",
                           words=["threads", 1000])
        self.assertEqual(self.counts(events), {"order": 2000, "tick": 4000})
        self.assertEqual(self.keys(events["order"]), {"sent": 2000})

    def test_a_killed_program_leaves_what_it_did(self):
        progress = self.folder / "progress"
        for i, options in enumerate(([], ["--sum", "number"], ["--by", "number", "--hist", "number"], []) * 3):
            progress.write_bytes(bytes(4096))
            with subprocess.Popen([PLUMB, "stat", "--json", *options, "--", self.program, "killed", "0", progress],
                                  stdout=subprocess.PIPE, text=True) as counting:
                while int.from_bytes(progress.read_bytes()[:8], "little") < 1000 * (i + 1):
                    time.sleep(0.01)
                os.kill(child_of(counting.pid), signal.SIGKILL)
                counted = json.loads(counting.communicate(timeout=60)[0])
            self.assertEqual(counting.returncode, -signal.SIGKILL)
            done = int.from_bytes(progress.read_bytes()[:8], "little")
            tick = next(event for event in counted["events"] if event["event"] == "shop:tick")
            self.assertIn(tick["count"] - done, (0, 1))
            self.assertEqual(tick.get("sum", tick["count"]), tick["count"])

    def test_beside_other_sessions(self):
        """A recording, one that counts by a filter, and a flight recorder: each has what it would have alone."""
        words = ["--", self.program, "threads", "20000"]
        trace, flight = self.folder / "beside", self.folder / "flight"
        counting = [PLUMB, "stat", "--json", "-o", self.folder / "counts", "-e", "shop:*", "--filter", "id % 10 == 0 || number >= 0",
                    "--by", "path"]
        done = subprocess.run([PLUMB, "record", "--mode", "block", "--block-timeout", "20s", "-o", trace, "--force", "-e", "shop:order",
                               "--", *counting, "--", PLUMB, "record", "--snapshot", "-o", flight, "-e", "shop:tick", "--force", *words],
                              capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        events = {event["event"]: event for event in json.loads((self.folder / "counts").read_text())["events"]}
        self.assertEqual(events["shop:order"]["count"], 8000)
        self.assertEqual(events["shop:tick"]["count"], 80000)
        self.assertEqual(sum(key["count"] for key in events["shop:order"]["keys"]), 8000)
        self.assertEqual(json.loads((trace / "summary.json").read_text())["events"], 80000)

    def test_attached_to_running_programs(self):
        with subprocess.Popen([self.program, "slowly", "100000"]) as program:
            try:
                time.sleep(0.2)
                done = subprocess.run([PLUMB, "stat", "--json", "--by", "path", "--duration", "500ms", "-p", str(program.pid)],
                                      capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                event = json.loads(done.stdout)["events"][0]
                self.assertGreater(event["count"], 10)
                self.assertEqual(sum(key["count"] for key in event["keys"]), event["count"])
                self.assertIsNone(program.poll())
            finally:
                program.kill()
        done = subprocess.run([PLUMB, "stat", "-p", str(os.getpid())], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no tracepoints", done.stderr)

    def test_shown_meanwhile(self):
        out = self.folder / "meanwhile"
        self.stat("--interval", "100ms", "-o", out, "--by", "path", words=["slowly", 400], json_too=False)
        lines = [json.loads(line) for line in out.read_text().splitlines()] if out.read_text().startswith("{") else None
        self.assertIsNone(lines)
        self.assertGreater(out.read_text().count("shop:order by path"), 3)
        done = subprocess.run([PLUMB, "stat", "--json", "--interval", "100ms", "-o", out, "--", self.program, "slowly", "400"],
                              timeout=60, check=True)
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        self.assertEqual(done.returncode, 0)
        self.assertEqual([line["final"] for line in lines], [False] * (len(lines) - 1) + [True])
        counts = [line["events"][0]["count"] for line in lines if line["events"]]
        self.assertEqual(counts, sorted(counts))
        self.assertEqual(counts[-1], 400)

    def test_drawn_on_a_narrow_terminal(self):
        """No line goes on in a second row, so that each drawing goes over the whole of the one before."""
        for columns, rows in ((80, 40), (20, 12), (200, 40)):
            ours, terminal = os.openpty()
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            with subprocess.Popen([self.program, "slowly", "100000"]) as program:
                try:
                    subprocess.run([PLUMB, "stat", "--hist", "wait_ns", "--by", "kind", "--interval", "200ms", "--duration", "900ms",
                                    "-p", str(program.pid)], stdout=terminal, stderr=terminal, timeout=60, check=True)
                finally:
                    program.kill()
            os.close(terminal)
            shown = b""
            with open(ours, "rb", buffering=0) as reader:
                try:
                    while part := reader.read(65536):
                        shown += part
                except OSError:
                    pass  # nobody has the terminal any more
            drawn = re.split(r"\x1b\[(\d+)A\x1b\[J", shown.decode().replace("\r", ""))
            self.assertGreater(len(drawn), 4, shown)
            for table, up in zip(drawn[0:-1:2], drawn[1::2]):
                self.assertEqual(table.count("\n"), int(up), table)
                self.assertLess(table.count("\n"), rows)
                self.assertLess(max(map(len, table.splitlines())), columns, table)
            self.assertEqual("@" * 52 in drawn[2], columns == 200)
            self.assertEqual("@" * 40 in drawn[2], columns >= 80)

    def test_two_versions_of_a_program(self):
        """Their events have one name and different fields: each has a rate of its own, and the fields tell them apart."""
        other = compile_traced(OTHER_VERSION, self.folder / "other")
        out = self.folder / "versions"
        for options in (["--json"], ["--by", "kind"]):
            with subprocess.Popen([self.program, "slowly", "100000"]) as one, subprocess.Popen([other]) as two:
                try:
                    time.sleep(0.2)
                    subprocess.run([PLUMB, "stat", *options, "-e", "shop:order", "--interval", "500ms", "--duration", "1.8s", "-o", out,
                                    "-p", str(one.pid), "-p", str(two.pid)], timeout=60, check=True)
                finally:
                    one.kill()
                    two.kill()
            if options == ["--json"]:
                for line in map(json.loads, out.read_text().splitlines()):
                    self.assertEqual(len(line["events"]), 2)
                    self.assertEqual(sum("note text" in event["fields"] for event in line["events"]), 1)
                    for event in line["events"]:
                        self.assertGreater(event["per_second"], 20, line)
            else:
                rates = re.findall(r"^ *[\d,]+ +([\d.,]+)  shop:order {.* }$", out.read_text(), re.M)
                self.assertGreaterEqual(len(rates), 6)
                for rate in rates:
                    self.assertGreater(float(rate.replace(",", "")), 20, out.read_text())

    def test_what_can_not_be(self):
        for options, status, text in (
                (["--by", "nosuch"], 1, "No event that was counted has a field nosuch (--by)"),
                (["--hist", "price", "-e", "shop:order"], 1, "price of shop:order is f64: --hist takes integers. --sum adds"),
                (["--sum", "path", "-e", "shop:order"], 1, "path of shop:order is string: --sum takes numbers. --by counts"),
                (["-e", "nosuch:*"], 1, "No event of "),
                (["-e", "shop:order if nosuch == 1"], 1, "shop:order was left out: the filter asks for nosuch, which it does not have."),
                (["-e", "shop:order", "--filter", "path == 1"], 1, "shop:order was left out: no filter can be true of it."),
                (["--interval", "1ms"], 2, "--interval 1ms is less than 10ms"),
                (["--keys", "0"], 2, "--keys"),
                (["--filter", "id >"], 2, "--filter"),
                (["--duration", "0"], 2, "nothing can be counted in no time"),
                (["-o", "/nosuch/file"], 1, "--output")):
            with self.subTest(options=options):
                done = self.stat(*options, words=["threads", 10], json_too=False)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(text, done.stderr)

    def test_the_status_is_the_commands(self):
        done = subprocess.run([PLUMB, "stat", "--", "sh", "-c", "exit 7"], capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 7)
        done = subprocess.run([PLUMB, "stat", "--", "/nosuch/program"], capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 127)

    def test_nothing_is_left_of_it(self):
        self.stat(words=["threads", 10])
        with subprocess.Popen([PLUMB, "stat", "--", "sleep", "100"]) as killed:
            child = child_of(killed.pid)
            channels = [path.name.removeprefix("channel-") for path in SHM.glob("channel-*") if creator_of(path) == killed.pid]
            killed.kill()
            killed.wait()
            os.kill(child, signal.SIGKILL)
        self.assertEqual(len(channels), 1)
        done = self.stat(words=["threads", 10], json_too=False)
        left = [path.name for path in SHM.iterdir() if path.name.endswith(channels[0])]
        self.assertEqual((left, done.returncode), ([], 0), done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
