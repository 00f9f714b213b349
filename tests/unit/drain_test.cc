// The consumer's loop, beside writers that are made here: tests/support/channel_builder.h.
#include "consumerd/drain/channel_source.h"
#include "tests/support/channel_builder.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>

namespace plumb {
namespace {

using test::BuilderConfig;
using test::ChannelBuilder;
using test::Payload;

class DrainTest : public testing::Test {
protected:
    void SetUp() override {
        char pattern[] = "/tmp/plumb-drain-test-XXXXXX";
        ASSERT_NE(mkdtemp(pattern), nullptr);
        root_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    std::unique_ptr<Drain> live(ChannelBuilder& channel, ChannelDrainOptions options = {}) {
        options.directory = root_ + "/trace";
        auto calibration = ClockCalibration::start(PLUMB_CLOCK_MONOTONIC);
        auto drain = drain_live_channel(channel.bytes(), std::move(*calibration), std::move(options));
        EXPECT_TRUE(drain) << drain.error().message();
        return drain ? std::move(*drain) : nullptr;
    }

private:
    std::string root_;
};

uint64_t now() {
    return read_clock(PLUMB_CLOCK_MONOTONIC);
}

/* Whether `consumed` moved within ten seconds. */
bool wait_for_space(ChannelBuilder& channel, uint32_t space_seen) {
    plumb_channel_header& header = channel.header();
    const timespec timeout{10, 0};
    __atomic_store_n(&header.space_waiters, 1, __ATOMIC_SEQ_CST);
    return syscall(SYS_futex, &header.space_futex, FUTEX_WAIT, space_seen, &timeout, nullptr, 0) == 0 ||
           __atomic_load_n(&header.space_futex, __ATOMIC_SEQ_CST) != space_seen;
}

} // namespace

// The loop's own interval is a minute here: whoever waits for it has lost a wake.
TEST_F(DrainTest, hands_back_each_full_subbuffer_when_it_is_closed) {
    BuilderConfig config;
    config.mode = PLUMB_MODE_BLOCK;
    config.subbuf_count = 2;
    config.ring_count = 1;
    ChannelBuilder channel(config);
    const uint16_t id = channel.add_event("n", {test::integer("value", 8)});
    ChannelDrainOptions options;
    options.interval_ns = options.idle_interval_ns = 60'000'000'000;
    auto drain = live(channel, options);
    ASSERT_TRUE(drain->start());

    constexpr uint64_t events = 200'000; /* 1,180 sub-buffers */
    for (uint64_t i = 0; i < events; i++) {
        for (;;) {
            const uint32_t seen = __atomic_load_n(&channel.header().space_futex, __ATOMIC_SEQ_CST);
            if (channel.write(0, id, now(), Payload().put(i).bytes())) break;
            ASSERT_TRUE(wait_for_space(channel, seen)) << "nobody read a full ring, at event " << i;
        }
    }
    EXPECT_TRUE(drain->finish());
    EXPECT_EQ(drain->totals().progress.events, events);
}

} // namespace plumb
