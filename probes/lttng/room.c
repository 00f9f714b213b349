#include "room.h"

#include <plumb/runtime.h>

uint32_t room_find(uint32_t used, uint32_t count) {
    const uint32_t free_units = ~used & ((1u << READER_UNITS) - 1);
    uint32_t starts = free_units; /* behind which so many more are free */
    for (uint32_t more = 1; more < count; more++)
        starts &= free_units >> more;
    return starts != 0 ? (uint32_t)__builtin_ctz(starts) : READER_UNITS;
}

static bool is_told(uint64_t start) {
    return start != 0 && (start & ROOM_CLAIMED) == 0;
}

/* Of two frames at one place the later one is there. */
static bool overlap(const struct ust_context* one, const struct ust_context* other) {
    return (uintptr_t)one - (uintptr_t)other + sizeof(*one) - 1 < 2 * sizeof(*one) - 1;
}

/* Whether the frame in which `own` stood is not there any more, as far as is known without a look at it, or by one. A stack that can not be
 * read may be a coroutine's that waits, in the middle of us. */
static bool was_left(const struct ust_context* begun, uintptr_t own, const struct ust_context* context,
                     bool looks) {
    return begun == NULL || overlap(begun, context) || (looks && plumb_is_other_word_there(&begun->own, own));
}

/*
 * Makes of a record that was left, or ended elsewhere, one that is not told, of nobody: take_back_untold() frees its units. If another one
 * begins there by the time at which it has been judged, that is seen in the words; and who is interrupted here, and goes on when somebody
 * else has taken the units, changes nothing any more.
 */
static void untell_if_left(struct reader* reader, uint32_t unit, const struct ust_context* context,
                           bool looks) {
    const uint64_t start = __atomic_load_n(&reader->starts[unit], __ATOMIC_ACQUIRE);
    if (!is_told(start)) return;
    struct taken* const taken = room_at(reader, unit);
    const uintptr_t own = __atomic_load_n(&taken->own, __ATOMIC_RELAXED);
    const struct ust_context* const begun = __atomic_load_n(&taken->context, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&reader->starts[unit], __ATOMIC_RELAXED) != start)
        return; /* these may be another one's words by now */
    if ((start & ROOM_ENDED) == 0) {
        if (!was_left(begun, own, context, looks)) return;
        if (!room_exchange((uint64_t*)&taken->own, own, 0)) return;
    }
    room_exchange(&reader->starts[unit], start, room_claim_of(NULL, start));
}

static uint32_t told_units(const struct reader* reader) {
    uint32_t told = 0;
    for (uint32_t unit = 0; unit < READER_UNITS; unit++) {
        const uint64_t start = __atomic_load_n(&reader->starts[unit], __ATOMIC_RELAXED);
        if (is_told(start)) told |= ROOM_UNITS_OF(start);
    }
    return told;
}

/*
 * Of who has jumped out when he had units, and before it was told which record they are. Those who are interrupted there go on with what they
 * have: it is known by their frames who they are, and if anybody takes units meanwhile, nothing is taken back.
 */
static bool take_back_untold(struct reader* reader, const struct ust_context* context, bool looks) {
    const uint64_t known = __atomic_load_n(&reader->room, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    uint32_t untold = (uint32_t)known & ~told_units(reader), left = 0;
    while (untold != 0) {
        const uint32_t first = (uint32_t)__builtin_ctz(untold);
        const uint64_t claim = __atomic_load_n(&reader->starts[first], __ATOMIC_RELAXED);
        if ((claim & ROOM_CLAIMED) == 0) return false; /* a coroutine has told it by now */
        const uint32_t units = ((1u << (claim >> 58 & 31)) - 1) << first;
        const struct ust_context* const begun =
            (const struct ust_context*)(uintptr_t)((claim & ((1ull << 44) - 1)) << 3);
        if (was_left(begun, room_own(room_at(reader, first), claim >> 44), context, looks)) left |= units;
        untold &= ~units;
    }
    return left != 0 && room_exchange(&reader->room, known, known & ~(uint64_t)left);
}

static bool take_back(struct reader* reader, const struct ust_context* context, bool looks) {
    for (uint32_t unit = 0; unit < READER_UNITS; unit++)
        untell_if_left(reader, unit, context, looks);
    return take_back_untold(reader, context, looks);
}

/* A look at a frame, which may not be there, is a system call: of who looked in vain, not each further one does. */
bool room_take_back(struct reader* reader, const struct ust_context* context) {
    enum { pause_max = 255 };
    if (room_is_nobodys(reader)) return false;
    const bool looks = reader->pause == 0;
    if (!looks) reader->pause--;
    const bool has_more = take_back(reader, context, looks);
    if (looks) {
        const uint32_t longer = reader->pause_after < pause_max ? reader->pause_after * 2u + 1 : pause_max;
        reader->pause_after = (uint8_t)(has_more ? 0 : longer);
        reader->pause = reader->pause_after;
    }
    return has_more;
}

void room_take_back_all(struct reader* reader, const struct ust_context* context) {
    if (!room_is_nobodys(reader)) take_back(reader, context, true);
}

void room_know_around(const struct taken* taken, struct around* around) {
    around->begun++;
    if (taken->place <= around->place) return;
    around->above++;
    if (taken->place - around->place < ROOM_FRAMES_APART &&
        (around->next == 0 || taken->place < around->next))
        around->next = taken->place;
}

void room_know_all_around(struct reader* reader, struct around* around) {
    for (uint32_t unit = 0; unit < READER_UNITS; unit++)
        if (is_told(reader->starts[unit]) && (reader->starts[unit] & ROOM_ENDED) == 0)
            room_know_around(room_at(reader, unit), around);
}

void room_forget(struct reader* reader) {
    for (uint32_t unit = 0; unit < READER_UNITS; unit++) {
        if (is_told(reader->starts[unit])) room_at(reader, unit)->own = 0;
        reader->starts[unit] = 0;
    }
    room_clear(reader, (1u << READER_UNITS) - 1);
}
