// cmake-once
/* What is written by several of std::thread is what one would have written. */
#include "tests/support/opened_trace.h"
#include "trace/show/parallel_writer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <stdexcept>

namespace plumb {
namespace {

using namespace test;

/* Names and texts of many lengths, in streams that interleave; some events end before their fields do. */
struct Various : Opened {
    Various() {
        SampleMetadata sample;
        const uint16_t number = sample.add("app", "n", {integer_field("n", 8)});
        const uint16_t text = sample.add("app", "said",
                                         {plain_field("text", PLUMB_FIELD_TEXT), integer_field("n", 4, true),
                                          plain_field("sizes", PLUMB_FIELD_SEQUENCE, 2)});
        metadata = sample.text();
        std::mt19937 random(3);
        std::vector<SampleStream> made;
        for (uint32_t i = 0; i < 5; i++)
            made.emplace_back(ctf_stream_records, i);
        for (uint64_t n = 0; n < 3000; n++) {
            SampleStream& stream = made[random() % made.size()];
            Payload payload;
            if (n % 3 == 0) {
                payload.add(n);
            } else {
                payload.text(std::string(random() % 300, 'x')).add(static_cast<int32_t>(n));
                if (n % 100 == 1)
                    payload.add(uint16_t{1000}).add(uint16_t{1}); /* of which there are not so many */
                else
                    payload.add(uint16_t{2}).add(uint16_t{1}).add(uint16_t{65535});
            }
            stream.event(n % 3 == 0 ? number : text, base_ns + n * 7, 1 + n % 4, payload);
            if (random() % 50 == 0) stream.end_packet();
        }
        for (SampleStream& stream : made) {
            stream.end_packet();
            streams.push_back(stream.bytes());
        }
    }
};

struct Written {
    std::string text;
    uint64_t damaged_events = 0;
};

Written written(const Opened& trace, bool json, unsigned helpers, std::size_t batch_events) {
    Result<TraceReader> reader = trace.open();
    OutputBuffer out(-1);
    const auto make = [&](OutputBuffer& to) {
        return json ? make_json_writer(*reader, to)
                    : make_text_writer(*reader, to, {TimeStyle::seconds, true, false});
    };
    EXPECT_TRUE(can_write_parallel(*reader));
    const std::unique_ptr<EventWriter> writer =
        batch_events == 0 ? make(out)
                          : std::make_unique<ParallelWriter>(*reader, out, make, helpers, batch_events);
    while (const Event* const event = reader->next())
        writer->write(*event);
    writer->finish();
    return {std::string(out.text()), writer->damaged_events()};
}

TEST(ParallelWriter, WritesWhatOneWriterWouldHaveWritten) {
    const Various various;
    const Named named;
    for (const Opened* const trace :
         {static_cast<const Opened*>(&various), static_cast<const Opened*>(&named)})
        for (const bool json : {false, true}) {
            const Written alone = written(*trace, json, 0, 0);
            ASSERT_FALSE(alone.text.empty());
            EXPECT_EQ(alone.damaged_events > 0, trace == &various);
            for (const unsigned helpers : {0U, 1U, 3U})
                for (const std::size_t batch :
                     {std::size_t{1}, std::size_t{7}, std::size_t{1000}, std::size_t{100'000}}) {
                    const Written together = written(*trace, json, helpers, batch);
                    EXPECT_TRUE(together.text == alone.text)
                        << helpers << " helpers, batches of " << batch << (json ? ", JSON" : "");
                    EXPECT_EQ(together.damaged_events, alone.damaged_events);
                }
        }
}

TEST(ParallelWriter, LeavesOtherTracersEventsToOneWriter) {
    /* Their fields may need what stands in the packet. */
    Opened trace;
    trace.metadata = compact_headers;
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader) << reader.error().message();
    EXPECT_FALSE(can_write_parallel(*reader));
}

/* Tells how much text a batch has become. */
struct MeasuringWriter : EventWriter {
    MeasuringWriter(std::unique_ptr<EventWriter> writer, OutputBuffer& out, std::atomic<std::size_t>& most)
        : writer_(std::move(writer)), out_(out), most_(most) {}
    void write(const Event& event) override {
        writer_->write(event);
        const std::size_t bytes = out_.text().size();
        for (std::size_t known = most_; known < bytes && !most_.compare_exchange_weak(known, bytes);) {
        }
    }
    std::unique_ptr<EventWriter> writer_;
    OutputBuffer& out_;
    std::atomic<std::size_t>& most_;
};

TEST(ParallelWriter, KeepsBatchesOfLargeEventsSmall) {
    constexpr std::size_t events = 400, text_bytes = 60'000, batch_bytes = std::size_t{1} << 20;
    SampleMetadata sample;
    const uint16_t id = sample.add("app", "said", {plain_field("text", PLUMB_FIELD_TEXT)});
    Opened trace;
    trace.metadata = sample.text();
    SampleStream stream(ctf_stream_records, 0);
    for (uint64_t n = 0; n < events; n++)
        stream.event(id, base_ns + n, 1, Payload().text(std::string(text_bytes, 'x')));
    stream.end_packet();
    trace.streams = {stream.bytes()};
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader) << reader.error().message();
    OutputBuffer out(-1);
    std::atomic<std::size_t> most = 0;
    ParallelWriter writer(
        *reader, out,
        [&](OutputBuffer& to) {
            return std::make_unique<MeasuringWriter>(make_json_writer(*reader, to), to, most);
        },
        2);
    while (const Event* const event = reader->next())
        writer.write(*event);
    writer.finish();
    EXPECT_GT(out.text().size(), events * text_bytes);
    EXPECT_GT(most, text_bytes);
    EXPECT_LT(most, 2 * batch_bytes);
}

struct FailingWriter : EventWriter {
    void write(const Event&) override { throw std::runtime_error("no memory"); }
};

TEST(ParallelWriter, FailsInTheThreadThatWrites) {
    const Various trace;
    Result<TraceReader> reader = trace.open();
    OutputBuffer out(-1);
    ParallelWriter writer(
        *reader, out, [](OutputBuffer&) { return std::make_unique<FailingWriter>(); }, 2, 10);
    EXPECT_THROW(
        {
            while (const Event* const event = reader->next())
                writer.write(*event);
            writer.finish();
        },
        std::runtime_error);
}

} // namespace
} // namespace plumb
