// Acts around signals: storms of them, jumps out of handlers, the program's own use of the signal that tells of updates,
// little stacks, sigwait().
#include "tests/stress/storm/acts.h"

#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <ctime>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace plumb::storm {

namespace {

void handle(int number, void (*handler)(int), int flags = SA_RESTART) {
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(number, &action, nullptr);
}

// SIGALRM to the calling thread, again and again.
class Alarms {
public:
    explicit Alarms(uint32_t microseconds) {
        sigevent event = {};
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = SIGALRM;
        event._sigev_un._tid = gettid();
        timer_create(CLOCK_MONOTONIC, &event, &timer_);
        const timespec every = {0, microseconds * 1000};
        const itimerspec times = {every, every};
        timer_settime(timer_, 0, &times, nullptr);
    }
    ~Alarms() { timer_delete(timer_); }
    Alarms(const Alarms&) = delete;
    Alarms& operator=(const Alarms&) = delete;

private:
    timer_t timer_;
};

void trace_in_handler(int) {
    step_in_handler();
}

// Handlers trace while they interrupt tracing.
bool storm_of_signals(Random& random) {
    handle(SIGALRM, trace_in_handler);
    handle(SIGPROF, trace_in_handler);
    handle(SIGUSR1, trace_in_handler, SA_NODEFER);
    const itimerval every = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_PROF, &every, nullptr);
    const Alarms alarms(150 + random.below(300));
    for (int i = 0; i < 5; i++) {
        step_for(5 + random.below(10));
        raise(SIGUSR1);
    }
    const itimerval never = {};
    setitimer(ITIMER_PROF, &never, nullptr);
    handle(SIGPROF, SIG_IGN);
    return true;
}

sigjmp_buf back;
volatile sig_atomic_t may_jump;
volatile sig_atomic_t in_steps_only;

void jump_out(int) {
    step_in_handler();
    if (may_jump == 0 || (in_steps_only != 0 && !is_in_step())) return;
    may_jump = 0;
    siglongjmp(back, 1);
}

// What the handler interrupted is never finished: a shell's Ctrl-C, an interpreter's time-out.
bool jumps_out_of_handlers(Random& random) {
    in_steps_only = 1;
    handle(SIGALRM, jump_out);
    const Alarms alarms(120 + random.below(200));
    const uint64_t end = now_ns() + (30 + random.below(60)) * 1'000'000u;
    volatile uint32_t jumps = 0;
    if (sigsetjmp(back, 1) != 0) {
        jumps = jumps + 1;
        begin_writers();
    }
    may_jump = 1;
    while (now_ns() < end) {
        step();
        spin_ns(1500);
    }
    may_jump = 0;
    for (int i = 0; i < 200; i++) { // and tracing goes on
        step();
        spin_ns(2000);
    }
    return true;
}

std::atomic<uint32_t> seen_urgent;
std::atomic<uint32_t> seen_of_controllers;
std::atomic<uint32_t> seen_foreign;

void count_urgent(int, siginfo_t* info, void*) {
    step_in_handler();
    if (info->si_pid == getpid() && (info->si_code == SI_TKILL || info->si_code == SI_USER))
        seen_urgent.fetch_add(1);
    else if (info->si_code == SI_QUEUE) // it cannot know that the handler is not Plumb's any more
        seen_of_controllers.fetch_add(1);
    else
        seen_foreign.fetch_add(1);
}

bool use_own(int number, Random& random, struct sigaction* before = nullptr) {
    struct sigaction action = {};
    action.sa_sigaction = count_urgent;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(number, &action, before);
    seen_urgent = seen_foreign = seen_of_controllers = 0;
    const uint32_t count = 100 + random.below(200);
    for (uint32_t i = 0; i < count; i++) {
        if (i % 2 == 0)
            raise(number);
        else
            kill(getpid(), number); // one thread, not blocked: delivered before kill() returns
        step();
        spin_ns(100'000);
    }
    // The kernel keeps one of a number at a time: one of a controller's that waits hides one of ours.
    if (seen_urgent > count || seen_urgent + seen_of_controllers < count)
        return complain("%u signals %d sent, %u seen, and %u of controllers", count, number,
                        seen_urgent.load(), seen_of_controllers.load());
    if (seen_foreign != 0)
        return complain("%u signals %d that nobody of us sent", seen_foreign.load(), number);
    return true;
}

// A program that uses the signal itself (sockets' urgent data, a runtime that preempts) gets each of its own; of ours, it
// may see a few, queued.
bool own_urgent_signals(Random& random) {
    return use_own(SIGURG, random);
}

bool own_urgent_signals_late(Random& random) {
    step_for(random.below(30));
    struct sigaction before = {};
    if (!use_own(SIGURG, random, &before)) return false;
    sigaction(SIGURG, &before, nullptr); // a library that gives it back
    step_for(10);
    return use_own(SIGWINCH, random);
}

bool ignored_signals(Random& random) {
    for (int number = 1; number <= SIGRTMAX; number++)
        if (number != SIGCHLD) signal(number, SIG_IGN);
    step_for(20 + random.below(40));
    for (const int number : {SIGURG, SIGWINCH, SIGALRM, SIGRTMAX}) {
        raise(number);
        kill(getpid(), number);
    }
    step_for(5);
    return true;
}

// A whole program that takes all signals by sigwait(), in all its threads: it sees what was sent to it, and of a controller
// one at the most, that was on its way when it blocked them.
bool waits_for_signals(Random& random) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    const uint32_t count = 20 + random.below(40);
    uint32_t of_controllers = 0;
    for (uint32_t i = 0; i < count; i++) {
        const int sent = i % 2 == 0 ? SIGUSR1 : SIGTERM;
        kill(getpid(), sent);
        siginfo_t info = {};
        const timespec patience = {20, 0};
        int got = sigtimedwait(&all, &info, &patience);
        if (got == SIGURG && info.si_code == SI_QUEUE && of_controllers++ == 0)
            got = sigtimedwait(&all, &info, &patience);
        if (got != sent || info.si_pid != getpid())
            return complain("waited for signal %d, got %d (code %d of %d)", sent, got, info.si_code,
                            info.si_pid);
        for (int n = 0; n < 20; n++)
            step();
        spin_ns(300'000);
    }
    return true;
}

// A handler may leave the process, from the middle of an event.
void leave(int) {
    step_in_handler();
    if (!is_in_step()) return;
    if (write(STDOUT_FILENO, "ok\n", 3) < 0) return;
    _exit(static_cast<int>(3 + (own_seed() & seed_mask) % 40));
}

bool exit_in_handler(Random& random) {
    handle(SIGALRM, leave);
    const Alarms alarms(200 + random.below(500));
    const uint64_t end = now_ns() + 20'000'000'000;
    while (now_ns() < end) {
        step();
        spin_ns(500);
    }
    return complain("no signal in 20 s hit an event");
}

// The least alternate stack that there may be, with marks below it.
constexpr size_t mark_bytes = 16384;

bool little_stack(Random& random) {
    const size_t least = std::max<size_t>(2048, getauxval(AT_MINSIGSTKSZ));
    void* const room =
        mmap(nullptr, mark_bytes + least, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(room, 0x5a, mark_bytes);
    stack_t stack = {};
    stack.ss_sp = static_cast<char*>(room) + mark_bytes;
    stack.ss_size = least;
    if (sigaltstack(&stack, nullptr) != 0) return complain("no alternate stack of %zu bytes", least);
    step_for(50 + random.below(50));
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, nullptr);
    const auto* marks = static_cast<const unsigned char*>(room);
    for (size_t i = 0; i < mark_bytes; i++)
        if (marks[i] != 0x5a)
            return complain("written over: byte %zu below an alternate stack of %zu bytes", mark_bytes - i,
                            least);
    return true;
}

// Waits that a signal without SA_RESTART would end: each may return early because of its own alarms alone.
bool counts_interruptions(Random& random) {
    static std::atomic<uint32_t> alarms;
    alarms = 0;
    handle(
        SIGALRM, [](int) { alarms.fetch_add(1); }, SA_RESTART);
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0) return complain("no pipe");
    const pid_t child = fork();
    if (child == 0) {
        begin_writers();
        for (uint32_t i = 0; i < 30; i++) {
            step();
            usleep(1000);
            if (write(pipe_ends[1], "x", 1) != 1) _exit(1);
        }
        _exit(0);
    }
    uint32_t got = 0, interrupted = 0;
    for (char byte; got < 30;) {
        step();
        const ssize_t length = read(pipe_ends[0], &byte, 1); // restarted, whatever Plumb does
        if (length == 1)
            got++;
        else
            interrupted++;
        if (length == 0) break;
    }
    (void)random;
    const int status = wait_for_child(child);
    if (status != 0) return complain("the child ended with status %d", status);
    return interrupted == 0 || complain("read() returned early %u times", interrupted);
}

constexpr Act acts[] = {
    {"storm_of_signals", storm_of_signals},         {"jumps_out_of_handlers", jumps_out_of_handlers},
    {"own_urgent_signals", own_urgent_signals},     {"own_urgent_signals_late", own_urgent_signals_late},
    {"ignored_signals", ignored_signals},           {"waits_for_signals", waits_for_signals},
    {"exit_in_handler", exit_in_handler},           {"little_stack", little_stack},
    {"counts_interruptions", counts_interruptions},
};

} // namespace

std::span<const Act> signal_acts() {
    return acts;
}

} // namespace plumb::storm
