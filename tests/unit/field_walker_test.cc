// cmake-once
/* Values come out of a packet as they went in, whatever their size, place, byte order and sign; nothing is read that lies behind
 * the end; and what is fixed about a plan is known: whether records are Plumb's, and how many bytes their fields take. */
#include "trace/ctf/field_walker.h"
#include "trace/ctf/record_layout.h"
#include "trace/ctf/trace_layout.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace plumb {
namespace {

constexpr std::string_view bytes_and_words = "typealias integer { size = 8; } := u8;\n"
                                             "typealias integer { size = 16; } := u16;\n"
                                             "typealias integer { size = 32; } := u32;\n"
                                             "typealias integer { size = 64; } := u64;\n";

std::unique_ptr<TraceLayout> layout_of(const std::string& text, std::string_view order = "le") {
    Result<tsdl::Metadata> metadata = tsdl::parse(fmt::format(
        "{}trace {{ major = 1; minor = 8; byte_order = {}; }};\n{}", bytes_and_words, order, text));
    if (!metadata) {
        ADD_FAILURE() << metadata.error().message() << text;
        return std::make_unique<TraceLayout>();
    }
    auto layout = TraceLayout::make(std::move(*metadata), 0);
    if (!layout) ADD_FAILURE() << layout.error().message() << text;
    return layout ? std::move(*layout) : std::make_unique<TraceLayout>();
}

std::unique_ptr<TraceLayout> layout_of_fields(const std::string& fields, std::string_view order = "le") {
    return layout_of("event { name = \"e\"; fields := struct { " + fields + " }; };", order);
}

/* What a visitor is told: "1 2 [3 3 3] {4} 'text'". */
struct Told {
    void integer(const Step& step, uint64_t value) {
        text_ += step.is_signed ? fmt::format("{} ", static_cast<int64_t>(value)) : fmt::format("{} ", value);
    }
    void floating(const Step&, double value) { text_ += fmt::format("{} ", value); }
    void text(const Step&, std::string_view value) { text_ += fmt::format("'{}' ", value); }
    void begin(const Step& step, uint64_t count) {
        text_ += step.kind == StepKind::array ? fmt::format("{}[ ", count) : "{ ";
        EXPECT_TRUE(step.kind == StepKind::array || count == 0);
    }
    void end(const Step& step) { text_ += step.kind == StepKind::array ? "] " : "} "; }
    std::string text_;
};

/* With the bit that comes behind it, or "cut" where the bytes are too few. */
std::string told(const TraceLayout& layout, const std::vector<uint8_t>& bytes, uint64_t begin = 0,
                 uint64_t end = UINT64_MAX) {
    const Plan& plan = layout.events().at(0)->fields;
    std::vector<uint64_t> slots(layout.packet_header_slot_count());
    BitCursor cursor(bytes.data(), begin, std::min<uint64_t>(end, bytes.size() * 8));
    Told all;
    const bool whole = walk(plan, cursor, slots.data(), all);
    return all.text_ + (whole ? fmt::format("at {}", cursor.bit) : "cut");
}

/* Bits of big-endian data begin at the highest of a byte, of little-endian data at the lowest. */
uint64_t bits_at(const std::vector<uint8_t>& bytes, unsigned bit, unsigned size, bool is_big) {
    uint64_t value = 0;
    for (unsigned i = 0; i < size; i++) {
        const unsigned at = bit + i, byte = bytes[at / 8];
        const uint64_t one = is_big ? byte >> (7 - at % 8) & 1 : byte >> (at % 8) & 1;
        value |= one << (is_big ? size - 1 - i : i);
    }
    return value;
}

TEST(FieldWalker, ReadsIntegersOfAllSizesAtAllPlaces) {
    std::mt19937 random(5);
    std::vector<uint8_t> bytes(12);
    for (uint8_t& byte : bytes)
        byte = static_cast<uint8_t>(random() | 1);
    for (unsigned size = 1; size <= 64; size++)
        for (const unsigned alignment : {1, 8})
            for (const bool is_big : {false, true})
                for (const bool is_signed : {false, true}) {
                    const auto layout = layout_of_fields(
                        fmt::format("integer {{ size = {}; align = {}; signed = {}; byte_order = {}; }} x;",
                                    size, alignment, is_signed, is_big ? "be" : "le"));
                    for (unsigned bit = 0; bit < 16; bit++) {
                        const unsigned at = (bit + alignment - 1) / alignment * alignment;
                        uint64_t value = bits_at(bytes, at, size, is_big);
                        if (is_signed && (value >> (size - 1) & 1) != 0)
                            for (unsigned i = size; i < 64; i++)
                                value |= uint64_t{1} << i;
                        const std::string wanted = (is_signed ? std::to_string(static_cast<int64_t>(value))
                                                              : std::to_string(value)) +
                                                   fmt::format(" at {}", at + size);
                        ASSERT_EQ(told(*layout, bytes, bit), wanted)
                            << size << " bits at " << bit << (is_big ? " be" : " le") << alignment;
                        ASSERT_EQ(told(*layout, bytes, bit, at + size), wanted)
                            << "no bit too many is needed";
                        ASSERT_EQ(told(*layout, bytes, bit, at + size - 1), "cut");
                    }
                }
}

TEST(FieldWalker, ReadsFloatingPointOfBothSizesAndOrders) {
    const auto at = [](std::string_view order, unsigned size, unsigned align, std::vector<uint8_t> bytes,
                       uint64_t bit) {
        const auto layout = layout_of_fields(
            fmt::format("floating_point {{ exp_dig = {}; mant_dig = {}; byte_order = {}; align = {}; }} x;",
                        size == 32 ? 8 : 11, size == 32 ? 24 : 53, order, align));
        EXPECT_EQ(told(*layout, bytes, bit, bytes.size() * 8 - 1), "cut");
        return told(*layout, bytes, bit);
    };
    EXPECT_EQ(at("le", 32, 8, {0, 0, 0xc0, 0xbf}, 0), "-1.5 at 32");
    EXPECT_EQ(at("be", 32, 8, {0xbf, 0xc0, 0, 0}, 0), "-1.5 at 32");
    EXPECT_EQ(at("le", 64, 8, {0, 0, 0, 0, 0, 0, 0xf8, 0xbf}, 0), "-1.5 at 64");
    EXPECT_EQ(at("be", 64, 8, {0xbf, 0xf8, 0, 0, 0, 0, 0, 0}, 0), "-1.5 at 64");
    EXPECT_EQ(at("le", 32, 32, {9, 9, 9, 9, 0, 0, 0xc0, 0xbf}, 8), "-1.5 at 64");
    EXPECT_EQ(at("native", 32, 8, {9, 0, 0, 0xc0, 0xbf}, 8), "-1.5 at 40");
}

TEST(FieldWalker, TakesTheTracesByteOrderWhereATypeHasNone) {
    const std::string fields =
        "u16 a; integer { size = 16; byte_order = le; } b; integer { size = 16; byte_order = be; } c;";
    const std::vector<uint8_t> bytes{1, 2, 1, 2, 1, 2};
    EXPECT_EQ(told(*layout_of_fields(fields, "le"), bytes), "513 513 258 at 48");
    EXPECT_EQ(told(*layout_of_fields(fields, "be"), bytes), "258 513 258 at 48");
}

/* A part is told where all of it is there: cut anywhere, no more than the parts before. */
TEST(FieldWalker, ReadsNothingBehindTheEnd) {
    struct Case {
        std::string fields;
        std::vector<uint8_t> bytes;
        std::string whole;
        std::map<uint64_t, std::string> cut; /* from so many bits on, so much */
    };
    const std::vector<Case> cases{
        {"string s; u8 x;", {'a', 'b', 0, 7}, "'ab' 7 at 32", {{0, ""}, {24, "'ab' "}}},
        {"integer { size = 8; encoding = UTF8; } t[3]; u8 x;",
         {'a', 0, 'b', 7},
         "'a' 7 at 32",
         {{0, ""}, {24, "'a' "}}},
        {"u8 n; integer { size = 8; encoding = ASCII; } t[n]; u8 x;",
         {3, 'a', 0, 'b', 7},
         std::string("3 'a\0b' 7 at 40", 15),
         {{0, ""}, {8, "3 "}, {32, std::string("3 'a\0b' ", 8)}}},
        {"u16 p[2]; u8 x;", {1, 0, 2, 0, 7}, "2[ 1 2 ] 7 at 40", {{0, ""}, {32, "2[ 1 2 ] "}}},
        {"u8 n; u16 p[n]; u8 x;",
         {2, 1, 0, 2, 0, 7},
         "2 2[ 1 2 ] 7 at 48",
         {{0, ""}, {8, "2 "}, {40, "2 2[ 1 2 ] "}}},
        {"struct { u8 a; u8 b; } s; u8 x;",
         {1, 2, 7},
         "{ 1 2 } 7 at 24",
         {{0, "{ "}, {8, "{ 1 "}, {16, "{ 1 2 } "}}},
        {"u8 a; struct { u8 b; } align(32) s; u8 x;",
         {1, 0, 0, 0, 2, 7},
         "1 { 2 } 7 at 48",
         {{0, ""}, {8, "1 "}, {32, "1 { "}, {40, "1 { 2 } "}}},
        {"u8 a; integer { size = 8; align = 32; } p[1]; u8 x;",
         {1, 0, 0, 0, 2, 7},
         "1 1[ 2 ] 7 at 48",
         {{0, ""}, {8, "1 "}, {40, "1 1[ 2 ] "}}},
        {"integer { size = 4; align = 1; } a; string s;", {1, 'a', 0}, "1 'a' at 24", {{0, ""}, {4, "1 "}}},
    };
    for (const Case& each : cases) {
        const auto layout = layout_of_fields(each.fields);
        EXPECT_EQ(told(*layout, each.bytes), each.whole) << each.fields;
        for (uint64_t end = 0; end < each.bytes.size() * 8; end++)
            EXPECT_EQ(told(*layout, each.bytes, 0, end), std::prev(each.cut.upper_bound(end))->second + "cut")
                << each.fields << " until bit " << end;
    }
}

TEST(FieldWalker, TakesTheOptionThatTheTagNames) {
    const auto variant = [](std::string_view enumeration, std::vector<uint8_t> bytes) {
        return told(*layout_of_fields(fmt::format(
                        "enum : {} tag; variant <tag> {{ u8 A; u16 B; string C; }} v; u8 x;", enumeration)),
                    bytes);
    };
    const std::string_view of_u8 = "u8 { A = 0 ... 1, B = 3 ... 5, C = 200, A = 9 }";
    EXPECT_EQ(variant(of_u8, {0, 7, 8}), "0 { 7 } 8 at 24");
    EXPECT_EQ(variant(of_u8, {1, 7, 8}), "1 { 7 } 8 at 24");
    EXPECT_EQ(variant(of_u8, {9, 7, 8}), "9 { 7 } 8 at 24");
    EXPECT_EQ(variant(of_u8, {2, 7, 8}), "2 { cut");
    EXPECT_EQ(variant(of_u8, {3, 7, 1, 8}), "3 { 263 } 8 at 32");
    EXPECT_EQ(variant(of_u8, {5, 7, 1, 8}), "5 { 263 } 8 at 32");
    EXPECT_EQ(variant(of_u8, {6, 7, 1, 8}), "6 { cut");
    EXPECT_EQ(variant(of_u8, {200, 'a', 0, 8}), "200 { 'a' } 8 at 32");
    EXPECT_EQ(variant(of_u8, {200, 'a', 8}), "200 { cut");
    const std::string_view with_sign =
        "integer { size = 8; signed = true; } { A = -3 ... -1, B = 0 ... 4, C = -100 }";
    EXPECT_EQ(variant(with_sign, {0xfd, 7, 8}), "-3 { 7 } 8 at 24");
    EXPECT_EQ(variant(with_sign, {0xff, 7, 8}), "-1 { 7 } 8 at 24");
    EXPECT_EQ(variant(with_sign, {0xfc, 7, 8}), "-4 { cut");
    EXPECT_EQ(variant(with_sign, {0, 7, 0, 8}), "0 { 7 } 8 at 32");
    EXPECT_EQ(variant(with_sign, {4, 7, 0, 8}), "4 { 7 } 8 at 32");
    EXPECT_EQ(variant(with_sign, {5, 7, 0, 8}), "5 { cut");
    EXPECT_EQ(variant(with_sign, {0x9c, 0, 8}), "-100 { '' } 8 at 24");
}

/* The label that a value has, and the names of its bits. */
TEST(FieldWalker, FindsLabelsAtTheirEnds) {
    const std::vector<tsdl::Label> labels{{"none", 0, 0},
                                          {"neg", static_cast<uint64_t>(-5), static_cast<uint64_t>(-3)},
                                          {"some", 4, 6},
                                          {"one", 9, 9}};
    Step step;
    step.labels = &labels;
    step.size_bits = 64;
    const auto label = [&](int64_t value) {
        const tsdl::Label* const found = find_label(step, static_cast<uint64_t>(value));
        std::string text = "left from before";
        EXPECT_EQ(get_label(step, static_cast<uint64_t>(value), text), found != nullptr);
        EXPECT_EQ(text, found == nullptr ? "" : found->name);
        return text;
    };
    for (const bool is_signed : {false, true}) {
        step.is_signed = is_signed;
        std::string all;
        for (int64_t value = -7; value <= 10; value++)
            all += label(value) + ",";
        EXPECT_EQ(all, ",,neg,neg,neg,,,none,,,,some,some,some,,,one,,");
    }
    const std::vector<tsdl::Label> across{{"all", static_cast<uint64_t>(-2), 2}};
    step.labels = &across;
    EXPECT_EQ(label(-2) + label(0) + label(2) + label(3) + label(-3), "allallall");
    step.is_signed = false;
    EXPECT_EQ(label(-2) + label(0), "") << "the first of these is above the last";
}

TEST(FieldWalker, NamesBitsAndWhatIsLeft) {
    const std::vector<tsdl::Label> flags{
        {"A", 1, 1},
        {"none", 0, 0},
        {"BC", 6, 6},
        {"B", 2, 2},
        {"range", 8, 9},
        {"top", 0x80000000, 0x80000000},
        {"negative", static_cast<uint64_t>(-1) << 31, static_cast<uint64_t>(-1) << 31}};
    Step step;
    step.labels = &flags;
    step.has_flags = true;
    const auto names = [&](uint64_t value, uint8_t size_bits) {
        step.size_bits = size_bits;
        std::string text = "left from before";
        const bool is_known = get_label(step, value, text);
        EXPECT_EQ(is_known, !text.empty());
        return text;
    };
    EXPECT_EQ(names(0, 32), "");
    EXPECT_EQ(names(1, 32), "A");
    EXPECT_EQ(names(7, 32), "A|BC");
    EXPECT_EQ(names(3, 32), "A|B");
    EXPECT_EQ(names(4, 32), "");
    EXPECT_EQ(names(5, 32), "A|0x4");
    EXPECT_EQ(names(8, 32), "");
    EXPECT_EQ(names(0x1ff8 | 1, 32), "A|0x1ff8");
    EXPECT_EQ(names(0x80000002, 32), "B|top");
    EXPECT_EQ(names(~uint64_t{0}, 31), "A|BC|0x7ffffff8");
    EXPECT_EQ(names(~uint64_t{0}, 64), "A|BC|top|0xffffffff7ffffff8");
    EXPECT_EQ(names(static_cast<uint64_t>(-1) << 31, 32), "top");
    EXPECT_EQ(names(0xffff0001, 16), "A");
}

/* A walk over parts that take no bits ends, too. */
TEST(FieldWalker, GoesSoManySteps) {
    const auto layout = layout_of_fields("struct { } none[3]; u8 x;");
    const std::vector<uint8_t> bytes{5};
    std::vector<uint64_t> slots(1);
    for (uint64_t steps = 0; steps < 7; steps++) {
        BitCursor cursor(bytes.data(), 0, 8);
        EXPECT_EQ(cursor.steps_left, BitCursor::steps_for(8));
        cursor.steps_left = steps;
        Told all;
        EXPECT_EQ(walk(layout->events().at(0)->fields, cursor, slots.data(), all), steps >= 5) << steps;
    }
    EXPECT_GT(BitCursor::steps_for(8), BitCursor::steps_for(0));
    EXPECT_EQ(BitCursor(bytes.data(), 9, 8).steps_left, BitCursor::steps_for(0)) << "an end before the begin";
}

uint32_t bytes_of(const std::string& fields) {
    return fixed_bytes_of(layout_of_fields(fields)->events().at(0)->fields);
}

TEST(RecordLayout, FieldsTakeAsManyBytesEachTimeOrNobodyKnows) {
    constexpr uint32_t no = EventInfo::variable_size;
    EXPECT_EQ(bytes_of(""), 0u);
    EXPECT_EQ(bytes_of("u8 a; u16 b; u64 c;"), 11u);
    EXPECT_EQ(bytes_of("u8 a; floating_point { exp_dig = 8; mant_dig = 24; } f; enum : u16 { A } e;"), 7u);
    EXPECT_EQ(bytes_of("integer { size = 24; byte_order = be; } a;"), 3u);
    EXPECT_EQ(bytes_of("u8 a; integer { size = 16; align = 16; } b;"), no);
    EXPECT_EQ(bytes_of("u8 a; integer { size = 8; align = 1; } b;"), no);
    EXPECT_EQ(bytes_of("u8 a; integer { size = 12; align = 8; } b;"), no);
    EXPECT_EQ(bytes_of("u8 a; string b;"), no);
    EXPECT_EQ(bytes_of("u8 a; u8 b[2];"), no);
    EXPECT_EQ(bytes_of("struct { u8 a; } s;"), no);
    const auto aligned = layout_of("event { name = \"e\"; fields := struct { u8 a; } align(16); };");
    EXPECT_EQ(fixed_bytes_of(aligned->events().at(0)->fields), no);
}

/* `changes` are made to the text one at a time: none of what it then is may be taken for the record. */
void expect_only_as_it_is(const std::string& text, bool (*is_record)(const Plan&, const Plan&),
                          const std::vector<std::pair<std::string, std::string>>& changes,
                          const std::vector<std::pair<std::string, std::string>>& allowed) {
    const auto found = [&](const std::string& changed) {
        const auto layout = layout_of("clock { name = c; };\nevent { name = \"e\"; };\n" + changed);
        return is_record(layout->streams().at(0)->event_header, layout->streams().at(0)->event_context);
    };
    const auto with = [&](const std::pair<std::string, std::string>& change) {
        std::string changed = text;
        const std::size_t at = changed.find(change.first);
        EXPECT_NE(at, std::string::npos) << change.first;
        return changed.replace(at, change.first.size(), change.second);
    };
    EXPECT_TRUE(found(text));
    for (const auto& change : changes)
        EXPECT_FALSE(found(with(change))) << change.first << " -> " << change.second;
    for (const auto& change : allowed)
        EXPECT_TRUE(found(with(change))) << change.first << " -> " << change.second;
}

TEST(RecordLayout, ARecordOfPlumbIsExactlyThat) {
    expect_only_as_it_is(
        "stream { event.header := struct { integer { size = 64; align = 8; map = clock.c.value; } timestamp;"
        "                                  integer { size = 16; align = 8; } id; } align(64);\n"
        "         event.context := struct { integer { size = 32; align = 32; } vtid; }; };",
        is_plumb_record,
        {{"align(64)", "align(32)"},
         {"align(64)", "align(128)"},
         {"; } align(64)", "; u8 more; } align(64)"},
         {"integer { size = 16; align = 8; } id;", ""},
         {"map = clock.c.value;", ""},
         {"timestamp", "time"},
         {"} id;", "} number;"},
         {"} vtid;", "} vtid; u8 more;"},
         {"integer { size = 32; align = 32; } vtid;", ""},
         {"vtid", "vpid"},
         {"size = 64; align = 8", "size = 32; align = 8"},
         {"size = 64; align = 8", "size = 64; align = 16"},
         {"size = 64; align = 8", "size = 64; align = 8; signed = true"},
         {"size = 64; align = 8", "size = 64; align = 8; byte_order = be"},
         {"size = 16; align = 8", "size = 32; align = 8"},
         {"size = 16; align = 8", "size = 16; align = 16"},
         {"size = 16; align = 8", "size = 16; align = 8; signed = true"},
         {"size = 16; align = 8", "size = 16; align = 8; byte_order = be"},
         {"size = 32; align = 32", "size = 64; align = 32"},
         {"size = 32; align = 32", "size = 32; align = 32; signed = true"},
         {"size = 32; align = 32", "size = 32; align = 32; byte_order = be"},
         {"size = 32; align = 32", "size = 32; align = 8"},
         {"integer { size = 32; align = 32; } vtid; }", "string vtid; } align(32)"},
         {"vtid; }", "vtid; } align(64)"}},
        {{"vtid", "tid"}, {"vtid", "_vtid"}});
}

TEST(RecordLayout, ACompactRecordIsLikeThat) {
    expect_only_as_it_is(
        "stream { event.header := struct { enum : integer { size = 5; align = 1; } { near = 0 ... 29, far = "
        "30,"
        "    whole = 31 } kind;\n"
        "    variant <kind> { struct { u8 t; } near; struct { u16 t; } far; struct { u64 t; } whole; } v; } "
        "align(8);\n"
        "  event.context := struct { u32 vtid; }; };",
        is_compact_record,
        {{"size = 5", "size = 6"},
         {"align(8)", "align(16)"},
         {"v; }", "v; u8 more; }"},
         {"enum : integer", "u8 before; enum : integer"},
         {"variant <kind> { struct { u8 t; } near; struct { u16 t; } far; struct { u64 t; } whole; } v;", ""},
         {"variant <kind> { struct { u8 t; } near; struct { u16 t; } far; struct { u64 t; } whole; } v;",
          "u32 v;"},
         {"vtid;", "vtid; u8 more;"},
         {"u32 vtid;", ""},
         {"vtid", "vpid"},
         {"u32 vtid", "u16 vtid"},
         {"u32 vtid", "integer { size = 32; signed = true; } vtid"},
         {"u32 vtid", "integer { size = 32; byte_order = be; } vtid"},
         {"u32 vtid", "integer { size = 32; align = 32; } vtid"},
         {"u32 vtid", "string vtid"}},
        {{"vtid", "tid"}});
    const auto empty = layout_of("stream { event.context := struct { u32 vtid; }; };");
    EXPECT_FALSE(is_compact_record({}, empty->streams().at(0)->event_context));
}

} // namespace
} // namespace plumb
