#include "tags.h"

#include "agent.h"

#include <string.h>
#include <time.h>

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

bool plumb_tags_begin(struct plumb_tags* tags) {
    if (!tags->kept) tags->kept = new_tags();
    __atomic_store_n(&tags->open, tags->kept, __ATOMIC_SEQ_CST);
    return tags->kept != NULL;
}

void plumb_tags_end(struct plumb_tags* tags) {
    enum { attempts = 1000 };
    const struct timespec pause = {0, 1000000};
    __atomic_store_n(&tags->open, NULL, __ATOMIC_SEQ_CST);
    for (int i = 0; tags->kept && i < attempts; i++) {
        if (__atomic_load_n(&tags->threads, __ATOMIC_SEQ_CST) == 0) {
            (*tags->kept)->DisposeEnvironment(tags->kept);
            tags->kept = NULL;
        } else {
            nanosleep(&pause, NULL);
        }
    }
}

jvmtiEnv* plumb_tags_enter(struct plumb_tags* tags) {
    __atomic_add_fetch(&tags->threads, 1, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&tags->open, __ATOMIC_SEQ_CST);
}

void plumb_tags_leave(struct plumb_tags* tags) {
    __atomic_sub_fetch(&tags->threads, 1, __ATOMIC_RELEASE);
}
