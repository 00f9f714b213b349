#include "trace/show/condition_names.h"

#include "base/condition_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace plumb {
namespace {

bool has_one_value(const Step& step) {
    return step.kind != StepKind::structure && step.kind != StepKind::array && step.kind != StepKind::variant;
}

struct NamedStep {
    std::string path;
    const Step& step;
    const Step* element = nullptr; /* of an array */
    std::string array;             /* that it is in the elements of; a condition does not look into them */
};

/* All that has a name, what it is in first. */
class NamedSteps {
public:
    explicit NamedSteps(std::function<void(const NamedStep&)> see) : see_(std::move(see)) {}

    void look_at(const Plan& plan) { look_at(plan, 0, static_cast<uint32_t>(plan.steps.size()), "", ""); }

private:
    static constexpr std::size_t bytes_max = 100;

    void look_at(const Plan& plan, uint32_t first, uint32_t last, const std::string& inside,
                 const std::string& array) {
        for (uint32_t at = first; at < last; at = std::max(plan.steps[at].next, at + 1)) {
            const Step& step = plan.steps[at];
            if (step.is_length || step.name.size() > bytes_max) continue;
            const std::string path = step.name.empty() ? inside
                                     : inside.empty()  ? std::string(step.name)
                                                       : fmt::format("{}.{}", inside, step.name);
            const bool is_array = step.kind == StepKind::array;
            if (!step.name.empty())
                see_({path, step, is_array && at + 1 < last ? &plan.steps[at + 1] : nullptr, array});
            if (!has_one_value(step))
                look_at(plan, at + 1, step.next, path, is_array && array.empty() ? path : array);
        }
    }

    std::function<void(const NamedStep&)> see_;
};

void look_at_all(const TraceReader& reader, const std::function<void(const NamedStep&)>& see) {
    NamedSteps steps(see);
    for (const EventInfo* info : reader.event_infos()) {
        if (info->is_statedump) continue;
        steps.look_at(info->fields);
        steps.look_at(info->context);
    }
    for (const auto& layout : reader.layouts())
        for (const auto& stream : layout->streams())
            if (!stream->is_plumb_record()) steps.look_at(stream->event_context);
}

/* As it is written in a condition; empty if it can not be. */
std::string name_of_value(const NamedStep& named) {
    if (!named.array.empty()) return {};
    if (has_one_value(named.step)) return named.path;
    return named.element != nullptr && has_one_value(*named.element) ? named.path + "[0]" : std::string();
}

std::string why_it_has_no_value(const TraceReader& reader, const NamedStep& named, bool by_element) {
    const std::string& path = named.path;
    if (named.step.kind == StepKind::array) {
        if (named.element != nullptr && has_one_value(*named.element))
            return fmt::format("{} has elements: name one, {}[0]", path, path);
        return fmt::format("{} has elements that have parts themselves, which no condition can name", path);
    }
    if (by_element) return fmt::format("{} has no elements", path);
    std::string part;
    look_at_all(reader, [&](const NamedStep& other) {
        if (part.empty() && other.path.starts_with(path + ".")) part = name_of_value(other);
    });
    return part.empty() ? fmt::format("{} has no parts that are numbers or texts", path)
                        : fmt::format("{} has parts: name one, {}", path, part);
}

} // namespace

std::string why_no_value(const TraceReader& reader, const FieldPath& wanted) {
    FieldPath whole = wanted;
    whole.element.reset();
    const std::string path = whole.text();
    const std::string& name = wanted.parts.back();
    std::string itself, array;
    NearestName nearest(name);
    look_at_all(reader, [&](const NamedStep& named) {
        if (named.path == path) {
            if (itself.empty()) itself = why_it_has_no_value(reader, named, wanted.element.has_value());
            return;
        }
        if (array.empty() && named.step.name == name) array = named.array;
        const std::string value = name_of_value(named);
        if (!value.empty()) nearest.add(std::string(named.step.name), value);
    });
    if (!itself.empty()) return itself;
    if (!nearest.is_equal() && !array.empty())
        return fmt::format("{} is in the elements of {}, which no condition can name", name, array);
    return fmt::format("no event of the trace has a field {}{}", wanted.text(),
                       nearest.shown().empty() ? "" : fmt::format(", but some have {}", nearest.shown()));
}

} // namespace plumb
