/*
 * Sampled allocations: the JVM counts the bytes that each thread allocates, and tells of the object with which the next point is reached;
 * the distances between points are drawn at random, `interval` bytes on average. So an object is told with a probability that goes by
 * its size alone, and what it stands for is its size divided by that: these weights sum up to what was allocated.
 *
 * The interval is the JVM's, one for all: whoever gives the capability back leaves it as it was found.
 */
#include "agent.h"

#include <math.h>

static const uint32_t jvm_interval_bytes = 512 * 1024; /* what HotSpot begins with */

static uint32_t wanted_interval_bytes = jvm_interval_bytes;
static uint32_t set_interval_bytes = jvm_interval_bytes; /* by who follows */

void plumb_allocations_want_interval(uint32_t bytes) {
    __atomic_store_n(&wanted_interval_bytes, bytes, __ATOMIC_RELAXED);
}

bool plumb_allocations_interval_is_set(void) {
    return __atomic_load_n(&wanted_interval_bytes, __ATOMIC_RELAXED) ==
           __atomic_load_n(&set_interval_bytes, __ATOMIC_RELAXED);
}

static void set_interval(uint32_t bytes) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    if ((*jvmti)->SetHeapSamplingInterval(jvmti, (jint)bytes) == JVMTI_ERROR_NONE)
        __atomic_store_n(&set_interval_bytes, bytes, __ATOMIC_RELAXED);
}

void plumb_allocations_set_interval(void) {
    set_interval(__atomic_load_n(&wanted_interval_bytes, __ATOMIC_RELAXED));
}

void plumb_allocations_end(void) {
    set_interval(jvm_interval_bytes);
}

/* With an interval of 0 each object is told, and stands for itself. */
static uint64_t weight_of(uint64_t bytes, uint32_t interval_bytes) {
    if (interval_bytes == 0) return bytes;
    const double probability = -expm1(-(double)bytes / interval_bytes);
    return probability > 0 ? (uint64_t)((double)bytes / probability + 0.5) : bytes;
}

void JNICALL plumb_on_sampled_object_alloc(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread, jobject object,
                                           jclass class, jlong bytes) {
    (void)jvmti, (void)jni, (void)thread, (void)object;
    if (!plumb_enabled(jvm, sampled_object_alloc)) return plumb_came_unwanted(PLUMB_ALLOCATIONS);
    if (plumb_is_own_thread()) return;
    const uint32_t interval_bytes = __atomic_load_n(&set_interval_bytes, __ATOMIC_RELAXED);
    struct plumb_name name = plumb_name_of_class(class);
    plumb_trace(jvm, sampled_object_alloc, name.text.at, name.text.bytes, (uint64_t)bytes, interval_bytes,
                weight_of((uint64_t)bytes, interval_bytes));
    plumb_release_name(&name);
}
