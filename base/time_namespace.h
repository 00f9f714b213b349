/*
 * A time namespace shifts CLOCK_MONOTONIC and CLOCK_BOOTTIME for the processes in it, and what /proc tells them of
 * others' start. What is compared between processes is the machine's time, which none shifts.
 */
#ifndef PLUMB_BASE_TIME_NAMESPACE_H
#define PLUMB_BASE_TIME_NAMESPACE_H

#include <cstdint>
#include <ctime>
#include <optional>
#include <string_view>

namespace plumb {

/* What the clocks of a time namespace show beyond the machine's. */
struct TimeOffsets {
    std::int64_t monotonic_ns = 0;
    std::int64_t boottime_ns = 0;
};

/* Of this process's namespace, as it was at the first call. Nothing if that can not be found out: there is no /proc, or the
 * process has left for a namespace of its own and has not arrived there. */
std::optional<TimeOffsets> own_time_offsets();

/* The text of /proc/PID/timens_offsets. */
std::optional<TimeOffsets> parse_time_offsets(std::string_view text);

/* A clock of the machine, in whatever namespace; as it is here, if the offsets are not known. */
std::uint64_t machine_time_ns(clockid_t clock);

} // namespace plumb

#endif
