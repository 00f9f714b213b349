/* Classes that are loaded, and the machine code that is made of their methods. */
#include "agent.h"
#include "recordings.h"
#include "told_code.h"

#include <string.h>

/* What was told since it is recorded, or since it was last told from the beginning. */
static struct plumb_told_code told_methods, told_stubs;
static struct code_listing {
    bool is_listed;
    uint32_t newest; /* recording when it began to be told */
} listed_methods, listed_stubs;

static void begin_to_tell(struct code_listing* listing, uint32_t sessions) {
    *listing = (struct code_listing){false, plumb_newest_recording(sessions)};
}

/* To recordings that have come since, all is told again. */
static void begin_list(struct code_listing* listing, struct plumb_told_code* told, uint32_t sessions) {
    if (listing->is_listed || plumb_newest_recording(sessions) != listing->newest) plumb_untell_all(told);
    listing->is_listed = true;
}

void plumb_code_end(enum plumb_group group) {
    if (group == PLUMB_COMPILED_METHODS) plumb_untell_all(&told_methods);
    if (group == PLUMB_GENERATED_CODE) plumb_untell_all(&told_stubs);
}

void plumb_code_begin(enum plumb_group group) {
    plumb_code_end(group); /* what came when nobody wanted it any more */
    if (group == PLUMB_COMPILED_METHODS) begin_to_tell(&listed_methods, SESSIONS_OF(compiled_method_load));
    if (group == PLUMB_GENERATED_CODE) begin_to_tell(&listed_stubs, SESSIONS_OF(dynamic_code_generated));
}

void plumb_code_tell_methods(void) {
    begin_list(&listed_methods, &told_methods, SESSIONS_OF(compiled_method_load));
    (*plumb_jvm.jvmti)->GenerateEvents(plumb_jvm.jvmti, JVMTI_EVENT_COMPILED_METHOD_LOAD);
}

void plumb_code_tell_stubs(void) {
    begin_list(&listed_stubs, &told_stubs, SESSIONS_OF(dynamic_code_generated));
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
    if (plumb_was_told(&told_methods, code, (size_t)code_bytes, (uintptr_t)method)) return;
    struct plumb_method_names names;
    plumb_names_of_method(method, &names);
    plumb_trace(jvm, compiled_method_load, code, (uint32_t)code_bytes, names.class_name.text.at,
                names.class_name.text.bytes, names.method.text.at, names.method.text.bytes,
                names.signature.text.at, names.signature.text.bytes);
    plumb_release_method_names(&names);
}

/* The method's class may be gone, and the JVM's number of it with it. */
void JNICALL plumb_on_compiled_method_unload(jvmtiEnv* jvmti, jmethodID method, const void* code) {
    (void)jvmti, (void)method;
    plumb_untell(&told_methods, code);
    if (!plumb_enabled(jvm, compiled_method_unload)) return plumb_came_unwanted(PLUMB_COMPILED_METHODS);
    plumb_trace(jvm, compiled_method_unload, code);
}

void JNICALL plumb_on_code_generated(jvmtiEnv* jvmti, const char* name, const void* code, jint code_bytes) {
    (void)jvmti;
    if (!plumb_enabled(jvm, dynamic_code_generated)) return plumb_came_unwanted(PLUMB_GENERATED_CODE);
    const size_t name_bytes = name ? strlen(name) : 0;
    if (plumb_was_told(&told_stubs, code, (size_t)code_bytes, plumb_hash_of_text(name, name_bytes))) return;
    plumb_trace(jvm, dynamic_code_generated, code, (uint32_t)code_bytes, name, name_bytes);
}
