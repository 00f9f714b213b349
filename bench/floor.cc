// What the parts cost by themselves: the least a tracer can cost here (the clock read, a copy of as many
// bytes into memory), and what a read-side lock would add to it.
#include "events.h"
#include "harness.h"

#include <urcu-bp.h>
#include <x86intrin.h>

#include <cstring>
#include <vector>

using namespace plumb::bench;

namespace {

void clock_read(benchmark::State& state) {
    report(state, measure(0, true, [](uint64_t) { read_clock_bare(); }));
}

void copy_into_ring(benchmark::State& state) {
    struct Record {
        uint64_t timestamp;
        uint64_t header;
        uint64_t number;
    };
    constexpr uint64_t ring_bytes = 1u << 20;
    std::vector<unsigned char> ring(ring_bytes + sizeof(Record));
    uint64_t position = 0;
    report(state, measure(ring_bytes / sizeof(Record), true, [&](uint64_t i) {
               const Record record = {__rdtsc(), 24, i};
               std::memcpy(ring.data() + (position & (ring_bytes - 1)), &record, sizeof(record));
               position += sizeof(record);
           }));
}

const char* volatile text_to_copy = PLUMB_BENCH_NAME;

/* As far as its NUL, which has to be looked for. */
void copy_text_into_ring(benchmark::State& state) {
    constexpr uint64_t ring_bytes = 1u << 20;
    std::vector<unsigned char> ring(ring_bytes + PLUMB_BENCH_NAME_BYTES);
    uint64_t position = 0;
    const char* const text = text_to_copy;
    report(state, measure(ring_bytes / PLUMB_BENCH_NAME_BYTES, true, [&](uint64_t i) {
               const uint64_t header[2] = {__rdtsc(), 40};
               unsigned char* const at = ring.data() + (position & (ring_bytes - 1));
               const size_t bytes = std::strlen(text) + 1;
               std::memcpy(at, header, sizeof(header));
               std::memcpy(at + sizeof(header), text, bytes);
               std::memcpy(at + sizeof(header) + bytes, &i, sizeof(i));
               position += PLUMB_BENCH_NAME_BYTES;
           }));
}

void urcu_read_lock(benchmark::State& state) {
    report(state, measure(0, true, [](uint64_t) {
               urcu_bp_read_lock();
               urcu_bp_read_unlock();
           }));
}

} // namespace

int main(int argc, char** argv) {
    add("what_does_the_clock_read_cost", clock_read);
    add("what_do_a_clock_read_and_a_copy_of_24_bytes_cost", copy_into_ring);
    add("what_do_a_clock_read_and_a_copy_of_a_string_cost", copy_text_into_ring);
    add("what_would_a_read_side_lock_cost_liburcu_bp", urcu_read_lock);
    return run_all(argc, argv);
}
