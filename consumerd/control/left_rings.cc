#include "consumerd/control/left_rings.h"

#include "base/process_names.h"

#include <plumb/abi/channel.h>

#include <algorithm>
#include <utility>

namespace plumb {
namespace {

constexpr std::uint64_t look_every_ns = 1'000'000'000;
constexpr std::uint32_t space_mask = (1u << 20) - 1;

std::uint64_t& owner_of(Channel& channel, std::uint32_t ring) {
    std::byte* const control = channel.bytes().data() + channel.layout().control_offset +
                               std::size_t{ring} * PLUMB_RING_CONTROL_BYTES;
    return reinterpret_cast<plumb_ring_control*>(control)->owner;
}

/* The word has a part of the inode; the channel has all that wrote. Nothing if there are several. */
std::optional<std::uint32_t> space_of(const Channel& channel, std::uint64_t owner) {
    std::optional<std::uint32_t> found;
    for (const std::uint32_t& each : channel.header().namespaces) {
        const std::uint32_t space = __atomic_load_n(&each, __ATOMIC_RELAXED);
        if (space == 0 || (space & space_mask) != PLUMB_OWNER_SPACE(owner) || space == found) continue;
        if (found) return {};
        found = space;
    }
    return found;
}

bool is_gone(const Channel& channel, std::uint64_t owner, ProcessTable& table) {
    const auto space = space_of(channel, owner);
    if (!space) return false;
    const Sight sight =
        table.look_for({*space, PLUMB_OWNER_PROCESS(owner)}, [](std::uint32_t) { return false; });
    if (sight.kind != Sight::seen) return sight.kind == Sight::gone;
    return look_for_thread(sight.process_id, PLUMB_OWNER_PROCESS(owner), PLUMB_OWNER_THREAD(owner)) == 0 &&
           own_name_of(sight.process_id) == OwnName{*space, PLUMB_OWNER_PROCESS(owner)};
}

} // namespace

void LeftRings::look(Channel& channel, std::uint64_t now_ns) {
    if (now_ns < next_look_ns_ || channel.was_truncated()) return;
    next_look_ns_ = now_ns + look_every_ns;
    const std::map<std::uint32_t, std::uint64_t> before = std::exchange(taken_, {});
    const ChannelLayout& layout = channel.layout();
    std::optional<ProcessTable> table; /* to read it takes a millisecond or more */
    for (std::uint32_t ring = layout.ring_count; ring < layout.ring_count + layout.extra_ring_count; ring++) {
        std::uint64_t owner = __atomic_load_n(&owner_of(channel, ring), __ATOMIC_ACQUIRE);
        const std::uint32_t space = PLUMB_OWNER_SPACE(owner);
        if (owner == 0 || space == 0 || space == (own_namespace() & space_mask)) continue;
        taken_[ring] = owner;
        const auto known = before.find(ring);
        if (known == before.end() || known->second != owner) continue;
        if (!table) table = ProcessTable::read();
        if (is_gone(channel, owner, *table))
            __atomic_compare_exchange_n(&owner_of(channel, ring), &owner, 0, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED);
    }
}

} // namespace plumb
