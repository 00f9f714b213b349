/*
 * plumb flame DIR: a flame graph of the events that have call stacks: plumb record --context callstack.
 */
#include "cli/command.h"
#include "cli/losses.h"
#include "cli/option_checks.h"
#include "cli/output.h"
#include "cli/status_line.h"

#include "trace/answers/call_tree.h"
#include "trace/show/event_filter.h"
#include "trace/show/flame_svg.h"
#include "trace/show/trace_summary.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <memory>

namespace plumb {
namespace {

struct FlameOptions {
    std::string trace;
    FilterOptions filter;
    CallTreeOptions tree;
    std::string output;
    std::string title;
    bool folded = false;
};

FlameNode drawn(const CallNode& node) {
    return {node.name, node.weight.number(), node.weight.text(),
            [&node](const std::function<void(const FlameNode&)>& see) {
                for (const auto& [name, callee] : node.callees)
                    see(drawn(*callee));
            }};
}

Status write_out(const FlameOptions& options, const std::string& text) {
    FileDescriptor file;
    if (!options.output.empty()) {
        file = FileDescriptor(::open(options.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
        if (file.get() < 0) return Error::from_errno(errno, "Could not write {}", options.output);
    }
    ::signal(SIGPIPE, SIG_IGN);
    OutputBuffer out(options.output.empty() ? STDOUT_FILENO : file.get());
    out.put(text);
    out.flush();
    if (out.error_number() == 0) return ok();
    return Error::from_errno(out.error_number(), "Could not write to {}",
                             options.output.empty() ? "standard output" : options.output);
}

Error nothing_to_draw(const FlameOptions& options, const CallTree& tree) {
    if (tree.without_weight() > 0)
        return Error("No event with a call stack in {} has a field {} that is a number above 0.",
                     options.trace, options.tree.weight)
            .hint("Without --weight each event counts 1.");
    return Error("{} has no events with call stacks{}.", options.trace,
                 options.filter.selects() ? ", of those that were asked for" : "")
        .hint("Record them with `plumb record --context callstack -o DIR -- COMMAND`.");
}

int run_flame(const FlameOptions& options) {
    bool is_written = false;
    Result<TraceReader> opened = open_trace(options.trace, is_written);
    if (!opened) return complain(opened.error());
    TraceReader& reader = *opened;
    EventFilter filter(reader, options.filter);
    const auto open_again = [&] { return TraceReader::open(options.trace); };
    if (Status understood = filter.take_condition(open_again); !understood)
        return complain(understood.error().with("--where"));
    warn_of_condition("--where", options.filter.condition);
    CallTree tree(reader, options.tree);
    while (const Event* const event = reader.next())
        if (!event->info->is_statedump && filter.wants(*event)) tree.add(*event);
    if (tree.stack_count() == 0) return complain(nothing_to_draw(options, tree));
    const FlameText text = {options.title.empty()
                                ? fmt::format("{}: {}", options.trace, counted(tree.stack_count(), "event"))
                                : options.title,
                            options.tree.weight.empty() ? "events" : options.tree.weight};
    const std::string drawing = options.folded ? tree.folded() : flame_svg(drawn(tree.root()), text);
    if (Status written = write_out(options, drawing); !written) return complain(written.error());
    const auto warn_of = [](uint64_t count, const char* what) {
        if (count > 0) print_error("plumb: warning: {} {}\n", counted(count, "event"), what);
    };
    warn_of(tree.without_stack(), "left out, which have no call stack.");
    warn_of(tree.without_weight(), "left out, whose weight is not known, or not above 0.");
    warn_of(tree.beyond_sum(), "left out: the sum of the weights would not fit into 64 bits with them.");
    for (const std::string& problem : stack_name_problems())
        print_error("plumb: warning: {}\n", escaped(problem));
    warn_of(tree.unended(), "shown below [not known]: their stacks do not reach the outermost function.");
    if (is_written) print_error("plumb: warning: {}\n", still_written_text);
    for (const std::string& line : missing_from(options.trace, reader))
        print_error("plumb: warning: {}\n", line);
    return 0;
}

void add_flame(CLI::App& app) {
    auto options = std::make_shared<FlameOptions>();
    CLI::App* const command =
        app.add_subcommand("flame", "Draw a flame graph of events that have call stacks");
    command->add_option("DIR", options->trace, "Folder that holds the trace (LTTng's too)")->required();
    command
        ->add_option(
            "-e,--event", options->filter.patterns,
            "Only events that match this glob over provider:event; !GLOB leaves out; can be repeated")
        ->check(is_glob())
        ->allow_extra_args(false);
    command
        ->add_option("--where", options->filter.condition,
                     "Only events whose fields fulfil this, as for plumb view")
        ->check(not_empty())
        ->type_name("CONDITION");
    command->add_option("--pid", options->filter.process_ids, "Only this process")
        ->check(is_process_id())
        ->allow_extra_args(false);
    command
        ->add_option("--weight", options->tree.weight,
                     "Functions are as wide as the sum of this field below them, not as the number of events")
        ->check(not_empty())
        ->type_name("FIELD");
    command->add_flag("--by-process", options->tree.by_process, "Draw each process by itself");
    command->add_flag("--by-thread", options->tree.by_thread, "Draw each thread by itself");
    command->add_option("--title", options->title, "What stands above the picture")
        ->check(not_empty())
        ->type_name("TEXT");
    command->add_flag("--folded", options->folded,
                      "Text in place of a picture, a line for each stack: `main;run;work 17`");
    command->add_option("-o,--output", options->output, "File that is written; default: standard output")
        ->check(not_empty())
        ->type_name("FILE");
    command->callback([options] { finish(run_flame(*options)); });
}

const Command flame_command(add_flame, 36);

} // namespace
} // namespace plumb
