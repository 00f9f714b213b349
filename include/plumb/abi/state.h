/*
 * The state file: which tracepoints are on, for whom, and who has understood. One per user, kept under
 * /dev/shm/plumb-UID/ where the kernel module is not loaded.
 *
 *   +-----------------------------+ 0
 *   | plumb_state_header          |  generation
 *   +-----------------------------+ rule_sets_offset
 *   | plumb_rule_set [2]          |  generation g stands in set g % 2
 *   +-----------------------------+ processes_offset
 *   | plumb_process [count]       |  one slot for each process that listens
 *   +-----------------------------+ total_bytes
 *
 * How a generation comes to be. A controller (a plumb command, the daemon) holds flock(LOCK_EX) on the file,
 * writes the set that is not in use, and publishes it with one store of `generation`. A controller killed
 * before that store has changed nothing. A process reads `generation`, copies set generation % 2, and reads
 * `generation` again: if it has not changed, the copy is whole. (A set is written again only for generation +
 * 2, and a generation grows by one.) It needs no lock and can be done in a signal handler.
 *
 * A process slot's life; in brackets who may make the step:
 *
 *   claim == 0  free
 *      | [a process: compare-and-swap of claim, 0 -> PLUMB_CLAIM() of its own, after its signal handler is installed]
 *      v
 *   claim != 0, flags are not ready for this claim   being filled
 *      | [that process: its fields, then `flags`; `acknowledged` after its first query]
 *      v
 *   listening; `acknowledged` follows `generation`
 *      | [that process: at exit]  [anyone who can judge it: when no such process lives, or it began after
 *      v                           registered_boottime_ns; compare-and-swap of claim, what was judged -> 0]
 *   claim == 0  free
 *
 * Who is who. A process id means something in one process-id namespace only, and several of them may share this file
 * (containers with the memory of their host, sandboxes). So a claim says in which namespace its number counts. It is one
 * word, so that nobody ever sees the number of one process with the namespace of another; and it has a count, so that
 * a slot that was freed and claimed again in the meantime, even by the same process, is another word: what was judged is
 * what is freed. Whoever belongs to another namespace and cannot see the process does not judge, nor signal, it.
 *
 * One process may have several: each runtime in it takes its own (a program with libplumb.a and a preloaded probe with
 * libplumb.so). A slot with a process's own id and another `image` was left behind by exec().
 *
 * Because a process claims its slot before it queries, a controller that publishes and then looks through the
 * slots misses nobody: who is not seen there has yet to query, and will read the new generation.
 *
 * The file has no holes: who makes it reserves all of it, and a process does not use one whose blocks are
 * fewer than its bytes, since a page that is first needed when there is no memory left would be a bus error.
 * On its first access to a page a process compares a reserved word with 0 and swaps in 0: that changes
 * nothing, whatever a later version keeps there, and brings in one page for writing instead of sixteen for
 * reading.
 *
 * Which events are on. An event is on in a session if one of the session's including rules matches it and
 * none of its excluding rules does. Patterns are globs over "provider:event": `*` any characters, `?` one,
 * `[a-z]` a set, `\` quotes the next. Where all of these including rules have conditions, those of its records are written
 * of which one of the conditions holds (<plumb/abi/condition.h>).
 */
#ifndef PLUMB_ABI_STATE_H
#define PLUMB_ABI_STATE_H

#include <plumb/abi/base.h>
#include <plumb/abi/condition.h>

/* "PLUMBST1", little-endian. */
#define PLUMB_STATE_MAGIC 0x315453424d554c50ull
#define PLUMB_STATE_VERSION_MAJOR 4u
#define PLUMB_STATE_VERSION_MINOR 1u

/* printf format of the per-user directory (argument: effective user id) and the names in it. */
#define PLUMB_STATE_DIRECTORY "/dev/shm/plumb-%u"
#define PLUMB_STATE_FILE "state"
/* printf format of a channel's file name (argument: session cookie, as 16 hexadecimal digits). */
#define PLUMB_CHANNEL_FILE "channel-%016llx"
/* Environment variable of launched commands: session cookies, 16 hexadecimal digits each, joined by commas.
 */
#define PLUMB_SESSIONS_VARIABLE "PLUMB_SESSIONS"
/* Whose restartable sequences a program uses: "none", or "libc" (those that the C library registers, and no others).
 * Without it, the runtime registers threads itself where the C library does not. */
#define PLUMB_RSEQ_VARIABLE "PLUMB_RSEQ"

#define PLUMB_MAX_SESSIONS 16u
#define PLUMB_MAX_RULES 256u
#define PLUMB_MAX_PROCESSES 4096u
#define PLUMB_PATTERN_BYTES 128u
#define PLUMB_EXECUTABLE_BYTES 112u

/* plumb_rule.flags */
#define PLUMB_RULE_EXCLUDE 0x1u

/* Which processes a rule is for. */
enum plumb_who {
    PLUMB_WHO_ALL = 0,
    PLUMB_WHO_PROCESS = 1,    /* process id `who_id` in namespace `who_namespace` */
    PLUMB_WHO_USER = 2,       /* real user id `who_id` */
    PLUMB_WHO_EXECUTABLE = 3, /* glob `executable` over the path of the executable, or its last part */
    /* Those whose environment names the session (PLUMB_SESSIONS_VARIABLE), and descendants of its controller that the
     * environment was taken from. */
    PLUMB_WHO_LAUNCHED = 4,
    /* Those in the control group `cgroup`, or below it. Before 4.1 nobody knew this one, and took the rule for nobody's. */
    PLUMB_WHO_CGROUP = 5
};

/* A control group of version 2, by what processes call it that see it from different cgroup namespaces: a hash of its path as
 * /proc/self/cgroup there would have it, plumb_cgroup_hash(). Of a namespace that is within the group it is that of no path
 * at all, and 0 of one that has nothing to do with it. A process whose namespace is not here can not know. */
#define PLUMB_CGROUP_PLACES 9u
struct plumb_rule_cgroup {
    uint64_t path_hash[PLUMB_CGROUP_PLACES];
    uint32_t name_space[PLUMB_CGROUP_PLACES]; /* inode; 0: unused. The first: of who made the rule */
    uint32_t reserved;
};
#define PLUMB_CGROUP_HASH_START 0xcbf29ce484222325ull

/* A bit of `who`: the rule has a `log_level_from`. Runtimes and controllers before 4.1, which do not look at that, find a `who`
 * that they do not know, and take the rule for nobody's. */
#define PLUMB_WHO_LEVELS 0x80u
#define PLUMB_WHO_OF(who) ((who)&0x7fu)

struct plumb_rule {
    uint8_t session;   /* index of its session */
    uint8_t who;       /* enum plumb_who, and PLUMB_WHO_LEVELS */
    uint8_t flags;     /* PLUMB_RULE_* */
    uint8_t log_level; /* matches events of this level and more severe ones; 255: every level */
    uint32_t who_id;
    uint32_t who_namespace; /* as in a claim; 0: that of processes that do not know theirs */
    uint16_t condition;     /* 1 + its index in the set; 0: none. None of rules that exclude */
    uint8_t log_level_from; /* matches no event that is more severe; 0: any. Not 0 with PLUMB_WHO_LEVELS */
    uint8_t reserved;
    char pattern[PLUMB_PATTERN_BYTES]; /* NUL-terminated */
    union {
        char executable[PLUMB_EXECUTABLE_BYTES]; /* NUL-terminated */
        struct plumb_rule_cgroup cgroup;         /* of PLUMB_WHO_CGROUP */
    };
};

/* plumb_session.flags */
#define PLUMB_SESSION_FILTERED_TOO 0x1u /* its user insists on programs with seccomp filters */
#define PLUMB_SESSION_KEPT \
    0x2u /* it outlives its controller: who finds that gone leaves session, rules and channel as they are, for the next one */

struct plumb_session {
    uint64_t cookie; /* random; 0: no session at this index */
    uint64_t
        controller_boottime_ns; /* CLOCK_BOOTTIME when the controller made it: tells a reused process id */
    /* Who keeps the session, and in which namespace. It is removed when this process is gone, unless it is one that is kept:
     * then nobody holds the lock on its channel's file any more (<plumb/abi/channel.h>), which shows in every namespace. */
    uint32_t controller_process_id;
    uint32_t controller_namespace; /* 0: not known */
    uint32_t
        controller_filters; /* seccomp filters that the controller has: a program with as many has the same */
    uint32_t flags;         /* PLUMB_SESSION_* */
    char name[64];          /* NUL-terminated */
    uint64_t since_generation; /* the first that has it; 0: not said */
    char reserved1[24];
};

struct plumb_rule_set {
    uint64_t generation; /* of this set */
    uint32_t rule_count;
    uint32_t reserved;
    uint64_t reserved1[6];
    struct plumb_session sessions[PLUMB_MAX_SESSIONS];
    struct plumb_rule rules[PLUMB_MAX_RULES];
    struct plumb_condition conditions[PLUMB_MAX_CONDITIONS];
};

/* plumb_process.flags */
#define PLUMB_PROCESS_ASYNC 0x1u    /* has the update-signal handler */
#define PLUMB_PROCESS_RSEQ 0x2u     /* writes by restartable sequences */
#define PLUMB_PROCESS_READY 0x4u    /* the slot's fields are filled; for one claim: PLUMB_IS_READY() */
#define PLUMB_PROCESS_FILTERED 0x8u /* it has put a seccomp filter on itself */
#define PLUMB_PROCESS_NO_CLOCK \
    0x10u /* it may not read the cycle counter (PR_SET_TSC, strict mode): nothing can be recorded */
#define PLUMB_PROCESS_CLOCK_CALLS \
    0x20u /* it is held, and has lost events of a session whose clock takes system calls to read */
#define PLUMB_PROCESS_NO_TIMES \
    0x40u /* it is held, and durations in its events are 0, since they would take system calls: plumb_monotonic_ns() */

#define PLUMB_PROCESS_UNFILTERED \
    0x80u /* set by a controller, that has seen in /proc that none of its threads has a seccomp filter: the process may not see it */

#define PLUMB_PROCESS_RULES_4_1 0x100u /* it knows rules of version 4.1: PLUMB_WHO_LEVELS, PLUMB_WHO_CGROUP */

#define PLUMB_PROCESS_INTERRUPTED \
    0x200u /* an update signal has ended a system call of it, which returned EINTR; taken back by who sends the next one */

/* A claim: inode of the process-id namespace (0: not known), process id in it (at most 22 bits, PID_MAX_LIMIT), and a
 * count, plumb_state_header.claims, that differs from one claim to the next. */
#define PLUMB_CLAIM(space, process_id, count)                                       \
    ((uint64_t)(uint32_t)(space) << 32 | (uint64_t)((process_id)&0x3fffffu) << 10 | \
     (uint64_t)((count)&0x3ffu))
#define PLUMB_CLAIM_SPACE(claim) ((uint32_t)((claim) >> 32))
#define PLUMB_CLAIM_PROCESS(claim) ((uint32_t)((claim) >> 10) & 0x3fffffu)
#define PLUMB_CLAIM_COUNT(claim) ((uint32_t)(claim)&0x3ffu)

/* The upper half of `flags` says for which claim the lower half speaks, so that nobody takes the fields of a slot's last
 * owner for those of the next. */
#define PLUMB_FLAGS(claim, flags) (PLUMB_CLAIM_COUNT(claim) << 16 | ((flags)&0xffffu))
#define PLUMB_IS_READY(claim, flags) \
    (((flags)&PLUMB_PROCESS_READY) != 0 && (flags) >> 16 == PLUMB_CLAIM_COUNT(claim))

/* plumb_process.error, beside errno: it has had a seccomp filter from the start that the session's controller does not have;
 * it can not see which executable it is, and the session's rules ask for that; it may not read the cycle counter; it can not
 * see in which time namespace it is, and the session's clock is one that these shift. */
#define PLUMB_ERROR_FILTERED 4096
#define PLUMB_ERROR_NO_EXECUTABLE 4097
#define PLUMB_ERROR_NO_CLOCK 4098
#define PLUMB_ERROR_TIME_NAMESPACE 4099
/* It can not know whether it is in a control group that the session's rules ask for: its own one is so many levels below the root
 * of its cgroup namespace, which the rules do not name; PLUMB_CGROUP_DEPTH_UNKNOWN if it does not see that either. */
#define PLUMB_ERROR_NO_CGROUP(depth) (4160 + (depth))
#define PLUMB_IS_NO_CGROUP(error) ((error) >= 4160 && (error) < 4224)
#define PLUMB_CGROUP_DEPTH_UNKNOWN 63
/* It could not look whether it has a filter from the start, for this errno, and is left alone as if it had one. */
#define PLUMB_ERROR_FILTERS_UNKNOWN(number) (8192 + (number))
#define PLUMB_IS_FILTERS_UNKNOWN(error) ((error) >= 8192)

/* Times here are the machine's, which no time namespace shifts. With this bit: it could not be known how far CLOCK_BOOTTIME is
 * shifted where it was read. */
#define PLUMB_BOOTTIME_UNKNOWN (1ull << 63)

/* plumb_process.held: a bit for each of those who hold it */
#define PLUMB_HELD_BY_ITSELF 2u
#define PLUMB_HELD_BY_SESSION(index) (1u << (16 + (index)))

struct plumb_process {
    uint64_t claim; /* PLUMB_CLAIM(); 0: free */
    uint64_t registered_boottime_ns;
    uint64_t acknowledged; /* the last generation that is true everywhere in the process */
    uint32_t flags;        /* PLUMB_FLAGS() of PLUMB_PROCESS_* */
    int32_t error;         /* errno of its last failure to open a session's channel, PLUMB_ERROR_*, or 0 */
    uint32_t
        not_attached; /* sessions, a bit for each index, that it should write to and whose channel it could not open;
                            * one store, before `acknowledged` */
    uint32_t
        signalled_s; /* CLOCK_BOOTTIME when the last update signal was sent to it, in seconds; 0: not known */
    uint64_t handler;    /* address of its handler in that process: tells two runtimes there apart */
    uint32_t unanswered; /* update signals sent since its handler last had one; see below */
    uint32_t image; /* the program that runs there, since its last exec(): a hash of what is random in it */
    uint32_t held;  /* PLUMB_HELD_* of all who hold it; see below */
    uint32_t signal_number; /* the update signal it listens on; 0: none (tp-sync alone) */
};

/*
 * Held processes. A seccomp filter may end a process for a system call that tracing needs. While `held` is set, the
 * runtime there makes no system calls of its own accord: it does not follow generations, wakes and waits for nobody,
 * unmaps nothing; it writes what is on until its channel is closed. Records of threads that are not known yet are
 * dropped, and all of them where the clock takes system calls to read; children are not traced. Who sets it, each a bit of
 * his own, so that nobody takes back what another one has reason for:
 *
 *   the process   before a filter is in force that it installs by prctl() or syscall(); it takes it back if the kernel
 *                 refuses the filter.
 *   a controller  that sees a filter in /proc which it has not itself, before it publishes a generation and while its session
 *                 lasts: filters that are installed without these functions. It takes back what it set, and what is left of
 *                 sessions that are over, when it sees that there is no such filter; not when it can not see that.
 *
 * A session that is over has its bit left where the process had a filter: that is still there.
 * A controller whose user insists takes back all. What has PLUMB_PROCESS_NO_CLOCK can not be insisted on.
 */

/*
 * The update signal. It is one whose default action is to be ignored: a process that is in execve() still
 * shows its handlers while they are taken away, and what is pending then meets the default. It goes to one
 * thread (rt_tgsigqueueinfo), says SI_QUEUE, and its value names the slot, so that a handler that shares the
 * signal with the program's own, or with that of a second runtime in the process, knows whose it is.
 *
 * Who sends one first adds 1 to `unanswered`; the handler stores 0. At PLUMB_UNANSWERED_MAX no more is sent,
 * by anybody: the signal reaches a handler that the program has put in the place of ours. What was not sent, or was
 * sent to a thread that ended and said nothing, says nothing about that: the 1 is taken back. And each
 * PLUMB_SILENCE_S after the last one, whoever wants something of the process may send it one more: some are lost, as
 * when a signal of the program's own is pending.
 */
#define PLUMB_SIGNAL_VALUE(slot_index) (0x504c4d42ull << 32 | (slot_index))
#define PLUMB_SIGNAL_SLOT(value) ((uint32_t)(value))
#define PLUMB_SIGNAL_NO_SLOT \
    0xffffffffu /* to a child that does not know yet that it is one, and has no slot */
#define PLUMB_IS_SIGNAL_VALUE(value) ((value) >> 32 == 0x504c4d42u)
#define PLUMB_UNANSWERED_MAX 3u
#define PLUMB_SILENCE_S 60u

/* Word of what no slot says any more: that the session at that index could not have somebody. A bit of `not_attached` speaks of
 * the session that is there now if the slot's `acknowledged` is not before the session's `since_generation`. */
struct plumb_unattached {
    uint32_t count; /* grows, and is never reset */
    int32_t error;  /* of the last one, as are these: */
    uint64_t claim;
};

struct plumb_state_header {
    uint64_t magic;
    uint16_t version_major;
    uint16_t version_minor;
    uint32_t header_bytes;
    uint64_t total_bytes;
    uint64_t rule_sets_offset;
    uint64_t processes_offset;
    uint32_t process_count;
    uint32_t reserved0;
    uint64_t reserved1[2];

    PLUMB_ABI_ALIGNED(64)
    uint64_t generation;    /* the one store to this word publishes a rule set; starts at 0 */
    uint32_t ack_futex;     /* a process adds 1 when it has acknowledged, and wakes if ack_waiters was set */
    uint32_t ack_waiters;   /* a controller sets it before each wait, behind its look at ack_futex; a process
                             * swaps in 0 before it adds, and looks again behind that */
    uint32_t slots_refused; /* processes that found no free slot */
    uint32_t claims;        /* a process adds 1 before it claims a slot */
    uint32_t reserved2[10];

    /* From slots that were given back, or were taken over or freed when their process had ended. */
    struct plumb_unattached unattached[PLUMB_MAX_SESSIONS];
    /* From processes that went on: they could attach later, or called exec() for another program. */
    struct plumb_unattached reached_late[PLUMB_MAX_SESSIONS];
};

PLUMB_ABI_SIZE(struct plumb_rule, 256);
PLUMB_ABI_OFFSET(struct plumb_rule, who_namespace, 8);
PLUMB_ABI_OFFSET(struct plumb_rule, condition, 12);
PLUMB_ABI_OFFSET(struct plumb_rule, log_level_from, 14);
PLUMB_ABI_OFFSET(struct plumb_rule, pattern, 16);
PLUMB_ABI_OFFSET(struct plumb_rule, executable, 144);
PLUMB_ABI_SIZE(struct plumb_rule_cgroup, PLUMB_EXECUTABLE_BYTES);
PLUMB_ABI_SIZE(struct plumb_session, 128);
PLUMB_ABI_OFFSET(struct plumb_session, controller_process_id, 16);
PLUMB_ABI_OFFSET(struct plumb_session, controller_namespace, 20);
PLUMB_ABI_OFFSET(struct plumb_session, name, 32);
PLUMB_ABI_OFFSET(struct plumb_session, since_generation, 96);
PLUMB_ABI_SIZE(struct plumb_rule_set, 64 + 16 * 128 + 256 * 256 + 32 * 2048);
PLUMB_ABI_OFFSET(struct plumb_rule_set, rules, 64 + 16 * 128);
PLUMB_ABI_SIZE(struct plumb_process, 64);
PLUMB_ABI_OFFSET(struct plumb_process, claim, 0);
PLUMB_ABI_OFFSET(struct plumb_process, acknowledged, 16);
PLUMB_ABI_OFFSET(struct plumb_process, not_attached, 32);
PLUMB_ABI_OFFSET(struct plumb_process, handler, 40);
PLUMB_ABI_OFFSET(struct plumb_process, unanswered, 48);
PLUMB_ABI_OFFSET(struct plumb_process, held, 56);
PLUMB_ABI_OFFSET(struct plumb_process, signal_number, 60);
PLUMB_ABI_SIZE(struct plumb_unattached, 16);
PLUMB_ABI_SIZE(struct plumb_state_header, 128 + 2 * 16 * 16);
PLUMB_ABI_OFFSET(struct plumb_state_header, generation, 64);
PLUMB_ABI_OFFSET(struct plumb_state_header, ack_futex, 72);
PLUMB_ABI_OFFSET(struct plumb_state_header, unattached, 128);
PLUMB_ABI_OFFSET(struct plumb_state_header, reached_late, 128 + 16 * 16);

/* Where the parts of a state file of this version are. */
#define PLUMB_STATE_RULE_SETS_OFFSET 4096u
#define PLUMB_STATE_PROCESSES_OFFSET 274432u
#define PLUMB_STATE_TOTAL_BYTES (PLUMB_STATE_PROCESSES_OFFSET + PLUMB_MAX_PROCESSES * 64u)
PLUMB_STATIC_ASSERT(PLUMB_STATE_RULE_SETS_OFFSET + 2 * sizeof(struct plumb_rule_set) <=
                        PLUMB_STATE_PROCESSES_OFFSET,
                    "rule sets reach into the process slots");

#endif
