#include "cli/own_limits.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>

#include <csignal>
#include <ctime>
#include <optional>

namespace plumb {
namespace {

constexpr rlim_t main_stack_bytes_min = 48 * 1024; /* with 36 it ended in the middle of a recording */
constexpr std::size_t thread_stack_bytes = 1024 * 1024;
/* What is left of the time for reading the rings to their end. */
constexpr rlim_t last_seconds = 1;
constexpr long last_ns_of_one_second = 500'000'000;

std::optional<rlimit> time_before; /* if it was changed */

} // namespace

Status check_stack_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= main_stack_bytes_min) return ok();
    return Error("A stack may have {} bytes here, and plumb needs {}.", limit.rlim_cur, main_stack_bytes_min)
        .hint("`ulimit -s` sets that, in KiB.");
}

/* Where no room is left for the 64 MiB of addresses that the C library sets aside for a thread, it gives that one each piece of
 * memory as a page of its own: 22 MB became 90. */
void choose_thread_memory() {
    ::mallopt(M_ARENA_MAX, 1);
    pthread_attr_t attributes;
    if (::pthread_getattr_default_np(&attributes) != 0) return;
    if (::pthread_attr_setstacksize(&attributes, thread_stack_bytes) == 0)
        ::pthread_setattr_default_np(&attributes);
    ::pthread_attr_destroy(&attributes);
}

void hear_of_time_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_CPU, &limit) != 0 || limit.rlim_max == RLIM_INFINITY ||
        limit.rlim_cur < limit.rlim_max)
        return;
    if (limit.rlim_max > last_seconds) {
        const rlimit earlier{limit.rlim_max - last_seconds, limit.rlim_max};
        if (::setrlimit(RLIMIT_CPU, &earlier) == 0) time_before = limit;
        return;
    }
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGXCPU;
    timer_t timer{};
    if (::timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) != 0) return;
    const itimerspec when{{}, {0, last_ns_of_one_second}};
    ::timer_settime(timer, TIMER_ABSTIME, &when, nullptr);
}

void restore_time_limit() {
    if (time_before) ::setrlimit(RLIMIT_CPU, &*time_before);
}

} // namespace plumb
