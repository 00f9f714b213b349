// cmake-once
/* Events as JSON, whole: what is valid JSON whatever the numbers and texts are, and wherever an event ends. */
#include "tests/support/kernel_like_trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace plumb {
namespace {

using namespace test;

std::string json(const Opened& trace) {
    Result<TraceReader> reader = trace.open();
    if (!reader) return reader.error().message();
    const std::string text = text_of(*reader, true);
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
        EXPECT_TRUE(nlohmann::json::accept(text.substr(at, end - at))) << text.substr(at, end - at);
    return text;
}

std::string fields_of(std::string_view name, std::string_view fields, const Payload& payload) {
    KernelLikeTrace trace;
    trace.event(trace.add(name, fields), 5, 7, payload);
    trace.end_packet(2);
    const std::string text = json(trace.made());
    const std::string start =
        fmt::format("{{\"timestamp_ns\":5,\"event\":\"{}\",\"cpu\":2,\"pid\":1,\"tid\":7,\"context\":"
                    "{{\"tid\":7,\"pid\":1,\"procname\":\"cat\"}},\"fields\":",
                    name);
    EXPECT_TRUE(text.starts_with(start)) << text;
    EXPECT_TRUE(text.ends_with("}\n"));
    return text.size() < start.size() + 2 ? text : text.substr(start.size(), text.size() - start.size() - 2);
}

TEST(EventJson, HasAllDigitsOfNumbers) {
    EXPECT_EQ(
        fields_of(
            "e", "u64 most; i64 least; i32 less; u8 none; integer { size = 8; base = 16; } hex;",
            Payload().add(UINT64_MAX).add(INT64_MIN).add(int32_t{-1}).add(uint8_t{0}).add(uint8_t{255})),
        R"({"most":18446744073709551615,"least":-9223372036854775808,"less":-1,"none":0,"hex":255})");
    EXPECT_EQ(fields_of("e", "", Payload()), "{}");
}

TEST(EventJson, HasTextsForNumbersThatJsonDoesNotKnow) {
    const std::string f32 = "floating_point { exp_dig = 8; mant_dig = 24; } ",
                      f64 = "floating_point { exp_dig = 11; mant_dig = 53; } ";
    EXPECT_EQ(fields_of("e", f64 + "a, b, c, d;" + f32 + "e, f, g, h;",
                        Payload()
                            .add(std::nan(""))
                            .add(HUGE_VAL)
                            .add(-HUGE_VAL)
                            .add(-2.2250738585072014e-308)
                            .add(std::nanf(""))
                            .add(HUGE_VALF)
                            .add(-HUGE_VALF)
                            .add(0.1f)),
              R"({"a":"NaN","b":"Infinity","c":"-Infinity","d":-2.2250738585072014e-308,)"
              R"("e":"NaN","f":"Infinity","g":"-Infinity","h":0.1})");
    EXPECT_EQ(
        fields_of("e", f64 + "a, b;" + f32 + "c, d;", Payload().add(-0.0).add(0.0).add(-0.0F).add(-2.0F)),
        R"({"a":-0.0,"b":0,"c":-0.0,"d":-2})")
        << "an integer has no sign where it is 0";
}

TEST(EventJson, NestsStructuresAndArrays) {
    EXPECT_EQ(
        fields_of("e",
                  "struct { u8 a[2]; struct { u8 x[1]; } s[2]; struct { } none; } in; u8 m[2][2]; u8 "
                  "empty[0]; u8 last;",
                  Payload().add(std::array<uint8_t, 9>{1, 2, 3, 4, 5, 6, 7, 8, 9})),
        R"({"in":{"a":[1,2],"s":[{"x":[3]},{"x":[4]}],"none":{}},"m":[[5,6],[7,8]],"empty":[],"last":9})");
    EXPECT_EQ(
        fields_of("e",
                  "u8 __n_length; u8 n[__n_length]; integer { size = 8; encoding = UTF8; } t[3]; string z;",
                  Payload().add(std::array<uint8_t, 6>{2, 7, 8, 'a', 0, 'b'}).string("\n\x01\xff")),
        "{\"n\":[7,8],\"t\":\"a\",\"z\":\"\\n\\u0001\xef\xbf\xbd\"}");
}

TEST(EventJson, HasNamesOfNumbersBesideThem) {
    EXPECT_EQ(
        fields_of("syscall_entry_openat", "i32 dfd; i32 flags; u16 mode; string filename; i32 other;",
                  Payload()
                      .add(int32_t{-100})
                      .add(int32_t{02000002})
                      .add(uint16_t{0644})
                      .string("/a")
                      .add(int32_t{2})),
        R"({"dfd":-100,"dfd_text":"AT_FDCWD","flags":524290,"flags_text":"O_RDWR|O_CLOEXEC","mode":420,"filename":"/a","other":2})");
    EXPECT_EQ(
        fields_of("e", "enum : u8 { A, \"b\\\"\" = 4 ... 5 } x[3]; i32 flags;",
                  Payload().add(uint8_t{0}).add(uint8_t{5}).add(uint8_t{6}).add(int32_t{2})),
        R"({"x":[{"value":0,"label":"A"},{"value":5,"label":"b\""},{"value":6,"label":null}],"flags":2})");
}

TEST(EventJson, HasContextsOfEventsAndWithoutThemNone) {
    KernelLikeTrace trace;
    trace.event(trace.add("e", "u8 x;", "u8 prio; string what;"), 5, 0,
                Payload().add(uint8_t{3}).string("w").add(uint8_t{4}), 0, "a\"");
    EXPECT_EQ(json(trace.made()), "{\"timestamp_ns\":5,\"event\":\"e\",\"cpu\":0,\"context\":{\"tid\":0,"
                                  "\"pid\":0,\"procname\":\"a\\\"\"},"
                                  "\"event_context\":{\"prio\":3,\"what\":\"w\"},\"fields\":{\"x\":4}}\n");
    EXPECT_EQ(json({"trace { major = 1; minor = 8; byte_order = le; };"
                    "event { name = \"a\"; fields := struct { integer { size = 8; } x; }; };",
                    {{1, 2}}}),
              "{\"timestamp_ns\":0,\"event\":\"a\",\"fields\":{\"x\":1}}\n{\"timestamp_ns\":0,\"event\":"
              "\"a\",\"fields\":{\"x\":2}}\n");
}

/* A record of Plumb says how long it is; its fields may not fit into that. Wherever it ends, what is there is written, and
 * what is open is closed. */
TEST(EventJson, ClosesWhatAnEventThatEndsTooEarlyLeftOpen) {
    SampleMetadata sample;
    EventField array = plain_field("ports", PLUMB_FIELD_ARRAY, 2);
    array.array_length = 3;
    const uint16_t id =
        sample.add("shop", "order", {integer_field("id", 2), array, plain_field("s", PLUMB_FIELD_STRING)});
    std::string all;
    for (std::size_t size = 0; size <= 10; size++) {
        Payload payload;
        for (std::size_t i = 0; i < size; i++)
            payload.add(static_cast<uint8_t>(i == 9 ? 0 : i % 2 == 0 ? 1 : i == 1 ? 0 : 1));
        SampleStream stream(ctf_stream_records, 3);
        stream.event(id, base_ns, 42, payload);
        stream.end_packet();
        const Opened trace{sample.text(), {stream.bytes()}};
        Result<TraceReader> reader = trace.open();
        OutputBuffer out(-1), plain(-1);
        const auto writer = make_json_writer(*reader, out),
                   lines = make_text_writer(*reader, plain, {TimeStyle::seconds, false});
        const Event* const event = reader->next();
        ASSERT_NE(event, nullptr);
        writer->write(*event);
        lines->write(*event);
        EXPECT_EQ(writer->damaged_events(), size < 10 ? 1u : 0u);
        EXPECT_EQ(lines->damaged_events(), size < 10 ? 1u : 0u);
        const std::string text(out.text()), line(plain.text());
        EXPECT_EQ(line.ends_with(" <the event ends here, too early> }\n"), size < 10) << line;
        const std::size_t fields = text.find("\"fields\":");
        EXPECT_TRUE(nlohmann::json::accept(text)) << text;
        all += text.substr(fields + 9);
    }
    const std::string none = "{}}\n", one = "{\"id\":1}}\n";
    EXPECT_TRUE(all.starts_with(none + none)) << all;
    EXPECT_TRUE(all.ends_with("{\"id\":1,\"ports\":[257,257,257],\"s\":\"\\u0001\"}}\n")) << all;
}

/* A record of another version may have structures; they are closed however deep it ends in them. */
TEST(EventJson, ClosesStructuresThatAnEventEndsIn) {
    SampleMetadata sample;
    const uint16_t id = sample.add("shop", "order", {integer_field("id", 1)});
    std::string text = sample.text();
    const std::size_t at = text.find(" _id;") + 5;
    text.insert(at, " struct { string a; struct { string b; struct { string c; } in; } list[2]; } outer;");
    const auto fields = [&](std::string_view bytes) {
        Payload payload;
        for (const char byte : bytes)
            payload.add(byte);
        SampleStream stream(ctf_stream_records, 3);
        stream.event(id, base_ns, 42, payload);
        stream.end_packet();
        const std::string shown = json({text, {stream.bytes()}});
        return shown.substr(std::min(shown.size(), shown.find("\"fields\":") + 9));
    };
    using namespace std::string_view_literals;
    EXPECT_EQ(fields("\1"), "{\"id\":1,\"outer\":{}}}\n");
    EXPECT_EQ(fields("\1a\0b\0cc"sv),
              "{\"id\":1,\"outer\":{\"a\":\"a\",\"list\":[{\"b\":\"b\",\"in\":{}}]}}}\n");
    EXPECT_EQ(fields("\1a\0b\0c\0dddddddddddddd"sv),
              "{\"id\":1,\"outer\":{\"a\":\"a\",\"list\":[{\"b\":\"b\",\"in\":{\"c\":\"c\"}},{}]}}}\n");
    EXPECT_EQ(fields("\1a\0b\0c\0d\0e\0"sv),
              "{\"id\":1,\"outer\":{\"a\":\"a\",\"list\":[{\"b\":\"b\",\"in\":{\"c\":\"c\"}},"
              "{\"b\":\"d\",\"in\":{\"c\":\"e\"}}]}}}\n");
}

} // namespace
} // namespace plumb
