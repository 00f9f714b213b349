#include "consumerd/control/session.h"
#include "consumerd/control/session_parts.h"

#include "base/mapped_file.h"
#include "base/processes.h"
#include "consumerd/clock/clock_calibration.h"
#include "consumerd/control/group_rules.h"
#include "consumerd/control/kept_sessions.h"
#include "consumerd/control/left_channel.h"
#include "consumerd/control/left_rings.h"
#include "consumerd/control/rule_reach.h"
#include "consumerd/control/rule_set.h"
#include "consumerd/control/seccomp.h"
#include "consumerd/control/unattached.h"

#include <plumb/detail/state_layout.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace plumb {

namespace {

void be_controller_of(plumb_session& session) {
    session.controller_boottime_ns = boottime_now_ns();
    session.controller_process_id = static_cast<std::uint32_t>(::getpid());
    session.controller_namespace = own_namespace();
    session.controller_filters = own_seccomp_filters();
}

constexpr std::uint64_t group_look_ns = 250'000'000;

} // namespace

Session::Session(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

Session::~Session() {
    if (!parts_ || parts_->ended || parts_->is_kept) return;
    parts_->channel.close();
    const std::uint8_t index = parts_->index;
    const std::uint64_t cookie = parts_->channel.cookie();
    const Result<std::uint64_t> removed = parts_->state.edit([&](plumb_rule_set& set) -> Status {
        if (set.sessions[index].cookie != cookie) return Error("It is gone already.");
        set.sessions[index] = {};
        remove_rules(set, [&](const plumb_rule& rule) { return rule.session == index; });
        return ok();
    });
    (void)removed.has_value();
    (void)remove_channel().has_value();
}

Result<Session> Session::create(const ChannelConfig& config, const QuiescenceOptions& options,
                                std::optional<UserPlace> place, std::optional<std::uint64_t> cookie) {
    Result<UserDirectory> directory = UserDirectory::open_or_create(place.value_or(main_place(::geteuid())));
    if (!directory) return directory.error();
    return create_in(std::move(*directory), config, options, cookie);
}

Result<Session> Session::create_in(UserDirectory directory, const ChannelConfig& config,
                                   const QuiescenceOptions& options, std::optional<std::uint64_t> wanted) {
    auto kept = std::make_unique<UserDirectory>(std::move(directory));
    Result<StateFile> state = StateFile::open_or_create(*kept);
    if (!state) return state.error();
    const Result<StateCleanup> cleaned = state->clean_up();
    if (!cleaned) return cleaned.error();
    std::vector<Error> left = tidy_left_channels(*kept);
    left.insert(left.end(), cleaned->problems.begin(), cleaned->problems.end());
    Result<Channel> channel = Channel::create(*kept, config, wanted ? *wanted : random_cookie());
    if (!channel) return channel.error();

    std::uint8_t index = 0;
    const std::uint64_t cookie = channel->cookie();
    const Result<std::uint64_t> taken = state->edit([&](plumb_rule_set& set) -> Status {
        const auto* free = std::find_if(std::begin(set.sessions), std::end(set.sessions),
                                        [](const plumb_session& session) { return session.cookie == 0; });
        if (free == std::end(set.sessions))
            return Error("All {} sessions of this user are taken: so many recordings run at once.",
                         PLUMB_MAX_SESSIONS)
                .hint("Wait for one of them to end, or end it: `plumb list` shows them.");
        index = static_cast<std::uint8_t>(free - set.sessions);
        plumb_session& session = set.sessions[index];
        session = {};
        session.cookie = cookie;
        be_controller_of(session);
        session.flags = (options.filtered_too ? PLUMB_SESSION_FILTERED_TOO : 0) |
                        (config.is_kept ? PLUMB_SESSION_KEPT : 0);
        return copy_text(session.name, config.session_name, "session name");
    });
    if (!taken) {
        (void)kept->unlink_file(channel_file_name(cookie)).has_value();
        return taken.error();
    }
    auto parts = std::unique_ptr<Parts>(
        new Parts{std::move(kept), std::move(*state), std::move(*channel), options, index});
    parts->left = std::move(left);
    return of(std::move(parts));
}

Session Session::of(std::unique_ptr<Parts> parts) {
    parts->is_kept = parts->channel.config().is_kept;
    parts->refused_before = parts->state.slots_refused();
    parts->words = UnattachedWords(parts->state, parts->index);
    parts->claims_before = parts->state.claims();
    return Session(std::move(parts));
}

/* The lock on the channel comes first: with it nobody else is its controller, nor removes it. */
Result<Session> Session::adopt_in(UserDirectory directory, std::uint64_t cookie,
                                  const QuiescenceOptions& options) {
    auto kept = std::make_unique<UserDirectory>(std::move(directory));
    Result<StateFile> state = StateFile::open_or_create(*kept);
    if (!state) return state.error();
    Result<Channel> channel = Channel::adopt(*kept, cookie);
    if (!channel) return channel.error();
    const std::string name = channel_file_name(cookie);
    std::uint8_t index = 0;
    std::vector<plumb_rule> rules;
    const Result<std::uint64_t> taken = state->edit([&](plumb_rule_set& set) -> Status {
        auto* const found =
            std::find_if(std::begin(set.sessions), std::end(set.sessions), [&](const plumb_session& session) {
                return is_kept(session) && session.cookie == cookie;
            });
        if (found == std::end(set.sessions) || !kept->is_named(name, channel->fd()))
            return Error("There is no session that {} is kept for.", kept->path_of_file(name)).as(ENOENT);
        index = static_cast<std::uint8_t>(found - set.sessions);
        be_controller_of(*found);
        std::copy_if(set.rules, set.rules + set.rule_count, std::back_inserter(rules),
                     [&](const plumb_rule& rule) { return rule.session == index; });
        return ok();
    });
    if (!taken) return taken.error();
    auto parts = std::unique_ptr<Parts>(
        new Parts{std::move(kept), std::move(*state), std::move(*channel), options, index});
    if (!rules.empty()) parts->first_generation = *taken;
    for (const plumb_rule& rule : rules)
        parts->groups.adopt(rule);
    parts->own_rules = std::move(rules);
    return of(std::move(parts));
}

void Session::leave() {
    parts_.reset();
}

Result<Report> Session::enable(const std::vector<Rule>& rules) {
    Result<Parts::Encoded> encoded = parts_->encode(rules);
    if (!encoded) return encoded.error();
    return parts_->change(Parts::Switch::on, encoded->rules,
                          [&](plumb_rule_set& set) -> Status { return parts_->add(*encoded, set); });
}

Result<Report> Session::disable(const std::vector<Rule>& rules) {
    Result<Parts::Encoded> encoded = parts_->encode(rules);
    if (!encoded) return encoded.error();
    return parts_->change(Parts::Switch::off, encoded->rules, [&](plumb_rule_set& set) -> Status {
        for (std::size_t i = 0; i < encoded->rules.size(); i++) {
            const ConditionCode& code = encoded->conditions[i];
            plumb_rule& one = encoded->rules[i];
            one.condition = code.empty() ? 0 : find_condition(set, parts_->index, code);
            if (one.condition == 0 && !code.empty()) continue; /* it is not on */
            remove_rules(set, [&](const plumb_rule& rule) { return are_equal(one, rule); });
        }
        return ok();
    });
}

Result<Report> Session::set_rules(const std::vector<Rule>& rules, const std::vector<Rule>& off_since) {
    Result<Parts::Encoded> encoded = parts_->encode(rules);
    if (!encoded) return encoded.error();
    const Result<Parts::Encoded> off = parts_->encode(off_since);
    if (!off) return off.error();
    const auto before = this->rules();
    if (!before) return before.error();
    /* Those that are there as well: who was controller before may have died between publishing them and telling the programs. */
    std::vector<plumb_rule> changed = *before;
    changed.insert(changed.end(), encoded->rules.begin(), encoded->rules.end());
    changed.insert(changed.end(), off->rules.begin(), off->rules.end());
    Result<Report> report = parts_->change(Parts::Switch::on, changed, [&](plumb_rule_set& set) -> Status {
        remove_rules(set, [&](const plumb_rule& rule) { return parts_->is_own(rule); });
        return parts_->add(*encoded, set);
    });
    if (report) parts_->own_rules = encoded->rules;
    return report;
}

Result<std::vector<plumb_rule>> Session::rules() const {
    const auto set = parts_->state.rule_set();
    if (!set) return set.error();
    std::vector<plumb_rule> own;
    std::copy_if((*set)->rules, (*set)->rules + (*set)->rule_count, std::back_inserter(own),
                 [&](const plumb_rule& rule) { return parts_->is_own(rule); });
    return own;
}

Result<Report> Session::close() {
    return stop_all(false);
}

Result<Report> Session::end() {
    if (parts_->ended) {
        QuiescenceOptions wait = parts_->options;
        return wait_until_quiescent(parts_->state, parts_->state.generation(), wait);
    }
    if (!parts_->closed) return stop_all(true);
    const auto removed = parts_->state.edit([&](plumb_rule_set& set) -> Status {
        if (set.sessions[parts_->index].cookie == cookie()) set.sessions[parts_->index] = {};
        return ok();
    });
    if (!removed) return removed.error();
    parts_->ended = true;
    return Report();
}

/* with_session: which is removed in the same step. */
Result<Report> Session::stop_all(bool with_session) {
    const auto before = parts_->state.rule_set();
    if (!before) {
        if (with_session) parts_->channel.close();
        return before.error();
    }
    std::vector<plumb_rule> own;
    std::copy_if((*before)->rules, (*before)->rules + (*before)->rule_count, std::back_inserter(own),
                 [&](const plumb_rule& rule) { return parts_->is_own(rule); });
    const std::vector<Unreachable> not_attached = parts_->not_attached();
    const std::set<std::uint32_t> followed = parts_->followed();
    /* Behind: word is left before the slot forgets. */
    const std::vector<Unreachable> reached_late = parts_->words.of_reached_late(parts_->state);
    Result<Report> report = parts_->change(Parts::Switch::off, own, [&](plumb_rule_set& set) -> Status {
        if (with_session) set.sessions[parts_->index] = {};
        remove_rules(set, [&](const plumb_rule& rule) { return parts_->is_own(rule); });
        return ok();
    });
    /* A closed channel is never opened again: who could not be closed goes on, unless nobody can find the session any more. */
    const bool is_gone = !report && report.error().number() == ENOENT;
    parts_->closed = report || is_gone;
    /* Those that could not be reached stop at their next record. */
    if (parts_->closed || with_session) parts_->channel.close();
    if (!report) return report;
    parts_->ended = with_session;
    for (Disturbed& each : report->disturbed)
        each.is_at_end = true;
    report->disturbed.insert(report->disturbed.end(), parts_->disturbed_later.begin(),
                             parts_->disturbed_later.end());
    for (Unreachable& each : report->unreachable)
        if (followed.contains(each.process_id))
            each.reason =
                "it was recorded, and could not be told that the recording has ended: " + each.reason;
    report->unreachable.insert(report->unreachable.end(), not_attached.begin(), not_attached.end());
    report->reached_late = reached_late;
    return report;
}

Status Session::remove_channel() {
    return parts_->directory->unlink_file(channel_file_name(cookie()));
}

Status Session::check_entrance() const {
    if (Status sound = parts_->directory->check(); !sound) return sound;
    if (Status sound = parts_->state.check(); !sound) return sound;
    const std::string name = channel_file_name(cookie());
    if (!parts_->directory->is_named(name, parts_->channel.fd()))
        return Error("{} was removed or replaced.", parts_->directory->path_of_file(name));
    const auto rules = parts_->state.rule_set();
    if (!rules) return rules.error();
    if ((*rules)->sessions[parts_->index].cookie != cookie())
        return Error("The session is not in {} any more.", parts_->state.path());
    const auto is_there = [&](const plumb_rule& own) {
        return std::any_of((*rules)->rules, (*rules)->rules + (*rules)->rule_count,
                           [&](const plumb_rule& rule) { return are_equal(rule, own); });
    };
    if (!std::all_of(parts_->own_rules.begin(), parts_->own_rules.end(), is_there))
        return Error("Rules of the session are not in {} any more.", parts_->state.path());
    return ok();
}

std::uint32_t Session::processes_without_slot() const {
    return parts_->state.slots_refused() - parts_->refused_before;
}

std::uint32_t Session::programs_begun() const {
    return parts_->state.claims() - parts_->claims_before;
}

std::uint64_t Session::hold_filtered() {
    parts_->channel.ring_memory().reserve_all_if_wanted();
    parts_->left_rings.look(parts_->channel, read_clock(PLUMB_CLOCK_MONOTONIC));
    const bool is_by_groups =
        !parts_->ended && std::any_of(parts_->own_rules.begin(), parts_->own_rules.end(), is_by_group);
    if (is_by_groups) (void)parts_->look_at_groups();
    const std::uint64_t wanted_in_ns = is_by_groups ? group_look_ns : FilterWatch::round_every_ns;
    if (parts_->ended || parts_->options.filtered_too) return wanted_in_ns;
    ask_again(parts_->state, parts_->filters.look(parts_->state, parts_->index),
              [this](std::uint32_t process_id) { return parts_->is_of_user(process_id); });
    return std::min(wanted_in_ns, parts_->filters.wanted_in_ns());
}

Channel& Session::channel() {
    return parts_->channel;
}
const Channel& Session::channel() const {
    return parts_->channel;
}
StateFile& Session::state() {
    return parts_->state;
}
std::uint64_t Session::cookie() const {
    return parts_->channel.cookie();
}
const std::vector<Error>& Session::left_behind() const {
    return parts_->left;
}

const std::string& Session::name() const {
    return parts_->channel.config().session_name;
}

std::string Session::sessions_variable(const char* inherited) const {
    const std::string own = fmt::format("{:016x}", cookie());
    if (inherited == nullptr || *inherited == '\0') return own;
    return fmt::format("{},{}", inherited, own);
}

} // namespace plumb
