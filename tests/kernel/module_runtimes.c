/*
 * module_calls: PLUMB_OPERATION_UPDATES where it is asked for more than once, and where a thread ends. Two runtimes in a process
 * listen on a signal each, and both are told before the program goes on; what two descriptors ask for is one work.
 */
#define _GNU_SOURCE
#include "module_calls.h"
#include "module_updates.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint64_t second_value = 0x9876543210;

static void handle_second(int number, siginfo_t* info, void* context) {
    (void)number;
    (void)context;
    if ((uint64_t)info->si_value.sival_ptr != second_value) seen->other_value++;
    __atomic_fetch_add(&seen->handled_second, 1, __ATOMIC_SEQ_CST);
}

static void nap(void) {
    while (!seen->stop)
        usleep(1000);
}

static void read_with_two_runtimes(void) {
    struct sigaction action;
    char byte;
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = handle_second;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigfillset(&action.sa_mask);
    sigaction(SIGWINCH, &action, NULL);
    seen->ready = 1;
    if (read(wake[0], &byte, 1) != 1) seen->interrupted++;
    seen->returned = 1 + 10 * seen->handled + 100 * seen->handled_second;
    nap();
}

static void wait_until_asleep(pid_t child) {
    for (int tries = 0, asleep = 0; tries < 1000 && asleep < 10; tries++) {
        asleep = are_all_asleep(child) ? asleep + 1 : 0;
        usleep(10000);
    }
}

static struct plumb_update second_request_for(pid_t child) {
    struct plumb_update request = request_for(child);
    request.signal_number = SIGWINCH;
    request.value = second_value;
    return request;
}

static void check_two_runtimes(void) {
    const pid_t child = start(read_with_two_runtimes);
    struct plumb_update first = request_for(child), second = second_request_for(child);
    wait_until(&seen->ready, 1);
    wait_until_asleep(child);
    expect(update(PLUMB_UPDATE_ASK, &first) == 0 && first.asked == 1 && first.asleep == 1, "two runtimes",
           "the first is asked");
    expect(update(PLUMB_UPDATE_LOOK, &second) == -1, "two runtimes", "looked at, but not asked");
    expect(update(PLUMB_UPDATE_ASK, &second) == 0 && second.asked == 1 && second.asleep == 1, "two runtimes",
           "the second is asked");
    if (write(wake[1], "x", 1) != 1) abort();
    wait_until(&seen->returned, 1);
    expect(seen->returned == 111, "two runtimes", "both are told before it goes on");
    expect(seen->interrupted == 0 && seen->other_value == 0, "two runtimes", "ended early, or another value");
    expect(update(PLUMB_UPDATE_LOOK, &first) == 0 && first.taken == 1, "two runtimes", "the first has taken");
    expect(update(PLUMB_UPDATE_LOOK, &second) == 0 && second.taken == 1, "two runtimes",
           "the second has taken");
    end(child);
}

static void check_two_who_ask(void) {
    const pid_t child = start(read_with_two_runtimes);
    wait_until(&seen->ready, 1);
    wait_until_asleep(child);
    for (int who = 0; who < 3; who++) {
        struct plumb_update request = request_for(child);
        open_updates();
        expect(update(PLUMB_UPDATE_LOOK, &request) == -1, "two who ask", "looked at, but not asked");
        expect(update(PLUMB_UPDATE_ASK, &request) == 0 && request.asleep == 1, "two who ask", "asked");
        expect(request.asked == (who == 0) && request.waiting == 1, "two who ask", "work that waits already");
        if (who == 0) close_updates(); /* and it goes on waiting */
    }
    if (write(wake[1], "x", 1) != 1) abort();
    wait_until(&seen->returned, 1);
    expect(seen->returned == 11 && seen->handled == 1, "two who ask", "told once");
    end(child);
}

/* exit() by its number, or by that which it has for programs of 32 bits: any program may make calls so. */
static const int exit_of_32_bits = 1;
static int number_of_exit = SYS_exit;

static void* end_by_call(void* unused) {
    long number = number_of_exit;
    __atomic_store_n(&seen->thread, (int)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    nap();
    if (number == exit_of_32_bits)
        __asm__ volatile("int $0x80" : "+a"(number) : "b"(0L) : "memory", "r8", "r9", "r10", "r11");
    syscall(SYS_exit, 0);
    return unused;
}

static void read_beside_one_that_ends(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, end_by_call, NULL);
    wait_until(&seen->thread, 1);
    read_with_two_runtimes();
}

/* Until it is about to enter exit(). */
static void trace_to_its_end(pid_t thread) {
    struct user_regs_struct registers = {0};
    int status;
    if (ptrace(PTRACE_SEIZE, thread, NULL, PTRACE_O_TRACEEXIT | PTRACE_O_TRACESYSGOOD) != 0 ||
        ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) != 0)
        abort();
    waitpid(thread, &status, __WALL);
    seen->stop = 1;
    while (registers.orig_rax != (unsigned long)number_of_exit) {
        ptrace(PTRACE_SYSCALL, thread, NULL, NULL);
        if (waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status)) abort();
        ptrace(PTRACE_GETREGS, thread, NULL, &registers);
    }
    seen->stop = 0;
}

/* A tracer is told of the end, which runs works before the thread counts as one that ends. */
static void check_one_that_ends(int number) {
    number_of_exit = number;
    const pid_t child = start(read_beside_one_that_ends);
    struct plumb_update request = request_for(child);
    int status;
    wait_until(&seen->ready, 1);
    const pid_t thread = seen->thread;
    trace_to_its_end(thread);
    wait_until_asleep(child);
    expect(update(PLUMB_UPDATE_ASK, &request) == 0 && request.asked == 2, "an end", "asked");
    expect(request.asleep == 1 && request.blocked == 0, "an end", "counted as one that will hear of it");
    ptrace(PTRACE_CONT, thread, NULL, NULL);
    waitpid(thread, &status, __WALL);
    expect(status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8), "an end", "traced");
    expect(update(PLUMB_UPDATE_LOOK, &request) == 0 && request.waiting == 1 && request.taken == 0, "an end",
           "taken by who ends");
    ptrace(PTRACE_CONT, thread, NULL, NULL);
    waitpid(thread, &status, __WALL);
    expect(update(PLUMB_UPDATE_LOOK, &request) == 0 && request.threads == 1 && request.asleep == 1, "an end",
           "who is left sleeps");
    if (write(wake[1], "x", 1) != 1) abort();
    wait_until(&seen->returned, 1);
    expect(seen->returned == 11, "an end", "who is left is told");
    end(child);
}

static void wait_for_vforked(void) {
    char byte;
    seen->ready = 1;
    if (vfork() == 0) {
        seen->thread = (int)read(wake[0], &byte, 1);
        _exit(0);
    }
    seen->returned = 1 + 10 * seen->handled;
    nap();
}

/* The child does in the parent's memory what it does, and hears of nothing. */
static void check_vfork(void) {
    const pid_t child = start(wait_for_vforked);
    struct plumb_update request = request_for(child);
    wait_until(&seen->ready, 1);
    usleep(200000);
    expect(update(PLUMB_UPDATE_ASK, &request) == 0 && request.asked == 1, "vfork", "asked");
    expect(request.asleep == 0 && request.blocked == 1, "vfork", "counted as one that will follow first");
    if (write(wake[1], "x", 1) != 1) abort();
    wait_until(&seen->returned, 1);
    expect(seen->returned == 11, "vfork", "told behind it");
    end(child);
}

void check_runtimes(void) {
    check_two_runtimes();
    check_two_who_ask();
    check_one_that_ends(SYS_exit);
    check_one_that_ends(exit_of_32_bits);
    check_vfork();
}
