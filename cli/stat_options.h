/*
 * What `plumb stat` was asked to count.
 */
#ifndef PLUMB_CLI_STAT_OPTIONS_H
#define PLUMB_CLI_STAT_OPTIONS_H

#include "base/result.h"
#include "cli/record_options.h"

#include <cstdint>
#include <optional>
#include <string>

namespace plumb {

struct StatOptions {
    RecordOptions what; /* events, filters, of whom: as for `plumb record`, and `json` */
    std::string by, hist, sum;
    std::uint32_t keys = 1024; /* that have room */
    std::uint32_t top = 20;    /* that are shown of each event */
    std::optional<std::string> interval;
    std::string output;
};

/* The channel; or what can not be asked for so. */
Result<ChannelConfig> counting_channel(const StatOptions& options);

} // namespace plumb

#endif
