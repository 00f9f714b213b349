/* Which methods of a class are hooked: those that a pattern matches, up to the limit. */
#include "methods.h"

#include "class_marks.h"
#include "method_hooks.h"

#include <stdlib.h>

struct chosen {
    struct plumb_method_wish* wish;
    char* class_name;         /* as in Class.getName(); NULL: not known yet */
    uint64_t of_class, found; /* the patterns that match the class; and the last method */
    bool is_first;            /* it was not looked at before */
    struct plumb_known_method* last;
    struct plumb_chosen_methods* counted;
};

static char* copy_of(struct plumb_utf8 text) {
    char* const copy = malloc(text.bytes + 1);
    if (!copy) return NULL;
    memcpy(copy, text.at, text.bytes);
    copy[text.bytes] = '\0';
    return copy;
}

static bool begin_class(struct chosen* chosen, struct plumb_utf8 name) {
    if (chosen->class_name) return chosen->of_class != 0;
    chosen->class_name = copy_of(name);
    if (!chosen->class_name) return false;
    if (strcmp(chosen->class_name, PLUMB_HOOK_CLASS) == 0) return false;
    plumb_class_name_in_place(chosen->class_name);
    chosen->of_class = plumb_wish_matches_class(chosen->wish, chosen->class_name);
    return chosen->of_class != 0;
}

static void count_patterns(struct chosen* chosen, bool is_left_alone) {
    for (uint32_t i = 0; i < chosen->wish->count; i++) {
        if ((chosen->found >> i & 1) == 0) continue;
        chosen->counted->of_pattern[i] += is_left_alone ? -1u : 1u;
        __atomic_add_fetch(&chosen->wish->patterns[i].methods, is_left_alone ? -1u : 1u, __ATOMIC_RELAXED);
        if (is_left_alone) __atomic_add_fetch(&chosen->wish->patterns[i].left_alone, 1, __ATOMIC_RELAXED);
    }
}

/* Once: there are as many as there may be. */
static void tell_there_are_more(struct plumb_method_wish* wish) {
    if (!__atomic_exchange_n(&wish->limit_was_met, true, __ATOMIC_RELAXED))
        plumb_trace(
            jvm, not_available, "jvm:method_*",
            "more methods match than may be told: those that were found first are (--jvm-methods-limit)");
}

static void take_room_back(struct plumb_method_wish* wish) {
    __atomic_sub_fetch(&wish->hooked, 1, __ATOMIC_RELAXED);
}

static bool has_room(struct plumb_method_wish* wish) {
    if (__atomic_add_fetch(&wish->hooked, 1, __ATOMIC_RELAXED) <= wish->limit) return true;
    take_room_back(wish);
    tell_there_are_more(wish);
    return false;
}

static void keep_counted(struct plumb_chosen_methods* counted, struct plumb_known_method* known) {
    enum { more = 16 };
    counted->all++;
    if (counted->known_count % more == 0) {
        void* const room = realloc(counted->known, (counted->known_count + more) * sizeof(*counted->known));
        if (!room) return;
        counted->known = room;
    }
    counted->known[counted->known_count++] = known;
}

static int32_t number_of_chosen(struct chosen* chosen, char* method, char* signature) {
    const struct plumb_text class_name = {chosen->class_name, strlen(chosen->class_name)},
                            method_name = plumb_utf8_in_place(method), types = plumb_utf8_in_place(signature);
    chosen->found = plumb_wish_matches_method(chosen->wish, chosen->of_class, method, signature);
    if (chosen->found == 0) return -1;
    struct plumb_known_method* known = plumb_find_known_method(class_name, method_name, types);
    chosen->is_first =
        !known || __atomic_load_n(&known->generation, __ATOMIC_RELAXED) != chosen->wish->generation;
    if (chosen->is_first && !has_room(chosen->wish)) return -1;
    if (!known) known = plumb_know_method(class_name, method_name, types);
    if (!known) { /* nor have those that were asked for before left a number */
        take_room_back(chosen->wish);
        tell_there_are_more(chosen->wish);
        return -1;
    }
    if (chosen->is_first) {
        keep_counted(chosen->counted, known);
        __atomic_store_n(&known->generation, chosen->wish->generation, __ATOMIC_RELAXED);
        count_patterns(chosen, false);
    }
    chosen->last = known;
    return known->number;
}

static int32_t number_of(void* context, const struct plumb_hooked_method* method) {
    struct chosen* const chosen = context;
    if (!begin_class(chosen, method->class_name)) return -1;
    char *const name = copy_of(method->name), *const types = copy_of(method->descriptor);
    const int32_t number = name && types ? number_of_chosen(chosen, name, types) : -1;
    free(name);
    free(types);
    return number;
}

static void leave_alone(void* context, int32_t number, const char* reason) {
    struct chosen* const chosen = context;
    const struct plumb_known_method* const known = chosen->last;
    (void)number;
    if (!chosen->is_first) return;
    chosen->counted->all--;
    if (chosen->counted->known_count != 0) chosen->counted->known_count--;
    take_room_back(chosen->wish);
    count_patterns(chosen, true);
    plumb_trace(jvm, method_left_alone, known->class_name.at, known->class_name.bytes, known->method.at,
                known->method.bytes, known->signature.at, known->signature.bytes, reason);
}

bool plumb_choose_methods(struct plumb_method_wish* wish, const unsigned char* bytes, size_t length,
                          struct plumb_class_output* output, struct plumb_chosen_methods* counted) {
    struct chosen chosen = {wish, NULL, 0, 0, false, NULL, counted};
    memset(counted, 0, sizeof(*counted));
    const struct plumb_method_choice choice = {number_of, leave_alone, &chosen};
    const bool is_changed = plumb_hook_methods(bytes, length, &choice, output);
    free(chosen.class_name);
    return is_changed;
}

/* Another loader's class of that name may have its hooks. */
void plumb_leave_chosen_alone(struct plumb_method_wish* wish, const struct plumb_chosen_methods* counted) {
    __atomic_sub_fetch(&wish->hooked, counted->all, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < wish->count; i++) {
        __atomic_sub_fetch(&wish->patterns[i].methods, counted->of_pattern[i], __ATOMIC_RELAXED);
        __atomic_add_fetch(&wish->patterns[i].left_alone, counted->of_pattern[i], __ATOMIC_RELAXED);
    }
    for (uint32_t i = 0; i < counted->known_count; i++)
        __atomic_store_n(&counted->known[i]->generation, 0, __ATOMIC_RELAXED);
}

/* What is looked for in a class that is loaded. */
struct looked_for {
    const struct plumb_method_wish *ends, *begins;
    uint64_t of_ends, of_begins;
    bool unwanted;
};

static bool is_looked_for(const struct looked_for* what, struct plumb_text class_name,
                          struct plumb_text method, struct plumb_text signature) {
    if (what->ends && plumb_wish_matches_method(what->ends, what->of_ends, method.at, signature.at) != 0)
        return true;
    if (what->begins &&
        plumb_wish_matches_method(what->begins, what->of_begins, method.at, signature.at) != 0)
        return true;
    if (!what->unwanted) return false;
    const struct plumb_known_method* const known = plumb_find_known_method(class_name, method, signature);
    return known && __atomic_load_n(&known->came_unwanted, __ATOMIC_RELAXED);
}

/* Of one that is not linked nothing is known. */
static bool has_method(jclass class, const struct looked_for* what, struct plumb_text class_name) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    jint count = 0;
    jmethodID* methods = NULL;
    if ((*jvmti)->GetClassMethods(jvmti, class, &count, &methods) != JVMTI_ERROR_NONE) return false;
    bool is_any = false;
    for (jint i = 0; i < count && !is_any; i++) {
        struct plumb_name method, signature;
        plumb_name_and_signature_of(methods[i], &method, &signature);
        if (method.text.at && signature.text.at)
            is_any = is_looked_for(what, class_name, method.text, signature.text);
        plumb_release_name(&method);
        plumb_release_name(&signature);
    }
    (*jvmti)->Deallocate(jvmti, (unsigned char*)methods);
    return is_any;
}

static void tell_methods_left_alone(jclass class, struct plumb_text class_name,
                                    struct plumb_method_wish* wish, uint64_t of_class, const char* reason) {
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    jint count = 0;
    jmethodID* methods = NULL;
    if ((*jvmti)->GetClassMethods(jvmti, class, &count, &methods) != JVMTI_ERROR_NONE) return;
    for (jint i = 0; i < count; i++) {
        struct plumb_name method, signature;
        plumb_name_and_signature_of(methods[i], &method, &signature);
        if (method.text.at && signature.text.at) {
            const uint64_t found =
                plumb_wish_matches_method(wish, of_class, method.text.at, signature.text.at);
            for (uint32_t k = 0; k < wish->count; k++)
                if ((found >> k & 1) != 0)
                    __atomic_add_fetch(&wish->patterns[k].left_alone, 1, __ATOMIC_RELAXED);
            if (found != 0)
                plumb_trace(jvm, method_left_alone, class_name.at, class_name.bytes, method.text.at,
                            method.text.bytes, signature.text.at, signature.text.bytes, reason);
        }
        plumb_release_name(&method);
        plumb_release_name(&signature);
    }
    (*jvmti)->Deallocate(jvmti, (unsigned char*)methods);
}

void plumb_tell_methods_left_alone(jclass class, struct plumb_method_wish* wish, const char* reason) {
    struct plumb_name name = plumb_name_of_class(class);
    if (name.text.at) {
        name.text.at[name.text.bytes] = '\0'; /* in place of the signature's semicolon */
        tell_methods_left_alone(class, name.text, wish, plumb_wish_matches_class(wish, name.text.at), reason);
    }
    plumb_release_name(&name);
}

static bool is_modifiable(jclass class) {
    jboolean is_it = JNI_FALSE;
    jvmtiEnv* const jvmti = plumb_jvm.jvmti;
    return (*jvmti)->IsModifiableClass(jvmti, class, &is_it) == JVMTI_ERROR_NONE && is_it;
}

/* The mark stands before it is looked again: who links a class meanwhile finds the one, or is found by the other. */
static bool has_to_wait(jclass class, const struct plumb_method_wish* begins) {
    if (plumb_class_is_linked(class)) return false;
    if (begins) plumb_mark_class(class, begins->generation, PLUMB_CLASS_WAITS);
    return !plumb_class_is_linked(class);
}

bool plumb_wish_may_concern(const struct plumb_method_wish* wish, jclass class) {
    struct plumb_name name = plumb_name_of_class(class);
    bool may = false;
    if (name.text.at) {
        name.text.at[name.text.bytes] = '\0'; /* in place of the signature's semicolon */
        may = plumb_wish_matches_class(wish, name.text.at) != 0;
    }
    plumb_release_name(&name);
    return may;
}

bool plumb_class_is_to_change(jclass class, const struct plumb_method_wish* ends,
                              struct plumb_method_wish* begins, bool unwanted) {
    const enum plumb_class_mark mark =
        begins ? plumb_mark_of_class(class, begins->generation) : PLUMB_CLASS_UNSEEN;
    if (mark == PLUMB_CLASS_CHANGED || mark == PLUMB_CLASS_LATE) return false;
    if (ends && plumb_class_is_left_off(class, ends->generation)) ends = NULL;
    struct looked_for what = {ends, begins, 0, 0, unwanted};
    struct plumb_name name = plumb_name_of_class(class);
    bool is_to_change = false;
    if (name.text.at) {
        name.text.at[name.text.bytes] = '\0'; /* in place of the signature's semicolon */
        if (ends) what.of_ends = plumb_wish_matches_class(ends, name.text.at);
        if (begins) what.of_begins = plumb_wish_matches_class(begins, name.text.at);
        const bool may_be = what.of_ends != 0 || what.of_begins != 0 || unwanted;
        const bool is_fixed = may_be && !is_modifiable(class);
        is_to_change = may_be && !is_fixed && !has_to_wait(class, what.of_begins != 0 ? begins : NULL) &&
                       has_method(class, &what, name.text);
        if (is_fixed && what.of_begins != 0 && plumb_class_is_linked(class)) {
            tell_methods_left_alone(class, name.text, begins, what.of_begins,
                                    "its class is hidden: it can not be changed");
            plumb_mark_class(class, begins->generation, PLUMB_CLASS_CHANGED);
        }
    }
    plumb_release_name(&name);
    return is_to_change;
}

void plumb_tell_class_left_alone(jclass class, const char* reason) {
    struct plumb_name name = plumb_name_of_class(class);
    plumb_trace(jvm, method_left_alone, name.text.at, name.text.bytes, NULL, 0, NULL, 0, reason);
    plumb_release_name(&name);
}
