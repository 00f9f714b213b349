/*
 * The condition of a rule, `plumb record --filter`: from what a user writes to the code in the state file
 * (<plumb/abi/condition.h>), which a process asks its events' payloads by; and what it can mean for events that are known.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_RULE_CONDITION_H
#define PLUMB_CONSUMERD_CONTROL_RULE_CONDITION_H

#include "base/condition_parser.h"
#include "base/result.h"
#include "consumerd/event/elf_events.h"

#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

/* The errors show the text and point at a column. */
Result<ConditionTree> parse_rule_condition(const std::string& text);
Result<std::vector<std::uint8_t>> encode_condition(const ConditionTree& tree);

/* Whether it makes sense for these events together: a field that none of them has, a text that is compared with a number. */
Status check_condition_for(const ConditionTree& tree, const std::vector<EventDescription>& events);

/* Whether it can be true of an event of this kind, as far as the fields go that the event has. */
bool can_hold(const ConditionTree& tree, const EventDescription& event);
/* Names in it that are no field of the event, nor of who writes it. */
std::vector<std::string> missing_fields(const ConditionTree& tree, const EventDescription& event);

} // namespace plumb

#endif
