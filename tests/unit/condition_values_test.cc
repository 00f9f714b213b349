// cmake-once
/* What a condition counts with: integers exactly, in 128 bits; floating point with what is one; texts; and what has no value,
 * which nothing follows from, but from a side of && or || that decides. */
#include "trace/show/condition_values.h"

#include "base/condition_types.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

namespace plumb {
namespace {

using Op = ConditionOperator;
using Value = ConditionValue;

constexpr __int128 least = static_cast<__int128>(1) << 127;
constexpr __int128 greatest = ~least;

std::string decimal(__int128 value) {
    if (value == least) return "least";
    if (value < 0) return "-" + decimal(-value);
    std::string digits;
    for (; value > 9; value /= 10)
        digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(value)));
    return digits;
}

std::string shown(const Value& value) {
    switch (value.kind) {
    case Value::Kind::integer:
        return decimal(value.integer);
    case Value::Kind::floating:
        return std::to_string(value.floating);
    case Value::Kind::text:
        return "'" + std::string(value.text) + "'";
    default:
        return "nothing";
    }
}

std::string two(Value a, Op op, Value b) {
    return shown(of_two(op, a, b));
}
std::string integers(__int128 a, Op op, __int128 b) {
    return two(of_integer(a), op, of_integer(b));
}
std::string floatings(double a, Op op, double b) {
    return two(of_floating(a), op, of_floating(b));
}
std::string texts(std::string_view a, Op op, std::string_view b) {
    return two(of_text(a), op, of_text(b));
}

Value labelled(__int128 value, std::string_view label) {
    Value made = of_integer(value);
    made.has_label = true;
    made.text = label;
    return made;
}

TEST(ConditionValues, ANumberWithoutALabelIsNoText) {
    Value number = of_integer(5);
    number.lacks_label = true;
    const Value text = of_text("five"), label = labelled(5, "five");
    for (const auto& [a, b] : {std::pair(number, text), std::pair(text, number)}) {
        EXPECT_EQ(two(a, Op::equal, b), "0");
        EXPECT_EQ(two(a, Op::unequal, b), "1");
        EXPECT_EQ(two(a, Op::matches, b), "0");
        EXPECT_EQ(two(a, Op::matches_not, b), "1");
        for (const Op order : {Op::less, Op::less_equal, Op::greater, Op::greater_equal})
            EXPECT_EQ(two(a, order, b), "nothing");
        EXPECT_EQ(shown(of_one(Op::logical_not, of_two(Op::equal, a, b))), "1");
    }
    EXPECT_EQ(two(number, Op::matches_not, label), "1");
    EXPECT_EQ(two(number, Op::equal, label), "1") << "numbers";
    EXPECT_EQ(two(number, Op::unequal, {}), "nothing");
}

TEST(ConditionValues, IntegersAreCountedExactly) {
    const struct {
        __int128 a;
        Op op;
        __int128 b;
        const char* result;
    } cases[] = {
        {7, Op::add, 5, "12"},
        {7, Op::subtract, 12, "-5"},
        {7, Op::multiply, -5, "-35"},
        {17, Op::divide, 5, "3"},
        {-17, Op::divide, 5, "-3"},
        {17, Op::modulo, 5, "2"},
        {-17, Op::modulo, 5, "-2"},
        {17, Op::modulo, -1, "0"},
        {17, Op::divide, -1, "-17"},
        {17, Op::divide, 0, "nothing"},
        {17, Op::modulo, 0, "nothing"},
        {0, Op::divide, 17, "0"},
        {least, Op::divide, -1, "nothing"},
        {least, Op::modulo, -1, "nothing"},
        {least + 1, Op::divide, -1, "170141183460469231731687303715884105727"},
        {least, Op::divide, 1, "least"},
        {UINT64_MAX, Op::add, UINT64_MAX, "36893488147419103230"},
        {UINT64_MAX, Op::multiply, 2, "36893488147419103230"},
        {greatest, Op::add, 1, "nothing"},
        {greatest, Op::subtract, -1, "nothing"},
        {greatest, Op::multiply, 2, "nothing"},
        {least, Op::subtract, 1, "nothing"},
        {12, Op::bit_or, 10, "14"},
        {12, Op::bit_xor, 10, "6"},
        {12, Op::bit_and, 10, "8"},
        {-1, Op::bit_and, 0xff, "255"},
        {5, Op::shift_left, 3, "40"},
        {40, Op::shift_right, 3, "5"},
        {-40, Op::shift_right, 3, "-5"},
        {5, Op::shift_left, 0, "5"},
        {5, Op::shift_right, 0, "5"},
        {1, Op::shift_left, 63, "9223372036854775808"},
        {UINT64_MAX, Op::shift_right, 63, "1"},
        {1, Op::shift_left, 64, "nothing"},
        {1, Op::shift_right, 64, "nothing"},
        {1, Op::shift_left, -1, "nothing"},
        {1, Op::shift_right, -1, "nothing"},
        {static_cast<__int128>(UINT64_MAX) << 3, Op::shift_left, 63, "nothing"},
    };
    for (const auto& each : cases)
        EXPECT_EQ(integers(each.a, each.op, each.b), each.result)
            << decimal(each.a) << " operation " << static_cast<int>(each.op) << " " << decimal(each.b);
}

TEST(ConditionValues, AFloatingPointNumberMakesTheOtherOneSo) {
    EXPECT_EQ(floatings(2.5, Op::add, 1.25), "3.750000");
    EXPECT_EQ(floatings(2.5, Op::subtract, 1.25), "1.250000");
    EXPECT_EQ(floatings(2.5, Op::multiply, 1.25), "3.125000");
    EXPECT_EQ(floatings(2.5, Op::divide, 1.25), "2.000000");
    EXPECT_EQ(floatings(2.5, Op::modulo, 2), "0.500000");
    EXPECT_EQ(floatings(2.5, Op::divide, 0), "nothing");
    EXPECT_EQ(floatings(2.5, Op::modulo, 0), "nothing");
    EXPECT_EQ(floatings(2.5, Op::divide, 1), "2.500000");
    EXPECT_EQ(floatings(0, Op::divide, 2.5), "0.000000");
    EXPECT_EQ(floatings(6, Op::bit_and, 2), "nothing");
    EXPECT_EQ(two(of_integer(7), Op::divide, of_floating(2)), "3.500000");
    EXPECT_EQ(two(of_floating(7), Op::divide, of_integer(2)), "3.500000");
    EXPECT_EQ(two(of_integer(6), Op::bit_and, of_floating(2)), "nothing");
}

TEST(ConditionValues, AreComparedByAllOfTheirDigits) {
    const auto orders = [](Value a, Value b) {
        std::string found;
        for (const Op op : {Op::equal, Op::unequal, Op::less, Op::less_equal, Op::greater, Op::greater_equal})
            found += shown(of_two(op, a, b));
        return found;
    };
    constexpr const char *less = "011100", *equal = "100101", *greater = "010011";
    EXPECT_EQ(orders(of_integer(-1), of_integer(1)), less);
    EXPECT_EQ(orders(of_integer(1), of_integer(1)), equal);
    EXPECT_EQ(orders(of_integer(UINT64_MAX), of_integer(-1)), greater);
    EXPECT_EQ(orders(of_floating(0.5), of_floating(0.75)), less);
    EXPECT_EQ(orders(of_floating(0.5), of_floating(0.5)), equal);
    EXPECT_EQ(orders(of_floating(0.75), of_floating(0.5)), greater);
    EXPECT_EQ(orders(of_floating(9007199254740992.0), of_integer(9007199254740993)), less);
    EXPECT_EQ(orders(of_integer(UINT64_MAX), of_floating(18446744073709551616.0)), less);
    EXPECT_EQ(orders(of_integer(2), of_floating(2)), equal);
    EXPECT_EQ(orders(of_integer(3), of_floating(2.5)), greater);
    EXPECT_EQ(orders(of_text("ab"), of_text("b")), less);
    EXPECT_EQ(orders(of_text("ab"), of_text("ab")), equal);
    EXPECT_EQ(orders(of_text("ab"), of_text("aa")), greater);
    EXPECT_EQ(orders(labelled(7, "sent"), of_text("sent")), equal);
    EXPECT_EQ(orders(of_text("new"), labelled(7, "sent")), less);
    EXPECT_EQ(orders(labelled(7, "sent"), labelled(8, "new")), less) << "by their numbers";
    EXPECT_EQ(orders(labelled(7, "sent"), of_floating(6.5)), greater);
    EXPECT_EQ(integers(1, Op::equal, 1 + (static_cast<__int128>(1) << 64)), "0");
    for (const auto& [a, b] : {std::pair(of_text("1"), of_integer(1)), std::pair(of_integer(1), of_text("1")),
                               std::pair(Value{}, of_integer(1)), std::pair(of_integer(1), Value{}),
                               std::pair(Value{}, of_text("1")), std::pair(of_text("1"), Value{}),
                               std::pair(Value{}, Value{}), std::pair(of_floating(1), of_text("1"))})
        EXPECT_EQ(two(a, Op::equal, b) + two(a, Op::greater_equal, b), "nothingnothing");
}

TEST(ConditionValues, PatternsMatchTextsAndLabels) {
    EXPECT_EQ(texts("server", Op::matches, "s*r"), "1");
    EXPECT_EQ(texts("server", Op::matches, "s*t"), "0");
    EXPECT_EQ(texts("server", Op::matches_not, "s*r"), "0");
    EXPECT_EQ(texts("server", Op::matches_not, "s*t"), "1");
    EXPECT_EQ(texts("s*r", Op::matches, "server"), "0") << "the pattern stands behind";
    EXPECT_EQ(two(labelled(7, "sent"), Op::matches, of_text("s?nt")), "1");
    EXPECT_EQ(two(of_text("sent"), Op::matches, labelled(7, "s?nt")), "1");
    for (const Op op : {Op::matches, Op::matches_not}) {
        EXPECT_EQ(two(of_integer(7), op, of_text("*")), "nothing");
        EXPECT_EQ(two(of_text("7"), op, of_integer(7)), "nothing");
        EXPECT_EQ(two(of_text("7"), op, {}), "nothing");
        EXPECT_EQ(two({}, op, of_text("*")), "nothing");
    }
}

TEST(ConditionValues, OnlyNumbersAreCountedWith) {
    for (const Op op : {Op::add, Op::bit_or, Op::shift_left, Op::modulo}) {
        EXPECT_EQ(two(of_text("1"), op, of_integer(1)), "nothing");
        EXPECT_EQ(two(of_integer(1), op, of_text("1")), "nothing");
        EXPECT_EQ(two(of_floating(1), op, {}), "nothing");
        EXPECT_EQ(two({}, op, of_floating(1)), "nothing");
    }
    EXPECT_EQ(two(labelled(7, "sent"), Op::add, of_integer(1)), "8");
}

/* Each of true, false and nothing with each. */
TEST(ConditionValues, OneSideMayDecide) {
    const Value values[] = {of_integer(5), of_integer(0), Value{}};
    std::string both, either;
    for (const Value& a : values)
        for (const Value& b : values) {
            both += two(a, Op::logical_and, b) + " ";
            either += two(a, Op::logical_or, b) + " ";
        }
    EXPECT_EQ(both, "1 0 nothing 0 0 0 nothing 0 nothing ");
    EXPECT_EQ(either, "1 1 1 1 0 nothing 1 nothing nothing ");
    EXPECT_EQ(two(of_floating(0.5), Op::logical_and, of_integer(-1)), "1");
    EXPECT_EQ(two(of_floating(0), Op::logical_or, of_integer(0)), "0");
    EXPECT_EQ(two(of_text("x"), Op::logical_or, of_integer(0)), "nothing") << "a text is neither";
}

TEST(ConditionValues, OperationsOnOne) {
    const auto one = [](Op op, Value value) { return shown(of_one(op, value)); };
    EXPECT_EQ(one(Op::logical_not, of_integer(2)), "0");
    EXPECT_EQ(one(Op::logical_not, of_integer(0)), "1");
    EXPECT_EQ(one(Op::logical_not, of_floating(0.5)), "0");
    EXPECT_EQ(one(Op::logical_not, of_floating(0)), "1");
    EXPECT_EQ(one(Op::logical_not, of_text("x")), "nothing");
    EXPECT_EQ(one(Op::logical_not, {}), "nothing");
    EXPECT_EQ(one(Op::negate, of_integer(7)), "-7");
    EXPECT_EQ(one(Op::negate, of_integer(least)), "nothing");
    EXPECT_EQ(one(Op::negate, of_floating(0.5)), "-0.500000");
    EXPECT_EQ(one(Op::negate, of_text("7")), "nothing");
    EXPECT_EQ(one(Op::negate, {}), "nothing");
    EXPECT_EQ(one(Op::bit_not, of_integer(7)), "-8");
    EXPECT_EQ(one(Op::bit_not, of_floating(7)), "nothing");
}

TEST(ConditionValues, OperationsAreOfTheirKind) {
    std::string comparisons, bits;
    for (int op = static_cast<int>(Op::none); op <= static_cast<int>(Op::bit_not); op++) {
        if (is_comparison(static_cast<Op>(op))) comparisons += std::to_string(op) + " ";
        if (is_of_bits(static_cast<Op>(op))) bits += std::to_string(op) + " ";
    }
    const auto listed = [](Op first, Op last) {
        std::string list;
        for (int op = static_cast<int>(first); op <= static_cast<int>(last); op++)
            list += std::to_string(op) + " ";
        return list;
    };
    EXPECT_EQ(comparisons, listed(Op::equal, Op::matches_not));
    EXPECT_EQ(bits, listed(Op::bit_or, Op::shift_right));
}

} // namespace
} // namespace plumb
