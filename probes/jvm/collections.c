/* Pauses for garbage collection. The JVM calls with all Java threads stopped: nothing of JVMTI or JNI may be used here. */
#include "agent.h"

static uint64_t open_collection; /* 0: none that is known */

void JNICALL plumb_on_gc_start(jvmtiEnv* jvmti) {
    (void)jvmti;
    const uint64_t id = plumb_next_id();
    __atomic_store_n(&open_collection, id, __ATOMIC_RELAXED);
    if (!plumb_enabled(jvm, gc_start)) return plumb_came_unwanted(PLUMB_COLLECTIONS);
    plumb_trace(jvm, gc_start, id);
}

void JNICALL plumb_on_gc_finish(jvmtiEnv* jvmti) {
    (void)jvmti;
    const uint64_t id = __atomic_exchange_n(&open_collection, 0, __ATOMIC_RELAXED);
    if (!plumb_enabled(jvm, gc_finish)) return plumb_came_unwanted(PLUMB_COLLECTIONS);
    plumb_trace(jvm, gc_finish, id);
}
