// Conditions that are changed while threads trace without pause: what fulfils one that stays is recorded, each time and once;
// after a change has been acknowledged, nothing is written by what was before, and all by what is now.
// cmake-link: plumb_inject tp-async-inject
// cmake-timeout: 300
#include "consumerd/control/rule_condition.h"
#include "libtrace/ring/inject.h"
#include "tests/support/private_shm.h"
#include "tests/support/record_reader.h"
#include "tests/support/test_session.h"

#include <plumb/control.h>
#include <plumb/tracepoint.h>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <sched.h>
#include <thread>
#include <unistd.h>
#include <vector>

PLUMB_EVENT(conditions, tick, (u64, number), (u32, writer), (string, name))
PLUMB_EVENT(conditions, other, (u64, number))

using namespace plumb::test;

extern "C" uint32_t plumb_inject_loops[8];

namespace {

constexpr uint32_t writer_count = 4;

std::vector<uint8_t> code_of(const char* text) {
    return *plumb::encode_condition(*plumb::parse_condition(text));
}

// Between the answer and the record, and in the middle of updates, others come first.
void stretch(uint32_t point) {
    static std::atomic<uint32_t> passes;
    using plumb::InjectionPoint;
    const bool is_ours = point == static_cast<uint32_t>(InjectionPoint::condition_held) ||
                         point == static_cast<uint32_t>(InjectionPoint::switched_off);
    if (is_ours && passes++ % 16 == 0) sched_yield();
    if (is_ours && passes % 512 == 0) usleep(500);
}

struct Writer {
    std::atomic<uint64_t> begun = 0, done = 0;
    std::vector<bool> seen; // by number; of the reader
};

// From the first number that was begun behind an acknowledgement to the last that was done before the next change.
struct Window {
    uint64_t first, last;
};
using Windows = std::array<Window, writer_count>;

class Writers {
public:
    explicit Writers(TestChannel& channel)
        : reader_(channel, [this](const SeenRecord& record) { take(record); }) {
        for (uint32_t i = 0; i < writer_count; i++)
            threads_.emplace_back([this, i] { write(i); });
        reading_ = std::thread([this] {
            while (!is_over_) {
                poll();
                usleep(500);
            }
        });
    }
    ~Writers() { stop(); }

    void stop() {
        if (threads_.empty()) return;
        is_stopped_ = true;
        for (std::thread& thread : threads_)
            thread.join();
        threads_.clear();
        is_over_ = true;
        reading_.join();
        reader_.poll();
    }

    // From now on nothing is published but what is wanted.
    void begin(Windows& windows, bool (*is_wanted)(uint64_t)) {
        const std::lock_guard lock(mutex_);
        reader_.poll();
        is_wanted_ = is_wanted;
        for (uint32_t i = 0; i < writer_count; i++)
            windows[i].first = writers_[i].begun + 1;
    }
    void end(Windows& windows) {
        const std::lock_guard lock(mutex_);
        reader_.poll();
        is_wanted_ = nullptr;
        for (uint32_t i = 0; i < writer_count; i++)
            windows[i].last = writers_[i].done;
    }
    bool has(uint32_t writer, uint64_t number) const {
        const std::vector<bool>& seen = writers_[writer].seen;
        return number < seen.size() && seen[number];
    }
    uint64_t last(uint32_t writer) const { return writers_[writer].done; }
    const std::string& complaint() const { return complaint_; }
    const std::vector<std::string>& complaints_of_reader() const { return reader_.complaints(); }

private:
    void poll() {
        const std::lock_guard lock(mutex_);
        reader_.poll();
    }
    void write(uint32_t index) {
        Writer& writer = writers_[index];
        for (uint64_t number = 1; !is_stopped_; number++) {
            writer.begun = number;
            plumb_trace(conditions, tick, number, index, number % 5 == 0 ? "five" : "");
            writer.done = number;
            if (number % 64 == 0) usleep(100);
        }
    }
    void take(const SeenRecord& record) {
        uint64_t number;
        uint32_t writer;
        memcpy(&number, record.payload, sizeof(number));
        memcpy(&writer, record.payload + sizeof(number), sizeof(writer));
        if (writer >= writer_count || number > 1'000'000'000) {
            complaint_ = "a record that nobody wrote";
            return;
        }
        std::vector<bool>& seen = writers_[writer].seen;
        if (seen.size() <= number) seen.resize(number + 100'000);
        if (seen[number]) complaint_ = "twice: " + std::to_string(number);
        if (is_wanted_ != nullptr && !is_wanted_(number))
            complaint_ = "behind its end: " + std::to_string(number);
        seen[number] = true;
    }

    std::array<Writer, writer_count> writers_;
    RecordReader reader_;
    std::vector<std::thread> threads_;
    std::thread reading_;
    std::mutex mutex_; // of the reader
    bool (*is_wanted_)(uint64_t) = nullptr;
    std::atomic<bool> is_stopped_ = false, is_over_ = false;
    std::string complaint_;
};

struct Phase {
    std::vector<TestRule> rules;
    bool (*is_wanted)(uint64_t number);
    std::vector<Windows> windows = {};
};

// Goes through the phases again and again, and then looks whether each was true.
void change_again_and_again(std::vector<Phase> phases, int rounds, bool (*is_always_wanted)(uint64_t)) {
    ASSERT_TRUE(has_private_shm());
    TestState state;
    ChannelShape shape;
    shape.mode = PLUMB_MODE_BLOCK;
    shape.block_timeout_ns = 20'000'000'000;
    shape.subbuf_bytes = 64 * 1024;
    TestChannel channel(shape);
    const auto publish = [&](const std::vector<TestRule>& rules) {
        const uint64_t generation = state.set(0, channel.cookie(), rules);
        state.signal_all(generation);
        ASSERT_TRUE(state.wait(generation).empty());
    };
    ASSERT_EQ(plumb_refresh(), 0);
    publish(phases[0].rules);
    plumb_inject_hook = stretch;
    Writers writers(channel);
    for (int round = 0; round < rounds; round++)
        for (Phase& phase : phases) {
            publish(phase.rules);
            Windows windows;
            writers.begin(windows, phase.is_wanted);
            usleep(static_cast<useconds_t>(round % 7 * 300));
            writers.end(windows);
            phase.windows.push_back(windows);
        }
    writers.stop();
    plumb_inject_hook = nullptr;
    EXPECT_EQ(channel.lost_events(), 0u);
    EXPECT_EQ(writers.complaint(), "");
    EXPECT_TRUE(writers.complaints_of_reader().empty());
    uint64_t compared = 0;
    for (const Phase& phase : phases)
        for (const Windows& windows : phase.windows)
            for (uint32_t i = 0; i < writer_count; i++)
                for (uint64_t n = windows[i].first; n <= windows[i].last && !testing::Test::HasFailure();
                     n++) {
                    ASSERT_EQ(writers.has(i, n), phase.is_wanted(n)) << "number " << n;
                    compared++;
                }
    EXPECT_GT(compared, 100u);
    for (uint32_t i = 0; i < writer_count && is_always_wanted != nullptr; i++)
        for (uint64_t n = 1; n <= writers.last(i) && !testing::Test::HasFailure(); n++)
            ASSERT_TRUE(writers.has(i, n) || !is_always_wanted(n)) << "number " << n;
    publish({});
    state.remove(0);
}

TestRule rule(const char* condition) {
    TestRule made{"conditions:*"};
    if (condition != nullptr) made.condition = code_of(condition);
    return made;
}

bool is_even(uint64_t n) {
    return n % 2 == 0;
}

} // namespace

TEST(Conditions, are_added_and_removed_without_a_gap) {
    const auto even_or_three = [](uint64_t n) { return n % 2 == 0 || n % 3 == 0; };
    const auto even_or_five = [](uint64_t n) { return n % 2 == 0 || n % 5 == 0; };
    change_again_and_again({{{rule("number % 2 == 0")}, is_even},
                            {{rule("number % 2 == 0"), rule("number % 3 == 0")}, even_or_three},
                            {{rule("name == \"five\""), rule("number & 1 == 0")}, even_or_five}},
                           150, is_even);
}

// A sequence that has seen the condition as it was must not publish when that has changed.
TEST(Conditions, restart_sequences_that_are_about_to_publish) {
    plumb_inject_loops[5] = 1'000'000;
    change_again_and_again({{{rule("number % 2 == 0")}, is_even},
                            {{rule("number % 2 == 1")}, [](uint64_t n) { return n % 2 == 1; }}},
                           150, nullptr);
    plumb_inject_loops[5] = 0;
}

// Everything is wanted, and then again only some.
TEST(Conditions, make_way_for_everything) {
    const auto always = [](uint64_t) { return true; };
    change_again_and_again({{{rule("number % 2 == 0")}, is_even}, {{rule(nullptr)}, always}}, 150, is_even);
}

TEST(Conditions, come_and_go_with_their_session) {
    const auto never = [](uint64_t) { return false; };
    change_again_and_again({{{rule("number % 2 == 0")}, is_even},
                            {{}, never},
                            {{rule("other == 1")}, never},
                            {{rule("writer / 0 == 1")}, never}},
                           100, nullptr);
}

namespace {

// A thread that traces one tick, and is held up at a point of that until it is let go.
plumb::InjectionPoint held_up_at;
thread_local bool is_held_up = false;
std::atomic<bool> is_there, may_go;

void hold_up(uint32_t point) {
    if (!is_held_up || point != static_cast<uint32_t>(held_up_at)) return;
    is_held_up = false;
    is_there = true;
    while (!may_go)
        usleep(100);
}

class HeldUp {
public:
    explicit HeldUp(plumb::InjectionPoint point) {
        held_up_at = point;
        is_there = may_go = false;
        plumb_inject_hook = hold_up;
        thread_ = std::thread([] {
            plumb_trace(conditions, tick, 1, 0, "before"); // which introduces it
            is_held_up = true;
            plumb_trace(conditions, tick, 2, 0, "late");
        });
        while (!is_there)
            usleep(100);
    }
    void let_go() {
        may_go = true;
        thread_.join();
        plumb_inject_hook = nullptr;
    }

private:
    std::thread thread_;
};

class LateThread : public testing::Test {
protected:
    void SetUp() override { ASSERT_TRUE(has_private_shm()); }
    void publish(const TestChannel& to, const std::vector<TestRule>& rules) {
        const uint64_t generation = state.set(0, to.cookie(), rules);
        state.signal_all(generation);
        plumb_refresh();
        ASSERT_TRUE(state.wait(generation).empty());
    }
    static uint64_t records_in(TestChannel& which) {
        uint64_t count = 0;
        RecordReader(which, [&](const SeenRecord&) { count++; }).poll();
        return count;
    }
    static TestRule of(const char* event, const char* condition) {
        TestRule made{event};
        made.condition = code_of(condition);
        return made;
    }
    TestState state;
    TestChannel channel;
};

} // namespace

// The program that it had found is another event's by the time it looks at its version.
TEST_F(LateThread, is_not_asked_by_the_condition_of_another_event) {
    publish(channel, {of("conditions:tick", "number > 0")});
    HeldUp late(plumb::InjectionPoint::condition_found);
    publish(channel, {of("conditions:other", "number > 0")});
    const uint64_t before = records_in(channel);
    late.let_go();
    EXPECT_EQ(records_in(channel), before);
    state.remove(0);
}

// Its channel was closed by a controller that is gone, another thread has seen that, and a session is there in its place.
TEST_F(LateThread, does_not_write_into_the_next_session) {
    publish(channel, {of("conditions:tick", "number > 0")});
    HeldUp late(plumb::InjectionPoint::condition_held);
    channel.close();
    plumb_trace(conditions, tick, 3, 1, "which finds it closed");
    TestChannel next;
    publish(next, {{"conditions:other"}});
    late.let_go();
    EXPECT_EQ(records_in(next), 0u);
    state.remove(0);
}
