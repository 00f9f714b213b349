// Where a trace says that events were lost: where they are missing. The writer is made here, and so knows what was lost
// before each of its records.
#include "consumerd/drain/channel_source.h"
#include "consumerd/drain/loss_places.h"
#include "tests/support/channel_builder.h"
#include "tests/support/idle_sink.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

namespace plumb {
namespace {

using test::ChannelBuilder;
using test::Payload;

LossPlaces::Counts lost(plumb_loss cause, uint64_t events) {
    LossPlaces::Counts counts{};
    counts[cause] = events;
    return counts;
}

TEST(LossPlaces, AFullRingLosesWhereItStands) {
    LossPlaces places;
    places.add(lost(PLUMB_LOST_FULL, 3), 4096);
    places.add(lost(PLUMB_LOST_FULL, 4), 8192);
    places.tell_before(4096);
    EXPECT_EQ(places.untold()[PLUMB_LOST_FULL], 7u);
    places.tell_before(4104);
    EXPECT_EQ(places.untold()[PLUMB_LOST_FULL], 4u);
    places.tell_all();
    EXPECT_EQ(places.untold(), LossPlaces::Counts{});
}

TEST(LossPlaces, WhatIsLostOtherwiseIsLostSinceTheLookBefore) {
    LossPlaces places;
    places.add({}, 1000);
    places.add(lost(PLUMB_LOST_TOO_LARGE, 5), 3000);
    places.tell_before(1000);
    EXPECT_EQ(places.untold()[PLUMB_LOST_TOO_LARGE], 5u);
    places.tell_before(1008);
    EXPECT_EQ(places.untold()[PLUMB_LOST_TOO_LARGE], 0u);
}

// Positions lie where any program can write.
TEST(LossPlaces, PositionsThatAreNoneCostPlacesAlone) {
    LossPlaces places;
    for (uint64_t i = 0; i < 100'000; i++)
        places.add(lost(PLUMB_LOST_FULL, 1), i * 0x9e3779b97f4a7c15);
    EXPECT_EQ(places.untold()[PLUMB_LOST_FULL], 100'000u);
    places.tell_before(UINT64_MAX);
    places.tell_all();
    EXPECT_EQ(places.untold()[PLUMB_LOST_FULL], 0u);
}

class CheckingSink : public test::IdleSink {
public:
    Status write_records(uint32_t, const Piece& piece, uint64_t discarded, uint64_t) override {
        if (meanwhile) meanwhile();
        if (fails && fails()) return Error("There is no room.");
        uint64_t first = 0;
        std::memcpy(&first, piece.records.data() + PLUMB_RECORD_HEADER_BYTES, sizeof(first));
        EXPECT_EQ(discarded + written_, first) << "numbers are missing where nothing was lost";
        written_ += piece.record_count;
        packets++;
        return ok();
    }
    Status write_losses(uint32_t ring, uint64_t discarded, uint64_t, uint64_t, uint64_t) override {
        if (ring == 0) at_end = discarded + written_;
        return ok();
    }

    std::function<void()> meanwhile;
    std::function<bool()> fails;
    uint64_t packets = 0, at_end = 0;

private:
    uint64_t written_ = 0;
};

/* Numbers every event that it tries to write. */
class NumberingWriter {
public:
    explicit NumberingWriter(ChannelBuilder& channel)
        : channel_(&channel), id_(channel.add_event("n", {test::integer("value", 8)})) {}
    void write(uint64_t events) {
        while (events-- > 0)
            if (!channel_->write(0, id_, read_clock(PLUMB_CLOCK_MONOTONIC), Payload().put(tried_++).bytes()))
                lost_++;
    }
    uint64_t tried() const { return tried_; }
    uint64_t lost() const { return lost_; }

private:
    ChannelBuilder* channel_;
    uint16_t id_;
    uint64_t tried_ = 0, lost_ = 0;
};

struct Checked {
    std::unique_ptr<Drain> drain;
    CheckingSink* sink;
};

Checked checked(ChannelBuilder& channel) {
    auto reader = ChannelReader::open(channel.bytes(), {channel.bytes().data(), {}});
    auto calibration = ClockCalibration::start(PLUMB_CLOCK_MONOTONIC);
    auto source = std::make_unique<ChannelSource>(channel.bytes().data(), std::move(*reader),
                                                  std::move(*calibration), std::vector<RingPlace>{});
    auto sink = std::make_unique<CheckingSink>();
    CheckingSink* const checking = sink.get();
    return {std::move(*Drain::make(std::move(source), std::move(sink), {})), checking};
}

// 4 sub-buffers of 170 records each. The writer goes on whenever the reader does, also while it writes a packet.
TEST(PlacesOfLosses, AreWhereNumbersAreMissing) {
    for (unsigned seed = 0; seed < 50; seed++) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        ChannelBuilder channel;
        NumberingWriter writer(channel);
        const auto [drain, sink] = checked(channel);
        sink->meanwhile = [&] { writer.write(random() % (seed % 5 == 0 ? 1500 : 250)); };
        if (seed % 2 == 1) sink->fails = [&] { return random() % 4 == 0; };
        for (int turn = 0; turn < 60; turn++) {
            writer.write(random() % 900);
            drain->step(random() % 3 == 0 ? ReadWhat::everything : ReadWhat::whole_subbufs);
        }
        sink->meanwhile = {};
        sink->fails = {};
        EXPECT_EQ(static_cast<bool>(drain->finish()), seed % 2 == 0) << "whether all was written";
        EXPECT_GT(sink->packets, 60u);
        EXPECT_GT(writer.lost(), 0u);
        EXPECT_EQ(sink->at_end, writer.tried());
        EXPECT_EQ(channel.control(0).told[PLUMB_LOST_FULL], writer.lost());
    }
}

} // namespace
} // namespace plumb
