"""A C program that forbids itself system calls or the cycle counter, and traces, as it is told; and tests that record it."""
import json
import os
import signal
import subprocess

import traced_program

PLUMB = traced_program.BUILD / "cli" / "plumb"
# What the runtime calls of its own accord, and a program that goes on tracing need not.
CALLS = ["openat", "membarrier", "futex", "munmap", "mmap", "prctl", "gettid", "getpid", "readlinkat", "process_vm_readv",
         "kill", "tkill", "tgkill", "madvise", "nanosleep", "sched_yield", "newfstatat", "fstat", "close", "clock_gettime",
         "getuid", "geteuid", "sigaltstack"]
# And what the C library's fork() needs, too.
ALL_CALLS = [*CALLS, "rt_sigprocmask", "rt_sigaction"]
TRAPPED_CALLS = [*ALL_CALLS, "rseq", "fallocate", "ftruncate", "prlimit64", "mkdirat", "getppid", "mprotect"]
EVENTS = 10000  # of each command that traces


class GuardedProgramTest(traced_program.TracedProgramTest):
    # Commands, a line each; each is answered.
    #   filter HOW NUMBER...   ends the process for these calls; negative: is refused. HOW: prctl; syscall; tsync, for all
    #                          threads; raw, without a function of the C library; raw-all, likewise for all; child: in a child, which then ends
    #   answer HOW NUMBER...   a filter for all threads traps these calls, and a handler makes them in their place, as the
    #                          broker of a sandbox does. HOW: plain; a size: on an alternate stack of so many bytes;
    #                          unheard: what it blocks and unblocks of signals comes to nothing
    #   count, told            from here on the handler traces, too; no more, and how often it did
    #   refused                filters that the kernel does not take
    #   strict, notsc          forbids all but a few calls, reading the cycle counter
    #   trace, thread, fork    EVENTS events, of the first thread, of another one, of a child
    #   storm, calm            two threads trace all the time
    #   wait                   until the event is on
    #   exit
    PROGRAM = r"""
    #define _GNU_SOURCE
    #include <plumb/tracepoint.h>
    #include <errno.h>
    #include <linux/filter.h>
    #include <linux/seccomp.h>
    #include <pthread.h>
    #include <signal.h>
    #include <stddef.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    #include <sys/wait.h>
    #include <ucontext.h>
    #include <unistd.h>
    PLUMB_EVENT(guarded, tick, (u64, count))
    PLUMB_EVENT(guarded, trap, (u64, number))
    static long raw(long number, long a, long b, void* c) {
        __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
        return number;
    }
    static void install(const char* how, char* numbers) {
        struct sock_filter code[160] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
        unsigned short used = 1;
        for (char* word = strtok(numbers, " \n"); word; word = strtok(NULL, " \n")) {
            int number = atoi(word);
            code[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, abs(number), 0, 1);
            code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, number < 0 ? SECCOMP_RET_ERRNO | 1
                                                                                    : SECCOMP_RET_KILL_PROCESS);
        }
        code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        struct sock_fprog program = {used, code};
        errno = 77;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) exit(3);
        long done = !strcmp(how, "prctl") || !strcmp(how, "child") ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
            : !strcmp(how, "syscall") ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)
            : !strcmp(how, "tsync") ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)
            : raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, strcmp(how, "raw-all") ? 0 : SECCOMP_FILTER_FLAG_TSYNC, &program);
        if (done || errno != 77) _exit(5);
    }
    static void be_refused(void) {
        struct sock_filter code = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        struct sock_fprog too_short = {0, &code};
        errno = 0;
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &too_short) != -1 || errno != EINVAL) exit(6);
        errno = 0;
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) != -1 || errno != EFAULT) exit(7);
        errno = 0;
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &too_short) != -1 || errno != EINVAL) exit(8);
        errno = 0;
        if (syscall(SYS_seccomp, 99, 0, NULL) != -1 || errno != EINVAL) exit(9);
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) != -1 || errno != EINVAL) exit(9); // libseccomp does
    }
    __asm__(".text\ngate: mov %rdi, %rax\nmov %rsi, %rdi\nmov %rdx, %rsi\nmov %rcx, %rdx\nmov %r8, %r10\nmov %r9, %r8\n"
            "mov 8(%rsp), %r9\nsyscall\ngate_end: ret\n");
    long gate(long number, long a, long b, long c, long d, long e, long f);
    extern char gate_end[];
    static volatile int counting, unheard;
    static unsigned long *told; /* and the signals that are none; of children, too */
    static __thread int depth;
    static long be_asked_for_mask(ucontext_t* context, long how, unsigned long* set, unsigned long* old) {
        unsigned long before;
        memcpy(&before, &context->uc_sigmask, 8);
        unsigned long after = set ? *set : before; /* `set` and `old` may be one */
        if (old) *old = before;
        if (!set || unheard) return 0;
        if (how == SIG_BLOCK) after |= before;
        if (how == SIG_UNBLOCK) after = before & ~after;
        memcpy(&context->uc_sigmask, &after, 8);
        return 0;
    }
    static long be_asked_for_stack(ucontext_t* context, stack_t* set, stack_t* old) {
        if (old) *old = context->uc_stack;
        char* at = (char*)context->uc_mcontext.gregs[REG_RSP];
        if (old && at >= (char*)old->ss_sp && at < (char*)old->ss_sp + old->ss_size) old->ss_flags |= SS_ONSTACK;
        if (set) context->uc_stack = *set;
        return 0;
    }
    static void answer(int number, siginfo_t* info, void* with) {
        ucontext_t* context = with;
        greg_t* r = context->uc_mcontext.gregs;
        int saved = errno;
        (void)number;
        if (info->si_code != 1) __atomic_fetch_add(&told[1], 1, __ATOMIC_SEQ_CST);
        if (info->si_code != 1) return;
        if (info->si_syscall == SYS_rt_sigprocmask)
            r[REG_RAX] = be_asked_for_mask(context, r[REG_RDI], (void*)r[REG_RSI], (void*)r[REG_RDX]);
        else if (info->si_syscall == SYS_sigaltstack)
            r[REG_RAX] = be_asked_for_stack(context, (void*)r[REG_RDI], (void*)r[REG_RSI]);
        else
            r[REG_RAX] = gate(info->si_syscall, r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]);
        if (counting && depth++ == 0) {
            plumb_trace(guarded, trap, (unsigned long)info->si_syscall);
            __atomic_fetch_add(told, 1, __ATOMIC_SEQ_CST);
        }
        if (counting) depth--;
        errno = saved;
    }
    static void answer_calls(const char* how, char* numbers) {
        int bytes = atoi(how);
        stack_t stack = {malloc(bytes + 1), 0, bytes};
        struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER | (bytes ? SA_ONSTACK : 0)};
        if (bytes && sigaltstack(&stack, NULL)) exit(12);
        unheard = !strcmp(how, "unheard");
        told = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        sigaction(SIGSYS, &action, NULL);
        unsigned long end = (unsigned long)gate_end;
        struct sock_filter code[160] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)end, 0, 3),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(end >> 32), 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
        unsigned short used = 6;
        for (char* word = strtok(numbers, " \n"); word; word = strtok(NULL, " \n")) {
            code[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, atoi(word), 0, 1);
            code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
        }
        code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        struct sock_fprog program = {used, code};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) exit(3);
        if (raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) exit(13);
    }
    static int child_that(int what(void*), void* with) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) _exit(what(with));
        waitpid(child, &status, 0);
        return status;
    }
    static int trace(void* unused) {
        (void)unused;
        for (unsigned long i = 0; i < 10000; i++) plumb_trace(guarded, tick, i);
        return 0;
    }
    static int be_filtered(void* numbers) {
        trace(NULL);
        install("child", numbers);
        return trace(NULL);
    }
    static volatile int go, stormy; /* threads are made before the filter, since that may forbid to make one */
    static void* run(void* unused) {
        while (!go) usleep(1000);
        trace(NULL);
        go = 2;
        for (;;) pause();
        return unused;
    }
    static void* storm(void* unused) {
        for (unsigned long i = 0;; i++)
            if (stormy) plumb_trace(guarded, tick, i); else usleep(1000);
        return unused;
    }
    int main(int count, char** arguments) {
        pthread_t thread;
        char line[512];
        sigset_t urgent;
        sigemptyset(&urgent);
        if (count > 1 && !strcmp(arguments[1], "first-hears")) sigaddset(&urgent, SIGURG);
        pthread_sigmask(SIG_BLOCK, &urgent, NULL);
        pthread_create(&thread, NULL, run, NULL);
        pthread_create(&thread, NULL, storm, NULL);
        pthread_create(&thread, NULL, storm, NULL);
        pthread_sigmask(SIG_UNBLOCK, &urgent, NULL);
        while (write(1, "done\n", 5), read(0, memset(line, 0, sizeof(line)), sizeof(line) - 1) > 0) {
            char* words = strchr(line, ' ') ? strchr(line, ' ') + 1 : line;
            char* how = !strncmp(line, "filter", 6) ? strsep(&words, " ") : line;
            if (!strncmp(line, "filter", 6)) {
                if (!strcmp(how, "child") && child_that(be_filtered, words)) exit(4);
                if (strcmp(how, "child")) install(how, words);
            }
            if (!strncmp(line, "answer", 6)) how = strsep(&words, " "), answer_calls(how, words);
            if (!strncmp(line, "count", 5)) counting = 1;
            if (!strncmp(line, "told", 4)) counting = 0, dprintf(1, "%lu %lu\n", told[0], told[1]);
            if (!strncmp(line, "refused", 7)) be_refused();
            if (!strncmp(line, "strict", 6) && (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))) exit(10);
            if (!strncmp(line, "notsc", 5) && (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0))) exit(11);
            if (!strncmp(line, "trace", 5)) trace(NULL);
            if (!strncmp(line, "wait", 4)) while (!plumb_enabled(guarded, tick)) usleep(1000);
            if (!strncmp(line, "storm", 5)) stormy = 1;
            if (!strncmp(line, "calm", 4)) stormy = 0;
            if (!strncmp(line, "thread", 6)) for (go = 1; go != 2;) usleep(1000);
            if (!strncmp(line, "fork", 4) && child_that(trace, NULL)) exit(4);
            if (!strncmp(line, "quit", 4)) raw(SYS_exit, 0, 0, NULL);
            if (!strncmp(line, "exit", 4)) exit(0);
        }
    }
    """

    def start(self, *arguments, environment=None):
        program = subprocess.Popen([self.program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, **(environment or {})})
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        self.addCleanup(program.stdin.close)
        self.addCleanup(program.stdout.close)
        self.assertEqual(program.stdout.readline(), "done\n")
        return program

    def say(self, program, command):
        program.stdin.write(command + "\n")
        program.stdin.flush()

    def ask(self, program, command):
        self.say(program, command)
        self.assertEqual(program.stdout.readline(), "done\n", f"{command}: it ended with {program.poll()}")

    def end(self, program):
        self.say(program, "exit")
        self.assertEqual(program.wait(timeout=30), 0)

    def filter_of(self, calls, sign=1, how="prctl", command="filter"):
        numbers = subprocess.run(["cc", "-E", "-P", "-x", "c", "-"], check=True, capture_output=True, text=True,
                                 input="#include <sys/syscall.h>\nNUMBERS " + " ".join(f"__NR_{c}" for c in calls)).stdout
        return f"{command} {how} " + " ".join(str(sign * int(n)) for n in numbers.split("NUMBERS")[1].split())

    def record(self, program, *options, seconds="0.5", buffers=("--subbuf-size", "4K"), whom=None):
        return subprocess.Popen([PLUMB, "record", *(whom or ("-p", str(program.pid))), "--duration", seconds, *options,
                                 *buffers, "-o", self.trace],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def begin(self, program, *options, seconds="60", buffers=("--subbuf-size", "1M")):
        """Records the program, with room for all; returns when it is traced."""
        recorder = self.record(program, *options, seconds=seconds, buffers=buffers, whom=("--exe", self.program))
        self.addCleanup(recorder.wait)
        self.addCleanup(recorder.kill)
        self.addCleanup(recorder.stderr.close)
        self.ask(program, "wait")
        return recorder

    def finish(self, recorder, *, is_complete=True):
        recorder.send_signal(signal.SIGINT)
        errors = recorder.communicate(timeout=60)[1]
        self.assertIn(recorder.returncode, (0, -signal.SIGINT) if is_complete else (1,), errors)
        return errors

    def summary(self):
        return json.loads((self.trace / "summary.json").read_text())
