/*
 * A method's code with hooks in it: how it is read, what is inserted (method_code.c), and what goes with it (method_code_tables.c).
 */
#ifndef PLUMB_PROBES_JVM_METHOD_CODE_H
#define PLUMB_PROBES_JVM_METHOD_CODE_H

#include "byte_code.h"
#include "method_hooks.h"
#include "stack_map.h"

enum {
    plumb_first_version_with_frames = 50,
    plumb_last_version_merged = 50, /* HotSpot may check it without its frames */
    plumb_hook_entry_bytes_max = 10,
    plumb_hook_handler_bytes_max = 12
};

/* One class on its way. Constants that the hooks need are there from the first hooked method on. */
struct plumb_class_work {
    const struct plumb_method_choice* choice;
    struct plumb_constants constants;
    struct plumb_utf8 class_name;
    uint32_t version, class_index;
    uint32_t enter, exit, thrown, throwable, frames_name; /* 0: not added yet */
    uint32_t hooked_count;
};

/* A method's code, as it is in the file. */
struct plumb_method_code {
    struct plumb_class_work* work;
    bool is_static, is_constructor; /* one that calls another one */
    bool has_handler;
    struct plumb_utf8 descriptor;
    uint32_t max_stack, max_locals;
    struct plumb_byte_code code;
    const uint8_t* handlers; /* so many entries of 8 bytes */
    uint32_t handler_count;
    struct plumb_class_input attributes,
        frame_table; /* at their number; the table's content, at NULL without one */
    uint32_t attribute_count;
    /* and what becomes of it */
    struct plumb_frames frames;
    int32_t* places;
    struct plumb_insertions insertions;
    uint8_t entry[plumb_hook_entry_bytes_max], exit[plumb_hook_entry_bytes_max],
        handler[plumb_hook_handler_bytes_max];
    uint32_t handler_bytes;
};

#define PLUMB_CODE_NOT_UNDERSTOOD "its code is not understood"

/*
 * The new content of its attribute Code: `method` holds what is known of it, the rest is zero. Returns NULL, or why there is
 * none: then what was written is nothing.
 */
const char* plumb_hook_code(struct plumb_method_code* method, uint32_t number,
                            struct plumb_class_input content, struct plumb_class_output* output);

struct plumb_frame_method plumb_frame_method_of(const struct plumb_method_code* method);

/* With what stands behind the method's own code; where `places` is known. */
static inline uint32_t plumb_hooked_code_bytes(const struct plumb_method_code* method) {
    return (uint32_t)method->places[method->code.bytes] + method->handler_bytes;
}

/* The exceptions that are caught, and by whom. False: the table makes no sense. */
bool plumb_put_code_handlers(struct plumb_class_output* output, const struct plumb_method_code* method);

/* The code's own attributes: lines, locals, frames. False: there are no frames that make sense. */
bool plumb_put_code_tables(struct plumb_class_output* output, const struct plumb_method_code* method);

#endif
