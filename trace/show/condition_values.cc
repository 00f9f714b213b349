#include "trace/show/condition_values.h"

#include "base/condition_types.h"
#include "base/glob.h"

#include <cmath>
#include <string_view>

namespace plumb {

using Kind = ConditionValue::Kind;

ConditionValue of_integer(__int128 value) {
    ConditionValue result;
    result.kind = Kind::integer;
    result.integer = value;
    return result;
}

ConditionValue of_floating(double value) {
    ConditionValue result;
    result.kind = Kind::floating;
    result.floating = value;
    return result;
}

ConditionValue of_text(std::string_view value) {
    ConditionValue result;
    result.kind = Kind::text;
    result.text = value;
    return result;
}

static bool is_number(const ConditionValue& value) {
    return value.kind == Kind::integer || value.kind == Kind::floating;
}

static bool is_text(const ConditionValue& value) {
    return value.kind == Kind::text || value.has_label;
}

/* Exact for all integers of 64 bits. */
static long double number_of(const ConditionValue& value) {
    return value.kind == Kind::integer ? static_cast<long double>(value.integer)
                                       : static_cast<long double>(value.floating);
}

std::optional<bool> truth_of(const ConditionValue& value) {
    if (value.kind == Kind::integer) return value.integer != 0;
    if (value.kind == Kind::floating) return value.floating != 0;
    return {};
}

template <typename T>
static bool compare(ConditionOperator op, const T& a, const T& b) {
    switch (op) {
    case ConditionOperator::equal:
        return a == b;
    case ConditionOperator::unequal:
        return a != b;
    case ConditionOperator::less:
        return a < b;
    case ConditionOperator::less_equal:
        return a <= b;
    case ConditionOperator::greater:
        return a > b;
    default:
        return a >= b;
    }
}

/* Of an enumeration's value that has no label, and a text: it is not that text. */
static ConditionValue of_unlabelled_and_text(ConditionOperator op) {
    switch (op) {
    case ConditionOperator::equal:
    case ConditionOperator::matches:
        return of_integer(0);
    case ConditionOperator::unequal:
    case ConditionOperator::matches_not:
        return of_integer(1);
    default:
        return {};
    }
}

static ConditionValue compared(ConditionOperator op, const ConditionValue& a, const ConditionValue& b) {
    const bool is_one_unlabelled = (a.lacks_label && is_text(b)) || (is_text(a) && b.lacks_label);
    if (op == ConditionOperator::matches || op == ConditionOperator::matches_not) {
        if (!is_text(a) || !is_text(b))
            return is_one_unlabelled ? of_unlabelled_and_text(op) : ConditionValue{};
        const bool matches = glob_matches(b.text, a.text);
        return of_integer(matches == (op == ConditionOperator::matches) ? 1 : 0);
    }
    if (a.kind == Kind::integer && b.kind == Kind::integer)
        return of_integer(compare(op, a.integer, b.integer) ? 1 : 0);
    if (is_number(a) && is_number(b)) return of_integer(compare(op, number_of(a), number_of(b)) ? 1 : 0);
    if (is_text(a) && is_text(b)) return of_integer(compare(op, a.text, b.text) ? 1 : 0);
    return is_one_unlabelled ? of_unlabelled_and_text(op) : ConditionValue{};
}

static ConditionValue of_bits(ConditionOperator op, __int128 a, __int128 b) {
    constexpr __int128 shift_max = 63;
    switch (op) {
    case ConditionOperator::bit_or:
        return of_integer(a | b);
    case ConditionOperator::bit_xor:
        return of_integer(a ^ b);
    case ConditionOperator::bit_and:
        return of_integer(a & b);
    default:
        break;
    }
    if (b < 0 || b > shift_max) return {};
    if (op == ConditionOperator::shift_right) return of_integer(a >> b);
    __int128 result = 0;
    if (__builtin_mul_overflow(a, static_cast<__int128>(1) << b, &result)) return {};
    return of_integer(result);
}

static ConditionValue of_integers(ConditionOperator op, __int128 a, __int128 b) {
    __int128 result = 0;
    switch (op) {
    case ConditionOperator::add:
        if (__builtin_add_overflow(a, b, &result)) return {};
        return of_integer(result);
    case ConditionOperator::subtract:
        if (__builtin_sub_overflow(a, b, &result)) return {};
        return of_integer(result);
    case ConditionOperator::multiply:
        if (__builtin_mul_overflow(a, b, &result)) return {};
        return of_integer(result);
    case ConditionOperator::divide:
    case ConditionOperator::modulo: {
        constexpr __int128 least = static_cast<__int128>(1) << 127;
        if (b == 0 || (b == -1 && a == least)) return {};
        return of_integer(op == ConditionOperator::divide ? a / b : a % b);
    }
    default:
        return of_bits(op, a, b);
    }
}

static ConditionValue of_floatings(ConditionOperator op, double a, double b) {
    switch (op) {
    case ConditionOperator::add:
        return of_floating(a + b);
    case ConditionOperator::subtract:
        return of_floating(a - b);
    case ConditionOperator::multiply:
        return of_floating(a * b);
    case ConditionOperator::divide:
        return b == 0 ? ConditionValue{} : of_floating(a / b);
    case ConditionOperator::modulo:
        return b == 0 ? ConditionValue{} : of_floating(std::fmod(a, b));
    default:
        return {};
    }
}

/* One side may decide, whatever the other is. */
static ConditionValue joined(ConditionOperator op, const ConditionValue& a, const ConditionValue& b) {
    const std::optional<bool> left = truth_of(a), right = truth_of(b);
    const bool deciding = op == ConditionOperator::logical_or;
    if (left == deciding || right == deciding) return of_integer(deciding ? 1 : 0);
    if (!left || !right) return {};
    return of_integer(deciding ? 0 : 1);
}

ConditionValue of_two(ConditionOperator op, const ConditionValue& a, const ConditionValue& b) {
    if (op == ConditionOperator::logical_or || op == ConditionOperator::logical_and) return joined(op, a, b);
    if (is_comparison(op)) return compared(op, a, b);
    if (!is_number(a) || !is_number(b)) return {};
    if (a.kind == Kind::integer && b.kind == Kind::integer) return of_integers(op, a.integer, b.integer);
    return of_floatings(op, static_cast<double>(number_of(a)), static_cast<double>(number_of(b)));
}

ConditionValue of_one(ConditionOperator op, const ConditionValue& value) {
    if (op == ConditionOperator::logical_not) {
        const std::optional<bool> truth = truth_of(value);
        return truth ? of_integer(*truth ? 0 : 1) : ConditionValue{};
    }
    if (value.kind == Kind::integer)
        return op == ConditionOperator::negate ? of_integers(ConditionOperator::subtract, 0, value.integer)
                                               : of_integer(~value.integer);
    if (value.kind == Kind::floating && op == ConditionOperator::negate) return of_floating(-value.floating);
    return {};
}

} // namespace plumb
