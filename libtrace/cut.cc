// Cuts a record that is larger than the channel takes: strings, texts and sequences are shortened until the payload fits.
// What all fields take at least comes first; then those that are short stay whole, and the longest share the rest, each the
// same. Every field is still there, so the record decodes like any other.
#include "runtime.h"

#include <plumb/detail/fields.h>

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

bool is_variable(const plumb_event_field& field) {
    return field.type == PLUMB_FIELD_STRING || field.type == PLUMB_FIELD_TEXT ||
           field.type == PLUMB_FIELD_SEQUENCE;
}

uint32_t least_bytes(const plumb_event_field* fields, uint32_t field_count) {
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < field_count; i++)
        bytes += plumb_least_bytes_of(&fields[i]);
    return bytes;
}

// Where all variable fields of a payload are, looked for once, and what each may have of the room there is.
class Contents {
public:
    // False: the payload ends before its fields do, or has more of them than an event.
    bool find(const plumb_event_field* fields, uint32_t field_count, const unsigned char* payload,
              uint32_t payload_bytes) {
        const unsigned char* at = payload;
        const unsigned char* const end = payload + payload_bytes;
        for (uint32_t i = 0; i < field_count; i++) {
            if (!is_variable(fields[i])) {
                const uint32_t bytes = plumb_least_bytes_of(&fields[i]);
                if (bytes > static_cast<uint32_t>(end - at)) return false;
                at += bytes;
                continue;
            }
            if (count_ == PLUMB_EVENT_MAX_FIELDS) return false;
            const Variable variable = variable_at(fields[i], at, end);
            variables_[count_++] = variable;
            at += variable.prefix_bytes + variable.content_bytes + variable.end_bytes;
        }
        return true;
    }

    // They share the room with somebody else, who wants some. A round gives the same to all that want more, and makes one of them
    // whole, or is the last.
    void share(uint32_t room, uint64_t wanted_bytes) {
        for (;;) {
            uint64_t used = wanted_bytes < most_ ? wanted_bytes : most_;
            uint32_t longer = wanted_bytes > most_ ? 1 : 0;
            for (uint32_t i = 0; i < count_; i++) {
                const uint32_t bytes = variables_[i].content_bytes;
                used += bytes < most_ ? bytes : most_;
                longer += bytes > most_ ? 1 : 0;
            }
            const auto left = static_cast<uint32_t>(room - used);
            if (longer == 0 || left < longer) return;
            most_ += left / longer;
        }
    }

    const Variable& variable(uint32_t i) const { return variables_[i]; }
    // Whole elements, and of text whole characters.
    uint32_t kept_bytes(uint32_t i, const plumb_event_field& field, const unsigned char* content) const {
        const uint32_t bytes = variables_[i].content_bytes;
        if (bytes <= most_) return bytes;
        uint32_t kept = most_ - most_ % field.size;
        if (field.type == PLUMB_FIELD_SEQUENCE) return kept;
        for (uint32_t steps = 0; steps < 3 && kept != 0 && (content[kept] & 0xc0) == 0x80; steps++)
            kept--;
        return kept;
    }

private:
    uint32_t count_ = 0;
    uint32_t most_ = 0; // bytes of each
    Variable variables_[PLUMB_EVENT_MAX_FIELDS];
};

// `to` may be where the payload is.
uint32_t put_fields(const plumb_event_field* fields, uint32_t field_count, const Contents& contents,
                    const unsigned char* payload, unsigned char* to) {
    const unsigned char* at = payload;
    unsigned char* out = to;
    uint32_t next = 0;
    for (uint32_t i = 0; i < field_count; i++) {
        const plumb_event_field& field = fields[i];
        if (!is_variable(field)) {
            const uint32_t bytes = plumb_least_bytes_of(&field);
            __builtin_memmove(out, at, bytes);
            out += bytes;
            at += bytes;
            continue;
        }
        const Variable& variable = contents.variable(next);
        const unsigned char* const content = at + variable.prefix_bytes;
        const uint32_t kept = contents.kept_bytes(next++, field, content);
        at = content + variable.content_bytes + variable.end_bytes;
        if (field.type != PLUMB_FIELD_STRING) {
            const uint32_t count = kept / field.size;
            *out++ = static_cast<unsigned char>(count);
            *out++ = static_cast<unsigned char>(count >> 8);
        }
        __builtin_memmove(out, content, kept);
        out += kept;
        if (field.type == PLUMB_FIELD_STRING) *out++ = 0;
    }
    return static_cast<uint32_t>(out - to);
}

} // namespace

bool may_be_cut_to(const plumb_event_info& info, uint32_t payload_limit) {
    return least_bytes(info.fields, info.field_count) <= payload_limit;
}

// The bytes written to `to`, or 0 if the event does not fit even without its variable fields.
uint32_t cut_payload(const plumb_event_info& info, const unsigned char* payload, uint32_t payload_bytes,
                     unsigned char* to, uint32_t payload_limit) {
    const uint32_t least = least_bytes(info.fields, info.field_count);
    Contents contents;
    if (least > payload_limit || !contents.find(info.fields, info.field_count, payload, payload_bytes))
        return 0;
    contents.share(payload_limit - least, 0);
    return put_fields(info.fields, info.field_count, contents, payload, to);
}

} // namespace plumb

extern "C" __attribute__((visibility("default"))) uint32_t
plumb_share_payload(const plumb_event_info* info, uint32_t field_count, void* payload, uint32_t payload_bytes,
                    uint32_t limit_bytes, uint64_t wanted_bytes) {
    using namespace plumb;
    auto* const bytes = static_cast<unsigned char*>(payload);
    const uint32_t least = least_bytes(info->fields, field_count);
    Contents contents;
    if (!contents.find(info->fields, field_count, bytes, payload_bytes)) return payload_bytes;
    contents.share(limit_bytes > least ? limit_bytes - least : 0, wanted_bytes);
    return put_fields(info->fields, field_count, contents, bytes, bytes);
}
