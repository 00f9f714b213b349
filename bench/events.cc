// What a tracepoint costs the program that executes it. Started while a session with these events is on (and
// once with restartable sequences off), one benchmark a process, so that each has its own first lap.
#include "events.h"
#include "harness.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdlib>
#include <thread>
#include <vector>

using namespace plumb::bench;

namespace {

// Bytes of one ring of the session; bench/run passes what it chose.
uint64_t ring_bytes() {
    const char* text = std::getenv("PLUMB_BENCH_RING_BYTES");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : 4u << 20;
}

const char* volatile name_to_trace = PLUMB_BENCH_NAME;

void number_on(benchmark::State& state) {
    if (!plumb_enabled(bench, number)) return state.SkipWithError("bench:number is off: no session");
    report(state, measure(ring_bytes() / PLUMB_BENCH_NUMBER_BYTES, true,
                          [](uint64_t i) { plumb_trace(bench, number, i); }));
}

void name_on(benchmark::State& state) {
    if (!plumb_enabled(bench, name)) return state.SkipWithError("bench:name is off: no session");
    const char* name = name_to_trace;
    report(state, measure(ring_bytes() / PLUMB_BENCH_NAME_BYTES, true,
                          [name](uint64_t i) { plumb_trace(bench, name, name, i); }));
}

void number_off(benchmark::State& state) {
    if (plumb_enabled(bench_off, number)) return state.SkipWithError("bench_off:number is on");
    report(state, measure(0, true, [](uint64_t i) { plumb_trace(bench_off, number, i); }));
}

void nothing(benchmark::State& state) {
    report(state, measure(0, true, [](uint64_t) {}));
}

// The least that counting costs a program that counts for itself: by an addition to what all threads share, or has.
std::atomic<uint64_t> shared_count;
thread_local uint64_t own_count;
void atomic_add(benchmark::State& state) {
    report(state, measure(0, true, [](uint64_t) { shared_count.fetch_add(1, std::memory_order_relaxed); }));
}
void own_add(benchmark::State& state) {
    report(state,
           measure(0, true, [](uint64_t) { __atomic_store_n(&own_count, own_count + 1, __ATOMIC_RELAXED); }));
}

// Each CPU alone and both at the same time, in many short turns, so that all three see the same machine:
// sharing would show as a ratio above 1.
void two_threads(benchmark::State& state) {
    if (!plumb_enabled(bench, number)) return state.SkipWithError("bench:number is off: no session");
    if (std::thread::hardware_concurrency() < 2) return state.SkipWithError("needs two CPUs");
    constexpr uint32_t turns = 50;
    const uint64_t lap = ring_bytes() / PLUMB_BENCH_NUMBER_BYTES;
    const uint32_t turn_chunks = std::max(options.chunks / turns, 1u);
    const int cpus[2] = {options.cpu, options.other_cpu};
    std::vector<double> alone[2], together[2];
    std::barrier step(2);
    const auto run_turn = [&](std::vector<double>& to) {
        for (uint32_t i = 0; i < turn_chunks; i++)
            to.push_back(
                time_events(options.chunk_events, [](uint64_t n) { plumb_trace(bench, number, n); }));
    };
    const auto run = [&](int self) {
        pin_to(cpus[self]);
        std::vector<double> warm_up;
        for (uint64_t done = 0; done < 2 * lap; done += uint64_t{turn_chunks} * options.chunk_events)
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

} // namespace

int main(int argc, char** argv) {
    add("what_does_an_empty_loop_cost", nothing);
    add("what_does_a_tracepoint_cost_when_off", number_off);
    add("what_does_an_event_with_one_u64_cost", number_on);
    add("what_does_an_event_with_a_string_and_a_u64_cost", name_on);
    add("what_does_an_atomic_add_cost", atomic_add);
    add("what_does_an_add_to_a_variable_of_the_thread_cost", own_add);
    add("do_two_threads_cost_each_other_anything", two_threads);
    return run_all(argc, argv);
}
