/*
 * A whole record by one call.
 *
 * A probe function can lay out all values of an event for a filter, before it writes the first of them: each as a word, of a
 * string its address. With nothing but numbers and strings a record is made of that by the filter, which then says no:
 * so what would be a call for each field, and two around them, is one.
 *
 * Of a string only the address is laid out, and it is copied when all other expressions of the event have been computed, too. So an
 * event with strings goes this way if its probe function is known to do nothing until then but compute (pure_code.c), and
 * no string lies in the function's own frame, where one may be gone by then.
 *
 * Here is what is quick: one session that records, in a thread that the kernel restarts, in a tracepoint that is led to by a call, with strings
 * that fit. It calls nothing, so that nothing has to be saved; all else is left to record_otherwise(). Numbers go straight from where they
 * are laid out to the ring: put together first, they would be read again by words of which none was written by one store, and
 * for that a processor waits until the stores are through.
 */
#include "at_once.h"
#include "reader.h"

#include <plumb/abi/event.h>
#include <plumb/abi/record.h>
#include <plumb/detail/chunk.h>
#include <plumb/detail/writer.h>

#include <stddef.h>
#include <string.h>

static struct traced_event* traced_of(const struct ust_event_common* common) {
    return (struct traced_event*)((unsigned char*)common - offsetof(struct traced_event, common));
}

#if defined(__x86_64__) && defined(PLUMB_COPY_WIDE)

/* Whether the event is on as it was when last all went well, in one session that records, and it is known that the thread's tracepoint (or
 * the outermost of them) has led to it. */
__attribute__((always_inline)) static inline bool is_quick(const struct traced_event* traced,
                                                           uint64_t quick) {
    const struct reader* const reader = lttng_ust_urcu_reader;
    return __builtin_expect((uint32_t)quick == __atomic_load_n(&traced->event.enabled, __ATOMIC_RELAXED) &&
                                reader != NULL && reader->led_to[0] == traced->probes,
                            1);
}

static inline const struct plumb_writer* quick_writer(uint64_t quick) {
    return (const struct plumb_writer*)((const char*)plumb_setup.writers + (quick >> QUICK_WRITER_SHIFT));
}

static inline bool fits(const struct plumb_writer* writer, uint32_t length) {
    return __builtin_expect(length <= __atomic_load_n(&writer->record_limit, __ATOMIC_RELAXED), 1);
}

/* clang-format off */
#define LAYOUT(member) "i"(offsetof(struct traced_event, layout.member))
#define RECORD_BYTES "movl %c[record_bytes](%[event]), %%eax\n"
#define RESULTS                                       \
    return PLUMB_WRITTEN;                             \
    off : plumb_rseq_clear(plumb_setup.rseq_offset);  \
    return PLUMB_OFF;                                 \
    slow : plumb_rseq_clear(plumb_setup.rseq_offset); \
    return PLUMB_SLOW
#define ADD_LENGTH "orl %c[length_bits](%[event]), %%ecx\n"

/* Of words as they are. */
static inline enum plumb_write_result write_words(struct traced_event* event, const struct plumb_writer* writer,
                                                  const char* payload) {
    PLUMB_WRITE_SEQUENCE_OF(PLUMB_LOAD_RSEQ, PLUMB_EVENT_IS_ON, RECORD_BYTES, PLUMB_COMPARE_ROOM, ADD_LENGTH,
        "movl %c[last_word](%[event]), %%ecx\n"
        "5: movq (%[payload], %%rcx), %%rax\n"
        "movq %%rax, 16(%%r9, %%rcx)\n"
        "subq $8, %%rcx\n"
        "jns 5b\n",
        [payload] "r"(payload), [bit] "i"(PLUMB_WRITER_SESSION_BIT), [record_bytes] LAYOUT(record_bytes),
        [length_bits] LAYOUT(length_bits), [last_word] LAYOUT(last_word));
    RESULTS;
}

/* Of numbers of any size: of each all eight bytes, the upper ones of which are overwritten by what follows. Those of the last may lie
 * behind the record, where nobody reads yet, as long as the writer may write there. */
#define PUT_NUMBER(run, n)                                                                           \
        "movzwl %c[" #run "_offsets] + 2 * " #n "(%[event], %%rcx, 2), %%eax\n"                      \
        "movq 8 * " #n "(%[payload], %%rcx, 8), %%rdx\n"                                             \
        "movq %%rdx, 16(%%r9, %%rax)\n"
#define PUT_TWO(run) PUT_NUMBER(run, 0) PUT_NUMBER(run, 1) "addq $2, %%rcx\n"
#define PUT_FOUR(run) PUT_NUMBER(run, 0) PUT_NUMBER(run, 1) PUT_NUMBER(run, 2) PUT_NUMBER(run, 3) "addq $4, %%rcx\n"
#define PUT_EIGHT(run) PUT_NUMBER(run, 0) PUT_NUMBER(run, 1) PUT_NUMBER(run, 2) PUT_NUMBER(run, 3) \
                       PUT_NUMBER(run, 4) PUT_NUMBER(run, 5) PUT_NUMBER(run, 6) PUT_NUMBER(run, 7) "addq $8, %%rcx\n"
#define PUT_RUN(run, some)                                                                           \
        "movslq %c[" #run "_first](%[event]), %%rcx\n"                                               \
        "5: " some(run)                                                                              \
        "cmpl %c[" #run "_end](%[event]), %%ecx\n"                                                   \
        "jb 5b\n"
#define RUN(run) [run##_first] LAYOUT(run.first), [run##_end] LAYOUT(run.end), [run##_offsets] LAYOUT(run.offsets[3])

#define WRITE_NUMBERS(some)                                                                          \
    PLUMB_WRITE_SEQUENCE_OF(PLUMB_LOAD_RSEQ, PLUMB_EVENT_IS_ON, RECORD_BYTES,                        \
        "leaq 8(%%r10), %%rax\n"                                                                     \
        "cmpq 8(%%r8), %%rax\n",                                                                     \
        ADD_LENGTH,                                                                                  \
        "movl %c[last_word](%[event]), %%eax\n"                                                      \
        "movq $0, 16(%%r9, %%rax)\n"                                                                 \
        PUT_RUN(numbers, some),                                                                      \
        [payload] "r"(payload), [bit] "i"(PLUMB_WRITER_SESSION_BIT), [record_bytes] LAYOUT(record_bytes), \
        [length_bits] LAYOUT(length_bits), [last_word] LAYOUT(last_word), RUN(numbers))

#define DEFINE_WRITE(name, some)                                                                     \
    static inline enum plumb_write_result name(struct traced_event* event, const struct plumb_writer* writer, \
                                               const char* payload) {                                \
        WRITE_NUMBERS(some);                                                                         \
        RESULTS;                                                                                     \
    }
DEFINE_WRITE(write_by_two, PUT_TWO)
DEFINE_WRITE(write_by_four, PUT_FOUR)
DEFINE_WRITE(write_by_eight, PUT_EIGHT)

/* Of a string of less than 16 bytes, which `chunk` has, with zeros behind it, and numbers around it. Where there are none before it, or behind
 * it, what stands there is written over by the string, or lies behind the record. */
static inline enum plumb_write_result write_one_string(struct traced_event* event, const struct plumb_writer* writer,
                                                       const char* payload, __m128i chunk, uint64_t length) {
    PLUMB_WRITE_SEQUENCE_OF(PLUMB_LOAD_RSEQ, PLUMB_EVENT_IS_ON,
        "leaq 7(%[length]), %%rax\n"
        "andq $-8, %%rax\n",
        "leaq 16(%%r10), %%rax\n"
        "cmpq 8(%%r8), %%rax\n",
        "movl %k[length], %%eax\n"
        "shll $16, %%eax\n"
        "orl %%eax, %%ecx\n",
        "leaq 7(%[length]), %%rax\n"
        "andq $-8, %%rax\n"
        "movq $0, -8(%%r9, %%rax)\n"
        "cmpl $0, %c[numbers_end](%[event])\n"
        "je 6f\n"
        PUT_RUN(numbers, PUT_TWO)
        "6: movl %c[string_at](%[event]), %%eax\n"
        "movups %[chunk], 16(%%r9, %%rax)\n"
        "movl %c[behind_bytes](%[event]), %%eax\n"
        "testl %%eax, %%eax\n"
        "jz 6f\n"
        "addq %[length], %%r9\n"
        "subq %%rax, %%r9\n"
        "subq $16, %%r9\n"
        PUT_RUN(behind, PUT_TWO)
        "6:\n",
        [payload] "r"(payload), [chunk] "x"(chunk), [length] "r"(length), [bit] "i"(PLUMB_WRITER_SESSION_BIT),
        [string_at] LAYOUT(string_at), [behind_bytes] LAYOUT(behind_bytes), RUN(numbers), RUN(behind));
    RESULTS;
}
/* clang-format on */

/* Of a string: where it ends, behind its NUL; NULL: it does not fit, or not in a hurry. */
__attribute__((always_inline)) static inline unsigned char*
put_string(unsigned char* at, const unsigned char* limit, const char* from) {
    uint64_t bytes;
    if (from == NULL) return NULL;
    do {
        if (at > limit || !plumb_has_chunk(from)) return NULL;
        bytes = plumb_copy_chunk(at, from);
        at += bytes;
        from += bytes;
    } while (bytes == PLUMB_CHUNK_BYTES);
    return at + 1;
}

/* That of the probe function: one may be gone from there before it is copied in its turn. */
static inline bool lies_in_frame(const struct traced_event* traced, const char* values, const char* string) {
    const uintptr_t frame_bytes = traced->frame_bytes;
    return (uintptr_t)string - ((uintptr_t)values - frame_bytes) < 2 * frame_bytes;
}

/* Where they end, or NULL. */
__attribute__((always_inline)) static inline unsigned char*
put_quickly(const struct traced_event* traced, const char* from, unsigned char* room) {
    const char* const values = from;
    /* All numbers that may come have room behind it. */
    const unsigned char* const limit =
        room + PAYLOAD_ROOM_BYTES - PLUMB_EVENT_MAX_FIELDS * sizeof(uint64_t) - PLUMB_CHUNK_BYTES;
    unsigned char* at = room;
    for (const struct value* value = traced->values; value->kind != VALUE_END; value++) {
        uint64_t word;
        memcpy(&word, from, sizeof(word));
        from += sizeof(word);
        if (value->kind == VALUE_STRING) {
            if (lies_in_frame(traced, values, (const char*)(uintptr_t)word)) return NULL;
            at = put_string(at, limit, (const char*)(uintptr_t)word);
            if (__builtin_expect(at == NULL, 0)) return NULL;
        } else { /* its upper bytes are overwritten by what follows */
            memcpy(at, &word, sizeof(word));
            at += value->size;
        }
    }
    return at;
}

/* Of strings as long as the room, and as many as there are. */
__attribute__((noinline)) static int record_quickly(struct traced_event* traced, const char* values,
                                                    struct asked asked) {
    unsigned char room[PAYLOAD_ROOM_BYTES + SLACK_BYTES] __attribute__((aligned(16)));
    const uint64_t quick = __atomic_load_n(&traced->quick, __ATOMIC_RELAXED);
    const struct plumb_writer* const writer = quick_writer(quick);
    if (is_quick(traced, quick) && traced->asked_from == asked.from) {
        unsigned char* const end = put_quickly(traced, values, room);
        const uint32_t bytes = (uint32_t)(end - room);
        if (__builtin_expect(end != NULL, 1) && fits(writer, PLUMB_RECORD_HEADER_BYTES + bytes)) {
            memset(end, 0, 8);
            if (__builtin_expect(plumb_write_fast(&traced->event, writer, room, bytes) != PLUMB_SLOW, 1))
                return UST_FILTER_REJECTS;
        }
    }
    return record_otherwise(traced, values, asked);
}

#define QUICK                                                                 \
    struct traced_event* traced = traced_of(common);                          \
    __asm__("" : "+r"(traced)); /* by one register, so that none is saved */  \
    const uint64_t quick = __atomic_load_n(&traced->quick, __ATOMIC_RELAXED); \
    const struct plumb_writer* const writer = quick_writer(quick);            \
    (void)probe_context, (void)filter_context

/* Of an event whose records are all as long. */
#define DEFINE_RECORD(name, write)                                                           \
    int name(const struct ust_event_common* common, const char* values, void* probe_context, \
             void* filter_context) {                                                         \
        QUICK;                                                                               \
        if (is_quick(traced, quick) && fits(writer, traced->layout.length) &&                \
            __builtin_expect(write(traced, writer, values) != PLUMB_SLOW, 1))                \
            return UST_FILTER_REJECTS;                                                       \
        return record_otherwise(traced, values, WHO_ASKED);                                  \
    }
DEFINE_RECORD(record_words, write_words)
DEFINE_RECORD(record_by_two, write_by_two)
DEFINE_RECORD(record_by_four, write_by_four)
DEFINE_RECORD(record_by_eight, write_by_eight)

int record_one_string(const struct ust_event_common* common, const char* values, void* probe_context,
                      void* filter_context) {
    QUICK;
    const char* string;
    memcpy(&string, values + traced->layout.string_value * sizeof(string), sizeof(string));
    if (is_quick(traced, quick) && traced->asked_from == __builtin_return_address(0) &&
        !lies_in_frame(traced, values, string) && string != NULL && plumb_has_chunk(string)) {
        uint64_t bytes;
        const __m128i chunk = plumb_short_string(string, &bytes);
        const uint64_t length = traced->layout.length + bytes;
        if (__builtin_expect(bytes < PLUMB_CHUNK_BYTES, 1) && fits(writer, (uint32_t)length) &&
            __builtin_expect(write_one_string(traced, writer, values, chunk, length) != PLUMB_SLOW, 1))
            return UST_FILTER_REJECTS;
    }
    return record_quickly(traced, values, WHO_ASKED);
}

int record_values(const struct ust_event_common* common, const char* values, void* probe_context,
                  void* filter_context) {
    (void)probe_context, (void)filter_context;
    return record_quickly(traced_of(common), values, WHO_ASKED);
}

#else

#define AS_OTHERWISE(name)                                                                   \
    int name(const struct ust_event_common* common, const char* values, void* probe_context, \
             void* filter_context) {                                                         \
        (void)probe_context, (void)filter_context;                                           \
        return record_otherwise(traced_of(common), values, WHO_ASKED);                       \
    }
AS_OTHERWISE(record_words)
AS_OTHERWISE(record_by_two)
AS_OTHERWISE(record_by_four)
AS_OTHERWISE(record_by_eight)
AS_OTHERWISE(record_one_string)
AS_OTHERWISE(record_values)

#endif
