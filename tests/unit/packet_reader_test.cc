// cmake-once
/* What packets say of themselves is taken as it is meant: sizes, ids, clocks of few bits, counters of what is missing, times that
 * they begin and end at. And where they say what can not be, that is told, and no more is given up than has to be. */
#include "trace/ctf/stream_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace plumb {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/* A packet in which each of these is said; all in bytes of 8 or 64 bits. */
struct Packet {
    uint64_t begin = 10, end = 20;
    std::optional<uint64_t> content_bits = {}, packet_bits = {};
    uint64_t sequence = 0, discarded = 0;
    std::vector<uint8_t> events{}; /* {number, time, field}... */
    std::size_t padding = 0;
    uint8_t cpu = 3, stream = 6, uuid = 0xab;
    uint32_t magic = 0xC1FC1FC1;

    std::vector<uint8_t> bytes() const {
        std::vector<uint8_t> all;
        const auto add = [&](const auto& value) {
            const auto* const from = reinterpret_cast<const uint8_t*>(&value);
            all.insert(all.end(), from, from + sizeof value);
        };
        add(magic);
        all.insert(all.end(), 15, 0);
        add(uuid);
        add(stream);
        add(uint8_t{77}); /* stream_instance_id */
        const std::size_t content = head_bytes + events.size();
        add(begin);
        add(end);
        add(content_bits.value_or(content * 8));
        add(packet_bits.value_or((content + padding) * 8));
        add(sequence);
        add(discarded);
        add(cpu);
        all.insert(all.end(), events.begin(), events.end());
        all.insert(all.end(), padding, 0xff);
        return all;
    }
    static constexpr std::size_t head_bytes = 22 + 6 * 8 + 1;
};

/* What another tracer writes, with or without some of it. */
std::string metadata(const std::vector<std::string>& without = {}) {
    std::string text =
        "typealias integer { size = 8; } := u8; typealias integer { size = 32; } := u32;\n"
        "typealias integer { size = 64; } := u64;\n"
        "typealias integer { size = 64; map = clock.c.value; } := stamp;\n"
        "trace { major = 1; minor = 8; byte_order = le; uuid = \"00000000-0000-0000-0000-0000000000ab\";\n"
        "  packet.header := struct { u32 magic; u8 uuid[16]; u8 stream_id; u8 stream_instance_id; }; };\n"
        "clock { name = c; };\n"
        "stream { id = 6; packet.context := struct { stamp timestamp_begin; stamp timestamp_end; u64 "
        "content_size;\n"
        "    u64 packet_size; u64 packet_seq_num; u64 events_discarded; u8 cpu_id; };\n"
        "  event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } t; }; };\n"
        "event { name = \"e\"; id = 1; stream_id = 6; fields := struct { u8 x; }; };\n"
        "event { name = \"f\"; id = 2; stream_id = 6; };\n"
        "event { name = \"g\"; id = 70000; stream_id = 6; };\n";
    for (const std::string& part : without) {
        const std::size_t at = text.find(" " + part + ";");
        EXPECT_NE(at, std::string::npos) << part;
        text.replace(at, part.size() + 2, fmt::format(" other{};", at));
    }
    return text;
}

std::unique_ptr<TraceLayout> layout_of(const std::string& text) {
    Result<tsdl::Metadata> parsed = tsdl::parse(text);
    EXPECT_TRUE(parsed) << parsed.error().message();
    auto layout = TraceLayout::make(std::move(*parsed), 0);
    EXPECT_TRUE(layout) << layout.error().message();
    return std::move(*layout);
}

struct Read {
    std::string events; /* "e@12 " */
    StreamLosses losses;
    std::vector<std::string> problems;
    std::string lost() const {
        return fmt::format("{} discarded, {} packets, {} unknown, {} damaged", losses.events_discarded,
                           losses.packets_lost, losses.unknown_events, losses.damaged_packets);
    }
};

class PacketReader : public testing::Test {
protected:
    std::vector<uint8_t> file(const std::vector<Packet>& packets) {
        std::vector<uint8_t> bytes;
        for (const Packet& packet : packets) {
            const auto more = packet.bytes();
            bytes.insert(bytes.end(), more.begin(), more.end());
        }
        return bytes;
    }
    static Read read(StreamReader& reader) {
        Read all;
        while (reader.next()) {
            const Event& event = reader.event();
            all.events += fmt::format("{}@{} ", event.info->name, event.time_ns);
            EXPECT_EQ(static_cast<uint64_t>(event.time_ns), event.cycles);
        }
        EXPECT_FALSE(reader.next());
        all.losses = reader.losses();
        all.problems = reader.problems();
        return all;
    }
    Read read_bytes(const std::vector<uint8_t>& bytes) {
        StreamReader reader(*layout, bytes, "s");
        return read(reader);
    }
    Read read(const std::vector<Packet>& packets) { return read_bytes(file(packets)); }
    std::unique_ptr<TraceLayout> layout = layout_of(metadata());
};

TEST_F(PacketReader, ReadsOneBehindTheOther) {
    const auto all = read({{.begin = 10, .end = 30, .events = {1, 12, 9, 2, 13}, .padding = 5},
                           {.begin = 40, .end = 50, .sequence = 1, .events = {}},
                           {.begin = 60, .end = 70, .sequence = 2, .events = {2, 61}}});
    EXPECT_EQ(all.events, "e@12 f@13 f@61 ");
    EXPECT_EQ(all.lost(), "0 discarded, 0 packets, 0 unknown, 0 damaged");
    EXPECT_FALSE(all.losses.any());
    EXPECT_THAT(all.problems, ElementsAre());
}

TEST_F(PacketReader, CountsAClockOfFewBitsOn) {
    const auto all =
        read({{.begin = 1000, .end = 2000, .events = {2, 0xf0, 2, 0xf0, 2, 0xef, 2, 0x01, 2, 0x00}},
              {.begin = 0x123456789abcdef0,
               .end = 0x123456789abcdfff,
               .sequence = 1,
               .events = {2, 0xf0, 2, 0xef}}});
    EXPECT_EQ(all.events, fmt::format("f@{} f@{} f@{} f@{} f@{} f@{} f@{} ", 0x3f0, 0x3f0, 0x4ef, 0x501,
                                      0x600, 0x123456789abcdef0, 0x123456789abcdfef));
}

TEST_F(PacketReader, KnowsWhatAPacketSays) {
    const auto bytes =
        file({{.begin = 10, .end = 30, .sequence = 4, .discarded = 9, .events = {2, 13}},
              {.begin = 40, .end = 50, .sequence = 5, .discarded = 11, .events = {2, 41}, .cpu = 5}});
    StreamReader reader(*layout, bytes, "s");
    EXPECT_EQ(reader.size_bytes(), bytes.size());
    EXPECT_EQ(reader.name(), "s");
    std::vector<PacketPlace> places;
    reader.look_at_packets([&](const PacketPlace& place) {
        places.push_back(place);
        return true;
    });
    ASSERT_EQ(places.size(), 2u);
    EXPECT_EQ(places[1].at, Packet::head_bytes + 2);
    EXPECT_EQ(places[1].stream_id, 6u);
    EXPECT_EQ(places[1].timestamp_begin, 40u);
    EXPECT_EQ(places[1].events_discarded, 11u);
    EXPECT_EQ(places[1].content_bits, (Packet::head_bytes + 2) * 8);
    EXPECT_EQ(places[1].instance_id, 77u);
    EXPECT_EQ(places[1].sequence_number, 5u);
    EXPECT_EQ(places[0].at, 0u);
    places.clear();
    reader.look_at_packets([&](const PacketPlace& place) {
        places.push_back(place);
        return false;
    });
    EXPECT_EQ(places.size(), 1u);
    EXPECT_EQ(reader.losses().events_discarded + reader.losses().packets_lost, 0u)
        << "all is as at the beginning";
    ASSERT_TRUE(reader.next());
    EXPECT_EQ(reader.cpu(), 3u);
    ASSERT_TRUE(reader.next());
    EXPECT_EQ(reader.cpu(), 5u);
    EXPECT_EQ(reader.event().cpu, 5u);
    reader.rewind();
    EXPECT_EQ(read(reader).events, "f@13 f@41 ");

    layout = layout_of(
        metadata({"cpu_id", "packet_seq_num", "stream_instance_id", "timestamp_begin", "events_discarded"}));
    StreamReader less(*layout, bytes, "s");
    places.clear();
    less.look_at_packets([&](const PacketPlace& place) {
        places.push_back(place);
        return true;
    });
    EXPECT_EQ(places.at(1).instance_id, std::nullopt);
    EXPECT_EQ(places.at(1).sequence_number, std::nullopt);
    EXPECT_EQ(places.at(1).timestamp_begin + places.at(1).events_discarded, 0u);
    ASSERT_TRUE(less.next());
    EXPECT_EQ(less.cpu(), no_cpu);
}

TEST_F(PacketReader, SkipsWhatEndsBeforeATime) {
    const auto bytes =
        file({{.begin = 10, .end = 30, .events = {2, 13}},
              {.begin = 40, .end = 50, .sequence = 1, .events = {2, 41}},
              {.begin = 60, .end = 0, .sequence = 2, .events = {2, 61}}}); /* whose tracer died */
    StreamReader reader(*layout, bytes, "s");
    for (const auto& [time, events] :
         {std::pair(0, "f@13 f@41 f@61 "), std::pair(30, "f@13 f@41 f@61 "), std::pair(31, "f@41 f@61 "),
          std::pair(50, "f@41 f@61 "), std::pair(51, "f@61 "), std::pair(1000, "f@61 ")}) {
        reader.skip_before(time);
        int packets = 0;
        reader.look_at_packets([&](const PacketPlace&) { return ++packets != 0; });
        EXPECT_EQ(packets, 3) << "they are all looked at";
        EXPECT_EQ(read(reader).events, events) << time;
        reader.rewind();
    }
    layout = layout_of(metadata({"timestamp_end"}));
    StreamReader endless(*layout, bytes, "s");
    endless.skip_before(1000);
    EXPECT_EQ(read(endless).events, "f@13 f@41 f@61 ");
    layout = layout_of(metadata({"timestamp_begin"}));
    StreamReader beginless(*layout, bytes, "s");
    beginless.skip_before(31);
    EXPECT_EQ(read(beginless).losses.damaged_packets, 0u);
    beginless.rewind();
    int events = 0;
    while (beginless.next())
        events++;
    EXPECT_EQ(events, 1) << "what ends at 0 ends early, if nobody says when it began";
}

/* Others may have counted before the part that was kept, but for a packet whose number is the first. */
TEST_F(PacketReader, CountsWhatIsMissing) {
    const auto lost = [&](const std::vector<Packet>& packets) { return read(packets).lost(); };
    EXPECT_EQ(lost({{.sequence = 7, .discarded = 5}}), "0 discarded, 0 packets, 0 unknown, 0 damaged");
    EXPECT_EQ(lost({{.sequence = 0, .discarded = 5}}), "5 discarded, 0 packets, 0 unknown, 0 damaged");
    EXPECT_EQ(lost({{.sequence = 7, .discarded = 5}, {.sequence = 8, .discarded = 8}}),
              "3 discarded, 0 packets, 0 unknown, 0 damaged");
    EXPECT_EQ(lost({{.sequence = 7, .discarded = 5}, {.sequence = 8, .discarded = 5}}),
              "0 discarded, 0 packets, 0 unknown, 0 damaged");
    EXPECT_EQ(lost({{.sequence = 7, .discarded = 5},
                    {.sequence = 8, .discarded = 0},
                    {.sequence = 9, .discarded = 9}}),
              "4 discarded, 0 packets, 0 unknown, 0 damaged");
    EXPECT_EQ(lost({{.sequence = 7}, {.sequence = 11}, {.sequence = 12}, {.sequence = 14}}),
              "0 discarded, 4 packets, 0 unknown, 0 damaged");
    EXPECT_EQ(lost({{.sequence = 0}, {.sequence = 1}, {.sequence = 1}, {.sequence = 0}, {.sequence = 2}}),
              "0 discarded, 1 packets, 0 unknown, 0 damaged");
    layout = layout_of(metadata({"packet_seq_num"}));
    EXPECT_EQ(lost({{.discarded = 5}, {.discarded = 6}}), "1 discarded, 0 packets, 0 unknown, 0 damaged");
    StreamLosses one;
    EXPECT_FALSE(one.any());
    for (uint64_t StreamLosses::*member : {&StreamLosses::events_discarded, &StreamLosses::packets_lost,
                                           &StreamLosses::unknown_events, &StreamLosses::damaged_packets}) {
        StreamLosses some;
        some.*member = 2;
        EXPECT_TRUE(some.any());
    }
}

TEST_F(PacketReader, SaysBetweenWhichPacketsEventsAreMissing) {
    const auto bytes = file({{.begin = 10, .end = 20, .sequence = 0, .discarded = 0},
                             {.begin = 30, .end = 40, .sequence = 1, .discarded = 2},
                             {.begin = 50, .end = 60, .sequence = 2, .discarded = 2},
                             {.begin = 70, .end = 80, .sequence = 4, .discarded = 2},
                             {.begin = 90, .end = 99, .sequence = 5, .discarded = 3}});
    StreamReader reader(*layout, bytes, "s");
    std::string places;
    for (const LossPlace& place : reader.loss_places().places)
        places += fmt::format("{}..{} ", place.from_ns, place.until_ns);
    EXPECT_EQ(places, fmt::format("10..50 50..90 70..{} ", INT64_MAX));
    const auto first = file({{.begin = 10, .end = 20, .sequence = 0, .discarded = 1},
                             {.begin = 30, .end = 40, .sequence = 1, .discarded = 1}});
    StreamReader from_start(*layout, first, "s");
    const auto only = from_start.loss_places().places;
    ASSERT_EQ(only.size(), 1u);
    EXPECT_EQ(only[0].from_ns, INT64_MIN);
    EXPECT_EQ(only[0].until_ns, 30);
}

TEST_F(PacketReader, GoesOnFromAnotherFile) {
    const auto bytes = file({{.begin = 10, .end = 20, .sequence = 4, .discarded = 9, .events = {2, 13}},
                             {.begin = 30, .end = 40, .sequence = 5, .discarded = 9, .events = {2, 33}},
                             {.begin = 50, .end = 60, .sequence = 6, .discarded = 9, .events = {2, 53}}});
    StreamReader reader(*layout, bytes, "s");
    PacketPlace last;
    last.events_discarded = 7;
    last.sequence_number = 2;
    const uint64_t size = Packet::head_bytes + 2;
    reader.continue_behind(last, {size});
    const Read all = read(reader);
    EXPECT_EQ(all.events, "f@13 f@53 ");
    EXPECT_EQ(all.lost(), "2 discarded, 2 packets, 0 unknown, 0 damaged")
        << "3, and the one that is left out";
    reader.continue_behind(std::nullopt, {0, 2 * size});
    EXPECT_EQ(read(reader).events, "f@33 ");
}

TEST_F(PacketReader, SaysWhichPacketsCanNotBe) {
    const Packet good{.events = {2, 13}};
    const uint64_t bits = (Packet::head_bytes + 2) * 8, head = Packet::head_bytes * 8;
    const auto told = [&](Packet second) {
        Packet first = good;
        second.sequence = 1;
        const Read all = read({first, second, {.sequence = 2, .events = {2, 63}}});
        return fmt::format("{}| {} | {}", all.events, all.problems.empty() ? "" : all.problems[0],
                           all.losses.damaged_packets);
    };
    const auto changed = [&](auto change) {
        Packet packet = good;
        change(packet);
        return told(packet);
    };
    const auto sizes = [&](uint64_t content, uint64_t packet) {
        return fmt::format("f@13 | s, packet at byte 73: impossible sizes, {} of {} bits | 1", content,
                           packet);
    };
    EXPECT_EQ(told(good), "f@13 f@13 f@63 |  | 0");
    EXPECT_EQ(changed([](Packet& p) { p.magic++; }),
              "f@13 | s, packet at byte 73: there is no packet where one should begin | 1");
    EXPECT_EQ(changed([](Packet& p) { p.uuid++; }),
              "f@13 | s, packet at byte 73: the packet belongs to another trace | 1");
    EXPECT_EQ(changed([](Packet& p) { p.stream++; }),
              "f@13 | s, packet at byte 73: the metadata has no stream 7 | 1");
    EXPECT_EQ(changed([&](Packet& p) { p.content_bits = head - 1; }), sizes(head - 1, bits));
    EXPECT_EQ(changed([&](Packet& p) { p.content_bits = head; }), "f@13 f@63 |  | 0");
    EXPECT_EQ(changed([&](Packet& p) { p.content_bits = bits + 1; }), sizes(bits + 1, bits));
    EXPECT_EQ(changed([&](Packet& p) { p.content_bits = head, p.packet_bits = bits - 1; }),
              sizes(head, bits - 1));
    EXPECT_EQ(changed([&](Packet& p) { p.content_bits = 0, p.packet_bits = 0; }), sizes(0, 0));
    EXPECT_EQ(changed([](Packet& p) {
                  p.events = {9, 1};
              }),
              "f@13 f@63 | s, packet at byte 73: the metadata has no event with id 9 | 1");
    EXPECT_EQ(changed([](Packet& p) {
                  p.events = {2, 15, 1, 16};
              }),
              "f@13 f@15 f@63 | s, packet at byte 73: it ends inside an event, e | 1");
    EXPECT_EQ(changed([](Packet& p) {
                  p.events = {2, 15, 1};
              }),
              "f@13 f@15 f@63 | s, packet at byte 73: it ends inside an event | 1");
    EXPECT_EQ(read({{.events = {9, 1}}}).lost(), "0 discarded, 0 packets, 1 unknown, 1 damaged");
}

TEST_F(PacketReader, SaysWhereAFileIsCut) {
    const auto whole = file({{.events = {2, 13}}, {.sequence = 1, .events = {2, 14, 2, 15}, .padding = 3}});
    const std::size_t second = Packet::head_bytes + 2;
    for (std::size_t size = 1; size <= whole.size(); size++) {
        const Read all = read_bytes(
            std::vector<uint8_t>(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
        const std::size_t in_second = size - second, content = Packet::head_bytes + 4;
        if (size < Packet::head_bytes || (size > second && in_second < Packet::head_bytes)) {
            EXPECT_EQ(all.events, size > second ? "f@13 " : "");
            EXPECT_THAT(all.problems, ElementsAre(fmt::format(
                                          "s, packet at byte {}: the file ends inside the packet's header",
                                          size > second ? second : 0)));
            EXPECT_EQ(all.losses.damaged_packets, 1u);
        } else if (size < second || (size > second && size < whole.size())) {
            const bool is_event_cut = size < second || in_second % 2 != content % 2;
            EXPECT_THAT(all.problems.at(0), HasSubstr("the file ends inside the packet"));
            EXPECT_EQ(all.losses.damaged_packets, size < second || in_second < content ? 1u : 0u) << size;
            if (size > second && in_second < content) {
                EXPECT_EQ(all.problems.size(), is_event_cut ? 2u : 1u) << size;
            }
        } else {
            EXPECT_THAT(all.problems, ElementsAre());
            EXPECT_EQ(all.events, size == second ? "f@13 " : "f@13 f@14 f@15 ");
        }
    }
}

TEST_F(PacketReader, TellsOfTheFirstProblemsOnly) {
    std::vector<Packet> many;
    for (uint64_t i = 0; i < 20; i++)
        many.push_back({.sequence = i, .events = {9, 1}});
    const Read all = read(many);
    EXPECT_EQ(all.problems.size(), 8u);
    EXPECT_EQ(all.losses.damaged_packets, 20u);
}

TEST_F(PacketReader, TakesPacketsForWholeFilesWhereNobodySaysTheirSizes) {
    Packet packet{.content_bits = 5, .packet_bits = 7, .events = {2, 13, 2, 14}};
    layout = layout_of(metadata({"content_size", "packet_size"}));
    EXPECT_EQ(read({packet}).events, "f@13 f@14 ");
    layout = layout_of(metadata({"content_size"}));
    packet.packet_bits.reset();
    EXPECT_EQ(read({packet, {.sequence = 1, .events = {2, 15}}}).events, "f@13 f@14 f@15 ");
    layout = layout_of(metadata({"packet_size"}));
    packet.content_bits = (Packet::head_bytes + 2) * 8;
    EXPECT_EQ(read({packet}).events, "f@13 ");
}

TEST_F(PacketReader, KnowsStreamsAndPacketsOfWhichLittleIsSaid) {
    layout = layout_of(metadata({"stream_id"}));
    EXPECT_THAT(read({{.events = {2, 13}}}).problems.at(0), HasSubstr("the metadata has no stream 0"));
    layout = layout_of(metadata({"magic"}));
    EXPECT_EQ(read({{.events = {2, 13}, .magic = 1}}).events, "f@13 ");
    std::string text = metadata();
    text.erase(text.find("uuid = "), 46);
    layout = layout_of(text);
    EXPECT_EQ(read({{.events = {2, 13}, .uuid = 1}}).events, "f@13 ") << "the metadata has none";
    text = metadata();
    text.replace(text.find("u8 uuid[16]"), 11, "u8 other[16]");
    layout = layout_of(text);
    EXPECT_EQ(read({{.events = {2, 13}, .uuid = 1}}).events, "f@13 ") << "the packet has none";
    text = metadata();
    text.replace(text.find("u8 id; integer"), 5, "u32 id");
    layout = layout_of(text);
    EXPECT_EQ(read({{.events = {0x70, 0x11, 1, 0, 14, 2, 0, 0, 0, 15}}}).events, "g@14 f@15 ")
        << "numbers above 65535";
    EXPECT_THAT(read({{.events = {0x71, 0x11, 1, 0, 14}}}).problems.at(0),
                HasSubstr("no event with id 70001"));
    text = metadata();
    text.replace(text.find("u8 id;"), 6, "u8 nn;");
    text.replace(text.find("id = 1;"), 7, "id = 0;");
    layout = layout_of(text);
    EXPECT_EQ(read({{.events = {2, 13, 7}}}).events, "e@13 ") << "without a number it is event 0";
}

/* What one event says of itself is not what the next one says nothing of. */
TEST_F(PacketReader, TakesNothingFromTheEventBefore) {
    layout =
        layout_of("typealias integer { size = 8; } := u8; typealias integer { size = 32; } := u32;\n"
                  "trace { major = 1; minor = 8; byte_order = le; };\n"
                  "stream { event.header := struct { enum : u8 { none, some } kind;\n"
                  "    variant <kind> { struct { } none; struct { u8 id; } some; } v; };\n"
                  "  event.context := struct { enum : u8 { none, some } kind;\n"
                  "    variant <kind> { struct { } none; struct { u32 vtid; u32 vpid; } some; } v; }; };\n"
                  "event { name = zero; id = 0; }; event { name = five; id = 5; };\n");
    const std::vector<uint8_t> bytes{1, 5, 1, 7, 0, 0, 1, 8, 0, 0, 2, 0, 0,
                                     1, 5, 0, 0, 1, 9, 0, 0, 0, 6, 0, 0, 0};
    StreamReader reader(*layout, bytes, "s");
    std::string all;
    while (reader.next())
        all += fmt::format("{} {}/{} ", reader.event().info->name, reader.event().process_id,
                           reader.event().thread_id);
    EXPECT_EQ(all, "five 33554440/16777223 zero 0/0 five 0/0 zero 6/9 ");
}

} // namespace
} // namespace plumb
