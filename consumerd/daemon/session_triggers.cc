/*
 * The triggers of a session. Each look counts causes and serves those that are new. What is served is said in the description before
 * it is done: behind a kill nothing is done twice, and what was being done is told.
 */
#include "consumerd/channel/channel_fill.h"
#include "consumerd/control/control_groups.h"
#include "consumerd/control/kept_sessions.h"
#include "consumerd/daemon/descriptor_limit.h"
#include "consumerd/daemon/session_recording.h"

#include "base/file.h"
#include "base/glob.h"
#include "base/processes.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>
#include <string_view>

namespace plumb {
namespace {

/* Between two looks: at counts and rings, and for processes that have come, of which one that dies at once is not to be missed. */
constexpr std::uint64_t trigger_look_ns = 100'000'000, process_look_ns = 20'000'000;
constexpr std::size_t problems_kept = 8, deaths_kept = 256;

bool is_for_process(const Rule& rule, const ProcessSlot& slot) {
    if (rule.pattern.starts_with('!')) return false;
    if (rule.who.kind == PLUMB_WHO_PROCESS) return rule.who.id == slot.process_id();
    if (rule.who.kind == PLUMB_WHO_CGROUP) {
        const auto group = control_group_of(slot.process_id());
        return group && is_within(*group, rule.who.cgroup);
    }
    if (rule.who.kind != PLUMB_WHO_EXECUTABLE) return true;
    const auto path = executable_of(slot.process_id());
    return path && (glob_matches(rule.who.executable, *path) ||
                    glob_matches(rule.who.executable, path->substr(path->rfind('/') + 1)));
}

/* In a process group of its own, with the worker's log as its output, and no signal blocked. */
Result<pid_t> spawn_command(const std::vector<std::string>& command,
                            const std::vector<std::pair<std::string, std::string>>& variables) {
    std::vector<std::string> texts;
    for (const auto& [name, value] : variables)
        texts.push_back(fmt::format("{}={}", name, value));
    std::vector<char*> words, environment;
    for (const std::string& word : command)
        words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    const auto is_ours = [&](std::string_view line) {
        return std::any_of(variables.begin(), variables.end(), [&](const auto& each) {
            return line.starts_with(each.first) && line.substr(each.first.size()).starts_with('=');
        });
    };
    for (char** each = environ; *each != nullptr; each++)
        if (!is_ours(*each)) environment.push_back(*each);
    for (const std::string& text : texts)
        environment.push_back(const_cast<char*>(text.c_str()));
    environment.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setflags(
        &attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID));
    pid_t process = 0;
    const int failed =
        ::posix_spawnp(&process, words[0], &files, &attributes, words.data(), environment.data());
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
    if (failed != 0) return Error::from_errno(failed, "Could not run {}", command[0]);
    restore_descriptor_limit_of(process);
    return process;
}

/* Of the causes that are served now, the last death, if it is one of those that are known. */
std::optional<Trigger::Progress::Dead> take_dead(Trigger::Progress& so_far) {
    std::optional<Trigger::Progress::Dead> last;
    const auto end = std::find_if(so_far.dead.begin(), so_far.dead.end(),
                                  [&](const auto& each) { return each.cause > so_far.served; });
    if (end != so_far.dead.begin()) last = *std::prev(end);
    so_far.dead.erase(so_far.dead.begin(), end);
    return last;
}

} // namespace

void SessionRecording::tell(const std::string& line) {
    log_(line);
    problems_.push_back(line);
    if (problems_.size() > problems_kept) problems_.erase(problems_.begin());
}

Status SessionRecording::open_deaths() {
    auto deaths = DeathWatch::open();
    if (!deaths) return deaths.error();
    deaths_.emplace(std::move(*deaths));
    return ok();
}

Status SessionRecording::open_trigger(Trigger& trigger) {
    ArmedTrigger& armed = armed_[trigger.name];
    if (trigger.cause == TriggerCause::death && !deaths_) {
        if (Status opened = open_deaths(); !opened) return opened;
    }
    if (trigger.cause != TriggerCause::event) return ok();
    if (trigger.so_far.cookie != 0) {
        auto session = adopt(trigger.so_far.cookie);
        auto count =
            session ? EventCount::of(std::move(*session), log_) : Result<EventCount>(session.error());
        if (count) {
            armed.count.emplace(std::move(*count));
            return ok();
        }
        const Error& why = count.error();
        if (why.number() != ENOENT && why.number() != EBADMSG) return why;
        tell(why.with("Trigger {} counts anew, since its count can not be taken over", trigger.name)
                 .message());
        give_up_count(trigger);
    }
    trigger.so_far.causes_before = trigger.so_far.causes;
    trigger.so_far.cookie = random_cookie();
    if (Status stored = store(); !stored) return stored;
    auto count = EventCount::make(description_.name, trigger.so_far.cookie, quiescence(), log_);
    if (!count) return count.error();
    armed.count.emplace(std::move(*count));
    return ok();
}

Result<Report> SessionRecording::arm_trigger(const Trigger& trigger, bool is_on) {
    ArmedTrigger& armed = armed_[trigger.name];
    if (!armed.count) return Report();
    return armed.count->session().set_rules(is_on ? std::vector<Rule>{trigger.rule} : std::vector<Rule>(),
                                            {trigger.rule});
}

void SessionRecording::arm_triggers(bool is_on) {
    for (const Trigger& trigger : description_.triggers)
        if (const auto done = arm_trigger(trigger, is_on); !done)
            tell(done.error().with("Trigger {}", trigger.name).message());
}

void SessionRecording::open_triggers() {
    for (Trigger& trigger : description_.triggers) {
        if (trigger.so_far.is_firing) {
            tell(fmt::format("Trigger {} was firing when its worker ended: it may not have done all of {}, "
                             "which is not repeated.",
                             trigger.name, action_text(trigger)));
            trigger.so_far.is_firing = false;
            trigger.so_far.interrupted++;
        }
        if (Status opened = open_trigger(trigger); !opened)
            tell(opened.error().with("Trigger {} is not there", trigger.name).message());
    }
    if (description_.triggers.empty()) return;
    if (Status stored = store(); !stored) log_(stored.error().message());
    arm_triggers(description_.is_started);
}

/* Where nobody can be its controller, it is left to be removed. */
void SessionRecording::give_up_count(const Trigger& trigger) {
    for (const UserPlace& place : places_of(::geteuid()))
        if (const auto directory = UserDirectory::open_existing(place))
            (void)stop_keeping(*directory, trigger.so_far.cookie).has_value();
}

/* A command of it goes on. */
void SessionRecording::end_trigger(const Trigger& trigger) {
    ArmedTrigger armed;
    if (const auto found = armed_.find(trigger.name); found != armed_.end()) {
        armed = std::move(found->second);
        armed_.erase(found);
    }
    if (armed.command != 0) left_commands_.emplace_back(trigger.name, armed.command);
    if (armed.count) {
        if (Status ended = armed.count->end(); !ended) log_(ended.error().message());
    } else if (trigger.so_far.cookie != 0) {
        auto session = adopt(trigger.so_far.cookie);
        if (!session) return give_up_count(trigger);
        (void)session->end().has_value();
        (void)session->remove_channel().has_value();
    }
}

Result<Json> SessionRecording::add_trigger(Trigger trigger) {
    for (const Trigger& each : description_.triggers)
        if (each.name == trigger.name)
            return Error("Session {} has a trigger {} already.", description_.name, trigger.name)
                .hint("Choose another name, or remove that one: `plumb trigger {} remove {}`.",
                      description_.name, trigger.name)
                .as(EEXIST);
    if (description_.triggers.size() >= triggers_max)
        return Error("Session {} has {} triggers, and no more are possible.", description_.name, triggers_max)
            .as(ENOSPC);
    if (Status sensible = check_trigger_for(trigger, description_.is_flight_recorder()); !sensible)
        return sensible.error();
    trigger.so_far = {};
    description_.triggers.push_back(std::move(trigger));
    Trigger& added = description_.triggers.back();
    Status done = store();
    if (done) done = open_trigger(added);
    auto armed = done && description_.is_started ? arm_trigger(added, true) : Result<Report>(Report());
    if (done && !armed) done = armed.error();
    if (done) {
        look_for_processes();
        Json answer = answer_of(*armed);
        answer["trigger"] = trigger_as_json(added, false);
        answer["started"] = description_.is_started;
        return answer;
    }
    end_trigger(added);
    const Error why = done.error().with("Trigger {}", added.name);
    description_.triggers.pop_back();
    store_taken_back();
    return why;
}

Result<Json> SessionRecording::remove_trigger(const std::string& name) {
    const auto found = std::find_if(description_.triggers.begin(), description_.triggers.end(),
                                    [&](const Trigger& each) { return each.name == name; });
    if (found == description_.triggers.end()) {
        std::vector<std::string> names;
        for (const Trigger& each : description_.triggers)
            names.push_back(each.name);
        return Error("Session {} has no trigger {}.", description_.name, name)
            .hint("{}", names.empty() ? std::string("It has none at all.")
                                      : fmt::format("It has: {}.", fmt::join(names, ", ")))
            .as(ENOENT);
    }
    Json answer = trigger_status(*found);
    const auto place = found - description_.triggers.begin();
    Trigger removed = std::move(*found);
    description_.triggers.erase(found);
    if (Status stored = store(); !stored) { /* it stays: the next worker would have it, too */
        description_.triggers.insert(description_.triggers.begin() + place, std::move(removed));
        return stored.error();
    }
    end_trigger(removed);
    const bool watches = std::any_of(description_.triggers.begin(), description_.triggers.end(),
                                     [](const Trigger& each) { return each.cause == TriggerCause::death; });
    if (!watches) deaths_.reset();
    return Json{{"removed", std::move(answer)}};
}

Json SessionRecording::trigger_status(const Trigger& trigger) const {
    Json object = trigger_as_json(trigger, false);
    object["causes"] = trigger.so_far.causes;
    object["fired"] = trigger.so_far.fired;
    object["waiting"] = trigger.so_far.causes - trigger.so_far.served;
    object["left_out"] = trigger.so_far.left_out;
    object["interrupted"] = trigger.so_far.interrupted;
    const auto armed = armed_.find(trigger.name);
    if (armed == armed_.end()) return object;
    if (armed->second.command != 0) object["command_pid"] = armed->second.command;
    if (armed->second.count) {
        object["events_not_counted"] = armed->second.count->not_counted();
        object["events_not_switched_on"] = armed->second.count->not_switched_on();
    }
    if (trigger.cause == TriggerCause::death && deaths_) object["deaths_not_seen"] = deaths_->unseen();
    return object;
}

Json SessionRecording::triggers() const {
    Json list = Json::array();
    for (const Trigger& trigger : description_.triggers)
        list.push_back(trigger_status(trigger));
    return list;
}

/* Of causes that wait: a worker that takes over serves them. */
void SessionRecording::keep_causes(bool is_any_new) {
    if (!is_any_new) return;
    if (Status stored = store(); !stored) log_(stored.error().message());
}

void SessionRecording::signalled(int number) {
    bool is_any = false;
    for (Trigger& trigger : description_.triggers)
        if (description_.is_started && trigger.cause == TriggerCause::signal && trigger.signal == number) {
            trigger.so_far.causes++;
            is_any = true;
        }
    keep_causes(is_any);
}

void SessionRecording::note_deaths() {
    if (!deaths_) return;
    bool is_any = false;
    for (const Death& death : deaths_->take())
        for (Trigger& trigger : description_.triggers) {
            if (!description_.is_started || trigger.cause != TriggerCause::death) continue;
            if (trigger.signal == 0 ? death.signal == 0 : trigger.signal != death.signal) continue;
            const std::uint64_t cause = ++trigger.so_far.causes;
            auto& dead = trigger.so_far.dead;
            if (dead.size() < deaths_kept) dead.push_back({cause, death.process_id, death.signal});
            is_any = true;
        }
    keep_causes(is_any);
}

void SessionRecording::look_for_processes() {
    if (!deaths_ || !description_.is_started) return;
    deaths_->look(session_->state(), [this](const ProcessSlot& slot) {
        return std::any_of(description_.rules.begin(), description_.rules.end(),
                           [&](const DescribedRule& each) { return is_for_process(each.rule, slot); });
    });
}

/* The rules are others, or are in force again. */
void SessionRecording::watch_anew() {
    if (!deaths_) return;
    note_deaths();
    deaths_->look_anew();
    look_for_processes();
}

void SessionRecording::note_fill() {
    const bool is_asked = std::any_of(description_.triggers.begin(), description_.triggers.end(),
                                      [](const Trigger& each) { return each.cause == TriggerCause::fill; });
    if (!is_asked || !drain_) return;
    const double now = fill_of(session_->channel().bytes(), session_->channel().made_as()).fullest;
    const double fullest = std::max(drain_->take_fullest(), now);
    bool has_changed = false;
    for (Trigger& trigger : description_.triggers) {
        if (trigger.cause != TriggerCause::fill) continue;
        const double level = trigger.percent / 100.0;
        const bool was_above = trigger.so_far.is_above;
        if (!was_above && fullest >= level) trigger.so_far.causes++;
        trigger.so_far.is_above = (was_above || fullest >= level) && now >= level;
        has_changed |= was_above != trigger.so_far.is_above;
    }
    if (!has_changed) return;
    if (Status stored = store(); !stored) log_(stored.error().message());
}

void SessionRecording::note_events() {
    for (Trigger& trigger : description_.triggers) {
        if (trigger.cause != TriggerCause::event) continue;
        const auto armed = armed_.find(trigger.name);
        if (armed == armed_.end() || !armed->second.count) continue;
        const std::uint64_t causes = trigger.so_far.causes_before + armed->second.count->count();
        trigger.so_far.causes = std::max(trigger.so_far.causes, causes);
    }
}

void SessionRecording::serve(Trigger& trigger) {
    const std::uint64_t waiting = trigger.so_far.causes - trigger.so_far.served;
    ArmedTrigger& armed = armed_[trigger.name];
    if (waiting == 0 || armed.command != 0) return;
    const std::uint64_t now_ns = read_clock(PLUMB_CLOCK_MONOTONIC);
    const bool is_too_often = trigger.at_most && trigger.so_far.fired >= *trigger.at_most;
    const bool is_too_early = trigger.every_ns != 0 && trigger.so_far.fired_ns != 0 &&
                              now_ns - trigger.so_far.fired_ns < trigger.every_ns;
    Trigger::Progress before = trigger.so_far;
    std::uint64_t causes = trigger.is_for_each() ? 1 : waiting;
    if (is_too_often || is_too_early) {
        causes = waiting;
        trigger.so_far.left_out += waiting;
    } else {
        trigger.so_far.fired++;
        trigger.so_far.fired_ns = now_ns;
        trigger.so_far.is_firing = true;
    }
    trigger.so_far.served += causes;
    const auto death = take_dead(trigger.so_far);
    if (Status stored = store(); !stored) {
        trigger.so_far = std::move(before);
        if (!armed.has_failed_to_store) log_(stored.error().message());
        armed.has_failed_to_store = true;
        return;
    }
    armed.has_failed_to_store = false;
    if (!trigger.so_far.is_firing) return;
    fire(trigger, causes, death);
    trigger.so_far.is_firing = false;
    if (Status stored = store(); !stored) log_(stored.error().message());
}

void SessionRecording::fire(const Trigger& trigger, std::uint64_t causes,
                            const std::optional<Trigger::Progress::Dead>& death) {
    std::vector<std::pair<std::string, std::string>> variables = {
        {"PLUMB_SESSION", description_.name},
        {"PLUMB_TRIGGER", trigger.name},
        {"PLUMB_TRACE", directory_->path()},
        {"PLUMB_CAUSE", cause_text(trigger)},
        {"PLUMB_CAUSE_COUNT", std::to_string(causes)},
        {"PLUMB_FIRING", std::to_string(trigger.so_far.fired)}};
    if (death) {
        variables.emplace_back("PLUMB_PID", std::to_string(death->process_id));
        variables.emplace_back("PLUMB_SIGNAL", signal_text(death->signal));
    }
    std::string said = fmt::format("trigger {} fires for {}", trigger.name, cause_text(trigger));
    if (causes > 1) said += fmt::format(", {} times", causes);
    const auto done = [&](const char* variable, const Result<Json>& answer) {
        if (!answer) return tell(answer.error().with("Trigger {}", trigger.name).message());
        const std::string path = answer->value("directory", "");
        said += ": " + (path.empty() ? std::string("stop") : path);
        if (!path.empty()) variables.emplace_back(variable, path);
    };
    if (trigger.snapshots) done("PLUMB_SNAPSHOT", snapshot());
    if (trigger.rotates) done("PLUMB_CHUNK", rotate());
    if (trigger.stops && description_.is_started) done("PLUMB_CHUNK", stop());
    if (!trigger.command.empty()) {
        const auto process = spawn_command(trigger.command, variables);
        if (process) {
            armed_[trigger.name].command = *process;
            said += fmt::format(": runs {}, process {}", trigger.command[0], *process);
        } else {
            tell(process.error().with("Trigger {}", trigger.name).message());
        }
    }
    log_(said);
}

/* Whether the command has. */
bool SessionRecording::has_ended(const std::string& trigger, pid_t command) const {
    int status = 0;
    if (command == 0 || ::waitpid(command, &status, WNOHANG) != command) return false;
    const bool is_by_signal = WIFSIGNALED(status);
    log_(fmt::format("trigger {}: process {} has ended {} {}", trigger, command,
                     is_by_signal ? "by signal" : "with status",
                     is_by_signal ? signal_text(WTERMSIG(status)) : std::to_string(WEXITSTATUS(status))));
    return true;
}

void SessionRecording::children_ended() {
    for (auto& [name, armed] : armed_)
        if (has_ended(name, armed.command)) armed.command = 0;
    std::erase_if(left_commands_, [&](const auto& each) { return has_ended(each.first, each.second); });
}

/* In how long it is to be looked again. */
std::uint64_t SessionRecording::look_at_triggers() {
    std::uint64_t again_ns = std::numeric_limits<std::uint64_t>::max();
    if (description_.triggers.empty()) return again_ns;
    note_deaths();
    look_for_processes();
    if (deaths_ && description_.is_started) again_ns = process_look_ns;
    note_fill();
    note_events();
    for (std::size_t i = 0; i < description_.triggers.size(); i++) {
        Trigger& trigger = description_.triggers[i];
        serve(trigger);
        const bool is_looked_at = trigger.cause == TriggerCause::event || trigger.cause == TriggerCause::fill;
        if (is_looked_at) again_ns = std::min(again_ns, trigger_look_ns);
        const bool is_waiting = trigger.so_far.causes != trigger.so_far.served;
        if (is_waiting && armed_[trigger.name].command == 0)
            again_ns = armed_[trigger.name].has_failed_to_store ? std::min(again_ns, trigger_look_ns) : 0;
    }
    return again_ns;
}

/* Causes until now are served as far as that is possible at once. */
void SessionRecording::end_triggers() {
    for (const Trigger& trigger : description_.triggers) {
        if (const std::uint64_t left = trigger.so_far.causes - trigger.so_far.served; left != 0)
            tell(fmt::format("Trigger {} was not fired for its last {} causes: the session ends.",
                             trigger.name, left));
        end_trigger(trigger);
    }
    deaths_.reset();
}

} // namespace plumb
