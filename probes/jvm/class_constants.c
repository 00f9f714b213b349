#include "class_constants.h"

enum {
    TAG_UTF8 = 1,
    TAG_INTEGER = 3,
    TAG_FLOAT = 4,
    TAG_LONG = 5,
    TAG_DOUBLE = 6,
    TAG_CLASS = 7,
    TAG_STRING = 8,
    TAG_FIELD = 9,
    TAG_METHOD = 10,
    TAG_INTERFACE_METHOD = 11,
    TAG_NAME_AND_TYPE = 12,
    TAG_METHOD_HANDLE = 15,
    TAG_METHOD_TYPE = 16,
    TAG_DYNAMIC = 17,
    TAG_INVOKE_DYNAMIC = 18,
    TAG_MODULE = 19,
    TAG_PACKAGE = 20
};

enum { constants_max = 65535 };

/* Of what follows the tag. */
static bool skip_constant(struct plumb_class_input* input, uint32_t tag) {
    switch (tag) {
    case TAG_UTF8:
        return plumb_get_bytes(input, plumb_get_u16(input)) != NULL;
    case TAG_CLASS:
    case TAG_STRING:
    case TAG_METHOD_TYPE:
    case TAG_MODULE:
    case TAG_PACKAGE:
        return plumb_get_bytes(input, 2) != NULL;
    case TAG_METHOD_HANDLE:
        return plumb_get_bytes(input, 3) != NULL;
    case TAG_INTEGER:
    case TAG_FLOAT:
    case TAG_FIELD:
    case TAG_METHOD:
    case TAG_INTERFACE_METHOD:
    case TAG_NAME_AND_TYPE:
    case TAG_DYNAMIC:
    case TAG_INVOKE_DYNAMIC:
        return plumb_get_bytes(input, 4) != NULL;
    case TAG_LONG:
    case TAG_DOUBLE:
        return plumb_get_bytes(input, 8) != NULL;
    default:
        return false;
    }
}

bool plumb_constants_begin(struct plumb_constants* constants, struct plumb_class_input* input) {
    memset(constants, 0, sizeof(*constants));
    constants->count = constants->next = plumb_get_u16(input);
    constants->places = calloc(constants->count + 1, sizeof(*constants->places));
    if (!constants->places) return false;
    constants->begin = input->at;
    for (uint32_t i = 1; i < constants->count; i++) {
        constants->places[i] = input->at;
        const uint32_t tag = plumb_get_u8(input);
        if (!skip_constant(input, tag)) return false;
        if (tag == TAG_LONG || tag == TAG_DOUBLE) i++; /* which has two indices */
    }
    constants->end = input->at;
    return !input->failed && constants->count != 0;
}

void plumb_constants_end(struct plumb_constants* constants) {
    free(constants->places);
    free(constants->added.at);
    free(constants->added_classes.at);
}

struct plumb_utf8 plumb_utf8_constant(const struct plumb_constants* constants, uint32_t index) {
    const uint8_t* const place = index < constants->count ? constants->places[index] : NULL;
    if (!place || *place != TAG_UTF8) return (struct plumb_utf8){NULL, 0};
    return (struct plumb_utf8){place + 3, plumb_u16_at(place + 1)};
}

struct plumb_utf8 plumb_class_constant_name(const struct plumb_constants* constants, uint32_t index) {
    const uint8_t* const place = index < constants->count ? constants->places[index] : NULL;
    if (!place || *place != TAG_CLASS) return (struct plumb_utf8){NULL, 0};
    return plumb_utf8_constant(constants, plumb_u16_at(place + 1));
}

struct plumb_utf8 plumb_method_constant_name(const struct plumb_constants* constants, uint32_t index) {
    const uint8_t* const place = index < constants->count ? constants->places[index] : NULL;
    if (!place || (*place != TAG_METHOD && *place != TAG_INTERFACE_METHOD))
        return (struct plumb_utf8){NULL, 0};
    const uint32_t pair_index = plumb_u16_at(place + 3);
    const uint8_t* const pair = pair_index < constants->count ? constants->places[pair_index] : NULL;
    if (!pair || *pair != TAG_NAME_AND_TYPE) return (struct plumb_utf8){NULL, 0};
    return plumb_utf8_constant(constants, plumb_u16_at(pair + 1));
}

static uint32_t add_tag(struct plumb_constants* constants, uint32_t tag) {
    if (constants->next >= constants_max) constants->failed = true;
    plumb_write_u8(&constants->added, tag);
    return constants->next++;
}

uint32_t plumb_add_utf8(struct plumb_constants* constants, struct plumb_utf8 text) {
    const uint32_t index = add_tag(constants, TAG_UTF8);
    plumb_write_u16(&constants->added, (uint32_t)text.bytes);
    plumb_write_bytes(&constants->added, text.at, text.bytes);
    return index;
}

static uint32_t add_text(struct plumb_constants* constants, const char* text) {
    return plumb_add_utf8(constants, (struct plumb_utf8){(const uint8_t*)text, strlen(text)});
}

uint32_t plumb_add_integer(struct plumb_constants* constants, uint32_t value) {
    const uint32_t index = add_tag(constants, TAG_INTEGER);
    plumb_write_u32(&constants->added, value);
    return index;
}

static bool is_same_text(struct plumb_utf8 one, struct plumb_utf8 other) {
    return one.at && one.bytes == other.bytes && memcmp(one.at, other.at, one.bytes) == 0;
}

enum { index_bytes = 2, place_bytes = 4 };

static uint32_t find_added_class(const struct plumb_constants* constants, struct plumb_utf8 name) {
    const struct plumb_class_output* const classes = &constants->added_classes;
    for (size_t i = 0; i < classes->bytes; i += index_bytes + place_bytes) {
        const uint8_t* const text = constants->added.at + plumb_u32_at(classes->at + i + index_bytes);
        const struct plumb_utf8 known = {text + 3, plumb_u16_at(text + 1)};
        if (is_same_text(known, name)) return plumb_u16_at(classes->at + i);
    }
    return 0;
}

static uint32_t find_class(const struct plumb_constants* constants, struct plumb_utf8 name) {
    for (uint32_t i = 1; i < constants->count; i++) {
        if (is_same_text(plumb_class_constant_name(constants, i), name)) return i;
    }
    return constants->added.failed ? 0 : find_added_class(constants, name);
}

uint32_t plumb_add_class(struct plumb_constants* constants, struct plumb_utf8 name) {
    const uint32_t found = find_class(constants, name);
    if (found != 0) return found;
    const size_t name_place = constants->added.bytes;
    const uint32_t name_index = plumb_add_utf8(constants, name);
    const uint32_t index = add_tag(constants, TAG_CLASS);
    plumb_write_u16(&constants->added, name_index);
    plumb_write_u16(&constants->added_classes, index);
    plumb_write_u32(&constants->added_classes, (uint32_t)name_place);
    return index;
}

uint32_t plumb_add_method(struct plumb_constants* constants, uint32_t class_index, const char* name,
                          const char* type) {
    const uint32_t name_index = add_text(constants, name);
    const uint32_t type_index = add_text(constants, type);
    const uint32_t pair_index = add_tag(constants, TAG_NAME_AND_TYPE);
    plumb_write_u16(&constants->added, name_index);
    plumb_write_u16(&constants->added, type_index);
    const uint32_t index = add_tag(constants, TAG_METHOD);
    plumb_write_u16(&constants->added, class_index);
    plumb_write_u16(&constants->added, pair_index);
    return index;
}

struct plumb_utf8 plumb_next_attribute(const struct plumb_constants* constants,
                                       struct plumb_class_input* input, struct plumb_class_input* content) {
    const struct plumb_utf8 name = plumb_utf8_constant(constants, plumb_get_u16(input));
    const uint32_t bytes = plumb_get_u32(input);
    const uint8_t* const at = plumb_get_bytes(input, bytes);
    *content = (struct plumb_class_input){at, at ? at + bytes : NULL, !at};
    if (!name.at) input->failed = true;
    return name;
}
