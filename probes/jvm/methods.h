/* What the files about method entry and exit share. */
#ifndef PLUMB_PROBES_JVM_METHODS_H
#define PLUMB_PROBES_JVM_METHODS_H

#include "agent.h"
#include "known_methods.h"
#include "method_hooks.h"
#include "method_wish.h"

/* hook_class.c: the class that hooked code calls, and its methods (method_events.c). False: it can not be had. */
bool plumb_hook_class_begin(JNIEnv* jni);
jlong JNICALL plumb_method_enter(JNIEnv* jni, jclass class, jint number);
void JNICALL plumb_method_exit(JNIEnv* jni, jclass class, jint number, jlong token);
void JNICALL plumb_method_thrown(JNIEnv* jni, jclass class, jobject exception, jint number, jlong token);

/* method_choice.c: a class on its way into the JVM, with the hooks that the wish asks for. False: it is as it was. */
struct plumb_class_output;
struct plumb_chosen_methods { /* that were not chosen before */
    uint32_t all;
    uint32_t of_pattern[plumb_method_patterns_max];
    struct plumb_known_method** known; /* to be freed; as many as there was memory for */
    uint32_t known_count;
};
bool plumb_choose_methods(struct plumb_method_wish* wish, const unsigned char* bytes, size_t length,
                          struct plumb_class_output* output, struct plumb_chosen_methods* counted);
/* Those do not get their hooks. */
void plumb_leave_chosen_alone(struct plumb_method_wish* wish, const struct plumb_chosen_methods* counted);
/* Of a class that is loaded: by its name alone. */
bool plumb_wish_may_concern(const struct plumb_method_wish* wish, jclass class);
/* Whether it has to be changed for that wish (`begins`), or was perhaps (`ends`; either may be NULL), or has methods that came
 * unwanted. */
bool plumb_class_is_to_change(jclass class, const struct plumb_method_wish* ends,
                              struct plumb_method_wish* begins, bool unwanted);
void plumb_tell_class_left_alone(jclass class, const char* reason);
/* Each of its methods that matches. */
void plumb_tell_methods_left_alone(jclass class, struct plumb_method_wish* wish, const char* reason);

#endif
