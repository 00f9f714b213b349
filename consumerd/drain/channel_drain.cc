#include "consumerd/drain/channel_source.h"
#include "consumerd/sink/ctf_writer.h"

namespace plumb {
namespace {

/* Of the channel's records there may be several traces: what a recorder wrote before it was killed, what is extracted
 * then, snapshots. Readers take streams of one identity for one stream, so each trace has its own. */
TraceIdentity identity_of(const ChannelGeometry& geometry, const std::optional<ClockCalibration>& calibration,
                          const ChannelDrainOptions& options) {
    const bool is_one_of_several = options.is_snapshot || options.left || !calibration;
    TraceIdentity identity;
    identity.trace_name = options.trace_name.empty() ? geometry.session_name : options.trace_name;
    identity.host_name = geometry.host_name;
    identity.domain = geometry.domain == PLUMB_DOMAIN_KERNEL ? "kernel" : "ust";
    identity.folder = options.folder;
    identity.is_compact = options.is_compact;
    identity.uuid = is_one_of_several ? random_uuid(geometry.trace_uuid) : geometry.trace_uuid;
    identity.boot_id = geometry.boot_id;
    identity.created_realtime_ns = geometry.created_realtime_ns;
    identity.environment = options.environment;
    if (calibration)
        identity.environment.emplace_back("clock_rate_source", rate_source_name(calibration->rate_source()));
    return identity;
}

JournalShape shape_of(const ChannelGeometry& geometry, const TraceIdentity& identity) {
    JournalShape shape;
    shape.cookie = geometry.session_cookie;
    shape.ring_count = geometry.ring_count;
    shape.extra_ring_count = geometry.extra_ring_count;
    shape.is_compact = identity.is_compact;
    shape.is_kernel = identity.is_kernel();
    shape.folder = identity.folder.empty() ? identity.domain : identity.folder;
    return shape;
}

bool are_of_one_channel(const JournalShape& one, const JournalShape& other) {
    return one.cookie == other.cookie && one.ring_count == other.ring_count &&
           one.extra_ring_count == other.extra_ring_count;
}

/* The one that was left goes on, if the trace goes on as it was. */
Status open_journal(ChannelDrainOptions& options, const JournalShape& shape, CtfWriter& writer) {
    if (options.journal.empty()) return ok();
    if (!writer.leave_to_journal()) return Error("What goes over a line has no journal.");
    auto& left = options.left;
    if (left && left->journal && left->journal->shape().is_compact == shape.is_compact &&
        left->journal->shape().folder == shape.folder) {
        options.drain_journal = std::move(left->journal);
        return ok();
    }
    auto made = DrainJournal::create(options.journal, shape);
    if (!made) return made.error();
    options.drain_journal = std::move(*made);
    return ok();
}

/* A drain before us has said so. */
bool was_read_before(const ChannelReader& reader) {
    for (uint32_t ring = 0; ring < reader.geometry().all_rings(); ring++)
        if (__atomic_load_n(&reader.ring_control(ring).taken, __ATOMIC_RELAXED) != 0) return true;
    return false;
}

/* Its journal may have been removed by hand, or be damaged. From what the rings have, all would be recorded that is not handed
 * back yet, once more. */
void go_on_without_journal(const ChannelReader& reader, ChannelDrainOptions& options) {
    const bool has_journal = options.left && options.left->journal;
    if (options.journal.empty() || has_journal || !was_read_before(reader)) return;
    if (!options.left) options.left.emplace();
    if (options.without_journal) options.without_journal(options.journal);
}

Result<std::unique_ptr<Drain>> drain_channel(std::span<const std::byte> channel, std::byte* shared,
                                             std::optional<ClockCalibration> calibration,
                                             ChannelDrainOptions options) {
    ReaderOptions reader_options{shared, options.log};
    reader_options.made_as = options.made_as;
    auto reader = ChannelReader::open(channel, std::move(reader_options));
    if (!reader) return reader.error();
    const ChannelGeometry& geometry = reader->geometry();
    if (calibration && calibration->mode() != geometry.clock_mode)
        return Error("The channel was made for another clock (mode {}) than the session's (mode {}).",
                     static_cast<int>(geometry.clock_mode), static_cast<int>(calibration->mode()));
    go_on_without_journal(*reader, options);
    auto writer = CtfWriter::create(options.directory, identity_of(geometry, calibration, options),
                                    geometry.ring_count, geometry.extra_ring_count, options.carrier);
    if (!writer) return writer.error();
    const JournalShape shape = shape_of(geometry, (*writer)->identity());
    auto source = std::make_unique<ChannelSource>(shared, std::move(*reader), std::move(calibration),
                                                  options.ring_places, options.not_described_before,
                                                  options.names_found, options.ring_memory);
    if (options.left && options.left->journal && !are_of_one_channel(options.left->journal->shape(), shape))
        options.left->journal.reset();
    if (options.left) options.begins_at = source->take_over(options.left->journal.get());
    if (Status kept = open_journal(options, shape, **writer); !kept) return kept.error();
    return Drain::make(std::move(source), std::move(*writer), std::move(options));
}

} // namespace

Result<std::unique_ptr<Drain>> drain_live_channel(std::span<std::byte> channel, ClockCalibration calibration,
                                                  ChannelDrainOptions options) {
    return drain_channel(channel, channel.data(), std::move(calibration), std::move(options));
}

Result<std::unique_ptr<Drain>> drain_dead_channel(std::span<const std::byte> channel,
                                                  ChannelDrainOptions options) {
    return drain_channel(channel, nullptr, std::nullopt, std::move(options));
}

} // namespace plumb
