/*
 * What plumb.logging.PlumbHandler must not leave in a record of java.util.logging: who logged it. A record finds that by a walk over the
 * stack when it is first asked, and keeps it; so a handler behind ours that asks in a thread of its own would print a caller that
 * it does not find while nothing is recorded. Nobody but the record knows whether it has been asked, and its fields are closed to Java code
 * of others: so they are read and put back here. Where a JDK has other fields, its records are left as asking makes them.
 */
#include <jni.h>
#include <stdbool.h>
#include <stddef.h>

/* Of LogRecord, which is never unloaded; a part of them is none. */
static struct caller_fields {
    jfieldID is_unknown, class_name, method;
    bool are_known; /* written last, before there is a handler */
} fields;

static jfieldID find_field(JNIEnv* jni, jclass record, const char* name, const char* type) {
    jfieldID const field = (*jni)->GetFieldID(jni, record, name, type);
    if (field == NULL) (*jni)->ExceptionClear(jni);
    return field;
}

#define NATIVE(type, name) JNIEXPORT type JNICALL Java_plumb_logging_PlumbHandler_##name

NATIVE(void, findFields)(JNIEnv*, jclass, jclass);
NATIVE(jboolean, isCallerUnknown)(JNIEnv*, jclass, jobject);
NATIVE(void, forgetCaller)(JNIEnv*, jclass, jobject);

NATIVE(void, findFields)(JNIEnv* jni, jclass class, jclass record) {
    (void)class;
    fields.is_unknown = find_field(jni, record, "needToInferCaller", "Z");
    fields.class_name = find_field(jni, record, "sourceClassName", "Ljava/lang/String;");
    fields.method = find_field(jni, record, "sourceMethodName", "Ljava/lang/String;");
    fields.are_known = fields.is_unknown != NULL && fields.class_name != NULL && fields.method != NULL;
}

NATIVE(jboolean, isCallerUnknown)(JNIEnv* jni, jclass class, jobject record) {
    (void)class;
    return fields.are_known && (*jni)->GetBooleanField(jni, record, fields.is_unknown) ? JNI_TRUE : JNI_FALSE;
}

NATIVE(void, forgetCaller)(JNIEnv* jni, jclass class, jobject record) {
    (void)class;
    (*jni)->SetObjectField(jni, record, fields.class_name, NULL);
    (*jni)->SetObjectField(jni, record, fields.method, NULL);
    (*jni)->SetBooleanField(jni, record, fields.is_unknown, JNI_TRUE);
}
