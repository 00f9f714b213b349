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

/* Whether records of it may be quick, in a process with rseq (until something is known, nothing is), and it is known that the thread's tracepoint
 * (or the outermost of them) has led to it. */
__attribute__((always_inline)) static inline bool may_be_quick(const struct traced_event* traced) {
    const struct reader* const reader = lttng_ust_urcu_reader;
    return __builtin_expect((uint32_t)__atomic_load_n(&traced->quick, __ATOMIC_RELAXED) != QUICK_IS_NOT &&
                                reader != NULL && reader->led_to[0] == traced->probes,
                            1);
}

/* clang-format off */
#define LAYOUT(member) "i"(offsetof(struct traced_event, layout.member))

/*
 * Only where the event is on as it was when last all went well, in one session that records (`quick`): that session's writer is loaded in the
 * sequence that looks at it, so it is the right one. (In `event` is traced->event.)
 */
#define IS_QUICK                                                                                     \
        "movq %c[quick](%[event]), %[writer]\n"                                                     \
        "cmpl %k[writer], (%[event])\n"                                                             \
        "jne %l[slow]\n"                                                                            \
        "shrq $%c[shift], %[writer]\n"                                                              \
        "addq %c[writers]+plumb_setup(%%rip), %[writer]\n"
#define DOES_LAYOUT_FIT                                                                              \
        "movl %c[length](%[event]), %%eax\n"                                                        \
        "cmpl %c[limit](%[writer]), %%eax\n"                                                        \
        "ja %l[slow]\n"
#define QUICK_SEQUENCE(does_fit, record_bytes, compare_room, add_length, put_payload, ...)           \
    const struct plumb_writer* writer;                                                               \
    PLUMB_WRITE_SEQUENCE_OF([writer] "=&r"(writer), PLUMB_LOAD_RSEQ, IS_QUICK does_fit, \
        record_bytes, compare_room, add_length, put_payload,                                         \
        [payload] "r"(payload), [quick] "i"(offsetof(struct traced_event, quick)),                   \
        [shift] "i"(QUICK_WRITER_SHIFT), [writers] "i"(PLUMB_SETUP_WRITERS),                         \
        [limit] "i"(PLUMB_WRITER_RECORD_LIMIT), __VA_ARGS__);                                        \
    return true;                                                                                     \
slow:                                                                                                \
    plumb_rseq_clear(plumb_setup.rseq_offset);                                                       \
off:                                                                                                 \
    return false

#define RECORD_BYTES "movl %c[record_bytes](%[event]), %%eax\n"
#define ADD_LENGTH "orl %c[length_bits](%[event]), %%ecx\n"
#define LENGTHS [length] LAYOUT(length), [record_bytes] LAYOUT(record_bytes), [length_bits] LAYOUT(length_bits)

/* Of words as they are. */
#define PUT_WORD(n) "movq 8 * " #n "(%[payload]), %%rax\n" "movq %%rax, 16 + 8 * " #n "(%%r9)\n"
#define DEFINE_WRITE_WORDS(name, put)                                                                \
    static inline bool name(struct traced_event* event, const char* payload) {                       \
        QUICK_SEQUENCE(DOES_LAYOUT_FIT, RECORD_BYTES, PLUMB_COMPARE_ROOM, ADD_LENGTH, put, LENGTHS,  \
                       [last_word] LAYOUT(last_word));                                               \
    }
#define PUT_WORDS                                                                                    \
        "movl %c[last_word](%[event]), %%ecx\n"                                                     \
        "5: movq (%[payload], %%rcx), %%rax\n"                                                      \
        "movq %%rax, 16(%%r9, %%rcx)\n"                                                             \
        "subq $8, %%rcx\n"                                                                          \
        "jns 5b\n"

/* Of numbers of any size: of each all eight bytes, the upper ones of which are overwritten by what follows. Those of the last may lie
 * behind the record, where nobody reads yet, as long as the writer may write there. */
#define PUT_NUMBER(n)                                                                                \
        "movzwl %c[numbers_offsets] + 2 * " #n "(%[event]), %%eax\n"                                \
        "movq 8 * " #n "(%[payload]), %%rdx\n"                                                      \
        "movq %%rdx, 16(%%r9, %%rax)\n"
#define COMPARE_MORE_ROOM "leaq 8(%%r10), %%rax\n" "cmpq 8(%%r8), %%rax\n"
#define CLEAR_LAST_WORD "movl %c[last_word](%[event]), %%eax\n" "movq $0, 16(%%r9, %%rax)\n"
#define DEFINE_WRITE_NUMBERS(name, put)                                                              \
    static inline bool name(struct traced_event* event, const char* payload) {                       \
        QUICK_SEQUENCE(DOES_LAYOUT_FIT, RECORD_BYTES, COMPARE_MORE_ROOM, ADD_LENGTH, CLEAR_LAST_WORD put, LENGTHS, \
                       [last_word] LAYOUT(last_word), RUN(numbers));                                 \
    }

/* As many as there are. */
#define PUT_NEXT(run, n)                                                                             \
        "movzwl %c[" #run "_offsets] + 2 * " #n "(%[event], %%rcx, 2), %%eax\n"                     \
        "movq 8 * " #n "(%[payload], %%rcx, 8), %%rdx\n"                                            \
        "movq %%rdx, 16(%%r9, %%rax)\n"
#define PUT_TWO(run) PUT_NEXT(run, 0) PUT_NEXT(run, 1) "addq $2, %%rcx\n"
#define PUT_FOUR(run) PUT_NEXT(run, 0) PUT_NEXT(run, 1) PUT_NEXT(run, 2) PUT_NEXT(run, 3) "addq $4, %%rcx\n"
#define PUT_RUN(run, some)                                                                           \
        "movslq %c[" #run "_first](%[event]), %%rcx\n"                                              \
        "5: " some(run)                                                                              \
        "cmpl %c[" #run "_end](%[event]), %%ecx\n"                                                  \
        "jb 5b\n"
#define RUN(run) [run##_first] LAYOUT(run.first), [run##_end] LAYOUT(run.end), [run##_offsets] LAYOUT(run.offsets[3])

#define WORDS_1 PUT_WORD(0)
#define WORDS_2 WORDS_1 PUT_WORD(1)
#define WORDS_3 WORDS_2 PUT_WORD(2)
#define WORDS_4 WORDS_3 PUT_WORD(3)
#define WORDS_5 WORDS_4 PUT_WORD(4)
#define WORDS_6 WORDS_5 PUT_WORD(5)
#define WORDS_7 WORDS_6 PUT_WORD(6)
#define WORDS_8 WORDS_7 PUT_WORD(7)
#define NUMBERS_1 PUT_WORD(0)
#define NUMBERS_2 NUMBERS_1 PUT_NUMBER(1)
#define NUMBERS_3 NUMBERS_2 PUT_NUMBER(2)
#define NUMBERS_4 NUMBERS_3 PUT_NUMBER(3)
#define NUMBERS_5 NUMBERS_4 PUT_NUMBER(4)
#define NUMBERS_6 NUMBERS_5 PUT_NUMBER(5)
#define NUMBERS_7 NUMBERS_6 PUT_NUMBER(6)
#define NUMBERS_8 NUMBERS_7 PUT_NUMBER(7)

/* Of a string of less than 16 bytes, which `chunk` has, with zeros behind it, and numbers around it. Where there are none before it, or behind
 * it, what stands there is written over by the string, or lies behind the record. */
static inline bool write_one_string(struct traced_event* event, const char* payload, __m128i chunk, uint64_t length) {
    QUICK_SEQUENCE(
        "cmpl %c[limit](%[writer]), %k[length]\n"
        "ja %l[slow]\n",
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
        [chunk] "x"(chunk), [length] "r"(length), [string_at] LAYOUT(string_at), [behind_bytes] LAYOUT(behind_bytes),
        RUN(numbers), RUN(behind));
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

/* Whether the event is on as it was when last all went well, and to where. */
static const struct plumb_writer* quick_writer(const struct traced_event* traced) {
    const uint64_t quick = __atomic_load_n(&traced->quick, __ATOMIC_RELAXED);
    if ((uint32_t)quick != __atomic_load_n(&traced->event.enabled, __ATOMIC_RELAXED)) return NULL;
    return (const struct plumb_writer*)((const char*)plumb_setup.writers + (quick >> QUICK_WRITER_SHIFT));
}

/* Of strings as long as the room, and as many as there are. */
__attribute__((noinline)) static int record_quickly(struct traced_event* traced, const char* values,
                                                    struct asked asked) {
    unsigned char room[PAYLOAD_ROOM_BYTES + SLACK_BYTES] __attribute__((aligned(16)));
    const struct plumb_writer* const writer = quick_writer(traced);
    if (writer != NULL && may_be_quick(traced) && traced->asked_from == asked.from) {
        unsigned char* const end = put_quickly(traced, values, room);
        const uint32_t bytes = (uint32_t)(end - room);
        if (__builtin_expect(end != NULL && PLUMB_RECORD_HEADER_BYTES + bytes <=
                                                __atomic_load_n(&writer->record_limit, __ATOMIC_RELAXED),
                             1)) {
            memset(end, 0, 8);
            if (__builtin_expect(plumb_write_fast(&traced->event, writer, room, bytes) != PLUMB_SLOW, 1))
                return UST_FILTER_REJECTS;
        }
    }
    return record_otherwise(traced, values, asked);
}

#define TRACED                                                               \
    struct traced_event* traced = traced_of(common);                         \
    __asm__("" : "+r"(traced)); /* by one register, so that none is saved */ \
    (void)probe_context, (void)filter_context

/* Of an event whose records are all as long. */
#define DEFINE_RECORD(name, write)                                                                         \
    static int name(const struct ust_event_common* common, const char* values, void* probe_context,        \
                    void* filter_context) {                                                                \
        TRACED;                                                                                            \
        if (may_be_quick(traced) && __builtin_expect(write(traced, values), 1)) return UST_FILTER_REJECTS; \
        return record_otherwise(traced, values, WHO_ASKED);                                                \
    }
#define DEFINE_WORDS(name, put)           \
    DEFINE_WRITE_WORDS(write_##name, put) \
    DEFINE_RECORD(name, write_##name)
#define DEFINE_NUMBERS(name, put)           \
    DEFINE_WRITE_NUMBERS(write_##name, put) \
    DEFINE_RECORD(name, write_##name)

DEFINE_WORDS(words_1, WORDS_1)
DEFINE_WORDS(words_2, WORDS_2)
DEFINE_WORDS(words_3, WORDS_3)
DEFINE_WORDS(words_4, WORDS_4)
DEFINE_WORDS(words_5, WORDS_5)
DEFINE_WORDS(words_6, WORDS_6)
DEFINE_WORDS(words_7, WORDS_7)
DEFINE_WORDS(words_8, WORDS_8)
DEFINE_WORDS(words_more, PUT_WORDS)
DEFINE_NUMBERS(numbers_1, NUMBERS_1)
DEFINE_NUMBERS(numbers_2, NUMBERS_2)
DEFINE_NUMBERS(numbers_3, NUMBERS_3)
DEFINE_NUMBERS(numbers_4, NUMBERS_4)
DEFINE_NUMBERS(numbers_5, NUMBERS_5)
DEFINE_NUMBERS(numbers_6, NUMBERS_6)
DEFINE_NUMBERS(numbers_7, NUMBERS_7)
DEFINE_NUMBERS(numbers_8, NUMBERS_8)
DEFINE_NUMBERS(numbers_more, PUT_RUN(numbers, PUT_FOUR))

int record_one_string(const struct ust_event_common* common, const char* values, void* probe_context,
                      void* filter_context) {
    TRACED;
    const char* string;
    memcpy(&string, values + traced->layout.string_value * sizeof(string), sizeof(string));
    if (may_be_quick(traced) && traced->asked_from == __builtin_return_address(0) &&
        !lies_in_frame(traced, values, string) && string != NULL && plumb_has_chunk(string)) {
        uint64_t bytes;
        const __m128i chunk = plumb_short_string(string, &bytes);
        if (__builtin_expect(bytes < PLUMB_CHUNK_BYTES, 1) &&
            __builtin_expect(write_one_string(traced, values, chunk, traced->layout.length + bytes), 1))
            return UST_FILTER_REJECTS;
    }
    return record_quickly(traced, values, WHO_ASKED);
}

int record_values(const struct ust_event_common* common, const char* values, void* probe_context,
                  void* filter_context) {
    (void)probe_context, (void)filter_context;
    return record_quickly(traced_of(common), values, WHO_ASKED);
}

enum { shapes = 8 };

at_once_function* record_of_words(uint32_t count) {
    static at_once_function* const functions[shapes] = {words_1, words_2, words_3, words_4,
                                                        words_5, words_6, words_7, words_8};
    return count <= shapes ? functions[count - 1] : words_more;
}

at_once_function* record_of_numbers(uint32_t count) {
    static at_once_function* const functions[shapes] = {numbers_1, numbers_2, numbers_3, numbers_4,
                                                        numbers_5, numbers_6, numbers_7, numbers_8};
    return count <= shapes ? functions[count - 1] : numbers_more;
}

#else

int record_values(const struct ust_event_common* common, const char* values, void* probe_context,
                  void* filter_context) {
    (void)probe_context, (void)filter_context;
    return record_otherwise(traced_of(common), values, WHO_ASKED);
}

int record_one_string(const struct ust_event_common* common, const char* values, void* probe_context,
                      void* filter_context) {
    return record_values(common, values, probe_context, filter_context);
}

at_once_function* record_of_words(uint32_t count) {
    (void)count;
    return record_values;
}

at_once_function* record_of_numbers(uint32_t count) {
    return record_of_words(count);
}

#endif
