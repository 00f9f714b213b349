/* What a pattern of events may be. */
#ifndef PLUMB_CONSUMERD_CONTROL_EVENT_PATTERN_H
#define PLUMB_CONSUMERD_CONTROL_EVENT_PATTERN_H

#include "base/result.h"

#include <string>

namespace plumb {

/* What can never be the name of an event is a mistake that would record nothing, without a word. `pattern` is without the
 * '!' of one that excludes. */
Status check_event_pattern(const std::string& pattern);

/* As a rule's: whether an event of that name is meant, or with a '!' left out. */
bool pattern_matches(const std::string& pattern, const std::string& name);

} // namespace plumb

#endif
