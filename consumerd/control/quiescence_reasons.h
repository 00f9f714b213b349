/*
 * Why a process can not be told of a change, in the words that the user reads; quiescence.cc finds it out.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_QUIESCENCE_REASONS_H
#define PLUMB_CONSUMERD_CONTROL_QUIESCENCE_REASONS_H

#include <cstdint>

namespace plumb {

inline constexpr const char* stopped_reason =
    "it is stopped, or its cgroup is frozen: it will ask again when it goes on";

inline constexpr const char* vfork_reason =
    "it waits in vfork() until its child calls exec() or ends, and hears no "
    "signal before that: it will ask again when it goes on";

inline constexpr const char* out_of_sight_reason = "it ran in another process-id namespace, which cannot be "
                                                   "seen from here, and may have ended (the number is "
                                                   "its own)";

inline constexpr const char* unseen_wait_reason =
    "in what its threads wait may not be seen from here, and so not whether the signal would be taken for "
    "another: it is not "
    "dumpable, or runs as another user, and the recorder has no CAP_SYS_PTRACE (as root in a container)";

inline constexpr const char* no_clock_reason =
    "it may not read the cycle counter (PR_SET_TSC, strict mode), without which nothing can be recorded";

inline constexpr const char* filtered_reason =
    "it has a seccomp filter, which may end it for a call that tracing makes; it is left as it is (--seccomp "
    "records it all the same)";

inline constexpr const char* without_clock_reason =
    "it has a seccomp filter, and the clock is read by a system call here, which the filter may end it for: "
    "its "
    "events are lost since (--clock tsc has none, where that can be had)";

inline constexpr const char* without_times_reason =
    "it has a seccomp filter, which may end it for a call that "
    "tracing makes; it is left as it is, and how long "
    "it waited for locks is not known since, as a system call would "
    "have to tell (--seccomp records it all the "
    "same)";

inline constexpr const char* hidden_reason =
    "whether it has a seccomp filter, which may end it for a call that tracing makes, can not be seen from "
    "here (/proc does not show it); it is left as it is (--seccomp records it all the same)";

inline constexpr const char* not_read_reason =
    "whether it has a seccomp filter, which may end it for a call that tracing makes, could not be read "
    "(are there free file descriptors?); it is left as it is";

inline constexpr const char* held_by_other_reason =
    "another recording keeps Plumb from making system calls there, as it has a seccomp filter that that "
    "recorder has not; it is left as it is (--seccomp records it all the same)";

/* By the flags of its slot. */
const char* reason_of_filtered(std::uint32_t flags);

} // namespace plumb

#endif
