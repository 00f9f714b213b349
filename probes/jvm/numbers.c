/* Objects are told by a tag (JVMTI), which makes no difference that the program could see, as a hash code would. */
#include "agent.h"
#include "tags.h"

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

static uint64_t number_in(jvmtiEnv* env, jobject object) {
    static uint64_t last_tag;
    jlong tag = 0;
    if ((*env)->GetTag(env, object, &tag) != JVMTI_ERROR_NONE || tag != 0) return (uint64_t)tag;
    const bool is_locked = lock_tags();
    if ((*env)->GetTag(env, object, &tag) == JVMTI_ERROR_NONE && tag == 0) {
        tag = (jlong)__atomic_add_fetch(&last_tag, 1, __ATOMIC_RELAXED);
        if ((*env)->SetTag(env, object, tag) != JVMTI_ERROR_NONE) tag = 0;
    }
    if (is_locked) __atomic_store_n(&tags_lock, 0, __ATOMIC_RELEASE);
    return (uint64_t)tag;
}

static struct plumb_tags numbers; /* there while events with them are on */

uint64_t plumb_number_of(jobject object) {
    jvmtiEnv* const env = plumb_tags_enter(&numbers);
    const uint64_t number = env ? number_in(env, object) : 0;
    plumb_tags_leave(&numbers);
    return number;
}

uint64_t plumb_number_of_class(jclass class) {
    return number_in(plumb_jvm.jvmti, class);
}

bool plumb_numbers_begin(void) {
    return plumb_tags_begin(&numbers);
}

void plumb_numbers_end(void) {
    plumb_tags_end(&numbers);
}
