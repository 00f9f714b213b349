/* What a drain counted, as the summary.json of a trace has it. */
#ifndef PLUMB_CONSUMERD_DRAIN_TOTALS_JSON_H
#define PLUMB_CONSUMERD_DRAIN_TOTALS_JSON_H

#include "consumerd/control/channel.h"
#include "consumerd/drain/drain_totals.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace plumb {

/* "zero" numbers are left out by whoever made the list. */
nlohmann::ordered_json counts_as_json(const std::vector<NamedCount>& counts);
nlohmann::ordered_json processes_as_json(const std::vector<TracedName>& processes);
/* Which files a trace has, and how long they are. */
nlohmann::ordered_json files_as_json(const std::string& directory);
/* "discard", "overwrite", "block" */
const char* ring_mode_name(plumb_ring_mode mode);

/* `directory`: where the trace's files are now. */
void put_totals(nlohmann::ordered_json& root, const DrainTotals& totals, const ChannelConfig& channel,
                const std::string& directory);

} // namespace plumb

#endif
