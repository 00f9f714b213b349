// Maps a session's channel into this process and introduces the process to it.
//
// Nothing in the channel is believed without a check: a damaged or hostile file costs this session, never the
// program. What the writers use later are the checked copies in Attachment, so that a change behind our back
// can only hurt what is written there. Positions can not be checked once and for all; they are masked at
// every use, and the guard behind the last ring takes what still goes astray.
#include "open_file.h"
#include "runtime.h"

#include "context/context.h"
#include "ring/inject.h"

#include <plumb/abi/counts.h>

#include <cstddef>
#include <sys/resource.h>

namespace plumb {

namespace {

bool is_power_of_two(uint64_t value) {
    return value != 0 && (value & (value - 1)) == 0;
}

// Whether [offset, offset + bytes) lies within the file and starts on a boundary.
bool is_inside(uint64_t offset, uint64_t bytes, uint64_t total_bytes) {
    return offset % 64 == 0 && offset >= sizeof(plumb_channel_header) && offset <= total_bytes &&
           bytes <= total_bytes - offset;
}

int check_header(const plumb_channel_header& header, uint64_t mapped_bytes, uint64_t cookie) {
    const bool counts = header.mode == PLUMB_MODE_COUNT;
    if (header.magic != (counts ? PLUMB_COUNTS_MAGIC : PLUMB_CHANNEL_MAGIC) ||
        header.version_major != PLUMB_CHANNEL_VERSION_MAJOR)
        return -EPROTO;
    if (header.session_cookie != cookie || header.total_bytes != mapped_bytes) return -EPROTO;
    const uint64_t rings = static_cast<uint64_t>(header.ring_count) + header.extra_ring_count;
    if (header.extra_ring_count == 0 || rings > PLUMB_CHANNEL_MAX_RINGS) return -EPROTO;
    if (!is_power_of_two(header.subbuf_bytes) || header.subbuf_bytes < PLUMB_SUBBUF_MIN_BYTES ||
        header.subbuf_bytes > PLUMB_SUBBUF_MAX_BYTES || !is_power_of_two(header.subbuf_count) ||
        header.subbuf_count < PLUMB_SUBBUF_MIN_COUNT ||
        header.ring_bytes != static_cast<uint64_t>(header.subbuf_bytes) * header.subbuf_count)
        return -EPROTO;
    if (header.ring_bytes > mapped_bytes || !is_power_of_two(header.event_slots) ||
        header.event_slots > PLUMB_EVENT_SLOTS_MAX)
        return -EPROTO;
    if (!is_inside(header.event_slots_offset, uint64_t{8} * header.event_slots, mapped_bytes) ||
        !is_inside(header.entry_slots_offset, uint64_t{8} * header.entry_slots, mapped_bytes) ||
        !is_inside(header.heap_offset, header.heap_bytes, mapped_bytes) ||
        !is_inside(header.control_offset, rings * PLUMB_RING_CONTROL_BYTES, mapped_bytes) ||
        !is_inside(header.data_offset, rings * header.ring_bytes + PLUMB_CHANNEL_GUARD, mapped_bytes))
        return -EPROTO;
    return 0;
}

// Where nothing is counted by fields, `slots` is 0, and so are `buckets` then.
bool are_counts_sound(const plumb_channel_header& header, const plumb_counts& counts) {
    if (counts.slots > PLUMB_COUNT_SLOTS_MAX || counts.buckets > PLUMB_COUNT_BUCKETS) return false;
    return PLUMB_COUNT_TABLE_BYTES(header.event_slots, counts.slots, counts.buckets) <= header.ring_bytes &&
           header.data_offset % alignof(plumb_count) == 0;
}

void copy_geometry(Attachment& attachment, const plumb_channel_header& header) {
    attachment.controls = reinterpret_cast<plumb_ring_control*>(attachment.base + header.control_offset);
    attachment.data = attachment.base + header.data_offset;
    attachment.event_slots = reinterpret_cast<uint64_t*>(attachment.base + header.event_slots_offset);
    attachment.entry_slots = reinterpret_cast<uint64_t*>(attachment.base + header.entry_slots_offset);
    attachment.heap_offset = header.heap_offset;
    attachment.heap_bytes = header.heap_bytes;
    attachment.ring_bytes = header.ring_bytes;
    attachment.block_timeout_ns = header.block_timeout_ns;
    attachment.event_slot_count = header.event_slots;
    attachment.entry_slot_count = header.entry_slots;
    attachment.subbuf_bytes = header.subbuf_bytes;
    attachment.ring_count = header.ring_count;
    attachment.extra_ring_count = header.extra_ring_count;
    attachment.record_limit = PLUMB_RECORD_LIMIT(header.subbuf_bytes);
    attachment.mode = header.mode;
    attachment.clock_mode = header.clock.mode;
    attachment.memory_refused_at = 0;
    attachment.context = header.context & PLUMB_CONTEXT_ALL;
    attachment.callstack_depth =
        header.callstack_depth != 0 ? header.callstack_depth : uint32_t{PLUMB_CALLSTACK_DEPTH};
    if (attachment.callstack_depth > PLUMB_CALLSTACK_MAX_DEPTH)
        attachment.callstack_depth = PLUMB_CALLSTACK_MAX_DEPTH;
    attachment.count_slots = 0;
    attachment.count_buckets = 0;
    know_clock(header.clock);
}

// By time namespaces.
bool is_shifted(uint32_t clock_mode) {
    return clock_mode != PLUMB_CLOCK_TSC && clock_mode != PLUMB_CLOCK_REALTIME;
}

// A limit of the address space is there for the program: of what it has left, a channel takes no more than half. Where
// /proc does not say how much that is, none is taken.
bool leaves_room(uint64_t bytes) {
    rlimit limit = {};
    if (sys::call(SYS_prlimit64, 0, RLIMIT_AS, nullptr, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return true;
    char text[32] = {};
    const OpenFile file("/proc/thread-self/statm", O_RDONLY); // not 0 behind pthread_exit()
    if (file.number() < 0 || sys::read(file.number(), text, sizeof(text) - 1) <= 0) return false;
    uint64_t pages = 0;
    for (const char* at = text; *at >= '0' && *at <= '9'; at++)
        pages = pages * 10 + static_cast<uint64_t>(*at - '0');
    const uint64_t used = pages * 4096;
    return used != 0 && used < limit.rlim_cur && bytes <= (limit.rlim_cur - used) / 2;
}

// Nothing of it is made before it is touched: in a program that locks what it maps from now on (MCL_FUTURE), the kernel would
// fill all of a channel at once, but for what may not be touched yet.
unsigned char* map_shared(uint64_t bytes, int fd) {
    void* const base = sys::map(bytes, PROT_NONE, MAP_SHARED, fd);
    if (base == nullptr || sys::call(SYS_mprotect, base, bytes, PROT_READ | PROT_WRITE) == 0)
        return static_cast<unsigned char*>(base);
    sys::unmap(base, bytes);
    return nullptr;
}

// Maps the file and checks it: 0, or -errno with nothing left open.
int map_channel(int fd, uint64_t cookie, Attachment& attachment) {
    struct stat info;
    int error = sys::status(fd, &info);
    if (error != 0) return error;
    const auto bytes = static_cast<uint64_t>(info.st_size);
    if (!S_ISREG(info.st_mode) || bytes < sizeof(plumb_channel_header)) return -EPROTO;
    // What is not a ring must have its memory: a page that is first needed when there is none left is a bus error.
    const uint64_t memory_bytes = static_cast<uint64_t>(info.st_blocks) * 512;
    if (memory_bytes < sizeof(plumb_channel_header)) return -ENOSPC;
    if (!leaves_room(bytes)) return -ENOMEM;
    unsigned char* const base = map_shared(bytes, fd);
    if (base == nullptr) return -ENOMEM;
    plumb_channel_header header; // a copy: it can not change between check and use
    __builtin_memcpy(&header, base, sizeof(header));
    error = check_header(header, bytes, cookie);
    if (error == 0 && memory_bytes < header.data_offset) error = -ENOSPC;
    plumb_counts counts = {};
    if (error == 0 && header.mode == PLUMB_MODE_COUNT) {
        __builtin_memcpy(&counts, base + PLUMB_COUNTS_OFFSET, sizeof(counts));
        if (!are_counts_sound(header, counts)) error = -EPROTO;
    }
    if (error != 0) {
        sys::unmap(base, bytes);
        return error;
    }
    attachment.base = base;
    attachment.header = reinterpret_cast<plumb_channel_header*>(base);
    attachment.mapped_bytes = bytes;
    copy_geometry(attachment, header);
    attachment.count_slots = counts.slots;
    attachment.count_buckets = counts.buckets;
    return 0;
}

int open_and_map_channel(uint64_t cookie, Attachment& attachment) {
    const OpenFile file = open_channel(cookie);
    return file.number() < 0 ? file.number() : map_channel(file.number(), cookie, attachment);
}

} // namespace

// Which tag tells our namespace from others in this channel. Whoever comes first enters it.
uint32_t thread_tag_in(plumb_channel_header& header) {
    const uint32_t space = process_namespace();
    if (space == load_relaxed(header.creator_namespace)) return 0;
    for (uint32_t tag = 1; space != 0 && tag < PLUMB_NAMESPACES; tag++) {
        uint32_t there = load_relaxed(header.namespaces[tag]);
        if (there == space || (there == 0 && compare_exchange(header.namespaces[tag], there, space)) ||
            there == space)
            return tag << PLUMB_TAG_SHIFT;
    }
    return PLUMB_TAG_UNKNOWN << PLUMB_TAG_SHIFT;
}

int attach(uint32_t session, uint64_t cookie) {
    look_at_descriptor_table();
    // `usable` is 0 all the while, so nobody else looks at the rest.
    Attachment& place = attachments[session];
    const int error = open_and_map_channel(cookie, place);
    if (error != 0) return error;
    if (!may_read_clock()) {
        add_seq_cst(place.header->refused[PLUMB_REFUSED_CLOCK], uint64_t{1});
        sys::unmap(place.base, place.mapped_bytes);
        return -PLUMB_ERROR_NO_CLOCK;
    }
    if (is_shifted(place.clock_mode) && !know_time_namespace()) {
        sys::unmap(place.base, place.mapped_bytes);
        return -PLUMB_ERROR_TIME_NAMESPACE;
    }
    place.thread_tag = thread_tag_in(*place.header);
    context::know_process(place.context);
    place.epoch = runtime.epoch + 1;
    // Last: a fork that happens in another thread meanwhile copies a place that is free, or a whole
    // attachment.
    store_release(place.cookie, cookie);
    if (!place.counts()) introduce_process(place, true);
    store_release(place.usable, 1u);
    inject(InjectionPoint::session_usable);
    store_release(runtime.epoch, place.epoch); // after `usable`: see introduce_thread()
    publish_writer(session);
    return 0;
}

// The fast path is for restartable sequences with the cycle counter; ring_count 0 sends everything else to
// plumb_emit_slow().
void publish_writer(uint32_t session) {
    const Attachment& attachment = attachments[session];
    plumb_writer& writer = runtime.writers[session];
    const bool fast = uses_sequences() && (attachment.counts() ? !attachment.counts_by_fields()
                                                               : attachment.clock_mode == PLUMB_CLOCK_TSC);
    // A writer of the session that had this place before may still look; its sequence then finds the event
    // off.
    store_relaxed(writer.control, reinterpret_cast<unsigned char*>(attachment.controls));
    store_relaxed(writer.data, attachment.data);
    store_relaxed(writer.ring_bytes, attachment.ring_bytes);
    store_relaxed(writer.position_mask, attachment.ring_bytes - 1);
    store_relaxed(writer.clock_mode, static_cast<uint16_t>(attachment.clock_mode));
    store_relaxed(writer.mode, static_cast<uint16_t>(attachment.mode));
    store_relaxed(writer.thread_tag, attachment.thread_tag);
    store_release(writer.epoch, attachment.epoch); // who sees it sees all above
    store_relaxed(writer.session_bit, 1u << session);
    store_relaxed(writer.id_offset,
                  static_cast<uint32_t>(offsetof(plumb_event, ids) + session * sizeof(uint16_t)));
    store_relaxed(writer.sequence_rings, uses_sequences() ? attachment.ring_count : 0);
    store_release(writer.ring_count, fast ? attachment.ring_count : 0);
    // Last: of a page that was wiped it alone sends everybody to the slow path. Without `session_bit`, the fast path takes each
    // event for one that is off.
    store_release(writer.record_limit, attachment.counts() ? 0 : attachment.record_limit);
}

// Without membarrier nobody knows whether a sequence still sees the channel, so it stays mapped.
void detach(uint32_t session) {
    Attachment& attachment = attachments[session];
    store_release(runtime.writers[session].ring_count, 0u);
    store_release(runtime.writers[session].sequence_rings, 0u);
    unsigned char* base = attachment.base;
    const uint64_t mapped_bytes = attachment.mapped_bytes;
    // Before: the child of a fork that happens in another thread meanwhile must not unmap these addresses
    // again.
    store_seq_cst(attachment.cookie, uint64_t{0});
    if (load_relaxed(runtime.sequences_lost) == 0 && load_relaxed(runtime.sequences_go_on) == 0)
        sys::unmap(base, mapped_bytes);
}

} // namespace plumb
