#include "consumerd/kernel/tracefs.h"

#include "base/child_answer.h"
#include "base/file.h"
#include "base/glob.h"
#include "consumerd/kernel/fetch_arguments.h"
#include "consumerd/kernel/tracing_instances.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

namespace plumb {
namespace {

constexpr std::uint64_t answer_limit_max_ns = 60'000'000'000;

constexpr const char* tracefs_places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};

bool is_file(const std::string& path) {
    struct stat info {};
    return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

/* Names of files may have colons in them, and names in C++ have pairs of them. */
std::size_t end_of_file_name(const std::string& text, bool is_marker) {
    std::size_t first = std::string::npos, last = std::string::npos, last_behind_file = std::string::npos;
    for (std::size_t at = 1; at + 1 < text.size(); at++) {
        if (text[at] != ':' || text[at - 1] == ':' || text[at + 1] == ':') continue;
        last = at;
        first = std::min(first, at);
        if (is_file(text.substr(0, at))) last_behind_file = at;
    }
    if (last_behind_file != std::string::npos) return last_behind_file;
    return is_marker ? first : last;
}

} // namespace

Error why_no_tracefs() {
    if (!tracefs_answers())
        return Error("Events of the kernel: {}.", tracefs_is_busy).hint(tracefs_is_busy_advice);
    if (geteuid() != 0)
        return Error("Events of the kernel need root.")
            .hint("Run plumb with sudo. No group of tracefs helps: only its owner may write to its files.");
    struct statfs system {};
    for (const std::string place : tracefs_places)
        if (statfs(place.c_str(), &system) == 0 && system.f_type == TRACEFS_MAGIC &&
            (system.f_flags & ST_RDONLY) != 0)
            return Error("{} is mounted read-only, as in a container: no recording can be made there.", place)
                .hint("`mount -o remount,rw {}`, if that is allowed here; or record from outside.", place);
    return Error("There is no tracefs here.")
        .hint("`mount -t tracefs tracefs /sys/kernel/tracing`, on a kernel with CONFIG_FTRACE.");
}

std::optional<std::string> mounted_tracefs() {
    if (!tracefs_answers()) return {};
    for (const std::string place : tracefs_places)
        if (access((place + "/events").c_str(), R_OK | X_OK) == 0 &&
            access((place + "/instances").c_str(), W_OK | X_OK) == 0)
            return place;
    return {};
}

static bool tracefs_answers_within(std::uint64_t limit_ns, const std::function<bool(std::uint64_t)>& go_on) {
    static bool answers = false;
    static std::uint64_t waited_ns = 0;
    if (answers || waited_ns >= limit_ns) return answers;
    waited_ns = limit_ns;
    /* Each of them waits for another lock. */
    answers = comes_back(
        [] {
            for (const char* file : {"/sys/kernel/tracing/trace_clock", "/sys/kernel/tracing/set_event",
                                     "/sys/kernel/tracing/instances"}) {
                const int fd = open(file, O_RDONLY | O_CLOEXEC);
                char some[64];
                [[maybe_unused]] const ssize_t got = ::read(fd, some, sizeof(some));
                close(fd);
            }
        },
        limit_ns, go_on);
    return answers;
}

bool tracefs_answers(std::uint64_t limit_ns) {
    return tracefs_answers_within(limit_ns, {});
}

Result<std::string> tracefs_root(const std::function<bool(std::uint64_t)>& go_on) {
    if (go_on) tracefs_answers_within(answer_limit_max_ns, go_on);
    if (const auto found = mounted_tracefs()) return *found;
    /* Most systems have the directory; the file system is mounted by the first who wants it. */
    if (geteuid() == 0 && (mount("tracefs", tracefs_places[0], "tracefs", 0, nullptr) == 0 ||
                           errno == EBUSY)) /* as another one */
        if (const auto found = mounted_tracefs()) return *found;
    return why_no_tracefs();
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

namespace {

KernelSelector::Kind kind_of(KernelSelector& selector) {
    using Kind = KernelSelector::Kind;
    if (selector.system == "uretprobe!") {
        selector.system = "uretprobe";
        selector.insists = true;
    }
    if (selector.system == "kprobe") return Kind::kprobe;
    if (selector.system == "kretprobe") return Kind::kretprobe;
    if (selector.system == "uprobe") return Kind::uprobe;
    if (selector.system == "uretprobe") return Kind::uretprobe;
    if (selector.system == "usdt") return Kind::usdt;
    return Kind::events;
}

/* "FILE:SYMBOL(ARGUMENTS)", in `event` until now. */
Status read_place(KernelSelector& selector) {
    const ProbeText written = split_arguments(selector.event);
    auto arguments = fetch_arguments(written.arguments);
    if (!arguments) return arguments.error().with("{}", selector.text);
    selector.arguments = std::move(*arguments);
    selector.event = written.place;
    if (selector.event.empty()) return Error("\"{}\" names no symbol.", selector.text);
    if (selector.kind == KernelSelector::Kind::kprobe || selector.kind == KernelSelector::Kind::kretprobe)
        return ok();
    const std::size_t colon = end_of_file_name(selector.event, selector.kind == KernelSelector::Kind::usdt);
    if (colon == std::string::npos)
        return selector.kind == KernelSelector::Kind::usdt
                   ? Error("\"{}\" names no marker.", selector.text)
                         .hint("Write usdt:FILE:PROVIDER:NAME, or usdt:FILE:* for all.")
                   : Error("\"{}\" names no symbol.", selector.text)
                         .hint("Write {}:FILE:SYMBOL.", selector.system);
    selector.file = selector.event.substr(0, colon);
    selector.event.erase(0, colon + 1);
    return ok();
}

} // namespace

std::string recorded_without_filter(const std::string& selector, const std::vector<std::string>& events) {
    constexpr std::size_t shown_max = 6;
    const auto end = events.begin() + static_cast<std::ptrdiff_t>(std::min(events.size(), shown_max));
    return fmt::format("{}: recorded without the filter, since not all of its fields are there: {}{}.",
                       selector, fmt::join(events.begin(), end, ", "),
                       events.size() > shown_max ? fmt::format(" and {} more", events.size() - shown_max)
                                                 : "");
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
    selector.text = pattern;
    const std::size_t colon = pattern.find(':');
    selector.system = pattern.substr(0, colon);
    selector.event = colon == std::string::npos ? "*" : pattern.substr(colon + 1);
    if (selector.system.empty() || selector.event.empty())
        return Error("\"{}\" is no event of the kernel.", text)
            .hint("Write SYSTEM:EVENT, as in sched:sched_switch, or syscalls:openat; both may be globs. "
                  "`plumb list --kernel` shows what there is.");
    selector.kind = kind_of(selector);
    if (selector.kind != Kind::events && colon == std::string::npos)
        return Error("\"{}\" names no symbol.", text).hint("Write {}:SYMBOL.", selector.system);
    if (selector.kind != Kind::events)
        if (Status read = read_place(selector); !read) return read.error();
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

bool KernelSelector::leaves_to_probes(const std::string& system_name, const std::string& event_name) const {
    const bool is_glob = event.find_first_of("*?[") != std::string::npos;
    return is_glob && !exclude && system_name == "syscalls" &&
           (event_name == "sys_enter_uprobe" || event_name == "sys_exit_uprobe" ||
            event_name == "sys_enter_uretprobe" || event_name == "sys_exit_uretprobe");
}

Result<std::vector<TracefsEvent>> list_tracefs_events(const std::string& root) {
    const auto systems = list_directory(root + "/events");
    if (!systems) return systems.error();
    std::vector<TracefsEvent> events;
    for (const std::string& system : *systems) {
        /* What the tracers of ftrace itself write; they can not be switched on. */
        if (system == "ftrace") continue;
        /* Nor a recorder's probes: who switches them on, too, keeps it from taking them away. Its own are not chosen here. */
        if (is_tracing_instance_name(system)) continue;
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

/* "p:plumb_12_345/name symbol arguments" */
std::vector<ListedProbe> list_probes(const std::string& root) {
    std::vector<ListedProbe> found;
    const auto probes = read_small_file(root + "/dynamic_events", std::size_t{4} << 20);
    std::istringstream lines(probes ? *probes : "");
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string type_and_name, place;
        words >> type_and_name >> place;
        const std::size_t colon = type_and_name.find(':');
        std::string arguments;
        std::getline(words >> std::ws, arguments);
        if (colon != std::string::npos)
            found.push_back({type_and_name.substr(colon + 1), place, std::move(arguments)});
    }
    return found;
}

} // namespace plumb
