/*
 * The memory of a machine as makedumpfile compresses it ("kdump-compressed", also QEMU's kdump-zlib): a bitmap of the pages
 * that are in it, and for each of these where it is and how it was compressed. Read are pages that are not compressed, or
 * by zlib or zstd.
 */
#ifndef PLUMB_CONSUMERD_DUMP_COMPRESSED_DUMP_H
#define PLUMB_CONSUMERD_DUMP_COMPRESSED_DUMP_H

#include "base/result.h"
#include "consumerd/dump/memory_dump.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumb {

class CompressedDump : public DumpFormat {
public:
    static constexpr std::string_view magic = "KDUMP   ";
    static Result<std::unique_ptr<DumpFormat>> open(DumpFile file, const std::string& path);

    bool is_of_machine() const override { return true; }
    bool read(std::uint64_t address, std::span<std::byte> to) const override;
    void for_each_range(const EachRange& visit) const override;
    std::uint64_t cut_off_bytes() const override { return 0; } /* its pages can not be read then */
    std::optional<std::string> vmcoreinfo() const override;

private:
    explicit CompressedDump(DumpFile file) : file_(std::move(file)) {}
    Status take_bitmap(const std::string& path);
    bool load_bits(std::uint64_t block) const;
    /* The word of the bitmap that has this page's bit; 0 where it can not be read. */
    std::uint64_t word_of(std::uint64_t page) const;
    bool is_there(std::uint64_t page) const { return (word_of(page) >> page % 64 & 1) != 0; }
    /* How many pages are there before this one, which is. */
    std::uint64_t rank(std::uint64_t page) const;
    bool load(std::uint64_t page) const;

    DumpFile file_;
    std::uint32_t version_ = 0;
    std::uint64_t pages_ = 0; /* of the machine */
    std::uint64_t count_ = 0; /* of them that are there */
    std::uint64_t descriptors_at_ = 0;
    std::uint64_t bitmap_at_ = 0; /* it stays in the file, where it may be a hole of half a gigabyte */
    std::vector<std::uint64_t>
        before_; /* by block of the bitmap: pages that are there in all blocks before */
    /* The block of it that was read last. */
    mutable std::optional<std::uint64_t> bits_of_;
    mutable std::vector<std::uint64_t> bits_;
    /* The page that was read last. */
    mutable std::optional<std::uint64_t> loaded_;
    mutable std::vector<std::byte> page_, packed_;
};

} // namespace plumb

#endif
