// Measuring one thing so that the figure can be trusted: pinned to a CPU, in chunks of many events whose
// median and 5th and 95th percentile are kept, and with the bare clock read measured between the chunks, in
// the same seconds on the same CPU. A figure means something as a multiple of that clock read: it follows the
// machine's mood (frequency, a noisy neighbour of a virtual machine) as the events do.
//
// The first lap around a ring is kept apart: there the process touches each page of the channel for the first
// time and the kernel maps it.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <barrier>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace plumb::bench {

struct Options {
    int cpu = 1; // the other CPU of a two-thread case is `other_cpu`
    int other_cpu = 0;
    uint32_t chunks = 400; // warm chunks
    uint32_t chunk_events = 10'000;
};

extern Options options;

struct Distribution {
    double median = 0;
    double p5 = 0;
    double p95 = 0;
};
Distribution distribution_of(std::vector<double> values);

uint64_t now_ns();
void pin_to(int cpu);

// The clock read by itself: volatile, nothing done with the result.
inline void read_clock_bare() {
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
}

// Nanoseconds for each of `events` executions of body(i).
template <typename Body>
inline double time_events(uint32_t events, Body&& body) {
    const uint64_t begin = now_ns();
    for (uint64_t i = 0; i < events; i++) {
        body(i);
        __asm__ volatile("" : : : "memory");
    }
    return static_cast<double>(now_ns() - begin) / events;
}

struct Figures {
    std::vector<double> cold; // chunks of the first lap; empty if there is no ring
    std::vector<double> warm;
    std::vector<double> clock;
};

// Runs `body` on the CPU that the calling thread is pinned to. `lap_events`: how many of it go once around a
// ring; 0 if it writes none.
template <typename Body>
Figures measure(uint64_t lap_events, bool with_clock, Body&& body) {
    Figures figures;
    for (uint64_t done = 0; done < lap_events; done += options.chunk_events)
        figures.cold.push_back(time_events(options.chunk_events, body));
    // Not counted: what is not warm yet.
    const uint64_t warm_up = lap_events / options.chunk_events + 8;
    for (uint64_t i = 0; i < warm_up; i++)
        time_events(options.chunk_events, body);
    for (uint32_t i = 0; i < options.chunks; i++) {
        if (with_clock)
            figures.clock.push_back(time_events(options.chunk_events, [](uint64_t) { read_clock_bare(); }));
        figures.warm.push_back(time_events(options.chunk_events, body));
    }
    return figures;
}

// Puts the figures into the benchmark's counters: cold_*, warm_*, clock_*, ns each; `ratio` to the clock
// read.
void report(benchmark::State& state, const Figures& figures);

// Each CPU alone and both at the same time, in many short turns, so that all three see the same machine: sharing would show as
// a ratio above 1. Into the counters alone_median, warm_median and threads_ratio.
template <typename Body>
void measure_two_threads(benchmark::State& state, uint64_t lap_events, Body&& body) {
    if (std::thread::hardware_concurrency() < 2) return state.SkipWithError("needs two CPUs");
    constexpr uint32_t turns = 50;
    const uint32_t turn_chunks = std::max(options.chunks / turns, 1u);
    const int cpus[2] = {options.cpu, options.other_cpu};
    std::vector<double> alone[2], together[2];
    std::barrier step(2);
    const auto run_turn = [&](std::vector<double>& to) {
        for (uint32_t i = 0; i < turn_chunks; i++)
            to.push_back(time_events(options.chunk_events, body));
    };
    const auto run = [&](int self) {
        pin_to(cpus[self]);
        std::vector<double> warm_up;
        for (uint64_t done = 0; done < 2 * lap_events; done += uint64_t{turn_chunks} * options.chunk_events)
            run_turn(warm_up);
        for (uint32_t turn = 0; turn < turns; turn++) {
            for (int who = 0; who < 2; who++) {
                step.arrive_and_wait();
                if (who == self) run_turn(alone[self]);
            }
            step.arrive_and_wait();
            run_turn(together[self]);
        }
    };
    std::thread other(run, 1);
    std::thread(run, 0).join();
    other.join();
    double alone_median = 0, together_median = 0;
    for (int i = 0; i < 2; i++) {
        alone_median += distribution_of(alone[i]).median / 2;
        together_median += distribution_of(together[i]).median / 2;
    }
    state.counters["alone_median"] = alone_median;
    state.counters["warm_median"] = together_median;
    state.counters["threads_ratio"] = together_median / alone_median;
}

// Registers a benchmark that measures once: `run` is called one time, pinned.
void add(const std::string& question, std::function<void(benchmark::State&)> run);

// The rest of main(): takes --chunks=N and --cpu=N, then what Google Benchmark takes.
int run_all(int argc, char** argv);

} // namespace plumb::bench
