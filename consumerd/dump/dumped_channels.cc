#include "consumerd/dump/dumped_channels.h"

#include "consumerd/channel/channel_geometry.h"
#include "consumerd/dump/kernel_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

namespace plumb {
namespace {

constexpr std::uint64_t page_bytes = MemoryDump::page_bytes;
/* A machine has 16 sessions of each user; each channel is copied. */
constexpr std::size_t channels_max = 256;

struct Found {
    std::uint64_t address; /* of its first page */
    plumb_channel_header header;
    std::uint64_t mapping = 0; /* of a machine */
    std::unordered_map<std::uint64_t, std::uint64_t>
        pages{}; /* of a machine: index in the file -> physical address */
};

struct Scanned {
    std::vector<Found> channels;
    std::optional<std::string> vmcoreinfo;
};

Scanned scan(const MemoryDump& dump) {
    Scanned scanned;
    dump.for_each_page([&](std::uint64_t address, const std::byte* page) {
        std::uint64_t magic;
        std::memcpy(&magic, page, sizeof(magic));
        if (magic == PLUMB_CHANNEL_MAGIC) {
            Found found{address, {}};
            std::memcpy(&found.header, page, sizeof(found.header));
            if (check_channel_header(found.header, found.header.total_bytes))
                scanned.channels.push_back(std::move(found));
        } else if (dump.is_of_machine() && !scanned.vmcoreinfo) {
            scanned.vmcoreinfo =
                KernelMemory::vmcoreinfo_in(std::span<const std::byte, page_bytes>(page, page_bytes));
        }
        return true;
    });
    return scanned;
}

/* Of the channels that are files, which pages are theirs; what is no file (a page that was freed, a copy) is left out. */
Status find_pages(const MemoryDump& dump, Scanned& scanned) {
    if (!scanned.vmcoreinfo)
        return Error("The kernel's VMCOREINFO is not in the dump.")
            .hint("It needs the kernel's own memory (CONFIG_CRASH_CORE), and 64-bit x86.");
    auto kernel = KernelMemory::open(dump, *scanned.vmcoreinfo);
    if (!kernel) return kernel.error();
    std::unordered_map<std::uint64_t, Found*> by_mapping;
    for (Found& found : scanned.channels)
        if (const auto page = kernel->file_page(found.address); page && page->index == 0) {
            found.mapping = page->mapping;
            by_mapping.emplace(page->mapping, &found);
        }
    std::erase_if(scanned.channels, [](const Found& found) { return found.mapping == 0; });
    for (Found& found : scanned.channels)
        by_mapping[found.mapping] = &found; /* they have moved */
    if (by_mapping.empty()) return ok();
    for (const DumpFormat::Range& range : dump.ranges())
        for (std::uint64_t at = range.first; at < range.end; at += page_bytes)
            if (const auto page = kernel->file_page(at))
                if (const auto owner = by_mapping.find(page->mapping); owner != by_mapping.end())
                    owner->second->pages.emplace(page->index, at);
    return ok();
}

/* Of a process the pages lie in a row. */
void find_pages_behind(const MemoryDump& dump, Found& found) {
    const std::uint64_t end = found.address + found.header.total_bytes;
    for (const DumpFormat::Range& range : dump.ranges())
        for (std::uint64_t at = std::max(range.first, found.address); at < std::min(range.end, end);
             at += page_bytes)
            found.pages.emplace((at - found.address) / page_bytes, at);
}

/* Which pages of a channel had memory, as far as the channel itself says: all before the rings, and of each ring the first. */
class PagesWithMemory {
public:
    PagesWithMemory(const plumb_channel_header& header, std::span<const std::byte> copy)
        : before_rings_((header.data_offset + page_bytes - 1) / page_bytes),
          ring_pages_(header.ring_bytes / page_bytes) {
        const std::uint64_t rings = std::uint64_t{header.ring_count} + header.extra_ring_count;
        for (std::uint64_t ring = 0; ring < rings; ring++) {
            plumb_ring_control control;
            std::memcpy(&control, copy.data() + header.control_offset + ring * PLUMB_RING_CONTROL_BYTES,
                        sizeof(control));
            of_ring_.push_back(std::min(control.memory, header.ring_bytes) / page_bytes);
        }
    }
    bool has(std::uint64_t index) const {
        if (index < before_rings_) return true;
        const std::uint64_t ring = (index - before_rings_) / ring_pages_;
        return ring < of_ring_.size() && (index - before_rings_) % ring_pages_ < of_ring_[ring];
    }
    std::uint64_t count() const { return std::accumulate(of_ring_.begin(), of_ring_.end(), before_rings_); }

private:
    std::uint64_t before_rings_, ring_pages_;
    std::vector<std::uint64_t> of_ring_;
};

Result<DumpedChannel> assemble(const MemoryDump& dump, const Found& found) {
    auto copy = ChannelCopy::empty(found.header.total_bytes);
    if (!copy) return copy.error();
    const std::span<std::byte> bytes = copy->writable();
    std::vector<std::uint64_t> taken;
    for (const auto& [index, address] : found.pages)
        if (const std::uint64_t at = index * page_bytes;
            index < bytes.size() / page_bytes + 1 && at < bytes.size() &&
            dump.read(address, bytes.subspan(at, std::min(page_bytes, bytes.size() - at))))
            taken.push_back(index);
    const PagesWithMemory expected(found.header, bytes);
    const auto there =
        std::count_if(taken.begin(), taken.end(), [&](std::uint64_t index) { return expected.has(index); });
    return DumpedChannel{std::move(*copy), found.header,
                         expected.count() - static_cast<std::uint64_t>(there)};
}

} // namespace

Result<std::vector<DumpedChannel>> find_channels(const MemoryDump& dump) {
    Scanned scanned = scan(dump);
    if (dump.is_of_machine() && !scanned.channels.empty())
        if (Status found = find_pages(dump, scanned); !found) return found.error();
    std::vector<DumpedChannel> channels;
    for (Found& found : scanned.channels) {
        if (channels.size() == channels_max)
            return Error("There are more than {} channels in it.", channels_max);
        if (!dump.is_of_machine()) find_pages_behind(dump, found);
        auto channel = assemble(dump, found);
        if (!channel) return channel.error();
        channels.push_back(std::move(*channel));
    }
    return channels;
}

} // namespace plumb
