/*
 * The events of Java's logging (plumb.internal.LogEvents, docs/java-logging.md): one for each level of java.util.logging, with the log
 * level that it has in Plumb, so that rules choose among them by name and by level.
 *
 * Fields that all have:
 *   logger, message   in UTF-8
 *   level             Java's number, which may be one between
 *   thread            the thread's name; empty where another thread hands the record over
 *   class_name, method   as the record has them; empty where it has not
 */
#include "payload.h"

#include <plumb/tracepoint.h>

#include <jni.h>

#define LOG_EVENT(name, plumb_level)                                                          \
    PLUMB_EVENT_LEVEL(java, name, plumb_level, (text, logger), (text, message), (i32, level), \
                      (text, thread), (text, class_name), (text, method))

LOG_EVENT(severe, PLUMB_ERR);
LOG_EVENT(warning, PLUMB_WARNING);
LOG_EVENT(info, PLUMB_INFO);
LOG_EVENT(config, PLUMB_DEBUG_SYSTEM);
LOG_EVENT(fine, PLUMB_DEBUG_PROGRAM);
LOG_EVENT(finer, PLUMB_DEBUG_FUNCTION);
LOG_EVENT(finest, PLUMB_DEBUG);

/* As LogEvents numbers them. */
enum kind { severe, warning, info, config, fine, finer, finest };

static struct plumb_event* event_of(jint kind) {
    switch (kind) {
    case severe:
        return &plumb_event_java__severe;
    case warning:
        return &plumb_event_java__warning;
    case info:
        return &plumb_event_java__info;
    case config:
        return &plumb_event_java__config;
    case fine:
        return &plumb_event_java__fine;
    case finer:
        return &plumb_event_java__finer;
    default:
        return &plumb_event_java__finest;
    }
}

JNIEXPORT jobject JNICALL Java_plumb_internal_LogEvents_word(JNIEnv*, jclass, jint);
JNIEXPORT void JNICALL Java_plumb_internal_LogEvents_emit(JNIEnv*, jclass, jint, jlong, jint, jboolean);
JNIEXPORT void JNICALL Java_plumb_internal_LogEvents_countLoss(JNIEnv*, jclass, jint, jint);

/* The word that says whether the event is on: 0 is off. It stays where it is. */
JNIEXPORT jobject JNICALL Java_plumb_internal_LogEvents_word(JNIEnv* jni, jclass class, jint kind) {
    (void)class;
    return (*jni)->NewDirectByteBuffer(jni, &event_of(kind)->enabled, sizeof(uint32_t));
}

/* The level, and of five texts the counts. */
#define FIXED_BYTES (4u + 5u * 2u)

JNIEXPORT void JNICALL Java_plumb_internal_LogEvents_emit(JNIEnv* jni, jclass class, jint kind, jlong payload,
                                                          jint bytes, jboolean is_cut) {
    (void)jni, (void)class;
    struct plumb_event* const event = event_of(kind);
    if (kind >= 0 && __atomic_load_n(&event->enabled, __ATOMIC_RELAXED) != 0)
        emit_payload(event, FIXED_BYTES, payload, bytes, is_cut);
}

JNIEXPORT void JNICALL Java_plumb_internal_LogEvents_countLoss(JNIEnv* jni, jclass class, jint kind,
                                                               jint count) {
    (void)jni, (void)class;
    for (jint i = 0; i < count; i++)
        plumb_lose(event_of(kind));
}
