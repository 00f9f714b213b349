// cmake-once
/* Who holds a lock and how long, event by event: releases count once it is known that they were not refused. */
#include "trace/answers/lock_holds.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace plumb {
namespace {

/* Of events such as A1@10: thread 1 takes it Alone (M: and May have it already) or Shared, Releases it, is refused (X), or does
 * something else (T). Then how many holds ended, how long they were together, and the longest. */
std::string holds(const std::string& events, LockNature nature) {
    LockHolds holds;
    holds.reset(nature);
    std::istringstream words(events);
    char what = 0, at = 0;
    for (uint32_t thread = 0; words >> what;) {
        int64_t time = 0;
        if (what == 'Z') {
            holds.reset(nature);
            continue;
        }
        words >> thread;
        if (words.peek() == '@') words >> at >> time;
        switch (what) {
        case 'A':
        case 'M':
            holds.acquire_alone(thread, time, what == 'M');
            EXPECT_TRUE(holds.is_held_by(thread));
            EXPECT_FALSE(holds.is_held_by(thread + 1));
            break;
        case 'S':
            holds.acquire_shared(thread, time);
            EXPECT_TRUE(holds.is_held_by(thread));
            break;
        case 'R':
            holds.release(thread, time);
            break;
        case 'X':
            holds.refuse(thread);
            break;
        default:
            holds.settle(thread);
        }
    }
    EXPECT_EQ(holds.nature(), nature);
    const HoldTimes times = holds.times();
    EXPECT_EQ(holds.times().count, times.count) << "to ask changes nothing";
    return fmt::format("{} {} {}", times.count, times.total_ns, times.max_ns);
}

struct Case {
    const char* events;
    const char* plain;
    const char* checked;
    const char* recursive;
    const char* unknown;
};

TEST(LockHolds, EndAsTheNatureOfTheLockAllows) {
    const Case cases[] = {
        {"A1@10 R1@15", "1 5 5", "1 5 5", "1 5 5", "1 5 5"},
        {"A1@10", "0 0 0", "0 0 0", "0 0 0", "0 0 0"},
        {"A1@10 R1@5", "1 0 0", "1 0 0", "1 0 0", "1 0 0"}, /* clocks differ a bit */
        {"A1@10 R1@15 X1", "0 0 0", "0 0 0", "0 0 0", "0 0 0"},
        {"A1@10 R1@15 X2", "1 5 5", "1 5 5", "1 5 5", "1 5 5"},
        {"A1@10 R1@15 T1 X1", "1 5 5", "1 5 5", "1 5 5", "1 5 5"},
        {"A1@10 R1@15 T2 X1", "0 0 0", "0 0 0", "0 0 0", "0 0 0"},
        {"A1@10 R1@15 X1 R1@18", "1 8 8", "1 8 8", "1 8 8", "1 8 8"},
        {"A1@10 R1@15 A2@20 R2@30", "2 15 10", "2 15 10", "2 15 10", "2 15 10"},
        {"A1@10 R1@20 A2@25 R2@30", "2 15 10", "2 15 10", "2 15 10", "2 15 10"},
        {"A1@10 R1@15 A1@16 R1@20", "2 9 5", "2 9 5", "2 9 5", "2 9 5"},
        {"A1@10 A2@20 R2@25", "1 5 5", "1 5 5", "1 5 5", "1 5 5"}, /* the end of the first was lost */
        {"A1@10 R1@15 Z A2@16 R2@18", "2 7 5", "2 7 5", "2 7 5", "2 7 5"},
        {"A1@10 Z R1@15", "0 0 0", "0 0 0", "0 0 0", "0 0 0"},
        /* Released by another. */
        {"A1@10 R2@17", "1 7 7", "0 0 0", "0 0 0", "1 7 7"},
        {"A1@10 R2@17 R1@20", "1 10 10", "1 10 10", "1 10 10", "1 10 10"},
        {"A1@10 R2@17 T2 R1@20", "1 7 7", "1 10 10", "1 10 10", "1 7 7"},
        {"A1@10 R2@17 X2 R1@20", "1 10 10", "1 10 10", "1 10 10", "1 10 10"},
        {"A1@10 R1@12 R2@14 T2", "1 2 2", "1 2 2", "1 2 2", "1 2 2"},
        {"A1@10 R1@12 R2@14 T2 X1", "1 2 2", "0 0 0", "0 0 0", "1 2 2"},
        {"A1@10 R2@12 R1@14 T2", "1 2 2", "1 4 4", "1 4 4", "1 2 2"},
        {"A1@10 R2@12 R3@13 A4@20 R4@26", "2 8 6", "1 6 6", "1 6 6", "2 8 6"},
        {"A1@10 R2@12 Z", "1 2 2", "0 0 0", "0 0 0", "1 2 2"},
        {"R2@5 A1@10", "0 0 0", "0 0 0", "0 0 0", "0 0 0"},
        {"R2@5 A1@10 T2 R1@12", "1 2 2", "1 2 2", "1 2 2", "1 2 2"},
        {"S9@1 R2@5 S1@10 T2 R1@12", "1 2 2", "1 2 2", "1 2 2", "1 2 2"},
        {"A1@10 R2@12 S3@20 R3@26", "2 8 6", "1 6 6", "1 6 6", "2 8 6"},
        /* One's own release counts more than that of another, though it comes later. */
        {"A1@10 R2@12 R1@14 S3@20", "1 4 4", "1 4 4", "1 4 4", "1 4 4"},
        {"A1@10 R2@12 R1@14 A3@20", "1 4 4", "1 4 4", "1 4 4", "1 4 4"},
        {"A1@10 R2@12 R1@14 Z", "1 4 4", "1 4 4", "1 4 4", "1 4 4"},
        /* Taken again. */
        {"M1@10 M1@11 R1@12 R1@20", "1 1 1", "1 1 1", "1 10 10", "1 10 10"},
        {"A1@10 A1@11 R1@12 R1@20", "1 1 1", "1 1 1", "1 10 10", "1 1 1"},
        {"M1@10 M1@11 M1@12 R1@13 R1@14 R1@20", "1 1 1", "1 1 1", "1 10 10", "1 10 10"},
        {"M1@10 M1@11 R1@12", "1 1 1", "1 1 1", "0 0 0", "0 0 0"},
        {"M1@10 M2@11 R2@12", "1 1 1", "1 1 1", "1 1 1", "1 1 1"},
        /* Shared. */
        {"S1@10 S2@12 R1@15 R2@30", "2 23 18", "2 23 18", "2 23 18", "2 23 18"},
        {"S1@10 S2@12 R2@15 R1@30", "2 23 20", "2 23 20", "2 23 20", "2 23 20"},
        {"S1@10 S1@12 R1@15 R1@30", "1 20 20", "1 20 20", "1 20 20", "1 20 20"},
        {"S1@10 S2@10 R3@15", "0 0 0", "0 0 0", "0 0 0", "0 0 0"},
        {"S1@10 R3@15", "0 0 0", "0 0 0", "0 0 0", "0 0 0"},
        {"S1@10 S2@11 A3@20 R3@25", "1 5 5", "1 5 5", "1 5 5", "1 5 5"},
        {"S1@10 R1@12 S2@11 R2@14 A3@20 R3@25", "3 10 5", "3 10 5", "3 10 5", "3 10 5"},
        {"A1@10 S2@20 R2@25", "1 5 5", "1 5 5", "1 5 5", "1 5 5"},
        {"A1@10 R1@15 S2@20 R2@26", "2 11 6", "2 11 6", "2 11 6", "2 11 6"},
        {"A1@10 S1@12 R1@20", "1 8 8", "1 8 8", "1 8 8", "1 8 8"},
        {"S1@10 M1@12 R1@20", "1 8 8", "1 8 8", "1 8 8", "1 8 8"},
    };
    for (const Case& each : cases) {
        EXPECT_EQ(holds(each.events, LockNature::plain), each.plain) << each.events;
        EXPECT_EQ(holds(each.events, LockNature::checked), each.checked) << each.events;
        EXPECT_EQ(holds(each.events, LockNature::recursive), each.recursive) << each.events;
        EXPECT_EQ(holds(each.events, LockNature::unknown), each.unknown) << each.events;
    }
}

} // namespace
} // namespace plumb
