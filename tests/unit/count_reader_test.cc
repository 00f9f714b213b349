// Reads tables of counts: adds up those of all CPUs, and believes nothing that stands there.
#include "consumerd/channel/count_reader.h"
#include "tests/support/session_fixture.h"

#include <plumb/abi/counts.h>

#include <cstring>
#include <random>

using namespace plumb;
using namespace plumb::test;

namespace {

constexpr std::uint16_t order = 7, tick = 9;

class CountReaderTest : public testing::Test {
protected:
    void SetUp() override { ASSERT_TRUE(has_private_shm()); }

    void make(const CountsConfig& counts) {
        Result<ChannelConfig> config = counting_channel(counts);
        ASSERT_TRUE(config);
        config->ring_count = 2;
        Result<UserDirectory> directory = UserDirectory::open_or_create(main_place(::geteuid()));
        ASSERT_TRUE(directory);
        Result<Channel> made = Channel::create(*directory, *config);
        ASSERT_TRUE(made) << made.error().message();
        channel_.emplace(std::move(*made));
        encoded_ = counts.encode();
        EventDescription event{"shop", "order", 6, {}, {}, 0};
        event.fields = {{"id", PLUMB_FIELD_INTEGER, 4, true, false, 0, {}, false},
                        {"path", PLUMB_FIELD_STRING, 1, false, false, 0, {}, false},
                        {"price", PLUMB_FIELD_FLOAT, 8, false, false, 0, {}, false}};
        ASSERT_TRUE(channel_->add_event(order, event));
        ASSERT_TRUE(channel_->add_event(tick, {"shop", "tick", 6, {}, {}, 0}));
        ASSERT_TRUE(channel_->unlink());
    }
    std::byte* table(std::uint32_t ring) {
        return channel_->bytes().data() + channel_->layout().data_offset +
               ring * channel_->layout().ring_bytes;
    }
    plumb_count& cell(std::uint32_t ring, std::uint16_t id) {
        return reinterpret_cast<plumb_count*>(table(ring))[id];
    }
    std::byte* slot(std::uint32_t ring, std::uint32_t index) {
        return table(ring) + channel_->config().event_slots * sizeof(plumb_count) +
               index * PLUMB_COUNT_SLOT_BYTES(encoded_.buckets);
    }
    // In the slot that its tag says, as the first one there.
    std::byte* put(std::uint32_t ring, std::uint32_t index, std::uint16_t id, std::uint8_t kind,
                   const void* key, std::uint32_t bytes, plumb_count count, std::uint32_t bucket = 0) {
        plumb_count_slot made{};
        made.tag =
            static_cast<std::uint64_t>((static_cast<unsigned __int128>(index) << 64) / encoded_.slots) + 2;
        made.tag |= 1;
        made.event_id = id;
        made.kind = kind;
        made.key_bytes = bytes;
        std::memcpy(made.key, key, bytes);
        std::memcpy(slot(ring, index), &made, sizeof(made));
        std::memcpy(slot(ring, index) + sizeof(made) + bucket * sizeof(count), &count, sizeof(count));
        return slot(ring, index);
    }
    CountReader reader() {
        ReaderOptions options;
        options.shared = channel_->bytes().data();
        options.made_as = channel_->made_as();
        options.log = [this](const std::string& line) { said_.push_back(line); };
        Result<CountReader> opened = CountReader::open(channel_->bytes(), encoded_, options);
        EXPECT_TRUE(opened) << opened.error().message();
        return std::move(*opened);
    }
    static const CountsOfEvent& of(const std::vector<CountsOfEvent>& events, std::uint16_t id) {
        return *std::find_if(events.begin(), events.end(),
                             [id](const CountsOfEvent& event) { return event.event->id == id; });
    }

    std::optional<Channel> channel_;
    plumb_counts encoded_{};
    std::vector<std::string> said_;
};

} // namespace

TEST_F(CountReaderTest, adds_up_the_tables_of_all_cpus) {
    make({"", "id", "", 1024});
    cell(0, order) = {3, static_cast<std::uint64_t>(-5)};
    cell(2, order) = {4, 1};
    cell(1, tick) = {9, 77};
    CountReader counts = reader();
    const std::vector<CountsOfEvent> events = counts.read();
    EXPECT_EQ(of(events, order).count, 7u);
    EXPECT_TRUE(of(events, order).sum.integer == -4);
    EXPECT_EQ(of(events, tick).count, 9u);
    EXPECT_TRUE(of(events, tick).sum.integer == 0) << "it has no such field";
    EXPECT_EQ(counts.damaged_slots(), 0u);
}

TEST_F(CountReaderTest, joins_slots_of_one_key) {
    make({"path", "price", "", 64});
    const double half = 0.5;
    std::uint64_t bits = 0;
    std::memcpy(&bits, &half, sizeof(bits));
    put(0, 5, order, PLUMB_KEY_TEXT, "/a", 2, {3, bits});
    put(1, 9, order, PLUMB_KEY_TEXT, "/a", 2, {4, bits});
    put(1, 70, order, PLUMB_KEY_TEXT, "/b", 2, {5, bits});
    cell(1, order) = {6, bits};
    CountReader counts = reader();
    const std::vector<CountsOfEvent> events = counts.read();
    const CountsOfEvent& event = of(events, order);
    EXPECT_EQ(event.count, 18u);
    EXPECT_EQ(event.sum.floating, 2.0);
    EXPECT_EQ(event.others.count, 6u);
    EXPECT_EQ((event.by_key.at({PLUMB_KEY_TEXT, 0, "/a"}).count), 7u);
    EXPECT_EQ((event.by_key.at({PLUMB_KEY_TEXT, 0, "/a"}).sum.floating), 1.0);
    EXPECT_EQ((event.by_key.at({PLUMB_KEY_TEXT, 0, "/b"}).count), 5u);
    EXPECT_EQ(counts.damaged_slots(), 0u);
}

TEST_F(CountReaderTest, has_the_buckets_of_a_histogram) {
    make({"", "", "id", 64});
    put(0, 1, order, PLUMB_KEY_NONE, "", 0, {3, 30}, 5);
    put(1, 2, order, PLUMB_KEY_NONE, "", 0, {4, 40}, 5);
    CountReader counts = reader();
    const std::vector<CountsOfEvent> events = counts.read();
    const Counts& all = of(events, order).by_key.at({});
    ASSERT_EQ(all.buckets.size(), PLUMB_COUNT_BUCKETS);
    EXPECT_EQ(all.buckets[5], 7u);
    EXPECT_EQ(all.count, 7u);
    EXPECT_TRUE(all.sum.integer == 70);
}

TEST_F(CountReaderTest, leaves_out_and_counts_what_can_not_be) {
    make({"id", "", "", 64});
    const std::uint64_t key = 1;
    put(0, 3, order, PLUMB_KEY_SIGNED, &key, 8, {3, 0});
    put(0, 10, 100, PLUMB_KEY_SIGNED, &key, 8, {3, 0});                      // no such event
    put(0, 20, order, 77, &key, 8, {3, 0});                                  // no such key
    put(0, 30, order, PLUMB_KEY_TEXT, &key, 8, {3, 0})[12] = std::byte{200}; // longer than a slot
    put(0, 40, order, PLUMB_KEY_SIGNED, &key, 4, {3, 0});                    // half a number
    std::memcpy(slot(0, 90), put(0, 50, order, PLUMB_KEY_SIGNED, &key, 8, {3, 0}),
                144);                                                            // where nobody would look
    cell(1, 1000) = {1, 0};                                                      // of nobody
    reinterpret_cast<plumb_count_slot*>(slot(1, 60))->tag = PLUMB_COUNT_CLAIMED; // its writer was killed
    CountReader counts = reader();
    const std::vector<CountsOfEvent> events = counts.read();
    EXPECT_EQ(counts.damaged_slots(), 6u);
    EXPECT_EQ(said_.size(), 6u);
    EXPECT_EQ(of(events, order).count, 6u);
    (void)counts.read();
    EXPECT_EQ(said_.size(), 6u) << "the same is said once";
}

TEST_F(CountReaderTest, survives_tables_of_nonsense) {
    std::minstd_rand random(7);
    for (const CountsConfig& config : {CountsConfig{"id", "", "", 64}, CountsConfig{"id", "price", "id", 64},
                                       CountsConfig{"", "price", "", 64}}) {
        make(config);
        for (int round = 0; round < 30; round++) {
            for (std::uint32_t ring = 0; ring < 3; ring++)
                for (std::uint64_t i = 0; i < channel_->layout().ring_bytes;
                     i += 1 + random() % (8 << round % 6))
                    table(ring)[i] = static_cast<std::byte>(random());
            CountReader counts = reader();
            for (const CountsOfEvent& event : counts.read()) {
                std::uint64_t sum = event.others.count;
                for (const auto& [key, each] : event.by_key)
                    sum += each.count;
                EXPECT_EQ(event.count, sum);
            }
        }
        EXPECT_FALSE(said_.empty());
        said_.clear();
    }
}

TEST_F(CountReaderTest, refuses_what_is_no_channel_of_counts) {
    make({"id", "", "", 64});
    EXPECT_FALSE(ChannelReader::open(channel_->bytes())) << "it holds no records";
    plumb_counts larger = encoded_;
    larger.slots = PLUMB_COUNT_SLOTS_MAX;
    EXPECT_FALSE(CountReader::open(channel_->bytes(), larger));
    larger.slots = 0xffffffff;
    EXPECT_FALSE(CountReader::open(channel_->bytes(), larger));
    larger = encoded_;
    larger.buckets = 5;
    EXPECT_FALSE(CountReader::open(channel_->bytes(), larger));
}

TEST_F(CountReaderTest, refuses_settings_that_can_not_be) {
    EXPECT_FALSE(counting_channel({std::string(64, 'x'), "", "", 64}));
    EXPECT_FALSE(counting_channel({"id", "", "", 0}));
    EXPECT_FALSE(counting_channel({"id", "", "", CountsConfig::keys_max + 1}));
    EXPECT_TRUE(counting_channel({"id", "", "", CountsConfig::keys_max}));
    EXPECT_TRUE(counting_channel({"id", "", "id", CountsConfig::keys_max}));
}
