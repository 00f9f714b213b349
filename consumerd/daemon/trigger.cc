#include "consumerd/daemon/trigger.h"

#include "base/glob.h"
#include "consumerd/control/rule_filters.h"
#include "consumerd/daemon/daemon_folder.h"
#include "consumerd/daemon/session_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <initializer_list>
#include <string_view>

namespace plumb {
namespace {

constexpr std::size_t command_bytes_max = 4096;
constexpr const char* trigger_cause_names[] = {"event", "fill", "signal", "death"};

/* "a 'b c' d\ e": words as a shell has them, of which nothing else is meant. */
Result<std::vector<std::string>> split_words(const std::string& text) {
    std::vector<std::string> words;
    bool is_in_word = false;
    char quote = '\0';
    for (std::size_t i = 0; i < text.size(); i++) {
        const char c = text[i];
        const bool is_space = quote == '\0' && std::strchr(" \t\n", c) != nullptr;
        if (is_space) {
            is_in_word = false;
            continue;
        }
        if (!is_in_word) words.emplace_back();
        is_in_word = true;
        if (quote != '\0' && c == quote)
            quote = '\0';
        else if (quote == '\0' && (c == '\'' || c == '"'))
            quote = c;
        else if (c == '\\' && quote != '\'' && i + 1 < text.size())
            words.back() += text[++i];
        else
            words.back() += c;
    }
    if (quote != '\0') return Error("The quote {} has no end in \"{}\".", quote, text).as(EINVAL);
    return words;
}

std::optional<int> signal_in(std::string_view text) {
    if (text.starts_with("SIG")) text.remove_prefix(3);
    for (int number = 1; number <= SIGRTMAX; number++)
        if (signal_text(number) == text) return number;
    return {};
}

Status check_signal(const std::string& text, Trigger& trigger) {
    const auto number = signal_in(text);
    if (!number) return Error("There is no signal \"{}\": USR1, SEGV, RTMIN+3 and others.", text).as(EINVAL);
    const bool is_ours = *number == SIGUSR1 || *number == SIGUSR2 || *number >= SIGRTMIN;
    if (trigger.cause == TriggerCause::signal && !is_ours)
        return Error("A trigger can not wait for {}: it means something else to a worker.", text)
            .hint("It can for USR1, USR2, and RTMIN to RTMIN+{}.", SIGRTMAX - SIGRTMIN)
            .as(EINVAL);
    trigger.signal = *number;
    return ok();
}

Status check_percent(std::uint64_t percent, Trigger& trigger) {
    if (percent == 0 || percent > 100)
        return Error("A buffer can not pass {}% of itself: 1% to 100% are possible.", percent).as(EINVAL);
    trigger.percent = static_cast<unsigned>(percent);
    return ok();
}

Status check_command(const Trigger& trigger) {
    std::size_t bytes = 0;
    for (const std::string& word : trigger.command)
        bytes += word.size() + 1;
    if (trigger.command.empty() || trigger.command[0].empty())
        return Error("\"run\" needs a command: 'run /usr/bin/logger something was slow'.").as(EINVAL);
    if (bytes > command_bytes_max)
        return Error("The command is too long: {} bytes are possible.", command_bytes_max).as(EINVAL);
    for (const std::string& word : trigger.command)
        if (word.find('\0') != std::string::npos)
            return Error("A word of the command has a NUL in it.").as(EINVAL);
    return ok();
}

Status read_pattern(const Json& object, Trigger& trigger) {
    Json rule = Json::object();
    for (const char* const key : {"event", "filter"})
        if (object.contains(key)) rule[key] = object[key];
    auto read = read_rule(rule);
    if (!read) return read.error();
    if (read->pattern.starts_with('!'))
        return Error("\"{}\" leaves events out: a trigger waits for some.", read->pattern).as(EINVAL);
    trigger.rule = std::move(*read);
    return ok();
}

Status read_cause_of(const Json& object, Trigger& trigger) {
    const auto on = text_in(object, "on");
    if (!on) return on.error().as(EINVAL);
    const auto* const found = std::find(std::begin(trigger_cause_names), std::end(trigger_cause_names), *on);
    if (found == std::end(trigger_cause_names))
        return Error("There is no cause \"{}\": event, fill, signal or death.", *on).as(EINVAL);
    trigger.cause = static_cast<TriggerCause>(found - std::begin(trigger_cause_names));
    if (trigger.cause == TriggerCause::event) return read_pattern(object, trigger);
    if (trigger.cause == TriggerCause::fill) {
        const auto percent = number_in(object, "percent");
        return percent ? check_percent(*percent, trigger) : Status(percent.error().as(EINVAL));
    }
    const auto signal =
        text_in(object, "signal",
                trigger.cause == TriggerCause::death ? std::optional<std::string>("") : std::nullopt);
    if (!signal) return signal.error().as(EINVAL);
    return signal->empty() && trigger.cause == TriggerCause::death ? ok() : check_signal(*signal, trigger);
}

Status read_actions_of(const Json& object, Trigger& trigger) {
    const auto list = object.find("do");
    if (list == object.end() || !list->is_array()) return Error("\"do\" is no list.").as(EINVAL);
    for (const Json& each : *list) {
        if (!each.is_string())
            return Error("What is to be done is \"snapshot\", \"rotate\", \"stop\" or \"run\".").as(EINVAL);
        const auto& word = each.get_ref<const std::string&>();
        if (word == "run") continue; /* what is run stands in "command" */
        if (Status done = read_action(word, trigger); !done) return done;
    }
    const auto command = object.find("command");
    if (command != object.end()) {
        if (!command->is_array()) return Error("\"command\" is no list.").as(EINVAL);
        for (const Json& each : *command) {
            if (!each.is_string()) return Error("A word of \"command\" is no text.").as(EINVAL);
            trigger.command.push_back(each.get<std::string>());
        }
        if (Status sound = check_command(trigger); !sound) return sound;
    }
    if (trigger.is_for_each() && trigger.command.empty())
        return Error("Trigger {} does nothing: snapshot, rotate, stop or 'run CMD'.", trigger.name)
            .as(EINVAL);
    return ok();
}

struct OwnNumber {
    const char* key;
    std::uint64_t Trigger::Progress::*value;
};
constexpr OwnNumber own_numbers[] = {{"causes_before", &Trigger::Progress::causes_before},
                                     {"causes", &Trigger::Progress::causes},
                                     {"served", &Trigger::Progress::served},
                                     {"fired", &Trigger::Progress::fired},
                                     {"left_out", &Trigger::Progress::left_out},
                                     {"interrupted", &Trigger::Progress::interrupted},
                                     {"fired_ns", &Trigger::Progress::fired_ns}};

/* "CAUSE:PROCESS:SIGNAL " of each: there may be some hundreds, and all of it is written for each cause. */
std::string dead_text(const std::vector<Trigger::Progress::Dead>& dead) {
    std::string text;
    for (const auto& each : dead)
        text += fmt::format("{}:{}:{} ", each.cause, each.process_id, each.signal);
    return text;
}

/* Steps over it, and what ends it. */
template <typename Number>
bool take_number(std::string_view& text, char end, Number& number) {
    const auto [rest, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
    const auto taken = static_cast<std::size_t>(rest - text.data());
    if (wrong != std::errc() || taken == text.size() || *rest != end) return false;
    text.remove_prefix(taken + 1);
    return true;
}

bool read_dead(std::string_view text, std::vector<Trigger::Progress::Dead>& dead) {
    while (!text.empty()) {
        Trigger::Progress::Dead each{};
        if (!take_number(text, ':', each.cause) || !take_number(text, ':', each.process_id) ||
            !take_number(text, ' ', each.signal) || each.signal < 0)
            return false;
        dead.push_back(each);
    }
    return true;
}

Status read_own(const Json& object, Trigger& trigger) {
    for (const OwnNumber& each : own_numbers) {
        const auto number = number_in(object, each.key, 0);
        if (!number) return number.error();
        trigger.so_far.*each.value = *number;
    }
    const auto cookie = text_in(object, "cookie", "0"), dead = text_in(object, "dead", "");
    const auto is_firing = flag_in(object, "firing", false), is_above = flag_in(object, "above", false);
    if (!cookie || !is_firing || !is_above || !dead || !read_dead(*dead, trigger.so_far.dead))
        return Error("A trigger is not what a worker writes.").as(EINVAL);
    const char* const end = cookie->data() + cookie->size();
    const auto [rest, wrong] = std::from_chars(cookie->data(), end, trigger.so_far.cookie, 16);
    if (wrong != std::errc() || rest != end) return Error("\"cookie\" is no number in base 16.").as(EINVAL);
    trigger.so_far.is_firing = *is_firing;
    trigger.so_far.is_above = *is_above;
    return ok();
}

Status check_keys_of(const Json& object) {
    constexpr std::string_view known[] = {
        "name",    "on",      "event",    "filter",   "percent",     "signal",   "do",
        "command", "at_most", "every_ns", "cookie",   "firing",      "above",    "causes_before",
        "causes",  "served",  "fired",    "left_out", "interrupted", "fired_ns", "dead"};
    for (const auto& [key, value] : object.items())
        if (std::find(std::begin(known), std::end(known), key) == std::end(known))
            return Error("\"{}\" is not known of a trigger.", key)
                .hint("Is it of a newer version, or a slip?")
                .as(EINVAL);
    return ok();
}

} // namespace

std::string signal_text(int number) {
    if (number >= SIGRTMIN && number <= SIGRTMAX)
        return number == SIGRTMIN ? "RTMIN" : fmt::format("RTMIN+{}", number - SIGRTMIN);
    const char* const name = ::sigabbrev_np(number);
    return name != nullptr ? name : std::to_string(number);
}

Json trigger_as_json(const Trigger& trigger, bool whole) {
    Json object = {{"name", trigger.name}, {"on", trigger_cause_names[static_cast<int>(trigger.cause)]}};
    if (trigger.cause == TriggerCause::event) object.update(rule_as_json(trigger.rule));
    if (trigger.cause == TriggerCause::fill) object["percent"] = trigger.percent;
    if (trigger.signal != 0) object["signal"] = signal_text(trigger.signal);
    object["do"] = Json::array();
    if (trigger.snapshots) object["do"].push_back("snapshot");
    if (trigger.rotates) object["do"].push_back("rotate");
    if (trigger.stops) object["do"].push_back("stop");
    if (!trigger.command.empty()) {
        object["do"].push_back("run");
        object["command"] = trigger.command;
    }
    if (trigger.at_most) object["at_most"] = *trigger.at_most;
    if (trigger.every_ns != 0) object["every_ns"] = trigger.every_ns;
    if (!whole) return object;
    for (const OwnNumber& each : own_numbers)
        if (trigger.so_far.*each.value != 0) object[each.key] = trigger.so_far.*each.value;
    if (trigger.so_far.cookie != 0) object["cookie"] = fmt::format("{:016x}", trigger.so_far.cookie);
    if (trigger.so_far.is_firing) object["firing"] = true;
    if (trigger.so_far.is_above) object["above"] = true;
    if (!trigger.so_far.dead.empty()) object["dead"] = dead_text(trigger.so_far.dead);
    return object;
}

Result<Trigger> read_trigger(const Json& object) {
    if (!object.is_object()) return Error("A trigger is no object.").as(EINVAL);
    if (Status known = check_keys_of(object); !known) return known.error();
    Trigger trigger;
    const auto name = text_in(object, "name");
    if (!name) return name.error().as(EINVAL);
    trigger.name = *name;
    if (!check_session_name(*name))
        return Error(
                   "\"{}\" can not be the name of a trigger: letters, digits, and ._- behind the first one.",
                   *name)
            .as(EINVAL);
    if (Status sound = read_cause_of(object, trigger); !sound)
        return sound.error().with("Trigger {}", trigger.name);
    if (Status sound = read_actions_of(object, trigger); !sound)
        return sound.error().with("Trigger {}", trigger.name);
    const auto every_ns = number_in(object, "every_ns", 0);
    if (!every_ns) return every_ns.error();
    trigger.every_ns = *every_ns;
    if (object.contains("at_most")) {
        const auto at_most = number_in(object, "at_most");
        if (!at_most) return at_most.error();
        if (*at_most == 0) return Error("A trigger that fires at most 0 times does nothing.").as(EINVAL);
        trigger.at_most = *at_most;
    }
    if (Status sound = read_own(object, trigger); !sound) return sound.error();
    return trigger;
}

Status check_trigger_for(const Trigger& trigger, bool is_flight_recorder) {
    if (is_flight_recorder && trigger.cause == TriggerCause::fill)
        return Error("The rings of a flight recorder are always full: no fill level is passed.").as(EINVAL);
    if (is_flight_recorder && trigger.rotates)
        return Error("A flight recorder writes no chunks.").hint("`--do snapshot` is for it.").as(EINVAL);
    if (!is_flight_recorder && trigger.snapshots)
        return Error("The session is no flight recorder: what it records is on disk already.")
            .hint("`--do rotate` ends a chunk; `plumb create --snapshot` makes a flight recorder.")
            .as(EINVAL);
    return ok();
}

Status read_cause(const std::string& words, Trigger& trigger) {
    const std::size_t end = std::min(words.find_first_of(" \t"), words.size());
    const std::string kind = words.substr(0, end);
    const std::size_t begin = words.find_first_not_of(" \t", end);
    const std::string rest = begin == std::string::npos ? "" : words.substr(begin);
    const auto wrong = [&](const char* what) {
        return Status(Error("\"{}\" is no cause.", words).hint("{}", what).as(EINVAL));
    };
    if (kind == "event") {
        if (rest.empty()) return wrong("Write it like 'event shop:order if price > 100'.");
        trigger.cause = TriggerCause::event;
        auto [pattern, condition] = split_filter(rest);
        Json rule = {{"event", pattern}};
        const std::size_t first = condition.find_first_not_of(" \t\n");
        if (first != std::string::npos)
            rule["filter"] = condition.substr(first);
        else if (pattern.size() != rest.size())
            return wrong("Behind \"if\" a condition is missing.");
        return read_pattern(rule, trigger);
    }
    if (kind == "fill") {
        trigger.cause = TriggerCause::fill;
        std::uint64_t percent = 0;
        const auto [last, bad] = std::from_chars(rest.data(), rest.data() + rest.size(), percent);
        const std::string_view behind(last, static_cast<std::size_t>(rest.data() + rest.size() - last));
        if (bad != std::errc() || (!behind.empty() && behind != "%"))
            return wrong("Write it like 'fill 80%'.");
        return check_percent(percent, trigger);
    }
    if (kind == "signal") {
        trigger.cause = TriggerCause::signal;
        return rest.empty() ? wrong("Write it like 'signal USR1'.") : check_signal(rest, trigger);
    }
    if (kind == "death") {
        trigger.cause = TriggerCause::death;
        return rest.empty() ? ok() : check_signal(rest, trigger);
    }
    return wrong("It is 'event PATTERN', 'fill 80%', 'signal USR1', or 'death' with a signal or without.");
}

Status read_action(const std::string& words, Trigger& trigger) {
    if (words == "snapshot") {
        trigger.snapshots = true;
    } else if (words == "rotate") {
        trigger.rotates = true;
    } else if (words == "stop") {
        trigger.stops = true;
    } else if (words == "run" || words.starts_with("run ")) {
        if (!trigger.command.empty()) return Error("A trigger runs one command.").as(EINVAL);
        auto split = split_words(words.substr(3));
        if (!split) return split.error();
        trigger.command = std::move(*split);
        return check_command(trigger);
    } else {
        return Error("\"{}\" can not be done: snapshot, rotate, stop or 'run CMD ARG'.", words).as(EINVAL);
    }
    return ok();
}

std::string cause_text(const Trigger& trigger) {
    switch (trigger.cause) {
    case TriggerCause::event:
        return "event " + rule_text(trigger.rule);
    case TriggerCause::fill:
        return fmt::format("fill {}%", trigger.percent);
    case TriggerCause::signal:
        return "signal " + signal_text(trigger.signal);
    case TriggerCause::death:
        break;
    }
    return trigger.signal == 0 ? "death" : "death SIG" + signal_text(trigger.signal);
}

std::string action_text(const Trigger& trigger) {
    std::vector<std::string> actions;
    if (trigger.snapshots) actions.emplace_back("snapshot");
    if (trigger.rotates) actions.emplace_back("rotate");
    if (trigger.stops) actions.emplace_back("stop");
    if (!trigger.command.empty()) actions.push_back(fmt::format("run {}", fmt::join(trigger.command, " ")));
    return fmt::format("{}", fmt::join(actions, ", "));
}

} // namespace plumb
