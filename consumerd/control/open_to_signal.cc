#include "consumerd/control/open_to_signal.h"

#include "base/file.h"
#include "base/processes.h"
#include "consumerd/control/thread_choice.h"

#include <cstdio>
#include <fcntl.h>
#include <optional>
#include <sys/syscall.h>
#include <unistd.h>

namespace plumb {

namespace {

/* Where a thread is at a moment; both sources say so only while it waits. */
struct Place {
    bool is_waiting = false;
    bool is_in_sigwait = false;
};

Place place_of(std::uint32_t process_id, std::uint32_t thread_id, std::uint32_t signal_number) {
    Place place;
    const std::string folder = fmt::format("/proc/{}/task/{}", process_id, thread_id);
    if (const Result<std::string> line = read_proc_file(folder + "/syscall"); line) {
        long number = -1;
        place.is_waiting = std::sscanf(line->c_str(), "%ld", &number) == 1;
        place.is_in_sigwait = is_in_sigwait_for(process_id, thread_id, *line, signal_number);
    } else if (const Result<std::string> function = read_proc_file(folder + "/wchan"); function) {
        place.is_waiting = !function->empty() && *function != "0";
        place.is_in_sigwait = interrupted_wait(*function) == "sigtimedwait";
    }
    return place;
}

/* A mask that was seen open. */
struct Look {
    std::uint64_t sleeps;
    std::optional<ThreadRuns> runs_before, runs_behind; /* the look: it may run in the middle of it */
};

enum class Mask { open, blocked, not_known };

Mask look_at(std::uint32_t process_id, std::uint32_t thread_id, std::uint32_t signal_number, Look& look) {
    const std::optional<ThreadRuns> runs_before = thread_runs(process_id, thread_id);
    const Result<ProcessStatus> status = thread_status(process_id, thread_id);
    const bool is_on_its_way = status && status->state != 'T' && status->state != 't';
    if (!is_on_its_way) return Mask::not_known;
    look = {status->sleeps, runs_before, thread_runs(process_id, thread_id)};
    return (status->blocked >> (signal_number - 1) & 1) != 0 ? Mask::blocked : Mask::open;
}

/* More than the way out of sigwait() takes, and less than a turn on a CPU. */
constexpr std::uint64_t ran_on_ns = 200'000;

bool has_run_on(const Look& before, const Look& after) {
    return !before.runs_behind || !after.runs_before ||
           after.runs_before->run_ns >= before.runs_behind->run_ns + ran_on_ns;
}

} // namespace

bool is_in_sigwait_for(std::uint32_t process_id, std::uint32_t thread_id, const std::string& line,
                       std::uint32_t signal_number) {
    long number = -1;
    unsigned long long set_address = 0;
    if (std::sscanf(line.c_str(), "%ld %llx", &number, &set_address) != 2 || number != SYS_rt_sigtimedwait)
        return false;
    const std::string path = fmt::format("/proc/{}/task/{}/mem", process_id, thread_id);
    const int memory = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (memory < 0) return true;
    std::uint64_t set = UINT64_MAX;
    if (::pread(memory, &set, sizeof(set), static_cast<off_t>(set_address)) != sizeof(set)) set = UINT64_MAX;
    ::close(memory);
    return (set >> (signal_number - 1) & 1) != 0;
}

/* Between two looks that see the mask open, a thread that has not gone to sleep either waited all the time, and then we
 * have seen in which call; or it ran, and a thread that runs on has left sigwait() behind. One that sleeps and wakes
 * all the time is believed when many looks in a row have seen nothing else. */
OpenToSignal is_open_to_signal(std::uint32_t process_id, std::uint32_t thread_id,
                               std::uint32_t signal_number) {
    constexpr int wakes_max = 12, naps_max = 4;
    constexpr useconds_t nap_us = 500;
    Look before;
    const Mask first = look_at(process_id, thread_id, signal_number, before);
    if (first != Mask::open) return first == Mask::not_known ? OpenToSignal::unknown : OpenToSignal::no;
    if (before.sleeps == 0) return OpenToSignal::yes; /* also not in sigwait() */
    for (int wakes = 0, naps = 0; wakes < wakes_max && naps < naps_max;) {
        const Place place = place_of(process_id, thread_id, signal_number);
        if (place.is_in_sigwait) return OpenToSignal::no;
        Look after;
        const Mask mask = look_at(process_id, thread_id, signal_number, after);
        if (mask != Mask::open) return mask == Mask::not_known ? OpenToSignal::unknown : OpenToSignal::no;
        if (after.sleeps != before.sleeps) {
            before = after;
            if (++wakes == wakes_max) return OpenToSignal::yes;
        } else if (place.is_waiting || has_run_on(before, after)) {
            return OpenToSignal::yes;
        } else {
            naps++;
            ::usleep(nap_us);
        }
    }
    return OpenToSignal::unknown;
}

} // namespace plumb
