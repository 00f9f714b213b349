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

/* Ends the strings of a copy of a rule: nobody else does. */
static inline void plumb_rule_end_strings(struct plumb_rule* rule) {
    rule->pattern[sizeof(rule->pattern) - 1] = '\0';
    rule->executable[sizeof(rule->executable) - 1] = '\0';
}

#endif
