/*
 * The fast path: one restartable sequence that writes a record to the ring of the current CPU.
 *
 * The shape of every restartable sequence in Plumb:
 *
 *  - enter: descriptor -> rseq_cs. From here on the kernel restarts us if we are preempted, migrated or signalled.
 *  - check: any reason to leave? Nothing has been changed yet.
 *  - work: stores behind write_pos, which nobody reads.
 *  - commit: one store; the record exists.
 *  - leave: 0 -> rseq_cs. dlclose() may unmap the descriptor later; the kernel must not read it then.
 *
 * This file is compiled into tp-sync.o, tp-async.o and tp-async-lib.o, so that each executable and shared
 * object has its own copy and calls it directly: through a procedure linkage table it would cost as much
 * again as all the rest. The sequence is also the read side of everything it loads: the runtime changes a
 * writer or an event, then calls membarrier(PRIVATE_EXPEDITED_RSEQ), and after that no sequence is in flight
 * that saw the old values.
 */
#ifndef PLUMB_DETAIL_WRITER_H
#define PLUMB_DETAIL_WRITER_H

#include <plumb/abi/channel.h>
#include <plumb/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where one session's channel is, for the fast path. The page of writers is wiped by fork: all zero,
 * `ring_count` sends the child to the slow path. */
struct plumb_writer {
    unsigned char* control; /* of ring 0; the others follow at PLUMB_RING_CONTROL_BYTES */
    unsigned char* data;    /* of ring 0; the others follow at ring_bytes */
    uint64_t ring_bytes;
    uint64_t position_mask;  /* ring_bytes - 1 */
    uint32_t ring_count;     /* rings that the fast path may write, or count in; 0: take the slow path */
    uint32_t epoch;          /* threads introduced before it are not known to the channel */
    uint32_t record_limit;   /* bytes; 0: no record is written here, but it may be counted (`mode`) */
    uint32_t session_bit;    /* in plumb_event.enabled */
    uint32_t id_offset;      /* in plumb_event, of the event's id in this session */
    uint16_t clock_mode;     /* of the channel */
    uint16_t mode;           /* of the channel: enum plumb_ring_mode; PLUMB_MODE_COUNT: events are counted */
    uint32_t sequence_rings; /* rings that the runtime's own sequences may write: with any clock */
    uint32_t thread_tag;     /* to be joined with thread ids: PLUMB_TAG */
} __attribute__((aligned(64)));

/* A thread's own; zero until its first record. */
struct plumb_thread {
    uint32_t id;         /* kernel thread id */
    uint32_t epoch;      /* up to this epoch the fast path knows that the channels know it; 0: look closely */
    uint32_t introduced; /* it is introduced to all channels up to this epoch */
    uint32_t forks;      /* of the process, by which all this is of the thread that it was before */
    uint64_t in_vfork;   /* address of the frame of a vfork() that is on its way; 0: none */
    uint64_t vforks;     /* how often it has called vfork(): children that have one number after the other */
};

/* So many bytes below that frame stands its address, as long as the thread has not left it. */
#define PLUMB_VFORK_MARK 16

/* Each executable and shared object has its own, in its small object. */
extern struct plumb_writer_setup plumb_setup __attribute__((visibility("hidden")));
extern __thread struct plumb_thread plumb_thread_self __attribute__((tls_model("initial-exec")));

#define PLUMB_WRITER_CONTROL 0
#define PLUMB_WRITER_DATA 8
#define PLUMB_WRITER_RING_BYTES 16
#define PLUMB_WRITER_MASK 24
#define PLUMB_WRITER_RING_COUNT 32
#define PLUMB_WRITER_EPOCH 36
#define PLUMB_WRITER_SESSION_BIT 44
#define PLUMB_WRITER_ID_OFFSET 48
#define PLUMB_WRITER_THREAD_TAG 60
#define PLUMB_WRITER_RECORD_LIMIT 40
#define PLUMB_SETUP_WRITERS 8

PLUMB_ABI_SIZE(struct plumb_writer, 64);
PLUMB_ABI_OFFSET(struct plumb_writer, data, PLUMB_WRITER_DATA);
PLUMB_ABI_OFFSET(struct plumb_writer, ring_bytes, PLUMB_WRITER_RING_BYTES);
PLUMB_ABI_OFFSET(struct plumb_writer, position_mask, PLUMB_WRITER_MASK);
PLUMB_ABI_OFFSET(struct plumb_writer, ring_count, PLUMB_WRITER_RING_COUNT);
PLUMB_ABI_OFFSET(struct plumb_writer, epoch, PLUMB_WRITER_EPOCH);
PLUMB_ABI_OFFSET(struct plumb_writer, session_bit, PLUMB_WRITER_SESSION_BIT);
PLUMB_ABI_OFFSET(struct plumb_writer, id_offset, PLUMB_WRITER_ID_OFFSET);
PLUMB_ABI_OFFSET(struct plumb_writer, thread_tag, PLUMB_WRITER_THREAD_TAG);
PLUMB_ABI_OFFSET(struct plumb_writer, record_limit, PLUMB_WRITER_RECORD_LIMIT);
PLUMB_ABI_OFFSET(struct plumb_event, enabled, 0);
PLUMB_ABI_OFFSET(struct plumb_thread, epoch, 4);
PLUMB_ABI_OFFSET(struct plumb_writer_setup, rseq_offset, 0);
PLUMB_ABI_OFFSET(struct plumb_writer_setup, writers, PLUMB_SETUP_WRITERS);

#if defined(__x86_64__)

/* The signature that glibc registered rseq with; it stands before every abort handler, as part of a ud1. */
#define PLUMB_RSEQ_DESCRIPTOR          \
    ".pushsection __rseq_cs, \"aw\"\n" \
    ".balign 32\n"                     \
    "3: .long 0, 0\n"                  \
    ".quad 1f, 2f - 1f, 4f\n"          \
    ".popsection\n"
#define PLUMB_RSEQ_ABORT(label)             \
    ".pushsection __rseq_failure, \"ax\"\n" \
    ".byte 0x0f, 0xb9, 0x3d\n"              \
    ".long 0x53053053\n"                    \
    "4: jmp %l[" label "]\n"                \
    ".popsection\n"
#define PLUMB_RSEQ_ENTER "leaq 3b(%%rip), %%rax\nmovq %%rax, %%fs:8(%[rseq])\n1:\n"
#define PLUMB_RSEQ_LEAVE "2:\nmovq $0, %%fs:8(%[rseq])\n"

/* Stress tests stretch the sequences, so that preemption and signals hit every place of them. */
#ifdef PLUMB_INJECT
extern uint32_t plumb_inject_loops[8];
#define PLUMB_RSEQ_LOOP(n)                             \
    "movl plumb_inject_loops+4*" #n "(%%rip), %%eax\n" \
    "77: testl %%eax, %%eax\njz 78f\nsubl $1, %%eax\njmp 77b\n78:\n"
#else
#define PLUMB_RSEQ_LOOP(n)
#endif

static inline void plumb_rseq_clear(int64_t rseq_offset) {
    __asm__ volatile("movq $0, %%fs:8(%0)" : : "r"(rseq_offset) : "memory");
}

enum plumb_write_result { PLUMB_WRITTEN, PLUMB_OFF, PLUMB_SLOW };

/*
 * The sequence that writes one record to one session. `load_rseq` loads the offset of struct rseq to rcx; `is_on` jumps to `off`
 * where the record is not to be written, and may load the writer, if that is among the `outputs`; `record_bytes` puts to rax what the
 * record takes in the ring; `compare_room` compares what is
 * written with the limit; `add_length` adds the record's length, above its lower 16 bits, to ecx; `put_payload` writes what comes
 * behind the header at r9, and leaves r8 and r10 as they are; the rest are operands of them. What is cheap to load again (the offset of
 * struct rseq, the thread's own data) is not kept in registers: the caller saves fewer.
 */
/* clang-format off */
#define PLUMB_WRITE_SEQUENCE_OF(outputs, load_rseq, is_on, record_bytes, compare_room,               \
                                add_length, put_payload, ...)                                        \
    __asm__ volatile goto(                                                                           \
        PLUMB_RSEQ_DESCRIPTOR                                                                        \
        "leaq 3b(%%rip), %%rax\n"                                                                    \
        load_rseq                                                                                    \
        "movq %%rax, %%fs:8(%%rcx)\n"                                                                \
        "1:\n"                                                                                       \
        PLUMB_RSEQ_LOOP(0)                                                                           \
        is_on                                                                                        \
        /* does the channel know this thread? */                                                     \
        "movq plumb_thread_self@gottpoff(%%rip), %%rdx\n"                                            \
        "movl %%fs:4(%%rdx), %%eax\n"                                                                \
        "cmpl %%eax, %c[epoch](%[writer])\n"                                                         \
        "ja %l[slow]\n"                                                                              \
        /* r8 = control and rcx = data of this CPU's ring */                                         \
        "movl %%fs:4(%%rcx), %%ecx\n"                                                                \
        "cmpl %c[ring_count](%[writer]), %%ecx\n"                                                    \
        "jae %l[slow]\n"                                                                             \
        "movl %%ecx, %%r8d\n"                                                                        \
        "shlq $8, %%r8\n"                                                                            \
        "addq %c[control](%[writer]), %%r8\n"                                                        \
        "imulq %c[bytes](%[writer]), %%rcx\n"                                                        \
        "addq %c[data](%[writer]), %%rcx\n"                                                          \
        /* r9 = write_pos, r10 = where it will be; room? */                                          \
        "movq (%%r8), %%r9\n"                                                                        \
        record_bytes                                                                                 \
        "leaq (%%r9, %%rax), %%r10\n"                                                                \
        compare_room                                                                                 \
        "ja %l[slow]\n"                                                                              \
        /* r9 = address of the record */                                                             \
        "andq %c[position_mask](%[writer]), %%r9\n"                                                  \
        "addq %%rcx, %%r9\n"                                                                         \
        /* header: event id and length, thread id, time */                                           \
        "movl %c[id_offset](%[writer]), %%ecx\n"                                                     \
        "movzwl (%[event], %%rcx), %%ecx\n"                                                          \
        add_length                                                                                   \
        "movl %%fs:(%%rdx), %%edx\n"                                                                 \
        "orl %c[tag](%[writer]), %%edx\n"                                                            \
        "shlq $32, %%rdx\n"                                                                          \
        "orq %%rdx, %%rcx\n"                                                                         \
        "rdtsc\n"                                                                                    \
        "shlq $32, %%rdx\n"                                                                          \
        "orq %%rdx, %%rax\n"                                                                         \
        "movq %%rcx, 8(%%r9)\n"                                                                      \
        "movq %%rax, (%%r9)\n"                                                                       \
        PLUMB_RSEQ_LOOP(1)                                                                           \
        put_payload                                                                                  \
        PLUMB_RSEQ_LOOP(2)                                                                           \
        load_rseq                                                                                    \
        /* publish */                                                                                \
        "movq %%r10, (%%r8)\n"                                                                       \
        "2:\n"                                                                                       \
        "movq $0, %%fs:8(%%rcx)\n"                                                                   \
        PLUMB_RSEQ_ABORT("slow")                                                                     \
        : outputs                                                                                    \
        : [event] "r"(event), [control] "i"(PLUMB_WRITER_CONTROL),                                   \
          [data] "i"(PLUMB_WRITER_DATA), [bytes] "i"(PLUMB_WRITER_RING_BYTES),                       \
          [position_mask] "i"(PLUMB_WRITER_MASK), [ring_count] "i"(PLUMB_WRITER_RING_COUNT),         \
          [epoch] "i"(PLUMB_WRITER_EPOCH), [id_offset] "i"(PLUMB_WRITER_ID_OFFSET),                  \
          [tag] "i"(PLUMB_WRITER_THREAD_TAG), __VA_ARGS__                                            \
        : "rax", "rcx", "rdx", "r8", "r9", "r10", "memory", "cc"                                     \
        : off, slow)

#define PLUMB_COMPARE_ROOM "cmpq 8(%%r8), %%r10\n"

/* That of a payload which lies somewhere, readable up to the next multiple of 8 bytes. */
#define PLUMB_WRITE_SEQUENCE(load_rseq, is_on, ...)                                                  \
    PLUMB_WRITE_SEQUENCE_OF(, load_rseq, is_on,                                                      \
        "leaq 23(%[payload_bytes]), %%rax\n"                                                         \
        "andq $-8, %%rax\n",                                                                         \
        PLUMB_COMPARE_ROOM,                                                                          \
        "leal 16(%[payload_bytes]), %%eax\n"                                                         \
        "shll $16, %%eax\n"                                                                          \
        "orl %%eax, %%ecx\n",                                                                        \
        /* from its end to its start */                                                              \
        "leaq 7(%[payload_bytes]), %%rcx\n"                                                          \
        "andq $-8, %%rcx\n"                                                                          \
        "jz 6f\n"                                                                                    \
        "5: movq -8(%[payload], %%rcx), %%rax\n"                                                     \
        "movq %%rax, 8(%%r9, %%rcx)\n"                                                               \
        "subq $8, %%rcx\n"                                                                           \
        "jnz 5b\n"                                                                                   \
        "6:\n",                                                                                      \
        [writer] "r"(writer), [payload] "r"(payload), [payload_bytes] "r"(payload_bytes), __VA_ARGS__)

#define PLUMB_LOAD_RSEQ "movq plumb_setup(%%rip), %%rcx\n"

/* Still on in this writer's session? */
#define PLUMB_EVENT_IS_ON                                                                            \
        "movl (%[event]), %%eax\n"                                                                   \
        "testl %c[bit](%[writer]), %%eax\n"                                                          \
        "jz %l[off]\n"
/* clang-format on */

/* Where the event is on (a disable aborts us, and the slow path sees it). An abort is not tried again here: a thread that a
 * debugger, or itself, single-steps would never come through. */
static inline enum plumb_write_result plumb_write_fast(struct plumb_event* event,
                                                       const struct plumb_writer* writer, const void* payload,
                                                       uint64_t payload_bytes) {
    PLUMB_WRITE_SEQUENCE(PLUMB_LOAD_RSEQ, PLUMB_EVENT_IS_ON, [bit] "i"(PLUMB_WRITER_SESSION_BIT));
    return PLUMB_WRITTEN;
off:
    plumb_rseq_clear(plumb_setup.rseq_offset);
    return PLUMB_OFF;
slow:
    plumb_rseq_clear(plumb_setup.rseq_offset);
    return PLUMB_SLOW;
}

/* clang-format off */
/*
 * Adds one to the event's count of this CPU, in a session that counts (<plumb/abi/counts.h>). There is no work before the commit:
 * the addition is the one store.
 */
static inline enum plumb_write_result plumb_count_fast(struct plumb_event* event,
                                                       const struct plumb_writer* writer) {
    __asm__ volatile goto(
        PLUMB_RSEQ_DESCRIPTOR
        "leaq 3b(%%rip), %%rax\n"
        "movq plumb_setup(%%rip), %%rcx\n"
        "movq %%rax, %%fs:8(%%rcx)\n"
        "1:\n"
        PLUMB_RSEQ_LOOP(0)
        /* still on? */
        "movl (%[event]), %%eax\n"
        "testl %c[bit](%[writer]), %%eax\n"
        "jz %l[off]\n"
        /* is this thread one that the kernel restarts? (a child of vfork is not) */
        "movq plumb_thread_self@gottpoff(%%rip), %%rdx\n"
        "movl %%fs:4(%%rdx), %%eax\n"
        "cmpl %%eax, %c[epoch](%[writer])\n"
        "ja %l[slow]\n"
        /* rcx = this CPU, and whether its table is open */
        "movl %%fs:4(%%rcx), %%ecx\n"
        "cmpl %c[ring_count](%[writer]), %%ecx\n"
        "jae %l[slow]\n"
        "movl %%ecx, %%r8d\n"
        "shlq $8, %%r8\n"
        "addq %c[control](%[writer]), %%r8\n"
        /* (1, where events are counted: a ring that came into their place since the look at `mode` has 0 there, or a sub-buffer's end) */
        "cmpq $1, 8(%%r8)\n"
        "jne %l[slow]\n"
        /* rcx = its table, rdx = the event's place there */
        "imulq %c[bytes](%[writer]), %%rcx\n"
        "addq %c[data](%[writer]), %%rcx\n"
        "movl %c[id_offset](%[writer]), %%edx\n"
        "movzwl (%[event], %%rdx), %%edx\n"
        "shlq $4, %%rdx\n"
        PLUMB_RSEQ_LOOP(2)
        /* publish */
        "incq (%%rcx, %%rdx)\n"
        "2:\n"
        "movq plumb_setup(%%rip), %%rcx\n"
        "movq $0, %%fs:8(%%rcx)\n"
        PLUMB_RSEQ_ABORT("slow")
        : /* no outputs */
        : [event] "r"(event), [writer] "r"(writer), [control] "i"(PLUMB_WRITER_CONTROL),
          [data] "i"(PLUMB_WRITER_DATA), [bytes] "i"(PLUMB_WRITER_RING_BYTES),
          [ring_count] "i"(PLUMB_WRITER_RING_COUNT), [epoch] "i"(PLUMB_WRITER_EPOCH),
          [bit] "i"(PLUMB_WRITER_SESSION_BIT), [id_offset] "i"(PLUMB_WRITER_ID_OFFSET)
        : "rax", "rcx", "rdx", "r8", "memory", "cc"
        : off, slow);
    return PLUMB_WRITTEN;
off:
    plumb_rseq_clear(plumb_setup.rseq_offset);
    return PLUMB_OFF;
slow:
    plumb_rseq_clear(plumb_setup.rseq_offset);
    return PLUMB_SLOW;
}
/* clang-format on */

#endif

#ifdef __cplusplus
} // extern "C"
#endif

#endif
