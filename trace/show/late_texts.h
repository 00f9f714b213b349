/*
 * Strings of a system call that Plumb could read only where it returned, of lists also those of which it could read a part
 * before: events of their own, directly before the call's exit, each with the names of the call and of the argument, and the text.
 */
#ifndef PLUMB_TRACE_SHOW_LATE_TEXTS_H
#define PLUMB_TRACE_SHOW_LATE_TEXTS_H

#include "trace/trace_reader.h"

#include <compare>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace plumb {

inline constexpr std::string_view syscall_late_text = "syscall_late_text";
inline constexpr std::string_view syscall_entry_start = "syscall_entry_";
inline constexpr std::string_view syscall_exit_start = "syscall_exit_";

/* Of one call. */
class LateTexts : public SkipVisitor {
public:
    /* The texts stay in the event's bytes. False: it is one of another call. */
    bool add(const Event& event, std::string_view call) {
        parts_.clear();
        (void)visit_fields(event, *this);
        if (parts_.size() != 3 || parts_[0] != call) return false;
        texts_.insert_or_assign(parts_[1], parts_[2]);
        return true;
    }
    void text(const Step&, std::string_view value) { parts_.push_back(value); }
    std::string_view instead_of(std::string_view argument, std::string_view otherwise) const {
        const auto found = texts_.find(argument);
        return found == texts_.end() ? otherwise : found->second;
    }
    bool empty() const { return texts_.empty(); }

private:
    std::vector<std::string_view> parts_;
    std::map<std::string_view, std::string_view> texts_;
};

/*
 * What is told of a call later than its entry, for who has to know it at the entry. A reader of its own goes ahead through the same
 * trace, and no further than until the thread that is asked about has gone on; what lies behind the entry asked for is forgotten.
 */
class LateTextFinder {
public:
    /* `ahead` has not been read from. */
    explicit LateTextFinder(TraceReader ahead);

    /* Entries are asked for in the order of time; nullptr: nothing was told late. Until the next call. */
    const LateTexts* of(const Event& entry);

private:
    using Thread = std::pair<uint32_t, uint32_t>; /* recording, thread */
    struct Call {
        int64_t entry_ns;
        Thread thread;
        auto operator<=>(const Call&) const = default;
    };
    struct OpenCall {
        int64_t entry_ns;
        std::string_view name;
        LateTexts texts;
    };
    enum class Kind : uint8_t { other, entry, exit, late_text };

    void read_until_over(const Call& call);
    void take(const Event& event);
    bool is_open(const Call& call) const;
    void close(const Thread& thread);

    TraceReader ahead_;
    std::vector<Kind> kinds_; /* by EventInfo::index */
    bool is_started_ = false;
    bool is_at_end_ = false;
    int64_t ahead_ns_ = 0;
    std::map<Thread, OpenCall> open_;
    std::map<Call, LateTexts> told_; /* of calls that have returned */
};

} // namespace plumb

#endif
