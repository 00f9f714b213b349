#include "consumerd/control/session.h"

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

struct Session::Parts {
    std::unique_ptr<UserDirectory> directory; /* the state file keeps its address */
    StateFile state;
    Channel channel;
    QuiescenceOptions options;
    std::uint8_t index = 0;
    bool closed = false, ended = false;
    bool is_kept = false;
    std::uint64_t first_generation = 0; /* that knows the session with rules; 0: it never had any */
    FilterWatch filters{};
    LeftRings left_rings{};
    std::map<std::uint32_t, OwnName> own_names{}; /* of processes that rules speak of */
    std::vector<plumb_rule> own_rules{};          /* that are on */
    std::uint32_t refused_before = 0;             /* processes, for want of a slot */
    UnattachedWords words{};
    std::uint32_t claims_before = 0;
    GroupRules groups{};
    std::vector<Disturbed> disturbed_later{}; /* those that were told of groups */
    std::vector<Error> left{}; /* what killed recorders left, and was removed or can not be opened now */

    bool is_own(const plumb_rule& rule) const { return rule.session == index; }

    /* Whether a change of the rule can make a difference to the process. Who was launched is read from memory
     * that the process may have written over since it asked, so one that maps the channel is concerned too; who
     * neither shows that it was launched nor maps it has nothing to do with the session. */
    bool concerns(const plumb_rule& rule, const ProcessSlot& slot) const {
        if (PLUMB_WHO_OF(rule.who) != PLUMB_WHO_PROCESS &&
            slot.process_id() == static_cast<std::uint32_t>(::getpid()))
            return false; /* nor does the runtime take it for ours */
        if (is_for(rule, channel.cookie(), slot)) return true;
        return PLUMB_WHO_OF(rule.who) == PLUMB_WHO_LAUNCHED && slot.process_id() != 0 &&
               maps_channel(slot.process_id());
    }

    /* Another user may have written any process id into a state file of that user's: who does not run as that user, and
     * does not map that file, is none of ours. */
    bool is_of_user(std::uint32_t process_id) const {
        if (directory->user_id() == ::geteuid()) return true;
        if (process_id == 0) return false;
        const Result<ProcessStatus> status = process_status(process_id);
        if (!status) return false;
        return (status->user_id == directory->user_id() ||
                status->effective_user_id == directory->user_id()) &&
               state.may_be_mapped_by(process_id);
    }

    bool is_concerned(const ProcessSlot& slot) const {
        const auto set = state.rule_set();
        if (!set) return false;
        const plumb_rule* const rules = (*set)->rules;
        return std::any_of(rules, rules + (*set)->rule_count,
                           [&](const plumb_rule& rule) { return is_own(rule) && concerns(rule, slot); });
    }

    /* Whose slot is still there although it has ended can not be asked any more whether the rules concern it, but it knew.
     * Another user's state file is not believed so far. */
    bool has_ended(const ProcessSlot& slot) const {
        if (directory->user_id() != ::geteuid()) return false;
        if (slot.sight.kind == Sight::gone) return true;
        return slot.process_id() != 0 &&
               !is_same_process(slot.process_id(), slot.content.registered_boottime_ns);
    }

    /* Those that should write to it now and said that they can not: also who began later, and was not waited for, and who
     * has ended since. */
    std::vector<Unreachable> not_attached() const {
        std::vector<Unreachable> all;
        for (const ProcessSlot& slot : state.processes()) {
            if (!slot.is_ready() || first_generation == 0 || slot.content.acknowledged < first_generation ||
                !has_not_attached(slot.content, index))
                continue;
            if (has_ended(slot)) {
                if (!plumb_was_not_asked(slot.content.error))
                    all.push_back({slot.own_name().process_id, ended_reason(slot.content.error)});
            } else if (slot.process_id() != 0 && is_of_user(slot.process_id()) && is_concerned(slot)) {
                all.push_back({slot.process_id(), not_attached_reason(slot.content.error)});
            }
        }
        const std::vector<Unreachable> gone = words.of_ended(state);
        all.insert(all.end(), gone.begin(), gone.end());
        const std::vector<Unreachable> old = too_old_for(own_rules);
        all.insert(all.end(), old.begin(), old.end());
        return all;
    }

    /* Those that are meant by rules which the runtime in them does not know. */
    std::vector<Unreachable> too_old_for(const std::vector<plumb_rule>& rules) const {
        std::vector<plumb_rule> newer;
        std::copy_if(rules.begin(), rules.end(), std::back_inserter(newer), is_unknown_before_4_1);
        std::vector<Unreachable> all;
        if (newer.empty()) return all;
        for (const ProcessSlot& slot : state.processes()) {
            if (!slot.is_ready() || slot.process_id() == 0 || has_ended(slot)) continue;
            if ((slot.content.flags & PLUMB_PROCESS_RULES_4_1) != 0 || !is_of_user(slot.process_id()))
                continue;
            if (std::any_of(newer.begin(), newer.end(),
                            [&](const plumb_rule& rule) { return concerns(rule, slot); }))
                all.push_back({slot.process_id(), older_than_rules_reason});
        }
        return all;
    }

    /* A process in a cgroup namespace that rules do not name can not know: it says so in its slot, and is told. Who was, and
     * follows. */
    std::set<std::uint32_t> look_at_groups() {
        std::set<std::uint32_t> told = groups.name_to_new(
            state, index, [this](std::uint32_t process_id) { return is_of_user(process_id); });
        if (told.empty()) return told;
        const auto rename = [&](plumb_rule& rule) {
            if (is_own(rule)) groups.rename(rule);
        };
        const auto generation = state.edit([&](plumb_rule_set& set) -> Status {
            std::for_each(set.rules, set.rules + set.rule_count, rename);
            return ok();
        });
        if (!generation) return {}; /* check_entrance() says why */
        std::for_each(own_rules.begin(), own_rules.end(), rename);
        QuiescenceOptions wait = options;
        wait.holder = index;
        wait.session = index;
        wait.concerns = [&](const ProcessSlot& slot) { return told.contains(slot.process_id()); };
        const auto report = wait_until_quiescent(state, *generation, wait);
        if (!report) return {};
        disturbed_later.insert(disturbed_later.end(), report->disturbed.begin(), report->disturbed.end());
        for (const Unreachable& each : report->unreachable)
            told.erase(each.process_id);
        return told;
    }

    /* Those that run when rules are first switched on are told before that is done, and nothing of theirs is missing. */
    void tell_of_groups(Report& report, bool is_first) {
        if (groups.empty()) return;
        const std::set<std::uint32_t> told = look_at_groups();
        std::erase_if(report.unreachable,
                      [&](const Unreachable& each) { return told.contains(each.process_id); });
        report.acknowledged.insert(report.acknowledged.end(), told.begin(), told.end());
        if (is_first && !told.empty()) words = UnattachedWords(state, index);
    }

    /* Those whose every runtime writes to it, as far as it should. */
    std::set<std::uint32_t> followed() const {
        std::set<std::uint32_t> all, not_all;
        for (const ProcessSlot& slot : state.processes())
            (first_generation != 0 && slot.content.acknowledged >= first_generation &&
                     !has_not_attached(slot.content, index)
                 ? all
                 : not_all)
                .insert(slot.process_id());
        std::erase_if(
            all, [&](std::uint32_t process_id) { return process_id == 0 || not_all.contains(process_id); });
        return all;
    }

    bool maps_channel(std::uint32_t process_id) const {
        struct stat info {};
        if (::fstat(channel.fd(), &info) != 0) return false;
        const Result<std::vector<MappedFile>> files = mapped_files(process_id);
        if (!files) return false; /* not ours to see: a bystander */
        return std::any_of(files->begin(), files->end(), [&](const MappedFile& file) {
            return file.device == info.st_dev && file.inode == info.st_ino;
        });
    }

    /* Whose slot may be missing; who is launched later finds the session by itself. */
    std::optional<std::vector<std::uint32_t>> to_look_for(const std::vector<plumb_rule>& changed) const {
        std::vector<std::uint32_t> named;
        for (const plumb_rule& rule : changed) {
            if (PLUMB_WHO_OF(rule.who) == PLUMB_WHO_LAUNCHED) continue;
            if (PLUMB_WHO_OF(rule.who) != PLUMB_WHO_PROCESS) return std::vector<std::uint32_t>();
            for (const auto& [process_id, own] : own_names) /* rules call it by its own number */
                if (own.process_id == rule.who_id && own.space == rule.who_namespace)
                    named.push_back(process_id);
        }
        if (named.empty()) return {};
        return named;
    }

    enum class Switch { on, off };

    /* Publishes the change and waits for those whom the changed rules concern. */
    Result<Report> change(Switch direction, const std::vector<plumb_rule>& changed,
                          const std::function<Status(plumb_rule_set&)>& edit) {
        const std::uint64_t cookie = channel.cookie();
        if (!options.filtered_too)
            plumb::hold_filtered(state, index); /* before anybody can follow what is published */
        const Result<std::uint64_t> generation = state.edit([&](plumb_rule_set& set) -> Status {
            if (set.sessions[index].cookie != cookie)
                return Error("The session is not in the state file any more: another program removed it, or "
                             "changed the file.");
            return edit(set);
        });
        if (!generation) return generation.error();
        const bool is_first = first_generation == 0;
        if (is_first) first_generation = *generation;
        std::erase_if(own_rules, [&](const plumb_rule& own) {
            return std::any_of(changed.begin(), changed.end(),
                               [&](const plumb_rule& rule) { return are_equal(rule, own); });
        });
        if (direction == Switch::on) own_rules.insert(own_rules.end(), changed.begin(), changed.end());
        QuiescenceOptions wait = options;
        wait.holder = index;
        /* Who could not open the channel writes nothing there: that matters only to who switches on. */
        if (direction == Switch::on) wait.session = index;
        if (direction == Switch::on) wait.look_for = to_look_for(changed);
        wait.concerns = [this, &changed](const ProcessSlot& slot) {
            return is_of_user(slot.process_id()) &&
                   std::any_of(changed.begin(), changed.end(),
                               [&](const plumb_rule& rule) { return concerns(rule, slot); });
        };
        Result<Report> report = wait_until_quiescent(state, *generation, wait);
        if (report && direction == Switch::on) {
            tell_of_groups(*report, is_first);
            for (Unreachable& each : too_old_for(changed))
                report->unreachable.push_back(std::move(each));
        }
        return report;
    }

    /* A process looks for itself in the rules, so a rule calls it by its own number. Remembered: the rule must be found
     * again when the process has ended. */
    OwnName own_name_of(std::uint32_t process_id) {
        const auto known = own_names.find(process_id);
        if (known != own_names.end()) return known->second;
        return own_names.emplace(process_id, state.own_name_of(process_id)).first->second;
    }

    /* Where conditions stand is known when the rules are changed. */
    struct Encoded {
        std::vector<plumb_rule> rules;
        std::vector<ConditionCode> conditions; /* of each of them */
    };
    Result<Encoded> encode(const std::vector<Rule>& rules) {
        Encoded encoded;
        for (const Rule& rule : rules) {
            Result<plumb_rule> one = encode_rule(rule, index);
            if (!one) return one.error();
            Result<ConditionCode> code = encode_rule_condition(rule);
            if (!code) return code.error();
            if (rule.who.kind == PLUMB_WHO_PROCESS) {
                const OwnName name = own_name_of(rule.who.id);
                one->who_id = name.process_id;
                one->who_namespace = name.space;
            }
            if (rule.who.kind == PLUMB_WHO_CGROUP) groups.encode(rule.who.cgroup, *one);
            encoded.rules.push_back(*one);
            encoded.conditions.push_back(std::move(*code));
        }
        return encoded;
    }

    Status add(Encoded& encoded, plumb_rule_set& set) const {
        for (std::size_t i = 0; i < encoded.rules.size(); i++) {
            if (!encoded.conditions[i].empty()) {
                const auto place = place_condition(set, index, encoded.conditions[i]);
                if (!place) return place.error();
                encoded.rules[i].condition = *place;
            }
            if (Status added = add_rule(set, encoded.rules[i]); !added) return added;
        }
        return ok();
    }
};

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

Result<Report> Session::set_rules(const std::vector<Rule>& rules) {
    Result<Parts::Encoded> encoded = parts_->encode(rules);
    if (!encoded) return encoded.error();
    const auto before = this->rules();
    if (!before) return before.error();
    /* Those that are there as well: who was controller before may have died between publishing them and telling the programs. */
    std::vector<plumb_rule> changed = *before;
    changed.insert(changed.end(), encoded->rules.begin(), encoded->rules.end());
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
        parts_->channel.close();
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
    /* Those that could not be reached stop at their next record. */
    parts_->channel.close();
    if (!report) return report;
    parts_->closed = true;
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
