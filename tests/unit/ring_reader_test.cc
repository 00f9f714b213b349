// cmake-once
//
// The reader's promise about a sound ring: it hands out every record exactly once, in the order of time, also while writers
// lap it and clocks are set back. For those that are not sound: ring_damage_test.cc.
#include "tests/support/ring_test.h"

#include <gtest/gtest.h>

#include <sys/time.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <random>
#include <thread>

namespace plumb {
namespace {

using test::BuilderConfig;
using test::numbers;
using test::Payload;
using test::RingTest;

TEST_F(RingTest, EveryRecordIsReadOnceOverManyLaps) {
    make();
    open();
    std::vector<uint64_t> found;
    std::mt19937 random(7);
    for (uint64_t n = 0; n < 20000;) {
        for (uint64_t burst = random() % 400; burst > 0 && write(n); burst--)
            n++;
        const auto more = read(random() % 3 == 0 ? ReadWhat::whole_subbufs : ReadWhat::everything);
        found.insert(found.end(), more.begin(), more.end());
        release();
    }
    const auto rest = read();
    found.insert(found.end(), rest.begin(), rest.end());
    EXPECT_EQ(found, numbers(0, found.size()));
    EXPECT_GE(found.size(), 20000u);
    EXPECT_EQ(log_, "");
    EXPECT_EQ(buffer_.counts[id_], found.size());
}

TEST_F(RingTest, ASubbufferInProgressIsLeftIfOnlyWholeOnesAreWanted) {
    make();
    open();
    write_range(0, 200); /* 170 fit one sub-buffer */
    EXPECT_EQ(read(ReadWhat::whole_subbufs), numbers(0, 170));
    EXPECT_EQ(ring_->releasable(), 4096u);
    EXPECT_EQ(read(ReadWhat::everything), numbers(170, 200));
    EXPECT_EQ(ring_->releasable(), 4096u);
}

TEST_F(RingTest, TailsTooSmallForPaddingAreSkipped) {
    make();
    const uint16_t tight =
        channel_->add_event("tight", {test::integer("a", 8), test::integer("b", 8)}); /* 32 */
    open();
    write_range(0, 1);                  /* 24 */
    for (uint64_t i = 1; i <= 127; i++) /* 24 + 127 * 32 = 4088: 8 bytes are left */
        ASSERT_TRUE(channel_->write(0, tight, 1000 + i, Payload().put(i).put(i).bytes()));
    ASSERT_EQ(channel_->control(0).write_pos, 4088u);
    EXPECT_EQ(read(), numbers(0, 128));
    write_range(128, 140);
    EXPECT_EQ(read(), numbers(128, 140));
    EXPECT_EQ(log_, "");
}

TEST_F(RingTest, TimeThatGoesBackByAMomentIsSetToTheRecordBefore) {
    make();
    base_ = uint64_t{1} << 32;
    open();
    write_range(0, 10);
    record_at(5 * 24)->timestamp -= 3;
    record_at(7 * 24)->timestamp -= 100'000;
    EXPECT_EQ(read(), (std::vector<uint64_t>{0, 1, 2, 3, 4, 4, 6, 6, 8, 9}));
    EXPECT_EQ(ring_->backward_records(), 2u);
    EXPECT_EQ(log_, "");
}

/* The record's processor may be ahead of the reader's by some microseconds: nothing is wrong then. */
TEST_F(RingTest, ARecordThatIsNewerThanNowByTheDifferenceOfTwoProcessorsKeepsItsTime) {
    make(); /* with CLOCK_MONOTONIC */
    open(true);
    for (int i = 0; i < 30; i++) {
        timespec now{};
        ::clock_gettime(CLOCK_MONOTONIC, &now);
        base_ =
            static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec) + 15'000;
        ASSERT_TRUE(write(0));
        EXPECT_EQ(read(), numbers(0, 1));
    }
    EXPECT_EQ(ring_->backward_records(), 0u);
}

TEST_F(RingTest, AClockThatIsSetBackCostsNothing) {
    BuilderConfig config;
    config.clock_mode = PLUMB_CLOCK_REALTIME;
    make(config);
    open();
    for (const uint64_t n : {10, 11, 5, 6, 12, 13})
        ASSERT_TRUE(write(n));
    EXPECT_EQ(read(), (std::vector<uint64_t>{10, 11, 11, 11, 12, 13}));
    EXPECT_EQ(ring_->backward_records(), 2u);
    EXPECT_EQ(log_, "");
}

TEST_F(RingTest, AClockThatIsSetBackByAnHourGoesOnInEveryRing) {
    constexpr uint64_t hour = 3'600'000'000'000, second = 1'000'000'000;
    BuilderConfig config;
    config.clock_mode = PLUMB_CLOCK_REALTIME;
    make(config);
    int64_t offset = 1'700'000'000'000'000'000;
    auto reader =
        ChannelReader::open(channel_->bytes(), {channel_->bytes().data(), {}, [&offset] { return offset; }});
    ASSERT_TRUE(reader);
    RingReader busy(*reader, 0), idle(*reader, 1);
    const auto times = [this](RingReader& ring) {
        std::vector<uint64_t> found;
        while (const auto piece = ring.next(ReadWhat::everything, buffer_))
            for_each_record(*piece, [&](const plumb_record& record) { found.push_back(record.timestamp); });
        return found;
    };
    const auto write_at = [this](uint32_t ring, uint64_t time) {
        return channel_->write(ring, id_, time, Payload().put(time).bytes());
    };
    ASSERT_TRUE(write_at(0, 2 * hour) && write_at(1, hour / 2));
    EXPECT_EQ(times(busy), std::vector<uint64_t>({2 * hour}));
    EXPECT_EQ(times(idle), std::vector<uint64_t>({hour / 2}));

    ASSERT_TRUE(write_at(0, 2 * hour + second)); /* still before it */
    offset -= static_cast<int64_t>(hour);
    ASSERT_TRUE(write_at(0, hour + 3 * second) && write_at(0, hour + 4 * second));
    EXPECT_EQ(times(busy),
              std::vector<uint64_t>({2 * hour + second, 2 * hour + 3 * second, 2 * hour + 4 * second}));
    EXPECT_EQ(times(idle), std::vector<uint64_t>());
    ASSERT_TRUE(write_at(1, hour + 5 * second)); /* its own times never went back */
    EXPECT_EQ(times(idle), std::vector<uint64_t>({2 * hour + 5 * second}));
    EXPECT_EQ(busy.backward_records() + idle.backward_records(), 0u);
    EXPECT_EQ(busy.shift(), hour);
}

class OverwriteTest : public RingTest {
protected:
    void SetUp() override {
        BuilderConfig config;
        config.mode = PLUMB_MODE_OVERWRITE;
        make(config);
    }
};

TEST_F(OverwriteTest, ADeadRingHoldsItsLastSubbuffers) {
    write_range(0, 2000); /* ends in sub-buffer 11, so 8 to 11 are there */
    open();
    EXPECT_EQ(read(), numbers(8 * 170, 2000));
    EXPECT_EQ(ring_->overwritten_subbufs(), 8u);
}

TEST_F(OverwriteTest, AReaderThatWasLappedSkipsAhead) {
    open();
    write_range(0, 100);
    EXPECT_EQ(read(), numbers(0, 100));
    write_range(100, 2000);
    EXPECT_EQ(read(), numbers(8 * 170, 2000));
    EXPECT_EQ(ring_->overwritten_subbufs(), 8u);
    EXPECT_EQ(log_, "");
}

// What stands behind a record is asked of the copy that it is in: in the ring there may be something else by now.
TEST_F(OverwriteTest, WhatIsOverwrittenMeanwhileDoesNotJudgeWhatWasCopied) {
    base_ = uint64_t{1} << 40;
    write_range(0, 20);
    record_at(3 * 24)->event_id = 40; /* is told, and while that is done, */
    when_told_ = [this] { record_at(11 * 24)->timestamp = base_ + 2000; };
    for (uint64_t n = 10; n < 20; n++)
        record_at(n * 24)->timestamp += uint64_t{1} << 25; /* after a pause */
    open();
    ring_->begin_at(0);
    EXPECT_EQ(read().size(), 19u);
    EXPECT_EQ(ring_->damaged_records(), 1u) << log_;
}

/* Stops the thread that made it for a moment, again and again, wherever it is. */
class Interruptions {
public:
    Interruptions() {
        struct sigaction pause {};
        pause.sa_handler = [](int) {
            const timespec moment{0, 200'000};
            nanosleep(&moment, nullptr);
        };
        pause.sa_flags = SA_RESTART;
        sigaction(SIGALRM, &pause, &before_);
        const itimerval often{{0, 400}, {0, 400}};
        setitimer(ITIMER_REAL, &often, nullptr);
    }
    ~Interruptions() {
        const itimerval never{};
        setitimer(ITIMER_REAL, &never, nullptr);
        sigaction(SIGALRM, &before_, nullptr);
    }

private:
    struct sigaction before_ {};
};

TEST_F(OverwriteTest, NothingTornIsReadWhileAWriterLapsTheReader) {
    open();
    std::atomic<bool> stop{false};
    std::thread writer([&] {
        sigset_t alarm;
        sigemptyset(&alarm);
        sigaddset(&alarm, SIGALRM);
        pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
        for (uint64_t n = 1; !stop; n++)
            channel_->write(0, id_, 1000 + n, Payload().put(n).bytes());
    });
    const Interruptions interruptions;
    uint64_t last = 0, read_count = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (std::chrono::steady_clock::now() < end) {
        while (auto piece = ring_->next(ReadWhat::everything, buffer_)) {
            const std::byte* at = piece->records.data();
            for_each_record(*piece, [&](const plumb_record& record) {
                uint64_t n;
                std::memcpy(&n, at + PLUMB_RECORD_HEADER_BYTES, sizeof(n));
                at += 24;
                ASSERT_EQ(record.timestamp, 1000 + n);
                ASSERT_GT(n, last);
                last = n;
                read_count++;
            });
            if (HasFatalFailure()) break;
        }
        if (HasFatalFailure()) break;
    }
    stop = true;
    writer.join();
    EXPECT_GT(read_count, 1000u);
    EXPECT_GT(ring_->overwritten_subbufs(), 0u);
    EXPECT_EQ(log_, "");
}

TEST_F(OverwriteTest, AClosedRingIsReadToTheEnd) {
    write_range(0, 2000);
    channel_->control(0).limit = 0;
    open();
    EXPECT_EQ(read(), numbers(8 * 170, 2000));
}

TEST_F(OverwriteTest, WildLimitsEndTheReadingWithoutHarm) {
    for (const uint64_t wild :
         {uint64_t{8}, uint64_t{4096}, uint64_t{1} << 40, ~uint64_t{0}, ~uint64_t{4095}}) {
        SetUp();
        write_range(0, 400);
        open();
        channel_->control(0).limit = wild;
        read();
        read();
        EXPECT_EQ(damage(Damage::positions), 1u) << wild;
    }
}

} // namespace
} // namespace plumb
