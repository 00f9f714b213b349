/*
 * Markers: a tracepoint written like a printf, where declaring an event would be too much.
 *
 *     plumb_mark(shop, login, "id %d path %s", id, path);
 *
 * The compiler checks the arguments against the format, as for printf. The values are stored in binary, by
 * the types of the arguments: integers, bool, float, double, strings (char*), other pointers. The format
 * gives the fields their names: the last word before each conversion (here `id` and `path`), else `argN`. Up
 * to 16 arguments. A precision (`%.8s`, `%.*s`) bounds a string as printf does, which then needs no NUL; with
 * positions (`%2$.*1$s`) too, of several conversions of one argument the first. Of a char* for `%p` the address is
 * recorded, as text, and nothing is read. A marker is an event like any other: it is listed, enabled, recorded and read
 * as shop:login, costs the same when it is off, and its arguments are evaluated once, and only when it is on.
 *
 * It works in C11, C++17 and newer. In C++ a std::string is passed as text.c_str().
 */
#ifndef PLUMB_MARKER_H
#define PLUMB_MARKER_H

#pragma GCC system_header

#include <plumb/detail/standard.h>
#ifndef PLUMB_NO_EVENTS_

#include <plumb/detail/event.h>
#include <plumb/detail/for_each.h>
#include <plumb/detail/payload.h>
#include <plumb/runtime.h>

#undef plumb_mark
#define plumb_mark(provider, event, ...) PLUMB_MARK_(#provider, #event, __VA_ARGS__)

#include <plumb/detail/marker.h>

#ifndef PLUMB_EVENT
#define PLUMB_EVENT(...) PLUMB_STATIC_ASSERT(0, "for PLUMB_EVENT, include <plumb/tracepoint.h>");
#define PLUMB_EVENT_LEVEL(...) PLUMB_STATIC_ASSERT(0, "for PLUMB_EVENT_LEVEL, include <plumb/tracepoint.h>");
#define plumb_trace(...) PLUMB_STATIC_ASSERT(0, "for plumb_trace, include <plumb/tracepoint.h>")
#define plumb_enabled(...) 0
#endif

#endif
#endif
