/*
 * A snapshot of a flight recorder: what its rings, and the kernel's buffers, hold now, as a trace of its own. Recording
 * goes on meanwhile. Each snapshot begins where the one before ended, or where what is older was overwritten; how much
 * that was is counted in it.
 */
#ifndef PLUMB_CONSUMERD_DRAIN_SNAPSHOT_H
#define PLUMB_CONSUMERD_DRAIN_SNAPSHOT_H

#include "base/result.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/control/session.h"
#include "consumerd/drain/channel_source.h"
#include "consumerd/drain/drain_totals.h"
#include "consumerd/kernel/kernel_session.h"
#include "consumerd/kernel/kernel_statedump.h"

#include <string>
#include <vector>

namespace plumb {

struct SnapshotOptions {
    ChannelDrainOptions drain; /* its directory: one with nothing in it */
    KernelStatedumpOptions statedump;
};

struct Snapshot {
    DrainTotals totals;
    std::vector<RingPlace> ring_places; /* for the drain options of the next one */
    std::vector<std::string> problems;  /* why it is not complete */
};

/* `session` is one of mode overwrite that nobody drains; so is `kernel`, which may be missing (nullptr). */
Result<Snapshot> take_snapshot(Session& session, ClockCalibration& calibration, KernelSession* kernel,
                               const SnapshotOptions& options);

} // namespace plumb

#endif
