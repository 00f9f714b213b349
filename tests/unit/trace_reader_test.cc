// cmake-once
/* What the trace reader promises: every event of every stream, in time order, with its exact values and the
 * names of who wrote it, and every loss counted. (Damage: trace_damage_test.cc.) */
#include "tests/support/kernel_like_trace.h"
#include "tests/support/opened_trace.h"
#include "trace/show/event_filter.h"
#include "trace/show/trace_summary.h"
#include "trace/symbols.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

namespace plumb {
namespace {

using namespace test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TraceReader, GivesExactValuesAsText) {
    const AllTypes trace;
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader) << reader.error().message();
    EXPECT_EQ(
        text_of(*reader),
        "[+0.000000000] (+?.?\?\?\?\?\?\?\?\?) shop:order: { cpu_id = 3 }, { tid = 42 }, { id = "
        "18446744073709551615, "
        "delta = -2, flags = 0xffffffff, status = sent (1), customer = \"b\\\"o\\nb\", note = \"h\\x1b\", "
        "ports = [ 1, 2, 65535 ], sizes = [ 7, 8 ], price = 0.1, ratio = 0.1 }\n");
}

TEST(TraceReader, GivesExactValuesAsJson) {
    const AllTypes trace;
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader);
    EXPECT_EQ(
        text_of(*reader, true),
        "{\"timestamp_ns\":1000000000000,\"event\":\"shop:order\",\"cpu\":3,\"tid\":42,\"fields\":{"
        "\"id\":18446744073709551615,\"delta\":-2,\"flags\":-1,\"status\":{\"value\":1,\"label\":\"sent\"},"
        "\"customer\":\"b\\\"o\\nb\",\"note\":\"h\\u001b\",\"ports\":[1,2,65535],\"sizes\":[7,8],"
        "\"price\":0.1,\"ratio\":0.1}}\n");
}

TEST(TraceReader, NamesTheBitsOfFlagSets) {
    Opened trace;
    SampleMetadata sample;
    EventField flags = integer_field("gfp_flags", 8);
    flags.labels = {{6, "BOTH"}, {2, "LOW"}, {4, "HIGH"}, {2, "LOW_TOO"}};
    flags.hex = flags.has_flags = true;
    EventField state = integer_field("state", 4, true);
    state.labels = {{1, "S"}, {-2147483648, "TOP"}};
    state.has_flags = true;
    const uint16_t id = sample.add("", "flags", {flags, flags, flags, flags, state, state});
    trace.metadata = sample.text();
    SampleStream stream(ctf_stream_records, 0);
    Payload payload;
    payload.add(uint64_t{7}).add(uint64_t{4}).add(uint64_t{0}).add(uint64_t{0x108});
    payload.add(int32_t{-2147483647}).add(int32_t{2});
    stream.event(id, base_ns, 7, payload);
    stream.end_packet();
    trace.streams = {stream.bytes()};
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader) << reader.error().message();
    EXPECT_THAT(text_of(*reader),
                HasSubstr("{ gfp_flags = BOTH|0x1 (0x7), gfp_flags_2 = HIGH (0x4), gfp_flags_3 = 0x0, "
                          "gfp_flags_4 = 0x108, state = S|TOP (-2147483647), state_2 = 2 }"));
    reader = trace.open();
    ASSERT_TRUE(reader);
    EXPECT_THAT(text_of(*reader, true), HasSubstr("\"gfp_flags\":{\"value\":7,\"label\":\"BOTH|0x1\"},"
                                                  "\"gfp_flags_2\":{\"value\":4,\"label\":\"HIGH\"},"
                                                  "\"gfp_flags_3\":{\"value\":0,\"label\":null}"));
}

/* In metadata they have an underscore in front, since a name may be a word of its language. */
TEST(TraceReader, GivesNamesAsTheyWereDeclared) {
    Opened trace;
    SampleMetadata sample;
    const uint16_t id = sample.add(
        "shop", "order",
        {integer_field("x", 4), integer_field("_", 4), integer_field("_y", 4), integer_field("struct", 4)});
    trace.metadata = sample.text();
    SampleStream stream(ctf_stream_records, 0);
    Payload payload;
    payload.add(uint32_t{1}).add(uint32_t{2}).add(uint32_t{3}).add(uint32_t{4});
    stream.event(id, base_ns, 42, payload);
    stream.end_packet();
    trace.streams = {stream.bytes()};
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader) << reader.error().message();
    EXPECT_THAT(text_of(*reader), HasSubstr("{ x = 1, _ = 2, _y = 3, struct = 4 }"));
}

/* As other tracers write them: Plumb's own fields are not nested. */
TEST(TraceReader, GivesStructuresInArraysAsJson) {
    Opened trace;
    trace.metadata = "trace { major = 1; minor = 8; byte_order = le; };\n"
                     "event { name = \"a:b\"; fields := struct {\n"
                     "  struct { integer { size = 8; } x; integer { size = 8; } y[2]; } rows[2];\n"
                     "  integer { size = 8; } last; }; };";
    trace.streams = {{1, 2, 3, 4, 5, 6, 7}};
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader) << reader.error().message();
    EXPECT_THAT(
        text_of(*reader, true),
        HasSubstr("\"fields\":{\"rows\":[{\"x\":1,\"y\":[2,3]},{\"x\":4,\"y\":[5,6]}],\"last\":7}}\n"));
}

/* A sequence says how long its text is. */
TEST(TraceReader, ATextMayHaveZerosInIt) {
    Opened trace;
    SampleMetadata sample;
    const uint16_t id = sample.add("app", "note", {plain_field("note", PLUMB_FIELD_TEXT)});
    SampleStream stream(ctf_stream_records, 0);
    uint64_t at_ns = base_ns;
    using namespace std::string_literals;
    for (const std::string& text : {""s, "a"s, "\0"s, "a\0"s, "\0b"s, "abc\0d"s})
        stream.event(id, at_ns++, 1, Payload().text(text));
    stream.end_packet();
    trace.metadata = sample.text();
    trace.streams = {stream.bytes()};
    const auto texts_of = [&](bool json, const std::string& before) {
        Result<TraceReader> reader = trace.open();
        const std::string out = text_of(*reader, json);
        std::vector<std::string> texts;
        for (std::size_t at = out.find(before); at != std::string::npos; at = out.find(before, at + 1)) {
            const std::size_t begin = at + before.size();
            texts.push_back(out.substr(begin, out.find('"', begin) - begin));
        }
        return texts;
    };
    EXPECT_EQ(texts_of(false, "note = \""),
              (std::vector<std::string>{"", "a", "\\x00", "a\\x00", "\\x00b", "abc\\x00d"}));
    EXPECT_EQ(texts_of(true, "\"note\":\""),
              (std::vector<std::string>{"", "a", "\\u0000", "a\\u0000", "\\u0000b", "abc\\u0000d"}));
}

/* As other tracers write the name of a thread. */
TEST(TraceReader, ATextOfFixedSizeEndsAtItsFirstZero) {
    Opened trace;
    trace.metadata = "trace { major = 1; minor = 8; byte_order = le; };\n"
                     "event { name = \"a:b\"; fields := struct {\n"
                     "  integer { size = 8; encoding = UTF8; } short[4], full[2], none[2], last[1]; }; };";
    trace.streams = {{'x', 0, 'y', 0, 'a', 'b', 0, 0, 'z'}};
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader) << reader.error().message();
    EXPECT_THAT(text_of(*reader), HasSubstr("short = \"x\", full = \"ab\", none = \"\", last = \"z\" }"));
}

TEST(TraceReader, MergesStreamsByTime) {
    for (const int streams : {1, 2, 3, 17}) {
        const Numbered trace(streams);
        Result<TraceReader> reader = trace.open();
        ASSERT_TRUE(reader);
        EXPECT_EQ(count_in_order(*reader), Numbered::count);
        EXPECT_FALSE(reader->losses().any());
    }
}

TEST(TraceReader, SkipsPacketsBeforeATime) {
    const Numbered trace(3);
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader);
    reader->skip_before(base_ns + 2500);
    EventFilter filter(*reader, {{}, {}, {}, {}, base_ns + 2500, base_ns + 2999, false});
    uint64_t wanted = 0, seen = 0;
    while (const Event* const event = reader->next()) {
        ++seen;
        if (filter.is_past(*event)) break;
        wanted += filter.wants(*event) ? 1 : 0;
    }
    EXPECT_EQ(wanted, 500u);
    EXPECT_LT(seen, 1000u) << "packets before it were read";
}

TEST(TraceReader, CountsLosses) {
    SampleMetadata sample;
    const uint16_t id = sample.add("app", "n", {integer_field("n", 8)});
    SampleStream stream(ctf_stream_records, 0);
    const auto packet = [&](uint64_t n, uint64_t discarded, uint64_t lost) {
        stream.event(id, base_ns + n, 1, Payload().add(n));
        stream.end_packet(discarded, lost);
    };
    packet(0, 5, 2);
    packet(1, 5, 0);
    packet(2, 12, 3);
    Opened trace{sample.text(), {stream.bytes()}};
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader);
    while (reader->next() != nullptr) {
    }
    EXPECT_EQ(reader->losses().events_discarded, 12u);
    EXPECT_EQ(reader->losses().packets_lost, 5u);
}

TEST(TraceReader, NamesThreadsByTheLastEntryBeforeTheEvent) {
    const Named trace;
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader);
    std::vector<std::string> names;
    std::vector<uint32_t> pids;
    while (const Event* const event = reader->next()) {
        if (event->info->is_statedump) continue;
        const ThreadRecord* const thread = reader->thread_of(*event);
        names.push_back(thread == nullptr ? "?" : thread->name);
        pids.push_back(reader->process_id_of(*event));
    }
    EXPECT_THAT(names, ElementsAre("worker", "worker", "worker", "worker", "worker", "another", "another",
                                   "?", "server", "another"));
    EXPECT_THAT(pids, ElementsAre(10, 10, 10, 10, 10, 20, 20, 0, 10, 20));
    reader = trace.open();
    const TraceNames& all = reader->names_of(*reader->next());
    ASSERT_NE(all.find_process(10, base_ns), nullptr);
    EXPECT_EQ(all.find_process(10, base_ns)->executable, "/bin/server");
    ASSERT_EQ(all.objects().size(), 1u);
    EXPECT_EQ(all.objects()[0].base, 0x1000u);
}

/* Folders of traces, each with threads of the same numbers, that say by an event what they are called. */
class SeveralTraces : public testing::Test {
protected:
    void SetUp() override {
        char pattern[] = "/tmp/plumb-trace-reader-test-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern), nullptr);
        root_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    /* `told`: as the statedump calls thread 11, which is of process 10; empty: there is none. */
    void add(const std::string& folder, const std::string& told, const std::string& wrote,
             int64_t booted_ns = 0) {
        SampleMetadata sample;
        sample.clock().realtime_offset_ns = booted_ns;
        const uint16_t id = sample.add("app", "n", {plain_field("who", PLUMB_FIELD_STRING)});
        std::filesystem::create_directories(root_ + "/" + folder);
        const auto write = [&](const char* name, const auto& bytes) {
            std::ofstream(root_ + "/" + folder + "/" + name, std::ios::binary)
                .write(reinterpret_cast<const char*>(bytes.data()),
                       static_cast<std::streamsize>(bytes.size()));
        };
        write("metadata", sample.text());
        SampleStream events(ctf_stream_records, 0);
        for (uint64_t i = 0; i < 3; i++)
            events.event(id, base_ns + 10 + at_++ - static_cast<uint64_t>(booted_ns), 11,
                         Payload().string(wrote));
        events.end_packet();
        write("ring_0", events.bytes());
        if (told.empty()) return;
        SampleStream who(ctf_stream_statedump, 0);
        who.event(ctf_statedump_process, base_ns + at_, 10,
                  Payload().add(10u).add(1u).add(0u).string(told).string("/bin/" + told));
        who.event(ctf_statedump_thread, base_ns + at_, 11, Payload().add(10u).add(11u).string(told));
        who.event(
            ctf_statedump_object, base_ns + at_, 10,
            Payload().add(10u).add(uint64_t{0x1000}).add(uint64_t{0x200}).string("").string("/no/" + told));
        who.end_packet();
        write("statedump", who.bytes());
    }

    struct Text : SkipVisitor {
        void text(const Step&, std::string_view value) { text_ = value; }
        std::string text_;
    };
    static std::string wrote(const Event& event) {
        Text field;
        EXPECT_TRUE(visit_fields(event, field));
        return field.text_;
    }

    std::string root_;
    uint64_t at_ = 0;
};

TEST_F(SeveralTraces, HaveNamesOfTheirOwn) {
    add("web/ust", "web", "web");
    add("web/kernel", "", "web");
    add("web/ust-65534", "", "web");
    add("db/ust", "db", "db");
    add("flight/snapshot-1/ust", "flight", "flight");
    add("flight/snapshot-2/ust", "later", "later");
    Result<TraceReader> reader = TraceReader::open(root_);
    ASSERT_TRUE(reader) << reader.error().message();
    std::map<std::string, std::set<uint32_t>> recordings;
    TraceSummary summary(*reader);
    Symbols symbols;
    int events = 0;
    while (const Event* const event = reader->next()) {
        if (event->info->is_statedump) continue;
        const std::string who = wrote(*event);
        const ThreadRecord* const thread = reader->thread_of(*event);
        ASSERT_NE(thread, nullptr);
        EXPECT_EQ(thread->name, who);
        EXPECT_EQ(symbols.name_at(reader->names_of(*event), 10, 0x1010, event->time_ns), who + "+0x10");
        recordings[who].insert(reader->recording_of(*event));
        summary.add(*event);
        events++;
    }
    EXPECT_EQ(events, 18);
    EXPECT_THAT(recordings["web"], testing::SizeIs(1));
    EXPECT_NE(recordings["web"], recordings["db"]);
    EXPECT_NE(recordings["web"], recordings["flight"]);
    EXPECT_EQ(recordings["flight"], recordings["later"]) << "snapshots are of one recording";
    OutputBuffer out(-1);
    summary.put_json(out);
    const std::string text(out.text());
    EXPECT_THAT(text, HasSubstr(R"({"pid":10,"tid":11,"comm":"web","events":9})"));
    EXPECT_THAT(text, HasSubstr(R"({"pid":10,"tid":11,"comm":"db","events":3})"));
}

TEST_F(SeveralTraces, DoNotIncludeWhatAnotherReplaces) {
    add("web/.replaced-1/ust", "old", "old");
    Result<TraceReader> reader = TraceReader::open(root_ + "/web");
    ASSERT_FALSE(reader);
    EXPECT_THAT(reader.error().message(), HasSubstr("put aside, " + root_ + "/web/.replaced-1"));
    add("web/ust", "new", "new");
    reader = TraceReader::open(root_);
    ASSERT_TRUE(reader) << reader.error().message();
    EXPECT_THAT(reader->aside(), ElementsAre(root_ + "/web/.replaced-1"));
    while (const Event* const event = reader->next())
        if (!event->info->is_statedump) {
            EXPECT_EQ(wrote(*event), "new");
        }
    reader = TraceReader::open(root_ + "/web/.replaced-1");
    ASSERT_TRUE(reader) << "who names it means it";
    EXPECT_THAT(reader->aside(), testing::IsEmpty());
}

TEST_F(SeveralTraces, AreShownByTheClocksOfTheirMachines) {
    add("a/ust", "a", "a", 100'000'000'000);
    add("b/ust", "b", "b", 400'000'000'000);
    Result<TraceReader> reader = TraceReader::open(root_);
    ASSERT_TRUE(reader) << reader.error().message();
    const std::string text = text_of(*reader, false, TimeStyle::monotonic);
    EXPECT_THAT(text, HasSubstr("[900.000000010]"));
    EXPECT_THAT(text, HasSubstr("[600.000000013]"));
}

/* As `plumb view --summary --json` says it; by several of std::thread, or by this one. */
std::string counted(TraceReader reader, const FilterOptions& options, bool by_all_processors) {
    EventFilter filter(reader, options);
    TraceSummary summary(reader);
    if (by_all_processors) {
        static_cast<void>(summary.add_all(filter));
    } else {
        while (const Event* const event = reader.next()) {
            if (filter.is_past(*event)) break;
            if (filter.wants(*event)) summary.add(*event);
        }
    }
    OutputBuffer out(-1);
    summary.put_json(out);
    return std::string(out.text());
}

TEST_F(SeveralTraces, AreCountedTheSameByAllProcessors) {
    add("web/ust", "web", "web");
    add("web/kernel", "", "web");
    add("db/ust", "db", "db", 100'000'000'000);
    add("flight/snapshot-1/ust", "flight", "flight");
    add("flight/snapshot-2/ust", "later", "later");
    const auto open = [this] { return std::move(*TraceReader::open(root_)); };
    FilterOptions all;
    const std::string one_by_one = counted(open(), all, false);
    EXPECT_THAT(one_by_one, HasSubstr(R"("events":15,)"));
    EXPECT_EQ(counted(open(), all, true), one_by_one);
    all.statedump = true;
    EXPECT_EQ(counted(open(), all, true), counted(open(), all, false));
    FilterOptions some{{"!*2"}, {}, {}, {}, open().start_ns() + 1, open().start_ns() + 2};
    const std::string some_of_them = counted(open(), some, false);
    EXPECT_NE(some_of_them, one_by_one);
    EXPECT_EQ(counted(open(), some, true), some_of_them);
}

TEST(TraceReader, CountsARenamedThreadTheSameByAllProcessors) {
    const Named trace;
    EXPECT_EQ(counted(std::move(*trace.open()), {}, true), counted(std::move(*trace.open()), {}, false));
}

TEST(TraceReader, CountsThreadsThatHadTheSameNumberApart) {
    const Named trace;
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader);
    TraceSummary summary(*reader);
    while (const Event* const event = reader->next())
        if (!event->info->is_statedump) summary.add(*event);
    OutputBuffer out(-1);
    summary.put_json(out);
    const std::string text(out.text());
    EXPECT_THAT(text, HasSubstr(R"({"pid":10,"tid":11,"comm":"worker","events":5})"));
    EXPECT_THAT(text, HasSubstr(R"({"pid":20,"tid":11,"comm":"another","events":3})"));
}

TEST(TraceReader, FiltersByEventAndThread) {
    const Named trace;
    const auto count = [&](FilterOptions options) {
        Result<TraceReader> reader = trace.open();
        EventFilter filter(*reader, std::move(options));
        int wanted = 0;
        while (const Event* const event = reader->next())
            wanted += filter.wants(*event) ? 1 : 0;
        return wanted;
    };
    FilterOptions options;
    EXPECT_EQ(count(options), 10);
    options.statedump = true;
    EXPECT_EQ(count(options), 14);
    EXPECT_EQ(count({{"app"}, {}, {}, {}}), 10);
    EXPECT_EQ(count({{"*", "!app:n"}, {}, {}, {}}), 0);
    EXPECT_EQ(count({{"!app:*"}, {}, {}, {}}), 0);
    EXPECT_EQ(count({{"plumb_statedump:thread"}, {}, {}, {}}), 2);
    EXPECT_EQ(count({{}, {11}, {}, {}}), 8);
    EXPECT_EQ(count({{}, {}, {20}, {}}), 3);
    EXPECT_EQ(count({{}, {}, {}, {"work*"}}), 5);
}

/* As `plumb record -k` takes them. */
TEST(TraceReader, FiltersByTheKernelsNames) {
    KernelLikeTrace made;
    for (const char* name :
         {"syscall_entry_openat", "syscall_exit_openat", "syscall_entry_read", "sched_switch"})
        made.event(made.add(name, "u8 x;"), 1, 1, Payload().add(uint8_t{1}));
    made.end_packet();
    const Opened trace = made.made();
    const auto count = [&](const char* pattern) {
        Result<TraceReader> reader = trace.open();
        EventFilter filter(*reader, {{pattern}, {}, {}, {}});
        int wanted = 0;
        while (const Event* const event = reader->next())
            wanted += filter.wants(*event) ? 1 : 0;
        return wanted;
    };
    EXPECT_EQ(count("syscalls:openat"), 2);
    EXPECT_EQ(count("syscalls:*"), 3);
    EXPECT_EQ(count("syscalls:sys_enter_*"), 2);
    EXPECT_EQ(count("!syscalls:open*"), 2);
    EXPECT_EQ(count("syscalls:sched_switch"), 0);
    Result<TraceReader> reader = trace.open();
    const EventFilter filter(*reader, {});
    EXPECT_EQ(filter.without_system("sched:sched_*"), "sched_*");
    EXPECT_EQ(filter.without_system("!sched:sched_switch"), "!sched_switch");
    EXPECT_EQ(filter.without_system("sched:other"), "");
    EXPECT_EQ(filter.without_system("sched_swit"), "");
}

TEST(TraceReader, ConvertsCyclesOfAnyFrequencyExactly) {
    std::mt19937_64 random(11);
    for (const uint64_t frequency : {1ull, 32768ull, 999'999'999ull, 1'000'000'000ull, 1'000'000'001ull,
                                     2'399'998'765ull, 5'000'000'000ull, ~0ull}) {
        const CyclesToNs convert(frequency, 5, 0);
        for (int i = 0; i < 2000; i++) {
            const uint64_t cycles = random() >> (random() % 64);
            const auto exact =
                static_cast<uint64_t>(static_cast<unsigned __int128>(cycles) * 1'000'000'000 / frequency);
            ASSERT_EQ(static_cast<uint64_t>(convert(cycles)), exact + 5'000'000'000)
                << cycles << " at " << frequency;
        }
    }
}

TEST(TraceReader, AddsTheOffsetOfAClockInSecondsAndCycles) {
    constexpr int64_t second_ns = 1'000'000'000;
    for (const int64_t cycles : {-second_ns, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{2}, second_ns})
        EXPECT_EQ(CyclesToNs(1'000'000'000, 7, cycles)(100), 7 * second_ns + cycles + 100);
    EXPECT_EQ(CyclesToNs(2'000'000'000, -7, 3)(100), -7 * second_ns + 1 + 50);
    EXPECT_EQ(CyclesToNs(500, 1, -1)(2), second_ns - 2'000'000 + 4'000'000);
}

/* 4,095 kinds of events, each with 32 sequences, of which each is a length, a list and an element. */
TEST(TraceReader, ReadsAllThatASessionCanDescribe) {
#if defined(__SANITIZE_ADDRESS__) /* where it takes minutes, and looks for nothing that a few do not show */
    constexpr int events_max = 200;
#else
    constexpr int events_max = 4095;
#endif
    constexpr int fields_max = 32;
    SampleMetadata sample;
    uint16_t last = 0;
    for (int i = 0; i < events_max; i++) {
        std::vector<EventField> fields;
        for (int n = 0; n < fields_max; n++)
            fields.push_back(plain_field("f" + std::to_string(n), PLUMB_FIELD_SEQUENCE, 2));
        last = sample.add("p", "e" + std::to_string(i), std::move(fields));
    }
    Opened trace;
    trace.metadata = sample.text();
    SampleStream stream(ctf_stream_records, 0);
    for (const uint16_t id : {uint16_t{1}, last}) {
        Payload payload;
        for (int n = 0; n < fields_max; n++) {
            payload.add(static_cast<uint16_t>(n % 3));
            for (int element = 0; element < n % 3; element++)
                payload.add(static_cast<uint16_t>(id + n));
        }
        stream.event(id, base_ns, 1, payload);
    }
    stream.end_packet();
    trace.streams = {stream.bytes()};
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader) << reader.error().message();
    const std::string text = text_of(*reader, true);
    EXPECT_THAT(text, HasSubstr("\"f29\":[30,30],\"f30\":[],\"f31\":[32]}}"));
    EXPECT_THAT(
        text, HasSubstr(fmt::format("\"f29\":[{0},{0}],\"f30\":[],\"f31\":[{1}]}}}}", last + 29, last + 31)));
    EXPECT_TRUE(reader->problems().empty());
}

/* Bit fields, big-endian data and LTTng's compact headers, with a clock of few bits that wraps. */
TEST(TraceReader, DecodesBitFieldsAndWrappingClocks) {
    Opened trace;
    trace.metadata = compact_headers;
    trace.streams = {{0x0e, 0xf1, 0x23,                               /* id 1, t 6; x -1, y 0x123 */
                      0x09, 0x70, 0x00,                               /* id 1, t 1: 8 + 1; x 7, y 0 */
                      0xf8, 0x01, 0x2c, 0, 0, 0, 0, 0, 0, 0x12, 0x34, /* id 31, 300, t 0x1234 */
                      0x0b, 0x00, 0x00}};                             /* id 1, t 3 below 4: 0x1238 + 3 */
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader) << reader.error().message();
    EXPECT_EQ(text_of(*reader, true),
              "{\"timestamp_ns\":6,\"event\":\"a:b\",\"fields\":{\"x\":-1,\"y\":291}}\n"
              "{\"timestamp_ns\":9,\"event\":\"a:b\",\"fields\":{\"x\":7,\"y\":0}}\n"
              "{\"timestamp_ns\":4660,\"event\":\"a:c\",\"fields\":{}}\n"
              "{\"timestamp_ns\":4667,\"event\":\"a:b\",\"fields\":{\"x\":0,\"y\":0}}\n");
}

TEST(TraceReader, ShowsTimesAsTheyAreWhereNobodySaysWhatTheirZeroIs) {
    Opened trace;
    trace.metadata = compact_headers;
    trace.streams = {{0x0e, 0xf1, 0x23}};
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader) << reader.error().message();
    EXPECT_TRUE(text_of(*reader, false, TimeStyle::monotonic).starts_with("[0.000000006]"));
}

} // namespace
} // namespace plumb
