/*
 * Where in a ring its losses belong. Counters say how many events were lost, not where; but a full ring stands still until
 * something is handed back, so what is counted directly before that was lost at the position where the ring stands. Whatever
 * else is lost, was lost behind the position at the look before.
 *
 * A loss waits here until records behind its place are handed out, and is told with them: readers take it for lost between
 * the packet before and the end of that one.
 */
#ifndef PLUMB_CONSUMERD_DRAIN_LOSS_PLACES_H
#define PLUMB_CONSUMERD_DRAIN_LOSS_PLACES_H

#include <plumb/abi/channel.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace plumb {

class LossPlaces {
public:
    using Counts = std::array<uint64_t, PLUMB_LOSS_CAUSES>;

    /* Since the last call: lost while the ring went on from its position of then to `write_pos`. */
    void add(const Counts& growth, uint64_t write_pos);
    /* Records up to there were handed out. */
    void tell_before(uint64_t position);
    void tell_all();

    /* The position at the last call of add(). */
    uint64_t looked_at() const { return looked_at_; }
    /* What nobody has been told of. */
    const Counts& untold() const { return untold_; }

private:
    struct Entry {
        uint64_t position;
        Counts growth;
    };
    /* A reader looks once for each sub-buffer, and at each turn; positions that are no positions can wait for ever. */
    static constexpr size_t entries_max = 1024;

    void add_at(uint64_t position, size_t cause, uint64_t growth);

    std::deque<Entry> entries_; /* by position */
    Counts untold_{};
    uint64_t looked_at_ = 0;
};

} // namespace plumb

#endif
