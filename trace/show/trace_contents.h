/*
 * What a trace has, in few words, for who asked for something that is not in it: times, threads, events.
 */
#ifndef PLUMB_TRACE_SHOW_TRACE_CONTENTS_H
#define PLUMB_TRACE_SHOW_TRACE_CONTENTS_H

#include "trace/show/event_filter.h"
#include "trace/show/time_format.h"
#include "trace/trace_reader.h"

#include <map>
#include <string>
#include <vector>

namespace plumb {

class TraceContents {
public:
    /* Reads all that `reader` has from where it is. */
    explicit TraceContents(TraceReader& reader);

    /* Why nothing is shown, a line for each of the options that nothing in the trace answers to; one about all of them
     * together where each has something. */
    std::vector<std::string> why_nothing(const FilterOptions& wanted, TimeStyle style) const;

private:
    struct Writer {
        uint32_t process_id;
        std::string name; /* the newest */
        uint64_t events;
    };
    std::string time_text(int64_t time_ns, TimeStyle style) const;
    std::string threads_text() const;
    std::string processes_text() const;
    std::string names_text() const;
    std::string events_text() const;

    uint64_t count_ = 0;
    int64_t start_ns_ = 0, first_ns_ = 0, last_ns_ = 0, monotonic_zero_ns_ = 0;
    std::map<uint32_t, Writer> threads_;
    std::map<std::string, uint64_t> events_;
};

} // namespace plumb

#endif
