/*
 * What a thread is about to wait for, as java.util.concurrent notes it for tools: the field Thread.parkBlocker, and of what can be owned
 * AbstractOwnableSynchronizer.exclusiveOwnerThread. Most waits are for objects of few classes, so what is known of a class is
 * kept, by the number of its object: a wait allocates nothing.
 */
#include "agent.h"

#include <stdlib.h>
#include <string.h>

static jfieldID blocker_field; /* NULL: not known */
static jfieldID owner_field;   /* likewise, before the first synchronizer was seen */

/* Never given back: a thread that waits holds one. There is one for each class that was waited for. */
enum { class_bucket_count = 256 };
static struct plumb_blocker_class* class_buckets[class_bucket_count];

void plumb_blockers_prepare(JNIEnv* jni, jclass thread_class) {
    const jfieldID field = (*jni)->GetFieldID(jni, thread_class, "parkBlocker", "Ljava/lang/Object;");
    if (!field) plumb_threw(jni);
    __atomic_store_n(&blocker_field, field, __ATOMIC_RELEASE);
}

static bool has_name(jclass class, const char* wanted) {
    struct plumb_name name = plumb_name_of_class(class);
    const bool is_it =
        name.text.bytes == strlen(wanted) && memcmp(name.text.at, wanted, name.text.bytes) == 0;
    plumb_release_name(&name);
    return is_it;
}

/* Looks among the classes that it extends: to ask for the class by its name could load it, in a thread of the program's. */
static bool extends_synchronizer(JNIEnv* jni, jclass class) {
    jclass above = (*jni)->GetSuperclass(jni, class);
    while (above && !has_name(above, "java.util.concurrent.locks.AbstractOwnableSynchronizer")) {
        const jclass next = (*jni)->GetSuperclass(jni, above);
        (*jni)->DeleteLocalRef(jni, above);
        above = next;
    }
    if (!above) return false;
    const jfieldID field = (*jni)->GetFieldID(jni, above, "exclusiveOwnerThread", "Ljava/lang/Thread;");
    if (field)
        __atomic_store_n(&owner_field, field, __ATOMIC_RELEASE);
    else
        plumb_threw(jni);
    (*jni)->DeleteLocalRef(jni, above);
    return true;
}

static const struct plumb_blocker_class* find_class(uint64_t number) {
    const struct plumb_blocker_class* known =
        __atomic_load_n(&class_buckets[number % class_bucket_count], __ATOMIC_ACQUIRE);
    while (known && known->number != number)
        known = known->next;
    return known;
}

/* Two threads may add the same: the later one is found. */
static const struct plumb_blocker_class* add_class(JNIEnv* jni, jclass class, uint64_t number) {
    struct plumb_name name = plumb_name_of_class(class);
    struct plumb_blocker_class* const known = malloc(sizeof(*known) + name.text.bytes);
    if (known) {
        known->number = number;
        known->is_synchronizer = extends_synchronizer(jni, class);
        known->name_bytes = name.text.bytes;
        if (name.text.bytes != 0) memcpy(known->name, name.text.at, name.text.bytes);
        struct plumb_blocker_class** const bucket = &class_buckets[number % class_bucket_count];
        known->next = __atomic_load_n(bucket, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(bucket, &known->next, known, false, __ATOMIC_RELEASE,
                                            __ATOMIC_RELAXED)) {
        }
    }
    plumb_release_name(&name);
    return known;
}

static const struct plumb_blocker_class* class_of(JNIEnv* jni, jobject object) {
    const jclass class = (*jni)->GetObjectClass(jni, object);
    const uint64_t number = plumb_number_of_class(class);
    const struct plumb_blocker_class* known = find_class(number);
    if (!known && number != 0) known = add_class(jni, class, number);
    (*jni)->DeleteLocalRef(jni, class);
    return known;
}

static jobject object_of_this_thread(JNIEnv* jni) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    const jfieldID field = __atomic_load_n(&blocker_field, __ATOMIC_ACQUIRE);
    jthread thread = NULL;
    if (!field || (*jvmti)->GetCurrentThread(jvmti, &thread) != JVMTI_ERROR_NONE || !thread) return NULL;
    const jobject object = (*jni)->GetObjectField(jni, thread, field);
    (*jni)->DeleteLocalRef(jni, thread);
    return object;
}

static void read_owner(JNIEnv* jni, jobject synchronizer, struct plumb_owner* owner) {
    const jfieldID field = __atomic_load_n(&owner_field, __ATOMIC_ACQUIRE);
    const jthread thread = field ? (*jni)->GetObjectField(jni, synchronizer, field) : NULL;
    if (!thread) return;
    plumb_owner_of_thread(jni, thread, owner);
    (*jni)->DeleteLocalRef(jni, thread);
}

void plumb_blocker_of_this_thread(JNIEnv* jni, struct plumb_blocker* blocker) {
    blocker->number = 0;
    blocker->class = NULL;
    plumb_no_owner(&blocker->owner);
    const jobject object = object_of_this_thread(jni);
    if (!object) return;
    blocker->number = plumb_number_of(object);
    blocker->class = class_of(jni, object);
    if (blocker->class && blocker->class->is_synchronizer) read_owner(jni, object, &blocker->owner);
    (*jni)->DeleteLocalRef(jni, object);
}
