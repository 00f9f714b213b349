#include "consumerd/drain/totals_json.h"

#include "consumerd/sink/trace_files.h"

#include <nlohmann/json.hpp>

namespace plumb {

using Json = nlohmann::ordered_json;

Json files_as_json(const std::string& directory) {
    Json files = Json::object();
    for (const auto& [name, bytes] : files_of_trace(directory))
        files[name] = bytes;
    return files;
}

Json counts_as_json(const std::vector<NamedCount>& counts) {
    Json object = Json::object();
    for (const NamedCount& each : counts)
        object[each.name] = each.count;
    return object;
}

Json processes_as_json(const std::vector<TracedName>& processes) {
    Json list = Json::array();
    for (const TracedName& process : processes)
        list.push_back(
            {{"pid", process.process_id}, {"name", process.name}, {"executable", process.executable}});
    return list;
}

const char* ring_mode_name(plumb_ring_mode mode) {
    return mode == PLUMB_MODE_OVERWRITE ? "overwrite" : mode == PLUMB_MODE_BLOCK ? "block" : "discard";
}

void put_totals(Json& root, const DrainTotals& totals, const ChannelConfig& channel,
                const std::string& directory) {
    root["events"] = totals.progress.events;
    root["events_by_name"] = counts_as_json(totals.events);
    root["kernel_events_read"] = totals.kernel_events_read;
    root["events_lost"] = totals.progress.events_discarded;
    root["events_lost_by_cause"] = counts_as_json(totals.events_lost);
    root["subbufs_lost"] = totals.progress.subbufs_lost;
    root["subbufs_lost_by_cause"] = counts_as_json(totals.subbufs_lost);
    if (!totals.write_error.empty()) root["write_error"] = totals.write_error;
    root["missed"] = counts_as_json(totals.missed);
    root["not_switched_on"] = counts_as_json(totals.not_switched_on);
    root["not_described"] = counts_as_json(totals.not_described);
    root["notes"] = counts_as_json(totals.notes);
    root["processes"] = processes_as_json(totals.processes);
    if (totals.further_processes != 0) root["processes_not_named"] = totals.further_processes;
    root["threads"] = totals.threads;
    root["objects"] = totals.objects;
    root["bytes"] = totals.progress.bytes;
    root["files"] = files_as_json(directory);
    root["packets"] = totals.packets;
    root["clock"] = {{"name", totals.clock.clock},
                     {"frequency_hz", totals.clock.frequency_hz},
                     {"rate_source", totals.clock.rate_source},
                     {"baseline_ns", totals.clock.baseline_ns},
                     {"uncertainty_ns", totals.clock.uncertainty_ns},
                     {"worst_deviation_ns", totals.clock.worst_deviation_ns}};
    if (totals.clock.apart_ns != 0) root["clock"]["apart_ns"] = totals.clock.apart_ns;
    root["channel"] = {{"mode", ring_mode_name(channel.mode)},
                       {"subbuf_bytes", channel.subbuf_bytes},
                       {"subbuf_count", channel.subbuf_count}};
}

} // namespace plumb
