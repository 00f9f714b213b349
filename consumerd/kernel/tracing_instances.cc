#include "consumerd/kernel/tracing_instances.h"

#include "base/file.h"
#include "base/processes.h"
#include "consumerd/control/kept_sessions.h"
#include "consumerd/control/left_channel.h"
#include "consumerd/kernel/tracefs.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <optional>
#include <utility>

namespace plumb {
namespace {

constexpr std::string_view name_prefix = "plumb_r";
constexpr std::string_view old_name_prefix = "plumb_n";
constexpr std::size_t cookie_digits = 16;

/* Which /dev/shm. No two that are mounted anywhere have the same, and one that bears the number of another is there only
 * since that one, with all channels in it, is gone. */
struct SharedMemory {
    std::uint64_t device = 0; /* 0: not known */
    std::uint64_t inode = 0;
    bool operator==(const SharedMemory&) const = default;
};

SharedMemory own_shared_memory() {
    struct stat info {};
    if (stat("/dev/shm", &info) != 0) return {};
    return {info.st_dev, info.st_ino};
}

/* 0: not known. */
std::uint64_t own_process_namespace() {
    struct stat info {};
    return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

/* Takes a number, and the underscore behind it, from the front of `text`. */
template <typename Number>
bool take_number(std::string_view& text, Number& number, int base) {
    const char* const end = text.data() + text.size();
    const auto [behind, wrong] = std::from_chars(text.data(), end, number, base);
    if (wrong != std::errc() || behind == end || *behind != '_') return false;
    text.remove_prefix(static_cast<std::size_t>(behind - text.data()) + 1);
    return true;
}

/* Nothing: it is none of ours. */
std::optional<SharedMemory> shared_memory_in(std::string_view name) {
    if (!name.starts_with(name_prefix)) return {};
    name.remove_prefix(name_prefix.size());
    std::uint32_t process_id = 0;
    SharedMemory memory;
    if (!take_number(name, process_id, 10) || !take_number(name, memory.device, 16) ||
        !take_number(name, memory.inode, 16) || name.size() < cookie_digits)
        return {};
    return memory;
}

enum class Maker : std::uint8_t { lives, is_gone, not_known };

/* Of "plumb_n<process-id namespace>_<pid>_<start>...", as older versions called theirs; nothing for names of others. */
std::optional<Maker> maker_of_old_name(std::string_view name) {
    if (!name.starts_with(old_name_prefix)) return {};
    name.remove_prefix(old_name_prefix.size());
    std::uint64_t process_namespace = 0;
    std::uint32_t process_id = 0;
    std::uint64_t start_ns = 0;
    if (!take_number(name, process_namespace, 10) || !take_number(name, process_id, 10)) return {};
    const char* const end = name.data() + name.size();
    const auto [behind, no_start] = std::from_chars(name.data(), end, start_ns);
    if (no_start != std::errc() || (behind != end && *behind != '_')) return {};
    if (process_namespace != own_process_namespace()) return Maker::not_known;
    const auto lives_since = process_start_boottime_ns(process_id);
    const bool lives = lives_since && (*lives_since == 0 || *lives_since == start_ns); /* 0: not known */
    return lives ? Maker::lives : Maker::is_gone;
}

FileDescriptor open_directory(const std::string& path) {
    return FileDescriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

Maker maker_of(const std::string& path) {
    const FileDescriptor directory = open_directory(path);
    if (!directory.is_open())
        return errno == ENOENT ? Maker::lives : Maker::not_known; /* its maker removes it */
    if (flock(directory.get(), LOCK_SH | LOCK_NB) == 0) return Maker::is_gone;
    return errno == EWOULDBLOCK ? Maker::lives : Maker::not_known;
}

/* Since it was found; its maker set the time of its directory to 0. */
std::uint64_t age_s_of(const std::string& path) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0 || info.st_mtime == 0) return 0;
    const std::time_t now = std::time(nullptr);
    return now > info.st_mtime ? static_cast<std::uint64_t>(now - info.st_mtime) : 0;
}

void set_time(const std::string& path, bool is_found) {
    const timespec time{0, is_found ? UTIME_NOW : 0};
    const timespec times[2] = {time, time};
    utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW);
}

/* The newest few of those that are beside channels in another /dev/shm are kept, the others go the way of those that are
 * not. */
void keep_newest(const std::string& folder, std::vector<std::string> elsewhere, TracefsLeftovers& leftovers) {
    std::vector<std::pair<std::uint64_t, std::string>> by_age;
    for (std::string& name : elsewhere)
        by_age.emplace_back(age_s_of(folder + name), std::move(name));
    std::sort(by_age.begin(), by_age.end());
    for (std::size_t i = 0; i < by_age.size(); i++) {
        const bool is_kept = i < left_channels_max && by_age[i].first <= left_channel_age_max_s;
        if (is_kept) leftovers.elsewhere.push_back(by_age[i].second);
        (is_kept ? leftovers.kept : leftovers.instances).push_back(std::move(by_age[i].second));
    }
}

/* A time that no directory has otherwise. */
constexpr std::time_t kept_mark = 1;

bool is_marked_as_kept(const std::string& path) {
    struct stat info {};
    return stat(path.c_str(), &info) == 0 && info.st_mtime == kept_mark;
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

/* A probe is made behind the instance that it belongs to. */
bool is_left_probe(const std::string& folder, std::string_view group, const TracefsLeftovers& leftovers) {
    if (contains(leftovers.kept, group)) return false;
    if (const auto maker = maker_of_old_name(group)) return *maker == Maker::is_gone;
    if (!shared_memory_in(group)) return false;
    return contains(leftovers.instances, group) ||
           (access((folder + std::string(group)).c_str(), F_OK) != 0 && errno == ENOENT);
}

} // namespace

std::string tracing_instance_name(std::uint64_t session_cookie) {
    const SharedMemory memory = own_shared_memory();
    const auto self = static_cast<std::uint32_t>(getpid());
    const std::string name = fmt::format("{}{}_{:x}_{:x}_", name_prefix, self, memory.device, memory.inode);
    return session_cookie != 0
               ? fmt::format("{}{:0{}x}", name, session_cookie, cookie_digits)
               : fmt::format("{}s{:0{}x}", name, process_start_boottime_ns(self).value_or(0), cookie_digits);
}

bool is_tracing_instance_name(std::string_view name) {
    return shared_memory_in(name).has_value() || maker_of_old_name(name).has_value();
}

std::uint64_t session_cookie_in(std::string_view name) {
    std::uint64_t cookie = 0;
    const std::size_t last = name.rfind('_');
    if (last == std::string_view::npos || name.size() - last - 1 != cookie_digits) return 0;
    const char* const end = name.data() + name.size();
    const auto [behind, wrong] = std::from_chars(name.data() + last + 1, end, cookie, 16);
    return wrong == std::errc() && behind == end ? cookie : 0;
}

Result<LifeLock> take_tracing_instance(const std::string& path) {
    const FileDescriptor directory = open_directory(path);
    if (!directory.is_open()) return Error::from_errno(errno, "Could not open {}", path);
    auto lock = LifeLock::hold(directory.get());
    if (!lock && lock.error().number() == EWOULDBLOCK)
        return Error("Another plumb command has the tracing instance {}.", path).as(EBUSY);
    if (!lock) return lock.error();
    struct stat own {};
    struct stat named {};
    if (fstat(directory.get(), &own) != 0 || stat(path.c_str(), &named) != 0 || own.st_ino != named.st_ino)
        return Error("The tracing instance {} was removed.", path).as(ENOENT);
    return lock;
}

/* Before it is locked, another recorder may take it for left, look at it for a moment, or remove it. */
Result<LifeLock> make_tracing_instance(const std::string& path) {
    constexpr int tries_max = 200;
    constexpr useconds_t pause_us = 5000;
    for (int tries = 1;; tries++) {
        const bool is_new = mkdir(path.c_str(), 0700) == 0;
        if (!is_new && (errno != EEXIST || tries == 1))
            return Error::from_errno(errno, "Could not make the tracing instance {}", path);
        auto lock = take_tracing_instance(path);
        if (lock) set_time(path, false);
        const int number = lock ? 0 : lock.error().number();
        if ((number != EBUSY && number != ENOENT) || tries == tries_max) return lock;
        usleep(pause_us);
    }
}

void mark_as_kept(const std::string& path) {
    const timespec times[2] = {{kept_mark, 0}, {kept_mark, 0}};
    utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW);
}

/* Stacks would be events of their own behind each of ours; with "block", poll() says at once that there is something to be
 * read; without "markers" nothing can be written to the instance. Names of threads come from the statedump: the kernel needs
 * not keep them. Not every kernel has all of these. */
void set_own_options(const std::string& path) {
    for (const char* option : {"stacktrace", "userstacktrace", "block", "record-cmd", "record-tgid"})
        (void)write_tracefs(path + "/options/" + option, "0");
    (void)write_tracefs(path + "/options/markers", "1");
}

TracefsLeftovers find_tracefs_leftovers(const std::string& root) {
    TracefsLeftovers leftovers;
    const std::string folder = root + "/instances/";
    const SharedMemory own = own_shared_memory();
    std::vector<std::string> elsewhere;
    const auto instances = list_directory(folder);
    for (const std::string& name : instances ? *instances : std::vector<std::string>{}) {
        const auto memory = shared_memory_in(name);
        const auto maker = memory ? std::optional(maker_of(folder + name)) : maker_of_old_name(name);
        if (!maker || *maker == Maker::lives) continue;
        const std::uint64_t cookie = session_cookie_in(name);
        if (*maker == Maker::not_known)
            leftovers.not_judged.push_back(name);
        else if (cookie != 0 && is_session_kept(cookie))
            continue; /* between two of its workers: it records on */
        else if (memory && cookie != 0 && (memory->device == 0 || *memory != own) &&
                 is_marked_as_kept(folder + name))
            leftovers.not_judged.push_back(name);
        else if (memory && cookie != 0 && (memory->device == 0 || *memory != own))
            elsewhere.push_back(name);
        else
            (cookie != 0 && is_channel_kept(cookie) ? leftovers.kept : leftovers.instances).push_back(name);
    }
    keep_newest(folder, std::move(elsewhere), leftovers);
    for (const ListedProbe& probe : list_probes(root))
        if (is_left_probe(folder, probe.name.substr(0, probe.name.find('/')), leftovers))
            leftovers.probes.push_back(probe.name);
    return leftovers;
}

Status remove_tracefs_leftovers(const std::string& root, const TracefsLeftovers& leftovers) {
    Status result = ok();
    std::vector<std::string> others; /* somebody has them now */
    for (const std::string& name : leftovers.instances) {
        const std::string path = root + "/instances/" + name;
        const auto lock = take_tracing_instance(path);
        if (!lock && lock.error().number() != ENOENT) {
            others.push_back(name);
            if (lock.error().number() != EBUSY) result = lock.error();
        } else if (lock && rmdir(path.c_str()) != 0 && errno != ENOENT) {
            result = Error::from_errno(errno, "Could not remove {}, which a killed plumb left", path);
        }
    }
    for (const std::string& probe : leftovers.probes) {
        if (contains(others, probe.substr(0, probe.find('/')))) continue;
        const Status removed = write_tracefs(root + "/dynamic_events", "-:" + probe, true);
        if (!removed && removed.error().number() != ENOENT) result = removed;
    }
    return result;
}

/* Its tracepoints stay switched on, since that says which events the buffers hold, and cost little while it is off; its
 * probes do not: each hit of a uprobe is a trap in a program. */
void stop_instance(const std::string& root, const std::string& name) {
    const std::string path = root + "/instances/" + name;
    (void)write_tracefs(path + "/tracing_on", "0");
    (void)write_tracefs(path + "/events/" + name + "/enable", "0");
    struct stat info {};
    if (stat(path.c_str(), &info) == 0 && info.st_mtime == 0) set_time(path, true);
}

void clean_up_tracefs_in(const std::string& root) {
    const TracefsLeftovers leftovers = find_tracefs_leftovers(root);
    for (const std::string& name : leftovers.kept)
        if (const auto lock = take_tracing_instance(root + "/instances/" + name)) stop_instance(root, name);
    (void)remove_tracefs_leftovers(root, leftovers);
}

void clean_up_tracefs() {
    /* Whoever wants something else does not wait long for that. */
    constexpr std::uint64_t answer_limit_ns = 1'000'000'000;
    if (!tracefs_answers(answer_limit_ns)) return;
    if (const auto root = mounted_tracefs()) clean_up_tracefs_in(*root);
}

} // namespace plumb
