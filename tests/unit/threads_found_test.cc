// What a chunk tells of threads' names at its beginning, which were other ones when it was looked who is there.
#include "consumerd/drain/threads_found.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace plumb {
namespace {

class ThreadsFoundTest : public testing::Test {
protected:
    /* What the chunk tells in front of `dump` of that thread: times and names. */
    using Told = std::vector<std::pair<uint64_t, std::string>>;
    Told told_of(uint32_t thread_id, uint64_t since, const std::vector<NamedThread>& taken = {}) {
        Told told;
        for (const NamedThread& thread : found_.begin_chunk(since, dump_, taken))
            if (thread.thread_id == thread_id) told.emplace_back(thread.timestamp, thread.name);
        return told;
    }
    void is_there(uint32_t thread_id, const std::string& name, uint64_t looked_at) {
        dump_.threads[thread_id] = {
            .process_id = thread_id, .began_boottime_ns = 0, .looked_at = looked_at, .name = name};
    }

    KernelStatedump dump_;
    ThreadsFound found_;
};

TEST_F(ThreadsFoundTest, who_has_the_name_that_he_had_is_told_by_the_dump_alone) {
    is_there(7, "worker", 10);
    found_.find(dump_);
    is_there(7, "worker", 120);
    EXPECT_EQ(told_of(7, 100), Told{});
}

TEST_F(ThreadsFoundTest, who_ended_before_it_was_looked_is_told) {
    is_there(7, "worker", 10);
    found_.find(dump_);
    dump_.threads.clear();
    EXPECT_EQ(told_of(7, 100), (Told{{100, "worker"}}));
    EXPECT_EQ(told_of(7, 200), Told{});
}

TEST_F(ThreadsFoundTest, who_was_renamed_behind_the_beginning_is_told_by_both_names) {
    is_there(7, "before", 10);
    found_.find(dump_);
    is_there(7, "behind", 120);
    found_.remember({{50, 7, 7, "at last"}, {110, 7, 7, "behind"}});
    EXPECT_EQ(told_of(7, 100), (Told{{100, "at last"}, {110, "behind"}}));
}

TEST_F(ThreadsFoundTest, who_has_his_old_name_again_is_told_by_each) {
    is_there(7, "worker", 10);
    found_.find(dump_);
    is_there(7, "worker", 120);
    found_.remember({{110, 7, 7, "busy"}});
    EXPECT_EQ(told_of(7, 100, {{115, 7, 7, "worker"}}),
              (Told{{100, "worker"}, {110, "busy"}, {115, "worker"}}));
}

TEST_F(ThreadsFoundTest, what_is_told_behind_the_dump_is_known_to_the_next_chunk) {
    is_there(7, "worker", 120);
    EXPECT_EQ(told_of(7, 100, {{130, 7, 7, "later"}}), (Told{{130, "later"}}));
    dump_.threads.clear();
    EXPECT_EQ(told_of(7, 200), (Told{{200, "later"}}));
}

TEST_F(ThreadsFoundTest, what_was_told_before_it_was_looked_does_not_count) {
    is_there(7, "looked", 60);
    found_.find(dump_);
    found_.remember({{50, 7, 7, "older"}});
    is_there(7, "other", 120);
    EXPECT_EQ(told_of(7, 100), (Told{{100, "looked"}}));
}

/* So many that most of it is folded, and what is behind the beginning stays. */
TEST_F(ThreadsFoundTest, very_many_names_are_folded_and_the_last_of_them_counts) {
    std::vector<NamedThread> many;
    for (uint64_t i = 0; i < 100'000; i++)
        many.push_back({i, 7, 7, std::to_string(i)});
    for (size_t at = 0; at < many.size(); at += 1'000)
        found_.remember(
            {many.begin() + static_cast<ptrdiff_t>(at), many.begin() + static_cast<ptrdiff_t>(at) + 1'000});
    const Told told = told_of(7, 99'990);
    ASSERT_EQ(told.size(), 10);
    EXPECT_EQ(told.front(), (std::pair<uint64_t, std::string>{99'990, "99990"}));
    EXPECT_EQ(told.back().second, "99999");
}

TEST_F(ThreadsFoundTest, a_snapshot_leaves_out_what_was_before_it_looked) {
    found_.find_from(100);
    found_.find(std::vector<NamedThread>{{90, 7, 7, "gone"}, {110, 8, 8, "there"}});
    const std::vector<NamedThread> kept = found_.take();
    ASSERT_EQ(kept.size(), 1);
    EXPECT_EQ(kept.front().name, "there");
    EXPECT_TRUE(found_.take().empty());
}

} // namespace
} // namespace plumb
