/*
 * The events of plumb_logging.py (docs/python.md): one for each of Python's levels, with the log level that it has in Plumb, so
 * that rules choose among them by name and by level.
 *
 * Fields that all have:
 *   logger, message   as Python has them, in UTF-8
 *   level             Python's number, which may be one between (25)
 *   thread            the thread's name
 *   file, line, function   where it was logged; empty and 0 where Python does not know
 */
#include <plumb/tracepoint.h>

#define LOG_EVENT(name, plumb_level)                                                            \
    PLUMB_EVENT_LEVEL(python, name, plumb_level, (text, logger), (text, message), (i32, level), \
                      (text, thread), (text, file), (i32, line), (text, function))

LOG_EVENT(critical, PLUMB_CRIT);
LOG_EVENT(error, PLUMB_ERR);
LOG_EVENT(warning, PLUMB_WARNING);
LOG_EVENT(info, PLUMB_INFO);
LOG_EVENT(debug, PLUMB_DEBUG);

struct plumb_python_text {
    const char* bytes;
    unsigned long length;
};

struct plumb_python_record {
    int level, line;
    struct plumb_python_text logger, message, thread, file, function;
};

#define TEXT(name) record->name.bytes, record->name.length
#define TRACE(event)                                                                                 \
    plumb_trace(python, event, TEXT(logger), TEXT(message), record->level, TEXT(thread), TEXT(file), \
                record->line, TEXT(function))

#define EXPORTED __attribute__((visibility("default")))
EXPORTED const uint32_t* plumb_python_word(int level);
EXPORTED void plumb_python_log(const struct plumb_python_record* record);
EXPORTED void plumb_python_lose(int level);

/* By the level at or below its own; what is below `debug` is `debug`. */
static struct plumb_event* event_of(int level) {
    if (level >= 50) return &plumb_event_python__critical;
    if (level >= 40) return &plumb_event_python__error;
    if (level >= 30) return &plumb_event_python__warning;
    if (level >= 20) return &plumb_event_python__info;
    return &plumb_event_python__debug;
}

/* The word that says whether the event of a level is on: 0 is off. It stays where it is. */
const uint32_t* plumb_python_word(int level) {
    return &event_of(level)->enabled;
}

/* Counts a record as lost: Python could not make it. */
void plumb_python_lose(int level) {
    plumb_lose(event_of(level));
}

/* As event_of(). */
void plumb_python_log(const struct plumb_python_record* record) {
    if (record->level >= 50)
        TRACE(critical);
    else if (record->level >= 40)
        TRACE(error);
    else if (record->level >= 30)
        TRACE(warning);
    else if (record->level >= 20)
        TRACE(info);
    else
        TRACE(debug);
}
