/*
 * plumb view DIR: a trace as text, or as JSON lines, all streams merged by time. Says on standard error what
 * is missing from the trace. Ends quietly when nobody reads its output any more.
 */
#include "cli/command.h"
#include "cli/losses.h"
#include "cli/option_checks.h"
#include "cli/output.h"
#include "cli/record_options.h"

#include "trace/show/event_filter.h"
#include "trace/show/event_writer.h"
#include "trace/show/parallel_writer.h"
#include "trace/show/trace_contents.h"
#include "trace/show/trace_summary.h"
#include "trace/stack_frames.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <memory>
#include <optional>
#include <thread>

namespace plumb {
namespace {

struct ViewOptions {
    std::string trace;
    FilterOptions filter;
    std::string since;
    std::string until;
    uint64_t limit = 0;
    bool local = false; /* the default, spelled out */
    bool utc = false;
    bool seconds = false;
    bool monotonic = false;
    bool json = false;
    bool summary = false;
    bool stats = false;
    bool pairs = false;
    std::string min_duration;
    int64_t min_duration_ns = 0;
    std::string color = "auto";

    TimeStyle time_style() const {
        if (monotonic) return TimeStyle::monotonic;
        return seconds ? TimeStyle::seconds : utc ? TimeStyle::utc : TimeStyle::local;
    }
    bool use_color() const {
        if (color != "auto") return color == "always";
        return ::isatty(STDOUT_FILENO) != 0 && ::getenv("NO_COLOR") == nullptr;
    }
};

Status take_times(ViewOptions& options, const TraceReader& reader) {
    const std::optional<int64_t> monotonic_zero_ns = reader.monotonic_zero_ns();
    if (options.monotonic && !monotonic_zero_ns)
        return Error("{} does not say what its clock is in CLOCK_MONOTONIC.", options.trace)
            .hint("Traces of plumb record do. Leave out --monotonic.");
    const TimeFormat time(options.time_style(), reader.start_ns(), monotonic_zero_ns.value_or(0));
    if (!options.since.empty()) {
        Result<int64_t> since = time.parse(options.since);
        if (!since) return since.error().with("--since");
        options.filter.since_ns = *since;
    }
    if (!options.until.empty()) {
        Result<int64_t> until = time.parse(options.until);
        if (!until) return until.error().with("--until");
        options.filter.until_ns = *until;
    }
    if (!options.min_duration.empty()) {
        const Result<std::uint64_t> least = parse_duration_ns(options.min_duration);
        if (!least) return least.error().with("--min-duration");
        options.min_duration_ns = static_cast<int64_t>(*least);
    }
    return ok();
}

/* `text`: without what would steer a terminal. */
void warn(const std::string& text) {
    print_error("plumb: warning: {}\n", text);
}

/* Returns whether all that is in the files could be read. `all_events`: if nothing was left out. */
bool warn_about_losses(const std::string& trace, const TraceReader& reader, bool is_written,
                       bool is_read_to_its_end, const std::optional<EventsRead>& all_events,
                       uint64_t damaged_events) {
    const StreamLosses losses = reader.losses();
    if (is_written) warn(still_written_text);
    for (const std::string& problem : stack_name_problems())
        warn(escaped(problem));
    for (const std::string& line : missing_from(trace, reader, is_read_to_its_end))
        warn(line);
    const RecordedLosses recorded = recorded_losses(trace, reader);
    const std::string differs = all_events ? count_that_differs(recorded, *all_events) : std::string();
    if (!differs.empty()) warn(differs);
    if (damaged_events > 0)
        warn(fmt::format("{} events have fields that reach beyond their end.", grouped(damaged_events)));
    /* The last packet of a trace that is still written may be on its way. */
    return (losses.damaged_packets == 0 || is_written) && damaged_events == 0 && losses.unknown_events == 0 &&
           reader.closed().empty() && reader.bare().empty() && recorded.missing_files.empty() &&
           differs.empty();
}

struct Shown {
    std::unique_ptr<EventWriter> writer;
    std::unique_ptr<TraceSummary> summary;
};

/* With all processors, where that can be. Pairs join lines from anywhere. */
std::unique_ptr<EventWriter> make_writer(const ViewOptions& options, TraceReader& reader, OutputBuffer& out) {
    TextStyle style{options.time_style(),    options.use_color(), options.pairs,
                    options.min_duration_ns, options.limit,       {}};
    if (options.pairs) style.losses = reader.loss_places();
    const auto make = [&reader, json = options.json, style = std::move(style)](OutputBuffer& to) {
        return json ? make_json_writer(reader, to) : make_text_writer(reader, to, style);
    };
    const unsigned processors = std::thread::hardware_concurrency();
    if (processors < 2 || options.pairs || !can_write_parallel(reader)) return make(out);
    /* Behind four, who reads the trace is what bounds it. */
    return std::make_unique<ParallelWriter>(reader, out, make, std::min(processors - 1, 4U));
}

Shown make_shown(const ViewOptions& options, TraceReader& reader, OutputBuffer& out) {
    Shown shown;
    if (options.summary)
        shown.summary = std::make_unique<TraceSummary>(reader);
    else if (!options.stats)
        shown.writer = make_writer(options, reader, out);
    return shown;
}

/* Returns whether it came to the end. `count`: of the events that were wanted, or of lines of pairs. */
bool read_events(const ViewOptions& options, TraceReader& reader, OutputBuffer& out, const Shown& shown,
                 EventFilter& filter, uint64_t& count) {
    /* To count, nobody needs them in order. */
    if (shown.summary && !shown.writer && options.limit == 0 && !filter.goes_by_thread()) {
        const bool is_read_to_its_end = shown.summary->add_all(filter);
        count = shown.summary->event_count();
        return is_read_to_its_end;
    }
    while (const Event* const event = reader.next()) {
        if (filter.is_past(*event) || out.is_closed()) return false;
        if (!filter.wants(*event)) {
            if (!options.pairs || !shown.writer) continue;
            shown.writer->pass_over(*event); /* it may write the entry whose exit this is */
        } else {
            if (shown.writer) shown.writer->write(*event);
            if (shown.summary) shown.summary->add(*event);
            count++;
        }
        /* Entry and exit of a system call are one line. */
        if (options.pairs && shown.writer) count = shown.writer->lines();
        if (options.limit != 0 && count >= options.limit) return false;
    }
    return true;
}

/* A slip in an option looks like a quiet program, and a program without tracepoints, too. */
void tell_why_nothing(const ViewOptions& options, const TraceReader& reader) {
    const std::vector<std::string> why_empty = recorded_losses(options.trace, reader).why_empty;
    for (const std::string& line : why_empty)
        print_error("plumb: {}\n", line);
    if (!options.filter.selects() && options.min_duration_ns == 0) return;
    if (!options.filter.selects()) {
        print_error("plumb: nothing is shown: no system call is known to have taken {} or longer.\n",
                    without_controls(options.min_duration));
        return;
    }
    Result<TraceReader> again = TraceReader::open(options.trace);
    if (!again) return;
    for (const std::string& line : TraceContents(*again).why_nothing(options.filter, options.time_style()))
        print_error("plumb: {}\n", without_controls(line));
}

int run_view(ViewOptions options) {
    bool is_written = false;
    Result<TraceReader> opened = open_trace(options.trace, is_written);
    if (!opened) return complain(opened.error());
    TraceReader& reader = *opened;
    if (Status taken = take_times(options, reader); !taken) return complain(taken.error());
    reader.skip_before(options.filter.since_ns);
    EventFilter filter(reader, options.filter);
    const auto open_again = [&] { return TraceReader::open(options.trace); };
    if (Status understood = filter.take_condition(open_again); !understood)
        return complain(understood.error().with("--where"));
    warn_of_condition("--where", options.filter.condition);
    for (const std::string& pattern : filter.idle_patterns()) {
        const std::string name = filter.without_system(pattern);
        warn(fmt::format(
            "the trace has no event that matches {}{}", escaped(pattern),
            name.empty() ? ""
                         : fmt::format("; the kernel's are called by their names alone: {}", escaped(name))));
    }

    ::signal(SIGPIPE, SIG_IGN);
    OutputBuffer out(STDOUT_FILENO);
    const Shown shown = make_shown(options, reader, out);
    uint64_t count = 0;
    const bool is_read_to_its_end = read_events(options, reader, out, shown, filter, count);
    if (shown.writer) {
        shown.writer->finish();
        if (options.pairs) count = shown.writer->lines();
        if (const uint64_t calls = shown.writer->threadless_calls(); calls > 0)
            warn(fmt::format(
                "{} events of system calls do not say which thread they are of, so that nobody knows which "
                "entry and which exit are one call (LTTng: `lttng add-context --kernel --type=tid`).",
                grouped(calls)));
    }
    if (shown.summary && options.json) shown.summary->put_json(out);
    if (shown.summary && !options.json) {
        shown.summary->put_text(out, options.time_style());
        const RecordedLosses recorded = recorded_losses(options.trace, reader);
        for (const auto& lines : {recorded.lost, recorded.other})
            for (const std::string& line : lines)
                out.put(fmt::format("      {}\n", line));
    }
    if (options.stats && options.json) TraceSummary::put_streams_json(out, reader);
    if (options.stats && !options.json) TraceSummary::put_streams(out, reader);
    out.flush();
    if (out.error_number() != 0)
        return complain(Error::from_errno(out.error_number(), "Could not write to standard output"));
    if (out.is_closed()) return 0;
    if (count == 0) tell_why_nothing(options, reader);
    std::optional<EventsRead> all_events;
    if (is_read_to_its_end && !options.filter.selects() && !options.filter.statedump && !options.pairs &&
        (shown.writer || shown.summary))
        all_events = EventsRead{count, {}};
    if (all_events && shown.summary)
        for (const auto& [name, of_name] : shown.summary->events_by_count())
            all_events->by_name[name] += of_name;
    const bool is_sound = warn_about_losses(options.trace, reader, is_written, is_read_to_its_end, all_events,
                                            shown.writer ? shown.writer->damaged_events() : 0);
    return is_sound ? 0 : 1;
}

void add_view(CLI::App& app) {
    auto options = std::make_shared<ViewOptions>();
    CLI::App* const command =
        app.add_subcommand("view", "Show a trace as text or JSON, all streams in time order");
    command->add_option("DIR", options->trace, "Folder that holds the trace, or several (LTTng's too)")
        ->required();

    const char* const select = "Select";
    command
        ->add_option(
            "-e,--event", options->filter.patterns,
            "Only events that match this glob over provider:event; !GLOB leaves out; can be repeated")
        ->check(is_glob())
        ->allow_extra_args(false)
        ->group(select);
    command
        ->add_option("--tid", options->filter.thread_ids,
                     "Only this thread, and what the kernel's scheduler does with it")
        ->check(is_number("a thread id", 1))
        ->allow_extra_args(false)
        ->group(select);
    command->add_option("--pid", options->filter.process_ids, "Only this process")
        ->check(is_process_id())
        ->allow_extra_args(false)
        ->group(select);
    command->add_option("--comm", options->filter.thread_names, "Only threads whose name matches this glob")
        ->check(is_glob())
        ->allow_extra_args(false)
        ->group(select);
    command
        ->add_option("--where", options->filter.condition,
                     "Only events whose fields fulfil this: 'flags & 0x40 && path ~ \"/tmp/*\"'")
        ->check(not_empty())
        ->type_name("CONDITION")
        ->group(select);
    command
        ->add_option("--since", options->since,
                     "Start here: 12:34:56.5, \"2026-01-31 12:34:56\", +1.5s, +20ms, +1h")
        ->check(not_empty())
        ->group(select);
    command->add_option("--until", options->until, "End here, as --since")->check(not_empty())->group(select);
    command->add_option("-n,--limit", options->limit, "End after so many events")
        ->check(is_number("a number of events, 1 or more", 1, std::numeric_limits<uint64_t>::max()))
        ->group(select);
    command->add_flag("--statedump", options->filter.statedump, "Plumb's own plumb_statedump:* events too")
        ->group(select);

    const char* const show = "Show";
    CLI::Option* const utc = command->add_flag("--utc", options->utc, "Time of day in UTC")->group(show);
    CLI::Option* const local =
        command->add_flag("--local", options->local, "Time of day of this machine's time zone (the default)")
            ->group(show);
    CLI::Option* const seconds =
        command->add_flag("--seconds", options->seconds, "Seconds since the first event")->group(show);
    CLI::Option* const monotonic =
        command->add_flag("--monotonic", options->monotonic, "Seconds of CLOCK_MONOTONIC")->group(show);
    utc->excludes(local)->excludes(seconds)->excludes(monotonic);
    local->excludes(seconds)->excludes(monotonic);
    seconds->excludes(monotonic);
    CLI::Option* const json =
        command->add_flag("--json", options->json, "One JSON object for each event and line, integers exact")
            ->group(show);
    CLI::Option* const pairs =
        command
            ->add_flag("--pairs", options->pairs,
                       "A system call's entry and exit as one line, where it returned, with the time between")
            ->group(show)
            ->excludes(json);
    CLI::Option* const least =
        command
            ->add_option("--min-duration", options->min_duration,
                         "With --pairs: nothing but calls that took as long: 1ms, 0.5s")
            ->check(not_empty())
            ->group(show)
            ->needs(pairs);
    command->add_flag("--summary", options->summary, "Only counts: by event, by thread, and what was lost")
        ->group(show)
        ->excludes(least);
    command->add_flag("--stats", options->stats, "What each stream file lost (no events unless --summary)")
        ->group(show);
    command->add_option("--color", options->color, "auto, always or never")
        ->check(CLI::IsMember({"auto", "always", "never"}))
        ->group(show);
    command->footer(
        "Each line: [time] (since the line before) provider:event: { CPU }, { thread }, { fields }\n"
        "What is missing from the trace is said on standard error.");
    command->callback([options] { finish(run_view(*options)); });
}

const Command view_command(add_view, 30);

} // namespace
} // namespace plumb
