/*
 * What plumb_mark expands to: an event whose fields are described by the types of the arguments. In C these
 * are chosen by _Generic, and the event is a static of the place. In C++ they are template arguments, and the event is a
 * static member of the class that they name, together with a class of the place, which knows the strings: so a marker in an
 * inline function is one event.
 */
#ifndef PLUMB_DETAIL_MARKER_H
#define PLUMB_DETAIL_MARKER_H

#include <plumb/detail/marker_format.h>

/* Never called: lets the compiler check the format. */
__attribute__((format(printf, 1, 2))) static inline void plumb_mark_check(const char* format, ...) {
    (void)format;
}

#define PLUMB_MARK_CHECK_(...)                                                         \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic error \"-Wformat\"") if (0) \
        plumb_mark_check(__VA_ARGS__);                                                 \
    _Pragma("GCC diagnostic pop")

/* The entry in section plumb_events, written where the marker stands. Inlined copies name the same event
 * again. */
#define PLUMB_MARK_ENTRY_(event)                                      \
    __asm__ volatile(".pushsection plumb_events,\"awR\",%%progbits\n" \
                     ".balign 8\n" PLUMB_ASM_POINTER_ "%c0\n"         \
                     ".popsection"                                    \
                     :                                                \
                     : "i"(&event))

#define PLUMB_MARK_LEVEL_ PLUMB_DEBUG_LINE

/* A constexpr array does, too. */
#define PLUMB_MARK_IS_LITERAL_(...)                        \
    (__builtin_constant_p(PLUMB_FIRST_(__VA_ARGS__, ~)) || \
     __builtin_constant_p((PLUMB_FIRST_(__VA_ARGS__, ~))[0]))
#define PLUMB_MARK_LITERAL_SENTENCE_(provider, name) \
    "marker " provider ":" name ": the format is a string literal, as the compiler names the fields by it"
#define PLUMB_MARK_VALUES_SENTENCE_(provider, name)                                         \
    "marker " provider ":" name                                                             \
    ": a marker takes numbers, enumerations, strings (const char*) and other pointers; of " \
    "a std::string pass text.c_str()"
#define PLUMB_MARK_MANY_SENTENCE_(provider, name, most)                                                \
    "marker " provider ":" name ": a marker has at most " most " arguments; define an event for more " \
    "(PLUMB_EVENT)"

#ifdef __cplusplus
extern "C++" {
#include <type_traits>
#include <utility>

namespace plumb::detail {

template <typename Value>
constexpr bool is_marker_value = std::is_arithmetic_v<Value> || std::is_enum_v<Value> ||
                                 std::is_pointer_v<Value> || std::is_null_pointer_v<Value>;

template <typename Value>
constexpr plumb_event_field marker_field() {
    if constexpr (std::is_same_v<Value, const char*> || std::is_same_v<Value, char*>)
        return {nullptr, nullptr, 0, 0, PLUMB_FIELD_STRING, 1, 0, 0};
    else if constexpr (std::is_floating_point_v<Value>)
        return {nullptr, nullptr, 0, 0, PLUMB_FIELD_FLOAT, sizeof(Value) == 4 ? 4 : 8, 0, 0};
    else if constexpr (std::is_pointer_v<Value> || std::is_null_pointer_v<Value> || !is_marker_value<Value>)
        return {nullptr, nullptr, 0, 0, PLUMB_FIELD_INTEGER, 8, PLUMB_FIELD_HEX, 0};
    else
        return {nullptr,
                nullptr,
                0,
                0,
                PLUMB_FIELD_INTEGER,
                sizeof(Value),
                static_cast<Value>(-1) < static_cast<Value>(1) ? PLUMB_FIELD_SIGNED : 0u,
                0};
}

// The bytes of a string that its precision allows; negative: all.
template <long Precision, typename... Values>
inline int64_t marker_precision(Values... values) {
    if constexpr (Precision > PLUMB_PRECISION_STAR || Precision == PLUMB_PRECISION_ADDRESS) {
        return Precision;
    } else {
        int64_t bytes = PLUMB_PRECISION_NONE;
        long star = PLUMB_PRECISION_STAR; // that the next value would be
        const auto take = [&](auto value) {
            const bool is_meant = star-- == Precision;
            if constexpr (std::is_integral_v<decltype(value)> || std::is_enum_v<decltype(value)>)
                if (is_meant) bytes = static_cast<int>(value);
        };
        (take(values), ...);
        return bytes;
    }
}

// The precision is that of a string.
template <typename Value>
inline void marker_put(plumb_payload* payload, Value value, int64_t precision) {
    if constexpr (std::is_same_v<Value, const char*> || std::is_same_v<Value, char*>) {
        if (precision == PLUMB_PRECISION_ADDRESS)
            plumb_put_address(payload, value);
        else
            plumb_put_string_part(payload, value, precision);
    } else if constexpr (std::is_floating_point_v<Value> && sizeof(Value) > 8) {
        const double narrow = static_cast<double>(value);
        plumb_put_bytes(payload, &narrow, 8);
    } else if constexpr (std::is_pointer_v<Value> || std::is_null_pointer_v<Value>) {
        const uint64_t address = reinterpret_cast<uintptr_t>(static_cast<const volatile void*>(value));
        plumb_put_bytes(payload, &address, 8);
    } else if constexpr (std::is_same_v<Value, bool>) {
        *payload->at++ = plumb_truth_of(static_cast<unsigned char>(value));
    } else {
        plumb_put_bytes(payload, &value, sizeof(value));
    }
}

// `Place` is a class of the marker's place: its strings.
template <typename Place, typename... Values>
struct __attribute__((visibility("hidden"))) marker {
    static constexpr size_t count = sizeof...(Values);
    static constexpr uint32_t varies =
        (0u + ... + (marker_field<Values>().type == PLUMB_FIELD_STRING ? 1u : 0u));
    static constexpr size_t fixed_bytes = (0 + ... + marker_field<Values>().size);

    static inline constexpr plumb_event_field fields[count + 1] = {marker_field<Values>()..., {}};
    static inline constexpr plumb_event_info info = {Place::plumb_provider(),
                                                     Place::plumb_name(),
                                                     Place::plumb_file(),
                                                     Place::plumb_format(),
                                                     fields,
                                                     Place::plumb_line,
                                                     count,
                                                     PLUMB_MARK_LEVEL_,
                                                     PLUMB_RUNTIME_VERSION};
    static inline plumb_event event = {0, 0, nullptr, {0}, &info, nullptr};

    template <size_t... Index>
    static void put(plumb_payload* payload, std::index_sequence<Index...>, Values... values) {
        (marker_put(payload, values,
                    marker_precision<plumb_mark_precision(Place::plumb_format(), Index)>(values...)),
         ...);
    }

    template <typename Format>
    static void emit(const Format&, Values... values) {
        constexpr std::index_sequence_for<Values...> all{};
        unsigned char
            buffer[varies ? fixed_bytes + PLUMB_SMALL_ROOM + PLUMB_SLACK : (fixed_bytes + 15) / 8 * 8];
        plumb_payload payload;
        plumb_payload_begin(&payload, buffer, fixed_bytes, varies);
        put(&payload, all, values...);
        if (plumb_payload_fits(&payload, varies)) {
            plumb_payload_emit(&payload, &event, buffer, fixed_bytes, varies);
        } else {
            unsigned char* scratch = plumb_payload_begin_large(&payload, buffer, fixed_bytes);
            do {
                put(&payload, all, values...);
            } while (plumb_payload_is_shared(&payload, buffer, scratch, fixed_bytes, varies));
            plumb_payload_emit_large(&payload, &event, buffer, scratch);
        }
    }
};

// Only for its type. By value: a reference does not bind to a bit-field.
template <typename Place, typename Format, typename... Arguments>
marker<Place, Arguments...> marker_at(const Format&, Arguments...);

// Asked before anything is made of the values: what comes behind that takes what no marker takes without a word.
template <typename... Values>
struct marker_values {
    static constexpr bool are_few = sizeof...(Values) <= 32;
    static constexpr bool are_plain = (true && ... && is_marker_value<std::decay_t<Values>>);
};
template <typename Format, typename... Arguments>
marker_values<Arguments...> marker_values_of(const Format&, const Arguments&...);

} // namespace plumb::detail
} // extern "C++"

#define PLUMB_MARK_(provider, name, ...)                                                                  \
    do {                                                                                                  \
        static_assert(PLUMB_MARK_IS_LITERAL_(__VA_ARGS__), PLUMB_MARK_LITERAL_SENTENCE_(provider, name)); \
        static_assert(decltype(::plumb::detail::marker_values_of(__VA_ARGS__))::are_few,                  \
                      PLUMB_MARK_MANY_SENTENCE_(provider, name, "32"));                                   \
        static_assert(decltype(::plumb::detail::marker_values_of(__VA_ARGS__))::are_plain,                \
                      PLUMB_MARK_VALUES_SENTENCE_(provider, name));                                       \
        PLUMB_MARK_CHECK_(__VA_ARGS__)                                                                    \
        struct plumb_place_ {                                                                             \
            enum : uint32_t { plumb_line = __LINE__ };                                                    \
            static constexpr const char* plumb_provider() { return provider; }                            \
            static constexpr const char* plumb_name() { return name; }                                    \
            static constexpr const char* plumb_file() { return __FILE__; }                                \
            static constexpr const char* plumb_format() { return PLUMB_FIRST_(__VA_ARGS__, ~); }          \
        };                                                                                                \
        using plumb_marker_ = decltype(::plumb::detail::marker_at<plumb_place_>(__VA_ARGS__));            \
        PLUMB_MARK_ENTRY_(plumb_marker_::event);                                                          \
        if (PLUMB_IS_ON_(plumb_marker_::event)) plumb_marker_::emit(__VA_ARGS__);                         \
    } while (0)

#else

/* For what no line of _Generic names: pointers, and the bit-fields of gcc, each width of which is a type of its own. */
#define PLUMB_MARK_OTHER_(x, pointer, bits) \
    __builtin_choose_expr(__builtin_classify_type(x) == __builtin_classify_type((char*)0), pointer, bits)

/* The kind of an argument, by its type: what is neither a string nor arithmetic is a pointer. */
#define PLUMB_MARK_TYPE_(x) \
    _Generic((x), char*: PLUMB_FIELD_STRING, const char*: PLUMB_FIELD_STRING, float: PLUMB_FIELD_FLOAT,      \
             double: PLUMB_FIELD_FLOAT, long double: PLUMB_FIELD_FLOAT, default: PLUMB_FIELD_INTEGER)
#define PLUMB_MARK_FLAGS_(x)                                                                          \
    _Generic((x), char* : 0, const char* : 0, float : 0, double : 0, long double : 0, _Bool : 0, char \
             : ((char)-1 < (char)1), signed char : 1, short : 1, int : 1, long : 1, long long : 1,    \
               unsigned char : 0, unsigned short : 0, unsigned : 0, unsigned long : 0,                \
               unsigned long long : 0, default                                                        \
             : PLUMB_MARK_OTHER_(x, PLUMB_FIELD_HEX, PLUMB_FIELD_SIGNED))
#define PLUMB_MARK_SIZE_(x)                                                                                 \
    _Generic((x), char* : 1, const char* : 1, float : 4, double : 8, long double : 8, _Bool : 1, char : 1,  \
             signed char : 1, unsigned char : 1, short : 2, unsigned short : 2, int : 4, unsigned : 4, long \
             : sizeof(long), unsigned long                                                                  \
             : sizeof(long), long long : 8, unsigned long long : 8, default : 8)

/* `bytes`: of the field; of a string its precision. */
static inline void plumb_mark_string(struct plumb_payload* payload, const char* value, uint64_t bytes) {
    if ((int64_t)bytes == PLUMB_PRECISION_ADDRESS)
        plumb_put_address(payload, value);
    else
        plumb_put_string_part(payload, value, (int64_t)bytes);
}
static inline void plumb_mark_integer(struct plumb_payload* payload, uint64_t value, uint64_t bytes) {
    plumb_put_bytes(payload, &value, bytes);
}
static inline void plumb_mark_bool(struct plumb_payload* payload, uint64_t value, uint64_t bytes) {
    (void)bytes;
    *payload->at++ = plumb_truth_of((unsigned char)value);
}
static inline void plumb_mark_float(struct plumb_payload* payload, float value, uint64_t bytes) {
    plumb_put_bytes(payload, &value, bytes);
}
static inline void plumb_mark_double(struct plumb_payload* payload, double value, uint64_t bytes) {
    plumb_put_bytes(payload, &value, bytes);
}
static inline void plumb_mark_pointer(struct plumb_payload* payload, const volatile void* value,
                                      uint64_t bytes) {
    const uint64_t address = (uint64_t)(uintptr_t)value;
    plumb_put_bytes(payload, &address, bytes);
}
/* Chosen as the fields are. */
#define PLUMB_MARK_CHOOSE_(x, string, narrow, wide, integer, pointer) \
    _Generic((x), char*: string, const char*: string, float: narrow, double: wide, long double: wide,        \
             _Bool: integer, char: integer, signed char: integer, unsigned char: integer, short: integer,    \
             unsigned short: integer, int: integer, unsigned: integer, long: integer,                        \
             unsigned long: integer, long long: integer, unsigned long long: integer,                        \
             default: PLUMB_MARK_OTHER_(x, pointer, integer))
#define PLUMB_MARK_PUT_FUNCTION_(x)                                                          \
    _Generic((x), _Bool                                                                      \
             : plumb_mark_bool, default                                                      \
             : PLUMB_MARK_CHOOSE_(x, plumb_mark_string, plumb_mark_float, plumb_mark_double, \
                                  plumb_mark_integer, plumb_mark_pointer))
/* What that function takes: the argument is evaluated once, and put once more where the strings outgrow the
 * small buffer. */
#define PLUMB_MARK_VALUE_TYPE_(x)                                                      \
    __typeof__(PLUMB_MARK_CHOOSE_(x, (const char*)0, (float)0, (double)0, (uint64_t)0, \
                                  (const volatile void*)0))
#define PLUMB_MARK_VALUE_(c, i, x) \
    const PLUMB_MARK_VALUE_TYPE_(x) plumb_value_##i = (PLUMB_MARK_VALUE_TYPE_(x))(x);

#define PLUMB_MARK_FIELD_(c, i, x) \
    {0, 0, 0, 0, PLUMB_MARK_TYPE_(x), (uint8_t)PLUMB_MARK_SIZE_(x), (uint8_t)PLUMB_MARK_FLAGS_(x), 0},
#define PLUMB_MARK_FIXED_(c, i, x) +PLUMB_MARK_SIZE_(x)
#define PLUMB_MARK_VARIES_(c, i, x) +(PLUMB_MARK_TYPE_(x) == PLUMB_FIELD_STRING)
/* What a precision may name: an int. */
#define PLUMB_MARK_STAR_(c, i, x) (int32_t) PLUMB_MARK_CHOOSE_(x, 0, 0, 0, plumb_value_##i, 0),
static inline uint64_t plumb_mark_bytes(const char* format, unsigned index, const int32_t* stars,
                                        size_t star_count) {
    const long precision = plumb_mark_precision(format, index);
    const size_t star = (size_t)(PLUMB_PRECISION_STAR - precision);
    if (precision > PLUMB_PRECISION_STAR || precision == PLUMB_PRECISION_ADDRESS) return (uint64_t)precision;
    return star < star_count ? (uint64_t)stars[star] : 0;
}
/* Most formats have neither precisions nor positions, nor show addresses, which the compiler sees. */
#define PLUMB_MARK_IS_PLAIN_(format)                                                                        \
    (!__builtin_strchr(format, '.') && !__builtin_strchr(format, '$') && !__builtin_strstr(format, "%p") && \
     !__builtin_strstr(format, "-p") && !__builtin_strstr(format, "*p") &&                                  \
     !__builtin_strstr(format, "0p") && !__builtin_strstr(format, "1p") &&                                  \
     !__builtin_strstr(format, "2p") && !__builtin_strstr(format, "3p") &&                                  \
     !__builtin_strstr(format, "4p") && !__builtin_strstr(format, "5p") &&                                  \
     !__builtin_strstr(format, "6p") && !__builtin_strstr(format, "7p") &&                                  \
     !__builtin_strstr(format, "8p") && !__builtin_strstr(format, "9p"))
#define PLUMB_MARK_BYTES_(i, x)                                                \
    (PLUMB_MARK_TYPE_(x) != PLUMB_FIELD_STRING ? (uint64_t)PLUMB_MARK_SIZE_(x) \
     : PLUMB_MARK_IS_PLAIN_(plumb_info_.format)                                \
         ? (uint64_t)-1                                                        \
         : plumb_mark_bytes(plumb_info_.format, i, plumb_stars_, sizeof(plumb_stars_) / 4))
#define PLUMB_MARK_PUT_(c, i, x) \
    PLUMB_MARK_PUT_FUNCTION_(x)(&plumb_p, plumb_value_##i, PLUMB_MARK_BYTES_(i, x));

/* The format is the first of the arguments, so that there always is one; PLUMB_MARK_REST_ is m over the
 * others. */
#define PLUMB_MARK_REST_(m, ...) PLUMB_CAT(PLUMB_MARK_REST_IF_, PLUMB_MARK_MANY_(__VA_ARGS__))(m, __VA_ARGS__)
#define PLUMB_MARK_MANY_(...)                                                                               \
    PLUMB_COUNT_(__VA_ARGS__, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, \
                 1, 1, 1, 1, 1, 0, 0)
#define PLUMB_MARK_REST_IF_0(m, format)
#define PLUMB_MARK_REST_IF_1(m, format, ...) PLUMB_NUMBERED(m, ~, __VA_ARGS__)

/* Of more than 32 arguments, with the format, the count is the 33rd. */
#define PLUMB_MARK_(provider, name, ...) \
    PLUMB_CAT(PLUMB_MARK_IF_, PLUMB_MARK_IS_LONG_(__VA_ARGS__))(provider, name, __VA_ARGS__)
#define PLUMB_MARK_IS_LONG_(...)                                                                            \
    PLUMB_COUNT_(__VA_ARGS__, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
                 0, 0, 0, 0, 0, 0, 0)
#define PLUMB_MARK_IF_1(provider, name, ...) \
    PLUMB_STATIC_ASSERT(0, PLUMB_MARK_MANY_SENTENCE_(provider, name, "16"))
#define PLUMB_MARK_IF_0(provider, name, ...)                                                          \
    do {                                                                                              \
        PLUMB_STATIC_ASSERT(PLUMB_MARK_IS_LITERAL_(__VA_ARGS__),                                      \
                            PLUMB_MARK_LITERAL_SENTENCE_(provider, name));                            \
        PLUMB_MARK_CHECK_(__VA_ARGS__)                                                                \
        static const struct plumb_event_field plumb_fields_[] = {                                     \
            PLUMB_MARK_REST_(PLUMB_MARK_FIELD_, __VA_ARGS__){0, 0, 0, 0, 0, 0, 0, 0}};                \
        static const struct plumb_event_info plumb_info_ = {                                          \
            provider,                                                                                 \
            name,                                                                                     \
            __FILE__,                                                                                 \
            PLUMB_FIRST_(__VA_ARGS__, ~),                                                             \
            plumb_fields_,                                                                            \
            __LINE__,                                                                                 \
            (uint16_t)(sizeof(plumb_fields_) / sizeof(plumb_fields_[0]) - 1),                         \
            PLUMB_MARK_LEVEL_,                                                                        \
            PLUMB_RUNTIME_VERSION};                                                                   \
        static struct plumb_event plumb_event_ = {0, 0, 0, {0}, &plumb_info_, 0};                     \
        PLUMB_MARK_ENTRY_(plumb_event_);                                                              \
        if (PLUMB_IS_ON_(plumb_event_)) {                                                             \
            enum {                                                                                    \
                plumb_fixed = (int)(0 PLUMB_MARK_REST_(PLUMB_MARK_FIXED_, __VA_ARGS__)),              \
                plumb_varies = 0 PLUMB_MARK_REST_(PLUMB_MARK_VARIES_, __VA_ARGS__),                   \
                plumb_small = plumb_varies ? (int)(plumb_fixed + PLUMB_SMALL_ROOM + PLUMB_SLACK)      \
                                           : (int)((plumb_fixed + 15) / 8 * 8)                        \
            };                                                                                        \
            unsigned char plumb_buffer[plumb_small];                                                  \
            struct plumb_payload plumb_p;                                                             \
            PLUMB_MARK_REST_(PLUMB_MARK_VALUE_, __VA_ARGS__)                                          \
            const int32_t plumb_stars_[]                                                              \
                __attribute__((unused)) = {PLUMB_MARK_REST_(PLUMB_MARK_STAR_, __VA_ARGS__) 0};        \
            plumb_payload_begin(&plumb_p, plumb_buffer, plumb_fixed, plumb_varies);                   \
            PLUMB_MARK_REST_(PLUMB_MARK_PUT_, __VA_ARGS__)                                            \
            if (plumb_payload_fits(&plumb_p, plumb_varies)) {                                         \
                plumb_payload_emit(&plumb_p, &plumb_event_, plumb_buffer, plumb_fixed, plumb_varies); \
            } else {                                                                                  \
                unsigned char* plumb_scratch =                                                        \
                    plumb_payload_begin_large(&plumb_p, plumb_buffer, plumb_fixed);                   \
                do {                                                                                  \
                    PLUMB_MARK_REST_(PLUMB_MARK_PUT_, __VA_ARGS__)                                    \
                } while (plumb_payload_is_shared(&plumb_p, plumb_buffer, plumb_scratch, plumb_fixed,  \
                                                 (uint32_t)plumb_varies));                            \
                plumb_payload_emit_large(&plumb_p, &plumb_event_, plumb_buffer, plumb_scratch);       \
            }                                                                                         \
        }                                                                                             \
    } while (0)

#endif

#endif
