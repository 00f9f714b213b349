/* A provider whose events take a while to be described. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER beginning

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./beginning.h"

#if !defined(PLUMB_TESTS_BEGINNING_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PLUMB_TESTS_BEGINNING_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT_CLASS(beginning, texts, LTTNG_UST_TP_ARGS(const char*, one, const char*, other),
                                 LTTNG_UST_TP_FIELDS(lttng_ust_field_string(one, one)
                                                         lttng_ust_field_string(other, other)))
#define PLUMB_TESTS_TEXTS(name)                                            \
    LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(beginning, texts, beginning, name, \
                                        LTTNG_UST_TP_ARGS(const char*, one, const char*, other))
/* clang-format off */
PLUMB_TESTS_TEXTS(a0) PLUMB_TESTS_TEXTS(a1) PLUMB_TESTS_TEXTS(a2) PLUMB_TESTS_TEXTS(a3) PLUMB_TESTS_TEXTS(a4)
PLUMB_TESTS_TEXTS(b0) PLUMB_TESTS_TEXTS(b1) PLUMB_TESTS_TEXTS(b2) PLUMB_TESTS_TEXTS(b3) PLUMB_TESTS_TEXTS(b4)
PLUMB_TESTS_TEXTS(c0) PLUMB_TESTS_TEXTS(c1) PLUMB_TESTS_TEXTS(c2) PLUMB_TESTS_TEXTS(c3) PLUMB_TESTS_TEXTS(c4)
PLUMB_TESTS_TEXTS(d0) PLUMB_TESTS_TEXTS(d1) PLUMB_TESTS_TEXTS(d2) PLUMB_TESTS_TEXTS(d3) PLUMB_TESTS_TEXTS(d4)
PLUMB_TESTS_TEXTS(e0) PLUMB_TESTS_TEXTS(e1) PLUMB_TESTS_TEXTS(e2) PLUMB_TESTS_TEXTS(e3) PLUMB_TESTS_TEXTS(e4)
PLUMB_TESTS_TEXTS(f0) PLUMB_TESTS_TEXTS(f1) PLUMB_TESTS_TEXTS(f2) PLUMB_TESTS_TEXTS(f3) PLUMB_TESTS_TEXTS(f4)
/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
