// Traces in memory, as small as a question needs them, and what a reader makes of them.
#pragma once

#include "tests/support/sample_trace.h"
#include "trace/show/event_writer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumb::test {

inline constexpr uint64_t base_ns = 1'000'000'000'000;

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

inline std::string text_of(TraceReader& reader, bool json = false, TimeStyle time = TimeStyle::seconds) {
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
        EventField status = plain_field("status", PLUMB_FIELD_ENUM, 1);
        status.labels = {{0, "new"}, {1, "sent"}};
        EventField array = plain_field("ports", PLUMB_FIELD_ARRAY, 2);
        array.array_length = 3;
        const uint16_t id = sample.add(
            "shop", "order",
            {integer_field("id", 8), integer_field("delta", 4, true), integer_field("flags", 4, true, true),
             std::move(status), plain_field("customer", PLUMB_FIELD_STRING),
             plain_field("note", PLUMB_FIELD_TEXT), std::move(array),
             plain_field("sizes", PLUMB_FIELD_SEQUENCE, 4), plain_field("price", PLUMB_FIELD_FLOAT, 8),
             plain_field("ratio", PLUMB_FIELD_FLOAT, 4)});
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

/* Events that say their number, in streams that interleave. */
struct Numbered : Opened {
    explicit Numbered(int stream_count, uint64_t per_packet = 10) {
        SampleMetadata sample;
        id = sample.add("app", "n", {integer_field("n", 8)});
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

struct Named : Opened {
    Named() {
        SampleMetadata sample;
        id = sample.add("app", "n", {integer_field("n", 8)});
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

/* How many events the reader has that count up from 0, `base_ns` later by one each; what is not such a one ends it, with
 * a failure. */
inline uint64_t count_in_order(TraceReader& reader) {
    uint64_t expected = 0;
    while (const Event* const event = reader.next()) {
        OneInteger n;
        EXPECT_TRUE(visit_fields(*event, n));
        EXPECT_EQ(n.value, expected);
        EXPECT_EQ(event->time_ns, static_cast<int64_t>(base_ns + expected));
        if (testing::Test::HasFailure()) break;
        ++expected;
    }
    return expected;
}

inline constexpr const char* compact_headers =
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

} // namespace plumb::test
