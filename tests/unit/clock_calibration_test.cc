// cmake-once
//
// Timestamps become nanoseconds exactly as the clock page's formula says, and the line through the session's
// pairs stays within a microsecond of what clock_gettime() says.
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/clock/clock_calls.h"

#include "consumerd/sink/ctf_metadata.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <random>
#include <string>

namespace plumb {
namespace {

plumb_clock_page page_of(uint32_t mult, uint32_t shift, uint64_t base_cycles, uint64_t base_ns) {
    plumb_clock_page page{};
    page.mode = PLUMB_CLOCK_TSC;
    page.mult = mult;
    page.shift = shift;
    page.base_cycles = base_cycles;
    page.base_monotonic_ns = base_ns;
    return page;
}

TEST(ClockConversion, IsExactOverYearsInBothDirections) {
    const plumb_clock_page page = page_of(4294967295u, 32, uint64_t{1} << 60, uint64_t{1} << 61);
    EXPECT_EQ(clock_to_monotonic_ns(page, page.base_cycles), page.base_monotonic_ns);
    for (const int64_t distance :
         {int64_t{1}, int64_t{1} << 32, int64_t{1} << 56, -(int64_t{1} << 56), int64_t{-1}}) {
        /* mult / 2^32 is 1 - 2^-32; the shift rounds down. */
        const __int128 exact = (static_cast<__int128>(distance) * 4294967295u) >> 32;
        EXPECT_EQ(clock_to_monotonic_ns(page, page.base_cycles + static_cast<uint64_t>(distance)),
                  page.base_monotonic_ns + static_cast<uint64_t>(exact))
            << distance;
    }
    /* What 64 bits would get wrong: an hour at 2.5 GHz. */
    const plumb_clock_page ghz = page_of(3435973837u, 33, 0, 0);
    EXPECT_EQ(clock_to_monotonic_ns(ghz, 2'500'000'000ull * 3600), 3600ull * 1'000'000'000 + 209);
}

TEST(ClockConversion, KeepsOrder) {
    const plumb_clock_page page = page_of(3512345678u, 33, 12345678901234, 987654321);
    std::mt19937_64 random(3);
    uint64_t last_cycles = page.base_cycles - 1'000'000, last_ns = clock_to_monotonic_ns(page, last_cycles);
    for (int i = 0; i < 100000; i++) {
        last_cycles += random() % 50;
        const uint64_t ns = clock_to_monotonic_ns(page, last_cycles);
        ASSERT_GE(ns, last_ns);
        last_ns = ns;
    }
}

TEST(ClockRate, UsesAllBitsOfMult) {
    for (const auto& [ns, cycles] : {std::pair<uint64_t, uint64_t>{1'000'000'000, 2'445'425'000},
                                     {1, 1},
                                     {2, 1},
                                     {2, 5},
                                     {1000, 24},
                                     {3'600'000'000'000, 8'803'530'000'000},
                                     {1, 4'000'000'000}}) {
        const auto rate = ClockRate::from_ratio(ns, cycles);
        ASSERT_TRUE(rate);
        const double is = static_cast<double>(rate->mult) / static_cast<double>(uint64_t{1} << rate->shift);
        EXPECT_NEAR(is * static_cast<double>(cycles) / static_cast<double>(ns), 1.0, 1e-9)
            << ns << "/" << cycles;
    }
    EXPECT_FALSE(ClockRate::from_ratio(0, 5));
    EXPECT_FALSE(ClockRate::from_ratio(5, 0));
}

TEST(ClockCalibration, StaysWithinAMicrosecondOfTheKernel) {
    auto started = ClockCalibration::start(PLUMB_CLOCK_NONE);
    ASSERT_TRUE(started) << started.error().message();
    ClockCalibration& calibration = *started;
    const timespec pause{0, 100'000'000};
    std::vector<ClockPair> checks;
    for (int i = 0; i < 5; i++) {
        nanosleep(&pause, nullptr);
        ClockPair best{0, 0, ~uint64_t{0}};
        for (int k = 0; k < 50; k++) {
            const uint64_t before = read_clock(calibration.mode());
            const uint64_t ns = read_clock(PLUMB_CLOCK_MONOTONIC);
            const uint64_t window = read_clock(calibration.mode()) - before;
            if (window < best.half_window_ns) best = {before + window / 2, ns, window};
        }
        checks.push_back(best);
        calibration.refine();
    }
    uint64_t worst_ns = 0;
    for (const ClockPair& check : checks) {
        const auto off = static_cast<int64_t>(clock_to_monotonic_ns(calibration.page(), check.cycles) -
                                              check.monotonic_ns);
        worst_ns = std::max<uint64_t>(worst_ns, static_cast<uint64_t>(off < 0 ? -off : off));
    }
    std::printf("mode %d, rate from %s, %lu Hz, baseline %lu ms, base pair +-%lu ns, worst error %lu ns\n",
                static_cast<int>(calibration.mode()), rate_source_name(calibration.rate_source()),
                static_cast<unsigned long>(calibration.page().frequency_hz),
                static_cast<unsigned long>(calibration.baseline_ns() / 1'000'000),
                static_cast<unsigned long>(calibration.page().uncertainty_ns),
                static_cast<unsigned long>(worst_ns));
    EXPECT_LE(worst_ns, 1000u);
    EXPECT_LE(calibration.worst_deviation_ns(), 1000u);
}

constexpr uint64_t second_ns = 1'000'000'000, counter_hz = 2'400'000'000;

/* A calibration of a counter of 2.4 GHz that reads these pairs, one after the other. */
ClockCalibration of_pairs(std::vector<ClockPair> pairs, RateSource source, uint64_t told_hz = counter_hz) {
    return ClockCalibration::of_counter(
        *ClockRate::from_ratio(second_ns, told_hz), source,
        [pairs = std::move(pairs), next = size_t{0}]() mutable { return pairs.at(next++); });
}

ClockPair pair_at(double monotonic_s, double counter_s) {
    return {static_cast<uint64_t>(counter_s * static_cast<double>(counter_hz)),
            static_cast<uint64_t>(monotonic_s * static_cast<double>(second_ns)), 0};
}

/* As readers of CTF do, by a whole number of counts a second. */
uint64_t read_ns(const plumb_clock_page& page, uint64_t cycles) {
    const auto distance = static_cast<double>(static_cast<int64_t>(cycles - page.base_cycles));
    return page.base_monotonic_ns +
           static_cast<uint64_t>(distance * 1e9 / static_cast<double>(page.frequency_hz));
}

/* Readings that are 300 ns off, to and fro, and a counter whose rate is not what was told. */
TEST(ClockCalibration, EachLineBeginsWhereTheOneBeforeHasGotToAndTheyFollowTheClock) {
    std::vector<ClockPair> pairs;
    for (int i = 0; i <= 100; i++)
        pairs.push_back(pair_at(i + (i % 2 == 0 ? 300e-9 : -300e-9), i * 1.0001));
    const std::vector<ClockPair> read = pairs;
    auto calibration = of_pairs(std::move(pairs), RateSource::kernel);
    plumb_clock_page before{};
    uint64_t cut = 0;
    for (size_t i = 1; i <= 100; i++) {
        calibration.refine(); /* as at the end of a chunk */
        const plumb_clock_page line = calibration.page();
        if (i > 1) {
            EXPECT_LE(read_ns(before, cut), read_ns(line, cut + 1)) << i;
            EXPECT_LE(read_ns(line, cut), read_ns(before, cut) + 4) << i;
        }
        EXPECT_NEAR(static_cast<double>(read_ns(line, read[i].cycles)), static_cast<double>(i) * 1e9, 400)
            << i;
        before = line;
        cut = read[i].cycles - 1000;
        calibration.begin_line(cut);
    }
    EXPECT_LE(calibration.worst_deviation_ns(), 1'000'000u); /* the rate that was told at first */
}

TEST(ClockCalibration, KeepsItsRateWhereTheCounterRanOnInASuspend) {
    auto calibration = of_pairs({pair_at(0, 0), pair_at(600, 600), pair_at(601, 29'400), pair_at(602, 29'401),
                                 pair_at(700'000, 728'799)},
                                RateSource::kernel);
    calibration.refine();
    EXPECT_EQ(calibration.baseline_ns(), 600 * second_ns);
    EXPECT_EQ(calibration.apart_ns(), 0);
    EXPECT_LE(calibration.worst_deviation_ns(), 100u);
    for (int i = 0; i < 3; i++) { /* also when that is long ago */
        calibration.refine();
        EXPECT_NEAR(static_cast<double>(calibration.page().frequency_hz), counter_hz, 1) << i;
        EXPECT_NEAR(static_cast<double>(clock_to_monotonic_ns(calibration.page(), 300 * counter_hz)), 300e9,
                    100);
        EXPECT_NEAR(static_cast<double>(calibration.apart_ns()), 28'799e9, 1e6) << i;
    }
    EXPECT_NEAR(static_cast<double>(calibration.worst_deviation_ns()), 28'799e9, 1e6);
    EXPECT_EQ(calibration.baseline_ns(), 600 * second_ns);
}

TEST(ClockCalibration, KeepsItsRateWhereTheCounterWentBack) {
    for (const double counter_s : {0.0, 999.0, 1599.0}) {
        auto calibration = of_pairs({pair_at(1000, 1000), pair_at(1600, 1600), pair_at(1601, counter_s),
                                     pair_at(5000, 3399 + counter_s)},
                                    RateSource::kernel);
        for (int i = 0; i < 3; i++)
            calibration.refine();
        EXPECT_NEAR(static_cast<double>(calibration.page().frequency_hz), counter_hz, 1) << counter_s;
        EXPECT_NEAR(static_cast<double>(clock_to_monotonic_ns(calibration.page(), 1300 * counter_hz)), 1300e9,
                    100);
        EXPECT_NEAR(static_cast<double>(calibration.apart_ns()), (counter_s - 1601) * 1e9, 1e6);
    }
}

/* A suspend is short beside what was recorded before it. */
TEST(ClockCalibration, AShortSuspendIsNotTakenForDrift) {
    auto calibration =
        of_pairs({pair_at(0, 0), pair_at(36'000, 36'000), pair_at(36'001, 36'003)}, RateSource::cpuid);
    calibration.refine();
    calibration.refine();
    EXPECT_NEAR(static_cast<double>(calibration.page().frequency_hz), counter_hz, 1);
    EXPECT_NEAR(static_cast<double>(calibration.apart_ns()), 2e9, 1e6);
}

TEST(ClockCalibration, FollowsDriftAndSlewing) {
    /* 0.09 % in a day without a look; 0.4 s slewed within one. */
    auto calibration =
        of_pairs({pair_at(0, 0), pair_at(86'400, 86'400 * 1.0009), pair_at(86'401, 86'401 * 1.0009 + 0.4)},
                 RateSource::kernel);
    calibration.refine();
    EXPECT_NEAR(static_cast<double>(calibration.page().frequency_hz), counter_hz * 1.0009, 10);
    calibration.refine();
    EXPECT_EQ(calibration.apart_ns(), 0);
    EXPECT_EQ(calibration.baseline_ns(), 86'401 * second_ns);
}

/* The first look is short and inexact, and what comes after it is measured by the baseline. */
TEST(ClockCalibration, ARateOfTheFirstLookIsMended) {
    const std::vector<ClockPair> pairs = {pair_at(0, 0), pair_at(3600, 3600), pair_at(7200, 7200),
                                          pair_at(10'800, 11'800)};
    auto calibration = of_pairs(pairs, RateSource::measured_briefly, counter_hz / 100 * 103);
    calibration.refine();
    EXPECT_EQ(calibration.apart_ns(), 0);
    EXPECT_NEAR(static_cast<double>(calibration.page().frequency_hz), counter_hz, 1);
    calibration.refine();
    EXPECT_EQ(calibration.apart_ns(), 0);
    calibration.refine();
    EXPECT_NEAR(static_cast<double>(calibration.apart_ns()), 1000e9, 1e6);
    EXPECT_NEAR(static_cast<double>(calibration.page().frequency_hz), counter_hz, 1);
    auto told = of_pairs(pairs, RateSource::kernel, counter_hz / 100 * 103);
    told.refine();
    EXPECT_NE(told.apart_ns(), 0) << "the kernel's is never that inexact";
}

TEST(ClockCalibration, NanosecondClocksComeOutAsTheyAre) {
    for (const auto mode : {PLUMB_CLOCK_MONOTONIC, PLUMB_CLOCK_BOOTTIME, PLUMB_CLOCK_REALTIME}) {
        auto calibration = ClockCalibration::start(mode);
        ASSERT_TRUE(calibration);
        EXPECT_EQ(calibration->page().frequency_hz, 1'000'000'000u);
        timespec now{};
        clock_gettime(CLOCK_REALTIME, &now);
        const int64_t wall = clock_to_wall_ns(calibration->page(), read_clock(mode));
        EXPECT_NEAR(static_cast<double>(wall - (now.tv_sec * 1'000'000'000 + now.tv_nsec)), 0.0, 1e7);
    }
    EXPECT_EQ(ClockCalibration::start(PLUMB_CLOCK_MONOTONIC)->page().uncertainty_ns, 0u);
    auto real = ClockCalibration::start(PLUMB_CLOCK_REALTIME);
    EXPECT_EQ(clock_to_wall_ns(real->page(), 1'700'000'000'000'000'000), 1'700'000'000'000'000'000);
}

TEST(ClockCalls, AreNotNeededWhereTheKernelKeepsTimeByTheCycleCounter) {
    std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    std::string source;
    if (!(file >> source) || source != "tsc") GTEST_SKIP() << "the clocksource is " << source;
    for (const plumb_clock_mode mode :
         {PLUMB_CLOCK_TSC, PLUMB_CLOCK_MONOTONIC, PLUMB_CLOCK_BOOTTIME, PLUMB_CLOCK_REALTIME})
        EXPECT_FALSE(clock_takes_calls(mode)) << mode;
}

TEST(ClockCalibration, PublishesAWholePage) {
    auto calibration = ClockCalibration::start(PLUMB_CLOCK_MONOTONIC);
    ASSERT_TRUE(calibration);
    plumb_clock_page shared{};
    shared.mode = PLUMB_CLOCK_MONOTONIC;
    shared.sequence = 3; /* a writer died */
    calibration->publish(shared);
    EXPECT_EQ(shared.sequence % 2, 0u);
    EXPECT_GT(shared.sequence, 3u);
    EXPECT_EQ(shared.base_cycles, calibration->page().base_cycles);
    EXPECT_EQ(shared.realtime_offset_ns, calibration->page().realtime_offset_ns);
}

TEST(CtfClock, OffsetIsExactAtTheBase) {
    plumb_clock_page page = page_of(1756116736, 32, 9'876'543'210'987'654, 4'038'000'000'123);
    page.frequency_hz = 2'445'713'000;
    page.realtime_offset_ns = 1'795'000'000'987'654'321;
    const CtfClockOffset offset = ctf_clock_offset(page);
    EXPECT_LT(offset.cycles, page.frequency_hz);
    const __int128 wall =
        (static_cast<__int128>(page.base_cycles) + offset.cycles) * 1'000'000'000 / page.frequency_hz +
        static_cast<__int128>(offset.seconds) * 1'000'000'000;
    EXPECT_LE(std::abs(static_cast<int64_t>(
                  wall - (static_cast<__int128>(page.base_monotonic_ns) + page.realtime_offset_ns))),
              1);
}

TEST(CtfClock, CyclesOfTheOffsetAreLessThanASecond) {
    plumb_clock_page page = page_of(1, 0, 5'000'000'000, 3'000'000'000);
    page.frequency_hz = 1'000'000'000;
    const CtfClockOffset two_seconds_before = ctf_clock_offset(page);
    EXPECT_EQ(two_seconds_before.seconds, -2);
    EXPECT_EQ(two_seconds_before.cycles, 0u);
    page.base_monotonic_ns += 1;
    const CtfClockOffset less = ctf_clock_offset(page);
    EXPECT_EQ(less.seconds, -2);
    EXPECT_EQ(less.cycles, 1u);
}

} // namespace
} // namespace plumb
