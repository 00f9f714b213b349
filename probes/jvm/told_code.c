#include "told_code.h"

#include "lock.h"

#include <stdlib.h>

struct plumb_told_piece {
    struct plumb_told_piece* next;
    const void* code;
    size_t bytes;
    uint64_t what;
};

/* The place that points to it, or to NULL. With the lock. */
static struct plumb_told_piece** find(struct plumb_told_code* told, const void* code) {
    const uintptr_t address = (uintptr_t)code;
    struct plumb_told_piece** place = &told->buckets[(address >> 5 ^ address >> 15) % PLUMB_TOLD_BUCKETS];
    while (*place && (*place)->code != code)
        place = &(*place)->next;
    return place;
}

bool plumb_was_told(struct plumb_told_code* told, const void* code, size_t bytes, uint64_t what) {
    bool was_told = false;
    plumb_lock(&told->lock);
    struct plumb_told_piece** const place = find(told, code);
    struct plumb_told_piece* piece = *place;
    if (piece) {
        was_told = piece->bytes == bytes && piece->what == what;
    } else {
        piece = calloc(1, sizeof(*piece)); /* NULL: it may be told twice */
        *place = piece;
    }
    if (piece) {
        piece->code = code;
        piece->bytes = bytes;
        piece->what = what;
    }
    plumb_unlock(&told->lock);
    return was_told;
}

void plumb_untell(struct plumb_told_code* told, const void* code) {
    plumb_lock(&told->lock);
    struct plumb_told_piece** const place = find(told, code);
    struct plumb_told_piece* const piece = *place;
    if (piece) *place = piece->next;
    plumb_unlock(&told->lock);
    free(piece);
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
