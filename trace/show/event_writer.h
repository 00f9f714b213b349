/*
 * Events as text for people, or as JSON for programs. What is the same each time (names of events and fields,
 * who a thread is) is put together once; writing an event copies these pieces and converts its numbers.
 *
 * Text, one line for each event:
 *   [12:34:56.123456789] (+0.000001234) shop:order: { cpu_id = 0 }, { comm = "shop", pid = 7, tid = 8 }, { id
 * = 1 } JSON, one object for each line:
 *   {"timestamp_ns":1795...,"event":"shop:order","cpu":0,"comm":"shop","pid":7,"tid":8,"fields":{"id":1}}
 *
 * Everything that comes from the trace is escaped; it can not steer a terminal.
 */
#ifndef PLUMB_TRACE_SHOW_EVENT_WRITER_H
#define PLUMB_TRACE_SHOW_EVENT_WRITER_H

#include "base/output_buffer.h"
#include "trace/show/time_format.h"
#include "trace/show/value_names.h"
#include "trace/trace_reader.h"

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace plumb {

class EventWriter {
public:
    virtual ~EventWriter() = default;
    /* The event must be the reader's current one, or have slots of its own. */
    virtual void write(const Event& event) = 0;
    /* The event before the next one, if there was any, has been written by somebody else. */
    virtual void continue_after(std::optional<int64_t>) {}
    /* Of an event that is not to be written: of who joins system calls to pairs, the call whose exit it is has returned, and
     * a text that was told late belongs to the call. */
    virtual void pass_over(const Event&) {}
    /* After the last event: what was held back. */
    virtual void finish() {}
    /* Events whose fields reached beyond their end: what was whole has been written. */
    uint64_t damaged_events() const { return damaged_events_; }
    /* Of who joins system calls to pairs, so far; others write a line for each event. */
    uint64_t lines() const { return lines_; }
    /* Events of system calls that could not be joined, since they do not say which thread they are of. */
    uint64_t threadless_calls() const { return threadless_calls_; }

protected:
    uint64_t damaged_events_ = 0;
    uint64_t lines_ = 0;
    uint64_t threadless_calls_ = 0;
};

struct TextStyle {
    TimeStyle time = TimeStyle::local;
    bool color = false;
    /* A system call's entry and exit as one line, where the exit is:
     *   [time] (+...) openat: { cpu_id = 0 }, { comm = ... }, { filename = ... } -> { ret = 3 } after 0.000004207
     */
    bool pairs = false;
    int64_t min_duration_ns = 0; /* with pairs: nothing but calls that took as long */
    uint64_t lines_max = 0;      /* with pairs: finish() writes no more than are left of these; 0: all */
    std::vector<StreamLossPlaces> losses = {}; /* with pairs: what TraceReader::loss_places() says */
};

std::unique_ptr<EventWriter> make_text_writer(const TraceReader& reader, OutputBuffer& out, TextStyle style);
std::unique_ptr<EventWriter> make_json_writer(const TraceReader& reader, OutputBuffer& out);

/* What stands before the value of each step of a plan. */
using StepPieces = std::vector<TextPiece>;

/* Of each step's numbers; none at all if no step's have names. */
using StepNames = std::vector<FieldNames>;
StepNames names_of_steps(const EventInfo& info);

/* Pieces for each thread record, made when first needed. */
class ThreadPieces {
public:
    template <typename Make>
    const TextPiece& of(const ThreadRecord& thread, Make make) {
        if (thread.number >= pieces_.size()) pieces_.resize(thread.number + 1);
        TextPiece& piece = pieces_[thread.number];
        if (piece.size() == 0) piece = TextPiece(make(thread));
        return piece;
    }

private:
    std::vector<TextPiece> pieces_;
};

} // namespace plumb

#endif
