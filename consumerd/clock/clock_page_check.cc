#include "consumerd/clock/clock_page_check.h"

#include "consumerd/clock/clock_calibration.h"

#include <ctime>

namespace plumb {
namespace {

using Wide = __int128;

constexpr uint64_t second_ns = 1'000'000'000;
/* Cycle counters: those of known machines, with room on both sides. */
constexpr uint64_t least_hz = 1'000'000, most_hz = 100'000'000'000;
/* Rate and frequency are stored together, rounded. */
constexpr uint64_t rounding_hz = 1000;
constexpr uint64_t year_2001_ns = 1'000'000'000 * second_ns;
/* Clocks of machines differ, and one may be set just when a recording begins. */
constexpr uint64_t tolerance_ns = 600 * second_ns;

uint64_t realtime_now_ns() {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<uint64_t>(now.tv_sec) * second_ns + static_cast<uint64_t>(now.tv_nsec);
}

bool counts_nanoseconds(uint32_t mode) {
    return mode != PLUMB_CLOCK_TSC;
}

bool is_rate(uint64_t hz) {
    return hz >= least_hz && hz <= most_hz;
}

/* 0: none that can be. */
uint64_t frequency_of(const plumb_clock_page& page) {
    if (page.mult == 0 || page.shift > 62) return 0;
    const Wide hz = ((static_cast<Wide>(second_ns) << page.shift) + page.mult / 2) / page.mult;
    return hz <= most_hz ? static_cast<uint64_t>(hz) : 0;
}

uint64_t distance(uint64_t one, uint64_t other) {
    return one > other ? one - other : other - one;
}

void set_rate(plumb_clock_page& page, uint64_t hz) {
    const ClockRate rate = ClockRate::from_ratio(second_ns, hz).value_or(ClockRate{1, 0});
    page.mult = rate.mult;
    page.shift = rate.shift;
    page.frequency_hz = hz;
}

/* The cycle counter's rate stands there twice. Where the two differ, this machine's tells which one is right: a channel is
 * hardly ever read elsewhere, and never without reason to be there. */
bool mend_rate(plumb_clock_page& page) {
    if (counts_nanoseconds(page.mode)) {
        if (page.mult == 1 && page.shift == 0 && page.frequency_hz == second_ns) return false;
        page.mult = 1;
        page.shift = 0;
        page.frequency_hz = second_ns;
        return true;
    }
    const uint64_t stated = page.frequency_hz, by_rate = frequency_of(page);
    if (is_rate(stated) && distance(stated, by_rate) <= rounding_hz) return false;
    const auto own = ClockCalibration::start(PLUMB_CLOCK_TSC);
    const uint64_t own_hz = own ? own->page().frequency_hz : 0;
    if (is_rate(by_rate) && (!is_rate(stated) || distance(by_rate, own_hz) <= distance(stated, own_hz)))
        page.frequency_hz = by_rate;
    else
        set_rate(page, is_rate(stated) ? stated : own_hz != 0 ? own_hz : second_ns);
    return true;
}

/* In 128 bits: what is damaged may be anything. */
Wide wall_of_base(const plumb_clock_page& page) {
    return static_cast<Wide>(page.base_monotonic_ns) + page.realtime_offset_ns;
}

bool is_about(Wide wall_ns, uint64_t known_ns) {
    return wall_ns >= static_cast<Wide>(known_ns) - tolerance_ns &&
           wall_ns <= static_cast<Wide>(known_ns) + tolerance_ns;
}

bool is_time_of_day(Wide wall_ns, uint64_t now_ns) {
    return wall_ns >= year_2001_ns && wall_ns <= static_cast<Wide>(now_ns) + tolerance_ns;
}

/* The time of day that the base stands for: that at which the channel was made. */
bool mend_base_time(plumb_clock_page& page, uint64_t made_ns) {
    if (is_about(wall_of_base(page), made_ns)) return false;
    if (page.mode == PLUMB_CLOCK_MONOTONIC) {
        page.base_monotonic_ns = page.base_cycles; /* equal, in a page that is whole */
        if (is_about(wall_of_base(page), made_ns)) return true;
    }
    if (page.base_monotonic_ns > made_ns) page.base_monotonic_ns = 0; /* that is how long the machine runs */
    page.realtime_offset_ns = static_cast<int64_t>(made_ns - page.base_monotonic_ns);
    return true;
}

/* Where on the clock the base is: everything that was written came later, and before now. */
bool mend_base_cycles(plumb_clock_page& page, uint64_t made_ns, uint64_t now_ns, uint64_t timestamp) {
    const auto fits = [&] {
        const Wide ns = static_cast<Wide>(timestamp) - page.base_cycles;
        const Wide wall_ns = wall_of_base(page) + ns * second_ns / page.frequency_hz;
        return wall_ns >= static_cast<Wide>(made_ns) - tolerance_ns &&
               wall_ns <= static_cast<Wide>(now_ns) + tolerance_ns;
    };
    const uint64_t found = page.base_cycles;
    if (page.mode == PLUMB_CLOCK_MONOTONIC) page.base_cycles = page.base_monotonic_ns;
    if (page.mode == PLUMB_CLOCK_REALTIME) page.base_cycles = static_cast<uint64_t>(wall_of_base(page));
    if (!fits()) page.base_cycles = timestamp;
    return page.base_cycles != found;
}

} // namespace

plumb_clock_mode believable_clock_mode(const plumb_clock_page& page) {
    if (page.mode <= PLUMB_CLOCK_REALTIME) return static_cast<plumb_clock_mode>(page.mode);
    if (page.frequency_hz != second_ns || page.mult != 1) return PLUMB_CLOCK_TSC;
    if (page.base_cycles == page.base_monotonic_ns) return PLUMB_CLOCK_MONOTONIC;
    return static_cast<Wide>(page.base_cycles) == wall_of_base(page) ? PLUMB_CLOCK_REALTIME
                                                                     : PLUMB_CLOCK_BOOTTIME;
}

CheckedClockPage check_clock_page(plumb_clock_page page, const ClockEvidence& evidence) {
    std::string damage;
    const auto note = [&damage](bool is_mended, const char* what) {
        if (is_mended) damage += (damage.empty() ? "" : ", ") + std::string(what);
    };
    const plumb_clock_mode mode = believable_clock_mode(page);
    note(mode != page.mode, "which clock it is");
    page.mode = mode;
    note(mend_rate(page), "its rate");
    const uint64_t now_ns = realtime_now_ns();
    const uint64_t made_ns =
        is_time_of_day(evidence.created_realtime_ns, now_ns) ? evidence.created_realtime_ns
        : is_time_of_day(wall_of_base(page), now_ns)         ? static_cast<uint64_t>(wall_of_base(page))
                                                             : now_ns;
    note(mend_base_time(page, made_ns), "the time of day (now that of the recording's begin, about)");
    if (evidence.timestamp)
        note(mend_base_cycles(page, made_ns, now_ns, *evidence.timestamp), "where it began to count");
    return {page, damage};
}

} // namespace plumb
