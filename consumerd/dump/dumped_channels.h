/*
 * The channels in a dump of memory, without symbols: of the machine that crashed, each with all its pages, whoever had them
 * mapped, or of a process, those that it had mapped. A channel is a complete trace at every instant: what was published
 * before the crash is in it, but for pages that had been swapped out.
 */
#ifndef PLUMB_CONSUMERD_DUMP_DUMPED_CHANNELS_H
#define PLUMB_CONSUMERD_DUMP_DUMPED_CHANNELS_H

#include "base/result.h"
#include "consumerd/dump/channel_copy.h"
#include "consumerd/dump/kernel_memory.h"
#include "consumerd/dump/memory_dump.h"

#include <plumb/abi/channel.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

namespace plumb {

struct DumpedChannel {
    ChannelCopy copy;
    std::uint64_t missing_pages; /* that had memory, and can not be had from the dump */
};

/* One after the other is copied out of it. */
class DumpedChannels {
public:
    /* In the order of their pages in the dump; several copies of one channel are several. `dump` must outlive it. */
    static Result<DumpedChannels> find(const MemoryDump& dump);

    std::size_t count() const { return found_.size(); }
    const plumb_channel_header& header(std::size_t number) const { return found_[number].header; }
    Result<DumpedChannel> copy(std::size_t number) const;
    /* Pages of the dump that can not be read: whole channels may be there. */
    std::uint64_t unreadable_pages() const { return unreadable_pages_; }
    /* "7.1": of what looks like channels that another version of Plumb made, which are left out. */
    std::vector<std::string> other_versions() const;
    /* What looked like channels beyond all that there can be. */
    std::uint64_t left_out() const { return left_out_; }

private:
    struct Found {
        std::uint64_t address; /* of its first page */
        plumb_channel_header header;
        std::uint64_t mapping = 0; /* of a machine */
        std::unordered_map<std::uint64_t, std::uint64_t>
            pages{}; /* of a machine: index in the channel -> address in the dump */
    };
    struct OfOtherVersion {
        std::uint64_t address;
        std::uint16_t major, minor;
    };
    explicit DumpedChannels(const MemoryDump& dump) : dump_(&dump) {}
    void scan();
    Result<KernelMemory> kernel_memory() const;
    Status find_pages();
    /* With the index of each in the channel; of `first` and all behind, before `end`. */
    void for_each_page_of(const Found& found, std::uint64_t first, std::uint64_t end,
                          const std::function<void(std::uint64_t index, std::uint64_t address)>& visit) const;

    const MemoryDump* dump_;
    std::vector<Found> found_;
    std::vector<OfOtherVersion> of_other_versions_;
    std::vector<std::uint64_t> vmcoreinfo_pages_; /* that look like it */
    std::uint64_t unreadable_pages_ = 0, left_out_ = 0;
};

} // namespace plumb

#endif
