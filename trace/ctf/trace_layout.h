/*
 * Everything needed to decode the streams of one trace, made from its metadata: plans, clocks, and which
 * event an id stands for.
 */
#ifndef PLUMB_TRACE_CTF_TRACE_LAYOUT_H
#define PLUMB_TRACE_CTF_TRACE_LAYOUT_H

#include "base/clock_convert.h"
#include "trace/ctf/decode_plan.h"
#include "trace/ctf/tsdl.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <vector>

namespace plumb {

/* Events that say who wrote the trace. */
enum class StatedumpKind : uint8_t { none, process, thread, object, kernel_thread };

struct EventInfo {
    std::string name; /* "provider:event" */
    uint64_t id = 0;
    int log_level = -1;        /* -1: not said */
    uint32_t index = 0;        /* dense, over all event classes of all traces that are read together */
    bool is_statedump = false; /* of Plumb itself; not shown unless asked for */
    StatedumpKind statedump = StatedumpKind::none;
    bool is_of_split_call = false; /* as ctf_layout.h says */
    Plan context;
    Plan fields;
    /* Of all fields together, where each event has as many, and they stand on byte boundaries; else variable_size. */
    uint32_t fields_bytes = variable_size;
    uint32_t context_bytes = variable_size; /* likewise */
    static constexpr uint32_t variable_size = UINT32_MAX;
};

/* What is known of header and context of a stream's events without a plan. */
enum class RecordLayout : uint8_t {
    other,
    plain,  /* exactly Plumb's record header */
    compact /* Plumb's, with small headers */
};

struct StreamLayout {
    uint64_t id = 0;
    Plan packet_context;
    Plan event_header;
    Plan event_context;
    Plan
        further_context; /* of records of Plumb: what its struct has behind the thread's number, as each event's own */
    CyclesToNs clock;
    RecordLayout record_layout = RecordLayout::other;
    /* No plan is needed to read header and context of events; who wrote them is told by the statedump. */
    bool is_plumb_record() const { return record_layout != RecordLayout::other; }
    /* Nothing but statedump events. */
    bool is_statedump = false;
    /* Packets of the statedump say for which times the names of its events' threads are known. */
    bool has_named_spans = false;

    const EventInfo* find_event(uint64_t event_id) const {
        if (event_id < dense_.size()) return dense_[event_id];
        if (sparse_.empty()) return nullptr;
        const auto found = sparse_.find(event_id);
        return found == sparse_.end() ? nullptr : found->second;
    }
    void add_event(const EventInfo* event);

private:
    std::vector<const EventInfo*> dense_;
    std::unordered_map<uint64_t, const EventInfo*> sparse_;
};

class TraceLayout {
public:
    /* `first_index` numbers the events; see EventInfo::index. */
    static Result<std::unique_ptr<TraceLayout>> make(tsdl::Metadata metadata, uint32_t first_index);

    const tsdl::Metadata& metadata() const { return metadata_; }
    bool is_of_plumb() const { return !metadata_.environment_text("plumb_version").empty(); }
    const Plan& packet_header() const { return packet_header_; }
    uint32_t packet_header_slot_count() const { return packet_header_slots_; }
    const StreamLayout* find_stream(uint64_t id) const;
    /* Each event is a record that has all that its fields need in itself. */
    bool has_only_plumb_records() const {
        return std::all_of(streams_.begin(), streams_.end(),
                           [](const auto& stream) { return stream->is_plumb_record(); });
    }
    const std::vector<std::unique_ptr<EventInfo>>& events() const { return events_; }
    const std::vector<std::unique_ptr<StreamLayout>>& streams() const { return streams_; }

private:
    friend class LayoutMaker;
    tsdl::Metadata metadata_;
    Plan packet_header_;
    uint32_t packet_header_slots_ = 0;
    std::vector<std::unique_ptr<StreamLayout>> streams_;
    std::unordered_map<uint64_t, const StreamLayout*> stream_by_id_;
    std::vector<std::unique_ptr<EventInfo>> events_;
};

} // namespace plumb

#endif
