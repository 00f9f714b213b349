#include "consumerd/kernel/staged_pages.h"

#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace plumb {
namespace {

constexpr std::uint64_t staged_magic = 0x3147534b4d554c50ull; /* "PLUMKSG1" */
/* Of all CPUs together, at most, and of one. */
constexpr std::size_t staged_bytes_max = std::size_t{64} << 20;
constexpr std::size_t staged_cpu_most = std::size_t{1} << 20, staged_cpu_least = std::size_t{128} << 10;

} // namespace

struct StagedPages::Header {
    std::uint64_t magic, cookie;
    std::uint32_t cpu_count, page_bytes;
};

/* Two places, and which of them holds: one store says that the other does. */
struct StagedPages::CpuHeader {
    std::uint64_t which;
    Content places[2];
};

std::uint64_t events_in_page(std::span<const std::byte> page, const RawPageFormat& format) {
    RawPage walked(page, format);
    std::uint64_t count = 0;
    for (RawEvent event; walked.next(event);)
        count++;
    return count;
}

std::size_t StagedPages::head_bytes(const Shape& shape) {
    const std::size_t bytes = sizeof(Header) + shape.cpu_count * sizeof(CpuHeader);
    return (bytes + shape.page_bytes - 1) / shape.page_bytes * shape.page_bytes;
}

std::size_t StagedPages::room_bytes(const Shape& shape) {
    const std::size_t share = staged_bytes_max / std::max<std::size_t>(shape.cpu_count, 1);
    const std::size_t bytes = std::clamp(share, staged_cpu_least, staged_cpu_most);
    return std::max<std::size_t>(bytes / shape.page_bytes, 2) * shape.page_bytes;
}

StagedPages::StagedPages(MappedRegion region, const Shape& shape)
    : region_(std::move(region)), shape_(shape) {}

Result<std::unique_ptr<StagedPages>> StagedPages::create(const std::string& path, const Shape& shape) {
    const std::string new_path = path + ".new";
    ::unlink(new_path.c_str());
    const FileDescriptor file(
        ::open(new_path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.is_open()) return Error::from_errno(errno, "Could not make {}", new_path);
    const auto drop = [&](const Error& error) {
        ::unlink(new_path.c_str());
        return error;
    };
    const std::size_t bytes = head_bytes(shape) + shape.cpu_count * room_bytes(shape);
    if (const int number = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); number != 0)
        return drop(Error::from_errno(number, "There is no room for {} bytes of pages of the kernel in {}",
                                      bytes, new_path));
    auto region = map_file(file, bytes, true, new_path);
    if (!region) return drop(region.error());
    *static_cast<Header*>(region->get_address()) = {staged_magic, shape.cookie, shape.cpu_count,
                                                    shape.page_bytes};
    if (::rename(new_path.c_str(), path.c_str()) != 0)
        return drop(Error::from_errno(errno, "Could not make {}", path));
    return std::unique_ptr<StagedPages>(new StagedPages(std::move(*region), shape));
}

Result<std::unique_ptr<StagedPages>> StagedPages::open(const std::string& path, const Shape& shape) {
    const FileDescriptor file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file.is_open()) return Error::from_errno(errno, "Could not open {}", path);
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) return Error::from_errno(errno, "Could not inspect {}", path);
    const std::size_t bytes = head_bytes(shape) + shape.cpu_count * room_bytes(shape);
    const Error of_others = Error("{} is not of this session.", path).as(EBADMSG);
    if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() ||
        static_cast<std::size_t>(info.st_size) != bytes)
        return of_others;
    auto region = map_file(file, bytes, true, path);
    if (!region) return region.error();
    const Header& header = *static_cast<const Header*>(region->get_address());
    if (header.magic != staged_magic || Shape{header.cookie, header.cpu_count, header.page_bytes} != shape)
        return of_others;
    return std::unique_ptr<StagedPages>(new StagedPages(std::move(*region), shape));
}

StagedPages::CpuHeader& StagedPages::header_of(std::uint32_t cpu) const {
    auto* const first =
        reinterpret_cast<CpuHeader*>(static_cast<std::byte*>(region_.get_address()) + sizeof(Header));
    return first[cpu];
}

std::span<std::byte> StagedPages::room(std::uint32_t cpu) const {
    auto* const begin = static_cast<std::byte*>(region_.get_address()) + head_bytes(shape_);
    return {begin + cpu * room_bytes(shape_), room_bytes(shape_)};
}

StagedPages::Content StagedPages::content(std::uint32_t cpu) const {
    const CpuHeader& header = header_of(cpu);
    Content content = header.places[__atomic_load_n(&header.which, __ATOMIC_ACQUIRE) % 2];
    content.filled =
        std::min<std::uint64_t>(content.filled, room_bytes(shape_)) / shape_.page_bytes * shape_.page_bytes;
    return content;
}

void StagedPages::set(std::uint32_t cpu, const Content& content) {
    CpuHeader& header = header_of(cpu);
    const std::uint64_t next = header.which % 2 ^ 1;
    header.places[next] = content;
    __atomic_store_n(&header.which, next, __ATOMIC_RELEASE);
}

StagedPages::Content StagedPages::with_last_page(std::uint32_t cpu, const RawPageFormat& format) const {
    Content content = this->content(cpu);
    const std::span<std::byte> room = this->room(cpu);
    if (std::exchange(content.is_reading, 0) != 0 && content.filled + shape_.page_bytes <= room.size() &&
        events_in_page(room.subspan(content.filled, shape_.page_bytes), format) != 0)
        content.filled += shape_.page_bytes;
    return content;
}

std::uint64_t StagedPages::events_of(std::uint32_t cpu, const Content& content,
                                     const RawPageFormat& format) const {
    const std::span<std::byte> room = this->room(cpu);
    std::uint64_t events = 0;
    for (std::size_t at = 0; at < content.filled; at += shape_.page_bytes)
        events += events_in_page(room.subspan(at, shape_.page_bytes), format);
    return events;
}

std::byte* StagedPages::begin_page(std::uint32_t cpu, const RawPageFormat& format) {
    Content content = this->content(cpu);
    std::byte* const page = room(cpu).data() + content.filled;
    std::memset(page, 0, format.data_offset);
    content.is_reading = 1;
    set(cpu, content);
    return page;
}

void StagedPages::end_page(std::uint32_t cpu, bool was_read) {
    Content content = this->content(cpu);
    content.is_reading = 0;
    if (was_read) content.filled += shape_.page_bytes;
    set(cpu, content);
}

} // namespace plumb
