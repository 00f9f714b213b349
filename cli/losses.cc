#include "cli/losses.h"

#include "base/output_buffer.h"
#include "base/trace_folders.h"
#include "cli/status_line.h"
#include "cli/summary_file.h"
#include "consumerd/control/channel.h"
#include "consumerd/event/unknown_providers.h"
#include "consumerd/sink/trace_directory.h"
#include "consumerd/sink/trace_files.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

namespace plumb {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<const char*, const char*> advice_for[] = {
    {"full", "rings were full: try a larger --subbuf-size, fewer events (-e), or --mode block"},
    {"block_timeout", "rings stayed full for longer than --block-timeout"},
    {"too_large", "longer than 65,528 bytes, or than a quarter of a sub-buffer: where sub-buffers are "
                  "smaller than 256K, a larger "
                  "--subbuf-size helps"},
    {"contended",
     "no ring was free (without restartable sequences, or of --buffers global), or no buffer "
     "for large events, or no memory or stack to put one together, or a message that could not be "
     "made (Java, Python), or tracepoints were too deep in each other (LTTng-UST)"},
    {"held",
     "of a program with a seccomp filter: of its new threads, what it could not wait for, and large ones "
     "that it had no buffer for; --seccomp records "
     "them, if the filter allows what tracing calls"},
    {"no_memory",
     "/dev/shm was full when a ring needed its memory, or what plumb.ko has in its place: try fewer "
     "or smaller sub-buffers (--subbuf-count, --subbuf-size), or remove files there"},
    {"clock",
     "of a program with a seccomp filter, where only a system call reads the clock: try --clock tsc"},
    {"not_written", "the trace could not be written"},
    {"overwritten", "the oldest, as --mode overwrite does"},
    {"damaged", "a traced program wrote over the ring"},
    {"kernel_overrun", "the oldest, as --mode overwrite does"},
    {"kernel_dropped", "the kernel's buffers were full: try a larger --kernel-buffer-size"},
    {"kernel_start",
     "of the kernel's own start: its buffer was full; try a larger trace_buf_size= on its command line"},
    {"kernel_not_written", "the trace could not be written"},
    {"kernel_reader_killed",
     "read out of the kernel's buffers by a worker that was killed before it had written them"}};

std::vector<NamedCount> counts_in(const Json& root, const char* list) {
    std::vector<NamedCount> counts;
    const auto found = root.find(list);
    if (found == root.end() || !found->is_object()) return counts;
    for (const auto& [name, count] : found->items())
        if (count.is_number_unsigned()) counts.push_back({name, count.get<std::uint64_t>()});
    return counts;
}

void add_losses(const Json& root, const char* list, const char* noun, std::vector<std::string>& lines) {
    const auto error = root.find("write_error");
    const std::string write_error =
        error != root.end() && error->is_string() ? error->get<std::string>() : std::string();
    for (const NamedCount& lost : counts_in(root, list))
        lines.push_back(escaped(loss_text(lost, noun, write_error, counts_in(root, "notes"))));
}

void add_texts(const Json& root, const char* list, std::vector<std::string>& lines) {
    const auto texts = root.find(list);
    if (texts == root.end() || !texts->is_array()) return;
    for (const Json& text : *texts)
        if (text.is_string()) lines.push_back(escaped(text.get<std::string>()));
}

/* Tracepoints that were wanted, and that no probe knew how to record. */
void add_unknown_providers(const Json& root, std::vector<std::string>& lines) {
    const auto providers = root.find("unknown_providers");
    if (providers == root.end() || !providers->is_array()) return;
    for (const Json& each : *providers) {
        if (!each.is_object()) continue;
        const auto name = each.find("provider"), major = each.find("major"), events = each.find("events");
        if (name == each.end() || !name->is_string() || major == each.end() || !major->is_number_integer() ||
            events == each.end() || !events->is_array())
            continue;
        UnknownProvider provider{name->get<std::string>(), major->get<std::int64_t>(), {}};
        for (const Json& event : *events)
            if (event.is_string()) provider.events.push_back(event.get<std::string>());
        lines.push_back(escaped(unknown_provider_text(provider)));
    }
}

/* Why events are missing without having been written, and which are not whole. */
void add_shortcomings(const Json& root, std::vector<std::string>& lines) {
    for (const NamedCount& missed : counts_in(root, "missed"))
        lines.push_back(escaped(missed_text(missed)));
    for (const NamedCount& missing : counts_in(root, "not_switched_on"))
        lines.push_back(escaped(not_switched_on_text(missing)));
    for (const NamedCount& note : counts_in(root, "notes"))
        if (note.name == cut_note) lines.push_back(cut_text(note.count));
    for (const NamedCount& missing : counts_in(root, "not_described"))
        lines.push_back(escaped(not_described_text(missing)));
    add_texts(root, "problems", lines);
}

/* A recording: its recorder's summary stands in its folder, or will. */
struct Recorded {
    std::filesystem::path folder;
    std::string name; /* what tells it from the others; empty if it is the only one */
};

/* "snapshot-10" is behind "snapshot-9". */
bool is_before(const Recorded& a, const Recorded& b) {
    return ::strverscmp(a.folder.c_str(), b.folder.c_str()) < 0;
}

/* The folders of domains, "ust" and "kernel", are parts of one. They may have been opened by a link, or one alone. */
std::vector<Recorded> recordings_of(const std::string& opened, const TraceReader& reader) {
    namespace fs = std::filesystem;
    std::error_code failed;
    const fs::path start = fs::weakly_canonical(opened, failed);
    std::vector<Recorded> recordings;
    for (std::size_t i = 0; i < reader.layouts().size(); ++i) {
        if (!reader.layouts()[i]->is_of_plumb()) continue;
        fs::path folder = fs::weakly_canonical(reader.folders()[i], failed);
        if (is_domain_folder(folder.filename().native())) folder = folder.parent_path();
        const auto is_it = [&](const Recorded& other) { return other.folder == folder; };
        if (std::none_of(recordings.begin(), recordings.end(), is_it)) recordings.push_back({folder, ""});
    }
    std::sort(recordings.begin(), recordings.end(), is_before);
    for (Recorded& each : recordings)
        if (recordings.size() > 1 || is_one_of_several(each.folder.filename().native()))
            if (const fs::path name = each.folder.lexically_relative(start);
                name != "." && !name.native().starts_with(".."))
                each.name = name.native();
    return recordings;
}

/* A flight recorder's snapshots, and chunks, are written in the folder that it has locked. */
bool is_written_now(const std::filesystem::path& folder) {
    return is_being_written(folder) ||
           (is_one_of_several(folder.filename().native()) && is_being_written(folder.parent_path()));
}

/* `folder_is_locked`: as it was before the trace was opened. A snapshot or chunk that is finished has its summary. */
bool may_grow(const std::filesystem::path& folder, bool folder_is_locked) {
    std::error_code failed;
    if (is_one_of_several(folder.filename().native()) &&
        std::filesystem::exists(folder / "summary.json", failed))
        return false;
    return folder_is_locked || is_written_now(folder);
}

/* Of a part of the trace, and of nothing elsewhere, whoever wrote it down. */
bool is_name_of_file(const std::string& name) {
    const std::size_t slash = name.find('/');
    return slash != std::string::npos && is_domain_folder(name.substr(0, slash)) &&
           name.find('/', slash + 1) == std::string::npos;
}

/* `t/ust` may have been opened alone, of a recording that has events of the kernel as well. */
bool is_opened_whole(const std::filesystem::path& folder, const std::vector<NamedCount>& files,
                     const TraceReader& reader) {
    namespace fs = std::filesystem;
    return std::all_of(files.begin(), files.end(), [&](const NamedCount& file) {
        const fs::path domain = folder / file.name.substr(0, file.name.find('/'));
        return std::any_of(reader.folders().begin(), reader.folders().end(), [&](const auto& opened) {
            std::error_code failed;
            return fs::equivalent(opened, domain, failed);
        });
    });
}

std::optional<std::uint64_t> events_written(const Json& root) {
    const auto complete = root.find("complete");
    const auto events = root.find("events");
    if (complete == root.end() || *complete != true || events == root.end() || !events->is_number_unsigned())
        return {};
    return events->get<std::uint64_t>();
}

Result<RecordedLosses> losses_in(const std::string& folder, const TraceReader& reader) {
    const auto read = read_summary(folder + "/summary.json");
    if (!read) return read.error();
    const Json& root = *read;
    RecordedLosses lines;
    add_losses(root, "events_lost_by_cause", "event", lines.lost);
    add_losses(root, "subbufs_lost_by_cause", "sub-buffer", lines.lost);
    add_shortcomings(root, lines.other);
    add_texts(root, "why_empty", lines.why_empty);
    add_unknown_providers(root, lines.why_empty);
    if (const auto sent_to = root.find("sent_to"); sent_to != root.end() && sent_to->is_string())
        lines.why_empty.push_back(
            escaped(fmt::format("The events were sent to {}: the trace is where `plumb receive` has put it.",
                                sent_to->get<std::string>())));
    TraceFiles files;
    for (const NamedCount& file : counts_in(root, "files"))
        if (is_name_of_file(file.name)) files.emplace_back(file.name, file.count);
    lines.missing_files = missing_files(folder, files);
    if (is_opened_whole(folder, counts_in(root, "files"), reader)) lines.events = events_written(root);
    std::uint64_t named = 0;
    for (const NamedCount& each : counts_in(root, "events_by_name")) {
        lines.events_by_name[each.name] += each.count;
        named += each.count;
    }
    lines.are_names_known = lines.events == named;
    return lines;
}

} // namespace

std::string loss_text(const NamedCount& lost, const std::string& noun, const std::string& write_error,
                      const std::vector<NamedCount>& notes) {
    const auto* const known = std::find_if(std::begin(advice_for), std::end(advice_for),
                                           [&](const auto& each) { return lost.name == each.first; });
    std::string advice = known != std::end(advice_for) ? known->second : "";
    if (lost.name.ends_with("not_written") && !write_error.empty()) advice += ": " + write_error;
    const bool may_be_texts =
        (lost.name == "kernel_overrun" || lost.name == "kernel_dropped") &&
        std::any_of(notes.begin(), notes.end(), [](const auto& note) { return note.name == texts_note; });
    return fmt::format("{}{} {}{}{}", may_be_texts ? "up to " : "", counted(lost.count, noun), lost.name,
                       may_be_texts ? ", among them strings of system calls" : "",
                       advice.empty() ? advice : " (" + advice + ")");
}

std::string missed_text(const NamedCount& missed) {
    return fmt::format("{} {}", with_commas(missed.count), missed.name);
}

std::string not_switched_on_text(const NamedCount& missing) {
    if (missing.name == "refused_clock")
        return counted(missing.count, "process") +
               " forbade reading the cycle counter (PR_SET_TSC, seccomp's strict mode): what was "
               "traced there from then on is missing";
    if (missing.name == "filters")
        return counted(missing.count, "event") +
               " not_switched_on: the filters that an event has are too "
               "long together (use shorter ones, or one pattern each), or its "
               "program had no memory for them or for --context (ulimit -d and -v "
               "limit it)";
    const ChannelConfig usual;
    const std::string room =
        missing.name == "heap"
            ? fmt::format("{} of descriptions of events", size_text(usual_heap_bytes_min))
            : fmt::format("{} kinds of events", with_commas(usual.event_slots - PLUMB_EVENT_ID_FIRST));
    return fmt::format(
        "{} not_switched_on, each counted as often as its program tried (a session has room for {}: "
        "choose fewer with -e, or record the others in a session of their own)",
        counted(missing.count, "event"), room);
}

std::string cut_text(std::uint64_t count) {
    return fmt::format(
        "{} cut (recorded with a string, text or sequence shortened, since no event is longer "
        "than 65,528 bytes, or than a quarter of a sub-buffer: where sub-buffers are smaller "
        "than 256K, a larger --subbuf-size helps; or since it had no buffer for one of more than "
        "some 200 bytes, as in a program with a seccomp filter; or without some of its fields, as an "
        "LTTng-UST event "
        "of more than 32)",
        counted(count, "event"));
}

std::string not_described_text(const NamedCount& missing) {
    if (missing.name == "no_memory")
        return fmt::format(
            "{} the recorder had no memory for what is told of processes, threads and objects, or "
            "for events of theirs (`ulimit -v`, `-d`?): names are missing, or older than they could "
            "be, and what else is missing is counted as lost",
            missing.count == 1 ? "once" : with_commas(missing.count) + " times");
    if (missing.name == "not_repeated")
        return fmt::format("{} of processes, threads or objects not told again in later chunks, since there "
                           "were too many: what they write there has no names",
                           counted(missing.count, "entry"));
    if (missing.name == "ended_before")
        return fmt::format(
            "{} of the kernel {} no name and no process: their threads had ended when `plumb extract` "
            "looked. What the killed recorder wrote itself may name them",
            counted(missing.count, "event"), missing.count == 1 ? "has" : "have");
    return fmt::format("{} of processes, threads or objects not described, for want of room in the channel's "
                       "tables: events of such processes and threads have no names, and addresses in such "
                       "objects no function",
                       counted(missing.count, "entry"));
}

std::string left_text(std::uint64_t unread_bytes, std::uint64_t untold_losses, bool has_kernel_events) {
    std::string text = size_text(unread_bytes);
    if (untold_losses != 0)
        text += fmt::format(", {} loss{}", with_commas(untold_losses), untold_losses == 1 ? "" : "es");
    return has_kernel_events ? text + " and events of the kernel" : text;
}

namespace {

/* Of a chunk that has none: what its recording has, as a whole. Nothing: it has none, either. */
std::vector<std::string> whole_recording(const std::filesystem::path& chunk, const TraceReader& reader) {
    if (!is_one_of_several(chunk.filename().native())) return {};
    const auto whole = losses_in(chunk.parent_path(), reader);
    if (!whole) return {};
    std::vector<std::string> lines{
        "chunks have no summary.json of their own, for which there was no room: what is "
        "missing there is not counted above. Of the whole recording, its own summary.json says:"};
    for (const std::string& line : whole->lost)
        lines.push_back("  " + line);
    for (const std::string& line : whole->other)
        lines.push_back("  " + line);
    return lines;
}

} // namespace

RecordedLosses recorded_losses(const std::string& opened, const TraceReader& reader) {
    RecordedLosses all;
    std::map<std::string, std::vector<std::string>> recordings_told;
    const std::vector<Recorded> recordings = recordings_of(opened, reader);
    all.is_known = !recordings.empty();
    const auto is_ours = [](const auto& layout) { return layout->is_of_plumb(); };
    if (all.is_known && std::all_of(reader.layouts().begin(), reader.layouts().end(), is_ours))
        all.events = 0;
    for (const Recorded& each : recordings) {
        const std::string start = each.name.empty() ? "" : escaped(each.name) + ": ";
        const bool is_written =
            is_written_now(each.folder); /* first: it may end now, and then there is one */
        const auto losses = losses_in(each.folder, reader);
        if (losses) {
            for (const std::string& line : losses->lost)
                all.lost.push_back(start + line);
            for (const std::string& line : losses->other)
                all.other.push_back(start + line);
            for (const std::string& line : losses->missing_files)
                all.missing_files.push_back(start + escaped(line));
            for (const std::string& line : losses->why_empty)
                all.why_empty.push_back(start + line);
            for (const auto& [name, count] : losses->events_by_name)
                all.events_by_name[name] += count;
            all.are_names_known = all.are_names_known && losses->are_names_known;
            if (is_written || !losses->events)
                all.events.reset();
            else if (all.events)
                *all.events += *losses->events;
            continue;
        }
        all.is_known = false;
        all.events.reset();
        if (losses.error().number() != ENOENT)
            all.without_summary.push_back(start + escaped(losses.error().message()));
        else if (const auto whole = whole_recording(each.folder, reader); !is_written && !whole.empty())
            recordings_told.emplace(each.folder.parent_path(), whole);
        else if (!is_written)
            all.without_summary.push_back(start + "the trace has no summary.json: its recorder was killed, "
                                                  "or runs where it is not seen, or the folder was "
                                                  "copied without it. What had not been written is missing, "
                                                  "and nobody knows how much (`plumb extract` "
                                                  "makes a trace of what a killed one left).");
    }
    for (const auto& [folder, lines] : recordings_told)
        all.without_summary.insert(all.without_summary.end(), lines.begin(), lines.end());
    return all;
}

const char* const still_written_text = "the trace is still being written: of each buffer what was written "
                                       "when it was opened is shown, so between the "
                                       "newest events others may be missing, which are not counted as lost.";

Result<TraceReader> open_trace(const std::string& path, bool& is_written) {
    const bool is_locked = is_being_written(path);
    Result<TraceReader> opened = TraceReader::open(path);
    is_written = false;
    if (opened)
        for (const Recorded& each : recordings_of(path, *opened))
            is_written = is_written || may_grow(each.folder, is_locked);
    return opened;
}

std::string count_that_differs(const RecordedLosses& recorded, const EventsRead& read) {
    if (!recorded.events) return {};
    const auto text = [](std::uint64_t there, const std::string& what, std::uint64_t written) {
        return fmt::format(
            "{}{} in the trace, and its recorder wrote {} (summary.json): its files are damaged, "
            "or were changed since.",
            counted(there, "event"), what, with_commas(written));
    };
    if (*recorded.events != read.events) return text(read.events, "", *recorded.events);
    if (!recorded.are_names_known) return {};
    for (const auto& [name, count] : read.by_name) {
        const auto written = recorded.events_by_name.find(name);
        const std::uint64_t expected = written != recorded.events_by_name.end() ? written->second : 0;
        if (expected != count) return text(count, " " + escaped(name), expected);
    }
    return {};
}

/* The streams say how much is missing; why, only who recorded them can say. */
std::vector<std::string> missing_from(const std::string& opened, const TraceReader& reader,
                                      bool is_read_to_its_end) {
    const StreamLosses losses = reader.losses();
    std::vector<std::string> lines;
    const auto indented = [&lines](const std::vector<std::string>& more) {
        for (const std::string& line : more)
            lines.push_back("  " + line);
    };
    const RecordedLosses recorded = recorded_losses(opened, reader);
    if (losses.events_discarded != 0 || losses.packets_lost != 0) {
        const std::string missing = fmt::format(
            "{} and {} were lost while recording{}", counted(losses.events_discarded, "event"),
            counted(losses.packets_lost, "packet"), is_read_to_its_end ? "" : ", up to where it was read");
        lines.push_back(missing +
                        (!recorded.lost.empty() ? ":"
                         : recorded.is_known
                             ? "."
                             : ": buffers were full, or overwritten before they were read, or the trace "
                               "could not be written. The trace has no summary.json that would say which."));
        indented(recorded.lost);
    }
    if (const std::uint64_t nameless = reader.events_without_names(); nameless != 0)
        lines.push_back(fmt::format(
            "{} events of the kernel have no name and no process of their thread: {}.", with_commas(nameless),
            is_being_written(opened)
                ? "names are told a moment later than the events, and the trace is still written"
                : "the recorder was killed, or cut short, before it had told them"));
    if (!recorded.other.empty()) {
        lines.push_back("the trace is not complete, or not whole:");
        indented(recorded.other);
    }
    lines.insert(lines.end(), recorded.missing_files.begin(), recorded.missing_files.end());
    lines.insert(lines.end(), recorded.without_summary.begin(), recorded.without_summary.end());
    for (const std::string& folder : reader.aside())
        lines.push_back(
            fmt::format("{} is not shown: an older trace, put aside by a recorder with --force that "
                        "begins to record there, or was killed before. Name it to see it.",
                        escaped(folder)));
    for (const std::string& folder : reader.closed())
        lines.push_back(fmt::format("{} could not be read: {}. What it holds is not shown.", escaped(folder),
                                    errno_text(EACCES)));
    for (const std::string& folder : reader.bare())
        lines.push_back(
            fmt::format("{} has a summary, and no trace (no metadata in it): none was written, for "
                        "which there may have been no room, or it is gone. summary.json there says "
                        "what was recorded.",
                        escaped(folder)));
    for (const std::string& problem : reader.problems())
        lines.push_back(escaped(problem));
    if (losses.unknown_events > 0)
        lines.push_back(
            fmt::format("{} events are not described in the metadata.", with_commas(losses.unknown_events)));
    return lines;
}

} // namespace plumb
