/*
 * Byte code that tells when a method begins and ends: a class file in, one with the same methods out, of which those that are chosen call
 *
 *     long token = PlumbMethods.enter(number)           first of all, in a constructor behind its call of this() or super()
 *     PlumbMethods.exit(number, token)                  before each return
 *     PlumbMethods.thrown(exception, number, token)     where an exception leaves the method
 *
 * The token is in a local of its own behind those that the method has. What else is different: jumps, tables of lines, of locals, of
 * exceptions and of frames go with the code, and other attributes of the code (type annotations) are not there; nothing outside of the code.
 *
 * Written here, since there is nothing to write it with: the library for that is inside each JDK, is not open to others, and changes; and
 * another one would be Java code that runs in the program.
 */
#ifndef PLUMB_PROBES_JVM_METHOD_HOOKS_H
#define PLUMB_PROBES_JVM_METHOD_HOOKS_H

#include "class_constants.h"

#define PLUMB_HOOK_CLASS "java/lang/PlumbMethods"
#define PLUMB_HOOK_ENTER "enter"
#define PLUMB_HOOK_ENTER_TYPE "(I)J"
#define PLUMB_HOOK_EXIT "exit"
#define PLUMB_HOOK_EXIT_TYPE "(IJ)V"
#define PLUMB_HOOK_THROWN "thrown"
#define PLUMB_HOOK_THROWN_TYPE "(Ljava/lang/Throwable;IJ)V"

struct plumb_hooked_method {
    struct plumb_utf8 class_name, name, descriptor; /* com/shop/Order, place, (I)V */
};

/* Who chooses. */
struct plumb_method_choice {
    /* The number by which the method is told; -1: it is not chosen. */
    int32_t (*number_of)(void* context, const struct plumb_hooked_method* method);
    /* One that was chosen can not be told, and is as it was. */
    void (*leave_alone)(void* context, int32_t number, const char* reason);
    void* context;
};

/* Returns whether `output` holds the new class; if not, all is to stay as it is. Either way its `at` is to be freed. */
bool plumb_hook_methods(const uint8_t* bytes, size_t length, const struct plumb_method_choice* choice,
                        struct plumb_class_output* output);

/* In these bytes: com/shop/Order. `at` NULL: they are no class. */
struct plumb_utf8 plumb_name_in_class_file(const uint8_t* bytes, size_t length);

#endif
