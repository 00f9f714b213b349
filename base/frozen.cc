#include "base/frozen.h"

#include "base/file.h"
#include "base/memory_room.h"

#include <fmt/format.h>

#include <algorithm>

namespace plumb {
namespace {

std::string content_of(const std::string& path) {
    return read_small_file(path, std::size_t{16} << 20).value_or(std::string());
}

/* Of v1 a frozen parent shows in its children; of v2 a child of a frozen one has its own word alone. */
bool is_frozen(const std::string& folder, bool is_v2) {
    return content_of(folder + (is_v2 ? "/cgroup.freeze" : "/freezer.state"))
        .starts_with(is_v2 ? "1" : "FROZEN");
}

} // namespace

bool is_control_group_frozen(std::uint32_t process_id, std::uint32_t thread_id, const std::string& root) {
    const std::string groups =
        content_of(fmt::format("{}/proc/{}/task/{}/cgroup", root, process_id, thread_id));
    if (groups.empty()) return false;
    const auto folders = control_groups(groups, content_of(root + "/proc/self/mountinfo"), "freezer");
    return std::any_of(folders.begin(), folders.end(), [&](const ControlGroup& group) {
        return is_frozen(root + group.folder, group.is_v2);
    });
}

} // namespace plumb
