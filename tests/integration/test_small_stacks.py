#!/usr/bin/env python3
# cmake-once
"""Alternate signal stacks of MINSIGSTKSZ, on which no frame of a signal fits where the processor's registers take more: programs
that have one and never get a signal there are recorded, and go on."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["PLUMB_SOURCE_DIR"]) / "tests/support"))
from traced_program import TracedProgramTest, compile_traced  # noqa: E402

PLUMB = pathlib.Path(os.environ["PLUMB_BUILD_DIR"]).resolve() / "cli/plumb"


class SmallStacks(TracedProgramTest):
    # Gets itself such a stack as it is told, and traces once for each line.
    PROGRAM = """
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
PLUMB_EVENT(small, step, (i32, number))
static char stack[2048];
static int own;
static void on_urgent(int number) { (void)number; own++; }
static void use_small_stack(void) {
    const stack_t small = {.ss_sp = stack, .ss_size = sizeof(stack)};
    if (sigaltstack(&small, NULL) != 0) abort();
}
__attribute__((constructor(101))) static void early(void) {
    if (getenv("EARLY") != NULL) use_small_stack();
}
static void* work(void* how) {
    char line[64];
    if (strcmp(how, "late") == 0) use_small_stack();
    puts("there");
    fflush(stdout);
    for (int i = 0; fgets(line, sizeof(line), stdin); i++) {
        plumb_trace(small, step, i);
        puts("done");
        fflush(stdout);
    }
    struct sigaction now;
    sigaction(SIGURG, NULL, &now);
    stack_t there;
    sigaltstack(NULL, &there);
    const int is_ours = strcmp(how, "handler") == 0 && now.sa_handler != on_urgent;
    exit(is_ours ? 3 : there.ss_sp == stack || strcmp(how, "handler") == 0 ? 0 : 2);
}
int main(int count, char** arguments) {
    char* how = count > 1 ? arguments[1] : "";
    pthread_t thread;
    if (strcmp(how, "handler") == 0) {
        signal(SIGURG, on_urgent);
        use_small_stack();
    }
    if (strcmp(how, "late") != 0) work(how);
    sigset_t all; /* the signal can only go to the thread with the stack */
    pthread_create(&thread, NULL, work, how);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_join(thread, NULL);
}
"""

    def start(self, *command, **environment):
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def check(self, *how, program=None, **environment):
        process = self.start(program or self.program, *how, **environment)
        self.assertEqual(process.stdout.readline(), "there\n")
        recorder = self.start(PLUMB, "record", "-o", self.trace, "-p", process.pid, "--duration", "1s")
        said = recorder.communicate(timeout=60)[1]
        self.assertIsNone(process.poll(), f"it ended with {process.poll()}: {said}")
        self.trace = self.folder / f"{self.trace.name}-again"
        recorder = self.start(PLUMB, "record", "-o", self.trace, "-p", process.pid)
        while not list(self.trace.glob("ust/*ring_*")) and process.poll() is None and recorder.poll() is None:
            process.stdin.write("\n")
            process.stdin.flush()
            process.stdout.readline()
        process.communicate(timeout=60)
        said = recorder.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 0, said)
        self.assertGreater(json.loads((self.trace / "summary.json").read_text())["events"], 0, said)

    def test_in_a_thread_that_has_begun_since(self):
        self.check("late")

    def test_before_the_runtime(self):
        self.check(EARLY="1")

    def test_in_a_static_program(self):
        program = compile_traced(self.PROGRAM, self.folder / "static-program", "-static")
        self.check("late", program=program)

    def test_a_handler_of_the_programs_own_is_left(self):
        process = self.start(self.program, "handler")
        self.assertEqual(process.stdout.readline(), "there\n")
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)


class ForkedChild(TracedProgramTest):
    # A recorded program, and its child that it has not heard of: each says how much the update signal took of an alternate stack.
    PROGRAM = """
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
PLUMB_EVENT(forked, step, (i32, number))
static unsigned char room[65536];
static size_t used_of_room(void) {
    size_t lowest = 0;
    while (lowest < sizeof(room) && room[lowest] == 0xa5) lowest++;
    return sizeof(room) - lowest;
}
int main(void) {
    while (!plumb_enabled(forked, step)) usleep(10000);
    plumb_trace(forked, step, 1);
    memset(room, 0xa5, sizeof(room));
    const pid_t child = _Fork();
    if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    const stack_t stack = {.ss_sp = room + sizeof(room) - 24000, .ss_size = 24000};
    if (sigaltstack(&stack, NULL) != 0) return 1;
    if (child != 0) puts("ready"), fflush(stdout);
    for (int i = 0; i < 3000 && used_of_room() == 0; i++) usleep(10000);
    usleep(300000); /* until the handler has returned, and others have come */
    printf("%s %zu\\n", child == 0 ? "child" : "parent", used_of_room());
    fflush(stdout);
    if (child != 0) waitpid(child, NULL, 0);
    _exit(0);
}
"""

    def test_it_takes_hardly_more_than_its_parent(self):
        with subprocess.Popen([self.program], stdout=subprocess.PIPE, text=True) as program:
            self.addCleanup(program.kill)
            recorders = [self.record(0)]
            self.assertEqual(program.stdout.readline(), "ready\n")
            recorders.append(self.record(1))
            used = dict(program.stdout.readline().split() for _ in range(2))
        for recorder in recorders:
            recorder.send_signal(signal.SIGINT)
            recorder.wait(timeout=60)
        self.assertGreater(int(used["child"]), 0)
        self.assertLess(int(used["child"]), int(used["parent"]) + 200)

    def record(self, number):
        recorder = subprocess.Popen([PLUMB, "record", "-q", "--exe", self.program, "-o", f"{self.trace}-{number}"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(recorder.wait)
        self.addCleanup(recorder.kill)
        return recorder


class CallStacksOnSmallOnes(TracedProgramTest):
    """In a handler on 8 KB, of which its frame takes 3 where registers are wide. Behind it there is nothing."""
    PROGRAM = """
#define _GNU_SOURCE
#include <plumb/tracepoint.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
PLUMB_EVENT(small, step, (i32, number), (string, text))
static int number;
static void on_user(int signal) { (void)signal; plumb_trace(small, step, number++, "on a small stack"); }
int main(int count, char** arguments) {
    const size_t bytes = (size_t)atoi(arguments[count - 1]), guard = 65536;
    char* room = mmap(NULL, guard + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(room, guard, PROT_NONE);
    const stack_t stack = {.ss_sp = room + guard, .ss_size = bytes};
    if (sigaltstack(&stack, NULL) != 0) return 1;
    struct sigaction action = {.sa_handler = on_user, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 100; i++) raise(SIGUSR1);
    return 0;
}
"""

    def ends_at(self, stack_bytes):
        done = subprocess.run([PLUMB, "record", "-q", "--force", "--context", "callstack", "-o", self.trace, "--", self.program, str(stack_bytes)],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), stack_bytes)
        shown = subprocess.run([PLUMB, "view", "--json", "-e", "small:*", self.trace], capture_output=True, text=True, check=True)
        events = [json.loads(line) for line in shown.stdout.splitlines()]
        self.assertEqual([event["fields"]["number"] for event in events], list(range(100)))
        return {event["event_context"]["callstack_user_end"]["label"] for event in events}

    def test_they_are_walked_where_there_is_room(self):
        for stack_bytes in (5632, 6656, 7680, 8192, 9216, 12288):
            self.assertLessEqual(self.ends_at(stack_bytes), {"unable", "whole"})
        self.assertEqual(self.ends_at(65536), {"whole"})


if __name__ == "__main__":
    unittest.main()
