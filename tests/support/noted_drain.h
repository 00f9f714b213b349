// A drain of a channel that a test fills, and a sink that notes what it was given.
#ifndef PLUMB_TESTS_SUPPORT_NOTED_DRAIN_H
#define PLUMB_TESTS_SUPPORT_NOTED_DRAIN_H

#include "consumerd/drain/channel_source.h"
#include "tests/support/channel_builder.h"
#include "tests/support/idle_sink.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <vector>

namespace plumb::test {

class DrainTest : public testing::Test {
protected:
    void SetUp() override {
        char pattern[] = "/tmp/plumb-drain-test-XXXXXX";
        ASSERT_NE(mkdtemp(pattern), nullptr);
        root_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    std::unique_ptr<Drain> live(ChannelBuilder& channel, ChannelDrainOptions options = {}) {
        options.directory = root_ + "/trace";
        auto calibration = ClockCalibration::start(PLUMB_CLOCK_MONOTONIC);
        auto drain = drain_live_channel(channel.bytes(), std::move(*calibration), std::move(options));
        EXPECT_TRUE(drain) << drain.error().message();
        return drain ? std::move(*drain) : nullptr;
    }

    std::string trace() const { return root_ + "/trace"; }

private:
    std::string root_;
};

inline uint64_t now() {
    return read_clock(PLUMB_CLOCK_MONOTONIC);
}

/* Notes which threads it was told of, and which wrote records before that. */
class NotingSink : public IdleSink {
public:
    Status write_records(uint32_t, const Piece& piece, uint64_t, uint64_t) override {
        if (before_records) before_records();
        if (records_fail) return Error("There is no room.");
        if (has_no_memory) throw std::bad_alloc();
        for_each_record(piece, [this](const plumb_record& record) {
            (known.contains(record.thread_id) ? named : nameless).insert(record.thread_id);
        });
        return ok();
    }
    Status write_entries(std::vector<ChannelEntry>& entries) override {
        if (is_full) return Error("There is no room.");
        if (has_no_memory_for_names) throw std::bad_alloc();
        for (const ChannelEntry& entry : entries)
            if (entry.type == PLUMB_ENTRY_THREAD) known.insert(entry.thread_id);
        if (while_writing) while_writing();
        told.push_back(entries);
        if (told.size() == 1) first_told = read_clock(PLUMB_CLOCK_MONOTONIC);
        return ok();
    }
    Status close(uint32_t) override { return close_fails ? Status(Error("There was no room.")) : ok(); }

    std::function<void()> while_writing, before_records;
    bool is_full = false;
    bool close_fails = false;
    bool records_fail = false;
    bool has_no_memory = false, has_no_memory_for_names = false;
    std::set<uint32_t> known, named, nameless;
    std::vector<std::vector<ChannelEntry>> told;
    uint64_t first_told = 0; /* when */
};

struct NotedDrain {
    std::unique_ptr<Drain> drain;
    NotingSink* sink;
};

inline NotedDrain noted(ChannelBuilder& channel, std::shared_ptr<NamesFound> names_found = nullptr) {
    auto reader = ChannelReader::open(channel.bytes(), {channel.bytes().data(), {}});
    auto calibration = ClockCalibration::start(PLUMB_CLOCK_MONOTONIC);
    auto source =
        std::make_unique<ChannelSource>(channel.bytes().data(), std::move(*reader), std::move(*calibration),
                                        std::vector<RingPlace>{}, 0, std::move(names_found));
    auto sink = std::make_unique<NotingSink>();
    NotingSink* const noting = sink.get();
    return {std::move(*Drain::make(std::move(source), std::move(sink), {})), noting};
}

inline constexpr uint32_t process = 4'000'001; /* no process has such a number */

inline void write_as(ChannelBuilder& channel, uint16_t id, uint32_t thread, int records = 1) {
    channel.add_process(process, "program", "/bin/program", now());
    channel.add_thread(process, thread, "thread", now());
    for (int i = 0; i < records; i++)
        ASSERT_TRUE(channel.write(0, id, now(), Payload().put(uint64_t{1}).bytes(), thread));
}

} // namespace plumb::test

#endif
