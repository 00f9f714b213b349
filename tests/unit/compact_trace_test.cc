// cmake-once
//
// A compact trace says the same as one of whole records: to babeltrace2, and to our own reader, which must not trust it.
#include "base/ctf_layout.h"
#include "consumerd/drain/channel_source.h"
#include "consumerd/sink/record_packer.h"
#include "tests/support/channel_builder.h"
#include "trace/show/event_writer.h"
#include "trace/show/trace_summary.h"

#include <plumb/abi/record.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

namespace plumb {
namespace {

using test::ChannelBuilder;
using test::Payload;

std::string content_of(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

std::string text_of_trace(TraceReader& reader) {
    OutputBuffer out(-1);
    const auto writer = make_text_writer(reader, out, {TimeStyle::seconds, false, false});
    while (const Event* const event = reader.next())
        writer->write(*event);
    return std::string(out.text());
}

class CompactTrace : public testing::Test {
protected:
    void SetUp() override {
        char pattern[] = "/tmp/plumb-compact-test-XXXXXX";
        ASSERT_NE(mkdtemp(pattern), nullptr);
        root_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    std::string drained(ChannelBuilder& channel, bool compact) {
        ChannelDrainOptions options;
        options.directory = root_ + (compact ? "/compact" : "/plain");
        options.is_compact = compact;
        options.trace_name = "same";
        auto drain = drain_dead_channel(channel.bytes(), options);
        EXPECT_TRUE(drain) << drain.error().message();
        EXPECT_TRUE((*drain)->finish());
        return options.directory;
    }

    /* 40 kinds of events, of every size; times that stand still, go on by little and by more than the small headers can say. */
    static void fill(ChannelBuilder& channel) {
        std::vector<uint16_t> ids;
        for (int i = 0; i < 40; i++) {
            std::vector<EventField> fields;
            if (i % 4 != 0) fields.push_back(test::integer("n", 8));
            if (i % 4 == 2) fields.push_back(test::field("said", PLUMB_FIELD_TEXT, 1));
            if (i % 4 == 3) fields.push_back(test::field("ratio", PLUMB_FIELD_FLOAT, 4));
            ids.push_back(channel.add_event("e" + std::to_string(i), std::move(fields)));
        }
        channel.add_process(7, "shop", "/bin/shop", 100);
        channel.add_thread(7, 8, "worker", 200);
        std::mt19937_64 random(11);
        uint64_t time = 1'000'000;
        constexpr uint64_t steps[] = {0, 1, 40, (1 << 27) - 1, 1 << 27, (1 << 27) + 1, uint64_t{5} << 40};
        for (uint64_t n = 0; n < 300; n++) {
            const auto kind = static_cast<std::size_t>(random() % ids.size());
            Payload payload;
            if (kind % 4 != 0) payload.put(n);
            if (kind % 4 == 2) payload.text(std::string(random() % 40, 'y'));
            if (kind % 4 == 3) payload.put(0.25f * static_cast<float>(n));
            time += steps[random() % std::size(steps)];
            ASSERT_TRUE(channel.write(static_cast<uint32_t>(random() % 2), ids[kind], time, payload.bytes(),
                                      random() % 2 == 0 ? 7 : 8));
        }
    }

    static ChannelBuilder some_channel() {
        test::BuilderConfig config;
        config.subbuf_bytes = 4096;
        config.subbuf_count = 16;
        ChannelBuilder channel(config);
        fill(channel);
        return channel;
    }

    std::string root_;
};

TEST_F(CompactTrace, SaysTheSameToOurReader) {
    ChannelBuilder channel = some_channel();
    const std::string plain = drained(channel, false), compact = drained(channel, true);
    const auto text = [](const std::string& path) {
        Result<TraceReader> reader = TraceReader::open(path);
        EXPECT_TRUE(reader) << reader.error().message();
        std::string all = text_of_trace(*reader);
        EXPECT_TRUE(reader->problems().empty()) << reader->problems().front();
        return all;
    };
    EXPECT_EQ(text(compact), text(plain));
    const auto summary = [](const std::string& path) {
        Result<TraceReader> reader = TraceReader::open(path);
        TraceSummary counts(*reader);
        EXPECT_TRUE(counts.add_all(EventFilter(*reader, {})));
        OutputBuffer out(-1);
        counts.put_json(out);
        return std::string(out.text());
    };
    EXPECT_EQ(summary(compact), summary(plain));
    EXPECT_NE(summary(compact).find("\"events\":300,"), std::string::npos) << summary(compact);
    EXPECT_LT(std::filesystem::file_size(compact + "/ust/ring_0") * 10,
              std::filesystem::file_size(plain + "/ust/ring_0") * 9);
}

TEST_F(CompactTrace, SaysTheSameToBabeltrace2) {
    if (std::system("babeltrace2 --version > /dev/null 2>&1") != 0)
        GTEST_SKIP() << "babeltrace2 is not installed";
    ChannelBuilder channel = some_channel();
    std::string texts[2];
    for (const bool compact : {false, true}) {
        const std::string out = root_ + "/out", errors = root_ + "/errors";
        const std::string command = "babeltrace2 --clock-cycles --no-delta " + drained(channel, compact) +
                                    " > " + out + " 2> " + errors;
        EXPECT_EQ(std::system(command.c_str()), 0);
        EXPECT_EQ(content_of(errors), "");
        texts[compact ? 1 : 0] = content_of(out);
    }
    EXPECT_FALSE(texts[0].empty());
    EXPECT_EQ(texts[1], texts[0]);
}

/* The reader skips nothing by lengths here, so every byte counts: it ends, and tells, whatever is in them. */
TEST_F(CompactTrace, DamageEndsAPacketAndNoMore) {
    ChannelBuilder channel = some_channel();
    const std::string folder = drained(channel, true) + "/ust/";
    const std::string metadata = content_of(folder + "metadata");
    const std::string whole = content_of(folder + "ring_0");
    const auto events_of = [&](const std::string& stream) {
        TraceBytes bytes{metadata, {}};
        bytes.streams.emplace_back(reinterpret_cast<const uint8_t*>(stream.data()), stream.size());
        Result<TraceReader> reader = TraceReader::from_memory(bytes);
        EXPECT_TRUE(reader) << reader.error().message();
        std::size_t events = 0;
        OutputBuffer out(-1);
        const auto writer = make_json_writer(*reader, out);
        while (const Event* const event = reader->next()) {
            writer->write(*event);
            out.clear();
            ++events;
        }
        return std::pair(events, reader->problems().size());
    };
    const auto [count, problems] = events_of(whole);
    EXPECT_GT(count, 100u);
    EXPECT_EQ(problems, 0u);
    for (std::size_t length = sizeof(CtfPacketStart); length < whole.size(); length += 89) {
        const auto [some, told] = events_of(whole.substr(0, length));
        EXPECT_LE(some, count);
        EXPECT_TRUE(told > 0 || some < count) << length;
    }
    for (std::size_t at = 0; at < whole.size(); at += 23) { /* each way of damage, all over it */
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ (at % 3 == 0 ? 0xff : at % 3 == 1 ? 0x1f : 0x80));
        EXPECT_LE(events_of(damaged).first, whole.size() / 8);
    }
}

/* Parts without a size cost time, and no bytes. What is made of so few bytes is bounded by the packet, not by each event. */
TEST_F(CompactTrace, BoundsThePartsThatTakeNoSpace) {
    test::BuilderConfig config;
    config.subbuf_bytes = 65536;
    ChannelBuilder channel(config);
    const uint16_t id = channel.add_event("e", {test::field("s", PLUMB_FIELD_SEQUENCE, 1)});
    channel.add_process(7, "shop", "/bin/shop", 100);
    constexpr std::size_t events = 300, elements = 10;
    for (std::size_t n = 0; n < events; n++) {
        Payload payload;
        payload.put(static_cast<uint16_t>(elements));
        for (std::size_t i = 0; i < elements; i++)
            payload.put(static_cast<uint8_t>(i));
        ASSERT_TRUE(channel.write(0, id, 1000 + n, payload.bytes(), 7));
    }
    const std::string folder = drained(channel, true) + "/ust/";
    const std::string stream = content_of(folder + "ring_0");
    const auto read = [&](int parts) {
        std::string element = "struct { uint8_t n; ";
        for (int i = 0; i < parts; i++)
            element += fmt::format("struct {{ }} a{}; ", i);
        std::string metadata = content_of(folder + "metadata");
        const std::size_t name = metadata.rfind(" _s[ ");
        EXPECT_NE(name, std::string::npos);
        const std::size_t type = metadata.rfind("integer", name);
        metadata.replace(type, name - type, element + "}");
        TraceBytes bytes{metadata, {}};
        bytes.streams.emplace_back(reinterpret_cast<const uint8_t*>(stream.data()), stream.size());
        Result<TraceReader> reader = TraceReader::from_memory(bytes);
        EXPECT_TRUE(reader) << reader.error().message();
        std::size_t count = 0;
        while (reader->next() != nullptr)
            count++;
        return std::pair(count, reader->problems());
    };
    EXPECT_EQ(read(3), std::pair(events, std::vector<std::string>{}));
    const auto [count, problems] = read(4000);
    EXPECT_LT(count, events / 2);
    ASSERT_EQ(problems.size(), 1u);
    EXPECT_NE(problems[0].find("too many parts that take no space"), std::string::npos) << problems[0];
}

TEST(RecordPacker, TakesSixteenBytesForOneNumber) {
    std::vector<std::byte> records(4 * 24);
    const auto put = [&](std::size_t index, uint64_t time, uint16_t id) {
        const plumb_record record{time, id, 24, 5};
        std::memcpy(records.data() + index * 24, &record, sizeof record);
    };
    EventNumbers numbers;
    for (uint16_t id = 101; id <= 128; id++)
        EXPECT_EQ(numbers.of(id), id - 100) << "in the order in which they are met";
    put(0, 1000, 4000);
    put(1, 1000 + (1 << 27) - 1, 4000);
    put(2, 1000 + (1 << 27), 3);
    put(3, 999, 128);
    RecordPacker packer(numbers);
    const auto size = [&](std::size_t count) {
        return packer.pack(std::span(records).first(count * 24)).size();
    };
    constexpr std::size_t rest = 4 + 8; /* thread and payload */
    EXPECT_EQ(size(1), 11 + rest) << "the first of a packet";
    EXPECT_EQ(size(2) - size(1), 4 + rest);
    EXPECT_EQ(size(3) - size(2), 6 + rest) << "a number of more than the smallest header takes";
    EXPECT_EQ(size(4) - size(3), 11 + rest) << "a time that goes back";
    EXPECT_EQ(numbers.of(4000), 29);
    EXPECT_EQ(numbers.of(3), 30);
}

} // namespace
} // namespace plumb
