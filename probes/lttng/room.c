#include "room.h"

#include <plumb/runtime.h>

uint32_t room_find(uint32_t used, uint32_t count) {
    const uint32_t free_units = ~used & ((1u << READER_UNITS) - 1);
    uint32_t starts = free_units; /* behind which so many more are free */
    for (uint32_t more = 1; more < count; more++)
        starts &= free_units >> more;
    return starts != 0 ? (uint32_t)__builtin_ctz(starts) : READER_UNITS;
}

/* Of two frames at one place the later one is there. */
static bool overlap(const struct ust_context* one, const struct ust_context* other) {
    return (uintptr_t)one - (uintptr_t)other + sizeof(*one) - 1 < 2 * sizeof(*one) - 1;
}

static bool was_left(const struct taken* taken, const struct ust_context* context, bool looks) {
    struct ust_context* const begun = __atomic_load_n(&taken->context, __ATOMIC_ACQUIRE);
    if (begun == NULL || overlap(begun, context)) return true;
    return looks && !plumb_is_word_there(&begun->own, (uintptr_t)taken);
}

/* Who clears the bit judges the record. One that ends meanwhile has changed its context before it is judged again. */
static bool take_back_one(struct reader* reader, uint32_t first, const struct ust_context* context,
                          bool looks) {
    for (uint32_t whole = __atomic_load_n(&reader->whole, __ATOMIC_RELAXED);;) {
        if ((whole & first) == 0) return false;
        if (room_exchange(&reader->whole, &whole, whole & ~first)) break;
    }
    const struct taken* const taken = room_at(reader, first);
    const uint32_t units = taken->units;
    if (was_left(taken, context, looks)) {
        room_clear(&reader->used, units);
        return true;
    }
    room_set(&reader->whole, first);
    return false;
}

/* A look at a frame, which may not be there, is a system call: of who looked in vain, not each further one does. */
bool room_take_back(struct reader* reader, const struct ust_context* context) {
    enum { pause_max = 255 };
    const bool looks = reader->pause == 0;
    if (!looks) reader->pause--;
    bool has_more = false;
    for (uint32_t left = __atomic_load_n(&reader->whole, __ATOMIC_RELAXED); left != 0; left &= left - 1)
        has_more |= take_back_one(reader, left & -left, context, looks);
    if (looks) {
        reader->pause_after = has_more                          ? 0
                              : reader->pause_after < pause_max ? (reader->pause_after << 1 | 1)
                                                                : pause_max;
        reader->pause = reader->pause_after;
    }
    return has_more;
}
