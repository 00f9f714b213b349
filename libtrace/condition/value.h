// The values of a condition, and what operations make of them; what they mean is what `plumb view --where` says they mean
// (docs/plumb-view.md). No calls, no allocation.
#pragma once

#include "../text.h"

#include <cstdint>

namespace plumb::condition {

struct Value {
    enum class Kind : uint8_t { none, integer, floating, text };
    enum class Label : uint8_t {
        no,
        has,
        lacks
    }; // of an enumeration's value, which is an integer: its text is its label
    union {
        __int128 integer;
        double floating;
    };
    const char* text_at;
    uint32_t text_bytes;
    Kind kind;
    Label label;

    Bytes text() const { return {text_at, text_bytes}; }
    void set_text(Bytes bytes) {
        text_at = bytes.at;
        text_bytes = bytes.count;
    }
};
static_assert(sizeof(Value) == 32);

Value no_value();
Value integer_value(__int128 value);
Value floating_value(double value);
Value text_value(Bytes text);

// A number other than 0.
bool is_true(const Value& value);
bool is_false(const Value& value);

// `code`: of <plumb/abi/condition.h>; none of another one.
Value of_one(uint8_t code, const Value& value);
Value of_two(uint8_t code, const Value& a, const Value& b);

// 0.1 of a float is 0.1, and not what it is as a double: the double that is nearest to what readers show of the float.
double as_shown(float number);

} // namespace plumb::condition
