/*
 * Opens what a tracer left in a folder and gives its events in time order, whatever number of traces, streams
 * and CPUs they come from.
 *
 *   Result<TraceReader> opened = TraceReader::open("my-trace");
 *   if (!opened) return opened.error();
 *   while (const Event* event = opened->next()) ...   // valid until the next call
 *
 * Reads traces of Plumb, and others of CTF 1.8 such as LTTng's. Files are mapped, not read: of a file that
 * somebody else cuts short meanwhile the rest reads as damage; growing ones are fine.
 *
 * Not thread-safe, but for what read_streams() says; several readers may read the same trace.
 */
#ifndef PLUMB_TRACE_TRACE_READER_H
#define PLUMB_TRACE_TRACE_READER_H

#include "base/mapped_region.h"
#include "trace/ctf/stream_reader.h"
#include "trace/trace_names.h"

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

/* The bytes of one trace that is not in files. They must outlive the reader. */
struct TraceBytes {
    std::string_view metadata;
    std::vector<std::span<const uint8_t>> streams;
};

/* Who wrote which events, of those asked for lately. Each thread that asks has its own. */
class ThreadCache {
    friend class TraceReader;
    struct KnownThread {
        uint32_t thread_id = 0;
        uint32_t names = 0;
        ThreadSpan span;
    };
    std::array<KnownThread, 256> known_; /* by thread id */
};

class TraceReader {
public:
    /* Every trace in or below the folder, but for those that were put aside there. */
    static Result<TraceReader> open(const std::string& path);
    static Result<TraceReader> from_memory(const TraceBytes& bytes);

    TraceReader(TraceReader&&) noexcept;
    TraceReader& operator=(TraceReader&&) noexcept;
    ~TraceReader();

    /* The next event in time order, nullptr at the end. Of equal times, statedump events come first. */
    const Event* next();

    /* Instead of next(): has each stream read to its end, or as far as `read` likes, by as many threads as there are
     * processors; returns when all are done. A stream is read by one thread. `read` is called with the number of the thread,
     * which is less than reading_threads(), and asks who wrote an event with a cache of that thread's. */
    void read_streams(const std::function<void(StreamReader& stream, unsigned thread)>& read);
    unsigned reading_threads() const { return reading_threads_; }

    /* Who wrote the event, nullptr if the trace does not tell. */
    const ThreadRecord* thread_of(const Event& event) { return thread_of(event, thread_cache_); }
    const ThreadRecord* thread_of(const Event& event, ThreadCache& cache) const {
        return thread_span_of(event, cache).thread;
    }
    /* With the times for which that thread, in this stream, is the same; until the next call with this cache. */
    const ThreadSpan& thread_span_of(const Event& event, ThreadCache& cache) const;
    /* 0 if the trace does not tell. */
    uint32_t process_id_of(const Event& event) { return process_id_of(event, thread_cache_); }
    uint32_t process_id_of(const Event& event, ThreadCache& cache) const {
        if (event.process_id != 0) return event.process_id;
        const ThreadRecord* thread = thread_of(event, cache);
        return thread == nullptr ? 0 : thread->process_id;
    }
    /* Of who wrote the event's trace: that of the kernel and those of users are parts of one recording. */
    const TraceNames& names_of(const Event& event) const { return names_[origin_of(*event.info).names]; }
    /* Numbers of processes and threads mean the same within one of these, with all snapshots of a flight recorder. */
    uint32_t recording_of(const Event& event) const { return recording_of(*event.info); }
    uint32_t recording_of(const EventInfo& info) const { return origin_of(info).recording; }

    /* Before the first next(): leave out what packets end before this time. Events before it may still come.
     */
    void skip_before(int64_t time_ns);
    /* Time of the first event that is not part of a statedump; of any event if there is no such one. */
    int64_t start_ns() const { return start_ns_; }
    /* The wall-clock time at which CLOCK_MONOTONIC was zero, if a trace tells: Plumb's do. Of several, the first one's. */
    std::optional<int64_t> monotonic_zero_ns() const { return monotonic_zero_ns_; }
    /* On the machine that the event was traced on; as above, if its trace does not tell. */
    int64_t monotonic_zero_ns(const EventInfo& info) const {
        return origin_of(info).monotonic_zero_ns.value_or(monotonic_zero_ns_.value_or(0));
    }

    /* All event classes, EventInfo::index is the place in here. */
    const std::vector<const EventInfo*>& event_infos() const { return event_infos_; }
    const std::vector<std::unique_ptr<TraceLayout>>& layouts() const { return layouts_; }
    /* Where each of the layouts was found; empty for bytes in memory. */
    const std::vector<std::string>& folders() const { return folders_; }
    /* Folders with older traces, put aside by who replaces them: they are not read. */
    const std::vector<std::string>& aside() const { return aside_; }
    /* Folders that may not be read, and may hold more. */
    const std::vector<std::string>& closed() const { return closed_; }
    /* Folders that have a summary and no trace: it was not written, or is gone. */
    const std::vector<std::string>& bare() const { return bare_; }
    const std::vector<std::unique_ptr<StreamReader>>& streams() const { return streams_; }

    /* Of all streams in which something is missing. Before the first next(). */
    std::vector<StreamLossPlaces> loss_places();
    /* Events of the kernel at times for which the trace does not know who is who. */
    uint64_t events_without_names() const;
    /* What is missing, so far: complete when next() has returned nullptr. */
    StreamLosses losses() const;
    std::vector<std::string> problems() const;

private:
    struct Waiting {
        int64_t time_ns;
        uint32_t rank; /* of equal times, the smallest first */
        StreamReader* stream;
        bool operator<(const Waiting& other) const {
            return time_ns != other.time_ns ? time_ns < other.time_ns : rank < other.rank;
        }
    };

    /* Of a layout: who tells its names, and what else is of the same machine. */
    struct Origin {
        uint32_t names;
        uint32_t recording;
        std::optional<int64_t> monotonic_zero_ns;
    };
    const Origin& origin_of(const EventInfo& info) const { return origins_[origin_of_info_[info.index]]; }

    TraceReader();
    static Result<TraceReader> open_once(const std::string& path);
    Status add_folder(const std::string& folder);
    Status add_stream_file(const TraceLayout& layout, const std::string& path);
    Result<const TraceLayout*> add_layout(std::string_view metadata_file, const std::string& folder);
    void add_origin(const TraceLayout& layout, const std::string& folder);
    Status prepare();
    void take_named_times(StreamReader& stream, TraceNames& names);
    void start();
    void sift_down();

    std::vector<std::unique_ptr<TraceLayout>> layouts_;
    std::vector<std::string> folders_, aside_, closed_, bare_;
    std::vector<const EventInfo*> event_infos_;
    std::vector<MappedRegion> files_;
    std::vector<std::unique_ptr<StreamReader>> streams_;
    std::vector<Origin> origins_;                               /* of each layout */
    std::vector<uint32_t> origin_of_info_;                      /* by EventInfo::index */
    std::map<std::string, uint32_t> names_places_, recordings_; /* by folder */
    std::deque<TraceNames> names_;
    std::optional<int64_t> monotonic_zero_ns_;
    ThreadCache thread_cache_; /* of who reads by next() */
    unsigned reading_threads_ = 1;
    int64_t start_ns_ = 0;
    bool started_ = false;
    std::vector<Waiting> heap_; /* heap_[0]: the stream whose event was returned last */
};

} // namespace plumb

#endif
