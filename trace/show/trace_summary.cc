#include "trace/show/trace_summary.h"

#include <algorithm>

namespace plumb {

std::string grouped(uint64_t number) {
    std::string text = std::to_string(number);
    for (std::size_t at = text.size(); at > 3;) {
        at -= 3;
        text.insert(at, 1, ',');
    }
    return text;
}

TraceSummary::TraceSummary(TraceReader& reader) : reader_(reader), by_event_(reader.event_infos().size()) {}

void TraceSummary::find_thread(ThreadKey key, const ThreadRecord* record) {
    last_thread_ = key;
    last_record_ = record;
    ThreadCount& count =
        by_thread_.try_emplace(key, ThreadCount{std::get<1>(key), std::get<2>(key), {}, 0}).first->second;
    if (record != nullptr && !record->name.empty()) count.name = record->name;
    last_count_ = &count.events;
}

std::vector<std::pair<std::string, uint64_t>> TraceSummary::events_by_count() const {
    std::map<std::string, uint64_t> sums; /* several traces may have events of one name */
    for (const EventInfo* info : reader_.event_infos())
        if (by_event_[info->index] > 0) sums[info->name] += by_event_[info->index];
    std::vector<std::pair<std::string, uint64_t>> events(sums.begin(), sums.end());
    std::stable_sort(events.begin(), events.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    return events;
}

std::vector<TraceSummary::ThreadCount> TraceSummary::threads_by_count() const {
    std::vector<ThreadCount> threads;
    for (const auto& [key, count] : by_thread_)
        threads.push_back(count);
    std::stable_sort(threads.begin(), threads.end(),
                     [](const ThreadCount& a, const ThreadCount& b) { return a.events > b.events; });
    return threads;
}

void TraceSummary::put_text(OutputBuffer& out, TimeStyle style) const {
    TimeFormat time(style, reader_.start_ns(), reader_.monotonic_zero_ns().value_or(0));
    out.put(fmt::format("{} events", grouped(event_count_)));
    if (event_count_ > 0) {
        out.put(" from ");
        time.set_monotonic_zero(reader_.monotonic_zero_ns(*first_info_));
        time.put_date_and_time(out, first_ns_);
        out.put(" to ");
        time.set_monotonic_zero(reader_.monotonic_zero_ns(*last_info_));
        time.put_date_and_time(out, last_ns_);
        out.put(" (");
        TimeFormat::put_difference(out, last_ns_, first_ns_);
        out.put(" s)");
    }
    out.put("\n\n         events  event\n");
    for (const auto& [name, count] : events_by_count())
        out.put(fmt::format("{:>15}  {}\n", grouped(count), escaped(name)));
    out.put("\n         events      pid      tid  thread\n");
    for (const ThreadCount& thread : threads_by_count())
        out.put(fmt::format("{:>15}  {:>7}  {:>7}  {}\n", grouped(thread.events), thread.process_id,
                            thread.thread_id, thread.name.empty() ? "-" : escaped(thread.name)));
    const StreamLosses losses = reader_.losses();
    out.put(fmt::format("\nlost: {} events, {} packets; not readable: {} packets, {} unknown events\n",
                        grouped(losses.events_discarded), grouped(losses.packets_lost),
                        grouped(losses.damaged_packets), grouped(losses.unknown_events)));
}

void TraceSummary::put_json(OutputBuffer& out) const {
    out.put(fmt::format("{{\"events\":{},\"first_ns\":{},\"last_ns\":{},\"by_event\":{{", event_count_,
                        first_ns_, last_ns_));
    const char* separator = "";
    for (const auto& [name, count] : events_by_count()) {
        out.put(fmt::format("{}{}:{}", separator, json_string(name), count));
        separator = ",";
    }
    out.put("},\"threads\":[");
    separator = "";
    for (const ThreadCount& thread : threads_by_count()) {
        out.put(fmt::format("{}{{\"pid\":{},\"tid\":{},\"comm\":{},\"events\":{}}}", separator,
                            thread.process_id, thread.thread_id, json_string(thread.name), thread.events));
        separator = ",";
    }
    const StreamLosses losses = reader_.losses();
    out.put(fmt::format(
        "],\"lost\":{{\"events\":{},\"packets\":{},\"damaged_packets\":{},\"unknown_events\":{}}}}}\n",
        losses.events_discarded, losses.packets_lost, losses.damaged_packets, losses.unknown_events));
}

void TraceSummary::put_streams(OutputBuffer& out, const TraceReader& reader) {
    out.put("    lost events  lost packets  damaged packets  unknown events  stream\n");
    for (const auto& stream : reader.streams()) {
        const StreamLosses& losses = stream->losses();
        out.put(fmt::format("{:>15}  {:>12}  {:>15}  {:>14}  {}\n", grouped(losses.events_discarded),
                            grouped(losses.packets_lost), grouped(losses.damaged_packets),
                            grouped(losses.unknown_events), escaped(stream->name())));
    }
}

} // namespace plumb
