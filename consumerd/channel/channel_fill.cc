#include "consumerd/channel/channel_fill.h"

#include "base/loss_growth.h"

#include <algorithm>
#include <array>

namespace plumb {
namespace {

constexpr std::array<const char*, PLUMB_LOSS_COUNTERS> cause_names = {
    "full", "block_timeout", "too_large", "contended", "no_memory", "cut", "clock", "held"};

std::uint64_t load(const std::uint64_t& word) {
    return __atomic_load_n(&word, __ATOMIC_RELAXED);
}

} // namespace

ChannelFill fill_of(std::span<const std::byte> channel, const plumb_channel_header& made_as) {
    ChannelFill fill;
    const std::uint32_t rings = made_as.ring_count + made_as.extra_ring_count;
    if (made_as.control_offset > channel.size() || made_as.ring_bytes == 0 ||
        rings > (channel.size() - made_as.control_offset) / sizeof(plumb_ring_control))
        return fill;
    fill.rings = rings;
    const auto* const controls =
        reinterpret_cast<const plumb_ring_control*>(channel.data() + made_as.control_offset);
    std::array<std::uint64_t, PLUMB_LOSS_COUNTERS> lost{};
    for (std::uint32_t ring = 0; ring < rings; ring++) {
        const plumb_ring_control& control = controls[ring];
        const std::uint64_t consumed = std::max(load(control.consumed), load(control.taken));
        const std::uint64_t written = load(control.write_pos);
        const std::uint64_t unread =
            written > consumed ? std::min(written - consumed, made_as.ring_bytes) : 0;
        fill.unread_bytes += unread;
        fill.fullest =
            std::max(fill.fullest, static_cast<double>(unread) / static_cast<double>(made_as.ring_bytes));
        for (std::size_t cause = 0; cause < lost.size(); cause++)
            if (const auto count = loss_growth(0, load(control.lost[cause])))
                lost[cause] = sum_of_losses(lost[cause], *count);
            else
                fill.counters_written_over++;
    }
    for (std::size_t cause = 0; cause < lost.size(); cause++)
        if (cause != PLUMB_CUT && lost[cause] != 0) fill.lost.emplace_back(cause_names[cause], lost[cause]);
    fill.cut = lost[PLUMB_CUT];
    return fill;
}

void add_fill(ChannelFill& to, const ChannelFill& from) {
    to.rings += from.rings;
    to.unread_bytes += from.unread_bytes;
    to.fullest = std::max(to.fullest, from.fullest);
    to.cut += from.cut;
    to.counters_written_over += from.counters_written_over;
    for (const auto& lost : from.lost) {
        const auto known = std::find_if(to.lost.begin(), to.lost.end(),
                                        [&](const auto& each) { return each.first == lost.first; });
        if (known == to.lost.end())
            to.lost.push_back(lost);
        else
            known->second += lost.second;
    }
}

} // namespace plumb
