/*
 * Threads that begin and end, and a table of those that are there, by which the owner of a monitor is known. The table is
 * there while events of threads or monitors are on; its lock is never held over a call into the JVM. What somebody has found in it stays
 * until he has asked the thread's object what it is called by now.
 */
#include "agent.h"
#include "lock.h"
#include "recordings.h"
#include "vm_structs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct known_thread {
    struct known_thread* next;
    uintptr_t vm_thread;
    struct plumb_vm_thread vm;
    uint64_t java_thread_id;
    jweak object;  /* NULL: there was no memory for it */
    uint32_t uses; /* the table's, and of who asks; with the lock */
    uint32_t told; /* sessions that know it is there; with the lock */
    size_t name_bytes;
    char name[]; /* when it was remembered */
};

enum { bucket_count = 512 };
static struct known_thread* thread_buckets[bucket_count];
static jfieldID eetop_field, tid_field, name_field; /* NULL: not known */
static uintptr_t environment_offset;                /* of a JNIEnv in its thread; 0: not known */

static uint32_t table_lock;
static struct plumb_listeners listeners; /* of `told`; with the lock */

static size_t bucket_of(uintptr_t vm_thread) {
    return (vm_thread >> 6 ^ vm_thread >> 15) % bucket_count;
}

static jfieldID field_of(JNIEnv* jni, jclass class, const char* name, const char* type) {
    const jfieldID field = class ? (*jni)->GetFieldID(jni, class, name, type) : NULL;
    if (!field) plumb_threw(jni);
    return field;
}

/* A JVM's thread has its JNIEnv in itself, always at the same place. */
static void find_environment(JNIEnv* jni, jfieldID eetop) {
    enum { furthest = 64 << 10 };
    jthread current = NULL;
    if (!eetop || (*plumb_jvm.jvmti)->GetCurrentThread(plumb_jvm.jvmti, &current) != JVMTI_ERROR_NONE ||
        !current)
        return;
    const uintptr_t vm_thread = (uintptr_t)(*jni)->GetLongField(jni, current, eetop);
    const uintptr_t offset = (uintptr_t)jni - vm_thread;
    if (vm_thread != 0 && offset < furthest) __atomic_store_n(&environment_offset, offset, __ATOMIC_RELEASE);
    (*jni)->DeleteLocalRef(jni, current);
}

bool plumb_threads_prepare(JNIEnv* jni) {
    const jclass class = (*jni)->FindClass(jni, "java/lang/Thread");
    if (!class) plumb_threw(jni);
    const jfieldID eetop = field_of(jni, class, "eetop", "J"), tid = field_of(jni, class, "tid", "J");
    const jfieldID name = field_of(jni, class, "name", "Ljava/lang/String;");
    plumb_vm_structs_prepare(plumb_jvm.jvmti);
    find_environment(jni, eetop);
    __atomic_store_n(&name_field, name, __ATOMIC_RELEASE);
    __atomic_store_n(&tid_field, tid, __ATOMIC_RELEASE);
    __atomic_store_n(&eetop_field, eetop, __ATOMIC_RELEASE);
    if (class) {
        plumb_blockers_prepare(jni, class);
        plumb_park_binding_prepare(jni, class);
        plumb_hook_class_prepare(jni, class);
        (*jni)->DeleteLocalRef(jni, class);
    }
    return eetop && tid;
}

static uint64_t read_field(JNIEnv* jni, jthread thread, const jfieldID* which) {
    const jfieldID field = __atomic_load_n(which, __ATOMIC_ACQUIRE);
    return field && thread ? (uint64_t)(*jni)->GetLongField(jni, thread, field) : 0;
}

/* What JVMTI and the object say of a thread. */
struct thread_facts {
    uint64_t java_thread_id;
    uintptr_t vm_thread; /* 0: it has ended, or has not begun */
    struct plumb_vm_thread vm;
    struct plumb_name name, group;
    bool has_group; /* which is taken from one that ends */
    bool daemon;
};

static void read_group_name(JNIEnv* jni, jthreadGroup group, struct plumb_name* name) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    jvmtiThreadGroupInfo info;
    if (!group || (*jvmti)->GetThreadGroupInfo(jvmti, group, &info) != JVMTI_ERROR_NONE) return;
    name->allocated = info.name;
    name->text = plumb_utf8_in_place(info.name);
    if (info.parent) (*jni)->DeleteLocalRef(jni, info.parent);
}

/* As the memory of a thread that ends may be another one's, its number counts only if the thread was there behind the look, too. */
static void read_vm_thread(JNIEnv* jni, jthread thread, struct thread_facts* facts) {
    facts->vm_thread = (uintptr_t)read_field(jni, thread, &eetop_field);
    if (!plumb_vm_thread_read(facts->vm_thread, &facts->vm)) return;
    if ((uintptr_t)read_field(jni, thread, &eetop_field) == facts->vm_thread) return;
    facts->vm_thread = 0;
    facts->vm = (struct plumb_vm_thread){0, 0, 0};
}

static void read_facts(JNIEnv* jni, jthread thread, struct thread_facts* facts) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    jvmtiThreadInfo info;
    memset(facts, 0, sizeof(*facts));
    read_vm_thread(jni, thread, facts);
    facts->java_thread_id = read_field(jni, thread, &tid_field);
    if ((*jvmti)->GetThreadInfo(jvmti, thread, &info) != JVMTI_ERROR_NONE) return;
    facts->name.allocated = info.name;
    facts->name.text = plumb_utf8_in_place(info.name);
    facts->daemon = info.is_daemon == JNI_TRUE;
    facts->has_group = info.thread_group != NULL;
    read_group_name(jni, info.thread_group, &facts->group);
    if (info.thread_group) (*jni)->DeleteLocalRef(jni, info.thread_group);
    if (info.context_class_loader) (*jni)->DeleteLocalRef(jni, info.context_class_loader);
}

static void release_facts(struct thread_facts* facts) {
    plumb_release_name(&facts->name);
    plumb_release_name(&facts->group);
}

/* The place that points to it, or to NULL. With the lock. */
static struct known_thread** find_thread(uintptr_t vm_thread) {
    struct known_thread** place = &thread_buckets[bucket_of(vm_thread)];
    while (*place && (*place)->vm_thread != vm_thread)
        place = &(*place)->next;
    return place;
}

/* NULL: there is nothing to let go. */
static void let_go(JNIEnv* jni, struct known_thread* known) {
    if (!known) return;
    plumb_lock(&table_lock);
    const bool is_last = --known->uses == 0;
    plumb_unlock(&table_lock);
    if (!is_last) return;
    if (known->object) (*jni)->DeleteWeakGlobalRef(jni, known->object);
    free(known);
}

static void forget_thread(JNIEnv* jni, uintptr_t vm_thread) {
    plumb_lock(&table_lock);
    struct known_thread** const place = find_thread(vm_thread);
    struct known_thread* const known = *place;
    if (known) *place = known->next;
    plumb_unlock(&table_lock);
    let_go(jni, known);
}

/* A session's number may have been another recording's. With the lock. */
static void follow_listeners(void) {
    const uint32_t sessions = SESSIONS_OF(thread_start) | SESSIONS_OF(thread_running);
    const uint32_t others =
        plumb_listeners_gone(&listeners, sessions) | plumb_listeners_come(&listeners, sessions);
    if (others == 0) return;
    for (size_t i = 0; i < bucket_count; i++) {
        for (struct known_thread* known = thread_buckets[i]; known; known = known->next)
            known->told &= ~others;
    }
}

/* Which of the sessions do not know yet that it is there: one that begins while it is asked who is there is told by whoever comes first. */
static uint32_t remember_thread(JNIEnv* jni, jthread thread, const struct thread_facts* facts,
                                uint32_t sessions) {
    if (facts->vm_thread == 0) return sessions;
    struct known_thread* const known = malloc(sizeof(*known) + facts->name.text.bytes);
    if (!known) {
        forget_thread(jni, facts->vm_thread);
        return sessions;
    }
    known->vm_thread = facts->vm_thread;
    known->vm = facts->vm;
    known->java_thread_id = facts->java_thread_id;
    known->object = (*jni)->NewWeakGlobalRef(jni, thread);
    if (!known->object) plumb_threw(jni);
    known->uses = 1;
    known->name_bytes = facts->name.text.bytes;
    if (known->name_bytes != 0) memcpy(known->name, facts->name.text.at, known->name_bytes);
    plumb_lock(&table_lock);
    follow_listeners();
    struct known_thread** const place = find_thread(facts->vm_thread);
    struct known_thread* const before = *place;
    const uint32_t told = before && before->java_thread_id == facts->java_thread_id ? before->told : 0;
    known->told = told | sessions;
    known->next = before ? before->next : NULL;
    *place = known;
    plumb_unlock(&table_lock);
    let_go(jni, before);
    return sessions & ~told;
}

void plumb_threads_forget_all(JNIEnv* jni) {
    for (size_t i = 0; i < bucket_count; i++) {
        plumb_lock(&table_lock);
        struct known_thread* known = thread_buckets[i];
        thread_buckets[i] = NULL;
        plumb_unlock(&table_lock);
        while (known) {
            struct known_thread* const next = known->next;
            let_go(jni, known);
            known = next;
        }
    }
}

/* Before VMInit nothing can be asked of an object; who begins then is told as one that runs. */
static bool is_told(void) {
    return !plumb_is_own_thread() && __atomic_load_n(&eetop_field, __ATOMIC_ACQUIRE) != NULL;
}

void JNICALL plumb_on_thread_start(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread) {
    (void)jvmti;
    if (!is_told()) return;
    struct thread_facts facts;
    read_facts(jni, thread, &facts);
    const uint32_t sessions = remember_thread(jni, thread, &facts, SESSIONS_OF(thread_start));
    plumb_trace_to(sessions, jvm, thread_start, facts.java_thread_id, facts.name.text.at,
                   facts.name.text.bytes, facts.group.text.at, facts.group.text.bytes, facts.daemon);
    release_facts(&facts);
    plumb_came_unwanted(PLUMB_THREADS);
}

void JNICALL plumb_on_thread_end(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread) {
    (void)jvmti;
    if (!is_told()) return;
    forget_thread(jni, (uintptr_t)read_field(jni, thread, &eetop_field));
    if (plumb_enabled(jvm, thread_end)) {
        struct thread_facts facts;
        read_facts(jni, thread, &facts);
        plumb_trace(jvm, thread_end, facts.java_thread_id, facts.name.text.at, facts.name.text.bytes);
        release_facts(&facts);
    }
    plumb_came_unwanted(PLUMB_THREADS);
}

/* The agent's own one is a Java thread while it asks. */
static bool is_this_thread(JNIEnv* jni, jthread thread) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    jthread current = NULL;
    if ((*jvmti)->GetCurrentThread(jvmti, &current) != JVMTI_ERROR_NONE) return false;
    const bool is_same = (*jni)->IsSameObject(jni, current, thread);
    (*jni)->DeleteLocalRef(jni, current);
    return is_same;
}

void plumb_threads_tell_running(JNIEnv* jni, uint32_t sessions) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    jint count = 0;
    jthread* threads = NULL;
    if ((*jvmti)->GetAllThreads(jvmti, &count, &threads) != JVMTI_ERROR_NONE) return;
    for (jint i = 0; i < count; i++) {
        struct thread_facts facts;
        read_facts(jni, threads[i], &facts);
        /* One that has ended by now would not be forgotten any more, and one that is ending has been told. */
        if (facts.vm_thread != 0 && facts.has_group &&
            !(plumb_is_own_thread() && is_this_thread(jni, threads[i]))) {
            const uint32_t untold = remember_thread(jni, threads[i], &facts, sessions);
            if ((uintptr_t)read_field(jni, threads[i], &eetop_field) != facts.vm_thread)
                forget_thread(jni, facts.vm_thread);
            plumb_trace_to(untold, jvm, thread_running, facts.java_thread_id, facts.vm.os_thread_id,
                           facts.name.text.at, facts.name.text.bytes, facts.group.text.at,
                           facts.group.text.bytes, facts.daemon);
        }
        release_facts(&facts);
        (*jni)->DeleteLocalRef(jni, threads[i]);
    }
    (*jvmti)->Deallocate(jvmti, (unsigned char*)threads);
}

static bool is_owner(const struct known_thread* known, uintptr_t word) {
    if (plumb_vm_owner_is_java_thread_id()) return known->java_thread_id == word;
    return known->vm_thread == word || (word >= known->vm.stack_low && word < known->vm.stack_high);
}

static struct known_thread* owner_of_word(uintptr_t word) {
    if (!plumb_vm_owner_is_java_thread_id()) {
        struct known_thread* const known = *find_thread(word);
        if (known) return known;
    }
    for (size_t i = 0; i < bucket_count; i++) {
        for (struct known_thread* known = thread_buckets[i]; known; known = known->next) {
            if (is_owner(known, word)) return known;
        }
    }
    return NULL;
}

static void copy_known(const struct known_thread* known, struct plumb_owner* owner) {
    size_t bytes = known->name_bytes;
    if (bytes > sizeof(owner->name)) {
        bytes = sizeof(owner->name);
        while (bytes > 0 && ((unsigned char)known->name[bytes] & 0xc0) == 0x80)
            bytes--; /* not in the middle of a character */
    }
    memcpy(owner->name, known->name, bytes);
    owner->name_bytes = bytes;
    owner->os_thread_id = known->vm.os_thread_id;
    owner->java_thread_id = known->java_thread_id;
}

/* Over the one that it had when it was remembered. */
static void read_name_now(JNIEnv* jni, jthread thread, struct plumb_owner* owner) {
    const jfieldID field = __atomic_load_n(&name_field, __ATOMIC_ACQUIRE);
    const jstring name = field ? (*jni)->GetObjectField(jni, thread, field) : NULL;
    if (name)
        owner->name_bytes =
            plumb_take_string(jni, name, sizeof(owner->name), owner->name, sizeof(owner->name));
}

/* In place of a thread's number, from JDK 24 on: nobody's, one who is not named, and the JVM's own. */
#define VM_OWNER_MARKS 2u

/* A virtual thread is not in the table, and neither is one that has yet to be told of: these have a number at most. */
static void copy_owner(JNIEnv* jni, uintptr_t word, struct plumb_owner* owner) {
    plumb_lock(&table_lock);
    struct known_thread* const known = owner_of_word(word);
    if (known) {
        copy_known(known, owner);
        known->uses++;
    } else if (plumb_vm_owner_is_java_thread_id() && word > VM_OWNER_MARKS) {
        owner->java_thread_id = word;
    }
    plumb_unlock(&table_lock);
    const jthread thread = known && known->object ? (*jni)->NewLocalRef(jni, known->object) : NULL;
    if (thread) {
        read_name_now(jni, thread, owner);
        (*jni)->DeleteLocalRef(jni, thread);
    }
    let_go(jni, known);
}

void plumb_no_owner(struct plumb_owner* owner) {
    owner->os_thread_id = 0;
    owner->java_thread_id = 0;
    owner->name_bytes = 0;
}

uint64_t plumb_virtual_thread_id(JNIEnv* jni, jthread thread) {
    if (!__atomic_load_n(&eetop_field, __ATOMIC_ACQUIRE) || read_field(jni, thread, &eetop_field) != 0)
        return 0;
    return read_field(jni, thread, &tid_field);
}

/* A virtual thread's is the one that carries it, which runs here. */
static uintptr_t own_vm_thread(JNIEnv* jni, jthread thread) {
    const uintptr_t own = (uintptr_t)read_field(jni, thread, &eetop_field);
    const uintptr_t offset = __atomic_load_n(&environment_offset, __ATOMIC_ACQUIRE);
    return own != 0 || offset == 0 ? own : (uintptr_t)jni - offset;
}

/* If it is the same word before and behind the look into the table, the thread that the table has is the owner. */
void plumb_owner_of_pending(JNIEnv* jni, jthread thread, struct plumb_owner* owner) {
    enum { attempts = 3 };
    const uintptr_t own = own_vm_thread(jni, thread);
    for (int i = 0; i < attempts; i++) {
        plumb_no_owner(owner);
        const uintptr_t word = plumb_vm_pending_owner(own);
        if (word == 0) return;
        copy_owner(jni, word, owner);
        if (plumb_vm_pending_owner(own) == word) return;
    }
    plumb_no_owner(owner);
}

void plumb_owner_of_thread(JNIEnv* jni, jthread thread, struct plumb_owner* owner) {
    const uintptr_t vm_thread = (uintptr_t)read_field(jni, thread, &eetop_field);
    plumb_no_owner(owner);
    owner->java_thread_id = read_field(jni, thread, &tid_field);
    if (vm_thread == 0) return;
    plumb_lock(&table_lock);
    const struct known_thread* const known = *find_thread(vm_thread);
    const bool is_known = known && known->java_thread_id == owner->java_thread_id;
    if (is_known) copy_known(known, owner);
    plumb_unlock(&table_lock);
    if (is_known) read_name_now(jni, thread, owner);
}
