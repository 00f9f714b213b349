#include "memory.h"

#include <errno.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace plumb {

namespace {

// Of the channel's clock: 5 to 17 ms. Where there is none left, not every event is to ask for it.
constexpr uint64_t pause = uint64_t{1} << 24;

// Of what rings have, for a process that takes it ahead.
constexpr uint64_t own_share = uint64_t{64} << 20;

void raise(uint64_t& word, uint64_t to) {
    uint64_t now = load_relaxed(word);
    while (now < to && !compare_exchange(word, now, to))
        now = load_relaxed(word);
}

void want_all(plumb_channel_header& header) {
    store_seq_cst(header.memory_wanted, 1u);
    add_seq_cst(header.data_futex, 1u);
    sys::futex_wake_all(header.data_futex);
}

// The kernel says so if there is none, where a store would be a bus error.
long populate(const Attachment& attachment, uint32_t ring, uint64_t begin, uint64_t end) {
    constexpr uintptr_t page_mask = 4095;
    const auto data = reinterpret_cast<uintptr_t>(attachment.data + ring * attachment.ring_bytes);
    const uintptr_t from = (data + begin) & ~page_mask;
    return sys::call(SYS_madvise, from, data + end - from, MADV_POPULATE_WRITE);
}

bool is_all_there(const Attachment& attachment) {
    for (uint32_t ring = 0; ring < attachment.ring_count + attachment.extra_ring_count; ring++)
        if (load_relaxed(attachment.controls[ring].memory) < attachment.ring_bytes) return false;
    return true;
}

// So many bytes more for each ring, as far as `left` goes.
void take_ahead(Attachment& attachment, uint64_t bytes, uint64_t& left) {
    for (uint32_t ring = 0; ring < attachment.ring_count + attachment.extra_ring_count; ring++) {
        plumb_ring_control& control = attachment.controls[ring];
        const uint64_t there = load_relaxed(control.memory);
        if (there >= attachment.ring_bytes) continue;
        const uint64_t more = bytes < attachment.ring_bytes - there ? bytes : attachment.ring_bytes - there;
        if (more > left || populate(attachment, ring, there, there + more) != 0) return;
        left -= more;
        raise(control.memory, there + more);
    }
}

} // namespace

Memory memory_for(Attachment& attachment, plumb_ring_control& control, uint32_t ring, uint64_t boundary) {
    const uint64_t end = boundary < attachment.ring_bytes ? boundary : attachment.ring_bytes;
    const uint64_t there = load_relaxed(control.memory);
    if (there >= end) return Memory::there;
    if (is_held()) {
        store_seq_cst(attachment.header->memory_wanted, 1u);
        return Memory::held;
    }
    const uint64_t now = read_clock(attachment.clock_mode);
    if (const uint64_t refused_at = load_relaxed(attachment.memory_refused_at);
        refused_at != 0 && now - refused_at < pause)
        return Memory::refused;
    const long error = populate(attachment, ring, there, end);
    if (error == 0) {
        raise(control.memory, end);
        return Memory::there;
    }
    // A filter refuses the call, perhaps: the recorder has none.
    if (error != -EFAULT && error != -ENOMEM) want_all(*attachment.header);
    store_relaxed(attachment.memory_refused_at, now | 1);
    return Memory::refused;
}

void take_memory_ahead() {
    for (Attachment& attachment : attachments) {
        if (load_seq_cst(attachment.usable) == 0) continue;
        if (is_all_there(attachment)) continue;
        uint64_t left = own_share;
        take_ahead(attachment, attachment.subbuf_bytes, left);
        // Nobody reads a flight recorder's rings: its recorder comes by every second or two.
        if (attachment.mode == PLUMB_MODE_OVERWRITE) take_ahead(attachment, attachment.ring_bytes, left);
        want_all(*attachment.header);
    }
}

} // namespace plumb
