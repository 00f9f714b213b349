// cmake-link: plumb_test_support plumb_static
//
// Drains channels that a hostile writer changed anywhere, at any time: a good channel is built, the input
// patches it, it is drained, patched again while the reader remembers the first half, and drained to the end.
// Input:
//
//   byte 0: mode, live or dead, where the second half of the patches begins
//   then patches: u16 place (of 8 bytes, modulo the channel's parts), u8 count, count bytes
#include "consumerd/drain/channel_source.h"
#include "tests/support/channel_builder.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace {

using namespace plumb;
using test::BuilderConfig;
using test::ChannelBuilder;
using test::Payload;

ChannelBuilder make_channel(uint8_t choice) {
    BuilderConfig config;
    config.mode = static_cast<plumb_ring_mode>(1 + choice % 3);
    config.subbuf_count = 2;
    config.ring_count = 1;
    config.event_slots = 8;
    config.entry_slots = 8;
    config.heap_bytes = 4096;
    ChannelBuilder channel(config);
    EventField status = test::field("e", PLUMB_FIELD_ENUM, 1);
    status.labels = {{0, "a"}, {1, "b"}};
    const uint16_t fixed = channel.add_event("fixed", {test::integer("n", 8), status});
    const uint16_t varying = channel.add_event(
        "varying", {test::field("s", PLUMB_FIELD_STRING, 1), test::field("t", PLUMB_FIELD_TEXT, 1),
                    test::field("q", PLUMB_FIELD_SEQUENCE, 4), test::field("a", PLUMB_FIELD_ARRAY, 2, 3)});
    channel.add_process(1, "p", "/bin/p", 1);
    channel.add_thread(1, 2, "t", 2);
    channel.add_object(1, 4096, "/lib/o.so", 3);
    Payload payload;
    payload.string("xyz").text("text").put(uint16_t{1}).put(uint32_t{5}).put(uint16_t{1}).put(uint32_t{2});
    for (uint64_t i = 0; i < 20; i++) {
        channel.write(0, fixed, 10 + i, Payload().put(i).put(uint8_t{1}).bytes());
        channel.write(static_cast<uint32_t>(i % 2), varying, 10 + i, payload.bytes());
    }
    return channel;
}

/* Most of a channel's bytes are dull: aim at the header, the tables, the control blocks, and the data's
 * start. */
size_t place_of(std::span<const std::byte> bytes, uint64_t control_offset, uint16_t place) {
    const size_t within = size_t{place} >> 3;
    switch (place & 7) {
    case 0:
        return within % sizeof(plumb_channel_header);
    case 1:
        return PLUMB_CHANNEL_HEADER_BYTES + within % 128;
    case 2:
    case 3:
        return control_offset + within % (2 * PLUMB_RING_CONTROL_BYTES);
    case 4:
    case 5:
        return PLUMB_CHANNEL_HEADER_BYTES + 128 + within % 2048; /* the heap */
    default:
        return bytes.size() - PLUMB_CHANNEL_GUARD - 2 * 8192 + within % 16384;
    }
}

void patch(ChannelBuilder& channel, uint64_t control_offset, const uint8_t* at, const uint8_t* end) {
    const std::span<std::byte> bytes = channel.bytes();
    while (end - at >= 4) {
        uint16_t place;
        std::memcpy(&place, at, 2);
        const size_t offset = place_of(bytes, control_offset, place);
        const size_t wanted = at[2] % 32;
        at += 3;
        const size_t count = std::min({wanted, static_cast<size_t>(end - at), bytes.size() - offset});
        std::memcpy(bytes.data() + offset, at, count);
        at += count;
    }
}

std::string fuzz_directory() {
    static const std::string directory = [] {
        char pattern[] = "/dev/shm/plumb-fuzz-XXXXXX";
        if (mkdtemp(pattern) == nullptr) std::abort();
        return std::string(pattern);
    }();
    return directory;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 1) return 0;
    const uint8_t choice = data[0];
    ChannelBuilder channel = make_channel(choice);
    const uint8_t* const end = data + size;
    const uint8_t* const middle = data + 1 + (size - 1) * (choice >> 4) / 15;
    const uint64_t control_offset = channel.header().control_offset;
    patch(channel, control_offset, data + 1, middle);

    ChannelDrainOptions options;
    options.directory = fuzz_directory();
    options.log = [](const std::string& line) {
        if (line.empty()) std::abort();
    };
    auto calibration = ClockCalibration::start(PLUMB_CLOCK_MONOTONIC);
    auto drain = (choice & 8) ? drain_live_channel(channel.bytes(), std::move(*calibration), options)
                              : drain_dead_channel(channel.bytes(), options);
    if (drain) {
        (*drain)->step(ReadWhat::whole_subbufs);
        (*drain)->step(ReadWhat::everything);
        patch(channel, control_offset, middle, end);
        if (const Status finished = (*drain)->finish(); !finished) std::abort();
        (void)(*drain)->totals();
    }
    std::filesystem::remove_all(fuzz_directory() + "/ust");
    std::filesystem::remove_all(fuzz_directory() + "/kernel");
    return 0;
}
