// cmake-once
//
// What a drained channel looks like to another reader: babeltrace2 must accept every trace without a word,
// show exact values, and account for every loss. Channels are written by tests/support/channel_builder.h.
#include "base/ctf_layout.h"
#include "consumerd/channel/writer_numbers.h"
#include "consumerd/drain/channel_source.h"
#include "consumerd/kernel/kernel_statedump.h"
#include "consumerd/sink/ctf_writer.h"
#include "consumerd/sink/packet_carrier.h"
#include "tests/support/channel_builder.h"
#include "tests/support/kernel_statedump_times.h"
#include "trace/ctf/tsdl.h"
#include "trace/show/event_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/utsname.h>

namespace plumb {
namespace {

using test::BuilderConfig;
using test::ChannelBuilder;
using test::Payload;
using testing::HasSubstr;
using testing::Not;

constexpr const char* babeltrace = "babeltrace2";

bool have_babeltrace() {
    return std::system("babeltrace2 --version > /dev/null 2>&1") == 0;
}

std::string file_content(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

class CtfWriterTest : public testing::Test {
protected:
    void SetUp() override {
        if (!have_babeltrace()) GTEST_SKIP() << "babeltrace2 is not installed";
        char pattern[] = "/tmp/plumb-ctf-test-XXXXXX";
        ASSERT_NE(mkdtemp(pattern), nullptr);
        root_ = pattern;
    }
    void TearDown() override {
        if (!root_.empty()) std::filesystem::remove_all(root_);
    }

    std::string directory() const { return root_ + "/trace"; }

    void drain(ChannelBuilder& channel) {
        auto drain = drain_dead_channel(channel.bytes(), options());
        ASSERT_TRUE(drain) << drain.error().message();
        const Status finished = (*drain)->finish();
        EXPECT_TRUE(finished) << finished.error().message();
        totals_ = (*drain)->totals();
    }

    ChannelDrainOptions options() {
        ChannelDrainOptions options;
        options.directory = directory();
        options.log = [this](const std::string& line) { log_ += line + "\n"; };
        return options;
    }

    /* Runs babeltrace2; what it prints goes to out_ and err_. */
    void read_back(const std::string& more = "") {
        const std::string out = root_ + "/out", err = root_ + "/err";
        const std::string command =
            std::string(babeltrace) + " " + more + " " + directory() + " > " + out + " 2> " + err;
        EXPECT_EQ(std::system(command.c_str()), 0);
        out_ = file_content(out);
        err_ = file_content(err);
    }

    size_t lines_with(const std::string& text) const {
        size_t count = 0;
        std::istringstream lines(out_);
        for (std::string line; std::getline(lines, line);)
            count += line.find(text) != std::string::npos ? 1 : 0;
        return count;
    }

    std::string root_, out_, err_, log_;
    DrainTotals totals_;
};

TEST_F(CtfWriterTest, ShowsEveryFieldTypeWithItsExactValue) {
    ChannelBuilder channel;
    EventField status = test::field("status", PLUMB_FIELD_ENUM, 1);
    status.labels = {{0, "new"}, {1, "sent \"now\""}, {1, "sent \"now\""}, {2, "new"}, {300, "too big"}};
    const uint16_t id = channel.add_event(
        "all", {test::integer("u8", 1), test::integer("i16", 2, true), test::integer("i64", 8, true),
                test::integer("u64", 8), test::integer("x32", 4, false, true),
                test::field("f64", PLUMB_FIELD_FLOAT, 8), test::field("f32", PLUMB_FIELD_FLOAT, 4), status,
                test::field("customer", PLUMB_FIELD_STRING, 1), test::field("note", PLUMB_FIELD_TEXT, 1),
                test::field("ports", PLUMB_FIELD_ARRAY, 2, 3), test::field("sizes", PLUMB_FIELD_SEQUENCE, 4),
                test::field("none", PLUMB_FIELD_ARRAY, 2, 0), test::integer("last_AZaz09", 1)});
    Payload payload;
    payload.put(uint8_t{200}).put(int16_t{-300}).put(INT64_MIN).put(UINT64_MAX).put(uint32_t{0xdeadbeef});
    payload.put(1.5).put(-0.25f).put(uint8_t{1}).string("bob \xc3\xa9").text("hi there");
    for (const uint16_t port : std::initializer_list<uint16_t>{1, 2, 65535})
        payload.put(port);
    payload.put(uint16_t{2}).put(uint32_t{7}).put(uint32_t{4000000000u}).put(uint8_t{99});
    ASSERT_TRUE(channel.write(0, id, 1000, payload.bytes(), 4321));
    drain(channel);
    read_back();
    EXPECT_EQ(err_, "");
    EXPECT_THAT(out_, HasSubstr("test:all: { cpu_id = 0 }, { vtid = 4321 }"));
    for (const char* shown :
         {"u8 = 200", "i16 = -300", "i64 = -9223372036854775808", "u64 = 18446744073709551615",
          "x32 = 0xDEADBEEF", "f64 = 1.5", "f32 = -0.25", "customer = \"bob \xc3\xa9\"",
          "note = \"hi there\"", "ports = [ [0] = 1, [1] = 2, [2] = 65535 ]",
          "sizes = [ [0] = 7, [1] = 4000000000 ]", "last_AZaz09 = 99"})
        EXPECT_THAT(out_, HasSubstr(shown));
    EXPECT_THAT(out_, HasSubstr("container = 1"));
    EXPECT_EQ(totals_.progress.events, 1u);
}

TEST_F(CtfWriterTest, HostileNamesCannotBreakTheMetadata) {
    ChannelBuilder channel;
    EventField odd = test::field("int", PLUMB_FIELD_ENUM, 1);
    odd.labels = {{1, "\"; }; \\"}, {2, "line\nbreak"}};
    EventField labelled = test::integer("x; }; /*", 1);
    labelled.labels = {{4, "four"}};
    EventField labelled_too = labelled;
    labelled_too.labels = {{5, "five"}};
    const uint16_t id = channel.add_event(
        "a\"b\n}; event {", {odd, test::integer("a b", 1), test::integer("a b", 1), labelled, labelled_too});
    Payload payload;
    payload.put(uint8_t{1}).put(uint8_t{2}).put(uint8_t{3}).put(uint8_t{4}).put(uint8_t{5});
    ASSERT_TRUE(channel.write(0, id, 1000, payload.bytes()));
    drain(channel);
    read_back();
    EXPECT_EQ(err_, "");
    EXPECT_THAT(out_, HasSubstr("a_b = 2, a_b_2 = 3"));
    const auto metadata = tsdl::parse(file_content(directory() + "/ust/metadata"));
    ASSERT_TRUE(metadata) << metadata.error().message();
    const std::vector<tsdl::Field>& fields = metadata->events.back().fields->fields;
    ASSERT_EQ(fields.size(), 5u);
    EXPECT_EQ(fields[3].type->kind, tsdl::Kind::enumeration) << "labels of " << fields[3].name;
    EXPECT_EQ(fields[4].type->kind, tsdl::Kind::enumeration) << "labels of " << fields[4].name;
}

/* Each is a field of one byte, or a text; the values count from 1. */
struct NamedFields {
    std::vector<std::string> names;
    std::vector<std::string> shown;
};

TEST_F(CtfWriterTest, NamesThatDifferByAnUnderscoreStayApart) {
    const NamedFields cases[] = {
        {{"_x", "x"}, {"_x = 1", "x = 2"}},
        {{"x", "_x"}, {"x = 1", "_x = 2"}},
        {{"__x", "_x", "x"}, {"__x = 1", "_x_2 = 2", "x = 3"}},
        {{"x", "_x", "__x"}, {"x = 1", "_x = 2", "__x = 3"}},
        {{"_int", "int"}, {"_int = 1", "int_2 = 2"}},
        {{"_uint8_t", "uint8_t"}, {"_uint8_t = 1", "uint8_t_2 = 2"}},
        {{"_event", "event"}, {"_event = 1", "event_2 = 2"}},
        {{"_2", "2"}, {"_2 = 1", "2_2 = 2"}},
        {{"text", "text_length"}, {"text = \"ab\"", "text_length = 2"}},
        {{"text_length", "text"}, {"text_length = 1", "text = \"ab\""}},
        {{"_text_length", "text", "text_length"}, {"_text_length = 1", "text = \"ab\"", "text_length = 3"}},
        {{"text", "_text_length", "text_length"}, {"text = \"ab\"", "_text_length_2 = 2", "text_length = 3"}},
        {{"text", "text_length", "_text_length"}, {"text = \"ab\"", "text_length = 2", "_text_length_2 = 3"}},
        {{"_x", "x", "_x", "x"}, {"_x = 1", "x = 2", "_x_2 = 3", "x_3 = 4"}},
    };
    ChannelBuilder channel;
    for (size_t i = 0; i < std::size(cases); i++) {
        std::vector<EventField> fields;
        Payload payload;
        for (const std::string& name : cases[i].names) {
            const bool is_text = name == "text";
            fields.push_back(is_text ? test::field(name, PLUMB_FIELD_TEXT, 1) : test::integer(name, 1));
            is_text ? payload.text("ab") : payload.put(static_cast<uint8_t>(fields.size()));
        }
        const uint16_t id = channel.add_event(fmt::format("case{}", i), fields);
        ASSERT_TRUE(channel.write(0, id, 1000 + i, payload.bytes()));
    }
    drain(channel);
    read_back();
    EXPECT_EQ(err_, "");
    std::istringstream lines(out_);
    for (const NamedFields& fields : cases) {
        std::string line;
        std::getline(lines, line);
        for (const std::string& shown : fields.shown)
            EXPECT_THAT(line, HasSubstr(" " + shown));
    }
    auto reader = TraceReader::open(directory());
    ASSERT_TRUE(reader) << reader.error().message();
    OutputBuffer ours(-1);
    const auto writer = make_text_writer(*reader, ours, {TimeStyle::seconds});
    while (const Event* const event = reader->next())
        writer->write(*event);
    for (const NamedFields& fields : cases)
        EXPECT_THAT(std::string(ours.text()),
                    HasSubstr(fmt::format("{{ {} }}", fmt::join(fields.shown, ", "))));
}

TEST_F(CtfWriterTest, CopiesRecordsByteForByte) {
    ChannelBuilder channel;
    const uint16_t id = channel.add_event("one", {test::integer("n", 8)});
    for (uint64_t i = 0; i < 100; i++)
        ASSERT_TRUE(channel.write(0, id, 1000 + i, Payload().put(i).bytes()));
    drain(channel);
    const std::string stream = file_content(directory() + "/ust/ring_0");
    const std::string ring(reinterpret_cast<const char*>(channel.ring(0)), 100 * 24);
    EXPECT_EQ(stream.substr(sizeof(CtfPacketStart), ring.size()), ring);
}

TEST_F(CtfWriterTest, ManyRingsAndSubbuffersLoseNothing) {
    BuilderConfig config;
    config.subbuf_count = 32;
    ChannelBuilder channel(config);
    const uint16_t id =
        channel.add_event("step", {test::integer("n", 4), test::field("s", PLUMB_FIELD_STRING, 1)});
    for (uint32_t i = 0; i < 3000; i++)
        ASSERT_TRUE(
            channel.write(i % 3, id, 1000 + i, Payload().put(i).string(std::string(i % 13, 'x')).bytes()));
    drain(channel);
    read_back();
    EXPECT_EQ(err_, "");
    EXPECT_EQ(lines_with("test:step"), 3000u);
    EXPECT_EQ(totals_.events.at(0).count, 3000u);
    EXPECT_EQ(lines_with("n = 2999,"), 1u);
    EXPECT_TRUE(std::filesystem::exists(directory() + "/ust/extra_ring_0"));
}

TEST_F(CtfWriterTest, LossesAtTheVeryEndAreInTheTrace) {
    ChannelBuilder channel; /* 4 sub-buffers of 4096: full soon */
    const uint16_t id = channel.add_event("step", {test::integer("n", 8)});
    uint64_t written = 0;
    for (uint64_t i = 0; i < 1000; i++)
        written += channel.write(0, id, 1000 + i, Payload().put(i).bytes()) ? 1 : 0;
    ASSERT_LT(written, 1000u);
    auto drain = drain_dead_channel(channel.bytes(), options());
    ASSERT_TRUE(drain);
    (*drain)->step(ReadWhat::everything);
    channel.control(0).lost[PLUMB_LOST_TOO_LARGE] = 7; /* after the last packet */
    ASSERT_TRUE((*drain)->finish());
    read_back();
    EXPECT_EQ(lines_with("test:step"), written);
    uint64_t discarded = 0;
    for (size_t at = 0; (at = err_.find("discarded ", at)) != std::string::npos; at++)
        discarded += std::strtoull(err_.c_str() + at + 10, nullptr, 10);
    EXPECT_EQ(discarded, 1000 - written + 7) << err_;
}

TEST_F(CtfWriterTest, ARingThatOnlyLostIsSeen) {
    ChannelBuilder channel;
    channel.control(1).lost[PLUMB_LOST_CONTENDED] = 5;
    const uint16_t id = channel.add_event("step", {});
    ASSERT_TRUE(channel.write(0, id, 1000, {}));
    drain(channel);
    read_back();
    EXPECT_THAT(err_, HasSubstr("discarded 5 events"));
    EXPECT_EQ(totals_.progress.events_discarded, 5u);
}

TEST_F(CtfWriterTest, StatedumpSaysWhoWroteAndWhatWasLoaded) {
    ChannelBuilder channel;
    channel.add_thread(100, 101, "worker", 2000);
    channel.add_process(100, "server", "/usr/bin/server", 1000);
    channel.add_object(100, 0x7f0000000000, std::string(300, 'p'), 1500);
    drain(channel);
    read_back();
    EXPECT_EQ(err_, "");
    EXPECT_THAT(out_, HasSubstr("plumb_statedump:process: { vtid = 100 }, { pid = 100, ppid = 1, uid = 1000, "
                                "name = \"server\", executable = \"/usr/bin/server\" }"));
    EXPECT_THAT(
        out_,
        HasSubstr("plumb_statedump:thread: { vtid = 101 }, { pid = 100, tid = 101, name = \"worker\" }"));
    EXPECT_THAT(out_, HasSubstr("base = 0x7F0000000000, size = 4096, build_id = "
                                "\"000102030405060708090a0b0c0d0e0f10111213\", path = \"" +
                                std::string(300, 'p')));
    EXPECT_EQ(totals_.threads, 1u);
    EXPECT_EQ(totals_.processes.at(0).name, "server");
}

TEST_F(CtfWriterTest, EntriesOfOneMomentKeepTheirOrder) {
    ChannelBuilder channel;
    channel.add_process(100, "shell", "/bin/sh", 1000);
    channel.add_process(100, "server", "/usr/bin/server", 1000); /* after exec */
    drain(channel);
    ASSERT_EQ(totals_.processes.size(), 1u);
    EXPECT_EQ(totals_.processes[0].name, "server");
    read_back();
    EXPECT_LT(out_.find("name = \"shell\""), out_.find("name = \"server\""));
}

TEST_F(CtfWriterTest, StatedumpSaysWhatThreadsOfOtherNamespacesCallThemselves) {
    ChannelBuilder channel;
    channel.header().namespaces[1] = 4026531999;
    constexpr uint32_t process = 1u << PLUMB_TAG_SHIFT | 7, thread = 1u << PLUMB_TAG_SHIFT | 9;
    channel.add_process(process, "server", "/usr/bin/server", 1000);
    channel.add_thread(process, thread, "worker", 2000);
    channel.add_thread(100, 101, "ours", 3000);
    drain(channel);
    read_back();
    EXPECT_EQ(err_, "");
    WriterNumbers numbers = WriterNumbers::of_dead(&channel.header());
    const uint32_t shown = numbers.process(process, 1), worker = numbers.thread(process, thread, 1);
    EXPECT_THAT(out_,
                HasSubstr(fmt::format("{{ pid = {}, tid = {}, vpid = 7, vtid = 7, pid_ns = 4026531999 }}",
                                      shown, shown)));
    EXPECT_THAT(out_,
                HasSubstr(fmt::format("{{ pid = {}, tid = {}, vpid = 7, vtid = 9, pid_ns = 4026531999 }}",
                                      shown, worker)));
    EXPECT_EQ(lines_with("plumb_statedump:namespace"), 2u);
}

TEST_F(CtfWriterTest, MetadataSaysWhereAnEventStandsInTheSource) {
    ChannelBuilder channel;
    ASSERT_NE(channel.add_event("placed", {}), 0u);
    drain(channel);
    std::string metadata;
    for (const auto& file : std::filesystem::recursive_directory_iterator(directory()))
        if (file.path().filename() == "metadata") metadata += file_content(file.path());
    EXPECT_THAT(metadata, HasSubstr("/* some/file.c:12 */\nevent {\n    name = \"test:placed\""));
    EXPECT_THAT(metadata, Not(HasSubstr("/* :0 */"))) << "events of Plumb's own stand nowhere";
}

TEST_F(CtfWriterTest, MetadataSaysWhereAndByWhatItWasWritten) {
    ChannelBuilder channel;
    drain(channel);
    const auto metadata = tsdl::parse(file_content(directory() + "/ust/metadata"));
    ASSERT_TRUE(metadata) << metadata.error().message();
    utsname system{};
    ::uname(&system);
    EXPECT_EQ(metadata->environment_text("hostname"), "here");
    EXPECT_EQ(metadata->environment_text("sysname"), system.sysname);
    EXPECT_EQ(metadata->environment_text("kernel_release"), system.release);
    EXPECT_EQ(metadata->environment_text("kernel_version"), system.version);
    EXPECT_EQ(metadata->environment_text("machine"), system.machine);
    EXPECT_EQ(metadata->environment_text("domain"), "ust");
    EXPECT_EQ(metadata->environment_text("tracer_name"), "plumb");
    EXPECT_EQ(metadata->environment_text("architecture_bit_width"), "64");
}

TEST_F(CtfWriterTest, AnUnfinishedTraceIsReadable) {
    ChannelBuilder channel;
    const uint16_t first = channel.add_event("first", {});
    ASSERT_TRUE(channel.write(0, first, 1000, {}));
    auto drain = drain_dead_channel(channel.bytes(), options());
    ASSERT_TRUE(drain);
    read_back(); /* nothing drained yet */
    EXPECT_EQ(err_, "");
    (*drain)->step(ReadWhat::everything);
    const uint16_t second = channel.add_event("second", {});
    ASSERT_TRUE(channel.write(0, second, 1001, {}));
    (*drain)->step(ReadWhat::everything);
    read_back(); /* no finish() */
    EXPECT_EQ(err_, "");
    EXPECT_EQ(lines_with("test:second"), 1u);
}

TEST_F(CtfWriterTest, TimestampsComeOutAsWallClock) {
    ChannelBuilder channel;
    channel.header().clock.mode = PLUMB_CLOCK_TSC;
    channel.header().clock.frequency_hz = 2'500'000'000;
    channel.header().clock.mult = 3435973837; /* 0.4 ns */
    channel.header().clock.shift = 33;
    channel.header().clock.base_cycles = 5'000'000'000;
    channel.header().clock.base_monotonic_ns = 77'000'000'123;
    channel.header().clock.realtime_offset_ns = 1'700'000'000'000'000'000;
    const uint16_t id = channel.add_event("tick", {});
    ASSERT_TRUE(channel.write(0, id, 5'000'000'000, {}));
    ASSERT_TRUE(channel.write(0, id, 7'500'000'000, {})); /* one second later */
    drain(channel);
    read_back("--clock-seconds");
    EXPECT_EQ(err_, "");
    EXPECT_THAT(out_, HasSubstr("[1700000077.000000123]"));
    EXPECT_THAT(out_, HasSubstr("[1700000078.000000123]"));
}

TEST_F(CtfWriterTest, OverwrittenSubbuffersAreAGapOfPackets) {
    BuilderConfig config;
    config.mode = PLUMB_MODE_OVERWRITE;
    ChannelBuilder channel(config);
    const uint16_t id = channel.add_event("step", {test::integer("n", 8)});
    auto drain = drain_dead_channel(channel.bytes(), options());
    ASSERT_TRUE(drain);
    ASSERT_TRUE(channel.write(0, id, 1, Payload().put(uint64_t{0}).bytes()));
    (*drain)->step(ReadWhat::everything);
    for (uint64_t i = 1; i < 2000; i++)
        ASSERT_TRUE(channel.write(0, id, 1 + i, Payload().put(i).bytes()));
    ASSERT_TRUE((*drain)->finish());
    const DrainTotals totals = (*drain)->totals();
    read_back();
    EXPECT_THAT(err_, HasSubstr("discarded 8 packets")) << log_;
    /* 170 records a sub-buffer: 2000 end in the 12th, so the window holds the 9th to the 12th; of the 8
     * before it only record 0 was read. */
    EXPECT_EQ(totals.subbufs_lost.at(0).count, 8u);
    EXPECT_EQ(totals.progress.events, 1u + 2000 - 8 * 170);
    EXPECT_EQ(lines_with("n = 1999 "), 1u);
}

TEST_F(CtfWriterTest, AFullDiskCostsPacketsButNotTheTrace) {
    ChannelBuilder channel;
    const uint16_t id = channel.add_event("step", {test::integer("n", 8)});
    ASSERT_TRUE(channel.write(0, id, 1, Payload().put(uint64_t{0}).bytes()));
    auto drain = drain_dead_channel(channel.bytes(), options());
    ASSERT_TRUE(drain);
    (*drain)->step(ReadWhat::everything);

    const std::string device = directory() + "/ust/ring_1"; /* what ring 1 writes to is always full */
    std::filesystem::create_symlink("/dev/full", device);
    ASSERT_TRUE(channel.write(1, id, 2, Payload().put(uint64_t{1}).bytes()));
    ASSERT_TRUE(channel.write(1, id, 3, Payload().put(uint64_t{2}).bytes()));
    (*drain)->step(ReadWhat::everything);
    std::filesystem::remove(device);
    ASSERT_TRUE(channel.write(1, id, 4, Payload().put(uint64_t{3}).bytes()));

    const Status finished = (*drain)->finish();
    EXPECT_FALSE(finished) << "an incomplete trace must be said";
    const DrainTotals totals = (*drain)->totals();
    EXPECT_EQ(totals.events_lost.at(0).name, "not_written");
    EXPECT_EQ(totals.events_lost.at(0).count, 2u);
    EXPECT_EQ(totals.events.at(0).count, 2u);
    read_back();
    EXPECT_EQ(lines_with("test:step"), 2u);
    EXPECT_THAT(err_, HasSubstr("discarded 2 events"));
}

TEST_F(CtfWriterTest, AKernelStatedumpNeverGoesBack) {
    TraceIdentity identity;
    identity.domain = "kernel";
    auto writer = CtfWriter::create(directory(), identity, 1, 0);
    ASSERT_TRUE(writer) << writer.error().message();
    const auto write = [&](uint64_t first, uint64_t second) {
        const auto records = encode_named_threads({{first, 1, 1, "first"}, {second, 2, 2, "second"}});
        EXPECT_TRUE((*writer)->write_kernel_statedump(records));
    };
    write(1000, 2000);
    write(500, 1500);
    write(1700, 3000);
    EXPECT_THAT(test::kernel_statedump_times(directory() + "/kernel/statedump"),
                testing::ElementsAre(1000, 2000, 2000, 2000, 2000, 3000));
}

/* Keeps what it is given as a stream file. */
class KeepingCarrier : public PacketCarrier {
public:
    explicit KeepingCarrier(std::string path) : path_(std::move(path)) {}
    size_t records_max() const override { return 4096; }
    Status send_packet(const std::string& stream, std::span<const std::byte> start,
                       std::span<const std::byte> records, size_t padding_bytes) override {
        EXPECT_EQ(stream, "kernel/statedump");
        EXPECT_LE(records.size(), records_max());
        std::ofstream file(path_, std::ios::app);
        for (const auto part : {start, records})
            file.write(reinterpret_cast<const char*>(part.data()), static_cast<std::streamsize>(part.size()));
        file << std::string(padding_bytes, '\0');
        packets++;
        return ok();
    }
    Status send_begin(const std::string&, uint64_t) override { return ok(); }
    Status send_file(const std::string&, std::string_view) override { return ok(); }
    int packets = 0;

private:
    std::string path_;
};

/* What is sent is lost packet by packet, and the receiver takes none that is larger than any record. */
TEST_F(CtfWriterTest, ACarrierIsGivenAKernelStatedumpInSmallPackets) {
    TraceIdentity identity;
    identity.domain = "kernel";
    const auto carrier = std::make_shared<KeepingCarrier>(root_ + "/sent");
    auto writer = CtfWriter::create(directory(), identity, 1, 0, carrier);
    ASSERT_TRUE(writer) << writer.error().message();
    std::vector<NamedThread> threads;
    std::vector<uint64_t> times;
    for (uint32_t i = 1; i <= 1000; i++) {
        threads.push_back({i, i, i, "a thread"});
        times.push_back(i);
    }
    EXPECT_TRUE((*writer)->write_kernel_statedump(encode_named_threads(threads)));
    EXPECT_EQ(test::kernel_statedump_times(root_ + "/sent"), times);
    EXPECT_GT(carrier->packets, 5);
    EXPECT_FALSE(std::filesystem::exists(directory() + "/kernel/statedump"));
}

} // namespace
} // namespace plumb
