/* What a recorder does as a flight recorder: it keeps, and writes when it is asked. */
#include "cli/recorder.h"

#include "consumerd/drain/snapshot.h"

#include <fmt/format.h>

#include <climits>
#include <cstdlib>

namespace plumb {

Status Recorder::open_flight_recorder(ClockCalibration calibration) {
    auto* header = reinterpret_cast<plumb_channel_header*>(session_->channel().bytes().data());
    calibration.publish(header->clock);
    calibration_ = std::move(calibration);
    auto socket = RecorderSocket::listen(flight_recorders);
    if (!socket) return socket.error();
    socket_ = std::move(*socket);
    return ok();
}

/* Into DIR/snapshot-N. What it came to is the summary's from then on. */
Result<std::string> Recorder::take_snapshot() {
    SnapshotOptions options;
    look_whether_emptied();
    if (Status there = directory_->check(); !there) return there.error().with("No snapshot was taken");
    const auto folder = directory_->make_snapshot(snapshots_tried_);
    if (!folder) return folder.error().with("No snapshot was taken");
    options.drain = drain_options(*folder);
    options.drain.ring_places = ring_places_;
    options.drain.names_found = names_found_;
    for (const auto* counts : {&summary_.before.not_described, &summary_.totals.not_described})
        for (const NamedCount& each : *counts)
            if (each.name == "refused_entry_slots") options.drain.not_described_before += each.count;
    options.statedump.clock_mode = calibration_->mode();
    options.statedump.open_files = options_.statedump_files;
    auto taken = plumb::take_snapshot(*session_, *calibration_, kernel_session_.get(), options);
    if (!taken) return taken.error().with("No snapshot was taken");
    char absolute[PATH_MAX];
    const bool is_found = realpath(options.drain.directory.c_str(), absolute) != nullptr;
    summary_.directory = is_found ? absolute : options.drain.directory;
    summary_.snapshots.push_back(summary_.directory);
    note_losses_before();
    summary_.totals = std::move(taken->totals);
    ring_places_ = std::move(taken->ring_places);
    summary_.duration_ns = elapsed_ns();
    has_write_failures_ |= !taken->problems.empty();
    summary_.problems.insert(summary_.problems.end(), taken->problems.begin(), taken->problems.end());
    if (Status stored = store(); !stored) return stored.error();
    if (const std::string& why = summary_.totals.write_error; !why.empty())
        return Error("The snapshot in {} is not complete: {}.", summary_.directory, why);
    if (!taken->problems.empty())
        return Error("The snapshot in {} is not complete: {}", summary_.directory, taken->problems.front());
    return summary_.directory;
}

/* The last snapshot will not be the last. What began untraced stays so, and is counted in each. */
void Recorder::note_losses_before() {
    DrainTotals& before = summary_.before;
    const DrainTotals& last = summary_.totals;
    add_counts(before.events_lost, last.events_lost);
    add_counts(before.subbufs_lost, last.subbufs_lost);
    add_counts(before.missed, last.missed);
    std::erase_if(before.missed, [](const NamedCount& each) { return each.name == left_off_name; });
    add_counts(before.not_described, last.not_described);
    add_counts(before.notes, last.notes);
}

void Recorder::serve_askers() {
    others_ask_ = socket_->serve([this]() -> Result<std::string> {
        if (chunks_) return rotate();
        auto taken = take_snapshot();
        if (!taken)
            status_.say(taken.error().message());
        else if (!options_.quiet)
            status_.say(fmt::format("snapshot of {} in {}", counted(summary_.totals.progress.events, "event"),
                                    *taken));
        return taken;
    });
}

} // namespace plumb
