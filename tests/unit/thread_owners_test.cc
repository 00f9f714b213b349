// cmake-once
//
// Threads that the kernel's events speak of belong to the process of whoever made them, in whichever order the CPUs'
// buffers came.
#include "consumerd/kernel/thread_owners.h"

#include <gtest/gtest.h>

#include <limits>
#include <ostream>

namespace plumb {

/* What a failed test shows. */
static void PrintTo(const NamedThread& thread, std::ostream* to) {
    *to << thread.timestamp << ": thread " << thread.thread_id << " of " << thread.process_id << ", "
        << thread.name;
}

namespace {

using Names = std::vector<NamedThread>;

constexpr std::uint64_t for_ever = std::numeric_limits<std::uint64_t>::max();

bool same(const Names& a, const Names& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const NamedThread& x, const NamedThread& y) {
        return x.timestamp == y.timestamp && x.thread_id == y.thread_id && x.process_id == y.process_id &&
               x.name == y.name;
    });
}

ThreadNote process_began(std::uint64_t time, std::uint32_t id, std::uint32_t by) {
    return {time, id, by, true, true, "process", ""};
}

ThreadNote thread_began(std::uint64_t time, std::uint32_t id, std::uint32_t by) {
    return {time, id, by, true, false, "thread", ""};
}

ThreadNote renamed(std::uint64_t time, std::uint32_t id, const char* name) {
    return {time, id, id, false, false, name, "old"};
}

class ThreadOwnersTest : public testing::Test {
protected:
    void SetUp() override { owners.know({{100, 100, 1}, {101, 100, 2}}, 10); }
    void expect(std::uint64_t until, const Names& expected) {
        const Names taken = owners.take(until);
        EXPECT_TRUE(same(taken, expected)) << testing::PrintToString(taken);
    }
    ThreadOwners owners;
};

TEST_F(ThreadOwnersTest, KnowTheProcessOfAThreadThatWasThere) {
    owners.add({renamed(20, 101, "worker"), renamed(21, 100, "server")});
    expect(for_ever, {{20, 101, 100, "worker"}, {21, 100, 100, "server"}});
}

/* The look read the time, then he was renamed, and then it read his name. */
TEST_F(ThreadOwnersTest, TellTheOldNameAroundALookThatFoundTheNewOne) {
    owners.know({{100, 100, 1, 5}, {101, 100, 2, 8}}, 10);
    owners.add({renamed(7, 100, "new"), renamed(8, 101, "before it was looked"), renamed(9, 100, "newer"),
                renamed(12, 101, "behind")});
    expect(for_ever, {{5, 100, 100, "old"},
                      {6, 100, 100, "old"},
                      {7, 100, 100, "new"},
                      {8, 101, 100, "old"},
                      {8, 101, 100, "before it was looked"},
                      {9, 100, 100, "newer"},
                      {12, 101, 100, "behind"}});
}

/* Renamed, looked at, and renamed once more before his name was read. */
TEST_F(ThreadOwnersTest, TellTheOldNameAroundALookAlsoOfWhoWasRenamedBeforeIt) {
    owners.know({{100, 100, 1, 5}}, 10);
    ThreadNote second = renamed(7, 100, "newest");
    second.old_name = "new";
    owners.add({renamed(3, 100, "new"), second});
    expect(10, {{3, 100, 100, "old"},
                {3, 100, 100, "new"},
                {5, 100, 100, "new"},
                {6, 100, 100, "new"},
                {7, 100, 100, "newest"}});
}

/* A chunk begins: it is looked again who is there. */
TEST_F(ThreadOwnersTest, TellTheOldNameAroundTheLookOfEachChunk) {
    owners.know({{100, 100, 1, 5}}, 10);
    expect(10, {});
    owners.add({renamed(15, 100, "new")});
    expect(19, {{15, 100, 100, "new"}});
    owners.know({{100, 100, 1, 20}}, 30);
    ThreadNote again = renamed(21, 100, "newer");
    again.old_name = "new";
    owners.add({again});
    expect(30, {{20, 100, 100, "new"}, {21, 100, 100, "new"}, {21, 100, 100, "newer"}});
}

TEST_F(ThreadOwnersTest, GiveANewThreadTheProcessOfItsMaker) {
    owners.add({thread_began(20, 102, 101), thread_began(21, 103, 102), renamed(22, 103, "late")});
    expect(for_ever, {{20, 102, 100, "thread"}, {21, 103, 100, "thread"}, {22, 103, 100, "late"}});
}

TEST_F(ThreadOwnersTest, TakeANewProcessForItsOwnOneAndItsThreadsForTheNewOnes) {
    owners.add({process_began(20, 200, 101), thread_began(21, 201, 200)});
    expect(for_ever, {{20, 200, 200, "process"}, {21, 201, 200, "thread"}});
    /* The number of a thread that ended comes again as a process. */
    owners.add({process_began(30, 201, 100), renamed(31, 201, "other")});
    expect(for_ever, {{30, 201, 201, "process"}, {31, 201, 201, "other"}});
}

TEST_F(ThreadOwnersTest, TakeWhomNobodyKnowsForAProcess) {
    owners.add({thread_began(21, 302, 301)});
    expect(for_ever, {{21, 302, 301, "thread"}});
}

/* Each makes the next one and ends; 303 alone was seen while it lived. */
TEST_F(ThreadOwnersTest, KnowThoseWhomNobodySawByTheFirstOfTheirLineThatWasSeen) {
    owners.know({{303, 300, 20, 24}}, 25);
    owners.add({thread_began(21, 302, 301), thread_began(22, 303, 302), thread_began(24, 304, 303),
                thread_began(26, 305, 304), process_began(27, 306, 305)});
    expect(25, {{21, 302, 300, "thread"}, {22, 303, 300, "thread"}, {24, 304, 300, "thread"}});
    owners.add({thread_began(28, 307, 301)}); /* it lived yet */
    expect(for_ever, {{26, 305, 300, "thread"}, {27, 306, 306, "process"}, {28, 307, 300, "thread"}});
}

TEST_F(ThreadOwnersTest, TakeNobodyForWhoHadTheNumberBefore) {
    owners.know({{303, 300, 20, 21}}, 25);
    owners.add({thread_began(22, 303, 302), thread_began(23, 304, 303)});
    expect(for_ever, {{22, 303, 302, "thread"}, {23, 304, 302, "thread"}});
}

TEST_F(ThreadOwnersTest, KnowAlsoThoseThatWereTakenInLaterByTheirLine) {
    owners.add_taken_in({{20, 403, 400, "seen", 23}}, 20);
    owners.add({thread_began(21, 402, 401), thread_began(22, 403, 402)});
    expect(for_ever, {{20, 403, 400, "seen"}, {21, 402, 400, "thread"}, {22, 403, 400, "thread"}});
}

/* What it did until then was done by that name. */
TEST_F(ThreadOwnersTest, TellWhatAThreadWasCalledWhoseBeginningWasLost) {
    owners.add({renamed(20, 300, "new"), renamed(22, 300, "newer")});
    expect(for_ever, {{20, 300, 300, "old"}, {20, 300, 300, "new"}, {22, 300, 300, "newer"}});
    owners.add({renamed(30, 300, "newest"), renamed(31, 101, "worker")});
    expect(for_ever, {{30, 300, 300, "newest"}, {31, 101, 100, "worker"}});
}

TEST_F(ThreadOwnersTest, GoByTimeAndNotByTheOrderInWhichNotesCame) {
    owners.add({thread_began(30, 202, 200), renamed(25, 101, "b")});
    owners.add({process_began(20, 200, 100), renamed(25, 100, "c")});
    expect(for_ever,
           {{20, 200, 200, "process"}, {25, 101, 100, "b"}, {25, 100, 100, "c"}, {30, 202, 200, "thread"}});
}

TEST_F(ThreadOwnersTest, KnowWhoseThreadsAForkSpeaksOf) {
    const auto expect_fork = [this](uint32_t parent, uint32_t child, uint64_t time, uint32_t of_parent,
                                    uint32_t of_child) {
        const ForkProcesses processes = owners.of_fork(parent, child, time);
        EXPECT_EQ(processes.of_parent, of_parent) << parent << " at " << time;
        EXPECT_EQ(processes.of_child, of_child) << child << " at " << time;
    };
    owners.add({process_began(30, 300, 102), thread_began(20, 102, 101), process_began(40, 102, 100),
                thread_began(50, 301, 102), thread_began(60, 300, 100)});
    for (int taken = 0; taken < 2; taken++) { /* also when the names were written */
        expect_fork(101, 102, 21, 100, 100);
        expect_fork(102, 300, 31, 100, 300);
        expect_fork(100, 102, 41, 100, 102);
        expect_fork(102, 301, 51, 102, 102);
        expect_fork(100, 300, 61, 100, 100);
        expect_fork(400, 401, 61, 400, 401); /* nobody knows them */
        owners.take(20);
    }
    owners.take(for_ever);
    expect_fork(100, 300, 61, 100, 100);
}

TEST_F(ThreadOwnersTest, EndWhereTwoThreadsMadeEachOther) {
    owners.add({thread_began(20, 500, 501), thread_began(20, 501, 500)});
    owners.of_fork(500, 501, 20);
    EXPECT_EQ(owners.take(for_ever).size(), 2u);
}

TEST_F(ThreadOwnersTest, HoldWhatIsYoungerThanAskedFor) {
    owners.add({renamed(20, 100, "a"), renamed(21, 100, "b"), renamed(22, 100, "c")});
    expect(21, {{20, 100, 100, "a"}, {21, 100, 100, "b"}});
    expect(21, {});
    expect(22, {{22, 100, 100, "c"}});
    expect(for_ever, {});
}

/* Who is there is found from 1 to 10: a name has its own time, and readers take the first one for all that was before. */
TEST_F(ThreadOwnersTest, TellWhatAThreadWasCalledThatWasRenamedWhileItWasLooked) {
    owners.add({renamed(5, 100, "early"), renamed(7, 100, "next"), renamed(11, 100, "later"),
                renamed(12, 101, "known")});
    expect(10, {{5, 100, 100, "old"}, {5, 100, 100, "early"}, {7, 100, 100, "next"}});
    expect(for_ever, {{11, 100, 100, "later"}, {12, 101, 100, "known"}});
}

/* Nothing else tells of them; what they were called from 20 on is written by 25. */
TEST_F(ThreadOwnersTest, TellOfThreadsThatWereTakenInLater) {
    owners.add_taken_in({{20, 400, 400, "spin"}, {20, 401, 400, "worker"}}, 25);
    owners.add({thread_began(22, 402, 401), renamed(30, 400, "late")});
    expect(
        for_ever,
        {{22, 402, 400, "thread"}, {25, 400, 400, "spin"}, {25, 401, 400, "worker"}, {30, 400, 400, "late"}});
    EXPECT_EQ(owners.of_fork(401, 403, 40).of_parent, 400u);
}

TEST_F(ThreadOwnersTest, TellNothingOlderOfAThreadThatBeganWhileItWasLooked) {
    owners.add({process_began(5, 200, 100), renamed(7, 200, "executed")});
    expect(10, {{5, 200, 200, "process"}, {7, 200, 200, "executed"}});
}

} // namespace
} // namespace plumb
