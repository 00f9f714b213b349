/*
 * Whether a record of java.util.logging knows who logged it, for plumb.logging.Caller. Nobody but the record knows that, and its field is
 * closed to Java code of others: so it is read here. Nothing is written in a record, since other threads may have it too. Where a
 * JDK has another field, its records are asked.
 */
#include <jni.h>
#include <stdbool.h>
#include <stddef.h>

#define ASKED_COUNT 2
static const char* const asked_names[ASKED_COUNT] = {"getSourceClassName", "getSourceMethodName"};

/* Of LogRecord, which is never unloaded. */
static struct {
    jfieldID is_unknown;
    jmethodID asked[ASKED_COUNT];
    bool are_known; /* written last, before there is a handler */
} record_parts;

static jmethodID method_of(JNIEnv* jni, jclass class, int which) {
    jmethodID const method = (*jni)->GetMethodID(jni, class, asked_names[which], "()Ljava/lang/String;");
    if (method == NULL) (*jni)->ExceptionClear(jni);
    return method;
}

#define NATIVE(type, name) JNIEXPORT type JNICALL Java_plumb_logging_Caller_##name

NATIVE(void, findFields)(JNIEnv*, jclass, jclass);
NATIVE(jboolean, wouldLook)(JNIEnv*, jclass, jobject);

NATIVE(void, findFields)(JNIEnv* jni, jclass class, jclass record) {
    (void)class;
    record_parts.is_unknown = (*jni)->GetFieldID(jni, record, "needToInferCaller", "Z");
    if (record_parts.is_unknown == NULL) (*jni)->ExceptionClear(jni);
    for (int i = 0; i < ASKED_COUNT; i++)
        record_parts.asked[i] = method_of(jni, record, i);
    record_parts.are_known =
        record_parts.is_unknown != NULL && record_parts.asked[0] != NULL && record_parts.asked[1] != NULL;
}

/* A method that is inherited has the identity that it has in the class above. */
NATIVE(jboolean, wouldLook)(JNIEnv* jni, jclass class, jobject record) {
    (void)class;
    if (!record_parts.are_known || !(*jni)->GetBooleanField(jni, record, record_parts.is_unknown))
        return JNI_FALSE;
    jclass const own = (*jni)->GetObjectClass(jni, record);
    for (int i = 0; i < ASKED_COUNT; i++)
        if (method_of(jni, own, i) != record_parts.asked[i]) return JNI_FALSE;
    return JNI_TRUE;
}
