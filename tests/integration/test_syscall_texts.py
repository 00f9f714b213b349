#!/usr/bin/env python3
# cmake-timeout: 300
# cmake-once
# cmake-serial
"""File names and other strings at system calls: a real workload recorded beside strace, which sees the same calls of the
same threads; strings that are not in memory when the call begins, long ones, none; what is left of it afterwards."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests/support"))
from strace_calls import STRACE, VIEW, compare  # noqa: E402
from syscall_recording import PLUMB, TOLD, SyscallRecording, why_not  # noqa: E402
from traced_program import TracedProgramTest, compile_traced  # noqa: E402

# Each at a page of its own, of a file that was mapped just now: the page is not there before the kernel wants it.
PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
static char* fresh(const char* name) {
    int file = memfd_create("names", 0);
    if (write(file, name, strlen(name) + 1) < 0) abort();
    char* text = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (text == MAP_FAILED) abort();
    close(file);
    return text;
}
int main(int count, char** arguments) {
    char longest[4096], longer[384], too_long[5000];
    memset(longest, 'l', sizeof(longest));
    longest[4095] = 0;
    memset(longer, 'm', sizeof(longer));
    longer[383] = 0; /* as much as is read at once */
    open("/nowhere/plain \xff\n\"", O_RDONLY);
    open(longest, O_RDONLY);
    memset(too_long, 't', sizeof(too_long));
    too_long[4999] = 0;
    open(too_long, O_RDONLY);
    open(longer, O_RDONLY);
    open("", O_RDONLY);
    open((char*)16, O_RDONLY);
    syscall(SYS_utimensat, -1, NULL, NULL, 0); /* the C library asks for a name */
    open(fresh("/nowhere/late"), O_RDONLY);
    rename(fresh("/nowhere/from"), "/nowhere/to");
    rename("/nowhere/a", fresh("/nowhere/b"));
    open("/nowhere/end", O_RDONLY);
    if (count > 1) pause();
    return 0;
}
"""

# All but the last fail, since the file is no program; so what was not in memory then can be read where they return.
EXECUTES = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static const char* none;
static void* fresh(const void* what, size_t bytes) {
    int file = memfd_create("arguments", 0);
    if (write(file, what, bytes) < 0) abort();
    void* copy = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (copy == MAP_FAILED) abort();
    close(file);
    return copy;
}
static void execute(char** arguments) { syscall(SYS_execve, none, arguments, NULL); }
#define LIST(...) ((char*[]){__VA_ARGS__, NULL})
static void execute_many(int count, size_t bytes) {
    char* arguments[count + 1];
    for (int i = 0; i < count; i++) {
        arguments[i] = malloc(bytes + 1);
        memset(arguments[i], 'a' + i % 26, bytes);
        arguments[i][bytes] = 0;
    }
    arguments[count] = NULL;
    execute(arguments);
}
int main(int count, char** names) {
    none = names[count - 1];
    close(open(none, O_CREAT | O_WRONLY, 0700));
    execute(NULL);
    execute((char*[]){NULL});
    execute(LIST("ls", "-l"));
    execute(LIST("", "a \"b\" \\ \n\t\033\xff", "", "caf\xc3\xa9", "(not read)", "...", "]", ", "));
    execute((char**)16);
    execute(LIST("ls", (char*)16, "-l"));
    execute((char**)fresh(LIST("in", "a", "page"), 4 * sizeof(char*)));
    execute(LIST("ls", fresh("late", 5), "-l"));
    char** end = (char**)((char*)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 4096);
    munmap(end, 4096);
    end[-2] = "first", end[-1] = "last";
    execute(end - 2);
    int counts[] = {31, 32, 33, 200};
    for (int i = 0; i < 4; i++) execute_many(counts[i], 1);
    int lengths[] = {382, 383, 384, 4212, 4213, 10000};
    for (int i = 0; i < 6; i++) execute_many(2, lengths[i]);
    execute_many(40, 1000);
    syscall(SYS_execveat, AT_FDCWD, none, LIST("at", "-l"), NULL, 0);
    syscall(SYS_execve, "/bin/true", LIST("true", fresh("late", 5)), NULL);
    return 1;
}
"""

WORKLOAD = """
cat /etc/passwd /nowhere > out 2>&1
ls -lR /etc/init.d /usr/share/doc/bash > /dev/null 2>&1
mkdir folder && mv folder other && ln -s other link && readlink link > /dev/null && rm -r link other
cp /bin/true copied && chmod 600 copied && touch -d yesterday copied && test -x copied || rm copied
python3 -c 'import json, os, subprocess, threading
thread = threading.Thread(target=lambda: [os.stat("/"), os.path.exists("/nowhere/thread")])
thread.start(); thread.join()
subprocess.run(["true"])
try: os.chdir("/nowhere")
except OSError: pass'
sh -c 'exec echo "$@"' sh "" 'two words' '"' "back\\\\slash" "$(printf 'line\\n\\377')" $(seq 40) > /dev/null
sh -c 'exec echo "$@"' sh "$(printf '%05000d' 1)" behind > /dev/null
"""

LOSES = """
import os
for i in range(200000): os.access("/nowhere", 0)
"""


# A pointer that leads nowhere, of a call that is wanted; a page that is not in memory, of one that is not; and of one that is.
FILTERED = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static void open_fresh(const char* name, int directory) {
    int file = memfd_create("names", 0);
    if (write(file, name, strlen(name) + 1) < 0) abort();
    char* text = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    syscall(SYS_openat, directory, text, O_RDONLY, 0);
    munmap(text, 4096);
}
int main(void) {
    char name[32];
    for (int i = 0; i < 20; i++) {
        syscall(SYS_openat, 5000, (char*)8, O_RDONLY, 0);
        sprintf(name, "left-out-%d", i);
        open_fresh(name, 6000);
        sprintf(name, "wanted-%d", i);
        open_fresh(name, 5000);
    }
    return 0;
}
"""

EXEC_IN_THREAD = """
import os, threading, time
def begin():
    os.execv("/bin/true", ["true", "in a thread"])
thread = threading.Thread(target=begin)
thread.start()
thread.join()
time.sleep(60)
"""


class Texts(SyscallRecording, TracedProgramTest):
    PROGRAM = PROGRAM

    def test_what_a_filter_leaves_out_is_not_told_late_either(self):
        program = compile_traced(FILTERED, self.folder / "filtered")
        self.record("-k", "syscalls:sys_enter_openat if dfd == 5000", command=[program])
        told, seen = [], 0
        for event in self.view():
            if event["event"] == "syscall_late_text":
                told.append(event["fields"]["text"])
            else:
                seen += 1
        self.assertEqual(seen, 40)
        self.assertEqual([text for text in told if not text.startswith("wanted-")], [])
        self.assertGreater(len(told), 10)  # but where the thread was moved to another processor in the middle

    def test_exec_in_a_thread_is_one_call(self):
        """It comes back as the process's first thread, in whatever call that one was."""
        self.record("-k", "syscalls:*", command=["/usr/bin/python3", "-c", EXEC_IN_THREAD])
        shown = subprocess.run([PLUMB, "view", "--pairs", self.trace], capture_output=True, text=True, timeout=60, check=True).stdout
        [line] = [line for line in shown.splitlines() if '"in a thread"' in line]
        self.assertRegex(line, r" execve: .* -> { ret = 0 } after 0\.\d+$")
        self.assertNotIn("syscall_exit_execve", shown)

    def names_of_program(self, *arguments):
        """What it gives open() and rename(), as the entries of these calls have it, and behind it what was told late."""
        self.record("-k", "syscalls:*", *arguments, command=[self.program])
        names = []
        for event in self.view("-e", "syscall_entry_open*", "-e", "syscall_entry_rename", "-e", "syscall_entry_utimensat",
                               "-e", "syscall_late_text"):
            fields = event["fields"]
            if event["event"] == "syscall_late_text":
                names.append((fields["call"], fields["argument"], fields["text"]))
            else:
                names.append(tuple(fields[name] for name in ("filename", "oldname", "newname") if name in fields))
        return names[names.index(("/nowhere/plain \ufffd\n\"",)):] if "--no-file-names" not in arguments else names

    def test_whatever_a_pointer_leads_to(self):
        self.assertEqual(self.names_of_program(), [
            ("/nowhere/plain \ufffd\n\"",), ("l" * 4095,), ("t" * 4213 + "...",), ("m" * 383,), ("",),
            ("(not read)",), ("(null)",), ("(not read)",), ("openat", "filename", "/nowhere/late"),
            ("(not read)", "/nowhere/to"), ("rename", "oldname", "/nowhere/from"),
            ("/nowhere/a", "(not read)"), ("rename", "newname", "/nowhere/b"), ("/nowhere/end",)])

    @property
    def executes(self):
        program = self.folder / "executes"
        return [program if program.exists() else compile_traced(EXECUTES, program), "no-program"]

    def arguments_of_program(self):
        """What it gives execve() and execveat(), and behind it what was told late."""
        self.record("-k", "syscalls:execve*", command=self.executes)
        return [event["fields"].get("argv", event["fields"].get("text")) for event in self.view(
            "-e", "syscall_entry_execve*", "-e", "syscall_late_text")][1:]

    def test_whatever_arguments_a_program_is_given(self):
        def many(count, bytes_each, more=""):
            return "[" + ", ".join('"' + chr(ord("a") + i % 26) * bytes_each + '"' for i in range(count)) + more + "]"
        cut = f'["{"a" * 4213}"..., "{"b" * 4213}"...]'
        self.assertEqual(self.arguments_of_program(), [
            "(null)", "[]", '["ls", "-l"]',
            r'["", "a \"b\" \\ \n\t\x1b\xff", "", "café", "(not read)", "...", "]", ", "]',
            "(not read)", '["ls", (not read), "-l"]', '["ls", (not read), "-l"]',
            "(not read)", '["in", "a", "page"]', '["ls", (not read), "-l"]', '["ls", "late", "-l"]',
            '["first", "last", (not read), ...]', '["first", "last", (not read), ...]',
            many(31, 1), many(32, 1), many(32, 1, ", ..."), many(32, 1, ", ..."),
            many(2, 382), many(2, 383), many(2, 384), many(2, 4212), cut, cut,
            many(11, 1000, ", ..."), '["at", "-l"]', '["true", (not read)]'])

    def test_pairs_and_text_show_arguments_as_a_list(self):
        self.arguments_of_program()
        for options, late in (((), '(not read)'), (("--pairs",), '"late"')):
            lines = subprocess.run([PLUMB, "view", *options, self.trace], capture_output=True, text=True, check=True).stdout
            for expected in ('filename = "no-program", argv = "(null)", envp = 0x0 }', "argv = [], envp",
                             'argv = ["ls", "-l"], envp',
                             r'argv = ["", "a \"b\" \\ \n\t\x1b\xff", "", "café", "(not read)", "...", "]", ", "], envp',
                             f'argv = ["ls", {late}, "-l"], envp'):
                self.assertIn(expected, lines)

    def test_only_calls_that_are_recorded_are_read(self):
        self.record("-k", "syscalls:*", "-k", "!syscalls:rename", command=[self.program])
        texts = {event["fields"]["call"] for event in self.view("-e", "syscall_late_text")}
        self.assertEqual(texts, {"openat"})

    def test_what_the_kernel_lost_is_a_limit_as_texts_are_among_it(self):
        for options, start in (((), "up to "), (("--no-file-names",), "")):
            with self.subTest(options=options):
                shutil.rmtree(self.trace, ignore_errors=True)
                done = subprocess.run([PLUMB, "record", "-o", self.trace, "-k", "syscalls:*", "--kernel-buffer-size", "64K",
                                       *options, "--", sys.executable, "-c", LOSES], capture_output=True, text=True,
                                      timeout=120, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                summary = json.loads((self.trace / "summary.json").read_text())
                lost = summary["events_lost_by_cause"].get("kernel_dropped", 0)
                if lost == 0:
                    self.skipTest("the buffer was never full")
                self.assertEqual(summary["notes"], {"kernel_lost_with_texts": lost} if start else {})
                self.assertRegex(done.stderr, fr"\n  {start}{lost:,} events kernel_dropped" +
                                 (", among them strings of system calls " if start else " ") + r"\(")

    def test_addresses_where_names_are_not_wanted(self):
        names = self.names_of_program("--no-file-names")
        self.assertTrue(all(isinstance(part, int) for name in names for part in name), names)
        self.assertIn((16,), names)

    @unittest.skipUnless(shutil.which("setpriv"), "setpriv is not installed")
    def test_without_permission_one_line_says_so(self):
        done = subprocess.run(["setpriv", "--bounding-set=-sys_admin,-bpf,-perfmon", PLUMB, "record", "-q", "-o", self.trace,
                               "-k", "syscalls:openat", "--", self.program], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"^plumb: File names of system calls are not read, .*: Operation not permitted\.\n$")
        self.assertIn(16, [event["fields"]["filename"] for event in self.view("-e", "syscall_entry_openat")])

    def test_what_other_programs_print_stays_theirs(self):
        """Somebody who records what BPF programs print sees none of ours in the trace."""
        self.record("-k", "syscalls:openat", "-k", "bpf_trace:*", command=[self.program])
        self.assertEqual(self.view("-e", "bpf_trace*"), [])
        self.assertIn("/nowhere/end", [event["fields"].get("filename") for event in self.view("-e", "*openat")])

    def test_nothing_is_left(self):
        before = TOLD.read_text()
        recorder = subprocess.Popen([PLUMB, "record", "-q", "-o", self.trace, "-k", "syscalls:*", "--", "sh", "-c",
                                     f"kill -STOP $PPID; exec {self.program} waits"], start_new_session=True)
        self.addCleanup(recorder.wait)
        self.addCleanup(recorder.kill)
        while not self.attached(recorder.pid):
            self.assertIsNone(recorder.poll())
            time.sleep(0.05)
        while "stopped" not in Path(f"/proc/{recorder.pid}/status").read_text():
            time.sleep(0.05)
        while not any(line.read_text().startswith("34 ") for line in Path("/proc").glob("[0-9]*/syscall")
                      if self.is_program(line.parent)):
            time.sleep(0.05)  # until it is in pause()
        self.assertEqual(TOLD.read_text(), before)
        os.killpg(recorder.pid, signal.SIGKILL)
        recorder.wait(timeout=30)
        everywhere = [process.name for process in Path("/proc").iterdir() if process.name.isdecimal()
                      and process.name != str(recorder.pid) and self.attached(process.name)]
        self.assertEqual(everywhere, [])
        # What its buffers held has the names, too.
        self.trace = self.folder / "rest"
        done = subprocess.run([PLUMB, "extract", "-o", self.trace, str(recorder.pid)], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("/nowhere/end", [event["fields"].get("filename") for event in self.view("-e", "syscall_*_openat")])
        executed = [event["fields"]["argv"] for event in self.view("-e", "syscall_entry_execve")]
        self.assertIn(f'["{self.program}", "waits"]', executed)

    def is_program(self, process):
        try:
            return (process / "exe").readlink() == Path(self.program)
        except OSError:
            return False

    @staticmethod
    def attached(process_id):
        """Whether the process holds a BPF program of ours on system calls."""
        try:
            for info in Path(f"/proc/{process_id}/fdinfo").iterdir():
                if "raw-tracepoint" in (text := info.read_text()) or "tp_name:\tsys_enter" in text:
                    return True
        except OSError:
            pass
        return False

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_arguments_are_those_that_strace_tells(self):
        log = self.folder / "executed"
        self.record("-k", "syscalls:*", command=[*STRACE, "-s", "5000", "-o", log, *self.executes])
        with open(log) as lines:
            differences, compared = compare(lines, self.view(*VIEW))
        self.assertEqual(differences, [])
        self.assertGreater(compared["argv", "execve"], 20, compared)
        self.assertEqual(compared["argv", "execveat"], 1, compared)

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_as_strace_tells_it(self):
        compared = self.assert_as_strace_tells(WORKLOAD)
        self.assertGreater(len(compared), 50, compared)
        for what, least in ((("strings", "openat"), 100), (("openat", "flags"), 100)):
            self.assertGreaterEqual(compared[what], least, compared)

    def test_pairs_have_what_was_told_late(self):
        self.record("-k", "syscalls:*", command=[self.program])
        lines = subprocess.run([PLUMB, "view", "--pairs", self.trace], capture_output=True, text=True, check=True).stdout
        for expected in ('openat: .* { dfd = AT_FDCWD, filename = "/nowhere/late", flags = O_RDONLY, mode = 0 } -> '
                         r'{ ret = -2 \(ENOENT\) } after', 'rename: .* oldname = "/nowhere/from", newname = "/nowhere/to" }',
                         'rename: .* oldname = "/nowhere/a", newname = "/nowhere/b" }', r'openat: .*\(not read\).*EFAULT'):
            self.assertRegex(lines, expected)
        self.assertNotIn("syscall_late_text", lines)
        condition = ("--where", 'filename == "/nowhere/late" || ret == -2')
        asked = subprocess.run([PLUMB, "view", "--pairs", *condition, self.trace], capture_output=True, text=True, check=True).stdout
        self.assertRegex(asked, r'openat: .* filename = "/nowhere/late", .* -> { ret = -2 \(ENOENT\) } after')
        found = [event["event"] for event in self.view("--where", 'filename ~ "*/late"')]
        self.assertEqual(found, ["syscall_entry_openat"])


if __name__ == "__main__":
    if reason := why_not():
        print(f"cannot run: {reason}")
        sys.exit(77)
    unittest.main()
