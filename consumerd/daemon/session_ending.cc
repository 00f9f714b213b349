/* How a session ends: all that its programs wrote is in the trace then, or it is said what is not. */
#include "consumerd/daemon/session_recording.h"

#include "base/number_text.h"
#include "consumerd/control/kept_sessions.h"
#include "consumerd/control/left_channel.h"
#include "consumerd/event/unknown_providers.h"
#include "consumerd/places/other_users.h"

#include <fmt/format.h>

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace plumb {

namespace {

std::string left_text(const LeftChannel& left) {
    std::string missing;
    if (left.unread_bytes != 0)
        missing = fmt::format("{} of what its programs wrote", counted(left.unread_bytes, "byte"));
    if (left.untold_losses != 0)
        missing += fmt::format("{}{}", missing.empty() ? "" : ", and ",
                               counted(left.untold_losses, "event") + " that they lost");
    if (missing.empty()) missing = "what its programs wrote last";
    return fmt::format("Not in the trace: {}. `plumb extract` makes a trace of that, within the next hour.",
                       missing);
}

} // namespace

/* Of tracepoints that were wanted. */
void SessionRecording::tell_unknown_providers() {
    std::vector<EventDescription> kinds;
    add_kinds_on(session_->channel(), kinds);
    for (const UnknownProvider& each : unknown_providers_of(kinds))
        problems_.push_back(unknown_provider_text(each));
}

/* As before: nothing that is stored from now on may say that it ends, or who comes behind a death of ours would end it. */
Error SessionRecording::go_on(const Error& why) {
    description_.is_ending = false;
    arm_triggers(description_.is_started);
    return why;
}

/* False: there was no room for it, and what it would have held stays in the channel, as that of a recorder does which is killed. */
bool SessionRecording::take_last_snapshot() {
    const std::uint32_t taken_before = description_.snapshots;
    const auto taken = take_snapshot();
    if (taken) return true;
    const bool is_there = description_.snapshots != taken_before;
    problems_.push_back(
        (is_there ? taken.error()
                  : taken.error().hint("What it would have held is still in shared memory: `plumb extract` "
                                       "makes a trace of it, within the next hour."))
            .message());
    return is_there;
}

/* Said first, and the session is removed when all of it has been read: who dies in the middle of it has it finished by the next
 * worker, which finds either a session with what is left to read, or nothing to read. */
Result<Json> SessionRecording::end() {
    arm_triggers(false);
    (void)look_at_triggers();
    look_at_entrance();
    description_.is_ending = true;
    if (Status stored = store(); !stored) return go_on(stored.error());
    auto report = session_->close();
    /* A session that another program has removed can not be gone on with: nobody could ever end it. */
    if (!report && (report.error().number() == ENOENT || is_cut_off_)) {
        problems_.push_back(report.error().message());
        report = Report();
    }
    if (!report) {
        const Error why = go_on(report.error());
        store_taken_back();
        return why;
    }
    if (places_)
        places_->close([&](const Result<Report>& each) {
            if (each)
                report->add(*each);
            else
                problems_.push_back(each.error().message());
        });
    Json answer = answer_of(*report);
    end_triggers();
    bool is_left = false;
    if (drain_) {
        end_drain();
    } else {
        tell_damage();
        is_left = !take_last_snapshot();
    }
    tell_unknown_providers();
    if (Status unlinked = is_left ? ok() : session_->remove_channel();
        !unlinked && unlinked.error().number() != ENOENT)
        problems_.push_back(unlinked.error().message());
    if (const auto ended = session_->end(); !ended) problems_.push_back(ended.error().message());
    for (const AwaitedPlace& each : awaited_places_)
        problems_.push_back(
            fmt::format("{} What was written there since is left for `plumb extract`.", each.told));
    give_up_places();
    if (kernel_) {
        take_kernel_problems();
        if (Status removed = kernel_->remove(); !removed) problems_.push_back(removed.error().message());
    } else if (description_.kernel.is_recorded()) {
        KernelSession::remove_kept(description_.cookie);
    }
    kernel_.reset();
    for (const std::string& folder : journal_folders())
        (void)!::unlink(journal_path(folder).c_str());
    answer["output"] = directory_->path();
    answer["problems"] = problems_;
    is_gone_ = true;
    folder_.remove(description_.name);
    return answer;
}

void SessionRecording::end_cut_off() {
    is_cut_off_ = true;
    const Error why =
        Error(
            "{} was removed or replaced while the session recorded, so that nobody could reach it any more: "
            "it was ended, and what programs traced behind that is missing.",
            folder_.sessions().path())
            .hint("systemd-logind removes it at a user's last logout (RemoveIPC=yes), unless `loginctl "
                  "enable-linger` was run for that user.");
    tell(why.message());
    chunk_problems_.push_back(why);
    if (const auto ended = end(); !ended) log_(ended.error().message());
}

/* What nobody reads any more of the session that had this cookie. */
void SessionRecording::tell_left(std::uint64_t cookie) {
    for (const UserPlace& place : places_of(::geteuid())) {
        const auto directory = UserDirectory::open_existing(place);
        if (!directory) continue;
        const auto all = left_channels(*directory);
        for (const LeftChannel& left : all ? *all : std::vector<LeftChannel>())
            if (left.cookie == cookie) tell(left_text(left));
    }
}

/* What nobody has read is left to `plumb extract`, and that is said. */
void SessionRecording::give_up(const Error& why) {
    const std::string text =
        why.with("Session {} is removed, though not all of it could be ended", description_.name).message();
    /* Without a session there is nothing more of it, unless it left something. */
    if (why.number() == ENOENT && directory_)
        log_(text);
    else
        tell(text);
    leave();
    for (const UserPlace& place : places_of(::geteuid())) {
        const auto directory = UserDirectory::open_existing(place);
        if (!directory) continue;
        (void)stop_keeping(*directory, description_.cookie).has_value();
    }
    tell_left(description_.cookie);
    give_up_places();
    if (description_.kernel.is_recorded()) KernelSession::remove_kept(description_.cookie);
    if (!directory_) load_waiting_chunks(); /* which are not to be had either */
    folder_.remove(description_.name);
}

std::vector<std::string> SessionRecording::finish_ending(const DaemonFolder& folder,
                                                         SessionDescription description, Log log) {
    SessionRecording recording(folder, std::move(description), log);
    recording.is_gone_ = true;
    recording.end_triggers();
    recording.description_.triggers.clear();
    const auto give_up = [&](const Error& why) {
        recording.give_up(why);
        return recording.problems_;
    };
    if (Status opened = recording.open_directory(); !opened) return give_up(opened.error());
    auto session = recording.adopt(recording.description_.cookie);
    if (!session) { /* it was ended; what was not read is left for `plumb extract` */
        if (!recording.description_.is_flight_recorder())
            if (const auto closed = recording.close_left_chunks(); !closed)
                recording.tell(closed.error().message());
        recording.give_up_waiting_chunks();
        for (const std::string& each : recording.journal_folders())
            (void)!::unlink(recording.journal_path(each).c_str());
        recording.directory_->keep();
        return give_up(session.error());
    }
    recording.session_ = std::move(*session);
    auto calibration = ClockCalibration::start(recording.description_.clock);
    if (!calibration) return give_up(calibration.error());
    recording.calibration_ = std::move(*calibration);
    if (Status opened = recording.open_kernel(); !opened) recording.tell(opened.error().message());
    auto left = recording.open_drain();
    if (!left) return give_up(left.error());
    if (Status started = recording.start_kernel(*left); !started) recording.tell(started.error().message());
    recording.directory_->keep();
    recording.description_.is_started = false; /* whose rules are not to come back */
    if (Status opened = recording.open_places(std::move(*left)); !opened)
        recording.tell(opened.error().message());
    /* The rules may be gone already, and not everybody have been told: nobody may write any more when the channel closes. */
    if (const auto off = recording.session_->disable(recording.rules()); !off)
        recording.tell(off.error().message());
    if (const auto ended = recording.end(); !ended) return give_up(ended.error());
    return recording.problems_;
}

} // namespace plumb
