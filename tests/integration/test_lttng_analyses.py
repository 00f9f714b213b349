#!/usr/bin/env python3
# cmake-timeout: 900
# cmake-once
# cmake-serial
"""lttnganalyses, made for traces of LTTng's kernel tracer, on those of Plumb: every tool ends without an error, and what it
says of a program is what that program did."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from kernel_events import leave_out_without_kernel_events  # noqa: E402

BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
TOOLS = ["cputop", "iolatencyfreq", "iolatencystats", "iolatencytop", "iolog", "irqfreq", "irqlog", "irqstats", "memtop",
         "schedfreq", "schedlog", "schedstats", "schedtop", "syscallstats"]
PERIOD_TOOLS = ["periodfreq", "periodlog", "periodstats", "periodtop"]
WRITES, READS, SYNCS, CALLS, PAGES, NAPS, CHILDREN = 100, 50, 3, 100, 500, 20, 5
# Of the whole machine, and the tools are slow: what they are asked for, and no more.
CALLED = ["openat", "close", "read", "write", "fsync", "getppid", "clock_nanosleep"]

# Sleeps first: the tools know whose a system call is when they have seen that thread come to its CPU.
PROGRAM = f"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static int worker, napper;
static void nap(void) {{ nanosleep(&(struct timespec){{0, 2000000}}, NULL); }}
static long long cpu_ns(void) {{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}}
static void* work(void* spent) {{
    worker = gettid();
    nap();
    while (cpu_ns() < 150000000) {{}}
    *(long long*)spent = cpu_ns();
    return NULL;
}}
static void* sleep_often(void* unused) {{
    napper = gettid();
    for (int i = 0; i < {NAPS}; i++) nap();
    return unused;
}}
static void use_a_file(const char* path) {{
    char bytes[10] = "";
    const int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < {WRITES}; i++) if (write(file, bytes, sizeof bytes) != sizeof bytes) abort();
    for (int i = 0; i < {SYNCS}; i++) fsync(file);
    lseek(file, 0, SEEK_SET);
    for (int i = 0; i < {READS}; i++) if (read(file, bytes, 7) != 7) abort();
    close(file);
}}
int main(int count, char** arguments) {{
    if (count < 2) return 2;
    nap();
    use_a_file(arguments[1]);
    for (int i = 0; i < {CALLS}; i++) syscall(SYS_getppid);
    char* memory = mmap(NULL, {PAGES} * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, {PAGES} * 4096, MADV_NOHUGEPAGE);
    for (int i = 0; i < {PAGES}; i++) memory[i * 4096] = 1;
    pthread_t threads[2];
    long long spent = 0;
    pthread_create(&threads[0], NULL, work, &spent);
    pthread_create(&threads[1], NULL, sleep_often, NULL);
    int children[{CHILDREN}];
    for (int i = 0; i < {CHILDREN}; i++) {{
        children[i] = fork();
        if (children[i] == 0) {{
            nap();
            for (int call = 0; call < {CALLS}; call++) syscall(SYS_getppid);
            _exit(0);
        }}
    }}
    for (int i = 0; i < {CHILDREN}; i++) waitpid(children[i], NULL, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("%d %d %d %lld", getpid(), worker, napper, spent);
    for (int i = 0; i < {CHILDREN}; i++) printf(" %d", children[i]);
    printf("\\n");
}}
"""


class Analyses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="plumb-analyses-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.program = cls.folder / "program"
        subprocess.run(["cc", "-O2", "-x", "c", "-", "-pthread", "-o", cls.program], input=PROGRAM, text=True, check=True)
        cls.all = cls.folder / "all"
        cls.main, cls.worker, cls.napper, cls.spent_ns, *cls.children = cls.record(
            cls.all, "--statedump-files", *cls.calls(CALLED), "-k", "kmem:mm_page_alloc")
        cls.leave_out_if_switches_are_missing()

    @classmethod
    def leave_out_if_switches_are_missing(cls):
        """Some kernel loses track of a processor's idle task: what it switches to is not told then, to no tracer."""
        text = subprocess.run(["babeltrace2", cls.all], capture_output=True, text=True, check=True).stdout
        for cpu in range(os.cpu_count()):
            to, back = (text.count(f'{which}_comm = "swapper/{cpu}"') for which in ("next", "prev"))
            if to > back + 1:
                raise unittest.SkipTest(f"the kernel tells {to} times that CPU {cpu} becomes idle, and {back} times that it ends")

    @staticmethod
    def calls(names):
        return [word for name in names for word in ("-k", f"syscalls:{name}")]

    @classmethod
    def record(cls, trace, *options):
        command = ["sh", "-c", f"{cls.program} {trace}.file > {trace}.truth"]
        names = ["sched:*", "!sched:sched_stat_*", "irq:irq_*", "block:block_rq_*"]
        events = [word for name in names for word in ("-k", name)]
        done = subprocess.run([PLUMB, "record", "-q", "--json", "-o", trace, "-a", "--kernel-buffer-size", "64M", *events,
                               *options, "--", *command], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        summary = json.loads(done.stdout)
        assert (summary["events_lost"], summary["problems"]) == (0, []), summary
        return [int(word) for word in Path(f"{trace}.truth").read_text().split()]

    def run_tool(self, tool, *options, trace=None, validated=False):
        done = subprocess.run([f"lttng-{tool}", *([] if validated else ["--skip-validation"]), *options, trace or self.all],
                              capture_output=True, text=True, timeout=200, check=False)
        if "'NoneType' object has no attribute 'filename'" in done.stdout + done.stderr:
            self.skipTest(f"lttng-{tool} ends at files of somebody else's, which were open before it began to look")
        self.assertEqual((done.returncode, done.stderr), (0, ""), f"{tool}: {done.stdout[-500:]}")
        self.assertNotRegex(done.stdout, "Traceback|Error:")
        return done.stdout

    def rows(self, tool, *options, trace=None):
        """{(table's class, its subtitle): rows} of what the tool writes for programs."""
        tables = {}
        for table in json.loads(self.run_tool(f"{tool}-mi", *options, trace=trace))["results"]:
            name = table["class"]
            tables.setdefault(name["inherit"] if isinstance(name, dict) else name, []).extend(table["data"])
        return tables

    @classmethod
    def forks(cls):
        """From each process that the program makes until the next one."""
        return f'forks : $evt.$name == "sched_process_fork" && $evt.parent_pid == {cls.main} && $evt.child_pid != {cls.main}'

    @staticmethod
    def by_thread(rows, process=0):
        return {row[process]["tid"]: row for row in rows if row[process].get("tid") is not None}

    def test_every_tool_ends_without_an_error(self):
        for tool in TOOLS:
            with self.subTest(tool=tool):
                self.assertIn("Timerange", self.run_tool(tool, "--no-progress", validated=tool == TOOLS[0]))
        for tool in PERIOD_TOOLS:
            with self.subTest(tool=tool):
                self.run_tool(tool, "--no-progress", "--period", self.forks())

    def test_all_streams_tell_of_the_whole_recording(self):
        """Unless told otherwise the tools look at the time that all streams have."""
        for reader in ("babeltrace", "babeltrace2"):
            whole, common = ([line for line in subprocess.run([reader, *options, self.all], capture_output=True, text=True,
                                                              check=True).stdout.splitlines()]
                             for options in ([], ["--stream-intersection"]))
            self.assertEqual(len(common), len(whole))
            self.assertEqual(common[-1], whole[-1])

    def test_cputop_knows_who_worked(self):
        rows = self.rows("cputop", "--limit", "1000")
        threads = self.by_thread(rows["per-process"])
        whole_ns = self.range_ns()
        worker, napper = threads[self.worker], threads[self.napper]
        self.assertEqual({worker[0]["name"], napper[0]["name"]}, {"program"})
        self.assertGreater(worker[-1]["value"] * whole_ns, self.spent_ns * 0.8)
        self.assertLess(worker[-1]["value"] * whole_ns, self.spent_ns * 2)  # a virtual CPU may stand still meanwhile
        self.assertLess(napper[-1]["value"], worker[-1]["value"] / 4)

    def range_ns(self):
        (table, *_), = [json.loads(self.run_tool("cputop-mi"))["results"]]
        return table["time-range"]["end"]["value"] - table["time-range"]["begin"]["value"]

    def test_syscallstats_counts_calls(self):
        tables = json.loads(self.run_tool("syscallstats-mi"))["results"]
        totals = self.by_thread(next(table["data"] for table in tables if table["class"] == "total"))
        self.assertLessEqual({self.main, self.worker, self.napper, *self.children}, totals.keys())
        calls = {}
        for table in tables:
            name = table["class"]
            of_thread = isinstance(name, dict) and re.search(r"\((\d+), TID: (\d+)\)|TID: (\d+)", json.dumps(name))
            if of_thread:
                thread = int(of_thread[2] or of_thread[3])
                calls[thread] = ({row[0]["name"]: row[1]["value"] for row in table["data"]}, of_thread[1])
        main, process = calls[self.main]
        self.assertEqual({name: main[name] for name in ("write", "fsync", "getppid")},
                         {"write": WRITES + 1, "fsync": SYNCS, "getppid": CALLS})
        self.assertEqual(process, str(self.main))
        for child in self.children:
            self.assertEqual((calls[child][0]["getppid"], calls[child][1]), (CALLS, str(child)))
        for thread in (self.worker, self.napper):  # whose process a fork told
            self.assertEqual(calls[thread][1], str(self.main))
        self.assertEqual(calls[self.napper][0]["clock_nanosleep"], NAPS)

    def test_iolog_has_each_operation(self):
        rows = self.rows("iolog")["log"]
        ours = [(row[3]["name"], row[4] and row[4].get("value")) for row in rows if row[5].get("tid") == self.main]
        self.assertEqual((ours.count(("write", 10)), ours.count(("read", 7))), (WRITES, READS))
        self.assertEqual(sum(name == "fsync" for name, _ in ours), SYNCS)

    def test_memtop_counts_pages(self):
        pages = self.by_thread(self.rows("memtop", "--limit", "1000")["allocd"])
        self.assertGreaterEqual(pages[self.main][1]["value"], PAGES)
        self.assertLess(pages[self.main][1]["value"], PAGES * 2)

    def test_schedlog_has_each_wakeup(self):
        rows = self.rows("schedlog")["log"]
        woken = [row for row in rows if row[5]["tid"] == self.napper]
        self.assertGreaterEqual(len(woken), NAPS)
        self.assertTrue(all(row[5]["name"] == "program" for row in woken))

    def test_irqstats_counts_interrupts(self):
        text = subprocess.run(["babeltrace2", self.all], capture_output=True, text=True, check=True).stdout
        recorded = len(re.findall(r" irq_handler_exit: ", text))
        counted = sum(row[1]["value"] for row in self.rows("irqstats").get("hard-stats", []))
        self.assertAlmostEqual(counted, recorded, delta=2)  # those at the very beginning and end

    def test_periods_compute_with_the_processes_of_forks(self):
        table = self.run_tool("periodlog", "--no-progress", "--period", self.forks())
        self.assertEqual(len(re.findall(r"^\[.* forks", table, re.M)), CHILDREN - 1)

    def test_iousagetop_knows_how_much_was_written(self):
        """It wants names of files as text, where a system call is given one."""
        trace, main = self.all, self.main
        metadata = Path(self.all, "kernel/metadata").read_text()
        if not re.search(r'name = "syscall_entry_openat".*?string _filename;.*?\n}', metadata, re.S):
            trace = self.folder / "without-names"
            main, *_ = self.record(trace, *self.calls(name for name in CALLED if name != "openat"))
        self.assertIn("Per-process I/O Read", self.run_tool("iousagetop", "--no-progress", trace=trace))
        rows = self.rows("iousagetop", "--limit", "1000", trace=trace)["per-process-top"]
        sizes = {row[1]["value"] for row in rows if row[0].get("tid") == main}
        self.assertIn(WRITES * 10 + len(Path(f"{trace}.truth").read_bytes()), sizes)
        self.assertTrue(any(READS * 7 <= size < READS * 7 + 5000 for size in sizes), sizes)  # and what the loader reads


if __name__ == "__main__":
    for needed in ("lttng-cputop", "babeltrace", "babeltrace2"):
        if shutil.which(needed) is None:
            print(f"skipped: {needed} is not installed")
            sys.exit(77)
    leave_out_without_kernel_events(PLUMB)
    unittest.main()
