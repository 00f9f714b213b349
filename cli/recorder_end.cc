/* How a recording ends: sessions, then what is left in the rings, then the summary; as far as there is memory for it. */
#include "cli/recorder.h"

#include "base/output_buffer.h"
#include "cli/losses.h"
#include "cli/output.h"
#include "consumerd/event/unknown_providers.h"

#include <fmt/format.h>

#include <new>

namespace plumb {

/* The command's status is passed on in any case. */
void Recorder::end_as_memory_allows() {
    closing_room_.reset();
    try {
        if (turns_without_memory_ != 0)
            summary_.problems.push_back(fmt::format(
                "Memory ran out {} while the recorder looked after its programs (`ulimit -v`, `-d`?).",
                turns_without_memory_ == 1 ? "once" : with_commas(turns_without_memory_) + " times"));
        close();
        say_what_was_recorded();
    } catch (const std::bad_alloc&) {
        has_write_failures_ = true;
        put_error(
            "plumb: memory ran out while the recording was ended (`ulimit -v`, `-d`?): the trace may not be "
            "complete, and may have no summary.\n");
        if (command_ && command_->has_ended() && !summary_.exit_status)
            summary_.exit_status = command_->exit_status();
    }
}

void Recorder::say_what_was_recorded() {
    if (!options_.quiet)
        put_result(summary_text(summary_));
    else if (summary_.why_empty.could_never_match)
        for (const std::string& line : summary_.why_empty.lines)
            status_.say(line);
    if (options_.json) put_out(summary_json(summary_));
}

/* Ends the session, reads the rest, closes the trace. Nothing is written to the channel any more afterwards.
 */
void Recorder::close() {
    is_closing_ = true;
    summary_.duration_ns = started_ns_ != 0 ? elapsed_ns() : 0;
    if (enabled_generation_ != 0) find_reached_late();
    tell_of_unmatched_methods();
    look_at_entrance();
    look_for_refused();
    const std::uint32_t begun = programs_begun();
    note_who_runs_on();
    take_end(session_->end());
    if (other_users_) other_users_->end([this](const Result<Report>& ended) { take_end(ended); });
    if (executable_watch_) executable_watch_->stop();
    std::vector<EventDescription> on = kinds_on();
    if (by_module_)
        if (Status stopped = by_module_->events.stop(); !stopped)
            summary_.problems.push_back(stopped.error().message());
    look_whether_emptied();
    if (kernel_session_)
        if (Status stopped = kernel_session_->stop(); !stopped)
            summary_.problems.push_back(stopped.error().message());
    if (drain_)
        close_drains();
    else
        take_last_snapshot();
    if (by_module_)
        if (Status unlinked =
                by_module_->directory.unlink_file(channel_file_name(by_module_->channel.cookie()));
            !unlinked)
            summary_.problems.push_back(unlinked.error().message());
    if (!is_left_)
        if (Status unlinked = session_->remove_channel(); !unlinked)
            summary_.problems.push_back(unlinked.error().message());
    status_.clear();
    executable_watch_.reset();
    if (kernel_session_ && is_left_)
        kernel_session_->leave();
    else if (kernel_session_)
        if (Status removed = kernel_session_->remove(); !removed)
            summary_.problems.push_back(removed.error().message());
    if (command_ && command_->has_ended()) {
        /* Ended by the time limit, as it was asked to: that is no failure. */
        const bool by_us = stop_asked_ns_ != 0 && command_->exit_status() == 128 + SIGTERM;
        summary_.exit_status = by_us ? 0 : command_->exit_status();
        tell_of_return_probes();
    }
    if (Status whole = check_channel(); !whole) {
        if (options_.quiet) status_.say(whole.error().message());
        not_written(whole.error());
    }
    tell_of_insisted();
    find_left_running();
    find_unseen_users();
    summary_.unknown_providers = unknown_providers_of(on);
    std::erase_if(on, is_of_unknown_provider);
    note_left_out(on);
    summary_.why_empty = find_why_empty(begun, on);
    summary_space_.reset();
    if (Status stored = store(); !stored) not_written(stored.error());
}

/* What was not even read, since there was no room for a folder, stays where it is, as with a recorder that is killed. */
void Recorder::take_last_snapshot() {
    const std::size_t taken_before = summary_.snapshots.size();
    const auto taken = take_snapshot();
    if (taken) return;
    is_left_ = summary_.snapshots.size() == taken_before;
    not_written(is_left_ ? taken.error().hint(
                               "What it would have held is still in shared memory: `plumb extract {} -o DIR` "
                               "makes a trace of it, where there is room.",
                               ::getpid())
                         : taken.error());
}

/* The summary: where the trace is by now, and not into what somebody has put in its place. */
Status Recorder::store() {
    if (Status there = directory_->check(); !there) return there.error().with("The trace has no summary");
    if (!options_.snapshot) summary_.directory = directory_->path();
    if (Status stored = store_summary(summary_); !stored || !line_) return stored;
    return send_summary(*line_, summary_);
}

/* The trace, or a part of it. */
void Recorder::not_written(const Error& error) {
    summary_.problems.push_back(error.message());
    has_write_failures_ = true;
}

void Recorder::close_drains() {
    if (line_) line_->end_when([this] { return is_asked_to_hurry(); });
    std::vector<Error> problems;
    if (Status finished = drain_->finish(); !finished) problems.push_back(finished.error());
    if (kernel_drain_) {
        const plumb_clock_page clock = drain_->clock_page();
        if (Status finished = kernel_drain_->finish(&clock); !finished) problems.push_back(finished.error());
    }
    summary_.totals = drain_->totals();
    if (other_users_) other_users_->finish(summary_.totals, problems);
    for (const Error& problem : problems)
        not_written(problem);
    if (chunks_) finish_last_chunk();
    if (kernel_drain_) kernel_drain_->add_to(summary_.totals);
    tell_of_other_readers();
    kernel_drain_.reset(); /* an instance that is read from can not be removed */
}

} // namespace plumb
