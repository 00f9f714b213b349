/*
 * Call stacks of events, as LTTng and Plumb record them in an event's context: addresses, the innermost first, and the functions
 * that they are in.
 */
#ifndef PLUMB_TRACE_STACK_FRAMES_H
#define PLUMB_TRACE_STACK_FRAMES_H

#include "trace/symbols.h"
#include "trace/trace_reader.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumb {

/* Where an event has its stack. */
class StackStep {
public:
    StackStep() = default;
    explicit StackStep(const EventInfo& info);
    /* It has none. */
    bool empty() const { return step_ == nullptr; }
    static bool is_stack(const Step& step) {
        return step.kind == StepKind::array && (step.name == "callstack_user" || step.name == "callstack");
    }
    /* As far as they are whole. */
    std::vector<uint64_t> addresses_of(const Event& event) const;

private:
    const Step* step_ = nullptr;
};

/* Names for the addresses: each is looked up once while it is the same. Not thread-safe, but several in different threads are. */
class StackFrames {
public:
    explicit StackFrames(const TraceReader& reader) : reader_(reader) {}
    /* "main+0x12", "shop.Cart.lock:214", as symbols.h has names: of each address, which is behind a call. Until the next call. */
    const std::vector<std::string>& of(const Event& event, const StackStep& step);

private:
    struct Place {
        const TraceNames* names;
        uint32_t process_id;
        uint64_t address;
        auto operator<=>(const Place&) const = default;
    };

    const TraceReader& reader_;
    ThreadCache thread_cache_;
    std::map<Place, NameSpan> known_;
    std::vector<std::string> frames_;
};

/* Why files gave no names to stacks so far, for a person; of all who asked. */
std::vector<std::string> stack_name_problems();

/* The function alone: without "+0x12", or ":214". */
std::string_view function_of_frame(std::string_view frame);

} // namespace plumb

#endif
