/*
 * Traces every event of every_field.h once, with values that do not change, `rounds` times; and tracef and tracelog. As a C
 * and as a C++ program. With LOADED, its provider is a shared object whose path is the second argument.
 */
#ifdef LOADED
#define LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE
#define LTTNG_UST_TRACEPOINT_DEFINE
#endif
#include "every_field.h"

#include <lttng/tracef.h>
#include <lttng/tracelog.h>

#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void trace_ranges(void) {
    static const unsigned wide[] = {0, 999, 1000, 1000000, 1000001};
    static const int64_t numbers[] = {INT64_MIN, -1, 0, 1, INT64_MAX};
    static const int around_ends[] = {-1001, -1000, -6, -5, -1, 0,  9,   10,  19,
                                      20,    25,    26, 28, 29, 30, 300, 301, 302};
    static const unsigned many[] = {99, 100, 357, 499, 500, 100000, 100001};
    for (size_t i = 0; i < sizeof(wide) / sizeof(*wide); i++)
        lttng_ust_tracepoint(every_field, wide_enum, wide[i]);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        lttng_ust_tracepoint(every_field, all_of_64_bits, numbers[i], (uint64_t)numbers[i]);
    for (size_t i = 0; i < sizeof(around_ends) / sizeof(*around_ends); i++)
        lttng_ust_tracepoint(every_field, ranges, around_ends[i]);
    for (size_t i = 0; i < sizeof(many) / sizeof(*many); i++)
        lttng_ust_tracepoint(every_field, many_labels, many[i]);
}

static void trace_all(int round) {
    int32_t numbers[] = {1, -2, 2147483647};
    uint32_t network[] = {htonl(1), htonl(0x1020304), htonl(3)};
    uint16_t shorts[] = {htons(258), htons(7)};
    uint8_t bytes[] = {0, 1, 254, 255};
    long longs[] = {-5};
    char long_text[3000];
    memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';

    lttng_ust_tracepoint(every_field, integers, -128, 255, -32768, 65535, -5, 4000000000u, -5000000000ll,
                         18000000000000000000ull, (void*)0xdeadbeef, 'i');
    lttng_ust_tracepoint(every_field, network, htons(258), htonl(16909060), htobe64(72623859790382856ull),
                         (int32_t)htonl((uint32_t)-3), 9);
    lttng_ust_tracepoint(every_field, floats, 1.5f, -0.1);
    lttng_ust_tracepoint(every_field, strings, "short",
                         "a text of more than sixteen bytes, and of thirty-two", round);
    lttng_ust_tracepoint(every_field, strings, "", NULL, 2);
    lttng_ust_tracepoint(every_field, strings, long_text, "behind", 3);
    lttng_ust_tracepoint(every_field, arrays, numbers, bytes, "text\0nul", shorts, longs);
    lttng_ust_tracepoint(every_field, sequences, numbers, 3, "counted", 7, network);
    lttng_ust_tracepoint(every_field, sequences, numbers, 0, "", 0, network);
    lttng_ust_tracepoint(every_field, sequences, numbers, 1, "ab\0cd", 5, network);
    for (int value = -7; value <= 6; value++)
        lttng_ust_tracepoint(every_field, enums, value, 0);
    trace_ranges();
    lttng_ust_tracepoint(every_field, unwritten, 1, "written", numbers);
    lttng_ust_tracepoint(every_field, words, 18000000000000000000ull, -5, -0.0);
    for (int bytes = 0; bytes <= 40; bytes++) {
        const char* const end = "0123456789012345678901234567890123456789" + 40 - bytes;
        lttng_ust_tracepoint(every_field, mixed, end, (uint8_t)bytes, "seven..", (int16_t)-bytes, 0.5, end,
                             -1, "");
        lttng_ust_tracepoint(every_field, in_registers, end, (uint8_t)bytes, end);
    }
    lttng_ust_tracepoint(every_field, made, "an argument", 1);
    lttng_ust_tracepoint(every_field, made, long_text, 2);
    lttng_ust_tracepoint(every_field, nothing);
    lttng_ust_tracepoint(every_field, instance, 17);
    lttng_ust_tracepoint(every_field, other_instance, 18);
    lttng_ust_tracef("round %d of %s", round, "tracef");
    lttng_ust_tracef("%s", long_text);
    lttng_ust_tracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING, "a warning, %d", 1);
    lttng_ust_tracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_LINE, "%s", "");
    lttng_ust_tracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_EMERG, "%s", long_text);
}

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 1;
    if (argc > 2 && dlopen(argv[2], RTLD_NOW) == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    for (int round = 0; round < rounds; round++)
        trace_all(round);
    return 0;
}
