// cmake-once
/* Which files of a folder are a trace, and what is said of those that are none or may not be read; and in which order the events of
 * several streams come. */
#include "base/trace_folders.h"
#include "tests/support/kernel_like_trace.h"
#include "trace/trace_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace plumb {
namespace {

using namespace test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace fs = std::filesystem;

class TraceFolders : public testing::Test {
protected:
    TraceFolders() {
        char pattern[] = "/tmp/plumb-trace-folders-test-XXXXXX";
        root = ::mkdtemp(pattern);
        ::chmod(root.c_str(), 0755);
    }
    ~TraceFolders() override { fs::remove_all(root); }
    void write(const std::string& path, std::string_view content) const {
        fs::create_directories(fs::path(root + "/" + path).parent_path());
        std::ofstream(root + "/" + path, std::ios::binary) << content;
    }
    /* One event, of this time. */
    void trace(const std::string& folder, uint64_t time_ns, const std::string& stream = "stream") const {
        KernelLikeTrace one;
        one.event(one.add("e", "u8 x;"), time_ns, 1, Payload().add(uint8_t{1}));
        const Opened made = one.made();
        write(folder + "/metadata", made.metadata);
        write(folder + "/" + stream,
              {reinterpret_cast<const char*>(made.streams[0].data()), made.streams[0].size()});
    }
    std::string times(const std::string& path = "") const {
        Result<TraceReader> reader = TraceReader::open(path.empty() ? root : path);
        if (!reader) return reader.error().message();
        std::string all;
        while (const Event* const event = reader->next())
            all += fmt::format("{} ", event->time_ns);
        return all;
    }
    std::string root;
};

TEST(TraceFolderNames, AreThoseThatRecordersGive) {
    for (const char* name : {"ust", "kernel", "ust-0", "ust-65534", "ust-0-shm", "ust-1001-module",
                             "ust-0-in-4026532191", "ust-0-in-4026532191-2", "ust-65534-2", "ust-0-shm-12"})
        EXPECT_TRUE(is_domain_folder(name)) << name;
    for (const char* name : {"",
                             "ust-",
                             "usta",
                             "ust-x",
                             "ust-shm",
                             "ust-1-",
                             "ust-1-shm-",
                             "ust-1--shm",
                             "ust-1--2",
                             "ust-1-2-",
                             "ust-1-2-3",
                             "ust-1-2-shm",
                             "ust-1-shm-x",
                             "ust-1-shm-2-3",
                             "ust-1shm",
                             "ust-1-SHM",
                             "ust-1-shm/x",
                             "-1-shm",
                             "kernel-1-shm",
                             "ust--shm",
                             "ust-0-in-",
                             "ust-0-in-x",
                             "ust-0-ON-7",
                             "ust-in-7",
                             "ust-0-in-7-",
                             "ust-0-in-7-x",
                             "ust-0-in-7-2-3",
                             "snapshot-1"})
        EXPECT_FALSE(is_domain_folder(name)) << name;
}

TEST_F(TraceFolders, AreReadWhereverATraceIsBelow) {
    trace("b", 2);
    trace("a", 1);
    trace("a/deep/er", 3);
    trace("", 4);
    EXPECT_EQ(times(), "1 2 3 4 ");
    EXPECT_EQ(times(root + "/a"), "1 3 ");
    Result<TraceReader> reader = TraceReader::open(root);
    EXPECT_THAT(reader->folders(), ElementsAre(root, root + "/a", root + "/a/deep/er", root + "/b"));
    EXPECT_THAT(reader->aside(), ElementsAre());
    EXPECT_THAT(reader->closed(), ElementsAre());
    EXPECT_EQ(reader->start_ns(), 1);
    EXPECT_EQ(reader->streams().size(), 4u);
    EXPECT_EQ(reader->streams()[1]->name(), root + "/a/stream");
}

TEST_F(TraceFolders, HoldFilesThatAreNoStreams) {
    trace("t", 5);
    trace("t", 6, "another");
    write("t/.hidden", "nothing");
    write("t/empty", "");
    write("t/folder/file", "nothing");
    ASSERT_EQ(::mkfifo((root + "/t/fifo").c_str(), 0600), 0);
    fs::create_symlink("another", root + "/t/link");
    EXPECT_EQ(times(), "5 6 6 ") << "a link to a file is one";
    fs::create_directories(root + "/u/metadata");
    fs::create_directory_symlink(root + "/t", root + "/same");
    EXPECT_EQ(times(), "5 6 6 ") << "one to a folder is not followed, and a folder is no metadata";
    EXPECT_THAT(times(root + "/u"),
                StartsWith(root + "/u holds no trace: there is no file `metadata` in it or below it."));
    EXPECT_EQ(times(root + "/same"), "5 6 6 ") << "who names it means it";
}

TEST_F(TraceFolders, AreLookedThroughSoDeepAndNoDeeper) {
    std::string path = "d";
    for (int depth = 1; depth < 17; depth++)
        path += "/d";
    trace(path, 7);
    EXPECT_EQ(times(), "7 ");
    fs::rename(root + "/d", root + "/e");
    fs::create_directories(root + "/d");
    fs::rename(root + "/e", root + "/d/d");
    EXPECT_THAT(times(), HasSubstr("holds no trace"));
}

TEST_F(TraceFolders, SayWhyThereIsNoTrace) {
    EXPECT_THAT(TraceReader::open("").error().message(),
                StartsWith("The name of the trace's folder is empty."));
    EXPECT_EQ(times(root + "/none"), "There is no folder " + root + "/none.");
    write("file", "x");
    EXPECT_THAT(times(root + "/file"), StartsWith(root + "/file is not a folder; a trace is one."));
    EXPECT_THAT(times(),
                StartsWith(root + " holds no trace: there is no file `metadata` in it or below it."));
    write(".replaced-2/ust/metadata", "x");
    write(".replaced-1/ust/metadata", "x");
    EXPECT_THAT(times(), StartsWith(root + " holds no trace but an old one that was put aside, " + root +
                                    "/.replaced-1."));
    write("bad/metadata", "env {");
    EXPECT_THAT(times(), StartsWith("Could not understand " + root + "/bad/metadata"));
    EXPECT_THAT(times(),
                HasSubstr("The metadata, line 1: the end of the text stands where a name should be."));
}

/* What its process had open of the network is not there any more. */
TEST_F(TraceFolders, MayHaveOneThatCanNotBeListed) {
    const pid_t zombie = ::fork();
    if (zombie == 0) ::_exit(0);
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(zombie), &info, WEXITED | WNOWAIT), 0);
    const std::string folder = fmt::format("/proc/{}", zombie);
    EXPECT_THAT(times(folder), StartsWith(folder + " holds no trace"));
    ::waitpid(zombie, nullptr, 0);
}

/* Whatever its owner lets others read. */
TEST_F(TraceFolders, SayWhatMayNotBeRead) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    constexpr uid_t nobody = 65534, owner = 12345;
    trace("open", 1);
    trace("closed", 2);
    trace("also", 3);
    ASSERT_EQ(::chown((root + "/closed").c_str(), owner, 0), 0);
    ::chmod((root + "/closed").c_str(), 0700);
    ::chmod((root + "/also").c_str(), 0711);
    const auto as_nobody = [&](auto look) {
        ASSERT_EQ(::seteuid(nobody), 0);
        look();
        ASSERT_EQ(::seteuid(0), 0);
    };
    as_nobody([&] {
        Result<TraceReader> reader = TraceReader::open(root);
        ASSERT_TRUE(reader) << reader.error().message();
        EXPECT_THAT(reader->closed(), ElementsAre(root + "/also", root + "/closed"));
        EXPECT_THAT(reader->folders(), ElementsAre(root + "/open"));
        EXPECT_EQ(times(root + "/closed"),
                  "Could not read " + root +
                      "/closed: Permission denied. Read it as its owner, user 12345, "
                      "or as root (sudo).");
        EXPECT_EQ(times(root + "/also"),
                  "Could not read " + root + "/also: Permission denied. Read it as root (sudo).");
        EXPECT_EQ(times(root + "/closed/below"),
                  "Could not look at " + root +
                      "/closed/below: Permission denied. A folder above it may "
                      "not be entered: read it as who may, or as root (sudo).");
    });
    ::chmod((root + "/open/stream").c_str(), 0600);
    as_nobody([&] {
        EXPECT_THAT(times(root + "/open"),
                    StartsWith("Could not open " + root + "/open/stream: Permission denied"));
    });
    EXPECT_EQ(times(), "1 2 3 ");
}

/* Of equal times, what tells names comes first, and then one stream after the other. */
TEST(StreamsOfATrace, AreMergedByTimeAndThenByTheirOrder) {
    std::vector<SampleStream> events;
    SampleMetadata sample;
    const uint16_t id = sample.add("app", "n", {integer_field("n", 1)});
    for (uint32_t cpu = 0; cpu < 9; cpu++) {
        events.emplace_back(ctf_stream_records, cpu);
        for (uint64_t i = 0; i < 3; i++)
            events.back().event(id, 100 + i * (cpu % 3), cpu, Payload().add(uint8_t{1}));
        events.back().end_packet();
    }
    SampleStream who(ctf_stream_statedump, 0);
    for (const uint64_t at : {90, 100, 102, 200})
        who.event(ctf_statedump_thread, at, 77, Payload().add(1u).add(77u).string("x"));
    who.end_packet();
    Opened trace{sample.text(), {}};
    for (SampleStream& stream : events)
        trace.streams.push_back(stream.bytes());
    trace.streams.push_back(who.bytes());
    Result<TraceReader> reader = trace.open();
    ASSERT_TRUE(reader) << reader.error().message();
    EXPECT_EQ(reader->start_ns(), 100) << "the statedump begins before";
    std::string all;
    while (const Event* const event = reader->next())
        all += fmt::format("{}@{} ", event->thread_id, event->time_ns);
    EXPECT_EQ(reader->next(), nullptr);
    EXPECT_EQ(all, "77@90 77@100 0@100 0@100 0@100 1@100 2@100 3@100 3@100 3@100 4@100 5@100 6@100 6@100 "
                   "6@100 7@100 8@100 "
                   "1@101 4@101 7@101 77@102 1@102 2@102 4@102 5@102 7@102 8@102 2@104 5@104 8@104 77@200 ");
    trace.streams = {who.bytes()};
    Result<TraceReader> only_names = trace.open();
    EXPECT_EQ(only_names->start_ns(), 90);
    trace.streams.clear();
    Result<TraceReader> nothing = trace.open();
    EXPECT_EQ(nothing->start_ns(), 0);
    EXPECT_EQ(nothing->next(), nullptr);
    EXPECT_EQ(nothing->reading_threads(), 1u);
}

TEST(StreamsOfATrace, AreEachReadOnceTheLargestFirst) {
    KernelLikeTrace made;
    const uint32_t number = made.add("e", "u8 x;");
    for (uint64_t stream = 0; stream < 6; stream++) {
        for (uint64_t i = 0; i <= stream % 4; i++)
            made.event(number, 100 * stream + i, 1, Payload().add(uint8_t{1}));
        made.end_packet();
        made.end_stream();
    }
    const Opened trace = made.made();
    Result<TraceReader> reader = trace.open();
    std::mutex mutex;
    std::map<std::string, int> events;
    reader->read_streams([&](StreamReader& stream, unsigned thread) {
        EXPECT_LT(thread, reader->reading_threads());
        int count = 0;
        while (stream.next())
            count++;
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(events.emplace(stream.name(), count).second);
    });
    EXPECT_EQ(events, (std::map<std::string, int>{{"stream 0", 1},
                                                  {"stream 1", 2},
                                                  {"stream 2", 3},
                                                  {"stream 3", 4},
                                                  {"stream 4", 1},
                                                  {"stream 5", 2}}));
    EXPECT_THROW(reader->read_streams([](StreamReader&, unsigned) { throw std::runtime_error("no memory"); }),
                 std::runtime_error);
}

TEST(StreamsOfATrace, SayWhereEventsAreMissing) {
    KernelLikeTrace made;
    const uint32_t number = made.add("e", "u8 x;");
    /* In each stream: packets at these times, and so many events missing until then. */
    const std::vector<std::vector<std::pair<uint64_t, uint64_t>>> streams{
        {{10, 0}, {20, 0}, {30, 1}, {40, 1}, {100, 1}, {110, 2}, {120, 2}},
        {{15, 0}, {25, 2}, {45, 2}},
        {{30, 0}, {40, 0}},
        {{45, 0}, {60, 1}, {70, 1}},
        {{71, 0}, {80, 1}, {90, 1}}};
    for (const auto& packets : streams) {
        for (const auto& [time, discarded] : packets) {
            made.event(number, time, 1, Payload().add(uint8_t{1}));
            made.end_packet(0, discarded);
        }
        made.end_stream();
    }
    const Opened trace = made.made();
    Result<TraceReader> reader = trace.open();
    std::vector<std::string> all;
    for (const StreamLossPlaces& stream : reader->loss_places()) {
        std::string& its = all.emplace_back();
        for (const LossPlace& place : stream.places)
            its += fmt::format("{}..{} ", place.from_ns, place.until_ns);
        EXPECT_TRUE(stream.has(stream.file.data()));
        EXPECT_TRUE(stream.has(&stream.file.back()));
        EXPECT_FALSE(stream.has(stream.file.data() + stream.file.size()));
        EXPECT_FALSE(stream.has(stream.file.data() - 1));
    }
    EXPECT_THAT(all, testing::ElementsAre("20..40 100..120 ", "15..45 ", "45..70 ", "71..90 "));
}

} // namespace
} // namespace plumb
