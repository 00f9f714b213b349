/* The events that the benchmarks trace. */
#ifndef PLUMB_BENCH_EVENTS_H
#define PLUMB_BENCH_EVENTS_H

#include <plumb/tracepoint.h>

PLUMB_EVENT(bench, number, (u64, number))
PLUMB_EVENT(bench, name, (string, name), (u64, number))
/* Eight fields, of most sizes. */
PLUMB_EVENT(bench, order, (u64, number), (i64, price), (u32, count), (i32, change), (u16, kind), (u8, flags),
            (f64, rate), (x64, address))
/* Off in the session of the benchmarks. */
PLUMB_EVENT(bench_off, number, (u64, number))

/* Bytes that a record of them takes in a ring; the name is 15 bytes long. */
#define PLUMB_BENCH_NUMBER_BYTES 24u
#define PLUMB_BENCH_NAME_BYTES 40u
#define PLUMB_BENCH_ORDER_BYTES 64u
#define PLUMB_BENCH_NAME "fifteen letters"

#endif
