/*
 * The memory of a channel's rings, which are holes in its file until they are written. Writers take it sub-buffer by
 * sub-buffer (<plumb/abi/channel.h>); the recorder is ahead of them where it can be: then it counts against the recorder's
 * limits and not against theirs, and it takes all of it for programs that may make no system calls.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_RING_MEMORY_H
#define PLUMB_CONSUMERD_CONTROL_RING_MEMORY_H

#include <plumb/abi/channel.h>

#include <cstddef>
#include <cstdint>

namespace plumb {

struct ChannelLayout;

/* Can be copied. File and mapping must outlive it. */
class RingMemory {
public:
    RingMemory(int fd, std::byte* channel, const ChannelLayout& layout);

    /* Whether this kernel can give a mapping memory, or say that there is none (MADV_POPULATE_WRITE, Linux 5.14): else
     * writers can not, and rings have all of theirs from the beginning. `page`: a shared, writable one that is there. */
    static bool can_be_taken_by_writers(void* page);

    /* What has been written twice over, or everything if somebody wants that; nothing of a ring that nobody has written.
     * What is refused is asked for again after a while. Never fails: whoever comes to what is not there loses events, which
     * are counted. */
    void keep_ahead(std::uint32_t ring);
    /* If somebody wants it. */
    void reserve_all_if_wanted();
    /* Without asking: rings whose memory was reserved with the file. */
    void note_all_reserved();

private:
    plumb_channel_header& header() const { return *reinterpret_cast<plumb_channel_header*>(channel_); }
    plumb_ring_control& control(std::uint32_t ring) const;
    bool is_all_wanted() const;
    void reserve(std::uint32_t ring, std::uint64_t up_to);

    int fd_;
    std::byte* channel_;
    std::uint64_t control_offset_;
    std::uint64_t data_offset_;
    std::uint64_t ring_bytes_;
    std::uint32_t rings_;
    std::uint64_t refused_until_ns_ = 0;
};

} // namespace plumb

#endif
