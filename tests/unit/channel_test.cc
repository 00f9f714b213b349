// cmake-once
// Channels: every configuration is laid out within the rules of the ABI or refused by name; all memory is
// there before the name is; closing reaches writers that wait.
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/control/channel.h"
#include "tests/support/scratch_shm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace plumb;
using plumb::test::ScratchShm;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

ChannelConfig small() {
    ChannelConfig config;
    config.subbuf_bytes = 4096;
    config.subbuf_count = 4;
    config.ring_count = 2;
    return config;
}

ChannelConfig on_demand() {
    ChannelConfig config = small();
    config.rings_on_demand = true;
    return config;
}

class WithDirectory : public ::testing::Test {
protected:
    explicit WithDirectory(unsigned long bytes = 0)
        : scratch_(bytes), directory_(UserDirectory::open_or_create_at(scratch_ / "user", ::geteuid())) {}
    void SetUp() override { ASSERT_TRUE(directory_) << directory_.error().message(); }
    Channel make(const ChannelConfig& config = small()) {
        Result<Channel> channel = Channel::create(*directory_, config);
        EXPECT_TRUE(channel) << channel.error().message();
        return std::move(*channel);
    }

    ScratchShm scratch_;
    Result<UserDirectory> directory_;
};

class WithLittleRoom : public WithDirectory {
protected:
    WithLittleRoom() : WithDirectory(4ul << 20) {}
};

std::uint64_t size_of(const Channel& channel) {
    struct stat info {};
    EXPECT_EQ(::stat(channel.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode, S_IFREG | 0600u);
    return static_cast<std::uint64_t>(info.st_size);
}

std::uint64_t memory_of(const Channel& channel) {
    struct stat info {};
    EXPECT_EQ(::stat(channel.path().c_str(), &info), 0);
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
}

plumb_ring_control& control_of(Channel& channel, std::uint32_t ring) {
    return reinterpret_cast<plumb_ring_control*>(channel.bytes().data() +
                                                 channel.layout().control_offset)[ring];
}

void expect_refused(const ChannelConfig& config, const char* word) {
    const Result<ChannelLayout> layout = lay_out_channel(config);
    ASSERT_FALSE(layout) << word;
    EXPECT_THAT(layout.error().message(), HasSubstr(word));
}

} // namespace

TEST(channel_layout, puts_part_behind_part_each_on_a_page) {
    for (const std::uint32_t rings : {1u, 2u, 3u, 64u, 1000u}) {
        for (const std::uint32_t slots : {1u, 64u, 4096u, 65536u}) {
            ChannelConfig config = small();
            config.ring_count = rings;
            config.event_slots = slots;
            config.entry_slots = slots + 1;
            config.heap_bytes = 4097;
            const Result<ChannelLayout> layout = lay_out_channel(config);
            ASSERT_TRUE(layout) << layout.error().message();
            const std::uint64_t all_rings = rings + layout->extra_ring_count;
            EXPECT_EQ(layout->ring_count, rings);
            EXPECT_GE(layout->event_slots_offset, sizeof(plumb_channel_header));
            EXPECT_GE(layout->entry_slots_offset, layout->event_slots_offset + 8 * config.event_slots);
            EXPECT_GE(layout->heap_offset, layout->entry_slots_offset + 8 * config.entry_slots);
            EXPECT_GE(layout->control_offset, layout->heap_offset + config.heap_bytes);
            EXPECT_GE(layout->data_offset, layout->control_offset + all_rings * PLUMB_RING_CONTROL_BYTES);
            EXPECT_GE(layout->total_bytes,
                      layout->data_offset + all_rings * layout->ring_bytes + PLUMB_CHANNEL_GUARD);
            for (const std::uint64_t offset :
                 {layout->event_slots_offset, layout->entry_slots_offset, layout->heap_offset,
                  layout->control_offset, layout->data_offset, layout->total_bytes})
                EXPECT_EQ(offset % 4096, 0u);
        }
    }
}

TEST(channel_layout, has_a_heap_that_grows_with_the_rings) {
    ChannelConfig config;
    config.ring_count = config.extra_ring_count = 1;
    EXPECT_EQ(lay_out_channel(config)->heap_bytes, 2u << 20); /* 8 MiB of rings */
    config.ring_count = 5;
    EXPECT_EQ(lay_out_channel(config)->heap_bytes, 3u << 20);
    config.ring_count = 100;
    EXPECT_EQ(lay_out_channel(config)->heap_bytes, 4u << 20);
    config.heap_bytes = 8192;
    EXPECT_EQ(lay_out_channel(config)->heap_bytes, 8192u);
}

TEST(channel_layout, has_a_ring_for_each_cpu_and_some_by_owner) {
    const Result<ChannelLayout> layout = lay_out_channel(ChannelConfig{});
    ASSERT_TRUE(layout);
    EXPECT_GE(layout->ring_count, static_cast<std::uint32_t>(::sysconf(_SC_NPROCESSORS_ONLN)));
    EXPECT_EQ(layout->extra_ring_count, std::min(std::max(layout->ring_count, 4u), 16u));
}

TEST(channel_layout, refuses_what_the_abi_does_not_allow_by_name) {
    for (const std::uint32_t bytes : {0u, 1u, 2048u, 4097u, 5000u, 0x80000000u}) {
        ChannelConfig config = small();
        config.subbuf_bytes = bytes;
        expect_refused(config, "power of two from 4096 to 1073741824");
    }
    for (const std::uint32_t count : {0u, 1u, 3u, 100u}) {
        ChannelConfig config = small();
        config.subbuf_count = count;
        expect_refused(config, "at least 2");
    }
    for (const std::uint32_t slots : {0u, 3u, 131072u}) {
        ChannelConfig config = small();
        config.event_slots = slots;
        expect_refused(config, "event slots");
    }
    ChannelConfig config = small();
    config.entry_slots = 0;
    expect_refused(config, "entry slots");
    for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{4095}, ~std::uint64_t{0}}) {
        config = small();
        config.heap_bytes = bytes;
        expect_refused(config, "heap");
    }
    config = small();
    config.ring_count = PLUMB_CHANNEL_MAX_RINGS;
    expect_refused(config, "rings");
    config = small();
    config.mode = static_cast<plumb_ring_mode>(0);
    expect_refused(config, "mode 0");
    config = small();
    config.subbuf_bytes = PLUMB_SUBBUF_MAX_BYTES;
    config.subbuf_count = 0x80000000u;
    expect_refused(config, "1 TiB");
}

TEST(channel_name, holds_the_cookie) {
    EXPECT_EQ(channel_file_name(0x1234), "channel-0000000000001234");
    EXPECT_EQ(channel_cookie_of("channel-0000000000001234"), 0x1234u);
    EXPECT_EQ(channel_cookie_of("channel-ffffffffffffffff"), ~std::uint64_t{0});
    for (const char* name :
         {"state", "channel-", "channel-000000000000123", "channel-00000000000012345",
          "channel-000000000000123g", "channel-000000000000123A", "Channel-0000000000001234"})
        EXPECT_FALSE(channel_cookie_of(name)) << name;
    EXPECT_NE(random_cookie(), random_cookie());
}

TEST_F(WithDirectory, a_channel_describes_itself) {
    ChannelConfig config = small();
    config.session_name = "night shift";
    config.mode = PLUMB_MODE_BLOCK;
    config.block_timeout_ns = 12345;
    config.clock_mode = PLUMB_CLOCK_MONOTONIC;
    const std::uint64_t before_ns = read_clock(PLUMB_CLOCK_REALTIME);
    Channel channel = make(config);
    const plumb_channel_header& header = channel.header();
    EXPECT_GE(header.created_realtime_ns, before_ns);
    EXPECT_LE(header.created_realtime_ns, read_clock(PLUMB_CLOCK_REALTIME));
    EXPECT_EQ(header.magic, PLUMB_CHANNEL_MAGIC);
    EXPECT_EQ(header.version_major, PLUMB_CHANNEL_VERSION_MAJOR);
    EXPECT_EQ(header.total_bytes, channel.bytes().size());
    EXPECT_EQ(header.domain, static_cast<std::uint32_t>(PLUMB_DOMAIN_USER));
    EXPECT_EQ(header.mode, static_cast<std::uint32_t>(PLUMB_MODE_BLOCK));
    EXPECT_EQ(header.block_timeout_ns, 12345u);
    EXPECT_EQ(header.ring_bytes, 4u * 4096u);
    EXPECT_EQ(header.session_cookie, channel.cookie());
    EXPECT_EQ(header.creator_pid, static_cast<std::uint32_t>(::getpid()));
    EXPECT_STREQ(header.session_name, "night shift");
    EXPECT_STRNE(header.host_name, "");
    EXPECT_EQ(header.clock.mode, static_cast<std::uint32_t>(PLUMB_CLOCK_MONOTONIC));
    EXPECT_EQ(header.trace_uuid[6] >> 4, 4);
    const plumb_channel_header second = make(config).header();
    EXPECT_NE(std::memcmp(header.trace_uuid, second.trace_uuid, 16), 0);
    EXPECT_EQ(std::memcmp(header.boot_id, second.boot_id, 16), 0);
    std::string boot_id;
    for (const std::uint8_t byte : header.boot_id)
        boot_id += fmt::format("{:02x}", byte);
    std::string expected;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> expected;
    std::erase(expected, '-');
    EXPECT_EQ(boot_id, expected);
}

TEST_F(WithDirectory, a_name_that_is_too_long_is_cut_not_overrun) {
    ChannelConfig config = small();
    config.session_name = std::string(1000, 'n');
    EXPECT_STREQ(make(config).header().session_name, std::string(63, 'n').c_str());
}

TEST_F(WithDirectory, all_of_its_memory_is_there) {
    Channel channel = make();
    EXPECT_EQ(size_of(channel), channel.layout().total_bytes);
    EXPECT_EQ(memory_of(channel), channel.layout().total_bytes);
    EXPECT_EQ(control_of(channel, 5).memory, channel.layout().ring_bytes);
}

TEST_F(WithDirectory, all_of_its_memory_but_that_of_the_rings_is_there_on_demand) {
    const Channel channel = make(on_demand());
    const ChannelLayout& layout = channel.layout();
    const std::uint64_t rings = (layout.ring_count + layout.extra_ring_count) * layout.ring_bytes;
    EXPECT_EQ(size_of(channel), layout.total_bytes);
    EXPECT_EQ(memory_of(channel), layout.total_bytes - rings);
    EXPECT_EQ(memory_of(channel), layout.data_offset + PLUMB_CHANNEL_GUARD) << "the guard has none";
}

TEST_F(WithDirectory, large_sub_buffers_have_theirs_from_the_beginning) {
    ChannelConfig config = on_demand();
    config.subbuf_bytes = 8 << 20;
    config.subbuf_count = 2;
    Channel channel = make(config);
    EXPECT_EQ(memory_of(channel), channel.layout().total_bytes);
    EXPECT_EQ(control_of(channel, 0).memory, channel.layout().ring_bytes);
    EXPECT_EQ(control_of(channel, 5).memory, channel.layout().ring_bytes);
}

TEST_F(WithDirectory, a_ring_that_is_written_gets_memory_ahead_of_its_writer) {
    Channel channel = make(on_demand());
    const std::uint64_t at_first = memory_of(channel);
    RingMemory memory = channel.ring_memory();
    for (std::uint32_t ring = 0; ring < 6; ring++)
        memory.keep_ahead(ring);
    EXPECT_EQ(memory_of(channel), at_first) << "of rings that nobody has written";

    plumb_ring_control& control = control_of(channel, 1);
    control.limit = 4096;
    control.memory = 4096; /* by the writer, in the meantime */
    memory.keep_ahead(1);
    EXPECT_EQ(control.memory, 2u * 4096u);
    EXPECT_EQ(memory_of(channel), at_first + 4096) << "not the second sub-buffer alone";
    control.limit = 3 * 4096;
    memory.keep_ahead(1);
    EXPECT_EQ(control.memory, 4u * 4096u);
    control.limit = UINT64_MAX; /* damaged */
    memory.keep_ahead(1);
    EXPECT_EQ(memory_of(channel), at_first + 3 * 4096);
    EXPECT_EQ(size_of(channel), channel.layout().total_bytes);
}

TEST_F(WithDirectory, who_may_not_take_memory_gets_all_rings) {
    Channel channel = make(on_demand());
    RingMemory memory = channel.ring_memory();
    memory.reserve_all_if_wanted();
    EXPECT_LT(memory_of(channel), channel.layout().total_bytes);
    channel.header().memory_wanted = 1;
    memory.keep_ahead(0);
    EXPECT_EQ(control_of(channel, 0).memory, channel.layout().ring_bytes);
    EXPECT_EQ(control_of(channel, 1).memory, 0u);
    memory.reserve_all_if_wanted();
    EXPECT_EQ(memory_of(channel), channel.layout().total_bytes);
}

TEST_F(WithLittleRoom, memory_that_is_not_there_is_asked_for_again_later) {
    Channel channel = make(on_demand());
    const std::string filler = scratch_ / "filler";
    const int fd = ::open(filler.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    std::vector<char> bytes(4096);
    while (::write(fd, bytes.data(), bytes.size()) > 0) {
    }
    RingMemory memory = channel.ring_memory();
    channel.header().memory_wanted = 1;
    memory.keep_ahead(0);
    EXPECT_EQ(control_of(channel, 0).memory, 0u);
    EXPECT_EQ(::ftruncate(fd, 0), 0);
    memory.keep_ahead(0);
    EXPECT_EQ(control_of(channel, 0).memory, 0u) << "at once";
    ::usleep(120'000);
    memory.keep_ahead(0);
    EXPECT_EQ(control_of(channel, 0).memory, channel.layout().ring_bytes);
    ::close(fd);
}

TEST_F(WithLittleRoom, too_large_a_channel_is_refused_with_the_figures) {
    ChannelConfig config = small();
    config.subbuf_bytes = 1 << 20;
    const Result<ChannelLayout> layout = lay_out_channel(config);
    ASSERT_TRUE(layout);
    const Result<Channel> channel = Channel::create(*directory_, config);
    ASSERT_FALSE(channel);
    EXPECT_THAT(channel.error().message(),
                HasSubstr(std::to_string(layout->total_bytes) + " bytes) are needed"));
    EXPECT_THAT(channel.error().message(), HasSubstr("4194304 bytes) are available"));
    EXPECT_THAT(channel.error().message(), HasSubstr("--subbuf-size"));
    EXPECT_THAT(*directory_->file_names(), IsEmpty());
    make();
}

TEST_F(WithDirectory, closing_takes_the_room_and_wakes_writers_that_wait) {
    Channel channel = make();
    auto* const controls =
        reinterpret_cast<plumb_ring_control*>(channel.bytes().data() + channel.layout().control_offset);
    const std::uint32_t rings = channel.layout().ring_count + channel.layout().extra_ring_count;
    for (std::uint32_t ring = 0; ring < rings; ring++) {
        controls[ring].write_pos = 64;
        controls[ring].limit = 4096;
    }
    controls[rings].limit = 4096; /* no ring's: the first bytes of what comes behind */
    plumb_channel_header& header = channel.header();
    const std::uint32_t seen = __atomic_load_n(&header.space_futex, __ATOMIC_SEQ_CST);
    std::atomic<bool> woken = false;
    std::thread writer([&] {
        const timespec timeout{10, 0};
        const long result = ::syscall(SYS_futex, &header.space_futex, FUTEX_WAIT, seen, &timeout, nullptr, 0);
        woken = result == 0 || errno == EAGAIN;
    });
    ::usleep(20'000);
    channel.close();
    writer.join();
    EXPECT_TRUE(woken);
    EXPECT_NE(header.closed, 0u);
    for (std::uint32_t ring = 0; ring < rings; ring++) {
        EXPECT_EQ(controls[ring].limit, 0u);
        EXPECT_EQ(controls[ring].write_pos, 64u) << "what was written stays";
    }
    EXPECT_EQ(controls[rings].limit, 4096u) << "what stands behind the rings' controls is not touched";
    channel.close();
}

TEST_F(WithDirectory, closing_believes_its_own_layout_not_the_header) {
    Channel channel = make();
    channel.header().control_offset = ~std::uint64_t{0} - 63;
    channel.header().ring_count = ~0u;
    channel.close();
    EXPECT_NE(channel.header().closed, 0u);
}

TEST_F(WithDirectory, the_memory_outlives_the_name) {
    Channel channel = make();
    ASSERT_TRUE(channel.unlink());
    EXPECT_THAT(*directory_->file_names(), IsEmpty());
    EXPECT_EQ(channel.header().magic, PLUMB_CHANNEL_MAGIC);
    EXPECT_TRUE(channel.unlink()) << "gone is gone";
}

TEST_F(WithDirectory, a_dead_channel_is_closed_for_those_who_still_map_it) {
    Channel channel = make();
    ASSERT_TRUE(remove_dead_channel(*directory_, channel_file_name(channel.cookie())));
    EXPECT_NE(channel.header().closed, 0u);
    EXPECT_THAT(*directory_->file_names(), IsEmpty());
}

TEST_F(WithDirectory, a_damaged_dead_channel_is_removed_too) {
    const auto damage = [&](auto change, off_t bytes = -1) {
        Channel channel = make();
        change(channel.header());
        if (bytes >= 0) {
            ASSERT_EQ(::truncate(channel.path().c_str(), bytes), 0);
        }
        EXPECT_TRUE(remove_dead_channel(*directory_, channel_file_name(channel.cookie())));
        EXPECT_THAT(*directory_->file_names(), IsEmpty());
    };
    damage([](plumb_channel_header& header) { header.magic = 0; });
    damage([](plumb_channel_header& header) { header.control_offset = ~std::uint64_t{0} & ~63ull; });
    damage([](plumb_channel_header& header) { header.control_offset = header.total_bytes - 64; });
    damage([](plumb_channel_header& header) { header.ring_count = header.extra_ring_count = ~0u; });
    damage([](plumb_channel_header& header) { header.ring_count = PLUMB_CHANNEL_MAX_RINGS - 4; });
    damage([](plumb_channel_header&) {}, 0);
    damage([](plumb_channel_header&) {}, 100);
    damage([](plumb_channel_header&) {}, 4096);
}
