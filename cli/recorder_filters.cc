#include "cli/recorder.h"
#include "consumerd/control/rule_filters.h"
#include "consumerd/control/traced_lttng.h"
#include "consumerd/control/traced_processes.h"

#include <fmt/format.h>

#include <algorithm>

namespace plumb {

bool Recorder::has_filters() const {
    return !options_.filter.empty() ||
           std::any_of(options_.event_conditions.begin(), options_.event_conditions.end(),
                       [](const std::string& condition) { return !condition.empty(); });
}

/* Before anything is switched on. Of processes that run all that they have loaded is known, and what makes no sense of it is
 * refused; a command may load more, and start others, so of that it is only said. */
Status Recorder::check_filters_at_start() {
    if (!has_filters() || !wants_programs(options_)) return ok();
    const auto rules = rules_of(options_);
    if (!rules) return rules.error();
    std::vector<EventDescription> events;
    const auto running = attached_.empty()
                             ? std::vector<TracedProcess>()
                             : traced_processes(session_->state()).value_or(std::vector<TracedProcess>());
    LttngReader lttng;
    bool are_all_known = true;
    for (const TracedProcess& process : running) {
        if (attached_.count(process.process_id) == 0) continue;
        are_all_known &= add_lttng_events(lttng, process.process_id, events);
        for (const TracedObject& object : process.objects)
            events.insert(events.end(), object.content.events.begin(), object.content.events.end());
    }
    if (Status sensible = are_all_known ? check_filters(*rules, events) : ok(); !sensible)
        return sensible.error().with("The filter").as(wrong_words);
    if (options_.command.empty()) return ok();
    const RecordedProgram program = program_of_command(options_.command[0]);
    if (Status sensible = check_filters(*rules, program.events); !sensible)
        status_.say(fmt::format(
            "The filter, as far as events of {} itself go: {}{}", program.name, sensible.error().message(),
            options_.kernel_events.empty()
                ? ""
                : "\nThe kernel's events have filters of their own: -k 'EVENT if FILTER'."));
    return ok();
}

/* Leaves in `on` what might have been recorded. */
void Recorder::note_left_out(std::vector<EventDescription>& on) {
    if (!has_filters()) return;
    const auto rules = rules_of(options_);
    if (!rules) return;
    summary_.left_out = left_out_by_filters(*rules, on);
    std::erase_if(on, [&](const EventDescription& event) {
        return std::any_of(summary_.left_out.begin(), summary_.left_out.end(),
                           [&](const LeftOut& left) { return left.event == event.full_name(); });
    });
}

} // namespace plumb
