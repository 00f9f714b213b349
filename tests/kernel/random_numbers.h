/* Numbers for tests that do anything: of each thread, as its seed says. */
#ifndef PLUMB_TESTS_RANDOM_NUMBERS_H
#define PLUMB_TESTS_RANDOM_NUMBERS_H

#include <stdint.h>

static __thread uint64_t state; /* not 0 */

static inline uint64_t any(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static inline uint64_t below(uint64_t limit) {
    return any() % limit;
}

#endif
