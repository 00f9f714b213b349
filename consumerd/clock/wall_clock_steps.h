/*
 * How far CLOCK_REALTIME was set back since a session began that records it.
 *
 * Readers want time that does not go back, so in the trace it goes on as if the clock had not been set back: what is
 * written later is moved ahead by as much as all steps back together. Every ring must be moved by the same, and a ring
 * alone can not tell a step of an hour from an idle hour and a longer step; the distance from CLOCK_MONOTONIC can.
 */
#ifndef PLUMB_CONSUMERD_CLOCK_WALL_CLOCK_STEPS_H
#define PLUMB_CONSUMERD_CLOCK_WALL_CLOCK_STEPS_H

#include "consumerd/clock/clock_calibration.h"

#include <cstdint>
#include <functional>
#include <utility>

namespace plumb {

class WallClockSteps {
public:
    /* `offset`: CLOCK_REALTIME - CLOCK_MONOTONIC, another one for tests. */
    explicit WallClockSteps(std::function<int64_t()> offset = realtime_offset_ns)
        : offset_(std::move(offset)), last_ns_(offset_()) {}

    /* All steps back until now, in nanoseconds. */
    uint64_t look() {
        const int64_t now_ns = offset_();
        const int64_t back_ns = last_ns_ - now_ns;
        if (back_ns > noise_ns) back_ns_ += static_cast<uint64_t>(back_ns);
        if (back_ns > noise_ns || back_ns < -noise_ns) last_ns_ = now_ns;
        return back_ns_;
    }

private:
    /* Of reading two clocks one after the other. */
    static constexpr int64_t noise_ns = 1'000'000;
    std::function<int64_t()> offset_;
    int64_t last_ns_;
    uint64_t back_ns_ = 0;
};

} // namespace plumb

#endif
