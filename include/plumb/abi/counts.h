/*
 * A channel that counts: events leave no records there, but numbers. It has the layout of any channel (<plumb/abi/channel.h>),
 * its header says PLUMB_COUNTS_MAGIC and PLUMB_MODE_COUNT, and what is a ring elsewhere is a table, one for each CPU and one
 * more, the last, for all who have no restartable sequences:
 *
 *   +----------------------------------+ 0
 *   | plumb_count [event_slots]        |  by event id: where neither key nor bucket was asked for, and what found no slot
 *   +----------------------------------+ 16 * event_slots
 *   | slot [slots]                     |  by event and key: plumb_count_slot, then plumb_count [buckets]
 *   +----------------------------------+ ring_bytes, or less
 *
 * What is counted stands at PLUMB_COUNTS_OFFSET, behind the header: the names of fields. An event that lacks the field that is the
 * key, or whose value is to be in a histogram, is counted without it. Where it has that field and the key can not be told (who the
 * writer is takes a system call that may not be made; the event ends before it), its key is of kind NONE.
 *
 * One store changes a count and its sum together, 16 bytes that lie on a boundary of 16: by a restartable sequence in the table
 * of its CPU, by a compare-and-swap in the last one. So each table holds what was counted up to some instant, whatever
 * became of the writers.
 *
 * A slot is found by its tag, which is a hash of event and key with bit 0 set: the first is tag * slots >> 64, then those
 * behind it, PLUMB_COUNT_PROBES at most. It is free while its tag is 0; who takes it writes the key and then the tag, in one sequence. In
 * the last table he first swaps PLUMB_COUNT_CLAIMED for the 0, and a slot whose writer was killed there is lost. It is never
 * freed. Two slots of a table may have the same key, and tables have theirs: a reader adds up.
 *
 * `limit` of a ring's control block is 1 while events may be counted there, and 0 when the channel is closed. Of the rest of it
 * `lost` alone is used.
 */
#ifndef PLUMB_ABI_COUNTS_H
#define PLUMB_ABI_COUNTS_H

#include <plumb/abi/channel.h>

/* "PLUMBCN1", little-endian: what knows no such channel refuses it. */
#define PLUMB_COUNTS_MAGIC 0x314e43424d554c50ull
#define PLUMB_COUNTS_OFFSET 2048u

#define PLUMB_COUNT_FIELD_BYTES 64u
#define PLUMB_COUNT_KEY_BYTES 112u /* longer texts are cut to these */
#define PLUMB_COUNT_PROBES 32u
#define PLUMB_COUNT_SLOTS_MAX (1u << 20)
#define PLUMB_COUNT_CLAIMED 2ull

/* Buckets of a histogram: values below 0; 0; 1; from 2 on, from 4 on ... from 2^63 on; and events without a value. */
#define PLUMB_COUNT_BUCKETS 67u
#define PLUMB_COUNT_BUCKET_NEGATIVE 0u
#define PLUMB_COUNT_BUCKET_ZERO 1u
#define PLUMB_COUNT_BUCKET_NO_VALUE 66u

struct plumb_counts {
    /* Names of fields, NUL-terminated; empty: none. A key that no field has may be `pid`, `tid`, `comm`, `cpu`, as the
     * process knows them itself. */
    char key[PLUMB_COUNT_FIELD_BYTES];
    char sum[PLUMB_COUNT_FIELD_BYTES];  /* what is added up; if empty, what the histogram is of */
    char hist[PLUMB_COUNT_FIELD_BYTES]; /* an integer */
    uint32_t slots;                     /* of each table; 0: neither key nor histogram */
    uint32_t buckets;                   /* of each slot: 1, or PLUMB_COUNT_BUCKETS */
};

enum plumb_count_key {
    PLUMB_KEY_NONE = 0,     /* histograms of all of an event; what is not known of its keys */
    PLUMB_KEY_UNSIGNED = 1, /* 8 bytes */
    PLUMB_KEY_SIGNED = 2,
    PLUMB_KEY_FLOAT = 3, /* a double */
    PLUMB_KEY_TEXT = 4,
    PLUMB_KEY_CUT_TEXT = 5, /* all texts that begin so, and are longer */
    PLUMB_KEYS = 6
};

/* `sum` is modulo 2^64; of a field of floating point it is a double. */
struct plumb_count {
    PLUMB_ABI_ALIGNED(16) uint64_t count;
    uint64_t sum;
};

struct plumb_count_slot {
    PLUMB_ABI_ALIGNED(16) uint64_t tag; /* the one store to this word takes the slot */
    uint16_t event_id;
    uint8_t kind; /* enum plumb_count_key */
    uint8_t reserved;
    uint32_t key_bytes;
    uint8_t key[PLUMB_COUNT_KEY_BYTES]; /* behind its end up to a multiple of 8: 0 */
};

#define PLUMB_COUNT_SLOT_BYTES(buckets) \
    ((uint64_t)sizeof(struct plumb_count_slot) + (uint64_t)(buckets) * sizeof(struct plumb_count))
#define PLUMB_COUNT_TABLE_BYTES(event_slots, slots, buckets) \
    ((uint64_t)(event_slots) * sizeof(struct plumb_count) + (uint64_t)(slots)*PLUMB_COUNT_SLOT_BYTES(buckets))

PLUMB_ABI_SIZE(struct plumb_count, 16);
PLUMB_ABI_SIZE(struct plumb_count_slot, 128);
PLUMB_ABI_OFFSET(struct plumb_count_slot, event_id, 8);
PLUMB_ABI_OFFSET(struct plumb_count_slot, key, 16);
PLUMB_ABI_SIZE(struct plumb_counts, 200);
PLUMB_STATIC_ASSERT(PLUMB_COUNTS_OFFSET >= sizeof(struct plumb_channel_header) &&
                        PLUMB_COUNTS_OFFSET + sizeof(struct plumb_counts) <= PLUMB_CHANNEL_HEADER_BYTES,
                    "what is counted stands behind the header");

#endif
