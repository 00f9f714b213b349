#include "base/file.h"

#include "base/folder.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace plumb {

void FileDescriptor::reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Result<FileDescriptor> open_regular_file(const std::string& path) {
    const FileDescriptor place(::open(path.c_str(), O_PATH | O_CLOEXEC));
    if (!place.is_open()) return Error::from_errno(errno, "Could not open {}", path);
    struct stat info {};
    if (::fstat(place.get(), &info) != 0) return Error::from_errno(errno, "Could not inspect {}", path);
    if (!S_ISREG(info.st_mode)) return Error("{} is not a file.", path);
    const std::string same = fmt::format("/proc/self/fd/{}", place.get());
    FileDescriptor file(::open(same.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!file.is_open()) return Error::from_errno(errno, "Could not open {}", path);
    return file;
}

Result<std::string> read_small_file(const std::string& path, std::size_t limit_bytes) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!file.is_open()) return Error::from_errno(errno, "Could not open {}", path);
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) return Error::from_errno(errno, "Could not inspect {}", path);
    if (!S_ISREG(info.st_mode)) return Error("{} is not a file.", path);
    std::string content;
    char buffer[4096];
    while (content.size() < limit_bytes) {
        const ssize_t got = ::read(file.get(), buffer, sizeof(buffer));
        if (got == 0) break;
        if (got < 0) {
            if (errno == EINTR) continue;
            return Error::from_errno(errno, "Could not read {}", path);
        }
        content.append(buffer, std::min(static_cast<std::size_t>(got), limit_bytes - content.size()));
    }
    return content;
}

Result<std::string> read_proc_file(const std::string& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!file.is_open()) return Error::from_errno(errno, "Could not open {}", path);
    std::string content;
    char buffer[4096];
    for (;;) {
        const ssize_t got = ::read(file.get(), buffer, sizeof(buffer));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Error::from_errno(errno, "Could not read {}", path);
        content.append(buffer, static_cast<std::size_t>(got));
        if (static_cast<std::size_t>(got) < sizeof(buffer)) return content;
    }
}

Status replace_file(const std::string& path, std::string_view content) {
    return replace_file_in(AT_FDCWD, path, content, path);
}

FileDescriptor reserve_space(const std::string& directory, std::uint64_t bytes) {
    FileDescriptor file(::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
    if (file.is_open() && ::fallocate(file.get(), 0, 0, static_cast<off_t>(bytes)) != 0) file.reset();
    return file;
}

Result<std::string> read_link(const std::string& path) {
    char buffer[4096];
    const ssize_t bytes = ::readlink(path.c_str(), buffer, sizeof(buffer));
    if (bytes < 0) return Error::from_errno(errno, "Could not read the link {}", path);
    return std::string(buffer, static_cast<std::size_t>(bytes));
}

/* close_range() is of Linux 5.9, and filters of containers may refuse it. */
void close_files_from(int first) {
    if (::syscall(SYS_close_range, static_cast<unsigned>(first), ~0u, 0u) == 0) return;
    if (const auto names = list_directory("/proc/self/fd")) {
        for (const std::string& name : *names)
            if (const int number = std::atoi(name.c_str()); number >= first) ::close(number);
        return;
    }
    constexpr int looked_at_most = 1 << 20;
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const int end = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, looked_at_most));
    for (int number = first; number < end; number++)
        ::close(number);
}

Result<std::vector<std::string>> list_directory(const std::string& path) {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
    if (!directory) return Error::from_errno(errno, "Could not read the directory {}", path);
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(directory.get())) {
        const std::string name = entry->d_name;
        if (name != "." && name != "..") names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
}

} // namespace plumb
