/*
 * The clock of a session: which counter its records carry, and how to turn that into nanoseconds.
 *
 * Records carry the raw cycle counter where it runs at one rate through all power states and the kernel
 * itself keeps time by it; otherwise nanoseconds of CLOCK_MONOTONIC. A session may choose another one. All are those of the
 * machine, as the kernel's own records have them: what a time namespace adds is taken away (base/time_namespace.h).
 *
 * The rate comes from the kernel's own calibration (the perf page's time_mult and time_shift, else the CPU's
 * statement in CPUID), never from a short spin alone. It is then refined while the session lasts: two pairs
 * of (cycles, CLOCK_MONOTONIC), one from the beginning and one from now, lie on the line by which every
 * record between them is converted, so the error in between is that of reading the pairs plus what
 * CLOCK_MONOTONIC was slewed meanwhile, which is watched and reported. Where one of the two clocks stood still or was set
 * back between two pairs, as over a suspend, no line leads through both: from then on the rate stays what it was before.
 *
 * Where a trace is cut into chunks, each has a line of its own, from pair to pair: one line for weeks would follow no slewing, and
 * one that is turned about its first point would put the beginning of a chunk before the end of the one before it.
 */
#ifndef PLUMB_CONSUMERD_CLOCK_CLOCK_CALIBRATION_H
#define PLUMB_CONSUMERD_CLOCK_CLOCK_CALIBRATION_H

#include "base/result.h"

#include <plumb/abi/clock_page.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

/* CLOCK_REALTIME - CLOCK_MONOTONIC, now: it changes when somebody sets the clock, and with nothing else. */
int64_t realtime_offset_ns();

/* The clock that records of this mode carry, now. 0 for PLUMB_CLOCK_NONE. */
uint64_t read_clock(plumb_clock_mode mode);

inline uint64_t monotonic_now_ns() {
    return read_clock(PLUMB_CLOCK_MONOTONIC);
}

/* CLOCK_MONOTONIC of a timestamp, by the page's formula in 128 bits; wraps only if the result does. */
uint64_t clock_to_monotonic_ns(const plumb_clock_page& page, uint64_t cycles);
/* Wall-clock nanoseconds since 1970. */
int64_t clock_to_wall_ns(const plumb_clock_page& page, uint64_t cycles);

/* Whether the cycle counter may carry a session here; if not, `why_not` says why. */
bool tsc_is_usable(std::string* why_not = nullptr);

/* Where the rate of the cycle counter was learned. */
enum class RateSource : uint8_t {
    not_needed,      /* the clock counts nanoseconds */
    kernel,          /* the perf page */
    cpuid,           /* leaf 0x15 or 0x16, or the hypervisor's 0x40000010 */
    measured_briefly /* neither: a pair of readings 5 ms apart, until the session's own baseline is longer */
};
const char* rate_source_name(RateSource source);

/* One reading of both clocks at the same time. */
struct ClockPair {
    uint64_t cycles;
    uint64_t monotonic_ns;
    uint64_t half_window_ns; /* the truth is at most this far off */
};

/* mult and shift for a rate, with as many bits as mult has. */
struct ClockRate {
    uint32_t mult;
    uint32_t shift;
    /* From `ns` nanoseconds in `cycles` cycles. */
    static std::optional<ClockRate> from_ratio(uint64_t ns, uint64_t cycles);
};

class ClockCalibration {
public:
    /* NONE: the best this machine has. TSC is refused where it is not usable. */
    static Result<ClockCalibration> start(plumb_clock_mode wanted);
    /* Of a cycle counter with this rate, which is read by `read`: for tests. */
    static ClockCalibration of_counter(ClockRate rate, RateSource source, std::function<ClockPair()> read);

    plumb_clock_mode mode() const { return static_cast<plumb_clock_mode>(page_.mode); }
    RateSource rate_source() const { return rate_source_; }
    const plumb_clock_page& page() const { return page_; }

    /* Takes another pair and, once the baseline is long enough, the rate from it. */
    void refine();
    /* Records from `cycles` on are converted by a line of their own, which begins where page() has got to: as readers of a trace
     * with that page compute it, or a moment later, so that what comes first stays first. Its rate is refined from there. */
    void begin_line(uint64_t cycles);
    /* The same, where another calibration of the same clock has got to that page. Where the two clocks went apart since, the line
     * is our own. */
    void go_on_from(const plumb_clock_page& page, uint64_t cycles);
    /* The largest distance of any pair read so far from the line that the page describes, or described then. */
    uint64_t worst_deviation_ns() const;
    /* How long the baseline is; 0: not refined yet. */
    uint64_t baseline_ns() const { return baseline_ns_; }
    /* How far the cycle counter is ahead of CLOCK_MONOTONIC (or behind it, where it was set back) since the two went apart
     * by more than any drift: the rate is no longer refined. 0: they did not. */
    int64_t apart_ns() const { return apart_ns_; }

    /* Writes the page into a channel, under its sequence. */
    void publish(plumb_clock_page& shared) const;

private:
    explicit ClockCalibration(plumb_clock_mode mode);
    void take_base();
    void take_rate();
    void set_rate(ClockRate rate);
    ClockPair read() const;
    void keep(const ClockPair& pair);
    bool goes_on_with(const ClockPair& now) const;
    int64_t deviation_of(const ClockPair& pair) const;

    plumb_clock_page page_{};
    RateSource rate_source_ = RateSource::not_needed;
    uint64_t baseline_ns_ = 0;
    int64_t apart_ns_ = 0;
    std::vector<ClockPair> pairs_;
    uint64_t deviation_before_ns_ = 0; /* from the lines before this one */
    std::function<ClockPair()> read_;
};

} // namespace plumb

#endif
