/*
 * The clock page: how to turn the cycles in records into CLOCK_MONOTONIC and wall-clock nanoseconds without a
 * system call, like the vDSO's data page. Every channel carries one, so a channel needs no other file.
 *
 *   monotonic_ns(c) = base_monotonic_ns + (((c - base_cycles) * mult + base_fraction) >> shift)
 *   wall_ns(c)      = monotonic_ns(c) + realtime_offset_ns
 *
 * (c - base_cycles) is signed: cycles before the base are valid. The product needs 128 bits once c is more
 * than some seconds from the base; plumb_clock_to_ns() in <plumb/clock.h> does it right.
 *
 * Written by the session's consumer, under `sequence`: odd while it is written, changed afterwards. A reader
 * copies the page, and copies again if `sequence` was odd or has changed. Where a killed writer left it odd,
 * a reader gives up after a bounded number of tries and uses what it has.
 *
 * mult and shift start from the kernel's own calibration (see docs/architecture.md, The clock) and are
 * refined while the session lasts, from pairs of (cycles, CLOCK_MONOTONIC) read together.
 */
#ifndef PLUMB_ABI_CLOCK_PAGE_H
#define PLUMB_ABI_CLOCK_PAGE_H

#include <plumb/abi/base.h>

/* What the timestamps of a channel count. */
enum plumb_clock_mode {
    PLUMB_CLOCK_NONE = 0,
    PLUMB_CLOCK_TSC = 1,       /* x86 cycle counter, raw */
    PLUMB_CLOCK_MONOTONIC = 2, /* CLOCK_MONOTONIC, nanoseconds */
    PLUMB_CLOCK_BOOTTIME = 3,  /* CLOCK_BOOTTIME, nanoseconds */
    PLUMB_CLOCK_REALTIME = 4   /* CLOCK_REALTIME, nanoseconds; may jump */
};

/* plumb_clock_page.flags */
#define PLUMB_CLOCK_WITHOUT_KERNEL \
    0x1u /* the vDSO reads this clock without a system call; the consumer has tried */
#define PLUMB_CLOCK_MONOTONIC_WITHOUT_KERNEL \
    0x2u /* likewise CLOCK_MONOTONIC, whatever this clock is: durations in events are of that one */

struct plumb_clock_page {
    uint32_t sequence; /* odd: being written */
    uint32_t mode;     /* enum plumb_clock_mode */
    uint32_t mult;
    uint32_t shift;
    uint64_t base_cycles;
    uint64_t base_monotonic_ns;
    int64_t realtime_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC at the base */
    uint64_t frequency_hz;      /* counts a second, rounded; 1000000000 for the nanosecond clocks */
    uint64_t uncertainty_ns;    /* half the window in which the base pair was read */
    uint32_t flags;             /* PLUMB_CLOCK_* */
    uint32_t base_fraction;     /* of the base's nanosecond, in units of 2^-shift */
};

PLUMB_ABI_SIZE(struct plumb_clock_page, 64);
PLUMB_ABI_OFFSET(struct plumb_clock_page, mult, 8);
PLUMB_ABI_OFFSET(struct plumb_clock_page, base_cycles, 16);
PLUMB_ABI_OFFSET(struct plumb_clock_page, base_monotonic_ns, 24);
PLUMB_ABI_OFFSET(struct plumb_clock_page, realtime_offset_ns, 32);
PLUMB_ABI_OFFSET(struct plumb_clock_page, frequency_hz, 40);
PLUMB_ABI_OFFSET(struct plumb_clock_page, uncertainty_ns, 48);
PLUMB_ABI_OFFSET(struct plumb_clock_page, flags, 56);

#endif
