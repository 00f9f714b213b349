// Cuts a record that is larger than the channel takes: strings, texts and sequences are shortened, in field
// order, until the payload fits. Every field is still there, so the record decodes like any other.
#include "runtime.h"

namespace plumb {

namespace {

struct Variable {
    uint32_t prefix_bytes; // of the count in front
    uint32_t content_bytes;
    uint32_t end_bytes; // a string's NUL
};

// Only what lies before `end`: a payload that another thread writes to meanwhile may say anything.
Variable variable_at(const plumb_event_field& field, const unsigned char* at, const unsigned char* end) {
    const auto left = static_cast<uint32_t>(end - at);
    if (field.type == PLUMB_FIELD_STRING) {
        const unsigned char* nul = at;
        while (nul < end && *nul != 0)
            nul++;
        return {0, static_cast<uint32_t>(nul - at), nul < end ? 1u : 0u};
    }
    if (left < 2) return {left, 0, 0};
    const uint32_t count = at[0] | static_cast<uint32_t>(at[1]) << 8;
    const uint32_t said = count * field.size;
    return {2, said < left - 2 ? said : left - 2, 0};
}

uint32_t fixed_bytes_of(const plumb_event_field& field) {
    switch (field.type) {
    case PLUMB_FIELD_STRING:
        return 1;
    case PLUMB_FIELD_TEXT:
    case PLUMB_FIELD_SEQUENCE:
        return 2;
    case PLUMB_FIELD_ARRAY:
        return static_cast<uint32_t>(field.size) * field.array_length;
    default:
        return field.size;
    }
}

bool is_variable(const plumb_event_field& field) {
    return field.type == PLUMB_FIELD_STRING || field.type == PLUMB_FIELD_TEXT ||
           field.type == PLUMB_FIELD_SEQUENCE;
}

} // namespace

bool may_be_cut_to(const plumb_event_info& info, uint32_t payload_limit) {
    uint32_t fixed_bytes = 0;
    for (uint32_t i = 0; i < info.field_count; i++)
        fixed_bytes += fixed_bytes_of(info.fields[i]);
    return fixed_bytes <= payload_limit;
}

// The bytes written to `to`, or 0 if the event does not fit even without its variable fields.
uint32_t cut_payload(const plumb_event_info& info, const unsigned char* payload, uint32_t payload_bytes,
                     unsigned char* to, uint32_t payload_limit) {
    uint32_t fixed_bytes = 0;
    for (uint32_t i = 0; i < info.field_count; i++)
        fixed_bytes += fixed_bytes_of(info.fields[i]);
    if (fixed_bytes > payload_limit) return 0;

    uint32_t room = payload_limit - fixed_bytes;
    const unsigned char* at = payload;
    const unsigned char* end = payload + payload_bytes;
    unsigned char* out = to;
    for (uint32_t i = 0; i < info.field_count; i++) {
        const plumb_event_field& field = info.fields[i];
        if (!is_variable(field)) {
            const uint32_t bytes = fixed_bytes_of(field);
            if (bytes > static_cast<uint32_t>(end - at)) return 0;
            __builtin_memcpy(out, at, bytes);
            out += bytes;
            at += bytes;
            continue;
        }
        const Variable variable = variable_at(field, at, end);
        uint32_t kept = variable.content_bytes < room ? variable.content_bytes : room;
        kept -= kept % field.size;
        room -= kept;
        if (field.type != PLUMB_FIELD_STRING) {
            const uint32_t count = kept / field.size;
            *out++ = static_cast<unsigned char>(count);
            *out++ = static_cast<unsigned char>(count >> 8);
        }
        __builtin_memcpy(out, at + variable.prefix_bytes, kept);
        out += kept;
        if (field.type == PLUMB_FIELD_STRING) *out++ = 0;
        at += variable.prefix_bytes + variable.content_bytes + variable.end_bytes;
    }
    return static_cast<uint32_t>(out - to);
}

} // namespace plumb
