#include "consumerd/control/rule_filters.h"

#include "base/glob.h"
#include "consumerd/control/rule_condition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace plumb {
namespace {

/* As encode_rule() reads it. */
bool is_for(const Rule& rule, const EventDescription& event) {
    std::string pattern = rule.pattern;
    if (pattern.starts_with('!')) pattern.erase(0, 1);
    if (pattern.find(':') == std::string::npos && pattern != "*") pattern += ":*";
    return rule.levels.has(event.log_level) && glob_matches(pattern, event.full_name());
}

bool leaves_out(const Rule& rule) {
    return rule.pattern.starts_with('!');
}

bool is_wanted(const std::vector<Rule>& rules, const EventDescription& event) {
    const auto is_for_it = [&](const Rule& rule) { return is_for(rule, event); };
    return std::any_of(rules.begin(), rules.end(),
                       [&](const Rule& rule) { return !leaves_out(rule) && is_for_it(rule); }) &&
           std::none_of(rules.begin(), rules.end(),
                        [&](const Rule& rule) { return leaves_out(rule) && is_for_it(rule); });
}

} // namespace

FilteredPattern split_filter(const std::string& words) {
    constexpr std::string_view blanks = " \t\n", word = "if";
    std::size_t end = words.find_first_of(blanks);
    if (end == std::string::npos) return {words, {}};
    const std::size_t begin = words.find_first_not_of(blanks, end);
    if (begin == std::string::npos || words.compare(begin, word.size(), word) != 0) return {words, {}};
    const std::string condition = words.substr(begin + word.size());
    if (!condition.empty() && (blanks.find(condition[0]) == std::string::npos && condition[0] != '('))
        return {words, {}};
    return {words.substr(0, end),
            condition.empty() ? " " : condition}; /* which is no condition, and not none */
}

std::string both_conditions(const std::string& a, const std::string& b) {
    if (a.empty() || a == b) return b;
    return b.empty() ? a : "(" + a + ") && (" + b + ")";
}

Status check_filters(const std::vector<Rule>& rules, const std::vector<EventDescription>& events) {
    std::map<std::string, std::vector<EventDescription>> by_condition;
    for (const Rule& rule : rules) {
        if (rule.condition.empty()) continue;
        for (const EventDescription& event : events)
            if (is_for(rule, event) && is_wanted(rules, event)) by_condition[rule.condition].push_back(event);
    }
    for (const auto& [condition, its] : by_condition) {
        const auto tree = parse_rule_condition(condition);
        if (!tree) return tree.error();
        if (Status sensible = check_condition_for(*tree, its); !sensible) return sensible;
    }
    return ok();
}

std::string filtered_patterns(const std::vector<Rule>& rules) {
    std::vector<std::string> all;
    bool is_any_filtered = false;
    for (const Rule& rule : rules) {
        const std::size_t begin = std::min(rule.condition.find_first_not_of(" \t\n"), rule.condition.size());
        const std::string words =
            rule.condition.empty() ? rule.pattern : rule.pattern + " if " + rule.condition.substr(begin);
        is_any_filtered |= !rule.condition.empty();
        if (std::find(all.begin(), all.end(), words) == all.end()) all.push_back(words);
    }
    return is_any_filtered ? fmt::format("{}", fmt::join(all, ", ")) : std::string();
}

std::vector<LeftOut> left_out_by_filters(const std::vector<Rule>& rules,
                                         const std::vector<EventDescription>& events) {
    std::vector<LeftOut> left_out;
    for (const EventDescription& event : events) {
        if (!is_wanted(rules, event)) continue;
        LeftOut one = {event.full_name(), {}};
        bool may_hold = false;
        for (const Rule& rule : rules) {
            if (leaves_out(rule) || !is_for(rule, event)) continue;
            const auto tree = parse_rule_condition(rule.condition.empty() ? "1" : rule.condition);
            may_hold |= !tree || can_hold(*tree, event);
            if (tree && one.missing.empty()) one.missing = missing_fields(*tree, event);
        }
        if (!may_hold) left_out.push_back(std::move(one));
    }
    return left_out;
}

} // namespace plumb
