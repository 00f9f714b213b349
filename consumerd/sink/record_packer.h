/*
 * Records with small headers, as they go into a compact trace: what a reader can find out is not written again.
 *
 *   bits    0    5                 32       48
 *   near    | id | 27 bits of time |                                   ids below 30
 *   far     | 30 | 27 bits of time | id, 16 |
 *   whole   | 31 |... 8: id, 16 | 24: time, 64 bits | 88               the first of a packet; and where the time is not
 *                                                                       within 2^27 counts behind that before it
 *
 * behind which come the thread's number, 32 bits, and the payload, all on byte boundaries: 16 bytes for an event with one
 * integer of 64 bits, which takes 24 in the ring. Nothing says how long a record is: its fields do, which were checked.
 *
 * A time of 27 bits is the lower end of a clock that goes on from that before it. When a packet begins may be told anew when
 * more is known, so nothing goes on from there.
 */
#ifndef PLUMB_CONSUMERD_SINK_RECORD_PACKER_H
#define PLUMB_CONSUMERD_SINK_RECORD_PACKER_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace plumb {

/* A channel's ids lie anywhere, those of a compact trace close together: in the order in which they are met. */
class EventNumbers {
public:
    uint16_t of(uint16_t id) {
        if (numbers_[id] == 0) numbers_[id] = ++last_;
        return numbers_[id];
    }

private:
    std::vector<uint16_t> numbers_ = std::vector<uint16_t>(size_t{1} << 16); /* 0: not met */
    uint16_t last_ = 0;
};

class RecordPacker {
public:
    /* `numbers` must outlive it, and is what the metadata goes by. */
    explicit RecordPacker(EventNumbers& numbers) : numbers_(&numbers) {}

    /* The records of a packet, as they lay in the ring, in time order. Valid until the next call. */
    std::span<const std::byte> pack(std::span<const std::byte> records);

private:
    EventNumbers* numbers_;
    std::vector<std::byte> packed_;
};

} // namespace plumb

#endif
