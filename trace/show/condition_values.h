/*
 * What the operations of a condition make of values. Integers are exact beyond 64 bits; what has no value (a division by
 * zero, a sum that nothing holds) is none, and so is what is made of it, except where the other side of && or || decides.
 */
#ifndef PLUMB_TRACE_SHOW_CONDITION_VALUES_H
#define PLUMB_TRACE_SHOW_CONDITION_VALUES_H

#include "base/condition_parser.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace plumb {

struct ConditionValue {
    enum class Kind : uint8_t { none, integer, floating, text } kind = Kind::none;
    __int128 integer = 0;
    double floating = 0;
    std::string_view text; /* also of an enumeration's value, which is an integer: its label */
    bool has_label = false;
    bool lacks_label = false; /* an enumeration's value that has none */
};

ConditionValue of_integer(__int128 value);
ConditionValue of_floating(double value);
ConditionValue of_text(std::string_view value);

/* Nothing of a text, or of no value. */
std::optional<bool> truth_of(const ConditionValue& value);

ConditionValue of_one(ConditionOperator op, const ConditionValue& value);
ConditionValue of_two(ConditionOperator op, const ConditionValue& a, const ConditionValue& b);

} // namespace plumb

#endif
