/*
 * Tracepoints: events with typed fields, declared once in a header, traced anywhere, in C11 and C++17 alike.
 *
 *     PLUMB_EVENT(shop, order,
 *         (u64, id),
 *         (string, customer),
 *         (enum, u8, status, (0, "new"), (1, "sent")))
 *
 *     plumb_trace(shop, order, id, "bob", 1);
 *
 * There is no code generator, no file to write for the definitions, no order of includes: the header may be
 * used in any number of translation units, templates, inline functions and shared objects. Link tp-sync.o,
 * tp-async.o (executables) or tp-async-lib.o (shared objects), and libplumb.
 *
 * Fields (up to 32; none is fine):
 *     (i8 i16 i32 i64, name)            signed integers        1 argument
 *     (u8 u16 u32 u64, name)            unsigned integers      1
 *     (int unsigned long size_t ..., name)  by their C name    1
 *     (x8 x16 x32 x64, name)            unsigned, shown in hex 1
 *     (f32 f64 float double, name)      floating point         1
 *     (bool, name)                                             1
 *     (ptr, name)                       to data, in hex        1
 *     (string, name)                    const char*; in C++ also std::string_view and std::string    1
 *     (text, name)                      const char*, size_t: bytes of given length; in C++ also      2
 *                                       one std::string or std::string_view, in all texts of an event alike
 *     (enum, u8, name, (value, "label"), ...)  integer type, then labels: at least one; of all values        1
 *                                       from a first to a last one: (first, last, "label")
 *     (array, u16, name, N)             const uint16_t*: N integers, 4096 bytes in all arrays        1
 *     (sequence, u32, name)             const uint32_t*, size_t: that many integers                  2
 * In C++ an enum argument may be of any enumeration type. A null string is recorded as "(null)", a null text
 * or sequence as empty. A string ends at its first NUL.
 *
 * Cost: off, one load and one predicted branch; the arguments are not evaluated. On: see docs/performance.md.
 *
 * Safe in signal handlers, constructors, destructors, at thread exit, after fork, in objects that are loaded
 * and unloaded at run time. errno is kept. Tracing never fails and never waits (but for sessions in block
 * mode).
 *
 * A record is at most a quarter of a sub-buffer, and 65,528 bytes: longer strings, texts and sequences are
 * cut to fit, and counted.
 */
#ifndef PLUMB_TRACEPOINT_H
#define PLUMB_TRACEPOINT_H

/* An event without fields leaves a variadic macro without arguments, which -Wpedantic minds before C23. */
#pragma GCC system_header

#include <plumb/detail/standard.h>
#ifndef PLUMB_NO_EVENTS_

#include <plumb/detail/for_each.h>
#include <plumb/detail/payload.h>
#include <plumb/detail/types.h>
#include <plumb/runtime.h>

/* <plumb/marker.h> alone says what is missing. */
#undef PLUMB_EVENT
#undef PLUMB_EVENT_LEVEL
#undef plumb_trace
#undef plumb_enabled

/* Defines an event. Outside of functions (in C++ in a namespace or not), in a header or a source file. */
#define PLUMB_EVENT(provider, name, ...) \
    PLUMB_DEFINE_(provider##__##name, #provider, #name, PLUMB_DEBUG_LINE, __VA_ARGS__)

/* The same with a log level (enum plumb_log_level): PLUMB_EVENT_LEVEL(shop, refused, PLUMB_WARNING, (u64,
 * id)). */
#define PLUMB_EVENT_LEVEL(provider, name, level, ...) \
    PLUMB_DEFINE_AT_LEVEL_(provider##__##name, #provider, #name, level, __VA_ARGS__)

/* Traces an event: plumb_trace(provider, name, arguments...). */
#define plumb_trace(provider, name, ...)                                       \
    do {                                                                       \
        if (PLUMB_IS_ON_(plumb_event_##provider##__##name)) {                  \
            PLUMB_STRICT_BEGIN_ plumb_trace_##provider##__##name(__VA_ARGS__); \
            PLUMB_STRICT_END_                                                  \
        }                                                                      \
    } while (0)

/* Whether a session wants the event now; for arguments that are expensive to prepare. One load. */
#define plumb_enabled(provider, name) PLUMB_IS_ON_(plumb_event_##provider##__##name)

#include <plumb/detail/event.h>

#ifndef plumb_mark
#define plumb_mark(...) PLUMB_STATIC_ASSERT(0, "for plumb_mark, include <plumb/marker.h>")
#endif

#endif
#endif
