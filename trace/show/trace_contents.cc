#include "trace/show/trace_contents.h"

#include "base/glob.h"
#include "base/output_buffer.h"
#include "trace/show/context_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace plumb {
namespace {

constexpr std::size_t contents_listed = 8;

/* Those with the most events first. */
std::string most_of(const std::map<std::string, uint64_t>& counts) {
    std::vector<std::pair<uint64_t, std::string>> order;
    for (const auto& [name, count] : counts)
        order.emplace_back(count, name);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<std::string> listed;
    for (const auto& [count, name] : order)
        if (listed.size() < contents_listed) listed.push_back(escaped(name));
    return fmt::format("{}{}", fmt::join(listed, ", "), order.size() > listed.size() ? ", ..." : "");
}

std::string with_name(uint32_t number, const std::string& name) {
    return name.empty() ? fmt::format("{}", number) : fmt::format("{} ({})", number, name);
}

} // namespace

TraceContents::TraceContents(TraceReader& reader)
    : start_ns_(reader.start_ns()), monotonic_zero_ns_(reader.monotonic_zero_ns().value_or(0)) {
    std::vector<uint64_t> by_info(reader.event_infos().size());
    const Writer* last_writer = nullptr;
    uint32_t last_thread = 0;
    while (const Event* const event = reader.next()) {
        if (event->info->is_statedump) continue;
        if (count_++ == 0) first_ns_ = event->time_ns;
        last_ns_ = event->time_ns;
        ++by_info[event->info->index];
        if (last_writer == nullptr || last_thread != event->thread_id) {
            const ThreadRecord* const record = reader.thread_of(*event);
            Writer& writer =
                threads_.try_emplace(event->thread_id, Writer{reader.process_id_of(*event), {}, 0})
                    .first->second;
            if (record != nullptr && !record->name.empty()) writer.name = record->name;
            if (const std::string_view name = context_name_of(*event); record == nullptr && !name.empty())
                writer.name = name;
            last_writer = &writer;
            last_thread = event->thread_id;
        }
        ++threads_.find(last_thread)->second.events;
    }
    for (const EventInfo* info : reader.event_infos())
        if (by_info[info->index] != 0) events_[info->name] += by_info[info->index];
}

std::string TraceContents::time_text(int64_t time_ns, TimeStyle style) const {
    TimeFormat time(style, start_ns_, monotonic_zero_ns_);
    OutputBuffer text(-1);
    time.put_date_and_time(text, time_ns);
    return std::string(text.text());
}

std::string TraceContents::threads_text() const {
    std::map<std::string, uint64_t> counts;
    for (const auto& [number, writer] : threads_)
        counts[with_name(number, writer.name)] = writer.events;
    return most_of(counts);
}

std::string TraceContents::processes_text() const {
    std::map<uint32_t, std::pair<std::string, uint64_t>> processes;
    for (const auto& [number, writer] : threads_) {
        auto& [name, events] = processes[writer.process_id];
        if (name.empty() || number == writer.process_id) name = writer.name;
        events += writer.events;
    }
    std::map<std::string, uint64_t> counts;
    for (const auto& [number, process] : processes)
        counts[with_name(number, process.first)] = process.second;
    return most_of(counts);
}

std::string TraceContents::names_text() const {
    std::map<std::string, uint64_t> counts;
    for (const auto& [number, writer] : threads_)
        if (!writer.name.empty()) counts[writer.name] += writer.events;
    return counts.empty() ? "no names" : most_of(counts);
}

std::string TraceContents::events_text() const {
    return most_of(events_);
}

std::vector<std::string> TraceContents::why_nothing(const FilterOptions& wanted, TimeStyle style) const {
    if (count_ == 0) return {"the trace has no events."};
    std::vector<std::string> lines;
    if (wanted.since_ns > last_ns_)
        lines.push_back(fmt::format("nothing is shown: the last event is of {}, before --since.",
                                    time_text(last_ns_, style)));
    if (wanted.until_ns < first_ns_)
        lines.push_back(fmt::format("nothing is shown: the first event is of {}, after --until.",
                                    time_text(first_ns_, style)));
    if (wanted.since_ns > wanted.until_ns) lines.push_back("nothing is shown: --since is after --until.");
    for (const uint32_t number : wanted.thread_ids)
        if (threads_.count(number) == 0)
            lines.push_back(
                fmt::format("no event is of thread {}; the trace has {}.", number, threads_text()));
    for (const uint32_t number : wanted.process_ids)
        if (std::none_of(threads_.begin(), threads_.end(),
                         [=](const auto& each) { return each.second.process_id == number; }))
            lines.push_back(
                fmt::format("no event is of process {}; the trace has {}.", number, processes_text()));
    for (const std::string& pattern : wanted.thread_names)
        if (std::none_of(threads_.begin(), threads_.end(), [&](const auto& each) {
                return glob_matches(pattern.c_str(), each.second.name.c_str());
            }))
            lines.push_back(
                fmt::format("no event is of a thread called {}; the trace has {}.", pattern, names_text()));
    if (lines.empty())
        lines.push_back(
            fmt::format("nothing is shown: no event is left by all that was asked for; the trace has "
                        "{}, from {} to {}.",
                        events_text(), time_text(first_ns_, style), time_text(last_ns_, style)));
    return lines;
}

} // namespace plumb
