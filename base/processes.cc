#include "base/processes.h"

#include "base/file.h"
#include "base/process_names.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

namespace plumb {

namespace {

/* The number in a line such as "SigBlk:\t0000000000000000". */
std::uint64_t number_after(const std::string& text, const char* key, int base) {
    const std::size_t at = text.find(key);
    return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + std::strlen(key), nullptr, base);
}

Result<ProcessStatus> parse_status(const std::string& path) {
    const Result<std::string> text = read_small_file(path);
    if (!text) return text.error();
    ProcessStatus status;
    const std::size_t state = text->find("\nState:\t");
    if (state != std::string::npos && state + 8 < text->size()) status.state = (*text)[state + 8];
    status.caught = number_after(*text, "\nSigCgt:", 16);
    status.blocked = number_after(*text, "\nSigBlk:", 16);
    if (const std::size_t at = text->find("\nUid:"); at != std::string::npos) {
        char* end = nullptr; /* real, effective, saved, that of file systems */
        status.user_id = static_cast<std::uint32_t>(std::strtoul(text->c_str() + at + 5, &end, 10));
        status.effective_user_id = static_cast<std::uint32_t>(std::strtoul(end, nullptr, 10));
    }
    status.seccomp_mode = static_cast<std::uint32_t>(number_after(*text, "\nSeccomp:", 10));
    status.seccomp_filters = static_cast<std::uint32_t>(number_after(*text, "\nSeccomp_filters:", 10));
    if (text->compare(0, 6, "Name:\t") == 0) status.name = text->substr(6, text->find('\n') - 6);
    return status;
}

bool parse_mapping(const std::string& line, MappedFile& mapping) {
    unsigned long long start = 0, end = 0, offset = 0, inode = 0;
    unsigned major_number = 0, minor_number = 0;
    char permissions[8] = {};
    int path = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx %7s %llx %x:%x %llu %n", &start, &end, permissions, &offset,
                    &major_number, &minor_number, &inode, &path) < 7 ||
        inode == 0)
        return false;
    mapping = {start,
               end,
               ::makedev(major_number, minor_number),
               inode,
               permissions[2] == 'x',
               line.substr(static_cast<std::size_t>(path))};
    return true;
}

} // namespace

std::uint64_t boottime_now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

std::optional<std::uint64_t> process_start_boottime_ns(std::uint32_t process_id) {
    if (process_id == 0 || process_id > INT_MAX) return {};
    const bool is_shown = proc_has_our_numbers();
    const Result<std::string> text =
        is_shown ? read_small_file(fmt::format("/proc/{}/stat", process_id)) : std::string();
    if (!is_shown || !text) {
        const bool may_be_gone =
            !is_shown || text.error().number() == ENOENT || text.error().number() == ESRCH;
        if (may_be_gone && ::kill(static_cast<pid_t>(process_id), 0) != 0 && errno == ESRCH) return {};
        return 0;
    }
    const std::size_t name_end = text->rfind(')');
    if (name_end == std::string::npos || name_end + 2 >= text->size()) return {};
    const char* at = text->c_str() + name_end + 2;
    if (*at == 'Z' || *at == 'X') return {};
    constexpr int fields_between = 19; /* from state (3rd) to starttime (22nd) */
    for (int field = 0; field < fields_between && at != nullptr; field++) {
        at = std::strchr(at, ' ');
        if (at != nullptr) at++;
    }
    if (at == nullptr) return {};
    const std::uint64_t ticks = std::strtoull(at, nullptr, 10);
    return ticks * (1'000'000'000 / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK)));
}

bool is_same_process(std::uint32_t process_id, std::uint64_t registered_boottime_ns) {
    const std::optional<std::uint64_t> started = process_start_boottime_ns(process_id);
    return started && *started <= registered_boottime_ns;
}

Result<ProcessStatus> process_status(std::uint32_t process_id) {
    return parse_status(fmt::format("/proc/{}/status", process_id));
}

Result<ProcessStatus> thread_status(std::uint32_t process_id, std::uint32_t thread_id) {
    return parse_status(fmt::format("/proc/{}/task/{}/status", process_id, thread_id));
}

Result<ProcessStatus> most_filtered_status(std::uint32_t process_id) {
    Result<ProcessStatus> most = process_status(process_id);
    if (!most) return most;
    const std::vector<std::uint32_t> threads = thread_ids(process_id);
    for (std::size_t i = 1; i < threads.size(); i++) { /* the first one is the process itself */
        const Result<ProcessStatus> status = thread_status(process_id, threads[i]);
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

Result<std::vector<MappedFile>> mapped_files(std::uint32_t process_id) {
    const Result<std::string> text =
        read_small_file(fmt::format("/proc/{}/maps", process_id), std::size_t{64} << 20);
    if (!text) return text.error();
    std::vector<MappedFile> files;
    std::size_t line = 0;
    while (line < text->size()) {
        std::size_t end = text->find('\n', line);
        if (end == std::string::npos) end = text->size();
        MappedFile mapping;
        if (parse_mapping(text->substr(line, end - line), mapping)) {
            const auto known = std::find_if(files.begin(), files.end(), [&](const MappedFile& file) {
                return file.device == mapping.device && file.inode == mapping.inode;
            });
            if (known == files.end()) {
                files.push_back(std::move(mapping));
            } else {
                known->end = std::max(known->end, mapping.end);
                known->executable |= mapping.executable;
            }
        }
        line = end + 1;
    }
    return files;
}

std::vector<std::uint32_t> processes_that_map(std::uint64_t device, std::uint64_t inode) {
    std::vector<std::uint32_t> processes;
    const Result<std::vector<std::string>> names = list_directory("/proc");
    if (!names) return processes;
    for (const std::string& name : *names) {
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        const auto process_id = static_cast<std::uint32_t>(std::strtoul(name.c_str(), nullptr, 10));
        const Result<std::vector<MappedFile>> files = mapped_files(process_id);
        if (!files) continue;
        const bool maps = std::any_of(files->begin(), files->end(), [&](const MappedFile& file) {
            return file.device == device && file.inode == inode;
        });
        if (maps) processes.push_back(process_id);
    }
    return processes;
}

} // namespace plumb
