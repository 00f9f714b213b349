/*
 * What PLUMB_EVENT and plumb_trace expand to. For an event p:n:
 *
 *   plumb_labels_p__n_FIELD   labels of each enum field                     constant
 *   plumb_fields_p__n         descriptions of the fields                    constant
 *   plumb_info_p__n           the event's constant half                     constant
 *   plumb_event_p__n          its variable half: one cache line             written by the runtime
 *   plumb_trace_p__n()        inline: fields to payload to plumb_emit()
 *   an entry in the ELF section plumb_events: the address of plumb_event_p__n
 *
 * The objects are weak (C) or inline (C++) and hidden: a header used by many translation units gives one
 * event in each executable or shared object. The section entry stands in a COMDAT group of the event's name,
 * so there is one of those too, and it is written by the assembler, since compilers refuse section attributes
 * inside templates.
 */
#ifndef PLUMB_DETAIL_EVENT_H
#define PLUMB_DETAIL_EVENT_H

#include <plumb/detail/check.h>

#define PLUMB_IS_ON_(event) (__builtin_expect(__atomic_load_n(&(event).enabled, __ATOMIC_RELAXED) != 0, 0))

/* PLUMB_CPP_: an event may stand in a header that C++ includes within extern "C". */
#ifdef __cplusplus
#define PLUMB_NULL_ nullptr
#define PLUMB_CPP_BEGIN_ extern "C++" {
#define PLUMB_CPP_END_ }
#define PLUMB_LINKAGE_ inline __attribute__((visibility("hidden"), used))
#define PLUMB_CONSTANT_ inline __attribute__((visibility("hidden")))
#define PLUMB_FUNCTION_ inline __attribute__((visibility("hidden")))
#define PLUMB_DECLARE_FUNCTION_(function, symbol) PLUMB_FUNCTION_ function __asm__(symbol);
#else
#define PLUMB_NULL_ 0
#define PLUMB_CPP_BEGIN_
#define PLUMB_CPP_END_
#define PLUMB_LINKAGE_ __attribute__((weak, visibility("hidden"), used))
#define PLUMB_CONSTANT_ __attribute__((weak, visibility("hidden")))
#define PLUMB_FUNCTION_ static inline __attribute__((unused))
#define PLUMB_DECLARE_FUNCTION_(function, symbol)
#endif

#define PLUMB_SIGNED_(type) (((type)-1 < (type)1) ? PLUMB_FIELD_SIGNED : 0u)

/* C lets a pointer pass for an integer with a warning, and a double for an integer silently: not in a trace.
 */
#ifdef __cplusplus
#define PLUMB_STRICT_BEGIN_
#define PLUMB_STRICT_END_
#else
#define PLUMB_STRICT_BEGIN_                                                             \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic error \"-Wint-conversion\"") \
        _Pragma("GCC diagnostic error \"-Wincompatible-pointer-types\"")                \
            _Pragma("GCC diagnostic error \"-Wfloat-conversion\"")
#define PLUMB_STRICT_END_ _Pragma("GCC diagnostic pop")
#endif

#if defined(__x86_64__) || defined(__aarch64__)
#define PLUMB_ASM_POINTER_ ".quad "
#else
#error "Plumb is not ported to this architecture: see docs/contributing.md, Architectures"
#endif

/* The entry in section plumb_events, once in each executable or shared object. R: nothing refers to an entry,
 * and a linker that collects garbage (lld --gc-sections) would drop it. In quotes: names may hold letters beyond ASCII. */
#define PLUMB_SECTION_ENTRY_(symbol)                                                           \
    __asm__(".pushsection plumb_events,\"awGR\",%progbits,\"plumb_entry_" symbol "\",comdat\n" \
            ".balign 8\n" PLUMB_ASM_POINTER_ "\"plumb_event_" symbol "\"\n"                    \
            ".popsection")

/* `id` is provider__name; provider and name are strings. Names that are macros were not expanded on the way here. */
#define PLUMB_DEFINE_(id, provider, name, level, ...) \
    PLUMB_DEFINE_CHECKED_(PLUMB_PROBLEM(__VA_ARGS__), id, provider, name, level, __VA_ARGS__)
#define PLUMB_DEFINE_AT_LEVEL_(id, provider, name, level, ...) \
    PLUMB_CAT(PLUMB_DEFINE_AT_LEVEL_IF_, PLUMB_IS_PAREN(level))(id, provider, name, level, __VA_ARGS__)
#define PLUMB_DEFINE_AT_LEVEL_IF_0(id, provider, name, level, ...)                                  \
    PLUMB_STATIC_ASSERT((level) >= 0 && (level) <= PLUMB_DEBUG,                                     \
                        provider ":" name ": a level is from PLUMB_EMERG to PLUMB_DEBUG, 0 to 14"); \
    PLUMB_DEFINE_(id, provider, name, level, __VA_ARGS__)
#define PLUMB_DEFINE_AT_LEVEL_IF_1(...) PLUMB_DEFINE_NOT_((LEVEL, ~), __VA_ARGS__)
#define PLUMB_DEFINE_CHECKED_(problem, ...) \
    PLUMB_CAT(PLUMB_DEFINE_IF_, PLUMB_KIND_OF_PROBLEM_ problem)(problem, __VA_ARGS__)
#define PLUMB_DEFINE_IF_NONE(problem, id, provider, name, level, ...)                                        \
    PLUMB_DEFINE_AS_(provider "." name PLUMB_FOR_EACH(PLUMB_SIGNATURE_, ~, __VA_ARGS__), id, provider, name, \
                     level, __VA_ARGS__)
#define PLUMB_DEFINE_IF_NO_FIELD PLUMB_DEFINE_NOT_
#define PLUMB_DEFINE_IF_MANY PLUMB_DEFINE_NOT_
#define PLUMB_DEFINE_IF_FIELD PLUMB_DEFINE_NOT_
#define PLUMB_DEFINE_IF_TYPE PLUMB_DEFINE_NOT_
#define PLUMB_DEFINE_IF_ELEMENT PLUMB_DEFINE_NOT_
#define PLUMB_DEFINE_IF_LABELS PLUMB_DEFINE_NOT_
#define PLUMB_DEFINE_IF_NAME PLUMB_DEFINE_NOT_
#define PLUMB_DEFINE_NOT_(problem, id, provider, name, ...)              \
    PLUMB_STATIC_ASSERT(0, PLUMB_SENTENCE_(provider ":" name, problem)); \
    PLUMB_CPP_BEGIN_ PLUMB_STAND_IN_(id) PLUMB_CPP_END_

#define PLUMB_DEFINE_AS_(symbol, id, provider, name, level, ...)                                           \
    PLUMB_CHECK_PLACE_(id, provider, name)                                                                 \
    PLUMB_CPP_BEGIN_                                                                                       \
    PLUMB_CHECK_EVENT_(id, provider, name)                                                                 \
    PLUMB_FOR_EACH(PLUMB_LABELS_, (id, provider ":" name), __VA_ARGS__)                                    \
    PLUMB_CONSTANT_ const struct plumb_event_field plumb_fields_##id[] __asm__("plumb_fields_" symbol) = { \
        PLUMB_FOR_EACH(PLUMB_DESCRIBE_, id, __VA_ARGS__){PLUMB_NULL_, PLUMB_NULL_, 0, 0, 0, 0, 0, 0}};     \
    PLUMB_CONSTANT_ const struct plumb_event_info plumb_info_##id __asm__("plumb_info_" symbol) = {        \
        provider,                                                                                          \
        name,                                                                                              \
        __FILE__,                                                                                          \
        PLUMB_NULL_,                                                                                       \
        plumb_fields_##id,                                                                                 \
        __LINE__,                                                                                          \
        (uint16_t)(sizeof(plumb_fields_##id) / sizeof(struct plumb_event_field) - 1),                      \
        level,                                                                                             \
        PLUMB_RUNTIME_VERSION};                                                                            \
    PLUMB_LINKAGE_ struct plumb_event plumb_event_##id __asm__("plumb_event_" symbol) = {                  \
        0, 0, PLUMB_NULL_, {0}, &plumb_info_##id, PLUMB_NULL_};                                            \
    PLUMB_SECTION_ENTRY_(symbol);                                                                          \
    PLUMB_DECLARE_FUNCTION_(                                                                               \
        void plumb_trace_##id(PLUMB_LIST(PLUMB_PARAMETER_, ~, PLUMB_NO_PARAMETER_, __VA_ARGS__)),          \
        "plumb_trace_" symbol)                                                                             \
    PLUMB_FUNCTION_ void plumb_trace_##id(                                                                 \
        PLUMB_LIST(PLUMB_PARAMETER_, ~, PLUMB_NO_PARAMETER_, __VA_ARGS__)) {                               \
        enum {                                                                                             \
            plumb_fixed = 0 PLUMB_FOR_EACH(PLUMB_FIXED_, ~, __VA_ARGS__),                                  \
            plumb_varies = 0 PLUMB_FOR_EACH(PLUMB_VARIES_, ~, __VA_ARGS__),                                \
            plumb_small = plumb_varies ? (int)(plumb_fixed + PLUMB_SMALL_ROOM + PLUMB_SLACK)               \
                                       : (int)((plumb_fixed + 15) / 8 * 8)                                 \
        };                                                                                                 \
        PLUMB_STATIC_ASSERT(plumb_fixed <= 4096,                                                           \
                            provider ":" name ": its arrays are larger than 4096 bytes");                  \
        unsigned char plumb_buffer[plumb_small];                                                           \
        struct plumb_payload plumb_p;                                                                      \
        plumb_payload_begin(&plumb_p, plumb_buffer, plumb_fixed, plumb_varies);                            \
        PLUMB_FOR_EACH(PLUMB_PUT_, ~, __VA_ARGS__)                                                         \
        if (plumb_payload_fits(&plumb_p, plumb_varies)) {                                                  \
            plumb_payload_emit(&plumb_p, &plumb_event_##id, plumb_buffer, plumb_fixed, plumb_varies);      \
        } else {                                                                                           \
            unsigned char* plumb_scratch = plumb_payload_begin_large(&plumb_p, plumb_buffer, plumb_fixed); \
            do {                                                                                           \
                PLUMB_FOR_EACH(PLUMB_PUT_, ~, __VA_ARGS__)                                                 \
            } while (plumb_payload_is_shared(&plumb_p, plumb_buffer, plumb_scratch, plumb_fixed,           \
                                             (uint32_t)plumb_varies));                                     \
            plumb_payload_emit_large(&plumb_p, &plumb_event_##id, plumb_buffer, plumb_scratch);            \
        }                                                                                                  \
    }                                                                                                      \
    PLUMB_CAT(PLUMB_VIEWS_IF_, PLUMB_HAS_TEXT_(__VA_ARGS__))(symbol, id, __VA_ARGS__) PLUMB_CPP_END_

/* In C++ an event with texts has a second function, which takes each text as one argument. */
#ifdef __cplusplus
#define PLUMB_HAS_TEXT_(...) PLUMB_HAS_TEXT2_(~PLUMB_FOR_EACH(PLUMB_TELL_TEXT_, ~, __VA_ARGS__), 0, ~)
#else
#define PLUMB_HAS_TEXT_(...) 0
#endif
#define PLUMB_HAS_TEXT2_(...) PLUMB_SECOND_(__VA_ARGS__)
#define PLUMB_VIEWS_IF_0(symbol, id, ...)
#define PLUMB_VIEWS_IF_1(symbol, id, ...)                                                               \
    PLUMB_DECLARE_FUNCTION_(void plumb_trace_##id(PLUMB_LIST(PLUMB_VIEW_PARAMETER_, ~, , __VA_ARGS__)), \
                            "plumb_trace_views_" symbol)                                                \
    PLUMB_FUNCTION_ void plumb_trace_##id(PLUMB_LIST(PLUMB_VIEW_PARAMETER_, ~, , __VA_ARGS__)) {        \
        plumb_trace_##id(PLUMB_LIST(PLUMB_PASS_ON_, ~, , __VA_ARGS__));                                 \
    }

#ifdef __cplusplus
#define PLUMB_NO_PARAMETER_
#else
#define PLUMB_NO_PARAMETER_ void
#endif

/* Each of the macros below is PLUMB_x_(context, (type, name, ...)) and hands on to one for the type's kind.
 */

/* Labels of an enum field, before the fields. */
#define PLUMB_LABELS_(c, x) PLUMB_LABELS_SPLIT_(c, PLUMB_STRIP_ x)
#define PLUMB_LABELS_SPLIT_(c, ...) PLUMB_LABELS_GO_(c, __VA_ARGS__)
#define PLUMB_LABELS_GO_(c, tag, ...) PLUMB_TAG_(PLUMB_LABELS_, tag)(c, tag, __VA_ARGS__)
#define PLUMB_TAG_(prefix, tag) PLUMB_TAG2_(prefix, PLUMB_KIND_##tag)
#define PLUMB_TAG2_(prefix, kind) PLUMB_TAG3_(prefix, kind)
#define PLUMB_TAG3_(prefix, kind) prefix##kind
#define PLUMB_LABELS_SCALAR(c, tag, name)
#define PLUMB_LABELS_FLOAT(c, tag, name)
#define PLUMB_LABELS_BOOL(c, tag, name)
#define PLUMB_LABELS_POINTER(c, tag, name)
#define PLUMB_LABELS_STRING(c, tag, name)
#define PLUMB_LABELS_TEXT(c, tag, name)
#define PLUMB_LABELS_ARRAY(c, tag, type, name, count) PLUMB_COUNT_OF_(PLUMB_STRIP_ c, name, count)
#define PLUMB_COUNT_OF_(...) PLUMB_COUNT_OF2_(__VA_ARGS__)
#define PLUMB_COUNT_OF2_(id, event, name, count)       \
    PLUMB_STATIC_ASSERT((long long)(count) >= 0, event \
                        ": the count of array " PLUMB_STRING(name) " is negative: " PLUMB_STRING(count));
#define PLUMB_LABELS_SEQUENCE(c, tag, type, name)
#define PLUMB_LABELS_ENUM(c, tag, type, name, ...) PLUMB_LABELS_OF_(PLUMB_STRIP_ c, type, name, __VA_ARGS__)
#define PLUMB_LABELS_OF_(...) PLUMB_LABELS_OF2_(__VA_ARGS__)
#define PLUMB_LABELS_OF2_(id, event, type, name, ...)                             \
    PLUMB_INNER_EACH(PLUMB_LABEL_FITS_, (event, type, name), __VA_ARGS__)         \
    static const struct plumb_event_label plumb_labels_of_##name##__in_##id[] = { \
        PLUMB_INNER_EACH(PLUMB_RANGE_TAG_(PLUMB_LABEL_, PLUMB_HAS_RANGES_(__VA_ARGS__)), ~, __VA_ARGS__)};
#define PLUMB_LABEL_0(c, x) PLUMB_LABEL_OF_ x
#define PLUMB_LABEL_OF_(value, label) {(int64_t)(value), label},
/* With one range among them, each is a first and a last value. */
#define PLUMB_LABEL_1(c, x) PLUMB_RANGE_TAG_(PLUMB_LABEL_ENDS_, PLUMB_IS_RANGE_(x)) x
#define PLUMB_LABEL_ENDS_0(value, label) {(int64_t)(value), label}, {(int64_t)(value), label},
#define PLUMB_LABEL_ENDS_1(first, last, label) {(int64_t)(first), label}, {(int64_t)(last), label},

/* 1 if a label has three parts, (0, 9, "low"), or one of them has. */
#define PLUMB_IS_RANGE_(x) PLUMB_HAS_RANGES2_(~PLUMB_TELL_RANGE_(~, x), 0, ~)
#define PLUMB_HAS_RANGES_(...) PLUMB_HAS_RANGES2_(~PLUMB_INNER_EACH(PLUMB_TELL_RANGE_, ~, __VA_ARGS__), 0, ~)
#define PLUMB_HAS_RANGES2_(...) PLUMB_SECOND_(__VA_ARGS__)
#define PLUMB_TELL_RANGE_(c, x) PLUMB_RANGE_TAG_(PLUMB_TELL_RANGE_, PLUMB_COUNT x)
#define PLUMB_TELL_RANGE_3 , 1, ~
#define PLUMB_RANGE_TAG_(prefix, kind) PLUMB_RANGE_TAG2_(prefix, kind)
#define PLUMB_RANGE_TAG2_(prefix, kind) prefix##kind

/* What tells it from others of the name, in a symbol: each field's type and name. A point stands in no name. (What stands for a
 * number, a level or a length, may be more than one word, which a symbol can not hold.) */
#define PLUMB_SIGNATURE_(c, x) PLUMB_SIGNATURE_SPLIT_(PLUMB_STRIP_ x)
#define PLUMB_SIGNATURE_SPLIT_(...) PLUMB_SIGNATURE_GO_(__VA_ARGS__)
#define PLUMB_SIGNATURE_GO_(tag, ...) PLUMB_TAG_(PLUMB_SIGNATURE_, tag)(tag, __VA_ARGS__)
#define PLUMB_SIGNATURE_SCALAR(tag, name) "." #tag "." #name
#define PLUMB_SIGNATURE_FLOAT(tag, name) "." #tag "." #name
#define PLUMB_SIGNATURE_BOOL(tag, name) ".bool." #name
#define PLUMB_SIGNATURE_POINTER(tag, name) ".ptr." #name
#define PLUMB_SIGNATURE_STRING(tag, name) ".string." #name
#define PLUMB_SIGNATURE_TEXT(tag, name) ".text." #name
#define PLUMB_SIGNATURE_ARRAY(tag, type, name, count) ".array." #type "." #name
#define PLUMB_SIGNATURE_SEQUENCE(tag, type, name) ".sequence." #type "." #name
#define PLUMB_SIGNATURE_ENUM(tag, type, name, ...) ".enum." #type "." #name

/* Its description. */
#define PLUMB_DESCRIBE_(c, x) PLUMB_DESCRIBE_SPLIT_(c, PLUMB_STRIP_ x)
#define PLUMB_DESCRIBE_SPLIT_(c, ...) PLUMB_DESCRIBE_GO_(c, __VA_ARGS__)
#define PLUMB_DESCRIBE_GO_(c, tag, ...) PLUMB_TAG_(PLUMB_DESCRIBE_, tag)(c, tag, __VA_ARGS__)
#define PLUMB_INTEGER_FLAGS_(tag) (uint8_t)(PLUMB_SIGNED_(PLUMB_CTYPE_##tag) | PLUMB_BASE_##tag)
#define PLUMB_DESCRIBE_SCALAR(c, tag, name) \
    {#name, PLUMB_NULL_, 0, 0, PLUMB_FIELD_INTEGER, sizeof(PLUMB_CTYPE_##tag), PLUMB_INTEGER_FLAGS_(tag), 0},
#define PLUMB_DESCRIBE_FLOAT(c, tag, name) \
    {#name, PLUMB_NULL_, 0, 0, PLUMB_FIELD_FLOAT, sizeof(PLUMB_CTYPE_##tag), 0, 0},
#define PLUMB_DESCRIBE_BOOL(c, tag, name) {#name, PLUMB_NULL_, 0, 0, PLUMB_FIELD_INTEGER, 1, 0, 0},
#define PLUMB_DESCRIBE_POINTER(c, tag, name) \
    {#name, PLUMB_NULL_, 0, 0, PLUMB_FIELD_INTEGER, 8, PLUMB_FIELD_HEX, 0},
#define PLUMB_DESCRIBE_STRING(c, tag, name) {#name, PLUMB_NULL_, 0, 0, PLUMB_FIELD_STRING, 1, 0, 0},
#define PLUMB_DESCRIBE_TEXT(c, tag, name) {#name, PLUMB_NULL_, 0, 0, PLUMB_FIELD_TEXT, 1, 0, 0},
#define PLUMB_DESCRIBE_ARRAY(c, tag, type, name, count) \
    {                                                   \
        #name,                                          \
        PLUMB_NULL_,                                    \
        0,                                              \
        count,                                          \
        PLUMB_FIELD_ARRAY,                              \
        sizeof(PLUMB_CTYPE_##type),                     \
        PLUMB_INTEGER_FLAGS_(type),                     \
        0},
#define PLUMB_DESCRIBE_SEQUENCE(c, tag, type, name)                                                          \
    {#name, PLUMB_NULL_, 0, 0, PLUMB_FIELD_SEQUENCE, sizeof(PLUMB_CTYPE_##type), PLUMB_INTEGER_FLAGS_(type), \
     0},
#define PLUMB_DESCRIBE_ENUM(c, tag, type, name, ...)                                          \
    {#name,                                                                                   \
     plumb_labels_of_##name##__in_##c,                                                        \
     (uint16_t)(sizeof(plumb_labels_of_##name##__in_##c) / sizeof(struct plumb_event_label)), \
     0,                                                                                       \
     PLUMB_FIELD_ENUM,                                                                        \
     sizeof(PLUMB_CTYPE_##type),                                                              \
     (uint8_t)(PLUMB_INTEGER_FLAGS_(type) |                                                   \
               PLUMB_RANGE_TAG_(PLUMB_RANGES_FLAG_, PLUMB_HAS_RANGES_(__VA_ARGS__))),         \
     0},
#define PLUMB_RANGES_FLAG_0 0u
#define PLUMB_RANGES_FLAG_1 PLUMB_FIELD_RANGES

/* Its parameters of the trace function. What is no field begins with plumb_, as a field may have any other name. */
#define PLUMB_PARAMETER_(c, x) PLUMB_PARAMETER_SPLIT_(PLUMB_STRIP_ x)
#define PLUMB_PARAMETER_SPLIT_(...) PLUMB_PARAMETER_GO_(__VA_ARGS__)
#define PLUMB_PARAMETER_GO_(tag, ...) PLUMB_TAG_(PLUMB_PARAMETER_, tag)(tag, __VA_ARGS__)
#define PLUMB_PARAMETER_SCALAR(tag, name) PLUMB_CTYPE_##tag name
#define PLUMB_PARAMETER_FLOAT(tag, name) PLUMB_CTYPE_##tag name
#define PLUMB_PARAMETER_BOOL(tag, name) bool name
#define PLUMB_PARAMETER_POINTER(tag, name) const volatile void* name
#define PLUMB_PARAMETER_TEXT(tag, name) const char *name, size_t plumb_bytes_of_##name
#define PLUMB_PARAMETER_ARRAY(tag, type, name, count) const PLUMB_CTYPE_##type* name
#define PLUMB_PARAMETER_SEQUENCE(tag, type, name) const PLUMB_CTYPE_##type *name, size_t plumb_count_of_##name
#ifdef __cplusplus
#define PLUMB_PARAMETER_STRING(tag, name) ::plumb::detail::string_argument name
#define PLUMB_PARAMETER_ENUM(tag, type, name, ...) ::plumb::detail::enum_argument<PLUMB_CTYPE_##type> name
#else
#define PLUMB_PARAMETER_STRING(tag, name) const char* name
#define PLUMB_PARAMETER_ENUM(tag, type, name, ...) PLUMB_CTYPE_##type name
#endif

/* The same where each text is one argument, and what becomes of them in the function with two. */
#define PLUMB_TELL_TEXT_(c, x) PLUMB_TELL_TEXT_SPLIT_(PLUMB_STRIP_ x)
#define PLUMB_TELL_TEXT_SPLIT_(...) PLUMB_TELL_TEXT_GO_(__VA_ARGS__)
#define PLUMB_TELL_TEXT_GO_(tag, ...) PLUMB_TAG_(PLUMB_TELL_TEXT_, tag)
#define PLUMB_TELL_TEXT_SCALAR
#define PLUMB_TELL_TEXT_FLOAT
#define PLUMB_TELL_TEXT_BOOL
#define PLUMB_TELL_TEXT_POINTER
#define PLUMB_TELL_TEXT_STRING
#define PLUMB_TELL_TEXT_TEXT , 1
#define PLUMB_TELL_TEXT_ARRAY
#define PLUMB_TELL_TEXT_SEQUENCE
#define PLUMB_TELL_TEXT_ENUM
#define PLUMB_VIEW_PARAMETER_(c, x) PLUMB_VIEW_PARAMETER_SPLIT_(PLUMB_STRIP_ x)
#define PLUMB_VIEW_PARAMETER_SPLIT_(...) PLUMB_VIEW_PARAMETER_GO_(__VA_ARGS__)
#define PLUMB_VIEW_PARAMETER_GO_(tag, ...) PLUMB_TAG_(PLUMB_VIEW_PARAMETER_, tag)(tag, __VA_ARGS__)
#define PLUMB_VIEW_PARAMETER_SCALAR PLUMB_PARAMETER_SCALAR
#define PLUMB_VIEW_PARAMETER_FLOAT PLUMB_PARAMETER_FLOAT
#define PLUMB_VIEW_PARAMETER_BOOL PLUMB_PARAMETER_BOOL
#define PLUMB_VIEW_PARAMETER_POINTER PLUMB_PARAMETER_POINTER
#define PLUMB_VIEW_PARAMETER_STRING PLUMB_PARAMETER_STRING
#define PLUMB_VIEW_PARAMETER_TEXT(tag, name) ::plumb::detail::text_argument name
#define PLUMB_VIEW_PARAMETER_ARRAY PLUMB_PARAMETER_ARRAY
#define PLUMB_VIEW_PARAMETER_SEQUENCE PLUMB_PARAMETER_SEQUENCE
#define PLUMB_VIEW_PARAMETER_ENUM PLUMB_PARAMETER_ENUM
#define PLUMB_PASS_ON_(c, x) PLUMB_PASS_ON_SPLIT_(PLUMB_STRIP_ x)
#define PLUMB_PASS_ON_SPLIT_(...) PLUMB_PASS_ON_GO_(__VA_ARGS__)
#define PLUMB_PASS_ON_GO_(tag, ...) PLUMB_TAG_(PLUMB_PASS_ON_, tag)(tag, __VA_ARGS__)
#define PLUMB_PASS_ON_SCALAR(tag, name) name
#define PLUMB_PASS_ON_FLOAT(tag, name) name
#define PLUMB_PASS_ON_BOOL(tag, name) name
#define PLUMB_PASS_ON_POINTER(tag, name) name
#define PLUMB_PASS_ON_STRING(tag, name) name
#define PLUMB_PASS_ON_TEXT(tag, name) name.data, name.bytes
#define PLUMB_PASS_ON_ARRAY(tag, type, name, count) name
#define PLUMB_PASS_ON_SEQUENCE(tag, type, name) name, plumb_count_of_##name
#define PLUMB_PASS_ON_ENUM(tag, type, name, ...) name

/* The bytes that it takes at least, and whether it may take more. */
#define PLUMB_FIXED_(c, x) PLUMB_FIXED_SPLIT_(PLUMB_STRIP_ x)
#define PLUMB_FIXED_SPLIT_(...) PLUMB_FIXED_GO_(__VA_ARGS__)
#define PLUMB_FIXED_GO_(tag, ...) PLUMB_TAG_(PLUMB_FIXED_, tag)(tag, __VA_ARGS__)
#define PLUMB_FIXED_SCALAR(tag, name) +sizeof(PLUMB_CTYPE_##tag)
#define PLUMB_FIXED_FLOAT(tag, name) +sizeof(PLUMB_CTYPE_##tag)
#define PLUMB_FIXED_BOOL(tag, name) +1
#define PLUMB_FIXED_POINTER(tag, name) +8
#define PLUMB_FIXED_STRING(tag, name) +1
#define PLUMB_FIXED_TEXT(tag, name) +2
#define PLUMB_FIXED_ARRAY(tag, type, name, count) +sizeof(PLUMB_CTYPE_##type) * (count)
#define PLUMB_FIXED_SEQUENCE(tag, type, name) +2
#define PLUMB_FIXED_ENUM(tag, type, name, ...) +sizeof(PLUMB_CTYPE_##type)

#define PLUMB_VARIES_(c, x) PLUMB_VARIES_SPLIT_(PLUMB_STRIP_ x)
#define PLUMB_VARIES_SPLIT_(...) PLUMB_VARIES_GO_(__VA_ARGS__)
#define PLUMB_VARIES_GO_(tag, ...) PLUMB_TAG_(PLUMB_VARIES_, tag)
#define PLUMB_VARIES_SCALAR
#define PLUMB_VARIES_FLOAT
#define PLUMB_VARIES_BOOL
#define PLUMB_VARIES_POINTER
#define PLUMB_VARIES_ARRAY
#define PLUMB_VARIES_ENUM
#define PLUMB_VARIES_STRING +1
#define PLUMB_VARIES_TEXT +1
#define PLUMB_VARIES_SEQUENCE +1

/* Writing it. */
#define PLUMB_PUT_(c, x) PLUMB_PUT_SPLIT_(PLUMB_STRIP_ x)
#define PLUMB_PUT_SPLIT_(...) PLUMB_PUT_GO_(__VA_ARGS__)
#define PLUMB_PUT_GO_(tag, ...) PLUMB_TAG_(PLUMB_PUT_, tag)(tag, __VA_ARGS__)
#define PLUMB_PUT_SCALAR(tag, name) plumb_put_bytes(&plumb_p, &name, sizeof(name));
#define PLUMB_PUT_FLOAT(tag, name) plumb_put_bytes(&plumb_p, &name, sizeof(name));
#define PLUMB_PUT_BOOL(tag, name) *plumb_p.at++ = plumb_truth_of(name);
#define PLUMB_PUT_POINTER(tag, name)                           \
    {                                                          \
        const uint64_t plumb_address = plumb_address_of(name); \
        plumb_put_bytes(&plumb_p, &plumb_address, 8);          \
    }
#define PLUMB_PUT_TEXT(tag, name) plumb_put_counted(&plumb_p, name, plumb_bytes_of_##name, 1);
#define PLUMB_PUT_ARRAY(tag, type, name, count) plumb_put_array(&plumb_p, name, sizeof(*name) * (count));
#define PLUMB_PUT_SEQUENCE(tag, type, name) \
    plumb_put_counted(&plumb_p, name, plumb_count_of_##name, sizeof(*name));
#ifdef __cplusplus
#define PLUMB_PUT_STRING(tag, name) plumb_put_string(&plumb_p, name.data, name.bytes_max);
#define PLUMB_PUT_ENUM(tag, type, name, ...) plumb_put_bytes(&plumb_p, &name.value, sizeof(name.value));
#else
#define PLUMB_PUT_STRING(tag, name) plumb_put_string(&plumb_p, name, UINT64_MAX);
#define PLUMB_PUT_ENUM(tag, type, name, ...) plumb_put_bytes(&plumb_p, &name, sizeof(name));
#endif

#endif
