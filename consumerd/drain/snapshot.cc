#include "consumerd/drain/snapshot.h"

#include "consumerd/drain/kernel_source.h"

namespace plumb {

Result<Snapshot> take_snapshot(Session& session, ClockCalibration& calibration, KernelSession* kernel,
                               const SnapshotOptions& options) {
    calibration.refine();
    ChannelDrainOptions drain_options = options.drain;
    drain_options.is_snapshot = true;
    drain_options.made_as = session.channel().made_as();
    auto drain = drain_live_channel(session.channel().bytes(), calibration, std::move(drain_options));
    if (!drain) return drain.error();
    Snapshot snapshot;
    if (Status finished = (*drain)->finish(); !finished)
        snapshot.problems.push_back(finished.error().message());
    snapshot.totals = (*drain)->totals();
    snapshot.ring_places = (*drain)->ring_places();
    if (kernel == nullptr) return snapshot;

    KernelDrainOptions kernel_options;
    kernel_options.directory = options.drain.directory;
    kernel_options.identity = (*drain)->identity();
    kernel_options.clock = (*drain)->clock_page();
    kernel_options.statedump = options.statedump;
    kernel_options.is_snapshot = true;
    kernel_options.log = options.drain.log;
    auto kernel_drain = drain_kernel(*kernel, std::move(kernel_options));
    if (!kernel_drain) { /* what the channel held has been read, and told: the next one goes on behind it */
        snapshot.problems.push_back(
            kernel_drain.error().with("The kernel's events are missing in the snapshot").message());
        return snapshot;
    }
    if (Status taken = (*kernel_drain)->finish(); !taken)
        snapshot.problems.push_back(taken.error().message());
    (*kernel_drain)->add_to(snapshot.totals);
    return snapshot;
}

} // namespace plumb
