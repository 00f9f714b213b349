// What the parts cost by themselves: the least a tracer can cost here (the clock read, a copy of as many
// bytes into memory), and what a read-side lock would add to it.
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
    add("what_would_a_read_side_lock_cost_liburcu_bp", urcu_read_lock);
    return run_all(argc, argv);
}
