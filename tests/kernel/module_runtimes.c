/*
 * module_calls: PLUMB_OPERATION_UPDATES where it is asked for more than once. Two runtimes in a process listen on a signal each,
 * and both are told before the program goes on; what two descriptors ask for is one work.
 */
#define _GNU_SOURCE
#include "module_calls.h"
#include "module_updates.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
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

void check_runtimes(void) {
    check_two_runtimes();
    check_two_who_ask();
}
