/*
 * A thread that makes the JVM follow what recordings want. It is none of Java's: asleep until tracepoints are switched, it becomes a
 * Java thread for as long as it then asks for events or gives them back. So the program does not see it in between, and one that is
 * recorded from its start to its end has no further thread of Java's at all.
 */
#include "agent.h"

#include <plumb/control.h>

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct plumb_watch agent_watch;
static bool jvm_is_ending, is_watching;
static uint32_t followed; /* changes up to here */
static __thread bool is_watcher;
static bool turn_is_taken; /* who follows: one at a time */
static bool is_refused;    /* the watcher can not become a Java thread */

bool plumb_is_own_thread(void) {
    return is_watcher;
}

static void take_turn(void) {
    const struct timespec pause = {0, 2000000};
    while (__atomic_exchange_n(&turn_is_taken, true, __ATOMIC_ACQUIRE))
        nanosleep(&pause, NULL);
}

static void give_turn_back(void) {
    __atomic_store_n(&turn_is_taken, false, __ATOMIC_RELEASE);
}

/* Its events are left out (plumb_is_own_thread). The JVM makes the Java thread by its constructor, in which a program's SecurityManager may
 * refuse it: then whoever has the agent loaded once more, a Java thread, does it in its place. */
static void follow_as_java_thread(void) {
    static char thread_name[] = "plumb-jvm";
    JavaVM* const vm = plumb_jvm.vm;
    JavaVMAttachArgs arguments = {JNI_VERSION_1_6, thread_name, NULL};
    JNIEnv* jni = NULL;
    take_turn();
    const bool is_one = (*vm)->AttachCurrentThreadAsDaemon(vm, (void**)&jni, &arguments) == JNI_OK;
    __atomic_store_n(&is_refused, !is_one, __ATOMIC_RELEASE);
    if (is_one) {
        plumb_follow(jni, true);
        (*vm)->DetachCurrentThread(vm);
    }
    give_turn_back();
}

static void follow_in_its_place(void) {
    JavaVM* const vm = plumb_jvm.vm;
    void* jni = NULL;
    if (!__atomic_load_n(&is_refused, __ATOMIC_ACQUIRE) ||
        (*vm)->GetEnv(vm, &jni, JNI_VERSION_1_6) != JNI_OK || !jni)
        return;
    take_turn();
    is_watcher = true;
    if (plumb_is_to_follow()) plumb_follow(jni, true);
    is_watcher = false;
    give_turn_back();
}

static void* watch(void* unused) {
    is_watcher = true;
    while (!__atomic_load_n(&jvm_is_ending, __ATOMIC_ACQUIRE)) {
        const uint32_t seen = __atomic_load_n(&agent_watch.changes, __ATOMIC_ACQUIRE);
        if (plumb_is_to_follow()) follow_as_java_thread();
        __atomic_store_n(&followed, seen, __ATOMIC_RELEASE);
        const uint64_t wait_ns = plumb_methods_left_over_wait_ns();
        const struct timespec wait = {(time_t)(wait_ns / 1000000000), (long)(wait_ns % 1000000000)};
        syscall(SYS_futex, &agent_watch.changes, FUTEX_WAIT, seen, wait_ns != 0 ? &wait : NULL, NULL, 0);
    }
    return unused;
}

/* With all signals blocked, but those by which the kernel answers what a thread does: the program's are for its own threads. */
void plumb_begin_watching(void) {
    enum { stack_bytes = 1 << 20 };
    plumb_watch_changes(&agent_watch);
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return;
    pthread_attr_setstacksize(&attributes, stack_bytes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigset_t blocked, before;
    sigfillset(&blocked);
    const int answers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        sigdelset(&blocked, answers[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    pthread_t thread;
    if (pthread_create(&thread, &attributes, watch, NULL) == 0) {
        __atomic_store_n(&is_watching, true, __ATOMIC_RELEASE);
        pthread_setname_np(thread, "plumb-jvm");
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

void plumb_wake_watcher(void) {
    __atomic_add_fetch(&agent_watch.changes, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &agent_watch.changes, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* It may be at work for seconds: giving back what a recording before has changed in thousands of classes. */
void plumb_have_it_followed(void) {
    enum { looks_max = 5000 };
    const struct timespec pause = {0, 2000000};
    plumb_wake_watcher();
    const uint32_t wanted = __atomic_load_n(&agent_watch.changes, __ATOMIC_SEQ_CST);
    for (int looks = 0; looks < looks_max; looks++) {
        if (!__atomic_load_n(&is_watching, __ATOMIC_ACQUIRE) ||
            __atomic_load_n(&jvm_is_ending, __ATOMIC_ACQUIRE) ||
            (int32_t)(__atomic_load_n(&followed, __ATOMIC_ACQUIRE) - wanted) >= 0)
            break;
        nanosleep(&pause, NULL);
    }
    follow_in_its_place();
}

void plumb_end_watching(void) {
    __atomic_store_n(&jvm_is_ending, true, __ATOMIC_RELEASE);
    plumb_wake_watcher();
}
