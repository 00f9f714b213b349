// What a tracepoint costs the program that executes it. Started while a session with these events is on (and
// once with restartable sequences off), one benchmark a process, so that each has its own first lap.
#include "events.h"
#include "harness.h"

#include <barrier>
#include <cstdlib>
#include <thread>

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

double median_of_numbers(bool warm_up) {
    const uint64_t lap = warm_up ? ring_bytes() / PLUMB_BENCH_NUMBER_BYTES : 0;
    return distribution_of(measure(lap, false, [](uint64_t i) { plumb_trace(bench, number, i); }).warm)
        .median;
}

// Each CPU alone, then both at the same time: sharing would show as a ratio above 1.
void two_threads(benchmark::State& state) {
    if (!plumb_enabled(bench, number)) return state.SkipWithError("bench:number is off: no session");
    if (std::thread::hardware_concurrency() < 2) return state.SkipWithError("needs two CPUs");
    const int cpus[2] = {options.cpu, options.other_cpu};
    double alone[2], together[2];
    for (int i = 0; i < 2; i++) {
        std::thread([&, i] {
            pin_to(cpus[i]);
            alone[i] = median_of_numbers(true);
        }).join();
    }
    std::barrier start(2);
    const auto run = [&](int i) {
        pin_to(cpus[i]);
        start.arrive_and_wait();
        together[i] = median_of_numbers(false);
    };
    std::thread other(run, 1);
    std::thread(run, 0).join();
    other.join();
    state.counters["alone_median"] = (alone[0] + alone[1]) / 2;
    state.counters["warm_median"] = (together[0] + together[1]) / 2;
    state.counters["threads_ratio"] = (together[0] / alone[0] + together[1] / alone[1]) / 2;
}

} // namespace

int main(int argc, char** argv) {
    add("what_does_an_empty_loop_cost", nothing);
    add("what_does_a_tracepoint_cost_when_off", number_off);
    add("what_does_an_event_with_one_u64_cost", number_on);
    add("what_does_an_event_with_a_string_and_a_u64_cost", name_on);
    add("do_two_threads_cost_each_other_anything", two_threads);
    return run_all(argc, argv);
}
