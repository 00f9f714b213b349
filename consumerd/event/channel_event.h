/*
 * One event of a channel: its description, taken out of the heap and checked, and the shape of its payload.
 *
 * The bytes come from memory that any traced process may write, so they are copied before they are decoded.
 * What make_channel_event() returns is safe to use: strings are whole, types and sizes valid, and whether a
 * payload decodes exactly can be asked. For most events that is one compare, since they have one possible
 * length; the others are walked by PayloadShape::matches().
 */
#ifndef PLUMB_CONSUMERD_EVENT_CHANNEL_EVENT_H
#define PLUMB_CONSUMERD_EVENT_CHANNEL_EVENT_H

#include "base/result.h"
#include "consumerd/event/elf_events.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace plumb {

/* How a payload must be built to be decoded exactly. */
class PayloadShape {
public:
    /* False if the field's type or size is not one that the ABI knows. */
    [[nodiscard]] bool add(const EventField& field);
    bool is_fixed() const { return steps_.empty() || (steps_.size() == 1 && steps_[0].kind == Kind::fixed); }
    /* Bytes that every payload has at least; all of them if is_fixed(). */
    uint32_t least_bytes() const { return least_bytes_; }
    /* Whether `bytes` of payload are exactly the fields, no byte less or more. */
    bool matches(const std::byte* payload, size_t bytes) const;

private:
    enum class Kind : uint8_t { fixed, string, counted };
    struct Step {
        Kind kind;
        uint32_t bytes; /* fixed: of the run; counted: of one element */
    };
    void add_fixed(uint32_t bytes);

    std::vector<Step> steps_;
    uint32_t least_bytes_ = 0;
};

struct ChannelEvent {
    uint32_t id; /* slot in the channel's event table, and event id in records */
    EventDescription description;
    PayloadShape shape;
};

/* `bytes` must be private memory: nobody may change them meanwhile. */
Result<ChannelEvent> make_channel_event(uint32_t id, std::span<const std::byte> bytes);

} // namespace plumb

#endif
