#include "cli/losses.h"

#include "base/file.h"
#include "base/output_buffer.h"
#include "cli/status_line.h"
#include "consumerd/control/channel.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

namespace plumb {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<const char*, const char*> advice_for[] = {
    {"full", "rings were full: try a larger --subbuf-size, fewer events (-e), or --mode block"},
    {"block_timeout", "rings stayed full for longer than --block-timeout"},
    {"too_large", "larger than a quarter of a sub-buffer: try a larger --subbuf-size"},
    {"contended", "no ring was free (without restartable sequences)"},
    {"clock",
     "of a program with a seccomp filter, where only a system call reads the clock: try --clock tsc"},
    {"not_written", "the trace could not be written"},
    {"overwritten", "the oldest, as --mode overwrite does"},
    {"damaged", "a traced program wrote over the ring"},
    {"kernel_overrun", "the oldest, as --mode overwrite does"},
    {"kernel_dropped", "the kernel's buffers were full: try a larger --kernel-buffer-size"},
    {"kernel_not_written", "the trace could not be written"}};

/* Summaries are small; whoever made this one may not be us. */
constexpr std::size_t summary_bytes_max = std::size_t{16} << 20;

void add_losses(const Json& root, const char* list, const char* noun, std::vector<std::string>& lines) {
    const auto causes = root.find(list);
    if (causes == root.end() || !causes->is_object()) return;
    const auto error = root.find("write_error");
    const std::string write_error =
        error != root.end() && error->is_string() ? error->get<std::string>() : std::string();
    for (const auto& [name, count] : causes->items())
        if (count.is_number_unsigned())
            lines.push_back(escaped(loss_text({name, count.get<std::uint64_t>()}, noun, write_error)));
}

/* Why events are missing without having been written, and which are not whole. */
void add_shortcomings(const Json& root, std::vector<std::string>& lines) {
    if (const auto off = root.find("not_switched_on"); off != root.end() && off->is_object())
        for (const auto& [name, count] : off->items())
            if (count.is_number_unsigned())
                lines.push_back(escaped(not_switched_on_text({name, count.get<std::uint64_t>()})));
    const auto notes = root.find("notes");
    if (notes == root.end() || !notes->is_object()) return;
    if (const auto cut = notes->find(cut_note); cut != notes->end() && cut->is_number_unsigned())
        lines.push_back(cut_text(cut->get<std::uint64_t>()));
}

/* Of a flight recorder's folder; oldest first. */
std::vector<std::string> snapshots_in(const std::string& folder) {
    constexpr std::string_view prefix = "snapshot-";
    std::map<std::uint64_t, std::string> by_number;
    const auto names = list_directory(folder);
    for (const std::string& name : names ? *names : std::vector<std::string>())
        if (name.starts_with(prefix))
            by_number[std::strtoull(name.c_str() + prefix.size(), nullptr, 10)] = name;
    std::vector<std::string> snapshots;
    for (const auto& [number, name] : by_number)
        snapshots.push_back(name);
    return snapshots;
}

Result<std::vector<std::string>> losses_in(const std::string& trace) {
    const std::string path = trace + "/summary.json";
    const auto text = read_small_file(path, summary_bytes_max);
    if (!text) return text.error();
    const Json root = Json::parse(*text, nullptr, false);
    if (!root.is_object()) return Error("{} is no summary.", path).as(EPROTO);
    std::vector<std::string> lines;
    add_losses(root, "events_lost_by_cause", "event", lines);
    add_losses(root, "subbufs_lost_by_cause", "sub-buffer", lines);
    add_shortcomings(root, lines);
    return lines;
}

} // namespace

std::string loss_text(const NamedCount& lost, const std::string& noun, const std::string& write_error) {
    const auto* const known = std::find_if(std::begin(advice_for), std::end(advice_for),
                                           [&](const auto& each) { return lost.name == each.first; });
    std::string advice = known != std::end(advice_for) ? known->second : "";
    if (lost.name.ends_with("not_written") && !write_error.empty()) advice += ": " + write_error;
    return fmt::format("{} {}{}", counted(lost.count, noun), lost.name,
                       advice.empty() ? advice : " (" + advice + ")");
}

std::string not_switched_on_text(const NamedCount& missing) {
    const ChannelConfig usual;
    const std::string room =
        missing.name == "heap"
            ? fmt::format("{} of descriptions of events", size_text(usual_heap_bytes_min))
            : fmt::format("{} kinds of events", with_commas(usual.event_slots - PLUMB_EVENT_ID_FIRST));
    return fmt::format("{} not_switched_on (a session has room for {}: choose fewer with -e, or record the "
                       "others in a session of their own)",
                       counted(missing.count, "event"), room);
}

std::string cut_text(std::uint64_t count) {
    return fmt::format("{} cut (recorded with a string, text or sequence shortened, since no event is longer "
                       "than a quarter of a sub-buffer: try a larger --subbuf-size)",
                       counted(count, "event"));
}

Result<std::vector<std::string>> recorded_losses(const std::string& trace) {
    auto whole = losses_in(trace);
    const std::vector<std::string> snapshots = whole ? std::vector<std::string>() : snapshots_in(trace);
    if (snapshots.empty()) return whole;
    std::vector<std::string> lines;
    for (const std::string& snapshot : snapshots) {
        const auto losses = losses_in(trace + "/" + snapshot);
        if (!losses) return losses;
        for (const std::string& line : *losses)
            lines.push_back(snapshot + ": " + line);
    }
    return lines;
}

} // namespace plumb
