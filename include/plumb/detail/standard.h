/*
 * Tracepoints and markers need C11 or C++17, and 64 bits. With an older standard, or for 32 bits, the compiler says so in one line,
 * and nothing else of these headers stands in its way: their macros then do nothing.
 */
#ifndef PLUMB_DETAIL_STANDARD_H
#define PLUMB_DETAIL_STANDARD_H

#if !defined(__LP64__)
#define PLUMB_NO_EVENTS_
#error "Plumb's tracepoints and markers are for programs of 64 bits: not for -m32 or -mx32"
#elif defined(__cplusplus)
#if __cplusplus < 201703L
#define PLUMB_NO_EVENTS_
#error "Plumb's tracepoints and markers need C++17 or newer: compile with -std=c++17"
#endif
#elif !defined(__STDC_VERSION__) || __STDC_VERSION__ < 201112L
#define PLUMB_NO_EVENTS_
#error "Plumb's tracepoints and markers need C11 or newer: compile with -std=c11"
#endif

#ifdef PLUMB_NO_EVENTS_
#undef PLUMB_EVENT
#undef PLUMB_EVENT_LEVEL
#undef plumb_trace
#undef plumb_enabled
#undef plumb_mark
#define PLUMB_EVENT(...)
#define PLUMB_EVENT_LEVEL(...)
#define plumb_trace(...) ((void)0)
#define plumb_enabled(...) 0
#define plumb_mark(...) ((void)0)
#endif

#endif
