/* Which processes a rule is for, as far as a controller can tell from outside; a process decides for itself. */
#ifndef PLUMB_CONSUMERD_CONTROL_RULE_REACH_H
#define PLUMB_CONSUMERD_CONTROL_RULE_REACH_H

#include "consumerd/control/state.h"

#include <plumb/abi/state.h>

#include <cstdint>

namespace plumb {

/* Of one that is not seen from here, little is known: it may be. `cookie`: of the rule's session. */
bool is_for(const plumb_rule& rule, std::uint64_t cookie, const ProcessSlot& slot);

} // namespace plumb

#endif
