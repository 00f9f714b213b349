/*
 * Tracepoints and markers need C11 or C++17. With an older standard the compiler says so in one line, and nothing else of
 * these headers stands in its way: their macros then do nothing.
 */
#ifndef PLUMB_DETAIL_STANDARD_H
#define PLUMB_DETAIL_STANDARD_H

#if defined(__cplusplus)
#if __cplusplus < 201703L
#define PLUMB_OLD_STANDARD_
#error "Plumb's tracepoints and markers need C++17 or newer: compile with -std=c++17"
#endif
#elif !defined(__STDC_VERSION__) || __STDC_VERSION__ < 201112L
#define PLUMB_OLD_STANDARD_
#error "Plumb's tracepoints and markers need C11 or newer: compile with -std=c11"
#endif

#ifdef PLUMB_OLD_STANDARD_
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
