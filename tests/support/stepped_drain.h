// A drain whose source and sink note what they are asked for, one line for each step, and fail where a test says so.
#pragma once

#include "consumerd/drain/drain.h"
#include "tests/support/idle_sink.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plumb::test {

using Log = std::vector<std::string>;

/* Records of 24 bytes each. */
inline std::vector<std::byte> records(uint16_t id, size_t count) {
    std::vector<std::byte> bytes(count * 24);
    for (size_t i = 0; i < count; i++) {
        const plumb_record record{1000 + i, id, 24, 1};
        std::memcpy(bytes.data() + i * 24, &record, sizeof(record));
    }
    return bytes;
}

class StepSource : public Source {
public:
    explicit StepSource(Log& log) : log_(log), pieces(2) {}
    const std::vector<uint32_t>& rings() const override { return numbers_; }
    const std::deque<ChannelEvent>& events() const override { return described; }
    plumb_clock_page clock_page() const override { return {}; }
    uint64_t now() const override { return ++time; }
    bool is_being_written() const override { return is_live; }
    std::optional<Piece> next(size_t ring, ReadWhat) override {
        if (pieces[ring].empty()) return {};
        bytes_ = std::move(pieces[ring].front());
        pieces[ring].pop_front();
        Piece piece;
        piece.records = bytes_;
        piece.record_count = bytes_.size() / 24;
        piece.first_timestamp = 1000;
        piece.last_timestamp = 999 + piece.record_count;
        piece.lost_events = lost[ring].events;
        piece.lost_subbufs = lost[ring].subbufs;
        for_each_record(piece, [this](const plumb_record& record) { counts_[record.event_id]++; });
        return piece;
    }
    Status introduce_writers(Sink&) override { return say("introduce"); }
    std::vector<uint64_t>& counts() override { return counts_; }
    RingLosses losses(size_t ring) const override { return lost[ring]; }
    void hand_back(size_t ring) override { (void)say(fmt::format("hand back {}", ring)); }
    void give_up(size_t ring, uint64_t count) override {
        (void)say(fmt::format("give up {} of {}", count, ring));
    }
    bool leave(size_t ring) override {
        (void)say(fmt::format("leave {}", ring));
        return has_damage;
    }
    Status begin(Sink&) override { return say("begin"); }
    Status begin_turn(Sink&) override { return say("begin turn"); }
    Status end_turn(Sink&) override { return say("end turn"); }
    void begin_end(const plumb_clock_page* clock) override {
        (void)say(clock != nullptr ? "begin end by clock" : "begin end");
    }
    uint64_t last_turns() const override { return turns; }
    Status end(Sink&) override { return say("end"); }
    uint32_t look() override { return 5; }
    void wait(uint32_t seen, bool progress, uint64_t until_ns) override {
        EXPECT_EQ(seen, 5u);
        if (on_wait) on_wait(progress, until_ns);
        if (!progress) ::usleep(1000);
    }
    void wake() override { wakes++; }
    void add_to(DrainTotals& totals, uint64_t not_written) const override {
        add_if_any(totals.events_lost, "not_written", not_written);
    }

private:
    Status say(const std::string& what) {
        log_.push_back(what);
        return what == fails ? Status(Error("The source can not {}.", what)) : ok();
    }
    Log& log_;
    std::vector<uint32_t> numbers_{7, 3};
    std::vector<std::byte> bytes_;
    std::vector<uint64_t> counts_ = std::vector<uint64_t>(65536);

public:
    mutable uint64_t time = 0;
    std::deque<ChannelEvent> described;
    std::vector<std::deque<std::vector<std::byte>>> pieces;
    RingLosses lost[2]{};
    bool is_live = false, has_damage = false;
    uint64_t turns = 3;
    std::string fails;
    std::function<void(bool, uint64_t)> on_wait;
    std::atomic<int> wakes = 0;
};

class StepSink : public IdleSink {
public:
    explicit StepSink(Log& log) : log_(log) {}
    Status write_metadata(const plumb_clock_page&, const std::deque<ChannelEvent>& events) override {
        return say(fmt::format("metadata of {}", events.size()));
    }
    void began(uint64_t timestamp) override { (void)say(fmt::format("began {}", timestamp)); }
    size_t records_max() const override { return records_limit; }
    Status write_records(uint32_t ring, const Piece& piece, uint64_t discarded, uint64_t packets) override {
        return say(
            fmt::format("write {} to {}, lost {} and {}", piece.record_count, ring, discarded, packets));
    }
    Status write_losses(uint32_t ring, uint64_t discarded, uint64_t packets, uint64_t since,
                        uint64_t timestamp) override {
        return say(
            fmt::format("losses of {}: {} and {}, {} to {}", ring, discarded, packets, since, timestamp));
    }
    Status check() const override { return is_gone ? Status(Error("It was removed.")) : ok(); }
    void begin_end() override { (void)say("sink begins to end"); }
    Status complete(uint64_t timestamp) override { return say(fmt::format("complete {}", timestamp)); }
    Status close(uint32_t ring) override { return say(fmt::format("close {}", ring)); }
    Status close_statedump() override { return say("close statedump"); }
    uint64_t last_timestamp() const override { return last; }
    uint64_t bytes() const override { return 4711; }
    uint64_t packets() const override { return 12; }

private:
    Status say(const std::string& what) {
        log_.push_back(what);
        return fails && what.starts_with(*fails) ? Status(Error::from_errno(ENOSPC, "Could not {}", what))
                                                 : ok();
    }
    Log& log_;

public:
    size_t records_limit = SIZE_MAX;
    uint64_t last = 0;
    bool is_gone = false;
    std::optional<std::string> fails;
};

class DrainSteps : public testing::Test {
protected:
    void make(DrainOptions options = {}) {
        options.directory = "/trace";
        options.log = [this](const std::string& line) { lines.push_back(line); };
        auto of_source = std::make_unique<StepSource>(log);
        auto of_sink = std::make_unique<StepSink>(log);
        source = of_source.get();
        sink = of_sink.get();
        auto made = Drain::make(std::move(of_source), std::move(of_sink), std::move(options));
        ASSERT_TRUE(made) << made.error().message();
        drain = std::move(*made);
        EXPECT_THAT(taken(), testing::ElementsAre("metadata of 0"));
    }
    Log taken() { return std::exchange(log, {}); }
    void describe(uint16_t id, const std::string& name) {
        EventDescription event;
        event.name = name;
        source->described.push_back({id, event, {}});
    }
    Log lines;
    Log log;
    StepSource* source = nullptr;
    StepSink* sink = nullptr;
    std::unique_ptr<Drain> drain; /* ends before what it logs to */
};

} // namespace plumb::test
