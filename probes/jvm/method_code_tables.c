#include "method_code.h"

struct plumb_frame_method plumb_frame_method_of(const struct plumb_method_code* method) {
    return (struct plumb_frame_method){
        &method->work->constants, method->descriptor, method->work->class_index, method->max_locals,
        method->max_stack,        method->is_static,  method->is_constructor};
}

/* Of an old pc; -1: nothing begins there. The end has a place as well. */
static int32_t place_of(const struct plumb_method_code* method, uint32_t pc) {
    return pc <= method->code.bytes ? method->places[pc] : plumb_no_place;
}

bool plumb_put_code_handlers(struct plumb_class_output* output, const struct plumb_method_code* method) {
    plumb_write_u16(output, method->handler_count + (method->has_handler ? 1 : 0));
    for (uint32_t i = 0; i < method->handler_count; i++) {
        const uint8_t* const entry = method->handlers + (size_t)i * 8;
        for (uint32_t field = 0; field < 6; field += 2) {
            const int32_t place = place_of(method, plumb_u16_at(entry + field));
            if (place < 0) return false;
            plumb_write_u16(output, (uint32_t)place);
        }
        plumb_write_bytes(output, entry + 6, 2);
    }
    if (!method->has_handler) return true;
    plumb_write_u16(output, (uint32_t)place_of(method, method->insertions.entry_pc));
    plumb_write_u16(output, (uint32_t)place_of(method, method->code.bytes));
    plumb_write_u16(output, (uint32_t)place_of(method, method->code.bytes));
    plumb_write_u16(output, 0); /* whatever was thrown */
    return true;
}

/* What is at the method's begin is at the hook's: calls from there have a line. */
static int32_t begin_of(const struct plumb_method_code* method, uint32_t pc) {
    return pc == 0 ? 0 : place_of(method, pc);
}

static bool put_lines(struct plumb_class_output* output, const struct plumb_method_code* method,
                      struct plumb_class_input lines) {
    const uint32_t count = plumb_get_u16(&lines);
    plumb_write_u16(output, count);
    for (uint32_t i = 0; i < count; i++) {
        const int32_t place = begin_of(method, plumb_get_u16(&lines));
        if (place < 0) return false;
        plumb_write_u16(output, (uint32_t)place);
        plumb_write_u16(output, plumb_get_u16(&lines));
    }
    return !lines.failed;
}

static bool put_locals(struct plumb_class_output* output, const struct plumb_method_code* method,
                       struct plumb_class_input locals) {
    const uint32_t count = plumb_get_u16(&locals);
    plumb_write_u16(output, count);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t begin_pc = plumb_get_u16(&locals), length = plumb_get_u16(&locals);
        const uint8_t* const rest = plumb_get_bytes(&locals, 6);
        const int32_t begin = begin_of(method, begin_pc), end = place_of(method, begin_pc + length);
        if (!rest || begin < 0 || end < begin) return false;
        plumb_write_u16(output, (uint32_t)begin);
        plumb_write_u16(output, (uint32_t)(end - begin));
        plumb_write_bytes(output, rest, 6);
    }
    return !locals.failed;
}

static bool put_frames(struct plumb_class_output* output, const struct plumb_method_code* method) {
    const struct plumb_frame_method frame_method = plumb_frame_method_of(method);
    const struct plumb_frame_changes changes = {
        method->places, method->code.bytes, method->insertions.entry_pc,
        (uint32_t)place_of(method, method->code.bytes), method->has_handler ? method->work->throwable : 0};
    const size_t begin = plumb_begin_attribute(output, method->work->frames_name);
    const bool is_put = plumb_put_moved_frames(output, &method->frames, &frame_method, &changes);
    plumb_end_attribute(output, begin);
    return is_put;
}

/* Tables that are wrong are nothing the JVM stumbles over: without them the code is the same. */
bool plumb_put_code_tables(struct plumb_class_output* output, const struct plumb_method_code* method) {
    const size_t count_place = output->bytes;
    struct plumb_class_input input = method->attributes;
    uint32_t count = 0;
    plumb_write_u16(output, 0);
    for (uint32_t i = 0; i < method->attribute_count; i++) {
        const uint32_t name_index = plumb_u16_at(input.at);
        struct plumb_class_input content;
        const struct plumb_utf8 name = plumb_next_attribute(&method->work->constants, &input, &content);
        const bool is_lines = plumb_utf8_is(name, "LineNumberTable");
        if (!is_lines && !plumb_utf8_is(name, "LocalVariableTable") &&
            !plumb_utf8_is(name, "LocalVariableTypeTable"))
            continue;
        const size_t before = output->bytes, begin = plumb_begin_attribute(output, name_index);
        const bool is_put =
            is_lines ? put_lines(output, method, content) : put_locals(output, method, content);
        plumb_end_attribute(output, begin);
        if (is_put)
            count++;
        else
            output->bytes = before;
    }
    if (method->work->version >= plumb_first_version_with_frames) {
        if (!put_frames(output, method)) return false;
        count++;
    }
    plumb_set_u16(output, count_place, count);
    return true;
}
