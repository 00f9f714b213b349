// SPDX-License-Identifier: GPL-2.0
/* The tracepoints of tcp. */
#include <trace/events/tcp.h>

/* Not for modules: what takes it is left out (event_table.c). */
#define __sock_gen_cookie(socket) 0
#define sock_gen_cookie(socket) 0

#define PLUMB_HEADER <trace/events/tcp.h>
#define PLUMB_EVENTS plumb_tcp_events
#include "stages.h"
