// cmake-once
/* How the format of a marker is read, as printf reads it, and what kind of a field each type of an argument is. */
#include <plumb/tracepoint.h>

#include <plumb/detail/marker.h>
#include <plumb/detail/marker_format.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>

namespace plumb {
namespace {

/* "2 s 5 'rest' next": argument, letter, precision, what is left, how many were taken in their order. */
std::string conversion(const char* text, uint32_t next = 0) {
    const plumb_conversion found = plumb_read_conversion(&text, &next);
    const std::string argument =
        found.argument == PLUMB_NO_ARGUMENT ? "none" : std::to_string(found.argument);
    return argument + " " + (found.letter == '\0' ? std::string("end") : std::string(1, found.letter)) + " " +
           std::to_string(found.precision) + " '" + text + "' " + std::to_string(next);
}

TEST(MarkerFormat, ArgumentsAreTakenInTheirOrder) {
    EXPECT_EQ(conversion("d and"), "0 d -1 ' and' 1");
    EXPECT_EQ(conversion("s", 4), "4 s -1 '' 5");
    EXPECT_EQ(conversion("-+ #0'I12.34lls!"), "0 s 34 '!' 1");
    EXPECT_EQ(conversion(".s"), "0 s 0 '' 1");
    EXPECT_EQ(conversion("%x", 3), "none % -1 'x' 3");
    EXPECT_EQ(conversion("mx", 3), "none m -1 'x' 3");
    EXPECT_EQ(conversion("", 3), "none end -1 '' 3");
    EXPECT_EQ(conversion("12.5hl", 3), "none end 5 '' 3");
    EXPECT_EQ(conversion("hhd"), "0 d -1 '' 1");
    EXPECT_EQ(conversion("zu"), "0 u -1 '' 1");
    EXPECT_EQ(conversion("qtjLd"), "0 d -1 '' 1");
}

TEST(MarkerFormat, ArgumentsOfPositionsAreThose) {
    EXPECT_EQ(conversion("1$d", 7), "0 d -1 '' 7");
    EXPECT_EQ(conversion("10$d"), "9 d -1 '' 0");
    EXPECT_EQ(conversion("27$.3s"), "26 s 3 '' 0");
    EXPECT_EQ(conversion("105$d"), "104 d -1 '' 0");
    EXPECT_EQ(conversion("999999$d"), "999998 d -1 '' 0");
    EXPECT_EQ(conversion("12d"), "0 d -1 '' 1") << "a width";
    EXPECT_EQ(conversion("0$d"), "0 $ -1 'd' 1") << "printf knows no such position, and neither do we";
}

/* A star takes an argument, too, in front of its conversion's own. */
TEST(MarkerFormat, StarsTakeArguments) {
    EXPECT_EQ(conversion("*d"), "1 d -1 '' 2");
    EXPECT_EQ(conversion(".*s", 2), "3 s -4 '' 4") << "the precision is argument 2";
    EXPECT_EQ(conversion("*.*s"), "2 s -3 '' 3");
    EXPECT_EQ(conversion("2$.*1$s"), "1 s -2 '' 0");
    EXPECT_EQ(conversion("2$*3$.*11$s", 5), "1 s -12 '' 5");
    EXPECT_EQ(conversion(".12345678s"), "0 s 1234567 '' 1") << "more than any string has";
}

TEST(MarkerFormat, StringsAreReadAsFarAsTheirFirstConversionDoes) {
    EXPECT_EQ(plumb_mark_precision("%s", 0), PLUMB_PRECISION_NONE);
    EXPECT_EQ(plumb_mark_precision("%d %.5s", 1), 5);
    EXPECT_EQ(plumb_mark_precision("%d %.*s", 2), PLUMB_PRECISION_STAR - 1);
    EXPECT_EQ(plumb_mark_precision("%p", 0), PLUMB_PRECISION_ADDRESS);
    EXPECT_EQ(plumb_mark_precision("%1$p %1$.3s", 0), 3);
    EXPECT_EQ(plumb_mark_precision("%1$.2s %1$.3s", 0), 2);
    EXPECT_EQ(plumb_mark_precision("%d%%%d", 2), PLUMB_PRECISION_NONE) << "nothing shows it";
    EXPECT_EQ(plumb_mark_precision("100%", 0), PLUMB_PRECISION_NONE);
}

/* Type, bytes, flags; there are neither labels nor elements. */
template <typename Value>
std::tuple<int, int, int> field() {
    constexpr plumb_event_field made = detail::marker_field<Value>();
    static_assert(made.name == nullptr && made.labels == nullptr && made.label_count == 0 &&
                  made.array_length == 0 && made.reserved == 0);
    return {made.type, made.size, made.flags};
}

TEST(MarkerFormat, FieldsAreOfTheirArgumentsTypes) {
    enum class Small : int8_t { one };
    struct Whole {
        int64_t number;
    };
    const auto integer = [](int size, int flags) {
        return std::tuple<int, int, int>(PLUMB_FIELD_INTEGER, size, flags);
    };
    EXPECT_EQ(field<const char*>(), std::tuple(int{PLUMB_FIELD_STRING}, 1, 0));
    EXPECT_EQ(field<char*>(), std::tuple(int{PLUMB_FIELD_STRING}, 1, 0));
    EXPECT_EQ(field<float>(), std::tuple(int{PLUMB_FIELD_FLOAT}, 4, 0));
    EXPECT_EQ(field<double>(), std::tuple(int{PLUMB_FIELD_FLOAT}, 8, 0));
    EXPECT_EQ(field<long double>(), std::tuple(int{PLUMB_FIELD_FLOAT}, 8, 0));
    EXPECT_EQ(field<void*>(), integer(8, PLUMB_FIELD_HEX));
    EXPECT_EQ(field<std::nullptr_t>(), integer(8, PLUMB_FIELD_HEX));
    EXPECT_EQ(field<Whole>(), integer(8, PLUMB_FIELD_HEX)) << "its address";
    EXPECT_EQ(field<uint8_t>(), integer(1, 0));
    EXPECT_EQ(field<int16_t>(), integer(2, PLUMB_FIELD_SIGNED));
    EXPECT_EQ(field<unsigned>(), integer(4, 0));
    EXPECT_EQ(field<long long>(), integer(8, PLUMB_FIELD_SIGNED));
    EXPECT_EQ(field<bool>(), integer(1, 0));
}

} // namespace
} // namespace plumb
