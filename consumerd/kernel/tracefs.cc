#include "consumerd/kernel/tracefs.h"

#include "base/child_answer.h"
#include "base/file.h"
#include "base/glob.h"
#include "base/processes.h"
#include "consumerd/control/left_channel.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <sstream>

namespace plumb {
namespace {

constexpr std::string_view name_prefix = "plumb_n";
constexpr std::size_t cookie_digits = 16;
constexpr std::uint64_t answer_limit_ns = 5'000'000'000;

/* 0: not known. */
std::uint64_t own_process_namespace() {
    struct stat info {};
    return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

/* Whether the process in "plumb_n<namespace>_<pid>_<start>..." is gone; nothing for names of others. */
std::optional<bool> maker_is_gone(std::string_view name) {
    if (!name.starts_with(name_prefix)) return {};
    name.remove_prefix(name_prefix.size());
    std::uint64_t process_namespace = 0;
    std::uint32_t process_id = 0;
    std::uint64_t start_ns = 0;
    const char* const end = name.data() + name.size();
    const auto [behind_namespace, none] = std::from_chars(name.data(), end, process_namespace);
    if (none != std::errc() || behind_namespace == end || *behind_namespace != '_' ||
        process_namespace != own_process_namespace())
        return {};
    const auto [behind_id, no_id] = std::from_chars(behind_namespace + 1, end, process_id);
    if (no_id != std::errc() || behind_id == end || *behind_id != '_') return {};
    const auto [behind, no_start] = std::from_chars(behind_id + 1, end, start_ns);
    if (no_start != std::errc() || (behind != end && *behind != '_')) return {};
    const auto lives_since = process_start_boottime_ns(process_id);
    return !lives_since || (*lives_since != 0 && *lives_since != start_ns); /* 0: not known */
}

constexpr const char* tracefs_places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};

/* Where tracefs is mounted, and may be used by us. */
std::optional<std::string> mounted_root() {
    if (!tracefs_answers()) return {};
    for (const std::string place : tracefs_places)
        if (access((place + "/events").c_str(), R_OK | X_OK) == 0 &&
            access((place + "/instances").c_str(), W_OK | X_OK) == 0)
            return place;
    return {};
}

Error no_tracefs() {
    if (!tracefs_answers())
        return Error("Events of the kernel: {}.", tracefs_is_stuck).hint("Restart the machine.");
    if (geteuid() != 0)
        return Error("Events of the kernel need root.")
            .hint("Run plumb with sudo, or give it /sys/kernel/tracing: sudo mount -o remount,gid=$(id -g) "
                  "/sys/kernel/tracing.");
    return Error("There is no tracefs here.")
        .hint("`mount -t tracefs tracefs /sys/kernel/tracing`, on a kernel with CONFIG_FTRACE.");
}

} // namespace

bool tracefs_answers() {
    /* Each of them waits for another lock. */
    static const bool answers = comes_back(
        [] {
            for (const char* file : {"/sys/kernel/tracing/trace_clock", "/sys/kernel/tracing/set_event",
                                     "/sys/kernel/tracing/instances"}) {
                const int fd = open(file, O_RDONLY | O_CLOEXEC);
                char some[64];
                [[maybe_unused]] const ssize_t got = ::read(fd, some, sizeof(some));
                close(fd);
            }
        },
        answer_limit_ns);
    return answers;
}

Result<std::string> tracefs_root() {
    if (const auto found = mounted_root()) return *found;
    /* Most systems have the directory; the file system is mounted by the first who wants it. */
    if (geteuid() == 0 && mount("tracefs", tracefs_places[0], "tracefs", 0, nullptr) == 0)
        if (const auto found = mounted_root()) return *found;
    return no_tracefs();
}

Status write_tracefs(const std::string& path, const std::string& text, bool append) {
    const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC | (append ? O_APPEND : O_TRUNC)));
    if (!file.is_open()) return Error::from_errno(errno, "Could not open {}", path);
    ssize_t written;
    do
        written = write(file.get(), text.data(), text.size());
    while (written < 0 && errno == EINTR);
    if (written < 0) return Error::from_errno(errno, "Could not write \"{}\" to {}", text, path);
    return ok();
}

Result<KernelSelector> KernelSelector::parse(const std::string& text) {
    KernelSelector selector;
    std::string pattern = text;
    if (text.ends_with(" if")) return Error("\"{}\" has no filter behind \"if\".", text);
    constexpr std::string_view condition = " if ";
    if (const std::size_t at = pattern.find(condition); at != std::string::npos) {
        selector.filter = pattern.substr(at + condition.size());
        pattern.resize(at);
        if (selector.filter.find_first_not_of(' ') == std::string::npos)
            return Error("\"{}\" has no filter behind \"if\".", text);
    }
    if (pattern.starts_with('!')) {
        selector.exclude = true;
        pattern.erase(0, 1);
        if (!selector.filter.empty()) return Error("\"{}\": what is left out can not have a filter.", text);
    }
    const std::size_t colon = pattern.find(':');
    selector.system = pattern.substr(0, colon);
    selector.event = colon == std::string::npos ? "*" : pattern.substr(colon + 1);
    if (selector.system.empty() || selector.event.empty())
        return Error("\"{}\" is no event of the kernel.", text)
            .hint("Write SYSTEM:EVENT, as in sched:sched_switch, or syscalls:openat; both may be globs. "
                  "`plumb list --kernel` shows what there is.");
    if (selector.system == "kprobe") selector.kind = Kind::kprobe;
    if (selector.system == "kretprobe") selector.kind = Kind::kretprobe;
    if (selector.system == "uprobe") selector.kind = Kind::uprobe;
    if (selector.system == "uretprobe") selector.kind = Kind::uretprobe;
    if (selector.kind != Kind::events && colon == std::string::npos)
        return Error("\"{}\" names no symbol.", text).hint("Write {}:SYMBOL.", selector.system);
    if (selector.kind == Kind::uprobe || selector.kind == Kind::uretprobe) {
        const std::size_t last = selector.event.rfind(':');
        if (last == std::string::npos || last == 0 || last + 1 == selector.event.size())
            return Error("\"{}\" names no symbol.", text).hint("Write {}:FILE:SYMBOL.", selector.system);
        selector.file = selector.event.substr(0, last);
        selector.event.erase(0, last + 1);
    }
    if (selector.kind != Kind::events && selector.exclude)
        return Error("\"{}\": a probe that is not asked for needs not be left out.", text);
    return selector;
}

bool KernelSelector::matches(const std::string& system_name, const std::string& event_name) const {
    if (!glob_matches(system.c_str(), system_name.c_str())) return false;
    if (glob_matches(event.c_str(), event_name.c_str())) return true;
    if (system_name != "syscalls") return false;
    for (const std::string_view prefix : {"sys_enter_", "sys_exit_"})
        if (event_name.starts_with(prefix) && glob_matches(event.c_str(), event_name.c_str() + prefix.size()))
            return true;
    return false;
}

Result<std::vector<TracefsEvent>> list_tracefs_events(const std::string& root) {
    const auto systems = list_directory(root + "/events");
    if (!systems) return systems.error();
    std::vector<TracefsEvent> events;
    for (const std::string& system : *systems) {
        /* What the tracers of ftrace itself write; they can not be switched on. */
        if (system == "ftrace") continue;
        const std::string folder = root + "/events/" + system;
        struct stat info {};
        if (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) continue;
        const auto names = list_directory(folder);
        if (!names) continue;
        for (const std::string& name : *names)
            if (access((folder + "/" + name + "/enable").c_str(), F_OK) == 0)
                events.push_back({system, name});
    }
    return events;
}

/* "p:plumb_12_345/name symbol" */
std::vector<std::string> list_probes(const std::string& root) {
    std::vector<std::string> found;
    const auto probes = read_small_file(root + "/dynamic_events");
    std::istringstream lines(probes ? *probes : "");
    for (std::string line; std::getline(lines, line);) {
        const std::size_t colon = line.find(':');
        if (colon != std::string::npos)
            found.push_back(line.substr(colon + 1, line.find(' ', colon) - colon - 1));
    }
    return found;
}

std::uint64_t session_cookie_in(std::string_view name) {
    std::uint64_t cookie = 0;
    const std::size_t last = name.rfind('_');
    if (last == std::string_view::npos || name.size() - last - 1 != cookie_digits) return 0;
    const char* const end = name.data() + name.size();
    const auto [behind, wrong] = std::from_chars(name.data() + last + 1, end, cookie, 16);
    return wrong == std::errc() && behind == end ? cookie : 0;
}

TracefsLeftovers find_tracefs_leftovers(const std::string& root) {
    TracefsLeftovers leftovers;
    const auto is_kept = [](std::string_view name) {
        const std::uint64_t cookie = session_cookie_in(name);
        return cookie != 0 && is_channel_kept(cookie);
    };
    const auto instances = list_directory(root + "/instances");
    for (const std::string& name : instances ? *instances : std::vector<std::string>{})
        if (maker_is_gone(name).value_or(false))
            (is_kept(name) ? leftovers.kept : leftovers.instances).push_back(name);
    const auto is_of_kept = [&](std::string_view group) {
        return std::find(leftovers.kept.begin(), leftovers.kept.end(), group) != leftovers.kept.end();
    };
    for (const std::string& probe : list_probes(root)) {
        const std::string group = probe.substr(0, probe.find('/'));
        if (maker_is_gone(group).value_or(false) && !is_of_kept(group)) leftovers.probes.push_back(probe);
    }
    return leftovers;
}

Status remove_tracefs_leftovers(const std::string& root, const TracefsLeftovers& leftovers) {
    Status result = ok();
    for (const std::string& name : leftovers.instances) {
        const std::string path = root + "/instances/" + name;
        if (rmdir(path.c_str()) != 0 && errno != ENOENT)
            result = Error::from_errno(errno, "Could not remove {}, which a killed plumb left", path);
    }
    for (const std::string& probe : leftovers.probes)
        if (Status removed = write_tracefs(root + "/dynamic_events", "-:" + probe, true); !removed)
            result = removed;
    return result;
}

/* Its tracepoints stay switched on, since that says which events the buffers hold, and cost little while it is off; its
 * probes do not: each hit of a uprobe is a trap in a program. */
void stop_instance(const std::string& root, const std::string& name) {
    const std::string path = root + "/instances/" + name;
    (void)write_tracefs(path + "/tracing_on", "0");
    (void)write_tracefs(path + "/events/" + name + "/enable", "0");
}

void clean_up_tracefs() {
    const auto root = mounted_root();
    if (!root) return;
    const TracefsLeftovers leftovers = find_tracefs_leftovers(*root);
    for (const std::string& name : leftovers.kept)
        stop_instance(*root, name);
    (void)remove_tracefs_leftovers(*root, leftovers);
}

std::string tracefs_name_of_self(std::uint64_t session_cookie) {
    const auto self = static_cast<std::uint32_t>(getpid());
    const std::string name = fmt::format("{}{}_{}_{}", name_prefix, own_process_namespace(), self,
                                         process_start_boottime_ns(self).value_or(0));
    return session_cookie == 0 ? name : fmt::format("{}_{:0{}x}", name, session_cookie, cookie_digits);
}

} // namespace plumb
