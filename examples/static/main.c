/*
 * A fully static executable with tracepoints: no loader, no shared objects, libplumb.a inside.
 *
 *   static-service [--count N] [--print]
 */
#include <inttypes.h>
#include <plumb/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

PLUMB_EVENT(buoy, reading, (u64, round), (i8, i8_), (i16, i16_), (i32, i32_), (i64, i64_), (u8, u8_),
            (u16, u16_), (u32, u32_), (x8, x8_), (x16, x16_), (x32, x32_), (x64, x64_), (f32, salt),
            (f64, depth_m), (bool, lit), (ptr, self), (string, name), (text, note),
            (enum, u8, sea, (0, "calm"), (1, "rough")), (array, u16, waves, 4), (sequence, u32, gusts));

PLUMB_EVENT_LEVEL(buoy, adrift, PLUMB_WARNING);

static void trace_round(uint64_t round, int print) {
    const uint16_t waves[4] = {1, 2, 3, (uint16_t)round};
    const uint32_t gusts[3] = {10, 20, 4294967295u};
    const size_t gust_count = round % 4;
    const char note[] = "rust on the chain";
    const size_t note_bytes = round % sizeof note;
    const uint8_t sea = (uint8_t)(round % 2);
    const int64_t low = INT64_MIN + (int64_t)round;
    const double depth_m = -0.1 * (double)round;
    plumb_trace(buoy, reading, round, INT8_MIN, INT16_MIN, INT32_MIN, low, UINT8_MAX, UINT16_MAX, UINT32_MAX,
                0xab, 0xabcd, 0xabcdef01, 0xabcdef0123456789, (float)round / 4.0f, depth_m, round % 2 == 0,
                (const void*)(uintptr_t)&trace_round, "north", note, note_bytes, sea, waves, gusts,
                gust_count);
    plumb_trace(buoy, adrift);
    if (!print) return;
    printf("{\"event\": \"buoy:reading\", \"fields\": {\"round\": %" PRIu64
           ", \"i8_\": -128, \"i16_\": -32768, \"i32_\": -2147483648, \"i64_\": %" PRId64
           ", \"u8_\": 255, \"u16_\": 65535, \"u32_\": 4294967295, \"x8_\": 171, \"x16_\": 43981, "
           "\"x32_\": 2882400001, \"x64_\": 12379813738877118345, \"salt\": %.17g, \"depth_m\": %.17g, "
           "\"lit\": %d, \"self\": %" PRIuPTR ", \"name\": \"north\", \"note\": \"%.*s\", \"sea\": %u, "
           "\"waves\": [1, 2, 3, %u], \"gusts\": [",
           round, low, (double)((float)round / 4.0f), depth_m, round % 2 == 0, (uintptr_t)&trace_round,
           (int)note_bytes, note, sea, waves[3]);
    for (size_t i = 0; i < gust_count; i++)
        printf("%s%" PRIu32, i ? ", " : "", gusts[i]);
    printf("]}}\n{\"event\": \"buoy:adrift\", \"fields\": {}}\n");
}

int main(int argument_count, char** arguments) {
    uint64_t count = 10;
    int print = 0;
    for (int i = 1; i < argument_count; i++) {
        if (!strcmp(arguments[i], "--print")) {
            print = 1;
        } else if (!strcmp(arguments[i], "--count") && i + 1 < argument_count) {
            count = strtoull(arguments[++i], NULL, 10);
        } else {
            fprintf(stderr, "usage: static-service [--count N] [--print]\n");
            return 2;
        }
    }
    for (uint64_t round = 0; round < count; round++)
        trace_round(round, print);
    return 0;
}
