// Counts while sequences are stretched, threads are preempted in the middle of them, handlers trace there, and other sessions
// come and go: each event is counted once, with its own value, under its own key.
// cmake-link: plumb_inject tp-async-inject
// cmake-timeout: 300
#include "consumerd/control/rule_condition.h"
#include "libtrace/ring/inject.h"
#include "tests/support/private_shm.h"
#include "tests/support/test_session.h"

#include <plumb/abi/counts.h>
#include <plumb/control.h>
#include <plumb/tracepoint.h>

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <map>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

PLUMB_EVENT(counts, tick, (string, name), (u32, key), (i64, value), (f64, price))

using namespace plumb::test;

extern "C" uint32_t plumb_inject_loops[8];

namespace {

constexpr uint32_t writer_count = 4, events_each = 100'000, key_count = 7;
constexpr int64_t value_of_handler = -3;

std::atomic<uint64_t> handled;
void trace_in_handler(int) {
    plumb_trace(counts, tick, "handler", 1000, value_of_handler, 0.5);
    handled++;
}

void stretch(uint32_t point) {
    static std::atomic<uint32_t> passes;
    using plumb::InjectionPoint;
    const bool is_ours = point == static_cast<uint32_t>(InjectionPoint::count_placed) ||
                         point == static_cast<uint32_t>(InjectionPoint::count_slot_free) ||
                         point == static_cast<uint32_t>(InjectionPoint::count_slot_claimed);
    if (is_ours && passes++ % 8 == 0) sched_yield();
}

struct Fields {
    const char *key, *sum, *hist;
};

// A channel of the test's own, turned into one that counts before anybody knows it.
class CountingChannel : public TestChannel {
public:
    explicit CountingChannel(const Fields& fields, uint32_t slots = 64) : TestChannel(shape()) {
        header().magic = PLUMB_COUNTS_MAGIC;
        header().mode = PLUMB_MODE_COUNT;
        counts_.slots = *fields.key != '\0' || *fields.hist != '\0' ? slots : 0;
        counts_.buckets = *fields.hist != '\0'                        ? PLUMB_COUNT_BUCKETS
                          : counts_.slots != 0 || *fields.sum != '\0' ? 1
                                                                      : 0;
        strcpy(counts_.key, fields.key);
        strcpy(counts_.sum, fields.sum);
        strcpy(counts_.hist, fields.hist);
        memcpy(const_cast<unsigned char*>(base()) + PLUMB_COUNTS_OFFSET, &counts_, sizeof(counts_));
        for (uint32_t ring = 0; ring < ring_count(); ring++)
            control(ring).limit = 1;
    }

    struct Seen {
        uint64_t count = 0;
        uint64_t sum = 0;
        double floating = 0;
        void add(const plumb_count& from) {
            count += from.count;
            sum += from.sum;
            double number;
            memcpy(&number, &from.sum, sizeof(number));
            floating += number;
        }
    };
    // By key: "" of what is counted without one.
    std::map<std::string, Seen> read() const {
        std::map<std::string, Seen> seen;
        for (uint32_t ring = 0; ring < ring_count(); ring++) {
            const unsigned char* at = ring_data(ring);
            for (uint32_t id = 0; id < header().event_slots; id++, at += sizeof(plumb_count))
                seen[""].add(load(at));
            for (uint32_t slot = 0; slot < counts_.slots;
                 slot++, at += PLUMB_COUNT_SLOT_BYTES(counts_.buckets)) {
                plumb_count_slot head;
                memcpy(&head, at, sizeof(head));
                if (head.tag == 0 || head.tag == PLUMB_COUNT_CLAIMED) continue;
                const std::string key(reinterpret_cast<const char*>(head.key), head.key_bytes);
                for (uint32_t bucket = 0; bucket < counts_.buckets; bucket++)
                    seen[key].add(load(at + sizeof(head) + bucket * sizeof(plumb_count)));
            }
        }
        return seen;
    }

private:
    static ChannelShape shape() {
        ChannelShape shape;
        shape.subbuf_bytes = 64 * 1024;
        shape.subbuf_count = 2;
        shape.extra_ring_count = 1;
        return shape;
    }
    static plumb_count load(const unsigned char* at) {
        plumb_count count;
        memcpy(&count, at, sizeof(count));
        return count;
    }
    plumb_counts counts_ = {};
};

std::string name_of(uint32_t key) {
    return "key-" + std::to_string(key) + std::string(key * 9, 'x');
}

void write_events() {
    std::vector<std::string> names;
    for (uint32_t key = 0; key < key_count; key++)
        names.push_back(name_of(key));
    for (uint32_t i = 0; i < events_each; i++)
        plumb_trace(counts, tick, names[i % key_count].c_str(), i % key_count, i, 0.25);
}

// A session that is switched on and off beside the one that is looked at.
class Beside {
public:
    explicit Beside(TestState& state) : state_(state), channel_({"", "", ""}) {
        thread_ = std::thread([this] {
            while (!is_over_) {
                publish({{"counts:*"}});
                publish({});
                const uint64_t before = channel_.read()[""].count;
                usleep(300);
                if (channel_.read()[""].count != before) complaint = "counted behind the end";
            }
        });
    }
    ~Beside() {
        is_over_ = true;
        thread_.join();
        state_.remove(1);
        EXPECT_EQ(complaint, "");
    }
    std::string complaint;

private:
    void publish(const std::vector<TestRule>& rules) {
        const uint64_t generation = state_.set(1, channel_.cookie(), rules);
        state_.signal_all(generation);
        if (!state_.wait(generation).empty()) complaint = "not acknowledged";
    }
    TestState& state_;
    CountingChannel channel_;
    std::atomic<bool> is_over_ = false;
    std::thread thread_;
};

class Counts : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(has_private_shm());
        struct sigaction action = {};
        action.sa_handler = trace_in_handler;
        action.sa_flags = SA_RESTART;
        sigaction(SIGUSR1, &action, nullptr);
        ASSERT_EQ(plumb_refresh(), 0);
    }
    void TearDown() override {
        plumb_inject_hook = nullptr;
        for (uint32_t& loops : plumb_inject_loops)
            loops = 0;
    }

    void run(const CountingChannel& channel, const char* condition = nullptr) {
        TestRule rule{"counts:*"};
        if (condition != nullptr)
            rule.condition = *plumb::encode_condition(*plumb::parse_condition(condition));
        const uint64_t generation = state_.set(0, channel.cookie(), {rule});
        state_.signal_all(generation);
        ASSERT_TRUE(state_.wait(generation).empty());
        handled = 0;
        plumb_inject_hook = stretch;
        for (uint32_t& loops : plumb_inject_loops)
            loops = 60;
        {
            const Beside beside(state_);
            std::atomic<uint32_t> running = writer_count;
            std::vector<std::thread> writers;
            for (uint32_t i = 0; i < writer_count; i++)
                writers.emplace_back([&] {
                    write_events();
                    running--;
                    while (running != 0)
                        usleep(1000); /* so that there is somebody to be signalled */
                });
            for (uint32_t i = 0; running != 0; i++) {
                pthread_kill(writers[i % writer_count].native_handle(), SIGUSR1);
                usleep(50);
            }
            for (std::thread& writer : writers)
                writer.join();
        }
        EXPECT_GT(handled, 0u);
        EXPECT_EQ(channel.lost_events(), 0u);
    }
    static uint64_t count_of(uint32_t key) {
        return writer_count * ((events_each - key + key_count - 1) / key_count);
    }
    static uint64_t sum_of(uint32_t key) {
        uint64_t sum = 0;
        for (uint32_t i = key; i < events_each; i += key_count)
            sum += uint64_t{writer_count} * i;
        return sum;
    }

    TestState state_;
};

} // namespace

TEST_F(Counts, are_those_of_all_events) {
    const CountingChannel channel({"", "", ""});
    run(channel);
    EXPECT_EQ(channel.read()[""].count, writer_count * events_each + handled);
    state_.remove(0);
}

TEST_F(Counts, have_the_sum_of_what_they_count) {
    const CountingChannel channel({"", "value", ""});
    run(channel);
    CountingChannel::Seen seen = channel.read()[""];
    EXPECT_EQ(seen.count, writer_count * events_each + handled);
    EXPECT_EQ(seen.sum, uint64_t{writer_count} * events_each * (events_each - 1) / 2 +
                            static_cast<uint64_t>(value_of_handler) * handled);
    state_.remove(0);
}

TEST_F(Counts, have_sums_of_floating_point) {
    const CountingChannel channel({"", "price", ""});
    run(channel);
    CountingChannel::Seen seen = channel.read()[""];
    EXPECT_EQ(seen.count, writer_count * events_each + handled);
    EXPECT_EQ(seen.floating, 0.25 * writer_count * events_each + 0.5 * static_cast<double>(handled));
    state_.remove(0);
}

TEST_F(Counts, are_told_apart_by_key) {
    for (const char* hist : {"", "value"}) {
        const CountingChannel channel({"name", "value", hist});
        run(channel);
        std::map<std::string, CountingChannel::Seen> seen = channel.read();
        EXPECT_EQ(seen[""].count, 0u);
        for (uint32_t key = 0; key < key_count; key++) {
            EXPECT_EQ(seen[name_of(key)].count, count_of(key));
            EXPECT_EQ(seen[name_of(key)].sum, sum_of(key));
        }
        EXPECT_EQ(seen["handler"].count, handled);
        EXPECT_EQ(seen["handler"].sum, static_cast<uint64_t>(value_of_handler) * handled);
        state_.remove(0);
    }
}

TEST_F(Counts, are_whole_where_there_is_no_room) {
    const CountingChannel channel({"name", "value", ""}, 3);
    run(channel);
    CountingChannel::Seen all;
    for (const auto& [key, each] : channel.read()) {
        all.count += each.count;
        all.sum += each.sum;
    }
    EXPECT_EQ(all.count, writer_count * events_each + handled);
    EXPECT_EQ(all.sum, uint64_t{writer_count} * events_each * (events_each - 1) / 2 +
                           static_cast<uint64_t>(value_of_handler) * handled);
    state_.remove(0);
}

TEST_F(Counts, are_of_what_fulfils_a_condition) {
    const CountingChannel channel({"name", "value", ""});
    run(channel, "key == 2 || key == 5");
    std::map<std::string, CountingChannel::Seen> seen = channel.read();
    EXPECT_EQ(seen.size(), 3u);
    for (const uint32_t key : {2u, 5u}) {
        EXPECT_EQ(seen[name_of(key)].count, count_of(key));
        EXPECT_EQ(seen[name_of(key)].sum, sum_of(key));
    }
    state_.remove(0);
}

TEST_F(Counts, stay_off_where_the_tables_could_not_hold_them) {
    const CountingChannel channel({"name", "value", "value"}, 1u << 19);
    const uint64_t generation = state_.set(0, channel.cookie(), {{"counts:*"}});
    state_.signal_all(generation);
    ASSERT_TRUE(state_.wait(generation).empty());
    EXPECT_FALSE(plumb_enabled(counts, tick));
    write_events();
    state_.remove(0);
}
