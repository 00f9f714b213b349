/*
 * Where a program was when its events happened: their call stacks, joined from the outermost function to the innermost, each
 * with the number of events below it, or the sum of one of their fields.
 *
 * An event's stack comes from its context (trace/stack_frames.h). The functions by which tracepoints themselves write their
 * records are no part of it.
 */
#ifndef PLUMB_TRACE_ANSWERS_CALL_TREE_H
#define PLUMB_TRACE_ANSWERS_CALL_TREE_H

#include "trace/stack_frames.h"
#include "trace/trace_reader.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace plumb {

/* Integers are summed exactly, and fractions beside them. */
struct CallWeight {
    uint64_t whole = 0;
    double real = 0;

    CallWeight& operator+=(const CallWeight& other);
    bool empty() const { return whole == 0 && real == 0; }
    double number() const { return static_cast<double>(whole) + real; }
    /* Without an exponent, which not all that read folded stacks know. */
    std::string text() const;
};

struct CallNode {
    std::string name;
    CallWeight weight{}; /* of it and all that it called */
    CallWeight own{};    /* of it alone */
    std::map<std::string, std::unique_ptr<CallNode>> callees{};

    CallNode& callee(const std::string& function);
};

struct CallTreeOptions {
    bool by_process = false; /* the outermost is the process, or the thread in it */
    bool by_thread = false;
    std::string weight{}; /* a field of the events; empty: each counts 1 */
};

class CallTree {
public:
    CallTree(TraceReader& reader, CallTreeOptions options);

    void add(const Event& event);
    const CallNode& root() const { return root_; }

    uint64_t stack_count() const { return stacks_; }
    uint64_t without_stack() const { return without_stack_; }
    /* Had a stack, and no such field, or one that is no number above 0. */
    uint64_t without_weight() const { return without_weight_; }
    /* Left out, since with their weights the sum would be 2^64 or more. */
    uint64_t beyond_sum() const { return beyond_sum_; }
    /* Do not reach the outermost function. */
    uint64_t unended() const { return unended_; }

    /* "main;run;work 17\n", a line for each place: what other tools make flame graphs of. */
    std::string folded() const;

private:
    struct Places {
        StackStep stack;
        const Step* end = nullptr;
        const Step* weight = nullptr;
    };
    std::vector<std::string> who(const Event& event);

    TraceReader& reader_;
    CallTreeOptions options_;
    StackFrames frames_;
    std::vector<Places> places_; /* by EventInfo::index */
    CallNode root_{"all"};
    uint64_t stacks_ = 0, without_stack_ = 0, without_weight_ = 0, beyond_sum_ = 0, unended_ = 0;
};

} // namespace plumb

#endif
