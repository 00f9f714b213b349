/*
 * Context: what is known of who writes a record, and where, beside what the event's fields say. It is of a session: the creator
 * of a channel says in its header which of these it wants (plumb_channel_header.context), and each process describes its events
 * so: the fields below, which have the flag PLUMB_FIELD_CONTEXT, in the order of their bits, and behind them the event's own.
 * A record's payload has them in that order, too.
 *
 * A process that does not know a bit leaves it out of its descriptions and of its records.
 */
#ifndef PLUMB_ABI_CONTEXT_H
#define PLUMB_ABI_CONTEXT_H

#include <plumb/abi/base.h>

/* Field names are those of LTTng. What could not be known, since it takes a system call and none may be made, is -1 in numbers of
 * processes, threads, processors and users, and empty in names. */
#define PLUMB_CONTEXT_VPID (1u << 0) /* i32 vpid: the process's number for itself */
/* 1u << 1: the thread's number, vtid, is in every record anyway */
#define PLUMB_CONTEXT_PROCNAME (1u << 2) /* string procname: the thread's name */
#define PLUMB_CONTEXT_CPU (1u << 3)      /* i32 cpu_id */
#define PLUMB_CONTEXT_UID (1u << 4)      /* u32 vuid: the real user id, of the thread */
#define PLUMB_CONTEXT_EUID (1u << 5)     /* u32 veuid */
#define PLUMB_CONTEXT_GID (1u << 6)      /* u32 vgid */
#define PLUMB_CONTEXT_EGID (1u << 7)     /* u32 vegid */
/* Inodes, as they were when the process began to be traced; 0: not known. */
#define PLUMB_CONTEXT_PID_NS (1u << 8)     /* u32 pid_ns */
#define PLUMB_CONTEXT_USER_NS (1u << 9)    /* u32 user_ns */
#define PLUMB_CONTEXT_MNT_NS (1u << 10)    /* u32 mnt_ns */
#define PLUMB_CONTEXT_NET_NS (1u << 11)    /* u32 net_ns */
#define PLUMB_CONTEXT_IPC_NS (1u << 12)    /* u32 ipc_ns */
#define PLUMB_CONTEXT_UTS_NS (1u << 13)    /* u32 uts_ns */
#define PLUMB_CONTEXT_CGROUP_NS (1u << 14) /* u32 cgroup_ns */
#define PLUMB_CONTEXT_TIME_NS (1u << 15)   /* u32 time_ns */
#define PLUMB_CONTEXT_CGROUP (1u << 16)    /* u64 cgroup: of its directory in the hierarchy of version 2 */
/* enum u8 callstack_user_end, why the stack goes no further (enum plumb_callstack_end), and x64[] callstack_user: return
 * addresses, the innermost first, as many as plumb_channel_header.callstack_depth at most. The first is where the event was traced.
 * In their place, in code that is made at run time: names (<plumb/abi/frame_name.h>). */
#define PLUMB_CONTEXT_CALLSTACK (1u << 17)

#define PLUMB_CONTEXT_NAMESPACES 0xff00u
#define PLUMB_CONTEXT_ALL 0x3fffdu

/* All of them. Beside these a description has up to PLUMB_EVENT_MAX_FIELDS. */
#define PLUMB_CONTEXT_MAX_FIELDS 20u

#define PLUMB_CALLSTACK_DEPTH 64u /* where nobody says another one */
#define PLUMB_CALLSTACK_MAX_DEPTH 512u

enum plumb_callstack_end {
    PLUMB_CALLSTACK_WHOLE = 0,   /* the outermost function is in it */
    PLUMB_CALLSTACK_DEEPER = 1,  /* it is deeper than was asked for */
    PLUMB_CALLSTACK_UNKNOWN = 2, /* the last address is in code that says nothing of its frames */
    PLUMB_CALLSTACK_UNREADABLE =
        3,                     /* the next frame is where there is no memory, or none that may be asked for */
    PLUMB_CALLSTACK_CUT = 4,   /* the record would have become too large */
    PLUMB_CALLSTACK_UNABLE = 5 /* no stacks can be walked here */
};

#endif
