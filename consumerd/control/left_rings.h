/*
 * Extra rings whose owner was killed while it held them. Others of its process-id namespace see that it is gone and take the ring;
 * who belongs to another one can not, and when everybody in a container has ended nobody is left who could. So a controller that
 * sees all looks after those that stay taken, and gives them back.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_LEFT_RINGS_H
#define PLUMB_CONSUMERD_CONTROL_LEFT_RINGS_H

#include "consumerd/control/channel.h"

#include <cstdint>
#include <map>
#include <optional>

namespace plumb {

class LeftRings {
public:
    /* Gives back rings that had the same owner at the last look but one second ago, and whose owner is gone. */
    void look(Channel& channel, std::uint64_t now_ns);

private:
    std::uint64_t next_look_ns_ = 0;
    std::map<std::uint32_t, std::uint64_t> taken_; /* at the last look: owner words of others, by ring */
};

} // namespace plumb

#endif
