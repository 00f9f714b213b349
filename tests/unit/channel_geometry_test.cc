// cmake-once
// Which headers are believed: everything up to the limits of the format, and nothing beyond them; and what is said of one that
// is not.
#include "consumerd/channel/channel_geometry.h"
#include "tests/support/channel_builder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

namespace plumb {
namespace {

constexpr uint64_t gib = uint64_t{1} << 30;

/* Its parts lie one behind the other, and nothing is behind the rings. */
void lay_out(plumb_channel_header& header) {
    const uint64_t rings = uint64_t{header.ring_count} + header.extra_ring_count;
    header.ring_bytes = uint64_t{header.subbuf_bytes} * header.subbuf_count;
    header.event_slots_offset = header.header_bytes;
    header.entry_slots_offset = header.event_slots_offset + 8 * uint64_t{header.event_slots};
    header.heap_offset = header.entry_slots_offset + 8 * uint64_t{header.entry_slots};
    header.control_offset = (header.heap_offset + header.heap_bytes + 63) / 64 * 64;
    header.data_offset = header.control_offset + rings * PLUMB_RING_CONTROL_BYTES;
    header.total_bytes = header.data_offset + rings * header.ring_bytes;
}

plumb_channel_header good_header() {
    test::ChannelBuilder channel;
    plumb_channel_header header = channel.header();
    lay_out(header);
    return header;
}

/* What is wrong with the header; nothing if it is believed. */
std::string complaint_of(const plumb_channel_header& header, uint64_t mapped_bytes) {
    const auto geometry = check_channel_header(header, mapped_bytes);
    return geometry ? "" : geometry.error().message();
}
using Change = std::function<void(plumb_channel_header&)>;
std::string complaint_after(const Change& change) {
    plumb_channel_header header = good_header();
    change(header);
    return complaint_of(header, header.total_bytes);
}
/* Of one whose parts lie where they should. */
std::string complaint_of_size(const Change& change) {
    return complaint_after([&](plumb_channel_header& header) {
        change(header);
        lay_out(header);
    });
}

TEST(ChannelGeometry, IsWhatTheHeaderSays) {
    plumb_channel_header header = good_header();
    header.mode = PLUMB_MODE_OVERWRITE;
    header.domain = PLUMB_DOMAIN_KERNEL;
    header.clock.mode = PLUMB_CLOCK_BOOTTIME;
    header.ring_count = 5;
    header.extra_ring_count = 3;
    header.subbuf_count = 8;
    header.entry_slots = 32;
    lay_out(header);
    std::memset(header.session_name, 's', sizeof(header.session_name)); /* no end */
    for (uint8_t i = 0; i < 16; i++)
        header.boot_id[i] = static_cast<uint8_t>(200 - i);
    const auto geometry = check_channel_header(header, header.total_bytes);
    ASSERT_TRUE(geometry) << geometry.error().message();
    EXPECT_EQ(geometry->domain, PLUMB_DOMAIN_KERNEL);
    EXPECT_EQ(geometry->mode, PLUMB_MODE_OVERWRITE);
    EXPECT_EQ(geometry->clock_mode, PLUMB_CLOCK_BOOTTIME);
    EXPECT_EQ(geometry->all_rings(), 8u);
    EXPECT_EQ(geometry->ring_count, 5u);
    EXPECT_EQ(geometry->subbuf_bytes, 4096u);
    EXPECT_EQ(geometry->subbuf_count, 8u);
    EXPECT_EQ(geometry->ring_bytes, 32768u);
    EXPECT_EQ(geometry->event_slots_offset, header.event_slots_offset);
    EXPECT_EQ(geometry->entry_slots_offset, header.entry_slots_offset);
    EXPECT_EQ(geometry->heap_offset, header.heap_offset);
    EXPECT_EQ(geometry->heap_bytes, 65536u);
    EXPECT_EQ(geometry->control_offset, header.control_offset);
    EXPECT_EQ(geometry->data_offset, header.data_offset);
    EXPECT_EQ(geometry->event_slots, 64u);
    EXPECT_EQ(geometry->entry_slots, 32u);
    EXPECT_EQ(geometry->session_cookie, 0x1234u);
    EXPECT_EQ(geometry->created_realtime_ns, header.created_realtime_ns);
    EXPECT_EQ(geometry->session_name, std::string(64, 's'));
    EXPECT_EQ(geometry->host_name, "here");
    EXPECT_EQ(std::memcmp(geometry->trace_uuid.data(), header.trace_uuid, 16), 0);
    EXPECT_EQ(std::memcmp(geometry->boot_id.data(), header.boot_id, 16), 0);
}

TEST(ChannelGeometry, IsRefusedWhereTheChannelIsNoneOrNotWhole) {
    const plumb_channel_header header = good_header();
    const uint64_t all = header.total_bytes;
    EXPECT_EQ(complaint_of(header, all), "");
    EXPECT_EQ(complaint_of(header, all + 1), "");
    EXPECT_EQ(complaint_of(header, all - 1),
              fmt::format("The channel is not whole: it has {} bytes, of which {} are there.", all, all - 1));
    EXPECT_EQ(complaint_of(header, sizeof(header) - 1),
              fmt::format("This is not a Plumb channel: {} bytes are too few for one.", sizeof(header) - 1));
    EXPECT_EQ(complaint_of(header, header.header_bytes - 1),
              "The channel is damaged: a header of 4096 bytes.");
    EXPECT_EQ(complaint_of(header, header.header_bytes),
              fmt::format("The channel is not whole: it has {} bytes, of which 4096 are there.", all));
    EXPECT_EQ(complaint_after([](auto& h) { h.magic++; }),
              "This is not a Plumb channel: its magic number is missing.");
    EXPECT_EQ(complaint_after([](auto& h) {
                  h.version_major++;
                  h.version_minor = 7;
              }),
              fmt::format("The channel has format version {}.7, this reader knows version {}.x. Use the "
                          "plumb command of the version that made it.",
                          PLUMB_CHANNEL_VERSION_MAJOR + 1, PLUMB_CHANNEL_VERSION_MAJOR));
    EXPECT_EQ(complaint_after([](auto& h) { h.version_minor = 9; }), "");
    EXPECT_EQ(complaint_of_size([](auto& h) { h.header_bytes = sizeof(h); }), "");
    EXPECT_EQ(complaint_of_size([](auto& h) { h.header_bytes = sizeof(h) - 8; }),
              fmt::format("The channel is damaged: a header of {} bytes.", sizeof(header) - 8));
}

TEST(ChannelGeometry, IsOfKindsThatThereAre) {
    const auto of_domain = [](uint32_t domain) {
        return complaint_after([=](auto& h) { h.domain = domain; });
    };
    const auto of_mode = [](uint32_t mode) { return complaint_after([=](auto& h) { h.mode = mode; }); };
    const auto of_clock = [](uint32_t mode) {
        return complaint_after([=](auto& h) { h.clock.mode = mode; });
    };
    EXPECT_EQ(of_domain(0), "The channel is damaged: domain 0.");
    EXPECT_EQ(of_domain(PLUMB_DOMAIN_USER), "");
    EXPECT_EQ(of_domain(PLUMB_DOMAIN_KERNEL), "");
    EXPECT_EQ(of_domain(3), "The channel is damaged: domain 3.");
    EXPECT_EQ(of_mode(0), "The channel is damaged: ring mode 0.");
    for (uint32_t mode = PLUMB_MODE_DISCARD; mode <= PLUMB_MODE_BLOCK; mode++)
        EXPECT_EQ(of_mode(mode), "") << mode;
    EXPECT_EQ(of_mode(4), "The channel is damaged: ring mode 4.");
    for (uint32_t mode = PLUMB_CLOCK_NONE; mode <= PLUMB_CLOCK_REALTIME; mode++)
        EXPECT_EQ(of_clock(mode), "") << mode;
    EXPECT_EQ(of_clock(PLUMB_CLOCK_REALTIME + 1), "The channel is damaged: clock mode 5.");
}

TEST(ChannelGeometry, HasRingsUpToTheLimits) {
    const auto of_rings = [](uint32_t of_cpus, uint32_t extra) {
        return complaint_of_size([=](auto& h) {
            h.ring_count = of_cpus;
            h.extra_ring_count = extra;
        });
    };
    EXPECT_EQ(of_rings(0, 0), "The channel is damaged: 0 rings.");
    EXPECT_EQ(of_rings(0, 1), "");
    EXPECT_EQ(of_rings(1, 0), "");
    EXPECT_EQ(of_rings(PLUMB_CHANNEL_MAX_RINGS - 6, 6), "");
    EXPECT_EQ(of_rings(PLUMB_CHANNEL_MAX_RINGS - 6, 7), "The channel is damaged: 4097 rings.");
    EXPECT_EQ(of_rings(UINT32_MAX, 2), "The channel is damaged: 4294967297 rings.");

    const auto of_subbufs = [](uint64_t bytes, uint32_t count) {
        return complaint_of_size([=](auto& h) {
            h.subbuf_bytes = static_cast<uint32_t>(bytes);
            h.subbuf_count = count;
        });
    };
    EXPECT_EQ(of_subbufs(2048, 4), "The channel is damaged: sub-buffers of 2048 bytes.");
    EXPECT_EQ(of_subbufs(6144, 4), "The channel is damaged: sub-buffers of 6144 bytes.");
    EXPECT_EQ(of_subbufs(gib, 2), "");
    EXPECT_EQ(of_subbufs(2 * gib, 2), "The channel is damaged: sub-buffers of 2147483648 bytes.");
    EXPECT_EQ(of_subbufs(4096, 1), "The channel is damaged: 1 sub-buffers.");
    EXPECT_EQ(of_subbufs(4096, 2), "");
    EXPECT_EQ(of_subbufs(4096, 6), "The channel is damaged: 6 sub-buffers.");
    for (const int wrong : {-1, 1})
        EXPECT_EQ(complaint_after([=](auto& h) { h.ring_bytes += static_cast<uint64_t>(wrong); }),
                  fmt::format("The channel is damaged: rings of {} bytes.", 16384 + wrong));

    /* All rings together. */
    const auto of_large_rings = [](uint32_t rings, uint32_t gibs) {
        return complaint_of_size([=](auto& h) {
            h.ring_count = rings;
            h.extra_ring_count = 0;
            h.subbuf_bytes = gib;
            h.subbuf_count = gibs;
        });
    };
    EXPECT_EQ(of_large_rings(1, 1024), "");
    EXPECT_EQ(of_large_rings(2, 512), "");
    EXPECT_EQ(of_large_rings(2, 1024), "The channel is damaged: 2 rings of 1099511627776 bytes.");
    EXPECT_EQ(of_large_rings(3, 512), "The channel is damaged: 3 rings of 549755813888 bytes.");
}

TEST(ChannelGeometry, HasTablesUpToTheLimits) {
    const auto of_events = [](uint32_t slots) {
        return complaint_of_size([=](auto& h) { h.event_slots = slots; });
    };
    const std::string outside = "The channel is damaged: its event table lies outside.";
    EXPECT_EQ(of_events(0), outside);
    EXPECT_EQ(of_events(1), "");
    EXPECT_EQ(of_events(2), "");
    EXPECT_EQ(of_events(48), outside);
    EXPECT_EQ(of_events(PLUMB_EVENT_SLOTS_MAX), "");
    EXPECT_EQ(of_events(2 * PLUMB_EVENT_SLOTS_MAX), outside);

    const auto of_entries = [](uint32_t slots) {
        return complaint_of_size([=](auto& h) { h.entry_slots = slots; });
    };
    EXPECT_EQ(of_entries(0), "");
    EXPECT_EQ(of_entries(PLUMB_ENTRY_SLOTS_MAX), "");
    EXPECT_EQ(of_entries(PLUMB_ENTRY_SLOTS_MAX + 1), "The channel is damaged: 16777217 entries.");

    const auto of_heap = [](uint64_t bytes) {
        return complaint_of_size([=](auto& h) { h.heap_bytes = bytes; });
    };
    EXPECT_EQ(of_heap(0), "");
    EXPECT_EQ(of_heap(PLUMB_HEAP_BYTES_MAX), "");
    EXPECT_EQ(of_heap(PLUMB_HEAP_BYTES_MAX + 1), "The channel is damaged: a heap of 4294967297 bytes.");
}

/* Each part: where it may lie, right behind the header and up to the end, and where it may not. */
TEST(ChannelGeometry, HasEveryPartInside) {
    struct Part {
        const char* name;
        uint64_t plumb_channel_header::*offset;
        uint64_t bytes, alignment;
    };
    for (const Part& part : {Part{"event table", &plumb_channel_header::event_slots_offset, 64 * 8, 8},
                             Part{"entry table", &plumb_channel_header::entry_slots_offset, 64 * 8, 8},
                             Part{"heap", &plumb_channel_header::heap_offset, 65536, 8},
                             Part{"ring control blocks", &plumb_channel_header::control_offset,
                                  3 * PLUMB_RING_CONTROL_BYTES, 64},
                             Part{"rings", &plumb_channel_header::data_offset, 3 * 16384, 8}}) {
        const auto at = [&](uint64_t offset) {
            return complaint_after([&](plumb_channel_header& header) {
                header.total_bytes = 1 << 20;
                header.*part.offset = offset;
            });
        };
        const std::string outside = fmt::format(
            "The channel is damaged: its {} lie{} outside.", part.name,
            std::strcmp(part.name, "rings") == 0 || std::strcmp(part.name, "ring control blocks") == 0 ? ""
                                                                                                       : "s");
        const uint64_t last = (1 << 20) - part.bytes;
        EXPECT_EQ(at(PLUMB_CHANNEL_HEADER_BYTES), "") << part.name;
        EXPECT_EQ(at(PLUMB_CHANNEL_HEADER_BYTES - part.alignment), outside);
        EXPECT_EQ(at(PLUMB_CHANNEL_HEADER_BYTES + part.alignment / 2), outside);
        EXPECT_EQ(at(last), "") << part.name;
        EXPECT_EQ(at(last + part.alignment), outside);
        EXPECT_EQ(at(1 << 20), outside);
        EXPECT_EQ(at((1 << 20) + part.alignment), outside);
        EXPECT_EQ(at(~uint64_t{63}), outside) << "no sum overflows";
    }
    EXPECT_EQ(complaint_after([](auto& h) { h.total_bytes = h.data_offset + 3 * h.ring_bytes - 8; }),
              "The channel is damaged: its rings lie outside.");
}

} // namespace
} // namespace plumb
