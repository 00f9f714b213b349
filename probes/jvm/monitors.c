/* Monitors: who waits for one, and how long. A monitor is told by the number of its object. */
#include "agent.h"
#include "lock.h"
#include "recordings.h"

#include <stdlib.h>

struct begun {
    uint64_t id; /* 0: nothing is open in this thread */
    uint64_t began_ns;
    struct plumb_recordings told;
};
static __thread struct begun entering_here, waiting_here;

/* A virtual thread that waits leaves the thread that carries it, which others have meanwhile, and goes on in any. */
enum what { ENTERING, WAITING, WHATS };
struct open_wait {
    struct open_wait* next;
    uint64_t java_thread_id;
    struct begun begun[WHATS];
};
enum { bucket_count = 4096 };
static struct open_wait* open_waits[bucket_count];
static uint32_t open_lock;

static uint32_t sessions_of(enum what what) {
    return what == ENTERING ? SESSIONS_OF(monitor_contended_enter) | SESSIONS_OF(monitor_contended_entered)
                            : SESSIONS_OF(monitor_wait) | SESSIONS_OF(monitor_waited);
}

/* Nothing is open in it of which anybody is told the end. */
static bool is_over(const struct open_wait* wait) {
    for (enum what what = ENTERING; what < WHATS; what++) {
        const struct begun* const begun = &wait->begun[what];
        if (begun->id != 0 && plumb_recordings_left(&begun->told, sessions_of(what)) != 0) return false;
    }
    return true;
}

/* The place that points to it, or to NULL; with the lock. Others of which nobody is told the end any more are taken away. */
static struct open_wait** find_open(uint64_t java_thread_id) {
    struct open_wait** place = &open_waits[java_thread_id % bucket_count];
    while (*place && (*place)->java_thread_id != java_thread_id) {
        struct open_wait* const other = *place;
        if (!is_over(other)) {
            place = &other->next;
            continue;
        }
        *place = other->next;
        free(other);
    }
    return place;
}

static void keep_open(uint64_t java_thread_id, enum what what, const struct begun* begun) {
    struct open_wait* const made = calloc(1, sizeof(*made));
    plumb_lock(&open_lock);
    struct open_wait** const place = find_open(java_thread_id);
    struct open_wait* const before = *place;
    if (!before && made) {
        made->java_thread_id = java_thread_id;
        *place = made;
    }
    if (*place) (*place)->begun[what] = *begun;
    plumb_unlock(&open_lock);
    if (before) free(made);
}

static struct begun take_open(uint64_t java_thread_id, enum what what) {
    struct begun begun = {0, 0, {0, 0}};
    plumb_lock(&open_lock);
    struct open_wait** const place = find_open(java_thread_id);
    struct open_wait* const found = *place;
    if (found) {
        begun = found->begun[what];
        found->begun[what].id = 0;
        if (is_over(found)) {
            *place = found->next;
            free(found);
        }
    }
    plumb_unlock(&open_lock);
    return begun;
}

static struct begun begin(JNIEnv* jni, jthread thread, enum what what) {
    const uint64_t virtual_id = plumb_virtual_thread_id(jni, thread);
    struct begun begun;
    begun.told = plumb_recordings_now(sessions_of(what));
    begun.began_ns = plumb_monotonic_ns();
    begun.id = plumb_next_id();
    if (virtual_id != 0)
        keep_open(virtual_id, what, &begun);
    else
        *(what == ENTERING ? &entering_here : &waiting_here) = begun;
    return begun;
}

struct ended {
    uint64_t id;
    uint64_t waited_ns;
    uint32_t listeners; /* 0: such an end is not told */
};

/* Takes what was begun. Who was not there then is not told. */
static struct ended end(JNIEnv* jni, jthread thread, enum what what, uint32_t sessions) {
    const uint64_t now_ns = plumb_monotonic_ns(), virtual_id = plumb_virtual_thread_id(jni, thread);
    struct begun* const here = what == ENTERING ? &entering_here : &waiting_here;
    const struct begun begun = virtual_id != 0 ? take_open(virtual_id, what) : *here;
    if (virtual_id == 0) here->id = 0;
    return (struct ended){begun.id,
                          begun.began_ns != 0 && now_ns > begun.began_ns ? now_ns - begun.began_ns : 0,
                          begun.id != 0 ? plumb_recordings_left(&begun.told, sessions) : 0};
}

void JNICALL plumb_on_contended_enter(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread, jobject object) {
    (void)jvmti;
    const struct begun entering = begin(jni, thread, ENTERING);
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
    (void)jvmti;
    const struct ended ended = end(jni, thread, ENTERING, SESSIONS_OF(monitor_contended_entered));
    if (!plumb_enabled(jvm, monitor_contended_entered)) return plumb_came_unwanted(PLUMB_MONITORS);
    if (ended.listeners == 0) return;
    struct plumb_name class_name = plumb_name_of_class_of(jni, object);
    plumb_trace_to(ended.listeners, jvm, monitor_contended_entered, ended.id, plumb_number_of(object),
                   class_name.text.at, class_name.text.bytes, ended.waited_ns);
    plumb_release_name(&class_name);
}

void JNICALL plumb_on_wait(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread, jobject object, jlong timeout_ms) {
    (void)jvmti;
    const struct begun waiting = begin(jni, thread, WAITING);
    if (!plumb_enabled(jvm, monitor_wait)) return plumb_came_unwanted(PLUMB_MONITORS);
    struct plumb_name class_name = plumb_name_of_class_of(jni, object);
    plumb_trace_to(waiting.told.sessions, jvm, monitor_wait, waiting.id, plumb_number_of(object),
                   class_name.text.at, class_name.text.bytes, timeout_ms);
    plumb_release_name(&class_name);
}

void JNICALL plumb_on_waited(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread, jobject object,
                             jboolean timed_out) {
    (void)jvmti;
    const struct ended ended = end(jni, thread, WAITING, SESSIONS_OF(monitor_waited));
    if (!plumb_enabled(jvm, monitor_waited)) return plumb_came_unwanted(PLUMB_MONITORS);
    if (ended.listeners == 0) return;
    struct plumb_name class_name = plumb_name_of_class_of(jni, object);
    plumb_trace_to(ended.listeners, jvm, monitor_waited, ended.id, plumb_number_of(object),
                   class_name.text.at, class_name.text.bytes, ended.waited_ns, timed_out == JNI_TRUE);
    plumb_release_name(&class_name);
}
