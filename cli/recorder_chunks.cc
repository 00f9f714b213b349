/*
 * What a recorder does where its trace is in chunks: when one ends and the next begins, what each came to, and which are kept.
 *
 * All domains are cut at one moment. The folder of the next chunk, and what is written there, is made for all of them before any
 * goes there: where that fails, all go on where they are.
 */
#include "cli/recorder.h"

#include "consumerd/clock/clock_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

namespace plumb {
namespace {

/* How often it is looked how large a chunk is. */
constexpr std::uint64_t size_look_ns = 25'000'000;
/* Behind a rotation that failed, as on a full disk. */
constexpr std::uint64_t retry_ns = 1'000'000'000;
constexpr std::uint64_t chunk_summary_bytes = 64 * 1024;

std::string absolute(const std::string& path) {
    char resolved[PATH_MAX];
    return realpath(path.c_str(), resolved) != nullptr ? resolved : path;
}

} // namespace

/* Where what is recorded now goes. */
std::string Recorder::trace_path() const {
    return chunks_ ? chunks_->path() : directory_->path();
}

Status Recorder::open_chunks() {
    if (!options_.has_chunks()) return ok();
    chunks_.emplace(*directory_, ChunkLimits{chunk_options_.keep_count, chunk_options_.keep_bytes});
    const auto first = chunks_->make();
    if (!first) return first.error();
    chunks_->enter();
    chunk_summary_space_ = reserve_space(*first, chunk_summary_bytes);
    auto socket = RecorderSocket::listen(chunk_recorders);
    if (!socket) return socket.error();
    socket_ = std::move(*socket);
    return ok();
}

Status Recorder::keep_for_chunks(Drain& drain) {
    return chunks_ ? drain.keep_for_chunks() : ok();
}

std::uint64_t Recorder::next_chunk_look_ns() const {
    if (!chunks_) return UINT64_MAX;
    const std::uint64_t now_ns = elapsed_ns();
    const bool by_size = chunk_options_.rotate_bytes != 0 || chunks_->limits_bytes();
    const std::uint64_t by_size_ns = by_size ? size_look_ns : UINT64_MAX;
    if (chunk_options_.period_ns == 0) return by_size_ns;
    return std::min(by_size_ns, next_rotation_ns_ - std::min(next_rotation_ns_, now_ns));
}

/* Times that were missed, as while the recorder was stopped, are passed over. A chunk that nothing was recorded in has reached no
 * size. */
void Recorder::look_at_chunks() {
    if (!chunks_) return;
    const std::uint64_t now_ns = elapsed_ns(), period_ns = chunk_options_.period_ns;
    bool is_due = period_ns != 0 && now_ns >= next_rotation_ns_;
    if (is_due) next_rotation_ns_ += ((now_ns - next_rotation_ns_) / period_ns + 1) * period_ns;
    const DrainProgress so_far = progress();
    const bool may_try = not_rotated_ns_ == 0 || now_ns >= not_rotated_ns_ + retry_ns;
    is_due |= chunk_options_.rotate_bytes != 0 && so_far.chunk_bytes >= chunk_options_.rotate_bytes &&
              so_far.chunk_events != 0 && may_try;
    if (is_due) {
        const bool had_failed = not_rotated_ns_ != 0;
        if (const auto rotated = rotate(); !rotated && !had_failed) status_.say(rotated.error().message());
    }
    remove_old_chunks();
}

void Recorder::remove_old_chunks() {
    std::vector<Error> problems;
    chunks_->remove_old(drain_ && !is_closing_ ? progress().chunk_bytes : 0, problems);
    for (const Error& problem : problems) {
        status_.say(problem.message());
        summary_.problems.push_back(problem.message());
    }
}

Status Recorder::make_next_sinks(const std::string& directory) {
    auto sink = drain_->make_next_sink(directory);
    if (!sink) return sink.error();
    next_sink_ = std::move(*sink);
    if (kernel_drain_) {
        auto kernel_sink = kernel_drain_->make_next_sink(directory);
        if (!kernel_sink) return kernel_sink.error();
        next_kernel_sink_ = std::move(*kernel_sink);
    }
    return other_users_ ? other_users_->make_next_sinks(directory) : ok();
}

std::uint64_t Recorder::cut() const {
    return cut_soon(*drain_, [this](std::uint64_t at) {
        drain_->announce_cut(at);
        if (kernel_drain_) kernel_drain_->announce_cut(at);
        if (other_users_) other_users_->announce_cut(at);
    });
}

/* Returns where the chunk is that has ended. */
Result<std::string> Recorder::rotate() {
    not_rotated_ns_ = elapsed_ns();
    if (Status there = directory_->check(); !there) return there.error().with("No chunk was ended");
    const auto directory = chunks_->make();
    if (!directory) return directory.error().with("The chunk goes on, since the next one can not begin");
    if (Status made = make_next_sinks(*directory); !made) {
        chunks_->drop();
        return made.error().with("The chunk goes on, since the next one can not begin");
    }
    not_rotated_ns_ = 0;
    const std::uint64_t at = cut();
    std::vector<Error> problems;
    Drain::Chunk ended = drain_->rotate(std::move(next_sink_), *directory, at);
    if (!ended.written) problems.push_back(ended.written.error());
    if (kernel_drain_) {
        const Drain::Chunk of_kernel =
            kernel_drain_->rotate(std::move(next_kernel_sink_), *directory, at, &ended);
        if (!of_kernel.written) problems.push_back(of_kernel.written.error());
        add_totals(ended.totals, of_kernel.totals);
    }
    if (other_users_) {
        other_users_->rotate(*directory, at, problems);
        add_totals(ended.totals, other_users_->take_chunk_totals());
    }
    const std::string path = chunks_->final_path();
    finish_chunk(std::move(ended.totals), std::move(problems), at);
    chunks_->enter();
    chunk_began_ = at;
    chunk_summary_space_ = reserve_space(*directory, chunk_summary_bytes);
    return absolute(path);
}

/* The summary comes before the name that says that all is there. Without one, or without that name, it is not finished, and is not
 * counted among those. */
void Recorder::finish_chunk(DrainTotals totals, std::vector<Error> problems, std::uint64_t ended) {
    const plumb_clock_page page = drain_->clock_page();
    RecordSummary summary;
    summary.directory = chunks_->path();
    summary.chunk = {chunks_->number(),
                     absolute(directory_->path()) + chunks_->final_path().substr(directory_->path().size()),
                     clock_to_wall_ns(page, chunk_began_), clock_to_wall_ns(page, ended)};
    summary.name = summary_.name;
    summary.command = summary_.command;
    summary.channel = summary_.channel;
    summary.duration_ns = static_cast<std::uint64_t>(summary.chunk->end_ns - summary.chunk->begin_ns);
    for (const Error& problem : problems)
        summary.problems.push_back(problem.message());
    if (!lost_entrance_.empty())
        summary.problems.push_back("Programs that started since were not recorded: " + lost_entrance_);
    if (Status whole = check_channel(); !whole) summary.problems.push_back(whole.error().message());
    const std::uint64_t events = totals.progress.events, bytes = totals.progress.bytes;
    summary.totals = std::move(totals);
    chunk_summary_space_.reset();
    Status finished = store_summary(summary);
    if (finished) finished = chunks_->finish(events, bytes);
    if (finished || is_closing_) {
        if (!finished) not_written(finished.error());
        return;
    }
    status_.say(finished.error().message());
    not_written(finished.error());
}

/* What went wrong in the chunks before it is in the summary of all. */
void Recorder::finish_last_chunk() {
    DrainTotals totals = drain_->chunk_totals();
    std::vector<Error> problems;
    if (Status written = drain_->chunk_written(); !written) problems.push_back(written.error());
    if (kernel_drain_) {
        add_totals(totals, kernel_drain_->chunk_totals());
        if (Status written = kernel_drain_->chunk_written(); !written) problems.push_back(written.error());
    }
    if (other_users_) {
        add_totals(totals, other_users_->take_chunk_totals());
        for (Error& problem : other_users_->take_chunk_problems())
            problems.push_back(std::move(problem));
    }
    if (!directory_->check()) return; /* told by who stores the summary */
    finish_chunk(std::move(totals), std::move(problems), drain_->now());
    remove_old_chunks();
    summary_.chunks = chunks_->finished();
    summary_.removed_chunks = chunks_->removed();
}

} // namespace plumb
