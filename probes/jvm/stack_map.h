/*
 * A method's StackMapTable: for each place that jumps lead to, the types of locals and stack, by which the JVM verifies the code (JVM
 * specification, 4.7.4). Moved with the code, and with one local more.
 */
#ifndef PLUMB_PROBES_JVM_STACK_MAP_H
#define PLUMB_PROBES_JVM_STACK_MAP_H

#include "class_constants.h"

enum plumb_type_tag {
    PLUMB_TYPE_TOP,
    PLUMB_TYPE_INT,
    PLUMB_TYPE_FLOAT,
    PLUMB_TYPE_DOUBLE,
    PLUMB_TYPE_LONG,
    PLUMB_TYPE_NULL,
    PLUMB_TYPE_UNINITIALIZED_THIS,
    PLUMB_TYPE_OBJECT,       /* with a class */
    PLUMB_TYPE_UNINITIALIZED /* with the pc of its `new` */
};

/* The tag, and what is with it in the upper half. */
typedef uint32_t plumb_type;
static inline plumb_type plumb_type_of(enum plumb_type_tag tag, uint32_t with) {
    return (uint32_t)tag | with << 16;
}
static inline enum plumb_type_tag plumb_tag_of(plumb_type type) {
    return (enum plumb_type_tag)(type & 0xffff);
}

struct plumb_frame {
    uint32_t pc;
    const plumb_type* types; /* of the locals, then of the stack */
    uint32_t local_count, stack_count;
};

struct plumb_frames {
    plumb_type* types; /* of all */
    struct plumb_frame* all;
    uint32_t count; /* the first one is that with which the method begins, and is in no table */
};

struct plumb_frame_method {
    struct plumb_constants* constants;
    struct plumb_utf8 descriptor;
    uint32_t class_index, max_locals, max_stack;
    bool is_static, begins_uninitialized;
};

/* `table`: the attribute's content, at NULL without one. False: it makes no sense. Either way to be ended. */
bool plumb_frames_begin(struct plumb_frames* frames, const struct plumb_frame_method* method,
                        struct plumb_class_input table);
void plumb_frames_end(struct plumb_frames* frames);

struct plumb_frame_changes {
    const int32_t* places; /* by old pc; plumb_no_place */
    uint32_t code_bytes;
    uint32_t token_pc; /* from here on there is a long behind the locals that the method has */
    uint32_t handler_place, throwable_class; /* 0: there is no handler */
};

/* The new attribute's content, with a frame for the handler, if there is one. */
bool plumb_put_moved_frames(struct plumb_class_output* output, const struct plumb_frames* frames,
                            const struct plumb_frame_method* method,
                            const struct plumb_frame_changes* changes);

#endif
