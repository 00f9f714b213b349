/*
 * Programs with seccomp filters: a filter may end its program for a system call that it did not expect, and tracing
 * makes some. They are left alone unless the user insists.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_SECCOMP_H
#define PLUMB_CONSUMERD_CONTROL_SECCOMP_H

#include "base/processes.h"
#include "consumerd/control/state.h"

#include <cstdint>
#include <vector>

namespace plumb {

/* Whether a thread of the process has a filter that this process does not have. Who has as many as we is taken to
 * have inherited the same ones, from the container or the service that both live in. */
enum class OwnFilter {
    no,
    yes,
    gone,   /* it has ended meanwhile */
    hidden, /* /proc does not show it to us, now or later (hidepid) */
    unknown /* it could not be read this time: no descriptor is free */
};
OwnFilter own_filter_of(std::uint32_t process_id);
/* `first`: process_status() of it, as just read. */
OwnFilter own_filter_of(std::uint32_t process_id, const Result<ProcessStatus>& first);
/* How many this process has. */
std::uint32_t own_seccomp_filters();

/* Sets or takes back the session's hold on every slot, by what /proc says now. What it hides may have a filter; what could not
 * be read stays as it is. Slots whose process has ended are freed: programs that come and go would make looks longer and
 * longer. Those that are not looked at in that time are held. */
void hold_filtered(StateFile& state, std::uint32_t session, std::uint64_t for_ns = 2'000'000'000);
/* The same for the slots from `next` on, at least one of them and for about that long: for who comes by often. `next` is where
 * to go on, 0 once the last slot was looked at. Returns the indices of those that can not see themselves whether they have
 * filters, and have heard now that they have none. */
std::vector<std::uint32_t> look_after_filtered(StateFile& state, std::uint32_t session, std::uint32_t& next,
                                               std::uint64_t for_ns);

/* Goes round all slots again and again, for who comes by often: a twentieth of the time if that is enough, but a round begins
 * every two seconds, in however many short looks. */
class FilterWatch {
public:
    static constexpr std::uint64_t round_every_ns = 2'000'000'000;

    /* If it is time for one. Returns as look_after_filtered(). */
    std::vector<std::uint32_t> look(StateFile& state, std::uint32_t session);
    /* The next look, at the latest. */
    std::uint64_t wanted_in_ns() const;

private:
    std::uint32_t next_slot_ = 0; /* 0: the round is over */
    std::uint64_t round_began_ns_ = 0;
    std::uint64_t round_took_ns_ = 0; /* looks alone */
    std::uint64_t next_look_ns_ = 0;
};

/* Tells it, if it has none. Whether it has none. */
bool tell_unfiltered(StateFile& state, const ProcessSlot& slot);

} // namespace plumb

#endif
