// cmake-once
// What the trace calls processes and threads of other namespaces: by our number where they are seen, else by their own,
// which is then nobody else's.
#include "base/process_names.h"
#include "consumerd/channel/writer_numbers.h"

#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <set>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

using namespace plumb;

namespace {

constexpr uint32_t tagged(uint32_t tag, uint32_t number) {
    return tag << PLUMB_TAG_SHIFT | number;
}

class WriterNumbersTest : public testing::Test {
protected:
    WriterNumbersTest()
        : numbers_(
              &header_,
              [this](uint32_t space, uint32_t own_id, uint64_t time) {
                  looked_++;
                  const uint32_t seen = seen_[{space, own_id}];
                  return time < began_[seen] ? 0 : seen;
              },
              [this](uint32_t process_id, uint32_t, uint32_t own_id) {
                  return threads_[{process_id, own_id}];
              },
              [this](uint32_t process_id, uint64_t time) {
                  return lives_.count(process_id) != 0 && time >= began_[process_id];
              }) {
        header_.namespaces[1] = 4026531999;
        header_.namespaces[2] = 4026532000;
    }
    /* What they are called whose namespace has that number, whatever their channel's tag is. */
    static uint32_t unseen_in(uint32_t space, uint32_t number) {
        plumb_channel_header other{};
        other.namespaces[7] = space;
        return WriterNumbers::of_dead(&other).process(tagged(7, number), 1);
    }
    uint32_t first_unseen(uint32_t number) const { return unseen_in(header_.namespaces[1], number); }
    uint32_t second_unseen(uint32_t number) const { return unseen_in(header_.namespaces[2], number); }
    plumb_channel_header header_{};
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> seen_, threads_;
    std::map<uint32_t, uint64_t> began_;
    std::set<uint32_t> lives_;
    int looked_ = 0;
    WriterNumbers numbers_;
};

} // namespace

TEST_F(WriterNumbersTest, numbers_of_our_namespace_are_ours) {
    EXPECT_EQ(numbers_.process(17, 10), 17u);
    EXPECT_EQ(numbers_.thread(17, 18, 10), 18u);
    EXPECT_EQ(looked_, 0);
}

TEST_F(WriterNumbersTest, who_is_seen_has_the_number_that_we_know) {
    seen_[{4026531999, 1}] = 4711;
    seen_[{4026532000, 1}] = 4800;
    threads_[{4711, 2}] = 4713;
    EXPECT_EQ(numbers_.process(tagged(1, 1), 10), 4711u);
    EXPECT_EQ(numbers_.process(tagged(2, 1), 10), 4800u) << "equal numbers of two namespaces";
    EXPECT_EQ(numbers_.thread(tagged(1, 1), tagged(1, 1), 10), 4711u);
    EXPECT_EQ(numbers_.thread(tagged(1, 1), tagged(1, 2), 10), 4713u);
}

TEST_F(WriterNumbersTest, who_is_not_seen_is_nobody_else) {
    EXPECT_EQ(numbers_.process(tagged(1, 1), 10), first_unseen(1));
    EXPECT_EQ(numbers_.thread(tagged(2, 1), tagged(2, 1), 10), second_unseen(1));
    EXPECT_EQ(numbers_.thread(tagged(2, 1), tagged(2, 5), 10), second_unseen(5));
    EXPECT_GT(std::min(first_unseen(0), second_unseen(0)), 1u << PLUMB_TAG_SHIFT)
        << "no process id is as large";
    EXPECT_NE(first_unseen(1), second_unseen(1));
    EXPECT_EQ(numbers_.process(tagged(PLUMB_TAG_UNKNOWN, 1), 10), tagged(PLUMB_TAG_UNKNOWN, 1));
    EXPECT_EQ(numbers_.process(tagged(PLUMB_NAMESPACES, 1), 10), tagged(PLUMB_NAMESPACES, 1))
        << "no such tag";
}

/* Of many that are told of within the rest of a look, and whom /proc does not show (any more). */
TEST_F(WriterNumbersTest, who_is_not_seen_between_two_looks_is_nobody_else) {
    WriterNumbers live = WriterNumbers::of_live(&header_);
    for (uint32_t number = 1; number < 200; number++)
        EXPECT_EQ(live.process(tagged(1, number), 10), first_unseen(number));
}

TEST_F(WriterNumbersTest, a_number_stays_until_an_entry_says_otherwise) {
    seen_[{4026531999, 1}] = 4711;
    EXPECT_EQ(numbers_.process(tagged(1, 1), 10, true), 4711u);
    EXPECT_EQ(numbers_.thread(tagged(1, 1), tagged(1, 1), 11, true), 4711u);
    seen_[{4026531999, 1}] = 0; /* it has ended */
    EXPECT_EQ(numbers_.process(tagged(1, 1), 20), 4711u);
    EXPECT_EQ(numbers_.process(tagged(1, 1), 30, true), first_unseen(1)) << "who it is now is not known";
    EXPECT_EQ(numbers_.thread(tagged(1, 1), tagged(1, 1), 31, true), first_unseen(1));
    seen_[{4026531999, 1}] = 5000;
    began_[5000] = 35;
    EXPECT_EQ(numbers_.process(tagged(1, 1), 40, true), 5000u);
    EXPECT_EQ(numbers_.thread(tagged(1, 1), tagged(1, 1), 41, true), 5000u);
}

/* As behind exec(), whether it was seen before and is not now, or the other way round. */
TEST_F(WriterNumbersTest, who_is_the_same_process_keeps_its_number) {
    const uint32_t unseen = first_unseen(1);
    EXPECT_EQ(numbers_.process(tagged(1, 1), 10, true), unseen);
    seen_[{4026531999, 1}] = 4711;
    began_[4711] = 5;
    EXPECT_EQ(numbers_.process(tagged(1, 1), 20, true), unseen);
    EXPECT_EQ(numbers_.thread(tagged(1, 1), tagged(1, 1), 21, true), unseen);
    seen_[{4026531999, 2}] = 4712;
    EXPECT_EQ(numbers_.process(tagged(1, 2), 30, true), 4712u);
    seen_[{4026531999, 2}] = 0;
    lives_ = {4712};
    EXPECT_EQ(numbers_.process(tagged(1, 2), 40, true), 4712u);
    lives_ = {};
    EXPECT_EQ(numbers_.process(tagged(1, 2), 50, true), first_unseen(2));
}

TEST_F(WriterNumbersTest, who_bore_a_number_before_keeps_what_is_older) {
    EXPECT_EQ(numbers_.known_thread(tagged(1, 1), 15), 0u);
    for (const uint32_t number : {4711u, 5000u, 6000u}) {
        seen_[{4026531999, 1}] = number;
        numbers_.process(tagged(1, 1), number, true);
        numbers_.thread(tagged(1, 1), tagged(1, 1), number + 1, true);
    }
    EXPECT_EQ(numbers_.known_thread(tagged(1, 1), 4710), 4711u) << "nobody bore it before";
    EXPECT_EQ(numbers_.known_thread(tagged(1, 1), 4712), 4711u);
    EXPECT_EQ(numbers_.known_thread(tagged(1, 1), 5000), 4711u);
    EXPECT_EQ(numbers_.known_thread(tagged(1, 1), 5001), 5000u);
    EXPECT_EQ(numbers_.known_thread(tagged(1, 1), 9999), 6000u);
    EXPECT_EQ(numbers_.process(tagged(1, 1), 5999), 5000u);
    for (uint32_t i = 0; i < 1000; i++) {
        seen_[{4026531999, 1}] = 7000 + i;
        numbers_.process(tagged(1, 1), 10'000 + i, true);
    }
    EXPECT_EQ(numbers_.process(tagged(1, 1), 10'990), 7990u);
    EXPECT_GT(numbers_.process(tagged(1, 1), 10'000), 7900u) << "not all are remembered for ever";
}

TEST_F(WriterNumbersTest, only_so_many_are_remembered) {
    seen_[{4026531999, 1}] = 4711;
    EXPECT_EQ(numbers_.process(tagged(1, 1), 10), 4711u);
    for (uint32_t id = 2; id <= WriterNumbers::remembered_max; id++)
        (void)numbers_.process(tagged(2, id), 10);
    const int before = looked_;
    EXPECT_EQ(numbers_.process(tagged(2, WriterNumbers::remembered_max + 1), 10),
              second_unseen(WriterNumbers::remembered_max + 1));
    EXPECT_EQ(numbers_.process(tagged(1, 1), 10), 4711u);
    EXPECT_EQ(looked_, before + 2) << "both were looked for: there was no more room for the first";
}

TEST(RestingLooks, take_a_tenth_of_the_time_at_most) {
    RestingLook look;
    EXPECT_TRUE(look.is_due(1'000'000'000));
    look.looked(1'000'000'000, 1'140'000'000);
    EXPECT_FALSE(look.is_due(1'140'000'000)) << "the time of looking is not the time since";
    EXPECT_FALSE(look.is_due(2'039'000'000)) << "50 ms were saved up, and 90 are still to be earned";
    EXPECT_TRUE(look.is_due(2'041'000'000));
}

TEST(RestingLooks, for_some_who_come_together_are_made_at_once) {
    RestingLook look;
    uint64_t now = 1'000'000'000;
    int looks = 0;
    for (; look.is_due(now) && looks < 1000; looks++, now += 10)
        look.looked(now, now + 10);
    EXPECT_GE(looks, 20);
    EXPECT_LE(looks, 60) << "each of them counts, however short it was";
}

/* Our own namespace, as if it were another: /proc shows it. */
TEST(LiveWriterNumbers, are_looked_for_again_once_the_last_look_is_old) {
    plumb_channel_header header{};
    header.namespaces[1] = own_namespace();
    WriterNumbers numbers = WriterNumbers::of_live(&header);
    const auto self = static_cast<uint32_t>(::getpid());
    EXPECT_EQ(numbers.process(tagged(1, self), 10), self);
    ::usleep(30'000);
    const pid_t child = ::fork();
    if (child == 0)
        for (;;)
            ::pause();
    const auto id = static_cast<uint32_t>(child);
    EXPECT_EQ(numbers.process(tagged(1, id), 10), id);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
}
