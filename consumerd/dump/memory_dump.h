/*
 * A dump of memory in an ELF core file: of a machine that crashed (kdump's /proc/vmcore, QEMU's dump-guest-memory), by
 * physical address, or of a process, by virtual address. What it says is not trusted: reading stays within the file.
 *
 * It is read by pread(), not mapped: a dump that is copied, or shortened, meanwhile is an error of reading.
 */
#ifndef PLUMB_CONSUMERD_DUMP_MEMORY_DUMP_H
#define PLUMB_CONSUMERD_DUMP_MEMORY_DUMP_H

#include "base/file.h"
#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace plumb {

class MemoryDump {
public:
    static constexpr std::uint64_t page_bytes = 4096;

    /* Whether a file begins as one does; also one that can not be read here, which open() explains. */
    static bool is_one(const FileDescriptor& file);
    /* `path`: for messages. */
    static Result<MemoryDump> open(FileDescriptor file, const std::string& path);

    /* By physical address; else by those of the process. */
    bool is_of_machine() const { return is_of_machine_; }
    /* Bytes of memory that are in the file. */
    std::uint64_t bytes() const;

    /* Whether all of it is in the dump; if not, what `to` holds is undefined. */
    bool read(std::uint64_t address, std::span<std::byte> to) const;
    template <typename T>
    bool read_value(std::uint64_t address, T& value) const {
        return read(address, std::as_writable_bytes(std::span(&value, 1)));
    }
    /* Every whole page, with its address, by rising address; until `visit` says that it is enough (false). */
    Status
    for_each_page(const std::function<bool(std::uint64_t address, const std::byte* page)>& visit) const;
    /* The same by address alone, without reading them: `visit` gets ranges [first, end) of whole pages. */
    void for_each_range(const std::function<void(std::uint64_t first, std::uint64_t end)>& visit) const;

private:
    struct Segment {
        std::uint64_t address;
        std::uint64_t bytes; /* in the file */
        std::uint64_t offset;
    };
    explicit MemoryDump(FileDescriptor file) : file_(std::move(file)) {}
    Status take_segments(const std::string& path);
    bool read_file(std::uint64_t offset, std::span<std::byte> to) const;

    FileDescriptor file_;
    std::uint64_t file_bytes_ = 0;
    bool is_of_machine_ = false;
    std::vector<Segment> segments_; /* by address; none overlaps another one */
};

} // namespace plumb

#endif
