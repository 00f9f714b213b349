// The restartable sequences of counting, in the tables of <plumb/abi/counts.h>; their shape is that of ../ring/sequence.h, and
// so are the conditions on which they go on: the CPU, the gate, the session's epoch.
#pragma once

#include "../ring/sequence.h"

#include <plumb/abi/counts.h>

namespace plumb {

#if defined(__x86_64__)

/* clang-format off */

// Copies words out of a table, which may be gone without these conditions.
static inline Sequence copy_in_sequence(int64_t rseq_offset, const Commit& commit, const void* from, void* to,
                                        uint64_t bytes) {
    __asm__ volatile goto(
        PLUMB_RSEQ_DESCRIPTOR
        PLUMB_RSEQ_ENTER
        PLUMB_RSEQ_LOOP(6)
        PLUMB_SEQUENCE_CONDITIONS
        "movq %[bytes], %%rcx\n"
        "5: movq -8(%[from], %%rcx), %%rax\n"
        "movq %%rax, -8(%[to], %%rcx)\n"
        "subq $8, %%rcx\n"
        "jnz 5b\n"
        PLUMB_RSEQ_LEAVE
        PLUMB_RSEQ_ABORT("again")
        : /* no outputs */
        : PLUMB_SEQUENCE_OPERANDS, [from] "r"(from), [to] "r"(to), [bytes] "r"(bytes)
        : "rax", "rcx", "memory", "cc"
        : again, off);
    PLUMB_SEQUENCE_RESULT
}

// Adds to a count and its sum, in a table that is open; both in one store.
static inline Sequence add_in_sequence(int64_t rseq_offset, const Commit& commit, plumb_count* count,
                                       const plumb_count& added) {
    __asm__ volatile goto(
        PLUMB_RSEQ_DESCRIPTOR
        PLUMB_RSEQ_ENTER
        PLUMB_RSEQ_LOOP(3)
        PLUMB_SEQUENCE_CONDITIONS
        "movq %c[control](%[c]), %%rcx\n"
        "cmpq $0, %c[limit](%%rcx)\n"
        "je %l[off]\n"
        "movdqa (%[added]), %%xmm0\n"
        "paddq (%[count]), %%xmm0\n"
        PLUMB_RSEQ_LOOP(5)
        /* publish */
        "movdqa %%xmm0, (%[count])\n"
        PLUMB_RSEQ_LEAVE
        PLUMB_RSEQ_ABORT("again")
        : /* no outputs */
        : PLUMB_SEQUENCE_OPERANDS, [count] "r"(count), [added] "r"(&added),
          [limit] "i"(offsetof(plumb_ring_control, limit))
        : "rax", "rcx", "xmm0", "memory", "cc"
        : again, off);
    PLUMB_SEQUENCE_RESULT
}

// Puts both in the place of those that were seen, if the count still is what it was: no event came between.
static inline Sequence replace_in_sequence(int64_t rseq_offset, const Commit& commit, plumb_count* count,
                                           uint64_t seen, const plumb_count& value) {
    __asm__ volatile goto(
        PLUMB_RSEQ_DESCRIPTOR
        PLUMB_RSEQ_ENTER
        PLUMB_RSEQ_LOOP(3)
        PLUMB_SEQUENCE_CONDITIONS
        "movq %c[control](%[c]), %%rcx\n"
        "cmpq $0, %c[limit](%%rcx)\n"
        "je %l[off]\n"
        "cmpq %[seen], (%[count])\n"
        "jne %l[again]\n"
        "movdqa (%[value]), %%xmm0\n"
        PLUMB_RSEQ_LOOP(5)
        /* publish */
        "movdqa %%xmm0, (%[count])\n"
        PLUMB_RSEQ_LEAVE
        PLUMB_RSEQ_ABORT("again")
        : /* no outputs */
        : PLUMB_SEQUENCE_OPERANDS, [count] "r"(count), [value] "r"(&value), [seen] "r"(seen),
          [limit] "i"(offsetof(plumb_ring_control, limit))
        : "rax", "rcx", "xmm0", "memory", "cc"
        : again, off);
    PLUMB_SEQUENCE_RESULT
}
/* clang-format on */

// Without sequences: both at once all the same.
inline bool replace_at_once(plumb_count& count, plumb_count& seen, const plumb_count& value) {
    bool done;
    __asm__ volatile("lock cmpxchg16b %[count]"
                     : [count] "+m"(count), "+a"(seen.count), "+d"(seen.sum), "=@ccz"(done)
                     : "b"(value.count), "c"(value.sum)
                     : "memory");
    return done;
}

// As if the program had set nothing of floating point, of which it would see nothing.
inline uint64_t sum_of_doubles(uint64_t a, uint64_t b) {
    constexpr uint32_t ordinary = 0x1f80;
    uint32_t before;
    double sum, added;
    __builtin_memcpy(&sum, &a, sizeof(sum));
    __builtin_memcpy(&added, &b, sizeof(added));
    __asm__ volatile("stmxcsr %[before]\nldmxcsr %[ordinary]\naddsd %[added], %[sum]\nldmxcsr %[before]"
                     : [sum] "+x"(sum), [before] "=m"(before)
                     : [added] "x"(added), [ordinary] "m"(ordinary)
                     : "memory");
    __builtin_memcpy(&a, &sum, sizeof(sum));
    return a;
}

#else

inline Sequence copy_in_sequence(int64_t, const Commit&, const void*, void*, uint64_t) {
    return Sequence::off;
}
inline Sequence add_in_sequence(int64_t, const Commit&, plumb_count*, const plumb_count&) {
    return Sequence::off;
}
inline Sequence replace_in_sequence(int64_t, const Commit&, plumb_count*, uint64_t, const plumb_count&) {
    return Sequence::off;
}
inline bool replace_at_once(plumb_count& count, plumb_count& seen, const plumb_count& value) {
    return __atomic_compare_exchange(&count, &seen, const_cast<plumb_count*>(&value), false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST);
}
inline uint64_t sum_of_doubles(uint64_t a, uint64_t b) {
    double sum, added;
    __builtin_memcpy(&sum, &a, sizeof(sum));
    __builtin_memcpy(&added, &b, sizeof(added));
    sum += added;
    __builtin_memcpy(&a, &sum, sizeof(sum));
    return a;
}

#endif

} // namespace plumb
