/*
 * Whether a thread takes a signal by its handler, so that it may be sent one.
 *
 * While a thread waits in sigwait(), the kernel shows the signals that it waits for as not blocked, until it has run
 * again; but they are, and what is sent reaches the program in the place of what it waits for. So a mask that is
 * seen open says nothing by itself, and less so beside a call that was read a moment later.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_OPEN_TO_SIGNAL_H
#define PLUMB_CONSUMERD_CONTROL_OPEN_TO_SIGNAL_H

#include <cstdint>
#include <string>

namespace plumb {

enum class OpenToSignal {
    yes,
    no,     /* blocked, or it waits for it in sigwait() */
    unknown /* it has not run since it was first looked at, was stopped meanwhile, or has ended */
};

/* Takes some milliseconds where the thread has a CPU all the time or wants one, else some looks at /proc. */
OpenToSignal is_open_to_signal(std::uint32_t process_id, std::uint32_t thread_id,
                               std::uint32_t signal_number);

/* `line` is that of /proc/PID/task/TID/syscall. Where the set that it waits for can not be read, it may be any. */
bool is_in_sigwait_for(std::uint32_t process_id, std::uint32_t thread_id, const std::string& line,
                       std::uint32_t signal_number);

} // namespace plumb

#endif
