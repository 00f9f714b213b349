// cmake-once
// What is believed of a clock page that traced programs could write over.
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/clock/clock_page_check.h"

#include <gtest/gtest.h>

#include <ctime>
#include <limits>
#include <string>

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

constexpr uint64_t uptime_ns = 3600 * second_ns, made_ns = 1'700'003'600 * second_ns;
constexpr uint64_t counter_hz = 2'500'000'000;
constexpr const char* time_of_day = "the time of day (now that of the recording's begin, about)";

/* Of a recording that began `uptime_ns` after its machine, at the time of day made_ns. */
plumb_clock_page sound_page(plumb_clock_mode mode) {
    plumb_clock_page page = page_of(uptime_ns);
    page.mode = mode;
    if (mode == PLUMB_CLOCK_BOOTTIME) page.base_cycles = uptime_ns + 50 * second_ns;
    if (mode == PLUMB_CLOCK_REALTIME) page.base_cycles = made_ns;
    if (mode == PLUMB_CLOCK_TSC) {
        const ClockRate rate = *ClockRate::from_ratio(second_ns, counter_hz);
        page.mult = rate.mult;
        page.shift = rate.shift;
        page.frequency_hz = counter_hz;
        page.base_cycles = 77 * counter_hz;
    }
    return page;
}

uint64_t wall_of_base(const plumb_clock_page& page) {
    return page.base_monotonic_ns + static_cast<uint64_t>(page.realtime_offset_ns);
}

bool are_equal(const plumb_clock_page& a, const plumb_clock_page& b) {
    return a.mode == b.mode && a.mult == b.mult && a.shift == b.shift && a.frequency_hz == b.frequency_hz &&
           a.base_cycles == b.base_cycles && a.base_monotonic_ns == b.base_monotonic_ns &&
           a.realtime_offset_ns == b.realtime_offset_ns;
}

uint64_t now_ns() {
    return static_cast<uint64_t>(time(nullptr)) * second_ns;
}

/* A record of ten seconds after the begin. */
uint64_t later(const plumb_clock_page& page) {
    return page.base_cycles + 10 * page.frequency_hz;
}

TEST(ClockPageCheck, ASoundPageStaysAsItIs) {
    for (const plumb_clock_mode mode :
         {PLUMB_CLOCK_TSC, PLUMB_CLOCK_MONOTONIC, PLUMB_CLOCK_BOOTTIME, PLUMB_CLOCK_REALTIME}) {
        const plumb_clock_page page = sound_page(mode);
        /* With a header that is damaged as well, too. */
        for (const uint64_t created : {made_ns, uint64_t{0}, uint64_t{5}, ~uint64_t{0}})
            for (const bool has_record : {false, true}) {
                ClockEvidence evidence{created, {}};
                if (has_record) evidence.timestamp = later(page);
                const CheckedClockPage checked = check_clock_page(page, evidence);
                EXPECT_EQ(checked.damage, "") << mode << " " << created;
                EXPECT_TRUE(are_equal(checked.page, page)) << mode;
            }
    }
}

TEST(ClockPageCheck, AClockInNanosecondsHasTheirRate) {
    for (const plumb_clock_mode mode : {PLUMB_CLOCK_MONOTONIC, PLUMB_CLOCK_BOOTTIME, PLUMB_CLOCK_REALTIME})
        for (int what = 0; what < 3; what++) {
            plumb_clock_page page = sound_page(mode);
            if (what == 0) page.mult = 2;
            if (what == 1) page.shift = 1;
            if (what == 2) page.frequency_hz++;
            const CheckedClockPage checked = check_clock_page(page, {made_ns, {}});
            EXPECT_EQ(checked.damage, "its rate") << what;
            EXPECT_TRUE(are_equal(checked.page, sound_page(mode))) << what;
        }
}

/* It stands there twice. */
TEST(ClockPageCheck, ACountersRateIsTheOneThatCanBe) {
    const plumb_clock_page sound = sound_page(PLUMB_CLOCK_TSC);
    const auto checked = [](plumb_clock_page page) { return check_clock_page(page, {made_ns, {}}); };
    for (const uint64_t impossible : {uint64_t{0}, uint64_t{999'999}, uint64_t{100'000'000'001}}) {
        plumb_clock_page page = sound;
        page.frequency_hz = impossible;
        EXPECT_EQ(checked(page).damage, "its rate");
        EXPECT_TRUE(are_equal(checked(page).page, sound)) << impossible;
    }
    for (const auto& [mult, shift] :
         {std::pair{0u, 31u}, {sound.mult, 63u}, {sound.mult, 62u}, {1u, 30u}, {UINT32_MAX, 0u}}) {
        plumb_clock_page page = sound;
        page.mult = mult;
        page.shift = shift;
        EXPECT_EQ(checked(page).damage, "its rate");
        EXPECT_TRUE(are_equal(checked(page).page, sound)) << mult << " " << shift;
    }
    for (const uint64_t hz : {uint64_t{1'000'000}, uint64_t{90'000'000'000}}) {
        plumb_clock_page page = sound;
        const ClockRate rate = *ClockRate::from_ratio(second_ns, hz);
        page.mult = rate.mult;
        page.shift = rate.shift;
        page.frequency_hz = hz;
        EXPECT_EQ(checked(page).damage, "") << hz;
    }
    plumb_clock_page neither = sound;
    neither.mult = 0;
    neither.frequency_hz = 0;
    const auto own = ClockCalibration::start(PLUMB_CLOCK_TSC);
    const uint64_t hz = own ? own->page().frequency_hz : second_ns;
    EXPECT_NEAR(static_cast<double>(checked(neither).page.frequency_hz), static_cast<double>(hz), 1e6);
    EXPECT_NEAR(static_cast<double>(clock_to_monotonic_ns(checked(neither).page, sound.base_cycles + hz)),
                static_cast<double>(uptime_ns + second_ns), 1e6);
}

TEST(ClockPageCheck, OfTwoRatesThatCanBeThatOfThisMachineIsBelieved) {
    const auto own = ClockCalibration::start(PLUMB_CLOCK_TSC);
    if (!own) GTEST_SKIP() << own.error().message();
    const uint64_t own_hz = own->page().frequency_hz;
    for (const uint64_t other_hz : {own_hz / 3, own_hz * 3})
        for (const bool is_stated : {false, true}) {
            plumb_clock_page page = sound_page(PLUMB_CLOCK_TSC);
            const ClockRate rate = *ClockRate::from_ratio(second_ns, is_stated ? other_hz : own_hz);
            page.mult = rate.mult;
            page.shift = rate.shift;
            page.frequency_hz = is_stated ? own_hz : other_hz;
            const CheckedClockPage checked = check_clock_page(page, {made_ns, {}});
            EXPECT_EQ(checked.damage, "its rate");
            EXPECT_NEAR(static_cast<double>(checked.page.frequency_hz), static_cast<double>(own_hz), 10);
            EXPECT_NEAR(static_cast<double>(
                            clock_to_monotonic_ns(checked.page, checked.page.base_cycles + 10 * own_hz)),
                        static_cast<double>(uptime_ns + 10 * second_ns), 100);
        }
}

TEST(ClockPageCheck, TheBeginWasWhenTheChannelWasMade) {
    for (const plumb_clock_mode mode :
         {PLUMB_CLOCK_TSC, PLUMB_CLOCK_MONOTONIC, PLUMB_CLOCK_BOOTTIME, PLUMB_CLOCK_REALTIME}) {
        /* Clocks are set, but not by hours. */
        for (const int64_t seconds : {-3600, -900, -500, 500, 900, 3600}) {
            plumb_clock_page page = sound_page(mode);
            page.realtime_offset_ns += seconds * static_cast<int64_t>(second_ns);
            const CheckedClockPage checked = check_clock_page(page, {made_ns, {}});
            const bool is_about = seconds == -500 || seconds == 500;
            EXPECT_EQ(checked.damage, is_about ? "" : time_of_day) << mode << " " << seconds;
            EXPECT_TRUE(are_equal(checked.page, is_about ? page : sound_page(mode)))
                << mode << " " << seconds;
        }
        plumb_clock_page page = sound_page(mode);
        page.realtime_offset_ns = std::numeric_limits<int64_t>::min();
        EXPECT_EQ(check_clock_page(page, {made_ns, {}}).damage, time_of_day);
        EXPECT_TRUE(are_equal(check_clock_page(page, {made_ns, {}}).page, sound_page(mode)));
    }
}

TEST(ClockPageCheck, HowLongTheMachineHadRunIsKnownToAMonotonicClockAlone) {
    plumb_clock_page page = sound_page(PLUMB_CLOCK_MONOTONIC);
    page.base_monotonic_ns += 5000 * second_ns;
    CheckedClockPage checked = check_clock_page(page, {made_ns, {}});
    EXPECT_EQ(checked.damage, time_of_day);
    EXPECT_TRUE(are_equal(checked.page, sound_page(PLUMB_CLOCK_MONOTONIC)));
    for (const plumb_clock_mode mode : {PLUMB_CLOCK_TSC, PLUMB_CLOCK_BOOTTIME}) {
        page = sound_page(mode);
        page.base_monotonic_ns = made_ns; /* it ran since 1970 */
        checked = check_clock_page(page, {made_ns, {}});
        EXPECT_EQ(checked.page.base_monotonic_ns, made_ns);
        EXPECT_EQ(wall_of_base(checked.page), made_ns);
        page.base_monotonic_ns = made_ns + 1;
        checked = check_clock_page(page, {made_ns, {}});
        EXPECT_EQ(checked.damage, time_of_day);
        EXPECT_EQ(checked.page.base_monotonic_ns, 0u);
        EXPECT_EQ(wall_of_base(checked.page), made_ns);
    }
}

/* Where both are damaged, it was just now. */
TEST(ClockPageCheck, WithoutATimeOfDayItIsNow) {
    plumb_clock_page page = sound_page(PLUMB_CLOCK_BOOTTIME);
    for (const uint64_t impossible : {uint64_t{0}, now_ns() + 3600 * second_ns, 999'999'999 * second_ns}) {
        page.realtime_offset_ns = static_cast<int64_t>(impossible - page.base_monotonic_ns);
        const CheckedClockPage checked = check_clock_page(page, {impossible, {}});
        EXPECT_EQ(checked.damage, time_of_day) << impossible;
        EXPECT_NEAR(static_cast<double>(wall_of_base(checked.page)), static_cast<double>(now_ns()), 60e9);
    }
    /* Neither is what is little ahead, or was in 2001. */
    for (const uint64_t possible : {now_ns() + 300 * second_ns, 1'000'000'000 * second_ns}) {
        page.realtime_offset_ns = 0;
        EXPECT_EQ(wall_of_base(check_clock_page(page, {possible, {}}).page), possible);
        page.realtime_offset_ns = static_cast<int64_t>(possible - page.base_monotonic_ns);
        EXPECT_EQ(check_clock_page(page, {0, {}}).damage, "") << possible;
    }
}

TEST(ClockPageCheck, WhereItBeganToCountFollowsFromTheClock) {
    for (const plumb_clock_mode mode : {PLUMB_CLOCK_MONOTONIC, PLUMB_CLOCK_REALTIME}) {
        const plumb_clock_page sound = sound_page(mode);
        for (const uint64_t wrong : {uint64_t{0}, sound.base_cycles + 1, ~uint64_t{0}}) {
            plumb_clock_page page = sound;
            page.base_cycles = wrong;
            const CheckedClockPage checked = check_clock_page(page, {made_ns, later(sound)});
            EXPECT_EQ(checked.damage, "where it began to count");
            EXPECT_TRUE(are_equal(checked.page, sound)) << mode << " " << wrong;
        }
    }
}

/* Of the others anything is possible that brings a record to a time after the begin, and before now. */
TEST(ClockPageCheck, WhereItBeganToCountIsBeforeTheRecords) {
    for (const plumb_clock_mode mode : {PLUMB_CLOCK_TSC, PLUMB_CLOCK_BOOTTIME}) {
        const plumb_clock_page page = sound_page(mode);
        const uint64_t age_s = now_ns() / second_ns - made_ns / second_ns;
        const auto after = [&](uint64_t seconds) { return page.base_cycles + seconds * page.frequency_hz; };
        const auto before = [&](uint64_t seconds) { return page.base_cycles - seconds * page.frequency_hz; };
        const plumb_clock_page early = [&] {
            plumb_clock_page moved = page;
            moved.base_cycles += 3600 * page.frequency_hz;
            return moved;
        }();
        for (const uint64_t record : {after(0), after(10), after(age_s), after(age_s + 300)}) {
            EXPECT_EQ(check_clock_page(page, {made_ns, record}).damage, "") << mode << " " << record;
            EXPECT_TRUE(are_equal(check_clock_page(page, {made_ns, record}).page, page));
        }
        EXPECT_EQ(check_clock_page(early, {made_ns, after(3600 - 300)}).damage, "");
        for (const uint64_t record :
             {after(age_s + 900), after(age_s + 100'000), early.base_cycles - 900 * page.frequency_hz}) {
            const CheckedClockPage checked =
                check_clock_page(record > early.base_cycles ? page : early, {made_ns, record});
            EXPECT_EQ(checked.damage, "where it began to count") << mode;
            EXPECT_EQ(checked.page.base_cycles, record);
        }
        EXPECT_EQ(check_clock_page(page, {made_ns, before(5)}).damage, "");
    }
}

TEST(ClockPageCheck, TellsEverythingThatItReplaces) {
    plumb_clock_page page = sound_page(PLUMB_CLOCK_BOOTTIME);
    page.mode = 5;
    page.shift = 3;
    page.base_cycles = 10'000'000 * second_ns;
    page.realtime_offset_ns = 0;
    const CheckedClockPage checked = check_clock_page(page, {made_ns, uptime_ns + second_ns});
    EXPECT_EQ(checked.damage,
              std::string("which clock it is, its rate, ") + time_of_day + ", where it began to count");
    EXPECT_EQ(checked.page.mode, static_cast<uint32_t>(PLUMB_CLOCK_BOOTTIME));
}

} // namespace
} // namespace plumb
