/*
 * An event of a provider, between LTTng's description and Plumb's: what the provider's probe function is handed as its data,
 * the event in Plumb's registry, and the steps by which one becomes a payload of the other.
 */
#ifndef PLUMB_PROBES_LTTNG_EVENT_H
#define PLUMB_PROBES_LTTNG_EVENT_H

#include "abi.h"
#include "arena.h"

#include <plumb/abi/record.h>
#include <plumb/runtime.h>

#include <stdbool.h>

/* What is made of each call by which a probe function writes: one a field, two where a sequence's length goes before it. */
enum step_kind {
    STEP_END,     /* there should be no more; ignored */
    STEP_SKIP,    /* of a field that is not recorded: the length before a sequence, what is behind the 32nd */
    STEP_COPY,    /* as it lies there */
    STEP_REVERSE, /* elements of the other byte order */
    STEP_STRING,  /* a string, or an array of text */
    STEP_SEQUENCE, /* a count, and elements */
    STEP_TEXT      /* a count, and text */
};

/* A string that ends by a NUL may be copied by as many bytes at once, and be longer by less than as many than when it was measured. */
#define STRING_MORE_BYTES 16u

/* The copy of strings, and the one into the ring, touch a little more than they use. */
#define SLACK_BYTES 32u
/* Of a payload in a scratch buffer. */
#define LARGE_ROOM_BYTES (PLUMB_RECORD_MAX_BYTES - PLUMB_RECORD_HEADER_BYTES - SLACK_BYTES)

struct step {
    uint8_t kind; /* enum step_kind */
    uint8_t size; /* bytes of an element */
    uint8_t is_reversed;
    uint32_t rest_bytes; /* that the fields behind it take at least */
};

/* Of what a probe function lays out for a filter: a word for each of these. What has a length has two, and is not among them. */
enum value_kind {
    VALUE_END,
    VALUE_INTEGER, /* or a double */
    VALUE_STRING
};

struct value {
    uint8_t kind;        /* enum value_kind */
    uint8_t size;        /* bytes in the record */
    uint16_t rest_bytes; /* that the values behind it take at least */
};

/* Numbers that follow each other in a record: the values from `first` on. Many of them are written two by two or four by four: so the first
 * may be up to three before them, or below 0, which stands for a moment in the place of their first. */
struct run {
    int32_t first;
    uint32_t end;
    uint16_t offsets[3 + PLUMB_EVENT_MAX_FIELDS]; /* that of value 0 is [3] */
};

/* Of an event of numbers, with at most one string among them: where they stand in its record. */
struct layout {
    uint32_t length;       /* of the record: with an empty string */
    uint32_t length_bits;  /* the same, as it stands in the header beside the event's id */
    uint32_t record_bytes; /* that it takes in a ring */
    uint32_t last_word;    /* where the payload's last 8 bytes begin */
    uint32_t string_value; /* which one it is */
    uint32_t string_at;    /* where in the payload it begins */
    uint32_t behind_bytes; /* of all numbers behind it */
    struct run numbers;    /* before the string */
    struct run behind;
};

/* What an event's probe function calls, with all values (at_once.c). */
typedef int at_once_function(const struct ust_event_common* common, const char* values, void* probe_context,
                             void* filter_context);

struct traced_event {
    struct plumb_event event;
    ust_function callback;          /* the probe function; just before its data */
    struct ust_event_common common; /* the data of the probe function */
    struct ust_recorder recorder;
    struct ust_tracepoint_probe probes[2]; /* what the tracepoint calls: the probe function, and an end */
    struct plumb_event_info info;
    const char* signature;
    const struct step* steps;
    const struct value* values; /* NULL: the event does not go by them */
    at_once_function* at_once;  /* what makes a record of them */
    struct layout layout;
    uint64_t
        quick; /* how the event was on when a record of it was made that may be made quickly (at_once.h) */
    uint32_t frame_bytes;   /* with strings among them: what the probe function's frame has at most */
    const void* asked_from; /* likewise: where it asks the filter, by what was found in its code */
    uint32_t name_hash;
    uint32_t more_bytes; /* that a payload may take beyond what LTTng's takes */
    bool is_cut;         /* not all of its fields are recorded */
};

/* Whether what lays out the values of a provider's events calls somebody who may count that, or trace himself (-finstrument-functions): then
 * nobody goes by them. It is looked for in one of its events. */
enum instrumented { INSTRUMENTED_UNKNOWN, NOT_INSTRUMENTED, INSTRUMENTED };

/* Fills a zeroed event, with memory of the arena. False: there is none. */
bool describe_event(struct traced_event* traced, const struct ust_event* from,
                    enum instrumented* instrumented, struct arena* arena);

/* What they call else, field by field (record.c). */
extern struct ust_channel record_channel;

#endif
