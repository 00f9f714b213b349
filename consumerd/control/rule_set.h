/*
 * Rules and their conditions as they stand in a rule set of the state file, and how they get in and out. For who edits one
 * (state.h).
 */
#ifndef PLUMB_CONSUMERD_CONTROL_RULE_SET_H
#define PLUMB_CONSUMERD_CONTROL_RULE_SET_H

#include "base/result.h"
#include "consumerd/control/session.h"

#include <plumb/abi/state.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace plumb {

/* A text into a field of the ABI, with its NUL. */
template <std::size_t Bytes>
Status copy_text(char (&to)[Bytes], const std::string& text, const char* what) {
    if (text.size() >= Bytes)
        return Error("The {} '{}' is too long: {} bytes are possible.", what, text, Bytes - 1);
    std::memset(to, 0, Bytes);
    std::memcpy(to, text.data(), text.size());
    return ok();
}

bool are_equal(const plumb_rule& a, const plumb_rule& b);
/* Unless it is there. */
Status add_rule(plumb_rule_set& set, const plumb_rule& rule);
/* And the conditions that no other rule has. */
void remove_rules(plumb_rule_set& set, const std::function<bool(const plumb_rule&)>& which);

using ConditionCode = std::vector<std::uint8_t>; /* empty: the rule has none */

Result<ConditionCode> encode_rule_condition(const Rule& rule);
/* Where the session's condition of this code stands, as a rule names it; 0 if it is not there. */
std::uint16_t find_condition(const plumb_rule_set& set, std::uint8_t session, const ConditionCode& code);
Result<std::uint16_t> place_condition(plumb_rule_set& set, std::uint8_t session, const ConditionCode& code);

} // namespace plumb

#endif
