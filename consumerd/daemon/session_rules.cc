/* What a session records, and whether: its rules are changed, and it is started and stopped, in all places at once. */
#include "consumerd/daemon/session_recording.h"

#include "base/processes.h"
#include "consumerd/control/control_groups.h"
#include "consumerd/control/event_pattern.h"
#include "consumerd/control/no_tracepoints.h"
#include "consumerd/control/rule_filters.h"
#include "consumerd/control/traced_lttng.h"
#include "consumerd/control/traced_processes.h"
#include "consumerd/places/why_unreachable.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <utility>

namespace plumb {
namespace {

constexpr std::size_t processes_read = 64; /* the files of more are not read for a hint */
/* As `plumb record -p` has them. */
constexpr std::uint64_t exec_patience_ns = 1'000'000'000;
constexpr unsigned exec_look_us = 10'000;

bool is_for_same(const Who& a, const Who& b) {
    return a.kind == b.kind && a.id == b.id && a.executable == b.executable && a.cgroup == b.cgroup;
}

bool is_same_rule(const Rule& a, const Rule& b) {
    return a.pattern == b.pattern && is_for_same(a.who, b.who) && a.levels == b.levels &&
           a.condition == b.condition;
}

/* Whether a rule is what was named: by its pattern, and by whatever else was said. */
bool is_named(const Rule& rule, const Rule& which) {
    return rule.pattern == which.pattern &&
           (which.who.kind == PLUMB_WHO_ALL || is_for_same(rule.who, which.who)) &&
           (which.levels.are_all() || which.levels == rule.levels) &&
           (which.condition.empty() || which.condition == rule.condition);
}

} // namespace

/* Of processes that are named all events are known, as far as they are loaded: a filter that makes no sense of them is a slip. */
Status SessionRecording::check_filters_for(const std::vector<Rule>& added) const {
    const bool has_filters =
        std::any_of(added.begin(), added.end(), [](const Rule& rule) { return !rule.condition.empty(); });
    if (!has_filters) return ok();
    const auto running = traced_processes(const_cast<Session&>(*session_).state());
    if (!running) return ok();
    LttngReader lttng;
    for (const Rule& rule : added) {
        if (rule.who.kind != PLUMB_WHO_PROCESS) continue;
        std::vector<EventDescription> events;
        bool are_all_known = true;
        for (const TracedProcess& process : *running) {
            if (process.process_id != rule.who.id) continue;
            are_all_known &= add_lttng_events(lttng, process.process_id, events);
            for (const TracedObject& object : process.objects)
                events.insert(events.end(), object.content.events.begin(), object.content.events.end());
        }
        if (Status sensible = are_all_known ? check_filters({rule}, events) : ok(); !sensible)
            return sensible.error().with("The filter");
    }
    return ok();
}

/* What is said of patterns that match no event of those who run, as those of a slip do; nothing if nobody runs, or not all
 * events are known. */
std::vector<std::string> SessionRecording::patterns_of_nobody(const std::vector<Rule>& added) const {
    LttngReader lttng;
    std::multimap<std::uint32_t, std::string> names; /* of processes */
    bool are_all_known = true;
    const auto add = [&](const Session& session) {
        const StateFile& state = const_cast<Session&>(session).state();
        are_all_known = are_all_known && state.processes().size() <= processes_read;
        const auto running = are_all_known ? traced_processes(state) : Error("");
        are_all_known = running.has_value();
        if (!running) return;
        for (const TracedProcess& process : *running) {
            are_all_known = are_all_known && process.notes.empty();
            std::vector<EventDescription> events;
            (void)add_lttng_events(lttng, process.process_id, events);
            for (const TracedObject& object : process.objects)
                events.insert(events.end(), object.content.events.begin(), object.content.events.end());
            for (const EventDescription& event : events)
                names.emplace(process.process_id, event.full_name());
        }
    };
    add(*session_);
    if (places_) places_->for_each([&](const OtherUsers::Glance& glance) { add(glance.session); });
    if (!are_all_known || names.empty()) return {};
    std::set<std::string> said;
    for (const Rule& rule : added) {
        const bool is_of_one = rule.who.kind == PLUMB_WHO_PROCESS;
        if (is_of_one && names.count(rule.who.id) == 0) continue; /* it is said to have no tracepoints */
        if (std::none_of(names.begin(), names.end(), [&](const auto& each) {
                return (!is_of_one || each.first == rule.who.id) &&
                       pattern_matches(rule.pattern, each.second);
            }))
            said.insert(fmt::format(
                "No event of {} matches '{}'; what {} later is asked. `plumb list` shows what there is.",
                is_of_one ? fmt::format("process {}", rule.who.id) : "a program that runs now", rule.pattern,
                is_of_one ? "it loads" : "begins, or is loaded,"));
    }
    return {said.begin(), said.end()};
}

/* Processes that rules are for by their numbers, and that can not follow: nothing of Plumb is found in them. Until the session is
 * started, nobody has looked elsewhere than where our own user's programs are. */
std::vector<Unreachable> SessionRecording::named_in_vain() const {
    std::vector<Unreachable> found;
    std::set<std::uint32_t> seen;
    const StateFile& state = const_cast<Session&>(*session_).state();
    for (const ProcessSlot& slot : state.processes())
        seen.insert(slot.process_id());
    for (const DescribedRule& each : description_.rules) {
        const std::uint32_t process_id = each.rule.who.id;
        if (each.rule.who.kind != PLUMB_WHO_PROCESS || each.rule.pattern.starts_with('!') ||
            !is_same_process(process_id, each.process_start_ns) || !seen.insert(process_id).second ||
            (places_ && places_->has(process_id)))
            continue;
        std::string why = why_unreachable(process_id, state, places_.get());
        const bool is_known =
            description_.is_started || (user_of(process_id) == ::geteuid() && is_why_no_tracepoints(why));
        if (is_known && why != has_ended_reason) found.push_back({process_id, std::move(why)});
    }
    return found;
}

/* One that begins, or is in the middle of exec(), may be found in a moment. */
std::vector<Unreachable> SessionRecording::named_in_vain_for_long() const {
    const std::uint64_t until_ns = read_clock(PLUMB_CLOCK_MONOTONIC) + exec_patience_ns;
    for (;;) {
        std::vector<Unreachable> found = named_in_vain();
        if (found.empty() || read_clock(PLUMB_CLOCK_MONOTONIC) > until_ns) return found;
        ::usleep(exec_look_us);
    }
}

/* Each process once. */
Json SessionRecording::unreachable_as_json(std::vector<Unreachable> all,
                                           const std::vector<Unreachable>& in_vain) {
    for (const Unreachable& each : in_vain)
        if (std::none_of(all.begin(), all.end(),
                         [&](const Unreachable& known) { return known.process_id == each.process_id; }))
            all.push_back(each);
    Json list = Json::array();
    for (const Unreachable& each : all)
        list.push_back({{"pid", each.process_id}, {"reason", each.reason}});
    return list;
}

Json SessionRecording::answer_of(const Report& report, const std::vector<Unreachable>& in_vain) const {
    Json answer = Json::object();
    answer["followed"] = report.acknowledged.size();
    answer["unreachable"] = unreachable_as_json(report.unreachable, in_vain);
    if (!report.disturbed.empty()) answer["disturbed_calls"] = report.disturbed.size();
    return answer;
}

/* What programs may follow still though it is not meant, if the worker before us was killed while it switched that off. */
std::vector<Rule> SessionRecording::rules_off_since() const {
    std::vector<Rule> off = description_.rules_off_since;
    if (description_.is_started) return off;
    const std::vector<Rule> all = rules();
    off.insert(off.end(), all.begin(), all.end());
    return off;
}

Status SessionRecording::note_rules_off(std::vector<Rule> off) {
    if (description_.rules_off_since.empty() && off.empty()) return ok();
    std::swap(description_.rules_off_since, off);
    Status stored = store();
    if (!stored) std::swap(description_.rules_off_since, off);
    return stored;
}

/* The description first: what is published and not described would be on, and nobody would know of it. */
Result<Report> SessionRecording::change_rules(std::vector<DescribedRule> next, const std::vector<Rule>& added,
                                              const std::vector<Rule>& removed) {
    std::swap(description_.rules, next);
    if (description_.is_started) description_.rules_off_since = removed;
    if (Status stored = store(); !stored) {
        std::swap(description_.rules, next);
        description_.rules_off_since.clear();
        return stored.error();
    }
    Report report;
    if (!description_.is_started) return report;
    const auto go_back = [&](const Error& error) {
        std::swap(description_.rules, next);
        description_.rules_off_since.clear();
        store_taken_back();
        return error;
    };
    if (!added.empty()) {
        const auto enabled = session_->enable(added);
        if (!enabled) return go_back(enabled.error());
        report.add(*enabled);
    }
    if (!removed.empty()) {
        const auto disabled = session_->disable(removed);
        if (!disabled) return go_back(disabled.error());
        report.add(*disabled);
    }
    report.add(tell_places());
    unreachable_ = report.unreachable;
    watch_anew();
    if (Status stored = note_rules_off({}); !stored) log_(stored.error().message());
    return report;
}

Result<Json> SessionRecording::enable(const std::vector<Rule>& rules) {
    if (rules.empty()) return Error("No rule was given.").as(EINVAL);
    if (Status sensible = check_filters_for(rules); !sensible) return sensible.error().as(EINVAL);
    std::vector<DescribedRule> next = description_.rules;
    std::vector<Rule> added;
    for (const Rule& rule : rules) {
        const auto is_it = [&](const DescribedRule& known) { return is_same_rule(known.rule, rule); };
        if (std::any_of(next.begin(), next.end(), is_it)) continue;
        if (rule.who.kind == PLUMB_WHO_CGROUP)
            if (Status there = check_control_group(rule.who.cgroup); !there) return there.error();
        DescribedRule described{rule, 0};
        if (rule.who.kind == PLUMB_WHO_PROCESS) {
            const auto start_ns = process_start_boottime_ns(rule.who.id);
            if (!start_ns) return Error("There is no process {}.", rule.who.id).as(ESRCH);
            described.process_start_ns = *start_ns;
        }
        next.push_back(std::move(described));
        added.push_back(rule);
    }
    if (next.size() > PLUMB_MAX_RULES)
        return Error("All {} rules are taken.", PLUMB_MAX_RULES)
            .hint("Use patterns with * instead of many single events.")
            .as(ENOSPC);
    const auto report = change_rules(std::move(next), added, {});
    if (!report) return report.error();
    /* Of others than these it was said before. */
    std::vector<Unreachable> in_vain;
    const auto is_by_number = [](const Rule& rule) { return rule.who.kind == PLUMB_WHO_PROCESS; };
    if (std::any_of(rules.begin(), rules.end(), is_by_number)) in_vain = named_in_vain_for_long();
    std::erase_if(in_vain, [&](const Unreachable& each) {
        return std::none_of(rules.begin(), rules.end(), [&](const Rule& rule) {
            return is_by_number(rule) && rule.who.id == each.process_id;
        });
    });
    Json answer = answer_of(*report, in_vain);
    for (const std::string& each : patterns_of_nobody(added))
        answer["notes"].push_back(each);
    answer["rules_added"] = added.size();
    answer["started"] = description_.is_started;
    return answer;
}

Result<Json> SessionRecording::disable(const std::vector<Rule>& which, bool all) {
    std::vector<DescribedRule> next;
    std::vector<Rule> removed;
    for (const DescribedRule& each : description_.rules) {
        const auto is_it = [&](const Rule& named) { return is_named(each.rule, named); };
        if (all || std::any_of(which.begin(), which.end(), is_it))
            removed.push_back(each.rule);
        else
            next.push_back(each);
    }
    for (const Rule& named : which)
        if (std::none_of(removed.begin(), removed.end(),
                         [&](const Rule& rule) { return is_named(rule, named); })) {
            std::vector<std::string> known;
            for (const DescribedRule& each : description_.rules)
                known.push_back(rule_text(each.rule));
            return Error("Session {} has no rule {}.", description_.name, rule_text(named))
                .hint("{}", known.empty() ? "It has none at all."
                                          : fmt::format("It has: {}.", fmt::join(known, "; ")))
                .as(ENOENT);
        }
    const auto report = change_rules(std::move(next), {}, removed);
    if (!report) return report.error();
    Json answer = answer_of(*report);
    answer["rules_removed"] = removed.size();
    return answer;
}

Result<Report> SessionRecording::switch_on(bool is_on) {
    description_.is_started = is_on;
    if (Status stored = store(); !stored) {
        description_.is_started = !is_on;
        return stored.error();
    }
    /* What a trigger counts is recorded, too. */
    if (!is_on) arm_triggers(false);
    if (is_on) join_places(false);
    if (kernel_ && is_on)
        if (Status switched = kernel_->switch_on(true); !switched)
            problems_.push_back(switched.error().message());
    auto report = is_on ? session_->enable(rules()) : session_->disable(rules());
    if (is_on == report.has_value()) arm_triggers(true);
    watch_anew();
    if (!report) {
        if (kernel_ && is_on) (void)kernel_->switch_on(false).has_value();
        description_.is_started = !is_on;
        store_taken_back();
        return report.error();
    }
    if (kernel_ && !is_on)
        if (Status switched = kernel_->switch_on(false); !switched)
            problems_.push_back(switched.error().message());
    report->add(tell_places());
    unreachable_ = report->unreachable;
    return report;
}

Result<Json> SessionRecording::start() {
    if (description_.is_started)
        return Error("Session {} is started already.", description_.name).as(EALREADY);
    const auto report = switch_on(true);
    if (!report) return report.error();
    Json answer = answer_of(*report, named_in_vain_for_long());
    if (description_.rules.empty() && !kernel_)
        answer["notes"] = {fmt::format("Session {} has no rules yet, and records nothing: `plumb enable {} "
                                       "PATTERN` adds some.",
                                       description_.name, description_.name)};
    return answer;
}

/* What was recorded is on disk and whole when it has stopped. */
Result<Json> SessionRecording::stop() {
    if (!description_.is_started)
        return Error("Session {} is stopped already.", description_.name).as(EALREADY);
    const auto report = switch_on(false);
    if (!report) return report.error();
    Json answer = answer_of(*report);
    if (!drain_) return answer;
    const std::vector<std::string> before = problems_;
    const auto ended = end_chunk();
    for (const std::string& each : problems_)
        if (std::find(before.begin(), before.end(), each) == before.end()) answer["problems"].push_back(each);
    if (!ended)
        answer["notes"] = {ended.error().message()};
    else if (!ended->empty())
        answer["directory"] = *ended;
    if (ended && ended->ends_with(unfinished_end))
        answer["notes"] = {waiting_text(waiting_chunks_.all().back())};
    return answer;
}

/* Whoever gets the number of one that has ended was not asked for. */
void SessionRecording::leave_off_ended() {
    std::vector<DescribedRule> next;
    std::vector<Rule> removed;
    for (const DescribedRule& each : description_.rules)
        if (each.rule.who.kind == PLUMB_WHO_PROCESS &&
            !is_same_process(each.rule.who.id, each.process_start_ns))
            removed.push_back(each.rule);
        else
            next.push_back(each);
    if (removed.empty()) return;
    if (const auto done = change_rules(std::move(next), {}, removed); !done) log_(done.error().message());
}

} // namespace plumb
