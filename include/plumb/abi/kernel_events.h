/*
 * Kernel events into a channel, PLUMB_OPERATION_KERNEL_EVENTS of <plumb/abi/module.h>: what the descriptor takes.
 *
 * The recorder makes a channel as it does for programs, with domain PLUMB_DOMAIN_KERNEL and its clock page filled, in a file
 * of shared memory, and gives it to the module, which keeps the file's pages and writes records into them: CPU c into ring c.
 * Events are described by the recorder, out of what PLUMB_KERNEL_DESCRIBE says, in the channel's event table; the module is only
 * told their ids. All else is as <plumb/abi/channel.h> has it, so the channel is a complete trace for whoever holds its bytes.
 *
 *   ioctl(descriptor, PLUMB_IOCTL(PLUMB_KERNEL_..., sizeof argument), &argument)
 *
 *   DESCRIBE   the first event of this index or a greater one, which is put there; ENOENT behind the last one
 *   CHANNEL    the channel to write to, once, and of one descriptor alone: two would write over each other. EBUSY: it has one.
 *              EINVAL: it is not a channel for kernel events, or smaller than it says; EOPNOTSUPP: its clock; EPERM: it is sealed; E2BIG: more than PLUMB_KERNEL_CHANNEL_MAX bytes
 *   ENABLE     the event of this index, as records with this id. ENOTCONN: without a channel; EBUSY: it is on
 *   DISABLE    the event of this index: behind it no further record of it is written. ENOENT: it was not on
 *   BEGIN      (no argument) from now on, records of all events that are on are written: in one moment for all of them
 *   END        (no argument) from one moment on none is, and behind it no further record; until BEGIN is said again
 *   PROBE      a probe of a function of the kernel or of a system call, for as long as the descriptor is open
 *              (<plumb/abi/kernel_probe.h>). ENOTCONN: without a channel; ENOENT, EADDRNOTAVAIL: there is no such function; EILSEQ,
 *              EINVAL: nothing can be probed there; EBUSY: that of the call is there;
 *              E2BIG: more than PLUMB_KERNEL_PROBES_MAX; EPERM: it takes CAP_SYS_ADMIN, and a kernel that is not locked down
 *   MISSED     how many hits of this descriptor's probes the kernel did not tell, and how many events of other modules came again and
 *              again while one record was begun: a uint64_t
 *   FOLLOW     from now on, only what is done by threads of the processes that are named so, one with each call, and by those
 *              that they start from then on: new threads, forked children, and theirs; and in which the scheduler switches to one of
 *              these, or wakes one. By the caller's numbers; 0: nobody yet, but from now on only such. ENOTCONN: without
 *              a channel; ESRCH: there is no such process, and nothing has changed but that only those are recorded that were named
 *
 *   FILTER     of the event that gets this id, only records that it lets through (<plumb/abi/kernel_filter.h>); before the event is
 *              switched on, or its probe is made. ENOTCONN: without a channel; EBUSY: that id has one; EINVAL: it is none;
 *              E2BIG: its patterns are longer than PLUMB_FILTER_PATTERN_BYTES
 *
 * In discard and overwrite mode; nobody waits. A record that could not be written is counted in its ring's `lost`. poll() says
 * POLLIN when sub-buffers were entered since the last read(), which gives, as a uint64_t, how often that was told (EAGAIN: not).
 * What the process that gave the channel does itself is left out, but for events of the scheduler.
 *
 * When the descriptor is closed, all events are off, and the channel stays as it is.
 *
 * What the module keeps of the channel's geometry and positions is its own: who writes to the shared memory damages records,
 * and nothing else.
 */
#ifndef PLUMB_ABI_KERNEL_EVENTS_H
#define PLUMB_ABI_KERNEL_EVENTS_H

#include <plumb/abi/base.h>
#include <plumb/abi/event.h>

#define PLUMB_KERNEL_CHANNEL_MAX (1ull << 34)
#define PLUMB_KERNEL_PROBES_MAX 1000u

enum plumb_kernel_operation {
    PLUMB_KERNEL_DESCRIBE = 0, /* struct plumb_kernel_event */
    PLUMB_KERNEL_CHANNEL = 1,  /* struct plumb_kernel_channel */
    PLUMB_KERNEL_ENABLE = 2,   /* struct plumb_kernel_switch */
    PLUMB_KERNEL_DISABLE = 3,  /* struct plumb_kernel_switch */
    PLUMB_KERNEL_BEGIN = 4,    /* nothing */
    PLUMB_KERNEL_END = 5,      /* nothing */
    PLUMB_KERNEL_PROBE = 6,    /* struct plumb_kernel_probe */
    PLUMB_KERNEL_MISSED = 7,   /* uint64_t */
    PLUMB_KERNEL_FOLLOW = 8,   /* struct plumb_kernel_follow */
    PLUMB_KERNEL_FILTER = 9    /* struct plumb_kernel_filter */
};

struct plumb_kernel_field {
    char name[44]; /* as the kernel calls it, NUL-terminated */
    uint8_t type;  /* enum plumb_field_type */
    uint8_t size;  /* as struct plumb_field has it, and so on */
    uint8_t flags;
    uint8_t reserved;
    uint16_t array_length;
    uint16_t reserved2;
};

struct plumb_kernel_event {
    uint32_t index; /* what is asked for, and what it is */
    uint32_t field_count;
    uint32_t recordings; /* in which it is on */
    uint32_t reserved;
    char system[32]; /* "sched", NUL-terminated */
    char name[64];   /* "sched_switch" */
    struct plumb_kernel_field fields[PLUMB_EVENT_MAX_FIELDS];
};

struct plumb_kernel_channel {
    int32_t descriptor; /* of the file, open for reading and writing */
    uint32_t reserved;  /* 0 */
};

struct plumb_kernel_switch {
    uint32_t index;
    uint32_t event_id; /* ENABLE: 1 to 65535; and PLUMB_KERNEL_OF_EVERYBODY: whoever is followed */
};
#define PLUMB_KERNEL_OF_EVERYBODY (1u << 16)

struct plumb_kernel_follow {
    int32_t process_id;
    uint32_t reserved; /* 0 */
};

PLUMB_ABI_SIZE(struct plumb_kernel_field, 52);
PLUMB_ABI_OFFSET(struct plumb_kernel_field, array_length, 48);
PLUMB_ABI_SIZE(struct plumb_kernel_event, 112 + 32 * 52);
PLUMB_ABI_OFFSET(struct plumb_kernel_event, fields, 112);
PLUMB_ABI_SIZE(struct plumb_kernel_channel, 8);
PLUMB_ABI_SIZE(struct plumb_kernel_switch, 8);
PLUMB_ABI_SIZE(struct plumb_kernel_follow, 8);

#endif
