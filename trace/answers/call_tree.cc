#include "trace/answers/call_tree.h"

#include "base/output_buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace plumb {
namespace {

const Step* integer_or_float(const Plan& plan, std::string_view name) {
    const auto found = std::find_if(plan.steps.begin(), plan.steps.end(), [&](const Step& step) {
        return (step.kind == StepKind::integer || step.kind == StepKind::floating) && step.name == name;
    });
    return found == plan.steps.end() ? nullptr : &*found;
}

struct NumberFinder : SkipVisitor {
    explicit NumberFinder(const Step* step) : wanted(step) {}
    void integer(const Step& step, uint64_t value) {
        if (&step != wanted) return;
        const bool is_negative = step.is_signed && static_cast<int64_t>(value) < 0;
        number.whole = is_negative ? 0 : value;
    }
    void floating(const Step& step, double value) {
        if (&step == wanted && value > 0) number.real = value;
    }
    const Step* wanted;
    CallWeight number; /* 0 if there is none, or a negative one */
};

/* Below 2^64, of which a sum of both kinds is rounded. */
bool fits(const CallWeight& sum, const CallWeight& more) {
    constexpr double limit = 0x1p64;
    return more.whole <= std::numeric_limits<uint64_t>::max() - sum.whole &&
           ((sum.real == 0 && more.real == 0) || sum.number() + more.number() < limit);
}

/* What runs between a tracepoint and its record: an event's own function in the program. */
bool is_of_tracepoint(std::string_view function) {
    return function.starts_with("plumb_trace_") || function == "plumb_emit" ||
           function.starts_with("plumb_emit.");
}

/* The same of events of Java code: what plumb.jar has made of an event's interface, and what the JVM has made of that. */
bool is_of_java_event(std::string_view function) {
    return function.starts_with("plumb.internal.") || function.starts_with("plumb.logging.") ||
           function.starts_with("Java_plumb_internal_") ||
           function.starts_with("java.lang.invoke.LambdaForm$") ||
           function.find("Emitter/0x") != std::string_view::npos;
}

std::size_t frames_of_tracepoint(const std::vector<std::string>& frames) {
    std::size_t count = 0;
    while (count < frames.size() && is_of_tracepoint(function_of_frame(frames[count])))
        count++;
    if (count < frames.size() && function_of_frame(frames[count]).find("plumb") == std::string_view::npos)
        return count;
    while (count < frames.size() && is_of_java_event(function_of_frame(frames[count])))
        count++;
    return count;
}

/* Of a hidden class of Java without its number, which is another one in each process: "Shop$$Lambda$14/0x00007f0012345678.run". */
std::string without_number(std::string_view function) {
    const std::size_t number = function.find("/0x");
    const std::size_t behind = function.find('.', number);
    if (number == std::string_view::npos || behind == std::string_view::npos) return std::string(function);
    return std::string(function.substr(0, number)).append(function.substr(behind));
}

/* Behind it other tools expect a number, and between functions a semicolon; and text in UTF-8, which a name need not be. */
std::string folded_name(std::string_view name) {
    std::string text(name);
    for (char& c : text)
        if (c == ';' || static_cast<unsigned char>(c) < ' ') c = c == ';' ? ':' : '?';
    return without_controls(text);
}

} // namespace

CallWeight& CallWeight::operator+=(const CallWeight& other) {
    whole += other.whole;
    real += other.real;
    return *this;
}

/* Fifteen digits are as many as a sum of a few has right. */
std::string CallWeight::text() const {
    if (real == 0) return fmt::to_string(whole);
    constexpr int digits = 15, places_max = 330;
    const int before = static_cast<int>(std::floor(std::log10(number()))) + 1;
    std::string text = fmt::format("{:.{}f}", number(), std::clamp(digits - before, 0, places_max));
    if (text.find('.') == std::string::npos) return text;
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
}

CallNode& CallNode::callee(const std::string& function) {
    std::unique_ptr<CallNode>& place = callees[function];
    if (!place) {
        place = std::make_unique<CallNode>();
        place->name = function;
    }
    return *place;
}

CallTree::CallTree(TraceReader& reader, CallTreeOptions options)
    : reader_(reader), options_(std::move(options)), frames_(reader) {
    for (const EventInfo* const info : reader.event_infos()) {
        Places places;
        places.stack = StackStep(*info);
        places.end = integer_or_float(info->context, "callstack_user_end");
        if (!options_.weight.empty()) places.weight = integer_or_float(info->fields, options_.weight);
        places_.push_back(places);
    }
}

std::vector<std::string> CallTree::who(const Event& event) {
    std::vector<std::string> names;
    const ThreadRecord* const thread = reader_.thread_of(event);
    const uint32_t process_id = reader_.process_id_of(event);
    if (options_.by_process) {
        const ProcessRecord* const process = reader_.names_of(event).find_process(process_id, event.time_ns);
        names.push_back(fmt::format("{} {}", process == nullptr ? "?" : process->name, process_id));
    }
    if (options_.by_thread)
        names.push_back(fmt::format("{} {}", thread == nullptr ? "?" : thread->name, event.thread_id));
    return names;
}

void CallTree::add(const Event& event) {
    const Places& places = places_[event.info->index];
    if (places.stack.empty()) {
        ++without_stack_;
        return;
    }
    CallWeight weight{1, 0};
    if (!options_.weight.empty()) {
        NumberFinder finder(places.weight);
        if (places.weight != nullptr) (void)visit_fields(event, finder);
        weight = finder.number;
    }
    if (weight.empty()) {
        ++without_weight_;
        return;
    }
    /* No node has more than the root, so none of them overflows either. */
    if (!fits(root_.weight, weight)) {
        ++beyond_sum_;
        return;
    }
    ++stacks_;
    NumberFinder end(places.end);
    if (places.end != nullptr) (void)visit_event_context(event, end);
    const bool is_whole = end.number.empty();
    if (!is_whole) ++unended_;
    CallNode* node = &root_;
    const auto enter = [&](const std::string& name) {
        node = &node->callee(name);
        node->weight += weight;
    };
    root_.weight += weight;
    for (const std::string& name : who(event))
        enter(name);
    if (!is_whole) enter("[not known]");
    const std::vector<std::string>& frames = frames_.of(event, places.stack);
    const std::size_t innermost = frames_of_tracepoint(frames);
    for (std::size_t i = frames.size(); i > innermost; i--)
        enter(without_number(function_of_frame(frames[i - 1])));
    node->own += weight;
}

std::string CallTree::folded() const {
    std::string text;
    const std::function<void(const CallNode&, const std::string&)> put = [&](const CallNode& node,
                                                                             const std::string& path) {
        if (!path.empty() && !node.own.empty()) text += fmt::format("{} {}\n", path, node.own.text());
        for (const auto& [name, callee] : node.callees)
            put(*callee, path.empty() ? folded_name(name) : path + ";" + folded_name(name));
    };
    put(root_, "");
    return text;
}

} // namespace plumb
