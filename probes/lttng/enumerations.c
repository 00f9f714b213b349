#include "enumerations.h"

#include <string.h>

struct range {
    uint64_t first, last;
};

static bool is_negative(const struct ust_enum_value* value) {
    return value->is_signed && (int64_t)value->value < 0;
}

static bool are_in_order(const struct ust_enum_value* first, const struct ust_enum_value* last) {
    if (is_negative(first) != is_negative(last)) return is_negative(first);
    return first->value <= last->value;
}

/* The values that an entry names; false: none. Each end says itself whether it is signed: a range that only begins, or only ends,
 * among what a field of 64 bits can have is cut there. */
static bool range_of(const struct ust_enum_entry* entry, uint64_t next, bool is_signed, struct range* range) {
    const struct ust_enum_value* const first = &entry->first;
    const struct ust_enum_value* const last = &entry->last;
    if ((entry->options & UST_ENUM_AUTO) != 0) {
        range->first = range->last = next;
        return true;
    }
    range->first = first->value;
    range->last = last->value;
    if (!is_signed && is_negative(first) && !is_negative(last)) range->first = 0;
    if (is_signed && !is_negative(last) && last->value > INT64_MAX &&
        (is_negative(first) || first->value <= INT64_MAX))
        range->last = INT64_MAX;
    return are_in_order(first, last);
}

/* How many labels it takes; their names' bytes are added to. One label is one value, or half of a range. */
static uint32_t add_up(const struct ust_enumeration* from, bool is_signed, bool* has_ranges, size_t* bytes) {
    uint64_t next = 0;
    uint32_t count = 0;
    size_t text = 0;
    *has_ranges = false;
    for (unsigned i = 0; i < from->entry_count; i++) {
        struct range range;
        const bool is_some = range_of(from->entries[i], next, is_signed, &range);
        next = range.last + 1;
        if (!is_some) continue;
        if (range.first != range.last) *has_ranges = true;
        text += strlen(from->entries[i]->name) + 1;
        count++;
    }
    const uint32_t ends = *has_ranges ? 2 : 1;
    *bytes = (count * sizeof(struct plumb_label) + text) * ends;
    return count * ends;
}

static void fill_labels(struct plumb_event_label* labels, const struct ust_enumeration* from, bool is_signed,
                        bool has_ranges) {
    uint64_t next = 0;
    for (unsigned i = 0; i < from->entry_count; i++) {
        struct range range;
        const bool is_some = range_of(from->entries[i], next, is_signed, &range);
        next = range.last + 1;
        if (!is_some) continue;
        labels->name = from->entries[i]->name;
        labels++->value = (int64_t)range.first;
        if (!has_ranges) continue;
        labels->name = from->entries[i]->name;
        labels++->value = (int64_t)range.last;
    }
}

bool give_labels(struct arena* arena, struct plumb_event_field* field, const struct ust_enumeration* from,
                 size_t* bytes) {
    const bool is_signed = (field->flags & PLUMB_FIELD_SIGNED) != 0;
    const size_t bytes_max = *bytes;
    bool has_ranges;
    const uint32_t count = add_up(from, is_signed, &has_ranges, bytes);
    if (count == 0 || *bytes > bytes_max) {
        *bytes = 0;
        return true;
    }
    struct plumb_event_label* const labels = arena_take(arena, count * sizeof(*labels));
    if (labels == NULL) return false;
    fill_labels(labels, from, is_signed, has_ranges);
    field->type = PLUMB_FIELD_ENUM;
    field->labels = labels;
    field->label_count = (uint16_t)count;
    if (has_ranges) field->flags |= PLUMB_FIELD_RANGES;
    return true;
}
