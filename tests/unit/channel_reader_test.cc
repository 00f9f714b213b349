// cmake-once
//
// The reader's promise: it hands out every good record exactly once, never touches anything outside the bytes
// it was given, ends whatever writers do to positions, and names what it leaves out.
#include "consumerd/channel/channel_reader.h"
#include "consumerd/channel/entry_recycler.h"
#include "consumerd/channel/ring_reader.h"
#include "consumerd/clock/clock_calibration.h"
#include "tests/support/channel_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/time.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <functional>
#include <random>
#include <set>
#include <thread>

namespace plumb {
namespace {

using test::BuilderConfig;
using test::ChannelBuilder;
using test::Payload;
using testing::HasSubstr;

std::string refusal(const std::function<void(plumb_channel_header&)>& damage) {
    ChannelBuilder channel;
    damage(channel.header());
    const auto reader = ChannelReader::open(channel.bytes());
    return reader ? "" : reader.error().message();
}

TEST(ChannelHeader, IsRefusedIfAnythingInItIsImpossible) {
    using Header = plumb_channel_header;
    EXPECT_EQ(refusal([](Header&) {}), "");
    EXPECT_THAT(refusal([](Header& h) { h.magic++; }), HasSubstr("not a Plumb channel"));
    EXPECT_THAT(refusal([](Header& h) { h.total_bytes += 8; }), HasSubstr("not whole"));
    const std::vector<std::function<void(Header&)>> damages = {
        [](Header& h) { h.header_bytes = 100; },
        [](Header& h) { h.domain = 3; },
        [](Header& h) { h.mode = 0; },
        [](Header& h) { h.ring_count = 1u << 31; },
        [](Header& h) { h.ring_count = h.extra_ring_count = 0; },
        [](Header& h) { h.subbuf_bytes = 5000; },
        [](Header& h) { h.subbuf_bytes = 0; },
        [](Header& h) { h.subbuf_count = 3; },
        [](Header& h) { h.subbuf_count = 1; },
        [](Header& h) { h.ring_bytes *= 2; },
        [](Header& h) { h.event_slots = 0; },
        [](Header& h) { h.event_slots = 65; },
        [](Header& h) { h.event_slots_offset = ~0ull & ~7ull; },
        [](Header& h) { h.event_slots_offset = 4097; },
        [](Header& h) { h.entry_slots = ~0u; },
        [](Header& h) { h.entry_slots_offset = h.total_bytes; },
        [](Header& h) { h.heap_bytes = ~0ull; },
        [](Header& h) { h.heap_offset = 0; },
        [](Header& h) { h.control_offset = h.total_bytes - 64; },
        [](Header& h) { h.data_offset = h.total_bytes - 64; },
        [](Header& h) { h.entry_slots_offset -= 4; },
        [](Header& h) { h.heap_offset -= 4; },
        [](Header& h) { h.control_offset -= 8; },
        [](Header& h) { h.data_offset -= 4; },
        [](Header& h) {
            h.subbuf_bytes = 1u << 30;
            h.subbuf_count = 1u << 31;
            h.ring_bytes = 1ull << 61;
        },
    };
    for (size_t i = 0; i < damages.size(); i++)
        EXPECT_THAT(refusal(damages[i]), HasSubstr("damaged")) << "damage " << i;
}

TEST(ChannelHeader, AnotherMajorVersionIsNamedWithOurs) {
    const std::string message = refusal([](plumb_channel_header& h) {
        h.version_major = 7;
        h.version_minor = 3;
    });
    EXPECT_THAT(message, HasSubstr("version 7.3"));
    EXPECT_THAT(message, HasSubstr("version " + std::to_string(PLUMB_CHANNEL_VERSION_MAJOR) + ".x"));
    EXPECT_EQ(refusal([](plumb_channel_header& h) { h.version_minor = 99; }), "");
}

TEST(ChannelHeader, TruncatedBytesAreRefused) {
    ChannelBuilder channel;
    EXPECT_FALSE(ChannelReader::open(channel.bytes().first(100)));
    EXPECT_FALSE(ChannelReader::open(channel.bytes().first(channel.bytes().size() - 8)));
}

/* Reads everything; collects the first field, a u64, of each record. */
class RingTest : public testing::Test {
protected:
    void make(const BuilderConfig& config = {}) {
        channel_ = std::make_unique<ChannelBuilder>(config);
        id_ = channel_->add_event("step", {test::integer("n", 8)});
    }
    void open(bool live = false) {
        auto opened =
            ChannelReader::open(channel_->bytes(), {live ? channel_->bytes().data() : nullptr,
                                                    [this](const std::string& l) { log_ += l + "\n"; }});
        ASSERT_TRUE(opened) << opened.error().message();
        reader_ = std::make_unique<ChannelReader>(std::move(*opened));
        ring_ = std::make_unique<RingReader>(*reader_, 0);
    }
    bool write(uint64_t n) { return channel_->write(0, id_, base_ + 1000 + n, Payload().put(n).bytes()); }
    void write_range(uint64_t from, uint64_t to) {
        for (uint64_t n = from; n < to; n++)
            ASSERT_TRUE(write(n));
    }
    std::vector<uint64_t> read(ReadWhat what = ReadWhat::everything) {
        std::vector<uint64_t> found;
        for (int pieces = 0; auto piece = ring_->next(what, buffer_); pieces++) {
            EXPECT_LT(pieces, 1000) << "the reader does not end";
            if (pieces >= 1000) break;
            uint64_t in_piece = 0;
            for_each_record(*piece, [&](const plumb_record& record) {
                found.push_back(record.timestamp - 1000 - base_);
                in_piece++;
            });
            EXPECT_EQ(in_piece, piece->record_count);
        }
        return found;
    }
    uint64_t damage(Damage kind) const { return reader_->damage()[static_cast<size_t>(kind)]; }
    plumb_record* record_at(uint64_t position) {
        return reinterpret_cast<plumb_record*>(channel_->ring(0) + position);
    }
    void release() { /* as a consumer does */
        channel_->control(0).consumed = ring_->releasable();
        ring_->set_released(ring_->releasable());
    }

    std::unique_ptr<ChannelBuilder> channel_;
    std::unique_ptr<ChannelReader> reader_;
    std::unique_ptr<RingReader> ring_;
    ReadBuffer buffer_;
    uint16_t id_ = 0;
    uint64_t base_ = 0; /* of time */
    std::string log_;

    void goes_on_after_damage(plumb_ring_mode mode, size_t word, uint64_t written, int wild);
};

std::vector<uint64_t> numbers(uint64_t from, uint64_t to) {
    std::vector<uint64_t> result;
    for (uint64_t n = from; n < to; n++)
        result.push_back(n);
    return result;
}

void RingTest::goes_on_after_damage(plumb_ring_mode mode, size_t word, uint64_t written, int wild) {
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
            for (const uint64_t each : read(tries % 2 == 0 ? ReadWhat::everything : ReadWhat::whole_subbufs))
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

TEST_F(RingTest, ADamagedRecordOfSoundLengthCostsItselfAlone) {
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

// Nobody can say of a ring's last record that it is wrong. Once others are behind it, they are believed.
TEST_F(RingTest, AWildTimeAtTheEndCostsNothingOfWhatFollows) {
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

// Whatever stands in one word of a ring's control block, writers find their way back: at most two sub-buffers are
// lost (the one that was damaged, and what it was damaged with), counted, and then each record is read once.
TEST_F(RingTest, AnyDamagedWordOfALiveRingCostsASubbufferAndTheRingGoesOn) {
    for (const auto mode : {PLUMB_MODE_DISCARD, PLUMB_MODE_OVERWRITE, PLUMB_MODE_BLOCK})
        for (const size_t word :
             {offsetof(plumb_ring_control, write_pos), offsetof(plumb_ring_control, limit),
              offsetof(plumb_ring_control, consumed)})
            for (const uint64_t written : {0, 100, 2000})
                for (int wild = 0; wild < 14; wild++)
                    goes_on_after_damage(mode, word, written, wild);
}

TEST_F(RingTest, ADamagedRecordWithoutALengthCostsTheRestOfItsSubbuffer) {
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

TEST_F(RingTest, ARecordThatReachesOverTheBoundaryIsDamage) {
    make();
    open();
    write_range(0, 340); /* two sub-buffers of 170, each with 16 bytes of padding behind */
    *record_at(170 * 24) = {1170, id_, 24, 1}; /* right in everything but its place */
    EXPECT_EQ(read(), numbers(0, 340));
    EXPECT_THAT(log_, HasSubstr("too far"));
    EXPECT_EQ(damage(Damage::subbufs), 1u);
}

TEST_F(RingTest, VariablePayloadsMustDecodeExactly) {
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

TEST_F(RingTest, WritingGoesOnWhileADamagedSubbufferIsWaitedOut) {
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

TEST_F(RingTest, ImpossibleWritePositionsAreRefusedUntilTheyAreSaneAgain) {
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

TEST_F(RingTest, AForwardJumpInsideTheRingReadsNothingThatIsNotThere) {
    make();
    open();
    write_range(0, 10);
    channel_->control(0).write_pos = 4096 * 3;
    EXPECT_EQ(read(), numbers(0, 10));
    EXPECT_EQ(damage(Damage::subbufs), 3u);
}

TEST_F(RingTest, AWildConsumedPositionOfADeadChannelIsNotBelieved) {
    for (const uint64_t wild : {uint64_t{8}, uint64_t{4096 * 100}, ~uint64_t{0}}) {
        make();
        write_range(0, 300);
        channel_->control(0).consumed = wild;
        open();
        EXPECT_EQ(read(), numbers(0, 300)) << wild;
        EXPECT_EQ(damage(Damage::positions), 1u);
    }
}

TEST_F(RingTest, ARecordFromTheFutureIsNotBelievedWhileLive) {
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

TEST(ChannelTables, AnEventThatAppearsLateIsFound) {
    ChannelBuilder channel;
    auto reader = ChannelReader::open(channel.bytes());
    ASSERT_TRUE(reader);
    RingReader ring(*reader, 0);
    ReadBuffer buffer;
    EXPECT_EQ(reader->scan_events(), 0u);
    const uint16_t id = channel.add_event("late", {test::integer("n", 8)});
    ASSERT_TRUE(channel.write(0, id, 5, Payload().put(uint64_t{1}).bytes()));
    const auto piece = ring.next(ReadWhat::everything, buffer);
    ASSERT_TRUE(piece);
    EXPECT_EQ(piece->record_count, 1u);
    EXPECT_EQ(reader->events().front().description.full_name(), "test:late");
}

TEST(ChannelTables, UnusableDescriptionsAreCountedOnce) {
    ChannelBuilder channel;
    auto reader = ChannelReader::open(channel.bytes());
    ASSERT_TRUE(reader);
    auto* slots = reinterpret_cast<uint64_t*>(channel.bytes().data() + channel.header().event_slots_offset);
    slots[5] = PLUMB_SLOT(channel.header().heap_offset, channel.header().heap_bytes + 8);
    slots[6] = ~uint64_t{0};
    slots[7] = PLUMB_SLOT(0, 64);
    slots[8] = PLUMB_SLOT(channel.header().heap_offset, 64); /* zeros */
    EXPECT_EQ(reader->scan_events(), 0u);
    EXPECT_EQ(reader->scan_events(), 0u);
    EXPECT_EQ(reader->damage()[static_cast<size_t>(Damage::events)], 4u);
    EXPECT_EQ(reader->find_event(6), nullptr);
}

TEST(ChannelTables, FieldsOfUnknownTypeOrSizeMakeADescriptionUnusable) {
    for (const auto& [type, size] : {std::pair<int, uint8_t>{0, 4},
                                     {8, 4},
                                     {173, 4},
                                     {PLUMB_FIELD_INTEGER, 3},
                                     {PLUMB_FIELD_FLOAT, 2},
                                     {PLUMB_FIELD_STRING, 2},
                                     {PLUMB_FIELD_ARRAY, 0}}) {
        EventDescription event;
        event.provider = event.name = "x";
        event.log_level = PLUMB_INFO;
        event.fields = {test::integer("n", 4)};
        std::vector<std::byte> bytes = test::encode_description(event);
        bytes[sizeof(plumb_event_header) + offsetof(plumb_field, type)] = static_cast<std::byte>(type);
        bytes[sizeof(plumb_event_header) + offsetof(plumb_field, size)] = std::byte{size};
        ChannelBuilder channel;
        channel.add_description(bytes);
        auto reader = ChannelReader::open(channel.bytes());
        ASSERT_TRUE(reader);
        EXPECT_EQ(reader->scan_events(), 0u) << type << " " << int{size};
        EXPECT_EQ(reader->damage()[static_cast<size_t>(Damage::events)], 1u);
    }
}

TEST(ChannelTables, EntriesAreTakenOnceAndDamagedOnesAreCounted) {
    ChannelBuilder channel;
    channel.add_process(1, "name", std::string(200, 'e'), 10);
    channel.add_thread(1, 2, "thread", 20);
    channel.add_object(1, 0x1000, "/lib/x.so", 30);
    plumb_entry nonsense{99, 0, sizeof(plumb_entry), 1, 1, 1};
    channel.add_entry(std::as_bytes(std::span(&nonsense, 1)));
    plumb_entry_thread endless{{PLUMB_ENTRY_THREAD, 0, sizeof(plumb_entry_thread), 1, 1, 1}, {}};
    std::memset(endless.name, 'x', sizeof(endless.name));
    channel.add_entry(std::as_bytes(std::span(&endless, 1)));
    plumb_entry_thread longer{{PLUMB_ENTRY_THREAD, 0, 4096, 1, 1, 1}, {}};
    channel.add_entry(std::as_bytes(std::span(&longer, 1)));

    auto reader = ChannelReader::open(channel.bytes());
    ASSERT_TRUE(reader);
    const auto entries = reader->take_new_entries();
    ASSERT_EQ(entries.size(), 3u);
    EXPECT_EQ(entries[0].path, std::string(200, 'e'));
    EXPECT_EQ(entries[1].name, "thread");
    EXPECT_EQ(entries[2].build_id.size(), 20u);
    EXPECT_EQ(reader->damage()[static_cast<size_t>(Damage::entries)], 3u);
    EXPECT_TRUE(reader->take_new_entries().empty());
}

TEST(ChannelTables, SlotsThatAreFreeOrBeingFilledHoldNoEntry) {
    ChannelBuilder channel;
    channel.add_thread(1, 2, "thread", 20);
    auto* slots = reinterpret_cast<uint64_t*>(channel.bytes().data() + channel.header().entry_slots_offset);
    slots[1] = PLUMB_SLOT_CLAIMED;
    slots[2] = PLUMB_SLOT_FREE | slots[0];
    auto reader = ChannelReader::open(channel.bytes(), {channel.bytes().data(), {}});
    ASSERT_TRUE(reader);
    const auto entries = reader->take_new_entries();
    ASSERT_EQ(entries.size(), 1u);
    reader->free_entry(0, entries[0].slot_value);
    EXPECT_EQ(slots[0], PLUMB_SLOT_FREE | PLUMB_SLOT(channel.header().heap_offset, 64));
    EXPECT_TRUE(reader->take_new_entries().empty());
    slots[0] = entries[0].slot_value; /* a writer, with an entry of the same length */
    EXPECT_EQ(reader->take_new_entries().size(), 1u);
    slots[0] = PLUMB_SLOT(channel.header().heap_offset, 24);
    reader->free_entry(0, entries[0].slot_value);
    EXPECT_EQ(slots[0], PLUMB_SLOT(channel.header().heap_offset, 24)) << "it holds something else by now";
    EXPECT_EQ(reader->damage()[static_cast<size_t>(Damage::entries)], 0u);
}

/* Which slots are free after two passes, when half of the table is taken. */
class Recycling : public testing::Test {
protected:
    std::set<uint32_t> freed(const std::set<std::pair<uint32_t, uint32_t>>& living) {
        BuilderConfig config;
        config.entry_slots = slots_;
        ChannelBuilder channel(config);
        add(channel);
        if (more_) more_(channel);
        auto reader = ChannelReader::open(channel.bytes(), {channel.bytes().data(), {}});
        EntryRecycler recycler([&](uint32_t process, uint32_t thread) {
            return living.count({process, 0}) != 0 && (thread == 0 || living.count({process, thread}) != 0);
        });
        for (const ChannelEntry& entry : reader->take_new_entries())
            recycler.note(entry);
        const auto* slots =
            reinterpret_cast<const uint64_t*>(channel.bytes().data() + channel.header().entry_slots_offset);
        std::set<uint32_t> result;
        recycler.pass(*reader);
        for (uint32_t i = 0; i < slots_; i++)
            EXPECT_EQ(slots[i] & PLUMB_SLOT_FREE, 0u) << "before the rings were read once more";
        recycler.pass(*reader);
        for (uint32_t i = 0; i < slots_; i++)
            if ((slots[i] & PLUMB_SLOT_FREE) != 0) result.insert(i);
        return result;
    }
    uint32_t slots_ = 8;
    std::function<void(ChannelBuilder&)> more_;

private:
    static void add(ChannelBuilder& channel) {
        channel.add_process(1, "parent", "/bin/p", 10); /* slot 0 */
        channel.add_object(1, 0x1000, "/lib/x.so", 11); /* 1 */
        channel.add_thread(1, 100, "main", 12);         /* 2 */
        channel.add_thread(1, 101, "other", 13);        /* 3 */
        channel.add_process(2, "child", "/bin/p", 20, 1);
        channel.add_thread(2, 200, "main", 21); /* 5 */
    }
};

TEST_F(Recycling, EntriesOfTheLivingStay) {
    EXPECT_TRUE(freed({{1, 0}, {1, 100}, {1, 101}, {2, 0}, {2, 200}}).empty());
}
TEST_F(Recycling, AThreadThatEndedIsFreed) {
    EXPECT_EQ(freed({{1, 0}, {1, 100}, {2, 0}, {2, 200}}), std::set<uint32_t>{3});
}
TEST_F(Recycling, AProcessThatEndedIsFreed) {
    EXPECT_EQ(freed({{1, 0}, {1, 100}, {1, 101}}), (std::set<uint32_t>{4, 5}));
    EXPECT_EQ(freed({}), (std::set<uint32_t>{0, 1, 2, 3, 4, 5}));
}
TEST_F(Recycling, ObjectsStayForTheChildrenThatWereForkedWithThem) {
    EXPECT_EQ(freed({{2, 0}, {2, 200}}), (std::set<uint32_t>{2, 3}));
}
TEST_F(Recycling, AThreadThatLivesStaysWhenItsProcessIsToldOfAgain) {
    more_ = [](ChannelBuilder& channel) { channel.add_process(1, "parent", "/bin/p", 30, 0); };
    EXPECT_EQ(freed({{1, 0}, {1, 100}, {1, 101}}), (std::set<uint32_t>{0, 1, 4, 5}));
}
TEST_F(Recycling, AThreadThatIsToldOfAgainIsFreedOnce) {
    more_ = [](ChannelBuilder& channel) { channel.add_thread(1, 100, "main", 30); };
    EXPECT_EQ(freed({{1, 0}, {1, 100}, {1, 101}, {2, 0}, {2, 200}}), std::set<uint32_t>{2});
}
TEST_F(Recycling, NothingIsFreedWhileThereIsRoom) {
    slots_ = 64;
    EXPECT_TRUE(freed({}).empty());
}

} // namespace
} // namespace plumb
