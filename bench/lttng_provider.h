/* The same events as in events.h, for LTTng-UST. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER plumb_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_provider.h"

#if !defined(PLUMB_BENCH_LTTNG_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PLUMB_BENCH_LTTNG_PROVIDER_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(plumb_bench, number, LTTNG_UST_TP_ARGS(uint64_t, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, number, number)))

LTTNG_UST_TRACEPOINT_EVENT(plumb_bench, name, LTTNG_UST_TP_ARGS(const char*, name, uint64_t, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_string(name, name)
                                                   lttng_ust_field_integer(uint64_t, number, number)))

LTTNG_UST_TRACEPOINT_EVENT(
    plumb_bench, order,
    LTTNG_UST_TP_ARGS(uint64_t, number, int64_t, price, uint32_t, count, int32_t, change, uint16_t, kind,
                      uint8_t, flags, double, rate, uint64_t, address),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, number, number) lttng_ust_field_integer(int64_t, price, price)
            lttng_ust_field_integer(uint32_t, count, count) lttng_ust_field_integer(int32_t, change, change)
                lttng_ust_field_integer(uint16_t, kind, kind) lttng_ust_field_integer(uint8_t, flags, flags)
                    lttng_ust_field_float(double, rate, rate)
                        lttng_ust_field_integer_hex(uint64_t, address, address)))

#endif

#include <lttng/tracepoint-event.h>
