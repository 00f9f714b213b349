#!/usr/bin/env python3
# cmake-timeout: 300
"""Programs whose seccomp filter ends them for a system call that tracing makes are left alone, and named."""
import json
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import traced_program  # noqa: E402

PLUMB = traced_program.BUILD / "cli" / "plumb"
# What the runtime calls of its own accord, and a program that goes on tracing need not.
CALLS = ["openat", "membarrier", "futex", "munmap", "mmap", "prctl", "gettid", "readlinkat", "process_vm_readv"]


class Seccomp(traced_program.TracedProgramTest):
    # Commands, a line each: filter NUMBER... (ends the process for these calls; a negative one is only refused), trace,
    # thread, fork, exit. Each is answered.
    PROGRAM = r"""
    #include <plumb/tracepoint.h>
    #include <linux/filter.h>
    #include <linux/seccomp.h>
    #include <pthread.h>
    #include <stddef.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    #include <sys/wait.h>
    #include <unistd.h>
    PLUMB_EVENT(guarded, tick, (u64, count))
    static void install(char* numbers) {
        struct sock_filter code[64] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
        unsigned short used = 1;
        for (char* word = strtok(numbers, " \n"); word; word = strtok(NULL, " \n")) {
            int number = atoi(word);
            code[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, abs(number), 0, 1);
            code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, number < 0 ? SECCOMP_RET_ERRNO | 1
                                                                                    : SECCOMP_RET_KILL_PROCESS);
        }
        code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        struct sock_fprog program = {used, code};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) exit(3);
    }
    static void trace(void) {
        for (unsigned long i = 0; i < 10000; i++) plumb_trace(guarded, tick, i);
    }
    static volatile int go; /* made before the filter, since that may forbid to make a thread */
    static void* run(void* unused) {
        while (!go) usleep(1000);
        trace();
        go = 2;
        for (;;) pause();
        return unused;
    }
    int main(void) {
        pthread_t thread;
        char line[256];
        pthread_create(&thread, NULL, run, NULL);
        while (puts("done"), fflush(stdout), read(0, memset(line, 0, sizeof(line)), sizeof(line) - 1) > 0) {
            if (!strncmp(line, "filter ", 7)) install(line + 7);
            if (!strncmp(line, "trace", 5)) trace();
            if (!strncmp(line, "thread", 6)) for (go = 1; go != 2;) usleep(1000);
            if (!strncmp(line, "fork", 4)) {
                int status = 0;
                pid_t child = fork();
                if (child == 0) { trace(); _exit(0); }
                waitpid(child, &status, 0);
                if (status) exit(4);
            }
            if (!strncmp(line, "exit", 4)) exit(0);
        }
    }
    """

    def start(self):
        program = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        self.addCleanup(program.stdin.close)
        self.addCleanup(program.stdout.close)
        self.assertEqual(program.stdout.readline(), "done\n")
        return program

    def ask(self, program, command):
        program.stdin.write(command + "\n")
        program.stdin.flush()
        self.assertEqual(program.stdout.readline(), "done\n", f"{command}: it ended with {program.poll()}")

    def end(self, program):
        program.stdin.write("exit\n")
        program.stdin.flush()
        self.assertEqual(program.wait(timeout=30), 0)

    def filter_of(self, calls, sign=1):
        numbers = subprocess.run(["cc", "-E", "-P", "-x", "c", "-"], check=True, capture_output=True, text=True,
                                 input="#include <sys/syscall.h>\nNUMBERS " + " ".join(f"__NR_{c}" for c in calls)).stdout
        return "filter " + " ".join(str(sign * int(n)) for n in numbers.split("NUMBERS")[1].split())

    def record(self, program, *options, seconds="0.5"):
        return subprocess.Popen([PLUMB, "record", "-p", str(program.pid), "--duration", seconds, *options,
                                 "--subbuf-size", "4K", "-o", self.trace],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def summary(self):
        return json.loads((self.trace / "summary.json").read_text())

    def test_one_that_has_a_filter_is_left_alone_and_named(self):
        program = self.start()
        self.ask(program, self.filter_of(CALLS))
        recorder = self.record(program)
        errors = recorder.communicate(timeout=60)[1]
        self.assertIn("has a seccomp filter", errors)
        self.assertIn("seccomp", self.summary()["unreachable"][0]["reason"])
        self.ask(program, "trace")
        self.end(program)

    def test_one_that_installs_a_filter_while_it_is_recorded_lives_on(self):
        for mode in ("discard", "block"):
            with self.subTest(mode=mode):
                self.trace = self.folder / f"while-{mode}"
                program = self.start()
                recorder = self.record(program, "--mode", mode, seconds="6")
                started = time.monotonic()
                while time.monotonic() - started < 1:
                    self.ask(program, "trace")
                    time.sleep(0.02)
                self.ask(program, self.filter_of(CALLS))
                time.sleep(2.5)  # the recorder looks now and then
                self.assertIsNone(recorder.poll())
                for command in ("trace", "thread", "fork", "trace"):
                    self.ask(program, command)
                recorder.communicate(timeout=60)
                self.ask(program, "trace")
                self.assertGreater(self.summary()["events"], 0)
                self.end(program)

    def test_one_whose_filter_only_refuses_can_be_insisted_on(self):
        program = self.start()
        self.ask(program, self.filter_of(["process_vm_readv"], -1))
        recorder = self.record(program, "--seccomp", seconds="2")
        while recorder.poll() is None:
            self.ask(program, "trace")
            time.sleep(0.05)
        errors = recorder.communicate(timeout=60)[1]
        self.assertEqual(recorder.returncode, 0, errors)
        self.assertGreater(self.summary()["events"], 0)
        self.end(program)


if __name__ == "__main__":
    unittest.main()
