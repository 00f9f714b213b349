/*
 * The clock page of a channel whose recorder is gone: every traced program could write over it. A page that makes no
 * sense would make a trace that no reader takes (a rate of 0, events before the year 1700), and with it all that the
 * rings hold, so what can not be is replaced by what is known from elsewhere.
 */
#ifndef PLUMB_CONSUMERD_CLOCK_CLOCK_PAGE_CHECK_H
#define PLUMB_CONSUMERD_CLOCK_CLOCK_PAGE_CHECK_H

#include <plumb/abi/clock_page.h>

#include <cstdint>
#include <optional>
#include <string>

namespace plumb {

/* What else says something about the clock. */
struct ClockEvidence {
    uint64_t created_realtime_ns = 0;       /* by the channel's header, which may be damaged as well */
    std::optional<uint64_t> timestamp = {}; /* one that was taken while the channel was written, in cycles */
};

struct CheckedClockPage {
    plumb_clock_page page;
    std::string damage; /* what was replaced, as the end of a sentence; empty: nothing */
};

CheckedClockPage check_clock_page(plumb_clock_page page, const ClockEvidence& evidence);

/* Which clock it is, where the mode is none that there is. */
plumb_clock_mode believable_clock_mode(const plumb_clock_page& page);

} // namespace plumb

#endif
