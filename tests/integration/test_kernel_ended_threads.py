#!/usr/bin/env python3
# cmake-timeout: 120
# cmake-once
# cmake-serial
"""A process whose threads begin and end all the time is attached to: no number of a thread that has ended stays among those that the kernel
records, or a stranger that gets it next would be recorded under the name of that process; and those that live are recorded, whoever
made them, as threads of that process."""
import collections
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["PLUMB_SOURCE_DIR"])
BUILD = Path(os.environ["PLUMB_BUILD_DIR"]).resolve()
PLUMB = BUILD / "cli/plumb"
sys.path.insert(0, str(SOURCE / "tests/support"))
from kernel_events import TRACEFS, leave_out_without_kernel_events  # noqa: E402
from traced_program import TracedProgramTest  # noqa: E402

PATIENCE_S = 30
ATTACHED = 4
RECORD = [PLUMB, "record", "-q", "-k", "syscalls:getppid", "--duration", "300ms", "--force", "-o"]


class KernelEndedThreads(TracedProgramTest):
    PROGRAM = r"""
#include <pthread.h>
#include <unistd.h>
static void* nothing(void* argument) { return argument; }
static void* loop(void* argument) {
    for (;;) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, nothing, NULL) == 0) pthread_join(thread, NULL);
    }
    return argument;
}
int main(void) {
    for (int i = 0; i < 8; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, loop, NULL);
    }
    for (;;) pause();
}
"""

    def list_of(self, recorder):
        """The numbers that the kernel records, once it does."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            for instance in Path(f"{TRACEFS}/instances").glob("plumb*"):
                numbers = (instance / "set_event_pid").read_text().split()
                if str(self.server.pid) in numbers and (instance / "tracing_on").read_text() == "1\n":
                    return instance
            self.assertIsNone(recorder.poll())
            time.sleep(0.01)
        return self.fail("nothing is recorded")

    def test_no_number_of_an_ended_thread_stays_in_the_list(self):
        self.server = subprocess.Popen([self.program])
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.kill)
        time.sleep(0.2)
        for number in range(ATTACHED):
            recorder = subprocess.Popen([PLUMB, "record", "-q", "-o", f"{self.trace}-{number}", "-p", str(self.server.pid), "-k",
                                         "syscalls:getppid", "--duration", "1s"])
            try:
                instance = self.list_of(recorder)
                os.kill(self.server.pid, signal.SIGSTOP)
                time.sleep(0.1)
                listed = set((instance / "set_event_pid").read_text().split())
                threads = set(os.listdir(f"/proc/{self.server.pid}/task"))
            finally:
                os.kill(self.server.pid, signal.SIGCONT)
                recorder.wait()
            self.assertEqual(recorder.returncode, 0)
            self.assertLessEqual(threads, listed)
            self.assertEqual({each for each in listed - threads if int(each) < 4194304}, set())


# /proc shows nothing of a thread that has just ended, nor of those behind it: here so often that nobody has to wait for it.
CUT_SHORT = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <string.h>
static DIR* cut;
static int shown;
DIR* opendir(const char* path) {
    static unsigned count;
    DIR* (*next)(const char*) = (DIR * (*)(const char*)) dlsym(RTLD_NEXT, "opendir");
    DIR* directory = next(path);
    const char* last = strrchr(path, '/');
    cut = NULL;
    if (last != NULL && strcmp(last, "/task") == 0 && ++count % 4 == 0) cut = directory;
    shown = 0;
    return directory;
}
struct dirent* readdir(DIR* directory) {
    struct dirent* (*next)(DIR*) = (struct dirent * (*)(DIR*)) dlsym(RTLD_NEXT, "readdir");
    struct dirent* entry = next(directory);
    return directory == cut && entry != NULL && entry->d_name[0] != '.' && shown++ != 0 ? NULL : entry;
}
"""


class KernelRelayedThreads(TracedProgramTest):
    """Each thread makes the next one and ends."""
    PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static pthread_attr_t detached;
static void* go_on(void* argument) {
    pthread_t next;
    syscall(SYS_getppid);
    usleep(200);
    if (pthread_create(&next, &detached, go_on, NULL) != 0) abort();
    return argument;
}
int main(void) {
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    go_on(NULL);
    pthread_exit(NULL);
}
"""
    ATTACHED = 3

    def setUp(self):
        super().setUp()
        self.relay = subprocess.Popen([self.program])
        self.addCleanup(self.relay.wait)
        self.addCleanup(self.relay.kill)
        time.sleep(0.2)

    def record(self, *options, **environment):
        """How many calls each process made."""
        subprocess.run([*RECORD, self.trace, *options], env={**os.environ, **environment}, check=True)
        return self.calls_in(self.trace)

    @staticmethod
    def calls_in(trace):
        shown = subprocess.run([PLUMB, "view", "--json", trace], capture_output=True, text=True, check=True).stdout
        events = [json.loads(line) for line in shown.splitlines()]
        return collections.Counter(event.get("pid") for event in events
                                   if event["event"] == "syscall_entry_getppid" and event.get("comm") == "program")

    def test_of_a_process_are_recorded(self):
        for _ in range(self.ATTACHED):
            calls = self.record("-p", str(self.relay.pid))
            self.assertEqual(list(calls), [self.relay.pid])
            self.assertGreater(calls[self.relay.pid], 20)

    def test_of_a_process_are_recorded_where_proc_shows_the_first_one_alone(self):
        cut_short = self.folder / "cut_short.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", cut_short, "-ldl"], input=CUT_SHORT, text=True, check=True)
        calls = self.record("-p", str(self.relay.pid), LD_PRELOAD=str(cut_short))
        self.assertEqual(list(calls), [self.relay.pid])
        self.assertGreater(calls[self.relay.pid], 20)

    def test_of_everybody_are_of_their_process(self):
        for _ in range(self.ATTACHED):
            calls = self.record("-a")
            self.assertEqual(list(calls), [self.relay.pid])


class KernelExecByAThread(TracedProgramTest):
    """Of a process whose first thread has ended: who calls exec() goes on with that one's number."""
    PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static char* name;
static void* run(void* argument) {
    getchar();
    execl(name, name, "again", (char*)0);
    return argument;
}
int main(int count, char** arguments) {
    name = arguments[0];
    if (count == 1) {
        pthread_t thread;
        pthread_create(&thread, NULL, run, NULL);
        pthread_exit(NULL);
    }
    for (int i = 0; i < 100; i++) syscall(SYS_getsid, 0);
    if (fork() == 0) {
        for (int i = 0; i < 50; i++) syscall(SYS_getpgid, 0);
        _exit(0);
    }
    wait(NULL);
}
"""

    def wait_for(self, recorder):
        """Until it records."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and recorder.poll() is None:
            for instance in Path(f"{TRACEFS}/instances").glob(f"plumb_r{recorder.pid}_*"):
                if "getsid" in (instance / "set_event").read_text() and (instance / "tracing_on").read_text() == "1\n":
                    return
            time.sleep(0.01)
        self.fail("nothing is recorded")

    def exec_is_recorded(self, *options):
        with subprocess.Popen([self.program], stdin=subprocess.PIPE) as program:
            time.sleep(0.1)
            options = [each.format(program=program.pid) for each in options]
            with subprocess.Popen([PLUMB, "record", "-q", "--json", "-o", self.trace, "-k", "syscalls:getsid", "-k", "syscalls:getpgid",
                                   *options], stdout=subprocess.PIPE, text=True) as recorder:
                self.wait_for(recorder)
                program.communicate(b"\n")
                if "--exe" in options:
                    recorder.send_signal(signal.SIGINT)
                summary = json.loads(recorder.communicate()[0])
        self.assertEqual(program.returncode, 0)
        counts = summary["events_by_name"]
        self.assertEqual((counts.get("syscall_entry_getsid"), counts.get("syscall_entry_getpgid")), (100, 50))

    def test_of_a_process(self):
        self.exec_is_recorded("-p", "{program}")

    def test_of_an_executable(self):
        self.exec_is_recorded("--exe", str(self.program))


if __name__ == "__main__":
    leave_out_without_kernel_events(PLUMB)
    unittest.main()
