#include "base/condition_types.h"

#include "base/glob.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace plumb {
namespace {

class TypeCheck {
public:
    explicit TypeCheck(const ConditionTree& tree) : tree_(tree) {}

    Result<ConditionTypes> check(const ConditionNode& node, const std::vector<ConditionTypes>& types) const {
        switch (node.kind) {
        case ConditionKind::integer:
            return ConditionTypes{true, true, false};
        case ConditionKind::floating:
            return ConditionTypes{true, false, false};
        case ConditionKind::unary:
            return check_unary(node, types[node.left]);
        case ConditionKind::binary:
            return check_binary(node, types[node.left], types[node.right]);
        default:
            return ConditionTypes{false, false, true};
        }
    }

    Status check_whole(const ConditionTypes& types) const {
        if (types.number) return ok();
        return wrong(tree_.root().column, described(tree_.root(), types) + ": compare it with something");
    }

    Error wrong(std::size_t column, const std::string& what) const {
        return condition_error(tree_.source, column, what);
    }

private:
    Result<ConditionTypes> check_unary(const ConditionNode& node, const ConditionTypes& inner) const {
        const ConditionNode& operand = tree_.nodes[node.left];
        if (Status number = wants(inner.number, operand, inner, "a number"); !number) return number.error();
        if (node.op == ConditionOperator::bit_not && !inner.integer)
            return wrong(node.column, "only integers have bits");
        return ConditionTypes{true, node.op != ConditionOperator::negate || inner.integer, false};
    }

    Result<ConditionTypes> check_binary(const ConditionNode& node, const ConditionTypes& left,
                                        const ConditionTypes& right) const {
        const ConditionNode &a = tree_.nodes[node.left], &b = tree_.nodes[node.right];
        if (node.op == ConditionOperator::matches || node.op == ConditionOperator::matches_not)
            return check_match(a, left, b, right);
        if (is_comparison(node.op)) {
            if ((left.number && right.number) || (left.text && right.text))
                return ConditionTypes{true, true, false};
            return wrong(node.column, fmt::format("{}, and {}: they can not be compared", described(a, left),
                                                  described(b, right)));
        }
        if (Status number = wants(left.number, a, left, "a number"); !number) return number.error();
        if (Status number = wants(right.number, b, right, "a number"); !number) return number.error();
        if (is_of_bits(node.op) && (!left.integer || !right.integer))
            return wrong(node.column, "only integers have bits");
        const bool is_logical =
            node.op == ConditionOperator::logical_or || node.op == ConditionOperator::logical_and;
        return ConditionTypes{true, is_logical || (left.integer && right.integer), false};
    }

    Result<ConditionTypes> check_match(const ConditionNode& a, const ConditionTypes& left,
                                       const ConditionNode& b, const ConditionTypes& right) const {
        if (Status text = wants(left.text, a, left, "a text"); !text) return text.error();
        if (Status text = wants(right.text, b, right, "a text"); !text) return text.error();
        const char* const mistake = b.kind == ConditionKind::text ? glob_mistake(b.text) : nullptr;
        if (mistake != nullptr) return wrong(b.column, fmt::format("this is not a pattern: {}", mistake));
        return ConditionTypes{true, true, false};
    }

    Status wants(bool is_right_kind, const ConditionNode& operand, const ConditionTypes& types,
                 const char* what) const {
        if (is_right_kind) return ok();
        return wrong(operand.column,
                     described(operand, types) + fmt::format(", and {} is wanted here", what));
    }

    static std::string described(const ConditionNode& node, const ConditionTypes& types) {
        const char* const kind = types.number ? "a number" : "a text";
        switch (node.kind) {
        case ConditionKind::field:
            return fmt::format("{} is {}", node.field.text(), kind);
        case ConditionKind::text:
            return fmt::format("\"{}\" is a text", node.text);
        case ConditionKind::integer:
            return fmt::format("{} is a number", static_cast<uint64_t>(node.integer));
        case ConditionKind::floating:
            return fmt::format("{} is a number", node.floating);
        default:
            return fmt::format("this is {}", kind);
        }
    }

    const ConditionTree& tree_;
};

std::size_t edits_between(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); j++)
        row[j] = j;
    for (std::size_t i = 1; i <= a.size(); i++) {
        std::size_t diagonal = std::exchange(row[0], i);
        for (std::size_t j = 1; j <= b.size(); j++) {
            const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
        }
    }
    return row[b.size()];
}

} // namespace

bool is_comparison(ConditionOperator op) {
    return op >= ConditionOperator::equal && op <= ConditionOperator::matches_not;
}
bool is_of_bits(ConditionOperator op) {
    return op >= ConditionOperator::bit_or && op <= ConditionOperator::shift_right;
}

Status check_condition(const ConditionTree& tree,
                       const std::function<ConditionTypes(std::size_t)>& types_of_field,
                       const std::function<std::string(const FieldPath&)>& why_no_value) {
    const TypeCheck types_check(tree);
    std::vector<ConditionTypes> types(tree.nodes.size());
    for (std::size_t i = 0; i < tree.nodes.size(); i++) {
        const ConditionNode& node = tree.nodes[i];
        if (node.kind == ConditionKind::field) {
            types[i] = types_of_field(i);
            if (!types[i].number && !types[i].text)
                return types_check.wrong(node.column, why_no_value(node.field));
            continue;
        }
        auto checked = types_check.check(node, types);
        if (!checked) return checked.error();
        types[i] = *checked;
    }
    return types_check.check_whole(types.back());
}

NearestName::NearestName(const std::string& wanted)
    : wanted_(wanted), least_(std::min<std::size_t>(2, wanted.size() / 2) + 1) {}

void NearestName::add(const std::string& name, const std::string& shown) {
    const std::size_t edits = edits_between(name, wanted_);
    if (edits >= least_) return;
    least_ = edits;
    shown_ = shown;
}

} // namespace plumb
