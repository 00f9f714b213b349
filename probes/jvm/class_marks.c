#include "class_marks.h"

#include "agent.h"
#include "tags.h"

#include <string.h>

/* Of a tag: the mark, whether the class was there, whether it is left off, and the generation. */
enum { mark_bits = 3, was_there = 4, left_off = 8, generation_shift = 4 };

static struct plumb_tags class_tags;
static uint64_t first_linked_ns;

static void JNICALL on_class_prepare(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread, jclass class) {
    jlong tag = 0;
    (void)jni, (void)thread;
    if ((*jvmti)->GetTag(jvmti, class, &tag) != JVMTI_ERROR_NONE || (tag & mark_bits) != PLUMB_CLASS_WAITS)
        return;
    uint64_t none = 0;
    __atomic_compare_exchange_n(&first_linked_ns, &none, plumb_monotonic_ns(), false, __ATOMIC_RELEASE,
                                __ATOMIC_RELAXED);
    plumb_wake_watcher();
}

static bool ask_for_linked_classes(jvmtiEnv* env) {
    jvmtiEventCallbacks callbacks;
    memset(&callbacks, 0, sizeof(callbacks));
    callbacks.ClassPrepare = on_class_prepare;
    return (*env)->SetEventCallbacks(env, &callbacks, sizeof(callbacks)) == JVMTI_ERROR_NONE &&
           (*env)->SetEventNotificationMode(env, JVMTI_ENABLE, JVMTI_EVENT_CLASS_PREPARE, NULL) ==
               JVMTI_ERROR_NONE;
}

bool plumb_class_marks_begin(void) {
    __atomic_store_n(&first_linked_ns, 0, __ATOMIC_RELAXED);
    if (plumb_tags_begin(&class_tags) && ask_for_linked_classes(class_tags.kept)) return true;
    plumb_tags_end(&class_tags);
    return false;
}

void plumb_class_marks_end(void) {
    if (class_tags.kept)
        (*class_tags.kept)
            ->SetEventNotificationMode(class_tags.kept, JVMTI_DISABLE, JVMTI_EVENT_CLASS_PREPARE, NULL);
    plumb_tags_end(&class_tags);
}

static jlong tag_of(jclass class) {
    jlong tag = 0;
    jvmtiEnv* const env = plumb_tags_enter(&class_tags);
    if (env) (*env)->GetTag(env, class, &tag);
    plumb_tags_leave(&class_tags);
    return tag;
}

static void set_tag(jclass class, jlong tag) {
    jvmtiEnv* const env = plumb_tags_enter(&class_tags);
    if (env) (*env)->SetTag(env, class, tag);
    plumb_tags_leave(&class_tags);
}

static bool is_of(jlong tag, uint32_t generation) {
    return (uint32_t)(tag >> generation_shift) == generation;
}

void plumb_mark_class(jclass class, uint32_t generation, enum plumb_class_mark mark) {
    const jlong there = plumb_class_was_there(class, generation) ? was_there : 0;
    set_tag(class, (jlong)generation << generation_shift | there | (jlong)mark);
}

/* One that waited for the last wish waits on. */
void plumb_mark_class_as_there(jclass class, uint32_t generation) {
    const jlong waits =
        plumb_last_mark_of_class(class) == PLUMB_CLASS_WAITS ? PLUMB_CLASS_WAITS : PLUMB_CLASS_UNSEEN;
    set_tag(class, (jlong)generation << generation_shift | was_there | waits);
}

bool plumb_class_was_there(jclass class, uint32_t generation) {
    const jlong tag = tag_of(class);
    return is_of(tag, generation) && (tag & was_there) != 0;
}

void plumb_mark_class_left_off(jclass class, uint32_t generation) {
    plumb_mark_class(class, generation, PLUMB_CLASS_CHANGED);
    set_tag(class, tag_of(class) | left_off);
}

bool plumb_class_is_left_off(jclass class, uint32_t generation) {
    const jlong tag = tag_of(class);
    return is_of(tag, generation) && (tag & left_off) != 0;
}

enum plumb_class_mark plumb_mark_of_class(jclass class, uint32_t generation) {
    const jlong tag = tag_of(class);
    return is_of(tag, generation) ? (enum plumb_class_mark)(tag & mark_bits) : PLUMB_CLASS_UNSEEN;
}

enum plumb_class_mark plumb_last_mark_of_class(jclass class) {
    return (enum plumb_class_mark)(tag_of(class) & mark_bits);
}

bool plumb_class_is_linked(jclass class) {
    jint status = 0;
    return (*plumb_jvm.jvmti)->GetClassStatus(plumb_jvm.jvmti, class, &status) == JVMTI_ERROR_NONE &&
           (status & JVMTI_CLASS_STATUS_PREPARED) != 0;
}

uint64_t plumb_first_class_linked_ns(void) {
    return __atomic_load_n(&first_linked_ns, __ATOMIC_ACQUIRE);
}

uint64_t plumb_take_first_class_linked_ns(void) {
    return __atomic_exchange_n(&first_linked_ns, 0, __ATOMIC_ACQ_REL);
}
