/* Classes that are loaded, and the machine code that is made of their methods. */
#include "agent.h"
#include "recordings.h"
#include "told_code.h"

#include <string.h>

static struct plumb_told_code told_methods, told_stubs; /* since it is recorded */

void plumb_code_end(enum plumb_group group) {
    if (group == PLUMB_COMPILED_METHODS) plumb_untell_all(&told_methods);
    if (group == PLUMB_GENERATED_CODE) plumb_untell_all(&told_stubs);
}

void plumb_code_begin(enum plumb_group group) {
    plumb_code_end(group); /* what came when nobody wanted it any more */
}

void plumb_code_tell_methods(void) {
    (*plumb_jvm.jvmti)->GenerateEvents(plumb_jvm.jvmti, JVMTI_EVENT_COMPILED_METHOD_LOAD);
}

void plumb_code_tell_stubs(void) {
    (*plumb_jvm.jvmti)->GenerateEvents(plumb_jvm.jvmti, JVMTI_EVENT_DYNAMIC_CODE_GENERATED);
}

void JNICALL plumb_on_class_prepare(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread, jclass class) {
    (void)thread;
    if (!plumb_enabled(jvm, class_prepare)) return plumb_came_unwanted(PLUMB_CLASSES);
    jobject loader = NULL;
    if ((*jvmti)->GetClassLoader(jvmti, class, &loader) != JVMTI_ERROR_NONE) loader = NULL;
    struct plumb_name name = plumb_name_of_class(class), loader_name = plumb_name_of_class_of(jni, loader);
    plumb_trace(jvm, class_prepare, name.text.at, name.text.bytes, loader_name.text.at,
                loader_name.text.bytes);
    plumb_release_name(&name);
    plumb_release_name(&loader_name);
}

void JNICALL plumb_on_compiled_method_load(jvmtiEnv* jvmti, jmethodID method, jint code_bytes,
                                           const void* code, jint map_length, const jvmtiAddrLocationMap* map,
                                           const void* compile_info) {
    (void)jvmti, (void)map_length, (void)map, (void)compile_info;
    if (!plumb_enabled(jvm, compiled_method_load)) return plumb_came_unwanted(PLUMB_COMPILED_METHODS);
    const uint32_t listeners =
        plumb_tell(&told_methods, &plumb_event_jvm__compiled_method_load, code, (size_t)code_bytes,
                   0); /* the number of a method changes where its class is redefined */
    if (listeners == 0) return;
    struct plumb_method_names names;
    plumb_names_of_method(method, &names);
    plumb_trace_to(listeners, jvm, compiled_method_load, code, (uint32_t)code_bytes, names.class_name.text.at,
                   names.class_name.text.bytes, names.method.text.at, names.method.text.bytes,
                   names.signature.text.at, names.signature.text.bytes);
    plumb_release_method_names(&names);
}

/* The method's class may be gone, and the JVM's number of it with it. Who is told of code is told the end of that which he knows. */
void JNICALL plumb_on_compiled_method_unload(jvmtiEnv* jvmti, jmethodID method, const void* code) {
    (void)jvmti, (void)method;
    const uint32_t know_of_it = plumb_untell(&told_methods, code);
    if (!plumb_enabled(jvm, compiled_method_unload)) return plumb_came_unwanted(PLUMB_COMPILED_METHODS);
    plumb_trace_to(know_of_it | ~SESSIONS_OF(compiled_method_load), jvm, compiled_method_unload, code);
}

void JNICALL plumb_on_code_generated(jvmtiEnv* jvmti, const char* name, const void* code, jint code_bytes) {
    (void)jvmti;
    if (!plumb_enabled(jvm, dynamic_code_generated)) return plumb_came_unwanted(PLUMB_GENERATED_CODE);
    const size_t name_bytes = name ? strlen(name) : 0;
    const uint32_t listeners = plumb_tell(&told_stubs, &plumb_event_jvm__dynamic_code_generated, code,
                                          (size_t)code_bytes, plumb_hash_of_text(name, name_bytes));
    plumb_trace_to(listeners, jvm, dynamic_code_generated, code, (uint32_t)code_bytes, name, name_bytes);
}
