/*
 * What hooked code calls: native methods that neither ask the JVM for anything nor run any of its code (but for the name of an exception's
 * class), so that methods which the JVM itself uses may be hooked.
 *
 * The token goes through a local of the hooked code, and not through a table of the thread: a virtual thread may end a method elsewhere
 * than it began, and one that is thrown away in between leaves nothing behind. It is the time at which the method began, with a number of
 * the thread below that: so it is an id as well, and tells how long it took.
 */
#include "methods.h"

#include "recordings.h"

enum { thread_bits = 64 - PLUMB_TIME_BITS };

/* Never 0, and no other one of this thread. */
static uint64_t new_token(uint64_t now_ns) {
    static uint32_t last_thread;
    static __thread uint64_t last_ns;
    static __thread uint32_t thread; /* 0: none yet */
    if (thread == 0) thread = __atomic_add_fetch(&last_thread, 1, __ATOMIC_RELAXED) << 1 | 1;
    last_ns = now_ns > last_ns ? now_ns : last_ns + 1;
    return last_ns << thread_bits | (thread >> 1 & ((1u << thread_bits) - 1));
}

static uint64_t duration_of(uint64_t token, uint64_t now_ns) {
    const uint64_t wrapped_ns = (now_ns << thread_bits) - (token >> thread_bits << thread_bits);
    return wrapped_ns >> thread_bits;
}

static uint32_t sessions_of_both(void) {
    return SESSIONS_OF(method_entry) | SESSIONS_OF(method_exit);
}

/* The first one is enough to be given back. */
static void came_unwanted(struct plumb_known_method* method) {
    if (!__atomic_exchange_n(&method->came_unwanted, true, __ATOMIC_RELAXED)) plumb_methods_came_unwanted();
}

jlong JNICALL plumb_method_enter(JNIEnv* jni, jclass class, jint number) {
    (void)jni, (void)class;
    struct plumb_known_method* const method = plumb_known_method(number);
    if (!plumb_enabled(jvm, method_entry) && !plumb_enabled(jvm, method_exit)) {
        came_unwanted(method);
        return 0;
    }
    if (plumb_is_own_thread()) return 0;
    plumb_see_recordings(sessions_of_both);
    const uint64_t token = new_token(plumb_monotonic_ns());
    plumb_trace_to(plumb_recordings_seen_now(sessions_of_both(), token >> thread_bits), jvm, method_entry,
                   token, method->class_name.at, method->class_name.bytes, method->method.at,
                   method->method.bytes, method->signature.at, method->signature.bytes);
    return (jlong)token;
}

/* A call that is told to return may be thrown out of there: with a monitor that it holds still, or stopped by another thread. */
static __thread uint64_t last_told;

static void tell_exit(const struct plumb_known_method* method, uint64_t token, struct plumb_text exception) {
    const uint32_t listeners = plumb_recordings_seen(SESSIONS_OF(method_exit), token >> thread_bits);
    if (last_told == token || listeners == 0) return;
    last_told = token;
    plumb_trace_to(listeners, jvm, method_exit, token, method->class_name.at, method->class_name.bytes,
                   method->method.at, method->method.bytes, method->signature.at, method->signature.bytes,
                   duration_of(token, plumb_monotonic_ns()), exception.at, exception.bytes);
}

void JNICALL plumb_method_exit(JNIEnv* jni, jclass class, jint number, jlong token) {
    (void)jni, (void)class;
    if (token == 0 || !plumb_enabled(jvm, method_exit)) return;
    tell_exit(plumb_known_method(number), (uint64_t)token, (struct plumb_text){NULL, 0});
}

void JNICALL plumb_method_thrown(JNIEnv* jni, jclass class, jobject exception, jint number, jlong token) {
    (void)class;
    if (token == 0 || !plumb_enabled(jvm, method_exit)) return;
    struct plumb_name name = plumb_name_of_class_of(jni, exception);
    tell_exit(plumb_known_method(number), (uint64_t)token, name.text);
    plumb_release_name(&name);
}
