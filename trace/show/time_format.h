/*
 * Points in time as a person writes and reads them: the time of day (local or UTC), seconds since the trace
 * began, or seconds of CLOCK_MONOTONIC. Nanoseconds are never rounded.
 */
#ifndef PLUMB_TRACE_SHOW_TIME_FORMAT_H
#define PLUMB_TRACE_SHOW_TIME_FORMAT_H

#include "base/output_buffer.h"
#include "base/result.h"

#include <cstdint>
#include <limits>
#include <string_view>

namespace plumb {

enum class TimeStyle : uint8_t { local, utc, seconds, monotonic };

class TimeFormat {
public:
    /* `start_ns` is the trace's first event; `monotonic_zero_ns`, for that style, the wall-clock time at which
     * CLOCK_MONOTONIC was zero. */
    TimeFormat(TimeStyle style, int64_t start_ns, int64_t monotonic_zero_ns = 0)
        : style_(style), start_ns_(start_ns), monotonic_zero_ns_(monotonic_zero_ns) {}

    /* Of the machine that the next times are of. */
    void set_monotonic_zero(int64_t monotonic_zero_ns) { monotonic_zero_ns_ = monotonic_zero_ns; }

    /* 12:34:56.123456789, +1.500000000 or 86400.123456789 */
    void put_time(OutputBuffer& out, int64_t time_ns);
    /* The same with the date in front: 2026-11-21 12:34:56.123456789 */
    void put_date_and_time(OutputBuffer& out, int64_t time_ns);
    /* +0.000001234 */
    static void put_difference(OutputBuffer& out, int64_t later_ns, int64_t earlier_ns);

    /*
     * What a person gives for a point in time: `+1.5s`, `+200ms`, `+30us`, `+10ns`, `+5min` (or `m`), `+1h`, `+2d` or
     * `+1.5` from the start;
     * 12:34:56.5, on the day the trace began (the next one if that would be half a day before it); or
     * 2026-11-21 12:34:56.5 (T instead of the blank will do); with CLOCK_MONOTONIC, 86400.5.
     */
    Result<int64_t> parse(std::string_view text) const;

private:
    void new_second(int64_t second);
    static void put_span(OutputBuffer& out, int64_t later_ns, int64_t earlier_ns, bool with_plus);

    TimeStyle style_;
    int64_t start_ns_;
    int64_t monotonic_zero_ns_;
    int64_t second_ = std::numeric_limits<int64_t>::min(); /* that clock_ shows */
    char clock_[32] = {};                                  /* "2026-11-21 12:34:56" */
};

} // namespace plumb

#endif
