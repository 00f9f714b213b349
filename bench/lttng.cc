// The peer: the same events by LTTng-UST, measured in the same way. Started while a flight-recorder session
// with them is on; what is off, while there is none.
#include "events.h"
#include "harness.h"
#include "lttng_provider.h"

#include <cstdlib>

using namespace plumb::bench;

namespace {

uint64_t ring_bytes() {
    const char* text = std::getenv("PLUMB_BENCH_RING_BYTES");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : 4u << 20;
}

const char* volatile name_to_trace = PLUMB_BENCH_NAME;

void number_on(benchmark::State& state) {
    if (!lttng_ust_tracepoint_enabled(plumb_bench, number)) return state.SkipWithError("no LTTng session");
    report(state, measure(ring_bytes() / PLUMB_BENCH_NUMBER_BYTES, true,
                          [](uint64_t i) { lttng_ust_tracepoint(plumb_bench, number, i); }));
}

void number_off(benchmark::State& state) {
    if (lttng_ust_tracepoint_enabled(plumb_bench, number)) return state.SkipWithError("it is on");
    report(state, measure(0, true, [](uint64_t i) { lttng_ust_tracepoint(plumb_bench, number, i); }));
}

void name_on(benchmark::State& state) {
    if (!lttng_ust_tracepoint_enabled(plumb_bench, name)) return state.SkipWithError("no LTTng session");
    const char* name = name_to_trace;
    report(state, measure(ring_bytes() / PLUMB_BENCH_NAME_BYTES, true,
                          [name](uint64_t i) { lttng_ust_tracepoint(plumb_bench, name, name, i); }));
}

void order_on(benchmark::State& state) {
    if (!lttng_ust_tracepoint_enabled(plumb_bench, order)) return state.SkipWithError("no LTTng session");
    report(state, measure(ring_bytes() / PLUMB_BENCH_ORDER_BYTES, true, [](uint64_t i) {
               const auto n = static_cast<uint32_t>(i);
               lttng_ust_tracepoint(plumb_bench, order, i, -static_cast<int64_t>(i), n,
                                    -static_cast<int32_t>(n & 0xffff), static_cast<uint16_t>(n),
                                    static_cast<uint8_t>(n), 0.5, i << 12);
           }));
}

void two_threads(benchmark::State& state) {
    if (!lttng_ust_tracepoint_enabled(plumb_bench, number)) return state.SkipWithError("no LTTng session");
    measure_two_threads(state, ring_bytes() / PLUMB_BENCH_NUMBER_BYTES,
                        [](uint64_t i) { lttng_ust_tracepoint(plumb_bench, number, i); });
}

} // namespace

int main(int argc, char** argv) {
    add("what_does_a_tracepoint_cost_when_off_lttng_ust", number_off);
    add("what_does_an_event_with_one_u64_cost_lttng_ust", number_on);
    add("what_does_an_event_with_a_string_and_a_u64_cost_lttng_ust", name_on);
    add("what_does_an_event_with_eight_fields_cost_lttng_ust", order_on);
    add("do_two_threads_cost_each_other_anything_lttng_ust", two_threads);
    return run_all(argc, argv);
}
