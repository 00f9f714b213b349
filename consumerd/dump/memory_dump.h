/*
 * A dump of memory: of a machine that crashed, by physical address (an ELF file: kdump's /proc/vmcore, QEMU's
 * dump-guest-memory; or as makedumpfile compresses it), or of a process, by virtual address (its core). What it says is not
 * trusted: reading stays within the file.
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
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

/* How one kind of file holds memory. */
class DumpFormat {
public:
    /* Whole pages, [first, end), by rising address. */
    struct Range {
        std::uint64_t first, end;
    };
    virtual ~DumpFormat() = default;
    virtual bool is_of_machine() const = 0;
    /* Whether all of it is there; if not, what `to` holds is undefined. */
    virtual bool read(std::uint64_t address, std::span<std::byte> to) const = 0;
    using EachRange = std::function<void(const Range&)>;
    /* Of what is in the file. There may be billions. */
    virtual void for_each_range(const EachRange& visit) const = 0;
    /* With zeros that were left out. */
    virtual void for_each_range_with_zeros(const EachRange& visit) const { for_each_range(visit); }
    /* Of a machine: the kernel's VMCOREINFO, where the file has it beside the memory, since who made it knew where it was. */
    virtual std::optional<std::string> vmcoreinfo() const = 0;
    static constexpr std::uint64_t vmcoreinfo_bytes_max = std::uint64_t{1} << 16;
    /* Bytes of memory that it says it has, and that are not in the file: it was cut short. */
    virtual std::uint64_t cut_off_bytes() const = 0;
};

class MemoryDump {
public:
    static constexpr std::uint64_t page_bytes = 4096;

    /* Whether a file begins as one does; also one that can not be read here, which open() explains. */
    static bool is_one(const FileDescriptor& file);
    /* `path`: for messages. */
    static Result<MemoryDump> open(FileDescriptor file, const std::string& path);

    /* By physical address; else by those of the process. */
    bool is_of_machine() const { return format_->is_of_machine(); }
    bool read(std::uint64_t address, std::span<std::byte> to) const { return format_->read(address, to); }
    template <typename T>
    bool read_value(std::uint64_t address, T& value) const {
        return read(address, std::as_writable_bytes(std::span(&value, 1)));
    }
    void for_each_range(const DumpFormat::EachRange& visit) const { format_->for_each_range(visit); }
    void for_each_range_with_zeros(const DumpFormat::EachRange& visit) const {
        format_->for_each_range_with_zeros(visit);
    }
    std::uint64_t cut_off_bytes() const { return format_->cut_off_bytes(); }
    std::optional<std::string> vmcoreinfo() const { return format_->vmcoreinfo(); }
    /* Of a machine: up to its highest address; of a process: in the dump. */
    std::uint64_t memory_bytes() const;
    /* Every whole page that is in the file, with its address, by rising address. Returns how many could not be read. */
    std::uint64_t
    for_each_page(const std::function<void(std::uint64_t address, const std::byte* page)>& visit) const;

private:
    explicit MemoryDump(std::unique_ptr<DumpFormat> format) : format_(std::move(format)) {}

    std::unique_ptr<DumpFormat> format_;
};

/* A file whose size was taken once; or what it holds, if that was sent through a pipe ("flattened", by makedumpfile -F and by
 * QEMU): pieces, each with the place that it belongs to. */
class DumpFile {
public:
    static Result<DumpFile> open(FileDescriptor file, const std::string& path);
    std::uint64_t bytes() const { return bytes_; }
    bool read(std::uint64_t offset, std::span<std::byte> to) const;
    template <typename T>
    bool read_value(std::uint64_t offset, T& value) const {
        return read(offset, std::as_writable_bytes(std::span(&value, 1)));
    }

private:
    struct Piece {
        std::uint64_t offset, bytes;
        std::uint64_t at; /* in the file */
    };
    DumpFile(FileDescriptor file, std::uint64_t bytes) : file_(std::move(file)), bytes_(bytes) {}
    bool is_flattened() const;
    void take_pieces();
    bool read_plainly(std::uint64_t offset, std::span<std::byte> to) const;

    FileDescriptor file_;
    std::uint64_t bytes_;
    std::vector<Piece> pieces_; /* by offset; empty: the file is as it is */
};

} // namespace plumb

#endif
