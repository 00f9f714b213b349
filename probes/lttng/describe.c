/*
 * LTTng's description of an event becomes Plumb's, with the steps by which its probe function's writes become a payload.
 *
 * What Plumb's descriptions have no place for: more than 32 fields (those behind are left out, and each record counts as cut), integers
 * of other than 1, 2, 4 or 8 bytes (shown as their bytes), arrays of more than some 64,000 bytes in all (become sequences, cut), bases 2
 * and 8 (shown in base 10), enumerations with more names than a description has room for (the field is an integer), what type
 * of bytes a blob has (shown as bytes in base 16), model_emf_uri.
 */
#include "at_once.h"
#include "enumerations.h"
#include "event.h"
#include "pure_code.h"
#include "relocations.h"

#include <plumb/abi/event.h>
#include <plumb/detail/fields.h>

#include <stddef.h>
#include <string.h>

/* Of all enumerations of an event: what is left of a description has room for all else that is in it. */
#define LABEL_BYTES_MAX (PLUMB_EVENT_MAX_DESCRIPTION_BYTES * 3 / 4)
#define DEFAULT_LOG_LEVEL PLUMB_DEBUG_LINE

struct description {
    struct plumb_event_field* fields;
    struct step* steps;
    struct arena* arena;
    uint32_t field_count;
    uint32_t step_count;
    uint32_t more_bytes;
    uint32_t label_bytes;
    uint32_t array_bytes;
    bool is_cut;
    bool has_failed;
};

static struct plumb_event_field* new_field(struct description* to, const char* name, uint8_t type,
                                           uint32_t size) {
    struct plumb_event_field* const field = &to->fields[to->field_count++];
    field->name = name;
    field->type = type;
    field->size = (uint8_t)size;
    return field;
}

static void add_step(struct description* to, enum step_kind kind, uint32_t size, bool is_reversed) {
    struct step* const step = &to->steps[to->step_count++];
    step->kind = (uint8_t)kind;
    step->size = (uint8_t)size;
    step->is_reversed = is_reversed;
}

static bool is_plumb_size(uint32_t bytes) {
    return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

static uint8_t flags_of(const struct ust_integer* integer) {
    return (uint8_t)((integer->is_signed ? PLUMB_FIELD_SIGNED : 0u) |
                     (integer->base == 16 ? PLUMB_FIELD_HEX : 0u));
}

static bool is_swapped(const struct ust_integer* integer) {
    return integer->is_reversed && integer->size_bits > 8;
}

static void add_fixed_step(struct description* to, const struct ust_integer* integer) {
    const bool swapped = is_swapped(integer);
    add_step(to, swapped ? STEP_REVERSE : STEP_COPY, integer->size_bits / 8, swapped);
}

/* What has no type of Plumb's is shown as its bytes, in the order in which they lie. */
static void add_bytes(struct description* to, const char* name, uint64_t bytes) {
    struct plumb_event_field* const field = new_field(to, name, PLUMB_FIELD_ARRAY, 1);
    field->array_length = (uint16_t)bytes;
    field->flags = PLUMB_FIELD_HEX;
    add_step(to, STEP_COPY, 1, false);
}

static void add_integer(struct description* to, const char* name, const struct ust_integer* integer) {
    const uint32_t size = integer->size_bits / 8;
    if (!is_plumb_size(size)) {
        add_bytes(to, name, size);
        return;
    }
    new_field(to, name, PLUMB_FIELD_INTEGER, size)->flags = flags_of(integer);
    add_fixed_step(to, integer);
}

static void add_float(struct description* to, const char* name, const struct ust_float* number) {
    const uint32_t size = (number->exponent_bits + number->mantissa_bits) / 8;
    if (size != 4 && size != 8) {
        add_bytes(to, name, size != 0 ? size : sizeof(long double));
        return;
    }
    new_field(to, name, PLUMB_FIELD_FLOAT, size);
    add_step(to, number->is_reversed ? STEP_REVERSE : STEP_COPY, size, number->is_reversed);
}

/* ---- enumerations ---- */

static void add_labels(struct description* to, struct plumb_event_field* field,
                       const struct ust_enumeration* from) {
    size_t bytes = LABEL_BYTES_MAX - to->label_bytes;
    if (!give_labels(to->arena, field, from, &bytes)) to->has_failed = true;
    to->label_bytes += (uint32_t)bytes;
}

static void add_enum(struct description* to, const char* name, const struct ust_enum* from) {
    const struct ust_integer* const container = (const struct ust_integer*)from->container;
    const uint32_t field_count = to->field_count;
    add_integer(to, name, container);
    if (is_plumb_size(container->size_bits / 8)) add_labels(to, &to->fields[field_count], from->enumeration);
}

/* ---- arrays and sequences ---- */

/* Whether an event holds it beside its other arrays, as what it is: a sequence may be cut. */
static bool is_held(struct description* to, uint64_t bytes) {
    const uint32_t bytes_max = LARGE_ROOM_BYTES - 1024; /* beside all other fields */
    if (bytes > bytes_max - to->array_bytes) return false;
    to->array_bytes += (uint32_t)bytes;
    return true;
}

static void add_array(struct description* to, const char* name, const struct ust_array* array) {
    const struct ust_integer* const element = (const struct ust_integer*)array->element;
    const uint32_t size = element->size_bits / 8;
    if (array->encoding != UST_NO_TEXT) {
        new_field(to, name, PLUMB_FIELD_STRING, 1);
        add_step(to, STEP_STRING, 1, false);
        to->more_bytes += 1;
        return;
    }
    if (!is_plumb_size(size) || array->length > UINT16_MAX || !is_held(to, (uint64_t)size * array->length)) {
        new_field(to, name, PLUMB_FIELD_SEQUENCE, is_plumb_size(size) ? size : 1)->flags = flags_of(element);
        add_step(to, STEP_SEQUENCE, is_plumb_size(size) ? size : 1, is_swapped(element));
        to->more_bytes += 2;
        return;
    }
    struct plumb_event_field* const field = new_field(to, name, PLUMB_FIELD_ARRAY, size);
    field->array_length = (uint16_t)array->length;
    field->flags = flags_of(element);
    add_fixed_step(to, element);
}

static void add_sequence(struct description* to, const char* name, const struct ust_sequence* sequence) {
    const struct ust_integer* const element = (const struct ust_integer*)sequence->element;
    const uint32_t bytes = element->size_bits / 8;
    const uint32_t size = is_plumb_size(bytes) ? bytes : 1;
    const bool is_text = sequence->encoding != UST_NO_TEXT;
    struct plumb_event_field* const field =
        new_field(to, name, is_text ? PLUMB_FIELD_TEXT : PLUMB_FIELD_SEQUENCE, is_text ? 1 : size);
    if (!is_text) field->flags = flags_of(element);
    add_step(to, is_text ? STEP_TEXT : STEP_SEQUENCE, is_text ? 1 : size, is_swapped(element) && !is_text);
    to->more_bytes += 2;
}

/* ---- bytes ---- */

static void add_variable_bytes(struct description* to, const char* name) {
    new_field(to, name, PLUMB_FIELD_SEQUENCE, 1)->flags = PLUMB_FIELD_HEX;
    add_step(to, STEP_SEQUENCE, 1, false);
    to->more_bytes += 2;
}

static void add_fixed_blob(struct description* to, const char* name, const struct ust_fixed_blob* blob) {
    if (blob->length > UINT16_MAX || !is_held(to, blob->length))
        add_variable_bytes(to, name);
    else
        add_bytes(to, name, blob->length);
}

static void add_field(struct description* to, const struct ust_field* field) {
    const struct ust_type* const type = field->type;
    if (to->field_count == PLUMB_EVENT_MAX_FIELDS) {
        add_step(to, STEP_SKIP, 1, false);
        to->is_cut = true;
        return;
    }
    switch (type->kind) {
    case UST_INTEGER:
        add_integer(to, field->name, (const struct ust_integer*)type);
        return;
    case UST_FLOAT:
        add_float(to, field->name, (const struct ust_float*)type);
        return;
    case UST_ENUM:
        add_enum(to, field->name, (const struct ust_enum*)type);
        return;
    case UST_STRING:
        new_field(to, field->name, PLUMB_FIELD_STRING, 1);
        add_step(to, STEP_STRING, 1, false);
        to->more_bytes += 1 + STRING_MORE_BYTES;
        return;
    case UST_ARRAY:
        add_array(to, field->name, (const struct ust_array*)type);
        return;
    case UST_SEQUENCE:
        add_sequence(to, field->name, (const struct ust_sequence*)type);
        return;
    case UST_FIXED_BLOB:
        add_fixed_blob(to, field->name, (const struct ust_fixed_blob*)type);
        return;
    case UST_VARIABLE_BLOB:
        add_variable_bytes(to, field->name);
        return;
    case UST_DYNAMIC:
    case UST_STRUCT:
        break;
    }
    add_step(to, STEP_SKIP, 1, false);
    to->is_cut = true;
}

/* Whether the field is the length of what is behind it, which has a count of its own. */
static bool is_length(const struct ust_class* from, size_t index) {
    if (index + 1 == from->field_count) return false;
    const struct ust_type* const behind = from->fields[index + 1]->type;
    if (behind->kind == UST_VARIABLE_BLOB)
        return ((const struct ust_variable_blob*)behind)->length_name == NULL;
    return behind->kind == UST_SEQUENCE && ((const struct ust_sequence*)behind)->length_name == NULL;
}

static void add_fields(struct description* to, const struct ust_class* from) {
    for (size_t i = 0; i < from->field_count; i++) {
        if (from->fields[i]->is_not_written) continue;
        if (is_length(from, i))
            add_step(to, STEP_SKIP, 1, false);
        else
            add_field(to, from->fields[i]);
    }
    add_step(to, STEP_END, 1, false);
}

static void know_rest_of_steps(const struct description* to) {
    uint32_t bytes = 0, field = to->field_count;
    for (uint32_t i = to->step_count; i-- > 0;) {
        struct step* const step = &to->steps[i];
        step->rest_bytes = bytes;
        if (step->kind != STEP_SKIP && step->kind != STEP_END)
            bytes += plumb_least_bytes_of(&to->fields[--field]);
    }
}

/* ---- values, as they are laid out for a filter ---- */

static struct value new_value(enum value_kind kind, uint32_t size) {
    const struct value value = {(uint8_t)kind, (uint8_t)size, 0};
    return value;
}

static struct value value_of_integer(const struct ust_integer* integer) {
    const uint32_t size = integer->size_bits / 8;
    return is_plumb_size(size) ? new_value(VALUE_INTEGER, size) : new_value(VALUE_END, 0);
}

/* VALUE_END: of this kind nobody goes by values. */
static struct value value_of(const struct ust_field* field) {
    const struct value none = new_value(VALUE_END, 0);
    const struct ust_type* const type = field->type;
    if (type->kind == UST_INTEGER) return value_of_integer((const struct ust_integer*)type);
    if (type->kind == UST_ENUM)
        return value_of_integer((const struct ust_integer*)((const struct ust_enum*)type)->container);
    if (type->kind == UST_STRING) return new_value(VALUE_STRING, 1);
    /* A smaller one is widened there, which need not keep all of its bits. */
    const struct ust_float* const number = (const struct ust_float*)type;
    const bool is_double = type->kind == UST_FLOAT && number->exponent_bits + number->mantissa_bits == 64;
    return is_double && !number->is_reversed ? new_value(VALUE_INTEGER, sizeof(double)) : none;
}

/* Of numbers; `by` of them are written at once. Their bytes. */
static uint32_t know_run(struct run* run, const struct value* values, uint32_t begin, uint32_t end,
                         uint32_t by) {
    uint32_t bytes = 0;
    run->first = (int32_t)(begin - (-(end - begin) & (by - 1)));
    run->end = end;
    for (uint32_t i = begin; i < end; i++) {
        run->offsets[3 + i] = (uint16_t)bytes;
        bytes += values[i].size;
    }
    return bytes;
}

/* `string` is which one that is, or how many there are. */
static void know_layout(struct layout* layout, const struct value* values, uint32_t string, uint32_t count) {
    const uint32_t by = string != count ? 2 : 4;
    layout->string_at = know_run(&layout->numbers, values, 0, string, by);
    layout->length = PLUMB_RECORD_HEADER_BYTES + layout->string_at;
    if (string != count) {
        layout->behind_bytes = know_run(&layout->behind, values, string + 1, count, by);
        layout->length += values[string].size + layout->behind_bytes;
        layout->string_value = string;
    }
    layout->length_bits = layout->length << 16;
    layout->record_bytes = (layout->length + 7) & ~7u;
    layout->last_word = layout->record_bytes - PLUMB_RECORD_HEADER_BYTES - 8;
}

/* What is laid out for values of these kinds. */
static at_once_function* know_shape(struct layout* layout, const struct value* values, uint32_t count) {
    uint32_t string = count;
    bool are_words = true;
    if (count == 0) return record_values;
    for (uint32_t i = 0; i < count; i++) {
        if (values[i].kind == VALUE_STRING && string != count) return record_values;
        if (values[i].kind == VALUE_STRING) string = i;
        are_words = are_words && values[i].size == sizeof(uint64_t);
    }
    know_layout(layout, values, string, count);
    if (string != count) return record_one_string;
    return are_words ? record_of_words(count) : record_of_numbers(count);
}

static void know_values(struct traced_event* traced, struct description* to, const struct ust_class* from) {
    const size_t count = from->field_count;
    uint32_t bytes = 0;
    if (to->is_cut) return;
    struct value* const values = arena_take(to->arena, (count + 1) * sizeof(*values));
    if (values == NULL) {
        to->has_failed = true;
        return;
    }
    for (size_t i = count; i-- > 0;) {
        values[i] = value_of(from->fields[i]);
        /* The expression of a field that is not recorded is for filters, and is computed for nobody else. */
        if (values[i].kind == VALUE_END || from->fields[i]->is_not_written) return;
        values[i].rest_bytes = (uint16_t)bytes;
        bytes += values[i].size;
    }
    traced->values = values;
    traced->at_once = know_shape(&traced->layout, values, (uint32_t)count);
}

static bool has_strings(const struct value* values) {
    for (; values->kind != VALUE_END; values++)
        if (values->kind == VALUE_STRING) return true;
    return false;
}

#if defined(__x86_64__)
/* For dlsym() the loader's lock is taken: who has it, and loads a provider, waits for ours. */
extern void __stack_chk_fail(void) __attribute__((weak));
extern const char* gnu_get_libc_version(void) __attribute__((weak));

/* The C library's, which does not return; a program may have one of its own. */
static bool is_stack_check(const void* pointer) {
    const struct code library = code_of((const void*)(uintptr_t)gnu_get_libc_version);
    const uintptr_t address = (uintptr_t)__stack_chk_fail;
    return address - library.begin < library.end - library.begin &&
           is_pointer_to_function(pointer, "__stack_chk_fail");
}
#endif

/*
 * Of numbers the values are laid out, each once; of a string only where it is, and when that is read must not matter. What an expression calls
 * may come by the same tracepoint again: laying out has no end then, and reserve() has.
 */
static bool may_lay_out(struct traced_event* traced, enum instrumented* instrumented) {
    if (*instrumented == INSTRUMENTED) return false;
#if defined(__x86_64__)
    const void* const function = (const void*)(uintptr_t)traced->callback;
    const struct surroundings around = {code_around(function), unwind_index_of(function), is_stack_check};
    const int32_t filter_at = offsetof(struct ust_event_common, run_filter),
                  reserve_at = offsetof(struct ust_operations, reserve);
    if (!has_strings(traced->values)) {
        const enum called called = called_until_filter(function, &around, filter_at, reserve_at);
        if (*instrumented == INSTRUMENTED_UNKNOWN)
            *instrumented = called == CALLED_HOOK ? INSTRUMENTED : NOT_INSTRUMENTED;
        return *instrumented == NOT_INSTRUMENTED && called == CALLED_NOBODY;
    }
    const struct purity purity = purity_until_filter(function, &around, filter_at, reserve_at);
    traced->frame_bytes = purity.frame_bytes;
    traced->asked_from = purity.asked_from;
    return purity.is_pure;
#else
    return !has_strings(traced->values);
#endif
}

static void go_by_values(struct traced_event* traced, enum instrumented* instrumented) {
    if (traced->values == NULL || !may_lay_out(traced, instrumented)) return;
    traced->common.run_filter = traced->at_once;
    traced->quick = QUICK_IS_NOT;
    traced->common.has_filter = true;
}

static uint8_t log_level_of(const struct ust_event* from) {
    if (from->log_level == NULL || *from->log_level == NULL) return DEFAULT_LOG_LEVEL;
    const int level = **from->log_level;
    return level >= PLUMB_EMERG && level <= PLUMB_DEBUG ? (uint8_t)level : DEFAULT_LOG_LEVEL;
}

static void connect(struct traced_event* traced, const struct ust_event* from) {
    traced->common.struct_size = sizeof(traced->common);
    traced->common.child = &traced->recorder;
    traced->common.is_enabled = 1;
    traced->recorder.struct_size = sizeof(traced->recorder);
    traced->recorder.parent = &traced->common;
    traced->recorder.channel = &record_channel;
    traced->callback = from->class_of->callback;
    traced->probes[0].function = traced->callback;
    traced->probes[0].data = &traced->common;
    traced->signature = from->class_of->signature;
    traced->event.info = &traced->info;
}

bool describe_event(struct traced_event* traced, const struct ust_event* from,
                    enum instrumented* instrumented, struct arena* arena) {
    const size_t count = from->class_of->field_count;
    struct description to = {.arena = arena};
    to.fields = arena_take(arena, (PLUMB_EVENT_MAX_FIELDS + 1) * sizeof(*to.fields));
    to.steps = arena_take(arena, (count + 1) * sizeof(*to.steps));
    if (to.fields == NULL || to.steps == NULL) return false;
    add_fields(&to, from->class_of);
    know_rest_of_steps(&to);
    traced->info.provider = from->provider->name;
    traced->info.name = from->name;
    traced->info.fields = to.fields;
    traced->info.field_count = (uint16_t)to.field_count;
    traced->info.log_level = log_level_of(from);
    traced->info.version = PLUMB_RUNTIME_VERSION;
    traced->steps = to.steps;
    traced->more_bytes = to.more_bytes;
    traced->is_cut = to.is_cut;
    connect(traced, from);
    know_values(traced, &to, from->class_of);
    go_by_values(traced, instrumented);
    return !to.has_failed;
}
