// cmake-once
/* A trace whose bytes are damaged, or made to harm: what is sound is read, what is not is counted and told once, and
 * there is no crash whatever the bytes are. */
#include "tests/support/opened_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace plumb {
namespace {

using namespace test;
using ::testing::HasSubstr;

TEST(TraceDamage, SurvivesATruncatedFile) {
    const Numbered whole(1);
    for (std::size_t cut = 0; cut < whole.streams[0].size(); cut += 97) {
        Opened trace = whole;
        trace.streams[0].resize(cut);
        Result<TraceReader> reader = trace.open();
        ASSERT_TRUE(reader);
        EXPECT_LT(count_in_order(*reader), Numbered::count);
    }
}

TEST(TraceDamage, TellsDamageAndGoesOnWithTheNextPacket) {
    SampleMetadata sample;
    const uint16_t id = sample.add("app", "n", {integer_field("n", 8)});
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

TEST(TraceDamage, TellsOnceOfEventsThatTheMetadataDoesNotKnow) {
    SampleMetadata sample;
    const uint16_t id = sample.add("app", "n", {integer_field("n", 8)});
    SampleStream stream(ctf_stream_records, 0);
    for (uint64_t n = 0; n < 4; n++)
        stream.event(static_cast<uint16_t>(n == 0 ? id : 76 + n), base_ns + n, 1, Payload().add(n));
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

TEST(TraceDamage, RefusesStreamsOfAnotherTrace) {
    Opened trace = AllTypes();
    trace.streams[0][4] ^= 1;
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader);
    EXPECT_EQ(reader->next(), nullptr);
    ASSERT_FALSE(reader->problems().empty());
    EXPECT_THAT(reader->problems()[0], HasSubstr("another trace"));
}

TEST(TraceDamage, SurvivesAnyDamage) {
    const AllTypes all;
    const Named named;
    std::mt19937 random(3);
#if defined(__SANITIZE_ADDRESS__) /* the fuzzer does more of it */
    constexpr int rounds = 500;
#else
    constexpr int rounds = 3000;
#endif
    for (int round = 0; round < rounds; round++) {
        Opened trace = round % 2 == 0 ? static_cast<const Opened&>(all) : named;
        for (auto& stream : trace.streams)
            for (unsigned i = random() % 4; i > 0; i--)
                stream[random() % stream.size()] = static_cast<uint8_t>(random());
        Result<TraceReader> reader = trace.open();
        ASSERT_TRUE(reader);
        static_cast<void>(text_of(*reader, round % 4 < 2));
    }
}

TEST(TraceDamage, RefusesMetadataThatDescribesTooMuch) {
    std::string doubling = "trace { major = 1; minor = 8; byte_order = le; };\n"
                           "struct s0 { integer { size = 8; } a; };\n";
    for (int i = 1; i < 30; i++)
        doubling += fmt::format("struct s{0} {{ struct s{1} a; struct s{1} b; }};\n", i, i - 1);
    const Opened trace{doubling + "event { name = \"a:b\"; fields := struct s29; };", {}};
    Result<TraceReader> reader = trace.open();
    ASSERT_FALSE(reader);
    EXPECT_THAT(reader.error().message(), HasSubstr("more than"));
}

TEST(TraceDamage, CountsAPacketThatTheFileEndsInOnceWhereverThatIs) {
    SampleMetadata sample;
    const uint16_t id = sample.add("app", "n", {integer_field("n", 8)});
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

TEST(TraceDamage, GivesUpAPacketWhosePartsTakeNoSpace) {
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

TEST(TraceDamage, ReadsNoPartOfAFieldThatThePacketDoesNotHave) {
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
