#include "consumerd/control/control_groups.h"

#include "base/file.h"

#include <plumb/detail/state_layout.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace plumb {
namespace {

constexpr std::string_view usual_cgroup_mount = "/sys/fs/cgroup";

std::vector<std::string_view> parted(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(separator, at), text.size());
        parts.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return parts;
}

/* Where the hierarchy is mounted, and what of it. */
struct CgroupMount {
    std::string folder, root;
};

std::vector<CgroupMount> cgroup_mounts() {
    std::vector<CgroupMount> mounts;
    const auto text = read_small_file("/proc/self/mountinfo");
    if (!text) return mounts;
    for (const std::string_view line : parted(*text, '\n')) {
        const std::size_t dash = line.find(" - cgroup2 ");
        if (dash == std::string_view::npos) continue;
        const auto words = parted(line.substr(0, dash), ' ');
        if (words.size() >= 5) mounts.push_back({std::string(words[4]), std::string(words[3])});
    }
    return mounts;
}

/* Without a / at its end: of the root nothing is left. */
std::string bare(const std::string& path) {
    return path == "/" ? std::string() : path;
}

bool begins_with_folder(std::string_view path, std::string_view folder) {
    return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

/* What is left of a path in a mount of the hierarchy. */
Result<std::string> without_mount(std::string text) {
    const std::vector<CgroupMount> mounts = cgroup_mounts();
    for (const CgroupMount& mount : mounts)
        if (begins_with_folder(text, mount.folder))
            return bare(mount.root) + text.substr(mount.folder.size());
    if (!begins_with_folder(text, usual_cgroup_mount)) return text;
    if (mounts.empty()) return text.substr(usual_cgroup_mount.size());
    return Error("{} is no control group of version 2.", text)
        .hint("These are below {}; groups of version 1 can not be chosen.", mounts[0].folder);
}

std::uint64_t hash_of(std::string_view path) {
    std::uint64_t hash = PLUMB_CGROUP_HASH_START;
    for (const char c : path)
        hash = plumb_cgroup_hash(hash, c);
    return hash;
}

} // namespace

Result<std::string> control_group_path(const std::string& text) {
    auto rest = without_mount(text.starts_with("0::") ? text.substr(3) : text);
    if (!rest) return rest.error();
    if (text.empty() || text.find('\n') != std::string::npos)
        return Error("\"{}\" can not be a control group.", text)
            .hint("Write its path as /proc/PID/cgroup has it, for example system.slice/nginx.service.");
    std::string path;
    for (const std::string_view name : parted(*rest, '/')) {
        if (name == "." || name == "..")
            return Error("\"{}\" can not be a control group: {} is no name of one.", text, name)
                .hint("Write its path from the root on, for example system.slice/nginx.service.");
        if (!name.empty()) path += "/" + std::string(name);
    }
    return path.empty() ? "/" : path;
}

Status check_control_group(const std::string& path) {
    const std::vector<CgroupMount> mounts = cgroup_mounts();
    if (mounts.empty())
        return Error("Whether there is a control group {} can not be seen: no hierarchy of version 2 is "
                     "mounted.",
                     path)
            .hint("Mount it: `mount -t cgroup2 none {}`.", usual_cgroup_mount);
    for (const CgroupMount& mount : mounts) {
        if (!is_within(path, mount.root)) continue;
        struct stat info {};
        const std::string folder = mount.folder + path.substr(bare(mount.root).size());
        if (::stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return ok();
    }
    return Error("There is no control group {}.", path)
        .hint("Make it first (`mkdir {}{}`), or look which there are: `cat /proc/PID/cgroup` of a process, "
              "`systemd-cgls`.",
              mounts[0].folder, path)
        .as(ENOENT);
}

std::optional<std::string> control_group_of(std::uint32_t process_id) {
    const auto text = read_small_file(fmt::format("/proc/{}/cgroup", process_id));
    if (!text) return {};
    for (const std::string_view line : parted(*text, '\n'))
        if (line.starts_with("0::/")) return std::string(line.substr(3));
    return {};
}

std::uint32_t cgroup_namespace_of(std::uint32_t process_id) {
    struct stat info {};
    const std::string path = fmt::format("/proc/{}/ns/cgroup", process_id);
    return ::stat(path.c_str(), &info) == 0 ? static_cast<std::uint32_t>(info.st_ino) : 0;
}

bool is_within(const std::string& path, const std::string& group) {
    return begins_with_folder(path, bare(group));
}

plumb_rule_cgroup encode_control_group(const std::string& path) {
    plumb_rule_cgroup group{};
    group.name_space[0] = cgroup_namespace_of(static_cast<std::uint32_t>(::getpid()));
    group.path_hash[0] = hash_of(bare(path));
    return group;
}

std::optional<bool> is_in(const plumb_rule_cgroup& group, const std::string& path) {
    static const std::uint32_t ours = cgroup_namespace_of(static_cast<std::uint32_t>(::getpid()));
    const auto* const place = std::find(std::begin(group.name_space), std::end(group.name_space), ours);
    if (ours == 0 || place == std::end(group.name_space)) return {};
    const std::uint64_t wanted = group.path_hash[place - group.name_space];
    const std::string whole = bare(path);
    for (std::size_t end = 0; end != std::string::npos && end <= whole.size();
         end = end == whole.size() ? std::string::npos : std::min(whole.find('/', end + 1), whole.size()))
        if (hash_of(std::string_view(whole).substr(0, end)) == wanted) return true;
    return false;
}

std::uint64_t hash_in_namespace(const std::string& group, const std::string& path, std::uint32_t depth) {
    std::string root = bare(path);
    for (std::uint32_t i = 0; i < depth; i++)
        root.resize(root.find_last_of('/') == std::string::npos ? 0 : root.find_last_of('/'));
    if (is_within(root, group)) return PLUMB_CGROUP_HASH_START;
    return is_within(group, root) ? hash_of(group.substr(root.size())) : 0;
}

bool add_place(plumb_rule_cgroup& group, std::uint32_t name_space, std::uint64_t path_hash) {
    std::uint32_t free = PLUMB_CGROUP_PLACES;
    for (std::uint32_t i = PLUMB_CGROUP_PLACES - 1; i > 0; i--) {
        if (group.name_space[i] == name_space) return false;
        const bool makes_room = path_hash != 0 && group.path_hash[i] == 0;
        if (group.name_space[i] == 0 || (makes_room && free == PLUMB_CGROUP_PLACES)) free = i;
    }
    if (free == PLUMB_CGROUP_PLACES || group.name_space[0] == name_space) return false;
    group.name_space[free] = name_space;
    group.path_hash[free] = path_hash;
    return true;
}

} // namespace plumb
