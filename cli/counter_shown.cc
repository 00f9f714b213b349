/* What a counting says, while it goes on and at its end. */
#include "base/output_buffer.h"
#include "cli/counter.h"
#include "cli/output.h"
#include "cli/record_summary.h"
#include "cli/status_line.h"
#include "cli/why_empty.h"

#include <fmt/format.h>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace plumb {
namespace {

std::size_t terminal_lines() {
    constexpr std::size_t usual = 24;
    winsize size{};
    return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 2 ? size.ws_row : usual;
}

/* As many lines as a terminal shows at once, each as long as it is wide: one that went on in the next row would not be counted, and
 * what stands above would never be taken away. */
std::string what_fits(const std::string& text, std::size_t lines, std::size_t width) {
    std::string fitting;
    std::size_t column = 0;
    for (const char letter : text) {
        const bool goes_on = (static_cast<unsigned char>(letter) & 0xc0) == 0x80; /* of a letter of UTF-8 */
        if (lines == 0) break;
        if (letter == '\n') {
            lines--;
            column = 0;
        } else if (!goes_on) {
            column++;
        }
        if (column <= width) fitting += letter;
    }
    return fitting;
}

Status write_counts(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = ::write(fd, text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return Error::from_errno(errno, "The counts could not be written");
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return ok();
}

} // namespace

/* On a terminal of ours, over what was there. */
void Counter::draw(const std::string& text) {
    if (output_.is_open()) {
        if (Status written = write_counts(output_.get(), text); !written && result_.problems.empty())
            result_.problems.push_back(written.error().message());
        return;
    }
    if (options_.what.json) {
        put_out(text);
        (void)flush_out().has_value();
        return;
    }
    if (!is_redrawn_) {
        put_error(text);
        return;
    }
    const std::string shown = what_fits(text, terminal_lines() - 1, terminal_line_width());
    const std::string up = lines_drawn_ == 0 ? "" : fmt::format("\033[{}A\033[J", lines_drawn_);
    put_error(up + shown);
    lines_drawn_ = static_cast<std::size_t>(std::count(shown.begin(), shown.end(), '\n'));
}

/* Events that were wanted, and that no filter can be true of. */
std::vector<LeftOut> Counter::left_out() const {
    const auto rules = rules_of(options_.what);
    std::vector<EventDescription> events;
    for (const CountsOfEvent& event : taken_.events)
        events.push_back(event.event->description);
    return rules ? left_out_by_filters(*rules, events) : std::vector<LeftOut>();
}

/* Where a pattern can not match, and not only has not, that is a mistake. */
WhyEmpty Counter::why_nothing() const {
    const RecordOptions& what = options_.what;
    if (!result_.unreachable.empty() || !result_.problems.empty()) return {};
    RecordingFacts facts;
    facts.patterns = what.events;
    facts.levels = levels_of(what).value_or(LogLevels());
    facts.has_probe = !what.preload.empty();
    facts.has_lttng_probe =
        std::find(what.preload.begin(), what.preload.end(), "lttng") != what.preload.end();
    facts.is_empty = std::none_of(taken_.events.begin(), taken_.events.end(),
                                  [](const CountsOfEvent& event) { return event.count != 0; });
    if (!facts.is_empty && facts.patterns.empty() && !facts.has_probe) return {};
    facts.is_command = !what.command.empty();
    facts.is_open = what.names_open() || (!facts.is_command && what.process_ids.empty());
    facts.had_children = !command_ || command_->had_children() || stop_asked_ns_ != 0;
    facts.begun = session_->programs_begun();
    facts.is_attached = !attached_.empty();
    facts.recorded = facts.begun;
    for (const CountsOfEvent& event : taken_.events)
        facts.on.insert(event.event->description.full_name());
    for (const LeftOut& each : left_out())
        facts.is_any_left_out |= facts.on.erase(each.event) != 0;
    facts.is_any_unknown = !taken_.unknown_providers.empty();
    facts.has_filters =
        !what.filter.empty() || std::any_of(what.event_conditions.begin(), what.event_conditions.end(),
                                            [](const std::string& condition) { return !condition.empty(); });
    if (facts.is_command) facts.programs.push_back(program_of_command(what.command[0]));
    facts.executables = what.executables;
    return why_empty(facts);
}

Status Counter::say_result() {
    if (is_redrawn_ && lines_drawn_ != 0) draw("");
    const WhyEmpty why = why_nothing();
    could_never_match_ = why.could_never_match;
    std::vector<std::string> notes = why.lines;
    for (const UnknownProvider& each : taken_.unknown_providers)
        notes.push_back(unknown_provider_text(each));
    if (std::string lines = left_out_text(left_out()); !lines.empty()) {
        lines.pop_back();
        if (why.could_never_match)
            result_.problems.push_back(lines);
        else
            notes.push_back(lines);
    }
    const std::vector<std::string> of_fields = notes_on_fields(taken_, options_);
    notes.insert(notes.end(), of_fields.begin(), of_fields.end());
    if (taken_.not_counted != 0)
        notes.push_back(
            fmt::format("{} could not be counted: the process was held up, or is held by a filter.",
                        counted(taken_.not_counted, "event")));
    if (taken_.damaged_slots != 0)
        notes.push_back(
            fmt::format("{} of the tables of counts made no sense: a program has written over them.",
                        counted(taken_.damaged_slots, "slot")));
    has_nowhere_ = is_field_nowhere(taken_, options_);
    for (const Unreachable& each : result_.unreachable)
        notes.push_back(fmt::format("process {} could not be reached: {}", each.process_id, each.reason));
    notes.insert(notes.end(), result_.problems.begin(), result_.problems.end());

    const CountsSince beginning;
    std::string text;
    if (!options_.what.json || output_.is_open()) {
        const bool is_any = std::any_of(taken_.events.begin(), taken_.events.end(),
                                        [](const CountsOfEvent& event) { return event.count != 0; });
        text = fmt::format("Counted in {:.3f} s\n", static_cast<double>(taken_.elapsed_ns) / 1e9);
        text += is_any ? counted_text(taken_, beginning, options_) : "No event.\n";
    }
    std::string noted;
    for (const std::string& note : notes)
        noted += without_controls(note) + "\n";
    const std::string json = counted_json(taken_, beginning, options_, result_);
    if (!output_.is_open()) {
        put_result(options_.what.json ? noted : text + noted);
        if (options_.what.json) put_out(json);
        return flush_out();
    }
    if (!noted.empty()) put_result(noted);
    return write_counts(output_.get(), options_.what.json ? json : text + noted);
}

} // namespace plumb
