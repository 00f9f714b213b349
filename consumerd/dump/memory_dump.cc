#include "consumerd/dump/memory_dump.h"

#include "consumerd/dump/compressed_dump.h"
#include "consumerd/dump/elf_dump.h"

#include <elf.h>
#include <endian.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace plumb {
namespace {

constexpr std::string_view flattened_magic = "makedumpfile";
constexpr std::uint64_t flattened_header_bytes = 4096;
/* One of each page of 1 TiB. */
constexpr std::uint64_t bytes_max = std::uint64_t{1} << 60;
constexpr std::size_t pieces_max = std::size_t{1} << 28;

using Start = std::array<std::byte, 16>;

bool begins_with(const Start& start, std::string_view text) {
    return std::memcmp(start.data(), text.data(), text.size()) == 0;
}

} // namespace

bool MemoryDump::is_one(const FileDescriptor& file) {
    Start start{};
    return ::pread(file.get(), start.data(), start.size(), 0) == static_cast<ssize_t>(start.size()) &&
           (begins_with(start, ELFMAG) || begins_with(start, CompressedDump::magic) ||
            begins_with(start, flattened_magic));
}

Result<MemoryDump> MemoryDump::open(FileDescriptor file, const std::string& path) {
    auto opened = DumpFile::open(std::move(file), path);
    if (!opened) return opened.error();
    Start start{};
    if (!opened->read(0, start)) return Error("{} is too short for a dump of memory.", path);
    auto format = begins_with(start, CompressedDump::magic) ? CompressedDump::open(std::move(*opened), path)
                                                            : ElfDump::open(std::move(*opened), path);
    if (!format) return format.error();
    return MemoryDump(std::move(*format));
}

std::uint64_t MemoryDump::memory_bytes() const {
    std::uint64_t sum = 0;
    for_each_range_with_zeros([&](const DumpFormat::Range& range) {
        sum = is_of_machine() ? range.end : sum + range.end - range.first;
    });
    return sum;
}

std::uint64_t
MemoryDump::for_each_page(const std::function<void(std::uint64_t, const std::byte*)>& visit) const {
    constexpr std::uint64_t chunk_bytes = std::uint64_t{1} << 20;
    std::vector<std::byte> chunk(chunk_bytes);
    std::uint64_t unreadable = 0;
    for_each_range([&](const DumpFormat::Range& range) {
        for (std::uint64_t at = range.first, bytes = 0; at < range.end; at += bytes) {
            bytes = std::min(chunk_bytes, range.end - at); /* which may be that of all addresses */
            const auto part = std::span(chunk).first(bytes);
            const bool is_whole = read(at, part);
            for (std::size_t in = 0; in < part.size(); in += page_bytes)
                if (is_whole || read(at + in, part.subspan(in, page_bytes)))
                    visit(at + in, part.data() + in);
                else
                    unreadable++;
        }
    });
    return unreadable;
}

Result<DumpFile> DumpFile::open(FileDescriptor file, const std::string& path) {
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) return Error::from_errno(errno, "Could not inspect {}", path);
    if (!S_ISREG(info.st_mode)) return Error("{} is not a file.", path);
    DumpFile opened(std::move(file), static_cast<std::uint64_t>(info.st_size));
    if (opened.is_flattened()) opened.take_pieces();
    return opened;
}

bool DumpFile::is_flattened() const {
    Start start{};
    return read_plainly(0, start) && begins_with(start, flattened_magic);
}

/* Up to the end of the file, if that is not marked. Of two of one place the last one counts, as in the file that they are
 * pieces of. */
void DumpFile::take_pieces() {
    struct {
        std::uint64_t offset, bytes; /* big-endian; -1: the end */
    } header;
    std::uint64_t end = 0;
    for (std::uint64_t at = flattened_header_bytes; pieces_.size() < pieces_max;
         at = pieces_.back().at + pieces_.back().bytes) {
        if (!read_plainly(at, std::as_writable_bytes(std::span(&header, 1)))) break;
        const Piece piece{be64toh(header.offset), be64toh(header.bytes), at + sizeof(header)};
        if (piece.offset > bytes_max || piece.bytes == 0 || piece.at > bytes_ ||
            piece.bytes > bytes_ - piece.at)
            break;
        pieces_.push_back(piece);
        end = std::max(end, piece.offset + piece.bytes);
    }
    std::stable_sort(pieces_.begin(), pieces_.end(),
                     [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
    if (!pieces_.empty()) bytes_ = end;
}

bool DumpFile::read(std::uint64_t offset, std::span<std::byte> to) const {
    if (pieces_.empty()) return read_plainly(offset, to);
    while (!to.empty()) {
        auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                                      [](std::uint64_t at, const Piece& each) { return at < each.offset; });
        if (piece == pieces_.begin()) return false;
        --piece;
        const std::uint64_t in = offset - piece->offset;
        if (in >= piece->bytes) return false;
        const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), piece->bytes - in));
        if (!read_plainly(piece->at + in, to.first(part))) return false;
        offset += part;
        to = to.subspan(part);
    }
    return true;
}

bool DumpFile::read_plainly(std::uint64_t offset, std::span<std::byte> to) const {
    if (pieces_.empty() && (offset > bytes_ || to.size() > bytes_ - offset)) return false;
    while (!to.empty()) {
        const ssize_t got = ::pread(file_.get(), to.data(), to.size(), static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        offset += static_cast<std::uint64_t>(got);
        to = to.subspan(static_cast<std::size_t>(got));
    }
    return true;
}

} // namespace plumb
