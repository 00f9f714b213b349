/*
 * A whole record by one call, where the quick way of at_once.c does not do: of several sessions, or of one that counts, has filters
 * or context; in threads without rseq; where a sub-buffer ends; with longer strings; and in code that says by no call of ours that it is in a
 * tracepoint (_LGPL_SOURCE).
 */
#include "at_once.h"
#include "large.h"
#include "level.h"
#include "reader.h"

#include <plumb/abi/event.h>
#include <plumb/abi/record.h>
#include <plumb/detail/writer.h>

#include <string.h>

/* Where it ends, or NULL: it does not go this way. */
static unsigned char* put_values(const struct traced_event* traced, const char* from, unsigned char* at,
                                 const unsigned char* end) {
    const uintptr_t frame_bytes = traced->frame_bytes, frame = (uintptr_t)from - frame_bytes;
    for (const struct value* value = traced->values; value->kind != VALUE_END; value++) {
        if (value->kind == VALUE_STRING) {
            const char* string;
            memcpy(&string, from, sizeof(string));
            if ((uintptr_t)string - frame < 2 * frame_bytes) return NULL;
            const uint64_t room = (uint64_t)(end - at) - value->rest_bytes;
            const uint64_t copied = plumb_copy_string(at, string, room);
            if (__builtin_expect(copied > room, 0)) return NULL;
            at += copied + 1;                      /* its NUL is there */
        } else if (value->kind == VALUE_INTEGER) { /* its upper bytes are overwritten by what follows */
            memcpy(at, from, sizeof(uint64_t));
            at += value->size;
        }
        from += sizeof(uint64_t);
    }
    return at;
}

/* Call stacks, which an event has with its context, begin where the program called us. */
__attribute__((cold, noinline)) static void emit_with_context(struct plumb_event* event, uint32_t enabled,
                                                              const void* payload, uint32_t bytes,
                                                              const void* entry) {
    for (; enabled != 0; enabled &= enabled - 1)
        plumb_emit_from(event, (uint32_t)__builtin_ctz(enabled), payload, bytes, entry);
}

/* What does not fit into the stack is put into a scratch buffer, which stays ours for as long as a string takes to come; if there is none, or a string lies in the probe function's
 * frame, it goes field by field. Where that is so once, it is so again. */
__attribute__((cold, noinline)) static int record_large_values(struct traced_event* traced,
                                                               struct reader* reader, const char* values) {
    struct ust_context frame; /* by which it is known whether this was left */
    struct taken* const taken = large_take();
    unsigned char *payload = NULL, *end = NULL;
    if (taken != NULL) {
        large_begin(taken, &frame, (uintptr_t)__builtin_dwarf_cfa());
        payload = large_payload(taken);
        end = put_values(traced, values, payload, payload + LARGE_ROOM_BYTES);
    }
    if (end != NULL) {
        memset(end, 0, 8);
        plumb_emit_large(&traced->event, payload, (uint32_t)(end - payload), 0);
    } else if (taken != NULL) {
        __atomic_store_n(&traced->common.has_filter, 0, __ATOMIC_RELAXED);
    }
    if (taken != NULL) large_give_back(taken);
    forget_level(reader, (uintptr_t)values);
    return end == NULL ? UST_FILTER_ACCEPTS : UST_FILTER_REJECTS;
}

/* What was taken for the question, when the code was looked at, is another call. */
__attribute__((cold, noinline)) static int go_by_field(struct traced_event* traced, struct reader* reader,
                                                       const char* values) {
    __atomic_store_n(&traced->common.has_filter, 0, __ATOMIC_RELAXED);
    forget_level(reader, (uintptr_t)values);
    return UST_FILTER_ACCEPTS;
}

/* plumb_emit() without a call, for one session; it does the rest. */
static inline void emit(struct plumb_event* event, uint32_t enabled, const void* payload, uint32_t bytes) {
#if defined(__x86_64__)
    const uint32_t session = (uint32_t)__builtin_ctz(enabled);
    const struct plumb_writer* const writer = plumb_setup.writers + session;
    const uint32_t length = PLUMB_RECORD_HEADER_BYTES + bytes;
    if (__builtin_expect((enabled & (enabled - 1)) == 0 && plumb_setup.rseq_offset != 0 &&
                             length <= __atomic_load_n(&writer->record_limit, __ATOMIC_RELAXED),
                         1)) {
        if (__builtin_expect(plumb_write_fast(event, writer, payload, bytes) == PLUMB_SLOW, 0))
            plumb_emit_slow(event, session, payload, bytes);
        return;
    }
#endif
    plumb_emit(event, payload, bytes);
}

static bool is_for_one_session(uint32_t enabled) {
    return (enabled & (enabled - 1)) == 0 && enabled >> PLUMB_MAX_SESSIONS == 0;
}

/* Not where the session's clock is none that the quick sequence reads. */
static uint64_t quick_of(uint32_t enabled) {
    if (!is_for_one_session(enabled) || plumb_setup.rseq_offset == 0) return QUICK_IS_NOT;
    const uint32_t session = (uint32_t)__builtin_ctz(enabled);
    const struct plumb_writer* const writer = plumb_setup.writers + session;
    if (__atomic_load_n(&writer->ring_count, __ATOMIC_RELAXED) == 0) return QUICK_IS_NOT;
    return (uint64_t)(session * sizeof(*writer)) << QUICK_WRITER_SHIFT | enabled;
}

/* Threads that go this way all the time do not take the line with it from each other. */
static void set_quick(struct traced_event* traced, uint64_t quick) {
    if (__atomic_load_n(&traced->quick, __ATOMIC_RELAXED) != quick)
        __atomic_store_n(&traced->quick, quick, __ATOMIC_RELAXED);
}

int record_otherwise(struct traced_event* traced, const char* values, struct asked asked) {
    unsigned char room[PAYLOAD_ROOM_BYTES + SLACK_BYTES] __attribute__((aligned(8)));
    const uint32_t enabled = __atomic_load_n(&traced->event.enabled, __ATOMIC_RELAXED);
    if (enabled == 0) return UST_FILTER_REJECTS;
    struct reader* const reader = own_reader();
    const bool knows = know_level(reader, traced, (uintptr_t)values);
    if (traced->asked_from != NULL && traced->asked_from != asked.from)
        return go_by_field(traced, reader, values);
    unsigned char* const end = put_values(traced, values, room, room + PAYLOAD_ROOM_BYTES);
    if (__builtin_expect(end == NULL, 0)) return record_large_values(traced, reader, values);
    const uint32_t bytes = (uint32_t)(end - room);
    if ((bytes & 7) != 0) memset(end, 0, 8);
    if (__builtin_expect(enabled >> PLUMB_MAX_SESSIONS == 0, 1))
        emit(&traced->event, enabled, room, bytes);
    else
        emit_with_context(&traced->event, enabled, room, bytes, asked.entry);
    if (plumb_thread_self.id != reader->thread_id && plumb_thread_self.id != 0)
        reader->thread_id = plumb_thread_self.id; /* it has written something */
    set_quick(traced, quick_of(enabled));
    if (knows) forget_level(reader, (uintptr_t)values);
    return UST_FILTER_REJECTS;
}
