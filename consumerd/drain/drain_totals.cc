#include "consumerd/drain/drain_totals.h"

#include "consumerd/drain/drain.h"

#include <algorithm>
#include <map>

namespace plumb {
namespace {

const char* clock_short_name(plumb_clock_mode mode) {
    switch (mode) {
    case PLUMB_CLOCK_TSC:
        return "tsc";
    case PLUMB_CLOCK_MONOTONIC:
        return "mono";
    case PLUMB_CLOCK_BOOTTIME:
        return "boot";
    case PLUMB_CLOCK_REALTIME:
        return "real";
    case PLUMB_CLOCK_NONE:
        break;
    }
    return "none";
}

void add_if_any(std::vector<NamedCount>& to, const char* name, uint64_t count) {
    if (count != 0) to.push_back({name, count});
}

} // namespace

DrainTotals Drain::totals() const {
    DrainTotals totals;
    totals.progress = progress();
    totals.packets = writer_.packets();
    totals.processes = processes_;
    totals.threads = threads_.size();
    totals.objects = objects_;

    std::map<std::string, uint64_t> by_name; /* one event may have two descriptions, so two ids */
    for (const ChannelEvent& event : reader_.events())
        by_name[event.description.full_name()] += buffer_.counts[event.id];
    for (const auto& [name, count] : by_name)
        add_if_any(totals.events, name.c_str(), count);
    std::stable_sort(totals.events.begin(), totals.events.end(),
                     [](const NamedCount& a, const NamedCount& b) { return a.count > b.count; });

    std::array<uint64_t, PLUMB_LOSS_CAUSES> lost{};
    uint64_t not_written = 0, backward = 0, damaged_records = 0, damaged_subbufs = 0;
    uint64_t set_back_ns = 0;
    for (const Ring& ring : rings_) {
        set_back_ns = std::max(set_back_ns, ring.reader.shift());
        for (size_t cause = 0; cause < lost.size(); cause++)
            lost[cause] += ring.lost[cause];
        not_written += ring.not_written;
        backward += ring.reader.backward_records();
        damaged_records += ring.reader.damaged_records();
        damaged_subbufs += ring.reader.damaged_subbufs();
    }
    add_if_any(totals.events_lost, "full", lost[PLUMB_LOST_FULL]);
    add_if_any(totals.events_lost, "block_timeout", lost[PLUMB_LOST_BLOCK_TIMEOUT]);
    add_if_any(totals.events_lost, "too_large", lost[PLUMB_LOST_TOO_LARGE]);
    add_if_any(totals.events_lost, "contended", lost[PLUMB_LOST_CONTENDED]);
    add_if_any(totals.events_lost, "not_written", not_written);
    add_if_any(totals.events_lost, "damaged", damaged_records);
    totals.write_error = failures_.cause();
    add_if_any(totals.subbufs_lost, "overwritten", lost[PLUMB_LOST_OVERWRITTEN]);
    add_if_any(totals.subbufs_lost, "damaged", damaged_subbufs);

    add_if_any(totals.notes, "cut", lost[PLUMB_CUT]);
    add_if_any(totals.notes, "clock_went_back", backward);
    add_if_any(totals.notes, "clock_set_back_ms", set_back_ns / 1'000'000);
    add_if_any(totals.not_described, "refused_event_slots", reader_.refused(PLUMB_REFUSED_EVENT_SLOTS));
    add_if_any(totals.not_described, "refused_heap", reader_.refused(PLUMB_REFUSED_HEAP));
    add_if_any(totals.not_described, "refused_entry_slots", reader_.refused(PLUMB_REFUSED_ENTRY_SLOTS));
    for (size_t kind = 0; kind < damage_kinds; kind++)
        add_if_any(totals.notes, damage_name(static_cast<Damage>(kind)), reader_.damage()[kind]);

    totals.clock.clock = clock_short_name(reader_.geometry().clock_mode);
    totals.clock.frequency_hz = clock_page().frequency_hz;
    totals.clock.uncertainty_ns = clock_page().uncertainty_ns;
    if (calibration_) {
        totals.clock.rate_source = rate_source_name(calibration_->rate_source());
        totals.clock.baseline_ns = calibration_->baseline_ns();
        totals.clock.worst_deviation_ns = calibration_->worst_deviation_ns();
    }
    return totals;
}

} // namespace plumb
