#include "told_code.h"

#include "lock.h"

#include <stdlib.h>

struct plumb_told_piece {
    struct plumb_told_piece* next;
    const void* code;
    size_t bytes;
    uint64_t what;
    uint32_t sessions;
};

/* The place that points to it, or to NULL. With the lock. */
static struct plumb_told_piece** find(struct plumb_told_code* told, const void* code) {
    const uintptr_t address = (uintptr_t)code;
    struct plumb_told_piece** place = &told->buckets[(address >> 5 ^ address >> 15) % PLUMB_TOLD_BUCKETS];
    while (*place && (*place)->code != code)
        place = &(*place)->next;
    return place;
}

/* A session's number may have been another recording's. With the lock. */
static void begin_anew(struct plumb_told_code* told, uint32_t sessions) {
    for (size_t i = 0; i < PLUMB_TOLD_BUCKETS; i++) {
        for (struct plumb_told_piece* piece = told->buckets[i]; piece; piece = piece->next)
            piece->sessions &= ~sessions;
    }
}

uint32_t plumb_tell(struct plumb_told_code* told, const struct plumb_event* event, const void* code,
                    size_t bytes, uint64_t what) {
    uint32_t known = 0;
    plumb_lock(&told->lock);
    const uint32_t sessions =
        plumb_sessions_of_event(event); /* no older than what others have seen with the lock */
    const uint32_t others =
        plumb_listeners_gone(&told->listeners, sessions) | plumb_listeners_come(&told->listeners, sessions);
    if (others != 0) begin_anew(told, others);
    struct plumb_told_piece** const place = find(told, code);
    struct plumb_told_piece* piece = *place;
    if (piece) {
        if (piece->bytes == bytes && piece->what == what) known = piece->sessions;
    } else {
        piece = calloc(1, sizeof(*piece)); /* NULL: it may be told twice */
        *place = piece;
    }
    if (piece) {
        piece->code = code;
        piece->bytes = bytes;
        piece->what = what;
        piece->sessions = known | sessions;
    }
    plumb_unlock(&told->lock);
    return sessions & ~known;
}

uint32_t plumb_untell(struct plumb_told_code* told, const void* code) {
    plumb_lock(&told->lock);
    struct plumb_told_piece** const place = find(told, code);
    struct plumb_told_piece* const piece = *place;
    if (piece) *place = piece->next;
    plumb_unlock(&told->lock);
    const uint32_t sessions = piece ? piece->sessions : 0;
    free(piece);
    return sessions;
}

void plumb_untell_all(struct plumb_told_code* told) {
    for (size_t i = 0; i < PLUMB_TOLD_BUCKETS; i++) {
        plumb_lock(&told->lock);
        struct plumb_told_piece* piece = told->buckets[i];
        told->buckets[i] = NULL;
        plumb_unlock(&told->lock);
        while (piece) {
            struct plumb_told_piece* const next = piece->next;
            free(piece);
            piece = next;
        }
    }
}
