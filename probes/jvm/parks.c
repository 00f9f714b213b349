/*
 * Parks: what nearly all waits of java.util.concurrent end in, LockSupport.park() and its kin. The program's thread comes here in place
 * of the JVM's own function, and goes through that in any case; one that waits there when nobody records any more comes back through here.
 *
 * Behind the wait nothing is asked of the JVM: an exception may be pending then.
 */
#include "agent.h"
#include "recordings.h"

#include <time.h>

static bool parks_are_bound;

static const int64_t ns_per_ms = 1000000, ns_per_s = 1000000000;

static int64_t wall_time_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * ns_per_s + now.tv_nsec;
}

/* What is left until then, in nanoseconds; 0, which would be no limit, is -1. */
static int64_t left_until_ms(jlong deadline_ms) {
    if (deadline_ms > INT64_MAX / ns_per_ms) return INT64_MAX;
    if (deadline_ms < 0) return -1;
    const int64_t left_ns = deadline_ms * ns_per_ms - wall_time_ns();
    return left_ns != 0 ? left_ns : -1;
}

struct begun_park {
    uint64_t id;
    int64_t timeout_ns;
    uint64_t began_ns;
    struct plumb_recordings told;
    struct plumb_blocker blocker;
};

static void begin_park(JNIEnv* jni, bool is_absolute, jlong time, struct begun_park* begun) {
    begun->id = plumb_next_id();
    begun->told = plumb_recordings_now(SESSIONS_OF(park) | SESSIONS_OF(parked));
    begun->timeout_ns = is_absolute ? left_until_ms(time) : time;
    plumb_blocker_of_this_thread(jni, &begun->blocker);
    const struct plumb_blocker* const blocker = &begun->blocker;
    const struct plumb_blocker_class* const class = blocker->class;
    plumb_trace_to(begun->told.sessions, jvm, park, begun->id, blocker->number, class ? class->name : NULL,
                   class ? class->name_bytes : 0, class && class->is_synchronizer,
                   blocker->owner.os_thread_id, blocker->owner.java_thread_id, blocker->owner.name,
                   blocker->owner.name_bytes, begun->timeout_ns, is_absolute);
    begun->began_ns = plumb_monotonic_ns();
}

static bool has_timed_out(bool is_absolute, jlong time, uint64_t waited_ns) {
    if (is_absolute) return left_until_ms(time) < 0;
    return time > 0 && waited_ns >= (uint64_t)time;
}

static void end_park(bool is_absolute, jlong time, const struct begun_park* begun) {
    const uint32_t listeners = plumb_recordings_left(&begun->told, SESSIONS_OF(parked));
    if (listeners == 0) return;
    const uint64_t now_ns = plumb_monotonic_ns();
    const uint64_t waited_ns =
        begun->began_ns != 0 && now_ns > begun->began_ns ? now_ns - begun->began_ns : 0;
    const struct plumb_blocker_class* const class = begun->blocker.class;
    plumb_trace_to(listeners, jvm, parked, begun->id, begun->blocker.number, class ? class->name : NULL,
                   class ? class->name_bytes : 0, class && class->is_synchronizer, waited_ns,
                   has_timed_out(is_absolute, time, waited_ns));
}

static bool is_recorded(void) {
    if (plumb_enabled(jvm, park) || plumb_enabled(jvm, parked)) return true;
    if (__atomic_load_n(&parks_are_bound, __ATOMIC_RELAXED)) plumb_came_unwanted(PLUMB_PARKS);
    return false;
}

static void JNICALL park(JNIEnv* jni, jobject unsafe, jboolean is_absolute, jlong time) {
    if (!is_recorded()) {
        plumb_jvm_park(jni, unsafe, is_absolute, time);
        return;
    }
    struct begun_park begun;
    begin_park(jni, is_absolute != JNI_FALSE, time, &begun);
    plumb_jvm_park(jni, unsafe, is_absolute, time);
    end_park(is_absolute != JNI_FALSE, time, &begun);
}

/* Another address for the same. */
static void JNICALL first_park(JNIEnv* jni, jobject unsafe, jboolean is_absolute, jlong time) {
    park(jni, unsafe, is_absolute, time);
}

/*
 * The JVM may be about to finish a stub that it began with the function before, and would then call that for good: a
 * second binding has it thrown away. A stub that calls `park` still when it is given back makes no difference.
 */
bool plumb_parks_begin(JNIEnv* jni) {
    const struct timespec stub_time = {0, 2000000};
    if (!plumb_bind_park(jni, first_park)) return false;
    nanosleep(&stub_time, NULL);
    __atomic_store_n(&parks_are_bound, true, __ATOMIC_RELAXED);
    plumb_bind_park(jni, park);
    return true;
}

void plumb_parks_end(JNIEnv* jni) {
    __atomic_store_n(&parks_are_bound, false, __ATOMIC_RELAXED);
    plumb_bind_park(jni, plumb_jvm_park);
}
