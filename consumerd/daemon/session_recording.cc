#include "consumerd/daemon/session_recording.h"
#include "consumerd/control/kept_sessions.h"

#include "base/processes.h"
#include "consumerd/control/control_groups.h"
#include "consumerd/control/left_channel.h"
#include "consumerd/control/ring_sizes.h"
#include "consumerd/control/rule_filters.h"
#include "consumerd/control/traced_processes.h"
#include "consumerd/daemon/drain_lines.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace plumb {
namespace {

/* Of events that come, as of the processor's wake-ups when none do: the drain has its own. */
constexpr std::uint64_t idle_ns = 2'000'000'000;

std::vector<Rule> rules_in(const std::vector<DescribedRule>& described) {
    std::vector<Rule> rules;
    for (const DescribedRule& each : described)
        rules.push_back(each.rule);
    return rules;
}

} // namespace

Result<std::unique_ptr<SessionRecording>> SessionRecording::begin(const DaemonFolder& folder,
                                                                  SessionDescription description, Log log) {
    std::unique_ptr<SessionRecording> recording(
        new SessionRecording(folder, std::move(description), std::move(log)));
    const bool is_new = recording->description_.cookie == 0;
    Status opened = recording->open();
    if (opened) return recording;
    if (is_new) recording->undo();
    return opened.error();
}

/* Nobody will look for it again, and nobody was killed: no channel is left for `plumb extract`. What could not be removed is found by
 * the description's cookie. */
void SessionRecording::undo() {
    bool is_all = true;
    const auto note = [&is_all](bool done) { is_all = is_all && done; };
    if (session_) note(session_->end().has_value());
    if (places_) places_->close([&](const Result<Report>& each) { note(each.has_value()); });
    if (drain_) {
        drain_->stop();
        (void)drain_->finish().has_value();
    }
    if (places_) {
        DrainTotals totals;
        std::vector<Error> problems;
        places_->finish(totals, problems);
        places_.reset();
    }
    if (kernel_)
        note(kernel_->remove().has_value());
    else if (description_.kernel.is_recorded())
        KernelSession::remove_kept(description_.cookie);
    if (session_) note(session_->remove_channel().has_value());
    if (directory_)
        for (const std::string& each : journal_folders())
            (void)!::unlink(journal_path(each).c_str());
    leave();
    if (!is_all || !description_.places.empty()) return;
    description_.cookie = 0;
    (void)store().has_value();
}

SessionRecording::~SessionRecording() {
    if (!is_gone_) leave();
}

QuiescenceOptions SessionRecording::quiescence() const {
    QuiescenceOptions options;
    options.filtered_too = description_.filtered_too;
    return options;
}

Status SessionRecording::store() const {
    if (is_cut_off_) return ok();
    return folder_.write(description_.name, description_as_json(description_, true).dump(2) + "\n");
}

/* Of a change that could not be made. The file may say that it was, and is tried again until it does not: the worker behind a death of
 * ours believes it. */
void SessionRecording::store_taken_back() {
    const Status stored = store();
    if (!stored && !must_store_again_)
        tell(stored.error()
                 .with("The description of session {} says what was not done, until it can be written",
                       description_.name)
                 .message());
    must_store_again_ = !stored;
}

std::vector<Rule> SessionRecording::rules() const {
    return rules_in(description_.rules);
}

Status SessionRecording::open() {
    begun_ns_ = read_clock(PLUMB_CLOCK_MONOTONIC);
    auto calibration = ClockCalibration::start(description_.clock);
    if (!calibration) return calibration.error();
    description_.clock = calibration->mode();
    ChannelConfig config = description_.channel_config();
    config.clock_mode = calibration->mode();
    if (description_.subbuf_count == 0) choose_ring_sizes(config, description_.subbuf_bytes == 0);
    if (Status possible = check_memory_for(config); !possible) return possible;
    description_.subbuf_bytes = config.subbuf_bytes;
    description_.subbuf_count = config.subbuf_count;
    if (Status opened = open_directory(); !opened) return opened;
    if (Status opened = open_session(config); !opened) return opened;
    calibration_ = std::move(*calibration);
    if (Status opened = open_kernel(); !opened) return opened.error();
    auto left = open_drain();
    if (!left) return left.error();
    if (Status started = start_kernel(*left); !started) return started.error();
    directory_->keep();
    if (Status opened = open_places(std::move(*left)); !opened) return opened;
    /* Whatever is on: what is described is what is meant. */
    auto begun =
        session_->set_rules(description_.is_started ? rules() : std::vector<Rule>(), rules_off_since());
    if (!begun) return begun.error();
    if (Status stored = note_rules_off({}); !stored) log_(stored.error().message()); /* told once more */
    unreachable_.insert(unreachable_.end(), begun->unreachable.begin(), begun->unreachable.end());
    open_triggers();
    return ok();
}

/* The supervisor has made it. What stands there now may be another one, without the journal that says what is written already, or with
 * a copy of it. Snapshots may go to any: what they hold is in the description. */
Status SessionRecording::open_directory() {
    auto directory = TraceDirectory::take_over(description_.output, log_);
    if (!directory) return directory.error();
    const FolderIdentity found = directory->identity();
    const bool is_another = description_.directory.is_known() && !description_.directory.is_same(found);
    if (is_another && !description_.is_flight_recorder())
        return Error("{} is not the directory of the session, but another one in its place: what was written "
                     "is in the one that was moved away, or removed.",
                     description_.output)
            .hint("Move that one back, and the session goes on; or end it with `plumb destroy`, and `plumb "
                  "extract` makes a trace of what is in none yet.");
    description_.directory = found; /* stored with the cookie, or with the next change */
    directory_.emplace(std::move(*directory));
    return ok();
}

/* Programs of ours look in one of them, and it may be another one than it was: plumb.ko comes and goes. */
Result<Session> SessionRecording::adopt(std::uint64_t cookie) const {
    std::optional<Error> problem;
    for (const UserPlace& place : places_of(::geteuid())) {
        auto directory = UserDirectory::open_existing(place);
        if (!directory) continue;
        auto session = Session::adopt_in(std::move(*directory), cookie, quiescence());
        if (session) return session;
        if (!problem || problem->number() == ENOENT) problem = session.error();
    }
    return problem ? *problem : Error("There is no directory of user {}.", ::geteuid()).as(ENOENT);
}

/* In the summary of its first chunk, too. */
void SessionRecording::begins_anew(const Error& problem) {
    tell(problem.message());
    chunk_problems_.push_back(problem);
}

/* The cookie is stored before there is anything of that name: whoever comes next finds what there is. */
Status SessionRecording::open_session(ChannelConfig config) {
    if (description_.cookie != 0) {
        auto session = adopt(description_.cookie);
        if (session) {
            session_ = std::move(*session);
            return ok();
        }
        const Error& why = session.error();
        if (why.number() != ENOENT && why.number() != EBADMSG) return why;
        begins_anew(why.with("The session begins anew, since its channel can not be taken over"));
        if (why.number() == EBADMSG)
            for (const UserPlace& place : places_of(::geteuid()))
                if (const auto directory = UserDirectory::open_existing(place))
                    (void)stop_keeping(*directory, description_.cookie).has_value();
        give_up_places(); /* by the cookie that they were made with */
        description_.ring_places.clear();
        if (description_.kernel.is_recorded()) KernelSession::remove_kept(description_.cookie);
        description_.kernel.is_made = false;
    }
    const std::uint64_t cookie_before = std::exchange(description_.cookie, random_cookie());
    if (Status stored = store(); !stored) return stored;
    config.is_kept = true;
    auto session = Session::create(config, quiescence(), {}, description_.cookie);
    if (!session) return session.error();
    session_ = std::move(*session);
    for (const Error& each : session_->left_behind())
        log_(each.message());
    if (cookie_before != 0) tell_left(cookie_before);
    return ok();
}

/* Before what the worker before us left is closed: of that the kernel knows what is missing. */
Status SessionRecording::open_kernel() {
    if (!description_.kernel.is_recorded()) return ok();
    note_kernel_events(session_->channel().header());
    KernelPart::Options options;
    options.cookie = description_.cookie;
    options.clock = calibration_->mode();
    options.staged_path = folder_.sessions().path_of_file(DaemonFolder::kernel_pages_file(description_.name));
    options.log = log_;
    const bool was_made = description_.kernel.is_made;
    auto kernel = KernelPart::open(description_.kernel, std::move(options));
    if (!kernel) return kernel.error();
    kernel_ = std::move(*kernel);
    take_kernel_problems();
    return was_made ? ok() : store();
}

Status SessionRecording::start_kernel(std::map<std::string, LeftTrace>& left) {
    if (!kernel_) return ok();
    std::optional<LeftTrace> of_kernel;
    if (auto found = left.extract(KernelPart::folder); !found.empty()) of_kernel = std::move(found.mapped());
    Status started = kernel_->start(chunks_->path(), journal_path(KernelPart::folder), std::move(of_kernel),
                                    *drain_, description_.is_started && !description_.is_ending);
    take_kernel_problems();
    return started;
}

void SessionRecording::take_kernel_problems() {
    for (const std::string& text : kernel_->take_problems())
        problems_.push_back(text);
}

ChannelDrainOptions SessionRecording::drain_options(const std::string& directory) {
    ChannelDrainOptions options;
    options.directory = directory;
    options.trace_name = description_.name;
    options.is_compact = !description_.is_plain;
    options.log = [log = log_](const std::string& line) {
        note_drain_line(line);
        log(line);
    };
    options.idle_interval_ns = idle_ns;
    options.without_journal = [this](const std::string& journal) { tell_without_journal(journal); };
    return options;
}

void SessionRecording::tell_without_journal(const std::string& journal) {
    Error problem(
        "{} is not there, or can not be believed, so it is not known how far the worker before had come. Its "
        "last events may be there twice, here and in the chunk before, which has no summary; of what it lost "
        "nothing is known.",
        journal);
    tell(problem.message());
    chunk_problems_.push_back(std::move(problem));
}

Result<std::map<std::string, LeftTrace>> SessionRecording::open_drain() {
    if (description_.is_flight_recorder()) {
        finish_left_snapshot();
        calibration_->publish(session_->channel().header().clock);
        return std::map<std::string, LeftTrace>();
    }
    auto left = close_left_chunks();
    if (!left) return left.error();
    const auto first = chunks_->make();
    if (!first) return first.error();
    chunks_->enter();
    ChannelDrainOptions options = drain_options(*first);
    options.ring_memory = session_->channel().ring_memory();
    options.made_as = session_->channel().made_as();
    options.journal = journal_path();
    if (auto own = left->extract(""); !own.empty()) options.left = std::move(own.mapped());
    auto drain = drain_live_channel(session_->channel().bytes(), *calibration_, std::move(options));
    if (!drain) return drain.error();
    drain_ = std::move(*drain);
    if (Status kept = drain_->keep_for_chunks(); !kept) return kept.error();
    if (Status started = drain_->start(); !started) return started.error();
    chunk_began_ = drain_->now();
    chunk_began_ns_ = read_clock(PLUMB_CLOCK_MONOTONIC);
    next_rotation_ns_ = chunk_began_ns_ + description_.rotate_period_ns;
    return left;
}

/* Programs that begin later find the session through files that others of this user may damage or remove, as logind does when a user
 * logs out. It is told once, and in the summary of each chunk from then on. */
void SessionRecording::look_at_entrance() {
    const Channel& channel = session_->channel();
    const auto lasts = [this](const Error& problem) {
        tell(problem.message());
        chunk_problems_.push_back(problem);
        lasting_problems_.push_back(problem);
    };
    if (!channel_was_shortened_ && channel.was_truncated()) {
        channel_was_shortened_ = true;
        lasts(Error("Another program has shortened the session's channel ({}): events of it are lost, and "
                    "nothing more comes from it.",
                    channel.path())
                  .hint("Make the session anew."));
    }
    if (!channel_is_closed_ && !description_.is_ending && channel.is_closed()) {
        channel_is_closed_ = true;
        lasts(Error("The session's channel ({}) was closed by another program: nothing more is recorded.",
                    channel.path())
                  .hint("Make the session anew."));
    }
    if (entrance_is_lost_) return;
    const Status open = session_->check_entrance();
    if (open) return;
    entrance_is_lost_ = true;
    lasts(open.error()
              .with("Programs that started since are not recorded")
              .hint("Make the session anew; those that ran before are recorded until then."));
}

void SessionRecording::leave() {
    is_gone_ = true;
    if (places_) places_->leave();
    places_.reset();
    kernel_.reset();
    if (drain_) drain_->stop();
    drain_.reset();
    armed_.clear();
    if (session_) session_->leave();
    session_.reset();
}

std::uint64_t SessionRecording::look() {
    const std::uint64_t now_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
    sample(now_ns);
    if (must_store_again_) store_taken_back();
    std::uint64_t again_ns = std::min(idle_ns, look_at_triggers());
    leave_off_ended();
    look_at_entrance();
    again_ns = std::min({again_ns, session_->hold_filtered(), look_at_places()});
    if (!drain_) return again_ns;
    if (kernel_) {
        kernel_->look();
        take_kernel_problems();
    }
    look_at_chunks(now_ns);
    if (!waiting_chunks_.is_empty() && now_ns >= next_finish_ns_) finish_waiting_chunks();
    if (description_.rotate_period_ns != 0) {
        const std::uint64_t later_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
        again_ns = std::min(again_ns, next_rotation_ns_ - std::min(next_rotation_ns_, later_ns));
    }
    return again_ns;
}

} // namespace plumb
