/*
 * The filters of a recording's rules (--filter, -e 'shop:order if ...') beside the events that are known: what makes no sense of
 * them, and which of them a filter leaves out for want of a field.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_RULE_FILTERS_H
#define PLUMB_CONSUMERD_CONTROL_RULE_FILTERS_H

#include "base/result.h"
#include "consumerd/control/session.h"
#include "consumerd/event/elf_events.h"

#include <string>
#include <vector>

namespace plumb {

/* "shop:order if id > 7" is a pattern and its filter, which is empty if there is none. */
struct FilteredPattern {
    std::string pattern, condition;
};
FilteredPattern split_filter(const std::string& words);

/* Both must hold; either may be empty. */
std::string both_conditions(const std::string& a, const std::string& b);

/* Of the events that a rule with a filter is for, whether it makes sense of them together; of rules that name none of these
 * events, nothing is known. */
Status check_filters(const std::vector<Rule>& rules, const std::vector<EventDescription>& events);

/* "shop:* if id > 7, shop:start": what was asked for, where any of it has a filter; else empty. */
std::string filtered_patterns(const std::vector<Rule>& rules);

struct LeftOut {
    std::string event;
    std::vector<std::string> missing; /* fields that the filter names, and it does not have */
};
/* Events that were wanted, and of which no filter can ever be true. */
std::vector<LeftOut> left_out_by_filters(const std::vector<Rule>& rules,
                                         const std::vector<EventDescription>& events);

} // namespace plumb

#endif
