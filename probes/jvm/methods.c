/*
 * Entry and exit of methods, for those that are asked for: their classes are given to the JVM anew, with hooks (method_hooks.h), and
 * as they were when nobody records them. What is loaded in between comes by here first.
 *
 * A class that was on its way when the hooks were given back has them still. When one is called, it is noticed, and given back then.
 */
#include "methods.h"

#include "class_marks.h"
#include "hooked_at_load.h"
#include "loaded_classes.h"
#include "lock.h"
#include "metaspace.h"
#include "method_hooks.h"

#include <stdlib.h>
#include <time.h>

static struct plumb_method_wish* open_wish; /* what classes that are loaded are given; NULL: nothing */
static uint32_t open_lock;
static struct plumb_method_wish*
    applied_wish;                   /* of who follows: the same, for as long as hooks may be there */
static uint32_t settled_generation; /* of the last one for which all that is loaded was looked at */
static uint32_t answered_repeats;   /* of who follows, as far as they were told what was found */
static bool any_came_unwanted;
static struct plumb_metaspace room_to_change; /* of who follows: for the applied wish */
static uint64_t late_since_ns; /* classes that are late have been linked since then; 0: none was */

static void set_open_wish(struct plumb_method_wish* wish) {
    plumb_lock(&open_lock);
    struct plumb_method_wish* const before = open_wish;
    open_wish = plumb_method_wish_share(wish);
    plumb_unlock(&open_lock);
    plumb_method_wish_release(before);
}

static struct plumb_method_wish* take_open_wish(void) {
    plumb_lock(&open_lock);
    struct plumb_method_wish* const wish = plumb_method_wish_share(open_wish);
    plumb_unlock(&open_lock);
    return wish;
}

/* Of one that the program loads it is asked here; of others before. */
static bool may_have_hooks(jclass redefined, const unsigned char* bytes, size_t length,
                           size_t changed_length) {
    if (redefined || plumb_metaspace_take_for_hooks((int64_t)changed_length - (int64_t)length)) return true;
    const struct plumb_utf8 own_name = plumb_name_in_class_file(bytes, length);
    char* const name = own_name.at ? calloc(1, own_name.bytes + 1) : NULL;
    if (name) {
        memcpy(name, own_name.at, own_name.bytes);
        plumb_class_name_in_place(name);
        plumb_trace(jvm, method_left_alone, name, strlen(name), NULL, 0, NULL, 0, PLUMB_METASPACE_IS_SHORT);
    }
    free(name);
    return false;
}

static bool give_changed(jvmtiEnv* jvmti, const struct plumb_class_output* changed, jint* new_length,
                         unsigned char** new_bytes) {
    unsigned char* room = NULL;
    if ((*jvmti)->Allocate(jvmti, (jlong)changed->bytes, &room) != JVMTI_ERROR_NONE) return false;
    memcpy(room, changed->at, changed->bytes);
    *new_bytes = room;
    *new_length = (jint)changed->bytes;
    return true;
}

void JNICALL plumb_on_class_file_load(jvmtiEnv* jvmti, JNIEnv* jni, jclass redefined, jobject loader,
                                      const char* name, jobject domain, jint length,
                                      const unsigned char* bytes, jint* new_length,
                                      unsigned char** new_bytes) {
    (void)jni, (void)loader, (void)name, (void)domain;
    struct plumb_method_wish* const wish = take_open_wish();
    struct plumb_class_output changed = {NULL, 0, 0, false};
    struct plumb_chosen_methods chosen = {.known = NULL};
    if (wish && plumb_choose_methods(wish, bytes, (size_t)length, &changed, &chosen)) {
        /* The JVM may not say it. Hidden classes do not come by here. */
        const struct plumb_utf8 own_name = plumb_name_in_class_file(bytes, (size_t)length);
        if (!may_have_hooks(redefined, bytes, (size_t)length, changed.bytes) ||
            !give_changed(jvmti, &changed, new_length, new_bytes))
            plumb_leave_chosen_alone(wish, &chosen);
        else if (!redefined && own_name.at)
            plumb_note_hooked_at_load(wish->generation, (const char*)own_name.at, own_name.bytes);
    }
    free(chosen.known);
    free(changed.at);
    plumb_method_wish_release(wish);
}

enum { batch_classes = 64 };

/* One that the JVM does not take must not keep it from taking others. */
static void change_classes(const jclass* classes, jint count, struct plumb_method_wish* begins) {
    static const char reason[] = "the JVM does not take the changed class";
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    if (count == 0 || (*jvmti)->RetransformClasses(jvmti, count, classes) == JVMTI_ERROR_NONE) return;
    for (jint i = 0; i < count; i++) {
        if (count > 1)
            change_classes(&classes[i], 1, begins);
        else if (begins)
            plumb_tell_methods_left_alone(classes[i], begins, reason);
        else
            plumb_tell_class_left_alone(classes[i], reason);
    }
}

/* Of classes that have waited, the first since the last look. */
static void note_when_linked(void) {
    const uint64_t linked_ns = plumb_take_first_class_linked_ns();
    if (linked_ns != 0) __atomic_store_n(&late_since_ns, linked_ns, __ATOMIC_RELAXED);
}

/* Of a class that the program has linked while it waited: what was called of it up to now was not told. */
static void tell_missed_calls(jclass class) {
    const uint64_t now_ns = plumb_monotonic_ns();
    const uint64_t linked_since_ns = __atomic_load_n(&late_since_ns, __ATOMIC_RELAXED);
    struct plumb_name name = plumb_name_of_class(class);
    plumb_trace(jvm, method_calls_missed, name.text.at, name.text.bytes,
                linked_since_ns != 0 && linked_since_ns < now_ns ? now_ns - linked_since_ns : 0);
    plumb_release_name(&name);
}

struct class_batch {
    jclass classes
        [batch_classes]; /* global references: local ones would be among those that another agent may make in our thread */
    bool were_late[batch_classes];
    jint count;
};

/* For want of metaspace: it has no hooks to be given back. */
static void leave_off(jclass class, struct plumb_method_wish* wish) {
    plumb_mark_class_left_off(class, wish->generation);
    plumb_tell_methods_left_alone(class, wish, PLUMB_METASPACE_IS_SHORT);
}

static void change_batch(JNIEnv* jni, struct class_batch* batch, struct plumb_method_wish* begins) {
    change_classes(batch->classes, batch->count, begins);
    for (jint i = 0; i < batch->count; i++) {
        if (!batch->were_late[i]) continue;
        tell_missed_calls(batch->classes[i]);
        plumb_mark_class(batch->classes[i], begins->generation, PLUMB_CLASS_CHANGED);
    }
    for (jint i = 0; i < batch->count; i++)
        (*jni)->DeleteGlobalRef(jni, batch->classes[i]);
    batch->count = 0;
}

static bool has_hooks_since_load(jclass class, uint32_t generation) {
    return !plumb_class_was_there(class, generation) && plumb_was_hooked_at_load(generation, class);
}

/* What is loaded, and may be changed for this wish, is not of those that are loaded with its hooks. */
static void mark_what_is_there(JNIEnv* jni, const struct plumb_method_wish* wish) {
    struct plumb_loaded_classes loaded = plumb_loaded_classes(jni);
    for (jclass class; (class = plumb_next_loaded_class(jni, &loaded));) {
        if (plumb_wish_may_concern(wish, class)) plumb_mark_class_as_there(class, wish->generation);
        (*jni)->DeleteLocalRef(jni, class);
    }
}

/* Whether it goes into the batch. */
static bool is_changed(JNIEnv* jni, jclass class, const struct plumb_method_wish* ends,
                       struct plumb_method_wish* begins, bool unwanted, struct class_batch* batch) {
    const bool is_late = begins && plumb_last_mark_of_class(class) == PLUMB_CLASS_WAITS;
    if (!plumb_class_is_to_change(class, ends, begins, unwanted)) return false;
    if (begins && has_hooks_since_load(class, begins->generation)) {
        plumb_mark_class(class, begins->generation, PLUMB_CLASS_CHANGED);
        return false;
    }
    if (!begins && !plumb_metaspace_take_to_end(&room_to_change, jni, class))
        return false; /* it keeps its hooks */
    if (begins && !plumb_metaspace_take(&room_to_change, jni, class)) {
        leave_off(class, begins);
        return false;
    }
    if (begins) plumb_mark_class(class, begins->generation, is_late ? PLUMB_CLASS_LATE : PLUMB_CLASS_CHANGED);
    batch->were_late[batch->count] = is_late;
    batch->classes[batch->count] = (*jni)->NewGlobalRef(jni, class);
    if (batch->classes[batch->count]) batch->count++;
    return true;
}

/* Those of `ends` for the last time, those of `begins` from now on. Returns how many there were. */
static uint32_t change_what_is_loaded(JNIEnv* jni, const struct plumb_method_wish* ends,
                                      struct plumb_method_wish* begins, bool unwanted) {
    struct class_batch batch = {.count = 0};
    uint32_t changed = 0;
    note_when_linked();
    struct plumb_loaded_classes loaded = plumb_loaded_classes(jni);
    for (jclass class; (class = plumb_next_loaded_class(jni, &loaded));) {
        if (is_changed(jni, class, ends, begins, unwanted, &batch)) changed++;
        (*jni)->DeleteLocalRef(jni, class);
        if (batch.count == batch_classes) change_batch(jni, &batch, begins);
    }
    change_batch(jni, &batch, begins);
    return changed;
}

static void end_what_is_loaded(JNIEnv* jni, const struct plumb_method_wish* ends, bool unwanted) {
    plumb_metaspace_begin(&room_to_change, jni);
    change_what_is_loaded(jni, ends, NULL, unwanted);
}

/* In the notation of the last wish, as it was applied. */
static void tell_patterns(const struct plumb_method_wish* wish) {
    for (uint32_t i = 0; i < wish->count; i++) {
        const struct plumb_method_pattern* const pattern = &wish->patterns[i];
        plumb_trace(jvm, method_pattern, pattern->text, __atomic_load_n(&pattern->methods, __ATOMIC_RELAXED),
                    __atomic_load_n(&pattern->left_alone, __ATOMIC_RELAXED));
    }
}

bool plumb_methods_begin(void) {
    return plumb_class_marks_begin();
}

/* A class whose file was read before the hooks were open, and which is loaded behind the look, is found by the next look. */
static void apply(JNIEnv* jni, struct plumb_method_wish* wish) {
    enum { looks_max = 5 };
    const struct timespec pause = {0, 1000000};
    struct plumb_method_wish* before = applied_wish;
    applied_wish = plumb_method_wish_share(wish);
    if (before && plumb_metaspace_is_limited()) { /* what finds no room then has no hooks to be given back */
        set_open_wish(NULL);
        end_what_is_loaded(jni, before, false);
        plumb_method_wish_release(before);
        before = NULL;
    }
    plumb_metaspace_begin(&room_to_change, jni);
    mark_what_is_there(jni, wish);
    set_open_wish(wish);
    change_what_is_loaded(jni, before, wish, false);
    for (int i = 0; i < looks_max; i++) {
        nanosleep(&pause, NULL);
        if (change_what_is_loaded(jni, NULL, wish, false) == 0) break;
    }
    plumb_method_wish_release(before);
    tell_patterns(wish);
    __atomic_store_n(&settled_generation, wish->generation, __ATOMIC_RELEASE);
}

bool plumb_methods_are_asked_for(void) {
    return plumb_method_wish_generation() != 0;
}

bool plumb_methods_are_settled(void) {
    return plumb_method_wish_generation() == __atomic_load_n(&settled_generation, __ATOMIC_ACQUIRE) &&
           __atomic_load_n(&answered_repeats, __ATOMIC_ACQUIRE) == plumb_method_wish_repeated() &&
           plumb_first_class_linked_ns() == 0;
}

void plumb_methods_follow(JNIEnv* jni) {
    struct plumb_method_wish* const wish = plumb_method_wish_take();
    const uint32_t repeated = plumb_method_wish_repeated();
    if (wish && wish != applied_wish) {
        apply(jni, wish);
    } else {
        if (plumb_first_class_linked_ns() != 0 && wish) change_what_is_loaded(jni, NULL, wish, false);
        if (wish && repeated != answered_repeats) tell_patterns(wish);
    }
    __atomic_store_n(&answered_repeats, repeated, __ATOMIC_RELEASE);
    plumb_method_wish_release(wish);
}

void plumb_methods_end(JNIEnv* jni) {
    set_open_wish(NULL);
    if (applied_wish) end_what_is_loaded(jni, applied_wish, false);
    plumb_class_marks_end();
    plumb_forget_hooked_at_load();
    if (applied_wish) {
        plumb_known_methods_forget_looked_at();
        plumb_method_wish_begin_anew(applied_wish); /* the next recording has the same, perhaps */
    }
    plumb_method_wish_release(applied_wish);
    applied_wish = NULL;
    __atomic_store_n(&settled_generation, 0, __ATOMIC_RELEASE);
    plumb_known_methods_forget_unwanted();
    __atomic_store_n(&any_came_unwanted, false, __ATOMIC_RELEASE);
}

void plumb_methods_came_unwanted(void) {
    __atomic_store_n(&any_came_unwanted, true, __ATOMIC_RELEASE);
    plumb_came_unwanted(PLUMB_METHODS);
}

/* Where there was no room to give them back, or the JVM does not take them, it is tried less and less often: each looks at all classes. */
static uint64_t tried_ns, pause_ns;

bool plumb_methods_are_left_over(void) {
    return __atomic_load_n(&any_came_unwanted, __ATOMIC_ACQUIRE) &&
           plumb_monotonic_ns() >= tried_ns + pause_ns;
}

uint64_t plumb_methods_left_over_wait_ns(void) {
    const uint64_t now_ns = plumb_monotonic_ns(), then_ns = tried_ns + pause_ns;
    return __atomic_load_n(&any_came_unwanted, __ATOMIC_ACQUIRE) && then_ns > now_ns ? then_ns - now_ns : 0;
}

void plumb_methods_end_left_over(JNIEnv* jni) {
    enum { second_ns = 1000000000, longest_s = 1000, again_within = 10 };
    const uint64_t now_ns = plumb_monotonic_ns(), least_ns = pause_ns > second_ns ? pause_ns : second_ns;
    const bool is_again = tried_ns != 0 && now_ns - tried_ns < again_within * least_ns;
    if (!is_again)
        pause_ns = 0;
    else if (pause_ns == 0)
        pause_ns = second_ns;
    else if (pause_ns < (uint64_t)longest_s * second_ns)
        pause_ns *= 2;
    __atomic_store_n(&any_came_unwanted, false, __ATOMIC_RELEASE);
    end_what_is_loaded(jni, NULL, true);
    tried_ns = plumb_monotonic_ns();
    plumb_known_methods_forget_unwanted();
}

/* Those that were linked, and are not changed any more, or perhaps not in time. */
static void tell_missed_at_end(JNIEnv* jni, uint32_t generation) {
    note_when_linked();
    if (__atomic_load_n(&late_since_ns, __ATOMIC_RELAXED) == 0) return;
    struct plumb_loaded_classes loaded = plumb_loaded_classes(jni);
    for (jclass class; (class = plumb_next_loaded_class(jni, &loaded));) {
        const enum plumb_class_mark mark = plumb_last_mark_of_class(class);
        if ((mark == PLUMB_CLASS_LATE || (mark == PLUMB_CLASS_WAITS && plumb_class_is_linked(class))) &&
            !has_hooks_since_load(class, generation))
            tell_missed_calls(class);
        (*jni)->DeleteLocalRef(jni, class);
    }
}

void plumb_methods_tell_at_end(JNIEnv* jni) {
    struct plumb_method_wish* const wish = take_open_wish();
    if (wish) {
        tell_missed_at_end(jni, wish->generation);
        tell_patterns(wish);
    }
    plumb_method_wish_release(wish);
}

/* While the watcher is at it, the answer is not known yet. */
uint32_t plumb_methods_first_unmatched(uint32_t from) {
    enum { looks = 1000 };
    const struct timespec pause = {0, 10000000};
    for (int i = 0; i < looks && plumb_methods_are_wanted() && !plumb_methods_are_settled(); i++)
        nanosleep(&pause, NULL);
    struct plumb_method_wish* const wish = take_open_wish();
    const uint32_t unmatched = wish ? plumb_wish_unmatched(wish, from) : 0;
    const bool is_one = wish && unmatched < wish->count;
    plumb_method_wish_release(wish);
    return is_one ? unmatched + 1 : 0;
}
