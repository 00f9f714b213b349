/*
 * libplumb-jvm.so: how the JVM finds the agent (JVM Tool Interface), and how it begins. In OnLoad what is on already is asked of the JVM,
 * so that a recording that was there first misses nothing; from VMInit on, or from an attach, a thread follows (watch.c).
 *
 * Whatever happens, JNI_OK is returned at the start: the JVM ends where an agent that it was started with says anything else.
 */
#include "agent.h"
#include "method_wish.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct plumb_jvm plumb_jvm;

static bool agent_has_begun;

static void JNICALL on_vm_init(jvmtiEnv* jvmti, JNIEnv* jni, jthread thread) {
    (void)thread;
    (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_DISABLE, JVMTI_EVENT_VM_INIT, NULL);
    plumb_follow(jni, true);
    plumb_begin_watching();
}

static void JNICALL on_vm_death(jvmtiEnv* jvmti, JNIEnv* jni) {
    (void)jvmti;
    plumb_methods_tell_at_end(jni);
    plumb_end_watching();
}

static const jvmtiEventCallbacks agent_callbacks = {
    .VMInit = on_vm_init,
    .VMDeath = on_vm_death,
    .ThreadStart = plumb_on_thread_start,
    .ThreadEnd = plumb_on_thread_end,
    .GarbageCollectionStart = plumb_on_gc_start,
    .GarbageCollectionFinish = plumb_on_gc_finish,
    .MonitorContendedEnter = plumb_on_contended_enter,
    .MonitorContendedEntered = plumb_on_contended_entered,
    .MonitorWait = plumb_on_wait,
    .MonitorWaited = plumb_on_waited,
    .SampledObjectAlloc = plumb_on_sampled_object_alloc,
    .ClassPrepare = plumb_on_class_prepare,
    .ClassFileLoadHook = plumb_on_class_file_load,
    .CompiledMethodLoad = plumb_on_compiled_method_load,
    .CompiledMethodUnload = plumb_on_compiled_method_unload,
    .DynamicCodeGenerated = plumb_on_code_generated,
    .Exception = plumb_on_exception,
    .ExceptionCatch = plumb_on_exception_catch,
};

/* Another file of the same name that was loaded before this one: it tells everything already. */
struct copies {
    const void* own;
    bool own_is_first, found;
};

static int look_at_object(struct dl_phdr_info* info, size_t bytes, void* argument) {
    static const char file_name[] = "libplumb-jvm.so";
    struct copies* const copies = argument;
    const char* const path = info->dlpi_name;
    const size_t length = path ? strlen(path) : 0;
    (void)bytes;
    if (length < sizeof(file_name) - 1 || strcmp(path + length - (sizeof(file_name) - 1), file_name) != 0)
        return 0;
    copies->found = true;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (uintptr_t)copies->own >= begin &&
            (uintptr_t)copies->own - begin < info->dlpi_phdr[i].p_memsz)
            copies->own_is_first = true;
    }
    return 1;
}

static bool is_a_second_copy(void) {
    struct copies copies = {&agent_has_begun, false, false};
    dl_iterate_phdr(look_at_object, &copies);
    return copies.found && !copies.own_is_first;
}

static bool heed_exceptions(const char* word, size_t bytes) {
    static const char exceptions[] = "exceptions";
    if (bytes != sizeof(exceptions) - 1 || strncmp(word, exceptions, bytes) != 0) return false;
    plumb_jvm.wants_exceptions = true;
    return true;
}

/* Decimal digits, and K or M behind them. */
static bool heed_interval(const char* word, size_t bytes) {
    static const char interval[] = "allocation_interval=";
    enum { name_bytes = sizeof(interval) - 1 };
    const char* at = word + name_bytes;
    const char* const end = word + bytes;
    uint64_t number = 0;
    if (bytes <= name_bytes || strncmp(word, interval, name_bytes) != 0 || *at < '0' || *at > '9')
        return false;
    for (; at < end && *at >= '0' && *at <= '9' && number <= INT32_MAX; at++)
        number = number * 10 + (uint64_t)(*at - '0');
    if (at < end && (*at == 'K' || *at == 'M')) number <<= *at++ == 'K' ? 10 : 20;
    if (at != end || number > INT32_MAX) return false;
    plumb_allocations_want_interval((uint32_t)number);
    return true;
}

/* Words behind "=", with commas between them. One that means nothing is told, and does not keep the JVM from running. */
static void heed(const char* options) {
    for (const char* at = options; at && *at; at += *at == ',') {
        const size_t bytes = strcspn(at, ",");
        if (bytes != 0 && !heed_exceptions(at, bytes) && !heed_interval(at, bytes) &&
            !plumb_method_wish_hear(at, bytes))
            fprintf(stderr,
                    "libplumb-jvm.so: there is no option '%.*s', it is left out; there are: exceptions, "
                    "allocation_interval=BYTES, methods=CLASS::METHOD, methods_limit=NUMBER\n",
                    (int)bytes, at);
        at += bytes;
    }
    plumb_method_wish_heard();
}

/* No option, but a question, which the recorder asks behind its options: its answer is what OnAttach returns, as JVMs tell. */
static bool is_asked(const char* options, jint* answer) {
    static const char question[] = "unmatched_methods_from=";
    if (!options || strncmp(options, question, sizeof(question) - 1) != 0) return false;
    const long from = strtol(options + sizeof(question) - 1, NULL, 10);
    *answer = from >= 0 ? (jint)plumb_methods_first_unmatched((uint32_t)from) : JNI_OK;
    return true;
}

/* It gives one to who is loaded with it, and, a moment after it takes who attaches, to the others. */
static jvmtiEnv* environment_of(JavaVM* vm, bool attaches) {
    enum { tries_max = 1000 };
    const struct timespec pause = {0, 10000000};
    void* found = NULL;
    for (int tries = 0; tries < tries_max; tries++) {
        if ((*vm)->GetEnv(vm, &found, JVMTI_VERSION_1_2) == JNI_OK && found) return found;
        if (!attaches) return NULL;
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* Returns whether the agent is there to begin with; not if it has begun before: then it follows what the options change. Who is given no
 * environment has not begun. */
static bool set_up(JavaVM* vm, const char* options, bool attaches) {
    if (is_a_second_copy()) return false;
    if (__atomic_exchange_n(&agent_has_begun, true, __ATOMIC_SEQ_CST)) {
        heed(options);
        plumb_have_it_followed();
        return false;
    }
    jvmtiEnv* const found = environment_of(vm, attaches);
    if (!found) {
        __atomic_store_n(&agent_has_begun, false, __ATOMIC_SEQ_CST);
        return false;
    }
    plumb_jvm.vm = vm;
    plumb_jvm.jvmti = found;
    heed(options);
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    return (*jvmti)->SetEventCallbacks(jvmti, &agent_callbacks, sizeof(agent_callbacks)) ==
               JVMTI_ERROR_NONE &&
           (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_DEATH, NULL) ==
               JVMTI_ERROR_NONE;
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM* vm, char* options, void* reserved) {
    (void)reserved;
    if (!set_up(vm, options, false)) return JNI_OK;
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_INIT, NULL);
    plumb_follow(NULL, false);
    return JNI_OK;
}

JNIEXPORT jint JNICALL Agent_OnAttach(JavaVM* vm, char* options, void* reserved) {
    jint answer;
    (void)reserved;
    if (is_asked(options, &answer)) return answer;
    if (!set_up(vm, options, true)) return agent_has_begun || is_a_second_copy() ? JNI_OK : JNI_ERR;
    JNIEnv* jni = NULL;
    if ((*vm)->GetEnv(vm, (void**)&jni, JNI_VERSION_1_6) != JNI_OK) return JNI_OK;
    plumb_follow(jni, true);
    plumb_begin_watching();
    return JNI_OK;
}

uint64_t plumb_next_id(void) {
    static uint64_t last_id;
    return __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
}
