/* What others do to a recording while it lasts: they take away the files by which programs find it, shorten a channel, stop or
 * empty the kernel's tracing. It is said, and the rest goes on. */
#include "cli/recorder.h"
#include "consumerd/drain/kernel_source.h"

#include <algorithm>

namespace plumb {

/* Programs that start later find the session through files that others of this user may damage. Said once. */
void Recorder::look_at_entrance() {
    if (other_users_)
        for (const Error& lost : other_users_->check_entrances())
            entrance_is_lost(lost);
    if (!lost_entrance_.empty()) return;
    const Status open = session_->check_entrance();
    if (open) return;
    lost_entrance_ = open.error().message();
    entrance_is_lost(open.error());
}

void Recorder::entrance_is_lost(const Error& error) {
    summary_.problems.push_back("Programs that started since were not recorded: " + error.message());
    status_.say("Programs that start from now on are not recorded: " + error.message());
}

/* Another user can end the recording of that user's programs, and of nobody else's. */
void Recorder::end_truncated_users() {
    if (!other_users_) return;
    for (const Error& why :
         other_users_->end_truncated([this](const Result<Report>& ended) { take_end(ended); }))
        status_.say(why.message());
}

/* Nothing more comes from a channel that another program has shortened. */
Status Recorder::check_channel() {
    const Channel& channel = session_->channel();
    if (!channel.was_truncated()) return ok();
    return Error("Another program has shortened a channel ({}) while it was recorded: events of it are lost.",
                 channel.path());
}

void Recorder::look_at_kernel() {
    if (!kernel_session_) return;
    const Status running = kernel_session_->check_running();
    if (!running) is_disturbed(running.error());
    if (elapsed_ns() < next_counts_look_ns_) return;
    constexpr std::uint64_t pause_ns = 1'000'000'000; /* there may be hundreds of processors */
    next_counts_look_ns_ = elapsed_ns() + pause_ns;
    look_whether_emptied();
}

void Recorder::look_whether_emptied() {
    if (!kernel_session_) return;
    const Status whole = kernel_session_->check_emptied();
    if (!whole) is_disturbed(whole.error());
}

void Recorder::is_disturbed(const Error& by_others) {
    status_.say(by_others.message());
    summary_.problems.push_back(by_others.message());
}

/* The kernel counts what was read: others have read as well, or have emptied the buffers with their counts. */
void Recorder::tell_of_other_readers() {
    const auto has = [](const std::vector<NamedCount>& counts, const char* name) {
        return std::any_of(counts.begin(), counts.end(),
                           [=](const NamedCount& each) { return each.name == name; });
    };
    if (has(summary_.totals.notes, kernel_counts_gone) && kernel_session_ && !kernel_session_->was_emptied())
        summary_.problems.push_back(emptied_by_others().message());
    if (has(summary_.totals.missed, kernel_events_taken))
        summary_.problems.push_back(
            "Somebody else has read from the kernel's buffers of Plumb's instance while it was recorded.");
}

} // namespace plumb
