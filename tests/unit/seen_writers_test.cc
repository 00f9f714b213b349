// cmake-once
// What is kept of who has written does not grow without end, whatever is told; what is not kept is counted.
#include "consumerd/drain/seen_writers.h"

#include <gtest/gtest.h>

#include <string>

namespace plumb {
namespace {

DrainTotals totals_of(const SeenWriters& seen) {
    DrainTotals totals;
    seen.add_to(totals);
    return totals;
}

TEST(SeenWriters, count_each_once_and_know_the_last_name) {
    SeenWriters seen;
    for (const char* name : {"shell", "server"})
        seen.add_process({100, name, "/bin/x"});
    seen.add_process({101, "other", "/bin/y"});
    for (const uint32_t thread : {100u, 101u, 100u})
        seen.add_thread(100, thread);
    const DrainTotals totals = totals_of(seen);
    ASSERT_EQ(totals.processes.size(), 2u);
    EXPECT_EQ(totals.processes[0].name, "server");
    EXPECT_EQ(totals.further_processes, 0u);
    EXPECT_EQ(totals.threads, 2u);
}

TEST(SeenWriters, are_bounded_and_all_are_counted) {
    SeenWriters seen;
    const std::string path(4000, 'a');
    constexpr uint32_t processes = 10'000;
    for (uint32_t id = 1; id <= processes; id++)
        seen.add_process({id, "x", path});
    constexpr uint32_t threads = SeenWriters::threads_max + 1000;
    for (uint32_t id = 1; id <= threads; id++)
        seen.add_thread(1, id);
    seen.add_thread(1, 1);
    const DrainTotals totals = totals_of(seen);
    EXPECT_LT(totals.processes.size() * path.size(), SeenWriters::names_bytes_max);
    EXPECT_GT(totals.processes.size(), processes / 4);
    EXPECT_EQ(totals.processes.size() + totals.further_processes, processes);
    EXPECT_EQ(totals.threads, threads);
    /* Who is known may still take another name. */
    seen.add_process({1, "y", "/bin/y"});
    EXPECT_EQ(totals_of(seen).processes[0].name, "y");
    EXPECT_EQ(totals_of(seen).further_processes, totals.further_processes);
}

} // namespace
} // namespace plumb
