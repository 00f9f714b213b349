/*
 * Sessions of plumb-consumerd, for programs that control them: what `plumb create`, `enable`, `start` and the others do, in C.
 * Link with libplumb-control (pkg-config plumb-control). A program that only traces needs none of this.
 *
 *   struct plumb_control* control = plumb_control_open();
 *   struct plumb_session_rule rule = {.event = "shop:*", .filter = "id > 7"};
 *   if (plumb_session_create(control, "web", NULL) != 0 || plumb_session_enable(control, "web", &rule, 1) != 0 ||
 *       plumb_session_start(control, "web") != 0)
 *       fprintf(stderr, "%s\n", plumb_control_error(control));
 *   plumb_control_close(control);
 *
 * Every function returns 0, or a negative errno and leaves a sentence for a person in plumb_control_error(): -ENOENT, there is no
 * such session; -EEXIST, there is one already; -EINVAL, words that mean nothing; -ENOSPC, no room for another one; -EPERM, another
 * user's; -EIO for what has no number. They wait until it is done: enabling, disabling, starting and stopping return when
 * that is true in every process that it concerns.
 *
 * A struct plumb_control is used by one thread at a time; different ones by different threads. Not from signal handlers.
 */
#ifndef PLUMB_SESSION_H
#define PLUMB_SESSION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plumb_control;

/* NULL: there is no memory. Nobody is asked yet. */
struct plumb_control* plumb_control_open(void);
void plumb_control_close(struct plumb_control* control);

/* Of the last call that failed; until the next call. */
const char* plumb_control_error(const struct plumb_control* control);
/* Of the last call that did not: what plumb-consumerd answered, as JSON (docs/consumerd-protocol.md), with who could not
 * follow; until the next call. */
const char* plumb_control_answer(const struct plumb_control* control);

/* What is 0 or NULL is as `plumb create` has it without an option. Begin with `= {0}`. */
struct plumb_session_options {
    const char* output;  /* directory of the trace, which must be new */
    const char* mode;    /* "discard", "overwrite" (a flight recorder), "block" */
    const char* clock;   /* "tsc", "mono", "boot", "real" */
    const char* context; /* "vpid,callstack:32": what every record has besides its fields */
    uint32_t subbuf_bytes, subbuf_count;
    uint64_t block_timeout_ns;
    uint64_t rotate_period_ns, rotate_bytes;
    uint64_t keep_chunks, keep_bytes;
    int rings_on_demand, plain, seccomp; /* flags */
    const char* buffers;                 /* "cpu", "global": one ring for all CPUs */
    int all_users;                       /* a flag: as root, programs of all users, also in containers */
    const uint32_t* users;               /* as root: programs of these users, too */
    size_t user_count;
    const char* const*
        kernel_events; /* as root: of the kernel, "sched:*", "syscalls:openat", as `plumb create -k` */
    size_t kernel_event_count;
    uint64_t kernel_buffer_bytes;       /* of each CPU */
    int no_file_names, statedump_files; /* flags */
};

struct plumb_session_rule {
    const char* event;      /* glob over provider:event; a leading ! excludes */
    const char* filter;     /* NULL: none */
    const char* log_level;  /* "warning": and more severe; "err..warning": a range; NULL: all */
    const char* executable; /* glob; NULL: of all processes */
    uint32_t process_id;    /* 0: of all processes */
    const char* cgroup;     /* control group, as "system.slice/nginx.service"; NULL: of all */
};

/* What a session does by itself: the words are those of `plumb trigger SESSION add`. Begin with `= {0}`. */
struct plumb_session_trigger {
    const char* name;
    const char* cause;          /* "event shop:order if id > 7", "fill 80%", "signal USR1", "death SIGSEGV" */
    const char* const* actions; /* each "snapshot", "rotate", "stop" or "run CMD ARG" */
    size_t action_count;
    uint64_t at_most;  /* so many times; 0: any number of times */
    uint64_t every_ns; /* at most once in this time; 0: each time */
};

/* `options` may be NULL. */
int plumb_session_create(struct plumb_control* control, const char* name,
                         const struct plumb_session_options* options);
int plumb_session_enable(struct plumb_control* control, const char* name,
                         const struct plumb_session_rule* rules, size_t count);
/* Those that have these events, and whatever else is said; `count` of 0: all rules. */
int plumb_session_disable(struct plumb_control* control, const char* name,
                          const struct plumb_session_rule* rules, size_t count);
int plumb_session_start(struct plumb_control* control, const char* name);
int plumb_session_stop(struct plumb_control* control, const char* name);
int plumb_session_rotate(struct plumb_control* control, const char* name);
int plumb_session_snapshot(struct plumb_control* control, const char* name);
int plumb_session_clear(struct plumb_control* control, const char* name);
int plumb_session_destroy(struct plumb_control* control, const char* name);
/* `name` of NULL: of all sessions. */
int plumb_session_status(struct plumb_control* control, const char* name);
int plumb_session_add_trigger(struct plumb_control* control, const char* name,
                              const struct plumb_session_trigger* trigger);
int plumb_session_remove_trigger(struct plumb_control* control, const char* name, const char* trigger);
/* The answer's "triggers" says how often each has fired. */
int plumb_session_triggers(struct plumb_control* control, const char* name);
/* The answer's "description" is what plumb_session_load() takes. */
int plumb_session_save(struct plumb_control* control, const char* name);
int plumb_session_load(struct plumb_control* control, const char* description);

#ifdef __cplusplus
} // extern "C"
#endif

#endif
