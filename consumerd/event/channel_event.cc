#include "consumerd/event/channel_event.h"

#include <plumb/abi/record.h>

#include <cstring>

namespace plumb {
namespace {

bool is_integer_size(uint32_t size_bytes) {
    return size_bytes == 1 || size_bytes == 2 || size_bytes == 4 || size_bytes == 8;
}

} // namespace

void PayloadShape::add_fixed(uint32_t bytes) {
    if (steps_.empty() || steps_.back().kind != Kind::fixed) steps_.push_back({Kind::fixed, 0});
    steps_.back().bytes += bytes;
    least_bytes_ += bytes;
}

bool PayloadShape::add(const EventField& field) {
    switch (field.type) {
    case PLUMB_FIELD_INTEGER:
    case PLUMB_FIELD_ENUM:
        if (!is_integer_size(field.size)) return false;
        add_fixed(field.size);
        return true;
    case PLUMB_FIELD_FLOAT:
        if (field.size != 4 && field.size != 8) return false;
        add_fixed(field.size);
        return true;
    case PLUMB_FIELD_ARRAY:
        if (!is_integer_size(field.size)) return false;
        add_fixed(uint32_t{field.size} * field.array_length);
        return true;
    case PLUMB_FIELD_STRING:
        if (field.size != 1) return false;
        steps_.push_back({Kind::string, 1});
        least_bytes_ += 1;
        return true;
    case PLUMB_FIELD_TEXT:
    case PLUMB_FIELD_SEQUENCE:
        if (!is_integer_size(field.size) || (field.type == PLUMB_FIELD_TEXT && field.size != 1)) return false;
        if (field.has_floats && field.size < 4) return false;
        steps_.push_back({Kind::counted, field.size});
        least_bytes_ += 2;
        return true;
    }
    return false;
}

bool PayloadShape::matches(const std::byte* payload, size_t bytes) const {
    size_t left = bytes;
    for (const Step& step : steps_) {
        size_t used = step.bytes;
        if (step.kind == Kind::string) {
            const void* end = left > 0 ? std::memchr(payload, 0, left) : nullptr;
            if (end == nullptr) return false;
            used = static_cast<size_t>(static_cast<const std::byte*>(end) - payload) + 1;
        } else if (step.kind == Kind::counted) {
            uint16_t count;
            if (left < sizeof(count)) return false;
            std::memcpy(&count, payload, sizeof(count));
            used = sizeof(count) + size_t{count} * step.bytes;
        }
        if (used > left) return false;
        payload += used;
        left -= used;
    }
    return left == 0;
}

Result<ChannelEvent> make_channel_event(uint32_t id, std::span<const std::byte> bytes) {
    auto description = decode_event_description(bytes);
    if (!description) return description.error();
    ChannelEvent event{id, std::move(*description), {}};
    for (const EventField& field : event.description.fields) {
        if (!event.shape.add(field))
            return Error("Field {} of {} has type {} of {} bytes.", field.name, event.description.full_name(),
                         static_cast<int>(field.type), field.size);
    }
    if (event.shape.least_bytes() > PLUMB_RECORD_MAX_BYTES - PLUMB_RECORD_HEADER_BYTES)
        return Error("The payload of {} is {} bytes: no record holds that.", event.description.full_name(),
                     event.shape.least_bytes());
    return event;
}

} // namespace plumb
