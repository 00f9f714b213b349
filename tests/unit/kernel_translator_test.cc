// cmake-once
//
// The records that become of the kernel's events, byte for byte, and what is dropped and counted.
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/kernel/event_format.h"
#include "consumerd/kernel/translator.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/kernel_pages.h"

#include <plumb/abi/record.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace plumb {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::IsEmpty;

const uint16_t id_switch = 372;
const uint16_t id_located = 40;
const uint16_t id_relative = 41;
const uint16_t id_numbers = 42;
const uint16_t id_twice = 43;
const uint16_t id_call = 44;
const uint16_t id_newtask = 205;

std::vector<KernelEvent> all_events() {
    const std::vector<std::pair<std::string, std::string>> formats = {
        {"sched", format_of("sched_switch", "372", switch_fields)},
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
        {"syscalls", format_of("sys_enter_close", "44",
                               "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n"
                               "\tfield:unsigned int fd;\toffset:16;\tsize:8;\tsigned:0;\n")},
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

TEST_F(TranslatorTest, LeavesOutWhatTheCommandCallsBeforeItIsOne) {
    OwnCalls calls(PLUMB_CLOCK_MONOTONIC);
    translator_.leave_out(calls);
    const auto kept = [&](uint64_t timestamp, uint32_t thread_id, uint16_t id = id_call) {
        const Bytes raw = id == id_call
                              ? raw_event(id, thread_id).put(int32_t{3}).put(int32_t{0}).put(uint64_t{5})
                              : located(location(16, 2), "a", 7);
        const uint64_t before = records_.piece().record_count;
        EXPECT_TRUE(translate(timestamp, raw));
        return records_.piece().record_count - before == 1;
    };
    EXPECT_TRUE(kept(1000, 9)); /* nobody is to be left out yet */
    calls.is_of(9);
    EXPECT_FALSE(kept(2000, 9));
    EXPECT_TRUE(kept(2000, 10));
    EXPECT_TRUE(kept(2000, 9, id_located)); /* of it, and no system call */
    const uint64_t before = monotonic_now_ns();
    calls.end();
    EXPECT_FALSE(kept(before, 9)); /* read from another CPU later */
    EXPECT_TRUE(kept(monotonic_now_ns() + 1, 9));
    EXPECT_EQ(translator_.seen_events(), 6u);
    EXPECT_EQ(translator_.damaged_events(), 0u);
}

/* The child calls as soon as it is there, and whoever made it knows its number a moment later. */
TEST_F(TranslatorTest, WaitsForTheNumberOfWhoseCallsAreLeftOut) {
    OwnCalls calls(PLUMB_CLOCK_MONOTONIC);
    translator_.leave_out(calls);
    calls.expect();
    std::thread maker([&calls] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        calls.is_of(9);
    });
    EXPECT_TRUE(translate(2000, raw_event(id_call, 9).put(int32_t{3}).put(int32_t{0}).put(uint64_t{5})));
    EXPECT_TRUE(translate(2001, raw_event(id_call, 10).put(int32_t{3}).put(int32_t{0}).put(uint64_t{5})));
    maker.join();
    EXPECT_EQ(records_.piece().record_count, 1u);
    EXPECT_EQ(translator_.left_out_events(), 1u);
}

/* Who may be of one program: by the thread that an event is of, and those that it names. */
class OnlyThread : public RecordFilter {
public:
    void catch_up() override {}
    bool wants(std::span<const std::uint32_t> threads, std::uint64_t time) override {
        asked.push_back({{threads.begin(), threads.end()}, time});
        return std::find(threads.begin(), threads.end(), 77u) != threads.end();
    }
    std::vector<std::pair<std::vector<std::uint32_t>, std::uint64_t>> asked;
};

TEST_F(TranslatorTest, AsksWhetherAnEventIsWantedByAllNumbersThatItHas) {
    std::vector<KernelEvent> events = all_events();
    for (KernelEvent& event : events)
        event.process_numbers = {4, 12, 16, 17};
    Translator translator(events);
    OnlyThread filter;
    translator.filter_by(&filter);
    const auto kept = [&](uint32_t thread, uint32_t named, uint32_t last) {
        const Bytes raw = raw_event(id_located, thread).put(location(16, 4)).put(named).put(last);
        const std::vector<std::byte> bytes = PageBuilder(5000).event(0, raw.span()).page();
        RawPage page(bytes, {});
        EXPECT_TRUE(translator.translate(page, records_));
        const bool was_kept = records_.piece().record_count != 0;
        records_.clear();
        return was_kept;
    };
    EXPECT_TRUE(kept(77, 1, 2));
    EXPECT_TRUE(kept(1, 77, 2));
    EXPECT_TRUE(kept(1, 2, 77)); /* with its last bytes; at 17 there are but three */
    EXPECT_FALSE(kept(1, 2, 3));
    EXPECT_EQ(translator.left_out_events(), 1u);
    EXPECT_EQ(translator.seen_events(), 4u);
    ASSERT_EQ(filter.asked.size(), 4u);
    EXPECT_THAT(filter.asked[2].first, ElementsAre(1, 2, 77));
    EXPECT_EQ(filter.asked[2].second, 5000u);
    translator.filter_by(nullptr);
    EXPECT_TRUE(kept(1, 2, 3));
}

class Forks : public ForkLookup {
public:
    ForkProcesses of_fork(uint32_t parent_thread, uint32_t child_thread, uint64_t timestamp) override {
        EXPECT_EQ(timestamp, 5000u);
        return {parent_thread + 1000, child_thread + 2000};
    }
};

TEST_F(TranslatorTest, AsksWhoseTheThreadsOfAForkAre) {
    FormatParser parser;
    std::vector<KernelEvent> events = {
        *parser.parse("sched", format_of("sched_process_fork", "44",
                                         "\tfield:pid_t parent_pid;\toffset:8;\tsize:4;\tsigned:1;\n"
                                         "\tfield:pid_t child_pid;\toffset:12;\tsize:4;\tsigned:1;\n"))};
    const auto fields = [&](ForkLookup* forks) {
        Translator translator(events, nullptr, forks);
        const Bytes raw = raw_event(44, 9).put(uint32_t{31}).put(uint32_t{32});
        const std::vector<std::byte> bytes = PageBuilder(5000).event(0, raw.span()).page();
        RawPage page(bytes, {});
        TranslatedRecords records;
        EXPECT_TRUE(translator.translate(page, records));
        std::vector<uint32_t> numbers;
        const auto found = records.piece().records.subspan(PLUMB_RECORD_HEADER_BYTES);
        for (size_t at = 0; at + 4 <= found.size(); at += 4) {
            numbers.emplace_back();
            std::memcpy(&numbers.back(), found.data() + at, 4);
        }
        return numbers;
    };
    Forks forks;
    EXPECT_THAT(fields(&forks), ElementsAre(31, 1031, 32, 2032));
    EXPECT_THAT(fields(nullptr),
                ElementsAre(31, 31, 32, 32)); /* each a process of its own, as far as is known */
}

EventField field_of(const char* name, plumb_field_type type, uint8_t size, uint16_t array_length = 0) {
    EventField field{};
    field.name = name;
    field.type = type;
    field.size = size;
    field.array_length = array_length;
    return field;
}

/* Payloads of a channel may be anything. */
TEST(ThreadNoteTest, IsReadAsFarAsThePayloadGoes) {
    GuardedMemory memory;
    const EventDescription renamed{"task",
                                   "task_rename",
                                   0,
                                   {field_of("oldcomm", PLUMB_FIELD_STRING, 1),
                                    field_of("newcomm", PLUMB_FIELD_STRING, 1),
                                    field_of("pid", PLUMB_FIELD_INTEGER, 4)},
                                   ""};
    const Bytes unended = Bytes().text("abc");
    ThreadNote note = read_thread_note(renamed, false, memory.at_end(unended.span()), 5, 9);
    EXPECT_EQ(note.old_name, "abc");
    EXPECT_EQ(note.name, "");
    EXPECT_EQ(note.thread_id, 9u);
    const Bytes whole = Bytes().text("a").put('\0').text("bc").put('\0').put(uint32_t{77});
    note = read_thread_note(renamed, false, memory.at_end(whole.span()), 5, 9);
    EXPECT_EQ(note.old_name, "a");
    EXPECT_EQ(note.name, "bc");
    EXPECT_EQ(note.thread_id, 77u);
    /* Where it ends is not looked for: what stands behind it can not be found. */
    const EventDescription counted{
        "task",
        "task_rename",
        0,
        {field_of("more", PLUMB_FIELD_SEQUENCE, 1), field_of("pid", PLUMB_FIELD_INTEGER, 4)},
        ""};
    const Bytes numbers = Bytes().put(uint16_t{1}).put(uint8_t{1}).put(uint32_t{77});
    EXPECT_EQ(read_thread_note(counted, false, memory.at_end(numbers.span()), 5, 9).thread_id, 9u);
}

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
    OnlyThread filter; /* of who runs another program now, and a wanted one next */
    translator_.filter_by(&filter);
    EXPECT_TRUE(translate(1002, newtask(0)));
    EXPECT_EQ(translator_.take_notes().size(), 1u);
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
