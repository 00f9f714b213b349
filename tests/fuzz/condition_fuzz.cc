// Reads a condition as somebody types it, lays it over the events of a small trace, and asks each of them. Input: the text.
#include "tests/support/sample_trace.h"
#include "trace/show/condition.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

using namespace plumb;

struct Sample {
    Sample() {
        test::SampleMetadata sample;
        EventField status = test::plain_field("status", PLUMB_FIELD_ENUM, 1);
        status.labels = {{0, "new"}, {1, "sent"}};
        const uint16_t order = sample.add("shop", "order",
                                          {test::integer_field("id", 8), std::move(status),
                                           test::plain_field("customer", PLUMB_FIELD_STRING),
                                           test::plain_field("sizes", PLUMB_FIELD_SEQUENCE, 4),
                                           test::integer_field("i", 8, true)});
        const uint16_t other =
            sample.add("shop", "other", {test::plain_field("price", PLUMB_FIELD_FLOAT, 8)});
        metadata = sample.text();
        test::Payload payload;
        payload.add(~uint64_t{0})
            .add(uint8_t{1})
            .string("bob")
            .add(uint16_t{2})
            .add(uint32_t{3})
            .add(uint32_t{4});
        payload.add(int64_t{-5});
        stream.event(order, 1000, 7, payload);
        stream.event(other, 2000, 7, test::Payload().add(0.5));
        stream.end_packet();
    }
    std::string metadata;
    test::SampleStream stream{ctf_stream_records, 0};
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
    static Sample sample;
    auto tree = parse_condition(std::string_view(reinterpret_cast<const char*>(data), size));
    if (!tree) return 0;
    TraceBytes bytes{sample.metadata, {}};
    bytes.streams.emplace_back(sample.stream.bytes());
    auto reader = TraceReader::from_memory(bytes);
    if (!reader) __builtin_trap();
    auto condition = Condition::make(std::move(*tree), *reader, true);
    if (!condition) return 0;
    while (const Event* const event = reader->next())
        static_cast<void>((*condition)->holds(*event));
    return 0;
}
