// cmake-once
/* One stream in several files, as LTTng leaves it (--tracefile-size, rotated chunks, snapshots): what was lost between two files
 * is counted, and what two files have is shown once. */
#include "tests/support/opened_trace.h"

#include <gtest/gtest.h>

#include <limits>

namespace plumb {
namespace {

using namespace test;

constexpr const char* metadata =
    "/* CTF 1.8 */\n"
    "typealias integer { size = 8; align = 8; } := u8;\ntypealias integer { size = 32; align = 8; } := u32;\n"
    "typealias integer { size = 64; align = 8; } := u64;\n"
    "trace { major = 1; minor = 8; byte_order = le; uuid = \"01010101-0101-0101-0101-010101010101\";\n"
    "  packet.header := struct { u32 magic; u8 uuid[16]; u32 stream_id; u64 stream_instance_id; }; };\n"
    "clock { name = c; freq = 1000000000; };\n"
    "typealias integer { size = 64; align = 8; map = clock.c.value; } := stamp;\n"
    "stream { id = 0; packet.context := struct { stamp timestamp_begin; stamp timestamp_end; u64 "
    "content_size;\n"
    "  u64 packet_size; u64 packet_seq_num; u64 events_discarded; };\n"
    "  event.header := struct { stamp timestamp; }; };\n"
    "event { name = \"a:b\"; stream_id = 0; fields := struct { u8 n; }; };\n";

struct Packet {
    uint64_t sequence_number;
    uint64_t begin_ns;
    uint64_t discarded = 0;
    uint64_t instance_id = 0;
};

/* Each with one event, of the time at which it begins. */
std::vector<uint8_t> file_of(std::initializer_list<Packet> packets) {
    std::string bytes;
    const auto add = [&bytes](auto value) {
        bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    for (const Packet& packet : packets) {
        constexpr uint64_t bits = 8 * (4 + 16 + 4 + 8 + 6 * 8 + 8 + 1);
        add(uint32_t{0xC1FC1FC1});
        bytes.append(16, '\x01');
        add(uint32_t{0});
        add(packet.instance_id);
        for (const uint64_t value : {packet.begin_ns, packet.begin_ns + 1, bits, bits, packet.sequence_number,
                                     packet.discarded, packet.begin_ns})
            add(value);
        add(uint8_t{7});
    }
    return {bytes.begin(), bytes.end()};
}

struct ReadTrace {
    std::vector<int64_t> times_ns;
    StreamLosses losses;
};

ReadTrace read(std::vector<std::vector<uint8_t>> files,
               int64_t since_ns = std::numeric_limits<int64_t>::min()) {
    const Opened trace{metadata, std::move(files)};
    Result<TraceReader> reader = trace.open();
    EXPECT_TRUE(reader) << reader.error().message();
    reader->skip_before(since_ns);
    ReadTrace found;
    while (const Event* const event = reader->next())
        found.times_ns.push_back(event->time_ns);
    found.losses = reader->losses();
    return found;
}

using Times = std::vector<int64_t>;

TEST(StreamFiles, CountWhatWasLostBetweenThem) {
    const ReadTrace found = read({file_of({{2, 30, 12}, {3, 40, 12}}), file_of({{0, 10, 3}, {1, 20, 5}}),
                                  file_of({{6, 70, 20}}), file_of({{0, 15, 1, 1}, {1, 25, 2, 1}})});
    EXPECT_EQ(found.times_ns, (Times{10, 15, 20, 25, 30, 40, 70}));
    EXPECT_EQ(found.losses.events_discarded, 22u) << "20 of one stream, 2 of the other";
    EXPECT_EQ(found.losses.packets_lost, 2u);
}

/* The first snapshot's are there again. */
TEST(StreamFiles, ShowAPacketOnce) {
    const ReadTrace found = read(
        {file_of({{4, 10}, {5, 20}}), file_of({{4, 10}, {5, 20}, {6, 30}}), file_of({{6, 30}, {9, 90}})});
    EXPECT_EQ(found.times_ns, (Times{10, 20, 30, 90}));
    EXPECT_EQ(found.losses.packets_lost, 2u);
    EXPECT_EQ(found.losses.damaged_packets, 0u);
}

/* A copy that was cut off, beside a whole one, or one that has more of it. */
TEST(StreamFiles, ShowTheFullestCopyOfAPacket) {
    const auto cut = [](std::vector<uint8_t> file, size_t bytes) {
        file.resize(file.size() - bytes);
        return file;
    };
    const auto first = file_of({{4, 10}, {5, 20}}), second = file_of({{5, 20}, {6, 30}});
    for (const size_t bytes : {1, 9, 12}) {
        SCOPED_TRACE(bytes);
        EXPECT_EQ(read({cut(first, bytes), second}).times_ns, (Times{10, 20, 30}));
        EXPECT_EQ(read({second, cut(first, bytes)}).times_ns, (Times{10, 20, 30}));
    }
    const auto both = file_of({{4, 10}, {5, 20}}), one = file_of({{5, 20}});
    for (const auto& found : {read({cut(both, 1), one}), read({cut(one, 1), both})}) {
        EXPECT_EQ(found.times_ns, (Times{10, 20}));
        EXPECT_EQ(found.losses.damaged_packets, 0u);
    }
    const auto only_time = cut(one, 1), nothing = cut(one, 9);
    EXPECT_EQ(read({nothing, only_time}).losses.damaged_packets, 1u);
}

TEST(StreamFiles, AreTheSameWhereverOneBegins) {
    const ReadTrace found = read({file_of({{1, 20, 7}, {2, 30, 9}}), file_of({{0, 10}})}, 25);
    EXPECT_EQ(found.times_ns, (Times{30}));
    EXPECT_EQ(found.losses.events_discarded, 9u);
}

TEST(StreamFiles, KeepPacketsThatBearOneNumber) {
    EXPECT_EQ(read({file_of({{0, 10}, {0, 20}}), file_of({{0, 30}})}).times_ns, (Times{10, 20, 30}));
}

/* Seen of LTTng: 5957, 5957, 0, 7950. */
TEST(StreamFiles, TakeACounterThatFallsForAMistake) {
    EXPECT_EQ(read({file_of({{0, 10, 5}, {1, 20, 0}, {2, 30, 6}})}).losses.events_discarded, 6u);
    EXPECT_EQ(read({file_of({{0, 10, 5}, {1, 20, 0}}), file_of({{2, 30, 6}})}).losses.events_discarded, 6u);
}

} // namespace
} // namespace plumb
