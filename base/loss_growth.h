/*
 * What a channel's loss counters say, which any traced program can write to.
 *
 * Only what a counter has grown by counts, from one look at it to the next. Growth that no time allows is damage: nothing is
 * counted for it, and what comes on top of it is. So neither one wild store nor many can make a number of lost events that
 * overflows, or that readers of the trace do not bear.
 */
#ifndef PLUMB_BASE_LOSS_GROWTH_H
#define PLUMB_BASE_LOSS_GROWTH_H

#include <algorithm>
#include <cstdint>
#include <optional>

namespace plumb {

/* Between two looks; a quarter of an hour of a loss each nanosecond. */
constexpr uint64_t loss_growth_max = uint64_t{1} << 40;

/* Where the time since the last look is known: a loss each nanosecond, and what may have been under way. */
constexpr uint64_t loss_growth_in(uint64_t elapsed_ns) {
    constexpr uint64_t under_way = uint64_t{1} << 20;
    return std::min(elapsed_ns, loss_growth_max - under_way) + under_way;
}

/* Nothing: the counter is damaged; also if it went back. */
constexpr std::optional<uint64_t> loss_growth(uint64_t before, uint64_t now,
                                              uint64_t most = loss_growth_max) {
    const uint64_t growth = now - before;
    if (growth > most) return {};
    return growth;
}

/* A sum of losses stays at the largest number that every reader of traces takes for one. */
constexpr uint64_t losses_max = INT64_MAX;
constexpr uint64_t sum_of_losses(uint64_t a, uint64_t b) {
    return std::min(a, losses_max) + std::min(b, losses_max - std::min(a, losses_max));
}

} // namespace plumb

#endif
