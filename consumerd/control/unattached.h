/* What programs have left word of in the state file while a session ran: that they could not write to it, then ended, or went
 * on and could (plumb_unattached in <plumb/abi/state.h>). Whose slot still says so is asked there. */
#ifndef PLUMB_CONSUMER_CONTROL_UNATTACHED_H
#define PLUMB_CONSUMER_CONTROL_UNATTACHED_H

#include "consumerd/control/quiescence.h"
#include "consumerd/control/state.h"

#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

std::string ended_reason(std::int32_t error); /* of plumb_process */

class UnattachedWords {
public:
    UnattachedWords() = default;
    /* From now on, for the session at this index. */
    UnattachedWords(const StateFile& state, std::uint32_t index);

    /* The last one of each kind; its reason says how many others there are. */
    std::vector<Unreachable> of_ended(const StateFile& state) const;
    std::vector<Unreachable> of_reached_late(const StateFile& state) const;

private:
    std::uint32_t index_ = 0;
    std::uint32_t ended_before_ = 0;
    std::uint32_t late_before_ = 0;
};

} // namespace plumb

#endif
