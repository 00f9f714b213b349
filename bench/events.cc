// What a tracepoint costs the program that executes it. Started while a session with these events is on (and
// once with restartable sequences off), one benchmark a process, so that each has its own first lap.
#include "events.h"
#include "harness.h"

#include <atomic>
#include <cstdlib>

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

void order_on(benchmark::State& state) {
    if (!plumb_enabled(bench, order)) return state.SkipWithError("bench:order is off: no session");
    report(state, measure(ring_bytes() / PLUMB_BENCH_ORDER_BYTES, true, [](uint64_t i) {
               const auto n = static_cast<uint32_t>(i);
               plumb_trace(bench, order, i, -static_cast<int64_t>(i), n, -static_cast<int32_t>(n & 0xffff),
                           static_cast<uint16_t>(n), static_cast<uint8_t>(n), 0.5, i << 12);
           }));
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

void two_threads(benchmark::State& state) {
    if (!plumb_enabled(bench, number)) return state.SkipWithError("bench:number is off: no session");
    measure_two_threads(state, ring_bytes() / PLUMB_BENCH_NUMBER_BYTES,
                        [](uint64_t i) { plumb_trace(bench, number, i); });
}

} // namespace

int main(int argc, char** argv) {
    add("what_does_an_empty_loop_cost", nothing);
    add("what_does_a_tracepoint_cost_when_off", number_off);
    add("what_does_an_event_with_one_u64_cost", number_on);
    add("what_does_an_event_with_a_string_and_a_u64_cost", name_on);
    add("what_does_an_event_with_eight_fields_cost", order_on);
    add("what_does_an_atomic_add_cost", atomic_add);
    add("what_does_an_add_to_a_variable_of_the_thread_cost", own_add);
    add("do_two_threads_cost_each_other_anything", two_threads);
    return run_all(argc, argv);
}
