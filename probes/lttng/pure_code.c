/*
 * All instructions are found to which the function can come; then, from the question to the filter back, those which lead to it. Of calls,
 * too, it is seen where they come back to: a path with a call in it leads there as well, and is not pure.
 *
 * The functions for writing lie in a struct of their own, and one of them may be as far from its beginning as the
 * filter is from that of an event's. Who calls it has begun to write before. So may a function of the provider's: then there are two
 * questions, unless the other one is not seen as such, so whoever calls in another way by a pointer is not understood; and
 * the filter looks from where it was asked.
 */
#include "pure_code.h"

#include "instruction.h"

#include <string.h>

#define PLACES_MAX 1024u
#define FRAME_BYTES_MAX 4096u
#define HASHES 4096u /* a power of two */
#define NOWHERE UINT16_MAX

struct place {
    const unsigned char* at;
    const unsigned char* next; /* NULL: it does not go on to the next one, or that is another function's */
    const unsigned char* end;  /* of a call that does not come back; NULL: it is none */
    uint32_t frame_bytes, freed_bytes;
    int32_t stored_at;
    uint32_t
        depth; /* that the frame has at least before it, whichever way was taken here; UINT32_MAX: none yet */
    uint16_t next_place, target_place;
    uint16_t previous; /* from which it was come to as the next one, first */
    bool has_previous;
    bool is_pure, is_filter, is_reserve;
    bool comes_unwritten; /* it is come to from the beginning without a call by which writing begins */
    bool leads_to_filter;
    bool ends; /* whatever way is taken from here, the question comes */
};

struct graph {
    struct code code;
    bool (*ends)(const void* pointer);
    bool has_frame_pointer, is_unknown;
    uint32_t count;
    struct place places[PLACES_MAX];
    uint16_t hashes[HASHES];
};

/* Providers are registered one after the other. */
static struct graph graph;

static uint16_t* slot_of(const unsigned char* at) {
    uint32_t slot = (uint32_t)(((uintptr_t)at * 0x9e3779b97f4a7c15u) >> 52) & (HASHES - 1);
    while (graph.hashes[slot] != 0 && graph.places[graph.hashes[slot] - 1].at != at)
        slot = (slot + 1) & (HASHES - 1);
    return &graph.hashes[slot];
}

/* NOWHERE: nobody was there. */
static uint16_t place_of(const unsigned char* at) {
    const uint16_t known = at == NULL ? 0 : *slot_of(at);
    return known == 0 ? NOWHERE : (uint16_t)(known - 1);
}

/* There is more to see there, if nobody was. */
static void go_to(const unsigned char* at) {
    const bool is_inside = (uintptr_t)at >= graph.code.begin && (uintptr_t)at < graph.code.end;
    if (!is_inside || graph.count == PLACES_MAX) {
        graph.is_unknown = true;
        return;
    }
    uint16_t* const slot = slot_of(at);
    if (*slot != 0) return;
    struct place* const place = &graph.places[graph.count++];
    memset(place, 0, sizeof(*place));
    place->at = at;
    place->next_place = place->target_place = NOWHERE;
    place->depth = UINT32_MAX;
    *slot = (uint16_t)graph.count;
}

static bool begins_with(const unsigned char* at, const char* bytes, size_t count) {
    return (uintptr_t)at + count <= graph.code.end && memcmp(at, bytes, count) == 0;
}

static bool is_endbr(const unsigned char* at) {
    return begins_with(at, "\xf3\x0f\x1e\xfa", 4);
}

static const unsigned char* behind_endbr(const unsigned char* at) {
    return is_endbr(at) ? at + 4 : at;
}

/* First of all it keeps the caller's, and then has its own before the stack pointer changes once more. */
static bool sets_frame_pointer(const unsigned char* at) {
    if (!begins_with(at, "\x55", 1)) return false;
    for (at++; !begins_with(at, "\x48\x89\xe5", 3);) {
        const struct instruction next = read_instruction(at, (const unsigned char*)graph.code.end, false);
        if (next.flow != FLOW_ON || !next.is_pure || next.frame_bytes != 0 || next.stored_at != INT32_MIN)
            return false;
        at += next.length;
    }
    return true;
}

/* The pointer by which a function of another object is called: there, or by a jump of the linker's. NULL: it is not called so. */
static const void* pointer_of_call(struct instruction found) {
    if (found.flow != FLOW_CALL || found.pointer != NULL) return found.pointer;
    if ((uintptr_t)found.target < graph.code.begin || (uintptr_t)found.target >= graph.code.end) return NULL;
    const unsigned char* at = behind_endbr(found.target);
    if (begins_with(at, "\x41\xbb", 2)) at += 6; /* mov $number,%r11d, by mold */
    if (begins_with(at, "\xf2", 1)) at++;        /* bnd */
    int32_t distance;
    if (!begins_with(at, "\xff\x25", 2) || graph.code.end - (uintptr_t)at < 2 + sizeof(distance)) return NULL;
    memcpy(&distance, at + 2, sizeof(distance)); /* jmp *distance(%rip) */
    return at + 2 + sizeof(distance) + distance;
}

/* Behind a call of __stack_chk_fail() the next function stands. */
static bool is_without_return(struct instruction found) {
    const void* const pointer = pointer_of_call(found);
    return pointer != NULL && graph.ends(pointer);
}

/* A call that is a jump to somewhere: whom it calls writes over where it would come back to (retpolines). */
static bool is_jump_by_call(struct instruction found) {
    const uintptr_t target = (uintptr_t)found.target;
    if (found.flow != FLOW_CALL || target < graph.code.begin || target >= graph.code.end) return false;
    const struct instruction first =
        read_instruction(found.target, (const unsigned char*)graph.code.end, false);
    return first.stored_at == 0;
}

/* To what was put there just before. */
static bool is_jump_by_return(const struct place* place, struct instruction found) {
    if (found.flow != FLOW_LEAVE || !place->has_previous) return false;
    const struct place* const before = &graph.places[place->previous];
    return before->stored_at == 0 || before->frame_bytes != 0;
}

static void go_to_next(const struct place* from, const unsigned char* at) {
    const bool is_new = place_of(at) == NOWHERE;
    go_to(at);
    if (!is_new || graph.is_unknown) return;
    struct place* const place = &graph.places[graph.count - 1];
    place->previous = (uint16_t)(from - graph.places);
    place->has_previous = true;
}

static void look_at(struct place* place, int32_t filter_at, int32_t reserve_at) {
    const struct instruction found =
        read_instruction(place->at, (const unsigned char*)graph.code.end, graph.has_frame_pointer);
    place->is_pure = found.is_pure;
    place->frame_bytes = found.frame_bytes;
    place->freed_bytes = found.freed_bytes;
    place->stored_at = found.stored_at;
    place->is_filter = found.flow == FLOW_CALL_BY && found.displacement == filter_at;
    place->is_reserve = found.flow == FLOW_CALL_BY && found.displacement == reserve_at;
    graph.is_unknown = graph.is_unknown || found.flow == FLOW_UNKNOWN || is_jump_by_call(found) ||
                       is_jump_by_return(place, found);
    const unsigned char* const next = place->at + found.length;
    if (is_without_return(found)) place->end = next;
    if (found.flow == FLOW_LEAVE || graph.is_unknown || place->end != NULL) return;
    if (found.flow == FLOW_JUMP || found.flow == FLOW_BRANCH) {
        go_to(found.target);
        place->target_place = place_of(found.target);
    }
    if (found.flow == FLOW_JUMP) return;
    place->next = next;
    go_to_next(place, next);
}

/* From the beginning on, until it is begun to write. */
static bool mark_unwritten(void) {
    bool is_more = false;
    for (uint32_t i = 0; i < graph.count; i++) {
        const struct place* const place = &graph.places[i];
        if (!place->comes_unwritten || place->is_reserve) continue;
        for (unsigned way = 0; way < 2; way++) {
            const uint16_t to = way == 0 ? place->next_place : place->target_place;
            if (to == NOWHERE || graph.places[to].comes_unwritten) continue;
            graph.places[to].comes_unwritten = is_more = true;
        }
    }
    return is_more;
}

static bool is_question(const struct place* place) {
    return place->is_filter && place->comes_unwritten;
}

static bool leads(uint16_t to) {
    return to != NOWHERE && graph.places[to].leads_to_filter;
}

static bool mark_leading(void) {
    bool is_more = false;
    for (uint32_t i = graph.count; i-- > 0;) {
        struct place* const place = &graph.places[i];
        if (place->leads_to_filter ||
            !(is_question(place) || leads(place->next_place) || leads(place->target_place)))
            continue;
        place->leads_to_filter = is_more = true;
    }
    return is_more;
}

/* One question, and somewhere writing begins: of two questions one is a call of the provider's that looks like it. */
static bool is_clear(void) {
    uint32_t questions = 0;
    bool is_written = false;
    for (uint32_t i = 0; i < graph.count; i++) {
        questions += is_question(&graph.places[i]);
        is_written |= graph.places[i].is_reserve;
    }
    return questions == 1 && is_written;
}

static bool ends(uint16_t to) {
    return to == NOWHERE || !graph.places[to].leads_to_filter || graph.places[to].ends;
}

/* In one it may be waited for what another thread does, and the frame may grow as often as it is gone through. */
static bool has_loop(void) {
    for (bool is_more = true; is_more;) {
        is_more = false;
        for (uint32_t i = graph.count; i-- > 0;) {
            struct place* const place = &graph.places[i];
            if (!place->leads_to_filter || place->ends) continue;
            place->ends = is_question(place) || (ends(place->next_place) && ends(place->target_place));
            is_more = is_more || place->ends;
        }
    }
    for (uint32_t i = 0; i < graph.count; i++)
        if (graph.places[i].leads_to_filter && !graph.places[i].ends) return true;
    return false;
}

/* Of those that lead to the question. There is no loop among them. */
static void know_depths(void) {
    graph.places[0].depth = 0;
    for (bool is_more = true; is_more;) {
        is_more = false;
        for (uint32_t i = 0; i < graph.count; i++) {
            const struct place* const place = &graph.places[i];
            if (!place->leads_to_filter || place->depth == UINT32_MAX || is_question(place)) continue;
            const uint32_t grown = place->depth + place->frame_bytes;
            const uint32_t depth = grown < place->freed_bytes ? 0 : grown - place->freed_bytes;
            for (unsigned way = 0; way < 2; way++) {
                const uint16_t to = way == 0 ? place->next_place : place->target_place;
                if (to == NOWHERE || graph.places[to].depth <= depth) continue;
                graph.places[to].depth = depth;
                is_more = true;
            }
        }
    }
}

static struct purity judge(void) {
    struct purity purity = {false, 0, NULL};
    if (!graph.places[0].leads_to_filter || !is_clear() || has_loop()) return purity;
    know_depths();
    for (uint32_t i = 0; i < graph.count; i++) {
        const struct place* const place = &graph.places[i];
        if (!place->leads_to_filter) continue;
        if (is_question(place)) {
            purity.asked_from = place->next;
            continue;
        }
        /* Above the frame is the caller's. */
        if (!place->is_pure || (place->stored_at >= 0 && (uint32_t)place->stored_at >= place->depth))
            return purity;
        purity.frame_bytes += place->frame_bytes;
    }
    purity.is_pure =
        purity.frame_bytes <= FRAME_BYTES_MAX; /* larger ones are made page by page, in ways of their own */
    return purity;
}

/* What stands behind a call that does not come back is this function's, and is come to in other ways: they may go on there as well, if the
 * function of that name is the program's own. */
static bool comes_back_after_all(void) {
    for (uint32_t i = 0; i < graph.count; i++)
        if (place_of(graph.places[i].end) != NOWHERE) return true;
    return false;
}

/* What is thrown goes on where no instruction leads to. Parts that stand elsewhere have an entry of their own. */
static bool may_catch(const struct unwind_index* index) {
    for (uint32_t i = 0; i < graph.count; i++)
        if (!graph.places[i].has_previous && may_have_landing_pads(index, graph.places[i].at)) return true;
    return false;
}

/* What can be come to from the function's begin, and what of that leads to the question. False: not all of it is known. */
static bool explore(const void* function, const struct surroundings* around, int32_t filter_at,
                    int32_t reserve_at) {
    if (around->code.end == 0 || around->code.end == UINTPTR_MAX) return false;
    const unsigned char* const begin = function;
    graph.code = around->code;
    graph.ends = around->ends;
    graph.count = 0;
    graph.is_unknown = false;
    memset(graph.hashes, 0, sizeof(graph.hashes));
    graph.has_frame_pointer = sets_frame_pointer(behind_endbr(begin));
    go_to(begin);
    for (uint32_t i = 0; i < graph.count && !graph.is_unknown; i++)
        look_at(&graph.places[i], filter_at, reserve_at);
    if (graph.is_unknown || comes_back_after_all()) return false;
    for (uint32_t i = 0; i < graph.count; i++)
        graph.places[i].next_place = place_of(graph.places[i].next);
    graph.places[0].comes_unwritten = true;
    while (mark_unwritten()) {
    }
    while (mark_leading()) {
    }
    return true;
}

struct purity purity_until_filter(const void* function, const struct surroundings* around, int32_t filter_at,
                                  int32_t reserve_at) {
    static const struct purity unknown = {false, 0, NULL};
    if (!explore(function, around, filter_at, reserve_at) || may_catch(&around->index)) return unknown;
    return judge();
}

/* ---- what a compiler puts into functions that are instrumented ---- */

/* The address in the object's code that an instruction puts into a register; 0: it puts none. */
static uintptr_t code_address_made(const unsigned char* at) {
    const unsigned char* const end = (const unsigned char*)graph.code.end;
    const unsigned char* const opcode = at < end && (*at & 0xf0) == 0x40 ? at + 1 : at;
    if (end - opcode < 10) return 0;
    int32_t number;
    memcpy(&number, opcode + 2, sizeof(number));
    uintptr_t address = 0;
    if (opcode[0] == 0x8d && (opcode[1] & 0xc7) == 0x05) /* lea number(%rip) */
        address = (uintptr_t)(opcode + 6) + (uintptr_t)(intptr_t)number;
    else if (opcode[0] == 0xc7 && (opcode[1] & 0xf8) == 0xc0) /* mov $number */
        address = (uintptr_t)(intptr_t)number;
    else if ((opcode[0] & 0xf8) == 0xb8) /* the same, shorter or longer */
        memcpy(&address, opcode + 1, opcode != at && (*at & 0x08) != 0 ? 8 : 4);
    return address >= graph.code.begin && address < graph.code.end ? address : 0;
}

static bool tells_who_it_is(const unsigned char* function) {
    enum { instructions_max = 32 };
    const unsigned char* const end = (const unsigned char*)graph.code.end;
    const unsigned char* at = function;
    if ((uintptr_t)at < graph.code.begin || at >= end) return false;
    for (int i = 0; i < instructions_max; i++) {
        if (code_address_made(at) == (uintptr_t)function) return true;
        const struct instruction found = read_instruction(at, end, false);
        if (found.length == 0 || found.flow == FLOW_LEAVE || found.flow == FLOW_JUMP) return false;
        at += found.length;
    }
    return false;
}

/* Of code whose ways are not all known, as it stands there, and what stands behind it: that is of the same object. */
static bool is_hook_called_near(const unsigned char* at) {
    enum { bytes_max = 4096 };
    const unsigned char *const begin = at, *const end = (const unsigned char*)graph.code.end;
    while (at < end && at - begin < bytes_max) {
        const struct instruction found = read_instruction(at, end, false);
        if (found.length == 0) return false;
        const bool is_large = found.length == 10; /* movabs: where nothing is called but through a register */
        if ((found.flow == FLOW_CALL && tells_who_it_is(found.target)) ||
            (is_large && code_address_made(at) != 0))
            return true;
        at += found.length;
    }
    return false;
}

enum called called_until_filter(const void* function, const struct surroundings* around, int32_t filter_at,
                                int32_t reserve_at) {
    if (!explore(function, around, filter_at, reserve_at)) {
        const bool has_code = around->code.end != 0 && around->code.end != UINTPTR_MAX;
        return has_code && is_hook_called_near(function) ? CALLED_HOOK : CALLED_SOMEBODY;
    }
    enum called called = CALLED_NOBODY;
    for (uint32_t i = 0; i < graph.count; i++) {
        const struct place* const place = &graph.places[i];
        if (!place->leads_to_filter) continue;
        if (code_address_made(place->at) != 0) return CALLED_HOOK;
        const struct instruction found =
            read_instruction(place->at, (const unsigned char*)graph.code.end, graph.has_frame_pointer);
        if (found.flow == FLOW_CALL && tells_who_it_is(found.target)) return CALLED_HOOK;
        if (found.flow == FLOW_CALL || (found.flow == FLOW_CALL_BY && !is_question(place)))
            called = CALLED_SOMEBODY;
    }
    return called;
}
