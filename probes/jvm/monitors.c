/* Monitors: who waits for one, and how long. A monitor is told by the number of its object. */
#include "agent.h"
#include "recordings.h"

struct begun {
    uint64_t id; /* 0: nothing is open in this thread */
    uint64_t began_ns;
    struct plumb_recordings told;
};
static __thread struct begun entering, waiting;

static void begin(struct begun* begun, uint32_t sessions) {
    begun->told = plumb_recordings_now(sessions);
    begun->began_ns = plumb_monotonic_ns();
    begun->id = plumb_next_id();
}

struct ended {
    uint64_t id;
    uint64_t waited_ns;
    uint32_t listeners; /* 0: such an end is not told */
};

/* Takes what was begun. Who was not there then is not told. */
static struct ended end(struct begun* begun, uint32_t sessions) {
    const uint64_t now_ns = plumb_monotonic_ns(), id = begun->id;
    begun->id = 0;
    return (struct ended){id, begun->began_ns != 0 && now_ns > begun->began_ns ? now_ns - begun->began_ns : 0,
                          id != 0 ? plumb_recordings_left(&begun->told, sessions) : 0};
}

void JNICALL plumb_on_contended_enter(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread, jobject object) {
    (void)jvmti;
    begin(&entering, SESSIONS_OF(monitor_contended_enter) | SESSIONS_OF(monitor_contended_entered));
    if (!plumb_enabled(jvm, monitor_contended_enter)) return plumb_came_unwanted(PLUMB_MONITORS);
    struct plumb_owner owner;
    plumb_owner_of_pending(jni, thread, &owner);
    struct plumb_name class_name = plumb_name_of_class_of(jni, object);
    plumb_trace_to(entering.told.sessions, jvm, monitor_contended_enter, entering.id, plumb_number_of(object),
                   class_name.text.at, class_name.text.bytes, owner.os_thread_id, owner.java_thread_id,
                   owner.name, owner.name_bytes);
    plumb_release_name(&class_name);
}

void JNICALL plumb_on_contended_entered(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread, jobject object) {
    (void)jvmti, (void)thread;
    const struct ended ended = end(&entering, SESSIONS_OF(monitor_contended_entered));
    if (!plumb_enabled(jvm, monitor_contended_entered)) return plumb_came_unwanted(PLUMB_MONITORS);
    if (ended.listeners == 0) return;
    struct plumb_name class_name = plumb_name_of_class_of(jni, object);
    plumb_trace_to(ended.listeners, jvm, monitor_contended_entered, ended.id, plumb_number_of(object),
                   class_name.text.at, class_name.text.bytes, ended.waited_ns);
    plumb_release_name(&class_name);
}

void JNICALL plumb_on_wait(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread, jobject object, jlong timeout_ms) {
    (void)jvmti, (void)thread;
    begin(&waiting, SESSIONS_OF(monitor_wait) | SESSIONS_OF(monitor_waited));
    if (!plumb_enabled(jvm, monitor_wait)) return plumb_came_unwanted(PLUMB_MONITORS);
    struct plumb_name class_name = plumb_name_of_class_of(jni, object);
    plumb_trace_to(waiting.told.sessions, jvm, monitor_wait, waiting.id, plumb_number_of(object),
                   class_name.text.at, class_name.text.bytes, timeout_ms);
    plumb_release_name(&class_name);
}

void JNICALL plumb_on_waited(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread, jobject object,
                             jboolean timed_out) {
    (void)jvmti, (void)thread;
    const struct ended ended = end(&waiting, SESSIONS_OF(monitor_waited));
    if (!plumb_enabled(jvm, monitor_waited)) return plumb_came_unwanted(PLUMB_MONITORS);
    if (ended.listeners == 0) return;
    struct plumb_name class_name = plumb_name_of_class_of(jni, object);
    plumb_trace_to(ended.listeners, jvm, monitor_waited, ended.id, plumb_number_of(object),
                   class_name.text.at, class_name.text.bytes, ended.waited_ns, timed_out == JNI_TRUE);
    plumb_release_name(&class_name);
}
