#include "stack_map.h"

#include "byte_code.h"

/* More than any code that is not made to be large. */
enum { types_max = 1 << 22 };

enum {
    SAME_LAST = 63,
    ONE_STACK_LAST = 127,
    ONE_STACK_EXTENDED = 247,
    CHOP_FIRST = 248,
    CHOP_LAST = 250,
    SAME_EXTENDED = 251,
    APPEND_LAST = 254,
    FULL = 255
};

struct frame_reader {
    struct plumb_frames* frames;
    const struct plumb_frame_method* method;
    size_t used, room; /* of all types */
};

static bool has_room(const struct frame_reader* reader, size_t count) {
    return reader->room - reader->used >= count;
}

static bool put_type(struct frame_reader* reader, plumb_type type) {
    if (!has_room(reader, 1)) return false;
    reader->frames->types[reader->used++] = type;
    return true;
}

/* Of one parameter: returns how many bytes of the descriptor it has. 0: it is none. */
static size_t put_parameter(struct frame_reader* reader, const char* at, size_t bytes) {
    size_t length = 0;
    while (length < bytes && at[length] == '[')
        length++;
    if (length == bytes) return 0;
    const bool is_array = length != 0;
    const char kind = at[length++];
    if (kind == 'L') {
        const char* const end = memchr(at, ';', bytes);
        if (!end) return 0;
        length = (size_t)(end - at) + 1;
    }
    if (kind == 'L' || is_array) {
        /* A class by its name, an array by its descriptor. */
        const struct plumb_utf8 name = is_array ? (struct plumb_utf8){(const uint8_t*)at, length}
                                                : (struct plumb_utf8){(const uint8_t*)at + 1, length - 2};
        const uint32_t class_index = plumb_add_class(reader->method->constants, name);
        return put_type(reader, plumb_type_of(PLUMB_TYPE_OBJECT, class_index)) ? length : 0;
    }
    const enum plumb_type_tag tag = kind == 'J'   ? PLUMB_TYPE_LONG
                                    : kind == 'D' ? PLUMB_TYPE_DOUBLE
                                    : kind == 'F' ? PLUMB_TYPE_FLOAT
                                                  : PLUMB_TYPE_INT;
    return put_type(reader, plumb_type_of(tag, 0)) ? length : 0;
}

static bool put_first_frame(struct frame_reader* reader) {
    const struct plumb_frame_method* const method = reader->method;
    const char* at = (const char*)method->descriptor.at;
    const char* const end = at + method->descriptor.bytes;
    if (!method->is_static && !put_type(reader, method->begins_uninitialized
                                                    ? plumb_type_of(PLUMB_TYPE_UNINITIALIZED_THIS, 0)
                                                    : plumb_type_of(PLUMB_TYPE_OBJECT, method->class_index)))
        return false;
    if (at == end || *at++ != '(') return false;
    while (at < end && *at != ')') {
        const size_t bytes = put_parameter(reader, at, (size_t)(end - at));
        if (bytes == 0) return false;
        at += bytes;
    }
    reader->frames->all[0] = (struct plumb_frame){0, reader->frames->types, (uint32_t)reader->used, 0};
    reader->frames->count = 1;
    return at < end;
}

static bool read_type(struct frame_reader* reader, struct plumb_class_input* table) {
    const uint32_t tag = plumb_get_u8(table);
    if (tag > PLUMB_TYPE_UNINITIALIZED) return false;
    const uint32_t with =
        tag == PLUMB_TYPE_OBJECT || tag == PLUMB_TYPE_UNINITIALIZED ? plumb_get_u16(table) : 0;
    return put_type(reader, plumb_type_of((enum plumb_type_tag)tag, with));
}

static bool read_types(struct frame_reader* reader, struct plumb_class_input* table, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (!read_type(reader, table)) return false;
    }
    return true;
}

static bool copy_locals(struct frame_reader* reader, const struct plumb_frame* from, uint32_t count) {
    if (count > from->local_count || !has_room(reader, count)) return false;
    if (count != 0) memcpy(reader->frames->types + reader->used, from->types, count * sizeof(plumb_type));
    reader->used += count;
    return true;
}

/* How many locals it has of those before it, how many more, and how many types are on its stack. */
struct frame_head {
    uint32_t kept, more, stack, delta;
    bool is_full;
};

static bool read_head(struct plumb_class_input* table, const struct plumb_frame* before,
                      struct frame_head* head) {
    const uint32_t kind = plumb_get_u8(table);
    *head = (struct frame_head){before->local_count, 0, 0, 0, kind == FULL};
    if (kind > ONE_STACK_LAST && kind < ONE_STACK_EXTENDED) return false;
    head->delta = kind <= SAME_LAST        ? kind
                  : kind <= ONE_STACK_LAST ? kind - SAME_LAST - 1
                                           : plumb_get_u16(table);
    if ((kind > SAME_LAST && kind <= ONE_STACK_LAST) || kind == ONE_STACK_EXTENDED) head->stack = 1;
    if (kind >= CHOP_FIRST && kind <= CHOP_LAST) {
        const uint32_t chopped = SAME_EXTENDED - kind;
        if (chopped > head->kept) return false;
        head->kept -= chopped;
    }
    if (kind > SAME_EXTENDED && kind <= APPEND_LAST) head->more = kind - SAME_EXTENDED;
    if (head->is_full) {
        head->kept = 0;
        head->more = plumb_get_u16(table);
    }
    return true;
}

static bool read_frame(struct frame_reader* reader, struct plumb_class_input* table) {
    struct plumb_frames* const frames = reader->frames;
    const struct plumb_frame* const before = &frames->all[frames->count - 1];
    struct plumb_frame* const frame = &frames->all[frames->count];
    struct frame_head head;
    const size_t begin = reader->used;
    if (!read_head(table, before, &head) || !copy_locals(reader, before, head.kept) ||
        !read_types(reader, table, head.more))
        return false;
    if (head.is_full) head.stack = plumb_get_u16(table);
    if (!read_types(reader, table, head.stack)) return false;
    frame->pc = before->pc + head.delta + (frames->count > 1 ? 1 : 0);
    frame->types = frames->types + begin;
    frame->local_count = head.kept + head.more;
    frame->stack_count = head.stack;
    frames->count++;
    return true;
}

bool plumb_frames_begin(struct plumb_frames* frames, const struct plumb_frame_method* method,
                        struct plumb_class_input table) {
    memset(frames, 0, sizeof(*frames));
    const uint32_t count = table.at ? plumb_get_u16(&table) : 0;
    const uint64_t most = method->max_locals + (uint64_t)count * (method->max_locals + method->max_stack);
    struct frame_reader reader = {frames, method, 0, (size_t)most};
    if (most > types_max) return false;
    frames->types = calloc(reader.room + 1, sizeof(*frames->types));
    frames->all = calloc((size_t)count + 1, sizeof(*frames->all));
    if (!frames->types || !frames->all || !put_first_frame(&reader)) return false;
    for (uint32_t i = 0; i < count; i++) {
        if (!read_frame(&reader, &table)) return false;
    }
    return !table.failed && table.at == table.end;
}

void plumb_frames_end(struct plumb_frames* frames) {
    free(frames->types);
    free(frames->all);
}

/* What was written before, so that what is the same needs no more than its place. */
struct frame_writer {
    struct plumb_class_output* output;
    const struct plumb_frame_method* method;
    const struct plumb_frame_changes* changes;
    plumb_type *locals, *before; /* room for one more than the method has */
    uint32_t local_count, before_count;
    uint32_t next_place; /* behind the frame before */
};

static uint32_t slots_of(plumb_type type) {
    const enum plumb_type_tag tag = plumb_tag_of(type);
    return tag == PLUMB_TYPE_LONG || tag == PLUMB_TYPE_DOUBLE ? 2 : 1;
}

static bool set_locals(struct frame_writer* writer, const struct plumb_frame* frame, bool has_token) {
    uint32_t slots = 0;
    writer->local_count = 0;
    for (uint32_t i = 0; i < frame->local_count; i++) {
        slots += slots_of(frame->types[i]);
        if (slots > writer->method->max_locals) return false;
        writer->locals[writer->local_count++] = frame->types[i];
    }
    if (!has_token) return true;
    for (; slots < writer->method->max_locals; slots++)
        writer->locals[writer->local_count++] = plumb_type_of(PLUMB_TYPE_TOP, 0);
    writer->locals[writer->local_count++] = plumb_type_of(PLUMB_TYPE_LONG, 0);
    return true;
}

static bool put_moved_type(struct frame_writer* writer, plumb_type type) {
    uint32_t with = type >> 16;
    const enum plumb_type_tag tag = plumb_tag_of(type);
    plumb_write_u8(writer->output, tag);
    if (tag == PLUMB_TYPE_UNINITIALIZED) {
        if (with >= writer->changes->code_bytes || writer->changes->places[with] == plumb_no_place)
            return false;
        with = (uint32_t)writer->changes->places[with];
    }
    if (tag == PLUMB_TYPE_OBJECT || tag == PLUMB_TYPE_UNINITIALIZED) plumb_write_u16(writer->output, with);
    return true;
}

static bool put_moved_types(struct frame_writer* writer, const plumb_type* types, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (!put_moved_type(writer, types[i])) return false;
    }
    return true;
}

static bool put_short_frame(struct frame_writer* writer, uint32_t delta, const plumb_type* stack,
                            uint32_t stack_count) {
    const uint32_t first = stack_count == 0 ? 0 : SAME_LAST + 1;
    if (delta <= SAME_LAST) {
        plumb_write_u8(writer->output, first + delta);
    } else {
        plumb_write_u8(writer->output, stack_count == 0 ? SAME_EXTENDED : ONE_STACK_EXTENDED);
        plumb_write_u16(writer->output, delta);
    }
    return put_moved_types(writer, stack, stack_count);
}

static bool put_full_frame(struct frame_writer* writer, uint32_t delta, const plumb_type* stack,
                           uint32_t stack_count) {
    plumb_write_u8(writer->output, FULL);
    plumb_write_u16(writer->output, delta);
    plumb_write_u16(writer->output, writer->local_count);
    if (!put_moved_types(writer, writer->locals, writer->local_count)) return false;
    plumb_write_u16(writer->output, stack_count);
    return put_moved_types(writer, stack, stack_count);
}

/* With the locals that are set. */
static bool put_frame(struct frame_writer* writer, uint32_t place, const plumb_type* stack,
                      uint32_t stack_count) {
    if (place < writer->next_place) return false;
    const uint32_t delta = place - writer->next_place;
    const bool is_same =
        stack_count <= 1 && writer->local_count == writer->before_count &&
        (writer->local_count == 0 ||
         memcmp(writer->locals, writer->before, writer->local_count * sizeof(*writer->locals)) == 0);
    plumb_type* const spare = writer->before;
    const bool is_put = is_same ? put_short_frame(writer, delta, stack, stack_count)
                                : put_full_frame(writer, delta, stack, stack_count);
    writer->before = writer->locals;
    writer->before_count = writer->local_count;
    writer->locals = spare;
    writer->next_place = place + 1;
    return is_put;
}

static bool put_all_frames(struct frame_writer* writer, const struct plumb_frames* frames) {
    const struct plumb_frame_changes* const changes = writer->changes;
    plumb_write_u16(writer->output,
                    frames->count - (changes->throwable_class == 0 ? 1 : 0)); /* without the first */
    if (!set_locals(writer, &frames->all[0], false)) return false;
    memcpy(writer->before, writer->locals, writer->local_count * sizeof(*writer->locals));
    writer->before_count = writer->local_count;
    for (uint32_t i = 1; i < frames->count; i++) {
        const struct plumb_frame* const frame = &frames->all[i];
        if (frame->pc >= changes->code_bytes || changes->places[frame->pc] == plumb_no_place ||
            !set_locals(writer, frame, frame->pc >= changes->token_pc) ||
            !put_frame(writer, (uint32_t)changes->places[frame->pc], frame->types + frame->local_count,
                       frame->stack_count))
            return false;
    }
    if (changes->throwable_class == 0) return true;
    const struct plumb_frame nothing = {0, NULL, 0, 0};
    const plumb_type thrown = plumb_type_of(PLUMB_TYPE_OBJECT, changes->throwable_class);
    return set_locals(writer, &nothing, true) && put_frame(writer, changes->handler_place, &thrown, 1);
}

bool plumb_put_moved_frames(struct plumb_class_output* output, const struct plumb_frames* frames,
                            const struct plumb_frame_method* method,
                            const struct plumb_frame_changes* changes) {
    const size_t room = (size_t)method->max_locals + 2;
    plumb_type *const locals = calloc(room, sizeof(*locals)), *const before = calloc(room, sizeof(*before));
    struct frame_writer writer = {output, method, changes, locals, before, 0, 0, 0};
    const bool is_put = locals && before && frames->count <= 65535 && put_all_frames(&writer, frames);
    free(locals);
    free(before);
    return is_put;
}
