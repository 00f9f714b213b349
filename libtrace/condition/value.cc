#include "value.h"
#include "../bytes.h"

#include "../runtime.h"

#include <plumb/abi/condition.h>

namespace plumb::condition {

namespace {

using Kind = Value::Kind;
using Label = Value::Label;

bool is_number(const Value& value) {
    return value.kind == Kind::integer || value.kind == Kind::floating;
}
bool is_text(const Value& value) {
    return value.kind == Kind::text || value.label == Label::has;
}

// Exact for all integers of 64 bits.
long double number_of(const Value& value) {
    return value.kind == Kind::integer ? static_cast<long double>(value.integer)
                                       : static_cast<long double>(value.floating);
}

Value truth(bool is) {
    return integer_value(is ? 1 : 0);
}

template <typename T>
Value compared(uint8_t code, T a, T b) {
    switch (code) {
    case PLUMB_CONDITION_EQUAL:
        return truth(a == b);
    case PLUMB_CONDITION_UNEQUAL:
        return truth(a != b);
    case PLUMB_CONDITION_LESS:
        return truth(a < b);
    case PLUMB_CONDITION_LESS_EQUAL:
        return truth(a <= b);
    case PLUMB_CONDITION_GREATER:
        return truth(a > b);
    default:
        return truth(a >= b);
    }
}

int order_of(Bytes a, Bytes b) {
    const uint32_t common = a.count < b.count ? a.count : b.count;
    const int order = common == 0 ? 0 : compare(a.at, b.at, common);
    if (order != 0) return order;
    return a.count == b.count ? 0 : a.count < b.count ? -1 : 1;
}

// An enumeration's value without a label is not any text.
Value of_unlabelled(uint8_t code) {
    switch (code) {
    case PLUMB_CONDITION_EQUAL:
    case PLUMB_CONDITION_MATCHES:
        return truth(false);
    case PLUMB_CONDITION_UNEQUAL:
    case PLUMB_CONDITION_MATCHES_NOT:
        return truth(true);
    default:
        return no_value();
    }
}

Value of_comparison(uint8_t code, const Value& a, const Value& b) {
    const bool is_one_unlabelled =
        (a.label == Label::lacks && is_text(b)) || (is_text(a) && b.label == Label::lacks);
    if (code == PLUMB_CONDITION_MATCHES || code == PLUMB_CONDITION_MATCHES_NOT) {
        if (is_text(a) && is_text(b))
            return truth(pattern_matches(b.text(), a.text()) == (code == PLUMB_CONDITION_MATCHES));
        return is_one_unlabelled ? of_unlabelled(code) : no_value();
    }
    if (a.kind == Kind::integer && b.kind == Kind::integer) return compared(code, a.integer, b.integer);
    if (is_number(a) && is_number(b)) return compared(code, number_of(a), number_of(b));
    if (is_text(a) && is_text(b)) return compared(code, order_of(a.text(), b.text()), 0);
    return is_one_unlabelled ? of_unlabelled(code) : no_value();
}

Value of_integers(uint8_t code, __int128 a, __int128 b) {
    constexpr __int128 least = static_cast<__int128>(static_cast<unsigned __int128>(1) << 127);
    constexpr __int128 shift_max = 63;
    __int128 result = 0;
    bool has_none = false;
    switch (code) {
    case PLUMB_CONDITION_ADD:
        has_none = __builtin_add_overflow(a, b, &result);
        break;
    case PLUMB_CONDITION_SUBTRACT:
        has_none = __builtin_sub_overflow(a, b, &result);
        break;
    case PLUMB_CONDITION_MULTIPLY:
        has_none = __builtin_mul_overflow(a, b, &result);
        break;
    case PLUMB_CONDITION_DIVIDE:
    case PLUMB_CONDITION_MODULO:
        has_none = b == 0 || (b == -1 && a == least);
        if (!has_none) result = code == PLUMB_CONDITION_DIVIDE ? a / b : a % b;
        break;
    case PLUMB_CONDITION_BIT_OR:
        result = a | b;
        break;
    case PLUMB_CONDITION_BIT_XOR:
        result = a ^ b;
        break;
    case PLUMB_CONDITION_BIT_AND:
        result = a & b;
        break;
    case PLUMB_CONDITION_SHIFT_RIGHT:
        has_none = b < 0 || b > shift_max;
        if (!has_none) result = a >> static_cast<int>(b);
        break;
    case PLUMB_CONDITION_SHIFT_LEFT:
        has_none = b < 0 || b > shift_max ||
                   __builtin_mul_overflow(a, static_cast<__int128>(1) << static_cast<int>(b), &result);
        break;
    default:
        has_none = true;
    }
    return has_none ? no_value() : integer_value(result);
}

// fmod(), which is in a library of its own: by the processor, exactly.
double remainder_of(double a, double b) {
#if defined(__x86_64__)
    long double rest = a;
    const long double divisor = b;
    uint16_t status;
    do {
        __asm__("fprem\nfnstsw %%ax" : "+t"(rest), "=a"(status) : "u"(divisor) : "cc");
    } while ((status & 0x400u) != 0); // not reduced to the end yet
    return static_cast<double>(rest);
#else
    return __builtin_fmod(a, b);
#endif
}

Value of_floatings(uint8_t code, double a, double b) {
    switch (code) {
    case PLUMB_CONDITION_ADD:
        return floating_value(a + b);
    case PLUMB_CONDITION_SUBTRACT:
        return floating_value(a - b);
    case PLUMB_CONDITION_MULTIPLY:
        return floating_value(a * b);
    case PLUMB_CONDITION_DIVIDE:
        return b == 0 ? no_value() : floating_value(a / b);
    case PLUMB_CONDITION_MODULO:
        return b == 0 ? no_value() : floating_value(remainder_of(a, b));
    default:
        return no_value();
    }
}

// One side may decide, whatever the other is.
Value joined(bool deciding, const Value& a, const Value& b) {
    const auto decides = [deciding](const Value& value) {
        return deciding ? is_true(value) : is_false(value);
    };
    if (decides(a) || decides(b)) return truth(deciding);
    return is_number(a) && is_number(b) ? truth(!deciding) : no_value();
}

bool is_comparison(uint8_t code) {
    return code >= PLUMB_CONDITION_EQUAL && code <= PLUMB_CONDITION_MATCHES_NOT;
}

constexpr int powers = 23;
constexpr double ten_to_the[powers] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                       1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// number * 10^exponent; exactly rounded up to 10^22 either way.
template <typename T>
T scaled(T number, int exponent) {
    for (; exponent >= powers; exponent -= powers - 1)
        number *= static_cast<T>(ten_to_the[powers - 1]);
    for (; exponent <= -powers; exponent += powers - 1)
        number /= static_cast<T>(ten_to_the[powers - 1]);
    return exponent >= 0 ? number * static_cast<T>(ten_to_the[exponent])
                         : number / static_cast<T>(ten_to_the[-exponent]);
}

// To the nearest, and of two to the even one.
uint64_t rounded(long double number) {
    const auto whole = static_cast<uint64_t>(number);
    const long double rest = number - static_cast<long double>(whole);
    return rest > 0.5L || (rest == 0.5L && whole % 2 != 0) ? whole + 1 : whole;
}

// The decimal exponent of what is not 0.
int magnitude_of(long double number) {
    int exponent = 0;
    for (; number >= 1e10L; exponent += 10)
        number /= 1e10L;
    for (; number < 1e-9L; exponent -= 10)
        number *= 1e10L;
    for (; number >= 10; exponent++)
        number /= 10;
    for (; number < 1; exponent--)
        number *= 10;
    return exponent;
}

constexpr int digits_max = 9;       // of a float
constexpr int quick_magnitude = 13; // up to which powers of ten are exact

// A whole number of up to 320 bits.
struct Wide {
    uint64_t words[5]; // the lowest first

    void multiply(uint32_t by) {
        unsigned __int128 carry = 0;
        for (uint64_t& word : words) {
            carry += static_cast<unsigned __int128>(word) * by;
            word = static_cast<uint64_t>(carry);
            carry >>= 64;
        }
    }
    void double_it(int times) {
        for (; times > 0; times--)
            multiply(2);
    }
    void ten_times(int times) {
        for (; times > 0; times--)
            multiply(10);
    }
    int order(const Wide& other) const {
        for (int i = 4; i >= 0; i--)
            if (words[i] != other.words[i]) return words[i] < other.words[i] ? -1 : 1;
        return 0;
    }
    void subtract(const Wide& other) {
        uint64_t borrow = 0;
        for (int i = 0; i < 5; i++) {
            const unsigned __int128 taken = static_cast<unsigned __int128>(other.words[i]) + borrow;
            borrow = words[i] < taken ? 1 : 0;
            words[i] -= static_cast<uint64_t>(taken);
        }
    }
};

// The quotient, which has at most 62 bits, to the nearest, and of two to the even one.
uint64_t quotient(Wide number, const Wide& divisor) {
    Wide steps[62];
    steps[0] = divisor;
    int count = 1;
    while (count < 62 && steps[count - 1].order(number) <= 0) {
        steps[count] = steps[count - 1];
        steps[count++].double_it(1);
    }
    uint64_t result = 0;
    for (int i = count - 1; i >= 0; i--) {
        result <<= 1;
        if (number.order(steps[i]) < 0) continue;
        number.subtract(steps[i]);
        result |= 1;
    }
    number.double_it(1);
    const int rest = number.order(divisor);
    return rest > 0 || (rest == 0 && result % 2 != 0) ? result + 1 : result;
}

// count * 10^exponent.
double double_of(uint64_t count, int exponent) {
    constexpr int digits = __DBL_MANT_DIG__;
    Wide number = {{count, 0, 0, 0, 0}}, divisor = {{1, 0, 0, 0, 0}};
    number.ten_times(exponent);
    divisor.ten_times(-exponent);
    // Shifted until the quotient has as many bits as a double has. A float's shortest text means no double's denormal.
    int shift = 0;
    Wide least = divisor, most = divisor;
    least.double_it(digits - 1);
    most.double_it(digits);
    for (; number.order(least) < 0; shift--)
        number.double_it(1);
    for (; number.order(most) >= 0; shift++)
        divisor.double_it(1), most.double_it(1);
    double result = static_cast<double>(quotient(number, divisor));
    for (; shift > 0; shift--)
        result *= 2;
    for (; shift < 0; shift++)
        result /= 2;
    return result;
}

// Of what is positive and finite.
double as_shown_exactly(float number) {
    constexpr int bias = 149; // of the exponent of the lowest bit
    uint32_t bits;
    __builtin_memcpy(&bits, &number, sizeof(bits));
    const auto biased = static_cast<int>(bits >> 23);
    const uint32_t mantissa = (bits & 0x7fffffu) | (biased != 0 ? 0x800000u : 0u);
    const int power = (biased != 0 ? biased - 1 : 0) - bias;
    const int magnitude = magnitude_of(static_cast<long double>(number));
    for (int digits = 1; digits <= digits_max; digits++) {
        const int exponent = magnitude - (digits - 1);
        Wide value = {{mantissa, 0, 0, 0, 0}}, unit = {{1, 0, 0, 0, 0}};
        value.double_it(power);
        value.ten_times(-exponent);
        unit.double_it(-power);
        unit.ten_times(exponent);
        const double shown = double_of(quotient(value, unit), exponent);
        if (static_cast<float>(shown) == number) return shown;
    }
    return static_cast<double>(number);
}

// A whole number is shown with all that it has, where that is no longer than with an exponent.
bool is_shown_in_full(int magnitude, int digits) {
    constexpr int exponent_length = 4; // "e+10"
    return magnitude >= digits - 1 && magnitude + 1 <= digits + (digits > 1 ? 1 : 0) + exponent_length;
}

} // namespace

Value no_value() {
    Value value;
    value.integer = 0;
    value.set_text({nullptr, 0});
    value.kind = Kind::none;
    value.label = Label::no;
    return value;
}
Value integer_value(__int128 number) {
    Value value = no_value();
    value.integer = number;
    value.kind = Kind::integer;
    return value;
}
Value floating_value(double number) {
    Value value = no_value();
    value.floating = number;
    value.kind = Kind::floating;
    return value;
}
Value text_value(Bytes text) {
    Value value = no_value();
    value.set_text(text);
    value.kind = Kind::text;
    return value;
}

bool is_true(const Value& value) {
    if (value.kind == Kind::integer) return value.integer != 0;
    return value.kind == Kind::floating && value.floating != 0;
}
bool is_false(const Value& value) {
    return is_number(value) && !is_true(value);
}

Value of_one(uint8_t code, const Value& value) {
    if (code == PLUMB_CONDITION_NOT) return is_number(value) ? truth(!is_true(value)) : no_value();
    if (value.kind == Kind::integer)
        return code == PLUMB_CONDITION_NEGATE ? of_integers(PLUMB_CONDITION_SUBTRACT, 0, value.integer)
                                              : integer_value(~value.integer);
    if (value.kind == Kind::floating && code == PLUMB_CONDITION_NEGATE)
        return floating_value(-value.floating);
    return no_value();
}

Value of_two(uint8_t code, const Value& a, const Value& b) {
    if (code == PLUMB_CONDITION_OR || code == PLUMB_CONDITION_AND)
        return joined(code == PLUMB_CONDITION_OR, a, b);
    if (is_comparison(code)) return of_comparison(code, a, b);
    if (!is_number(a) || !is_number(b)) return no_value();
    if (a.kind == Kind::integer && b.kind == Kind::integer) return of_integers(code, a.integer, b.integer);
    return of_floatings(code, static_cast<double>(number_of(a)), static_cast<double>(number_of(b)));
}

double as_shown(float number) {
    if (number == 0 || number - number != 0)
        return static_cast<double>(number); // also infinite, or not a number
    const bool is_negative = number < 0;
    const long double exact = is_negative ? -static_cast<long double>(number) : number;
    const int magnitude = magnitude_of(exact);
    if (magnitude < -quick_magnitude || magnitude > quick_magnitude) {
        const double shown = as_shown_exactly(static_cast<float>(exact));
        return is_negative ? -shown : shown;
    }
    for (int digits = 1; digits <= digits_max; digits++) {
        const int exponent = magnitude - (digits - 1);
        const uint64_t count = rounded(scaled(exact, -exponent));
        const double shown = scaled(static_cast<double>(count), exponent);
        if (static_cast<float>(shown) != static_cast<float>(exact)) continue;
        if (is_shown_in_full(magnitude, digits)) break;
        return is_negative ? -shown : shown;
    }
    return static_cast<double>(number);
}

} // namespace plumb::condition
