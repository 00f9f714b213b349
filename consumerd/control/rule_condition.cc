#include "consumerd/control/rule_condition.h"

#include "base/condition_types.h"

#include <plumb/abi/condition.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace plumb {
namespace {

/* What is known of who writes an event, in the program. */
constexpr std::string_view writers_texts[] = {"comm", "event"};
constexpr std::string_view writers_numbers[] = {"pid", "tid", "cpu", "vpid", "vtid"};

template <typename Names>
bool is_one_of(const Names& names, const FieldPath& path) {
    return path.parts.size() == 1 && !path.element &&
           std::find(std::begin(names), std::end(names), path.parts[0]) != std::end(names);
}

const EventField* field_of(const EventDescription& event, const FieldPath& path) {
    if (path.parts.size() != 1) return nullptr;
    const auto found = std::find_if(event.fields.begin(), event.fields.end(),
                                    [&](const EventField& field) { return field.name == path.parts[0]; });
    return found == event.fields.end() ? nullptr : &*found;
}

bool has_elements(const EventField& field) {
    return field.type == PLUMB_FIELD_ARRAY || field.type == PLUMB_FIELD_SEQUENCE;
}

ConditionTypes types_of(const EventField& field, bool by_element) {
    if (has_elements(field) != by_element || field.has_floats) return {};
    switch (field.type) {
    case PLUMB_FIELD_FLOAT:
        return {true, false, false};
    case PLUMB_FIELD_STRING:
    case PLUMB_FIELD_TEXT:
        return {false, false, true};
    case PLUMB_FIELD_ENUM:
        return {true, true, true};
    default:
        return {true, true, false};
    }
}

/* Nothing, if it is no value of such an event. */
ConditionTypes types_in(const EventDescription& event, const FieldPath& path) {
    const EventField* const field = field_of(event, path);
    if (field != nullptr && path.element && field->type == PLUMB_FIELD_ARRAY &&
        *path.element >= field->array_length)
        return {};
    if (field != nullptr) return types_of(*field, path.element.has_value());
    if (is_one_of(writers_texts, path)) return {false, false, true};
    if (is_one_of(writers_numbers, path)) return {true, true, false};
    return {};
}

std::string why_no_value(const std::vector<EventDescription>& events, const FieldPath& wanted) {
    NearestName nearest(wanted.parts.back());
    for (const EventDescription& event : events) {
        if (const EventField* const field = field_of(event, wanted)) {
            if (!has_elements(*field)) return fmt::format("{} has no elements", field->name);
            if (field->has_floats)
                return fmt::format("the elements of {} are floating-point numbers, which no filter compares",
                                   field->name);
            return wanted.element
                       ? fmt::format("{} has {} elements, from [0] on", field->name, field->array_length)
                       : fmt::format("{} has elements: name one, {}[0]", field->name, field->name);
        }
        for (const EventField& field : event.fields)
            nearest.add(field.name, has_elements(field) ? field.name + "[0]" : field.name);
    }
    if (events.size() == 1 && nearest.shown().empty())
        return fmt::format("{} has no field {}", events[0].full_name(), wanted.text());
    return fmt::format("no event that is recorded has a field {}{}", wanted.text(),
                       nearest.shown().empty() ? "" : fmt::format(", but some have {}", nearest.shown()));
}

class Encoder {
public:
    explicit Encoder(const ConditionTree& tree) : tree_(tree) {}

    Result<std::vector<std::uint8_t>> encode() {
        if (Status added = add(static_cast<std::uint32_t>(tree_.nodes.size() - 1)); !added)
            return added.error();
        if (code_.size() > PLUMB_CONDITION_CODE_BYTES)
            return Error("The filter is too long: it takes {} bytes, and {} are possible.", code_.size(),
                         PLUMB_CONDITION_CODE_BYTES)
                .hint(
                    "Give the events of it patterns, each with a filter of its own: -e 'shop:order if ...'.");
        return std::move(code_);
    }

private:
    template <typename T>
    void put(T value) {
        const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&value);
        code_.insert(code_.end(), bytes, bytes + sizeof(T));
    }
    void put_code(plumb_condition_code code) { code_.push_back(static_cast<std::uint8_t>(code)); }
    void put_text(const std::string& text) { code_.insert(code_.end(), text.begin(), text.end()); }

    Status push(const ConditionNode& node) {
        if (++depth_ > PLUMB_CONDITION_DEPTH)
            return condition_error(tree_.source, node.column, "this is nested too deeply for a filter");
        return ok();
    }

    /* After all that it is made of. */
    Status add(std::uint32_t index) {
        const ConditionNode& node = tree_.nodes[index];
        switch (node.kind) {
        case ConditionKind::integer:
            put_code(PLUMB_CONDITION_INTEGER);
            put(static_cast<std::uint64_t>(node.integer));
            return push(node);
        case ConditionKind::floating:
            put_code(PLUMB_CONDITION_FLOATING);
            put(node.floating);
            return push(node);
        case ConditionKind::text:
            return add_text(node);
        case ConditionKind::field:
            return add_field(node);
        case ConditionKind::unary:
            return add_unary(node);
        case ConditionKind::binary:
            break;
        }
        return add_binary(node);
    }

    Status add_text(const ConditionNode& node) {
        if (node.text.size() > PLUMB_CONDITION_TEXT_BYTES)
            return condition_error(
                tree_.source, node.column,
                fmt::format("a text in a filter has at most {} bytes", PLUMB_CONDITION_TEXT_BYTES));
        put_code(PLUMB_CONDITION_TEXT);
        put(static_cast<std::uint16_t>(node.text.size()));
        put_text(node.text);
        return push(node);
    }

    Status add_field(const ConditionNode& node) {
        constexpr std::size_t name_max = 255, element_max = 65534;
        const std::string& name = node.field.parts[0];
        if (node.field.parts.size() != 1)
            return condition_error(tree_.source, node.column, "fields of programs' events have no parts");
        if (name.size() > name_max || node.field.element.value_or(0) > element_max)
            return condition_error(tree_.source, node.column, "no event has such a field");
        put_code(PLUMB_CONDITION_FIELD);
        put(static_cast<std::uint16_t>(node.field.element ? *node.field.element + 1 : 0));
        put(static_cast<std::uint8_t>(name.size()));
        put_text(name);
        return push(node);
    }

    Status add_unary(const ConditionNode& node) {
        if (Status inner = add(node.left); !inner) return inner;
        put_code(node.op == ConditionOperator::logical_not ? PLUMB_CONDITION_NOT
                 : node.op == ConditionOperator::negate    ? PLUMB_CONDITION_NEGATE
                                                           : PLUMB_CONDITION_BIT_NOT);
        return ok();
    }

    Status add_binary(const ConditionNode& node) {
        if (Status left = add(node.left); !left) return left;
        const bool is_and = node.op == ConditionOperator::logical_and;
        const bool may_skip = is_and || node.op == ConditionOperator::logical_or;
        const std::size_t skip_at = code_.size() + 1;
        if (may_skip) {
            put_code(is_and ? PLUMB_CONDITION_AND_THEN : PLUMB_CONDITION_OR_ELSE);
            put(std::uint16_t{0});
        }
        if (Status right = add(node.right); !right) return right;
        put_code(code_of(node.op));
        depth_--;
        if (!may_skip || code_.size() > PLUMB_CONDITION_CODE_BYTES) return ok();
        const auto left_out = static_cast<std::uint16_t>(code_.size() - skip_at - sizeof(std::uint16_t));
        std::memcpy(code_.data() + skip_at, &left_out, sizeof(left_out));
        return ok();
    }

    static plumb_condition_code code_of(ConditionOperator op) {
        constexpr struct {
            ConditionOperator op;
            plumb_condition_code code;
        } codes[] = {{ConditionOperator::logical_or, PLUMB_CONDITION_OR},
                     {ConditionOperator::logical_and, PLUMB_CONDITION_AND},
                     {ConditionOperator::equal, PLUMB_CONDITION_EQUAL},
                     {ConditionOperator::unequal, PLUMB_CONDITION_UNEQUAL},
                     {ConditionOperator::less, PLUMB_CONDITION_LESS},
                     {ConditionOperator::less_equal, PLUMB_CONDITION_LESS_EQUAL},
                     {ConditionOperator::greater, PLUMB_CONDITION_GREATER},
                     {ConditionOperator::greater_equal, PLUMB_CONDITION_GREATER_EQUAL},
                     {ConditionOperator::matches, PLUMB_CONDITION_MATCHES},
                     {ConditionOperator::matches_not, PLUMB_CONDITION_MATCHES_NOT},
                     {ConditionOperator::bit_or, PLUMB_CONDITION_BIT_OR},
                     {ConditionOperator::bit_xor, PLUMB_CONDITION_BIT_XOR},
                     {ConditionOperator::bit_and, PLUMB_CONDITION_BIT_AND},
                     {ConditionOperator::shift_left, PLUMB_CONDITION_SHIFT_LEFT},
                     {ConditionOperator::shift_right, PLUMB_CONDITION_SHIFT_RIGHT},
                     {ConditionOperator::add, PLUMB_CONDITION_ADD},
                     {ConditionOperator::subtract, PLUMB_CONDITION_SUBTRACT},
                     {ConditionOperator::multiply, PLUMB_CONDITION_MULTIPLY},
                     {ConditionOperator::divide, PLUMB_CONDITION_DIVIDE},
                     {ConditionOperator::modulo, PLUMB_CONDITION_MODULO}};
        const auto* const found =
            std::find_if(std::begin(codes), std::end(codes), [&](const auto& each) { return each.op == op; });
        return found == std::end(codes) ? PLUMB_CONDITION_NONE : found->code;
    }

    const ConditionTree& tree_;
    std::vector<std::uint8_t> code_;
    std::uint32_t depth_ = 0; /* values on the stack */
};

/* What can be said of a node without a payload. */
enum class Known { anything, none, not_true };

ConditionTypes types_of_constant(const ConditionNode& node) {
    if (node.kind == ConditionKind::text) return {false, false, true};
    return {true, node.kind != ConditionKind::floating, false};
}

/* Whether values of these types have nothing to do with each other, as a text and a number. */
bool is_without_value(const ConditionNode& node, const ConditionTypes& left, const ConditionTypes& right) {
    if (node.kind == ConditionKind::unary)
        return !left.number || (node.op == ConditionOperator::bit_not && !left.integer);
    if (node.op == ConditionOperator::matches || node.op == ConditionOperator::matches_not)
        return !left.text || !right.text;
    if (is_comparison(node.op)) return !(left.number && right.number) && !(left.text && right.text);
    return !left.number || !right.number || (is_of_bits(node.op) && (!left.integer || !right.integer));
}

ConditionTypes types_of_result(const ConditionNode& node, const ConditionTypes& left,
                               const ConditionTypes& right) {
    const bool is_arithmetic = node.op >= ConditionOperator::add && node.op <= ConditionOperator::modulo;
    if (node.kind == ConditionKind::unary)
        return {true, node.op == ConditionOperator::logical_not || left.integer, false};
    return {true, !is_arithmetic || (left.integer && right.integer), false};
}

Known known_of(const ConditionNode& node, const std::vector<Known>& known,
               const std::vector<ConditionTypes>& types) {
    const Known left = known[node.left], right = known[node.right];
    const bool is_logical =
        node.op == ConditionOperator::logical_and || node.op == ConditionOperator::logical_or;
    if (!is_logical && left == Known::anything &&
        (node.kind == ConditionKind::unary || right == Known::anything) &&
        is_without_value(node, types[node.left], types[node.right]))
        return Known::none;
    if (node.kind == ConditionKind::unary) return left == Known::none ? left : Known::anything;
    switch (node.op) {
    case ConditionOperator::logical_and:
        return left == Known::anything && right == Known::anything ? Known::anything : Known::not_true;
    case ConditionOperator::logical_or:
        return left == Known::anything || right == Known::anything ? Known::anything : Known::not_true;
    default:
        return left == Known::none || right == Known::none ? Known::none : Known::anything;
    }
}

} // namespace

Result<ConditionTree> parse_rule_condition(const std::string& text) {
    Result<ConditionTree> tree = parse_condition(text);
    if (!tree) return tree;
    /* What makes no sense whatever the fields are. */
    const Status sensible = check_condition(
        *tree,
        [](std::size_t) {
            return ConditionTypes{true, true, true};
        },
        [](const FieldPath&) { return std::string(); });
    if (!sensible) return sensible.error();
    if (const auto code = encode_condition(*tree); !code) return code.error();
    return tree;
}

Result<std::vector<std::uint8_t>> encode_condition(const ConditionTree& tree) {
    return Encoder(tree).encode();
}

Status check_condition_for(const ConditionTree& tree, const std::vector<EventDescription>& events) {
    return check_condition(
        tree,
        [&](std::size_t node) {
            ConditionTypes types;
            for (const EventDescription& event : events)
                types.add(types_in(event, tree.nodes[node].field));
            return types;
        },
        [&](const FieldPath& path) { return why_no_value(events, path); });
}

bool can_hold(const ConditionTree& tree, const EventDescription& event) {
    std::vector<Known> known(tree.nodes.size(), Known::anything);
    std::vector<ConditionTypes> all_types(tree.nodes.size());
    for (std::size_t i = 0; i < tree.nodes.size(); i++) {
        const ConditionNode& node = tree.nodes[i];
        if (node.kind == ConditionKind::field) {
            const ConditionTypes types = types_in(event, node.field);
            if (!types.number && !types.text) known[i] = Known::none;
            all_types[i] = types;
        } else if (node.kind == ConditionKind::unary || node.kind == ConditionKind::binary) {
            known[i] = known_of(node, known, all_types);
            all_types[i] = types_of_result(node, all_types[node.left], all_types[node.right]);
        } else {
            all_types[i] = types_of_constant(node);
        }
    }
    return known.back() == Known::anything;
}

std::vector<std::string> missing_fields(const ConditionTree& tree, const EventDescription& event) {
    std::vector<std::string> missing;
    for (const ConditionNode& node : tree.nodes) {
        if (node.kind != ConditionKind::field) continue;
        const ConditionTypes types = types_in(event, node.field);
        const std::string text = node.field.text();
        if (!types.number && !types.text && std::find(missing.begin(), missing.end(), text) == missing.end())
            missing.push_back(text);
    }
    return missing;
}

} // namespace plumb
