#include "trace/stack_frames.h"

#include <algorithm>
#include <mutex>

namespace plumb {
namespace {

struct AddressCollector : SkipVisitor {
    explicit AddressCollector(const Step* wanted) : stack(wanted) {}
    void begin(const Step& step, uint64_t) {
        if (&step == stack) is_inside = true;
    }
    void end(const Step& step) {
        if (&step == stack) is_inside = false;
    }
    void integer(const Step&, uint64_t value) {
        if (is_inside) addresses.push_back(value);
    }
    const Step* stack;
    bool is_inside = false;
    std::vector<uint64_t> addresses;
};

/* The files' tables are the same for all who ask, and large. */
struct SharedSymbols {
    std::mutex mutex;
    Symbols symbols;
};
SharedSymbols& shared() {
    static SharedSymbols all;
    return all;
}

NameSpan look_up(const TraceNames& names, uint32_t process_id, uint64_t address, int64_t time_ns) {
    const std::lock_guard lock(shared().mutex);
    return shared().symbols.name_behind(names, process_id, address, time_ns);
}

} // namespace

StackStep::StackStep(const EventInfo& info) {
    const std::vector<Step>& steps = info.context.steps;
    const auto found = std::find_if(steps.begin(), steps.end(), [&](const Step& step) {
        const auto element = static_cast<std::size_t>(&step - steps.data()) + 1;
        return is_stack(step) && element < steps.size() && steps[element].kind == StepKind::integer;
    });
    if (found != steps.end()) step_ = &*found;
}

std::vector<uint64_t> StackStep::addresses_of(const Event& event) const {
    AddressCollector collector(step_);
    if (step_ != nullptr) (void)visit_event_context(event, collector);
    return std::move(collector.addresses);
}

const std::vector<std::string>& StackFrames::of(const Event& event, const StackStep& step) {
    const TraceNames& names = reader_.names_of(event);
    const uint32_t process_id = reader_.process_id_of(event, thread_cache_);
    frames_.clear();
    for (const uint64_t address : step.addresses_of(event)) {
        const auto [at, is_new] = known_.try_emplace({&names, process_id, address});
        if (is_new || !at->second.holds_at(event.time_ns))
            at->second = look_up(names, process_id, address, event.time_ns);
        frames_.push_back(at->second.name);
    }
    return frames_;
}

std::vector<std::string> stack_name_problems() {
    const std::lock_guard lock(shared().mutex);
    return shared().symbols.problems();
}

std::string_view function_of_frame(std::string_view frame) {
    const std::size_t behind = frame.find_last_not_of("0123456789");
    if (behind != std::string_view::npos && behind + 1 < frame.size() && frame[behind] == ':')
        return frame.substr(0, behind);
    return frame.substr(0, frame.rfind("+0x"));
}

} // namespace plumb
