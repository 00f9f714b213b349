// Acts around processes: forks of every kind, in handlers too, exec at every moment, children that outlive.
#include "tests/stress/storm/acts.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern char** environ;

namespace plumb::storm {

namespace {

pid_t fork_somehow(uint32_t way) {
    if (way % 3 == 0) return _Fork();
    if (way % 3 == 1) return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
    return fork();
}

// Ends in the way that its number says; the status is checked by has_ended_as_told().
[[noreturn]] void be_child(uint32_t number) {
    if (number % 7 == 0) _exit(0); // without an event
    begin_writers();
    for (int i = 0; i < 20; i++)
        step();
    if (number % 5 == 1) { // a grandchild that nobody waits for but init, or who took its place
        if (fork() == 0) {
            begin_writers();
            for (int i = 0; i < 20; i++)
                step();
            _exit(0);
        }
    }
    if (number % 5 == 2) kill(getpid(), SIGKILL);
    if (number % 5 == 3) exit(0);
    _exit(0);
}

bool has_ended_as_told(uint32_t number, int status) {
    const bool is_killed = number % 7 != 0 && number % 5 == 2;
    return status == (is_killed ? SIGKILL : 0) ||
           complain("child %u of fork %u: status %#x", number, number % 3, static_cast<unsigned>(status));
}

bool forks(Random& random) {
    volatile bool is_over = false;
    std::thread beside([&is_over] {
        begin_writers();
        while (!is_over)
            step_for(1);
    });
    bool held = true;
    for (uint32_t i = 0; i < 20 && held; i++) {
        const uint32_t number = random.below(1000);
        fflush(stdout);
        const pid_t child = fork_somehow(number);
        if (child == 0) be_child(number);
        step();
        held = has_ended_as_told(number, wait_for_child(child));
    }
    is_over = true;
    beside.join();
    return held;
}

volatile sig_atomic_t forks_left;
volatile sig_atomic_t child_in_handler;

// Parent and child are both in the middle of the same event, and both go on with it.
void fork_in_handler(int) {
    step_in_handler();
    if (forks_left == 0 || child_in_handler != 0 || !is_in_step()) return;
    flag_writers(writer_was_copied);
    const pid_t child = _Fork();
    if (child == 0) {
        forks_left = 0;
        child_in_handler = -1; // leaves the handler, finishes the event, ends
    } else {
        forks_left = forks_left - 1;
        child_in_handler = child;
    }
}

bool forks_in_handlers(Random& random) {
    struct sigaction action = {};
    action.sa_handler = fork_in_handler;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, nullptr);
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGALRM;
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    const timespec every = {0, static_cast<long>(200 + random.below(300)) * 1000};
    const itimerspec times = {every, every};
    timer_settime(timer, 0, &times, nullptr);
    forks_left = static_cast<sig_atomic_t>(5 + random.below(10));
    const uint64_t end = now_ns() + 10'000'000'000;
    while (forks_left > 0 && now_ns() < end) {
        step();
        spin_ns(1500);
        if (child_in_handler == -1) {
            begin_writers();
            for (int i = 0; i < 50; i++)
                step();
            _exit(0);
        }
        if (child_in_handler > 0) {
            const int status = wait_for_child(child_in_handler);
            if (status != 0) return complain("the child of a handler ended with status %d", status);
            child_in_handler = 0;
            begin_writers();
        }
    }
    timer_delete(timer);
    while (child_in_handler > 0) {
        const int status = wait_for_child(child_in_handler);
        if (status != 0) return complain("the last child of a handler ended with status %d", status);
        child_in_handler = 0;
        begin_writers();
    }
    if (child_in_handler == -1) _exit(0);
    step_for(5);
    return true;
}

// The child works in its parent's memory: its events must not stay the parent's.
bool vforks(Random& random) {
    for (uint32_t i = 0; i < 30; i++) {
        const bool does_exec = random.below(2) == 0;
        step();
        const pid_t child = vfork(); // NOLINT
        if (child == 0) {
            begin_writers();
            step();
            if (does_exec) execl("/bin/true", "true", nullptr);
            _exit(0);
        }
        begin_writers(); // the child put its own into our thread
        step();
        const int status = wait_for_child(child);
        if (status != 0) return complain("the child of vfork ended with status %d", status);
    }
    return true;
}

// The new image has not taken the signal yet, or never will.
bool execs(Random& random) {
    const uint32_t left = own_seed() >> 28;
    step_for(random.below(40));
    if (left == 0) return true;
    become("execs", (own_seed() & seed_mask) | (left - 1) << 28);
}

// The first of its line. The numbers of all have the same ending.
bool execs_again_and_again(Random& random) {
    step_for(random.below(10));
    become("execs", (own_seed() & seed_mask) | (2 + random.below(6)) << 28);
}

// By another thread than the first.
bool exec_of_a_thread(Random& random) {
    const uint32_t wait_ms = random.below(40);
    std::thread([wait_ms] {
        begin_writers();
        step_for(wait_ms);
        become("execs", own_seed() & seed_mask);
    }).detach();
    for (;;)
        step_for(10);
}

bool children_that_exec_others(Random& random) {
    std::vector<pid_t> children;
    for (int i = 0; i < 8; i++) {
        const uint32_t wait_us = random.below(40'000);
        const bool traces = random.below(2) == 0;
        const pid_t child = fork();
        if (child == 0) {
            if (traces) {
                begin_writers();
                step_for(wait_us / 1000);
            } else {
                usleep(wait_us);
            }
            execl("/bin/true", "true", nullptr);
            _exit(94);
        }
        children.push_back(child);
    }
    for (const pid_t child : children) {
        const int status = wait_for_child(child);
        if (status != 0)
            return complain("a child that runs /bin/true ended with status %#x",
                            static_cast<unsigned>(status));
    }
    return true;
}

bool spawns(Random& random) {
    for (uint32_t i = 0; i < 10 + random.below(10); i++) {
        char name[] = "true";
        char* const words[] = {name, nullptr};
        pid_t child = 0;
        if (posix_spawn(&child, "/bin/true", nullptr, nullptr, words, environ) != 0)
            return complain("posix_spawn failed");
        step();
        const int status = wait_for_child(child);
        if (status != 0)
            return complain("a spawned child ended with status %#x", static_cast<unsigned>(status));
    }
    return true;
}

// The grandchild goes on when this program is long gone.
bool daemons(Random& random) {
    const uint32_t milliseconds = 20 + random.below(100);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        setsid();
        if (fork() != 0) _exit(0);
        begin_writers();
        step_for(milliseconds);
        _exit(0);
    }
    const int status = wait_for_child(child);
    return status == 0 || complain("the daemon's parent ended with status %d", status);
}

// No fork handler ran, and no event was on: nothing tells the runtime that this is a child, but a controller that finds it.
bool clones_that_wait(Random& random) {
    const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
    if (child == 0) {
        begin_writers();
        step();
        usleep(20'000 + random.below(60'000));
        for (int i = 0; i < 50; i++) {
            step();
            usleep(500);
        }
        _exit(0);
    }
    step_for(10);
    const int status = wait_for_child(child);
    return status == 0 || complain("the clone ended with status %#x", static_cast<unsigned>(status));
}

bool runs_until_the_end(Random&) {
    for (;;)
        step_for(10);
}

bool is_stopped_and_continued(Random& random) {
    step_for(60 + random.below(60));
    return true;
}

bool aborts(Random& random) {
    step_for(random.below(30));
    abort();
}

constexpr Act acts[] = {
    {"forks", forks},
    {"forks_in_handlers", forks_in_handlers},
    {"vforks", vforks},
    {"execs", execs},
    {"execs_again_and_again", execs_again_and_again},
    {"exec_of_a_thread", exec_of_a_thread},
    {"children_that_exec_others", children_that_exec_others},
    {"spawns", spawns},
    {"daemons", daemons},
    {"clones_that_wait", clones_that_wait},
    {"is_killed", runs_until_the_end, act_is_killed},
    {"is_terminated", runs_until_the_end, act_is_terminated},
    {"is_stopped_and_continued", is_stopped_and_continued, act_is_stopped},
    {"aborts", aborts, act_aborts},
};

} // namespace

std::span<const Act> process_acts() {
    return acts;
}

} // namespace plumb::storm
