#include "consumerd/dump/memory_dump.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace plumb {
namespace {

constexpr std::string_view compressed_magic = "KDUMP   ";
constexpr std::string_view flattened_magic = "makedumpfile";
/* Of a process with very many mappings; a machine has a few. */
constexpr std::uint64_t segments_max = std::uint64_t{1} << 20;

std::uint64_t round_up(std::uint64_t address) {
    return (address + MemoryDump::page_bytes - 1) & ~(MemoryDump::page_bytes - 1);
}

bool begins_with(std::span<const std::byte> bytes, std::string_view text) {
    return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

} // namespace

bool MemoryDump::is_one(const FileDescriptor& file) {
    std::array<std::byte, 16> start{};
    if (::pread(file.get(), start.data(), start.size(), 0) != static_cast<ssize_t>(start.size()))
        return false;
    return begins_with(start, ELFMAG) || begins_with(start, compressed_magic) ||
           begins_with(start, flattened_magic);
}

Result<MemoryDump> MemoryDump::open(FileDescriptor file, const std::string& path) {
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) return Error::from_errno(errno, "Could not inspect {}", path);
    if (!S_ISREG(info.st_mode)) return Error("{} is not a file.", path);
    MemoryDump dump(std::move(file));
    dump.file_bytes_ = static_cast<std::uint64_t>(info.st_size);
    if (Status taken = dump.take_segments(path); !taken) return taken.error();
    return dump;
}

bool MemoryDump::read_file(std::uint64_t offset, std::span<std::byte> to) const {
    if (offset > file_bytes_ || to.size() > file_bytes_ - offset) return false;
    while (!to.empty()) {
        const ssize_t got = ::pread(file_.get(), to.data(), to.size(), static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        offset += static_cast<std::uint64_t>(got);
        to = to.subspan(static_cast<std::size_t>(got));
    }
    return true;
}

Status MemoryDump::take_segments(const std::string& path) {
    Elf64_Ehdr header{};
    if (!read_file(0, std::as_writable_bytes(std::span(&header, 1))))
        return Error("{} is too short for a dump of memory.", path);
    const auto start = std::as_bytes(std::span(&header, 1));
    if (begins_with(start, compressed_magic) || begins_with(start, flattened_magic))
        return Error("{} is compressed by makedumpfile.", path)
            .hint("Plumb reads ELF dumps: `makedumpfile -E -d 1 VMCORE OUT` (crash's `help -r`, or QEMU's "
                  "dump-guest-memory, also write them).");
    if (!begins_with(start, ELFMAG) || header.e_type != ET_CORE) return Error("{} is no core file.", path);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64)
        return Error("{} is not of a 64-bit x86 machine.", path);
    std::uint64_t count = header.e_phnum;
    if (Elf64_Shdr first{};
        header.e_phnum == PN_XNUM && read_file(header.e_shoff, std::as_writable_bytes(std::span(&first, 1))))
        count = first.sh_info;
    if (header.e_phentsize != sizeof(Elf64_Phdr) || count > segments_max)
        return Error("{} is damaged: its program headers can not be read.", path);
    std::vector<Elf64_Phdr> entries(count);
    if (!read_file(header.e_phoff, std::as_writable_bytes(std::span(entries))))
        return Error("{} is damaged: its program headers can not be read.", path);
    std::erase_if(entries, [](const Elf64_Phdr& entry) { return entry.p_type != PT_LOAD; });
    /* Linux and gdb leave the physical addresses of a process 0. */
    is_of_machine_ = std::any_of(entries.begin(), entries.end(),
                                 [](const Elf64_Phdr& entry) { return entry.p_paddr != 0; }) ||
                     std::all_of(entries.begin(), entries.end(),
                                 [](const Elf64_Phdr& entry) { return entry.p_vaddr == 0; });
    for (const Elf64_Phdr& entry : entries) {
        if (entry.p_offset >= file_bytes_) continue; /* the file was cut short */
        segments_.push_back({is_of_machine_ ? entry.p_paddr : entry.p_vaddr,
                             std::min<std::uint64_t>(entry.p_filesz, file_bytes_ - entry.p_offset),
                             entry.p_offset});
    }
    std::stable_sort(segments_.begin(), segments_.end(),
                     [](const Segment& a, const Segment& b) { return a.address < b.address; });
    /* /proc/vmcore has the kernel's own image twice. */
    std::uint64_t end = 0;
    for (Segment& segment : segments_) {
        segment.bytes = std::min(segment.bytes, ~std::uint64_t{0} - segment.address);
        const std::uint64_t known =
            std::min(segment.bytes, end > segment.address ? end - segment.address : 0);
        segment = {segment.address + known, segment.bytes - known, segment.offset + known};
        end = std::max(end, segment.address + segment.bytes);
    }
    std::erase_if(segments_, [](const Segment& segment) { return segment.bytes == 0; });
    if (segments_.empty()) return Error("There is no memory in {}.", path);
    return ok();
}

std::uint64_t MemoryDump::bytes() const {
    std::uint64_t sum = 0;
    for (const Segment& segment : segments_)
        sum += segment.bytes;
    return sum;
}

bool MemoryDump::read(std::uint64_t address, std::span<std::byte> to) const {
    while (!to.empty()) {
        auto segment =
            std::upper_bound(segments_.begin(), segments_.end(), address,
                             [](std::uint64_t at, const Segment& each) { return at < each.address; });
        if (segment == segments_.begin()) return false;
        --segment;
        const std::uint64_t in = address - segment->address;
        if (in >= segment->bytes) return false;
        const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), segment->bytes - in));
        if (!read_file(segment->offset + in, to.first(part))) return false;
        address += part;
        to = to.subspan(part);
    }
    return true;
}

void MemoryDump::for_each_range(const std::function<void(std::uint64_t, std::uint64_t)>& visit) const {
    for (const Segment& segment : segments_) {
        const std::uint64_t first = round_up(segment.address);
        const std::uint64_t end = (segment.address + segment.bytes) & ~(page_bytes - 1);
        if (first >= segment.address && first < end) visit(first, end);
    }
}

Status MemoryDump::for_each_page(const std::function<bool(std::uint64_t, const std::byte*)>& visit) const {
    constexpr std::uint64_t chunk_bytes = std::uint64_t{1} << 20;
    std::vector<std::byte> chunk(chunk_bytes);
    bool is_enough = false, is_readable = true;
    for_each_range([&](std::uint64_t first, std::uint64_t end) {
        for (std::uint64_t at = first; at < end && !is_enough && is_readable; at += chunk_bytes) {
            const auto part =
                std::span(chunk).first(static_cast<std::size_t>(std::min(chunk_bytes, end - at)));
            is_readable = read(at, part);
            for (std::size_t in = 0; is_readable && !is_enough && in < part.size(); in += page_bytes)
                is_enough = !visit(at + in, part.data() + in);
        }
    });
    return is_readable ? ok() : Status(Error("The dump could not be read to its end."));
}

} // namespace plumb
