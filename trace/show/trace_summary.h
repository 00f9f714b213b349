/*
 * What is in a trace: events by name, by thread and by stream, from when to when, and what is missing.
 */
#ifndef PLUMB_TRACE_SHOW_TRACE_SUMMARY_H
#define PLUMB_TRACE_SHOW_TRACE_SUMMARY_H

#include "trace/show/time_format.h"
#include "trace/trace_reader.h"

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace plumb {

class TraceSummary {
public:
    explicit TraceSummary(TraceReader& reader);

    void add(const Event& event) {
        ++by_event_[event.info->index];
        const ThreadRecord* const record = reader_.thread_of(event);
        const std::tuple thread(reader_.recording_of(event), reader_.process_id_of(event), event.thread_id);
        if (thread != last_thread_ || record != last_record_ || last_count_ == nullptr)
            find_thread(thread, record);
        ++*last_count_;
        if (event_count_++ == 0) {
            first_ns_ = event.time_ns;
            first_info_ = event.info;
        }
        last_ns_ = event.time_ns;
        last_info_ = event.info;
    }

    /* After the last event. */
    void put_text(OutputBuffer& out, TimeStyle style) const;
    void put_json(OutputBuffer& out) const;
    /* A table of losses with one line for each stream file. */
    static void put_streams(OutputBuffer& out, const TraceReader& reader);

private:
    struct ThreadCount {
        uint32_t process_id;
        uint32_t thread_id;
        std::string name; /* at its last event that has one: threads are renamed, and processes call exec() */
        uint64_t events;
    };
    using ThreadKey =
        std::tuple<uint32_t, uint32_t, uint32_t>; /* recording, process, thread: numbers are used again */
    void find_thread(ThreadKey key, const ThreadRecord* record);
    std::vector<std::pair<std::string, uint64_t>> events_by_count() const;
    std::vector<ThreadCount> threads_by_count() const;

    TraceReader& reader_;
    std::vector<uint64_t> by_event_; /* by EventInfo::index */
    std::map<ThreadKey, ThreadCount> by_thread_;
    ThreadKey last_thread_;
    const ThreadRecord* last_record_ = nullptr;
    uint64_t* last_count_ = nullptr;
    uint64_t event_count_ = 0;
    int64_t first_ns_ = 0;
    int64_t last_ns_ = 0;
    const EventInfo* first_info_ = nullptr;
    const EventInfo* last_info_ = nullptr;
};

/* 1234567 as 1,234,567 */
std::string grouped(uint64_t number);

} // namespace plumb

#endif
