#include "base/thread_room.h"

#include "base/file.h"
#include "base/memory_room.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

namespace plumb {
namespace {

constexpr unsigned cap_sys_admin = 21, cap_sys_resource = 24;

std::string text_of(const std::string& path) {
    return read_small_file(path, std::size_t{16} << 20).value_or(std::string());
}

/* The number that follows a key in front of it, past blanks; "max" and "unlimited" are none. */
std::optional<std::uint64_t> number_behind(const std::string& text, std::string_view key, int base = 10) {
    const std::size_t at = text.find(key);
    const std::size_t begin = at == std::string::npos ? at : text.find_first_not_of(" \t", at + key.size());
    if (begin == std::string::npos) return {};
    char* end = nullptr;
    const std::uint64_t number = std::strtoull(text.c_str() + begin, &end, base);
    if (end == text.c_str() + begin) return {};
    return number;
}

void narrow(ThreadRoom& room, std::uint64_t limit, std::uint64_t used, const std::string& name) {
    const std::uint64_t left = limit - std::min(limit, used);
    if (left < room.threads) room = {left, fmt::format("{} ({})", name, limit)};
}

/* Of all the machine: far more than one user's, most of the time enough to know, and one look. */
std::uint64_t threads_of_machine(const std::string& root) {
    const std::string load = text_of(root + "/proc/loadavg"); /* 0.20 0.18 0.12 1/80 11206 */
    return number_behind(load, "/").value_or(std::numeric_limits<std::uint64_t>::max());
}

std::uint64_t threads_of_user(std::uint64_t user_id, const std::string& root) {
    std::uint64_t threads = 0;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(root + "/proc", error), end; !error && entry != end;
         entry.increment(error)) {
        const std::string name = entry->path().filename();
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        const std::string status = text_of(entry->path() / "status");
        if (number_behind(status, "\nUid:") == user_id)
            threads += number_behind(status, "\nThreads:").value_or(0);
    }
    return threads;
}

/* What frees from the limit does so in the first user namespace alone. */
bool is_exempt(std::uint64_t user_id, const std::string& status, const std::string& process,
               const std::string& root) {
    if (user_id == 0) return true;
    std::error_code error;
    const auto there = std::filesystem::read_symlink(process + "/ns/user", error);
    if (error || there != std::filesystem::read_symlink(root + "/proc/self/ns/user", error)) return false;
    constexpr int hexadecimal = 16;
    const std::uint64_t capabilities = number_behind(status, "\nCapEff:", hexadecimal).value_or(0);
    return (capabilities & (std::uint64_t{1} << cap_sys_admin | std::uint64_t{1} << cap_sys_resource)) != 0;
}

void narrow_by_user(ThreadRoom& room, const std::string& process, const std::string& root) {
    const std::string status = text_of(process + "/status");
    const auto user_id = number_behind(status, "\nUid:");
    const auto limit = number_behind(text_of(process + "/limits"), "Max processes");
    if (!user_id || !limit || is_exempt(*user_id, status, process, root)) return;
    constexpr std::uint64_t enough = 1000;
    const std::uint64_t all = threads_of_machine(root);
    const std::uint64_t left = *limit - std::min(*limit, all);
    narrow(room, *limit, left > enough ? all : threads_of_user(*user_id, root), "RLIMIT_NPROC of its user");
}

} // namespace

ThreadRoom thread_room(std::uint32_t process_id, const std::string& root) {
    ThreadRoom room;
    const std::string process = fmt::format("{}/proc/{}", root, process_id);
    narrow_by_user(room, process, root);
    for (const ControlGroup& group :
         control_groups(text_of(process + "/cgroup"), text_of(root + "/proc/self/mountinfo"), "pids")) {
        const std::string folder = root + group.folder;
        const auto limit = number_behind(text_of(folder + "/pids.max"), "");
        const auto used = number_behind(text_of(folder + "/pids.current"), "");
        if (limit && used) narrow(room, *limit, *used, "pids.max of " + group.folder);
    }
    return room;
}

} // namespace plumb
