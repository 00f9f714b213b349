#include "trace/show/value_names.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace plumb {
namespace {

constexpr std::uint64_t whole = std::numeric_limits<std::uint64_t>::max();

/* How fields are read: a table of values in `mask`, and one of flags. */
struct Reading {
    std::string_view values;
    std::uint64_t mask;
    std::string_view flags;
    bool beside_permissions = false; /* what has no name is shown in octal */
};
constexpr Reading one_of(std::string_view table) {
    return {table, whole, ""};
}
constexpr Reading flags_of(std::string_view table) {
    return {"", 0, table};
}
constexpr Reading flags_and_permissions(std::string_view table) {
    return {"", 0, table, true};
}

/* `call`: * for all that are not named before it. The first that fits counts. */
struct FieldReading {
    std::string_view call, field;
    Reading reading;
};

constexpr std::uint64_t access_mask = 3, map_type_mask = 0xf, socket_type_mask = 0xf, futex_mask = 0x7f,
                        signal_mask = 0xff, mount_magic_mask = 0xffff0000;
constexpr Reading opening = {"open_access", access_mask, "open_flags"};

constexpr FieldReading field_readings[] = {
    {"*", "dfd", one_of("directory")},
    {"*", "olddfd", one_of("directory")},
    {"*", "newdfd", one_of("directory")},
    {"*", "from_dfd", one_of("directory")},
    {"*", "to_dfd", one_of("directory")},
    {"execveat", "fd", one_of("directory")},
    {"*", "sig", one_of("signals")},
    {"open", "flags", opening},
    {"openat", "flags", opening},
    {"open_by_handle_at", "flags", opening},
    {"mq_open", "oflag", opening},
    {"access", "mode", flags_of("access_modes")},
    {"faccessat", "mode", flags_of("access_modes")},
    {"faccessat2", "mode", flags_of("access_modes")},
    {"faccessat2", "flags", flags_of("access_flags")},
    {"newfstatat", "flag", flags_of("at_flags")},
    {"statx", "flags", flags_of("at_flags")},
    {"statx", "mask", flags_of("statx_fields")},
    {"unlinkat", "flag", flags_of("unlink_flags")},
    {"linkat", "flags", flags_of("at_flags")},
    {"execveat", "flags", flags_of("at_flags")},
    {"fchownat", "flag", flags_of("at_flags")},
    {"fchmodat2", "flags", flags_of("at_flags")},
    {"utimensat", "flags", flags_of("at_flags")},
    {"name_to_handle_at", "flag", flags_of("at_flags")},
    {"*", "at_flags", flags_of("at_flags")},
    {"renameat2", "flags", flags_of("rename_flags")},
    {"setxattr", "flags", flags_of("xattr_flags")},
    {"lsetxattr", "flags", flags_of("xattr_flags")},
    {"fsetxattr", "flags", flags_of("xattr_flags")},
    {"pipe2", "flags", flags_of("open_flags")},
    {"dup3", "flags", flags_of("open_flags")},
    {"fcntl", "cmd", one_of("file_commands")},
    {"flock", "cmd", flags_of("locks")},
    {"lseek", "whence", one_of("seek_origins")},
    {"fadvise64", "advice", one_of("file_advices")},
    {"fallocate", "mode", flags_of("fallocate_flags")},
    {"sync_file_range", "flags", flags_of("file_range_flags")},
    {"close_range", "flags", flags_of("close_range_flags")},
    {"splice", "flags", flags_of("splice_flags")},
    {"tee", "flags", flags_of("splice_flags")},
    {"vmsplice", "flags", flags_of("splice_flags")},
    {"preadv2", "flags", flags_of("transfer_flags")},
    {"pwritev2", "flags", flags_of("transfer_flags")},
    {"ioctl", "cmd", one_of("terminal_requests")},
    {"*", "prot", flags_of("memory_protection")},
    {"mmap", "flags", {"map_types", map_type_mask, "map_flags"}},
    {"mremap", "flags", flags_of("remap_flags")},
    {"msync", "flags", flags_of("sync_flags")},
    {"mlockall", "flags", flags_of("lock_all_flags")},
    {"madvise", "behavior", one_of("memory_advices")},
    {"process_madvise", "behavior", one_of("memory_advices")},
    {"memfd_create", "flags", flags_of("memory_file_flags")},
    {"mount", "flags", {"mount_magic", mount_magic_mask, "mount_flags"}},
    {"umount", "flags", flags_of("unmount_flags")},
    {"futex", "op", {"futex_operations", futex_mask, "futex_flags"}},
    {"socket", "family", one_of("families")},
    {"socketpair", "family", one_of("families")},
    {"socket", "type", {"socket_types", socket_type_mask, "socket_flags"}},
    {"socketpair", "type", {"socket_types", socket_type_mask, "socket_flags"}},
    {"accept4", "flags", flags_of("socket_flags")},
    {"setsockopt", "level", one_of("socket_levels")},
    {"getsockopt", "level", one_of("socket_levels")},
    {"sendto", "flags", flags_of("message_flags")},
    {"sendmsg", "flags", flags_of("message_flags")},
    {"sendmmsg", "flags", flags_of("message_flags")},
    {"recvfrom", "flags", flags_of("message_flags")},
    {"recvmsg", "flags", flags_of("message_flags")},
    {"recvmmsg", "flags", flags_of("message_flags")},
    {"shutdown", "how", one_of("shutdown_directions")},
    {"epoll_ctl", "op", one_of("epoll_operations")},
    {"epoll_create1", "flags", flags_of("epoll_flags")},
    {"eventfd2", "flags", flags_of("eventfd_flags")},
    {"timerfd_create", "clockid", one_of("clocks")},
    {"timerfd_create", "flags", flags_of("timerfd_flags")},
    {"timerfd_settime", "flags", flags_of("timerfd_settime_flags")},
    {"signalfd4", "flags", flags_of("signalfd_flags")},
    {"inotify_init1", "flags", flags_of("inotify_flags")},
    {"inotify_add_watch", "mask", flags_of("inotify_events")},
    {"clone", "clone_flags", {"signals", signal_mask, "clone_flags"}},
    {"unshare", "unshare_flags", flags_of("clone_flags")},
    {"setns", "flags", flags_of("clone_flags")},
    {"rt_sigprocmask", "how", one_of("signal_mask_changes")},
    {"wait4", "options", flags_of("wait_options")},
    {"waitid", "options", flags_of("wait_options")},
    {"waitid", "which", one_of("wait_whom")},
    {"*", "which_clock", one_of("clocks")},
    {"clock_nanosleep", "flags", flags_of("timer_flags")},
    {"timer_settime", "flags", flags_of("timer_flags")},
    {"getitimer", "which", one_of("interval_timers")},
    {"setitimer", "which", one_of("interval_timers")},
    {"*", "resource", one_of("limits")},
    {"getrusage", "who", one_of("usage_of")},
    {"getpriority", "which", one_of("priority_of")},
    {"setpriority", "which", one_of("priority_of")},
    {"sched_setscheduler", "policy", {"schedulers", 0xff, "scheduler_flags"}},
    {"sched_get_priority_max", "policy", one_of("schedulers")},
    {"sched_get_priority_min", "policy", one_of("schedulers")},
    {"prctl", "option", one_of("process_options")},
    {"arch_prctl", "option", one_of("processor_options")},
    {"getrandom", "flags", flags_of("random_flags")},
    {"membarrier", "cmd", one_of("barriers")},
    {"rseq", "flags", flags_of("rseq_flags")},
    {"seccomp", "op", one_of("seccomp_operations")},
    {"seccomp", "flags", flags_of("seccomp_flags")},
    {"ptrace", "request", one_of("trace_requests")},
    {"shmget", "key", one_of("ipc_keys")},
    {"semget", "key", one_of("ipc_keys")},
    {"msgget", "key", one_of("ipc_keys")},
    {"shmget", "shmflg", flags_and_permissions("shared_memory_flags")},
    {"semget", "semflg", flags_and_permissions("ipc_flags")},
    {"msgget", "msgflg", flags_and_permissions("ipc_flags")},
    {"shmat", "shmflg", flags_of("shared_memory_mappings")},
    {"shmctl", "cmd", one_of("shared_memory_commands")},
    {"semctl", "cmd", one_of("semaphore_commands")},
    {"msgctl", "cmd", one_of("message_queue_commands")},
    {"msgsnd", "msgflg", flags_of("message_queue_flags")},
    {"msgrcv", "msgflg", flags_of("message_queue_flags")},
};

/* What calls end with inside the kernel when a signal comes: no header for programs has them. */
constexpr NamedValue restart_errors[] = {{"ERESTARTSYS", 512},
                                         {"ERESTARTNOINTR", 513},
                                         {"ERESTARTNOHAND", 514},
                                         {"ENOIOCTLCMD", 515},
                                         {"ERESTART_RESTARTBLOCK", 516}};

std::span<const NamedValue> values_in_table(std::string_view name) {
    for (const ValueTable& table : value_tables)
        if (name == table.name) return table.values;
    return {};
}

/* The kernel's real-time signals, by the names that strace has for them; the C library has none for the first. */
std::vector<NamedValue> real_time_signals() {
    constexpr std::uint64_t first = 32, last = 64;
    static std::vector<std::string> names;
    for (std::uint64_t number = first; names.size() <= last - first; number++)
        names.push_back(number == first ? "SIGRTMIN" : fmt::format("SIGRT_{}", number - first));
    std::vector<NamedValue> signals;
    for (std::uint64_t number = first; number <= last; number++)
        signals.push_back({names[number - first].c_str(), number});
    return signals;
}

std::uint64_t low_bits(unsigned count) {
    return count >= 64 ? whole : (std::uint64_t{1} << count) - 1;
}

std::string octal(std::uint64_t number) {
    return number == 0 ? "0" : fmt::format("0{:o}", number);
}

void add_part(std::string& text, std::string_view part) {
    if (!text.empty()) text += '|';
    text += part;
}

/* Made when somebody first asks for it, and there for good. */
const ValueNames* names_read_by(const FieldReading& field) {
    static std::map<const FieldReading*, ValueNames> made;
    const Reading& reading = field.reading;
    return &made.try_emplace(&field, reading.values, reading.mask, reading.flags, reading.beside_permissions)
                .first->second;
}

bool returns_address(std::string_view call) {
    return call == "mmap" || call == "brk" || call == "mremap" || call == "shmat";
}

bool is_permissions(std::string_view call, std::string_view field) {
    static constexpr std::string_view calls[] = {"open",  "openat",  "creat",    "mkdir",  "mkdirat",
                                                 "mknod", "mknodat", "chmod",    "fchmod", "fchmodat",
                                                 "umask", "mq_open", "fchmodat2"};
    return (field == "mode" || (field == "mask" && call == "umask")) &&
           std::find(std::begin(calls), std::end(calls), call) != std::end(calls);
}

} // namespace

ValueNames::ValueNames(std::string_view values, std::uint64_t mask, std::string_view flags,
                       bool beside_permissions)
    : mask_(mask), rest_is_octal_(beside_permissions) {
    for (const NamedValue& each : values_in_table(values))
        values_.push_back(each);
    if (values == "signals")
        for (const NamedValue& each : real_time_signals())
            values_.push_back(each);
    for (const NamedValue& each : values_in_table(flags))
        (each.value == 0 ? values_ : flags_).push_back(each);
    std::stable_sort(flags_.begin(), flags_.end(), [](const NamedValue& a, const NamedValue& b) {
        return std::popcount(a.value) > std::popcount(b.value);
    });
    if (values.empty()) mask_ = 0;
}

/* A name for 0 among flags is that of a number without any. */
std::string ValueNames::text_of(std::uint64_t number, unsigned size_bits) const {
    const std::uint64_t bits = low_bits(size_bits);
    number &= bits;
    const std::uint64_t part = mask_ == 0 ? whole : mask_;
    std::uint64_t rest = number;
    std::string text;
    const auto value = std::find_if(values_.begin(), values_.end(), [&](const NamedValue& each) {
        return (each.value & bits & part) == (number & part);
    });
    if (value != values_.end()) {
        text = value->name;
        rest &= ~part;
    }
    for (const NamedValue& flag : flags_) {
        if (flag.value > bits || (rest & flag.value) != flag.value) continue;
        add_part(text, flag.name);
        rest &= ~flag.value;
    }
    if (rest != 0 && !text.empty()) add_part(text, rest_text(rest));
    return text;
}

std::string ValueNames::rest_text(std::uint64_t rest) const {
    return rest_is_octal_ ? octal(rest) : fmt::format("{:#x}", rest);
}

std::string_view error_name(std::int64_t returned) {
    constexpr std::int64_t errors_max = 4095;
    if (returned >= 0 || returned < -errors_max) return "";
    const auto number = static_cast<std::uint64_t>(-returned);
    static const std::span<const NamedValue> errors = values_in_table("errors");
    const std::span<const NamedValue> tables[] = {errors, restart_errors};
    for (const std::span<const NamedValue> table : tables)
        for (const NamedValue& each : table)
            if (each.value == number) return each.name;
    return "";
}

FieldNames names_of_field(std::string_view event, std::string_view field) {
    using Kind = FieldNames::Kind;
    constexpr std::string_view entry = "syscall_entry_", exit = "syscall_exit_";
    if (event.starts_with(exit)) {
        if (field == "ret" && event == "syscall_exit_umask") return {Kind::octal, nullptr};
        const bool is_address = returns_address(event.substr(exit.size()));
        return {field != "ret" ? Kind::none : is_address ? Kind::address : Kind::error, nullptr};
    }
    if (!event.starts_with(entry)) return {};
    event.remove_prefix(entry.size());
    for (const FieldReading& each : field_readings)
        if (each.field == field && (each.call == "*" || each.call == event))
            return {Kind::names, names_read_by(each)};
    if (is_permissions(event, field)) return {Kind::octal, nullptr};
    return {event == "mmap" && field == "fd" ? Kind::small_int : Kind::none, nullptr};
}

std::string FieldNames::name_of(std::uint64_t number, unsigned size_bits) const {
    if (kind == Kind::names) return names->text_of(number, size_bits);
    if (kind == Kind::error || kind == Kind::address)
        return std::string(error_name(static_cast<std::int64_t>(number)));
    return "";
}

std::string FieldNames::text_of(std::uint64_t number, unsigned size_bits) const {
    const std::string name = name_of(number, size_bits);
    const bool is_octal = kind == Kind::octal || (kind == Kind::names && names->rest_is_octal());
    if (is_octal && name.empty()) return octal(number & low_bits(size_bits));
    if (kind == Kind::small_int) return fmt::format("{}", static_cast<std::int32_t>(number));
    if (kind == Kind::address && name.empty()) return fmt::format("{:#x}", number);
    if ((kind == Kind::error || kind == Kind::address) && !name.empty())
        return fmt::format("{} ({})", static_cast<std::int64_t>(number), name);
    return name;
}

} // namespace plumb
