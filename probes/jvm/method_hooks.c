#include "method_hooks.h"

#include "byte_code.h"
#include "stack_map.h"

enum {
    ACCESS_STATIC = 0x8,
    ACCESS_NATIVE = 0x100,
    code_bytes_max = 65535,
    locals_max = 65535,
    first_version_with_frames = 50,
    compiled_bytes_max = 8000, /* HotSpot compiles no longer method (-XX:-DontCompileHugeMethods) */
    entry_bytes_max = 10,
    handler_bytes_max = 12,
    token_slots = 2
};

/* One class on its way. Constants that the hooks need are there from the first hooked method on. */
struct class_work {
    const struct plumb_method_choice* choice;
    struct plumb_constants constants;
    struct plumb_utf8 class_name;
    uint32_t version, class_index;
    uint32_t enter, exit, thrown, throwable, frames_name; /* 0: not added yet */
    uint32_t hooked_count;
};

/* A method's code, as it is in the file. */
struct code_work {
    struct class_work* work;
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
    uint8_t entry[entry_bytes_max], exit[entry_bytes_max], handler[handler_bytes_max];
    uint32_t handler_bytes;
};

static const char not_understood[] = "its code is not understood";

static struct plumb_utf8 utf8_of(const char* text) {
    return (struct plumb_utf8){(const uint8_t*)text, strlen(text)};
}

static void add_hook_constants(struct class_work* work) {
    struct plumb_constants* const constants = &work->constants;
    if (work->enter != 0) return;
    const uint32_t class_index = plumb_add_class(constants, utf8_of(PLUMB_HOOK_CLASS));
    work->enter = plumb_add_method(constants, class_index, PLUMB_HOOK_ENTER, PLUMB_HOOK_ENTER_TYPE);
    work->exit = plumb_add_method(constants, class_index, PLUMB_HOOK_EXIT, PLUMB_HOOK_EXIT_TYPE);
    work->thrown = plumb_add_method(constants, class_index, PLUMB_HOOK_THROWN, PLUMB_HOOK_THROWN_TYPE);
    work->throwable = plumb_add_class(constants, utf8_of("java/lang/Throwable"));
    work->frames_name = plumb_add_utf8(constants, utf8_of("StackMapTable"));
}

/* What an attribute is called, and its content. */
static struct plumb_utf8 next_attribute(const struct class_work* work, struct plumb_class_input* input,
                                        struct plumb_class_input* content) {
    const struct plumb_utf8 name = plumb_utf8_constant(&work->constants, plumb_get_u16(input));
    const uint32_t bytes = plumb_get_u32(input);
    const uint8_t* const at = plumb_get_bytes(input, bytes);
    *content = (struct plumb_class_input){at, at ? at + bytes : NULL, !at};
    if (!name.at) input->failed = true;
    return name;
}

static const char* read_code(struct code_work* method, struct plumb_class_input input) {
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
        const struct plumb_utf8 name = next_attribute(method->work, &input, &content);
        if (plumb_utf8_is(name, "StackMapTable")) method->frame_table = content;
    }
    const bool is_right = !input.failed && method->code.bytes != 0 && method->code.bytes <= code_bytes_max;
    return is_right ? NULL : not_understood;
}

static const char* look_for_subroutines(const struct code_work* method) {
    for (uint32_t pc = 0, bytes; pc < method->code.bytes; pc += bytes) {
        uint32_t opcode = method->code.at[pc];
        bytes = plumb_instruction_bytes(&method->code, pc);
        if (bytes == 0) return not_understood;
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

static bool calls_constructor(const struct code_work* method, uint32_t pc) {
    return method->code.at[pc] == PLUMB_INVOKE_SPECIAL &&
           plumb_utf8_is(
               plumb_method_constant_name(&method->work->constants, plumb_u16_at(method->code.at + pc + 1)),
               "<init>");
}

/*
 * In a constructor `this` can not be handed on before this() or super() was called, nor may a handler reach over that. It is the call of
 * a constructor for which no object is waiting that was made by `new`. Where code comes together, frames tell how many are waiting, and
 * whether `this` is. There has to be one such call, with all places before it where `this` is not initialized yet, and all
 * others behind it.
 */
static bool find_call_of_super(struct code_work* method) {
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
    return found && method->insertions.entry_pc < method->code.bytes;
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

static void make_hooks(struct code_work* method, uint32_t number) {
    struct class_work* const work = method->work;
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

static struct plumb_frame_method frame_method_of(const struct code_work* method) {
    return (struct plumb_frame_method){
        &method->work->constants, method->descriptor, method->work->class_index, method->max_locals,
        method->max_stack,        method->is_static,  method->is_constructor};
}

static uint32_t new_code_bytes(const struct code_work* method) {
    return (uint32_t)method->places[method->code.bytes] + method->handler_bytes;
}

/* Of an old pc; -1: nothing begins there. The end has a place as well. */
static int32_t place_of(const struct code_work* method, uint32_t pc) {
    return pc <= method->code.bytes ? method->places[pc] : plumb_no_place;
}

static bool put_handlers(struct plumb_class_output* output, const struct code_work* method) {
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
static int32_t begin_of(const struct code_work* method, uint32_t pc) {
    return pc == 0 ? 0 : place_of(method, pc);
}

static bool put_lines(struct plumb_class_output* output, const struct code_work* method,
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

static bool put_locals(struct plumb_class_output* output, const struct code_work* method,
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

static size_t begin_attribute(struct plumb_class_output* output, uint32_t name_index) {
    plumb_write_u16(output, name_index);
    plumb_write_u32(output, 0);
    return output->bytes;
}

static void end_attribute(struct plumb_class_output* output, size_t begin) {
    plumb_set_u32(output, begin - 4, (uint32_t)(output->bytes - begin));
}

static bool put_frames(struct plumb_class_output* output, const struct code_work* method) {
    const struct plumb_frame_method frame_method = frame_method_of(method);
    const struct plumb_frame_changes changes = {
        method->places, method->code.bytes, method->insertions.entry_pc,
        (uint32_t)place_of(method, method->code.bytes), method->has_handler ? method->work->throwable : 0};
    const size_t begin = begin_attribute(output, method->work->frames_name);
    const bool is_put = plumb_put_moved_frames(output, &method->frames, &frame_method, &changes);
    end_attribute(output, begin);
    return is_put;
}

/* Tables that are wrong are nothing the JVM stumbles over: without them the code is the same. */
static bool put_code_attributes(struct plumb_class_output* output, const struct code_work* method) {
    const size_t count_place = output->bytes;
    struct plumb_class_input input = method->attributes;
    uint32_t count = 0;
    plumb_write_u16(output, 0);
    for (uint32_t i = 0; i < method->attribute_count; i++) {
        const uint32_t name_index = plumb_u16_at(input.at);
        struct plumb_class_input content;
        const struct plumb_utf8 name = next_attribute(method->work, &input, &content);
        const bool is_lines = plumb_utf8_is(name, "LineNumberTable");
        if (!is_lines && !plumb_utf8_is(name, "LocalVariableTable") &&
            !plumb_utf8_is(name, "LocalVariableTypeTable"))
            continue;
        const size_t before = output->bytes, begin = begin_attribute(output, name_index);
        const bool is_put =
            is_lines ? put_lines(output, method, content) : put_locals(output, method, content);
        end_attribute(output, begin);
        if (is_put)
            count++;
        else
            output->bytes = before;
    }
    if (method->work->version >= first_version_with_frames) {
        if (!put_frames(output, method)) return false;
        count++;
    }
    plumb_set_u16(output, count_place, count);
    return true;
}

static uint32_t new_max_stack(const struct code_work* method) {
    enum { for_return = 3, for_handler = 5 };
    return method->max_stack + for_return > for_handler ? method->max_stack + for_return : for_handler;
}

static const char* put_code(struct plumb_class_output* output, const struct code_work* method) {
    if (new_code_bytes(method) > code_bytes_max) return "with hooks its code would be too long";
    if (new_code_bytes(method) > compiled_bytes_max && method->code.bytes <= compiled_bytes_max)
        return "with hooks its code would be too long to be compiled";
    plumb_write_u16(output, new_max_stack(method));
    plumb_write_u16(output, method->max_locals + token_slots);
    plumb_write_u32(output, new_code_bytes(method));
    if (!plumb_put_moved_code(output, &method->code, &method->insertions, method->places))
        return "with hooks a jump would be too far";
    plumb_write_bytes(output, method->handler, method->handler_bytes);
    return put_handlers(output, method) && put_code_attributes(output, method) ? NULL : not_understood;
}

static const char* change_code(struct code_work* method, uint32_t number, struct plumb_class_output* output) {
    const struct plumb_frame_method frame_method = frame_method_of(method);
    const char* reason = look_for_subroutines(method);
    if (reason) return reason;
    if (method->max_locals + token_slots > locals_max || method->handler_count + 1 > 65535 ||
        new_max_stack(method) > 65535)
        return "it has too many locals or handlers";
    const bool has_frames = method->work->version >= first_version_with_frames;
    struct plumb_class_input no_table = {NULL, NULL, false};
    if (!plumb_frames_begin(&method->frames, &frame_method, has_frames ? method->frame_table : no_table))
        return not_understood;
    if (method->is_constructor && !find_call_of_super(method))
        return "where it calls this() or super() is not found";
    make_hooks(method, number);
    method->places = malloc((method->code.bytes + 1) * sizeof(*method->places));
    if (!method->places || !plumb_place_code(&method->code, &method->insertions, method->places))
        return not_understood;
    return put_code(output, method);
}

/* The content of its attribute Code. NULL, or why there is none. */
static const char* hook_code(struct code_work* method, uint32_t number, struct plumb_class_input content,
                             struct plumb_class_output* output) {
    const char* reason = read_code(method, content);
    if (!reason) reason = change_code(method, number, output);
    plumb_frames_end(&method->frames);
    free(method->places);
    if (!reason && (output->failed || method->work->constants.failed))
        reason = "the class has too many constants";
    return reason;
}

struct method_in_file {
    const uint8_t *begin, *code, *end; /* code: its attribute, at the name's index; NULL: none */
    uint32_t access;
    struct plumb_hooked_method names;
};

static void read_method(const struct class_work* work, struct plumb_class_input* input,
                        struct method_in_file* method) {
    memset(method, 0, sizeof(*method));
    method->begin = input->at;
    method->access = plumb_get_u16(input);
    method->names.class_name = work->class_name;
    method->names.name = plumb_utf8_constant(&work->constants, plumb_get_u16(input));
    method->names.descriptor = plumb_utf8_constant(&work->constants, plumb_get_u16(input));
    const uint32_t attribute_count = plumb_get_u16(input);
    for (uint32_t i = 0; i < attribute_count && !input->failed; i++) {
        struct plumb_class_input content;
        const uint8_t* const begin = input->at;
        if (plumb_utf8_is(next_attribute(work, input, &content), "Code")) method->code = begin;
    }
    method->end = input->at;
    if (!method->names.name.at || !method->names.descriptor.at) input->failed = true;
}

static const char* hook_method(struct class_work* work, const struct method_in_file* method, uint32_t number,
                               struct plumb_class_output* output) {
    if (!method->code)
        return (method->access & ACCESS_NATIVE) != 0 ? "it is native" : "it has no code (abstract)";
    const struct plumb_hooked_method* const names = &method->names;
    const bool is_constructor = plumb_utf8_is(names->name, "<init>");
    const bool is_first = is_constructor && plumb_utf8_is(names->class_name, "java/lang/Object");
    /* That of Object throws nothing, and HotSpot's compiler (17) ends at a handler in it, where it registers finalizers. */
    struct code_work code = {.work = work,
                             .is_static = (method->access & ACCESS_STATIC) != 0,
                             .is_constructor = is_constructor && !is_first,
                             .has_handler = !is_first,
                             .descriptor = names->descriptor};
    const uint32_t code_bytes = plumb_u32_at(method->code + 2);
    const uint8_t* const content = method->code + 6;
    plumb_write_bytes(output, method->begin, (size_t)(method->code - method->begin));
    const size_t begin = begin_attribute(output, plumb_u16_at(method->code));
    const char* const reason =
        hook_code(&code, number, (struct plumb_class_input){content, content + code_bytes, false}, output);
    end_attribute(output, begin);
    plumb_write_bytes(output, content + code_bytes, (size_t)(method->end - (content + code_bytes)));
    return reason;
}

static void put_method(struct class_work* work, const struct method_in_file* method,
                       struct plumb_class_output* output) {
    const struct plumb_method_choice* const choice = work->choice;
    const int32_t number = choice->number_of(choice->context, &method->names);
    const size_t begin = output->bytes;
    const char* reason = NULL;
    if (number >= 0) reason = hook_method(work, method, (uint32_t)number, output);
    if (number >= 0 && !reason) {
        work->hooked_count++;
        return;
    }
    output->bytes = begin;
    plumb_write_bytes(output, method->begin, (size_t)(method->end - method->begin));
    if (reason) choice->leave_alone(choice->context, number, reason);
}

static void skip_fields(const struct class_work* work, struct plumb_class_input* input) {
    const uint32_t count = plumb_get_u16(input);
    for (uint32_t i = 0; i < count && !input->failed; i++) {
        struct method_in_file field;
        read_method(work, input, &field);
    }
}

/* Up to the class's own index, which is what is known of it by now. */
static bool begin_class(struct class_work* work, struct plumb_class_input* input) {
    const uint32_t magic = plumb_get_u32(input);
    plumb_get_u16(input);
    work->version = plumb_get_u16(input);
    if (!plumb_constants_begin(&work->constants, input) || magic != 0xcafebabe) return false;
    plumb_get_u16(input); /* access */
    work->class_index = plumb_get_u16(input);
    work->class_name = plumb_class_constant_name(&work->constants, work->class_index);
    return !input->failed && work->class_name.at;
}

static bool put_class(struct class_work* work, const uint8_t* bytes, const uint8_t* methods,
                      const struct plumb_class_output* changed, const struct plumb_class_input* rest,
                      struct plumb_class_output* output) {
    const struct plumb_constants* const constants = &work->constants;
    plumb_write_bytes(output, bytes, 8); /* magic, version */
    plumb_write_u16(output, constants->next);
    plumb_write_bytes(output, constants->begin, (size_t)(constants->end - constants->begin));
    plumb_write_bytes(output, constants->added.at, constants->added.bytes);
    plumb_write_bytes(output, constants->end, (size_t)(methods - constants->end));
    plumb_write_bytes(output, changed->at, changed->bytes);
    plumb_write_bytes(output, rest->at, (size_t)(rest->end - rest->at));
    return !output->failed && !changed->failed && !constants->failed && !constants->added.failed;
}

static bool put_methods(struct class_work* work, struct plumb_class_input* input,
                        struct plumb_class_output* changed) {
    const uint32_t count = plumb_get_u16(input);
    plumb_write_u16(changed, count);
    for (uint32_t i = 0; i < count; i++) {
        struct method_in_file method;
        read_method(work, input, &method);
        if (input->failed) return false;
        put_method(work, &method, changed);
    }
    return work->hooked_count != 0;
}

bool plumb_hook_methods(const uint8_t* bytes, size_t length, const struct plumb_method_choice* choice,
                        struct plumb_class_output* output) {
    struct plumb_class_input input = {bytes, bytes + length, false};
    struct class_work work = {.choice = choice};
    struct plumb_class_output changed = {NULL, 0, 0, false};
    memset(output, 0, sizeof(*output));
    bool is_hooked = false;
    if (begin_class(&work, &input)) {
        plumb_get_u16(&input); /* what it extends */
        plumb_get_bytes(&input, (size_t)plumb_get_u16(&input) * 2);
        skip_fields(&work, &input);
        const uint8_t* const methods = input.at;
        is_hooked = !input.failed && put_methods(&work, &input, &changed) &&
                    put_class(&work, bytes, methods, &changed, &input, output);
    }
    free(changed.at);
    plumb_constants_end(&work.constants);
    return is_hooked;
}
