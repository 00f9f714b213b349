// cmake-once
//
// Pages of the kernel's ring buffer, built by hand: every kind of event with its exact time and bytes, nothing
// read outside of a damaged page, and the records that become of the events, byte for byte.
#include "consumerd/kernel/event_format.h"
#include "consumerd/kernel/raw_page.h"
#include "consumerd/kernel/translator.h"

#include <plumb/abi/record.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t missed = uint64_t{1} << 31;
constexpr uint64_t stored = uint64_t{1} << 30;
constexpr uint32_t padding = 29;
constexpr uint32_t time_extend = 30;
constexpr uint32_t time_stamp = 31;

class Bytes {
public:
    template <typename T>
    Bytes& put(T value) {
        const auto raw = std::as_bytes(std::span(&value, 1));
        bytes_.insert(bytes_.end(), raw.begin(), raw.end());
        return *this;
    }
    Bytes& put(std::span<const std::byte> more) {
        bytes_.insert(bytes_.end(), more.begin(), more.end());
        return *this;
    }
    /* The characters alone, no NUL. */
    Bytes& text(std::string_view text) { return put(std::as_bytes(std::span(text))); }
    /* NULs up to `size`. */
    Bytes& fill(size_t size) {
        bytes_.resize(size);
        return *this;
    }
    size_t size() const { return bytes_.size(); }
    std::span<const std::byte> span() const { return bytes_; }
    const std::vector<std::byte>& vector() const { return bytes_; }

private:
    std::vector<std::byte> bytes_;
};

class PageBuilder {
public:
    explicit PageBuilder(uint64_t timestamp) : timestamp_(timestamp) {}

    PageBuilder& word(uint32_t value) {
        events_.put(value);
        return *this;
    }
    PageBuilder& header(uint32_t type, uint32_t delta) { return word(type | delta << 5); }
    PageBuilder& data(std::span<const std::byte> bytes) {
        events_.put(bytes);
        return *this;
    }
    /* What the kernel does with so many bytes: plain, or with a length word. */
    PageBuilder& event(uint32_t delta, std::span<const std::byte> bytes) {
        const auto words = static_cast<uint32_t>((bytes.size() + 3) / 4);
        if (words > 0 && words < padding)
            header(words, delta);
        else
            header(0, delta).word(static_cast<uint32_t>(bytes.size()) + 4);
        data(bytes);
        events_.fill((events_.size() + 3) & ~size_t{3});
        return *this;
    }
    PageBuilder& time(uint32_t type, uint64_t time) {
        return header(type, time & 0x7ffffff).word(static_cast<uint32_t>(time >> 27));
    }

    size_t used() const { return events_.size(); }
    std::vector<std::byte> page(uint64_t flags = 0) const { return page_with_commit(used() | flags); }
    std::vector<std::byte> page_with_commit(uint64_t commit) const {
        return Bytes().put(timestamp_).put(commit).put(events_.span()).vector();
    }

private:
    uint64_t timestamp_;
    Bytes events_;
};

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

std::vector<std::byte> bytes_of(std::string_view text) {
    return Bytes().text(text).vector();
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

/* Copies of a page at the end of memory behind which nothing may be read. */
class GuardedMemory {
public:
    GuardedMemory() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
        void* const at = mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) std::abort();
        start_ = static_cast<std::byte*>(at);
        if (mprotect(start_ + page_, page_, PROT_NONE) != 0) std::abort();
    }
    ~GuardedMemory() { munmap(start_, 2 * page_); }
    GuardedMemory(const GuardedMemory&) = delete;
    GuardedMemory& operator=(const GuardedMemory&) = delete;

    std::span<std::byte> at_end(std::span<const std::byte> bytes) {
        std::byte* const to = start_ + page_ - bytes.size();
        std::copy(bytes.begin(), bytes.end(), to);
        return {to, bytes.size()};
    }

private:
    size_t page_;
    std::byte* start_ = nullptr;
};

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

/* ---- Translator ---- */

std::string format_of(const std::string& name, const std::string& id, const std::string& fields) {
    return "name: " + name + "\nID: " + id +
           "\nformat:\n"
           "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
           "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
           "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
           "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
           "\n" +
           fields + "\nprint fmt: \"\"\n";
}

const uint16_t id_switch = 372;
const uint16_t id_located = 40;
const uint16_t id_relative = 41;
const uint16_t id_numbers = 42;
const uint16_t id_twice = 43;
const uint16_t id_newtask = 205;

std::vector<KernelEvent> all_events() {
    const std::vector<std::pair<std::string, std::string>> formats = {
        {"sched", format_of("sched_switch", "372",
                            "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
                            "\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n"
                            "\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n"
                            "\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n"
                            "\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n"
                            "\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n"
                            "\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n")},
        {"test", format_of("located", "40",
                           "\tfield:__data_loc char[] file;\toffset:8;\tsize:4;\tsigned:0;\n"
                           "\tfield:u32 number;\toffset:12;\tsize:4;\tsigned:0;\n")},
        {"test", format_of("relative", "41",
                           "\tfield:u16 number;\toffset:8;\tsize:2;\tsigned:0;\n"
                           "\tfield:__rel_loc char[] file;\toffset:12;\tsize:4;\tsigned:0;\n")},
        {"test", format_of("numbers", "42",
                           "\tfield:__data_loc u64[] addrs;\toffset:8;\tsize:4;\tsigned:0;\n"
                           "\tfield:__rel_loc u32[] lengths;\toffset:12;\tsize:4;\tsigned:0;\n")},
        {"test", format_of("twice", "43",
                           "\tfield:__data_loc u16[] a;\toffset:8;\tsize:4;\tsigned:0;\n"
                           "\tfield:__data_loc u16[] b;\toffset:12;\tsize:4;\tsigned:0;\n")},
        {"task", format_of("task_newtask", "205",
                           "\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n"
                           "\tfield:char comm[16];\toffset:12;\tsize:16;\tsigned:0;\n"
                           "\tfield:u64 clone_flags;\toffset:32;\tsize:8;\tsigned:0;\n"
                           "\tfield:short oom_score_adj;\toffset:40;\tsize:2;\tsigned:1;\n")},
    };
    std::vector<KernelEvent> events;
    FormatParser parser;
    for (const auto& [system, format] : formats) {
        Result<KernelEvent> event = parser.parse(system, format);
        if (!event) {
            ADD_FAILURE() << event.error().message();
            continue;
        }
        event->is_ours = event->id == id_newtask;
        events.push_back(*std::move(event));
    }
    return events;
}

/* What every raw event begins with. */
Bytes raw_event(uint16_t id, uint32_t thread_id) {
    return Bytes().put(id).put(uint8_t{0}).put(uint8_t{1}).put(thread_id);
}

uint32_t location(size_t offset, size_t bytes) {
    return static_cast<uint32_t>(bytes << 16 | offset);
}

/* A record with the unused bytes before it that align it. */
Bytes& add_record(Bytes& to, uint64_t timestamp, uint16_t id, uint32_t thread_id, const Bytes& payload) {
    to.fill((to.size() + 7) & ~size_t{7});
    to.put(timestamp).put(id).put(static_cast<uint16_t>(16 + payload.size())).put(thread_id);
    return to.put(payload.span());
}

class TranslatorTest : public testing::Test {
protected:
    bool translate(std::span<const std::byte> bytes) {
        RawPage page(bytes, {});
        return translator_.translate(page, records_);
    }
    /* One event in a page of its own. */
    bool translate(uint64_t timestamp, const Bytes& raw) {
        return translate(PageBuilder(timestamp).event(0, raw.span()).page());
    }
    std::vector<std::byte> records() const {
        const Piece piece = records_.piece();
        return {piece.records.begin(), piece.records.end()};
    }

    static Bytes located(uint32_t where, std::string_view tail, uint32_t number = 7) {
        return raw_event(id_located, 9).put(where).put(number).text(tail);
    }

    const std::vector<KernelEvent> events_ = all_events();
    Translator translator_{events_};
    TranslatedRecords records_;
};

TEST_F(TranslatorTest, MakesARecordOfAnEventWithFixedFields) {
    const std::string unended = "sixteen letters!"; /* no NUL */
    Bytes raw = raw_event(id_switch, 4321);
    raw.text("bash").fill(24).put(int32_t{77}).put(int32_t{120}).put(int64_t{-2});
    raw.text(unended).put(int32_t{88}).put(int32_t{-1});
    ASSERT_EQ(raw.size(), 64u);
    EXPECT_TRUE(translate(5000, raw));

    Bytes payload;
    payload.text("bash").put('\0').put(int32_t{77}).put(int32_t{120}).put(int64_t{-2});
    payload.text(unended).put('\0').put(int32_t{88}).put(int32_t{-1});
    Bytes expected;
    add_record(expected, 5000, id_switch, 4321, payload);
    EXPECT_EQ(records(), expected.vector());
    EXPECT_EQ(records_.piece().record_count, 1u);
    EXPECT_EQ(records_.piece().first_timestamp, 5000u);
    EXPECT_EQ(records_.piece().last_timestamp, 5000u);
    EXPECT_EQ(translator_.seen_events(), 1u);
    EXPECT_EQ(translator_.damaged_events() + translator_.unknown_events(), 0u);
}

TEST_F(TranslatorTest, FindsStringsBehindTheFixedFields) {
    EXPECT_TRUE(translate(5000, located(location(16, 5), std::string_view("/tmp\0...", 8))));
    Bytes expected;
    add_record(expected, 5000, id_located, 9, Bytes().text("/tmp").put('\0').put(uint32_t{7}));

    /* A relative one counts from behind its location: 12 + 4 + 4. */
    Bytes relative = raw_event(id_relative, 10).put(uint16_t{300}).put(uint16_t{0});
    relative.put(location(4, 3)).text("....abc!");
    EXPECT_TRUE(translate(5001, relative));
    add_record(expected, 5001, id_relative, 10, Bytes().put(uint16_t{300}).text("abc").put('\0'));
    EXPECT_EQ(records(), expected.vector());
}

TEST_F(TranslatorTest, MakesSequencesOfDynamicArrays) {
    Bytes raw = raw_event(id_numbers, 9).put(location(16, 16)).put(location(16, 15));
    raw.put(uint64_t{1}).put(UINT64_MAX);
    raw.put(uint32_t{4}).put(uint32_t{5}).put(uint32_t{6}).put(uint32_t{7});
    EXPECT_TRUE(translate(5000, raw));
    Bytes payload;
    payload.put(uint16_t{2}).put(uint64_t{1}).put(UINT64_MAX);
    payload.put(uint16_t{3})
        .put(uint32_t{4})
        .put(uint32_t{5})
        .put(uint32_t{6}); /* 15 bytes are 3 and a bit */
    Bytes expected;
    add_record(expected, 5000, id_numbers, 9, payload);
    EXPECT_EQ(records(), expected.vector());
}

TEST_F(TranslatorTest, AlignsEveryRecordAndEndsWithTheLast) {
    Bytes expected;
    PageBuilder page(1000);
    for (uint32_t length = 0; length < 9; length++) {
        const std::string text(length, 'x');
        page.event(1, located(location(16, length), text, length).span());
        add_record(expected, 1001 + length, id_located, 9, Bytes().text(text).put('\0').put(length));
    }
    EXPECT_TRUE(translate(page.page()));
    EXPECT_EQ(records(), expected.vector());
    const Piece piece = records_.piece();
    EXPECT_EQ(piece.record_count, 9u);
    EXPECT_EQ(piece.first_timestamp, 1001u);
    EXPECT_EQ(piece.last_timestamp, 1009u);
    std::vector<uint64_t> times;
    for_each_record(piece, [&](const plumb_record& record) { times.push_back(record.timestamp); });
    EXPECT_THAT(times, ElementsAre(1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009));
}

TEST_F(TranslatorTest, DropsEventsWhoseLocationPointsOutside) {
    const Bytes good = located(location(16, 4), "abcd");
    const std::vector<uint32_t> outside = {location(16, 5), location(21, 0),     location(17, 4),
                                           location(0, 21), location(0xffff, 0), location(0xffff, 0xffff)};
    PageBuilder page(1000);
    page.event(1, good.span());
    for (const uint32_t where : outside)
        page.event(1, located(where, "abcd").span());
    for (const uint32_t where : {location(4, 1), location(0xffff, 0), location(0, 5)})
        page.event(1, raw_event(id_relative, 9).put(uint32_t{0}).put(where).text("abcd").span());
    page.event(1, good.span());
    EXPECT_TRUE(translate(page.page())) << "the page itself is sound";
    Bytes expected;
    const Bytes payload = Bytes().text("abcd").put('\0').put(uint32_t{7});
    add_record(expected, 1001, id_located, 9, payload);
    add_record(expected, 1000 + outside.size() + 5, id_located, 9, payload);
    /* location(4, 1) from behind the field is the first byte behind the event, so three are outside. */
    EXPECT_EQ(records(), expected.vector());
    EXPECT_EQ(translator_.damaged_events(), outside.size() + 3);
    EXPECT_EQ(translator_.seen_events(), outside.size() + 5);
}

TEST_F(TranslatorTest, TakesALocationThatEndsWithTheEvent) {
    EXPECT_TRUE(translate(1, located(location(20, 0), "abcd")));
    EXPECT_TRUE(translate(2, located(location(0, 20), "abcd")));
    EXPECT_EQ(translator_.damaged_events(), 0u);
    EXPECT_EQ(records_.piece().record_count, 2u);
}

TEST_F(TranslatorTest, DropsEventsThatAreShorterThanTheirFields) {
    const Bytes whole = raw_event(id_switch, 1).fill(64);
    PageBuilder page(1000);
    for (size_t size = 4; size <= whole.size(); size += 4)
        page.event(1, whole.span().first(size));
    EXPECT_TRUE(translate(page.page()));
    EXPECT_EQ(records_.piece().record_count, 1u);
    EXPECT_EQ(records_.piece().first_timestamp, 1016u);
    EXPECT_EQ(translator_.damaged_events(), 15u);
    EXPECT_EQ(translator_.seen_events(), 16u);
}

TEST_F(TranslatorTest, CountsEventsThatItDoesNotKnow) {
    PageBuilder page(1000);
    for (const uint16_t id : {uint16_t{0}, uint16_t{999}, uint16_t{0xffff}})
        page.event(1, raw_event(id, 9).span());
    EXPECT_TRUE(translate(page.page()));
    EXPECT_TRUE(records_.empty());
    EXPECT_THAT(records(), IsEmpty());
    EXPECT_EQ(translator_.unknown_events(), 3u);
    EXPECT_EQ(translator_.damaged_events(), 0u);
    EXPECT_EQ(translator_.seen_events(), 3u);
}

TEST_F(TranslatorTest, DropsEventsWhoseTimeGoesBack) {
    const Bytes raw = located(location(16, 4), "abcd");
    EXPECT_TRUE(translate(1000, raw));
    EXPECT_TRUE(translate(999, raw));
    EXPECT_EQ(translator_.damaged_events(), 1u);
    EXPECT_TRUE(translate(1000, raw)) << "the same time is in order";
    EXPECT_EQ(translator_.damaged_events(), 1u);
    EXPECT_EQ(records_.piece().record_count, 2u);
    EXPECT_TRUE(
        translate(PageBuilder(1001).event(0, raw.span()).time(time_stamp, 5).event(0, raw.span()).page()));
    EXPECT_EQ(translator_.damaged_events(), 2u);
    EXPECT_EQ(records_.piece().last_timestamp, 1001u);
}

TEST_F(TranslatorTest, KnowsTheLastTimeAlsoWhenTheRecordsAreGone) {
    const Bytes raw = located(location(16, 4), "abcd");
    EXPECT_TRUE(translate(1000, raw));
    records_.clear();
    EXPECT_TRUE(records_.empty());
    EXPECT_EQ(records_.bytes(), 0u);
    EXPECT_TRUE(translate(999, raw));
    EXPECT_TRUE(records_.empty());
    EXPECT_TRUE(translate(1002, raw));
    EXPECT_EQ(records_.piece().first_timestamp, 1002u);
    EXPECT_EQ(records_.piece().record_count, 1u);
    EXPECT_EQ(translator_.damaged_events(), 1u);
}

TEST_F(TranslatorTest, DropsWhatNoRecordHolds) {
    /* Two sequences of the same bytes: 16 + 2 + n + 2 + n. */
    constexpr size_t most = (PLUMB_RECORD_MAX_BYTES - 20) / 2;
    for (const size_t bytes : {most, most + 2, size_t{0xfffe}}) {
        Bytes raw = raw_event(id_twice, 9).put(location(16, bytes)).put(location(16, bytes));
        raw.fill(16 + bytes);
        EXPECT_TRUE(translate(1000, raw));
    }
    EXPECT_EQ(translator_.damaged_events(), 2u);
    EXPECT_EQ(records_.piece().record_count, 1u);
    EXPECT_EQ(records_.piece().records.size(), PLUMB_RECORD_MAX_BYTES);
}

TEST_F(TranslatorTest, KeepsTheRecordsBeforeTheDamageOfAPage) {
    const Bytes raw = located(location(16, 4), "abcd");
    EXPECT_FALSE(translate(PageBuilder(1000).event(1, raw.span()).header(28, 1).page()));
    EXPECT_EQ(records_.piece().record_count, 1u);
    EXPECT_FALSE(translate({}));
    EXPECT_EQ(records_.piece().record_count, 1u);
}

TEST_F(TranslatorTest, NotesNewThreadsWithoutARecord) {
    constexpr uint64_t thread_flag = 0x10000;
    const auto newtask = [](uint64_t flags) {
        Bytes raw = raw_event(id_newtask, 50);
        return raw.put(int32_t{51}).text("worker").fill(32).put(flags).put(int16_t{0}).fill(44);
    };
    EXPECT_TRUE(translate(1000, newtask(0)));
    EXPECT_TRUE(translate(1001, newtask(thread_flag)));
    EXPECT_TRUE(records_.empty());
    EXPECT_EQ(translator_.seen_events(), 2u);
    const std::vector<ThreadNote> notes = translator_.take_notes();
    ASSERT_EQ(notes.size(), 2u);
    EXPECT_EQ(notes[0].timestamp, 1000u);
    EXPECT_EQ(notes[0].thread_id, 51u);
    EXPECT_EQ(notes[0].by_thread_id, 50u);
    EXPECT_EQ(notes[0].name, "worker");
    EXPECT_TRUE(notes[0].is_new);
    EXPECT_TRUE(notes[0].is_process);
    EXPECT_FALSE(notes[1].is_process);
    EXPECT_THAT(translator_.take_notes(), IsEmpty());
}

TEST_F(TranslatorTest, ReadsNothingOutsideWhateverAByteOfAPageSays) {
    Bytes numbers = raw_event(id_numbers, 9).put(location(16, 8)).put(location(4, 4)).put(uint64_t{1});
    Bytes relative = raw_event(id_relative, 9).put(uint32_t{0}).put(location(0, 3)).text("abc");
    const std::vector<std::byte> sound = PageBuilder(1000)
                                             .event(1, raw_event(id_switch, 1).fill(64).span())
                                             .event(1, numbers.span())
                                             .event(1, relative.span())
                                             .event(1, located(location(16, 4), "abcd").span())
                                             .page();
    GuardedMemory memory;
    const std::span<std::byte> page = memory.at_end(sound);
    for (size_t at = 0; at < page.size(); at++) {
        for (unsigned value = 0; value < 256; value++) {
            page[at] = static_cast<std::byte>(value);
            TranslatedRecords records;
            RawPage raw(page, {});
            (void)translator_.translate(raw, records);
            size_t end = 0;
            for_each_record(records.piece(), [&](const plumb_record& record) {
                end = ((end + 7) & ~size_t{7}) + record.length;
            });
            ASSERT_EQ(end, records.piece().records.size()) << "byte " << at << " is " << value;
        }
        page[at] = sound[at];
    }
}

} // namespace
} // namespace plumb
