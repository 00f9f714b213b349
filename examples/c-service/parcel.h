/*
 * The events of a parcel depot: every field type that Plumb has, with values that depend on the round, so
 * that a reader of the trace can check each of them.
 *
 * The service, its library and its plug-in all include this header and all call parcel_trace_round(): the
 * same events in three objects of one process are the same events in the trace.
 *
 * With `print` set, each event is also printed as a line of JSON, with the exact values that were traced.
 */
#ifndef PARCEL_H
#define PARCEL_H

#include <inttypes.h>
#include <plumb/tracepoint.h>
#include <stdio.h>
#include <string.h>

enum parcel_state { PARCEL_WAITING = 0, PARCEL_SORTED = 1, PARCEL_LOST = 250 };

/* An event without fields. */
PLUMB_EVENT(parcel, bell);

PLUMB_EVENT(parcel, integers, (string, object), (u64, round), (i8, i8_), (i16, i16_), (i32, i32_),
            (i64, i64_), (u8, u8_), (u16, u16_), (u32, u32_), (u64, u64_));

PLUMB_EVENT(parcel, c_types, (char, letter), (short, floor), (int, delta), (unsigned, count), (long, offset),
            (size_t, bytes));

PLUMB_EVENT_LEVEL(parcel, shown_in_hex, PLUMB_INFO, (x8, x8_), (x16, x16_), (x32, x32_), (x64, x64_),
                  (ptr, address));

PLUMB_EVENT_LEVEL(parcel, measured, PLUMB_NOTICE, (f32, weight_kg), (f64, price), (bool, paid));

PLUMB_EVENT_LEVEL(parcel, labelled, PLUMB_WARNING,
                  (enum, u8, state, (PARCEL_WAITING, "waiting"), (PARCEL_SORTED, "sorted"),
                   (PARCEL_LOST, "lost")),
                  (enum, i32, direction, (-1, "back"), (0, "here"), (1, "onward")), (string, customer),
                  (text, note));

PLUMB_EVENT(parcel, lists, (array, u16, ports, 4), (array, i64, corners, 2), (array, x8, key, 3),
            (sequence, u32, sizes), (sequence, i8, steps), (sequence, x64, marks));

PLUMB_EVENT(parcel, many, (u8, f1), (u16, f2), (u32, f3), (u64, f4), (i8, f5), (i16, f6), (i32, f7),
            (i64, f8), (string, f9), (u8, f10), (u8, f11), (string, f12), (f64, f13), (bool, f14), (x16, f15),
            (u8, f16), (sequence, u8, f17), (string, f18));

static inline void parcel_print_list(const char* name, const uint64_t* values, size_t count, int is_signed) {
    printf(", \"%s\": [", name);
    for (size_t i = 0; i < count; i++) {
        if (is_signed)
            printf("%s%" PRId64, i ? ", " : "", (int64_t)values[i]);
        else
            printf("%s%" PRIu64, i ? ", " : "", values[i]);
    }
    printf("]");
}

static inline void parcel_trace_integers(const char* object, uint64_t round, int print) {
    /* The extremes first, then what is in between. */
    const int64_t low = round % 2 ? INT64_MAX - (int64_t)round : INT64_MIN + (int64_t)round;
    const uint64_t high = UINT64_MAX - round;
    const int8_t v8 = (int8_t)(round % 2 ? INT8_MAX : INT8_MIN);
    const int16_t v16 = (int16_t)(round % 2 ? INT16_MAX : INT16_MIN);
    const int32_t v32 = round % 2 ? INT32_MAX : INT32_MIN;
    plumb_trace(parcel, integers, object, round, v8, v16, v32, low, (uint8_t)high, (uint16_t)high,
                (uint32_t)high, high);
    if (print)
        printf("{\"event\": \"parcel:integers\", \"fields\": {\"object\": \"%s\", \"round\": %" PRIu64
               ", \"i8_\": %d, \"i16_\": %d, \"i32_\": %" PRId32 ", \"i64_\": %" PRId64
               ", \"u8_\": %u, \"u16_\": %u, \"u32_\": %" PRIu32 ", \"u64_\": %" PRIu64 "}}\n",
               object, round, v8, v16, v32, low, (unsigned)(uint8_t)high, (unsigned)(uint16_t)high,
               (uint32_t)high, high);

    const char letter = (char)('a' + round % 26);
    plumb_trace(parcel, c_types, letter, (short)-round, -5, 7u, -1000000007L, sizeof(int));
    if (print)
        printf("{\"event\": \"parcel:c_types\", \"fields\": {\"letter\": %d, \"floor\": %d, \"delta\": -5, "
               "\"count\": 7, \"offset\": -1000000007, \"bytes\": %zu}}\n",
               letter, (short)-round, sizeof(int));

    plumb_trace(parcel, shown_in_hex, (uint8_t)round, 0xbeef, 0xdeadbeef, 0x0123456789abcdef + round, object);
    if (print)
        printf("{\"event\": \"parcel:shown_in_hex\", \"fields\": {\"x8_\": %u, \"x16_\": %u, \"x32_\": %u, "
               "\"x64_\": %" PRIu64 ", \"address\": %" PRIuPTR "}}\n",
               (unsigned)(uint8_t)round, 0xbeefu, 0xdeadbeefu, (uint64_t)0x0123456789abcdef + round,
               (uintptr_t)object);
}

static inline void parcel_trace_values(uint64_t round, int print) {
    const float weight_kg = (float)round / 8.0f;
    const double price = (double)round * 0.1 - 1e10;
    plumb_trace(parcel, measured, weight_kg, price, round % 2 == 0);
    if (print)
        printf("{\"event\": \"parcel:measured\", \"fields\": {\"weight_kg\": %.17g, \"price\": %.17g, "
               "\"paid\": %d}}\n",
               (double)weight_kg, price, round % 2 == 0);

    static const enum parcel_state states[] = {PARCEL_WAITING, PARCEL_SORTED, PARCEL_LOST};
    const uint8_t state = (uint8_t)states[round % 3];
    const int32_t direction = (int32_t)(round % 3) - 1;
    char customer[32];
    snprintf(customer, sizeof customer, "customer %" PRIu64, round % 1000);
    /* A text has a length and no NUL: this one takes the first words of a longer line. */
    static const char line[] = "gr\xc3\xbcn, fragile, this side up";
    const size_t note_bytes = round % 3 == 0 ? 0 : strlen("gr\xc3\xbcn, fragile");
    plumb_trace(parcel, labelled, state, direction, customer, line, note_bytes);
    if (print)
        printf("{\"event\": \"parcel:labelled\", \"fields\": {\"state\": %u, \"direction\": %d, "
               "\"customer\": \"%s\", \"note\": \"%.*s\"}}\n",
               state, direction, customer, (int)note_bytes, line);
}

static inline void parcel_trace_lists(uint64_t round, int print) {
    const uint16_t ports[4] = {80, 443, 65535, (uint16_t)round};
    const int64_t corners[2] = {INT64_MIN, (int64_t)round};
    const uint8_t key[3] = {0, 0x7f, 0xff};
    const uint32_t sizes[5] = {0, 1, 4294967295u, (uint32_t)round, 5};
    const int8_t steps[3] = {-128, 0, 127};
    const uint64_t marks[2] = {UINT64_MAX, round};
    const size_t size_count = round % 6;
    const size_t step_count = round % 4;
    const size_t mark_count = round % 3;
    plumb_trace(parcel, lists, ports, corners, key, sizes, size_count, steps, step_count, marks, mark_count);
    if (!print) return;
    const uint64_t wide_sizes[5] = {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]};
    const uint64_t wide_steps[3] = {(uint64_t)steps[0], (uint64_t)steps[1], (uint64_t)steps[2]};
    printf("{\"event\": \"parcel:lists\", \"fields\": {\"ports\": [80, 443, 65535, %u], "
           "\"corners\": [%" PRId64 ", %" PRId64 "], \"key\": [0, 127, 255]",
           ports[3], corners[0], corners[1]);
    parcel_print_list("sizes", wide_sizes, size_count, 0);
    parcel_print_list("steps", wide_steps, step_count, 1);
    parcel_print_list("marks", marks, mark_count, 0);
    printf("}}\n");
}

static inline void parcel_trace_many(uint64_t round, int print) {
    const uint8_t bytes[3] = {1, 2, 3};
    const uint8_t low = (uint8_t)round;
    /* Expensive arguments are prepared only when somebody wants them. */
    if (print || plumb_enabled(parcel, many)) {
        char long_string[300];
        memset(long_string, 'x', sizeof long_string);
        long_string[round % sizeof long_string] = '\0';
        long_string[sizeof long_string - 1] = '\0';
        plumb_trace(parcel, many, low, 2, 3, round, -5, -6, -7, -8, "", 10, 11, "twelve", 0.5, true, 0xf, 16,
                    bytes, 3, long_string);
        if (print)
            printf("{\"event\": \"parcel:many\", \"fields\": {\"f1\": %u, \"f2\": 2, \"f3\": 3, \"f4\": "
                   "%" PRIu64 ", \"f5\": -5, \"f6\": -6, \"f7\": -7, \"f8\": -8, \"f9\": \"\", \"f10\": 10, "
                   "\"f11\": 11, \"f12\": \"twelve\", \"f13\": 0.5, \"f14\": 1, \"f15\": 15, \"f16\": 16, "
                   "\"f17\": [1, 2, 3], \"f18\": \"%s\"}}\n",
                   low, round, long_string);
    }
    plumb_trace(parcel, bell);
    if (print) printf("{\"event\": \"parcel:bell\", \"fields\": {}}\n");
}

/* Traces each event once; `object` says who does it. */
static inline void parcel_trace_round(const char* object, uint64_t round, int print) {
    parcel_trace_integers(object, round, print);
    parcel_trace_values(round, print);
    parcel_trace_lists(round, print);
    parcel_trace_many(round, print);
}

#endif
