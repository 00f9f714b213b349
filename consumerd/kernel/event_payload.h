/*
 * The payload of a record out of a raw event of the kernel: fields packed as their description says, by the steps that
 * the event's format was turned into. Part of the hot path: nothing is allocated, and every step writes behind the one
 * before, into room that was reserved for the whole record.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_EVENT_PAYLOAD_H
#define PLUMB_CONSUMERD_KERNEL_EVENT_PAYLOAD_H

#include "consumerd/kernel/event_format.h"
#include "consumerd/kernel/syscall_texts.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace plumb {

/* Bytes that translate_payload() may write for a raw event of this length, some of them behind the payload's end. `texts`:
 * what was told of the call, for events that have such texts; nullptr: nothing was. */
inline std::size_t payload_room(const KernelEvent& event, std::size_t raw_bytes,
                                const TextsOfCall* texts = nullptr) {
    constexpr std::size_t dynamic_extra = 2; /* a length, or a NUL */
    const std::size_t of_text = texts != nullptr ? texts->longest() : text_not_read.size();
    return event.fixed_room + event.dynamic_fields * (raw_bytes + dynamic_extra) +
           event.told_texts.size() * (of_text + dynamic_extra);
}

/* Whose threads they are that an event of ThreadNews::made speaks of. */
struct ForkProcesses {
    std::uint32_t of_parent = 0, of_child = 0;
};

/* Writes the payload to `to`, which has that room, and returns its end. nullptr if the event is damaged: a field lies
 * outside of it. */
std::byte* translate_payload(const KernelEvent& event, std::span<const std::byte> raw, std::byte* to,
                             const ForkProcesses& processes = {}, const TextsOfCall* texts = nullptr);

} // namespace plumb

#endif
