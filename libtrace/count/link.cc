#include "link.h"
#include "../bytes.h"

#include <plumb/detail/marker_names.h>

// By session.
struct plumb_event_counts {
    plumb::count::Link* links[PLUMB_MAX_SESSIONS];
    plumb_event_counts* next; // while it is free
};

namespace plumb::count {

namespace {

// A thread may fork while another one is anywhere here: of each two stores the first alone must be true, too.
constexpr uint64_t block_bytes = 64ull * 1024;
struct Memory {
    unsigned char* block = nullptr;
    uint64_t used = block_bytes; // of it
    Link* free_links = nullptr;
    plumb_event_counts* free_tables = nullptr;
};
constinit Memory memory;

template <typename T>
T* take(T*& free) {
    if (T* const first = free) {
        store_seq_cst(free, first->next);
        return first;
    }
    constexpr uint64_t bytes = (sizeof(T) + 63) & ~uint64_t{63};
    if (block_bytes - memory.used < bytes) {
        void* const block = sys::map(block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (block == nullptr) return nullptr;
        store_seq_cst(memory.used, block_bytes);
        store_seq_cst(memory.block, static_cast<unsigned char*>(block));
        store_seq_cst(memory.used, uint64_t{0});
    }
    auto* const taken = reinterpret_cast<T*>(memory.block + memory.used);
    store_seq_cst(memory.used, memory.used + bytes);
    return taken;
}

plumb_event_counts* table_of(plumb_event& event) {
    if (event.counts == nullptr)
        if (plumb_event_counts* const table = take(memory.free_tables)) {
            __builtin_memset(table, 0, sizeof(*table));
            store_release(event.counts, table);
        }
    return event.counts;
}

// The name as it stands in the channel, where anybody may change it: copied, with an end.
class Name {
public:
    explicit Name(const char (&shared)[PLUMB_COUNT_FIELD_BYTES]) {
        for (uint32_t i = 0; i + 1 < PLUMB_COUNT_FIELD_BYTES; i++)
            text_[i] = load_relaxed(shared[i]);
    }
    bool is(const char* other) const { return is_text(text_, other); }
    bool is_given() const { return text_[0] != '\0'; }

private:
    char text_[PLUMB_COUNT_FIELD_BYTES] = {};
};

bool is_field(const Name& name, const plumb_event_info& info, uint32_t index) {
    if (info.fields[index].name != nullptr) return name.is(info.fields[index].name);
    char of_marker[64];
    if (info.format == nullptr) return false;
    plumb_marker_field_name(info.format, index, of_marker, sizeof(of_marker));
    return name.is(of_marker);
}

Place place_of_writer(const Name& name) {
    constexpr struct {
        const char* name;
        Source source;
    } known[] = {{"pid", source_pid},  {"tid", source_tid},   {"vpid", source_pid},
                 {"vtid", source_tid}, {"comm", source_comm}, {"cpu", source_cpu}};
    for (const auto& each : known)
        if (name.is(each.name)) return {each.source, 0, 0, 0};
    return {};
}

Place place_of_field(const plumb_event_field& field, uint32_t place) {
    const bool is_signed = (field.flags & PLUMB_FIELD_SIGNED) != 0;
    const auto type = static_cast<uint8_t>(field.size | (is_signed ? condition::type_signed : uint8_t{0}));
    switch (field.type) {
    case PLUMB_FIELD_ARRAY:
    case PLUMB_FIELD_SEQUENCE:
        return {};
    default:
        return {field.type, type, 0, place};
    }
}

bool is_number(const Place& place) {
    return place.source == PLUMB_FIELD_INTEGER || place.source == PLUMB_FIELD_ENUM ||
           place.source == PLUMB_FIELD_FLOAT;
}

bool has_variable_length(const plumb_event_field& field) {
    return field.type == PLUMB_FIELD_STRING || field.type == PLUMB_FIELD_TEXT ||
           field.type == PLUMB_FIELD_SEQUENCE;
}

void fill(Link& link, const plumb_event_info& info, const plumb_counts& wanted) {
    const Name key(wanted.key), sum(wanted.sum), hist(wanted.hist);
    Place key_place = {}, sum_place = {}, hist_place = {};
    uint32_t variables = 0, offset = 0;
    for (uint32_t i = 0; i < info.field_count && i < PLUMB_EVENT_MAX_FIELDS; i++) {
        const plumb_event_field& field = info.fields[i];
        const Place place = place_of_field(field, condition::place_of(variables, offset));
        if (key.is_given() && is_field(key, info, i)) key_place = place;
        if (is_number(place) && sum.is_given() && is_field(sum, info, i)) sum_place = place;
        if (is_number(place) && place.source != PLUMB_FIELD_FLOAT && hist.is_given() &&
            is_field(hist, info, i))
            hist_place = place;
        if (!has_variable_length(field)) {
            offset += uint32_t{field.size} * (field.type == PLUMB_FIELD_ARRAY ? field.array_length : 1u);
            continue;
        }
        condition::Variable& variable = link.variables[variables++];
        store_relaxed(variable.offset, offset);
        store_relaxed(variable.type, field.type);
        store_relaxed(variable.size, field.type == PLUMB_FIELD_TEXT ? uint8_t{1} : field.size);
        offset = 0;
    }
    if (key_place.source == source_none) key_place = place_of_writer(key);
    link.key = key_place;
    link.sum = sum.is_given() ? sum_place : hist_place;
    link.hist = hist_place;
}

} // namespace

// Nobody counts by it before the event is on in this session, which has another cookie than the one before it.
void link_event(plumb_event& event, uint32_t session, const Attachment& attachment) {
    plumb_event_counts* const table = table_of(event);
    if (table == nullptr) return;
    Link* link = table->links[session];
    if (link == nullptr) {
        link = take(memory.free_links);
        if (link == nullptr) return;
    }
    // It may be odd already: one that nobody uses is, and in a child one that another thread was filling when it was forked.
    store_seq_cst(link->version, load_relaxed(link->version) | 1u);
    fill(*link, *event.info, *reinterpret_cast<const plumb_counts*>(attachment.base + PLUMB_COUNTS_OFFSET));
    store_relaxed(link->cookie, attachment.cookie);
    store_seq_cst(link->version, load_relaxed(link->version) + 1);
    store_release(table->links[session], link);
}

void forget_links(plumb_event& event) {
    plumb_event_counts* const table = event.counts;
    if (table == nullptr) return;
    for (Link*& place : table->links) {
        Link* const link = place;
        if (link == nullptr) continue;
        store_seq_cst(place, static_cast<Link*>(nullptr));
        store_seq_cst(link->version, load_relaxed(link->version) | 1u);
        store_seq_cst(link->next, memory.free_links);
        store_seq_cst(memory.free_links, link);
    }
    store_seq_cst(event.counts, static_cast<plumb_event_counts*>(nullptr));
    store_seq_cst(table->next, memory.free_tables);
    store_seq_cst(memory.free_tables, table);
}

const Link* link_of(const plumb_event& event, uint32_t session) {
    const plumb_event_counts* const table = load_acquire(event.counts);
    return table == nullptr ? nullptr : load_acquire(table->links[session]);
}

} // namespace plumb::count
