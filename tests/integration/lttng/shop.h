#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER shop

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "shop.h"

#if !defined(SHOP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define SHOP_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(shop, order, LTTNG_UST_TP_ARGS(int, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, number, number)))

#endif

#include <lttng/tracepoint-event.h>
