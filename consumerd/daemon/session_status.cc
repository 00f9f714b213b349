/* What a worker can say of its session at any moment. */
#include "consumerd/daemon/session_recording.h"

#include "base/file.h"
#include "base/number_text.h"
#include "consumerd/channel/channel_fill.h"
#include "consumerd/control/traced_lttng.h"
#include "consumerd/control/traced_processes.h"
#include "consumerd/daemon/drain_lines.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace plumb {
namespace {

constexpr std::uint64_t rate_over_ns = 500'000'000;
constexpr std::size_t processes_max = 1000;

std::uint64_t own_memory_bytes() {
    const auto words = read_small_file("/proc/self/statm");
    if (!words) return 0;
    char* end = nullptr;
    (void)std::strtoull(words->c_str(), &end, 10);
    return std::strtoull(end, nullptr, 10) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t memory_of(const Channel& channel) {
    struct stat info {};
    return ::fstat(channel.fd(), &info) == 0 ? static_cast<std::uint64_t>(info.st_blocks) * 512 : 0;
}

/* Empty if there is none. */
std::string damage_text(const ChannelFill& fill, const DrainProgress& progress, bool is_own) {
    if (fill.counters_written_over == 0 && progress.damaged_records == 0 && progress.damaged_subbufs == 0)
        return {};
    return fmt::format("Some program wrote over {}: {} and {} are left out, and {} of lost events "
                       "can not be believed. Other sessions are not touched by it. {}",
                       is_own ? "the session's channel" : "a channel of other users' programs",
                       counted(progress.damaged_records, "record"),
                       counted(progress.damaged_subbufs, "sub-buffer"),
                       counted(fill.counters_written_over, "counter"),
                       is_own ? "End that program, and make the session anew."
                              : "What of the session's own user is recorded is sound.");
}

} // namespace

/* Between looks that are some time apart, so that it is a rate and no accident. */
void SessionRecording::sample(std::uint64_t now_ns) {
    if (!drain_) return;
    const std::uint64_t events = progress().events;
    if (sampled_ns_ != 0 && now_ns - sampled_ns_ < rate_over_ns) return;
    if (sampled_ns_ != 0)
        events_per_s_ = static_cast<double>(events - std::min(events, sampled_events_)) * 1e9 /
                        static_cast<double>(now_ns - sampled_ns_);
    sampled_ns_ = now_ns;
    sampled_events_ = events;
}

Json SessionRecording::processes_as_status() const {
    Json list = Json::array();
    add_processes(const_cast<Session&>(*session_).state(), list);
    if (places_)
        places_->for_each([&](const OtherUsers::Glance& each) {
            add_processes(const_cast<Session&>(each.session).state(), list);
        });
    return list;
}

Json SessionRecording::places_as_status() const {
    Json list = Json::array();
    places_->for_each([&](const OtherUsers::Glance& each) {
        const Channel& channel = each.session.channel();
        const ChannelFill fill = fill_of(channel.bytes(), channel.made_as());
        list.push_back({{"user", each.place.user_id},
                        {"path", shown_path_of(each.place)},
                        {"folder", each.folder},
                        {"events", each.progress.events},
                        {"events_lost", each.progress.events_discarded},
                        {"channel_bytes", memory_of(channel)},
                        {"fullest_percent", std::round(fill.fullest * 1000) / 10}});
    });
    return list;
}

void SessionRecording::add_processes(const StateFile& state, Json& list) const {
    const auto rules = state.rule_set();
    const auto processes = traced_processes(const_cast<StateFile&>(state));
    if (!rules || !processes) return;
    /* Of this session alone: another one may bear its name. */
    plumb_rule_set& set = **rules;
    for (std::uint32_t i = 0; i < set.rule_count; i++)
        if (set.sessions[set.rules[i].session].cookie != session_->cookie()) set.rules[i].pattern[0] = '\0';
    LttngReader lttng;
    for (const TracedProcess& process : *processes) {
        std::size_t on = 0;
        for (const TracedObject& object : process.objects)
            on += static_cast<std::size_t>(std::count_if(
                object.content.events.begin(), object.content.events.end(),
                [&](const EventDescription& event) { return !sessions_with(set, process, event).empty(); }));
        for (const LttngTracepoint& tracepoint : lttng.tracepoints_of(process.process_id))
            on += sessions_with(set, process, as_event(tracepoint)).empty() ? 0 : 1;
        if (on == 0 || list.size() >= processes_max) continue;
        list.push_back({{"pid", process.process_id},
                        {"name", process.name},
                        {"executable", process.executable},
                        {"events", on}});
    }
}

/* Whether some program wrote over a channel of it, in words. */
std::string SessionRecording::damage() const {
    ChannelFill fill = fill_of(session_->channel().bytes(), session_->channel().made_as());
    if (places_)
        places_->for_each([&](const OtherUsers::Glance& each) {
            add_fill(fill, fill_of(each.session.channel().bytes(), each.session.channel().made_as()));
        });
    return damage_text(fill, progress(), is_own_damaged());
}

bool SessionRecording::is_own_damaged() const {
    const ChannelFill fill = fill_of(session_->channel().bytes(), session_->channel().made_as());
    const DrainProgress own = drain_ ? drain_->progress() : DrainProgress();
    return fill.counters_written_over != 0 || own.damaged_records != 0 || own.damaged_subbufs != 0;
}

/* Who ends it may never have asked how it was. */
void SessionRecording::tell_damage() {
    if (const std::string text = damage(); !text.empty()) tell(text);
}

Json SessionRecording::status() const {
    const Channel& channel = session_->channel();
    Json root = description_as_json(description_, false);
    root["output"] = directory_->path();
    root["worker_pid"] = ::getpid();
    root["worker_s"] = (read_clock(PLUMB_CLOCK_MONOTONIC) - begun_ns_) / 1'000'000'000;
    root["processes"] = processes_as_status();
    root["unreachable"] = unreachable_as_json(unreachable_, named_in_vain());

    ChannelFill fill = fill_of(channel.bytes(), channel.made_as());
    std::uint64_t channel_bytes = memory_of(channel);
    if (places_)
        places_->for_each([&](const OtherUsers::Glance& each) {
            add_fill(fill, fill_of(each.session.channel().bytes(), each.session.channel().made_as()));
            channel_bytes += memory_of(each.session.channel());
        });
    const DrainProgress progress = this->progress();
    root["events"] = progress.events;
    root["events_per_s"] = std::round(events_per_s_ * 10) / 10;
    root["bytes"] = progress.bytes;
    root["events_lost"] = progress.events_discarded;
    root["lost_by_cause"] = Json::object();
    for (const auto& [cause, count] : fill.lost)
        root["lost_by_cause"][cause] = count;
    if (progress.damaged_records != 0) root["lost_by_cause"]["damaged"] = progress.damaged_records;
    if (progress.events_not_written != 0) root["lost_by_cause"]["not_written"] = progress.events_not_written;
    root["events_cut"] = fill.cut;
    root["subbufs_lost"] = progress.subbufs_lost;
    root["buffers"] = {{"rings", fill.rings},
                       {"ring_bytes", channel.layout().ring_bytes},
                       {"unread_bytes", fill.unread_bytes},
                       {"fullest_percent", std::round(fill.fullest * 1000) / 10}};
    root["memory"] = {{"channel_bytes", channel_bytes}, {"worker_bytes", own_memory_bytes()}};
    if (kernel_) {
        const Json of_kernel = kernel_->status();
        for (const auto& [key, value] : of_kernel.items())
            root["kernel"][key] = value;
        if (of_kernel["events_lost"] != 0) root["lost_by_cause"]["kernel_dropped"] = of_kernel["events_lost"];
    }
    if (places_) root["places"] = places_as_status();
    root["reached_late"] = Json::array();
    for (const Unreachable& each : late_)
        root["reached_late"].push_back({{"pid", each.process_id}, {"reason", each.reason}});
    if (chunks_) {
        root["chunks"] = chunks_->finished();
        root["chunk"] = chunks_->path();
    }
    if (description_.is_flight_recorder()) root["snapshots"] = description_.snapshots;
    if (!description_.triggers.empty()) root["triggers"] = triggers();
    root["problems"] = Json::array();
    for (const Error& lasting : lasting_problems_) /* however long ago they were told */
        if (std::find(problems_.begin(), problems_.end(), lasting.message()) == problems_.end())
            root["problems"].push_back(lasting.message());
    for (const std::string& text : problems_)
        root["problems"].push_back(text);
    for (const std::string& line : drain_lines())
        root["problems"].push_back(line);
    for (const WaitingChunk& chunk : waiting_chunks_.all())
        root["problems"].push_back(waiting_text(chunk));
    if (const std::string text = damage_text(fill, progress, is_own_damaged()); !text.empty())
        root["problems"].push_back(text);
    return root;
}

} // namespace plumb
