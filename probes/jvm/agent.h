/*
 * What the agent's files share.
 *
 * What always holds:
 *  - The JVM runs on whatever goes wrong here: nothing is printed, no failure is returned to it.
 *  - No method of the program's is called, but by the JVM itself; of the JDK's only Class.forName(), where events are asked for or given
 *    back (as_jdk.c). Fields of objects are read as they are.
 *  - Code of the program's is changed for entry and exit of methods alone, which are asked for by name (methods.c).
 *  - No lock of ours is held over a call into the JVM, but for one that others wait for a limited time only (numbers.c):
 *    such a call may stop for a safepoint, or for a debugger.
 *  - A callback does nothing for an event that is off but one load.
 */
#ifndef PLUMB_PROBES_JVM_AGENT_H
#define PLUMB_PROBES_JVM_AGENT_H

#include "events.h"
#include "text.h"

#include <jvmti.h>

#include <stdbool.h>

/* Events that are asked of the JVM, and given back, together. */
enum plumb_group {
    PLUMB_THREADS, /* before those that need its table */
    PLUMB_COLLECTIONS,
    PLUMB_MONITORS,
    PLUMB_PARKS,
    PLUMB_ALLOCATIONS,
    PLUMB_CLASSES,
    PLUMB_COMPILED_METHODS,
    PLUMB_GENERATED_CODE,
    PLUMB_EXCEPTIONS,
    PLUMB_METHODS,
    PLUMB_GROUP_COUNT
};

/* agent.c: the one JVM of the process */
struct plumb_jvm {
    JavaVM* vm;
    jvmtiEnv* jvmti;
    bool wants_exceptions; /* by the agent's option, for later */
};
extern struct plumb_jvm plumb_jvm;

bool plumb_is_own_thread(void); /* the agent's own, that no event speaks of */

/* follow.c: who calls it is the only one, and a thread that may call JVMTI. `is_live`: VMInit has been. */
void plumb_follow(JNIEnv* jni, bool is_live);
bool plumb_is_to_follow(void);
bool plumb_methods_are_wanted(void); /* somebody records them, and some are asked for */
/* From any thread: an event of this group came that nobody wants. If that is so of all, a recording has ended without a word. */
void plumb_came_unwanted(enum plumb_group group);

/* code.c: around what a group's events tell; and what there is already, to recordings that have come */
void plumb_code_begin(enum plumb_group group);
void plumb_code_end(enum plumb_group group);
void plumb_code_tell_methods(void);
void plumb_code_tell_stubs(void);

/* watch.c: a thread that follows from now on */
void plumb_begin_watching(void);
void plumb_end_watching(void); /* the JVM is about to end; the thread does no more */
void plumb_wake_watcher(void);
void plumb_have_it_followed(void); /* for some seconds at most: what is wanted now is there behind that */

/* names.c: what JVMTI allocated, made UTF-8; empty if it can not be had */
struct plumb_name {
    char* allocated;
    struct plumb_text text;
};
struct plumb_name plumb_name_of_class(jclass class);
struct plumb_name plumb_name_of_class_of(JNIEnv* jni, jobject object);
void plumb_release_name(struct plumb_name* name);
/* As many of its UTF-16 units, and as much of them as UTF-8, as there is room for; the bytes. The reference is given back; NULL is empty. */
enum { PLUMB_STRING_UNITS_MAX = 512 };
size_t plumb_take_string(JNIEnv* jni, jstring string, size_t units_max, char* to, size_t room);

struct plumb_method_names {
    struct plumb_name class_name, method, signature;
};
void plumb_name_and_signature_of(jmethodID method, struct plumb_name* name, struct plumb_name* signature);
void plumb_names_of_method(jmethodID method, struct plumb_method_names* names);
void plumb_release_method_names(struct plumb_method_names* names);

/* numbers.c: a number that the object has for as long as it lives and such events are on, and no other of the process; 0: it can not be
 * had. That of a class stays, and can be had while parks are on. */
uint64_t plumb_number_of(jobject object);
uint64_t plumb_number_of_class(jclass class);
/* For who follows. False: objects have no numbers. */
bool plumb_numbers_begin(void);
void plumb_numbers_end(void);

/* threads.c */
bool plumb_threads_prepare(JNIEnv* jni); /* before the others; false: threads have no numbers */
/* Has those that are there in the table, and tells these sessions of them. */
void plumb_threads_tell_running(JNIEnv* jni, uint32_t sessions);
void plumb_threads_forget_all(JNIEnv* jni);
struct plumb_owner {
    int32_t os_thread_id; /* 0: not known, and so is the rest */
    uint64_t java_thread_id;
    size_t name_bytes;
    char name[256];
};
void plumb_no_owner(struct plumb_owner* owner);
/* Of the monitor that this thread is about to wait for. Within MonitorContendedEnter only. */
void plumb_owner_of_pending(JNIEnv* jni, jthread thread, struct plumb_owner* owner);
/* The number of a virtual thread, which may go on in another thread of the kernel's; 0: it is none. */
uint64_t plumb_virtual_thread_id(JNIEnv* jni, jthread thread);
/* If it is that thread. One without a kernel's thread of its own (a virtual one) has only the number that Java gives it. */
void plumb_owner_of_thread(JNIEnv* jni, jthread thread, struct plumb_owner* owner);

/* as_jdk.c: `run` is called once in this thread, as native code of the JDK's. Returns whether it was. */
bool plumb_do_as_jdk(JNIEnv* jni, jclass any_class, void (*run)(JNIEnv*, void*), void* argument);
/* What was thrown is gone: with it, what Thread.stop() throws in this thread. In a thread of the program's, only where a call's result
 * says that it has thrown. */
bool plumb_threw(JNIEnv* jni);

/* blockers.c */
struct plumb_blocker_class {
    struct plumb_blocker_class* next;
    uint64_t number;
    bool is_synchronizer; /* an AbstractOwnableSynchronizer */
    size_t name_bytes;
    char name[];
};
struct plumb_blocker {
    uint64_t number;                         /* 0: none, or not known */
    const struct plumb_blocker_class* class; /* NULL: likewise; it stays */
    struct plumb_owner owner;
};
void plumb_blockers_prepare(JNIEnv* jni, jclass thread_class); /* before the other */
void plumb_blocker_of_this_thread(JNIEnv* jni, struct plumb_blocker* blocker);

/* park_binding.c: what Unsafe.park() is from now on. False: all is as before. The first time finds the JVM's own. */
typedef void(JNICALL* plumb_park_function)(JNIEnv*, jobject, jboolean, jlong);
extern plumb_park_function plumb_jvm_park;
bool plumb_bind_park(JNIEnv* jni, plumb_park_function function);
void plumb_park_binding_prepare(JNIEnv* jni, jclass any_class);

/* parks.c, for who follows */
bool plumb_parks_begin(JNIEnv* jni);
void plumb_parks_end(JNIEnv* jni);

/* allocations.c. The interval is a wish, from any thread; the others are for who follows, with the capability. */
void plumb_allocations_want_interval(uint32_t bytes);
bool plumb_allocations_interval_is_set(void);
void plumb_allocations_set_interval(void);
void plumb_allocations_end(void);

/* hook_class.c */
void plumb_hook_class_prepare(JNIEnv* jni, jclass thread_class);

/* methods.c, for who follows, with the capability and the notification. */
bool plumb_methods_are_asked_for(void); /* by the agent's options */
bool plumb_methods_are_settled(void);   /* what was asked for last is done */
bool plumb_methods_begin(void);         /* false: which classes have hooks could not be known */
void plumb_methods_follow(JNIEnv* jni);
void plumb_methods_end(JNIEnv* jni);
/* Hooks of a class that was on its way at the end, or found no room to go; and until they are to be tried again (0: it is not
 * known, or now). */
bool plumb_methods_are_left_over(void);
uint64_t plumb_methods_left_over_wait_ns(void);
void plumb_methods_end_left_over(JNIEnv* jni);
/* From any thread. The number of the first pattern from there on that has matched nothing, and 1; 0: there is none, or it is not known. */
uint32_t plumb_methods_first_unmatched(uint32_t from);
void plumb_methods_came_unwanted(void);
void plumb_methods_tell_at_end(JNIEnv* jni);

/* The callbacks, by file. */
void JNICALL plumb_on_thread_start(jvmtiEnv*, JNIEnv*, jthread);
void JNICALL plumb_on_thread_end(jvmtiEnv*, JNIEnv*, jthread);
void JNICALL plumb_on_gc_start(jvmtiEnv*);
void JNICALL plumb_on_gc_finish(jvmtiEnv*);
void JNICALL plumb_on_contended_enter(jvmtiEnv*, JNIEnv*, jthread, jobject);
void JNICALL plumb_on_contended_entered(jvmtiEnv*, JNIEnv*, jthread, jobject);
void JNICALL plumb_on_wait(jvmtiEnv*, JNIEnv*, jthread, jobject, jlong);
void JNICALL plumb_on_waited(jvmtiEnv*, JNIEnv*, jthread, jobject, jboolean);
void JNICALL plumb_on_sampled_object_alloc(jvmtiEnv*, JNIEnv*, jthread, jobject, jclass, jlong);
void JNICALL plumb_on_class_prepare(jvmtiEnv*, JNIEnv*, jthread, jclass);
void JNICALL plumb_on_compiled_method_load(jvmtiEnv*, jmethodID, jint, const void*, jint,
                                           const jvmtiAddrLocationMap*, const void*);
void JNICALL plumb_on_compiled_method_unload(jvmtiEnv*, jmethodID, const void*);
void JNICALL plumb_on_code_generated(jvmtiEnv*, const char*, const void*, jint);
void JNICALL plumb_on_class_file_load(jvmtiEnv*, JNIEnv*, jclass, jobject, const char*, jobject, jint,
                                      const unsigned char*, jint*, unsigned char**);
void JNICALL plumb_on_exception(jvmtiEnv*, JNIEnv*, jthread, jmethodID, jlocation, jobject, jmethodID,
                                jlocation);
void JNICALL plumb_on_exception_catch(jvmtiEnv*, JNIEnv*, jthread, jmethodID, jlocation, jobject);
void plumb_exceptions_prepare(JNIEnv* jni);

/* A number that no other begin of the process has. */
uint64_t plumb_next_id(void);

#endif
