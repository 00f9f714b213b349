// cmake-once
// What is believed of a clock page that traced programs could write over.
#include "consumerd/clock/clock_page_check.h"

#include <gtest/gtest.h>

namespace plumb {
namespace {

constexpr uint64_t second_ns = 1'000'000'000;

/* Of a clock in nanoseconds: at an hour since the start, the clock shows `base_cycles`. */
plumb_clock_page page_of(uint64_t base_cycles) {
    plumb_clock_page page{};
    page.mode = 77; /* none that there is */
    page.frequency_hz = second_ns;
    page.mult = 1;
    page.base_monotonic_ns = 3600 * second_ns;
    page.realtime_offset_ns = static_cast<int64_t>(1'700'000'000 * second_ns);
    page.base_cycles = base_cycles;
    return page;
}

TEST(ClockPageCheck, BelievesTheModeThatIsStatedIfThereIsSuchAOne) {
    plumb_clock_page page = page_of(5);
    for (const plumb_clock_mode mode :
         {PLUMB_CLOCK_TSC, PLUMB_CLOCK_MONOTONIC, PLUMB_CLOCK_BOOTTIME, PLUMB_CLOCK_REALTIME}) {
        page.mode = mode;
        EXPECT_EQ(believable_clock_mode(page), mode);
    }
}

TEST(ClockPageCheck, KnowsTheClockByWhereItsBaseIs) {
    const uint64_t monotonic_ns = 3600 * second_ns;
    EXPECT_EQ(believable_clock_mode(page_of(monotonic_ns)), PLUMB_CLOCK_MONOTONIC);
    EXPECT_EQ(believable_clock_mode(page_of(monotonic_ns + 1'700'000'000 * second_ns)), PLUMB_CLOCK_REALTIME);
    EXPECT_EQ(believable_clock_mode(page_of(monotonic_ns + 1)), PLUMB_CLOCK_BOOTTIME) << "suspended for 1 ns";
    plumb_clock_page counter = page_of(monotonic_ns);
    counter.mult = 2;
    EXPECT_EQ(believable_clock_mode(counter), PLUMB_CLOCK_TSC);
    counter = page_of(monotonic_ns);
    counter.frequency_hz = 3 * second_ns;
    EXPECT_EQ(believable_clock_mode(counter), PLUMB_CLOCK_TSC);
}

} // namespace
} // namespace plumb
