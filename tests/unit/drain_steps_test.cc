// cmake-once
// What a drain asks of its source and gives to its sink, step by step, and what comes of it where one of them fails.
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/drain/drain.h"
#include "tests/support/stepped_drain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace plumb {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace test;

} // namespace

TEST_F(DrainSteps, AWholeTurnIsAskedForAndWrittenInOrder) {
    make();
    source->lost[0] = {4, 2};
    source->pieces[0] = {records(42, 3), records(43, 2)};
    source->pieces[1] = {records(42, 1)};
    EXPECT_TRUE(drain->step(ReadWhat::everything));
    EXPECT_THAT(taken(),
                ElementsAre("begin turn", "introduce", "write 3 to 7, lost 4 and 2", "hand back 0",
                            "introduce", "write 2 to 7, lost 4 and 2", "hand back 0", "leave 0", "introduce",
                            "write 1 to 3, lost 0 and 0", "hand back 1", "leave 1", "end turn"));
    EXPECT_EQ(drain->progress().events, 6u);
    EXPECT_EQ(drain->progress().events_discarded, 4u);
    EXPECT_EQ(drain->progress().subbufs_lost, 2u);
    EXPECT_EQ(drain->progress().bytes, 4711u);
    EXPECT_FALSE(drain->step(ReadWhat::everything));
    EXPECT_THAT(taken(), ElementsAre("begin turn", "leave 0", "leave 1", "end turn"));
}

TEST_F(DrainSteps, BetweenTurnsTheRingsAloneAreLookedAt) {
    make();
    source->pieces[1] = {records(42, 1)};
    EXPECT_TRUE(drain->step(ReadWhat::whole_subbufs));
    EXPECT_THAT(taken(),
                ElementsAre("leave 0", "introduce", "write 1 to 3, lost 0 and 0", "hand back 1", "leave 1"));
    source->has_damage = true;
    EXPECT_TRUE(drain->step(ReadWhat::whole_subbufs)) << "something was read, if no record";
}

TEST_F(DrainSteps, AnEventIsDescribedBeforeItsFirstRecord) {
    make();
    describe(42, "first");
    EXPECT_FALSE(drain->step(ReadWhat::everything));
    EXPECT_THAT(taken(), ElementsAre("begin turn", "metadata of 1", "leave 0", "leave 1", "end turn"));
    describe(43, "second");
    source->pieces[1] = {records(43, 1)};
    EXPECT_TRUE(drain->step(ReadWhat::whole_subbufs));
    EXPECT_THAT(taken(), ElementsAre("leave 0", "introduce", "metadata of 2", "write 1 to 3, lost 0 and 0",
                                     "hand back 1", "leave 1"));
    /* Without it nothing is written: readers would take the record for damage. */
    describe(44, "third");
    sink->fails = "metadata";
    source->pieces[1] = {records(44, 5)};
    EXPECT_TRUE(drain->step(ReadWhat::whole_subbufs));
    EXPECT_THAT(taken(), ElementsAre("leave 0", "introduce", "metadata of 3", "give up 5 of 1", "leave 1"));
}

TEST_F(DrainSteps, WhatCanNotBeWrittenIsCountedAndToldOnce) {
    make();
    describe(42, "often");
    describe(43, "seldom");
    source->lost[0].events = 10;
    source->pieces[0] = {records(42, 3)};
    drain->step(ReadWhat::whole_subbufs);
    taken();
    sink->fails = "write";
    source->pieces[0] = {records(42, 4), records(43, 2)};
    drain->step(ReadWhat::whole_subbufs);
    EXPECT_THAT(taken(),
                ElementsAre("introduce", "write 4 to 7, lost 10 and 0", "give up 4 of 0", "introduce",
                            "write 2 to 7, lost 14 and 0", "give up 2 of 0", "leave 0", "leave 1"));
    EXPECT_THAT(lines, ElementsAre(HasSubstr("No space left on device. Events are lost")));
    sink->fails.reset();
    source->pieces[0] = {records(43, 1)};
    source->pieces[1] = {records(43, 1)};
    drain->step(ReadWhat::whole_subbufs);
    EXPECT_THAT(taken(), ElementsAre("introduce", "write 1 to 7, lost 16 and 0", "hand back 0", "leave 0",
                                     "introduce", "write 1 to 3, lost 0 and 0", "hand back 1", "leave 1"));
    const DrainTotals totals = drain->totals();
    EXPECT_EQ(totals.progress.events, 5u);
    EXPECT_EQ(totals.progress.events_discarded, 16u);
    EXPECT_EQ(totals.packets, 12u);
    EXPECT_EQ(totals.write_error, "No space left on device");
    ASSERT_EQ(totals.events.size(), 2u);
    EXPECT_EQ(totals.events[0].name, "often");
    EXPECT_EQ(totals.events[0].count, 3u);
    EXPECT_EQ(totals.events[1].count, 2u);
    ASSERT_EQ(totals.events_lost.size(), 1u);
    EXPECT_EQ(totals.events_lost[0].count, 6u);
    const Status finished = drain->finish();
    ASSERT_FALSE(finished);
    EXPECT_THAT(finished.error().message(),
                HasSubstr("The trace in /trace is not complete, 6 events are missing: "));
}

/* One event may be described twice. */
TEST_F(DrainSteps, EventsAreCountedByNameTheMostFrequentFirst) {
    make();
    for (const auto& [id, name] :
         {std::pair<uint16_t, const char*>{42, "b"}, {43, "a"}, {44, "b"}, {45, "never"}})
        describe(id, name);
    source->pieces[0] = {records(42, 2), records(43, 3), records(44, 5)};
    drain->step(ReadWhat::everything);
    const DrainTotals totals = drain->totals();
    ASSERT_EQ(totals.events.size(), 2u);
    EXPECT_EQ(totals.events[0].name, "b");
    EXPECT_EQ(totals.events[0].count, 7u);
    EXPECT_EQ(totals.events[1].name, "a");
    EXPECT_EQ(totals.events[1].count, 3u);
}

TEST_F(DrainSteps, ALargePieceIsWrittenByParts) {
    make();
    sink->records_limit = 48;
    source->pieces[0] = {records(42, 2), records(42, 5)};
    drain->step(ReadWhat::whole_subbufs);
    EXPECT_THAT(taken(),
                ElementsAre("introduce", "write 2 to 7, lost 0 and 0", "hand back 0", "introduce",
                            "write 2 to 7, lost 0 and 0", "introduce", "write 2 to 7, lost 0 and 0",
                            "introduce", "write 1 to 7, lost 0 and 0", "hand back 0", "leave 0", "leave 1"));
    sink->fails = "write 2";
    source->pieces[0] = {records(42, 5)};
    drain->step(ReadWhat::whole_subbufs);
    EXPECT_THAT(taken(), ElementsAre("introduce", "write 2 to 7, lost 0 and 0", "introduce",
                                     "write 2 to 7, lost 2 and 0", "introduce", "write 1 to 7, lost 4 and 0",
                                     "give up 4 of 0", "leave 0", "leave 1"));
    EXPECT_EQ(drain->progress().events, 8u);
}

TEST_F(DrainSteps, TheEndReadsWhatIsThereAndTellsWhatIsLost) {
    make();
    source->lost[0] = {4, 2};
    source->pieces[0] = {records(42, 3)};
    sink->last = 77;
    const plumb_clock_page clock{};
    EXPECT_TRUE(drain->finish(&clock));
    EXPECT_THAT(taken(),
                ElementsAre("begin end by clock", "begin turn", "introduce", "write 3 to 7, lost 4 and 2",
                            "hand back 0", "leave 0", "leave 1", "end turn", "begin turn", "leave 0",
                            "leave 1", "end turn", "sink begins to end", "end",
                            "losses of 7: 4 and 2, 2 to 2", "hand back 0", "losses of 3: 0 and 0, 2 to 2",
                            "hand back 1", "complete 77", "metadata of 0", "close statedump", "close 7",
                            "close 3"));
    EXPECT_EQ(drain->progress().events, 3u);
}

TEST_F(DrainSteps, TheEndComesAlsoWhereSomebodyStillWrites) {
    make();
    source->has_damage = true;
    source->turns = 3;
    EXPECT_TRUE(drain->finish());
    const Log all = taken();
    EXPECT_EQ(std::count(all.begin(), all.end(), "begin turn"), 3);
    EXPECT_EQ(all.front(), "begin end");
}

/* A snapshot is complete up to when it began; what is left behind up to its last record; what ran up to its end. */
TEST_F(DrainSteps, ATraceTellsOfTheTimeUpToWhichItIsComplete) {
    const auto completed = [&] {
        EXPECT_TRUE(drain->finish());
        for (const std::string& each : taken())
            if (each.starts_with("complete")) return each;
        return std::string("never");
    };
    make();
    source->is_live = true;
    sink->last = 77;
    EXPECT_EQ(completed(), "complete 1");
    make();
    EXPECT_EQ(completed(), "complete 2") << "there is no record";
    make();
    ASSERT_TRUE(drain->start());
    drain->stop();
    sink->last = 77;
    const std::string last = completed();
    EXPECT_EQ(last, fmt::format("complete {}", source->time));
}

TEST_F(DrainSteps, TracingBeginsBehindTheThreadAndBeforeTheSource) {
    make();
    source->time = 40;
    ASSERT_TRUE(drain->start([this] {
        log.push_back("tracing");
        return ok();
    }));
    drain->stop();
    EXPECT_GT(source->wakes, 0);
    const Log begun = taken();
    ASSERT_GE(begun.size(), 3u);
    EXPECT_THAT(Log(begun.begin(), begun.begin() + 3), ElementsAre("began 41", "tracing", "begin"));
    source->time = 90;
    EXPECT_TRUE(drain->finish());
    EXPECT_THAT(taken(), testing::Contains("losses of 7: 0 and 0, 41 to 92"));
}

TEST_F(DrainSteps, NothingBeginsWhereTracingCanNot) {
    make();
    const Status begun = drain->start([] { return Status(Error("Not now.")); });
    ASSERT_FALSE(begun);
    EXPECT_EQ(begun.error().message(), "Not now.");
    drain->stop();
    for (const std::string& each : taken())
        EXPECT_NE(each, "begin");
    make();
    source->fails = "begin";
    EXPECT_EQ(drain->start().error().message(), "The source can not begin.");
    drain->stop();
}

/* Its thread is not waited for in vain. */
TEST_F(DrainSteps, EndsWhereMemoryRanOutAtItsBegin) {
    make();
    EXPECT_THROW((void)drain->start([]() -> Status { throw std::bad_alloc(); }), std::bad_alloc);
    drain.reset();
}

TEST_F(DrainSteps, WhatEachStepOfTheSourceOrTheEndCanNotIsTold) {
    for (const char* step : {"begin turn", "end turn", "introduce", "end"}) {
        make();
        source->fails = step;
        source->pieces[0] = {records(42, 1)};
        const Status finished = drain->finish();
        ASSERT_FALSE(finished) << step;
        EXPECT_EQ(finished.error().message(),
                  fmt::format("The trace in /trace is not complete: The source can not {}.", step));
        EXPECT_EQ(drain->totals().write_error, fmt::format("The source can not {}.", step));
        EXPECT_EQ(drain->progress().events, 1u) << "but it is written";
        taken();
    }
    for (const char* step : {"losses", "complete", "close statedump", "metadata"}) {
        make();
        sink->fails = step;
        EXPECT_FALSE(drain->finish()) << step;
        const Log all = taken();
        EXPECT_EQ(std::count(all.begin(), all.end(), "hand back 0"), std::string(step) == "losses" ? 0 : 1);
    }
}

TEST_F(DrainSteps, AStreamThatCanNotBeClosedHasLostWhatItHad) {
    make();
    source->pieces[0] = {records(42, 3)};
    source->pieces[1] = {records(42, 5)};
    describe(42, "n");
    sink->fails = "close 7";
    const Status finished = drain->finish();
    ASSERT_FALSE(finished);
    EXPECT_THAT(finished.error().message(), HasSubstr("not complete, 3 events are missing: "));
    const DrainTotals totals = drain->totals();
    EXPECT_EQ(totals.progress.events, 5u);
    EXPECT_EQ(totals.progress.events_discarded, 3u);
    EXPECT_EQ(totals.events_lost.at(0).count, 3u);
    EXPECT_EQ(totals.events.at(0).count, 8u) << "of which kind they were is not known";
}

TEST_F(DrainSteps, WhatWasInFilesThatAreGoneIsLost) {
    make();
    describe(42, "n");
    source->pieces[0] = {records(42, 3)};
    drain->step(ReadWhat::everything);
    sink->is_gone = true;
    source->pieces[1] = {records(42, 5)};
    const Status finished = drain->finish();
    ASSERT_FALSE(finished);
    EXPECT_EQ(finished.error().message(),
              "The trace in /trace is not complete, 8 events are missing: It was removed.");
    const DrainTotals totals = drain->totals();
    EXPECT_EQ(totals.progress.events, 0u);
    EXPECT_EQ(totals.progress.events_discarded, 8u);
    EXPECT_THAT(totals.events, IsEmpty());
}

TEST_F(DrainSteps, EnoughIsEnoughAtOnce) {
    DrainOptions options;
    bool is_enough = false;
    options.is_enough = [&] { return is_enough; };
    make(options);
    is_enough = true;
    source->pieces[0] = {records(42, 3)};
    drain->step(ReadWhat::whole_subbufs);
    EXPECT_EQ(drain->progress().events, 3u) << "it is asked at the end alone";
    source->pieces[0] = {records(42, 3)};
    taken();
    EXPECT_EQ(drain->finish().error().message(),
              "Not everything was read that had been recorded, since the end was asked for again: the last "
              "events are missing in /trace.");
    EXPECT_EQ(drain->progress().events, 3u);
    const Log all = taken();
    EXPECT_EQ(std::count(all.begin(), all.end(), "begin turn"), 1);
    EXPECT_EQ(std::count(all.begin(), all.end(), "end turn"), 0);
    EXPECT_EQ(std::count(all.begin(), all.end(), "close 3"), 1);
}

/* Where what is left is there at the next try. */
TEST_F(DrainSteps, AFailureEndsWhatCanBeReadAgain) {
    for (const bool ends : {true, false}) {
        DrainOptions options;
        options.ends_at_failure = ends;
        make(options);
        lines.clear();
        sink->fails = "write";
        source->pieces[0] = {records(42, 3), records(42, 2)};
        source->pieces[1] = {records(42, 1)};
        EXPECT_THAT(
            drain->finish().error().message(),
            HasSubstr(ends ? "not complete, 3 events are missing" : "not complete, 6 events are missing"));
        EXPECT_EQ(source->pieces[0].size(), ends ? 1u : 0u);
        EXPECT_EQ(lines.size(), ends ? 0u : 1u);
        taken();
    }
}

TEST_F(DrainSteps, IsNotMadeWhereNothingCanBeWritten) {
    auto of_sink = std::make_unique<StepSink>(log);
    of_sink->fails = "metadata";
    DrainOptions options;
    options.log = [this](const std::string& line) { lines.push_back(line); };
    const auto made = Drain::make(std::make_unique<StepSource>(log), std::move(of_sink), options);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().message(), "Could not metadata of 0: No space left on device.");
    EXPECT_THAT(lines, IsEmpty()) << "nothing is recorded yet";
}

/* Of a source that has nothing, nothing is asked all the time; where there is something, it is asked for as often as wanted. */
TEST_F(DrainSteps, TurnsAreRarerWhereThereIsNothing) {
    const auto turns_in_a_second = [&](bool has_events) {
        DrainOptions options;
        options.interval_ns = 10'000'000;
        options.idle_interval_ns = 300'000'000;
        make(options);
        source->has_damage = has_events;
        std::atomic<int> too_far = 0;
        source->on_wait = [&](bool, uint64_t until_ns) {
            const uint64_t now_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
            too_far += until_ns > now_ns + (has_events ? 10'000'000u : 300'000'000u);
        };
        EXPECT_TRUE(drain->start());
        ::usleep(1'000'000);
        drain->stop();
        EXPECT_EQ(too_far, 0);
        const Log all = taken();
        return std::count(all.begin(), all.end(), "end turn");
    };
    const auto idle = turns_in_a_second(false), busy = turns_in_a_second(true);
    EXPECT_GT(idle, 1);
    EXPECT_LT(idle, 12);
    EXPECT_GT(busy, idle);
    EXPECT_LE(busy, 102);
}

} // namespace plumb
