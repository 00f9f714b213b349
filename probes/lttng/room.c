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
    struct ust_context* const begun = taken->context;
    return overlap(begun, context) || (looks && !plumb_is_word_there(&begun->own, taken->own));
}

/* If another one begins there by the time at which it has been judged, that is seen in the word. */
static bool take_back_one(struct reader* reader, uint32_t unit, const struct ust_context* context,
                          bool looks) {
    const uint64_t start = __atomic_load_n(&reader->starts[unit], __ATOMIC_ACQUIRE);
    if (start == 0) return false;
    struct taken* const taken = (struct taken*)reader->units[unit];
    if ((start & ROOM_ENDED) == 0 && !was_left(taken, context, looks)) return false;
    if (!room_end(&reader->starts[unit], start)) return false;
    taken->own = 0;
    room_clear(&reader->used, ROOM_UNITS_OF(start));
    return true;
}

/* Of who has jumped out before it was told which record they are. */
static bool take_back_untold(struct reader* reader, const struct ust_context* context,
                             uintptr_t interrupted) {
    uint32_t told = 0;
    const uint32_t used = __atomic_load_n(&reader->used, __ATOMIC_RELAXED);
    for (uint32_t unit = 0; unit < READER_UNITS; unit++)
        told |= ROOM_UNITS_OF(__atomic_load_n(&reader->starts[unit], __ATOMIC_RELAXED));
    const uint32_t untold = used & ~told & ((1u << READER_UNITS) - 1);
    if (untold == 0 || interrupted > (uintptr_t)context) return false;
    if (interrupted != 0 && is_on_alternate_stack()) return false;
    room_clear(&reader->used, untold);
    return true;
}

/* A look at a frame, which may not be there, is a system call: of who looked in vain, not each further one does. */
bool room_take_back(struct reader* reader, const struct ust_context* context, uintptr_t interrupted) {
    enum { pause_max = 255 };
    if (reader->used >> READER_UNITS != 0)
        return false; /* it is all threads' that found no place, and has no room */
    const bool looks = reader->pause == 0;
    if (!looks) reader->pause--;
    bool has_more = take_back_untold(reader, context, interrupted);
    for (uint32_t unit = 0; unit < READER_UNITS; unit++)
        has_more |= take_back_one(reader, unit, context, looks);
    if (looks) {
        const uint32_t longer = reader->pause_after < pause_max ? reader->pause_after * 2u + 1 : pause_max;
        reader->pause_after = (uint8_t)(has_more ? 0 : longer);
        reader->pause = reader->pause_after;
    }
    return has_more;
}

void room_know_next_of(const struct reader* reader, uintptr_t place, uintptr_t* next) {
    for (uint32_t unit = 0; unit < READER_UNITS; unit++)
        if (reader->starts[unit] != 0) room_know_next((const struct taken*)reader->units[unit], place, next);
}

/* Who is not above has jumped out; or we are on another stack than he. */
void room_keep_interrupted(struct reader* reader, uintptr_t before) {
    __atomic_store_n(&reader->taking, is_on_alternate_stack() ? before : 0, __ATOMIC_RELAXED);
}

void room_forget(struct reader* reader) {
    for (uint32_t unit = 0; unit < READER_UNITS; unit++) {
        if (reader->starts[unit] != 0) ((struct taken*)reader->units[unit])->own = 0;
        reader->starts[unit] = 0;
    }
    reader->used = 0;
    reader->taking = 0;
}
