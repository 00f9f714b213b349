/* What a session is made of, and how a change of its rules is published and waited for; for session.cc alone. */
#ifndef PLUMB_CONSUMERD_CONTROL_SESSION_PARTS_H
#define PLUMB_CONSUMERD_CONTROL_SESSION_PARTS_H

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
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace plumb {

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
                             "changed the file.")
                    .as(ENOENT);
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
        /* Who found no place would be asked by nobody. */
        if (direction == Switch::on || state.slots_refused() != 0) wait.look_for = to_look_for(changed);
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

} // namespace plumb

#endif
