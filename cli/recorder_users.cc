/* Whom a recorder records besides: programs of other users, and those that look in another directory than its session is in. */
#include "cli/recorder.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/control/directory_keeper.h"

#include <fmt/format.h>

#include <unistd.h>

#include <memory>
#include <vector>

namespace plumb {
namespace {

/* How often it is looked for programs that changed their user: often while a command begins, when it is done. */
constexpr std::uint64_t steady_tick_ns = 200'000'000;
constexpr std::uint64_t eager_tick_ns = 25'000'000;
constexpr std::uint64_t eager_ns = 10'000'000'000;

} // namespace

/* Before the first rule is on: a program of root's state that has changed its user looks for the channel there. */
Status Recorder::open_other_users(const ChannelConfig& config, const ClockCalibration& calibration) {
    if (!wants_programs(options_)) return ok();
    std::vector<uid_t> named;
    for (const std::string& text : options_.users) {
        const auto user_id = parse_user(text);
        if (!user_id) return user_id.error().with("--user");
        named.push_back(*user_id);
    }
    const bool has_others = geteuid() == 0;
    if (options_.all_users && (!has_others || options_.snapshot))
        return Error("--all-users: {}.", options_.snapshot
                                             ? "a flight recorder keeps events of one user alone"
                                             : "only root can record programs of other users");
    if ((!has_others || options_.snapshot) && !named.empty())
        return Error("--user: {}.", options_.snapshot ? "a flight recorder keeps events of one user alone"
                                                      : "only root can record programs of other users");
    other_users_ = std::make_unique<OtherUsers>(
        OtherUsers::Options{config, *rules_of(options_), session_->cookie(), quiescence(),
                            drain_options(trace_path()), options_.snapshot, options_.has_chunks()},
        calibration);
    for (const uid_t user_id : named) {
        auto joined = other_users_->join(user_id, true);
        if (!joined) return joined.error();
        take(*joined);
    }
    if (has_others)
        for (const auto& [process_id, start_ns] : attached_)
            if (const auto user_id = user_of(process_id)) join(*user_id);
    if (has_others)
        for (const auto& [process_id, start_ns] : attached_)
            take_join(other_users_->join_container_of(process_id));
    if (options_.all_users) {
        other_users_->look_for_unseen_programs();
        other_users_->open_for_everybody();
        other_users_->join_later([this](const Result<Report>& joined) { take_join(joined); });
    }
    /* A flight recorder joins nobody, and says so of those whom it was asked for. */
    const bool any =
        !options_.snapshot && attached_.empty() && (options_.command.empty() || options_.names_open());
    const auto is_meant = [&](std::uint32_t process_id) { return any || attached_.count(process_id) != 0; };
    take_join(other_users_->join_own(is_meant, any || !options_.command.empty()));
    if (!has_others) return ok();
    if (!options_.all_users && (!options_.command.empty() || !attached_.empty()))
        other_users_->look_for_unseen_programs();
    for (const ProcessSlot& slot : session_->state().processes())
        if (const auto user_id = user_of(slot.process_id()); user_id && is_meant(slot.process_id()))
            join(*user_id);
    return ok();
}

void Recorder::join(uid_t user_id) {
    take_join(other_users_->join(user_id));
}

void Recorder::take_join(const Result<Report>& joined) {
    take_end(joined);
    if (!joined) status_.say(joined.error().message());
}

std::uint64_t Recorder::other_users_tick_ns() const {
    return elapsed_ns() < eager_ns || options_.all_users ? eager_tick_ns : steady_tick_ns;
}

/* Whoever comes; else nobody but those who are there is asked after now and then. */
bool Recorder::looks_for_other_users() const {
    return other_users_ &&
           (command_ || options_.all_users || !options_.users.empty() || has_several_keepers());
}

/* Who was launched as root may be somebody else by now. */
void Recorder::look_for_other_users() {
    if (!other_users_ || elapsed_ns() < next_look_ns_) return;
    next_look_ns_ = elapsed_ns() + other_users_tick_ns();
    if (!directory_->check()) return; /* what is made at its path would be another trace */
    other_users_->goes_to(trace_path());
    const auto take_late = [this](const Result<Report>& joined) {
        take_join(joined);
        if (joined) take_found_late(*joined);
    };
    other_users_->join_later(take_late);
    if (command_ && (geteuid() == 0 || has_several_keepers())) other_users_->join_launched(take_late);
    if (geteuid() != 0 || options_.snapshot) return;
    for (const auto& [process_id, start_ns] : attached_) {
        const auto user_id = user_of(process_id);
        if (!user_id || *user_id == geteuid() || other_users_->records(*user_id) ||
            other_users_->why_not(*user_id))
            continue;
        take_late(joined_for(process_id, *user_id));
    }
}

/* It may end before it is asked to follow. */
Result<Report> Recorder::joined_for(std::uint32_t process_id, uid_t user_id) {
    Result<Report> joined = other_users_->join(user_id);
    if (!joined || process_start_boottime_ns(process_id)) return joined;
    const auto is_in = [&](const std::vector<std::uint32_t>& ids) {
        return std::find(ids.begin(), ids.end(), process_id) != ids.end();
    };
    if (!is_in(joined->acknowledged) && !is_in(joined->ended)) joined->ended.push_back(process_id);
    return joined;
}

/* They began as that user, or their last program did: until now nobody wanted their events. */
void Recorder::take_found_late(const Report& joined) {
    const char* const whom = options_.command.empty() ? "recorder" : "command";
    Unreachable late{
        0, fmt::format("what it traced before is missing, since it is another user's than the {}, or "
                       "looks in another directory, and was found after it had begun (--user records "
                       "a user's programs from their beginning)",
                       whom)};
    for (const std::uint32_t process_id : joined.acknowledged) {
        late.process_id = process_id;
        summary_.reached_late.push_back(late);
    }
    Unreachable missed{
        0, fmt::format("it ended when it had just been found: what it traced is missing, since it was "
                       "another user's than the {}, or looked in another directory (--user records a "
                       "user's programs from their beginning)",
                       whom)};
    for (const std::uint32_t process_id : joined.ended) {
        missed.process_id = process_id;
        summary_.unreachable.push_back(missed);
    }
}

static constexpr const char* ended_as_other_user = "it ended as user {0} before it was found: what it traced "
                                                   "then is missing (`--user {0}` records that user's "
                                                   "programs from their beginning)";

/* It may have become another program as that user, and ended before anybody looked. */
bool Recorder::ended_as_unseen_user() {
    if (!other_users_ || !command_ || !command_->has_ended()) return false;
    const auto user_id = command_->ended_as();
    if (!user_id || *user_id == getuid() || other_users_->records(*user_id)) return false;
    const auto command_id = static_cast<std::uint32_t>(command_->process_id());
    if (other_users_->was_unseen_as(command_id) != user_id) return false; /* it had no tracepoints then */
    if (other_users_->unseen_programs_of(*user_id) <= 1) summary_.unseen_users.erase(*user_id);
    summary_.unreachable.push_back({command_id, fmt::format(ended_as_other_user, *user_id)});
    return true;
}

/* Of those that were named: who has changed its user, become another program, and ended before it was found again. */
void Recorder::find_attached_ended_unseen() {
    if (!other_users_) return;
    for (const auto& [process_id, start_ns] : attached_) {
        if (is_same_process(process_id, start_ns)) continue;
        const auto is_it = [id = process_id](const Unreachable& each) { return each.process_id == id; };
        if (std::any_of(summary_.unreachable.begin(), summary_.unreachable.end(), is_it) ||
            std::any_of(summary_.reached_late.begin(), summary_.reached_late.end(), is_it))
            continue;
        if (const auto user_id = other_users_->was_unseen_as(process_id);
            user_id && !other_users_->records(*user_id))
            summary_.unreachable.push_back({process_id, fmt::format(ended_as_other_user, *user_id)});
    }
}

void Recorder::find_unseen_users() {
    find_attached_ended_unseen();
    if (!other_users_ || (!command_ && !options_.all_users)) return;
    summary_.unseen_users = other_users_->unseen_users();
    const auto user_id = command_ && command_->has_ended() ? command_->ended_as() : std::nullopt;
    if (user_id && summary_.unseen_users.count(*user_id) != 0) ended_as_unseen_user();
}

} // namespace plumb
