/*
 * LTTng-UST's ABI as programs use it that were built with its public headers of 2.13 to 2.16 (soname .1): own declarations of
 * what their tracepoints and providers hand over, and of the tables that their probe functions call. Only what stands at
 * the base of each struct is here: LTTng's grow at their end, and say their size in the first word. That these are the same as
 * in the headers is tested (tests/abi_matches.c), with those that are installed and with the newest.
 *
 * A provider says of which major version it is. 4 (2.16) has two kinds of fields more than 3, and nothing else of what is here
 * differs: a probe function writes them by the same calls, bytes as they lie there, and before those of varying length
 * an integer with their count. So all that is made of an event, and all that it calls, is the same for both, and both may be
 * in one process. A tracepoint says no version: it is the library's soname that it goes by.
 */
#ifndef PLUMB_PROBES_LTTNG_ABI_H
#define PLUMB_PROBES_LTTNG_ABI_H

#include <plumb/abi/base.h>

#define UST_PROVIDER_MAJOR_FIRST 3u
#define UST_PROVIDER_MAJOR_LAST 4u

/* ---- tracepoints: in the program's section lttng_ust_tracepoints ---- */

typedef void (*ust_function)(void);

struct ust_tracepoint_probe {
    ust_function function; /* NULL: the end of the array */
    void* data;            /* its first argument */
};

struct ust_tracepoint {
    uint32_t struct_size;
    const char* provider_name;
    const char* event_name;
    int state; /* not 0: the program calls what is in `probes` */
    struct ust_tracepoint_probe* probes;
    int* provider_reference;
    const char* signature; /* types and names of the arguments, as text */
};

/* ---- types of fields ---- */

enum ust_type_kind {
    UST_INTEGER,
    UST_STRING,
    UST_FLOAT,
    UST_DYNAMIC,
    UST_ENUM,
    UST_ARRAY,
    UST_SEQUENCE,
    UST_STRUCT,
    UST_FIXED_BLOB,   /* from major 4 on */
    UST_VARIABLE_BLOB /* likewise */
};

enum ust_encoding { UST_NO_TEXT, UST_UTF8, UST_ASCII };

struct ust_type {
    enum ust_type_kind kind;
};

struct ust_integer {
    struct ust_type type;
    uint32_t struct_size;
    unsigned size_bits;
    unsigned short alignment_bits;
    unsigned is_signed : 1;
    unsigned is_reversed : 1; /* of the other byte order than this machine's */
    unsigned base;
};

struct ust_float {
    struct ust_type type;
    uint32_t struct_size;
    unsigned exponent_bits;
    unsigned mantissa_bits;
    unsigned short alignment_bits;
    unsigned is_reversed : 1;
};

struct ust_enum_value {
    unsigned long long value;
    unsigned is_signed : 1;
};

#define UST_ENUM_AUTO 1u /* its value is one more than that of the entry before it */

struct ust_enum_entry {
    uint32_t struct_size;
    struct ust_enum_value first, last;
    const char* name;
    unsigned options;
};

struct ust_enumeration {
    uint32_t struct_size;
    const char* name;
    const struct ust_enum_entry* const* entries;
    unsigned entry_count;
    const struct ust_provider* provider;
};

struct ust_enum {
    struct ust_type type;
    uint32_t struct_size;
    const struct ust_enumeration* enumeration;
    const struct ust_type* container;
};

struct ust_array {
    struct ust_type type;
    uint32_t struct_size;
    const struct ust_type* element;
    unsigned length;
    unsigned alignment;
    enum ust_encoding encoding;
};

struct ust_sequence {
    struct ust_type type;
    uint32_t struct_size;
    const char* length_name; /* NULL: the field before this one */
    const struct ust_type* element;
    unsigned alignment;
    enum ust_encoding encoding;
};

/* Bytes that mean something to whoever knows the type (`media_type`, which may be NULL). */
struct ust_fixed_blob {
    struct ust_type type;
    uint32_t struct_size;
    unsigned long length;
    const char* media_type;
};

struct ust_variable_blob {
    struct ust_type type;
    uint32_t struct_size;
    const char* length_name; /* NULL: the field before this one */
    const char* media_type;
};

struct ust_field {
    uint32_t struct_size;
    const char* name;
    const struct ust_type* type;
    unsigned is_not_written : 1; /* only for filters */
    unsigned is_not_filtered : 1;
};

/* ---- providers ---- */

struct ust_class {
    uint32_t struct_size;
    const struct ust_field* const* fields;
    size_t field_count;
    ust_function callback;
    const char* signature;
    const struct ust_provider* provider;
};

struct ust_event {
    uint32_t struct_size;
    const char* name;
    const struct ust_provider* provider;
    const struct ust_class* class_of;
    const int* const* log_level; /* may lead to NULL */
    const char* const* model_emf_uri;
};

struct ust_provider {
    uint32_t struct_size;
    const char* name;
    const struct ust_event* const* events;
    unsigned event_count;
    uint32_t major;
    uint32_t minor;
};

/* ---- what a probe function is given as its data, and what it calls ---- */

struct ust_context {
    uint32_t struct_size;
    void* recorder; /* struct ust_recorder */
    size_t data_bytes;
    int largest_alignment;
    void* probe_context;
    void* own; /* ours, from event_reserve to event_commit */
};

struct ust_operations {
    uint32_t struct_size;
    void* own;
    int (*reserve)(struct ust_context* context); /* below 0: this one is not recorded */
    void (*commit)(struct ust_context* context);
    void (*write)(struct ust_context* context, const void* from, size_t bytes, size_t alignment);
    void (*write_string)(struct ust_context* context, const char* from, size_t bytes);
    void (*write_padded)(struct ust_context* context, const char* from, size_t bytes);
};

struct ust_session {
    uint32_t struct_size;
    void* own;
    int is_active;
};

struct ust_channel_common {
    uint32_t struct_size;
    void* own;
    int type; /* 0: buffer */
    void* child;
    int is_enabled;
    struct ust_session* session;
};

struct ust_channel {
    uint32_t struct_size;
    struct ust_channel_common* parent;
    void* own;
    struct ust_operations* operations;
};

struct ust_recorder {
    uint32_t struct_size;
    struct ust_event_common* parent;
    void* own;
    struct ust_channel* channel;
};

/* What a filter says. */
enum ust_filter_result { UST_FILTER_ACCEPTS, UST_FILTER_REJECTS };

struct ust_event_common {
    uint32_t struct_size;
    void* own;
    int type; /* 0: recorder */
    void* child;
    int is_enabled;
    int has_filter;
    int (*run_filter)(const struct ust_event_common* event, const char* stack, void* probe_context,
                      void* filter_context);
};

PLUMB_ABI_SIZE(struct ust_tracepoint_probe, 16);
PLUMB_ABI_SIZE(struct ust_tracepoint, 56);
PLUMB_ABI_OFFSET(struct ust_tracepoint, state, 24);
PLUMB_ABI_SIZE(struct ust_integer, 20);
PLUMB_ABI_SIZE(struct ust_float, 20);
PLUMB_ABI_SIZE(struct ust_enum_value, 16);
PLUMB_ABI_SIZE(struct ust_enum_entry, 56);
PLUMB_ABI_SIZE(struct ust_enumeration, 40);
PLUMB_ABI_SIZE(struct ust_enum, 24);
PLUMB_ABI_SIZE(struct ust_array, 32);
PLUMB_ABI_SIZE(struct ust_sequence, 32);
PLUMB_ABI_SIZE(struct ust_fixed_blob, 24);
PLUMB_ABI_SIZE(struct ust_variable_blob, 24);
PLUMB_ABI_SIZE(struct ust_field, 32);
PLUMB_ABI_SIZE(struct ust_class, 48);
PLUMB_ABI_SIZE(struct ust_event, 48);
PLUMB_ABI_SIZE(struct ust_provider, 40);
PLUMB_ABI_OFFSET(struct ust_provider, major, 28);
PLUMB_ABI_SIZE(struct ust_context, 48);
PLUMB_ABI_SIZE(struct ust_operations, 56);
PLUMB_ABI_SIZE(struct ust_session, 24);
PLUMB_ABI_SIZE(struct ust_channel_common, 48);
PLUMB_ABI_SIZE(struct ust_channel, 32);
PLUMB_ABI_SIZE(struct ust_recorder, 32);
PLUMB_ABI_SIZE(struct ust_event_common, 48);

#endif
