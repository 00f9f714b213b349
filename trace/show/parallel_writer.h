/*
 * Events written by all processors: who reads the trace hands over batches of events, helpers make text of them, each batch with a
 * writer and a buffer of its own, and the texts come out in the order of the events.
 *
 * An event is the reader's current one only until the next, but its bytes stay where they are while the trace is open, and a
 * record of Plumb has all that its fields need in itself. So only traces whose streams are all of such records can be written
 * this way (can_write_parallel()).
 */
#ifndef PLUMB_TRACE_SHOW_PARALLEL_WRITER_H
#define PLUMB_TRACE_SHOW_PARALLEL_WRITER_H

#include "trace/show/event_writer.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace plumb {

bool can_write_parallel(const TraceReader& reader);

class ParallelWriter : public EventWriter {
public:
    /* Makes a writer that writes to this buffer. Called by one thread. */
    using MakeWriter = std::function<std::unique_ptr<EventWriter>(OutputBuffer& out)>;

    /* `helpers` besides the thread that calls write(), begun when there is more than one batch of `batch_events`. */
    ParallelWriter(const TraceReader& reader, OutputBuffer& out, MakeWriter make, unsigned helpers,
                   std::size_t batch_events = 4096);
    ~ParallelWriter() override;

    void write(const Event& event) override;
    /* Has to be called; nothing more is written after it. */
    void finish() override;

private:
    /* Events and what becomes of them. Used again and again. */
    struct Batch {
        std::vector<Event> events;
        uint64_t bits = 0;                /* of their fields */
        std::optional<int64_t> before_ns; /* the time of the event before the first */
        OutputBuffer text{-1};
        std::unique_ptr<EventWriter> writer; /* to `text` */
        std::vector<uint64_t> slots;
        bool is_done = false;
    };

    void begin_helpers();
    void hand_over(std::unique_lock<std::mutex>& lock);
    void help();
    static void make_text(Batch& batch);
    bool take_and_make(std::unique_lock<std::mutex>& lock);
    void put_finished(std::unique_lock<std::mutex>& lock, std::size_t left_at_most);
    void end_helpers();
    std::unique_ptr<Batch> make_batch();

    OutputBuffer& out_;
    MakeWriter make_;
    unsigned helper_count_;
    std::size_t batch_events_;
    std::size_t slot_count_ = 0;

    std::unique_ptr<Batch> filling_;
    std::vector<std::unique_ptr<Batch>> spare_;
    std::optional<int64_t> last_ns_;
    std::vector<std::thread> helpers_;

    std::mutex mutex_;
    std::condition_variable work_, done_;
    std::deque<std::unique_ptr<Batch>> batches_; /* handed over, in order */
    std::deque<Batch*> waiting_;                 /* of them, those that nobody has taken */
    std::exception_ptr failure_;
    bool is_ending_ = false;
};

} // namespace plumb

#endif
