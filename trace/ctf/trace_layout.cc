/*
 * From types to plans. Metadata is hostile: a few lines of it can describe a struct of 2^32 fields, or an
 * array of elements that take no bytes, so the number of steps is bounded, and a walk's by what it has to walk over. Names are views
 * of the metadata's, since one type may be that of all events.
 */
#include "trace/ctf/trace_layout.h"

#include "base/ctf_layout.h"
#include "trace/ctf/record_layout.h"
#include "trace/ctf/visible_fields.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_set>
#include <utility>

namespace plumb {
namespace {

constexpr std::size_t max_steps_in_plan = 4096;
/* The 4,095 kinds of events of a session of Plumb have less than half of that. */
constexpr std::size_t max_steps_in_trace = std::size_t{1} << 20;
constexpr uint32_t max_slots = 65536;
constexpr uint64_t max_dense_event_id = 65535;

struct NamedRole {
    std::string_view scope;
    std::string_view name;
    Role role;
};

constexpr std::array roles{
    NamedRole{"trace.packet.header", "magic", Role::magic},
    NamedRole{"trace.packet.header", "uuid", Role::uuid},
    NamedRole{"trace.packet.header", "stream_id", Role::stream_id},
    NamedRole{"trace.packet.header", "stream_instance_id", Role::stream_instance_id},
    NamedRole{"stream.packet.context", "timestamp_begin", Role::timestamp_begin},
    NamedRole{"stream.packet.context", "timestamp_end", Role::timestamp_end},
    NamedRole{"stream.packet.context", "content_size", Role::content_size},
    NamedRole{"stream.packet.context", "packet_size", Role::packet_size},
    NamedRole{"stream.packet.context", "packet_seq_num", Role::packet_seq_num},
    NamedRole{"stream.packet.context", "events_discarded", Role::events_discarded},
    NamedRole{"stream.packet.context", "cpu_id", Role::cpu_id},
    NamedRole{"stream.event.header", "id", Role::event_id},
    NamedRole{"stream.event.context", "vtid", Role::thread_id},
    NamedRole{"stream.event.context", "tid", Role::thread_id},
    NamedRole{"stream.event.context", "vpid", Role::process_id},
    NamedRole{"stream.event.context", "pid", Role::process_id},
    NamedRole{"stream.event.context", "procname", Role::process_name},
};

std::string_view without_underscore(std::string_view name) {
    if (name.size() > 1 && name.front() == '_') name.remove_prefix(1);
    return name;
}

Role role_of(std::string_view scope, std::string_view name) {
    for (const NamedRole& entry : roles)
        if (entry.scope == scope && entry.name == without_underscore(name)) return entry.role;
    return Role::none;
}

bool is_text_element(const tsdl::Type& type) {
    return type.kind == tsdl::Kind::integer && type.is_text && type.size_bits == 8 &&
           type.alignment_bits % 8 == 0 && type.alignment_bits <= 8;
}

} // namespace

void StreamLayout::add_event(const EventInfo* event) {
    if (event->id > max_dense_event_id) {
        sparse_.emplace(event->id, event);
        return;
    }
    if (dense_.size() <= event->id) dense_.resize(event->id + 1);
    dense_[event->id] = event;
}

const StreamLayout* TraceLayout::find_stream(uint64_t id) const {
    const auto found = stream_by_id_.find(id);
    return found == stream_by_id_.end() ? nullptr : found->second;
}

/* An entry of such a call. */
bool is_split_call(const tsdl::Metadata& metadata, std::string_view event) {
    constexpr std::string_view entry = "syscall_entry_";
    if (!event.starts_with(entry)) return false;
    const std::string calls = " " + metadata.environment_text(split_calls_entry) + " ";
    return calls.find(fmt::format(" {} ", event.substr(entry.size()))) != std::string::npos;
}

class LayoutMaker {
public:
    explicit LayoutMaker(TraceLayout& layout) : layout_(layout) {}
    Status make(uint32_t first_index);

private:
    using Visible = VisibleFields::Visible;

    Status compile(std::string_view scope, const tsdl::TypePtr& type, Plan& plan);
    Status add(uint32_t parent, std::string_view name, const tsdl::Type& type, Plan& plan);
    Status add_children(uint32_t place, const tsdl::Type& type, Plan& plan);
    Status add_array(uint32_t parent, std::string_view name, const tsdl::Type& type, Plan& plan, Step step);
    Status add_variant(uint32_t parent, std::string_view name, const tsdl::Type& type, Plan& plan, Step step);
    void fill_integer(const tsdl::Type& type, Step& step) const;
    Result<int32_t> slot_of(const Visible& visible);
    Status make_stream(const tsdl::StreamClass& described);
    Status make_event(const tsdl::EventClass& described, StreamLayout& stream, uint32_t index);
    RecordLayout layout_of_records(const StreamLayout& stream) const;
    void split_context(StreamLayout& stream, std::size_t visible_before);
    CyclesToNs clock_of(const tsdl::StreamClass& stream) const;

    TraceLayout& layout_;
    VisibleFields visible_;
    std::string_view scope_;
    uint32_t slots_ = 0, slots_most_ = 0; /* now, and of any event */
    std::size_t outer_visible_ = 0;       /* so many are not of the event in hand */
    bool has_taken_outer_slot_ = false;   /* for one of those */
    std::size_t steps_ = 0;
};

Result<std::unique_ptr<TraceLayout>> TraceLayout::make(tsdl::Metadata metadata, uint32_t first_index) {
    auto layout = std::make_unique<TraceLayout>();
    layout->metadata_ = std::move(metadata);
    if (Status made = LayoutMaker(*layout).make(first_index); !made) return made.error();
    return layout;
}

Status LayoutMaker::make(uint32_t first_index) {
    const tsdl::Metadata& metadata = layout_.metadata_;
    if (Status made = compile("trace.packet.header", metadata.packet_header, layout_.packet_header_); !made)
        return made;
    const std::size_t visible_everywhere = visible_.size();
    std::unordered_map<uint64_t, std::vector<const tsdl::EventClass*>> events_by_stream;
    for (const tsdl::EventClass& event : metadata.events)
        events_by_stream[event.stream_id].push_back(&event);
    for (const tsdl::StreamClass& described : metadata.streams) {
        visible_.hide_from(visible_everywhere);
        if (Status made = make_stream(described); !made) return made;
        StreamLayout& stream = *layout_.streams_.back();
        const std::size_t visible_in_stream = outer_visible_ = visible_.size();
        bool only_statedump = true;
        for (const tsdl::EventClass* const event : events_by_stream[described.id]) {
            visible_.hide_from(visible_in_stream);
            const auto index = first_index + static_cast<uint32_t>(layout_.events_.size());
            const uint32_t slots_before = slots_;
            has_taken_outer_slot_ = false;
            if (Status made = make_event(*event, stream, index); !made) return made;
            slots_most_ = std::max(slots_most_, slots_);
            /* Nobody reads two events at once: the next one may have the same. */
            if (!has_taken_outer_slot_) slots_ = slots_before;
            only_statedump = only_statedump && layout_.events_.back()->is_statedump;
        }
        stream.is_statedump = only_statedump && stream.is_plumb_record();
    }
    /* Events may use what the packet header keeps, so each stream has room for it. */
    layout_.packet_header_slots_ = std::max(slots_most_, slots_);
    return ok();
}

CyclesToNs LayoutMaker::clock_of(const tsdl::StreamClass& stream) const {
    const tsdl::Metadata& metadata = layout_.metadata_;
    const tsdl::Clock* clock = metadata.clocks.empty() ? nullptr : &metadata.clocks.front();
    /* A type may hold another one many times over: each is looked at once. */
    std::unordered_set<const tsdl::Type*> seen;
    const auto look = [&](auto&& self, const tsdl::TypePtr& type) -> const tsdl::Clock* {
        if (!type || !seen.insert(type.get()).second) return nullptr;
        if (!type->clock.empty()) return metadata.find_clock(type->clock);
        for (const tsdl::Field& field : type->fields)
            if (const tsdl::Clock* found = self(self, field.type)) return found;
        return nullptr;
    };
    if (const tsdl::Clock* found = look(look, stream.event_header))
        clock = found;
    else if (const tsdl::Clock* in_packet = look(look, stream.packet_context))
        clock = in_packet;
    if (clock == nullptr) return {};
    return {clock->frequency_hz, clock->offset_s, clock->offset_cycles};
}

/* Of a trace of Plumb. */
RecordLayout LayoutMaker::layout_of_records(const StreamLayout& stream) const {
    if (is_plumb_record(stream.event_header, stream.event_context)) return RecordLayout::plain;
    const bool says_so =
        layout_.metadata().environment_text(record_layout_entry) == std::string_view(record_layout_compact);
    return says_so && is_compact_record(stream.event_header, stream.event_context) ? RecordLayout::compact
                                                                                   : RecordLayout::other;
}

/* What a session adds to the thread's number, which each record has, is read with each event. It is of itself alone: no field of an
 * event names a part of it. */
void LayoutMaker::split_context(StreamLayout& stream, std::size_t visible_before) {
    Plan& whole = stream.event_context;
    StreamLayout thread_alone;
    thread_alone.event_header = stream.event_header;
    thread_alone.event_context.align_mask = whole.align_mask;
    if (!whole.empty()) thread_alone.event_context.steps = {whole.steps.front()};
    stream.record_layout = layout_of_records(thread_alone);
    if (!stream.is_plumb_record() || whole.steps.size() == 1) return;
    if (!whole.choices.empty() || whole.steps.front().slot >= 0) {
        stream.record_layout = RecordLayout::other;
        return;
    }
    stream.further_context.steps.assign(whole.steps.begin() + 1, whole.steps.end());
    for (Step& step : stream.further_context.steps)
        step.next--;
    whole.steps.resize(1);
    visible_.hide_from(visible_before + 1);
}

Status LayoutMaker::make_stream(const tsdl::StreamClass& described) {
    auto stream = std::make_unique<StreamLayout>();
    stream->id = described.id;
    stream->clock = clock_of(described);
    stream->has_named_spans =
        layout_.metadata().environment_text(named_spans_entry) == named_spans_by_packets;
    if (Status made = compile("stream.packet.context", described.packet_context, stream->packet_context);
        !made)
        return made;
    if (Status made = compile("stream.event.header", described.event_header, stream->event_header); !made)
        return made;
    const std::size_t visible_before = visible_.size();
    if (Status made = compile("stream.event.context", described.event_context, stream->event_context); !made)
        return made;
    if (layout_.is_of_plumb()) split_context(*stream, visible_before);
    layout_.stream_by_id_.emplace(stream->id, stream.get());
    layout_.streams_.push_back(std::move(stream));
    return ok();
}

Status LayoutMaker::make_event(const tsdl::EventClass& described, StreamLayout& stream, uint32_t index) {
    auto event = std::make_unique<EventInfo>();
    event->name = described.name;
    event->id = described.id;
    event->index = index;
    if (described.log_level && *described.log_level >= 0 && *described.log_level < 256)
        event->log_level = static_cast<int>(*described.log_level);
    constexpr std::string_view statedump = "plumb_statedump:";
    if (event->name.starts_with(statedump)) {
        const std::string_view what = std::string_view(event->name).substr(statedump.size());
        event->is_statedump = true;
        if (what == "process") event->statedump = StatedumpKind::process;
        if (what == "thread") event->statedump = StatedumpKind::thread;
        if (what == "object") event->statedump = StatedumpKind::object;
    }
    if (stream.is_plumb_record() &&
        (event->name.starts_with("lttng_statedump_") || event->name.starts_with("plumb_statedump_"))) {
        event->is_statedump = true;
        if (event->name == "plumb_statedump_thread") event->statedump = StatedumpKind::kernel_thread;
        if (event->name == "lttng_statedump_process_state") event->statedump = StatedumpKind::kernel_thread;
    }
    event->is_of_split_call = is_split_call(layout_.metadata(), event->name);
    if (Status made = compile("event.context", described.context, event->context); !made)
        return made.error().with("Event {}", described.name);
    const std::size_t outer_visible = std::exchange(outer_visible_, visible_.size());
    const bool had_taken_outer_slot = std::exchange(has_taken_outer_slot_, false);
    if (Status made = compile("event.fields", described.fields, event->fields); !made)
        return made.error().with("Event {}", described.name);
    /* Fields that need what the context says of them are not laid out as a record of Plumb has them. */
    if (!event->context.empty() && has_taken_outer_slot_) stream.record_layout = RecordLayout::other;
    outer_visible_ = outer_visible;
    has_taken_outer_slot_ = has_taken_outer_slot_ || had_taken_outer_slot;
    if (!stream.further_context.empty() && event->context.empty())
        event->context = stream.further_context;
    else if (!stream.further_context.empty())
        return Error("Event {}: its context and that of its stream are two.", described.name);
    event->context_bytes = fixed_bytes_of(event->context);
    event->fields_bytes = fixed_bytes_of(event->fields);
    stream.add_event(event.get());
    layout_.events_.push_back(std::move(event));
    return ok();
}

Status LayoutMaker::compile(std::string_view scope, const tsdl::TypePtr& type, Plan& plan) {
    if (!type) return ok();
    if (type->kind != tsdl::Kind::structure) return Error("The metadata's {} is not a struct.", scope);
    scope_ = scope;
    plan.align_mask = type->alignment_bits - 1;
    return add_children(visible_.make_place(VisibleFields::nowhere, scope), *type, plan);
}

Status LayoutMaker::add_children(uint32_t place, const tsdl::Type& type, Plan& plan) {
    for (const tsdl::Field& field : type.fields)
        if (Status added = add(place, field.name, *field.type, plan); !added) return added;
    return ok();
}

void LayoutMaker::fill_integer(const tsdl::Type& type, Step& step) const {
    const tsdl::Type& integer = type.kind == tsdl::Kind::enumeration ? *type.element : type;
    step.kind = integer.kind == tsdl::Kind::floating ? StepKind::floating : StepKind::integer;
    step.size_bits = static_cast<uint8_t>(integer.size_bits);
    step.is_signed = integer.is_signed;
    step.base = integer.base;
    step.big_endian = integer.byte_order == tsdl::ByteOrder::native
                          ? layout_.metadata_.big_endian
                          : integer.byte_order == tsdl::ByteOrder::big;
    const bool whole =
        step.size_bits == 8 || step.size_bits == 16 || step.size_bits == 32 || step.size_bits == 64;
    step.direct = whole && type.alignment_bits >= 8 && (!step.big_endian || step.size_bits == 8);
    step.maps_clock = !integer.clock.empty();
    if (type.kind == tsdl::Kind::enumeration) step.labels = &type.labels;
    step.has_flags = type.has_flags;
}

Status LayoutMaker::add(uint32_t parent, std::string_view name, const tsdl::Type& type, Plan& plan) {
    if (plan.steps.size() >= max_steps_in_plan)
        return Error("The metadata describes a struct with more than {} parts.", max_steps_in_plan);
    if (++steps_ > max_steps_in_trace)
        return Error("The metadata describes events of more than {} parts altogether.", max_steps_in_trace);
    Step step;
    step.name = without_underscore(name);
    step.align_mask = type.alignment_bits - 1;
    step.role = role_of(scope_, name);
    const auto at = static_cast<uint32_t>(plan.steps.size());
    switch (type.kind) {
    case tsdl::Kind::integer:
    case tsdl::Kind::enumeration:
        visible_.show({parent, name, &plan, at, &type});
        [[fallthrough]];
    case tsdl::Kind::floating:
        fill_integer(type, step);
        break;
    case tsdl::Kind::string:
        step.kind = StepKind::string;
        break;
    case tsdl::Kind::structure: {
        step.kind = StepKind::structure;
        plan.steps.push_back(step);
        if (Status added = add_children(visible_.make_place(parent, name), type, plan); !added) return added;
        plan.steps[at].next = static_cast<uint32_t>(plan.steps.size());
        return ok();
    }
    case tsdl::Kind::array:
    case tsdl::Kind::sequence:
        return add_array(parent, name, type, plan, step);
    case tsdl::Kind::variant:
        return add_variant(parent, name, type, plan, step);
    }
    step.next = at + 1;
    plan.steps.push_back(step);
    return ok();
}

Status LayoutMaker::add_array(uint32_t parent, std::string_view name, const tsdl::Type& type, Plan& plan,
                              Step step) {
    const auto at = static_cast<uint32_t>(plan.steps.size());
    step.kind = is_text_element(*type.element) ? StepKind::text : StepKind::array;
    step.length = type.length;
    step.element_min_bits = type.element->min_bits;
    if (type.kind == tsdl::Kind::sequence) {
        Result<const Visible*> length = visible_.resolve(parent, type.reference);
        if (!length) return length.error().with("The length of {}", name);
        Result<int32_t> slot = slot_of(**length);
        if (!slot) return slot.error();
        step.counted = true;
        step.from_slot = *slot;
        const Visible& found = **length;
        if (found.plan == &plan && found.step + 1 == at && type.reference.starts_with("__"))
            plan.steps[found.step].is_length = true;
    }
    const Role role = step.role;
    plan.steps.push_back(step);
    if (plan.steps[at].kind == StepKind::array) {
        if (Status added = add(visible_.make_place(parent, name), "", *type.element, plan); !added)
            return added;
        if (role == Role::uuid) plan.steps[at + 1].role = role;
    }
    plan.steps[at].next = static_cast<uint32_t>(plan.steps.size());
    return ok();
}

Status LayoutMaker::add_variant(uint32_t parent, std::string_view name, const tsdl::Type& type, Plan& plan,
                                Step step) {
    /* Two variants may have options of one name, so the field's own stays: as a struct of the option that is taken. */
    const auto around = static_cast<uint32_t>(plan.steps.size());
    if (scope_ != "stream.event.header") {
        step.kind = StepKind::structure;
        step.align_mask = 0;
        plan.steps.push_back(step);
        step.name = {};
    }
    const auto at = static_cast<uint32_t>(plan.steps.size());
    if (type.reference.empty()) return Error("The variant {} has no tag.", name);
    Result<const Visible*> tag = visible_.resolve(parent, type.reference);
    if (!tag) return tag.error().with("The tag of {}", name);
    if ((*tag)->type->kind != tsdl::Kind::enumeration)
        return Error("The tag of {} is not an enumeration.", name);
    const tsdl::Type& tag_type = *(*tag)->type;
    Result<int32_t> slot = slot_of(**tag);
    if (!slot) return slot.error();
    step.kind = StepKind::variant;
    step.from_slot = *slot;
    step.choices = static_cast<uint32_t>(plan.choices.size());
    plan.choices.emplace_back();
    plan.choices.back().tag_is_signed = tag_type.element->is_signed;
    const uint32_t choices = step.choices;
    plan.steps.push_back(step);
    const uint32_t place = visible_.make_place(parent, name);
    for (const tsdl::Field& option : type.fields) {
        const auto first = static_cast<uint32_t>(plan.steps.size());
        if (Status added = add(place, option.name, *option.type, plan); !added) return added;
        if (Status looked = visible_.look(tag_type.labels.size()); !looked) return looked;
        for (const tsdl::Label& label : tag_type.labels)
            if (without_underscore(label.name) == without_underscore(option.name))
                plan.choices[choices].options.push_back({label.first, label.last, first});
    }
    plan.steps[around].next = plan.steps[at].next = static_cast<uint32_t>(plan.steps.size());
    return ok();
}

Result<int32_t> LayoutMaker::slot_of(const Visible& visible) {
    Step& step = visible.plan->steps[visible.step];
    if (step.slot < 0) {
        /* What the packet or the header keeps for an event must be nobody else's, from the first event on. */
        if (visible_.number_of(visible) < outer_visible_) {
            has_taken_outer_slot_ = true;
            slots_ = std::max(slots_, slots_most_);
        }
        if (slots_ >= max_slots) return Error("The metadata has more than {} lengths and tags.", max_slots);
        step.slot = static_cast<int32_t>(slots_++);
    }
    return step.slot;
}

} // namespace plumb
