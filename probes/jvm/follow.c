/*
 * What the JVM is asked for is what recordings want: capabilities and notifications come and go with the tracepoints. Nothing that is off
 * costs the program anything; a capability alone may (with that for exceptions, compiled code throws more slowly).
 */
#include "agent.h"
#include "java_frames.h"
#include "methods.h"
#include "recordings.h"

#include <string.h>

static bool group_is_on[PLUMB_GROUP_COUNT];
static bool group_is_refused[PLUMB_GROUP_COUNT]; /* until nobody wants it any more */
static bool is_followed_live;                    /* once, when Java could run */

struct group_description {
    const char* events;
    jvmtiEvent kinds[4];
    int kind_count;
};

static const struct group_description groups[PLUMB_GROUP_COUNT] = {
    [PLUMB_THREADS] = {"jvm:thread_*", {JVMTI_EVENT_THREAD_START, JVMTI_EVENT_THREAD_END}, 2},
    [PLUMB_COLLECTIONS] = {"jvm:gc_*",
                           {JVMTI_EVENT_GARBAGE_COLLECTION_START, JVMTI_EVENT_GARBAGE_COLLECTION_FINISH},
                           2},
    [PLUMB_MONITORS] = {"jvm:monitor_*",
                        {JVMTI_EVENT_MONITOR_CONTENDED_ENTER, JVMTI_EVENT_MONITOR_CONTENDED_ENTERED,
                         JVMTI_EVENT_MONITOR_WAIT, JVMTI_EVENT_MONITOR_WAITED},
                        4},
    [PLUMB_PARKS] = {"jvm:park*", {0}, 0},
    [PLUMB_ALLOCATIONS] = {"jvm:sampled_object_alloc", {JVMTI_EVENT_SAMPLED_OBJECT_ALLOC}, 1},
    [PLUMB_CLASSES] = {"jvm:class_prepare", {JVMTI_EVENT_CLASS_PREPARE}, 1},
    [PLUMB_COMPILED_METHODS] = {"jvm:compiled_method_*",
                                {JVMTI_EVENT_COMPILED_METHOD_LOAD, JVMTI_EVENT_COMPILED_METHOD_UNLOAD},
                                2},
    [PLUMB_GENERATED_CODE] = {"jvm:dynamic_code_generated", {JVMTI_EVENT_DYNAMIC_CODE_GENERATED}, 1},
    [PLUMB_EXCEPTIONS] = {"jvm:exception_*", {JVMTI_EVENT_EXCEPTION, JVMTI_EVENT_EXCEPTION_CATCH}, 2},
    [PLUMB_METHODS] = {"jvm:method_*", {JVMTI_EVENT_CLASS_FILE_LOAD_HOOK}, 1},
};

static bool wants_monitors(void) {
    return plumb_enabled(jvm, monitor_contended_enter) || plumb_enabled(jvm, monitor_contended_entered) ||
           plumb_enabled(jvm, monitor_wait) || plumb_enabled(jvm, monitor_waited);
}

bool plumb_methods_are_wanted(void) {
    return (plumb_enabled(jvm, method_entry) || plumb_enabled(jvm, method_exit)) &&
           plumb_methods_are_asked_for();
}

static bool is_wanted(enum plumb_group group) {
    switch (group) {
    case PLUMB_THREADS: /* owners are looked up in its table */
        return plumb_enabled(jvm, thread_start) || plumb_enabled(jvm, thread_end) ||
               plumb_enabled(jvm, thread_running) || plumb_enabled(jvm, monitor_contended_enter) ||
               plumb_enabled(jvm, park);
    case PLUMB_COLLECTIONS:
        return plumb_enabled(jvm, gc_start) || plumb_enabled(jvm, gc_finish);
    case PLUMB_MONITORS:
        return wants_monitors();
    case PLUMB_PARKS:
        return plumb_enabled(jvm, park) || plumb_enabled(jvm, parked);
    case PLUMB_ALLOCATIONS:
        return plumb_enabled(jvm, sampled_object_alloc);
    case PLUMB_CLASSES:
        return plumb_enabled(jvm, class_prepare);
    case PLUMB_COMPILED_METHODS:
        return plumb_enabled(jvm, compiled_method_load) || plumb_enabled(jvm, compiled_method_unload);
    case PLUMB_GENERATED_CODE:
        return plumb_enabled(jvm, dynamic_code_generated);
    case PLUMB_EXCEPTIONS:
        return plumb_enabled(jvm, exception_throw) || plumb_enabled(jvm, exception_catch);
    case PLUMB_METHODS:
        return plumb_methods_are_wanted();
    case PLUMB_GROUP_COUNT:
        break;
    }
    return false;
}

static jvmtiCapabilities capabilities_of(enum plumb_group group) {
    jvmtiCapabilities needed;
    memset(&needed, 0, sizeof(needed));
    switch (group) {
    case PLUMB_COLLECTIONS:
        needed.can_generate_garbage_collection_events = 1;
        break;
    case PLUMB_MONITORS:
        needed.can_generate_monitor_events = 1;
        break;
    case PLUMB_PARKS: /* of classes: objects have theirs by another environment */
        needed.can_tag_objects = 1;
        break;
    case PLUMB_ALLOCATIONS:
        needed.can_generate_sampled_object_alloc_events = 1;
        break;
    case PLUMB_COMPILED_METHODS:
        needed.can_generate_compiled_method_load_events = 1;
        break;
    case PLUMB_EXCEPTIONS:
        needed.can_generate_exception_events = 1;
        needed.can_get_line_numbers = 1;
        break;
    case PLUMB_METHODS:
        needed.can_retransform_classes = 1;
        needed.can_get_constant_pool = 1;
        break;
    case PLUMB_THREADS:
    case PLUMB_CLASSES:
    case PLUMB_GENERATED_CODE:
    case PLUMB_GROUP_COUNT:
        break;
    }
    return needed;
}

static void notify(enum plumb_group group, jvmtiEventMode mode) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    for (int i = 0; i < groups[group].kind_count; i++)
        (*jvmti)->SetEventNotificationMode(jvmti, mode, groups[group].kinds[i], NULL);
}

/* Two groups may need the same. */
static void give_capabilities_back(enum plumb_group group) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    unsigned char unneeded[sizeof(jvmtiCapabilities)];
    jvmtiCapabilities capabilities = capabilities_of(group);
    memcpy(unneeded, &capabilities, sizeof(unneeded));
    for (int other = 0; other < PLUMB_GROUP_COUNT; other++) {
        if (other == (int)group || !group_is_on[other]) continue;
        unsigned char needed[sizeof(jvmtiCapabilities)];
        capabilities = capabilities_of((enum plumb_group)other);
        memcpy(needed, &capabilities, sizeof(needed));
        for (size_t i = 0; i < sizeof(needed); i++)
            unneeded[i] &= (unsigned char)~needed[i];
    }
    memcpy(&capabilities, unneeded, sizeof(capabilities));
    (*jvmti)->RelinquishCapabilities(jvmti, &capabilities);
}

static bool has_numbers(enum plumb_group group) {
    return group == PLUMB_MONITORS || group == PLUMB_PARKS;
}

static bool ask_for_group(enum plumb_group group, JNIEnv* jni) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    const jvmtiCapabilities needed = capabilities_of(group);
    if ((*jvmti)->AddCapabilities(jvmti, &needed) != JVMTI_ERROR_NONE) return false;
    if (group == PLUMB_ALLOCATIONS) plumb_allocations_set_interval();
    const bool is_ready = (!has_numbers(group) || plumb_numbers_begin()) &&
                          (group != PLUMB_PARKS || plumb_parks_begin(jni)) &&
                          (group != PLUMB_METHODS || (plumb_hook_class_begin(jni) && plumb_methods_begin()));
    if (!is_ready) give_capabilities_back(group);
    return is_ready;
}

static void switch_group_on(enum plumb_group group, JNIEnv* jni, bool is_live) {
    if (!ask_for_group(group, jni)) {
        group_is_refused[group] = true;
        plumb_trace(jvm, not_available, groups[group].events,
                    group == PLUMB_ALLOCATIONS ? "the JVM does not give them, or gives them another agent"
                    : is_live && group == PLUMB_EXCEPTIONS
                        ? "the JVM gives them only to an agent that asks at its start"
                        : "the JVM does not give them");
        return;
    }
    group_is_on[group] = true;
    plumb_code_begin(group);
    notify(group, JVMTI_ENABLE);
    if (group == PLUMB_METHODS) plumb_methods_follow(jni);
}

/* The one for exceptions stays: the JVM does not give it a second time. */
static void switch_group_off(enum plumb_group group, JNIEnv* jni) {
    group_is_on[group] = false;
    if (group == PLUMB_METHODS) plumb_methods_end(jni);
    notify(group, JVMTI_DISABLE);
    plumb_code_end(group);
    if (group == PLUMB_PARKS) plumb_parks_end(jni);
    if (group == PLUMB_ALLOCATIONS) plumb_allocations_end();
    if (group != PLUMB_EXCEPTIONS) give_capabilities_back(group);
    if (group == PLUMB_THREADS) plumb_threads_forget_all(jni);
}

static void follow_group(enum plumb_group group, JNIEnv* jni, bool is_live) {
    const bool wanted = is_wanted(group);
    if ((group == PLUMB_PARKS || group == PLUMB_METHODS) && !is_live)
        return; /* nothing of Java's can be changed yet */
    if (!wanted) group_is_refused[group] = false;
    if (wanted == group_is_on[group] || group_is_refused[group]) return;
    if (wanted)
        switch_group_on(group, jni, is_live);
    else
        switch_group_off(group, jni);
}

/* Who has been told what was there before. */
static struct plumb_listeners of_threads, of_methods, of_code;

static void tell_what_is_there(JNIEnv* jni, bool threads_were_off) {
    const uint32_t threads = plumb_listeners_come(&of_threads, SESSIONS_OF(thread_running));
    const uint32_t methods = plumb_listeners_come(&of_methods, SESSIONS_OF(compiled_method_load));
    const uint32_t code = plumb_listeners_come(&of_code, SESSIONS_OF(dynamic_code_generated));
    if (group_is_on[PLUMB_THREADS] && (threads_were_off || threads != 0))
        plumb_threads_tell_running(jni, threads);
    if (group_is_on[PLUMB_COMPILED_METHODS] && methods != 0) plumb_code_tell_methods();
    if (group_is_on[PLUMB_GENERATED_CODE] && code != 0) plumb_code_tell_stubs();
}

static bool is_somebody_to_be_told(void) {
    const uint32_t threads = SESSIONS_OF(thread_running), methods = SESSIONS_OF(compiled_method_load);
    const uint32_t code = SESSIONS_OF(dynamic_code_generated);
    plumb_listeners_gone(&of_threads, threads);
    plumb_listeners_gone(&of_methods, methods);
    plumb_listeners_gone(&of_code, code);
    return !plumb_listeners_are(&of_threads, threads) || !plumb_listeners_are(&of_methods, methods) ||
           !plumb_listeners_are(&of_code, code);
}

static void give_back_left_over(JNIEnv* jni) {
    const jvmtiCapabilities needed = capabilities_of(PLUMB_METHODS);
    if ((*plumb_jvm.jvmti)->AddCapabilities(plumb_jvm.jvmti, &needed) != JVMTI_ERROR_NONE) return;
    plumb_methods_end_left_over(jni);
    give_capabilities_back(PLUMB_METHODS);
}

void plumb_follow(JNIEnv* jni, bool is_live) {
    const bool is_first_live = is_live && !is_followed_live;
    const bool threads_were_off = is_first_live || !group_is_on[PLUMB_THREADS];
    if (is_first_live) {
        is_followed_live = true;
        plumb_threads_prepare(jni);
        plumb_exceptions_prepare(jni);
        plumb_java_frames_prepare(plumb_jvm.jvmti);
    }
    if (!is_live && plumb_jvm.wants_exceptions) {
        const jvmtiCapabilities needed = capabilities_of(PLUMB_EXCEPTIONS);
        (*plumb_jvm.jvmti)->AddCapabilities(plumb_jvm.jvmti, &needed);
    }
    for (int group = 0; group < PLUMB_GROUP_COUNT; group++)
        follow_group((enum plumb_group)group, jni, is_live);
    if (!group_is_on[PLUMB_MONITORS] && !group_is_on[PLUMB_PARKS]) plumb_numbers_end();
    if (group_is_on[PLUMB_ALLOCATIONS] && !plumb_allocations_interval_is_set())
        plumb_allocations_set_interval();
    if (group_is_on[PLUMB_METHODS] && !plumb_methods_are_settled()) plumb_methods_follow(jni);
    if (is_live && !group_is_on[PLUMB_METHODS] && plumb_methods_are_left_over()) give_back_left_over(jni);
    if (is_live) tell_what_is_there(jni, threads_were_off);
}

bool plumb_is_to_follow(void) {
    for (int group = 0; group < PLUMB_GROUP_COUNT; group++) {
        const bool wanted = is_wanted((enum plumb_group)group);
        if (!wanted) group_is_refused[group] = false;
        if (wanted != group_is_on[group] && !group_is_refused[group]) return true;
    }
    if (group_is_on[PLUMB_ALLOCATIONS] && !plumb_allocations_interval_is_set()) return true;
    if (group_is_on[PLUMB_METHODS] ? !plumb_methods_are_settled() : plumb_methods_are_left_over())
        return true;
    return is_somebody_to_be_told();
}

void plumb_came_unwanted(enum plumb_group group) {
    if (!is_wanted(group)) plumb_wake_watcher();
}
