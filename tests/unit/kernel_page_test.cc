// cmake-once
//
// Pages of the kernel's ring buffer: every kind of event with its exact time and bytes, nothing read outside of a
// damaged page.
#include "consumerd/kernel/raw_page.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/kernel_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::IsEmpty;

struct Walked {
    std::vector<uint64_t> times;
    std::vector<std::vector<std::byte>> data;
    bool is_damaged = false;
};

Walked walk(std::span<const std::byte> bytes) {
    Walked walked;
    RawPage page(bytes, {});
    for (RawEvent event; page.next(event);) {
        walked.times.push_back(event.timestamp);
        walked.data.emplace_back(event.data.begin(), event.data.end());
    }
    walked.is_damaged = page.is_damaged();
    RawEvent event;
    EXPECT_FALSE(page.next(event)) << "the end is the end";
    return walked;
}

/* ---- RawPage: what a sound page says ---- */

TEST(RawPage, HasNoEventsIfNothingIsCommitted) {
    const Walked walked = walk(PageBuilder(1000).page());
    EXPECT_THAT(walked.times, IsEmpty());
    EXPECT_FALSE(walked.is_damaged);
}

TEST(RawPage, GivesPlainEventsOfEveryLength) {
    PageBuilder builder(1000);
    for (uint32_t words = 1; words <= 28; words++)
        builder.event(words, std::vector(words * 4, static_cast<std::byte>(words)));
    const Walked walked = walk(builder.page());
    ASSERT_EQ(walked.times.size(), 28u);
    uint64_t time = 1000;
    for (uint32_t words = 1; words <= 28; words++) {
        time += words;
        EXPECT_EQ(walked.times[words - 1], time);
        EXPECT_EQ(walked.data[words - 1], std::vector(words * 4, static_cast<std::byte>(words)));
    }
    EXPECT_FALSE(walked.is_damaged);
}

TEST(RawPage, CountsTheFirstDeltaFromTheTimeOfThePage) {
    EXPECT_THAT(walk(PageBuilder(1000).event(0, bytes_of("abcd")).page()).times, ElementsAre(1000));
    EXPECT_THAT(walk(PageBuilder(1000).event(0x7ffffff, bytes_of("abcd")).page()).times,
                ElementsAre(1000 + 0x7ffffff));
}

TEST(RawPage, GivesEventsWithALengthWordWithoutWhatAlignsThem) {
    const std::string large(113, 'x');
    const Walked walked = walk(PageBuilder(1000)
                                   .header(0, 5)
                                   .word(4 + 113)
                                   .data(Bytes().text(large).fill(116).span())
                                   .event(2, bytes_of("next"))
                                   .header(0, 1)
                                   .word(4) /* a length of nothing */
                                   .event(1, bytes_of("last"))
                                   .page());
    EXPECT_THAT(walked.times, ElementsAre(1005, 1007, 1008, 1009));
    EXPECT_THAT(walked.data, ElementsAre(bytes_of(large), bytes_of("next"), bytes_of(""), bytes_of("last")));
    EXPECT_FALSE(walked.is_damaged);
}

TEST(RawPage, AddsTimeExtends) {
    const uint64_t long_time = uint64_t{3} << 27 | 7;
    const Walked walked = walk(PageBuilder(1000)
                                   .event(1, bytes_of("a..."))
                                   .time(time_extend, long_time)
                                   .event(2, bytes_of("b..."))
                                   .time(time_extend, (uint64_t{1} << 59) - 1)
                                   .event(0, bytes_of("c..."))
                                   .page());
    EXPECT_THAT(walked.times,
                ElementsAre(1001, 1003 + long_time, 1003 + long_time + (uint64_t{1} << 59) - 1));
    EXPECT_FALSE(walked.is_damaged);
}

TEST(RawPage, TakesAbsoluteTimeAndKeepsTheUpperBitsOfTheTimeBefore) {
    const uint64_t upper = uint64_t{5} << 59;
    const uint64_t stamp = uint64_t{0x123456789} << 27 >> 5 | 42;
    const Walked walked = walk(PageBuilder(upper | 1000)
                                   .time(time_stamp, stamp)
                                   .event(3, bytes_of("a..."))
                                   .time(time_stamp, (uint64_t{1} << 59) - 2)
                                   .event(1, bytes_of("b..."))
                                   .page());
    EXPECT_THAT(walked.times, ElementsAre((upper | stamp) + 3, upper | ((uint64_t{1} << 59) - 1)));
    EXPECT_FALSE(walked.is_damaged);
}

TEST(RawPage, CountsOnWhenAnAbsoluteTimeStampPassesAMultipleOfItsRange) {
    constexpr uint64_t range = uint64_t{1} << 59;
    const Walked walked =
        walk(PageBuilder(3 * range - 5).time(time_stamp, 7).event(0, Bytes().put(uint32_t{1}).span()).page());
    EXPECT_THAT(walked.times, ElementsAre(3 * range + 7));
    /* One that says again what the time is has not gone back. */
    const Walked same =
        walk(PageBuilder(3 * range + 7).time(time_stamp, 7).event(0, Bytes().put(uint32_t{1}).span()).page());
    EXPECT_THAT(same.times, ElementsAre(3 * range + 7));
    /* The highest bit of a stamp is the stamp's, not one of those that are kept. */
    const Walked half = walk(PageBuilder(2 * range + range / 2 + 5)
                                 .time(time_stamp, 7)
                                 .event(0, Bytes().put(uint32_t{1}).span())
                                 .time(time_stamp, range / 2 + 9)
                                 .event(0, Bytes().put(uint32_t{1}).span())
                                 .page());
    EXPECT_THAT(half.times, ElementsAre(3 * range + 7, 3 * range + range / 2 + 9));
    /* Within the first range nothing can have passed one: what went back is what the page says. */
    const Walked early =
        walk(PageBuilder(1000).time(time_stamp, 7).event(0, Bytes().put(uint32_t{1}).span()).page());
    EXPECT_THAT(early.times, ElementsAre(7u));
}

TEST(RawPage, EndsAtPaddingWithoutDelta) {
    const Walked walked = walk(
        PageBuilder(1000).event(1, bytes_of("a...")).header(padding, 0).event(1, bytes_of("old.")).page());
    EXPECT_THAT(walked.data, ElementsAre(bytes_of("a...")));
    EXPECT_FALSE(walked.is_damaged);
}

TEST(RawPage, SkipsDiscardedEventsButNotTheirTime) {
    const Walked walked = walk(PageBuilder(1000)
                                   .event(1, bytes_of("a..."))
                                   .header(padding, 5)
                                   .word(4 + 8)
                                   .data(bytes_of("discards"))
                                   .event(2, bytes_of("b..."))
                                   .page());
    EXPECT_THAT(walked.times, ElementsAre(1001, 1008));
    EXPECT_THAT(walked.data, ElementsAre(bytes_of("a..."), bytes_of("b...")));
    EXPECT_FALSE(walked.is_damaged);
}

TEST(RawPage, EndsWhereTheCommitSaysSo) {
    PageBuilder builder(1000);
    builder.event(1, bytes_of("a..."));
    const size_t used = builder.used();
    builder.event(1, bytes_of("old."));
    const Walked walked = walk(builder.page_with_commit(used));
    EXPECT_THAT(walked.data, ElementsAre(bytes_of("a...")));
    EXPECT_FALSE(walked.is_damaged);
}

TEST(RawPage, HasTheLayoutOfAKernelWithAShortCommit) {
    Bytes bytes;
    bytes.put(uint64_t{1000}).put(uint32_t{8} | static_cast<uint32_t>(missed));
    bytes.put(uint32_t{1 | 7 << 5}).text("abcd").put(uint32_t{1 | 7 << 5}).text("old.");
    RawPage page(bytes.span(), {.commit_offset = 8, .commit_bytes = 4, .data_offset = 12});
    RawEvent event;
    ASSERT_TRUE(page.next(event));
    EXPECT_EQ(event.timestamp, 1007u);
    EXPECT_EQ(event.data.data(), bytes.span().data() + 16);
    EXPECT_TRUE(page.has_missed());
    EXPECT_FALSE(page.next(event));
    EXPECT_FALSE(page.is_damaged());
    /* Of an empty one, nothing behind the commit is looked at: there may be none. */
    GuardedMemory memory;
    const RawPage empty(memory.at_end(Bytes().put(uint64_t{1000}).put(uint32_t{0}).span()),
                        {.commit_offset = 8, .commit_bytes = 4, .data_offset = 12});
    EXPECT_FALSE(empty.is_damaged());
    EXPECT_FALSE(empty.has_missed());
}

/* ---- RawPage: missed events ---- */

TEST(RawPage, SaysThatNothingWasMissed) {
    const auto bytes = PageBuilder(1).event(1, bytes_of("abcd")).page();
    const RawPage page(bytes, {});
    EXPECT_FALSE(page.has_missed());
    EXPECT_EQ(page.missed_count(), 0u);
}

TEST(RawPage, SaysThatEventsWereMissedAndHowMany) {
    PageBuilder builder(1000);
    builder.event(1, bytes_of("abcd"));
    std::vector<std::byte> bytes = builder.page(missed | stored);
    bytes = Bytes().put(std::span<const std::byte>(bytes)).put(uint64_t{1234567890123}).vector();
    const RawPage page(bytes, {});
    EXPECT_TRUE(page.has_missed());
    EXPECT_EQ(page.missed_count(), 1234567890123u);
    const Walked walked = walk(bytes);
    EXPECT_THAT(walked.times, ElementsAre(1001));
    EXPECT_FALSE(walked.is_damaged);
}

TEST(RawPage, DoesNotKnowHowManyWereMissedIfTheCountIsNotStored) {
    PageBuilder builder(1000);
    builder.event(1, bytes_of("abcd"));
    const size_t used = builder.used();
    builder.word(7).word(0); /* what an older event left behind the last one */
    for (const auto& bytes :
         {builder.page_with_commit(used | missed), PageBuilder(1).word(padding).page(missed | stored)}) {
        const RawPage page(bytes, {});
        EXPECT_TRUE(page.has_missed());
        EXPECT_EQ(page.missed_count(), 0u);
        EXPECT_FALSE(page.is_damaged());
    }
}

TEST(RawPage, DoesNotTakeACountWithoutMissedEvents) {
    PageBuilder builder(1000);
    builder.word(7).word(0);
    const auto bytes = builder.page_with_commit(stored);
    const RawPage page(bytes, {});
    EXPECT_FALSE(page.has_missed());
    EXPECT_EQ(page.missed_count(), 0u);
}

/* ---- RawPage: damage ---- */

TEST(RawPage, IsDamagedIfItsHeaderIsCutShort) {
    const auto bytes = PageBuilder(1).event(1, bytes_of("abcd")).page();
    for (size_t size = 0; size < bytes.size(); size++) {
        const Walked walked = walk(std::span(bytes).first(size));
        EXPECT_TRUE(walked.is_damaged) << size;
        EXPECT_THAT(walked.times, IsEmpty()) << size;
    }
}

TEST(RawPage, IsDamagedIfTheCommitIsLargerThanThePage) {
    PageBuilder builder(1000);
    builder.event(1, bytes_of("abcd"));
    for (const uint64_t commit : {builder.used() + 1, builder.used() + 4, size_t{0x3fffffff}}) {
        const Walked walked = walk(builder.page_with_commit(commit));
        EXPECT_TRUE(walked.is_damaged) << commit;
        EXPECT_THAT(walked.times, IsEmpty()) << commit;
    }
}

TEST(RawPage, IsDamagedIfItsFormatMakesNoSense) {
    const auto bytes = PageBuilder(1).event(1, bytes_of("abcd")).page();
    for (const RawPageFormat format :
         {RawPageFormat{8, 2, 16}, RawPageFormat{8, 0, 16}, RawPageFormat{8, 8, 4096},
          RawPageFormat{4096, 8, 16}, RawPageFormat{UINT32_MAX, 8, UINT32_MAX}}) {
        RawPage page(bytes, format);
        EXPECT_TRUE(page.is_damaged());
        RawEvent event;
        EXPECT_FALSE(page.next(event));
    }
}

TEST(RawPage, KeepsWhatIsBeforeALengthThatLeadsOutside) {
    const auto first = bytes_of("abcd");
    const auto damaged = [&](const std::function<void(PageBuilder&)>& add) {
        PageBuilder builder(1000);
        builder.event(1, first);
        add(builder);
        const Walked walked = walk(builder.page());
        EXPECT_THAT(walked.data, ElementsAre(first));
        return walked.is_damaged;
    };
    for (uint32_t words = 1; words <= 28; words++)
        EXPECT_TRUE(damaged([&](PageBuilder& page) {
            page.header(words, 1).data(std::vector<std::byte>((words - 1) * 4));
        })) << "plain, "
            << words;
    for (const uint32_t type : {0u, padding}) {
        EXPECT_TRUE(damaged([&](PageBuilder& page) { page.header(type, 1); })) << "no length word";
        for (const uint32_t length :
             {0u, 1u, 3u, 9u, 12u, 0x7fffffffu, 0xfffffffcu, 0xfffffffdu, 0xffffffffu})
            EXPECT_TRUE(damaged([&](PageBuilder& page) { page.header(type, 1).word(length).word(0); }))
                << "type " << type << ", length " << length;
    }
    for (const uint32_t type : {time_extend, time_stamp})
        EXPECT_TRUE(damaged([&](PageBuilder& page) { page.header(type, 1); })) << "half a time";
}

/* Touches every byte of every event; false if one lies outside, or the walk is longer than the page. */
bool walks_inside(std::span<const std::byte> bytes) {
    RawPage page(bytes, {});
    size_t events = 0;
    unsigned sum = 0;
    for (RawEvent event; page.next(event); events++) {
        const std::byte* const begin = event.data.data();
        if (begin < bytes.data() + 16 || event.data.size() > bytes.size()) return false;
        if (begin + event.data.size() > bytes.data() + bytes.size()) return false;
        if (events > bytes.size() / 4) return false;
        for (const std::byte byte : event.data)
            sum += static_cast<unsigned>(byte);
    }
    volatile const unsigned used = sum;
    (void)used;
    return true;
}

/* One of everything, and nothing behind the last event. */
std::vector<std::byte> page_of_everything() {
    return PageBuilder(1000)
        .event(1, bytes_of("plain..."))
        .event(1, std::vector(117, std::byte{7}))
        .time(time_extend, uint64_t{9} << 27)
        .event(0, bytes_of("abcd"))
        .time(time_stamp, uint64_t{99} << 27)
        .header(padding, 5)
        .word(4 + 4)
        .data(bytes_of("gone"))
        .event(3, bytes_of("last"))
        .page(missed | stored);
}

TEST(RawPage, ReadsNothingOutsideWhateverAByteOfItSays) {
    const std::vector<std::byte> sound = page_of_everything();
    ASSERT_EQ(walk(sound).times.size(), 4u);
    GuardedMemory memory;
    const std::span<std::byte> page = memory.at_end(sound);
    for (size_t at = 0; at < page.size(); at++) {
        for (unsigned value = 0; value < 256; value++) {
            page[at] = static_cast<std::byte>(value);
            ASSERT_TRUE(walks_inside(page)) << "byte " << at << " is " << value;
        }
        page[at] = sound[at];
    }
}

TEST(RawPage, ReadsNothingOutsideWhereverItIsCutOrCommitted) {
    const std::vector<std::byte> sound = page_of_everything();
    GuardedMemory memory;
    for (size_t size = 0; size <= sound.size(); size++) {
        const std::span<std::byte> page = memory.at_end(std::span(sound).first(size));
        ASSERT_TRUE(walks_inside(page)) << size;
        if (size < 16) continue;
        for (const uint64_t flags : {uint64_t{0}, missed, stored, missed | stored}) {
            const uint64_t commit = (size - 16) | flags;
            std::memcpy(page.data() + 8, &commit, sizeof(commit));
            ASSERT_TRUE(walks_inside(page)) << size << " with flags " << flags;
        }
    }
}

} // namespace
} // namespace plumb
