#include "trace/show/condition.h"

#include "base/glob.h"
#include "trace/show/condition_names.h"
#include "trace/show/context_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace plumb {
namespace {

constexpr std::string_view writers_names[] = {"comm", "event", "pid", "tid", "cpu"};

bool is_writers_name(const FieldPath& path) {
    return path.parts.size() == 1 && !path.element &&
           std::find(std::begin(writers_names), std::end(writers_names), path.parts[0]) !=
               std::end(writers_names);
}

/* 0.1 of a float is 0.1, and not what it is as a double. */
double as_shown(float number) {
    char text[40];
    double shown = 0;
    const char* const end = std::to_chars(text, std::end(text), number).ptr;
    return std::from_chars(text, end, shown).ec == std::errc() ? shown : number;
}

bool is_writers_text(std::string_view name) {
    return name == "comm" || name == "event";
}

/* Where a path leads in a plan. */
struct FoundStep {
    uint32_t step;
    const Step* array = nullptr; /* that it is an element of */
};

std::optional<FoundStep> find_step(const Plan& plan, const FieldPath& path) {
    uint32_t at = 0, end = static_cast<uint32_t>(plan.steps.size());
    for (std::size_t part = 0; at < end;) {
        const Step& step = plan.steps[at];
        if (step.kind == StepKind::variant) { /* its options have names */
            at++;
            continue;
        }
        if (step.is_length || step.name != path.parts[part]) {
            at = std::max(step.next, at + 1);
            continue;
        }
        if (part + 1 < path.parts.size()) {
            if (step.kind != StepKind::structure) return {};
            end = step.next;
            part++;
            at++;
            continue;
        }
        if (step.kind == StepKind::array) {
            if (!path.element || at + 1 >= plan.steps.size()) return {};
            return FoundStep{at + 1, &step};
        }
        if (path.element) return {};
        return FoundStep{at, nullptr};
    }
    return {};
}

/* Also one that is no number or text: who wrote the event is not meant then. */
bool has_field(const Plan& plan, std::string_view name) {
    for (std::size_t at = 0; at < plan.steps.size(); at = std::max<std::size_t>(plan.steps[at].next, at + 1))
        if (!plan.steps[at].is_length && plan.steps[at].name == name) return true;
    return false;
}

bool is_scalar(const Step& step) {
    return step.kind == StepKind::integer || step.kind == StepKind::floating ||
           step.kind == StepKind::string || step.kind == StepKind::text;
}

ConditionTypes types_of(const Step& step) {
    ConditionTypes types;
    types.integer = step.kind == StepKind::integer;
    types.number = types.integer || step.kind == StepKind::floating;
    types.text = step.kind == StepKind::string || step.kind == StepKind::text ||
                 (types.integer && step.labels != nullptr);
    return types;
}

} // namespace

/* Which steps of each kind of event are asked for. */
struct Condition::Bound {
    struct Slot {
        uint32_t field;
        FoundStep found;
        uint64_t element;
    };
    struct Plans {
        std::vector<Slot> fields, context, stream_context;
        std::vector<uint32_t> own;    /* fields that are no field of it */
        std::vector<Slot> call_texts; /* of `fields`, strings of a system call */
    };
    std::vector<Plans> by_info;
    std::vector<std::string> flag_texts; /* by field: the names of the bits of its value */
    std::vector<uint64_t> seen;          /* elements of the array that a slot asks for one of, so far */

    /* Keeps what the slots of one plan ask for. */
    class Collector : public SkipVisitor {
    public:
        Collector(const Plan& plan, const std::vector<Slot>& slots, Bound& bound,
                  std::vector<ConditionValue>& values)
            : steps_(plan.steps.data()),
              slots_(slots),
              seen_(bound.seen),
              flag_texts_(bound.flag_texts),
              values_(values) {}
        void integer(const Step& step, uint64_t bits) {
            keep(step, [&](ConditionValue& value, uint32_t field) {
                value = of_integer(step.is_signed ? static_cast<__int128>(static_cast<int64_t>(bits))
                                                  : static_cast<__int128>(bits));
                if (step.labels == nullptr) return;
                if (step.has_flags) {
                    value.has_label = get_label(step, bits, flag_texts_[field]);
                    value.lacks_label = !value.has_label;
                    if (value.has_label) value.text = flag_texts_[field];
                    return;
                }
                const tsdl::Label* const label = find_label(step, bits);
                value.has_label = label != nullptr;
                value.lacks_label = label == nullptr;
                if (label != nullptr) value.text = label->name;
            });
        }
        void floating(const Step& step, double number) {
            keep(step, [&](ConditionValue& value, uint32_t) {
                value = of_floating(step.size_bits == 32 ? as_shown(static_cast<float>(number)) : number);
            });
        }
        void text(const Step& step, std::string_view text) {
            keep(step, [&](ConditionValue& value, uint32_t) { value = of_text(text); });
        }
        void begin(const Step& step, uint64_t) {
            for (std::size_t i = 0; i < slots_.size(); i++)
                if (slots_[i].found.array == &step) seen_[i] = 0;
        }

    private:
        template <typename Keep>
        void keep(const Step& step, Keep keep_it) {
            const auto place = static_cast<uint32_t>(&step - steps_);
            for (std::size_t i = 0; i < slots_.size(); i++) {
                const Slot& slot = slots_[i];
                if (slot.found.step != place) continue;
                if (slot.found.array != nullptr && seen_[i]++ != slot.element) continue;
                keep_it(values_[slot.field], slot.field);
            }
        }
        const Step* steps_;
        const std::vector<Slot>& slots_;
        std::vector<uint64_t>& seen_;
        std::vector<std::string>& flag_texts_;
        std::vector<ConditionValue>& values_;
    };
};

Condition::Condition(ConditionTree tree, TraceReader& reader)
    : tree_(std::move(tree)), reader_(reader), bound_(std::make_unique<Bound>()) {}
Condition::~Condition() = default;

Result<std::unique_ptr<Condition>> Condition::make(ConditionTree tree, TraceReader& reader,
                                                   bool with_statedump) {
    std::unique_ptr<Condition> condition(new Condition(std::move(tree), reader));
    if (Status bound = condition->bind(with_statedump); !bound) return bound.error();
    return condition;
}

Status Condition::bind(bool with_statedump) {
    field_of_node_.resize(tree_.nodes.size());
    for (std::size_t i = 0; i < tree_.nodes.size(); i++) {
        const ConditionNode& node = tree_.nodes[i];
        if (node.kind != ConditionKind::field) continue;
        const auto known = std::find(fields_.begin(), fields_.end(), node.field);
        field_of_node_[i] = static_cast<uint32_t>(known - fields_.begin());
        if (known == fields_.end()) fields_.push_back(node.field);
    }
    field_values_.resize(fields_.size());
    values_.resize(tree_.nodes.size());
    bound_->by_info.resize(reader_.event_infos().size());
    bound_->seen.resize(fields_.size());
    bound_->flag_texts.resize(fields_.size());

    std::map<const EventInfo*, const StreamLayout*> streams;
    for (const auto& layout : reader_.layouts())
        for (const auto& stream : layout->streams())
            for (const auto& info : layout->events())
                if (stream->find_event(info->id) == info.get()) streams[info.get()] = stream.get();
    std::vector<ConditionTypes> field_types(fields_.size());
    for (const EventInfo* info : reader_.event_infos()) {
        if (info->is_statedump && !with_statedump) continue;
        Bound::Plans& plans = bound_->by_info[info->index];
        const StreamLayout* const stream = streams.count(info) != 0 ? streams[info] : nullptr;
        for (uint32_t field = 0; field < fields_.size(); field++) {
            const std::pair<const Plan*, std::vector<Bound::Slot>*> places[] = {
                {&info->fields, &plans.fields},
                {&info->context, &plans.context},
                {stream == nullptr ? nullptr : &stream->event_context, &plans.stream_context}};
            bool is_found = false;
            for (const auto& [plan, slots] : places) {
                if (plan == nullptr || is_found) continue;
                const FieldPath& path = fields_[field];
                const auto found = find_step(*plan, path);
                if (!found || !is_scalar(plan->steps[found->step])) {
                    is_found = is_writers_name(path) && has_field(*plan, path.parts[0]);
                    continue;
                }
                is_found = true;
                field_types[field].add(types_of(plan->steps[found->step]));
                slots->push_back({field, *found, path.element.value_or(0)});
                if (slots == &plans.fields && info->name.starts_with(syscall_entry_start) &&
                    plan->steps[found->step].kind == StepKind::string)
                    plans.call_texts.push_back(slots->back());
            }
            if (is_found || !is_writers_name(fields_[field])) continue;
            plans.own.push_back(field);
            field_types[field].add(is_writers_text(fields_[field].parts[0])
                                       ? ConditionTypes{false, false, true}
                                       : ConditionTypes{true, true, false});
        }
    }
    return check_condition(
        tree_, [&](std::size_t node) { return field_types[field_of_node_[node]]; },
        [&](const FieldPath& path) { return why_no_value(reader_, path); });
}

ConditionValue Condition::own_value(const std::string& name, const Event& event) {
    if (name == "event") return of_text(event.info->name);
    /* Without one, it is not in the trace; but the kernel's idle threads are 0, and of a process 0. */
    const bool is_idle = event.thread_id == 0 && event.stream->is_plumb_record();
    const auto known = [=](uint32_t id) { return id == 0 && !is_idle ? ConditionValue{} : of_integer(id); };
    if (name == "tid") return known(event.thread_id);
    if (name == "pid") return known(reader_.process_id_of(event));
    if (name == "cpu") return event.cpu == no_cpu ? ConditionValue{} : of_integer(event.cpu);
    if (const ThreadRecord* const thread = reader_.thread_of(event)) {
        thread_name_ = thread->name;
        return of_text(thread_name_);
    }
    thread_name_ = context_name_of(event);
    return thread_name_.empty() ? ConditionValue{} : of_text(thread_name_);
}

/* Of an event that ends too early, those that are whole. */
void Condition::take_values(const Event& event) {
    const Bound::Plans& plans = bound_->by_info[event.info->index];
    std::fill(field_values_.begin(), field_values_.end(), ConditionValue{});
    if (!plans.fields.empty()) {
        Bound::Collector collector(event.info->fields, plans.fields, *bound_, field_values_);
        static_cast<void>(visit_fields(event, collector));
    }
    if (!plans.context.empty()) {
        Bound::Collector collector(event.info->context, plans.context, *bound_, field_values_);
        static_cast<void>(visit_event_context(event, collector));
    }
    if (!plans.stream_context.empty()) {
        Bound::Collector collector(event.stream->event_context, plans.stream_context, *bound_, field_values_);
        static_cast<void>(visit_stream_context(event, collector));
    }
    for (const uint32_t field : plans.own)
        field_values_[field] = own_value(fields_[field].parts[0], event);
    if (late_texts_) take_what_came_late(event);
}

bool Condition::asks_for_late_texts() const {
    const auto& infos = reader_.event_infos();
    return std::any_of(infos.begin(), infos.end(),
                       [](const EventInfo* info) { return info->name == syscall_late_text; }) &&
           std::any_of(bound_->by_info.begin(), bound_->by_info.end(),
                       [](const Bound::Plans& plans) { return !plans.call_texts.empty(); });
}

/* Looking ahead takes a second look at the trace: only for a string that the entry says is missing. */
void Condition::take_what_came_late(const Event& event) {
    for (const Bound::Slot& slot : bound_->by_info[event.info->index].call_texts) {
        ConditionValue& value = field_values_[slot.field];
        if (value.text.find("(not read)") == std::string_view::npos) continue;
        const LateTexts* const late = late_texts_->of(event);
        if (late == nullptr) return;
        value.text = late->instead_of(event.info->fields.steps[slot.found.step].name, value.text);
    }
}

bool Condition::holds(const Event& event) {
    take_values(event);
    for (std::size_t i = 0; i < tree_.nodes.size(); i++) {
        const ConditionNode& node = tree_.nodes[i];
        switch (node.kind) {
        case ConditionKind::integer:
            values_[i] = of_integer(node.integer);
            break;
        case ConditionKind::floating:
            values_[i] = of_floating(node.floating);
            break;
        case ConditionKind::text:
            values_[i] = of_text(node.text);
            break;
        case ConditionKind::field:
            values_[i] = field_values_[field_of_node_[i]];
            break;
        case ConditionKind::unary:
            values_[i] = of_one(node.op, values_[node.left]);
            break;
        case ConditionKind::binary:
            values_[i] = of_two(node.op, values_[node.left], values_[node.right]);
            break;
        }
    }
    return truth_of(values_.back()).value_or(false);
}

} // namespace plumb
