// A shared object with events of its own: libstorm_plugin_a.so and ..._b.so.
#include "tests/fixtures/stress_board.h"
#include "tests/fixtures/stress_events.h"

extern "C" __attribute__((visibility("default"))) void trace_in_plugin(uint32_t writer, uint64_t sequence) {
    plumb_trace(stress, fixed, writer, sequence, plumb::test::stress_checksum(writer, sequence, nullptr, 0));
}
