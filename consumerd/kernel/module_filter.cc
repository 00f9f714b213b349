#include "consumerd/kernel/module_filter.h"

#include "base/glob.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

namespace plumb {
namespace {

struct OfThread {
    std::string_view name;
    std::uint8_t number;
};
/* As the kernel calls them, and as `--filter` does. */
constexpr OfThread of_thread[] = {
    {"COMM", PLUMB_FILTER_COMM}, {"comm", PLUMB_FILTER_COMM},      {"CPU", PLUMB_FILTER_CPU},
    {"cpu", PLUMB_FILTER_CPU},   {"common_pid", PLUMB_FILTER_TID}, {"tid", PLUMB_FILTER_TID},
    {"pid", PLUMB_FILTER_PID},
};

/* What a test looks at. */
struct Tested {
    std::uint8_t number = 0;
    bool is_text = false;
};

bool is_integer(const EventField& field) {
    return field.type == PLUMB_FIELD_INTEGER || field.type == PLUMB_FIELD_ENUM;
}

std::optional<std::size_t> place_by_kernel(const FilteredFields& fields, const std::string& name) {
    const auto found = std::find(fields.kernel_names.begin(), fields.kernel_names.end(), name);
    if (found == fields.kernel_names.end()) return {};
    return static_cast<std::size_t>(found - fields.kernel_names.begin());
}

std::optional<std::size_t> place_in_trace(const FilteredFields& fields, const std::string& name) {
    const auto& all = fields.event.fields;
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const EventField& field) { return field.name == name; });
    if (found == all.end()) return {};
    return static_cast<std::size_t>(found - all.begin());
}

std::optional<std::size_t> place_of(const FilteredFields& fields, const std::string& name) {
    const auto by_kernel = place_by_kernel(fields, name);
    return by_kernel ? by_kernel : place_in_trace(fields, name);
}

const OfThread* thread_part(const std::string& name) {
    const auto* const found = std::find_if(std::begin(of_thread), std::end(of_thread),
                                           [&](const OfThread& each) { return each.name == name; });
    return found == std::end(of_thread) ? nullptr : found;
}

plumb_filter_field laid_out(const EventField& field) {
    plumb_filter_field to{};
    to.type = static_cast<std::uint8_t>(is_integer(field) ? PLUMB_FIELD_INTEGER : field.type);
    to.size = field.size;
    to.flags = field.is_signed && is_integer(field) ? PLUMB_FIELD_SIGNED : 0;
    to.array_length = field.type == PLUMB_FIELD_ARRAY ? field.array_length : std::uint16_t{0};
    return to;
}

/* The sign by which `5 < x` is `x > 5`. */
ConditionOperator turned(ConditionOperator op) {
    switch (op) {
    case ConditionOperator::less:
        return ConditionOperator::greater;
    case ConditionOperator::less_equal:
        return ConditionOperator::greater_equal;
    case ConditionOperator::greater:
        return ConditionOperator::less;
    case ConditionOperator::greater_equal:
        return ConditionOperator::less_equal;
    default:
        return op;
    }
}

std::optional<plumb_filter_operation> operation_of(ConditionOperator op) {
    switch (op) {
    case ConditionOperator::equal:
        return PLUMB_FILTER_EQUAL;
    case ConditionOperator::unequal:
        return PLUMB_FILTER_UNEQUAL;
    case ConditionOperator::less:
        return PLUMB_FILTER_LESS;
    case ConditionOperator::less_equal:
        return PLUMB_FILTER_LESS_EQUAL;
    case ConditionOperator::greater:
        return PLUMB_FILTER_GREATER;
    case ConditionOperator::greater_equal:
        return PLUMB_FILTER_GREATER_EQUAL;
    case ConditionOperator::matches:
        return PLUMB_FILTER_MATCHES;
    case ConditionOperator::matches_not:
        return PLUMB_FILTER_MATCHES_NOT;
    default:
        return {};
    }
}

/* Where a test leads to: another one, by how many were made before it, or an end. Tests are made from the last one to the first. */
struct Goal {
    enum class Kind : std::uint8_t { test, take, leave };
    Kind kind = Kind::take;
    std::size_t test = 0;
};
constexpr Goal take = {Goal::Kind::take, 0}, leave = {Goal::Kind::leave, 0};

class FilterMaker {
public:
    explicit FilterMaker(const FilteredFields& fields) : fields_(fields) {}

    Result<plumb_kernel_filter> make(const std::vector<ConditionTree>& any_of) {
        Goal begin = leave;
        for (auto tree = any_of.rbegin(); tree != any_of.rend(); ++tree) {
            tree_ = &*tree;
            const auto begins = lead(tree->root(), take, begin);
            if (!begins) return begins.error();
            begin = *begins;
        }
        const bool is_first = begin.kind == Goal::Kind::test && begin.test == tests_.size() - 1;
        if (!is_first) /* as of `0 && x == 1`; whatever the payload is */
            tests_.push_back({integer_test(PLUMB_FILTER_CPU, PLUMB_FILTER_EQUAL, 0, 0), begin, begin});
        return finished();
    }

private:
    struct Test {
        plumb_filter_test test;
        Goal if_true, if_false;
    };
    using Begin = Result<Goal>;

    const ConditionNode& node(std::uint32_t index) const { return tree_->nodes[index]; }
    Error wrong(const ConditionNode& at, const std::string& what) const {
        return condition_error(tree_->source, at.column, what);
    }
    Error not_tested(const ConditionNode& at) const {
        return wrong(at, "plumb.ko compares a field with a number or a text here (x == 5, (x & 3) == 1, "
                         "name ~ \"a*\")")
            .hint("`plumb view --where` takes all else, of what was recorded.");
    }

    static plumb_filter_test integer_test(std::uint8_t number, plumb_filter_operation operation,
                                          std::uint64_t mask, std::uint64_t value) {
        plumb_filter_test test{};
        test.field = number;
        test.operation = static_cast<std::uint8_t>(operation);
        test.mask = mask;
        test.value = value;
        return test;
    }

    Begin add(const plumb_filter_test& test, Goal if_true, Goal if_false) {
        tests_.push_back({test, if_true, if_false});
        return Goal{Goal::Kind::test, tests_.size() - 1};
    }

    /* The tests that lead to one goal where the node is true, to the other where it is not. */
    Begin lead(const ConditionNode& at, Goal if_true, Goal if_false) {
        if (const auto number = constant(at)) return *number != 0 ? if_true : if_false;
        if (at.kind == ConditionKind::unary && at.op == ConditionOperator::logical_not)
            return lead(node(at.left), if_false, if_true);
        if (at.kind == ConditionKind::binary &&
            (at.op == ConditionOperator::logical_and || at.op == ConditionOperator::logical_or)) {
            const auto right = lead(node(at.right), if_true, if_false);
            if (!right) return right;
            return at.op == ConditionOperator::logical_and ? lead(node(at.left), *right, if_false)
                                                           : lead(node(at.left), if_true, *right);
        }
        if (at.kind == ConditionKind::binary && operation_of(at.op)) return compare(at, if_true, if_false);
        return test_number(at, at, PLUMB_FILTER_UNEQUAL, 0, if_true, if_false);
    }

    Begin compare(const ConditionNode& at, Goal if_true, Goal if_false) {
        const ConditionNode *field = &node(at.left), *value = &node(at.right);
        ConditionOperator op = at.op;
        const bool is_pattern = op == ConditionOperator::matches || op == ConditionOperator::matches_not;
        if (!is_pattern && (constant(*field) || field->kind == ConditionKind::text)) {
            std::swap(field, value);
            op = turned(op);
        }
        if (value->kind == ConditionKind::text)
            return test_text(at, *field, *operation_of(op), *value, if_true, if_false);
        const auto number = constant(*value);
        if (!number || is_pattern) return unlike(at, *value);
        return test_number(at, *field, *operation_of(op), *number, if_true, if_false);
    }

    /* The kernel takes a word without quotes for a text. */
    Error unlike(const ConditionNode& at, const ConditionNode& value) const {
        if (value.kind == ConditionKind::floating) return wrong(value, "a whole number is wanted here");
        if (value.kind != ConditionKind::field || place_of(fields_, value.field.text()))
            return not_tested(at);
        return wrong(value, fmt::format("a number or a text is wanted here; texts are in quotes: \"{}\"",
                                        value.field.text()));
    }

    /* A number that is written there. */
    std::optional<__int128> constant(const ConditionNode& at) const {
        if (at.kind == ConditionKind::integer) return at.integer;
        if (at.kind != ConditionKind::unary || at.op != ConditionOperator::negate) return {};
        const auto number = constant(node(at.left));
        return number ? std::optional<__int128>(-*number) : std::nullopt;
    }

    Result<Tested> tested(const ConditionNode& at, bool as_text) const {
        if (at.kind != ConditionKind::field) return not_tested(at);
        const std::string name = at.field.text();
        const auto by_kernel = place_by_kernel(fields_, name), in_trace = place_in_trace(fields_, name);
        if (by_kernel && in_trace && *by_kernel != *in_trace)
            return wrong(at,
                         fmt::format("{} is two fields: the kernel's is {} in the trace, and the trace's is "
                                     "{} to the kernel; say which",
                                     name, fields_.event.fields[*by_kernel].name,
                                     fields_.kernel_names[*in_trace]));
        if (const auto place = place_of(fields_, name)) return tested_field(at, *place, as_text);
        if (const OfThread* const part = thread_part(name))
            return Tested{part->number, part->number == PLUMB_FILTER_COMM};
        return wrong(at,
                     fmt::format("{}:{} has no field {}", fields_.event.provider, fields_.event.name, name));
    }
    Result<Tested> tested_field(const ConditionNode& at, std::size_t place, bool as_text) const {
        const auto& all = fields_.event.fields;
        /* Of what is there as a number and as the text that it was made of. */
        if (as_text && is_integer(all[place]) && place + 1 < all.size() &&
            all[place + 1].name == all[place].name + "_text")
            place++;
        const bool is_text = all[place].type == PLUMB_FIELD_STRING;
        if (!is_text && !is_integer(all[place]))
            return wrong(at, fmt::format("{} is {}, which plumb.ko does not test", all[place].name,
                                         all[place].type_name()));
        return Tested{static_cast<std::uint8_t>(place), is_text};
    }

    /* `at`: an integer field, or some bits of one. */
    Begin test_number(const ConditionNode& whole, const ConditionNode& at, plumb_filter_operation operation,
                      __int128 number, Goal if_true, Goal if_false) {
        const ConditionNode* field = &at;
        constexpr std::uint64_t all_ones = std::numeric_limits<std::uint64_t>::max();
        std::uint64_t mask = all_ones;
        bool keeps_sign = true;
        if (at.kind == ConditionKind::binary && at.op == ConditionOperator::bit_and) {
            const bool is_turned = constant(node(at.left)).has_value();
            field = &node(is_turned ? at.right : at.left);
            const ConditionNode& bits = node(is_turned ? at.left : at.right);
            const auto written = constant(bits);
            if (!written) return not_tested(at);
            if (!fits(*written)) return wrong(bits, "no field has so many bits");
            mask = static_cast<std::uint64_t>(*written);
            keeps_sign = *written < 0;
        }
        const auto what = tested(*field, false);
        if (!what) return what.error();
        if (what->is_text)
            return wrong(whole, fmt::format("{} is a text, and no number", field->field.text()));
        if (!fits(number)) return wrong(whole, "no field is so large a number");
        plumb_filter_test test =
            integer_test(what->number, operation, mask, static_cast<std::uint64_t>(number));
        test.is_negative = number < 0;
        test.turns_sign = keeps_sign != (mask == all_ones);
        return add(test, if_true, if_false);
    }
    static bool fits(__int128 number) {
        return number >= std::numeric_limits<std::int64_t>::min() &&
               number <= std::numeric_limits<std::uint64_t>::max();
    }

    Begin test_text(const ConditionNode& whole, const ConditionNode& at, plumb_filter_operation operation,
                    const ConditionNode& text, Goal if_true, Goal if_false) {
        const auto what = tested(at, true);
        if (!what) return what.error();
        if (!what->is_text) return wrong(whole, fmt::format("{} is a number, and no text", at.field.text()));
        const bool is_pattern = operation == PLUMB_FILTER_MATCHES || operation == PLUMB_FILTER_MATCHES_NOT;
        if (!is_pattern && operation != PLUMB_FILTER_EQUAL && operation != PLUMB_FILTER_UNEQUAL)
            return wrong(whole, "texts are compared by ==, !=, ~ and !~");
        if (text.text.find('\0') != std::string::npos) return wrong(text, "no text has a NUL in it");
        if (is_pattern)
            if (const char* const mistake = glob_mistake(text.text)) return wrong(text, mistake);
        plumb_filter_test test = integer_test(what->number, operation, 0, texts_.size());
        const std::string with_end = text.text + '\0';
        if (const std::size_t there = texts_.find(with_end); there != std::string::npos)
            test.value = there;
        else
            texts_ += with_end;
        return add(test, if_true, if_false);
    }

    std::uint16_t place_of_goal(Goal goal) const {
        if (goal.kind == Goal::Kind::take) return PLUMB_FILTER_TAKE;
        if (goal.kind == Goal::Kind::leave) return PLUMB_FILTER_LEAVE;
        return static_cast<std::uint16_t>(tests_.size() - 1 - goal.test);
    }

    /* As often as they are compared. */
    std::size_t bytes_of_patterns() const {
        std::size_t bytes = 0;
        for (const Test& made : tests_)
            if (made.test.operation == PLUMB_FILTER_MATCHES ||
                made.test.operation == PLUMB_FILTER_MATCHES_NOT)
                bytes += std::strlen(texts_.c_str() + made.test.value);
        return bytes;
    }

    Result<plumb_kernel_filter> finished() const {
        if (tests_.size() > PLUMB_FILTER_TESTS_MAX)
            return Error("{}:{}: plumb.ko makes {} comparisons for an event, and these are {}.",
                         fields_.event.provider, fields_.event.name, PLUMB_FILTER_TESTS_MAX, tests_.size());
        if (texts_.size() > PLUMB_FILTER_TEXT_BYTES)
            return Error("{}:{}: the texts of an event's filters have {} bytes for plumb.ko, and these {}.",
                         fields_.event.provider, fields_.event.name, PLUMB_FILTER_TEXT_BYTES, texts_.size());
        if (const std::size_t bytes = bytes_of_patterns(); bytes > PLUMB_FILTER_PATTERN_BYTES)
            return Error("{}:{}: plumb.ko compares patterns of {} bytes for an event, and these have {}.",
                         fields_.event.provider, fields_.event.name, PLUMB_FILTER_PATTERN_BYTES, bytes)
                .hint("One that is compared twice counts twice. `plumb view --where` takes longer ones.");
        plumb_kernel_filter filter{};
        for (std::size_t i = 0; i < tests_.size(); i++) {
            const Test& made = tests_[tests_.size() - 1 - i];
            plumb_filter_test& to = filter.tests[i];
            to = made.test;
            to.if_true = place_of_goal(made.if_true);
            to.if_false = place_of_goal(made.if_false);
            if (to.field < PLUMB_FILTER_COMM)
                filter.field_count = std::max<std::uint16_t>(filter.field_count, to.field + 1);
        }
        filter.test_count = static_cast<std::uint16_t>(tests_.size());
        for (std::size_t i = 0; i < filter.field_count; i++)
            filter.fields[i] = laid_out(fields_.event.fields[i]);
        filter.text_bytes = static_cast<std::uint16_t>(texts_.size());
        std::copy(texts_.begin(), texts_.end(), filter.texts);
        return filter;
    }

    const FilteredFields& fields_;
    const ConditionTree* tree_ = nullptr;
    std::vector<Test> tests_;
    std::string texts_;
};

} // namespace

std::vector<std::string> lacking_fields(const ConditionTree& filter, const FilteredFields& fields) {
    std::vector<std::string> lacking;
    for (const ConditionNode& node : filter.nodes) {
        if (node.kind != ConditionKind::field) continue;
        const std::string name = node.field.text();
        if (!place_of(fields, name) && thread_part(name) == nullptr &&
            std::find(lacking.begin(), lacking.end(), name) == lacking.end())
            lacking.push_back(name);
    }
    return lacking;
}

Result<plumb_kernel_filter> module_filter(const std::vector<ConditionTree>& any_of,
                                          const FilteredFields& fields) {
    return FilterMaker(fields).make(any_of);
}

} // namespace plumb
