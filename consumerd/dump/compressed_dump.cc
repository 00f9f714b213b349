#include "consumerd/dump/compressed_dump.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace plumb {
namespace {

constexpr std::uint64_t block_bytes = MemoryDump::page_bytes;
constexpr std::uint64_t pages_in_word = 64, pages_in_block = block_bytes * 8;
/* Of a machine with 16 TiB. */
constexpr std::uint64_t pages_max = std::uint64_t{1} << 32;

/* Of the file's header, on x86-64: what stands in front is its magic, the version and the kernel's name. */
struct Header {
    std::int32_t block_size; /* at 428 */
    std::int32_t sub_header_blocks;
    std::uint32_t bitmap_blocks;
    std::uint32_t max_page; /* 32 bits: see sub-header */
};
constexpr std::uint64_t header_at = 428;
/* In the second block; since versions 2, 3 and 6. */
constexpr std::uint64_t version_at = 8, split_at = block_bytes + 12, vmcoreinfo_at = block_bytes + 32,
                        max_page_64_at = block_bytes + 96;

struct Descriptor {
    std::uint64_t offset;
    std::uint32_t bytes;
    std::uint32_t flags;
    std::uint64_t page_flags;
};
constexpr std::uint32_t by_zlib = 1, by_lzo = 2, by_snappy = 4, by_zstd = 0x20;

bool unpack(const Descriptor& descriptor, std::span<const std::byte> packed, std::span<std::byte> page) {
    switch (descriptor.flags & (by_zlib | by_lzo | by_snappy | by_zstd)) {
    case 0:
        if (packed.size() != page.size()) return false;
        std::copy(packed.begin(), packed.end(), page.begin());
        return true;
    case by_zlib: {
        uLongf bytes = page.size();
        return ::uncompress(reinterpret_cast<Bytef*>(page.data()), &bytes,
                            reinterpret_cast<const Bytef*>(packed.data()), packed.size()) == Z_OK &&
               bytes == page.size();
    }
    case by_zstd:
        return ::ZSTD_decompress(page.data(), page.size(), packed.data(), packed.size()) == page.size();
    default:
        return false;
    }
}

std::uint64_t pages_in(std::span<const std::uint64_t> words) {
    std::uint64_t count = 0;
    for (const std::uint64_t word : words)
        count += static_cast<std::uint64_t>(std::popcount(word));
    return count;
}

} // namespace

Result<std::unique_ptr<DumpFormat>> CompressedDump::open(DumpFile file, const std::string& path) {
    std::unique_ptr<CompressedDump> dump(new CompressedDump(std::move(file)));
    if (Status taken = dump->take_bitmap(path); !taken) return taken.error();
    /* All of them are compressed in one way, if they are. */
    for (std::uint64_t rank = 0; rank < std::min<std::uint64_t>(dump->count_, 1024); rank++) {
        Descriptor descriptor{};
        if (!dump->file_.read_value(dump->descriptors_at_ + rank * sizeof(descriptor), descriptor)) break;
        if ((descriptor.flags & (by_lzo | by_snappy)) != 0)
            return Error("{} is compressed in a way that is not read here (lzo, snappy).", path)
                .hint("`makedumpfile -c` (zlib) and -z (zstd) are, and ELF dumps (-E).");
    }
    return std::unique_ptr<DumpFormat>(std::move(dump));
}

/* There are two bitmaps of one length: which pages are memory, and which of them are in the file. */
Status CompressedDump::take_bitmap(const std::string& path) {
    const Error damaged = Error("{} is damaged: which pages are in it can not be read.", path);
    Header header{};
    if (!file_.read_value(header_at, header) || !file_.read_value(version_at, version_)) return damaged;
    if (header.block_size != static_cast<std::int32_t>(block_bytes)) return damaged;
    if (std::int32_t is_split = 0; version_ >= 2 && file_.read_value(split_at, is_split) && is_split != 0)
        return Error("{} is a part of a dump that was split.", path)
            .hint("`makedumpfile --reassemble` makes it whole.");
    pages_ = header.max_page;
    if (version_ >= 6 && !file_.read_value(max_page_64_at, pages_)) return damaged;
    const std::uint64_t bytes = std::uint64_t{header.bitmap_blocks} * block_bytes / 2;
    const std::uint64_t sub_header_blocks = static_cast<std::uint32_t>(header.sub_header_blocks);
    const std::uint64_t bitmaps_at = (1 + sub_header_blocks) * block_bytes;
    if (pages_ == 0 || pages_ > pages_max || bytes > file_.bytes() || pages_ > bytes * 8) return damaged;
    descriptors_at_ = bitmaps_at + 2 * bytes;
    bitmap_at_ = bitmaps_at + bytes;
    for (std::uint64_t block = 0; block * pages_in_block < pages_; block++) {
        if (!load_bits(block)) return damaged;
        before_.push_back(count_);
        count_ += pages_in(bits_);
    }
    return ok();
}

bool CompressedDump::load_bits(std::uint64_t block) const {
    if (bits_of_ == block) return true;
    bits_of_.reset();
    const std::uint64_t pages = std::min(pages_in_block, pages_ - block * pages_in_block);
    bits_.resize((pages + pages_in_word - 1) / pages_in_word);
    if (!file_.read(bitmap_at_ + block * block_bytes, std::as_writable_bytes(std::span(bits_)))) return false;
    if (pages % pages_in_word != 0) bits_.back() &= (std::uint64_t{1} << pages % pages_in_word) - 1;
    bits_of_ = block;
    return true;
}

std::optional<std::string> CompressedDump::vmcoreinfo() const {
    struct {
        std::uint64_t offset, bytes;
    } place{};
    if (version_ < 3 || !file_.read_value(vmcoreinfo_at, place) || place.bytes == 0 ||
        place.bytes > vmcoreinfo_bytes_max)
        return {};
    std::string text(place.bytes, '\0');
    if (!file_.read(place.offset, std::as_writable_bytes(std::span(text)))) return {};
    return text;
}

std::uint64_t CompressedDump::word_of(std::uint64_t page) const {
    return load_bits(page / pages_in_block) ? bits_[page % pages_in_block / pages_in_word] : 0;
}

std::uint64_t CompressedDump::rank(std::uint64_t page) const {
    const std::uint64_t below = (std::uint64_t{1} << page % pages_in_word) - 1;
    const std::uint64_t in_word = pages_in(std::array{word_of(page) & below});
    const auto words_before = std::span(bits_).first(page % pages_in_block / pages_in_word);
    return before_[page / pages_in_block] + pages_in(words_before) + in_word;
}

bool CompressedDump::load(std::uint64_t page) const {
    if (loaded_ == page) return true;
    loaded_.reset();
    if (page >= pages_ || !is_there(page)) return false;
    Descriptor descriptor{};
    if (!file_.read_value(descriptors_at_ + rank(page) * sizeof(descriptor), descriptor) ||
        descriptor.bytes > 2 * block_bytes)
        return false;
    packed_.resize(descriptor.bytes);
    page_.resize(block_bytes);
    if (!file_.read(descriptor.offset, packed_) || !unpack(descriptor, packed_, page_)) return false;
    loaded_ = page;
    return true;
}

bool CompressedDump::read(std::uint64_t address, std::span<std::byte> to) const {
    while (!to.empty()) {
        if (!load(address / block_bytes)) return false;
        const std::uint64_t in = address % block_bytes;
        const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), block_bytes - in));
        std::memcpy(to.data(), page_.data() + in, part);
        address += part;
        to = to.subspan(part);
    }
    return true;
}

void CompressedDump::for_each_range(const EachRange& visit) const {
    Range range{};
    for (std::uint64_t page = 0; page < pages_; page++) {
        if (word_of(page) == 0) {
            page |= pages_in_word - 1;
            continue;
        }
        if (!is_there(page)) continue;
        const std::uint64_t address = page * block_bytes;
        if (range.end != address) {
            if (range.first < range.end) visit(range);
            range.first = address;
        }
        range.end = address + block_bytes;
    }
    if (range.first < range.end) visit(range);
}

} // namespace plumb
