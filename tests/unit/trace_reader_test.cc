// cmake-once
/* What the trace reader promises: every event of every stream, in time order, with its exact values and the
 * names of who wrote it; every loss counted; and no crash whatever the bytes are. */
#include "tests/support/sample_trace.h"
#include "trace/show/event_filter.h"
#include "trace/show/event_writer.h"
#include "trace/show/trace_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace plumb {
namespace {

using test::Payload;
using test::SampleMetadata;
using test::SampleStream;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t base_ns = 1'000'000'000'000;

struct Opened {
    std::string metadata;
    std::vector<std::vector<uint8_t>> streams;

    Result<TraceReader> open() const {
        TraceBytes bytes{metadata, {}};
        for (const auto& stream : streams)
            bytes.streams.emplace_back(stream);
        return TraceReader::from_memory(bytes);
    }
};

std::string text_of(TraceReader& reader, bool json = false, TimeStyle time = TimeStyle::seconds) {
    OutputBuffer out(-1);
    const auto writer = json ? make_json_writer(reader, out) : make_text_writer(reader, out, {time, false});
    while (const Event* const event = reader.next())
        writer->write(*event);
    return std::string(out.text());
}

/* One event of every type of field. */
struct AllTypes : Opened {
    AllTypes() {
        SampleMetadata sample;
        EventField status = test::plain_field("status", PLUMB_FIELD_ENUM, 1);
        status.labels = {{0, "new"}, {1, "sent"}};
        EventField array = test::plain_field("ports", PLUMB_FIELD_ARRAY, 2);
        array.array_length = 3;
        const uint16_t id = sample.add("shop", "order",
                                       {test::integer_field("id", 8), test::integer_field("delta", 4, true),
                                        test::integer_field("flags", 4, true, true), std::move(status),
                                        test::plain_field("customer", PLUMB_FIELD_STRING),
                                        test::plain_field("note", PLUMB_FIELD_TEXT), std::move(array),
                                        test::plain_field("sizes", PLUMB_FIELD_SEQUENCE, 4),
                                        test::plain_field("price", PLUMB_FIELD_FLOAT, 8),
                                        test::plain_field("ratio", PLUMB_FIELD_FLOAT, 4)});
        Payload payload;
        payload.add(~uint64_t{0}).add(int32_t{-2}).add(int32_t{-1}).add(uint8_t{1}).string("b\"o\nb");
        payload.text("h\x1b").add(uint16_t{1}).add(uint16_t{2}).add(uint16_t{65535});
        payload.add(uint16_t{2}).add(uint32_t{7}).add(uint32_t{8}).add(0.1).add(0.1f);
        SampleStream stream(ctf_stream_records, 3);
        stream.event(id, base_ns, 42, payload);
        stream.end_packet();
        metadata = sample.text();
        streams = {stream.bytes()};
    }
};

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

/* In metadata they have an underscore in front, since a name may be a word of its language. */
TEST(TraceReader, GivesNamesAsTheyWereDeclared) {
    Opened trace;
    SampleMetadata sample;
    const uint16_t id = sample.add("shop", "order",
                                   {test::integer_field("x", 4), test::integer_field("_", 4),
                                    test::integer_field("_y", 4), test::integer_field("struct", 4)});
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

TEST(TraceReader, ATextEndsAtItsFirstZero) {
    Opened trace;
    SampleMetadata sample;
    const uint16_t id = sample.add("app", "note", {test::plain_field("note", PLUMB_FIELD_TEXT)});
    SampleStream stream(ctf_stream_records, 0);
    uint64_t at_ns = base_ns;
    using namespace std::string_literals;
    for (const std::string& text : {""s, "a"s, "\0"s, "a\0"s, "\0b"s, "ab"s, "abc\0d"s})
        stream.event(id, at_ns++, 1, Payload().text(text));
    stream.end_packet();
    trace.metadata = sample.text();
    trace.streams = {stream.bytes()};
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader);
    const std::string out = text_of(*reader);
    std::vector<std::string> texts;
    for (std::size_t at = out.find('"'); at != std::string::npos; at = out.find('"', at)) {
        const std::size_t end = out.find('"', at + 1);
        texts.push_back(out.substr(at + 1, end - at - 1));
        at = end + 1;
    }
    EXPECT_EQ(texts, (std::vector<std::string>{"", "a", "", "a", "", "ab", "abc"}));
}

/* Events that say their number, in streams that interleave. */
struct Numbered : Opened {
    explicit Numbered(int stream_count, uint64_t per_packet = 10) {
        SampleMetadata sample;
        id = sample.add("app", "n", {test::integer_field("n", 8)});
        metadata = sample.text();
        std::mt19937 random(7);
        std::vector<SampleStream> made;
        for (int i = 0; i < stream_count; i++)
            made.emplace_back(ctf_stream_records, static_cast<uint32_t>(i));
        for (uint64_t n = 0; n < count; n++) {
            SampleStream& stream = made[random() % made.size()];
            stream.event(id, base_ns + n, 1, Payload().add(n));
            if (random() % per_packet == 0) stream.end_packet();
        }
        for (SampleStream& stream : made) {
            stream.end_packet();
            streams.push_back(stream.bytes());
        }
    }
    static constexpr uint64_t count = 5000;
    uint16_t id;
};

struct OneInteger : SkipVisitor {
    void integer(const Step&, uint64_t v) { value = v; }
    uint64_t value = 0;
};

TEST(TraceReader, MergesStreamsByTime) {
    for (const int streams : {1, 2, 3, 17}) {
        const Numbered trace(streams);
        Result<TraceReader> reader = trace.open();
        ASSERT_TRUE(reader);
        uint64_t expected = 0;
        while (const Event* const event = reader->next()) {
            OneInteger n;
            ASSERT_TRUE(visit_fields(*event, n));
            ASSERT_EQ(n.value, expected);
            ASSERT_EQ(event->time_ns, static_cast<int64_t>(base_ns + expected));
            ++expected;
        }
        EXPECT_EQ(expected, Numbered::count);
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
    const uint16_t id = sample.add("app", "n", {test::integer_field("n", 8)});
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

struct Named : Opened {
    Named() {
        SampleMetadata sample;
        id = sample.add("app", "n", {test::integer_field("n", 8)});
        metadata = sample.text();
        SampleStream who(ctf_stream_statedump, 0), events(ctf_stream_records, 0);
        const auto thread = [&](uint64_t at, uint32_t pid, uint32_t tid, std::string_view name) {
            who.event(ctf_statedump_thread, base_ns + at, tid, Payload().add(pid).add(tid).string(name));
        };
        who.event(ctf_statedump_process, base_ns, 10,
                  Payload().add(10u).add(1u).add(0u).string("server").string("/bin/server"));
        thread(0, 10, 11, "worker");
        thread(5, 20, 11, "another"); /* the number is used again */
        who.event(ctf_statedump_object, base_ns + 6, 10,
                  Payload()
                      .add(10u)
                      .add(uint64_t{0x1000})
                      .add(uint64_t{0x200})
                      .string("abcd")
                      .string("/bin/server"));
        who.end_packet();
        for (uint64_t n = 0; n < 10; n++)
            events.event(id, base_ns + n, n == 7 ? 99 : n == 8 ? 10 : 11, Payload().add(n));
        events.end_packet();
        streams = {events.bytes(), who.bytes()};
    }
    uint16_t id;
};

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
    ASSERT_NE(reader->names().find_process(10, base_ns), nullptr);
    EXPECT_EQ(reader->names().find_process(10, base_ns)->executable, "/bin/server");
    ASSERT_EQ(reader->names().objects().size(), 1u);
    EXPECT_EQ(reader->names().objects()[0].base, 0x1000u);
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

TEST(TraceReader, SurvivesATruncatedFile) {
    const Numbered whole(1);
    for (std::size_t cut = 0; cut < whole.streams[0].size(); cut += 97) {
        Opened trace = whole;
        trace.streams[0].resize(cut);
        Result<TraceReader> reader = trace.open();
        ASSERT_TRUE(reader);
        uint64_t expected = 0;
        while (const Event* const event = reader->next()) {
            OneInteger n;
            ASSERT_TRUE(visit_fields(*event, n));
            ASSERT_EQ(n.value, expected++);
        }
        EXPECT_LT(expected, Numbered::count);
    }
}

TEST(TraceReader, TellsDamageAndGoesOnWithTheNextPacket) {
    SampleMetadata sample;
    const uint16_t id = sample.add("app", "n", {test::integer_field("n", 8)});
    SampleStream stream(ctf_stream_records, 0);
    for (uint64_t n = 0; n < 3; n++) {
        stream.event(id, base_ns + n, 1, Payload().add(n));
        stream.end_packet();
    }
    Opened trace{sample.text(), {stream.bytes()}};
    const std::size_t second_packet = stream.bytes().size() / 3;
    trace.streams[0][second_packet + sizeof(CtfPacketStart) + offsetof(plumb_record, length)] = 3;
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader);
    int events = 0;
    while (reader->next() != nullptr)
        ++events;
    EXPECT_EQ(events, 2);
    EXPECT_EQ(reader->losses().damaged_packets, 1u);
    ASSERT_EQ(reader->problems().size(), 1u);
    EXPECT_THAT(reader->problems()[0], HasSubstr("impossible length"));
}

TEST(TraceReader, TellsOnceOfEventsThatTheMetadataDoesNotKnow) {
    SampleMetadata sample;
    const uint16_t id = sample.add("app", "n", {test::integer_field("n", 8)});
    SampleStream stream(ctf_stream_records, 0);
    for (uint64_t n = 0; n < 4; n++)
        stream.event(n == 0 ? id : 77, base_ns + n, 1, Payload().add(n));
    stream.end_packet();
    const Opened trace{sample.text(), {stream.bytes()}};
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader);
    int events = 0;
    while (reader->next() != nullptr)
        ++events;
    EXPECT_EQ(events, 1);
    EXPECT_EQ(reader->losses().unknown_events, 3u);
    ASSERT_EQ(reader->problems().size(), 1u);
    EXPECT_THAT(reader->problems()[0], HasSubstr("no event with id 77"));
}

TEST(TraceReader, RefusesStreamsOfAnotherTrace) {
    Opened trace = AllTypes();
    trace.streams[0][4] ^= 1;
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader);
    EXPECT_EQ(reader->next(), nullptr);
    ASSERT_FALSE(reader->problems().empty());
    EXPECT_THAT(reader->problems()[0], HasSubstr("another trace"));
}

TEST(TraceReader, SurvivesAnyDamage) {
    const AllTypes all;
    const Named named;
    std::mt19937 random(3);
    for (int round = 0; round < 3000; round++) {
        Opened trace = round % 2 == 0 ? static_cast<const Opened&>(all) : named;
        for (auto& stream : trace.streams)
            for (unsigned i = random() % 4; i > 0; i--)
                stream[random() % stream.size()] = static_cast<uint8_t>(random());
        Result<TraceReader> reader = trace.open();
        ASSERT_TRUE(reader);
        static_cast<void>(text_of(*reader, round % 4 < 2));
    }
}

TEST(TraceReader, RefusesMetadataThatDescribesTooMuch) {
    std::string doubling = "trace { major = 1; minor = 8; byte_order = le; };\n"
                           "struct s0 { integer { size = 8; } a; };\n";
    for (int i = 1; i < 30; i++)
        doubling += fmt::format("struct s{0} {{ struct s{1} a; struct s{1} b; }};\n", i, i - 1);
    Opened trace{doubling + "event { name = \"a:b\"; fields := struct s29; };", {}};
    Result<TraceReader> reader = trace.open();
    ASSERT_FALSE(reader);
    EXPECT_THAT(reader.error().message(), HasSubstr("more than"));
    trace.metadata = "trace { major = 1; minor = 8; byte_order = le; };\n"
                     "event { name = \"a:b\"; fields := struct { struct { } x[4000000000]; }; };";
    EXPECT_FALSE(trace.open());
}

TEST(TraceReader, CountsAPacketThatTheFileEndsInOnceWhereverThatIs) {
    SampleMetadata sample;
    const uint16_t id = sample.add("app", "n", {test::integer_field("n", 8)});
    SampleStream stream(ctf_stream_records, 0);
    for (uint64_t n = 0; n < 3; n++)
        stream.event(id, base_ns + n, 1, Payload().add(n));
    stream.end_packet();
    constexpr std::size_t event_bytes = sizeof(plumb_record) + 8;
    for (const std::size_t of_third : {std::size_t{0}, event_bytes / 2, event_bytes}) {
        Opened trace{sample.text(), {stream.bytes()}};
        trace.streams[0].resize(sizeof(CtfPacketStart) + 2 * event_bytes + of_third);
        Result<TraceReader> reader = trace.open();
        ASSERT_TRUE(reader);
        int events = 0;
        while (reader->next() != nullptr)
            ++events;
        EXPECT_EQ(events, of_third == event_bytes ? 3 : 2);
        EXPECT_EQ(reader->losses().damaged_packets, of_third == event_bytes ? 0u : 1u);
    }
}

TEST(TraceReader, GivesUpAPacketWhosePartsTakeNoSpace) {
    Opened trace;
    trace.metadata = "trace { major = 1; minor = 8; byte_order = le; };\n"
                     "typealias integer { size = 1; align = 1; } := bit;\nstruct el {";
    for (int i = 0; i < 1900; i++)
        trace.metadata += fmt::format("bit z{}[0];", i);
    trace.metadata += "bit b; };\nevent { name = \"a:b\"; fields := struct { struct el a[160000]; }; };";
    trace.streams = {std::vector<uint8_t>(20'000)};
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader) << reader.error().message();
    EXPECT_EQ(reader->next(), nullptr);
    EXPECT_EQ(reader->losses().damaged_packets, 1u);
    ASSERT_FALSE(reader->problems().empty());
    EXPECT_THAT(reader->problems().front(), HasSubstr("too many parts"));
}

constexpr const char* compact_headers =
    "trace { major = 1; minor = 8; byte_order = be; };\n"
    "clock { name = \"c\"; };\n"
    "stream { event.header := struct {\n"
    "  enum : integer { size = 5; align = 1; } { compact = 0 ... 30, extended = 31 } id;\n"
    "  variant <id> {\n"
    "    struct { integer { size = 3; align = 1; map = clock.c.value; } t; } compact;\n"
    "    struct { integer { size = 16; } id; integer { size = 64; map = clock.c.value; } t; } "
    "extended; } v; }; };\n"
    "event { name = \"a:b\"; id = 1; fields := struct {\n"
    "  integer { size = 4; align = 1; signed = true; } x; integer { size = 12; align = 1; } y; }; };\n"
    "event { name = \"a:c\"; id = 300; };";

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

TEST(TraceReader, ReadsNoPartOfAFieldThatThePacketDoesNotHave) {
    Opened trace;
    trace.metadata = compact_headers;
    trace.streams = {{0x0e, 0xf1, 0x23, 0x0e, 0xf1}}; /* 4 of 12 bits of the second y */
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader) << reader.error().message();
    EXPECT_EQ(text_of(*reader, true),
              "{\"timestamp_ns\":6,\"event\":\"a:b\",\"fields\":{\"x\":-1,\"y\":291}}\n");
    EXPECT_EQ(reader->losses().damaged_packets, 1u);
}

} // namespace
} // namespace plumb
