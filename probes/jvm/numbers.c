/* Objects are told by a tag (JVMTI), which makes no difference that the program could see, as a hash code would. */
#include "agent.h"

#include <time.h>

/*
 * Two threads that see an object for the first time must not both give it a number. Who holds this may be stopped inside the JVM, by a
 * safepoint or a debugger, so it is waited for a limited time only; the JVM does not wait for it.
 */
static uint32_t tags_lock;

static bool lock_tags(void) {
    enum { attempts = 2000 };
    const struct timespec pause = {0, 100000};
    for (int i = 0; i < attempts; i++) {
        if (__atomic_exchange_n(&tags_lock, 1, __ATOMIC_ACQUIRE) == 0) return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

uint64_t plumb_number_of(jobject object) {
    static uint64_t last_tag;
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    jlong tag = 0;
    if ((*jvmti)->GetTag(jvmti, object, &tag) != JVMTI_ERROR_NONE || tag != 0) return (uint64_t)tag;
    const bool is_locked = lock_tags();
    if ((*jvmti)->GetTag(jvmti, object, &tag) == JVMTI_ERROR_NONE && tag == 0) {
        tag = (jlong)__atomic_add_fetch(&last_tag, 1, __ATOMIC_RELAXED);
        if ((*jvmti)->SetTag(jvmti, object, tag) != JVMTI_ERROR_NONE) tag = 0;
    }
    if (is_locked) __atomic_store_n(&tags_lock, 0, __ATOMIC_RELEASE);
    return (uint64_t)tag;
}
