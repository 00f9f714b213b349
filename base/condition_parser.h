/*
 * The language of conditions over an event's fields:
 *
 *   flags & 0x40 && (comm ~ "shop*" || duration_us / 1000 > 1.5)
 *
 * From the loosest to the tightest:  ||   &&   == != < <= > >= ~ !~   |   ^   &   << >>   + -   * / %   ! - ~ (of one).
 * Bit operations bind tighter than comparisons, as one means them. `text ~ "glob"` and `!~` match a whole text.
 * Parsing knows nothing of any trace; what is wrong is told with the column at which it stands.
 */
#ifndef PLUMB_BASE_CONDITION_PARSER_H
#define PLUMB_BASE_CONDITION_PARSER_H

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

enum class ConditionKind : uint8_t { integer, floating, text, field, unary, binary };

enum class ConditionOperator : uint8_t {
    none,
    logical_or,
    logical_and,
    equal,
    unequal,
    less,
    less_equal,
    greater,
    greater_equal,
    matches,
    matches_not,
    bit_or,
    bit_xor,
    bit_and,
    shift_left,
    shift_right,
    add,
    subtract,
    multiply,
    divide,
    modulo,
    logical_not,
    negate,
    bit_not
};

/* "a.ports[2]" */
struct FieldPath {
    std::vector<std::string> parts;
    std::optional<uint64_t> element;
    std::string text() const;
    bool operator==(const FieldPath&) const = default;
};

struct ConditionNode {
    ConditionKind kind = ConditionKind::integer;
    ConditionOperator op = ConditionOperator::none;
    uint32_t left = 0, right = 0; /* indices of nodes; of one operand, `left` */
    std::size_t column = 0;       /* where it stands: of an operation, its sign */
    __int128 integer = 0;
    double floating = 0;
    std::string text;
    FieldPath field;
};

struct ConditionTree {
    std::string source;
    std::vector<ConditionNode> nodes; /* operands before what is made of them; the last one is the whole */

    const ConditionNode& root() const { return nodes.back(); }
};

Result<ConditionTree> parse_condition(std::string_view text);

/* A line for each text with a star that == or != compares with: other tracers take it for a pattern there. */
std::vector<std::string> texts_like_patterns(const ConditionTree& tree);

/* An error that shows the text, and points at a column of it. */
Error condition_error(const std::string& source, std::size_t column, const std::string& what);

} // namespace plumb

#endif
