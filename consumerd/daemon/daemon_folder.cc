#include "consumerd/daemon/daemon_folder.h"

#include "base/folder.h"
#include "base/processes.h"

#include <plumb/abi/state.h>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>

namespace plumb {
namespace {

constexpr const char* folder_name = "consumerd";
constexpr const char* sessions_name = "sessions";
constexpr std::string_view description_end = ".json";
constexpr std::size_t description_bytes_max = std::size_t{1} << 20;

UserPlace own_place() {
    return {::geteuid(), DirectoryKeeper::shared_memory};
}

} // namespace

Result<DaemonFolder> DaemonFolder::open_or_create() {
    const auto users = UserDirectory::open_or_create(own_place());
    if (!users) return users.error();
    auto top = UserDirectory::open_or_create_at(users->path_of_file(folder_name), ::geteuid());
    if (!top) return top.error();
    auto sessions = UserDirectory::open_or_create_at(top->path_of_file(sessions_name), ::geteuid());
    if (!sessions) return sessions.error();
    return DaemonFolder(std::move(*top), std::move(*sessions));
}

Result<DaemonFolder> DaemonFolder::open_existing() {
    const auto users = UserDirectory::open_existing(own_place());
    if (!users) return users.error();
    auto top = UserDirectory::open_existing_at(users->path_of_file(folder_name), ::geteuid());
    if (!top) return top.error();
    auto sessions = UserDirectory::open_existing_at(top->path_of_file(sessions_name), ::geteuid());
    if (!sessions) return sessions.error();
    return DaemonFolder(std::move(*top), std::move(*sessions));
}

std::vector<std::string> DaemonFolder::session_names() const {
    std::vector<std::string> names;
    const auto files = sessions_.file_names();
    if (!files) return names;
    for (const std::string& file : *files) {
        if (!file.ends_with(description_end)) continue;
        std::string name = file.substr(0, file.size() - description_end.size());
        if (check_session_name(name)) names.push_back(std::move(name));
    }
    std::sort(names.begin(), names.end());
    return names;
}

Result<std::string> DaemonFolder::read(const std::string& session) const {
    const std::string name = description_file(session);
    const FileDescriptor file(
        ::openat(sessions_.fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat info {};
    if (!file.is_open() || ::fstat(file.get(), &info) != 0)
        return Error::from_errno(errno, "Could not open {}", sessions_.path_of_file(name));
    if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid())
        return Error("{} is no file of user {}.", sessions_.path_of_file(name), ::geteuid());
    return read_small_file("/proc/self/fd/" + std::to_string(file.get()), description_bytes_max);
}

Status DaemonFolder::write(const std::string& session, std::string_view content) const {
    const std::string name = description_file(session);
    return replace_file_in(sessions_.fd(), name, content, sessions_.path_of_file(name));
}

bool DaemonFolder::is_cut_off() const {
    struct stat own {};
    struct stat found {};
    if (::fstat(sessions_.fd(), &own) != 0) return false;
    if (::lstat(sessions_.path().c_str(), &found) != 0) return errno == ENOENT || errno == ENOTDIR;
    return found.st_ino != own.st_ino || found.st_dev != own.st_dev;
}

void DaemonFolder::remove(const std::string& session) const {
    for (const std::string& file : {description_file(session), socket_file(session), lock_file(session),
                                    kernel_pages_file(session), waiting_chunks_file(session)})
        (void)!::unlinkat(sessions_.fd(), file.c_str(), 0);
}

/* Who it is is known by its number and its start. */
static void note_holder(int file) {
    const auto start_ns = process_start_boottime_ns(static_cast<std::uint32_t>(::getpid()));
    const std::string text = fmt::format("{} {}\n", ::getpid(), start_ns.value_or(0));
    if (::ftruncate(file, 0) != 0) return;
    (void)!::pwrite(file, text.data(), text.size(), 0);
}

std::uint32_t holder_of_lock(const UserDirectory& directory, const std::string& name) {
    const FileDescriptor file(
        ::openat(directory.fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    char text[64] = {};
    if (!file.is_open() || ::pread(file.get(), text, sizeof(text) - 1, 0) <= 0) return 0;
    char* end = nullptr;
    const unsigned long long process_id = std::strtoull(text, &end, 10);
    const unsigned long long start_ns = std::strtoull(end, nullptr, 10);
    if (process_id == 0 || process_id > std::numeric_limits<std::int32_t>::max()) return 0;
    const auto number = static_cast<std::uint32_t>(process_id);
    return is_same_process(number, start_ns) ? number : 0;
}

Result<FileDescriptor> take_lock(const UserDirectory& directory, const std::string& name) {
    const std::string shown = directory.path_of_file(name);
    for (;;) {
        FileDescriptor file(
            ::openat(directory.fd(), name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!file.is_open()) return Error::from_errno(errno, "Could not open {}", shown);
        if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0)
            return Error::from_errno(errno, "Could not lock {}", shown);
        if (!directory.is_named(name, file.get())) continue;
        note_holder(file.get());
        return file;
        /* Removed by its last holder since it was opened. */
    }
}

Status check_session_name(const std::string& name) {
    const auto is_plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    const auto is_possible = [&](char c) { return is_plain(c) || c == '.' || c == '-'; };
    if (name.size() >= sizeof(plumb_session::name))
        return Error("The name of a session has {} characters, where {} are possible.", name.size(),
                     sizeof(plumb_session::name) - 1)
            .as(EINVAL);
    if (name.empty() || !is_plain(name[0]) || !std::all_of(name.begin(), name.end(), is_possible))
        return Error("\"{}\" can not be the name of a session.", name)
            .hint("It has letters, digits and _, and behind the first of them also . and -.")
            .as(EINVAL);
    return ok();
}

} // namespace plumb
