// cmake-once
//
// Where a ring's reader draws its lines, exactly: what is still read, what is left out from there on, and how it is told. For
// what damage costs: ring_damage_test.cc.
#include "tests/support/ring_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

namespace plumb {
namespace {

using test::BuilderConfig;
using test::numbers;
using test::Payload;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t moment = uint64_t{1} << 24;

class RingLimits : public test::RingTest {
protected:
    /* 128 records of 32 bytes fill a sub-buffer to its last byte. */
    void make_even(const BuilderConfig& config = {}) {
        make(config);
        id_ = channel_->add_event("even", {test::integer("a", 8), test::integer("b", 8)});
    }
    bool write_even(uint64_t n) {
        return channel_->write(0, id_, base_ + 1000 + n, Payload().put(n).put(n).bytes());
    }
    void write_even_range(uint64_t from, uint64_t to) {
        for (uint64_t n = from; n < to; n++)
            ASSERT_TRUE(write_even(n));
    }
    std::optional<Piece> next() { return ring_->next(ReadWhat::everything, buffer_); }
};

TEST_F(RingLimits, AFullRingIsReadFromItsFirstByteToItsLast) {
    for (const bool is_live : {false, true}) {
        make_even();
        write_even_range(0, 512);
        EXPECT_FALSE(write_even(512));
        ASSERT_EQ(channel_->control(0).write_pos, 16384u);
        open(is_live);
        EXPECT_EQ(read(), numbers(0, 512));
        EXPECT_EQ(ring_->releasable(), 16384u);
        EXPECT_EQ(ring_->position(), 16384u);
        EXPECT_EQ(log_, "");
    }
}

TEST_F(RingLimits, AReaderBeginsWhereTheOneBeforeItWas) {
    make_even();
    write_even_range(0, 200);
    open();
    ring_->begin_at(20 * 32);
    EXPECT_EQ(ring_->position(), 20u * 32);
    ring_->begin_at(10 * 32);
    ring_->begin_at(200 * 32 + 8); /* nobody has been there */
    EXPECT_EQ(ring_->position(), 20u * 32);
    EXPECT_EQ(read(), numbers(20, 200));
    open();
    ring_->begin_at(200 * 32);
    EXPECT_EQ(ring_->position(), 200u * 32);
    EXPECT_EQ(read(), numbers(0, 0));
    channel_->control(0).consumed = 4096;
    open();
    EXPECT_EQ(ring_->released(), 4096u);
    EXPECT_EQ(read(), numbers(128, 200));
    EXPECT_EQ(log_, "");
}

TEST_F(RingLimits, EachPieceSaysWhereItEndsAndWhatWasLostBeforeIt) {
    make_even();
    open();
    write_even_range(0, 300);
    record_at(20 * 32)->event_id = 40;
    record_at(150 * 32)->length = 3;
    auto piece = next();
    ASSERT_TRUE(piece);
    EXPECT_EQ(piece->record_count, 127u);
    EXPECT_EQ(piece->records.size(), 127u * 32);
    EXPECT_EQ(piece->first_timestamp, 1000u);
    EXPECT_EQ(piece->last_timestamp, 1127u);
    EXPECT_EQ(piece->end_position, 128u * 32);
    EXPECT_EQ(piece->lost_subbufs, 0u);
    piece = next();
    ASSERT_TRUE(piece);
    EXPECT_EQ(piece->record_count, 22u);
    EXPECT_EQ(piece->end_position, 150u * 32);
    EXPECT_EQ(piece->lost_subbufs, 0u) << "it is behind the piece";
    EXPECT_EQ(ring_->position(), 8192u);
    piece = next();
    ASSERT_TRUE(piece);
    EXPECT_EQ(piece->record_count, 300u - 256);
    EXPECT_EQ(piece->first_timestamp, 1256u);
    EXPECT_EQ(piece->end_position, 300u * 32);
    EXPECT_EQ(piece->lost_subbufs, 1u);
    EXPECT_FALSE(next());
    EXPECT_EQ(log_, "Ring 0: the record at 640 is of an event that is not described; it is left out.\n"
                    "Ring 0: the record at 4800 is shorter than a header; the rest of its sub-buffer is left "
                    "out.\n");
    EXPECT_EQ(buffer_.counts[id_], 127u + 22 + 44);
    EXPECT_EQ(ring_->damaged_records(), 1u);
}

/* Whatever is left out first, second or last, what is around it is whole. */
TEST_F(RingLimits, WhatIsLeftOutLeavesNoGap) {
    for (const std::vector<uint64_t>& bad :
         {std::vector<uint64_t>{0}, {1}, {0, 1}, {3, 5, 6}, {9}, {0, 9}, {0, 1, 2, 3, 4, 5, 6, 7, 8}}) {
        make_even();
        open();
        write_even_range(0, 10);
        std::vector<uint64_t> expected = numbers(0, 10);
        for (const uint64_t n : bad) {
            record_at(n * 32)->event_id = 41;
            std::erase(expected, n);
        }
        const auto piece = next();
        ASSERT_TRUE(piece);
        ASSERT_EQ(piece->record_count, expected.size());
        ASSERT_EQ(piece->records.size(), expected.size() * 32);
        EXPECT_EQ(piece->first_timestamp, 1000 + expected.front());
        EXPECT_EQ(piece->last_timestamp, 1000 + expected.back());
        for (size_t i = 0; i < expected.size(); i++) {
            const uint64_t n = expected[i];
            const plumb_record record{1000 + n, id_, 32, 1};
            EXPECT_EQ(std::memcmp(piece->records.data() + i * 32, &record, sizeof(record)), 0);
            EXPECT_EQ(std::memcmp(piece->records.data() + i * 32 + 16, &n, sizeof(n)), 0);
            EXPECT_EQ(std::memcmp(piece->records.data() + i * 32 + 24, &n, sizeof(n)), 0);
        }
        EXPECT_EQ(ring_->damaged_records(), bad.size());
        EXPECT_EQ(buffer_.counts[id_], expected.size());
        buffer_.counts[id_] = 0;
    }
}

TEST_F(RingLimits, TimeGoesBackByAMomentAndNoFurther) {
    make();
    base_ = uint64_t{1} << 40;
    open();
    write_range(0, 10);
    record_at(5 * 24)->timestamp = base_ + 1004 - moment;
    record_at(7 * 24)->timestamp = base_ + 1006 - moment - 1;
    EXPECT_THAT(read(), ElementsAre(0, 1, 2, 3, 4, 4, 6, 8, 9));
    EXPECT_EQ(ring_->backward_records(), 1u);
    EXPECT_EQ(ring_->damaged_records(), 1u);
    EXPECT_EQ(log_, "Ring 0: the record at 168 goes back in time; it is left out.\n");
}

TEST_F(RingLimits, TimeLeapsAheadByAMomentWhateverComesNext) {
    for (const uint64_t more : {0, 1}) {
        make();
        base_ = uint64_t{1} << 40;
        open();
        write_range(0, 10);
        record_at(5 * 24)->timestamp = base_ + 1006 + moment + more; /* against the one behind it */
        if (more == 0)
            EXPECT_THAT(read(), ElementsAre(0, 1, 2, 3, 4, 6 + moment, 6 + moment, 6 + moment, 6 + moment,
                                            6 + moment));
        else
            EXPECT_THAT(read(), ElementsAre(0, 1, 2, 3, 4, 6, 7, 8, 9));
        EXPECT_EQ(ring_->damaged_records(), more);
        EXPECT_EQ(ring_->backward_records(), more == 0 ? 4u : 0u);
    }
    EXPECT_EQ(log_, "Ring 0: the record at 120 is from the future of the one behind it; it is left out.\n");
}

/* The one behind it lies behind padding, or right there in the next sub-buffer; also of a flight recorder that was closed. */
TEST_F(RingLimits, ALeapAtTheEndOfASubbufferIsJudgedByTheNextOne) {
    for (const auto mode : {PLUMB_MODE_DISCARD, PLUMB_MODE_OVERWRITE})
        for (const bool is_even : {false, true})
            for (const bool is_wrong : {true, false}) {
                BuilderConfig config;
                config.mode = mode;
                is_even ? make_even(config) : make(config);
                base_ = uint64_t{1} << 40;
                open();
                const uint64_t in_one = is_even ? 128 : 170, step = is_even ? 32 : 24;
                for (uint64_t n = 0; n < in_one; n++)
                    ASSERT_TRUE(is_even ? write_even(n) : write(n));
                if (!is_wrong) base_ += 10 * moment;
                for (uint64_t n = in_one; n < in_one + 5; n++)
                    ASSERT_TRUE(is_even ? write_even(n) : write(n));
                if (!is_wrong) base_ -= 10 * moment;
                record_at((in_one - 1) * step)->timestamp += 10 * moment;
                channel_->control(0).limit = 0;
                EXPECT_EQ(read().size(), in_one + 5 - (is_wrong ? 1 : 0)) << is_even << mode;
                EXPECT_EQ(ring_->damaged_records(), is_wrong ? 1u : 0u);
                EXPECT_EQ(ring_->backward_records(), 0u);
            }
}

/* What goes back by a moment alone was not set back. */
TEST_F(RingLimits, ASmallStepBackIsNotTheClockThatWasSetBack) {
    constexpr uint64_t hour = 3'600'000'000'000, second = 1'000'000'000;
    for (const uint64_t step : {uint64_t{100}, moment, moment + 1}) {
        BuilderConfig config;
        config.clock_mode = PLUMB_CLOCK_REALTIME;
        make(config);
        int64_t offset = 1'700'000'000'000'000'000;
        auto reader = ChannelReader::open(channel_->bytes(),
                                          {channel_->bytes().data(), {}, [&offset] { return offset; }});
        ASSERT_TRUE(reader);
        RingReader ring(*reader, 0);
        for (const uint64_t time : {2 * hour, 2 * hour - step, hour + 3 * second})
            ASSERT_TRUE(channel_->write(0, id_, time, Payload().put(time).bytes()));
        offset -= static_cast<int64_t>(hour);
        std::vector<uint64_t> found;
        while (const auto piece = ring.next(ReadWhat::everything, buffer_))
            for_each_record(*piece, [&](const plumb_record& record) { found.push_back(record.timestamp); });
        if (step <= moment) {
            EXPECT_THAT(found, ElementsAre(2 * hour, 2 * hour, 2 * hour + 3 * second));
            EXPECT_EQ(ring.backward_records(), 1u);
        } else {
            ASSERT_EQ(found.size(), 3u);
            EXPECT_EQ(found[1], 3 * hour - step) << "it was, as far as anybody knows";
        }
        EXPECT_EQ(ring.shift(), hour);
    }
}

TEST_F(RingLimits, PaddingReachesToTheBoundary) {
    for (const std::function<void(plumb_record&)>& damage :
         {std::function<void(plumb_record&)>([](plumb_record&) {}),
          {[](plumb_record& r) { r.length = 24; }},
          {[](plumb_record& r) { r.length = 15; }},
          {[](plumb_record& r) { r.thread_id -= 8; }},
          {[](plumb_record& r) { r.thread_id += 8; }}}) {
        make();
        open();
        write_range(0, 180);
        const bool is_padding = record_at(170 * 24)->event_id == PLUMB_EVENT_ID_PADDING;
        ASSERT_TRUE(is_padding);
        const plumb_record sound = *record_at(170 * 24);
        damage(*record_at(170 * 24));
        const bool is_sound = std::memcmp(&sound, record_at(170 * 24), sizeof(sound)) == 0;
        EXPECT_EQ(read(), numbers(0, 180));
        EXPECT_EQ(ring_->damaged_subbufs(), is_sound ? 0u : 1u);
        EXPECT_EQ(log_, is_sound ? ""
                                 : "Ring 0: the record at 4080 is padding that does not reach to the "
                                   "boundary; the rest of its sub-buffer is left out.\n");
        log_.clear();
    }
}

TEST_F(RingLimits, ARecordHasAWholeHeader) {
    make();
    open();
    write_range(0, 10);
    channel_->control(0).write_pos += 8;
    EXPECT_EQ(read(), numbers(0, 10));
    EXPECT_EQ(ring_->damaged_subbufs(), 1u);
    EXPECT_EQ(log_,
              "Ring 0: the record at 240 has no whole header; the rest of its sub-buffer is left out.\n");
}

/* Larger than what is looked at together: records are found over its ends, whatever their lengths are. */
TEST_F(RingLimits, LargeSubbuffersAreReadByPieces) {
    BuilderConfig config;
    config.subbuf_bytes = 1 << 20;
    config.subbuf_count = 2;
    config.ring_count = 1;
    make(config);
    const uint16_t text = channel_->add_event("text", {test::field("t", PLUMB_FIELD_TEXT, 1)});
    const uint16_t other = channel_->add_event("other", {test::integer("n", 8)});
    open();
    std::mt19937 random(5);
    std::vector<std::string> written;
    uint64_t time = 1000, of_other = 0;
    while (channel_->control(0).write_pos < (7 << 18)) {
        const std::string letters(random() % 700, static_cast<char>('a' + written.size() % 26));
        ASSERT_TRUE(channel_->write(0, text, time++, Payload().text(letters).bytes(), 9));
        written.push_back(letters);
        if (random() % 50 == 0) {
            ASSERT_TRUE(channel_->write(0, other, time++, Payload().put(time).bytes()));
            of_other++;
        }
    }
    size_t found = 0, pieces = 0;
    while (const auto piece = next()) {
        pieces++;
        EXPECT_LE(piece->records.size(), ReadBuffer::chunk_limit_bytes);
        const std::byte* at = piece->records.data();
        for_each_record(*piece, [&](const plumb_record& record) {
            if (record.event_id == text) {
                ASSERT_LT(found, written.size());
                const std::string& letters = written[found++];
                ASSERT_EQ(record.length, 18 + letters.size());
                EXPECT_EQ(std::memcmp(at + 18, letters.data(), letters.size()), 0);
                EXPECT_EQ(record.thread_id, 9u);
            }
            at += (record.length + size_t{7}) / 8 * 8;
        });
    }
    EXPECT_EQ(found, written.size());
    EXPECT_GE(pieces, 7u);
    EXPECT_EQ(buffer_.counts[text], written.size());
    EXPECT_EQ(buffer_.counts[other], of_other);
    EXPECT_EQ(log_, "");
}

TEST_F(RingLimits, WhatIsWrittenOverBeforeItIsReadCountsFromWhereTheReaderIs) {
    BuilderConfig config;
    config.mode = PLUMB_MODE_OVERWRITE;
    make(config);
    open();
    write_range(0, 200); /* into the second sub-buffer */
    EXPECT_EQ(read(), numbers(0, 200));
    write_range(200, 2000); /* ends in the twelfth: the ninth is the first that is there */
    EXPECT_EQ(read(), numbers(8 * 170, 2000));
    EXPECT_EQ(ring_->overwritten_subbufs(), 7u);
    EXPECT_EQ(ring_->position(), channel_->control(0).write_pos);
    /* One that the writer has just entered has taken the place of another. */
    write_range(2000, 12 * 170 + 1);
    EXPECT_EQ(read(), numbers(2000, 12 * 170 + 1));
    EXPECT_EQ(ring_->overwritten_subbufs(), 7u);
    EXPECT_EQ(log_, "");
}

/* Writers may damage the positions while a sub-buffer is copied: what was copied is not believed then. */
TEST_F(RingLimits, PositionsThatBecomeWrongMeanwhileCostWhatWasCopied) {
    BuilderConfig config;
    config.mode = PLUMB_MODE_OVERWRITE;
    make_even(config);
    open(true);
    write_even_range(0, 256);
    const uint64_t good = channel_->control(0).limit;
    channel_->control(0).limit = 8;
    when_told_ = [&] { /* it is looked at once more behind the copy */
                       channel_->control(0).limit = good;
                       channel_->control(0).write_pos = 0;
    };
    EXPECT_EQ(read(), numbers(0, 0));
    EXPECT_EQ(ring_->damaged_subbufs(), 2u);
    EXPECT_EQ(ring_->position(), 8192u);
    EXPECT_EQ(damage(Damage::positions), 2u);
}

TEST_F(RingLimits, PositionsThatCanNotBeAreToldByTheirNumbers) {
    make();
    open();
    write_range(0, 10);
    channel_->control(0).write_pos = 12345677;
    read();
    EXPECT_EQ(log_, "Ring 0 cannot be read: its write position is 12345677.\n");
    log_.clear();
    make();
    channel_->control(0).consumed = 4095;
    open();
    EXPECT_EQ(log_, "Ring 0 cannot be read: its consumed position is 4095.\n");
    log_.clear();
    make();
    open(true);
    write_range(0, 200);
    read();
    release();
    channel_->control(0).consumed = 77;
    read();
    EXPECT_EQ(log_, "Ring 0: its consumed position was 77, and is 4096 again.\n");
    EXPECT_EQ(channel_->control(0).consumed, 4096u);
    log_.clear();
    BuilderConfig config;
    config.mode = PLUMB_MODE_OVERWRITE;
    make(config);
    open();
    write_range(0, 10);
    channel_->control(0).limit = 5 * 4096;
    read();
    EXPECT_EQ(log_, "Ring 0 cannot be read: its limit is 20480.\n");
}

/* Any number of ours in place of a tagged one, and nothing else of the record changes. */
TEST_F(RingLimits, AWritersNumberTakesThePlaceOfItsTaggedOneAlone) {
    make_even();
    constexpr uint32_t tag = 5u << PLUMB_TAG_SHIFT;
    open();
    for (uint32_t i = 0; i < ChannelReader::unnamed_writers_max; i++)
        (void)reader_->number_of_writer(tag | (i + 1), 1000);
    write_even_range(0, 3);
    record_at(32)->thread_id = tag | 0x300000;
    const auto piece = next();
    ASSERT_TRUE(piece);
    ASSERT_EQ(piece->record_count, 3u);
    for (uint64_t n = 0; n < 3; n++) {
        const plumb_record record{1000 + n, id_, 32, n == 1 ? ChannelReader::any_further_writer : 1};
        EXPECT_EQ(std::memcmp(piece->records.data() + n * 32, &record, sizeof(record)), 0) << n;
        EXPECT_EQ(std::memcmp(piece->records.data() + n * 32 + 16, &n, sizeof(n)), 0) << n;
    }
    EXPECT_THAT(log_, HasSubstr(fmt::format("{} writers of other process-id namespaces are not described in "
                                            "the channel; further ones share one thread id.",
                                            ChannelReader::unnamed_writers_max)));
}

} // namespace
} // namespace plumb
