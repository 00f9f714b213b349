/* Names of classes and methods, as JVMTI has them. */
#include "agent.h"

struct plumb_name plumb_name_of_class(jclass class) {
    struct plumb_name name = {NULL, {NULL, 0}};
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    if (!class || (*jvmti)->GetClassSignature(jvmti, class, &name.allocated, NULL) != JVMTI_ERROR_NONE)
        name.allocated = NULL;
    name.text = plumb_class_name_in_place(name.allocated);
    return name;
}

struct plumb_name plumb_name_of_class_of(JNIEnv* jni, jobject object) {
    if (!object) return plumb_name_of_class(NULL);
    const jclass class = (*jni)->GetObjectClass(jni, object);
    const struct plumb_name name = plumb_name_of_class(class);
    (*jni)->DeleteLocalRef(jni, class);
    return name;
}

void plumb_release_name(struct plumb_name* name) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    if (name->allocated) (*jvmti)->Deallocate(jvmti, (unsigned char*)name->allocated);
    name->allocated = NULL;
}

void plumb_name_and_signature_of(jmethodID method, struct plumb_name* name, struct plumb_name* signature) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    if ((*jvmti)->GetMethodName(jvmti, method, &name->allocated, &signature->allocated, NULL) !=
        JVMTI_ERROR_NONE)
        name->allocated = signature->allocated = NULL;
    name->text = plumb_utf8_in_place(name->allocated);
    signature->text = plumb_utf8_in_place(signature->allocated);
}

void plumb_names_of_method(jmethodID method, struct plumb_method_names* names) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    *names = (struct plumb_method_names){{NULL, {NULL, 0}}, {NULL, {NULL, 0}}, {NULL, {NULL, 0}}};
    if (!method) return;
    jclass class = NULL;
    if ((*jvmti)->GetMethodDeclaringClass(jvmti, method, &class) == JVMTI_ERROR_NONE)
        names->class_name = plumb_name_of_class(class);
    plumb_name_and_signature_of(method, &names->method, &names->signature);
}

void plumb_release_method_names(struct plumb_method_names* names) {
    plumb_release_name(&names->class_name);
    plumb_release_name(&names->method);
    plumb_release_name(&names->signature);
}

size_t plumb_take_string(JNIEnv* jni, jstring string, size_t units_max, char* to, size_t room) {
    jchar units[PLUMB_STRING_UNITS_MAX];
    if (!string) return 0;
    if (units_max > PLUMB_STRING_UNITS_MAX) units_max = PLUMB_STRING_UNITS_MAX;
    size_t count = (size_t)(*jni)->GetStringLength(jni, string);
    if (count > units_max) count = units_max;
    (*jni)->GetStringRegion(jni, string, 0, (jsize)count, units);
    (*jni)->DeleteLocalRef(jni, string);
    return plumb_utf8_of_utf16(units, count, to, room);
}
