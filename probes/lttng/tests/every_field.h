/* Events with fields of every kind that LTTng-UST's headers have. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER every_field

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./every_field.h"

#if !defined(PLUMB_TESTS_EVERY_FIELD_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PLUMB_TESTS_EVERY_FIELD_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_ENUM(every_field, sizes,
                          LTTNG_UST_TP_ENUM_VALUES(lttng_ust_field_enum_value("zero", 0)
                                                       lttng_ust_field_enum_value("one", 1)
                                                           lttng_ust_field_enum_range("few", 2, 4)
                                                               lttng_ust_field_enum_auto("five")
                                                                   lttng_ust_field_enum_value("minus", -7)))
LTTNG_UST_TRACEPOINT_ENUM(every_field, wide,
                          LTTNG_UST_TP_ENUM_VALUES(lttng_ust_field_enum_range("low", 0, 999)
                                                       lttng_ust_field_enum_range("high", 1000, 1000000)))
LTTNG_UST_TRACEPOINT_ENUM(every_field, all_signed,
                          LTTNG_UST_TP_ENUM_VALUES(lttng_ust_field_enum_range("all", INT64_MIN, INT64_MAX)
                                                       lttng_ust_field_enum_value("zero", 0)))
LTTNG_UST_TRACEPOINT_ENUM(every_field, all_unsigned,
                          LTTNG_UST_TP_ENUM_VALUES(lttng_ust_field_enum_range("upper", 9223372036854775808ull,
                                                                              UINT64_MAX)
                                                       lttng_ust_field_enum_range("all", 0, UINT64_MAX)
                                                           lttng_ust_field_enum_value("last", UINT64_MAX)))
/* Several of a name, some of which meet each other, and others. */
LTTNG_UST_TRACEPOINT_ENUM(every_field, several,
                          LTTNG_UST_TP_ENUM_VALUES(lttng_ust_field_enum_range("minus", -1000, -1)
                                                       lttng_ust_field_enum_range("again", 0, 9)
                                                           lttng_ust_field_enum_range("across", -5, 25)
                                                               lttng_ust_field_enum_range("again", 20, 29)
                                                                   lttng_ust_field_enum_range("again", 28,
                                                                                              300)
                                                                       lttng_ust_field_enum_auto("behind")))
LTTNG_UST_TRACEPOINT_ENUM(every_field, below,
                          LTTNG_UST_TP_ENUM_VALUES(lttng_ust_field_enum_range("below", -1000, -1)
                                                       lttng_ust_field_enum_range("above", 1, 4294967295u)))
#define TEN_VALUES(n)                                                                                     \
    lttng_ust_field_enum_value("v" #n "0", n##0) lttng_ust_field_enum_value("v" #n "1", n##1)             \
        lttng_ust_field_enum_value("v" #n "2", n##2) lttng_ust_field_enum_value("v" #n "3", n##3)         \
            lttng_ust_field_enum_value("v" #n "4", n##4) lttng_ust_field_enum_value("v" #n "5", n##5)     \
                lttng_ust_field_enum_value("v" #n "6", n##6) lttng_ust_field_enum_value("v" #n "7", n##7) \
                    lttng_ust_field_enum_value("v" #n "8", n##8)                                          \
                        lttng_ust_field_enum_value("v" #n "9", n##9)
#define HUNDRED_VALUES(n) \
    TEN_VALUES(n##0)      \
    TEN_VALUES(n##1)      \
    TEN_VALUES(n##2)      \
    TEN_VALUES(n##3)      \
    TEN_VALUES(n##4) TEN_VALUES(n##5) TEN_VALUES(n##6) TEN_VALUES(n##7) TEN_VALUES(n##8) TEN_VALUES(n##9)
LTTNG_UST_TRACEPOINT_ENUM(every_field, many,
                          LTTNG_UST_TP_ENUM_VALUES(HUNDRED_VALUES(1) HUNDRED_VALUES(2) HUNDRED_VALUES(3)
                                                       HUNDRED_VALUES(4)
                                                           lttng_ust_field_enum_range("rest", 500, 100000)))

LTTNG_UST_TRACEPOINT_EVENT(
    every_field, integers,
    LTTNG_UST_TP_ARGS(int8_t, a, uint8_t, b, int16_t, c, uint16_t, d, int32_t, e, uint32_t, f, int64_t, g,
                      uint64_t, h, void*, p, char, i),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int8_t, a, a) lttng_ust_field_integer(uint8_t, b, b)
                            lttng_ust_field_integer(int16_t, c, c) lttng_ust_field_integer(uint16_t, d, d)
                                lttng_ust_field_integer(int32_t, e, e) lttng_ust_field_integer(uint32_t, f, f)
                                    lttng_ust_field_integer(int64_t, g, g)
                                        lttng_ust_field_integer(uint64_t, h, h)
                                            lttng_ust_field_integer_hex(unsigned long, p, (unsigned long)p)
                                                lttng_ust_field_integer(char, i, i)
                                                    lttng_ust_field_integer_hex(int8_t, ax, a)
                                                        lttng_ust_field_integer_hex(uint16_t, dx, d)
                                                            lttng_ust_field_integer_hex(int32_t, ex, e)
                                                                lttng_ust_field_integer_hex(int64_t, gx, g)))

LTTNG_UST_TRACEPOINT_EVENT(
    every_field, network, LTTNG_UST_TP_ARGS(uint16_t, a, uint32_t, b, uint64_t, c, int32_t, d, uint8_t, e),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer_network(uint16_t, a, a)
                            lttng_ust_field_integer_network(uint32_t, b, b)
                                lttng_ust_field_integer_network(uint64_t, c, c)
                                    lttng_ust_field_integer_network(int32_t, d, d)
                                        lttng_ust_field_integer_network_hex(uint16_t, ax, a)
                                            lttng_ust_field_integer_network_hex(uint32_t, bx, b)
                                                lttng_ust_field_integer_network(uint8_t, e, e)))

LTTNG_UST_TRACEPOINT_EVENT(every_field, floats, LTTNG_UST_TP_ARGS(float, a, double, b),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_float(float, a, a)
                                                   lttng_ust_field_float(double, b, b)))

LTTNG_UST_TRACEPOINT_EVENT(every_field, strings, LTTNG_UST_TP_ARGS(const char*, a, const char*, b, int, c),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_string(a, a) lttng_ust_field_string(b, b)
                                                   lttng_ust_field_integer(int, c, c)))

LTTNG_UST_TRACEPOINT_EVENT(
    every_field, arrays, LTTNG_UST_TP_ARGS(int32_t*, a, uint8_t*, b, const char*, t, uint16_t*, n, long*, l),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_array(int32_t, a, a, 3) lttng_ust_field_array_hex(uint8_t, b, b, 4)
                            lttng_ust_field_array(char, chars, t, 4)
                                lttng_ust_field_array_text(char, text, t, 8)
                                    lttng_ust_field_array_text(char, whole, t, 3)
                                        lttng_ust_field_array_network(uint16_t, n, n, 2)
                                            lttng_ust_field_array_network_hex(uint16_t, nx, n, 2)
                                                lttng_ust_field_array(long, l, l, 1)))

LTTNG_UST_TRACEPOINT_EVENT(
    every_field, sequences,
    LTTNG_UST_TP_ARGS(int32_t*, a, size_t, count, const char*, t, size_t, bytes, uint32_t*, n),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_sequence(int32_t, a, a, size_t, count) lttng_ust_field_sequence_hex(
        uint8_t, b, (uint8_t*)t, uint8_t, bytes) lttng_ust_field_sequence_text(char, text, t, uint16_t, bytes)
                            lttng_ust_field_sequence_network(uint32_t, n, n, unsigned, count)
                                lttng_ust_field_sequence_network_hex(uint32_t, nx, n, unsigned, count)))

LTTNG_UST_TRACEPOINT_EVENT(every_field, enums, LTTNG_UST_TP_ARGS(int, a, unsigned, b),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_enum(every_field, sizes, int, a, a)
                                                   lttng_ust_field_enum(every_field, sizes, int8_t, small,
                                                                        a)))
LTTNG_UST_TRACEPOINT_EVENT(every_field, wide_enum, LTTNG_UST_TP_ARGS(unsigned, b),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_enum(every_field, wide, unsigned, b, b)))
LTTNG_UST_TRACEPOINT_EVENT(every_field, all_of_64_bits, LTTNG_UST_TP_ARGS(int64_t, a, uint64_t, b),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_enum(every_field, all_signed, int64_t, a, a)
                                                   lttng_ust_field_enum(every_field, all_unsigned, uint64_t,
                                                                        b, b)))
LTTNG_UST_TRACEPOINT_EVENT(
    every_field, ranges, LTTNG_UST_TP_ARGS(int, a),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_enum(every_field, several, int, several, a)
                            lttng_ust_field_enum(every_field, several, int8_t, small, (int8_t)a)
                                lttng_ust_field_enum(every_field, several, int64_t, large, a)
                                    lttng_ust_field_enum(every_field, below, uint64_t, below,
                                                         (uint64_t)(int64_t)a)
                                        lttng_ust_field_enum(every_field, below, int, half, a)))
LTTNG_UST_TRACEPOINT_EVENT(every_field, many_labels, LTTNG_UST_TP_ARGS(unsigned, a),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_enum(every_field, many, unsigned, a, a)))

LTTNG_UST_TRACEPOINT_EVENT(
    every_field, unwritten, LTTNG_UST_TP_ARGS(int, a, const char*, b, int32_t*, c),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer_nowrite(int, a, a) lttng_ust_field_string(b, b)
                            lttng_ust_field_sequence_nowrite(int32_t, c, c, unsigned, 2)
                                lttng_ust_field_string_nowrite(hidden, b)
                                    lttng_ust_field_integer(int, last, a)))

LTTNG_UST_TRACEPOINT_EVENT(every_field, words, LTTNG_UST_TP_ARGS(uint64_t, a, long, b, double, c),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer_hex(uint64_t, a, a)
                                                   lttng_ust_field_integer(long, b, b)
                                                       lttng_ust_field_float(double, c, c)))

/* The last one is in no register. */
LTTNG_UST_TRACEPOINT_EVENT(
    every_field, mixed,
    LTTNG_UST_TP_ARGS(const char*, a, uint8_t, b, const char*, c, int16_t, d, double, e, const char*, f, long,
                      g, const char*, h),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(a, a) lttng_ust_field_integer(uint8_t, b, b)
                            lttng_ust_field_integer_nowrite(int16_t, unseen, d) lttng_ust_field_string(c, c)
                                lttng_ust_field_integer(int16_t, d, d) lttng_ust_field_float(double, e, e)
                                    lttng_ust_field_string(f, f) lttng_ust_field_string(again, a)
                                        lttng_ust_field_integer(long, g, g) lttng_ust_field_string(h, h)))

LTTNG_UST_TRACEPOINT_EVENT(
    every_field, in_registers, LTTNG_UST_TP_ARGS(const char*, a, uint8_t, b, const char*, c),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(a, a) lttng_ust_field_integer(uint8_t, b, b)
                            lttng_ust_field_string(c, c) lttng_ust_field_integer(int16_t, d, b - 200)))

/* No argument, but what the provider makes of one. */
LTTNG_UST_TRACEPOINT_EVENT(every_field, made, LTTNG_UST_TP_ARGS(const char*, a, uint8_t, b),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_string(a, a + 1)
                                                   lttng_ust_field_integer(uint8_t, b, b)))

LTTNG_UST_TRACEPOINT_EVENT(every_field, nothing, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())

LTTNG_UST_TRACEPOINT_EVENT_CLASS(every_field, of_class, LTTNG_UST_TP_ARGS(int, value),
                                 LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, value, value)))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(every_field, of_class, every_field, instance,
                                    LTTNG_UST_TP_ARGS(int, value))
LTTNG_UST_TRACEPOINT_LOGLEVEL(every_field, instance, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(every_field, of_class, every_field, other_instance,
                                    LTTNG_UST_TP_ARGS(int, value))
LTTNG_UST_TRACEPOINT_LOGLEVEL(every_field, other_instance, LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG)

#endif

#include <lttng/tracepoint-event.h>
