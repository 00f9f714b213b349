/*
 * Probes of functions of the kernel, and of system calls, PLUMB_KERNEL_PROBE of <plumb/abi/kernel_events.h>: where one stands,
 * and what it fetches into its record. The recorder makes this out of what a person writes
 * (`vfs_read(n=%dx:u64, name=+0(+48(%di)):string)`, `syscalls:openat`) and describes the event; the module only fetches.
 *
 * A record's payload has first where it was: of an entry, the address of the probe; of a return, that of the function and that
 * which it returns to, 8 bytes each. Then one value for each fetch, in order, as <plumb/abi/event.h> has its type.
 *
 * What is fetched begins as `source` says. Then, `depth` times: an offset is added, and what lies at that address is read: 8
 * bytes, or, the last time, the value itself. Addresses below those of the kernel, and those with PLUMB_FETCH_USER, are in
 * the memory of the process that runs. What can not be read is 0, or "(fault)". A text that is longer than there is room for, or of
 * which only the beginning can be read, ends in "..."; one leaves 256 bytes to each that follows, or an equal part of what there is.
 *
 * Of a system call (PLUMB_PROBE_CALL) the registers are those of the program: di, si, dx, r10, r8, r9 hold what it was given, and
 * ax, when it returns, the result. It has no addresses in front. A null pointer is the text "(null)", and what can not be read
 * "(not read)". Mostly the kernel has it in memory by the time the call returns: then, in front of the call's exit, whoever
 * asked for that (PLUMB_PROBE_LATE) gets a record that has three texts: the call's name, the argument's name, and its text.
 */
#ifndef PLUMB_ABI_KERNEL_PROBE_H
#define PLUMB_ABI_KERNEL_PROBE_H

#include <plumb/abi/base.h>
#include <plumb/abi/event.h>

#define PLUMB_FETCH_DEPTH_MAX 4u
/* Beside the two addresses, which are fields as well. */
#define PLUMB_FETCH_MAX (PLUMB_EVENT_MAX_FIELDS - 2u)
/* All texts of a record together, with a NUL each; what is longer is cut. */
#define PLUMB_FETCH_TEXT_BYTES 3072u

enum plumb_fetch_source {
    PLUMB_FETCH_VALUE = 0,    /* `value` */
    PLUMB_FETCH_REGISTER = 1, /* that of this number */
    PLUMB_FETCH_STACK = 2,    /* the word of this number, counted from the stack's top */
    PLUMB_FETCH_COMM = 3      /* the name of the thread; a STRING, of depth 0 */
};

/* As the kernel calls them in probes; the numbers are those of the processor's instructions. */
enum plumb_fetch_register {
    PLUMB_REGISTER_AX = 0,
    PLUMB_REGISTER_CX = 1,
    PLUMB_REGISTER_DX = 2,
    PLUMB_REGISTER_BX = 3,
    PLUMB_REGISTER_SP = 4,
    PLUMB_REGISTER_BP = 5,
    PLUMB_REGISTER_SI = 6,
    PLUMB_REGISTER_DI = 7,
    PLUMB_REGISTER_R8 = 8, /* to r15, 15 */
    PLUMB_REGISTER_IP = 16,
    PLUMB_REGISTER_FLAGS = 17,
    PLUMB_REGISTER_COUNT = 18
};

/* plumb_kernel_fetch.flags: the read of this step is of the process's memory, whatever its address: bit 0 is the first. */
#define PLUMB_FETCH_USER(step) (1u << (step))

struct plumb_kernel_fetch {
    uint8_t source; /* enum plumb_fetch_source */
    uint8_t type;   /* PLUMB_FIELD_INTEGER, or PLUMB_FIELD_STRING */
    uint8_t size;   /* of an integer: 1, 2, 4, 8; its lowest bytes count. 1 for a string */
    uint8_t depth;
    uint16_t number;
    uint16_t flags;
    uint64_t value;
    int64_t offsets[PLUMB_FETCH_DEPTH_MAX];
};

/* plumb_kernel_probe.flags */
#define PLUMB_PROBE_RETURN 0x1u /* when the function returns */
/* Of a system call, not of a function: `offset` is its number. */
#define PLUMB_PROBE_CALL 0x2u
/* With PLUMB_PROBE_CALL and PLUMB_PROBE_RETURN: the texts that its entry could not read. `symbol` is its name, `fetches` are those
 * of its entry, whose probe comes first, and `names` theirs; of what is no text, empty. */
#define PLUMB_PROBE_LATE 0x4u

#define PLUMB_CALL_ARGUMENTS_MAX 6u

struct plumb_kernel_probe {
    uint32_t event_id;
    uint32_t flags;
    char symbol[128]; /* "vfs_read", "module:function", NUL-terminated; empty: `offset` is an address */
    uint64_t offset;  /* into it; 0 for a return */
    uint32_t fetch_count;
    uint32_t reserved; /* 0 */
    char names[PLUMB_CALL_ARGUMENTS_MAX][24];
    struct plumb_kernel_fetch fetches[PLUMB_FETCH_MAX]; /* behind fetch_count: 0 */
};

PLUMB_ABI_SIZE(struct plumb_kernel_fetch, 48);
PLUMB_ABI_OFFSET(struct plumb_kernel_fetch, number, 4);
PLUMB_ABI_OFFSET(struct plumb_kernel_fetch, value, 8);
PLUMB_ABI_SIZE(struct plumb_kernel_probe, 296 + 30 * 48);
PLUMB_ABI_OFFSET(struct plumb_kernel_probe, offset, 136);
PLUMB_ABI_OFFSET(struct plumb_kernel_probe, fetches, 296);

#endif
