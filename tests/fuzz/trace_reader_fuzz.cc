/*
 * Any metadata with any stream: never a crash, never without end. The input is the metadata, the separator
 * below, and the bytes of one stream; without the separator it is a stream for a metadata of Plumb's own.
 */
#include "tests/support/sample_trace.h"
#include "trace/show/event_writer.h"

#include <cstdint>
#include <string_view>

namespace {

constexpr std::string_view separator = "\n---\n";

std::string own_metadata() {
    using namespace plumb;
    test::SampleMetadata sample;
    EventField status = test::plain_field("status", PLUMB_FIELD_ENUM, 1);
    status.labels = {{0, "new"}, {1, "sent"}};
    EventField array = test::plain_field("ports", PLUMB_FIELD_ARRAY, 2);
    array.array_length = 3;
    sample.add("shop", "order",
               {test::integer_field("id", 8), std::move(status),
                test::plain_field("customer", PLUMB_FIELD_STRING),
                test::plain_field("note", PLUMB_FIELD_TEXT), std::move(array),
                test::plain_field("sizes", PLUMB_FIELD_SEQUENCE, 4),
                test::plain_field("price", PLUMB_FIELD_FLOAT, 8)});
    return sample.text();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
    static const std::string own = own_metadata();
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const std::size_t end = input.find(separator);
    plumb::TraceBytes bytes{own, {}};
    if (end != std::string_view::npos) {
        bytes.metadata = input.substr(0, end);
        bytes.streams.emplace_back(data + end + separator.size(), size - end - separator.size());
    } else {
        bytes.streams.emplace_back(data, size);
    }
    plumb::Result<plumb::TraceReader> reader = plumb::TraceReader::from_memory(bytes);
    if (!reader) return 0;
    plumb::OutputBuffer out(-1);
    const auto text = plumb::make_text_writer(*reader, out, {plumb::TimeStyle::utc, false});
    const auto json = plumb::make_json_writer(*reader, out);
    while (const plumb::Event* const event = reader->next()) {
        out.clear();
        text->write(*event);
        json->write(*event);
    }
    return 0;
}
