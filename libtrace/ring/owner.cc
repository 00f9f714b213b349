#include "owner.h"

#include "../signals_held.h"

#include <sched.h>

namespace plumb {

namespace {

uint64_t owner_word(const Writer& writer) {
    return PLUMB_OWNER(process_namespace(), writer.process_id, writer.thread_id);
}

// Whether the owner will never write again: it does not exist, or is a zombie that nobody has waited for yet.
bool is_gone(uint64_t owner, uint64_t mine) {
    if (PLUMB_OWNER_SPACE(owner) != PLUMB_OWNER_SPACE(mine) || PLUMB_OWNER_SPACE(owner) == 0) return false;
    const uint32_t process_id = PLUMB_OWNER_PROCESS(owner);
    const uint32_t thread_id = PLUMB_OWNER_THREAD(owner);
    return sys::call(SYS_tgkill, process_id, thread_id, 0) == -ESRCH || is_zombie(process_id, thread_id);
}

// Only a hint; that of the CPU may take a system call.
uint32_t where_to_begin(const Writer& writer) {
    if (is_held()) return writer.thread_id;
    const int saved = errno;
    const int cpu = sched_getcpu();
    errno = saved;
    return cpu < 0 ? 0 : static_cast<uint32_t>(cpu);
}

} // namespace

uint32_t first_extra_ring(const Attachment& attachment, const Writer& writer) {
    return attachment.ring_count + where_to_begin(writer) % attachment.extra_ring_count;
}

uint32_t take_extra_ring(Attachment& attachment, const Writer& writer, bool thorough) {
    const uint64_t mine = owner_word(writer);
    const uint32_t start = where_to_begin(writer);
    for (uint32_t i = 0; i < attachment.extra_ring_count; i++) {
        const uint32_t ring = attachment.ring_count + (start + i) % attachment.extra_ring_count;
        uint64_t owner = load_relaxed(attachment.controls[ring].owner);
        const bool take = owner == 0 || (owner == mine ? is_alone() : thorough && is_gone(owner, mine));
        if (take && compare_exchange(attachment.controls[ring].owner, owner, mine)) return ring;
    }
    return no_ring;
}

void leave_extra_ring(Attachment& attachment, uint32_t ring, const Writer& writer) {
    uint64_t mine = owner_word(writer);
    compare_exchange(attachment.controls[ring].owner, mine, uint64_t{0});
}

} // namespace plumb
