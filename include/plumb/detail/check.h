/*
 * What is wrong with the definition of an event, in a sentence. The preprocessor looks at the fields before anything is made
 * of them: PLUMB_PROBLEM(fields) is (NONE, ~), or the first problem and where it is. An event with a problem becomes that
 * sentence, and a stand-in for the event, so that the lines which trace it add no errors of their own.
 *
 * What only the compiler sees is asserted beside the definition: names, whether labels fit, and that there is no second
 * definition.
 */
#ifndef PLUMB_DETAIL_CHECK_H
#define PLUMB_DETAIL_CHECK_H

#include <plumb/detail/for_each.h>
#include <plumb/detail/types.h>
#include <plumb/runtime.h>

/* The fields. */

#define PLUMB_PROBLEM(...) \
    PLUMB_CAT(PLUMB_PROBLEM_IF_, PLUMB_IS_PAREN(PLUMB_FIRST_(__VA_ARGS__, ~)))(__VA_ARGS__)
#define PLUMB_PROBLEM_IF_0(...)                                                      \
    PLUMB_CAT(PLUMB_PROBLEM_NO_FIELD_, PLUMB_IS_EMPTY(PLUMB_FIRST_(__VA_ARGS__, ~))) \
    (PLUMB_FIRST_(__VA_ARGS__, ~))
#define PLUMB_PROBLEM_NO_FIELD_0(x) (NO_FIELD, x)
#define PLUMB_PROBLEM_NO_FIELD_1(x) (NONE, ~)
/* Of more than 32 fields, the count is the 33rd. */
#define PLUMB_PROBLEM_IF_1(...) \
    PLUMB_CAT(PLUMB_PROBLEM_MANY_, PLUMB_IS_PAREN(PLUMB_COUNT(__VA_ARGS__)))(__VA_ARGS__)
#define PLUMB_PROBLEM_MANY_1(...) (MANY, ~)
#define PLUMB_PROBLEM_MANY_0(...) \
    PLUMB_FIRST_PROBLEM_(PLUMB_CAT(PLUMB_EACH_, PLUMB_COUNT(__VA_ARGS__))(PLUMB_PROBLEM_OF_, ~, __VA_ARGS__))
#define PLUMB_FIRST_PROBLEM_(problems) PLUMB_FIRST_PROBLEM2_(~problems, (NONE, ~))
#define PLUMB_FIRST_PROBLEM2_(...) PLUMB_SECOND_(__VA_ARGS__, ~)

/* Of one field: nothing, or a comma and the problem. */
#define PLUMB_PROBLEM_OF_(c, x) PLUMB_PROBLEM_PASTE_(PLUMB_PROBLEM_OF_, PLUMB_IS_PAREN(x))(x)
#define PLUMB_PROBLEM_PASTE_(a, b) PLUMB_PROBLEM_PASTE2_(a, b)
#define PLUMB_PROBLEM_PASTE2_(a, b) a##b
#define PLUMB_PROBLEM_OF_0(x) , (NO_FIELD, x)
#define PLUMB_PROBLEM_OF_1(x) PLUMB_PROBLEM_TYPE_(x, PLUMB_FIRST_OF_ x)
#define PLUMB_FIRST_OF_(...) PLUMB_FIRST_(__VA_ARGS__, ~)
/* What has no kind (types.h) stays the name that was asked for. */
#define PLUMB_PROBLEM_TYPE_(x, tag) PLUMB_PROBLEM_PASTE_(PLUMB_PROBLEM_TAG_, PLUMB_IS_PAREN(tag))(x, tag)
#define PLUMB_PROBLEM_TAG_1(x, tag) , (FIELD, x)
#define PLUMB_PROBLEM_TAG_0(x, tag) PLUMB_PROBLEM_KIND_(x, tag, PLUMB_KIND_##tag)
#define PLUMB_PROBLEM_KIND_(x, tag, kind) \
    PLUMB_PROBLEM_PASTE_(PLUMB_PROBLEM_KIND_, PLUMB_IS_KNOWN_(kind))(x, tag, kind)
#define PLUMB_PROBLEM_KIND_0(x, tag, kind) , (TYPE, tag)
#define PLUMB_PROBLEM_KIND_1(x, tag, kind) PLUMB_PROBLEM_PASTE_(PLUMB_PROBLEM_IN_, kind)(x, PLUMB_STRIP_ x)
#define PLUMB_IS_KNOWN_(kind) PLUMB_IS_KNOWN2_(kind)
#define PLUMB_IS_KNOWN2_(kind) PLUMB_IS_EMPTY(PLUMB_DROP_ PLUMB_KNOWN_##kind)
#define PLUMB_DROP_()
#define PLUMB_KNOWN_SCALAR ()
#define PLUMB_KNOWN_FLOAT ()
#define PLUMB_KNOWN_BOOL ()
#define PLUMB_KNOWN_POINTER ()
#define PLUMB_KNOWN_STRING ()
#define PLUMB_KNOWN_TEXT ()
#define PLUMB_KNOWN_ENUM ()
#define PLUMB_KNOWN_ARRAY ()
#define PLUMB_KNOWN_SEQUENCE ()

#define PLUMB_PROBLEM_IN_SCALAR(x, ...) PLUMB_PROBLEM_SHAPE_(PAIR, x, __VA_ARGS__)
#define PLUMB_PROBLEM_IN_FLOAT(x, ...) PLUMB_PROBLEM_SHAPE_(PAIR, x, __VA_ARGS__)
#define PLUMB_PROBLEM_IN_BOOL(x, ...) PLUMB_PROBLEM_SHAPE_(PAIR, x, __VA_ARGS__)
#define PLUMB_PROBLEM_IN_POINTER(x, ...) PLUMB_PROBLEM_SHAPE_(PAIR, x, __VA_ARGS__)
#define PLUMB_PROBLEM_IN_STRING(x, ...) PLUMB_PROBLEM_SHAPE_(PAIR, x, __VA_ARGS__)
#define PLUMB_PROBLEM_IN_TEXT(x, ...) PLUMB_PROBLEM_SHAPE_(PAIR, x, __VA_ARGS__)
#define PLUMB_PROBLEM_IN_ARRAY(x, ...) PLUMB_PROBLEM_SHAPE_(ARRAY, x, __VA_ARGS__)
#define PLUMB_PROBLEM_IN_SEQUENCE(x, ...) PLUMB_PROBLEM_SHAPE_(SEQUENCE, x, __VA_ARGS__)
/* Its fourth part is the first label. */
#define PLUMB_PROBLEM_IN_ENUM(x, ...)                                                                  \
    PLUMB_PROBLEM_PASTE_(PLUMB_PROBLEM_SHAPE_, PLUMB_IS_PAREN(PLUMB_FOURTH_(__VA_ARGS__, ~, ~, ~, ~))) \
    (x, ENUM, __VA_ARGS__)

/* Whether a field has as many parts as its kind. */
#define PLUMB_PROBLEM_SHAPE_(shape, x, ...)                                                       \
    PLUMB_PROBLEM_PASTE_(PLUMB_PROBLEM_SHAPE_, PLUMB_HAS_SHAPE_(shape, PLUMB_COUNT(__VA_ARGS__))) \
    (x, shape, __VA_ARGS__)
#define PLUMB_HAS_SHAPE_(shape, count) PLUMB_HAS_SHAPE2_(shape, count)
#define PLUMB_HAS_SHAPE2_(shape, count) PLUMB_IS_EMPTY(PLUMB_DROP_ PLUMB_HAS_##shape##_##count)
#define PLUMB_HAS_PAIR_2 ()
#define PLUMB_HAS_SEQUENCE_3 ()
#define PLUMB_HAS_ARRAY_4 ()
#define PLUMB_PROBLEM_SHAPE_0(x, ...) , (FIELD, x)
#define PLUMB_PROBLEM_SHAPE_1(x, shape, ...) PLUMB_PROBLEM_SHAPED_##shape(x, __VA_ARGS__)
#define PLUMB_PROBLEM_SHAPED_PAIR(x, tag, name) PLUMB_PROBLEM_NAME_(x, name)
#define PLUMB_PROBLEM_SHAPED_SEQUENCE(x, tag, type, name) PLUMB_PROBLEM_ELEMENT_(x, type, name)
#define PLUMB_PROBLEM_SHAPED_ARRAY(x, tag, type, name, count) PLUMB_PROBLEM_ELEMENT_(x, type, name)
#define PLUMB_PROBLEM_SHAPED_ENUM(x, tag, type, name, ...) \
    PLUMB_PROBLEM_PASTE_(PLUMB_PROBLEM_LABELS_, PLUMB_IS_PAREN(PLUMB_COUNT(__VA_ARGS__)))(x, type, name)
#define PLUMB_PROBLEM_LABELS_0(x, type, name) PLUMB_PROBLEM_ELEMENT_(x, type, name)
#define PLUMB_PROBLEM_LABELS_1(x, type, name) , (LABELS, name)

/* The type of elements is one of the integers. */
#define PLUMB_PROBLEM_ELEMENT_(x, type, name) \
    PLUMB_PROBLEM_PASTE_(PLUMB_PROBLEM_ELEMENT_PAREN_, PLUMB_IS_PAREN(type))(x, type, name)
#define PLUMB_PROBLEM_ELEMENT_PAREN_1(x, type, name) , (FIELD, x)
#define PLUMB_PROBLEM_ELEMENT_PAREN_0(x, type, name) \
    PLUMB_PROBLEM_PASTE_(PLUMB_PROBLEM_ELEMENT_, PLUMB_IS_INTEGER_(PLUMB_KIND_##type))(x, type, name)
#define PLUMB_PROBLEM_ELEMENT_0(x, type, name) , (ELEMENT, x)
#define PLUMB_PROBLEM_ELEMENT_1(x, type, name) PLUMB_PROBLEM_NAME_(x, name)
#define PLUMB_IS_INTEGER_(kind) PLUMB_IS_INTEGER2_(kind)
#define PLUMB_IS_INTEGER2_(kind) PLUMB_IS_EMPTY(PLUMB_DROP_ PLUMB_INTEGER_##kind)
#define PLUMB_INTEGER_SCALAR ()

/* `errno` is a macro, and what arrives here is what it stands for. */
#define PLUMB_PROBLEM_NAME_(x, name) PLUMB_PROBLEM_PASTE_(PLUMB_PROBLEM_NAME_, PLUMB_IS_PAREN(name))(x)
#define PLUMB_PROBLEM_NAME_0(x)
#define PLUMB_PROBLEM_NAME_1(x) , (NAME, x)

/* The sentences: of `event`, "shop:order", and what was found. */

#define PLUMB_KIND_OF_PROBLEM_(problem, what) problem
#define PLUMB_SENTENCE_(event, problem) PLUMB_SENTENCE2_(event, PLUMB_STRIP_ problem)
#define PLUMB_SENTENCE2_(event, ...) PLUMB_SENTENCE3_(event, __VA_ARGS__)
#define PLUMB_SENTENCE3_(event, problem, ...) event ": " PLUMB_SENTENCE_##problem(__VA_ARGS__)
#define PLUMB_SENTENCE_NO_FIELD(x) \
    "each field stands in parentheses, as (u32, id) does, with commas between; not so: " PLUMB_STRING(x)
#define PLUMB_SENTENCE_MANY(x) \
    "an event has at most 32 fields; an array or a sequence takes many values of one type"
#define PLUMB_SENTENCE_FIELD(...)                                                        \
    "a field is (u32, id), (enum, u8, status, (0, ...), ...), (array, u16, name, 4) or " \
    "(sequence, u32, name); this is none: " PLUMB_STRING_(__VA_ARGS__)
#define PLUMB_SENTENCE_TYPE(x) PLUMB_SENTENCE_TYPE2_(PLUMB_STRING(x))
#define PLUMB_SENTENCE_TYPE2_(type)                                                              \
    "there is no type of fields " type "; there are i8 to i64, u8 to u64, x8 to x64, f32, f64, " \
    "bool, ptr, string, text, enum, array, sequence, and of C's names int, unsigned, long, "     \
    "size_t, int32_t and the like"
#define PLUMB_SENTENCE_ELEMENT(...)                                                       \
    "the second part is a type of integers, as in (enum, u8, ...), (array, u16, ...) or " \
    "(sequence, u32, ...); not so in " PLUMB_STRING_(__VA_ARGS__)
#define PLUMB_SENTENCE_LABELS(name) "an enum has at most 32 labels; " PLUMB_STRING(name) " has more"
#define PLUMB_SENTENCE_NAME(...)                                                                             \
    "the name of this field is a macro, which stands for something else; take another name: " PLUMB_STRING_( \
        __VA_ARGS__)
#define PLUMB_SENTENCE_LEVEL(x)                                                            \
    "the third part of PLUMB_EVENT_LEVEL is a level, such as PLUMB_WARNING; without one, " \
    "it is PLUMB_EVENT"

/* What the compiler looks at. `id` is provider__name. */

#define PLUMB_NAME_SENTENCE_(provider, name) \
    provider ":" name ": names of providers and events are made of letters, digits and underscores"
#define PLUMB_TWICE_SENTENCE_(provider, name) \
    provider ":" name ": this event was defined before; take another name, or guard its header"
#define PLUMB_PLACE_SENTENCE_(provider, name) \
    provider ":" name ": an event is defined outside of functions, at file scope"
#define PLUMB_UNNAMED_SENTENCE_(provider, name) \
    provider ":" name ": not in an unnamed namespace: each file would have its own; define it outside"

#ifdef __cplusplus

extern "C++" {
namespace plumb::detail {

// Letters beyond ASCII are what the compiler takes them for.
constexpr bool is_name(const char* text) {
    if (*text == '\0') return false;
    for (; *text != '\0'; text++)
        if (!((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
              (*text >= '0' && *text <= '9') || *text == '_' || static_cast<unsigned char>(*text) >= 0x80))
            return false;
    return true;
}

constexpr bool begins_with(const char* text, const char* with) {
    while (*with != '\0' && *text == *with)
        text++, with++;
    return *with == '\0';
}

// Whether a type stands in an unnamed namespace: gcc and clang say it in their name of this function.
template <typename Type>
constexpr bool is_in_unnamed_namespace() {
    for (const char* text = __PRETTY_FUNCTION__; *text != '\0'; text++)
        if (begins_with(text, "{anonymous}") || begins_with(text, "(anonymous namespace)")) return true;
    return false;
}

} // namespace plumb::detail
} // extern "C++"

#define PLUMB_CHECK_PLACE_(id, provider, name)                                          \
    static_assert(::plumb::detail::is_name(provider) && ::plumb::detail::is_name(name), \
                  PLUMB_NAME_SENTENCE_(provider, name));                                \
    static_assert(__builtin_FUNCTION()[0] == '\0', PLUMB_PLACE_SENTENCE_(provider, name));
/* Numbered, so that those of a namespace that is used do not come in between. */
#define PLUMB_CHECK_EVENT_(id, provider, name) PLUMB_CHECK_EVENT2_(id, provider, name, __COUNTER__)
#define PLUMB_CHECK_EVENT2_(id, provider, name, number) PLUMB_CHECK_EVENT3_(id, provider, name, number)
#define PLUMB_CHECK_EVENT3_(id, provider, name, number)                              \
    extern const char plumb_defined_##id[];                                          \
    static_assert(::std::is_same_v<decltype(plumb_defined_##id), const char[]>,      \
                  PLUMB_TWICE_SENTENCE_(provider, name));                            \
    extern const char plumb_defined_##id[2];                                         \
    struct plumb_place_##number;                                                     \
    static_assert(!::plumb::detail::is_in_unnamed_namespace<plumb_place_##number>(), \
                  PLUMB_UNNAMED_SENTENCE_(provider, name));

/* An event that could not be defined: what traces it compiles. */
#define PLUMB_STAND_IN_(id)                     \
    extern struct plumb_event plumb_event_##id; \
    template <typename... Values>               \
    inline void plumb_trace_##id(const Values&...) {}

#else

/* Clang looks into strings in a constant expression only behind a question about constants. */
#define PLUMB_HAS_(text, character)                                                                        \
    (__builtin_constant_p(__builtin_strchr(text, character) != 0) ? __builtin_strchr(text, character) != 0 \
                                                                  : 0)
/* What a name of several tokens is most often made of; of a macro with arguments its parentheses. */
#define PLUMB_IS_NO_NAME_(text)                                                                          \
    (PLUMB_HAS_(text, '-') || PLUMB_HAS_(text, '.') || PLUMB_HAS_(text, ':') || PLUMB_HAS_(text, '/') || \
     PLUMB_HAS_(text, ' ') || PLUMB_HAS_(text, '"') || PLUMB_HAS_(text, '(') || PLUMB_HAS_(text, '*'))

/* Named constants, since clang shows the whole condition of an assertion. */
#define PLUMB_CHECK_PLACE_(id, provider, name)
#define PLUMB_CHECK_EVENT_(id, provider, name) PLUMB_CHECK_EVENT2_(id, provider, name, __COUNTER__)
#define PLUMB_CHECK_EVENT2_(id, provider, name, number) PLUMB_CHECK_EVENT3_(id, provider, name, number)
#ifdef __clang__
#define PLUMB_OUTSIDE_BEGIN_         \
    _Pragma("clang diagnostic push") \
        _Pragma("clang diagnostic ignored \"-Wpredefined-identifier-outside-function\"")
#define PLUMB_OUTSIDE_END_ _Pragma("clang diagnostic pop")
#else
#define PLUMB_OUTSIDE_BEGIN_
#define PLUMB_OUTSIDE_END_
#endif
#define PLUMB_CHECK_EVENT3_(id, provider, name, number)                                             \
    PLUMB_OUTSIDE_BEGIN_                                                                            \
    enum {                                                                                          \
        plumb_is_a_name_##number = !PLUMB_IS_NO_NAME_(provider) && !PLUMB_IS_NO_NAME_(name),        \
        plumb_is_outside_##number = sizeof(__func__) == 1                                           \
    };                                                                                              \
    PLUMB_OUTSIDE_END_                                                                              \
    _Static_assert(plumb_is_a_name_##number, PLUMB_NAME_SENTENCE_(provider, name));                 \
    _Static_assert(plumb_is_outside_##number, PLUMB_PLACE_SENTENCE_(provider, name));               \
    extern const char plumb_defined_##id[];                                                         \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&plumb_defined_##id), const char(*)[3]), \
                   PLUMB_TWICE_SENTENCE_(provider, name));                                          \
    extern const char plumb_defined_##id[2];

#if __STDC_VERSION__ > 201710L && (__GNUC__ > 12 || __clang_major__ > 15)
#define PLUMB_ANY_PARAMETERS_ ...
#else
#define PLUMB_ANY_PARAMETERS_
#endif
#define PLUMB_STAND_IN_(id)                     \
    extern struct plumb_event plumb_event_##id; \
    static inline __attribute__((unused)) void plumb_trace_##id(PLUMB_ANY_PARAMETERS_) {}

#endif

/* Whether the value of a label is one of its field's type; c is (event, type, field). */
#define PLUMB_LABEL_FITS_(c, x) PLUMB_LABEL_FITS2_(PLUMB_STRIP_ c, PLUMB_STRIP_ x)
#define PLUMB_LABEL_FITS2_(...) PLUMB_LABEL_FITS4_(PLUMB_COUNT(__VA_ARGS__), __VA_ARGS__)
#define PLUMB_LABEL_FITS4_(count, ...) PLUMB_LABEL_FITS5_(count, __VA_ARGS__)
#define PLUMB_LABEL_FITS5_(count, ...) PLUMB_LABEL_FITS_##count(__VA_ARGS__)
#define PLUMB_LABEL_FITS_4 PLUMB_LABEL_FITS3_
#define PLUMB_LABEL_FITS_5 PLUMB_LABEL_FITS3_
#define PLUMB_LABEL_FITS_6(event, type, field, first, last, label)                          \
    PLUMB_LABEL_FITS3_(event, type, field, first, label)                                    \
    PLUMB_LABEL_FITS3_(event, type, field, last, label)                                     \
    PLUMB_STATIC_ASSERT((PLUMB_CTYPE_##type)(first) <= (PLUMB_CTYPE_##type)(last),          \
                        event ": the first value of label " label " of " #field ", " #first \
                              ", is behind its last, " #last);
#define PLUMB_LABEL_FITS_7 PLUMB_LABEL_FITS3_
#define PLUMB_LABEL_FITS3_(event, type, field, value, label)                          \
    PLUMB_STATIC_ASSERT((int64_t)(PLUMB_CTYPE_##type)(value) == (int64_t)(value),     \
                        event ": the value of label " label " of " #field ", " #value \
                              ", does not fit " #type "; take a larger type of integer for the field");

#endif
