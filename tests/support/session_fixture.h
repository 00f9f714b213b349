// Sessions as a controller has them, with small channels, in shared memory of the test's own.
#pragma once

#include "consumerd/control/session.h"
#include "tests/support/private_shm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace plumb::test {

/* Small, so that many tests fit into any /dev/shm. */
inline ChannelConfig small_channel() {
    ChannelConfig config;
    config.session_name = "test";
    config.subbuf_bytes = 64 * 1024;
    config.subbuf_count = 4;
    config.mode = PLUMB_MODE_OVERWRITE;
    config.clock_mode = PLUMB_CLOCK_MONOTONIC;
    return config;
}

inline QuiescenceOptions quick() {
    QuiescenceOptions options;
    options.timeout_ns = 3'000'000'000;
    return options;
}

/* All rings of a channel: those of CPUs and the extra ones. */
inline std::span<const plumb_ring_control> controls_of(const Channel& channel) {
    return {
        reinterpret_cast<const plumb_ring_control*>(channel.bytes().data() + channel.layout().control_offset),
        std::size_t{channel.layout().ring_count} + channel.layout().extra_ring_count};
}

class SessionTest : public testing::Test {
protected:
    void SetUp() override { ASSERT_TRUE(has_private_shm()); }

    static Session make(const std::string& name = "test") {
        ChannelConfig config = small_channel();
        config.session_name = name;
        Result<Session> made = Session::create(config, quick());
        EXPECT_TRUE(made) << made.error().message();
        return std::move(*made);
    }
    static Report enable(Session& session, const std::vector<Rule>& rules) {
        Result<Report> report = session.enable(rules);
        EXPECT_TRUE(report) << report.error().message();
        return *report;
    }
    static Report disable(Session& session, const std::vector<Rule>& rules) {
        Result<Report> report = session.disable(rules);
        EXPECT_TRUE(report) << report.error().message();
        return *report;
    }
    /* Bytes written to the channel so far. */
    static std::uint64_t written(const Session& session) {
        std::uint64_t sum = 0;
        for (const plumb_ring_control& ring : controls_of(session.channel()))
            sum += __atomic_load_n(&ring.write_pos, __ATOMIC_SEQ_CST);
        return sum;
    }
    /* Whether more is written, now or soon: the machine may have other things to do. */
    static bool grows(const Session& session) {
        const std::uint64_t before = written(session);
        for (int i = 0; i < 5000 && written(session) == before; i++)
            usleep(1000);
        return written(session) > before;
    }
    static std::string reason_for(const Report& report, std::uint32_t process_id) {
        for (const Unreachable& each : report.unreachable)
            if (each.process_id == process_id) return each.reason;
        return {};
    }
    static bool has_slot(Session& session, std::uint32_t process_id) {
        const std::vector<ProcessSlot> slots = session.state().processes();
        return std::any_of(slots.begin(), slots.end(),
                           [&](const ProcessSlot& slot) { return slot.process_id() == process_id; });
    }
};

} // namespace plumb::test
