// Acts around threads: that end in the middle of an event, that come and go, that share what is traced.
#include "tests/stress/storm/acts.h"

#include "tests/fixtures/stress_board.h"
#ifndef STORM_PLAIN
#include "tests/stress/storm/race_event.h"
#else
#define plumb_trace(...) static_cast<void>(0)
#endif

#include <atomic>
#include <csignal>
#include <cstring>
#include <pthread.h>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

namespace plumb::storm {

namespace {

using Body = void* (*)(void*);

pthread_t start(Body body, void* argument = nullptr) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    if (pthread_create(&thread, &attributes, body, argument) != 0) _exit(95);
    pthread_attr_destroy(&attributes);
    return thread;
}

bool many_threads(Random& random) {
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 2 + random.below(6); i++)
        threads.emplace_back([milliseconds = 10 + random.below(60)] {
            begin_writers();
            step_for(milliseconds);
        });
    for (std::thread& thread : threads)
        thread.join();
    return true;
}

// Traces at the very end of each thread, too.
struct AtEnd {
    ~AtEnd() {
        if (is_used) step();
    }
    bool is_used = false;
};
thread_local AtEnd at_end;

bool short_threads(Random& random) {
    for (uint32_t i = 0; i < 50 + random.below(150); i++)
        std::thread([] {
            begin_writers();
            at_end.is_used = true;
            for (int n = 0; n < 20; n++)
                step();
        }).join();
    step();
    return true;
}

std::atomic<uint32_t> running;

void* step_for_ever(void*) {
    begin_writers();
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
    running.fetch_add(1);
    for (;;) {
        step();
        for (volatile int i = 0; i < 2000;)
            i = i + 1;
    }
    return nullptr;
}

// Cancelled wherever they are; what they held must not stay held.
bool cancelled_threads(Random& random) {
    for (uint32_t i = 0; i < 40 + random.below(60); i++) {
        running = 0;
        const pthread_t thread = start(step_for_ever);
        while (running.load() == 0)
            sched_yield();
        spin_ns(random.below(60'000));
        pthread_cancel(thread);
        void* result = nullptr;
        pthread_join(thread, &result);
        if (result != PTHREAD_CANCELED) return complain("a cancelled thread returned %p", result);
        step();
    }
    step_for(5);
    return true;
}

void end_thread(int) {
    step_in_handler();
    if (is_in_step()) pthread_exit(reinterpret_cast<void*>(7));
}

void* step_until_ended(void*) {
    begin_writers();
    running.fetch_add(1);
    for (;;) {
        step();
        for (volatile int i = 0; i < 2000;)
            i = i + 1;
    }
    return nullptr;
}

bool threads_that_end_in_handlers(Random& random) {
    struct sigaction action = {};
    action.sa_handler = end_thread;
    sigaction(SIGUSR2, &action, nullptr);
    const uint64_t end = now_ns() + 5'000'000'000; // on a machine that does much else, each takes its time
    for (uint32_t i = 0; i < 30 + random.below(40) && now_ns() < end; i++) {
        running = 0;
        const pthread_t thread = start(step_until_ended);
        while (running.load() == 0)
            sched_yield();
        void* result = nullptr;
        for (uint32_t tries = 0; pthread_tryjoin_np(thread, &result) != 0; tries++) {
            if (tries == 200'000) return complain("no signal ended the thread");
            if (tries % 16 == 0) pthread_kill(thread, SIGUSR2);
            spin_ns(20'000);
        }
        if (result != reinterpret_cast<void*>(7)) return complain("the thread returned %p", result);
        step();
    }
    step_for(5);
    return true;
}

// Strings that change while they are traced cost nobody else a record.
char raced[4096];
std::atomic<bool> race_is_over;

void* change_the_text(void*) {
    for (uint32_t i = 1; !race_is_over.load(); i++) {
        auto* const at = reinterpret_cast<volatile char*>(raced) + i * 2654435761u % (sizeof(raced) - 1);
        *at = '\0';
        for (int n = 0; n < 100; n++) {
        }
        *at = static_cast<char>('a' + i % 26);
    }
    return nullptr;
}

bool racing_texts(Random& random) {
    memset(raced, 'a', sizeof(raced));
    race_is_over = false;
    const pthread_t racer = start(change_the_text);
    const uint64_t end = now_ns() + (10 + random.below(20)) * 1'000'000u;
    while (now_ns() < end) {
        [[maybe_unused]] const size_t length = 1 + random.below(sizeof(raced) - 1);
        plumb_trace(storm, race, std::string_view(raced, length), raced + random.below(sizeof(raced) - 1));
        step();
        spin_ns(3000);
    }
    race_is_over = true;
    pthread_join(racer, nullptr);
    return true;
}

constexpr Act acts[] = {
    {"many_threads", many_threads},           {"short_threads", short_threads},
    {"cancelled_threads", cancelled_threads}, {"threads_that_end_in_handlers", threads_that_end_in_handlers},
    {"racing_texts", racing_texts},
};

} // namespace

std::span<const Act> thread_acts() {
    return acts;
}

} // namespace plumb::storm
