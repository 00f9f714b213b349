#include "consumerd/drain/drain_totals.h"

#include "base/loss_growth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace plumb {

std::string went_apart_text(const ClockQuality& clock) {
    if (clock.apart_ns == 0) return {};
    const double seconds = std::abs(static_cast<double>(clock.apart_ns)) / 1e9;
    if (clock.apart_ns > 0)
        return fmt::format(
            "The cycle counter ran on for {:.1f} s while CLOCK_MONOTONIC stood still, as over a "
            "suspend: times are those of the counter, at the rate that it had before.",
            seconds);
    return fmt::format(
        "The cycle counter fell back by {:.1f} s, as over a suspend: what was recorded since is "
        "not in the trace, or has times that are too early by as much. Recordings over a "
        "suspend want --clock boot or mono.",
        seconds);
}

void add_counts(std::vector<NamedCount>& to, const std::vector<NamedCount>& from) {
    for (const NamedCount& each : from) {
        const auto known = std::find_if(to.begin(), to.end(),
                                        [&](const NamedCount& other) { return other.name == each.name; });
        if (known != to.end())
            known->count = sum_of_losses(known->count, each.count);
        else
            to.push_back(each);
    }
}

void add_if_any(std::vector<NamedCount>& to, std::string name, uint64_t count) {
    if (count != 0) add_counts(to, {{std::move(name), count}});
}

void add_progress(DrainProgress& to, const DrainProgress& from) {
    to.events += from.events;
    to.events_discarded = sum_of_losses(to.events_discarded, from.events_discarded);
    to.subbufs_lost += from.subbufs_lost;
    to.damaged_records += from.damaged_records;
    to.events_not_written = sum_of_losses(to.events_not_written, from.events_not_written);
    to.damaged_subbufs += from.damaged_subbufs;
    to.bytes += from.bytes;
    to.chunk_events += from.chunk_events;
    to.chunk_bytes += from.chunk_bytes;
}

void add_totals(DrainTotals& to, const DrainTotals& from) {
    add_progress(to.progress, from.progress);
    to.packets += from.packets;
    to.kernel_events_read += from.kernel_events_read;
    add_counts(to.events, from.events);
    std::stable_sort(to.events.begin(), to.events.end(),
                     [](const NamedCount& a, const NamedCount& b) { return a.count > b.count; });
    to.processes.insert(to.processes.end(), from.processes.begin(), from.processes.end());
    to.further_processes += from.further_processes;
    to.threads += from.threads;
    to.objects += from.objects;
    add_counts(to.events_lost, from.events_lost);
    add_counts(to.subbufs_lost, from.subbufs_lost);
    add_counts(to.missed, from.missed);
    add_counts(to.not_switched_on, from.not_switched_on);
    add_counts(to.not_described, from.not_described);
    add_counts(to.notes, from.notes);
    if (to.write_error.empty()) to.write_error = from.write_error;
}

static std::vector<NamedCount> counts_since(const std::vector<NamedCount>& before,
                                            const std::vector<NamedCount>& now) {
    std::vector<NamedCount> since;
    for (const NamedCount& each : now) {
        const auto known = std::find_if(before.begin(), before.end(),
                                        [&](const NamedCount& other) { return other.name == each.name; });
        const uint64_t count = known == before.end() ? 0 : known->count;
        if (each.count > count) since.push_back({each.name, each.count - count});
    }
    return since;
}

DrainTotals totals_since(const DrainTotals& before, const DrainTotals& now) {
    const auto grown = [](uint64_t old, uint64_t by_now) { return by_now - std::min(by_now, old); };
    DrainTotals since = now;
    since.progress.events = grown(before.progress.events, now.progress.events);
    since.progress.events_discarded = grown(before.progress.events_discarded, now.progress.events_discarded);
    since.progress.events_not_written =
        grown(before.progress.events_not_written, now.progress.events_not_written);
    since.progress.subbufs_lost = grown(before.progress.subbufs_lost, now.progress.subbufs_lost);
    since.progress.bytes = grown(before.progress.bytes, now.progress.bytes);
    since.packets = grown(before.packets, now.packets);
    since.kernel_events_read = grown(before.kernel_events_read, now.kernel_events_read);
    since.events = counts_since(before.events, now.events);
    std::stable_sort(since.events.begin(), since.events.end(),
                     [](const NamedCount& a, const NamedCount& b) { return a.count > b.count; });
    since.events_lost = counts_since(before.events_lost, now.events_lost);
    since.subbufs_lost = counts_since(before.subbufs_lost, now.subbufs_lost);
    since.missed = counts_since(before.missed, now.missed);
    since.not_switched_on = counts_since(before.not_switched_on, now.not_switched_on);
    since.not_described = counts_since(before.not_described, now.not_described);
    since.notes = counts_since(before.notes, now.notes);
    const auto is_unwritten = [](const NamedCount& lost) { return lost.name.ends_with("not_written"); };
    if (std::none_of(since.events_lost.begin(), since.events_lost.end(), is_unwritten))
        since.write_error.clear();
    return since;
}

} // namespace plumb
