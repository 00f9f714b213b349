#include "consumerd/dump/dumped_channels.h"

#include "consumerd/channel/channel_geometry.h"
#include "consumerd/dump/kernel_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

namespace plumb {
namespace {

constexpr std::uint64_t page_bytes = MemoryDump::page_bytes;

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

/* Whether page `index` of the file had memory, as far as the channel itself says. */
bool had_memory(const plumb_channel_header& header, std::span<const std::byte> copy, std::uint64_t index) {
    const std::uint64_t at = index * page_bytes;
    if (at < header.data_offset) return true;
    const std::uint64_t in_data = at - header.data_offset;
    const std::uint64_t ring = in_data / header.ring_bytes;
    if (ring >= std::uint64_t{header.ring_count} + header.extra_ring_count) return false; /* the guard */
    plumb_ring_control control;
    std::memcpy(&control, copy.data() + header.control_offset + ring * PLUMB_RING_CONTROL_BYTES,
                sizeof(control));
    return in_data % header.ring_bytes < control.memory;
}

Result<DumpedChannel> assemble(const MemoryDump& dump, const Found& found) {
    const std::uint64_t pages = (found.header.total_bytes + page_bytes - 1) / page_bytes;
    auto copy = ChannelCopy::empty(found.header.total_bytes);
    if (!copy) return copy.error();
    const std::span<std::byte> bytes = copy->writable();
    const auto take = [&](std::uint64_t index, std::uint64_t address) {
        const std::uint64_t at = index * page_bytes;
        return index < pages &&
               dump.read(address, bytes.subspan(at, std::min(page_bytes, bytes.size() - at)));
    };
    DumpedChannel channel{std::move(*copy), found.header, 0};
    const std::uint64_t before_data = (found.header.data_offset + page_bytes - 1) / page_bytes;
    if (dump.is_of_machine()) {
        for (const auto& [index, address] : found.pages)
            take(index, address);
        for (std::uint64_t index = 0; index < pages; index++) {
            if (index >= before_data && !had_memory(found.header, bytes, index)) continue;
            channel.missing_pages += !found.pages.contains(index);
        }
    } else {
        for (std::uint64_t index = 0; index < pages; index++)
            if (!take(index, found.address + index * page_bytes))
                channel.missing_pages += had_memory(found.header, bytes, index);
    }
    return channel;
}

} // namespace

Result<std::vector<DumpedChannel>> find_channels(const MemoryDump& dump) {
    Scanned scanned = scan(dump);
    if (dump.is_of_machine() && !scanned.channels.empty())
        if (Status found = find_pages(dump, scanned); !found) return found.error();
    std::vector<DumpedChannel> channels;
    for (const Found& found : scanned.channels) {
        auto channel = assemble(dump, found);
        if (!channel) return channel.error();
        channels.push_back(std::move(*channel));
    }
    return channels;
}

} // namespace plumb
