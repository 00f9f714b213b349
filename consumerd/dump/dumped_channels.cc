#include "consumerd/dump/dumped_channels.h"

#include "consumerd/channel/channel_geometry.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <set>
#include <span>
#include <utility>

namespace plumb {
namespace {

constexpr std::uint64_t page_bytes = MemoryDump::page_bytes;
/* A machine has 16 sessions of each user. What only looks like a channel must not take all the time there is. */
constexpr std::size_t channels_max = 256;
/* Each is tried. */
constexpr std::size_t vmcoreinfo_pages_max = 1024;
/* Pages that were freed keep what was in them. */
constexpr std::size_t headers_max = std::size_t{1} << 16;

std::uint64_t pages_for(std::uint64_t bytes) {
    return (bytes + page_bytes - 1) / page_bytes;
}

bool is_zero(std::span<const std::byte> bytes) {
    static constexpr std::array<std::byte, page_bytes> zeros{};
    return std::memcmp(bytes.data(), zeros.data(), bytes.size()) == 0;
}

bool is_begin_of_file(KernelMemory& kernel, std::uint64_t address) {
    const auto page = kernel.file_page(address);
    return page && page->index == 0;
}

/* Which pages of a channel had memory, as far as the channel itself says: all before the rings, and of each ring the first. */
class PagesWithMemory {
public:
    PagesWithMemory(const plumb_channel_header& header, std::span<const std::byte> copy)
        : before_rings_(pages_for(header.data_offset)), ring_pages_(header.ring_bytes / page_bytes) {
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

} // namespace

Result<DumpedChannels> DumpedChannels::find(const MemoryDump& dump) {
    DumpedChannels channels(dump);
    channels.scan();
    const bool has_some = !channels.found_.empty();
    if (dump.is_of_machine() && (has_some || !channels.of_other_versions_.empty()))
        if (Status found = channels.find_pages(); !found && has_some) return found.error();
    if (channels.found_.size() > channels_max) {
        channels.left_out_ += channels.found_.size() - channels_max;
        channels.found_.resize(channels_max, Found{0, {}});
    }
    return channels;
}

/* No channel is larger than the memory that it lay in, but for its holes. */
void DumpedChannels::scan() {
    const std::uint64_t memory_bytes = dump_->memory_bytes();
    const std::uint64_t bytes_max =
        dump_->is_of_machine() ? 2 * memory_bytes : memory_bytes + dump_->cut_off_bytes();
    unreadable_pages_ = dump_->for_each_page([&](std::uint64_t address, const std::byte* page) {
        std::uint64_t magic;
        std::memcpy(&magic, page, sizeof(magic));
        if (magic == PLUMB_CHANNEL_MAGIC) {
            Found found{address, {}};
            std::memcpy(&found.header, page, sizeof(found.header));
            if (found.header.version_major != PLUMB_CHANNEL_VERSION_MAJOR) {
                if (of_other_versions_.size() < headers_max)
                    of_other_versions_.push_back(
                        {address, found.header.version_major, found.header.version_minor});
                return;
            }
            if (found.header.total_bytes > bytes_max ||
                !check_channel_header(found.header, found.header.total_bytes))
                return;
            if (found_.size() < headers_max)
                found_.push_back(std::move(found));
            else
                left_out_++;
        } else if (dump_->is_of_machine() && vmcoreinfo_pages_.size() < vmcoreinfo_pages_max &&
                   KernelMemory::vmcoreinfo_in(std::span<const std::byte, page_bytes>(page, page_bytes))) {
            vmcoreinfo_pages_.push_back(address);
        }
    });
}

/* Any program's page may look like the one in which the kernel has it. So what the file says beside the memory comes first; and of
 * such pages that one counts by which there are channels. */
Result<KernelMemory> DumpedChannels::kernel_memory() const {
    Result<KernelMemory> some =
        Error("The kernel's VMCOREINFO is not in the dump.")
            .hint("It needs the kernel's own memory (CONFIG_CRASH_CORE), and 64-bit x86.");
    if (const auto text = dump_->vmcoreinfo()) some = KernelMemory::open(*dump_, *text);
    if (some) return some;
    for (const std::uint64_t address : vmcoreinfo_pages_) {
        std::array<std::byte, page_bytes> page{};
        const auto text = dump_->read(address, page) ? KernelMemory::vmcoreinfo_in(page) : std::nullopt;
        if (!text) continue;
        auto kernel = KernelMemory::open(*dump_, *text);
        const bool has_channels =
            kernel && std::any_of(found_.begin(), found_.end(), [&](const Found& found) {
                return is_begin_of_file(*kernel, found.address);
            });
        if (has_channels) return kernel;
        if (!some) some = std::move(kernel);
    }
    return some;
}

/* Of the channels that are files, which pages are theirs; what is no file (a page that was freed, a copy) is left out. */
Status DumpedChannels::find_pages() {
    auto kernel = kernel_memory();
    if (!kernel) return kernel.error();
    for (Found& found : found_)
        if (const auto page = kernel->file_page(found.address); page && page->index == 0)
            found.mapping = page->mapping;
    std::erase_if(found_, [](const Found& found) { return found.mapping == 0; });
    std::erase_if(of_other_versions_,
                  [&](const OfOtherVersion& each) { return !is_begin_of_file(*kernel, each.address); });
    std::unordered_map<std::uint64_t, Found*> by_mapping;
    for (Found& found : found_)
        by_mapping.emplace(found.mapping, &found);
    if (by_mapping.empty()) return ok();
    dump_->for_each_range_with_zeros([&](const DumpFormat::Range& range) {
        for (std::uint64_t at = range.first; at < range.end; at += page_bytes)
            if (const auto page = kernel->file_page(at))
                if (const auto owner = by_mapping.find(page->mapping); owner != by_mapping.end())
                    owner->second->pages.emplace(page->index, at);
    });
    return ok();
}

std::vector<std::string> DumpedChannels::other_versions() const {
    constexpr std::size_t shown_max = 8;
    std::set<std::string> versions;
    for (const OfOtherVersion& each : of_other_versions_)
        if (versions.size() < shown_max) versions.insert(fmt::format("{}.{}", each.major, each.minor));
    return {versions.begin(), versions.end()};
}

/* Of a process the pages lie in a row. */
void DumpedChannels::for_each_page_of(const Found& found, std::uint64_t first, std::uint64_t end,
                                      const std::function<void(std::uint64_t, std::uint64_t)>& visit) const {
    for (const auto& [index, address] : found.pages)
        if (first <= index && index < end) visit(index, address);
    if (dump_->is_of_machine()) return;
    dump_->for_each_range([&](const DumpFormat::Range& range) {
        if (range.end <= found.address) return;
        const std::uint64_t end_in_range = std::min(end, (range.end - found.address) / page_bytes);
        const std::uint64_t before_range =
            range.first > found.address ? (range.first - found.address) / page_bytes : 0;
        for (std::uint64_t index = std::max(first, before_range); index < end_in_range; index++)
            visit(index, found.address + index * page_bytes);
    });
}

/* Zeros stay a hole of the copy: a dump of a few kilobytes may claim to have a terabyte of them. First all before the rings, for
 * what that says of these. */
Result<DumpedChannel> DumpedChannels::copy(std::size_t number) const {
    const Found& found = found_[number];
    auto copy = ChannelCopy::empty(found.header.total_bytes);
    if (!copy) return copy.error();
    const std::span<std::byte> bytes = copy->writable();
    std::array<std::byte, page_bytes> page{};
    const auto take = [&](std::uint64_t index, std::uint64_t address) {
        const std::uint64_t at = index * page_bytes;
        const auto part = std::span(page).first(std::min<std::uint64_t>(page_bytes, bytes.size() - at));
        if (!dump_->read(address, part)) return false;
        if (!is_zero(part)) std::memcpy(bytes.data() + at, part.data(), part.size());
        return true;
    };
    const std::uint64_t rings_at = pages_for(found.header.data_offset);
    std::uint64_t there = 0;
    for_each_page_of(found, 0, rings_at,
                     [&](std::uint64_t index, std::uint64_t address) { there += take(index, address); });
    const PagesWithMemory expected(found.header, bytes);
    for_each_page_of(found, rings_at, pages_for(bytes.size()),
                     [&](std::uint64_t index, std::uint64_t address) {
                         there += take(index, address) && expected.has(index);
                     });
    return DumpedChannel{std::move(*copy), expected.count() - there};
}

} // namespace plumb
