// cmake-once
/* Types that Plumb does not write, and other tracers do: variants, structs in structs, arrays of what takes no space. How they
 * are shown, how a condition reaches what is in them, and what it says of what it does not reach. */
#include "tests/support/opened_trace.h"
#include "trace/show/condition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumb {
namespace {

using namespace test;
using ::testing::HasSubstr;

Opened trace_of(const std::string& fields, std::vector<uint8_t> bytes) {
    return {"typealias integer { size = 8; } := u8;\ntrace { major = 1; minor = 8; byte_order = le; };\n"
            "event { name = \"a:b\"; fields := struct { " +
                fields + " }; };",
            {std::move(bytes)}};
}

/* Two variants of equal options, of which one event each takes another one. */
Opened variants() {
    return trace_of(
        "enum : u8 { A, B, C } tag; variant <tag> { u8 A; string B; struct { u8 p, q; } C; } v1;\n"
        "variant <tag> { u8 A; string B; struct { u8 p, q; } C; } v2; u8 last;",
        {0, 44, 45, 1, 1, 'x', 0, 'y', 0, 2, 2, 2, 3, 4, 5, 6});
}

Opened nested() {
    return trace_of("struct { u8 x; struct { u8 deep; } inner; } st; u8 m[1][1]; u8 ports[2];\n"
                    "struct { u8 y; } rows[1]; struct { } none; u8 last;",
                    {1, 2, 3, 4, 5, 6, 7});
}

std::string text(const Opened& trace, bool json = false) {
    Result<TraceReader> reader = trace.open();
    return reader ? text_of(*reader, json) : reader.error().message();
}

/* Which events fulfil it, "+-+"; or what is wrong with it. */
std::string fulfilled(const Opened& trace, const std::string& condition) {
    Result<TraceReader> reader = trace.open();
    if (!reader) return reader.error().message();
    auto tree = parse_condition(condition);
    if (!tree) return tree.error().message();
    auto made = Condition::make(std::move(*tree), *reader, false);
    if (!made) {
        const std::string message = made.error().message();
        return message.substr(0, message.find(":\n"));
    }
    std::string found;
    while (const Event* const event = reader->next())
        found += (*made)->holds(*event) ? '+' : '-';
    return found;
}

TEST(ForeignTypes, AVariantIsShownByItsName) {
    EXPECT_THAT(text(variants()), HasSubstr("{ tag = A (0), v1 = { A = 44 }, v2 = { A = 45 }, last = 1 }\n"));
    EXPECT_THAT(text(variants()),
                HasSubstr("v1 = { C = { p = 2, q = 3 } }, v2 = { C = { p = 4, q = 5 } }, last = 6 }"));
    EXPECT_THAT(text(variants(), true), HasSubstr("\"v1\":{\"B\":\"x\"},\"v2\":{\"B\":\"y\"},\"last\":2}"));
}

TEST(ForeignTypes, AConditionLooksIntoVariants) {
    const Opened trace = variants();
    EXPECT_EQ(fulfilled(trace, "v1.A == 44"), "+--");
    EXPECT_EQ(fulfilled(trace, "v2.A == 44"), "---");
    EXPECT_EQ(fulfilled(trace, "v2.B == 'y'"), "-+-");
    EXPECT_EQ(fulfilled(trace, "v2.C.q == 5 || v1.A < 50"), "+-+");
    EXPECT_EQ(fulfilled(trace, "last == 1"), "+--");
}

TEST(ForeignTypes, AConditionNamesTheWholePath) {
    const Opened trace = variants();
    EXPECT_EQ(fulfilled(trace, "A == 300"), "no event of the trace has a field A, but some have v1.A");
    EXPECT_EQ(fulfilled(trace, "v1 == 1"), "v1 has parts: name one, v1.A");
    EXPECT_EQ(fulfilled(trace, "v1.C == 1"), "v1.C has parts: name one, v1.C.p");
    const Opened other = nested();
    EXPECT_EQ(fulfilled(other, "st.x == 1 && st.inner.deep == 2"), "+");
    EXPECT_EQ(fulfilled(other, "st == 1"), "st has parts: name one, st.x");
    EXPECT_EQ(fulfilled(other, "none == 1"), "none has no parts that are numbers or texts");
    EXPECT_EQ(fulfilled(other, "x == 1"), "no event of the trace has a field x, but some have st.x");
    EXPECT_EQ(fulfilled(other, "inner.deep == 1"),
              "no event of the trace has a field inner.deep, but some have st.inner.deep");
    EXPECT_EQ(fulfilled(other, "ports == 1"), "ports has elements: name one, ports[0]");
    EXPECT_EQ(fulfilled(other, "port == 1"),
              "no event of the trace has a field port, but some have ports[0]");
    EXPECT_EQ(fulfilled(other, "m[0] == 1"),
              "m has elements that have parts themselves, which no condition can name");
    EXPECT_EQ(fulfilled(other, "last[0] == 1"), "last has no elements");
    EXPECT_EQ(fulfilled(other, "y == 1"), "y is in the elements of rows, which no condition can name");
    EXPECT_EQ(fulfilled(other, "lst == 1"), "no event of the trace has a field lst, but some have last");
    EXPECT_EQ(fulfilled(other, "nothing == 1"), "no event of the trace has a field nothing");
}

TEST(ForeignTypes, ElementsMayTakeNoSpace) {
    const std::string fields =
        "u8 n; struct { } holes[3]; struct { u8 k; u8 in[n]; } some[1]; u8 none[n][2]; u8 last;";
    EXPECT_THAT(text(trace_of(fields, {0, 5, 9, 1, 6, 7, 1, 2, 8})),
                HasSubstr("holes = [ {}, {}, {} ], some = [ { k = 5, in = [] } ], none = [], last = 9 }"));
    EXPECT_THAT(text(trace_of("u8 n; string s; u8 seqs[2][n]; u8 last;", {0, 'a', 0, 9})),
                HasSubstr("seqs = [ [], [] ], last = 9 }"));
}

/* 2^32 times nothing. */
TEST(ForeignTypes, ElementsThatTakeNoSpaceAreBounded) {
    const Opened trace = trace_of("integer { size = 32; } n; struct { struct { } h[4000000000]; } holes[n];",
                                  {255, 255, 255, 255});
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader) << reader.error().message();
    EXPECT_EQ(reader->next(), nullptr);
    ASSERT_EQ(reader->problems().size(), 1u);
    EXPECT_THAT(reader->problems()[0], HasSubstr("too many parts that take no space"));
}

TEST(ForeignTypes, OfCtf2AreSaidToBeOfCtf2) {
    const Opened trace{"\x1e{\"type\":\"preamble\",\"version\":2}\n", {}};
    EXPECT_THAT(text(trace), HasSubstr("CTF 2, which is not read yet"));
}

/* The times at which packets begin and end have as few bits as those of events, and wrap with them. */
TEST(ForeignTypes, AClockThatWrapsIsFollowedFromPacketToPacket) {
    Opened trace;
    trace.metadata =
        "/* CTF 1.8 */\n"
        "trace { major = 1; minor = 8; byte_order = le; };\n"
        "clock { name = c; };\n"
        "stream { packet.context := struct { integer { size = 16; map = clock.c.value; } timestamp_begin;\n"
        "    integer { size = 16; map = clock.c.value; } timestamp_end;\n"
        "    integer { size = 16; } packet_size; integer { size = 16; } content_size; };\n"
        "  event.header := struct { integer { size = 16; map = clock.c.value; } timestamp; }; };\n"
        "event { name = \"e\"; fields := struct { }; };\n";
    const std::vector<std::vector<uint32_t>> packets = {
        {0xfff0, 0xfff8}, {0xfffc, 0x10004}, {0x10010, 0x10020}, {0x2fff0 - 0x10000, 0x20008}, {0x20010}};
    Payload stream;
    std::vector<int64_t> expected;
    for (const auto& times : packets) {
        const auto bits = static_cast<uint16_t>((8 + 2 * times.size()) * 8);
        stream.add(static_cast<uint16_t>(times.front())).add(static_cast<uint16_t>(times.back()));
        stream.add(bits).add(bits);
        for (const uint32_t time : times)
            stream.add(static_cast<uint16_t>(time));
        expected.insert(expected.end(), times.begin(), times.end());
    }
    trace.streams = {stream.bytes()};
    const auto times_since = [&](int64_t since_ns) {
        Result<TraceReader> reader = trace.open();
        reader->skip_before(since_ns);
        std::vector<int64_t> times;
        while (const Event* const event = reader->next())
            times.push_back(event->time_ns);
        return times;
    };
    EXPECT_EQ(times_since(0), expected);
    EXPECT_EQ(times_since(0x10005), std::vector<int64_t>(expected.begin() + 4, expected.end()));
    EXPECT_EQ(times_since(0x20009), std::vector<int64_t>(expected.begin() + 8, expected.end()));
}

} // namespace
} // namespace plumb
