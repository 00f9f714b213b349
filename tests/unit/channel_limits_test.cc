// cmake-once
// Where everything in a channel is, to the byte; which sizes are just possible; and what an event that is described there
// takes.
#include "consumerd/control/channel.h"
#include "tests/support/scratch_shm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace plumb;
using plumb::test::ScratchShm;
using ::testing::HasSubstr;

namespace {

ChannelConfig small() {
    ChannelConfig config;
    config.subbuf_bytes = 4096;
    config.subbuf_count = 4;
    config.ring_count = 3;
    config.extra_ring_count = 2;
    config.event_slots = 64;
    config.entry_slots = 65;
    config.heap_bytes = 4097;
    return config;
}

std::string mistake_of(const ChannelConfig& config) {
    const Result<ChannelLayout> layout = lay_out_channel(config);
    return layout ? "" : layout.error().message();
}

class Limits : public ::testing::Test {
protected:
    Limits() : directory_(UserDirectory::open_or_create_at(scratch_ / "user", ::geteuid())) {}
    Channel make(const ChannelConfig& config) {
        Result<Channel> channel = Channel::create(*directory_, config);
        EXPECT_TRUE(channel) << channel.error().message();
        return std::move(*channel);
    }
    ScratchShm scratch_;
    Result<UserDirectory> directory_;
};

EventDescription event_called(const std::string& name) {
    EventDescription event;
    event.provider = "shop";
    event.name = name;
    return event;
}

} // namespace

TEST(channel_layout, is_known_to_the_byte) {
    const Result<ChannelLayout> layout = lay_out_channel(small());
    ASSERT_TRUE(layout) << layout.error().message();
    EXPECT_EQ(layout->ring_count, 3u);
    EXPECT_EQ(layout->extra_ring_count, 2u);
    EXPECT_EQ(layout->event_slots_offset, 4096u);
    EXPECT_EQ(layout->entry_slots_offset, 8192u);
    EXPECT_EQ(layout->heap_offset, 12288u);
    EXPECT_EQ(layout->heap_bytes, 4097u);
    EXPECT_EQ(layout->control_offset, 20480u);
    EXPECT_EQ(layout->data_offset, 24576u);
    EXPECT_EQ(layout->ring_bytes, 16384u);
    EXPECT_EQ(layout->total_bytes, 24576u + 5 * 16384u + 65536u);
    ChannelConfig full_pages = small();
    full_pages.event_slots = 512;
    full_pages.entry_slots = 1024;
    full_pages.heap_bytes = 8192;
    full_pages.ring_count = 14;
    const Result<ChannelLayout> exact = lay_out_channel(full_pages);
    EXPECT_EQ(exact->entry_slots_offset, 8192u);
    EXPECT_EQ(exact->heap_offset, 16384u);
    EXPECT_EQ(exact->control_offset, 24576u);
    EXPECT_EQ(exact->data_offset, 28672u);
}

TEST(channel_layout, has_limits_that_are_just_possible) {
    const auto with = [](auto change) {
        ChannelConfig config = small();
        change(config);
        return mistake_of(config);
    };
    using Config = ChannelConfig;
    EXPECT_EQ(with([](Config& it) { it.subbuf_bytes = PLUMB_SUBBUF_MIN_BYTES; }), "");
    EXPECT_EQ(with([](Config& it) { it.subbuf_bytes = PLUMB_SUBBUF_MAX_BYTES; }), "");
    EXPECT_EQ(
        with([](Config& it) { it.subbuf_bytes = 6000; }),
        "A sub-buffer of 6000 bytes is not possible. The size must be a power of two from 4096 to 1073741824 "
        "bytes.");
    EXPECT_EQ(with([](Config& it) { it.subbuf_count = PLUMB_SUBBUF_MIN_COUNT; }), "");
    EXPECT_EQ(with([](Config& it) { it.subbuf_count = 1; }),
              "1 sub-buffers are not possible. The count must be a power of two, at least 2.");
    EXPECT_EQ(with([](Config& it) { it.event_slots = PLUMB_EVENT_SLOTS_MAX; }), "");
    EXPECT_EQ(with([](Config& it) { it.event_slots = 2 * PLUMB_EVENT_SLOTS_MAX; }),
              fmt::format("{} event slots are not possible. The count must be a power of two, at most {}.",
                          2 * PLUMB_EVENT_SLOTS_MAX, PLUMB_EVENT_SLOTS_MAX));
    EXPECT_EQ(with([](Config& it) { it.entry_slots = 1; }), "");
    EXPECT_EQ(with([](Config& it) { it.entry_slots = PLUMB_ENTRY_SLOTS_MAX; }), "");
    EXPECT_EQ(with([](Config& it) { it.entry_slots = PLUMB_ENTRY_SLOTS_MAX + 1; }),
              fmt::format("{} entry slots are not possible. The count must be from 1 to {}.",
                          PLUMB_ENTRY_SLOTS_MAX + 1, PLUMB_ENTRY_SLOTS_MAX));
    EXPECT_EQ(with([](Config& it) { it.heap_bytes = 4096; }), "");
    EXPECT_EQ(with([](Config& it) { it.heap_bytes = PLUMB_HEAP_BYTES_MAX; }), "");
    for (const std::uint64_t bytes : {std::uint64_t{4095}, std::uint64_t{PLUMB_HEAP_BYTES_MAX} + 1})
        EXPECT_EQ(with([=](Config& it) { it.heap_bytes = bytes; }),
                  fmt::format("A heap of {} bytes is not possible. It must have from 4096 to {} bytes.",
                              bytes, PLUMB_HEAP_BYTES_MAX));
    for (const plumb_ring_mode mode : {PLUMB_MODE_DISCARD, PLUMB_MODE_OVERWRITE, PLUMB_MODE_BLOCK})
        EXPECT_EQ(with([=](Config& it) { it.mode = mode; }), "");
    EXPECT_EQ(with([](Config& it) { it.ring_count = PLUMB_CHANNEL_MAX_RINGS - 2; }), "");
    EXPECT_EQ(with([](Config& it) { it.ring_count = PLUMB_CHANNEL_MAX_RINGS - 1; }),
              fmt::format("{} rings are more than the {} that are possible.", PLUMB_CHANNEL_MAX_RINGS + 1,
                          PLUMB_CHANNEL_MAX_RINGS));
    /* 1 TiB: 4 rings of 256 sub-buffers of 1 GiB. */
    const auto rings = [&](std::uint32_t count) {
        return with([=](Config& it) {
            it.subbuf_bytes = PLUMB_SUBBUF_MAX_BYTES;
            it.subbuf_count = 256;
            it.ring_count = count - 2;
        });
    };
    EXPECT_EQ(rings(4), "");
    EXPECT_EQ(rings(5), "5 rings of 256 sub-buffers of 1073741824 bytes are more than 1 TiB.");
}

TEST_F(Limits, a_channel_says_all_of_its_layout) {
    const Channel channel = make(small());
    const plumb_channel_header& header = channel.header();
    const ChannelLayout& layout = channel.layout();
    EXPECT_EQ(header.version_minor, PLUMB_CHANNEL_VERSION_MINOR);
    EXPECT_EQ(header.header_bytes, sizeof(header));
    EXPECT_EQ(header.total_bytes, layout.total_bytes);
    EXPECT_EQ(header.ring_count, 3u);
    EXPECT_EQ(header.extra_ring_count, 2u);
    EXPECT_EQ(header.subbuf_bytes, 4096u);
    EXPECT_EQ(header.subbuf_count, 4u);
    EXPECT_EQ(header.event_slots, 64u);
    EXPECT_EQ(header.entry_slots, 65u);
    EXPECT_EQ(header.heap_bytes, 4097u);
    EXPECT_EQ(header.event_slots_offset, layout.event_slots_offset);
    EXPECT_EQ(header.entry_slots_offset, layout.entry_slots_offset);
    EXPECT_EQ(header.heap_offset, layout.heap_offset);
    EXPECT_EQ(header.control_offset, layout.control_offset);
    EXPECT_EQ(header.data_offset, layout.data_offset);
    EXPECT_EQ(header.creator_user, ::geteuid());
    EXPECT_EQ(header.trace_uuid[8] >> 6, 2) << "RFC 4122";
    char host_name[sizeof(header.host_name)] = {};
    ASSERT_EQ(::gethostname(host_name, sizeof(host_name) - 1), 0);
    EXPECT_STREQ(header.host_name, host_name);
}

TEST_F(Limits, events_are_described_behind_each_other_until_the_heap_is_full) {
    Channel channel = make(small());
    const ChannelLayout& layout = channel.layout();
    const auto* const slots =
        reinterpret_cast<const std::uint64_t*>(channel.bytes().data() + layout.event_slots_offset);
    const std::uint64_t begin = layout.heap_offset + channel.header().heap_used;
    std::uint64_t used = 0;
    for (std::uint16_t id = PLUMB_EVENT_ID_FIRST; id < PLUMB_EVENT_ID_FIRST + 3; id++) {
        const EventDescription event = event_called(std::string(id * 5u, 'e'));
        ASSERT_TRUE(channel.add_event(id, event));
        const std::vector<std::byte> bytes = encode_event_description(event);
        EXPECT_EQ(slots[id], PLUMB_SLOT(begin + used, bytes.size()));
        EXPECT_EQ(std::memcmp(channel.bytes().data() + begin + used, bytes.data(), bytes.size()), 0);
        used += bytes.size();
    }
    EXPECT_EQ(channel.header().heap_used, begin + used - layout.heap_offset);
    const std::string no_slot = "shop:x: the channel has 64 event slots.";
    EXPECT_EQ(channel.add_event(64, event_called("x")).error().message(), no_slot);
    EXPECT_EQ(channel.add_event(PLUMB_EVENT_ID_FIRST - 1, event_called("x")).error().message(), no_slot);
    EXPECT_EQ(channel.header().heap_used, begin + used - layout.heap_offset) << "nothing was taken for them";
    EXPECT_TRUE(channel.add_event(63, event_called("x")));
    const std::uint64_t size = encode_event_description(event_called("x")).size();
    channel.header().heap_used = layout.heap_bytes - size;
    EXPECT_TRUE(channel.add_event(62, event_called("x"))) << "it just fits";
    channel.header().heap_used = layout.heap_bytes - size + 1;
    EXPECT_EQ(channel.add_event(61, event_called("x")).error().message(),
              "shop:x: the channel's heap of 4097 bytes is full.");
    EXPECT_EQ(slots[61], 0u);
    channel.header().heap_used = 0;
    EXPECT_EQ(channel.add_event(61, event_called(std::string(4097, 'x'))).error().message().find("shop:xxx"),
              0u);
    EXPECT_EQ(slots[61], 0u) << "larger than the heap";
}

TEST_F(Limits, a_dead_channel_is_closed_as_far_as_its_file_goes) {
    const auto closed = [&](auto change) {
        Channel channel = make(small());
        auto* const controls =
            reinterpret_cast<plumb_ring_control*>(channel.bytes().data() + channel.layout().control_offset);
        for (std::uint32_t ring = 0; ring < 5; ring++)
            controls[ring].limit = 4096;
        change(channel.header());
        close_dead_channel(*directory_, channel_file_name(channel.cookie()));
        EXPECT_TRUE(channel.unlink());
        std::string text = channel.header().closed != 0 ? "closed" : "open";
        for (std::uint32_t ring = 0; ring < 5; ring++)
            text += controls[ring].limit == 0 ? " 0" : " x";
        return text;
    };
    EXPECT_EQ(closed([](plumb_channel_header&) {}), "closed 0 0 0 0 0");
    EXPECT_EQ(closed([](plumb_channel_header& it) { it.ring_count = 2; }), "closed 0 0 0 0 x");
    EXPECT_EQ(closed([](plumb_channel_header& it) { it.extra_ring_count = 0; }), "closed 0 0 0 x x");
    const std::string left_alone = "open x x x x x";
    EXPECT_EQ(closed([](plumb_channel_header& it) { it.magic++; }), left_alone);
    EXPECT_EQ(closed([](plumb_channel_header& it) { it.control_offset += 32; }), left_alone);
    EXPECT_EQ(closed([](plumb_channel_header& it) { it.control_offset = it.total_bytes; }), left_alone);
    EXPECT_EQ(closed([](plumb_channel_header& it) { it.control_offset = it.total_bytes - 5 * 256 + 64; }),
              left_alone);
    EXPECT_EQ(closed([](plumb_channel_header& it) { it.ring_count = PLUMB_CHANNEL_MAX_RINGS - 1; }),
              left_alone);
    /* The last place where five of them fit: in the guard, which nobody reads. */
    EXPECT_EQ(closed([](plumb_channel_header& it) { it.control_offset = it.total_bytes - 5 * 256; }),
              "closed x x x x x");
}

TEST_F(Limits, a_channel_that_can_not_be_removed_is_told) {
    Channel channel = make(small());
    const std::string path = channel.path();
    ASSERT_EQ(::unlink(path.c_str()), 0);
    ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
    EXPECT_THAT(channel.unlink().error().message(), HasSubstr("Could not remove the channel " + path));
    ASSERT_EQ(::rmdir(path.c_str()), 0);
    EXPECT_TRUE(channel.unlink());
}
