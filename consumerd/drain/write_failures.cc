#include "consumerd/drain/write_failures.h"

#include <algorithm>

namespace plumb {
namespace {

constexpr uint64_t longest_quiet_ns = 120'000'000'000;

} // namespace

void WriteFailures::failed(const Error& error, uint64_t events, uint64_t now_ns) {
    if (!first_) first_ = error;
    last_ = error;
    times_++;
    events_ += events;
    last_ns_ = now_ns;
    if (is_failing_) return;
    is_failing_ = true;
    if (log_)
        log_(error.message() +
             " Events are lost from the trace until this is mended; the traced programs are not "
             "affected.");
}

void WriteFailures::look_whether_over(uint64_t now_ns) {
    if (now_ns - last_ns_ < quiet_ns_) return;
    is_failing_ = false;
    quiet_ns_ = std::min(2 * quiet_ns_, longest_quiet_ns);
    if (log_)
        log_(fmt::format("It can be written again: the trace goes on. {} events were lost from it meanwhile.",
                         events_ - events_said_));
    events_said_ = events_;
}

Status WriteFailures::verdict(const std::string& trace) const {
    if (!first_) return ok();
    if (events_ == 0) return first_->with("The trace in {} is not complete", trace);
    return first_->with("The trace in {} is not complete, {} events are missing", trace, events_);
}

std::string WriteFailures::cause() const {
    if (!first_) return {};
    return first_->number() != 0 ? errno_text(first_->number()) : first_->message();
}

} // namespace plumb
