/*
 * What the small objects and the macros of <plumb/tracepoint.h> and <plumb/marker.h> use of the runtime.
 * Programs do not need to call anything here.
 *
 * One process has one runtime (libplumb) and any number of objects: the executable, its shared objects,
 * plug-ins. An object that has events links one of tp-sync.o, tp-async.o and tp-async-lib.o; that file's
 * constructor registers the object's events, its destructor takes them back.
 *
 * Everything here is async-signal-safe unless it says otherwise, and keeps errno.
 */
#ifndef PLUMB_RUNTIME_H
#define PLUMB_RUNTIME_H

#include <plumb/abi/event.h>
#include <plumb/abi/state.h>
#include <plumb/abi/syscall.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the structs below; an object compiled against another one is refused by the runtime. */
#define PLUMB_RUNTIME_VERSION 1u

struct plumb_event_label {
    int64_t value;
    const char* name;
};

struct plumb_event_field {
    const char* name; /* NULL in markers: taken from the format */
    const struct plumb_event_label* labels;
    uint16_t label_count;
    uint16_t array_length; /* PLUMB_FIELD_ARRAY */
    uint8_t type;          /* enum plumb_field_type */
    uint8_t size;          /* bytes of one element */
    uint8_t flags;         /* PLUMB_FIELD_SIGNED, PLUMB_FIELD_HEX, PLUMB_FIELD_RANGES */
    uint8_t reserved;
};

/* The constant half of an event, as the compiler laid it out; `plumb list FILE` reads it without running the
 * file. */
struct plumb_event_info {
    const char* provider;
    const char* name;
    const char* source_file;
    const char* format; /* markers: the format that names the fields; else NULL */
    const struct plumb_event_field* fields;
    uint32_t source_line;
    uint16_t field_count;
    uint8_t log_level; /* enum plumb_log_level */
    uint8_t version;   /* PLUMB_RUNTIME_VERSION */
};

struct plumb_writer; /* the runtime's: where one session's channel is in this process */
struct plumb_event_conditions;
struct plumb_event_counts;

/* The variable half: one cache line, written by the runtime alone. */
struct plumb_event {
    /* Bit s: on in session s; bit PLUMB_MAX_SESSIONS + s: those of its records that fulfil a condition are. 0: off */
    uint32_t enabled;
    uint32_t registrations;
    struct plumb_event_conditions* conditions; /* the runtime's; NULL: there never was one */
    uint16_t ids[PLUMB_MAX_SESSIONS];          /* the event's id in session s's channel */
    const struct plumb_event_info* info;
    struct plumb_event_counts* counts; /* the runtime's; NULL: it was never counted by a field */
} __attribute__((aligned(64)));

/* plumb_object.flags */
#define PLUMB_OBJECT_ASYNC 0x1u /* wants the update signal: install the handler */
#define PLUMB_OBJECT_STAYS 0x2u /* is never unloaded (-z nodelete); executables need not say so */

/* What the writer in the small objects needs to know of this process. */
struct plumb_writer_setup {
    int64_t rseq_offset; /* of struct rseq from the thread pointer; 0: do not use rseq */
    struct plumb_writer* writers;
};

/* One registered object; lives in the small object file. */
struct plumb_object {
    uint32_t version; /* PLUMB_RUNTIME_VERSION */
    uint32_t flags;   /* PLUMB_OBJECT_* */
    struct plumb_event** events_begin;
    struct plumb_event** events_end;
    struct plumb_writer_setup* setup; /* filled by plumb_register_object */
    struct plumb_object* next;        /* the runtime's */
    /* NULL, or called at the end of each update, when `enabled` of all events of the process is what the rules want: for who keeps
     * a word of his own beside it. As in a signal handler, with signals blocked, on a stack of the runtime's; an event may
     * be switched off without a call, when its session ends. The object may have no events. Not behind plumb_unregister_object(). */
    void (*updated)(struct plumb_object* object);
    uint64_t reserved[2];
};

/*
 * Registers an object's events and asks once which of them are on. Called by constructors; not from signal
 * handlers. Returns 0, or -errno; the program runs on either way, with its tracepoints off if the cause was
 * shared memory.
 */
int plumb_register_object(struct plumb_object* object);

/*
 * Takes them back: when it returns, no update touches the object any more, but for one that a debugger has stopped in the
 * middle for more than ten seconds. Not from signal handlers.
 * An object that stays as long as the process does nothing here while it is traced: its destructors run at exit,
 * when other threads may still be at work.
 */
void plumb_unregister_object(struct plumb_object* object);

/*
 * Asks the operating system: rules that concern the process in `request`, and their generation.
 * Returns 0, -ENOENT if there is nobody to ask, -EAGAIN if the rules changed too often while they were read.
 */
int plumb_query(const struct plumb_query_request* request, struct plumb_query_result* result);

/* Writes a record to a session, by the slow path: everything that plumb_emit() leaves to it. From PLUMB_MAX_SESSIONS on, the
 * session less that, if the payload fulfils the session's condition. */
void plumb_emit_slow(struct plumb_event* event, uint32_t session, const void* payload,
                     uint32_t payload_bytes);

/* The same. `entry`: the canonical frame address of a function that the tracepoint called, with which call stacks begin. */
void plumb_emit_from(struct plumb_event* event, uint32_t session, const void* payload, uint32_t payload_bytes,
                     const void* entry);

/*
 * Writes a record that did not fit the caller's stack buffer; `cut`: something was shortened already. The payload may stand
 * anywhere; in a scratch buffer it begins where that does: elsewhere in it the buffer is taken to be somebody else's by
 * now, and the record is counted as lost.
 */
void plumb_emit_large(struct plumb_event* event, const void* payload, uint32_t payload_bytes, int cut);
/* The same to some sessions, a bit each as in `enabled`, if the event is on in them. */
void plumb_emit_large_to(struct plumb_event* event, uint32_t sessions, const void* payload,
                         uint32_t payload_bytes, int cut);

/* Counts an event as lost, in the sessions that it is on in: there was no room to put it together. Any thread, signal handlers. */
void plumb_lose(struct plumb_event* event);

/* Whether another word than this is at an address, or no memory at all. Not where that is there and can not be read, or no system call of ours
 * may be made. Any thread, signal handlers. */
int plumb_is_other_word_there(const void* address, uint64_t word);

/*
 * Makes system calls of ours, by a function that does so: 0. -EPERM, and it is not called, where none may be made any more, as behind a
 * seccomp filter; who is about to put that on waits until it has returned. Any thread, signal handlers.
 */
int plumb_with_permit(void (*function)(void* argument), void* argument);

/*
 * For who puts a payload together field by field, and has no room for the next one: shortens the longest of the first
 * `field_count` fields, which are there, as far as is their share if that one is to have `wanted_bytes` more than the least
 * that it takes. They and these then fit `limit_bytes`, if all that does not vary does. Returns the bytes that are left of the payload.
 */
uint32_t plumb_share_payload(const struct plumb_event_info* info, uint32_t field_count, void* payload,
                             uint32_t payload_bytes, uint32_t limit_bytes, uint64_t wanted_bytes);

/*
 * CLOCK_MONOTONIC in nanoseconds, for durations in events; not by clock_gettime(), which may be a replaced one. 0 where
 * that would take a system call in a process that may make none of ours (a seccomp filter).
 */
uint64_t plumb_monotonic_ns(void);

/* PLUMB_SCRATCH_BYTES of memory, whose start is for such a record's payload, or NULL; given back with
 * plumb_scratch_release(). */
void* plumb_scratch_acquire(void) __attribute__((cold));
void plumb_scratch_release(void* scratch);
/* It is not taken over by somebody else, as one is that has not been used for ten seconds: for who finds by himself what was left by a jump. */
void plumb_scratch_keep(void* scratch) __attribute__((cold));
#define PLUMB_SCRATCH_BYTES 65600u

/*
 * What stands in the small object files goes by a second name in programs, so that a linker which misses it names the files.
 * They themselves define PLUMB_SMALL_OBJECT_, and call it by its own.
 */
#ifdef PLUMB_SMALL_OBJECT_
#define PLUMB_IN_SMALL_OBJECT_(name) __attribute__((visibility("hidden")))
#else
#define PLUMB_IN_SMALL_OBJECT_(name) \
    __asm__(#name PLUMB_MISSING_OBJECT_) __attribute__((visibility("hidden")))
#endif
#define PLUMB_MISSING_OBJECT_ "__link_tp_async.o__or_tp_async_lib.o__or_tp_sync.o"

/*
 * The fast path, in the small object files: one copy in each executable and shared object, called directly.
 * `payload` is readable up to the next multiple of 8 bytes.
 */
void plumb_emit(struct plumb_event* event, const void* payload, uint32_t payload_bytes)
    PLUMB_IN_SMALL_OBJECT_(plumb_emit);
/* The same to some sessions, a bit each as in `enabled`, if the event is on in them. `entry`: as of plumb_emit_from(). */
void plumb_emit_to(struct plumb_event* event, uint32_t sessions, const void* payload, uint32_t payload_bytes,
                   const void* entry) PLUMB_IN_SMALL_OBJECT_(plumb_emit_to);

/*
 * Copies a string up to and including its NUL ("(null)" for NULL), at most `room` bytes before the NUL, and
 * always ends it with one. May write up to 16 bytes behind the end. Returns the bytes before the NUL; room +
 * 1 if it had to stop at `room`.
 */
uint64_t plumb_copy_string(unsigned char* to, const char* from, uint64_t room)
    PLUMB_IN_SMALL_OBJECT_(plumb_copy_string);
/* The same of `bytes` bytes, behind which nothing is read. */
uint64_t plumb_copy_view(unsigned char* to, const char* from, uint64_t bytes, uint64_t room)
    PLUMB_IN_SMALL_OBJECT_(plumb_copy_view);

#ifdef __cplusplus
}
#endif

#endif
