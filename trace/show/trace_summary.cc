#include "trace/show/trace_summary.h"

#include "trace/show/context_name.h"

#include <algorithm>
#include <atomic>
#include <limits>

namespace plumb {

std::string grouped(uint64_t number) {
    std::string text = std::to_string(number);
    for (std::size_t at = text.size(); at > 3;) {
        at -= 3;
        text.insert(at, 1, ',');
    }
    return text;
}

void EventCounts::find_thread(const Event& event) {
    last_stream_ = event.stream;
    last_process_id_ = event.process_id;
    last_span_ = reader_->thread_span_of(event, cache_);
    const ThreadRecord* const record = last_span_.thread;
    last_ = {reader_->recording_of(event), reader_->process_id_of(event, cache_), event.thread_id};
    ThreadCount& count =
        by_thread_.try_emplace(last_, ThreadCount{{}, std::numeric_limits<int64_t>::min(), 0}).first->second;
    if (record != nullptr && !record->name.empty() && record->time_ns >= count.named_ns) {
        count.name = record->name;
        count.named_ns = record->time_ns;
    }
    if (const std::string_view name = context_name_of(event);
        record == nullptr && !name.empty() && event.time_ns >= count.named_ns) {
        count.name = name;
        count.named_ns = event.time_ns;
    }
    last_count_ = &count.events;
}

void EventCounts::add(const EventCounts& other) {
    for (std::size_t i = 0; i < by_event_.size(); i++)
        by_event_[i] += other.by_event_[i];
    for (const auto& [key, theirs] : other.by_thread_) {
        const auto [place, is_new] = by_thread_.try_emplace(key, theirs);
        if (is_new) continue;
        ThreadCount& ours = place->second;
        ours.events += theirs.events;
        if (!theirs.name.empty() && theirs.named_ns >= ours.named_ns) {
            ours.name = theirs.name;
            ours.named_ns = theirs.named_ns;
        }
    }
    if (other.events_ == 0) return;
    if (events_ == 0 || other.first_ns_ < first_ns_) {
        first_ns_ = other.first_ns_;
        first_info_ = other.first_info_;
    }
    if (events_ == 0 || other.last_ns_ >= last_ns_) {
        last_ns_ = other.last_ns_;
        last_info_ = other.last_info_;
    }
    events_ += other.events_;
}

bool TraceSummary::add_all(const EventFilter& filter) {
    std::vector<EventCounts> counts(reader_.reading_threads(), EventCounts(reader_));
    std::atomic<bool> is_read_to_its_end = true;
    reader_.read_streams([&](StreamReader& stream, unsigned thread) {
        EventCounts counted(reader_); /* on this thread's stack, where no other thread writes beside it */
        while (stream.next()) {
            const Event& event = stream.event();
            if (filter.is_past(event)) {
                is_read_to_its_end = false;
                break;
            }
            if (filter.wants_at_any_thread(event)) counted.add(event);
        }
        counts[thread].add(counted);
    });
    for (const EventCounts& part : counts)
        counts_.add(part);
    return is_read_to_its_end;
}

std::vector<std::pair<std::string, uint64_t>> TraceSummary::events_by_count() const {
    std::map<std::string, uint64_t> sums; /* several traces may have events of one name */
    for (const EventInfo* info : reader_.event_infos())
        if (counts_.by_event_[info->index] > 0) sums[info->name] += counts_.by_event_[info->index];
    std::vector<std::pair<std::string, uint64_t>> events(sums.begin(), sums.end());
    std::stable_sort(events.begin(), events.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    return events;
}

std::vector<TraceSummary::ThreadLine> TraceSummary::threads_by_count() const {
    std::vector<ThreadLine> threads;
    for (const auto& [key, count] : counts_.by_thread_)
        threads.push_back({key.process_id, key.thread_id, count.name, count.events});
    std::stable_sort(threads.begin(), threads.end(),
                     [](const ThreadLine& a, const ThreadLine& b) { return a.events > b.events; });
    return threads;
}

void TraceSummary::put_text(OutputBuffer& out, TimeStyle style) const {
    TimeFormat time(style, reader_.start_ns(), reader_.monotonic_zero_ns().value_or(0));
    out.put(fmt::format("{} {}", grouped(counts_.events_), counts_.events_ == 1 ? "event" : "events"));
    if (counts_.events_ > 0) {
        out.put(" from ");
        time.set_monotonic_zero(reader_.monotonic_zero_ns(*counts_.first_info_));
        time.put_date_and_time(out, counts_.first_ns_);
        out.put(" to ");
        time.set_monotonic_zero(reader_.monotonic_zero_ns(*counts_.last_info_));
        time.put_date_and_time(out, counts_.last_ns_);
        out.put(" (");
        TimeFormat::put_difference(out, counts_.last_ns_, counts_.first_ns_);
        out.put(" s)");
    }
    out.put("\n\n         events  event\n");
    for (const auto& [name, count] : events_by_count())
        out.put(fmt::format("{:>15}  {}\n", grouped(count), escaped(name)));
    out.put("\n         events      pid      tid  thread\n");
    for (const ThreadLine& thread : threads_by_count())
        out.put(fmt::format("{:>15}  {:>7}  {:>7}  {}\n", grouped(thread.events), thread.process_id,
                            thread.thread_id, thread.name.empty() ? "-" : escaped(thread.name)));
    const StreamLosses losses = reader_.losses();
    out.put(fmt::format("\nlost: {} events, {} packets; not readable: {} packets, {} unknown events\n",
                        grouped(losses.events_discarded), grouped(losses.packets_lost),
                        grouped(losses.damaged_packets), grouped(losses.unknown_events)));
}

static std::string json_of(const StreamLosses& losses) {
    return fmt::format(
        "\"lost\":{{\"events\":{},\"packets\":{},\"damaged_packets\":{},\"unknown_events\":{}}}",
        losses.events_discarded, losses.packets_lost, losses.damaged_packets, losses.unknown_events);
}

void TraceSummary::put_json(OutputBuffer& out) const {
    out.put(fmt::format("{{\"events\":{},\"first_ns\":{},\"last_ns\":{},\"by_event\":{{", counts_.events_,
                        counts_.first_ns_, counts_.last_ns_));
    const char* separator = "";
    for (const auto& [name, count] : events_by_count()) {
        out.put(fmt::format("{}{}:{}", separator, json_string(name), count));
        separator = ",";
    }
    out.put("},\"threads\":[");
    separator = "";
    for (const ThreadLine& thread : threads_by_count()) {
        out.put(fmt::format("{}{{\"pid\":{},\"tid\":{},\"comm\":{},\"events\":{}}}", separator,
                            thread.process_id, thread.thread_id, json_string(thread.name), thread.events));
        separator = ",";
    }
    out.put(fmt::format("],{}}}\n", json_of(reader_.losses())));
}

void TraceSummary::put_streams_json(OutputBuffer& out, const TraceReader& reader) {
    for (const auto& stream : reader.streams())
        out.put(
            fmt::format("{{\"stream\":{},{}}}\n", json_string(stream->name()), json_of(stream->losses())));
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
