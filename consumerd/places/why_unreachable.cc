#include "consumerd/places/why_unreachable.h"

#include "base/file.h"
#include "base/mapped_file.h"
#include "base/process_names.h"
#include "base/processes.h"
#include "consumerd/control/no_tracepoints.h"
#include "consumerd/control/quiescence.h"
#include "consumerd/control/slotless.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace plumb {
namespace {

/* Its fork was not heard of, or all places were taken. */
constexpr const char* unlisted_reason =
    "Plumb is in it, but it is not in the list of traced programs: start it "
    "again";
constexpr const char* without_state_reason = "Plumb is in it, but could not open its user's state file when "
                                             "it started (was a descriptor free, memory, "
                                             "/dev/shm there?): start it again";

/* What is no program of anybody's. */
std::string why_no_program(std::uint32_t process_id) {
    const auto status = read_small_file(fmt::format("/proc/{}/status", process_id));
    if (!status) return {};
    const std::size_t group = status->find("\nTgid:\t");
    if (group != std::string::npos) {
        const auto leader = static_cast<std::uint32_t>(
            std::strtoul(status->c_str() + group + std::strlen("\nTgid:\t"), nullptr, 10));
        if (leader != 0 && leader != process_id)
            return fmt::format("it is a thread of process {}: -p takes that number", leader);
    }
    const auto stat = read_small_file(fmt::format("/proc/{}/stat", process_id));
    const std::size_t name_end = stat ? stat->rfind(')') : std::string::npos;
    if (name_end == std::string::npos) return {};
    constexpr unsigned long kernel_thread = 0x200000; /* PF_KTHREAD */
    char state = 0;
    int numbers[5];
    unsigned long flags = 0;
    const int read = std::sscanf(stat->c_str() + name_end + 1, " %c %d %d %d %d %d %lu", &state, &numbers[0],
                                 &numbers[1], &numbers[2], &numbers[3], &numbers[4], &flags);
    return read == 7 && (flags & kernel_thread) != 0 ? kernel_thread_reason : "";
}

bool is_in_other_user_namespace(std::uint32_t process_id) {
    const auto its = read_link(fmt::format("/proc/{}/ns/user", process_id));
    const auto ours = read_link("/proc/self/ns/user");
    return its && ours && *its != *ours;
}

} // namespace

std::string why_unreachable(std::uint32_t process_id, const StateFile& state, const OtherUsers* others) {
    if (proc_has_other_numbers()) return foreign_proc_reason;
    if (std::string why = why_no_program(process_id); !why.empty()) return why;
    const auto user_id = user_of(process_id);
    if (user_id && *user_id != geteuid() && geteuid() != 0)
        return fmt::format("it belongs to user {}: only that user, or root, can record it", *user_id);
    if (const auto why_not = user_id && others ? others->why_not(*user_id) : std::nullopt)
        return fmt::format("it belongs to user {}: {}", *user_id, *why_not);
    if (state.is_predecessor_mapped_by(process_id)) return state_removed_reason;
    /* Something of "/dev/shm/plumb-0/" mapped, but not our state file: that of a container, which /proc may show from its
     * mount on, and by the name that it had while it was made. */
    const auto files = mapped_files(process_id);
    const std::string in_shm = fmt::format("/plumb-{}/", state.directory().user_id());
    const auto is_state = [&](const MappedFile& file) { return file.path.find(in_shm) != std::string::npos; };
    if (files && std::any_of(files->begin(), files->end(), is_state) && !state.may_be_mapped_by(process_id))
        return "it has another /dev/shm, as in a container of its own: root reaches it from here, and "
               "`plumb record` from in there";
    if (is_in_other_user_namespace(process_id))
        return "it is in a user namespace of its own, where it cannot use the directory in /dev/shm of the "
               "user that it "
               "seems to be: `plumb record` reaches it from in there, if it has a /dev/shm of its own";
    if (!process_start_boottime_ns(process_id) || (files && files->empty())) return has_ended_reason;
    if (state.is_mapped_by(process_id)) return unlisted_reason;
    const auto is_runtime = [](const MappedFile& file) {
        return file.path.substr(file.path.rfind('/') + 1).starts_with("libplumb.so");
    };
    if (files && std::any_of(files->begin(), files->end(), is_runtime)) return without_state_reason;
    return why_no_tracepoints(process_id);
}

} // namespace plumb
