#include "consumerd/control/context_names.h"

#include <plumb/abi/context.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

namespace plumb {
namespace {

struct ContextName {
    std::string_view name;
    std::uint32_t context;
};

/* The first name of each is the one that is told. */
constexpr ContextName context_names[] = {
    {"vpid", PLUMB_CONTEXT_VPID},       {"procname", PLUMB_CONTEXT_PROCNAME},
    {"cpu", PLUMB_CONTEXT_CPU},         {"uid", PLUMB_CONTEXT_UID},
    {"euid", PLUMB_CONTEXT_EUID},       {"gid", PLUMB_CONTEXT_GID},
    {"egid", PLUMB_CONTEXT_EGID},       {"pid_ns", PLUMB_CONTEXT_PID_NS},
    {"user_ns", PLUMB_CONTEXT_USER_NS}, {"mnt_ns", PLUMB_CONTEXT_MNT_NS},
    {"net_ns", PLUMB_CONTEXT_NET_NS},   {"ipc_ns", PLUMB_CONTEXT_IPC_NS},
    {"uts_ns", PLUMB_CONTEXT_UTS_NS},   {"cgroup_ns", PLUMB_CONTEXT_CGROUP_NS},
    {"time_ns", PLUMB_CONTEXT_TIME_NS}, {"namespaces", PLUMB_CONTEXT_NAMESPACES},
    {"cgroup", PLUMB_CONTEXT_CGROUP},   {"callstack", PLUMB_CONTEXT_CALLSTACK},
};
constexpr ContextName other_context_names[] = {
    {"cpu_id", PLUMB_CONTEXT_CPU},
    {"vuid", PLUMB_CONTEXT_UID},
    {"veuid", PLUMB_CONTEXT_EUID},
    {"vgid", PLUMB_CONTEXT_GID},
    {"vegid", PLUMB_CONTEXT_EGID},
    {"callstack-user", PLUMB_CONTEXT_CALLSTACK},
    {"callstack_user", PLUMB_CONTEXT_CALLSTACK},
};

std::uint32_t context_of(std::string_view word) {
    for (const ContextName& each : context_names)
        if (each.name == word) return each.context;
    for (const ContextName& each : other_context_names)
        if (each.name == word) return each.context;
    return 0;
}

std::string all_context_names() {
    std::string text;
    for (const ContextName& each : context_names)
        text += fmt::format("{}{}", text.empty() ? "" : ", ", each.name);
    return text;
}

/* The thread's number is in every record. */
constexpr std::string_view always_there = "vtid";

Status add_context_word(std::string_view word, ContextChoice& choice) {
    if (word == always_there) return ok();
    const std::size_t colon = word.find(':');
    const std::uint32_t context = context_of(word.substr(0, colon));
    if (context == 0)
        return Error("There is no context \"{}\".", word)
            .hint("Choose of {}; callstack:32 is one of 32 frames at most.", all_context_names());
    if (colon != std::string_view::npos) {
        const std::string_view digits = word.substr(colon + 1);
        const char* const end = digits.data() + digits.size();
        const auto [rest, wrong] = std::from_chars(digits.data(), end, choice.callstack_depth);
        if (context != PLUMB_CONTEXT_CALLSTACK)
            return Error("{}: nothing is counted there.", word)
                .hint("Only callstack has a depth: callstack:32.");
        if (wrong != std::errc() || rest != end || choice.callstack_depth == 0 ||
            choice.callstack_depth > PLUMB_CALLSTACK_MAX_DEPTH)
            return Error("{}: a depth is a number of frames from 1 to {}.", word, PLUMB_CALLSTACK_MAX_DEPTH)
                .hint("Without one it is {}.", PLUMB_CALLSTACK_DEPTH);
    }
    choice.context |= context;
    return ok();
}

} // namespace

Result<ContextChoice> parse_context(const std::vector<std::string>& lists) {
    ContextChoice choice;
    for (const std::string& list : lists)
        for (std::size_t at = 0; at <= list.size();) {
            const std::size_t comma = std::min(list.find(',', at), list.size());
            const Status added = add_context_word(std::string_view(list).substr(at, comma - at), choice);
            if (!added) return added.error();
            at = comma + 1;
        }
    return choice;
}

} // namespace plumb
