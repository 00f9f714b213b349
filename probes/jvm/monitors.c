/* Monitors: who waits for one, and how long. A monitor is told by the number of its object. */
#include "agent.h"

struct begun {
    uint64_t id; /* 0: nothing is open in this thread */
    uint64_t began_ns;
};
static __thread struct begun entering, waiting;

static void begin(struct begun* begun) {
    begun->began_ns = plumb_monotonic_ns();
    begun->id = plumb_next_id();
}

/* Takes what was begun; `waited_ns` is 0 if nothing was. */
static uint64_t end(struct begun* begun, uint64_t* waited_ns) {
    const uint64_t now_ns = plumb_monotonic_ns(), id = begun->id;
    *waited_ns = id != 0 && begun->began_ns != 0 && now_ns > begun->began_ns ? now_ns - begun->began_ns : 0;
    begun->id = 0;
    return id;
}

void JNICALL plumb_on_contended_enter(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread, jobject object) {
    (void)jvmti;
    begin(&entering);
    if (!plumb_enabled(jvm, monitor_contended_enter)) return plumb_came_unwanted(PLUMB_MONITORS);
    struct plumb_owner owner;
    plumb_owner_of_pending(jni, thread, &owner);
    struct plumb_name class_name = plumb_name_of_class_of(jni, object);
    plumb_trace(jvm, monitor_contended_enter, entering.id, plumb_number_of(object), class_name.text.at,
                class_name.text.bytes, owner.os_thread_id, owner.java_thread_id, owner.name,
                owner.name_bytes);
    plumb_release_name(&class_name);
}

void JNICALL plumb_on_contended_entered(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread, jobject object) {
    (void)jvmti, (void)thread;
    uint64_t waited_ns;
    const uint64_t id = end(&entering, &waited_ns);
    if (!plumb_enabled(jvm, monitor_contended_entered)) return plumb_came_unwanted(PLUMB_MONITORS);
    struct plumb_name class_name = plumb_name_of_class_of(jni, object);
    plumb_trace(jvm, monitor_contended_entered, id, plumb_number_of(object), class_name.text.at,
                class_name.text.bytes, waited_ns);
    plumb_release_name(&class_name);
}

void JNICALL plumb_on_wait(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread, jobject object, jlong timeout_ms) {
    (void)jvmti, (void)thread;
    begin(&waiting);
    if (!plumb_enabled(jvm, monitor_wait)) return plumb_came_unwanted(PLUMB_MONITORS);
    struct plumb_name class_name = plumb_name_of_class_of(jni, object);
    plumb_trace(jvm, monitor_wait, waiting.id, plumb_number_of(object), class_name.text.at,
                class_name.text.bytes, timeout_ms);
    plumb_release_name(&class_name);
}

void JNICALL plumb_on_waited(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread, jobject object,
                             jboolean timed_out) {
    (void)jvmti, (void)thread;
    uint64_t waited_ns;
    const uint64_t id = end(&waiting, &waited_ns);
    if (!plumb_enabled(jvm, monitor_waited)) return plumb_came_unwanted(PLUMB_MONITORS);
    struct plumb_name class_name = plumb_name_of_class_of(jni, object);
    plumb_trace(jvm, monitor_waited, id, plumb_number_of(object), class_name.text.at, class_name.text.bytes,
                waited_ns, timed_out == JNI_TRUE);
    plumb_release_name(&class_name);
}
