/*
 * The record: one occurrence of an event, as it lies in a ring and, byte for byte but for numbers of other namespaces, in
 * a CTF packet.
 *
 *   byte  0        8      10      12        16                16 + payload
 *         +--------+------+-------+---------+------------------+---------+
 *         | clock  | event| length| thread  | payload, packed, | 0..7    |
 *         | cycles | id   | bytes | id      | little-endian    | unused  |
 *         +--------+------+-------+---------+------------------+---------+
 *         |<------------------ length ----------------------->|
 *         |<-------------------- length rounded up to 8 ---------------->|
 *
 * What always holds:
 *  - a record starts on an 8-byte boundary of its ring;
 *  - a record never crosses a sub-buffer boundary, so every sub-buffer starts with a record;
 *  - `length` counts the header and the payload, not the unused bytes behind them;
 *  - the records of one ring are in time order.
 *
 * A padding record (event_id 0) closes a sub-buffer: it reaches from where it stands to the boundary, which
 * is too far for `length`, so its `thread_id` holds the number of bytes and `length` is 16. Where fewer than
 * 16 bytes are left before a boundary there is no room for one: a reader skips them.
 */
#ifndef PLUMB_ABI_RECORD_H
#define PLUMB_ABI_RECORD_H

#include <plumb/abi/base.h>

#define PLUMB_RECORD_ALIGNMENT 8u
#define PLUMB_RECORD_HEADER_BYTES 16u
/* The largest value `length` may have, a multiple of the alignment. */
#define PLUMB_RECORD_MAX_BYTES 65528u

#define PLUMB_EVENT_ID_PADDING 0u
#define PLUMB_EVENT_ID_FIRST 1u

struct plumb_record {
    uint64_t timestamp; /* cycles of the channel's clock */
    uint16_t event_id;  /* slot in the channel's event table; 0: padding */
    uint16_t length;    /* bytes: header and payload */
    uint32_t thread_id; /* of the writer, tagged (<plumb/abi/channel.h>); padding: bytes up to the boundary */
};

PLUMB_ABI_SIZE(struct plumb_record, 16);
PLUMB_ABI_OFFSET(struct plumb_record, timestamp, 0);
PLUMB_ABI_OFFSET(struct plumb_record, event_id, 8);
PLUMB_ABI_OFFSET(struct plumb_record, length, 10);
PLUMB_ABI_OFFSET(struct plumb_record, thread_id, 12);

#endif
