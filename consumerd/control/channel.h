/*
 * A channel from its creator's side: a file of shared memory that is a complete trace at every instant
 * (layout and rules: <plumb/abi/channel.h>). Too little room for all of it is an error message here, and never a SIGBUS in
 * the application. Rings may get their memory when they are written (ring_memory.h), if that is asked for, unless their
 * sub-buffers are large, or the kernel is too old for it.
 *
 * This class makes, closes and removes channels. It does not read records: that is channel_reader.h, which
 * trusts nothing in them.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_CHANNEL_H
#define PLUMB_CONSUMERD_CONTROL_CHANNEL_H

#include "base/file.h"
#include "base/mapped_region.h"
#include "base/result.h"
#include "consumerd/control/life_lock.h"
#include "consumerd/control/ring_memory.h"
#include "consumerd/control/user_directory.h"
#include "consumerd/event/elf_events.h"

#include <plumb/abi/channel.h>
#include <plumb/abi/counts.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace plumb {

/* What a channel counts, in place of records (<plumb/abi/counts.h>): names of fields, empty if there is none. */
struct CountsConfig {
    static constexpr std::uint32_t keys_max = PLUMB_COUNT_SLOTS_MAX / 2;

    std::string key, sum, hist;
    std::uint32_t keys = 1024; /* that have room, on each CPU */

    bool has_slots() const { return !key.empty() || !hist.empty(); }
    plumb_counts encode() const;
};

struct ChannelConfig {
    plumb_domain domain = PLUMB_DOMAIN_USER;
    std::string session_name = "plumb"; /* at most 63 bytes */
    plumb_ring_mode mode = PLUMB_MODE_DISCARD;
    bool rings_on_demand = false; /* rings take their memory when they are written, where that is possible */
    bool is_global = false;       /* one ring for all CPUs, which writers take turns at */
    bool is_kept = false;         /* its session outlives its controller, and another one takes it over */
    std::uint32_t subbuf_bytes = 512 * 1024;        /* a power of two */
    std::uint32_t subbuf_count = 8;                 /* a power of two; of each ring */
    std::uint64_t block_timeout_ns = 0;             /* PLUMB_MODE_BLOCK: how long a writer waits for room */
    plumb_clock_mode clock_mode = PLUMB_CLOCK_NONE; /* NONE: the best this machine has */
    std::uint32_t context = 0;                      /* what every record is to have: PLUMB_CONTEXT_* */
    std::uint32_t callstack_depth = 0;              /* 0: the usual one */
    std::uint32_t event_slots = 4096;               /* a power of two */
    std::uint32_t entry_slots = 16384;
    std::uint64_t heap_bytes = 0;       /* 0: an eighth of what the rings have, within the limits below */
    std::uint32_t ring_count = 0;       /* 0: one for each CPU that this machine can have */
    std::uint32_t extra_ring_count = 0; /* 0: clamp(ring_count, 4, 16) */
    std::optional<CountsConfig> counts = {};
};

/* A channel that counts, with tables that are large enough; or what of this can not be. */
Result<ChannelConfig> counting_channel(const CountsConfig& counts);

/* The larger one holds as many entries as there are slots for. */
inline constexpr std::uint64_t usual_heap_bytes_min = 2 * 1024 * 1024;
inline constexpr std::uint64_t usual_heap_bytes_max = 4 * 1024 * 1024;

/* Where everything is, as computed from a valid configuration. */
struct ChannelLayout {
    std::uint32_t ring_count;
    std::uint32_t extra_ring_count;
    std::uint64_t event_slots_offset;
    std::uint64_t entry_slots_offset;
    std::uint64_t heap_offset;
    std::uint64_t heap_bytes;
    std::uint64_t control_offset;
    std::uint64_t data_offset;
    std::uint64_t ring_bytes;
    std::uint64_t total_bytes;
};

/* Rings of CPUs, and those that are taken in turns. */
struct RingCounts {
    std::uint32_t of_cpus, extra;
};
RingCounts ring_counts(const ChannelConfig& config);

/* Refuses what the ABI does not allow, naming the setting and its limits. */
Result<ChannelLayout> lay_out_channel(const ChannelConfig& config);

/* Whether a ring of such a channel takes memory only when it is written: that was asked for, and this kernel can. */
bool do_rings_get_memory_later(const ChannelConfig& config);

/* One more than the highest CPU number that can appear. */
std::uint32_t possible_ring_count();

/* "channel-0123456789abcdef" */
std::string channel_file_name(std::uint64_t cookie);
/* The cookie in a channel's file name, if it is one. */
std::optional<std::uint64_t> channel_cookie_of(const std::string& file_name);

/* A random number, not 0. */
std::uint64_t random_cookie();

class Channel {
public:
    /* Makes a channel in the user's directory. */
    static Result<Channel> create(const UserDirectory& directory, const ChannelConfig& config,
                                  std::uint64_t cookie = random_cookie());
    /* Takes one over whose controller is gone, as it is: number() of the error is EBUSY if that lives, ENOENT if there is no such
     * channel, EBADMSG if programs have damaged its header so that nobody can. */
    static Result<Channel> adopt(const UserDirectory& directory, std::uint64_t cookie);
    Channel(Channel&&) noexcept = default;
    Channel& operator=(Channel&&) noexcept = default;

    plumb_channel_header& header() { return *static_cast<plumb_channel_header*>(region_.get_address()); }
    const plumb_channel_header& header() const {
        return *static_cast<const plumb_channel_header*>(region_.get_address());
    }
    /* The whole mapping, shared with the writers. */
    std::span<std::byte> bytes() {
        return {static_cast<std::byte*>(region_.get_address()), region_.get_size()};
    }
    std::span<const std::byte> bytes() const {
        return {static_cast<const std::byte*>(region_.get_address()), region_.get_size()};
    }
    /* Its layout as it was when made: what writers did to the header since does not change it. */
    const ChannelLayout& layout() const { return layout_; }
    const ChannelConfig& config() const { return config_; }
    /* The header as it was then. */
    const plumb_channel_header& made_as() const { return made_as_; }
    std::uint64_t cookie() const { return cookie_; }
    const std::string& path() const { return path_; }
    int fd() const { return fd_.get(); }
    RingMemory ring_memory() { return RingMemory(fd_.get(), bytes().data(), layout_); }
    /* Whether another program has shortened the file: a part of what it held is gone. */
    bool was_truncated() const;

    /* Whether writers were told to stop, by whoever it was. */
    bool is_closed() const { return __atomic_load_n(&header().closed, __ATOMIC_RELAXED) != 0; }

    /* Puts the description of an event that only we write, or have written, into the table. */
    Status add_event(std::uint16_t id, const EventDescription& event);

    /* Tells every writer to stop: sets `closed`, takes the room from every ring, wakes writers that wait for
     * room. What is in the rings stays. May be called twice. */
    void close();

    /* Removes the name. The memory lives on until the last mapping is gone. May be called twice. */
    Status unlink();

private:
    Channel(FileDescriptor fd, LifeLock lock, MappedRegion region, ChannelLayout layout, ChannelConfig config,
            std::uint64_t cookie, std::string path, const plumb_channel_header& made_as)
        : fd_(std::move(fd)),
          lock_(std::move(lock)),
          region_(std::move(region)),
          layout_(layout),
          config_(std::move(config)),
          cookie_(cookie),
          path_(std::move(path)),
          made_as_(made_as) {}

    FileDescriptor fd_;
    LifeLock lock_; /* held for as long as this exists: that it is ours */
    MappedRegion region_;
    ChannelLayout layout_;
    ChannelConfig config_;
    std::uint64_t cookie_;
    std::string path_;
    plumb_channel_header made_as_;
};

/* Closes a channel file that its session left behind: its writers stop. Its content is not trusted. */
void close_dead_channel(const UserDirectory& directory, const std::string& file_name);

/* Closes and removes a channel file that its session left behind. Its content is not trusted. */
Status remove_dead_channel(const UserDirectory& directory, const std::string& file_name);

} // namespace plumb

#endif
