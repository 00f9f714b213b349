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

static uint32_t* word_of(jint kind) {
    switch (kind) {
    case severe:
        return &plumb_event_java__severe.enabled;
    case warning:
        return &plumb_event_java__warning.enabled;
    case info:
        return &plumb_event_java__info.enabled;
    case config:
        return &plumb_event_java__config.enabled;
    case fine:
        return &plumb_event_java__fine.enabled;
    case finer:
        return &plumb_event_java__finer.enabled;
    default:
        return &plumb_event_java__finest.enabled;
    }
}

JNIEXPORT jobject JNICALL Java_plumb_internal_LogEvents_word(JNIEnv*, jclass, jint);
JNIEXPORT void JNICALL Java_plumb_internal_LogEvents_log(JNIEnv*, jclass, jint, jint, jobject, jint, jint,
                                                         jint, jint, jint);

/* The word that says whether the event is on: 0 is off. It stays where it is. */
JNIEXPORT jobject JNICALL Java_plumb_internal_LogEvents_word(JNIEnv* jni, jclass class, jint kind) {
    (void)class;
    return (*jni)->NewDirectByteBuffer(jni, word_of(kind), sizeof(uint32_t));
}

#define TRACE(event)                                                                                      \
    plumb_trace(java, event, logger, (size_t)logger_bytes, message, (size_t)message_bytes, level, thread, \
                (size_t)thread_bytes, class_name, (size_t)class_bytes, method, (size_t)method_bytes)

/* The texts stand one behind the other. */
JNIEXPORT void JNICALL Java_plumb_internal_LogEvents_log(JNIEnv* jni, jclass class, jint kind, jint level,
                                                         jobject texts, jint logger_bytes, jint message_bytes,
                                                         jint thread_bytes, jint class_bytes,
                                                         jint method_bytes) {
    (void)class;
    const char* const logger = (*jni)->GetDirectBufferAddress(jni, texts);
    if (!logger) return;
    const char* const message = logger + logger_bytes;
    const char* const thread = message + message_bytes;
    const char* const class_name = thread + thread_bytes;
    const char* const method = class_name + class_bytes;
    switch (kind) {
    case severe:
        TRACE(severe);
        break;
    case warning:
        TRACE(warning);
        break;
    case info:
        TRACE(info);
        break;
    case config:
        TRACE(config);
        break;
    case fine:
        TRACE(fine);
        break;
    case finer:
        TRACE(finer);
        break;
    default:
        TRACE(finest);
        break;
    }
}
