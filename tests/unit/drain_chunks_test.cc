// A drain that ends one chunk and begins the next: which records and losses are whose, and what is handed back when.
#include "tests/support/stepped_drain.h"

namespace plumb::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Not;

class DrainChunks : public DrainSteps {
protected:
    /* The records of the sources are of the times 1000, 1001 ... */
    Drain::Chunk rotate(uint64_t at) {
        auto next = std::make_unique<StepSink>(log);
        sink = next.get();
        return drain->rotate(std::move(next), "/trace/next", at);
    }
    Log writes() {
        Log found;
        for (const std::string& line : taken())
            if (line.starts_with("write") || line.starts_with("losses") || line.starts_with("hand back") ||
                line.starts_with("close ") || line.starts_with("complete") || line.starts_with("began"))
                found.push_back(line);
        return found;
    }
};

TEST_F(DrainChunks, a_ring_is_cut_by_the_times_of_its_records) {
    make();
    source->pieces[0].push_back(records(20, 5));
    const Drain::Chunk ended = rotate(1002);
    EXPECT_THAT(writes(),
                ElementsAre("write 3 to 7, lost 0 and 0", "hand back 0", "losses of 7: 0 and 0, 0 to 1002",
                            "losses of 3: 0 and 0, 0 to 1002", "complete 1002", "close statedump", "close 7",
                            "close 3", "began 1002", "write 2 to 7, lost 0 and 0", "hand back 0"));
    EXPECT_EQ(ended.totals.progress.events, 3u);
    EXPECT_EQ(drain->progress().events, 5u);
    EXPECT_EQ(drain->progress().chunk_events, 2u);
}

TEST_F(DrainChunks, what_is_announced_holds_for_turns_before_the_rotation) {
    make();
    source->pieces[0].push_back(records(20, 5));
    source->pieces[0].push_back(records(20, 1));
    drain->announce_cut(1001);
    drain->step(ReadWhat::everything);
    EXPECT_THAT(writes(), ElementsAre("write 2 to 7, lost 0 and 0", "hand back 0"));
    EXPECT_EQ(source->pieces[0].size(), 1u); /* it waits */
    rotate(1001);
    EXPECT_THAT(writes(), Contains("write 3 to 7, lost 0 and 0"));
}

TEST_F(DrainChunks, losses_are_counted_from_the_begin_of_each) {
    make();
    source->lost[0] = {5, 2};
    source->pieces[0].push_back(records(20, 3));
    const Drain::Chunk ended = rotate(2000);
    EXPECT_THAT(writes(), IsSupersetOf({"write 3 to 7, lost 5 and 2", "losses of 7: 5 and 2, 0 to 2000"}));
    EXPECT_EQ(ended.totals.progress.events_discarded, 5u);
    EXPECT_EQ(ended.totals.progress.subbufs_lost, 2u);
    source->lost[0] = {6, 2};
    source->pieces[0].push_back(records(20, 1));
    (void)drain->finish().has_value();
    EXPECT_THAT(writes(), Contains("write 1 to 7, lost 1 and 0"));
    EXPECT_EQ(drain->chunk_totals().progress.events_discarded, 1u);
    EXPECT_EQ(drain->totals().progress.events_discarded, 6u);
}

TEST_F(DrainChunks, what_could_not_be_written_is_missing_in_its_own_chunk) {
    make();
    source->pieces[0].push_back(records(20, 3));
    sink->fails = "write";
    const Drain::Chunk ended = rotate(2000);
    EXPECT_THAT(taken(), IsSupersetOf({"give up 3 of 0", "losses of 7: 3 and 0, 0 to 2000"}));
    EXPECT_FALSE(ended.written);
    EXPECT_EQ(ended.totals.events_lost.front().count, 3u);
    const Drain::Chunk next = rotate(3000);
    EXPECT_THAT(taken(), Contains("losses of 7: 0 and 0, 2000 to 3000"));
    EXPECT_TRUE(next.written);
    EXPECT_TRUE(next.totals.events_lost.empty());
}

TEST_F(DrainChunks, a_chunk_that_was_taken_away_costs_itself_alone) {
    make();
    describe(20, "of the first");
    source->pieces[0].push_back(records(20, 3));
    rotate(2000);
    source->pieces[0].push_back(records(20, 2));
    drain->step(ReadWhat::everything);
    sink->is_gone = true;
    const Drain::Chunk ended = rotate(3000);
    EXPECT_EQ(ended.totals.progress.events, 0u);
    EXPECT_EQ(drain->totals().progress.events, 3u);
    EXPECT_EQ(drain->totals().events.front().count, 3u);
}

TEST_F(DrainChunks, the_metadata_of_each_describes_all_events) {
    make();
    describe(20, "one");
    rotate(2000);
    EXPECT_THAT(taken(), Contains("metadata of 1").Times(3)); /* in the turn, at the end, and of the next */
}

TEST_F(DrainChunks, a_thread_that_drains_does_it_when_it_is_asked) {
    make();
    ASSERT_TRUE(drain->start());
    for (uint64_t at = 2000; at < 2020; at++)
        rotate(at);
    EXPECT_GE(source->wakes.load(), 20);
    (void)drain->finish().has_value();
}

} // namespace
} // namespace plumb::test
