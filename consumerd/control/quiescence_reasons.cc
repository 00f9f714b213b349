#include "consumerd/control/quiescence_reasons.h"

#include "consumerd/control/quiescence.h"

#include <cerrno>

namespace plumb {

namespace {

/* What keeps it from looking may keep it from opening the channel, too: no descriptor is free, Landlock. */
std::string filters_unknown_reason(int error_number) {
    const bool is_helped =
        error_number != EMFILE && error_number != ENFILE && error_number != EACCES && error_number != EPERM;
    return fmt::format("it could not look in /proc whether it has a seccomp filter from the start: {}{}",
                       errno_text(error_number), is_helped ? " (--seccomp records it all the same)" : "");
}

} // namespace

const char* reason_of_filtered(std::uint32_t flags) {
    if ((flags & PLUMB_PROCESS_CLOCK_CALLS) != 0) return without_clock_reason;
    return (flags & PLUMB_PROCESS_NO_TIMES) != 0 ? without_times_reason : filtered_reason;
}

std::string not_attached_reason(std::int32_t error) {
    if (error == PLUMB_ERROR_FILTERED) return filtered_reason;
    if (error == PLUMB_ERROR_NO_CLOCK) return no_clock_reason;
    if (error == PLUMB_ERROR_NO_EXECUTABLE)
        return "it can not see which executable it is (it has no /proc), which the rules ask for";
    if (error == PLUMB_ERROR_TIME_NAMESPACE)
        return "it can not see in which time namespace it is (it has no /proc), which the session's clock "
               "may be shifted "
               "by (those of --clock tsc and real are not)";
    if (PLUMB_IS_NO_CGROUP(error))
        return "it can not see whether it is in the control group that the rules ask for (it is in a cgroup "
               "namespace of its own, or has no /proc)";
    if (PLUMB_IS_FILTERS_UNKNOWN(error))
        return filters_unknown_reason(error - PLUMB_ERROR_FILTERS_UNKNOWN(0));
    return fmt::format("it could not open the session's channel: {}", errno_text(error));
}

std::string reason_when_late(const std::string& reason) {
    if (reason == vfork_reason) return "it waited in vfork() for its child when it was to be switched on";
    return reason == stopped_reason ? "it was stopped, or its cgroup frozen, when it was to be switched on"
                                    : reason;
}

} // namespace plumb
