#include "base/memory_room.h"

#include "base/file.h"
#include "base/processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace plumb {

namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(separator), text.size());
        parts.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

bool has_word(std::string_view list, std::string_view word) {
    const std::vector<std::string_view> words = split(list, ',');
    return std::find(words.begin(), words.end(), word) != words.end();
}

/* "\040" for a space, in mountinfo. */
std::string unescaped(std::string_view text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); i++) {
        const bool is_octal = text[i] == '\\' && i + 3 < text.size() &&
                              text.substr(i + 1, 3).find_first_not_of("01234567") == std::string_view::npos;
        if (!is_octal) {
            plain += text[i];
            continue;
        }
        plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
        i += 3;
    }
    return plain;
}

/* Where a hierarchy is mounted, and which of its folders is there: a container often sees its own one alone. */
struct Mount {
    std::string point, root;
};

std::optional<Mount> find_mount(std::string_view mountinfo, bool is_v2, std::string_view controller) {
    for (const std::string_view line : split(mountinfo, '\n')) {
        /* 36 25 0:31 ROOT POINT options [optional fields] - TYPE source super-options */
        const std::size_t dash = line.find(" - ");
        if (dash == std::string_view::npos) continue;
        const std::vector<std::string_view> before = split(line.substr(0, dash), ' ');
        const std::vector<std::string_view> behind = split(line.substr(dash + 3), ' ');
        if (before.size() < 5 || behind.size() < 3) continue;
        const bool matches =
            is_v2 ? behind[0] == "cgroup2" : behind[0] == "cgroup" && has_word(behind[2], controller);
        if (matches) return Mount{unescaped(before[4]), unescaped(before[3])};
    }
    return {};
}

/* The process's folder and those above it, as far as they can be seen. */
void add_folders(const Mount& mount, std::string_view path, bool is_v2, std::vector<ControlGroup>& folders) {
    const std::string_view root = mount.root == "/" ? std::string_view() : std::string_view(mount.root);
    /* One from outside what is mounted ("/../x"), or elsewhere: the mounted one is the nearest to be seen. */
    const bool is_inside = path.starts_with(root) && path.find("..") == std::string_view::npos &&
                           (path.size() == root.size() || path[root.size()] == '/');
    std::string below(is_inside ? path.substr(root.size()) : std::string_view());
    while (below.size() > 1) {
        folders.push_back({mount.point + below, is_v2});
        below.erase(below.rfind('/'));
    }
    folders.push_back({mount.point, is_v2});
}

std::optional<std::uint64_t> number_in(const std::string& path) {
    const Result<std::string> text = read_small_file(path);
    if (!text || text->empty() || (*text)[0] < '0' || (*text)[0] > '9') return {}; /* "max" */
    return std::strtoull(text->c_str(), nullptr, 10);
}

/* The number behind "key " at the beginning of a line; 0 if there is none. */
std::uint64_t number_of(std::string_view text, std::string_view key) {
    for (const std::string_view line : split(text, '\n')) {
        if (!line.starts_with(key)) continue;
        const std::size_t digit = line.find_first_of("0123456789", key.size());
        if (digit != std::string_view::npos)
            return std::strtoull(std::string(line.substr(digit)).c_str(), nullptr, 10);
    }
    return 0;
}

void narrow(MemoryRoom& room, std::uint64_t limit, std::uint64_t used, const std::string& name) {
    const std::uint64_t left = limit - std::min(limit, used);
    if (left < room.bytes) room = {left, fmt::format("{} ({})", name, in_mib(limit))};
}

/* Beyond, it is the way in which v1 says "none". */
constexpr std::uint64_t no_limit = std::uint64_t{1} << 60;

void narrow_by_cgroup(MemoryRoom& room, const ControlGroup& cgroup, const std::string& root) {
    const std::string folder = root + cgroup.folder;
    const auto used = number_in(folder + (cgroup.is_v2 ? "/memory.current" : "/memory.usage_in_bytes"));
    if (!used) return;
    std::uint64_t limit = no_limit;
    for (const char* const file : {"/memory.max", "/memory.high", "/memory.limit_in_bytes"})
        limit = std::min(limit, number_in(folder + file).value_or(no_limit));
    if (limit == no_limit) return;
    /* Pages of files that nobody used lately go before anybody is killed. */
    const std::string stat = read_small_file(folder + "/memory.stat").value_or(std::string());
    const std::uint64_t idle = number_of(stat, cgroup.is_v2 ? "inactive_file " : "total_inactive_file ");
    narrow(room, limit, *used - std::min(idle, *used), "memory cgroup " + cgroup.folder);
}

} // namespace

std::uint64_t room_of_file_system(const struct statvfs& said) {
    if (said.f_blocks == 0) return std::numeric_limits<std::uint64_t>::max();
    return static_cast<std::uint64_t>(said.f_bavail) * said.f_frsize;
}

std::string in_mib(std::uint64_t bytes) {
    return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

std::vector<ControlGroup> control_groups(std::string_view cgroup_file, std::string_view mountinfo_file,
                                         std::string_view controller) {
    std::vector<ControlGroup> folders;
    for (const std::string_view line : split(cgroup_file, '\n')) {
        /* "0::/user.slice" of v2, "5:memory,hugetlb:/docker/1234" of v1 */
        const std::size_t first = line.find(':');
        const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
        if (second == std::string_view::npos) continue;
        const std::string_view controllers = line.substr(first + 1, second - first - 1);
        const bool is_v2 = controllers.empty() && line.starts_with("0:");
        if (!is_v2 && !has_word(controllers, controller)) continue;
        if (const auto mount = find_mount(mountinfo_file, is_v2, controller))
            add_folders(*mount, line.substr(second + 1), is_v2, folders);
    }
    return folders;
}

MemoryRoom memory_room(std::uint32_t process_id, const std::string& root) {
    MemoryRoom room;
    const std::string process = fmt::format("{}/proc/{}", root, process_id);
    const std::string machine = read_small_file(root + "/proc/meminfo").value_or(std::string());
    if (const std::uint64_t available_kib = number_of(machine, "MemAvailable:"); available_kib != 0)
        narrow(room, (available_kib + number_of(machine, "SwapFree:")) * 1024, 0,
               "the machine's available memory");
    const auto cgroups = read_small_file(process + "/cgroup");
    const auto mounts = read_small_file(root + "/proc/self/mountinfo", std::size_t{16} << 20);
    if (cgroups && mounts)
        for (const ControlGroup& cgroup : control_groups(*cgroups, *mounts, "memory"))
            narrow_by_cgroup(room, cgroup, root);
    const std::string limits = read_small_file(process + "/limits").value_or(std::string());
    /* Of the address space alone a first thread that has ended tells nothing. */
    const std::string of_living = root.empty() ? proc_folder(process_id) : process;
    const std::string status = read_small_file(of_living + "/status").value_or(std::string());
    constexpr std::string_view address_space = "Max address space";
    const std::size_t at = limits.find(address_space);
    if (at != std::string::npos) {
        const std::string value = limits.substr(at + address_space.size(), 32);
        const std::size_t digit = value.find_first_not_of(' ');
        if (digit != std::string::npos && value[digit] >= '0' && value[digit] <= '9')
            narrow(room, std::strtoull(value.c_str() + digit, nullptr, 10),
                   number_of(status, "VmSize:") * 1024, fmt::format("RLIMIT_AS of process {}", process_id));
    }
    return room;
}

} // namespace plumb
