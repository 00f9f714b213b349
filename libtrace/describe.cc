// An event as the channel's table holds it: the compiler's structs become self-contained bytes (abi/event.h)
// in the channel's heap, and a slot of the event table points to them. The slot's index is the event's id.
//
// Any number of processes may do this at once, and be killed anywhere. The table is a hash table by open
// addressing over the description's identity; a slot is taken by one compare-and-swap. Who loses looks at
// what the winner put there: an equal description is shared, and the loser's bytes in the heap stay unused.
#include "bytes.h"
#include "runtime.h"

#include "context/context.h"

#include <plumb/detail/marker_names.h>

namespace plumb {

namespace {

// Built here by the owner of `updating`, so one is enough.
alignas(8) unsigned char description[PLUMB_EVENT_MAX_DESCRIPTION_BYTES];

class Builder {
public:
    // Offset of the reserved bytes, zeroed; or 0 if there is no room.
    uint32_t reserve(uint32_t bytes) {
        if (bytes > sizeof(description) - used_) {
            overflow_ = true;
            return 0;
        }
        __builtin_memset(description + used_, 0, bytes);
        const uint32_t offset = used_;
        used_ += bytes;
        return offset;
    }
    uint32_t add_string(const char* text) {
        const auto bytes = static_cast<uint32_t>(length_of(text)) + 1;
        const uint32_t offset = reserve(bytes);
        if (!overflow_) __builtin_memcpy(description + offset, text, bytes);
        return offset;
    }
    uint32_t used() const { return used_; }
    bool overflow() const { return overflow_; }

private:
    uint32_t used_ = 0;
    bool overflow_ = false;
};

template <typename T>
T* at(uint32_t offset) {
    return reinterpret_cast<T*>(description + offset);
}

// Context, and behind it the event's own.
class Fields {
public:
    Fields(const plumb_event_info& info, uint32_t context) : info_(info), context_(context) {
        while (context::field(context_, context_count_) != nullptr)
            context_count_++;
    }
    uint32_t count() const { return context_count_ + info_.field_count; }
    uint32_t context_count() const { return context_count_; }
    const plumb_event_field& operator[](uint32_t index) const {
        return index < context_count_ ? *context::field(context_, index)
                                      : info_.fields[index - context_count_];
    }

private:
    const plumb_event_info& info_;
    uint32_t context_;
    uint32_t context_count_ = 0;
};

uint32_t label_count_of(const Fields& all) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < all.count(); i++)
        count += all[i].label_count;
    return count;
}

void add_names(Builder& builder, const plumb_event_info& info, const Fields& all, plumb_field* fields,
               plumb_label* labels) {
    uint32_t label = 0;
    for (uint32_t i = 0; i < all.count(); i++) {
        const plumb_event_field& from = all[i];
        char name[64];
        if (from.name == nullptr && info.format != nullptr)
            plumb_marker_field_name(info.format, i - all.context_count(), name, sizeof(name));
        fields[i].type = from.type;
        fields[i].size = from.size;
        fields[i].flags = from.flags;
        fields[i].array_length = from.array_length;
        fields[i].label_count = from.label_count;
        fields[i].label_first = label;
        fields[i].name_offset = builder.add_string(from.name != nullptr ? from.name : name);
        for (uint32_t k = 0; k < from.label_count; k++, label++) {
            labels[label].value = from.labels[k].value;
            labels[label].name_offset = builder.add_string(from.labels[k].name);
        }
    }
}

// The number of bytes in `description`, or 0 if the event is too large to describe.
uint32_t build(const plumb_event_info& info, uint32_t context) {
    Builder builder;
    const Fields all(info, context);
    const uint32_t label_count = label_count_of(all);
    if (info.field_count > PLUMB_EVENT_MAX_FIELDS || label_count > UINT16_MAX) return 0;
    builder.reserve(sizeof(plumb_event_header));
    const uint32_t fields = builder.reserve(all.count() * static_cast<uint32_t>(sizeof(plumb_field)));
    const uint32_t labels = builder.reserve(label_count * static_cast<uint32_t>(sizeof(plumb_label)));
    if (builder.overflow()) return 0;
    auto* header = at<plumb_event_header>(0);
    header->provider_offset = builder.add_string(info.provider);
    header->name_offset = builder.add_string(info.name);
    header->field_count = static_cast<uint16_t>(all.count());
    header->label_count = static_cast<uint16_t>(label_count);
    header->log_level = info.log_level;
    add_names(builder, info, all, at<plumb_field>(fields), at<plumb_label>(labels));
    header->identity_end = builder.used();
    if (info.source_file != nullptr) {
        header->source_offset = builder.add_string(info.source_file);
        header->source_line = info.source_line;
    }
    builder.reserve((8 - builder.used() % 8) % 8);
    header->total_bytes = builder.used();
    return builder.overflow() ? 0 : builder.used();
}

// FNV-1a.
uint64_t hash_identity(uint32_t identity_end) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint32_t i = PLUMB_EVENT_IDENTITY_START; i < identity_end; i++) {
        hash ^= description[i];
        hash *= 0x100000001b3u;
    }
    return hash ^ hash >> 32;
}

// Whether the slot holds the same event. What stands in the channel is not trusted: everything is checked.
bool is_same(const Attachment& attachment, uint64_t slot, uint32_t identity_end) {
    const uint64_t offset = PLUMB_SLOT_OFFSET(slot);
    const uint32_t bytes = PLUMB_SLOT_BYTES(slot);
    if (offset < attachment.heap_offset || bytes < identity_end ||
        offset - attachment.heap_offset > attachment.heap_bytes ||
        bytes > attachment.heap_bytes - (offset - attachment.heap_offset))
        return false;
    const unsigned char* there = attachment.base + offset;
    uint32_t identity_end_there;
    __builtin_memcpy(&identity_end_there, there + offsetof(plumb_event_header, identity_end), 4);
    return identity_end_there == identity_end &&
           are_same(there + PLUMB_EVENT_IDENTITY_START, description + PLUMB_EVENT_IDENTITY_START,
                    identity_end - PLUMB_EVENT_IDENTITY_START);
}

} // namespace

uint16_t event_id_in(Attachment& attachment, const plumb_event_info& info) {
    const uint32_t bytes = build(info, attachment.context);
    if (bytes == 0) {
        add_seq_cst(attachment.header->refused[PLUMB_REFUSED_HEAP], uint64_t{1});
        return 0;
    }
    const uint32_t identity_end = at<plumb_event_header>(0)->identity_end;
    const uint32_t mask = attachment.event_slot_count - 1;
    auto index = static_cast<uint32_t>(hash_identity(identity_end)) & mask;
    uint64_t mine = 0;
    for (uint32_t probes = 0; probes <= mask; probes++, index = (index + 1) & mask) {
        if (index < PLUMB_EVENT_ID_FIRST) continue;
        uint64_t there = load_acquire(attachment.event_slots[index]);
        if (there == 0) {
            if (mine == 0) {
                const uint64_t offset = reserve_heap(attachment, bytes);
                if (offset == 0) {
                    add_seq_cst(attachment.header->refused[PLUMB_REFUSED_HEAP], uint64_t{1});
                    return 0;
                }
                __builtin_memcpy(attachment.base + offset, description, bytes);
                mine = PLUMB_SLOT(offset, bytes);
            }
            if (compare_exchange(attachment.event_slots[index], there, mine))
                return static_cast<uint16_t>(index);
        }
        if (is_same(attachment, there, identity_end)) return static_cast<uint16_t>(index);
    }
    add_seq_cst(attachment.header->refused[PLUMB_REFUSED_EVENT_SLOTS], uint64_t{1});
    return 0;
}

} // namespace plumb
