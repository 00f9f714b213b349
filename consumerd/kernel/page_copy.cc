#include "consumerd/kernel/page_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace plumb {

Result<PageCopy> PageCopy::create(const std::string& directory, const std::vector<std::uint32_t>& cpus) {
    PageCopy copy;
    copy.directory_ = directory;
    if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
        return Error::from_errno(errno, "Could not make the directory {} for the kernel's pages", directory);
    for (const std::uint32_t cpu : cpus) {
        const std::string path = fmt::format("{}/cpu{}", directory, cpu);
        FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        if (!file.is_open())
            return Error::from_errno(errno, "Could not make {} for the kernel's pages", path)
                .hint("Choose a directory that is empty or not there yet.");
        copy.files_.emplace(cpu, std::move(file));
    }
    return copy;
}

Status PageCopy::add(std::uint32_t cpu, std::span<const std::byte> pages) {
    const auto file = files_.find(cpu);
    if (file == files_.end()) return ok();
    while (!pages.empty()) {
        const ssize_t written = write(file->second.get(), pages.data(), pages.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            const Error error =
                Error::from_errno(errno, "Could not write the kernel's pages to {}/cpu{}", directory_, cpu);
            files_.clear();
            return error;
        }
        pages = pages.subspan(static_cast<std::size_t>(written));
    }
    return ok();
}

/* Over a network some servers say only now that there is no room. */
Status PageCopy::close() {
    Status closed = ok();
    for (auto& [cpu, file] : files_)
        if (::close(file.release()) != 0 && errno != EINTR)
            closed =
                Error::from_errno(errno, "Could not write the kernel's pages to {}/cpu{}", directory_, cpu);
    files_.clear();
    return closed;
}

} // namespace plumb
