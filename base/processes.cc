#include "base/processes.h"

#include "base/file.h"
#include "base/process_names.h"
#include "base/time_namespace.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace plumb {

namespace {

/* A name in a status file, where the kernel writes "\n" and "\\" for the two that would confuse its readers. */
std::string name_in_status(std::string_view text) {
    std::string name;
    for (std::size_t i = 0; i < text.size(); i++) {
        const bool is_escape = text[i] == '\\' && i + 1 < text.size();
        if (is_escape) i++;
        name += is_escape && text[i] == 'n' ? '\n' : text[i];
    }
    return name;
}

template <typename T>
void take_number(std::string_view text, T& number, int base = 10) {
    const std::size_t begin = text.find_first_not_of(" \t");
    if (begin != std::string_view::npos)
        (void)std::from_chars(text.data() + begin, text.data() + text.size(), number, base);
}

/* What stands behind the name of a line. */
void take_line(std::string_view key, std::string_view value, ProcessStatus& status) {
    if (key == "Name" && !value.empty()) {
        status.name = name_in_status(value.substr(1));
    } else if (key == "State" && value.size() > 1) {
        status.state = value[1];
    } else if (key == "SigCgt") {
        take_number(value, status.caught, 16);
    } else if (key == "SigBlk") {
        take_number(value, status.blocked, 16);
    } else if (key == "SigPnd") {
        take_number(value, status.pending, 16);
    } else if (key == "PPid") {
        take_number(value, status.parent);
    } else if (key == "Threads") {
        take_number(value, status.thread_count);
    } else if (key == "Uid") { /* real, effective, saved, that of file systems */
        take_number(value, status.user_id);
        const std::size_t second = value.find('\t', 1);
        if (second != std::string_view::npos) take_number(value.substr(second), status.effective_user_id);
        status.user_and_group_ids = value;
    } else if (key == "Gid") {
        status.user_and_group_ids += value;
    } else if (key == "Seccomp") {
        take_number(value, status.seccomp_mode);
    } else if (key == "Seccomp_filters") {
        take_number(value, status.seccomp_filters);
    } else if (key == "voluntary_ctxt_switches") {
        take_number(value, status.sleeps);
    }
}

Result<ProcessStatus> parse_status(const std::string& path) {
    const Result<std::string> text = read_proc_file(path);
    if (!text) return text.error();
    ProcessStatus status;
    for (std::string_view left = *text; !left.empty();) {
        const std::size_t end = std::min(left.find('\n'), left.size());
        const std::string_view line = left.substr(0, end);
        left.remove_prefix(std::min(end + 1, left.size()));
        const std::size_t colon = line.find(':');
        if (colon != std::string_view::npos) take_line(line.substr(0, colon), line.substr(colon + 1), status);
    }
    return status;
}

/* The fields of /proc/PID/stat, or of a thread's, behind the name, which may be anything. */
struct TaskStat {
    char state = '?';
    std::uint32_t parent = 0;
    std::uint64_t flags = 0;
    std::uint32_t thread_count = 0;
    std::uint64_t start_ticks = 0;

    bool has_ended() const { return state == 'Z' || state == 'X'; }
    bool is_ending() const { return (flags & 0x4) != 0; } /* PF_EXITING */
};

std::optional<TaskStat> parse_stat(const std::string& text) {
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string::npos || name_end + 2 >= text.size()) return {};
    const char* at = text.c_str() + name_end + 2;
    TaskStat stat;
    stat.state = *at;
    constexpr int state_field = 3, parent_field = 4, flags_field = 9, thread_count_field = 20,
                  start_field = 22;
    for (int field = state_field; field < start_field; field++) {
        at = std::strchr(at, ' ');
        if (at == nullptr) return {};
        at++;
        if (field + 1 == parent_field)
            stat.parent = static_cast<std::uint32_t>(std::strtoul(at, nullptr, 10));
        if (field + 1 == flags_field) stat.flags = std::strtoull(at, nullptr, 10);
        if (field + 1 == thread_count_field)
            stat.thread_count = static_cast<std::uint32_t>(std::strtoul(at, nullptr, 10));
    }
    stat.start_ticks = std::strtoull(at, nullptr, 10);
    return stat;
}

std::optional<TaskStat> stat_of(const std::string& folder) {
    const Result<std::string> text = read_proc_file(folder + "/stat");
    return text ? parse_stat(*text) : std::optional<TaskStat>();
}

} // namespace

std::string thread_folder(std::uint32_t process_id, std::uint32_t thread_id) {
    return thread_id == process_id ? fmt::format("/proc/{}", process_id)
                                   : fmt::format("/proc/{}/task/{}", process_id, thread_id);
}

std::string without_deleted(std::string path) {
    constexpr std::string_view mark = " (deleted)";
    if (path.ends_with(mark)) path.resize(path.size() - mark.size());
    return path;
}

std::uint64_t boottime_now_ns() {
    return machine_time_ns(CLOCK_BOOTTIME);
}

std::optional<std::uint64_t> process_start_boottime_ns(std::uint32_t process_id) {
    if (process_id == 0 || process_id > INT_MAX) return {};
    const bool is_shown = proc_has_our_numbers();
    const Result<std::string> text =
        is_shown ? read_proc_file(fmt::format("/proc/{}/stat", process_id)) : std::string();
    if (!is_shown || !text) {
        const bool may_be_gone =
            !is_shown || text.error().number() == ENOENT || text.error().number() == ESRCH;
        if (may_be_gone && ::kill(static_cast<pid_t>(process_id), 0) != 0 && errno == ESRCH) return {};
        return 0;
    }
    const std::optional<TaskStat> stat = parse_stat(*text);
    if (!stat || (stat->has_ended() && !living_thread(process_id))) return {};
    /* /proc shows it as it is in our time namespace; one that began before that begins comes out near 2^64. */
    const std::int64_t shift_ns = own_time_offsets().value_or(TimeOffsets{}).boottime_ns;
    return stat->start_ticks * (1'000'000'000 / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK))) -
           static_cast<std::uint64_t>(shift_ns);
}

/* Threads come and go while they are looked at: all have ended if a second look finds the same ones, all of them dead.
 * Who cannot be caught at it lives. */
std::optional<std::uint32_t> living_thread(std::uint32_t process_id) {
    constexpr int looks_max = 20;
    std::optional<std::vector<std::uint32_t>> dead;
    for (int looks = 0; looks < looks_max; looks++) {
        const std::optional<TaskStat> first = stat_of(thread_folder(process_id, process_id));
        if (!first) return {};
        if (!first->has_ended()) return process_id;
        if (first->state == 'Z' && first->thread_count <= 1) return {};
        const std::vector<std::uint32_t> ids = thread_ids(process_id);
        bool is_certain = true;
        for (const std::uint32_t thread_id : ids) {
            if (thread_id == process_id) continue;
            const std::optional<TaskStat> stat = stat_of(thread_folder(process_id, thread_id));
            if (stat && !stat->has_ended()) return thread_id;
            if (!stat) is_certain = false;
        }
        if (is_certain && dead == ids) return {};
        dead = ids;
    }
    return process_id;
}

std::string proc_folder(std::uint32_t process_id) {
    return thread_folder(process_id, living_thread(process_id).value_or(process_id));
}

Result<std::string> executable_of(std::uint32_t process_id) {
    const std::string whole = thread_folder(process_id, process_id);
    Result<std::string> path = read_link(whole + "/exe");
    if (!path)
        if (const std::string folder = proc_folder(process_id); folder != whole)
            path = read_link(folder + "/exe");
    return path ? without_deleted(*path) : path;
}

bool descends_from(std::uint32_t process_id, std::uint32_t ancestor) {
    constexpr int generations_max = 256;
    for (int i = 0; i < generations_max && process_id > 1; i++) {
        const std::optional<TaskStat> stat = stat_of(thread_folder(process_id, process_id));
        if (!stat) return false;
        process_id = stat->parent;
        if (process_id == ancestor) return true;
    }
    return false;
}

bool is_same_process(std::uint32_t process_id, std::uint64_t registered_boottime_ns) {
    const std::optional<std::uint64_t> started = process_start_boottime_ns(process_id);
    return started && *started <= registered_boottime_ns;
}

bool leads_its_threads(std::uint32_t process_id) {
    if (proc_has_our_numbers()) {
        const FileDescriptor process(
            static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(process_id), 0)));
        if (process.is_open()) return true;
        if (errno == EINVAL || errno == ENOENT || errno == ESRCH) return false;
    }
    const Result<std::string> status = read_small_file(fmt::format("/proc/{}/status", process_id));
    return status && status->find(fmt::format("\nTgid:\t{}\n", process_id)) != std::string::npos;
}

bool is_process_that_said(std::uint32_t process_id, std::size_t executable_hash,
                          std::uint64_t said_boottime_ns) {
    const Result<std::string> executable = executable_of(process_id);
    return ((executable && std::hash<std::string>()(*executable) == executable_hash) ||
            is_same_process(process_id, said_boottime_ns)) &&
           leads_its_threads(process_id);
}

Result<ProcessStatus> process_status(std::uint32_t process_id) {
    return parse_status(fmt::format("/proc/{}/status", process_id));
}

Result<ProcessStatus> thread_status(std::uint32_t process_id, std::uint32_t thread_id) {
    return parse_status(fmt::format("/proc/{}/task/{}/status", process_id, thread_id));
}

std::optional<ThreadRuns> thread_runs(std::uint32_t process_id, std::uint32_t thread_id) {
    const Result<std::string> text = read_proc_file(thread_folder(process_id, thread_id) + "/schedstat");
    unsigned long long run_ns = 0, count = 0;
    if (!text || std::sscanf(text->c_str(), "%llu %*u %llu", &run_ns, &count) != 2 || count == 0) return {};
    return ThreadRuns{run_ns, count};
}

namespace {

/* The eighth number of the first line: "cpu  user nice system idle iowait irq softirq steal ..." */
bool is_time_stolen() {
    const Result<std::string> text = read_proc_file("/proc/stat");
    unsigned long long stolen = 0;
    return !text || std::sscanf(text->c_str(), "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &stolen) != 1 ||
           stolen != 0;
}

/* Looked at once a second: a machine may be moved to a host where it is. */
bool is_time_stolen_lately() {
    static std::atomic<std::int64_t> looked_s = 0;
    static std::atomic<bool> is_stolen = true;
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    if (looked_s.load(std::memory_order_acquire) != now.tv_sec + 1) {
        is_stolen.store(is_time_stolen(), std::memory_order_relaxed);
        looked_s.store(now.tv_sec + 1, std::memory_order_release);
    }
    return is_stolen.load(std::memory_order_relaxed);
}

} // namespace

std::optional<std::uint64_t> process_run_ns(std::uint32_t process_id) {
    constexpr std::uint32_t process_id_limit = 1u
                                               << 28; /* more are cut off below, and the kernel has fewer */
    if (process_id == 0 || process_id >= process_id_limit || is_time_stolen_lately()) return {};
    /* As clock_getcpuclockid() makes it, which asks the kernel whether there is such a process besides. */
    constexpr clockid_t by_scheduler = 2;
    const clockid_t clock = static_cast<clockid_t>(~process_id << 3) | by_scheduler;
    timespec time{};
    if (::clock_gettime(clock, &time) != 0) return {};
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

Result<ProcessStatus> most_filtered_status(std::uint32_t process_id) {
    return most_filtered_status(process_id, process_status(process_id));
}

Result<ProcessStatus> most_filtered_status(std::uint32_t process_id, Result<ProcessStatus> first) {
    Result<ProcessStatus> most = std::move(first);
    if (!most || most->thread_count == 1) return most;
    const Result<std::vector<std::string>> names = list_directory(fmt::format("/proc/{}/task", process_id));
    if (!names) return names.error();
    for (const std::string& name : *names) {
        const auto thread_id = static_cast<std::uint32_t>(std::strtoul(name.c_str(), nullptr, 10));
        if (thread_id == process_id) continue;
        const Result<ProcessStatus> status = thread_status(process_id, thread_id);
        const bool has_ended =
            !status && (status.error().number() == ENOENT || status.error().number() == ESRCH);
        if (!status && !has_ended) return status.error();
        if (status && std::pair(status->seccomp_filters, status->seccomp_mode) >
                          std::pair(most->seccomp_filters, most->seccomp_mode))
            most = status;
    }
    return most;
}

std::vector<std::uint32_t> thread_ids(std::uint32_t process_id) {
    std::vector<std::uint32_t> ids;
    const Result<std::vector<std::string>> names = list_directory(fmt::format("/proc/{}/task", process_id));
    if (!names) return ids;
    for (const std::string& name : *names)
        ids.push_back(static_cast<std::uint32_t>(std::strtoul(name.c_str(), nullptr, 10)));
    return ids;
}

/* 0: there is no such process. */
static std::uint32_t thread_count(std::uint32_t process_id) {
    const auto stat = stat_of(fmt::format("/proc/{0}/task/{0}", process_id));
    return stat ? stat->thread_count : 0;
}

/* New threads stand behind the others. So where /proc ends at one that has just ended, it shows fewer than there were before, if
 * that one was there then; else fewer than there are now. */
ShownThreads shown_threads(std::uint32_t process_id) {
    const std::uint32_t before = thread_count(process_id);
    std::vector<std::uint32_t> ids = thread_ids(process_id);
    const bool is_whole = ids.size() >= std::max(before, thread_count(process_id));
    return {std::move(ids), is_whole};
}

FoundThreads found_threads(std::uint32_t process_id) {
    struct timespec now {};
    (void)::clock_gettime(CLOCK_BOOTTIME, &now); /* as /proc tells when they began */
    const std::uint64_t now_ns =
        static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
    const std::uint64_t tick_ns = 1'000'000'000 / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
    const ShownThreads shown = shown_threads(process_id);
    FoundThreads found;
    found.is_whole = shown.is_whole;
    for (const std::uint32_t thread_id : shown.ids) {
        const auto stat = stat_of(fmt::format("/proc/{}/task/{}", process_id, thread_id));
        const bool leads_others = stat && thread_id == process_id && stat->thread_count > 1;
        if (!stat || (stat->is_ending() && !leads_others))
            found.ended.push_back(thread_id);
        else
            found.living.push_back({thread_id, now_ns - std::min(now_ns, stat->start_ticks * tick_ns)});
        found.goes_on |= stat && !stat->is_ending();
    }
    return found;
}

std::vector<std::uint32_t> all_process_ids() {
    std::vector<std::uint32_t> found;
    const Result<std::vector<std::string>> names = list_directory("/proc");
    for (const std::string& name : names ? *names : std::vector<std::string>())
        if (name.find_first_not_of("0123456789") == std::string::npos)
            found.push_back(static_cast<std::uint32_t>(std::strtoul(name.c_str(), nullptr, 10)));
    return found;
}

bool catches(const ProcessStatus& status, std::uint32_t signal_number) {
    return (status.caught >> (signal_number - 1) & 1) != 0;
}

bool lacks_handler(std::uint32_t process_id, std::uint32_t signal_number) {
    const Result<ProcessStatus> status = process_status(process_id);
    return status && status->state != 'Z' && status->state != 'X' && !catches(*status, signal_number);
}

bool has_signal_waiting(std::uint32_t process_id, std::uint32_t signal_number) {
    const std::vector<std::uint32_t> threads = thread_ids(process_id);
    return std::any_of(threads.begin(), threads.end(), [=](std::uint32_t thread_id) {
        const Result<ProcessStatus> status = thread_status(process_id, thread_id);
        return status && (status->pending >> (signal_number - 1) & 1) != 0;
    });
}

} // namespace plumb
