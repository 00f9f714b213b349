#include "consumerd/control/rule_set.h"

#include "base/glob.h"
#include "consumerd/control/control_groups.h"
#include "consumerd/control/event_pattern.h"
#include "consumerd/control/rule_condition.h"

#include <algorithm>

namespace plumb {

Result<plumb_rule> encode_rule(const Rule& rule, std::uint8_t session_index) {
    plumb_rule encoded{};
    encoded.session = session_index;
    encoded.who = static_cast<std::uint8_t>(rule.who.kind);
    encoded.who_id = rule.who.id;
    encoded.log_level = rule.levels.to;
    encoded.log_level_from = rule.levels.from;
    if (rule.levels.from != 0) encoded.who |= PLUMB_WHO_LEVELS;
    std::string pattern = rule.pattern;
    if (!pattern.empty() && pattern[0] == '!') {
        encoded.flags = PLUMB_RULE_EXCLUDE;
        pattern.erase(0, 1);
    }
    if (Status possible = check_event_pattern(pattern); !possible) return possible.error();
    if (pattern.find(':') == std::string::npos && pattern != "*") pattern += ":*";
    const Status pattern_copied = copy_text(encoded.pattern, pattern, "event pattern");
    if (!pattern_copied) return pattern_copied.error();
    const char* const mistake =
        rule.who.kind == PLUMB_WHO_EXECUTABLE ? glob_mistake(rule.who.executable) : nullptr;
    if (mistake != nullptr)
        return Error("\"{}\" can not be an executable: {}.", rule.who.executable, mistake)
            .hint("Write a path or a name, where * stands for any characters.");
    const Status executable_copied =
        copy_text(encoded.executable, rule.who.executable, "executable's pattern");
    if (!executable_copied) return executable_copied.error();
    if (rule.who.kind == PLUMB_WHO_CGROUP) encoded.cgroup = encode_control_group(rule.who.cgroup);
    return encoded;
}

bool are_equal(const plumb_rule& a, const plumb_rule& b) {
    return std::memcmp(&a, &b, sizeof(a)) == 0;
}

Status add_rule(plumb_rule_set& set, const plumb_rule& rule) {
    for (std::uint32_t i = 0; i < set.rule_count; i++) {
        if (are_equal(set.rules[i], rule)) return ok();
    }
    if (set.rule_count == PLUMB_MAX_RULES)
        return Error("All {} rules are taken.", PLUMB_MAX_RULES)
            .hint("Use patterns with * instead of many single events.");
    set.rules[set.rule_count++] = rule;
    return ok();
}

void remove_rules(plumb_rule_set& set, const std::function<bool(const plumb_rule&)>& which) {
    plumb_rule* end = set.rules + set.rule_count;
    plumb_rule* kept = std::remove_if(set.rules, end, which);
    std::fill(kept, end, plumb_rule{});
    set.rule_count = static_cast<std::uint32_t>(kept - set.rules);
    for (std::uint32_t i = 0; i < PLUMB_MAX_CONDITIONS; i++) {
        const bool is_used =
            std::any_of(set.rules, kept, [i](const plumb_rule& rule) { return rule.condition == i + 1; });
        if (!is_used) set.conditions[i] = {};
    }
}

Result<ConditionCode> encode_rule_condition(const Rule& rule) {
    if (rule.condition.empty()) return ConditionCode();
    if (!rule.pattern.empty() && rule.pattern[0] == '!')
        return Error("\"{}\" leaves events out, and can have no filter.", rule.pattern);
    const Result<ConditionTree> tree = parse_rule_condition(rule.condition);
    if (!tree) return tree.error();
    return encode_condition(*tree);
}

std::uint16_t find_condition(const plumb_rule_set& set, std::uint8_t session, const ConditionCode& code) {
    for (std::uint16_t i = 0; i < PLUMB_MAX_CONDITIONS; i++) {
        const plumb_condition& condition = set.conditions[i];
        if (condition.session == session &&
            std::equal(code.begin(), code.end(), condition.code, condition.code + condition.code_bytes))
            return i + 1;
    }
    return 0;
}

Result<std::uint16_t> place_condition(plumb_rule_set& set, std::uint8_t session, const ConditionCode& code) {
    if (const std::uint16_t there = find_condition(set, session, code); there != 0) return there;
    for (std::uint16_t i = 0; i < PLUMB_MAX_CONDITIONS; i++) {
        plumb_condition& condition = set.conditions[i];
        if (condition.code_bytes != 0) continue;
        condition.code_bytes = static_cast<std::uint16_t>(code.size());
        condition.session = session;
        std::copy(code.begin(), code.end(), condition.code);
        return static_cast<std::uint16_t>(i + 1);
    }
    return Error("All {} filters of this user are taken.", PLUMB_MAX_CONDITIONS)
        .hint("Recordings and events with the same filter share it; wait for another recording to end.");
}

} // namespace plumb
