#include "owner.h"

#include "../signals_held.h"

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

// Not by sched_getcpu() of the C library: a program may have one of its own in its place, which may write events (clock.cc).
using CpuFunction = long (*)(unsigned*, unsigned*, void*);
CpuFunction vdso_getcpu; // nullptr: not looked for yet, or there is none
uint32_t looked_for_getcpu;

#if defined(__x86_64__)
constexpr const char* vdso_getcpu_name = "__vdso_getcpu";
#else
constexpr const char* vdso_getcpu_name = "__kernel_getcpu";
#endif

// Only a hint, for which no system call is made.
uint32_t where_to_begin(const Attachment& attachment, const Writer& writer) {
    if (attachment.extra_ring_count == 1) return 0;
    if (load_relaxed(looked_for_getcpu) == 0) {
        store_release(vdso_getcpu, reinterpret_cast<CpuFunction>(find_in_vdso(vdso_getcpu_name)));
        store_release(looked_for_getcpu, 1u);
    }
    const CpuFunction function = load_acquire(vdso_getcpu);
    unsigned cpu = 0;
    if (is_held() || function == nullptr || function(&cpu, nullptr, nullptr) != 0) return writer.thread_id;
    return cpu;
}

} // namespace

uint32_t first_extra_ring(const Attachment& attachment, const Writer& writer) {
    return attachment.ring_count + where_to_begin(attachment, writer) % attachment.extra_ring_count;
}

uint32_t take_extra_ring(Attachment& attachment, const Writer& writer, bool thorough) {
    const uint64_t mine = owner_word(writer);
    const uint32_t start = where_to_begin(attachment, writer);
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
