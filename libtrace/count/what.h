// What one event adds, and where: its key, its bucket and its value, taken out of the payload.
#pragma once

#include "link.h"

namespace plumb::count {

struct Key {
    uint8_t kind = PLUMB_KEY_NONE; // enum plumb_count_key
    uint32_t bytes = 0;
    // As it stands in a slot; behind its end up to a multiple of 8: 0.
    alignas(8) unsigned char text[PLUMB_COUNT_KEY_BYTES];
};

struct What {
    bool has_slot = false; // it was asked for a key or a bucket: else it is counted where its event is
    bool sums_floats = false;
    uint32_t bucket = 0; // of a slot
    uint64_t sum = 0;    // what is added; a double if `sums_floats`
    Key key;
};

enum class Told { told, changed };

// changed: the link is another one by now, or not of this session; `what` means nothing then.
Told tell(const Link& link, uint64_t cookie, const Attachment& attachment, const void* payload,
          uint32_t payload_bytes, What& what);

} // namespace plumb::count
