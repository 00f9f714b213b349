/*
 * A condition over the fields of a trace's events, evaluated event by event. Types are looked at once, when the condition
 * meets the trace: what can never be compared is an error that points at its place, and so is a field that no event has.
 *
 * An event that lacks a field answers nothing about it: a comparison with it is neither true nor false, and an event is
 * wanted only if the whole is true. So is what has no value: a division by zero, a label that an enumeration lacks.
 *
 * A string of a system call that was told late is what was told, also where it is the entry that is asked.
 *
 * `comm`, `pid`, `tid`, `cpu` and `event` are who wrote the event, where, and its name; a field of the event that is called so
 * goes before.
 */
#ifndef PLUMB_TRACE_SHOW_CONDITION_H
#define PLUMB_TRACE_SHOW_CONDITION_H

#include "base/condition_parser.h"
#include "base/condition_types.h"
#include "trace/show/condition_values.h"
#include "trace/show/late_texts.h"
#include "trace/trace_reader.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumb {

class Condition {
public:
    /* `reader` must live as long. Without `with_statedump` it is not asked of events of a statedump, and their fields are none. */
    static Result<std::unique_ptr<Condition>> make(ConditionTree tree, TraceReader& reader,
                                                   bool with_statedump);
    ~Condition();

    /* Whether it asks for a string of system calls that may be told late. Then take_late_texts(), or such a string is what the
     * entry has in its place. */
    bool asks_for_late_texts() const;
    /* Another reader of the same trace, which goes ahead. */
    void take_late_texts(TraceReader ahead) { late_texts_.emplace(std::move(ahead)); }

    /* Of the reader's current event. */
    bool holds(const Event& event);

private:
    struct Bound;
    Condition(ConditionTree tree, TraceReader& reader);
    Status bind(bool with_statedump);
    void take_values(const Event& event);
    void take_what_came_late(const Event& event);
    ConditionValue own_value(const std::string& name, const Event& event);

    ConditionTree tree_;
    TraceReader& reader_;
    std::vector<FieldPath> fields_;
    std::vector<uint32_t> field_of_node_; /* by node */
    std::unique_ptr<Bound> bound_;
    std::vector<ConditionValue> field_values_, values_; /* by field, by node: of the event in hand */
    std::string thread_name_;
    std::optional<LateTextFinder> late_texts_;
};

} // namespace plumb

#endif
