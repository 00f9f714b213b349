// The restartable sequences of the runtime itself. Their shape is that of <plumb/detail/writer.h>: start, checks, work, one
// committing store. A record is committed only on the CPU `cpu`, and if the ring's write_pos still is what the caller
// saw, so that what the caller computed in between (room, clock) is still true.
#pragma once

#include <plumb/detail/writer.h>

namespace plumb {

enum class Sequence { done, again, off };

// What is committed, and on which condition; a record, or padding, before that.
struct Commit {
    plumb_ring_control* control;
    uint64_t expected_pos;
    uint64_t* word; // write_pos or limit, and what it will be
    uint64_t value;
    const uint32_t* condition; // (*condition & mask) == wanted, or off
    uint32_t mask;
    uint32_t wanted;
    uint32_t cpu;
    uint32_t epoch;              // the session still has this one, or again
    const uint32_t* epoch_there; // where that is seen; nullptr: with a guard held, it has
    unsigned char* at;           // where the record begins; nullptr: there is none
    uint64_t timestamp;
    uint64_t header; // event id | length << 16 | thread id << 32
    const void* payload;
    uint64_t payload_bytes; // a multiple of 8
};

#if defined(__x86_64__)

inline uint32_t current_cpu(int64_t rseq_offset) {
    uint32_t cpu;
    __asm__ volatile("movl %%fs:4(%1), %0" : "=r"(cpu) : "r"(rseq_offset));
    return cpu;
}

/* clang-format off */

/* Every sequence begins so: on this CPU, and with what the commit depends on as it was. */
#define PLUMB_SEQUENCE_CONDITIONS                                                                        \
    "movl %c[cpu](%[c]), %%eax\n"                                                                        \
    "cmpl %%eax, %%fs:4(%[rseq])\n"                                                                      \
    "jne %l[again]\n"                                                                                    \
    "movq %c[condition](%[c]), %%rax\n"                                                                  \
    "movl (%%rax), %%eax\n"                                                                              \
    "andl %c[mask](%[c]), %%eax\n"                                                                       \
    "cmpl %c[wanted](%[c]), %%eax\n"                                                                     \
    "jne %l[off]\n"                                                                                      \
    "movq %c[epoch_there](%[c]), %%rax\n"                                                                \
    "testq %%rax, %%rax\n"                                                                               \
    "jz 7f\n"                                                                                            \
    "movl (%%rax), %%eax\n"                                                                              \
    "cmpl %c[epoch](%[c]), %%eax\n"                                                                      \
    "jne %l[again]\n"                                                                                    \
    "7:\n"

#define PLUMB_SEQUENCE_OPERANDS                                                                          \
    [rseq] "r"(rseq_offset), [c] "r"(&commit), [control] "i"(offsetof(Commit, control)),                 \
        [condition] "i"(offsetof(Commit, condition)), [mask] "i"(offsetof(Commit, mask)),                \
        [wanted] "i"(offsetof(Commit, wanted)), [cpu] "i"(offsetof(Commit, cpu)),                        \
        [epoch] "i"(offsetof(Commit, epoch)), [epoch_there] "i"(offsetof(Commit, epoch_there))

/* And ends so. */
#define PLUMB_SEQUENCE_RESULT                                                                            \
    return Sequence::done;                                                                               \
    again:                                                                                               \
    plumb_rseq_clear(rseq_offset);                                                                       \
    return Sequence::again;                                                                              \
    off:                                                                                                 \
    plumb_rseq_clear(rseq_offset);                                                                       \
    return Sequence::off;

// Static: each file has its own copy, since a linker that merges copies would leave behind the descriptor of the other.
static inline Sequence commit_in_sequence(int64_t rseq_offset, const Commit& commit) {
    __asm__ volatile goto(
        PLUMB_RSEQ_DESCRIPTOR
        PLUMB_RSEQ_ENTER
        PLUMB_RSEQ_LOOP(3)
        PLUMB_SEQUENCE_CONDITIONS
        "movq %c[control](%[c]), %%r8\n"
        "movq %c[expected](%[c]), %%rax\n"
        "cmpq %%rax, (%%r8)\n"
        "jne %l[again]\n"
        /* header */
        "movq %c[at](%[c]), %%r9\n"
        "testq %%r9, %%r9\n"
        "jz 6f\n"
        "movq %c[timestamp](%[c]), %%rax\n"
        "movq %%rax, (%%r9)\n"
        "movq %c[header](%[c]), %%rax\n"
        "movq %%rax, 8(%%r9)\n"
        PLUMB_RSEQ_LOOP(4)
        /* payload, from its end to its start */
        "movq %c[payload_bytes](%[c]), %%rcx\n"
        "movq %c[payload](%[c]), %%rdx\n"
        "testq %%rcx, %%rcx\n"
        "jz 6f\n"
        "5: movq -8(%%rdx, %%rcx), %%rax\n"
        "movq %%rax, 8(%%r9, %%rcx)\n"
        "subq $8, %%rcx\n"
        "jnz 5b\n"
        "6:\n"
        PLUMB_RSEQ_LOOP(5)
        "movq %c[word](%[c]), %%r8\n"
        "movq %c[value](%[c]), %%rax\n"
        /* publish */
        "movq %%rax, (%%r8)\n"
        PLUMB_RSEQ_LEAVE
        PLUMB_RSEQ_ABORT("again")
        : /* no outputs */
        : PLUMB_SEQUENCE_OPERANDS, [expected] "i"(offsetof(Commit, expected_pos)), [word] "i"(offsetof(Commit, word)),
          [value] "i"(offsetof(Commit, value)), [at] "i"(offsetof(Commit, at)),
          [timestamp] "i"(offsetof(Commit, timestamp)), [header] "i"(offsetof(Commit, header)),
          [payload] "i"(offsetof(Commit, payload)), [payload_bytes] "i"(offsetof(Commit, payload_bytes))
        : "rax", "rcx", "rdx", "r8", "r9", "memory", "cc"
        : again, off);
    PLUMB_SEQUENCE_RESULT
}

// Where the ring is, by loads that are safe without a guard; on the conditions of `commit`.
struct Place {
    uint64_t write_pos;
    uint64_t limit;
};
static inline Sequence look_in_sequence(int64_t rseq_offset, const Commit& commit, Place& place) {
    __asm__ volatile goto(
        PLUMB_RSEQ_DESCRIPTOR
        PLUMB_RSEQ_ENTER
        PLUMB_RSEQ_LOOP(6)
        PLUMB_SEQUENCE_CONDITIONS
        "movq %c[control](%[c]), %%rcx\n"
        "movq (%%rcx), %%rax\n"
        "movq %%rax, (%[place])\n"
        "movq 8(%%rcx), %%rax\n"
        /* the last store */
        "movq %%rax, 8(%[place])\n"
        PLUMB_RSEQ_LEAVE
        PLUMB_RSEQ_ABORT("again")
        : /* no outputs */
        : PLUMB_SEQUENCE_OPERANDS, [place] "r"(&place)
        : "rax", "rcx", "memory", "cc"
        : again, off);
    PLUMB_SEQUENCE_RESULT
}

// Counts an event as lost, if the ring is full to its last byte: on the conditions of `commit`, with no more of it than these
// and `control`. The addition is atomic, since writers on other CPUs count in this ring, too.
static inline Sequence count_full_in_sequence(int64_t rseq_offset, const Commit& commit, uint64_t ring_bytes) {
    __asm__ volatile goto(
        PLUMB_RSEQ_DESCRIPTOR
        PLUMB_RSEQ_ENTER
        PLUMB_SEQUENCE_CONDITIONS
        "movq %c[control](%[c]), %%rcx\n"
        "movq %c[write_pos](%%rcx), %%rax\n"
        "cmpq %c[limit](%%rcx), %%rax\n"
        "jne %l[off]\n"
        "subq %c[consumed](%%rcx), %%rax\n"
        "cmpq %[ring_bytes], %%rax\n"
        "jne %l[off]\n"
        PLUMB_RSEQ_LOOP(7)
        /* count */
        "lock incq %c[lost](%%rcx)\n"
        PLUMB_RSEQ_LEAVE
        PLUMB_RSEQ_ABORT("again")
        : /* no outputs */
        : PLUMB_SEQUENCE_OPERANDS, [ring_bytes] "r"(ring_bytes), [write_pos] "i"(offsetof(plumb_ring_control, write_pos)),
          [limit] "i"(offsetof(plumb_ring_control, limit)), [consumed] "i"(offsetof(plumb_ring_control, consumed)),
          [lost] "i"(offsetof(plumb_ring_control, lost) + PLUMB_LOST_FULL * sizeof(uint64_t))
        : "rax", "rcx", "memory", "cc"
        : again, off);
    PLUMB_SEQUENCE_RESULT
}
/* clang-format on */

#else

inline uint32_t current_cpu(int64_t) {
    return UINT32_MAX;
}
inline Sequence commit_in_sequence(int64_t, const Commit&) {
    return Sequence::again;
}
struct Place {
    uint64_t write_pos;
    uint64_t limit;
};
inline Sequence look_in_sequence(int64_t, const Commit&, Place&) {
    return Sequence::off;
}
inline Sequence count_full_in_sequence(int64_t, const Commit&, uint64_t) {
    return Sequence::off;
}

#endif

} // namespace plumb
