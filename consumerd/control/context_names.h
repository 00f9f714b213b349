/*
 * The words of --context: what every record of a session is to have besides its event's fields.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_CONTEXT_NAMES_H
#define PLUMB_CONSUMERD_CONTROL_CONTEXT_NAMES_H

#include "base/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

struct ContextChoice {
    std::uint32_t context = 0;         /* PLUMB_CONTEXT_* */
    std::uint32_t callstack_depth = 0; /* 0: the usual one */
};

/* Each "vpid,callstack:32"; LTTng's names of the same are known, too. */
Result<ContextChoice> parse_context(const std::vector<std::string>& lists);

} // namespace plumb

#endif
