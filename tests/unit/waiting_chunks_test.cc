// cmake-once
// Chunks that wait for room: what the next worker knows of them, and what that takes.
#include "consumerd/daemon/waiting_chunks.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

namespace plumb::test {
namespace {

class WaitingChunksTest : public testing::Test {
protected:
    WaitingChunksTest() {
        char name[] = "/tmp/plumb-waiting-XXXXXX";
        directory = ::mkdtemp(name);
        path = directory + "/web.waiting-chunks";
    }
    ~WaitingChunksTest() override { std::filesystem::remove_all(directory); }

    static WaitingChunk chunk(std::uint64_t number, std::uint64_t lost, std::size_t processes = 0) {
        WaitingChunk made;
        made.folder = fmt::format("chunk-{:08}-20240131T235959+0100.part", number);
        made.since = number;
        made.began = 100 * number;
        made.ended = made.began + 99;
        made.clock.frequency_hz = 1'000'000'000;
        made.clock.realtime_offset_ns = -5;
        made.why = "No space left on device.";
        made.summary = {{"chunk", {{"number", number}}},
                        {"complete", lost == 0},
                        {"problems", {fmt::format("of {}", number)}},
                        {"events", 10},
                        {"events_by_name", {{"shop:order", 10}}},
                        {"events_lost", lost},
                        {"events_lost_by_cause", {{"not_written", lost}}},
                        {"processes", Json::array()}};
        for (std::size_t i = 0; i < processes; i++)
            made.summary["processes"].push_back({{"pid", i}, {"name", "a-program"}});
        return made;
    }
    std::deque<WaitingChunk> loaded(const std::string& output = "/trace") {
        WaitingChunks next(path, output, limit);
        EXPECT_TRUE(next.load());
        return next.all();
    }
    std::size_t stored_bytes() const { return std::filesystem::file_size(path); }

    std::string directory, path;
    std::size_t limit = 16384;
};

TEST_F(WaitingChunksTest, are_known_to_the_next_worker) {
    WaitingChunks waiting(path, "/trace", limit);
    ASSERT_TRUE(waiting.add(chunk(3, 7, 2)));
    ASSERT_TRUE(waiting.add(chunk(5, 0)));
    const auto found = loaded();
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].folder, chunk(3, 7).folder);
    EXPECT_EQ(found[0].since, 3u);
    EXPECT_EQ(found[0].summary, chunk(3, 7, 2).summary);
    EXPECT_EQ(found[0].events_not_written(), 7u);
    EXPECT_EQ(found[0].clock.frequency_hz, 1'000'000'000u);
    EXPECT_EQ(found[0].clock.realtime_offset_ns, -5);
    EXPECT_EQ(found[1].ended, 599u);
    EXPECT_TRUE(loaded("/another").empty());
}

TEST_F(WaitingChunksTest, go_when_they_are_finished) {
    WaitingChunks waiting(path, "/trace", limit);
    ASSERT_TRUE(waiting.finish([](const WaitingChunk&) { return ok(); })); /* there are none */
    for (const std::uint64_t number : {1, 2, 3})
        ASSERT_TRUE(waiting.add(chunk(number, number)));
    ASSERT_TRUE(waiting.finish([](const WaitingChunk& each) -> Status {
        if (each.number() == 1) return ok();
        if (each.number() == 2) return Error("It was removed.").as(ENOENT);
        return Error("Still no room.").as(ENOSPC);
    }));
    const auto found = loaded();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].number(), 3u);
    EXPECT_EQ(waiting.all()[0].why, "Still no room.");
    EXPECT_FALSE(waiting.has(chunk(1, 0).folder));
    EXPECT_TRUE(waiting.has(chunk(3, 0).folder));
    ASSERT_TRUE(waiting.finish([](const WaitingChunk&) { return ok(); }));
    EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(WaitingChunksTest, are_shortened_where_they_do_not_fit) {
    WaitingChunks waiting(path, "/trace", limit);
    ASSERT_TRUE(waiting.add(chunk(1, 7, 10'000)));
    const auto found = loaded();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].count("processes_not_named"), 10'000u);
    EXPECT_EQ(found[0].count("events"), 10u);
    EXPECT_EQ(found[0].events_not_written(), 7u);
    EXPECT_LT(stored_bytes(), limit);
}

TEST_F(WaitingChunksTest, are_summed_up_where_they_do_not_fit_even_so) {
    WaitingChunks waiting(path, "/trace", limit);
    constexpr std::uint64_t chunks = 200;
    for (std::uint64_t number = 1; number <= chunks; number++)
        ASSERT_TRUE(waiting.add(chunk(number, 3)));
    EXPECT_LT(stored_bytes(), 2 * limit);
    const auto found = loaded();
    ASSERT_GT(found.size(), 2u);
    std::uint64_t next = 1, events = 0, lost = 0, not_written = 0;
    for (const WaitingChunk& each : found) {
        EXPECT_EQ(each.since, next);
        next += each.stands_for();
        events += each.count("events");
        lost += each.count("events_lost");
        not_written += each.events_not_written();
        EXPECT_EQ(each.summary["complete"], false);
    }
    EXPECT_EQ(next, chunks + 1);
    EXPECT_EQ(events, 10 * chunks);
    EXPECT_EQ(lost, 3 * chunks);
    EXPECT_EQ(not_written, 3 * chunks);
    EXPECT_GT(found.back().stands_for(), chunks / 2);
    EXPECT_EQ(found.back().folder, chunk(chunks, 0).folder);
    EXPECT_EQ(found.back().began, 100 * found.back().since);
    EXPECT_LE(found.back().summary["problems"].size(), 8u);
    EXPECT_TRUE(waiting.has(chunk(chunks - 1, 0).folder));
    EXPECT_FALSE(waiting.has(chunk(chunks + 1, 0).folder));
}

TEST_F(WaitingChunksTest, what_can_not_be_believed_is_said) {
    const auto number_of_load = [&](const std::string& content) {
        std::ofstream(path) << content;
        WaitingChunks waiting(path, "/trace", limit);
        const Status loaded = waiting.load();
        EXPECT_TRUE(waiting.is_empty());
        return loaded ? 0 : loaded.error().number();
    };
    EXPECT_EQ(number_of_load(""), EBADMSG);
    EXPECT_EQ(number_of_load("[]"), EBADMSG);
    EXPECT_EQ(number_of_load(R"({"output": "/trace"})"), EBADMSG);
    EXPECT_EQ(number_of_load(R"({"output": "/trace", "chunks": [7]})"), EBADMSG);
    EXPECT_EQ(number_of_load(R"({"output": "/trace", "chunks": [{"folder": "../x.part", "since": 1}]})"),
              EBADMSG);
    EXPECT_EQ(number_of_load(
                  R"({"output": "/trace", "chunks": [{"folder": "chunk-00000003-20240131T235959+0100.part",
                                 "since": 4, "clock": {}, "summary": {}}]})"),
              EBADMSG);
    EXPECT_EQ(number_of_load(
                  R"({"output": "/trace", "chunks": [{"folder": "chunk-00000003-20240131T235959+0100.part",
                                 "since": 3, "clock": {}, "summary": []}]})"),
              EBADMSG);
    EXPECT_EQ(number_of_load(std::string(3 * limit, ' ')), EBADMSG);
    EXPECT_EQ(number_of_load(R"({"output": "/another", "chunks": 7})"), 0);
}

TEST_F(WaitingChunksTest, that_can_not_be_kept_are_known_here) {
    WaitingChunks waiting(directory + "/nowhere/web.waiting-chunks", "/trace", limit);
    EXPECT_FALSE(waiting.add(chunk(1, 7)));
    EXPECT_TRUE(waiting.has(chunk(1, 0).folder));
}

} // namespace
} // namespace plumb::test
