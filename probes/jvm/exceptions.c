/* Exceptions. What they hold is read as it is: getMessage() may be the program's own. */
#include "agent.h"

static jfieldID message_field; /* Throwable.detailMessage; NULL: not known */

void plumb_exceptions_prepare(JNIEnv* jni) {
    const jclass class = (*jni)->FindClass(jni, "java/lang/Throwable");
    const jfieldID field =
        class ? (*jni)->GetFieldID(jni, class, "detailMessage", "Ljava/lang/String;") : NULL;
    if (!field) plumb_threw(jni);
    __atomic_store_n(&message_field, field, __ATOMIC_RELEASE);
    if (class) (*jni)->DeleteLocalRef(jni, class);
}

enum { message_units_max = PLUMB_STRING_UNITS_MAX };

static size_t read_message(JNIEnv* jni, jobject exception, char* to, size_t room) {
    const jfieldID field = __atomic_load_n(&message_field, __ATOMIC_ACQUIRE);
    const jstring message = field && exception ? (*jni)->GetObjectField(jni, exception, field) : NULL;
    return plumb_take_string(jni, message, message_units_max, to, room);
}

static int32_t line_of(jmethodID method, jlocation location) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    jint count = 0;
    jvmtiLineNumberEntry* lines = NULL;
    if (!method || (*jvmti)->GetLineNumberTable(jvmti, method, &count, &lines) != JVMTI_ERROR_NONE) return 0;
    int32_t line = 0;
    jlocation begin = -1;
    for (jint i = 0; i < count; i++) {
        if (lines[i].start_location > location || lines[i].start_location < begin) continue;
        begin = lines[i].start_location;
        line = lines[i].line_number;
    }
    (*jvmti)->Deallocate(jvmti, (unsigned char*)lines);
    return line;
}

void JNICALL plumb_on_exception(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread, jmethodID method,
                                jlocation location, jobject exception, jmethodID catch_method,
                                jlocation catch_location) {
    (void)jvmti, (void)thread, (void)catch_location;
    if (!plumb_enabled(jvm, exception_throw)) return plumb_came_unwanted(PLUMB_EXCEPTIONS);
    char message[3 * message_units_max];
    const size_t message_bytes = read_message(jni, exception, message, sizeof(message));
    struct plumb_name name = plumb_name_of_class_of(jni, exception);
    struct plumb_method_names thrown, caught;
    plumb_names_of_method(method, &thrown);
    plumb_names_of_method(catch_method, &caught);
    plumb_trace(jvm, exception_throw, name.text.at, name.text.bytes, message, message_bytes,
                thrown.class_name.text.at, thrown.class_name.text.bytes, thrown.method.text.at,
                thrown.method.text.bytes, line_of(method, location), caught.class_name.text.at,
                caught.class_name.text.bytes, caught.method.text.at, caught.method.text.bytes);
    plumb_release_method_names(&caught);
    plumb_release_method_names(&thrown);
    plumb_release_name(&name);
}

void JNICALL plumb_on_exception_catch(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread, jmethodID method,
                                      jlocation location, jobject exception) {
    (void)jvmti, (void)thread;
    if (!plumb_enabled(jvm, exception_catch)) return plumb_came_unwanted(PLUMB_EXCEPTIONS);
    struct plumb_name name = plumb_name_of_class_of(jni, exception);
    struct plumb_method_names caught;
    plumb_names_of_method(method, &caught);
    plumb_trace(jvm, exception_catch, name.text.at, name.text.bytes, caught.class_name.text.at,
                caught.class_name.text.bytes, caught.method.text.at, caught.method.text.bytes,
                line_of(method, location));
    plumb_release_method_names(&caught);
    plumb_release_name(&name);
}
