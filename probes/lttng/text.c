/*
 * tracef() and tracelog(): events of the probe's own, which programs switch by tracepoints that they expect in LTTng's library.
 */
#include "ust.h"

#include <plumb/detail/writer.h>
#include <plumb/tracepoint.h>

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

PLUMB_EVENT_LEVEL(lttng_ust_tracef, event, PLUMB_DEBUG, (text, msg));

/* All levels, by LTTng's names and by ours. */
#define FOR_EACH_LEVEL(apply)                                                                         \
    apply(EMERG, PLUMB_EMERG) apply(ALERT, PLUMB_ALERT) apply(CRIT, PLUMB_CRIT) apply(ERR, PLUMB_ERR) \
        apply(WARNING, PLUMB_WARNING) apply(NOTICE, PLUMB_NOTICE) apply(INFO, PLUMB_INFO)             \
            apply(DEBUG_SYSTEM, PLUMB_DEBUG_SYSTEM) apply(DEBUG_PROGRAM, PLUMB_DEBUG_PROGRAM)         \
                apply(DEBUG_PROCESS, PLUMB_DEBUG_PROCESS) apply(DEBUG_MODULE, PLUMB_DEBUG_MODULE)     \
                    apply(DEBUG_UNIT, PLUMB_DEBUG_UNIT) apply(DEBUG_FUNCTION, PLUMB_DEBUG_FUNCTION)   \
                        apply(DEBUG_LINE, PLUMB_DEBUG_LINE) apply(DEBUG, PLUMB_DEBUG)

#define DEFINE_EVENT(level, number)                                                                   \
    PLUMB_EVENT_LEVEL(lttng_ust_tracelog, LTTNG_UST_TRACEPOINT_LOGLEVEL_##level, number, (i32, line), \
                      (string, file), (string, func), (text, msg));
FOR_EACH_LEVEL(DEFINE_EVENT)

/* Programs look at `state` of these; what is not position-independent has copies of them, by their size. */
#define TRACEPOINT(name) \
    UST_EXPORT struct ust_tracepoint name = {.struct_size = sizeof(struct ust_tracepoint)}
TRACEPOINT(lttng_ust_tracepoint_lttng_ust_tracef___event);
#define DEFINE_TRACEPOINT(level, number) \
    TRACEPOINT(lttng_ust_tracepoint_lttng_ust_tracelog___LTTNG_UST_TRACEPOINT_LOGLEVEL_##level);
FOR_EACH_LEVEL(DEFINE_TRACEPOINT)

static void follow(struct ust_tracepoint* tracepoint, long is_on) {
    __atomic_store_n(&tracepoint->state, is_on != 0, __ATOMIC_RELAXED);
}

static void follow_events(struct plumb_object* object) {
    (void)object;
    follow(&lttng_ust_tracepoint_lttng_ust_tracef___event, plumb_enabled(lttng_ust_tracef, event));
#define FOLLOW(level, number)                                                                \
    follow(&lttng_ust_tracepoint_lttng_ust_tracelog___LTTNG_UST_TRACEPOINT_LOGLEVEL_##level, \
           plumb_enabled(lttng_ust_tracelog, LTTNG_UST_TRACEPOINT_LOGLEVEL_##level));
    FOR_EACH_LEVEL(FOLLOW)
}

static struct plumb_object object = {.version = PLUMB_RUNTIME_VERSION,
                                     .flags = PLUMB_OBJECT_ASYNC | PLUMB_OBJECT_STAYS,
                                     .setup = &plumb_setup,
                                     .updated = follow_events};

__attribute__((constructor(102))) static void follow_from_now_on(void) {
    plumb_register_object(&object);
}

/* ---- texts ---- */

#define TEXT_BYTES 512

struct text {
    char* at;
    size_t bytes;
    char buffer[TEXT_BYTES];
};

/* What the format says. False: it can not be followed, and there is no event, as LTTng has none. A long text is put together twice, since
 * memory from malloc() is taken for long ones alone: short ones are traced in handlers, too. */
__attribute__((format(printf, 2, 0))) static bool begin_text(struct text* text, const char* format,
                                                             va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    const int bytes = vsnprintf(text->buffer, sizeof(text->buffer), format, arguments);
    text->at = text->buffer;
    text->bytes = bytes > 0 ? (size_t)bytes : 0;
    if (text->bytes >= sizeof(text->buffer)) {
        const size_t room = text->bytes + 1;
        char* const large = malloc(room);
        const int second = large != NULL ? vsnprintf(large, room, format, again) : -1;
        if (second >= 0) {
            text->at = large;
            text->bytes = (size_t)second < room ? (size_t)second : room - 1;
        } else {
            free(large);
            text->bytes = sizeof(text->buffer) - 1;
        }
    }
    va_end(again);
    return bytes >= 0;
}

static void end_text(struct text* text) {
    if (text->at != text->buffer) free(text->at);
}

UST_EXPORT void lttng_ust__vtracef(const char* format, va_list arguments)
    __attribute__((format(printf, 1, 0)));
UST_EXPORT void lttng_ust__tracef(const char* format, ...) __attribute__((format(printf, 1, 2)));

void lttng_ust__vtracef(const char* format, va_list arguments) {
    const int error = errno;
    struct text text;
    if (begin_text(&text, format, arguments)) plumb_trace(lttng_ust_tracef, event, text.at, text.bytes);
    end_text(&text);
    errno = error;
}

void lttng_ust__tracef(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    lttng_ust__vtracef(format, arguments);
    va_end(arguments);
}

#define DEFINE_LOG(level, number)                                                                            \
    UST_EXPORT void lttng_ust__vtracelog_LTTNG_UST_TRACEPOINT_LOGLEVEL_##level(                              \
        const char* file, int line, const char* function, const char* format, va_list arguments)             \
        __attribute__((format(printf, 4, 0)));                                                               \
    UST_EXPORT void lttng_ust__tracelog_LTTNG_UST_TRACEPOINT_LOGLEVEL_##level(                               \
        const char* file, int line, const char* function, const char* format, ...)                           \
        __attribute__((format(printf, 4, 5)));                                                               \
    void lttng_ust__vtracelog_LTTNG_UST_TRACEPOINT_LOGLEVEL_##level(                                         \
        const char* file, int line, const char* function, const char* format, va_list arguments) {           \
        const int error = errno;                                                                             \
        struct text text;                                                                                    \
        if (begin_text(&text, format, arguments))                                                            \
            plumb_trace(lttng_ust_tracelog, LTTNG_UST_TRACEPOINT_LOGLEVEL_##level, line, file, function,     \
                        text.at, text.bytes);                                                                \
        end_text(&text);                                                                                     \
        errno = error;                                                                                       \
    }                                                                                                        \
    void lttng_ust__tracelog_LTTNG_UST_TRACEPOINT_LOGLEVEL_##level(                                          \
        const char* file, int line, const char* function, const char* format, ...) {                         \
        va_list arguments;                                                                                   \
        va_start(arguments, format);                                                                         \
        lttng_ust__vtracelog_LTTNG_UST_TRACEPOINT_LOGLEVEL_##level(file, line, function, format, arguments); \
        va_end(arguments);                                                                                   \
    }
FOR_EACH_LEVEL(DEFINE_LOG)
