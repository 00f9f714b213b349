/*
 * The query: what a process asks of the operating system, and what it is told. One request and one result,
 * with two backends behind plumb_query(): the system call that the kernel module provides, or, on a stock
 * kernel, the state file. Callers do not know which one answered.
 *
 * The answer holds only what concerns the asking process: the backend has already dropped rules that are for
 * others.
 */
#ifndef PLUMB_ABI_SYSCALL_H
#define PLUMB_ABI_SYSCALL_H

#include <plumb/abi/base.h>
#include <plumb/abi/state.h>

#define PLUMB_QUERY_VERSION 3u

struct plumb_query_request {
    uint32_t version;           /* PLUMB_QUERY_VERSION */
    uint32_t process_id;        /* as it sees itself */
    uint32_t process_namespace; /* inode; 0: not known */
    uint32_t user_id;
    uint32_t launched_count; /* used elements of `launched` */
    uint32_t reserved;
    uint64_t launched[PLUMB_MAX_SESSIONS]; /* session cookies named by the process's environment */
    char executable[4096];                 /* its path, NUL-terminated */
};

struct plumb_query_result {
    uint64_t generation;
    uint32_t rule_count;
    uint32_t
        not_judged; /* sessions, a bit for each index, with rules by executable or control group where that is not known */
    struct plumb_session sessions[PLUMB_MAX_SESSIONS];
    struct plumb_rule rules[PLUMB_MAX_RULES];
    struct plumb_condition
        conditions[PLUMB_MAX_CONDITIONS]; /* those that these rules name, where they name them */
};

PLUMB_ABI_SIZE(struct plumb_query_request, 24 + 128 + 4096);
PLUMB_ABI_SIZE(struct plumb_query_result, 16 + 16 * 128 + 256 * 256 + 32 * 2048);

#endif
