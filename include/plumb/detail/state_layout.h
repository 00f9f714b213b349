/*
 * The state file as both who use it find their way in it, a runtime and a controller: what a new one begins with, where its
 * parts are, and whether a rule set that was copied is of one generation (the rules: <plumb/abi/state.h>).
 *
 * Nothing here judges what stands in the file. What each of the two refuses is its own business, since the controller
 * believes nothing that programs can write. No function fails, allocates or makes a system call: all may be used in signal
 * handlers. They are static, so that a program with both sides in it has each side's own, compiled with its options.
 */
#ifndef PLUMB_DETAIL_STATE_LAYOUT_H
#define PLUMB_DETAIL_STATE_LAYOUT_H

#include <plumb/abi/state.h>

#include <stdbool.h>

/* Makes one of a header that is all zeros: no rules, no processes, generation 0. */
static inline void plumb_state_begin(struct plumb_state_header* header) {
    header->magic = PLUMB_STATE_MAGIC;
    header->version_major = PLUMB_STATE_VERSION_MAJOR;
    header->version_minor = PLUMB_STATE_VERSION_MINOR;
    header->header_bytes = sizeof(*header);
    header->total_bytes = PLUMB_STATE_TOTAL_BYTES;
    header->rule_sets_offset = PLUMB_STATE_RULE_SETS_OFFSET;
    header->processes_offset = PLUMB_STATE_PROCESSES_OFFSET;
    header->process_count = PLUMB_MAX_PROCESSES;
}

/* Whether its parts are where the next two look for them. */
static inline bool plumb_state_has_parts_in_place(const struct plumb_state_header* state) {
    return state->rule_sets_offset == PLUMB_STATE_RULE_SETS_OFFSET &&
           state->processes_offset == PLUMB_STATE_PROCESSES_OFFSET &&
           state->process_count == PLUMB_MAX_PROCESSES;
}

/* Where the rules of a generation are, as long as it or the one before it is the published one. */
static inline struct plumb_rule_set* plumb_state_rule_set(struct plumb_state_header* state,
                                                          uint64_t generation) {
    return (struct plumb_rule_set*)((unsigned char*)state + PLUMB_STATE_RULE_SETS_OFFSET) + generation % 2;
}

/* The first of PLUMB_MAX_PROCESSES. */
static inline struct plumb_process* plumb_state_processes(struct plumb_state_header* state) {
    return (struct plumb_process*)((unsigned char*)state + PLUMB_STATE_PROCESSES_OFFSET);
}

static inline uint64_t plumb_state_generation(const struct plumb_state_header* state) {
    return __atomic_load_n(&state->generation, __ATOMIC_SEQ_CST);
}

/* Whether what was copied of the rule set of `generation`, which was the published one before, is whole. Pairs with the
 * fence before a controller writes: who has copied a byte of a newer set sees a newer generation here. */
static inline bool plumb_state_is_still_at(const struct plumb_state_header* state, uint64_t generation) {
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return plumb_state_generation(state) == generation;
}

/* Of the sessions in a slot's `not_attached`, those that it speaks of and that are there now. */
static inline uint32_t plumb_state_still_meant(struct plumb_state_header* state, uint32_t not_attached,
                                               uint64_t acknowledged) {
    const struct plumb_rule_set* set = plumb_state_rule_set(state, plumb_state_generation(state));
    uint32_t meant = 0;
    for (uint32_t s = 0; s < PLUMB_MAX_SESSIONS; s++) {
        const struct plumb_session* session = &set->sessions[s];
        if ((not_attached >> s & 1) != 0 && __atomic_load_n(&session->cookie, __ATOMIC_RELAXED) != 0 &&
            __atomic_load_n(&session->since_generation, __ATOMIC_RELAXED) <= acknowledged)
            meant |= 1u << s;
    }
    return meant;
}

/* That a process could not attach to the session of this word, for this error. */
static inline void plumb_state_leave_word(struct plumb_unattached* word, uint64_t claim, int32_t error) {
    __atomic_store_n(&word->error, error, __ATOMIC_RELAXED);
    __atomic_store_n(&word->claim, claim, __ATOMIC_RELAXED);
    __atomic_fetch_add(&word->count, 1u, __ATOMIC_SEQ_CST);
}

/* Whether a slot with this error was not asked about the rules, and may be none of the session's. */
static inline bool plumb_was_not_asked(int32_t error) {
    return error == PLUMB_ERROR_FILTERED || PLUMB_IS_FILTERS_UNKNOWN(error);
}

/* The same of each of these sessions, from a slot that speaks for nobody any more. */
static inline void plumb_state_leave_words(struct plumb_state_header* state, struct plumb_unattached* words,
                                           const struct plumb_process* slot) {
    if (slot->not_attached == 0 || plumb_was_not_asked(slot->error)) return;
    const uint32_t sessions = plumb_state_still_meant(state, slot->not_attached, slot->acknowledged);
    for (uint32_t s = 0; s < PLUMB_MAX_SESSIONS; s++) {
        if ((sessions >> s & 1) != 0) plumb_state_leave_word(&words[s], slot->claim, slot->error);
    }
}

/* plumb_process.image: a hash of what the kernel gave the program as random bytes at exec() (AT_RANDOM). Short, since the C library
 * makes its stack guard of the same bytes. */
#define PLUMB_IMAGE_RANDOM_BYTES 16u
static inline uint32_t plumb_state_image_of(const unsigned char* random) {
    uint64_t hash = 0;
    for (uint32_t at = 0; at < PLUMB_IMAGE_RANDOM_BYTES; at += 8) {
        uint64_t word;
        __builtin_memcpy(&word, random + at, sizeof(word));
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return (uint32_t)((hash * 0xbf58476d1ce4e5b9u) >> 32);
}

/* FNV-1a: of the path that is hashed so far and the next byte of it, beginning with PLUMB_CGROUP_HASH_START. */
static inline uint64_t plumb_cgroup_hash(uint64_t hash, char byte) {
    return (hash ^ (unsigned char)byte) * 0x100000001b3u;
}

/* Ends the strings of a copy of a rule: nobody else does. */
static inline void plumb_rule_end_strings(struct plumb_rule* rule) {
    rule->pattern[sizeof(rule->pattern) - 1] = '\0';
    rule->executable[sizeof(rule->executable) - 1] = '\0';
}

#endif
