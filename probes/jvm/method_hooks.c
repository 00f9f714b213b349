#include "method_hooks.h"

#include "method_code.h"

enum { ACCESS_STATIC = 0x8, ACCESS_NATIVE = 0x100 };

struct method_in_file {
    const uint8_t *begin, *code, *end; /* code: its attribute, at the name's index; NULL: none */
    uint32_t access;
    struct plumb_hooked_method names;
};

static void read_method(const struct plumb_class_work* work, struct plumb_class_input* input,
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
        if (plumb_utf8_is(plumb_next_attribute(&work->constants, input, &content), "Code"))
            method->code = begin;
    }
    method->end = input->at;
    if (!method->names.name.at || !method->names.descriptor.at) input->failed = true;
}

/* With one that does nothing HotSpot makes objects as if there were none. */
static bool is_empty_finalizer(const struct plumb_hooked_method* names, const uint8_t* content,
                               uint32_t bytes) {
    enum { code_length_at = 4, code_at = 8 };
    return plumb_utf8_is(names->name, "finalize") && plumb_utf8_is(names->descriptor, "()V") &&
           bytes > code_at && plumb_u32_at(content + code_length_at) == 1 &&
           content[code_at] == PLUMB_RETURN_LAST;
}

static const char* hook_method(struct plumb_class_work* work, const struct method_in_file* method,
                               uint32_t number, struct plumb_class_output* output) {
    if (!method->code)
        return (method->access & ACCESS_NATIVE) != 0 ? "it is native" : "it has no code (abstract)";
    const struct plumb_hooked_method* const names = &method->names;
    const bool is_constructor = plumb_utf8_is(names->name, "<init>");
    const bool is_first = is_constructor && plumb_utf8_is(names->class_name, "java/lang/Object");
    /* That of Object throws nothing, and HotSpot's compiler (17) ends at a handler in it, where it registers finalizers. */
    struct plumb_method_code code = {.work = work,
                                     .is_static = (method->access & ACCESS_STATIC) != 0,
                                     .is_constructor = is_constructor && !is_first,
                                     .has_handler = !is_first,
                                     .descriptor = names->descriptor};
    const uint32_t code_bytes = plumb_u32_at(method->code + 2);
    const uint8_t* const content = method->code + 6;
    if (is_empty_finalizer(names, content, code_bytes))
        return "it is an empty finalize(): with a hook the JVM would keep each object until it was called";
    plumb_write_bytes(output, method->begin, (size_t)(method->code - method->begin));
    const size_t begin = plumb_begin_attribute(output, plumb_u16_at(method->code));
    const char* const reason = plumb_hook_code(
        &code, number, (struct plumb_class_input){content, content + code_bytes, false}, output);
    plumb_end_attribute(output, begin);
    plumb_write_bytes(output, content + code_bytes, (size_t)(method->end - (content + code_bytes)));
    return reason;
}

static void put_method(struct plumb_class_work* work, const struct method_in_file* method,
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

static void skip_fields(const struct plumb_class_work* work, struct plumb_class_input* input) {
    const uint32_t count = plumb_get_u16(input);
    for (uint32_t i = 0; i < count && !input->failed; i++) {
        struct method_in_file field;
        read_method(work, input, &field);
    }
}

/* Up to the class's own index, which is what is known of it by now. */
static bool begin_class(struct plumb_class_work* work, struct plumb_class_input* input) {
    const uint32_t magic = plumb_get_u32(input);
    plumb_get_u16(input);
    work->version = plumb_get_u16(input);
    if (!plumb_constants_begin(&work->constants, input) || magic != 0xcafebabe) return false;
    plumb_get_u16(input); /* access */
    work->class_index = plumb_get_u16(input);
    work->class_name = plumb_class_constant_name(&work->constants, work->class_index);
    return !input->failed && work->class_name.at;
}

static bool put_class(struct plumb_class_work* work, const uint8_t* bytes, const uint8_t* methods,
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

static bool put_methods(struct plumb_class_work* work, struct plumb_class_input* input,
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
    struct plumb_class_work work = {.choice = choice};
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

struct plumb_utf8 plumb_name_in_class_file(const uint8_t* bytes, size_t length) {
    struct plumb_class_input input = {bytes, bytes + length, false};
    struct plumb_class_work work;
    memset(&work, 0, sizeof(work));
    const bool is_class = begin_class(&work, &input);
    plumb_constants_end(&work.constants);
    return is_class ? work.class_name : (struct plumb_utf8){NULL, 0};
}
