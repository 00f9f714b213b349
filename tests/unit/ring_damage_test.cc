// cmake-once
//
// Whatever stands in a ring, its reader ends, touches nothing outside of the bytes that it was given, names what it leaves
// out, and leaves out no more than what the damage made unreadable.
#include "consumerd/clock/clock_calibration.h"
#include "tests/support/ring_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>

namespace plumb {
namespace {

using test::BuilderConfig;
using test::numbers;
using test::Payload;
using testing::HasSubstr;

class RingDamage : public test::RingTest {
protected:
    static uint64_t steady_now() { return read_clock(PLUMB_CLOCK_MONOTONIC); }
    void goes_on_after_damage(plumb_ring_mode mode, size_t word, uint64_t written, int wild) {
        BuilderConfig config;
        config.mode = mode;
        make(config);
        open(true);
        uint64_t n = 0, read_count = 0;
        const auto work = [&](uint64_t end) {
            std::vector<uint64_t> found;
            for (uint64_t tries = 0; n < end && tries < 1000; tries++) {
                for (uint64_t burst = 37; burst > 0 && n < end && write(n); burst--)
                    n++;
                for (const uint64_t each :
                     read(tries % 2 == 0 ? ReadWhat::everything : ReadWhat::whole_subbufs))
                    found.push_back(each);
                release();
            }
            for (const uint64_t each : read())
                found.push_back(each);
            release();
            read_count += found.size();
            return found;
        };
        work(written);
        auto& at = *reinterpret_cast<uint64_t*>(reinterpret_cast<std::byte*>(&channel_->control(0)) + word);
        const uint64_t good = at;
        const uint64_t values[] = {0,
                                   1,
                                   8,
                                   4096,
                                   4096 * 5 + 8,
                                   uint64_t{1} << 40,
                                   uint64_t{1} << 61,
                                   uint64_t{1} << 63,
                                   ~uint64_t{7},
                                   ~uint64_t{0},
                                   good + 8,
                                   good + 4096,
                                   good - 4096,
                                   good + 3};
        at = values[wild];
        SCOPED_TRACE(testing::Message() << "mode " << mode << ", word " << word << " was " << good << ", is "
                                        << values[wild] << "\n"
                                        << log_);
        work(written + 400); /* the mending */
        work(written + 800);
        const uint64_t settled = n;
        EXPECT_EQ(work(settled + 1000), numbers(settled, settled + 1000)) << log_;
        const uint64_t lost = n - std::min(n, read_count);
        EXPECT_LE(lost, 2 * 170u);
        if (lost > 0) {
            EXPECT_GE(ring_->damaged_subbufs() + ring_->damaged_records() + ring_->overwritten_subbufs(), 1u);
        }
        log_.clear();
    }
};

TEST_F(RingDamage, ADamagedRecordOfSoundLengthCostsItselfAlone) {
    struct Case {
        std::function<void(plumb_record&)> damage;
        const char* told;
    };
    const std::vector<Case> cases = {
        {[](plumb_record& r) { r.length = 23; }, "does not fit"},
        {[](plumb_record& r) { r.event_id = 40; }, "not described"},
        {[](plumb_record& r) { r.event_id = 65535; }, "not described"},
        {[](plumb_record& r) { r.timestamp = 1; }, "back in time"},
        {[](plumb_record& r) { r.timestamp += uint64_t{1} << 40; }, "future of the one behind it"},
        {[](plumb_record& r) { r.timestamp = ~uint64_t{0} >> 2; }, "future of the one behind it"},
        {[](plumb_record& r) { r.timestamp = ~uint64_t{0}; }, "is from the future"},
    };
    for (const Case& each : cases) {
        SCOPED_TRACE(each.told);
        make();
        base_ = uint64_t{1} << 32;
        open();
        write_range(0, 200);
        for (const uint64_t n : {50, 53}) /* with good ones before, between and behind */
            each.damage(*record_at(n * 24));
        each.damage(*record_at(169 * 24)); /* the record behind it is in the next sub-buffer */
        std::vector<uint64_t> expected = numbers(0, 200);
        std::erase_if(expected, [](uint64_t n) { return n == 50 || n == 53 || n == 169; });
        EXPECT_EQ(read(), expected);
        EXPECT_EQ(damage(Damage::records), 3u);
        EXPECT_EQ(ring_->damaged_records(), 3u);
        EXPECT_EQ(ring_->damaged_subbufs(), 0u);
        EXPECT_THAT(log_, HasSubstr(each.told));
        log_.clear();
    }
}

// Nobody can say of a ring's last record that it is wrong. Once others are behind it, they are believed.
TEST_F(RingDamage, AWildTimeAtTheEndCostsNothingOfWhatFollows) {
    make();
    base_ = uint64_t{1} << 32;
    open();
    write_range(0, 10);
    record_at(9 * 24)->timestamp = uint64_t{1} << 60;
    EXPECT_EQ(read().size(), 10u);
    write_range(10, 300);
    EXPECT_EQ(read().size(), 290u);
    EXPECT_EQ(ring_->backward_records(), 290u);
    EXPECT_EQ(log_, "");
}

// One that claims to be some time ahead of the look at it is of before the look: what follows keeps its own time. Where
// the clock of a processor is ahead of the reader's, the records there agree about it, and all are as they were written.
TEST_F(RingDamage, ATimeAheadOfTheLookCostsNothingOfWhatFollows) {
    constexpr uint64_t second = 1'000'000'000;
    for (const uint64_t leap : {second / 1000, second / 50, second}) {
        SCOPED_TRACE(leap);
        make();
        open(true);
        const auto write_now = [&] {
            base_ = steady_now() - 1000;
            EXPECT_TRUE(write(0));
            return base_ + 1000;
        };
        for (int i = 0; i < 10; i++)
            write_now();
        record_at(9 * 24)->timestamp += leap;
        base_ = 0;
        const std::vector<uint64_t> first = read();
        ASSERT_EQ(first.size(), 10u);
        EXPECT_LE(first.back() + 1000, steady_now());
        std::vector<uint64_t> expected;
        for (int i = 0; i < 100; i++)
            expected.push_back(write_now() - 1000);
        base_ = 0;
        EXPECT_EQ(read(), expected);
        EXPECT_LE(ring_->backward_records(),
                  1u); /* none on a machine so slow that the time is there by now */
        EXPECT_EQ(ring_->damaged_records(), 0u);
    }
}

// Two wrong ones beside each other, and one: what is around them keeps its time.
TEST_F(RingDamage, TimesAheadOfTheLookInTheMiddleCostNothingOfWhatFollows) {
    constexpr uint64_t second = 1'000'000'000;
    for (const auto& [first, then] : {std::pair{second * 4 / 10, second * 9 / 10},
                                      {second * 9 / 10, second * 4 / 10},
                                      {second / 10, uint64_t{0}}}) {
        SCOPED_TRACE(testing::Message() << first << ", " << then);
        make();
        open(true);
        base_ = steady_now() - second / 2;
        write_range(0, 100);
        record_at(50 * 24)->timestamp += second / 2 + first;
        if (then != 0) record_at(51 * 24)->timestamp += second / 2 + then;
        std::vector<uint64_t> found = read();
        for (const uint64_t changed : {50, 51})
            std::erase(found, changed);
        std::erase(found, uint64_t{49}); /* whose time the first of two may have */
        std::vector<uint64_t> expected = numbers(0, 100);
        std::erase_if(expected, [](uint64_t n) { return n == 49 || n == 50 || n == 51; });
        EXPECT_EQ(found, expected);
        EXPECT_LE(ring_->damaged_records(), 2u);
    }
}

TEST_F(RingDamage, AProcessorWhoseClockIsAheadKeepsItsTimes) {
    make();
    open(true);
    base_ = steady_now() + 50'000'000;
    write_range(0, 100);
    std::vector<uint64_t> found = read();
    ASSERT_EQ(found.size(), 100u);
    found.pop_back(); /* nothing behind it agrees */
    EXPECT_EQ(found, numbers(0, 99));
    EXPECT_EQ(log_, "");
}

// Up to a moment apart, two agree that the clock there is ahead; beyond it, the one in front gets the time of the look.
TEST_F(RingDamage, AMomentIsWhatTwoAgreeWithin) {
    constexpr uint64_t moment = uint64_t{1} << 24, ahead = 500'000'000;
    for (const uint64_t apart : {moment, moment + 1}) {
        SCOPED_TRACE(apart);
        make();
        open(true);
        base_ = steady_now() + ahead;
        write_range(0, 2);
        record_at(24)->timestamp = record_at(0)->timestamp + apart;
        const std::vector<uint64_t> found = read();
        if (steady_now() >= base_) continue; /* a machine so slow that the time is there by now */
        ASSERT_GE(found.size(), 1u);
        EXPECT_EQ(found.front() == 0, apart == moment);
    }
}

// Whatever stands in one word of a ring's control block, writers find their way back: at most two sub-buffers are
// lost (the one that was damaged, and what it was damaged with), counted, and then each record is read once.
TEST_F(RingDamage, AnyDamagedWordOfALiveRingCostsASubbufferAndTheRingGoesOn) {
    for (const auto mode : {PLUMB_MODE_DISCARD, PLUMB_MODE_OVERWRITE, PLUMB_MODE_BLOCK})
        for (const size_t word :
             {offsetof(plumb_ring_control, write_pos), offsetof(plumb_ring_control, limit),
              offsetof(plumb_ring_control, consumed)})
            for (const uint64_t written : {0, 100, 2000})
                for (int wild = 0; wild < 14; wild++)
                    goes_on_after_damage(mode, word, written, wild);
}

TEST_F(RingDamage, ADamagedRecordWithoutALengthCostsTheRestOfItsSubbuffer) {
    struct Case {
        std::function<void(plumb_record&)> damage;
        const char* told;
    };
    const std::vector<Case> cases = {
        {[](plumb_record& r) { r.length = 0; }, "shorter than a header"},
        {[](plumb_record& r) { r.length = 15; }, "shorter than a header"},
        {[](plumb_record& r) { r.length = 65535; }, "too far"},
        {[](plumb_record& r) { r.length = 32; }, "does not fit"}, /* what follows is none */
        {[](plumb_record& r) { r.event_id = 0; }, "padding"},
    };
    for (const Case& each : cases) {
        SCOPED_TRACE(each.told);
        make();
        open();
        write_range(0, 200);
        each.damage(*record_at(50 * 24));
        auto expected = numbers(0, 50);
        const auto behind = numbers(170, 200);
        expected.insert(expected.end(), behind.begin(), behind.end());
        EXPECT_EQ(read(), expected);
        EXPECT_EQ(damage(Damage::subbufs), 1u);
        EXPECT_EQ(ring_->damaged_subbufs(), 1u);
        EXPECT_THAT(log_, HasSubstr(each.told));
        log_.clear();
    }
}

TEST_F(RingDamage, ARecordThatReachesOverTheBoundaryIsDamage) {
    make();
    open();
    write_range(0, 340); /* two sub-buffers of 170, each with 16 bytes of padding behind */
    *record_at(170 * 24) = {1170, id_, 24, 1}; /* right in everything but its place */
    EXPECT_EQ(read(), numbers(0, 340));
    EXPECT_THAT(log_, HasSubstr("too far"));
    EXPECT_EQ(damage(Damage::subbufs), 1u);
}

TEST_F(RingDamage, VariablePayloadsMustDecodeExactly) {
    make();
    const uint16_t id = channel_->add_event(
        "mixed", {test::field("s", PLUMB_FIELD_STRING, 1), test::integer("n", 4),
                  test::field("t", PLUMB_FIELD_TEXT, 1), test::field("q", PLUMB_FIELD_SEQUENCE, 8)});
    open();
    Payload good;
    good.string("abc").put(uint32_t{1}).text("hello").put(uint16_t{2}).put(uint64_t{1}).put(uint64_t{2});
    ASSERT_TRUE(channel_->write(0, id, 1000, good.bytes()));
    EXPECT_EQ(read(), numbers(0, 1));
    for (size_t bytes = 0; bytes < good.bytes().size(); bytes++) { /* every shorter one is wrong */
        make();
        const uint16_t again = channel_->add_event(
            "mixed", {test::field("s", PLUMB_FIELD_STRING, 1), test::integer("n", 4),
                      test::field("t", PLUMB_FIELD_TEXT, 1), test::field("q", PLUMB_FIELD_SEQUENCE, 8)});
        open();
        ASSERT_TRUE(channel_->write(0, again, 1000, good.bytes().first(bytes)));
        EXPECT_EQ(read().size(), 0u) << bytes;
        EXPECT_EQ(damage(Damage::records), 1u);
    }
}

TEST_F(RingDamage, WritingGoesOnWhileADamagedSubbufferIsWaitedOut) {
    make();
    open();
    write_range(0, 10);
    record_at(5 * 24)->length = 3;
    EXPECT_EQ(read(), numbers(0, 5));
    release();
    EXPECT_EQ(channel_->control(0).consumed, 0u) << "the writer is still in this sub-buffer";
    write_range(10, 180);
    EXPECT_EQ(read(), numbers(170, 180));
    EXPECT_EQ(damage(Damage::subbufs), 1u);
}

TEST_F(RingDamage, ImpossibleWritePositionsAreRefusedUntilTheyAreSaneAgain) {
    for (const uint64_t wild :
         {uint64_t{1}, uint64_t{4096 * 4 + 8}, ~uint64_t{0}, ~uint64_t{7}, uint64_t{1} << 63}) {
        make();
        open();
        write_range(0, 10);
        const uint64_t good = channel_->control(0).write_pos;
        channel_->control(0).write_pos = wild;
        EXPECT_TRUE(read().empty()) << wild;
        EXPECT_TRUE(read().empty()) << wild;
        EXPECT_EQ(damage(Damage::positions), 1u) << "told once";
        channel_->control(0).write_pos = good;
        EXPECT_EQ(read(), numbers(0, 10));
        channel_->control(0).write_pos = 0; /* back */
        EXPECT_TRUE(read().empty());
        EXPECT_EQ(damage(Damage::positions), 2u);
    }
}

/* Nobody will look again: what may have been there is counted, once. */
TEST_F(RingDamage, ADeadRingWithoutAWritePositionIsLostAsAWhole) {
    make();
    write_range(0, 10);
    channel_->control(0).write_pos = ~uint64_t{0};
    open();
    EXPECT_TRUE(read().empty());
    EXPECT_TRUE(read().empty());
    EXPECT_EQ(ring_->damaged_subbufs(), 4u);
}

TEST_F(RingDamage, AWildLimitOfADeadFlightRecorderCostsNothingThatIsStillThere) {
    for (const uint64_t wild : {uint64_t{8}, uint64_t{4096 * 100}, ~uint64_t{0}}) {
        BuilderConfig config;
        config.mode = PLUMB_MODE_OVERWRITE;
        make(config);
        uint64_t n = 0;
        while (n < 1000 && write(n))
            n++;
        channel_->control(0).limit = wild;
        open();
        const std::vector<uint64_t> found = read();
        ASSERT_GE(found.size(), 300u) << wild;
        EXPECT_EQ(found, numbers(n - found.size(), n));
        EXPECT_EQ(damage(Damage::positions), 1u);
    }
}

TEST_F(RingDamage, AForwardJumpInsideTheRingReadsNothingThatIsNotThere) {
    make();
    open();
    write_range(0, 10);
    channel_->control(0).write_pos = 4096 * 3;
    EXPECT_EQ(read(), numbers(0, 10));
    EXPECT_EQ(damage(Damage::subbufs), 3u);
}

TEST_F(RingDamage, AWildConsumedPositionOfADeadChannelIsNotBelieved) {
    for (const uint64_t wild : {uint64_t{8}, uint64_t{4096 * 100}, ~uint64_t{0}}) {
        make();
        write_range(0, 300);
        channel_->control(0).consumed = wild;
        open();
        EXPECT_EQ(read(), numbers(0, 300)) << wild;
        EXPECT_EQ(damage(Damage::positions), 1u);
    }
}

TEST_F(RingDamage, AWildConsumedPositionAfterManyLapsCostsNothingThatIsStillThere) {
    make();
    open();
    uint64_t n = 0;
    for (; n < 5000; n += 100) {
        write_range(n, n + 100);
        EXPECT_EQ(read(), numbers(n, n + 100));
        release();
    }
    write_range(n, n + 300);
    channel_->control(0).consumed = ~uint64_t{0};
    open();
    const std::vector<uint64_t> found = read();
    ASSERT_GE(found.size(), 300u);
    EXPECT_EQ(found, numbers(n + 300 - found.size(), n + 300)) << "some twice, none not at all";
    EXPECT_EQ(damage(Damage::positions), 1u);
}

TEST_F(RingDamage, ARecordFromTheFutureIsNotBelievedWhileLive) {
    make();
    auto live = ChannelReader::open(channel_->bytes(), {channel_->bytes().data(), {}});
    ASSERT_TRUE(live);
    RingReader ring(*live, 0);
    write_range(0, 3);
    record_at(24)->timestamp = ~uint64_t{0};
    auto piece = ring.next(ReadWhat::everything, buffer_);
    ASSERT_TRUE(piece);
    EXPECT_EQ(piece->record_count, 2u);
    write_range(3, 180); /* later ones are not older than a wild one */
    piece = ring.next(ReadWhat::everything, buffer_);
    ASSERT_TRUE(piece);
    EXPECT_EQ(piece->record_count, 167u);
}

} // namespace
} // namespace plumb
