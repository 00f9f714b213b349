// Entries of a channel: who wrote. Each stands in a slot's block of the heap; include/plumb/abi/channel.h draws a slot's
// life. The consumer frees what belongs to processes and threads that are gone; slot and block are used again here.
//
// Any number of processes may do this at once, from signal handlers too, and be killed anywhere: who dies between claim()
// and the last store takes one slot and its block along, and nothing else. What stands in the channel is not trusted:
// a block is used only if it lies in the heap, and the search is bounded by the number of slots.
#include "runtime.h"

namespace plumb {

namespace {

struct Claim {
    uint32_t index = 0;
    uint64_t offset = 0; // of the block, from the channel's start; 0: none could be had
};

bool lies_in_heap(const Attachment& attachment, uint64_t offset, uint64_t bytes) {
    return offset % 8 == 0 && offset >= attachment.heap_offset &&
           offset - attachment.heap_offset <= attachment.heap_bytes &&
           bytes <= attachment.heap_bytes - (offset - attachment.heap_offset);
}

// What may be taken: a quarter of the heap is left to descriptions of events, without which nothing can be recorded, and
// half of the rest and of the slots to processes and threads, whose records would be nobody's: without an object an
// address has no symbol, and no more.
struct Room {
    uint32_t slots;
    uint64_t heap_bytes;
};

Room room_for(const Attachment& attachment, uint16_t type) {
    const uint64_t heap_bytes = attachment.heap_bytes - attachment.heap_bytes / 4;
    if (type != PLUMB_ENTRY_OBJECT) return {attachment.entry_slot_count, heap_bytes};
    return {attachment.entry_slot_count - attachment.entry_slot_count / 2, heap_bytes - heap_bytes / 2};
}

bool heap_has_room_for_entry(const Attachment& attachment, uint64_t limit, uint64_t bytes) {
    const uint64_t used = load_relaxed(attachment.header->heap_used);
    return used <= limit && bytes <= limit - used;
}

// Makes the slot ours, with a block of at least `bytes`; `fitting`: only with one of exactly that capacity, or none yet.
bool claim_slot_at(Attachment& attachment, uint32_t index, uint64_t heap_limit, uint32_t bytes, bool fitting,
                   Claim& claim) {
    uint64_t slot = load_relaxed(attachment.entry_slots[index]);
    if (slot != 0 && (slot & PLUMB_SLOT_FREE) == 0) return false;
    const uint32_t wanted = PLUMB_ENTRY_CAPACITY(bytes);
    const uint64_t offset = PLUMB_SLOT_OFFSET(slot & ~PLUMB_SLOT_FREE);
    const uint32_t capacity = PLUMB_SLOT_BYTES(slot);
    const bool has_block = slot != 0 && capacity >= bytes && lies_in_heap(attachment, offset, capacity);
    if (fitting && slot != 0 && !(has_block && capacity == wanted)) return false;
    if (!has_block && !heap_has_room_for_entry(attachment, heap_limit, wanted)) return false;
    const uint64_t before = slot;
    if (!compare_exchange(attachment.entry_slots[index], slot, uint64_t{PLUMB_SLOT_CLAIMED})) return false;
    claim.index = index;
    claim.offset = has_block ? offset : reserve_heap(attachment, wanted);
    if (claim.offset != 0) return true;
    store_release(attachment.entry_slots[index], before);
    return false;
}

bool claim_slot_for(Attachment& attachment, uint16_t type, uint32_t bytes, Claim& claim) {
    const Room room = room_for(attachment, type);
    const uint32_t count = room.slots;
    if (count == 0) return false;
    const uint32_t start = load_relaxed(attachment.header->entry_hint) % count;
    for (int round = 0; round < 2; round++) {
        const bool fitting = round == 0;
        for (uint32_t i = 0, index = start; i < count; i++, index = index + 1 < count ? index + 1 : 0) {
            if (claim_slot_at(attachment, index, room.heap_bytes, bytes, fitting, claim)) return true;
        }
    }
    return false;
}

// Who would look through all slots for an object's block learns that another one just did.
bool are_objects_full(const Attachment& attachment) {
    const plumb_channel_header& header = *attachment.header;
    return load_relaxed(header.objects_full) == PLUMB_OBJECTS_FULL(load_seq_cst(header.entries_freed));
}

bool claim_slot_of(Attachment& attachment, uint16_t type, uint32_t bytes, Claim& claim) {
    if (type != PLUMB_ENTRY_OBJECT) return claim_slot_for(attachment, type, bytes, claim);
    if (are_objects_full(attachment)) return false;
    const uint32_t freed = load_seq_cst(attachment.header->entries_freed); // before it looks
    if (claim_slot_for(attachment, type, bytes, claim)) return true;
    store_relaxed(attachment.header->objects_full, PLUMB_OBJECTS_FULL(freed));
    return false;
}

// In the channel's copy: the entry may be for other channels as well, which have tags of their own.
void tag_numbers(plumb_entry& placed, uint32_t tag) {
    placed.process_id |= tag;
    placed.thread_id |= tag;
    if (placed.type != PLUMB_ENTRY_PROCESS) return;
    auto& process = reinterpret_cast<plumb_entry_process&>(placed);
    if (process.parent_process_id != 0) process.parent_process_id |= tag;
}

} // namespace

// Reserves bytes of the channel's heap, for good. The offset from the channel's start, or 0 if the heap is full.
uint64_t reserve_heap(Attachment& attachment, uint64_t bytes) {
    const uint64_t rounded = (bytes + 7) & ~7ull;
    uint64_t start = load_relaxed(attachment.header->heap_used);
    do {
        if (start > attachment.heap_bytes || rounded > attachment.heap_bytes - start || start % 8 != 0)
            return 0; // and nothing is taken: there may be room for less
    } while (!compare_exchange(attachment.header->heap_used, start, start + rounded));
    return attachment.heap_offset + start;
}

// Puts a complete entry into the channel; of this process, unless it says which.
void add_entry(Attachment& attachment, plumb_entry& entry, uint32_t bytes) {
    if (attachment.counts()) return; // counts are nobody's
    entry.bytes = bytes;
    entry.timestamp = read_clock(attachment.clock_mode);
    if (entry.process_id == 0) entry.process_id = runtime.process_id;
    Claim claim;
    if (bytes > PLUMB_ENTRY_MAX_BYTES || !claim_slot_of(attachment, entry.type, bytes, claim)) {
        add_seq_cst(attachment.header->refused[PLUMB_REFUSED_ENTRY_SLOTS], uint64_t{1});
        return;
    }
    __builtin_memcpy(attachment.base + claim.offset, &entry, bytes);
    tag_numbers(*reinterpret_cast<plumb_entry*>(attachment.base + claim.offset), attachment.thread_tag);
    store_release(attachment.entry_slots[claim.index], PLUMB_SLOT(claim.offset, bytes));
    add_seq_cst(attachment.header->entries_added, uint64_t{1});
    store_relaxed(attachment.header->entry_hint, claim.index + 1);
}

} // namespace plumb
