#include "cli/record_summary.h"

#include "base/folder.h"
#include "base/output_buffer.h"
#include "cli/losses.h"
#include "cli/status_line.h"
#include "consumerd/drain/totals_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <map>

namespace plumb {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t events_listed = 30;
constexpr std::size_t processes_listed = 10;

std::string events_text(const DrainTotals& totals) {
    std::string text;
    std::size_t width = 0;
    const std::size_t listed = std::min(totals.events.size(), events_listed);
    for (std::size_t i = 0; i < listed; i++)
        width = std::max(width, with_commas(totals.events[i].count).size());
    for (std::size_t i = 0; i < listed; i++)
        text += fmt::format("  {:>{}}  {}\n", with_commas(totals.events[i].count), width,
                            escaped(totals.events[i].name));
    if (listed < totals.events.size())
        text += fmt::format("  {:>{}}  and {} more kinds\n", "...", width, totals.events.size() - listed);
    return text;
}

/* Of programs with tracepoints; nothing where there was none, and the kernel was recorded. */
std::string processes_text(const DrainTotals& totals) {
    if (totals.processes.empty() && totals.kernel_events_read > 0) return "";
    std::string names;
    const std::size_t listed = std::min(totals.processes.size(), processes_listed);
    for (std::size_t i = 0; i < listed; i++)
        names += fmt::format("{}{} ({})", i == 0 ? ": " : ", ", escaped(totals.processes[i].name),
                             totals.processes[i].process_id);
    const std::uint64_t all = totals.processes.size() + totals.further_processes;
    if (listed < all) names += ", ...";
    return fmt::format("{}, {}{}\n", counted(all, "process"), counted(totals.threads, "thread"), names);
}

std::string not_described_lines(const DrainTotals& totals, const char* where) {
    std::string text;
    for (const NamedCount& each : totals.not_described)
        text += fmt::format("  {}\n", not_described_text(each));
    return text.empty() ? text : fmt::format("Not described{}:\n{}", where, text);
}

std::string lost_lines(const DrainTotals& totals) {
    std::string text;
    for (const NamedCount& lost : totals.events_lost)
        text += fmt::format("  {}\n", loss_text(lost, "event", totals.write_error, totals.notes));
    for (const NamedCount& lost : totals.subbufs_lost)
        text += fmt::format("  {}\n", loss_text(lost, "sub-buffer", totals.write_error, totals.notes));
    for (const NamedCount& missed : totals.missed)
        text += fmt::format("  {}\n", escaped(missed_text(missed)));
    return text;
}

std::string cut_lines(const DrainTotals& totals, const char* where) {
    std::string text;
    for (const NamedCount& note : totals.notes)
        if (note.name == cut_note) text = fmt::format("Not whole{}:\n  {}\n", where, cut_text(note.count));
    return text;
}

std::string losses_text(const RecordSummary& summary) {
    const DrainTotals& totals = summary.totals;
    const bool is_complete = summary.problems.empty(); /* else what was not read at all may be anything */
    std::string lost = lost_lines(totals);
    for (const NamedCount& missing : totals.not_switched_on)
        lost += fmt::format("  {}\n", escaped(not_switched_on_text(missing)));
    constexpr const char* where_before = " in the snapshots before";
    const std::string lost_before = lost_lines(summary.before);
    const std::string before =
        (lost_before.empty() ? "" : fmt::format("Lost{}:\n{}", where_before, lost_before)) +
        cut_lines(summary.before, where_before) + not_described_lines(summary.before, where_before);
    const std::string cut = cut_lines(totals, "");
    std::string text = lost.empty() ? "" : "Lost:\n" + lost;
    if (lost.empty() && cut.empty() && totals.not_described.empty() && is_complete)
        text = (summary.unreachable.empty() && summary.reached_late.empty() && summary.unseen_users.empty()
                    ? "Nothing was lost"
                    : "Of what was recorded, nothing was lost") +
               (!before.empty()                 ? std::string(" in the last snapshot")
                : summary.snapshots.size() <= 1 ? std::string()
                                                : fmt::format(" in {} snapshots", summary.snapshots.size())) +
               ".\n";
    return text + cut + not_described_lines(totals, "") + before;
}

Json unreachable_json(const std::vector<Unreachable>& processes) {
    Json list = Json::array();
    for (const Unreachable& each : processes)
        list.push_back({{"pid", each.process_id}, {"reason", each.reason}});
    return list;
}

Json left_out_json(const std::vector<LeftOut>& left_out) {
    Json list = Json::array();
    for (const LeftOut& each : left_out)
        list.push_back({{"event", each.event}, {"missing_fields", each.missing}});
    return list;
}

Json unknown_providers_json(const std::vector<UnknownProvider>& providers) {
    Json list = Json::array();
    for (const UnknownProvider& each : providers)
        list.push_back({{"provider", each.name}, {"major", each.major}, {"events", each.events}});
    return list;
}

std::string disturbed_text(const std::vector<Disturbed>& disturbed) {
    constexpr std::size_t shown_max = 10;
    std::string text;
    for (std::size_t i = 0; i < disturbed.size() && i < shown_max; i++)
        text += fmt::format(
            "Process {}, thread {}: {} was interrupted (EINTR, or cut short) when it was switched {}.\n",
            disturbed[i].process_id, disturbed[i].thread_id,
            disturbed[i].system_call.empty() ? "a system call" : "its " + disturbed[i].system_call,
            disturbed[i].is_at_end ? "off" : "on");
    if (disturbed.size() > shown_max)
        text +=
            fmt::format("So were {} more calls (summary.json has them all).\n", disturbed.size() - shown_max);
    return text;
}

std::string removed_text(const RemovedChunks& removed) {
    const char* const asked = removed.by_count && removed.by_bytes ? "--keep-chunks and --keep-size"
                              : removed.by_count                   ? "--keep-chunks"
                                                                   : "--keep-size";
    const std::string names = removed.count == 1 ? removed.first : removed.first + " to " + removed.last;
    return fmt::format("{} {} removed, as {} asked: {}, with {}.\n", counted(removed.count, "older chunk"),
                       removed.count == 1 ? "was" : "were", asked, names, counted(removed.events, "event"));
}

} // namespace

std::string left_out_text(const std::vector<LeftOut>& left_out) {
    constexpr std::size_t names_max = 8;
    std::map<std::vector<std::string>, std::vector<std::string>> by_missing;
    for (const LeftOut& each : left_out)
        by_missing[each.missing].push_back(each.event);
    std::string text;
    for (const auto& [missing, events] : by_missing) {
        const bool is_one = events.size() == 1;
        const std::size_t named = std::min(events.size(), names_max);
        std::string names = fmt::format(
            "{}", fmt::join(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(named), ", "));
        if (named < events.size()) names += fmt::format(" and {} more", events.size() - named);
        text +=
            fmt::format("{} {} left out: {}\n", escaped(names), is_one ? "was" : "were",
                        missing.empty() ? "no filter can be true of it."
                                        : fmt::format("the filter asks for {}, which {} not have.",
                                                      escaped(fmt::format("{}", fmt::join(missing, ", "))),
                                                      is_one ? "it does" : "they do"));
    }
    return text;
}

std::string summary_text(const RecordSummary& summary) {
    const DrainTotals& totals = summary.totals;
    std::string text = fmt::format("Recorded {} in {:.2f} s.\n", counted(totals.progress.events, "event"),
                                   static_cast<double>(summary.duration_ns) / 1e9);
    text += events_text(totals) + processes_text(totals);
    if (!summary.filter.empty()) text += fmt::format("With a filter: {}\n", without_controls(summary.filter));
    text += losses_text(summary);
    for (const NamedCount& note : totals.notes)
        if (note.name != cut_note && note.name != texts_note)
            text += fmt::format("  note: {} {}\n", with_commas(note.count), note.name);
    if (totals.clock.apart_ns != 0) text += went_apart_text(totals.clock) + "\n";
    for (const Unreachable& each : summary.unreachable)
        text += fmt::format("Process {} could not be reached: {}\n", each.process_id,
                            without_controls(each.reason));
    for (const Unreachable& each : summary.reached_late)
        text +=
            fmt::format("Process {} was reached late: {}\n", each.process_id, without_controls(each.reason));
    for (const uid_t user_id : summary.unseen_users)
        text +=
            fmt::format("Programs of user {0} with tracepoints began and ended before that user was "
                        "recorded: {1}what they "
                        "traced is missing (--user {0} records that user's programs from their beginning).\n",
                        user_id, summary.command.empty() ? "" : "if the command started them, ");
    text += disturbed_text(summary.disturbed);
    for (const TracedName& each : summary.left_running)
        text += fmt::format("{} ({}) still runs; it is not traced any more.\n", escaped(each.name),
                            each.process_id);
    for (const TracedName& each : summary.ended_since)
        text += fmt::format("{} ({}) ran on when the recording ended, and has ended since; what it traced "
                            "then, and what it started, is not in it.\n",
                            escaped(each.name), each.process_id);
    text += left_out_text(summary.left_out);
    for (const UnknownProvider& each : summary.unknown_providers)
        text += escaped(unknown_provider_text(each)) + "\n";
    for (const std::string& line : summary.why_empty.lines)
        text += without_controls(line) + "\n";
    for (const std::string& problem : summary.problems)
        text += without_controls(problem) + "\n";
    if (summary.snapshots.size() > 1)
        text += fmt::format("Of {} snapshots, this was the last.\n", summary.snapshots.size());
    if (summary.removed_chunks.count != 0) text += removed_text(summary.removed_chunks);
    if (std::error_code unknown; !std::filesystem::exists(summary.directory, unknown)) return text;
    const std::uint64_t bytes =
        totals.progress.bytes - std::min(totals.progress.bytes, summary.removed_chunks.bytes);
    if (!summary.chunks.empty())
        return text + fmt::format("The trace is in {}, in {} ({}).\n", escaped(summary.directory),
                                  counted(summary.chunks.size(), "chunk"), size_text(bytes));
    if (!summary.sent_to.empty())
        return text + fmt::format("The trace was sent to {} ({}); what describes it is in {}, too.\n",
                                  without_controls(summary.sent_to), size_text(totals.progress.bytes),
                                  without_controls(summary.directory));
    return text + fmt::format("The trace is in {} ({}).\n", escaped(summary.directory),
                              size_text(totals.progress.bytes));
}

std::string summary_json(const RecordSummary& summary) {
    const DrainTotals& totals = summary.totals;
    Json disturbed = Json::array();
    for (const Disturbed& each : summary.disturbed)
        disturbed.push_back({{"pid", each.process_id},
                             {"tid", each.thread_id},
                             {"system_call", each.system_call},
                             {"switched", each.is_at_end ? "off" : "on"}});
    Json root;
    root["trace"] = summary.chunk ? summary.chunk->path : summary.directory;
    if (summary.chunk)
        root["chunk"] = {{"number", summary.chunk->number},
                         {"begin_ns", summary.chunk->begin_ns},
                         {"end_ns", summary.chunk->end_ns}};
    if (!summary.chunks.empty()) root["chunks"] = summary.chunks;
    if (const RemovedChunks& removed = summary.removed_chunks; removed.count != 0)
        root["removed_chunks"] = {{"count", removed.count},
                                  {"events", removed.events},
                                  {"bytes", removed.bytes},
                                  {"first", removed.first},
                                  {"last", removed.last}};
    if (!summary.snapshots.empty()) root["snapshots"] = summary.snapshots;
    root["name"] = summary.name;
    if (!summary.sent_to.empty()) root["sent_to"] = summary.sent_to;
    root["command"] = summary.command;
    if (!summary.filter.empty()) root["filter"] = summary.filter;
    root["exit_status"] = summary.exit_status ? Json(*summary.exit_status) : Json();
    root["duration_ns"] = summary.duration_ns;
    root["complete"] = summary.is_complete();
    root["problems"] = summary.problems;
    if (!summary.why_empty.lines.empty()) root["why_empty"] = summary.why_empty.lines;
    if (!summary.left_out.empty()) root["left_out_by_filter"] = left_out_json(summary.left_out);
    if (!summary.unknown_providers.empty())
        root["unknown_providers"] = unknown_providers_json(summary.unknown_providers);
    put_totals(root, totals, summary.channel, summary.directory);
    root["unreachable"] = unreachable_json(summary.unreachable);
    root["reached_late"] = unreachable_json(summary.reached_late);
    root["disturbed"] = disturbed;
    root["unseen_users"] = summary.unseen_users;
    root["left_running"] = processes_as_json(summary.left_running);
    root["ended_since"] = processes_as_json(summary.ended_since);
    return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status store_summary(const RecordSummary& summary) {
    const auto folder = Folder::open(summary.directory); /* which is not where a link leads */
    if (!folder) return folder.error().with("The trace has no summary");
    if (Status stored = folder->replace_file("summary.json", summary_json(summary)); !stored)
        return stored.error().with("The trace has no summary");
    return ok();
}

Status send_summary(SerialLine& line, const RecordSummary& summary) {
    Status sent = line.send_file("summary.json", summary_json(summary));
    if (sent) sent = line.end();
    return sent ? ok() : Status(sent.error().with("The other side was not told the end of the trace"));
}

} // namespace plumb
