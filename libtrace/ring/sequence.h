// The two restartable sequences of the slow path. Their shape is that of <plumb/detail/writer.h>: start,
// checks, work, one committing store. Both commit only if they run on CPU `cpu` and the ring's write_pos
// still is what the caller saw, so that what the caller computed in between (room, clock) is still true.
#pragma once

#include <plumb/detail/writer.h>

namespace plumb {

enum class Sequence { done, again, off };

// A record, or padding, at a known position.
struct Publication {
    plumb_ring_control* control;
    uint64_t expected_pos;
    uint64_t next_pos;
    unsigned char* at; // nullptr: move the position and write nothing
    uint64_t timestamp;
    uint64_t header; // event id | length << 16 | thread id << 32
    const uint32_t* enabled;
    const void* payload;
    uint64_t payload_bytes; // a multiple of 8
    uint32_t session;       // bit of *enabled that must be set
    uint32_t cpu;
};

#if defined(__x86_64__)

inline uint32_t current_cpu(int64_t rseq_offset) {
    uint32_t cpu;
    __asm__ volatile("movl %%fs:4(%1), %0" : "=r"(cpu) : "r"(rseq_offset));
    return cpu;
}

inline Sequence publish_in_sequence(int64_t rseq_offset, const Publication& publication) {
    __asm__ volatile goto(
        PLUMB_RSEQ_DESCRIPTOR PLUMB_RSEQ_ENTER PLUMB_RSEQ_LOOP(
            3) "movl %c[cpu](%[p]), %%eax\n"
               "cmpl %%eax, %%fs:4(%[rseq])\n"
               "jne %l[again]\n"
               "movq %c[enabled](%[p]), %%rax\n"
               "movl (%%rax), %%eax\n"
               "movl %c[session](%[p]), %%ecx\n"
               "btl %%ecx, %%eax\n"
               "jnc %l[off]\n"
               "movq %c[control](%[p]), %%r8\n"
               "movq %c[expected](%[p]), %%rax\n"
               "cmpq %%rax, (%%r8)\n"
               "jne %l[again]\n"
               "movq %c[at](%[p]), %%r9\n"
               "testq %%r9, %%r9\n"
               "jz 6f\n"
               "movq %c[timestamp](%[p]), %%rax\n"
               "movq %%rax, (%%r9)\n"
               "movq %c[header](%[p]), %%rax\n"
               "movq %%rax, 8(%%r9)\n" PLUMB_RSEQ_LOOP(
                   4) "movq %c[payload_bytes](%[p]), %%rcx\n"
                      "movq %c[payload](%[p]), %%rdx\n"
                      "testq %%rcx, %%rcx\n"
                      "jz 6f\n"
                      "5: movq -8(%%rdx, %%rcx), %%rax\n"
                      "movq %%rax, 8(%%r9, %%rcx)\n"
                      "subq $8, %%rcx\n"
                      "jnz 5b\n"
                      "6:\n" PLUMB_RSEQ_LOOP(5) "movq %c[next](%[p]), %%rax\n"
                                                "movq %%rax, (%%r8)\n" PLUMB_RSEQ_LEAVE PLUMB_RSEQ_ABORT(
                                                    "again")
        :
        : [rseq] "r"(rseq_offset), [p] "r"(&publication), [control] "i"(offsetof(Publication, control)),
          [expected] "i"(offsetof(Publication, expected_pos)), [next] "i"(offsetof(Publication, next_pos)),
          [at] "i"(offsetof(Publication, at)), [timestamp] "i"(offsetof(Publication, timestamp)),
          [header] "i"(offsetof(Publication, header)), [enabled] "i"(offsetof(Publication, enabled)),
          [payload] "i"(offsetof(Publication, payload)),
          [payload_bytes] "i"(offsetof(Publication, payload_bytes)),
          [session] "i"(offsetof(Publication, session)), [cpu] "i"(offsetof(Publication, cpu))
        : "rax", "rcx", "rdx", "r8", "r9", "memory", "cc"
        : again, off);
    return Sequence::done;
again:
    plumb_rseq_clear(rseq_offset);
    return Sequence::again;
off:
    plumb_rseq_clear(rseq_offset);
    return Sequence::off;
}

// Moves `limit`: opens the sub-buffer that begins at the current position, unless the channel was closed: a
// thread preempted between a look at `closed` and this would give everybody else on the CPU room again.
inline Sequence open_in_sequence(int64_t rseq_offset, uint32_t cpu, plumb_ring_control& control,
                                 uint64_t expected_pos, uint64_t limit, const uint32_t& closed) {
    __asm__ volatile goto(PLUMB_RSEQ_DESCRIPTOR PLUMB_RSEQ_ENTER PLUMB_RSEQ_LOOP(
                              6) "cmpl %[cpu], %%fs:4(%[rseq])\n"
                                 "jne %l[again]\n"
                                 "cmpq %[expected], (%[control])\n"
                                 "jne %l[again]\n"
                                 "cmpl $0, (%[closed])\n"
                                 "jne %l[off]\n"
                                 "movq %[limit], 8(%[control])\n" PLUMB_RSEQ_LEAVE PLUMB_RSEQ_ABORT("again")
                          :
                          : [rseq] "r"(rseq_offset), [cpu] "r"(cpu), [control] "r"(&control),
                            [expected] "r"(expected_pos), [limit] "r"(limit), [closed] "r"(&closed)
                          : "rax", "memory", "cc"
                          : again, off);
    return Sequence::done;
again:
    plumb_rseq_clear(rseq_offset);
    return Sequence::again;
off:
    plumb_rseq_clear(rseq_offset);
    return Sequence::off;
}

#else

inline uint32_t current_cpu(int64_t) {
    return UINT32_MAX;
}
inline Sequence publish_in_sequence(int64_t, const Publication&) {
    return Sequence::again;
}
inline Sequence open_in_sequence(int64_t, uint32_t, plumb_ring_control&, uint64_t, uint64_t,
                                 const uint32_t&) {
    return Sequence::again;
}

#endif

} // namespace plumb
