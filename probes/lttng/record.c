/*
 * From a probe function's calls (reserve, a write for each field, commit) to one record.
 *
 * The payload is put together in the thread's own room, above that of whatever it has interrupted, and is written to the ring
 * as a whole by commit: until then there is nothing that a kill, a jump or a fork could leave half done.
 */
#include "event.h"
#include "large.h"
#include "level.h"
#include "reader.h"
#include "room.h"

#include <plumb/abi/record.h>
#include <plumb/detail/writer.h>

#include <signal.h>
#include <stddef.h>
#include <string.h>

/* A record that is being put together; its payload stands behind it. */
struct record {
    struct taken taken;
    int32_t end_at; /* where its payload's room ends, from here: that of a large one is before it */
    bool is_cut;
    struct traced_event* traced;
    const struct step* step; /* of the next write */
    unsigned char* at;
    unsigned char payload[] __attribute__((aligned(16)));
};

_Static_assert(LARGE_RECORD_AT + sizeof(struct record) <= PLUMB_SCRATCH_BYTES,
               "a record fits a scratch buffer");

static struct traced_event* traced_of(const struct ust_context* context) {
    return (struct traced_event*)((uintptr_t)context->recorder - offsetof(struct traced_event, recorder));
}

/* NULL: its place was taken for one that was left, and is another one's. */
static inline struct record* record_of(const struct ust_context* context) {
    return (struct record*)taken_of(context);
}

static int32_t end_at(const struct record* record, const unsigned char* end) {
    return (int32_t)(end - (const unsigned char*)record);
}

static void begin(struct record* record, struct traced_event* traced, unsigned char* payload,
                  uint64_t room_bytes) {
    record->traced = traced;
    record->step = traced->steps;
    record->at = payload;
    record->end_at = end_at(record, payload + room_bytes);
    record->is_cut = traced->is_cut;
}

__attribute__((cold, noinline)) static void lose(struct ust_context* context) {
    plumb_lose(&traced_of(context)->event);
    forget_level(own_reader(), (uintptr_t)context);
}

static bool has_many_around(struct reader* reader, uintptr_t place) {
    for (uint32_t near = 0; near < ROOM_NESTED_MAX; near++) {
        struct around around = {.place = place};
        room_know_all_around(reader, &around);
        large_know_all_around(reader, &around);
        if (around.above >= ROOM_ABOVE_MAX || around.begun >= ROOM_BEGUN_MAX) return true;
        if (around.next == 0) return false;
        place = around.next;
    }
    return true;
}

/* What was left by jumps is none of them: it is taken back here, or each further one would look for it again. */
__attribute__((cold, noinline)) static bool is_too_deep(struct reader* reader,
                                                        const struct ust_context* context, uintptr_t place) {
    if (!has_many_around(reader, place)) return false;
    room_take_back_all(reader, context);
    large_take_back_of(reader);
    return has_many_around(reader, place);
}

__attribute__((cold, noinline)) static int reserve_large(struct ust_context* context, uintptr_t place) {
    struct record* const record =
        is_too_deep(own_reader(), context, place) ? NULL : (struct record*)large_take();
    if (record == NULL) {
        lose(context);
        return -1;
    }
    begin(record, traced_of(context), large_payload(&record->taken), LARGE_ROOM_BYTES);
    large_begin(&record->taken, context, place);
    return 0;
}

static int reserve(struct ust_context* context) {
    struct traced_event* const traced = traced_of(context);
    if (__builtin_expect(__atomic_load_n(&traced->event.enabled, __ATOMIC_RELAXED) == 0, 0)) return -1;
    struct reader* const reader = own_reader();
    const uintptr_t place = (uintptr_t)__builtin_dwarf_cfa();
    know_level(reader, traced, (uintptr_t)context);
    const uint64_t room_bytes = (context->data_bytes + traced->more_bytes + 15) & ~15ull;
    const uint64_t bytes = sizeof(struct record) + room_bytes + SLACK_BYTES;
    if (__builtin_expect(context->data_bytes > READER_ROOM_BYTES || bytes > READER_ROOM_BYTES, 0))
        return reserve_large(context, place);
    if (__builtin_expect(room_may_be_nested(reader), 0) && is_too_deep(reader, context, place)) {
        lose(context);
        return -1;
    }
    uint64_t start = room_take(reader, bytes, context);
    if (__builtin_expect(start == 0, 0) && room_take_back(reader, context))
        start = room_take(reader, bytes, context);
    if (__builtin_expect(start == 0, 0)) return reserve_large(context, place);
    struct record* const record = (struct record*)room_of_start(reader, start);
    begin(record, traced, record->payload, room_bytes);
    room_begin(&record->taken, start, context, place);
    room_tell(reader, &record->taken);
    return 0;
}

static bool is_large(const struct record* record) {
    return record->taken.start == 0;
}

__attribute__((cold)) static void commit_large(struct record* record, struct ust_context* context) {
    unsigned char* const payload = large_payload(&record->taken);
    plumb_emit_large(&record->traced->event, payload, (uint32_t)(record->at - payload), record->is_cut);
    large_give_back(&record->taken);
    forget_level(own_reader(), (uintptr_t)context);
}

/* Call stacks, which an event has with its context, begin where the program called us. */
__attribute__((cold, noinline)) static void emit_with_context(struct plumb_event* event, uint32_t enabled,
                                                              const void* payload, uint32_t bytes,
                                                              const void* entry) {
    for (; enabled != 0; enabled &= enabled - 1)
        plumb_emit_from(event, (uint32_t)__builtin_ctz(enabled), payload, bytes, entry);
}

static void commit(struct ust_context* context) {
    struct record* const record = record_of(context);
    if (__builtin_expect(record == NULL, 0)) {
        lose(context);
        return;
    }
    struct plumb_event* const event = &record->traced->event;
    memset(record->at, 0, 8); /* what is behind the payload goes into the ring, too */
    if (__builtin_expect(is_large(record), 0)) {
        commit_large(record, context);
        return;
    }
    const uint32_t bytes = (uint32_t)(record->at - record->payload);
    const uint32_t enabled = __atomic_load_n(&event->enabled, __ATOMIC_RELAXED);
    if (__builtin_expect(!record->is_cut && enabled >> PLUMB_MAX_SESSIONS == 0, 1))
        plumb_emit(event, record->payload, bytes);
    else if (!record->is_cut)
        emit_with_context(event, enabled, record->payload, bytes, __builtin_dwarf_cfa());
    else
        plumb_emit_large(event, record->payload, bytes, true);
    struct reader* const reader = own_reader();
    if (plumb_thread_self.id != 0) reader->thread_id = plumb_thread_self.id; /* it has written something */
    forget_level(reader, (uintptr_t)context);
    room_give_back(&record->taken);
}

static uint64_t room_of(const struct record* record) {
    return (uint64_t)((const unsigned char*)record + record->end_at - record->at);
}

/*
 * More is written than was measured: the lengths that an event was given went beyond 2^64 together. It goes on in a scratch buffer, if there
 * is one.
 */
__attribute__((cold, noinline)) static struct record* make_large(struct record* record) {
    struct record* const large = is_large(record) ? NULL : (struct record*)large_take();
    if (large == NULL) return record;
    unsigned char* const payload = large_payload(&large->taken);
    const size_t bytes = (size_t)(record->at - record->payload);
    *large = *record;
    memcpy(payload, record->payload, bytes);
    large->at = payload + bytes;
    large->end_at = end_at(large, payload + LARGE_ROOM_BYTES);
    struct ust_context* const context = record->taken.context;
    const uintptr_t place = record->taken.place;
    room_give_back(&record->taken);
    large_begin(&large->taken, context, place);
    return large;
}

static uint32_t fields_before(const struct record* record, const struct step* step) {
    uint32_t count = 0;
    for (const struct step* each = record->traced->steps; each != step; each++)
        if (each->kind != STEP_SKIP) count++;
    return count;
}

/* What is longest among the fields before is shortened, if it has more than its share. */
__attribute__((cold, noinline)) static void share_room(struct record* record, const struct step* step,
                                                       uint64_t least_bytes, uint64_t wanted_bytes) {
    unsigned char* const payload = large_payload(&record->taken);
    const uint64_t behind = least_bytes + step->rest_bytes;
    if (behind > LARGE_ROOM_BYTES) return;
    record->at = payload + plumb_share_payload(&record->traced->info, fields_before(record, step), payload,
                                               (uint32_t)(record->at - payload),
                                               (uint32_t)(LARGE_ROOM_BYTES - behind), wanted_bytes);
    record->is_cut = true;
}

/*
 * For a string, text or sequence, which takes at least so many bytes, and more if it can. A large one leaves what the fields behind it
 * need, and has its share of what those before it took. Elsewhere there is room for all.
 */
static uint64_t room_to_vary(struct record* record, const struct step* step, uint64_t least_bytes,
                             uint64_t wanted_bytes) {
    if (__builtin_expect(!is_large(record), 1)) return room_of(record);
    if (wanted_bytes > room_of(record) || least_bytes + wanted_bytes + step->rest_bytes > room_of(record))
        share_room(record, step, least_bytes, wanted_bytes);
    const uint64_t room = room_of(record);
    return room > step->rest_bytes ? room - step->rest_bytes : 0;
}

static const struct step* next_step(struct record* record) {
    const struct step* const step = record->step;
    if (step->kind != STEP_END) record->step++;
    return step;
}

/* What is not there, or does not fit, becomes zeros, so that all that follows stands where it should; and is told. */
static void put_nothing(struct record* record, uint64_t bytes) {
    const uint64_t put = bytes < room_of(record) ? bytes : room_of(record);
    memset(record->at, 0, put);
    record->at += put;
    record->is_cut = true;
}

static void reverse(unsigned char* at, uint64_t bytes, uint32_t size) {
    for (; bytes >= size; at += size, bytes -= size) {
        uint16_t two;
        uint32_t four;
        uint64_t eight;
        switch (size) {
        case 2:
            memcpy(&two, at, 2);
            two = __builtin_bswap16(two);
            memcpy(at, &two, 2);
            break;
        case 4:
            memcpy(&four, at, 4);
            four = __builtin_bswap32(four);
            memcpy(at, &four, 4);
            break;
        case 8:
            memcpy(&eight, at, 8);
            eight = __builtin_bswap64(eight);
            memcpy(at, &eight, 8);
            break;
        default:
            return;
        }
    }
}

/*
 * LTTng refuses an event that is larger than a sub-buffer (512 KiB) before it reads any of it. A length beyond that is a mistake of the
 * program's more often than so much data, and what is to be read there may not be.
 */
static uint64_t believed(struct record* record, uint64_t bytes) {
    enum { believed_bytes_max = 512 * 1024 };
    if (__builtin_expect(bytes <= believed_bytes_max, 1)) return bytes;
    record->is_cut = true;
    return 0;
}

/* Bytes of `count` elements that fit behind their count, which is written. */
static uint64_t put_count(struct record* record, const struct step* step, uint64_t count, uint32_t size) {
    const uint64_t room = room_to_vary(record, step, 2, count * size);
    uint64_t fits = room < 2 ? 0 : (room - 2) / size;
    if (room < 2) {
        put_nothing(record, 2);
        return 0;
    }
    if (fits > UINT16_MAX) fits = UINT16_MAX;
    if (fits > count) fits = count;
    if (fits < count) record->is_cut = true;
    const uint16_t written = (uint16_t)fits;
    memcpy(record->at, &written, 2);
    record->at += 2;
    return fits * size;
}

static void put_sequence(struct record* record, const struct step* step, const void* from, uint64_t bytes) {
    bytes = believed(record, bytes);
    if (__builtin_expect(2 + bytes > room_of(record), 0)) record = make_large(record);
    const uint64_t put = put_count(record, step, from != NULL ? bytes / step->size : 0, step->size);
    if (put != 0) memcpy(record->at, from, put);
    if (step->is_reversed) reverse(record->at, put, step->size);
    record->at += put;
}

static void write_field(struct ust_context* context, const void* from, size_t bytes, size_t alignment) {
    struct record* record = record_of(context);
    (void)alignment;
    if (__builtin_expect(record == NULL, 0)) return;
    const struct step* const step = next_step(record);
    if (__builtin_expect(step->kind == STEP_COPY, 1)) {
        if (__builtin_expect(bytes > room_of(record) || from == NULL, 0)) {
            record = make_large(record);
            if (bytes > room_of(record) || from == NULL) {
                put_nothing(record, bytes);
                return;
            }
        }
        unsigned char* const at = record->at;
        record->at = at + bytes;
        switch (bytes) {
        case 8:
            memcpy(at, from, 8);
            return;
        case 4:
            memcpy(at, from, 4);
            return;
        case 2:
            memcpy(at, from, 2);
            return;
        case 1:
            *at = *(const unsigned char*)from;
            return;
        default:
            memcpy(at, from, bytes);
            return;
        }
    }
    switch (step->kind) {
    case STEP_REVERSE:
        if (__builtin_expect(bytes > room_of(record), 0)) record = make_large(record);
        if (bytes > room_of(record) || from == NULL) {
            put_nothing(record, bytes);
            return;
        }
        memcpy(record->at, from, bytes);
        reverse(record->at, bytes, step->size);
        record->at += bytes;
        return;
    case STEP_SEQUENCE:
    case STEP_TEXT:
        put_sequence(record, step, from, bytes);
        return;
    case STEP_STRING: /* never: those come by the functions below */
        put_nothing(record, 1);
        return;
    default:
        return;
    }
}

/* Up to its NUL, or `bytes_max` and what may be behind; without more, nothing behind them is read. Where the program changes it meanwhile, its
 * length is that of what was copied. */
static void put_string(struct record* record, const struct step* step, const char* from, uint64_t bytes_max,
                       uint64_t more_bytes) {
    if (__builtin_expect(1 + bytes_max > room_of(record), 0)) record = make_large(record);
    if (more_bytes == 0 && from != NULL) bytes_max = strnlen(from, bytes_max);
    uint64_t room = room_to_vary(record, step, 1, from != NULL ? bytes_max : 0);
    if (room == 0 || from == NULL) {
        put_nothing(record, 1);
        return;
    }
    room -= 1;
    const bool is_cut = bytes_max > room;
    uint64_t copied;
    if (more_bytes == 0) {
        copied = plumb_copy_view(record->at, from, bytes_max, room);
    } else {
        if (bytes_max + more_bytes < room) room = bytes_max + more_bytes;
        copied = plumb_copy_string(record->at, from, room);
    }
    if (copied > room && is_cut) record->is_cut = true;
    record->at += (copied > room ? room : copied) + 1; /* its NUL is there */
}

/* The rest of a text that ends before is zeros, as LTTng has it. */
static void put_text(struct record* record, const struct step* step, const char* from, uint64_t bytes) {
    bytes = believed(record, bytes);
    if (__builtin_expect(2 + bytes > room_of(record), 0)) record = make_large(record);
    const uint64_t put = put_count(record, step, from != NULL ? bytes : 0, 1);
    uint64_t done = 0;
    for (; done < put && from[done] != '\0'; done++)
        record->at[done] = (unsigned char)from[done];
    memset(record->at + done, 0, put - done);
    record->at += put;
}

/* In a large record all is shared out by what was measured. */
static uint64_t more_bytes_of(const struct record* record, bool ends_by_nul) {
    return ends_by_nul && !is_large(record) ? STRING_MORE_BYTES : 0;
}

static void put_text_of(struct ust_context* context, const char* from, size_t bytes, bool ends_by_nul) {
    struct record* const record = record_of(context);
    if (__builtin_expect(record == NULL, 0)) return;
    const struct step* const step = next_step(record);
    if (step->kind == STEP_STRING)
        put_string(record, step, from, bytes, more_bytes_of(record, ends_by_nul));
    else if (step->kind == STEP_TEXT || step->kind == STEP_SEQUENCE)
        put_text(record, step, from, bytes / step->size);
}

static void write_text(struct ust_context* context, const char* from, size_t bytes) {
    put_text_of(context, from, bytes, false);
}

/* `bytes` counts the NUL. */
static void write_string(struct ust_context* context, const char* from, size_t bytes) {
    put_text_of(context, from, bytes != 0 ? bytes - 1 : 0, true);
}

static struct ust_operations operations = {
    .struct_size = sizeof(operations),
    .reserve = reserve,
    .commit = commit,
    .write = write_field,
    .write_string = write_string,
    .write_padded = write_text,
};
static struct ust_session session = {.struct_size = sizeof(session), .is_active = 1};
static struct ust_channel_common common = {
    .struct_size = sizeof(common), .child = &record_channel, .is_enabled = 1, .session = &session};
struct ust_channel record_channel = {
    .struct_size = sizeof(record_channel), .parent = &common, .operations = &operations};
