/*
 * What is in a trace: events by name, by thread and by stream, from when to when, and what is missing.
 */
#ifndef PLUMB_TRACE_SHOW_TRACE_SUMMARY_H
#define PLUMB_TRACE_SHOW_TRACE_SUMMARY_H

#include "trace/show/event_filter.h"
#include "trace/show/time_format.h"
#include "trace/trace_reader.h"

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

/* Events by kind and by thread, of the whole trace or of a part that one thread has read. */
class EventCounts {
public:
    explicit EventCounts(const TraceReader& reader)
        : reader_(&reader), by_event_(reader.event_infos().size()) {}

    void add(const Event& event) {
        ++by_event_[event.info->index];
        if (event.stream != last_stream_ || event.thread_id != last_.thread_id ||
            event.process_id != last_process_id_ || event.time_ns < last_span_.from_ns ||
            event.time_ns >= last_span_.until_ns)
            find_thread(event);
        ++*last_count_;
        if (events_++ == 0 || event.time_ns < first_ns_) {
            first_ns_ = event.time_ns;
            first_info_ = event.info;
        }
        if (last_info_ == nullptr || event.time_ns >= last_ns_) {
            last_ns_ = event.time_ns;
            last_info_ = event.info;
        }
    }
    /* What another thread has counted. */
    void add(const EventCounts& other);

private:
    friend class TraceSummary;
    struct ThreadKey { /* numbers are used again */
        uint32_t recording;
        uint32_t process_id;
        uint32_t thread_id;
        auto operator<=>(const ThreadKey&) const = default;
    };
    struct ThreadCount {
        std::string name; /* at its last event that has one: threads are renamed, and processes call exec() */
        int64_t named_ns; /* since when it was called so */
        uint64_t events;
    };
    void find_thread(const Event& event);

    const TraceReader* reader_;
    ThreadCache cache_;
    std::vector<uint64_t> by_event_; /* by EventInfo::index */
    std::map<ThreadKey, ThreadCount> by_thread_;
    /* Whom the last event was counted for, and from when to when that holds for its stream. */
    const StreamLayout* last_stream_ = nullptr;
    ThreadKey last_{};
    uint32_t last_process_id_ = 0; /* as in the event */
    ThreadSpan last_span_;
    uint64_t* last_count_ = nullptr;
    uint64_t events_ = 0;
    int64_t first_ns_ = 0;
    int64_t last_ns_ = 0;
    const EventInfo* first_info_ = nullptr;
    const EventInfo* last_info_ = nullptr;
};

class TraceSummary {
public:
    explicit TraceSummary(TraceReader& reader) : reader_(reader), counts_(reader) {}

    void add(const Event& event) { counts_.add(event); }
    /* Reads the whole trace, with all processors, in place of add() for each event: for a filter that does not go by threads.
     * Returns whether all streams were read to their ends. */
    bool add_all(const EventFilter& filter);

    uint64_t event_count() const { return counts_.events_; }
    /* By name, most frequent first. */
    std::vector<std::pair<std::string, uint64_t>> events_by_count() const;

    /* After the last event. */
    void put_text(OutputBuffer& out, TimeStyle style) const;
    void put_json(OutputBuffer& out) const;
    /* A table of losses with one line for each stream file. */
    static void put_streams(OutputBuffer& out, const TraceReader& reader);
    /* The same, an object for each. */
    static void put_streams_json(OutputBuffer& out, const TraceReader& reader);

private:
    struct ThreadLine {
        uint32_t process_id;
        uint32_t thread_id;
        std::string name;
        uint64_t events;
    };
    std::vector<ThreadLine> threads_by_count() const;

    TraceReader& reader_;
    EventCounts counts_;
};

/* 1234567 as 1,234,567 */
std::string grouped(uint64_t number);

} // namespace plumb

#endif
