// cmake-once
/* What the metadata parser promises: it understands what Plumb and LTTng write, and answers anything else
 * with an error that names the line. */
#include "tests/support/sample_trace.h"
#include "trace/ctf/tsdl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumb::tsdl {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view trace_block = "trace { major = 1; minor = 8; byte_order = le; };\n";

std::string with_fields(std::string_view fields) {
    return fmt::format("{}event {{ name = \"a:b\"; id = 3; fields := struct {{ {} }}; }};", trace_block,
                       fields);
}

/* The type of the only field. */
TypePtr type_of(std::string_view field) {
    Result<Metadata> parsed = parse(with_fields(field));
    if (!parsed) {
        ADD_FAILURE() << field << ": " << parsed.error().message();
        return nullptr;
    }
    const TypePtr& fields = parsed->events.at(0).fields;
    return fields->fields.size() == 1 ? fields->fields[0].type : nullptr;
}

std::string error_of(std::string_view text) {
    Result<Metadata> parsed = parse(text);
    return parsed ? "no error" : parsed.error().message();
}

TEST(Tsdl, ReadsIntegersWithAllTheirAttributes) {
    const TypePtr type =
        type_of("integer { size = 27; align = 1; signed = true; base = 16; byte_order = be; encoding = UTF8; "
                "map = clock.monotonic.value; } _x;");
    ASSERT_TRUE(type);
    EXPECT_EQ(type->kind, Kind::integer);
    EXPECT_EQ(type->size_bits, 27u);
    EXPECT_EQ(type->alignment_bits, 1u);
    EXPECT_TRUE(type->is_signed);
    EXPECT_TRUE(type->is_text);
    EXPECT_EQ(type->base, 16);
    EXPECT_EQ(type->byte_order, ByteOrder::big);
    EXPECT_EQ(type->clock, "monotonic");
}

TEST(Tsdl, AlignsWholeBytesToBytesAndBitsToBits) {
    EXPECT_EQ(type_of("integer { size = 32; } x;")->alignment_bits, 8u);
    EXPECT_EQ(type_of("integer { size = 5; } x;")->alignment_bits, 1u);
    EXPECT_EQ(type_of("string x;")->alignment_bits, 8u);
}

TEST(Tsdl, ReadsBothFloatingPointFormats) {
    EXPECT_EQ(type_of("floating_point { exp_dig = 8; mant_dig = 24; align = 8; } x;")->size_bits, 32u);
    EXPECT_EQ(type_of("floating_point { exp_dig = 11; mant_dig = 53; align = 8; } x;")->size_bits, 64u);
    const TypePtr aligned =
        type_of("floating_point { exp_dig = 8; byte_order = be; mant_dig = 24; align = 32; } x;");
    EXPECT_EQ(aligned->alignment_bits, 32u);
    EXPECT_EQ(aligned->byte_order, ByteOrder::big);
    EXPECT_THAT(error_of(with_fields("floating_point { exp_dig = 15; mant_dig = 113; } x;")),
                HasSubstr("15 + 113"));
}

TEST(Tsdl, ReadsEnumerations) {
    const TypePtr type = type_of("enum : integer { size = 8; signed = true; } { \"new\" = 0, sent, "
                                 "\"some\" = 5 ... 7, after, \"neg\" = -3, } x;");
    ASSERT_TRUE(type);
    ASSERT_EQ(type->labels.size(), 5u);
    EXPECT_EQ(type->labels[0].name, "new");
    EXPECT_EQ(type->labels[1].first, 1u);
    EXPECT_EQ(type->labels[2].first, 5u);
    EXPECT_EQ(type->labels[2].last, 7u);
    EXPECT_EQ(type->labels[3].first, 8u);
    EXPECT_EQ(static_cast<int64_t>(type->labels[4].first), -3);
}

TEST(Tsdl, ReadsArraysAndSequences) {
    const TypePtr grid = type_of("integer { size = 16; } x[2][3];");
    ASSERT_TRUE(grid);
    EXPECT_EQ(grid->length, 2u);
    EXPECT_EQ(grid->element->length, 3u);
    Result<Metadata> parsed = parse(with_fields("integer { size = 8; } n; string s[ n ];"));
    ASSERT_TRUE(parsed);
    const Field& sequence = parsed->events[0].fields->fields[1];
    EXPECT_EQ(sequence.type->kind, Kind::sequence);
    EXPECT_EQ(sequence.type->reference, "n");
    EXPECT_EQ(sequence.type->element->kind, Kind::string);
}

TEST(Tsdl, FindsTypesByAliasTypedefAndTag) {
    Result<Metadata> parsed = parse(
        "typealias integer { size = 64; align = 8; } := unsigned long;\n"
        "typedef integer { size = 8; } byte;\n"
        "struct pair { byte first; unsigned long second; } align(64);\n"
        "trace { major = 1; minor = 8; byte_order = be; packet.header := struct pair; };\n"
        "stream { id = 7; event.header := struct { enum : byte { compact = 0 ... 254, extended = 255 } id;\n"
        "  variant <id> { struct { byte t; } compact; struct pair extended; } v; } align(8); };");
    ASSERT_TRUE(parsed) << parsed.error().message();
    EXPECT_TRUE(parsed->big_endian);
    ASSERT_TRUE(parsed->packet_header);
    EXPECT_EQ(parsed->packet_header->alignment_bits, 64u);
    EXPECT_EQ(parsed->packet_header->fields[1].type->size_bits, 64u);
    const Type& header = *parsed->streams.at(0).event_header;
    EXPECT_EQ(parsed->streams[0].id, 7u);
    EXPECT_EQ(header.fields[1].type->kind, Kind::variant);
    EXPECT_EQ(header.fields[1].type->reference, "id");
}

TEST(Tsdl, ReadsEnvironmentAndClock) {
    Result<Metadata> parsed =
        parse("/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le;\n"
              "uuid = \"00112233-4455-6677-8899-AabBccDdeeFF\"; };\n"
              "env { domain = \"ust\"; tracer_major = 2; n = -5; };\n"
              "clock { name = \"mono\"; freq = 2400000000; offset_s = 17; offset = -4; absolute = TRUE; };\n"
              "callsite { file = \"x\"; inner { a = 1; }; };");
    ASSERT_TRUE(parsed) << parsed.error().message();
    EXPECT_EQ(parsed->environment_text("domain"), "ust");
    EXPECT_EQ(parsed->environment_text("n"), "-5");
    EXPECT_EQ((*parsed->uuid)[10], 0xaa);
    EXPECT_EQ((*parsed->uuid)[15], 0xff);
    const Clock* const clock = parsed->find_clock("mono");
    ASSERT_NE(clock, nullptr);
    EXPECT_EQ(clock->frequency_hz, 2400000000u);
    EXPECT_EQ(clock->offset_s, 17);
    EXPECT_EQ(clock->offset_cycles, -4);
    EXPECT_TRUE(clock->absolute);
}

TEST(Tsdl, ReadsNumbersOfThreeBases) {
    Result<Metadata> parsed =
        parse(std::string(trace_block) + "stream { id = 010; }; stream { id = 0x1FuLL; };"
                                         "stream { id = 0; };");
    ASSERT_TRUE(parsed) << parsed.error().message();
    EXPECT_EQ(parsed->streams.at(0).id, 8u);
    EXPECT_EQ(parsed->streams.at(1).id, 31u);
    EXPECT_EQ(parsed->streams.at(2).id, 0u);
}

TEST(Tsdl, SkipsCommentsOfBothKinds) {
    Result<Metadata> parsed =
        parse(std::string("// a / line * /* of its own\r\n/**//* one\n/ * over\ttwo **/\f") +
              std::string(trace_block) + "\v// the end");
    EXPECT_TRUE(parsed) << parsed.error().message();
    EXPECT_THAT(error_of("/* 1\n2 */ // 2\n trace / { };"), HasSubstr("line 3"));
    EXPECT_THAT(error_of("trace / { }; /* */"), HasSubstr("0x2f has no meaning"));
    EXPECT_THAT(error_of("trace {* a */ };"), HasSubstr("`*`"));
}

TEST(Tsdl, ReadsWhatPlumbWrites) {
    test::SampleMetadata sample;
    EventField status = test::plain_field("status", PLUMB_FIELD_ENUM, 1);
    status.labels = {{0, "new"}, {1, "se\"nt"}};
    EventField array = test::plain_field("ports", PLUMB_FIELD_ARRAY, 2);
    array.array_length = 4;
    sample.add("shop", "order",
               {test::integer_field("id", 8), test::integer_field("delta", 4, true), std::move(status),
                test::plain_field("customer", PLUMB_FIELD_STRING),
                test::plain_field("note", PLUMB_FIELD_TEXT), std::move(array),
                test::plain_field("sizes", PLUMB_FIELD_SEQUENCE, 4),
                test::plain_field("price", PLUMB_FIELD_FLOAT, 8)});
    Result<Metadata> parsed = parse(sample.text());
    ASSERT_TRUE(parsed) << parsed.error().message();
    const EventClass& event = parsed->events.back();
    EXPECT_EQ(event.name, "shop:order");
    EXPECT_EQ(event.log_level, PLUMB_DEBUG_LINE);
    EXPECT_EQ(event.fields->fields.size(), 10u) << "eight, and the lengths of two";
    EXPECT_EQ(event.fields->fields[2].type->labels[1].name, "se\"nt");
    EXPECT_EQ(parsed->environment_text("tracer_name"), "plumb");
}

TEST(Tsdl, IntegersGetTheNamesOfTheirBits) {
    test::SampleMetadata sample;
    EventField state = test::integer_field("state", 4, true);
    state.labels = {{1, "S"}, {-2147483648, "TOP"}};
    state.has_flags = true;
    sample.add("", "sched_switch", {state});
    Result<Metadata> parsed = parse(sample.text());
    ASSERT_TRUE(parsed) << parsed.error().message();
    const Type& type = *parsed->events.back().fields->fields[0].type;
    EXPECT_TRUE(type.has_flags);
    ASSERT_EQ(type.labels.size(), 2u);
    EXPECT_EQ(type.labels[1].name, "TOP");
}

TEST(Tsdl, IntegersGetTheLabelsThatStandBesideThem) {
    test::SampleMetadata sample;
    EventField vec = test::integer_field("vec", 4);
    vec.labels = {{1, "TIMER"}};
    sample.add("", "irq_softirq_entry", {vec, test::integer_field("other", 4)});
    const std::string text = sample.text();
    EXPECT_THAT(
        text,
        HasSubstr("integer { size = 32; align = 8; signed = false; encoding = none; base = 10; } _vec;"));
    Result<Metadata> parsed = parse(text);
    ASSERT_TRUE(parsed) << parsed.error().message();
    const std::vector<Field>& fields = parsed->events.back().fields->fields;
    ASSERT_EQ(fields[0].type->kind, Kind::enumeration);
    EXPECT_EQ(fields[0].type->labels[0].name, "TIMER");
    EXPECT_EQ(fields[1].type->kind, Kind::integer);
    EXPECT_FALSE(fields[0].type->has_flags);
    /* Labels of another width would move the fields behind it. */
    std::string wrong = text;
    wrong.replace(wrong.find("size = 32", wrong.find("typealias enum")), 9, "size = 64");
    parsed = parse(wrong);
    ASSERT_TRUE(parsed) << parsed.error().message();
    EXPECT_EQ(parsed->events.back().fields->fields[0].type->kind, Kind::integer);
}

TEST(Tsdl, ErrorsNameTheLine) {
    EXPECT_THAT(error_of("trace {\n major = 1;\n minor = @;\n};"), HasSubstr("line 3"));
    EXPECT_THAT(
        error_of("trace { major = 1; minor = 8; byte_order = le; };\n\nevent { name = \"x\"; fields := "
                 "struct { unknown_t a; }; };"),
        HasSubstr("line 3: there is no type `unknown_t`"));
}

TEST(Tsdl, RefusesWhatMakesNoSense) {
    const std::pair<const char*, const char*> wrong[] = {
        {"", "no trace block"},
        {"trace { major = 1; minor = 8; };", "no byte_order"},
        {"trace { major = 2; minor = 0; byte_order = le; };", "version 2.0"},
        {"trace { major = 1", "the end of the text"},
        {"env { a = \"no end\n\"; };", "string has no end"},
        {"/* no end", "comment has no end"},
        {"clock { freq = 0; };", "frequency above 0"},
        {"clock { freq = 99999999999999999999; };", "more than 64 bits"},
        {"typealias integer { size = 65; } := x;", "between 0 and 64"},
        {"typealias integer { size = 0; } := x;", "at least one bit"},
        {"typealias integer { align = 8; } := x;", "no size"},
        {"typealias integer { size = 8; align = 3; } := x;", "power of two"},
        {"typealias integer { size = 8; } := x; typealias integer { size = 8; } := x;", "second time"},
    };
    for (const auto& [text, message] : wrong)
        EXPECT_THAT(error_of(text), HasSubstr(message)) << text;
    EXPECT_THAT(error_of(std::string(trace_block) + "event { name = \"a\"; }; event { name = \"b\"; };"),
                HasSubstr("two events with id 0"));
}

TEST(Tsdl, ForgetsTypesBehindTheBlockThatDeclaresThem) {
    const std::string inner = "struct { typealias integer { size = 8; } := byte; byte x; } a; ";
    EXPECT_EQ(error_of(with_fields(inner)), "no error");
    EXPECT_THAT(error_of(with_fields(inner + "byte y;")), HasSubstr("there is no type `byte`"));
    const std::string variant =
        "enum : integer { size = 8; } { P, Q } tag; "
        "variant <tag> { typealias integer { size = 8; } := byte; byte P; byte Q; } v; ";
    EXPECT_EQ(error_of(with_fields(variant)), "no error");
    EXPECT_THAT(error_of(with_fields(variant + "byte y;")), HasSubstr("there is no type `byte`"));
}

TEST(Tsdl, BoundsNesting) {
    std::string deep;
    for (int i = 0; i < 100000; i++)
        deep += "struct { ";
    EXPECT_THAT(error_of(with_fields(deep)), HasSubstr("nested deeper"));
    std::string dimensions = "integer { size = 8; } x";
    for (int i = 0; i < 100000; i++)
        dimensions += "[1]";
    EXPECT_THAT(error_of(with_fields(dimensions + ";")), HasSubstr("nested deeper"));
    std::string by_name = "struct s0 { integer { size = 8; } a; };\n";
    for (int i = 1; i < 100000; i++)
        by_name += fmt::format("struct s{} {{ struct s{} a; }};\n", i, i - 1);
    EXPECT_THAT(error_of(by_name), HasSubstr("nested deeper"));
}

TEST(Tsdl, BoundsNames) {
    EXPECT_EQ(error_of(with_fields("integer { size = 8; } " + std::string(1024, 'n') + ";")), "no error");
    EXPECT_THAT(error_of(with_fields("integer { size = 8; } " + std::string(1025, 'n') + ";")),
                HasSubstr("longer than 1024 characters"));
}

TEST(Tsdl, BoundsHowOftenTypesAreCopied) {
    std::string fields;
    for (int i = 0; i < 1000; i++)
        fields += fmt::format("integer {{ size = 8; }} f{};", i);
    std::string tagged = "enum tag : integer { size = 8; } { f0 } t;";
    for (int i = 0; i < 600; i++)
        tagged += fmt::format("variant v <t> x{};", i);
    EXPECT_THAT(error_of("variant v {" + fields + "};" + with_fields(tagged)), HasSubstr("used too often"));
    std::string events = "struct s {" + fields + "};" + std::string(trace_block);
    for (int i = 0; i < 600; i++)
        events += fmt::format("event {{ name = \"a:b\"; id = {}; fields := struct s; }};", i);
    EXPECT_THAT(error_of(events), HasSubstr("used too often"));
}

TEST(Tsdl, TakesPacketsOfMetadataApart) {
    const auto packet = [](std::string_view text, uint32_t magic) {
        std::string bytes(37, '\0');
        const auto size_bits = static_cast<uint32_t>((37 + text.size()) * 8);
        std::memcpy(bytes.data(), &magic, 4);
        std::memcpy(bytes.data() + 24, &size_bits, 4);
        std::memcpy(bytes.data() + 28, &size_bits, 4);
        return bytes += text;
    };
    constexpr uint32_t magic = 0x75d11d57;
    Result<std::string> text = metadata_text(packet("one ", magic) + packet("two", magic));
    ASSERT_TRUE(text);
    EXPECT_EQ(*text, "one two");
    EXPECT_EQ(*metadata_text("/* CTF 1.8 */ plain text that is longer than a header"),
              "/* CTF 1.8 */ plain text that is longer than a header");
    EXPECT_FALSE(metadata_text(packet("one", magic) + packet("two", 1)));
    EXPECT_FALSE(metadata_text(packet("one", magic).substr(0, 39)));
}

} // namespace
} // namespace plumb::tsdl
