#include "method_code.h"

enum {
    code_bytes_max = 65535,
    locals_max = 65535,
    compiled_bytes_max = 8000, /* HotSpot compiles no longer method (-XX:-DontCompileHugeMethods) */
    token_slots = 2
};

static struct plumb_utf8 utf8_of(const char* text) {
    return (struct plumb_utf8){(const uint8_t*)text, strlen(text)};
}

static void add_hook_constants(struct plumb_class_work* work) {
    struct plumb_constants* const constants = &work->constants;
    if (work->enter != 0) return;
    const uint32_t class_index = plumb_add_class(constants, utf8_of(PLUMB_HOOK_CLASS));
    work->enter = plumb_add_method(constants, class_index, PLUMB_HOOK_ENTER, PLUMB_HOOK_ENTER_TYPE);
    work->exit = plumb_add_method(constants, class_index, PLUMB_HOOK_EXIT, PLUMB_HOOK_EXIT_TYPE);
    work->thrown = plumb_add_method(constants, class_index, PLUMB_HOOK_THROWN, PLUMB_HOOK_THROWN_TYPE);
    work->throwable = plumb_add_class(constants, utf8_of("java/lang/Throwable"));
    work->frames_name = plumb_add_utf8(constants, utf8_of("StackMapTable"));
}

static const char* read_code(struct plumb_method_code* method, struct plumb_class_input input) {
    method->max_stack = plumb_get_u16(&input);
    method->max_locals = plumb_get_u16(&input);
    method->code.bytes = plumb_get_u32(&input);
    method->code.at = plumb_get_bytes(&input, method->code.bytes);
    method->handler_count = plumb_get_u16(&input);
    method->handlers = plumb_get_bytes(&input, (size_t)method->handler_count * 8);
    method->attribute_count = plumb_get_u16(&input);
    method->attributes = input;
    for (uint32_t i = 0; i < method->attribute_count && !input.failed; i++) {
        struct plumb_class_input content;
        const struct plumb_utf8 name = plumb_next_attribute(&method->work->constants, &input, &content);
        if (plumb_utf8_is(name, "StackMapTable")) method->frame_table = content;
    }
    const bool is_right = !input.failed && method->code.bytes != 0 && method->code.bytes <= code_bytes_max;
    return is_right ? NULL : PLUMB_CODE_NOT_UNDERSTOOD;
}

static const char* look_for_subroutines(const struct plumb_method_code* method) {
    for (uint32_t pc = 0, bytes; pc < method->code.bytes; pc += bytes) {
        uint32_t opcode = method->code.at[pc];
        bytes = plumb_instruction_bytes(&method->code, pc);
        if (bytes == 0) return PLUMB_CODE_NOT_UNDERSTOOD;
        if (opcode == PLUMB_WIDE) opcode = method->code.at[pc + 1];
        if (opcode == PLUMB_JSR || opcode == PLUMB_JSR_W || opcode == PLUMB_RET)
            return "it has subroutines (jsr), as of old compilers";
    }
    return NULL;
}

static bool has_type(const struct plumb_frame* frame, enum plumb_type_tag tag) {
    for (uint32_t i = 0; i < frame->local_count + frame->stack_count; i++) {
        if (plumb_tag_of(frame->types[i]) == tag) return true;
    }
    return false;
}

/* Objects that are made and not initialized; each may be there several times. */
static uint32_t count_uninitialized(const struct plumb_frame* frame) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < frame->local_count + frame->stack_count; i++) {
        bool is_new = plumb_tag_of(frame->types[i]) == PLUMB_TYPE_UNINITIALIZED;
        for (uint32_t j = 0; is_new && j < i; j++)
            is_new = frame->types[j] != frame->types[i];
        count += is_new;
    }
    return count;
}

static bool calls_constructor(const struct plumb_method_code* method, uint32_t pc) {
    return method->code.at[pc] == PLUMB_INVOKE_SPECIAL &&
           plumb_utf8_is(
               plumb_method_constant_name(&method->work->constants, plumb_u16_at(method->code.at + pc + 1)),
               "<init>");
}

static bool has_handler_before(const struct plumb_method_code* method, uint32_t pc) {
    for (uint32_t i = 0; i < method->handler_count; i++)
        if (plumb_u16_at(method->handlers + (size_t)i * 8) < pc) return true;
    return false;
}

/*
 * In a constructor `this` can not be handed on before this() or super() was called, nor may a handler reach over that. It is the call of
 * a constructor for which no object is waiting that was made by `new`. Where code comes together, frames tell how many are waiting, and
 * whether `this` is. There has to be one such call, with all places before it where `this` is not initialized yet, and all
 * others behind it.
 */
static bool find_call_of_super(struct plumb_method_code* method) {
    const struct plumb_frames* const frames = &method->frames;
    const bool has_frames = frames->count > 1;
    uint32_t next_frame = 1, waiting = 0;
    bool found = false;
    for (uint32_t pc = 0; pc < method->code.bytes; pc += plumb_instruction_bytes(&method->code, pc)) {
        const uint32_t opcode = method->code.at[pc];
        if (next_frame < frames->count && frames->all[next_frame].pc == pc) {
            const struct plumb_frame* const frame = &frames->all[next_frame++];
            if (has_type(frame, PLUMB_TYPE_UNINITIALIZED_THIS) == found) return false;
            waiting = count_uninitialized(frame);
        }
        if (found) continue;
        if (!has_frames && (plumb_is_jump(opcode) || opcode == PLUMB_ATHROW)) return false;
        if (opcode == PLUMB_NEW) waiting++;
        if (!calls_constructor(method, pc)) continue;
        found = waiting == 0;
        if (found)
            method->insertions.entry_pc = pc + 3;
        else
            waiting--;
    }
    /* In a class without frames, a handler's code is checked with what is known where its range begins. */
    if (found && !has_frames && has_handler_before(method, method->insertions.entry_pc)) return false;
    return found && method->insertions.entry_pc < method->code.bytes;
}

/* Where an instruction stores an object; locals_max: it does not. */
static uint32_t local_of_object_stored(const struct plumb_byte_code* code, uint32_t pc) {
    const uint32_t opcode = code->at[pc];
    if (opcode == PLUMB_ASTORE) return code->at[pc + 1];
    if (opcode >= PLUMB_ASTORE_FIRST && opcode <= PLUMB_ASTORE_LAST) return opcode - PLUMB_ASTORE_FIRST;
    if (opcode == PLUMB_WIDE && code->at[pc + 1] == PLUMB_ASTORE) return plumb_u16_at(code->at + pc + 2);
    return locals_max;
}

static bool is_object_parameter(const struct plumb_frame* first, uint32_t local) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < first->local_count && at <= local; i++) {
        const enum plumb_type_tag tag = plumb_tag_of(first->types[i]);
        if (at == local) return tag == PLUMB_TYPE_OBJECT;
        at += tag == PLUMB_TYPE_LONG || tag == PLUMB_TYPE_DOUBLE ? 2 : 1;
    }
    return false;
}

/* HotSpot's old verifier checks a handler with what all of its range leaves in a local, merged: for that it would load the classes of
 * both objects, which may not be there. */
static bool merges_parameter(const struct plumb_method_code* method) {
    for (uint32_t pc = 0; pc < method->code.bytes; pc += plumb_instruction_bytes(&method->code, pc)) {
        const uint32_t local = local_of_object_stored(&method->code, pc);
        if (local != locals_max && is_object_parameter(&method->frames.all[0], local)) return true;
    }
    return false;
}

static uint32_t put_push(uint8_t* to, uint32_t constant) {
    to[0] = PLUMB_LDC_W;
    to[1] = (uint8_t)(constant >> 8);
    to[2] = (uint8_t)constant;
    return 3;
}

static uint32_t put_call(uint8_t* to, uint32_t constant) {
    const uint32_t bytes = put_push(to, constant);
    to[0] = PLUMB_INVOKE_STATIC;
    return bytes;
}

static uint32_t put_token(uint8_t* to, uint32_t opcode, uint32_t local) {
    uint32_t bytes = 0;
    if (local > 255) to[bytes++] = PLUMB_WIDE;
    to[bytes++] = (uint8_t)opcode;
    if (local > 255) to[bytes++] = (uint8_t)(local >> 8);
    to[bytes++] = (uint8_t)local;
    return bytes;
}

static void make_hooks(struct plumb_method_code* method, uint32_t number) {
    struct plumb_class_work* const work = method->work;
    const uint32_t token = method->max_locals;
    add_hook_constants(work);
    const uint32_t pushed = plumb_add_integer(&work->constants, number);
    uint32_t bytes = put_push(method->entry, pushed);
    bytes += put_call(method->entry + bytes, work->enter);
    bytes += put_token(method->entry + bytes, PLUMB_LSTORE, token);
    method->insertions.entry = (struct plumb_insertion){method->entry, bytes};
    bytes = put_push(method->exit, pushed);
    bytes += put_token(method->exit + bytes, PLUMB_LLOAD, token);
    bytes += put_call(method->exit + bytes, work->exit);
    method->insertions.exit = (struct plumb_insertion){method->exit, bytes};
    if (!method->has_handler) return;
    method->handler[0] = PLUMB_DUP;
    bytes = 1 + put_push(method->handler + 1, pushed);
    bytes += put_token(method->handler + bytes, PLUMB_LLOAD, token);
    bytes += put_call(method->handler + bytes, work->thrown);
    method->handler[bytes++] = PLUMB_ATHROW;
    method->handler_bytes = bytes;
}

static uint32_t new_max_stack(const struct plumb_method_code* method) {
    enum { for_return = 3, for_handler = 5 };
    return method->max_stack + for_return > for_handler ? method->max_stack + for_return : for_handler;
}

static const char* put_code(struct plumb_class_output* output, const struct plumb_method_code* method) {
    if (plumb_hooked_code_bytes(method) > code_bytes_max) return "with hooks its code would be too long";
    if (plumb_hooked_code_bytes(method) > compiled_bytes_max && method->code.bytes <= compiled_bytes_max)
        return "with hooks its code would be too long to be compiled";
    plumb_write_u16(output, new_max_stack(method));
    plumb_write_u16(output, method->max_locals + token_slots);
    plumb_write_u32(output, plumb_hooked_code_bytes(method));
    if (!plumb_put_moved_code(output, &method->code, &method->insertions, method->places))
        return "with hooks a jump would be too far";
    plumb_write_bytes(output, method->handler, method->handler_bytes);
    return plumb_put_code_handlers(output, method) && plumb_put_code_tables(output, method)
               ? NULL
               : PLUMB_CODE_NOT_UNDERSTOOD;
}

static const char* change_code(struct plumb_method_code* method, uint32_t number,
                               struct plumb_class_output* output) {
    const struct plumb_frame_method frame_method = plumb_frame_method_of(method);
    const char* reason = look_for_subroutines(method);
    if (reason) return reason;
    if (method->max_locals + token_slots > locals_max || method->handler_count + 1 > 65535 ||
        new_max_stack(method) > 65535)
        return "it has too many locals or handlers";
    const bool has_frames = method->work->version >= plumb_first_version_with_frames;
    struct plumb_class_input no_table = {NULL, NULL, false};
    if (!plumb_frames_begin(&method->frames, &frame_method, has_frames ? method->frame_table : no_table))
        return PLUMB_CODE_NOT_UNDERSTOOD;
    if (method->has_handler && method->work->version <= plumb_last_version_merged && merges_parameter(method))
        return "it is checked without frames, and uses an object's parameter again";
    if (method->is_constructor && !find_call_of_super(method))
        return "where it calls this() or super() is not found";
    make_hooks(method, number);
    method->places = malloc((method->code.bytes + 1) * sizeof(*method->places));
    if (!method->places || !plumb_place_code(&method->code, &method->insertions, method->places))
        return PLUMB_CODE_NOT_UNDERSTOOD;
    return put_code(output, method);
}

const char* plumb_hook_code(struct plumb_method_code* method, uint32_t number,
                            struct plumb_class_input content, struct plumb_class_output* output) {
    const char* reason = read_code(method, content);
    if (!reason) reason = change_code(method, number, output);
    plumb_frames_end(&method->frames);
    free(method->places);
    if (!reason && (output->failed || method->work->constants.failed))
        reason = "the class has too many constants";
    return reason;
}
