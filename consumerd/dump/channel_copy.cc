#include "consumerd/dump/channel_copy.h"

#include <plumb/abi/channel.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace plumb {

void ChannelCopy::Unmap::operator()(std::byte* bytes) const {
    ::munmap(bytes, size);
}

Result<ChannelCopy> ChannelCopy::read(const FileDescriptor& file, const std::string& path) {
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) return Error::from_errno(errno, "Could not inspect {}", path);
    if (!S_ISREG(info.st_mode)) return Error("{} is not a file.", path);
    const auto size = static_cast<std::uint64_t>(info.st_size);
    plumb_channel_header header;
    if (::pread(file.get(), &header, sizeof(header), 0) != static_cast<ssize_t>(sizeof(header)) ||
        header.magic != PLUMB_CHANNEL_MAGIC)
        return Error("{} is no channel.", path);
    if (size > header.total_bytes)
        return Error("{} is damaged: it has {} bytes, and the channel in it {}.", path, size,
                     header.total_bytes);
    auto copy = empty(size);
    if (!copy) return copy.error().with("Could not read {}", path);
    if (Status filled = copy->fill(file); !filled) return filled.error().with("Could not read {}", path);
    return copy;
}

Result<ChannelCopy> ChannelCopy::empty(std::uint64_t size) {
    void* const memory =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return Error("A channel of {} bytes is too large.", size);
    return ChannelCopy(static_cast<std::byte*>(memory), size);
}

/* What takes memory there, and no more: the rest is a hole, of zeros, in both. */
Status ChannelCopy::fill(const FileDescriptor& file) {
    const auto size = static_cast<off_t>(bytes().size());
    for (off_t at = 0; at < size;) {
        at = ::lseek(file.get(), at, SEEK_DATA);
        if (at < 0 && errno == ENXIO) return ok(); /* a hole to the end */
        const off_t hole = at < 0 ? at : ::lseek(file.get(), at, SEEK_HOLE);
        if (hole < 0) return Error::from_errno(errno, "Could not look for its data");
        for (const off_t end = std::min(hole, size); at < end;) {
            const ssize_t got =
                ::pread(file.get(), bytes_.get() + at, static_cast<std::size_t>(end - at), at);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) return Error::from_errno(got < 0 ? errno : EIO, "It is not whole");
            at += got;
        }
    }
    return ok();
}

} // namespace plumb
