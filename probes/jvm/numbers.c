/* Objects are told by a tag (JVMTI), which makes no difference that the program could see, as a hash code would. */
#include "agent.h"

#include <string.h>
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

/*
 * The JVM's collector goes through all tags, for as long as their objects live. So they are those of an environment that is there while
 * events with numbers are on: with it they go. A thread may be inside, and even stand still there, when nobody records any more.
 */
static jvmtiEnv* open_tags;      /* NULL: none may be asked */
static jvmtiEnv* kept_tags;      /* the same, or one that could not be given back yet; of who follows */
static uint32_t threads_in_tags; /* that may have seen open_tags */

uint64_t plumb_number_of(jobject object) {
    __atomic_add_fetch(&threads_in_tags, 1, __ATOMIC_SEQ_CST);
    jvmtiEnv* const env = __atomic_load_n(&open_tags, __ATOMIC_SEQ_CST);
    const uint64_t number = env ? number_in(env, object) : 0;
    __atomic_sub_fetch(&threads_in_tags, 1, __ATOMIC_RELEASE);
    return number;
}

uint64_t plumb_number_of_class(jclass class) {
    return number_in(plumb_jvm.jvmti, class);
}

static jvmtiEnv* new_tags(void) {
    void* found = NULL;
    if ((*plumb_jvm.vm)->GetEnv(plumb_jvm.vm, &found, JVMTI_VERSION_1_2) != JNI_OK) return NULL;
    jvmtiEnv* const env = found;
    jvmtiCapabilities needed;
    memset(&needed, 0, sizeof(needed));
    needed.can_tag_objects = 1;
    if ((*env)->AddCapabilities(env, &needed) == JVMTI_ERROR_NONE) return env;
    (*env)->DisposeEnvironment(env);
    return NULL;
}

bool plumb_numbers_begin(void) {
    if (!kept_tags) kept_tags = new_tags();
    __atomic_store_n(&open_tags, kept_tags, __ATOMIC_SEQ_CST);
    return kept_tags != NULL;
}

/* One that does not come out keeps it until the next time. */
void plumb_numbers_end(void) {
    enum { attempts = 1000 };
    const struct timespec pause = {0, 1000000};
    __atomic_store_n(&open_tags, NULL, __ATOMIC_SEQ_CST);
    for (int i = 0; kept_tags && i < attempts; i++) {
        if (__atomic_load_n(&threads_in_tags, __ATOMIC_SEQ_CST) == 0) {
            (*kept_tags)->DisposeEnvironment(kept_tags);
            kept_tags = NULL;
        } else {
            nanosleep(&pause, NULL);
        }
    }
}
