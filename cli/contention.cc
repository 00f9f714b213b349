/*
 * plumb contention DIR: which locks of the traced programs are waited for, as a table, the worst first. Needs
 * the events of the pthread probe, plumb record --preload pthread, or those of the agent for Java, --jvm.
 */
#include "cli/command.h"
#include "cli/losses.h"
#include "cli/option_checks.h"
#include "cli/output.h"
#include "cli/status_line.h"

#include "trace/answers/lock_contention.h"
#include "trace/show/trace_summary.h"
#include "trace/symbols.h"

#include <unistd.h>

#include <csignal>
#include <memory>

namespace plumb {
namespace {

struct ContentionOptions {
    std::string trace;
    uint64_t limit = 10;
    uint32_t process_id = 0;
    bool json = false;
};

/* 1.23 us: three digits, as that is what one compares. */
std::string duration_text(double ns) {
    constexpr double limit = 999.5; /* what is more becomes 1000 by rounding */
    if (ns < limit) return fmt::format("{:.0f} ns", ns);
    if (ns < limit * 1e3) return fmt::format("{:.3g} us", ns / 1e3);
    if (ns < limit * 1e6) return fmt::format("{:.3g} ms", ns / 1e6);
    return fmt::format("{:.3f} s", ns / 1e9);
}

double ratio(uint64_t part, uint64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string process_text(const LockUse& lock) {
    const ProcessRecord* const process = lock.names->find_process(lock.process_id, lock.last_ns);
    return process == nullptr ? fmt::format("{}", lock.process_id)
                              : fmt::format("{} {}", escaped(process->name), lock.process_id);
}

std::string java_name(const LockUse& lock) {
    return lock.kind == LockKind::synchronizer ? synchronizer_name(lock.class_name) : lock.class_name;
}

std::string static_name(const LockUse& lock, Symbols& symbols) {
    return symbols.name_at(*lock.names, lock.process_id, lock.address, lock.last_ns);
}

std::string caller_name(const LockUse& lock, Symbols& symbols) {
    return symbols.name_at(*lock.names, lock.process_id, lock.busiest_caller, lock.busiest_caller_ns);
}

std::string lock_text(const LockUse& lock, Symbols& symbols) {
    if (is_known_by_waits(lock.kind)) {
        std::string name = fmt::format("{} #{}", escaped(java_name(lock)), lock.address);
        if (lock.busiest_owner_count != 0)
            name += fmt::format(", held by \"{}\"", escaped(lock.busiest_owner));
        return name;
    }
    std::string name = static_name(lock, symbols);
    if (lock.busiest_caller != 0) name += fmt::format(", waited for in {}", caller_name(lock, symbols));
    return escaped(name);
}

/* What is not known of a lock is "-". */
void put_table(OutputBuffer& out, const std::vector<LockUse>& locks, Symbols& symbols) {
    out.put("  acquired   waited      %  wait total    wait avg    wait max    held avg    held max  threads "
            " lock\n");
    for (const LockUse& lock : locks) {
        const auto time = [](double ns) { return duration_text(ns); };
        const auto known = [&](std::string text) {
            return is_known_by_waits(lock.kind) ? std::string("-") : text;
        };
        const double share = ratio(lock.contended_count, lock.acquired_count + lock.in_vain_count);
        out.put(fmt::format(
            "{:>10}  {:>7}  {:>5}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>7}  {} {} [{}]\n",
            known(fmt::to_string(lock.acquired_count)), lock.contended_count,
            known(fmt::format("{:.1f}", 100 * share)), time(static_cast<double>(lock.waited_ns)),
            time(ratio(lock.waited_ns, lock.contended_count)), time(static_cast<double>(lock.max_waited_ns)),
            known(time(ratio(lock.held.total_ns, lock.held.count))),
            known(time(static_cast<double>(lock.held.max_ns))), lock.thread_count, lock_kind_name(lock.kind),
            lock_text(lock, symbols), process_text(lock)));
    }
}

void put_java_json(OutputBuffer& out, const LockUse& lock) {
    const bool is_monitor = lock.kind == LockKind::monitor;
    const std::string class_name =
        is_monitor ? "" : fmt::format("\"class_name\":{},", json_string(lock.class_name));
    out.put(fmt::format("{{\"kind\":\"{}\",\"pid\":{},\"{}\":{},\"name\":{},{}\"contended\":{},"
                        "\"waited_ns\":{},\"max_waited_ns\":{},\"threads\":{},\"held_by\":{}}}\n",
                        lock_kind_name(lock.kind), lock.process_id, is_monitor ? "monitor" : "blocker",
                        lock.address, json_string(java_name(lock)), class_name, lock.contended_count,
                        lock.waited_ns, lock.max_waited_ns, lock.thread_count,
                        lock.busiest_owner_count == 0 ? "null" : json_string(lock.busiest_owner)));
}

void put_json(OutputBuffer& out, const std::vector<LockUse>& locks, Symbols& symbols) {
    for (const LockUse& lock : locks) {
        if (is_known_by_waits(lock.kind)) {
            put_java_json(out, lock);
            continue;
        }
        const std::string caller =
            lock.busiest_caller == 0 ? "null" : json_string(caller_name(lock, symbols));
        out.put(fmt::format(
            "{{\"kind\":\"{}\",\"pid\":{},\"address\":{},\"name\":{},\"acquired\":{},\"released\":{},"
            "\"contended\":{},\"in_vain\":{},"
            "\"waited_ns\":{},\"max_waited_ns\":{},\"held\":{},\"held_ns\":{},\"max_held_ns\":{},\"threads\":"
            "{},"
            "\"waited_for_in\":{}}}\n",
            lock_kind_name(lock.kind), lock.process_id, lock.address, json_string(static_name(lock, symbols)),
            lock.acquired_count, lock.released_count, lock.contended_count, lock.in_vain_count,
            lock.waited_ns, lock.max_waited_ns, lock.held.count, lock.held.total_ns, lock.held.max_ns,
            lock.thread_count, caller));
    }
}

int run_contention(const ContentionOptions& options) {
    bool is_written = false;
    Result<TraceReader> opened = open_trace(options.trace, is_written);
    if (!opened) return complain(opened.error());
    TraceReader& reader = *opened;
    LockContention contention(reader);
    while (const Event* const event = reader.next())
        if (options.process_id == 0 || reader.process_id_of(*event) == options.process_id)
            contention.add(*event);
    if (!contention.has_lock_events() && options.process_id != 0)
        return complain(Error("In {}, process {} has no events of locks.", options.trace, options.process_id)
                            .hint("Without --pid those of all processes are shown."));
    const std::vector<std::string> why_empty = recorded_losses(options.trace, reader).why_empty;
    if (!contention.has_lock_events() && !why_empty.empty())
        return complain(Error("{} has no events of locks. {}", options.trace, fmt::join(why_empty, " ")));
    if (!contention.has_lock_events())
        return complain(Error("{} has no events of locks.", options.trace)
                            .hint("Record with `plumb record --preload pthread -o DIR -- COMMAND`; of Java's "
                                  "locks, where a thread waits for one, with `plumb record --jvm` "
                                  "(jvm:monitor_contended_*, jvm:park*)."));
    std::vector<LockUse> locks = contention.result();
    const std::size_t lock_count = locks.size();
    if (options.limit > 0 && locks.size() > options.limit) locks.resize(options.limit);

    ::signal(SIGPIPE, SIG_IGN);
    Symbols symbols;
    OutputBuffer out(STDOUT_FILENO);
    if (options.json) {
        put_json(out, locks, symbols);
    } else {
        put_table(out, locks, symbols);
        if (locks.size() < lock_count)
            out.put(fmt::format("{} more locks: --limit 0 shows all\n", grouped(lock_count - locks.size())));
    }
    out.flush();
    if (out.error_number() != 0)
        return complain(Error::from_errno(out.error_number(), "Could not write to standard output"));
    if (contention.unreadable_count() > 0)
        print_error("plumb: warning: {} of locks left out, which are cut or damaged.\n",
                    counted(contention.unreadable_count(), "event"));
    const StreamLosses losses = reader.losses();
    if (losses.any())
        print_error(
            "plumb: warning: the trace is not complete ({} events and {} packets lost, {} packets damaged), "
            "so the figures are not either.\n",
            grouped(losses.events_discarded), grouped(losses.packets_lost), grouped(losses.damaged_packets));
    for (const std::string& problem : symbols.problems())
        print_error("plumb: warning: {}\n", escaped(problem));
    if (is_written) print_error("plumb: warning: {}\n", still_written_text);
    for (const std::string& line : missing_from(options.trace, reader))
        print_error("plumb: warning: {}\n", line);
    return 0;
}

void add_contention(CLI::App& app) {
    auto options = std::make_shared<ContentionOptions>();
    CLI::App* const command = app.add_subcommand(
        "contention", "Show which locks were waited for, of a trace with pthread or jvm events");
    command->add_option("DIR", options->trace, "Folder that holds the trace")->required();
    command->add_option("-n,--limit", options->limit, "Show so many locks, the most waited for (0: all)")
        ->check(is_number("a number of locks"))
        ->capture_default_str();
    command->add_option("--pid", options->process_id, "Only locks of this process")->check(is_process_id());
    command->add_flag("--json", options->json, "One JSON object for each lock and line");
    command->footer("waited: waited for, also in vain. held: what was held and given up. A lock in static "
                    "memory is shown by\n"
                    "its symbol, or by object and offset; others by address.");
    command->callback([options] { finish(run_contention(*options)); });
}

const Command contention_command(add_contention, 35);

} // namespace
} // namespace plumb
