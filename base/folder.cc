#include "base/folder.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace plumb {

Result<Folder> Folder::open(const std::string& path) {
    FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd.is_open()) return Error::from_errno(errno, "Could not open the directory {}", path);
    return Folder(path, std::move(fd));
}

bool Folder::is_at(const std::string& path) const {
    struct stat opened {
    }, named{};
    return ::fstat(fd_.get(), &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
           opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

std::string Folder::path() const {
    if (is_at(opened_as_) || is_removed()) return opened_as_;
    return read_link(fmt::format("/proc/self/fd/{}", fd_.get())).value_or(opened_as_);
}

std::string Folder::path_of(std::string_view name) const {
    return fmt::format("{}/{}", path(), name);
}

FolderIdentity Folder::identity() const {
    FolderIdentity identity;
    struct stat info {};
    if (::fstat(fd_.get(), &info) != 0) return identity;
    identity.inode = info.st_ino;
    identity.device = info.st_dev;
    struct statx more {};
    if (::statx(fd_.get(), "", AT_EMPTY_PATH, STATX_BTIME, &more) == 0 && (more.stx_mask & STATX_BTIME) != 0)
        identity.made_ns =
            static_cast<std::uint64_t>(more.stx_btime.tv_sec) * 1'000'000'000 + more.stx_btime.tv_nsec;
    return identity;
}

bool Folder::is_removed() const {
    struct stat opened {};
    return ::fstat(fd_.get(), &opened) == 0 && opened.st_nlink == 0;
}

Result<FileDescriptor> Folder::make_file(const std::string& name) const {
    FileDescriptor file(::openat(fd_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!file.is_open()) return Error::from_errno(errno, "Could not make {}", path_of(name));
    return file;
}

Status Folder::replace_file(const std::string& name, std::string_view content) const {
    return replace_file_in(fd_.get(), name, content, path_of(name));
}

bool Folder::has(const std::string& name) const {
    struct stat info {};
    return ::fstatat(fd_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

void Folder::remove_file(const std::string& name) const {
    ::unlinkat(fd_.get(), name.c_str(), 0);
}

namespace {

Status write_new_file(int folder, const std::string& path, std::string_view content,
                      const std::string& shown) {
    /* One of its own: what stands there may be somebody else's link to a file that is not to be changed. */
    ::unlinkat(folder, path.c_str(), 0);
    FileDescriptor file(
        ::openat(folder, path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!file.is_open()) return Error::from_errno(errno, "Could not make {}", shown);
    while (!content.empty()) {
        const ssize_t written = ::write(file.get(), content.data(), content.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return Error::from_errno(written < 0 ? errno : EIO, "Could not write {}", shown);
        content.remove_prefix(static_cast<std::size_t>(written));
    }
    /* Over a network some servers say only now that there is no room. */
    if (::close(file.release()) != 0 && errno != EINTR)
        return Error::from_errno(errno, "Could not write {}", shown);
    return ok();
}

} // namespace

Status replace_file_in(int folder, const std::string& path, std::string_view content,
                       const std::string& shown) {
    const std::size_t name = path.rfind('/') + 1; /* 0 without one */
    const std::string temporary = fmt::format("{}.{}.new", path.substr(0, name), path.substr(name));
    Status written = write_new_file(folder, temporary, content, shown);
    if (written && ::renameat(folder, temporary.c_str(), folder, path.c_str()) != 0)
        written = Error::from_errno(errno, "Could not write {}", shown);
    if (!written) ::unlinkat(folder, temporary.c_str(), 0);
    return written;
}

} // namespace plumb
