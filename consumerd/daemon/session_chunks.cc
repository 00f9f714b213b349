/*
 * What a session writes: chunks that end when they are asked to, by time or by size, and snapshots of a flight recorder.
 */
#include "consumerd/daemon/session_recording.h"

#include "base/number_text.h"
#include "consumerd/drain/snapshot.h"
#include "consumerd/drain/totals_json.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace plumb {
namespace {

/* What is kept of what went wrong. */
constexpr std::size_t problems_max = 8;
/* Behind a rotation that failed, as on a full disk. */
constexpr std::uint64_t retry_ns = 1'000'000'000;

void keep_last(std::vector<std::string>& problems) {
    if (problems.size() > problems_max)
        problems.erase(problems.begin(), problems.end() - static_cast<std::ptrdiff_t>(problems_max));
}

std::string name_of_left(const LeftChunk& chunk) {
    return chunk.directory.substr(chunk.directory.rfind('/') + 1);
}

/* What several journals say of one: it is as long, and as damaged, as its parts together. */
void add_left_chunk(std::vector<LeftChunk>& chunks, const LeftChunk& part) {
    const auto known = std::find_if(chunks.begin(), chunks.end(),
                                    [&](const LeftChunk& each) { return each.directory == part.directory; });
    if (known == chunks.end()) {
        chunks.push_back(part);
        return;
    }
    add_totals(known->totals, part.totals);
    if (known->is_empty) known->clock = part.clock;
    known->began = std::min(known->began, part.began);
    known->ended = std::max(known->ended, part.ended);
    known->is_empty = known->is_empty && part.is_empty;
    known->problems.insert(known->problems.end(), part.problems.begin(), part.problems.end());
}

bool is_for_want_of_room(int number) {
    return number == ENOSPC || number == EDQUOT;
}

/* Of a chunk that a worker left which could not write all of it. */
std::string unwritten_text(const LeftChunk& chunk) {
    std::uint64_t events = 0;
    for (const NamedCount& each : chunk.totals.events_lost)
        if (each.name == "not_written") events = each.count;
    return fmt::format("{} of {} are missing: {}.", counted(events, "event"), name_of_left(chunk),
                       chunk.totals.write_error);
}

/* As `plumb record` has it: what rings had no room for is counted, and does not change it. */
bool is_whole(const DrainTotals& totals) {
    return totals.write_error.empty() && totals.not_switched_on.empty();
}

/* Neither events, nor any that are missing. */
bool is_nothing(const DrainTotals& totals) {
    return totals.progress.events == 0 && totals.progress.events_discarded == 0 &&
           totals.progress.subbufs_lost == 0 && totals.not_switched_on.empty() && totals.missed.empty() &&
           totals.not_described.empty();
}

std::string not_switched_on_in(const std::string& path, const NamedCount& missing) {
    const std::string name = path.substr(path.rfind('/') + 1);
    if (missing.name == "refused_clock")
        return fmt::format("{}: {} forbade reading the cycle counter (PR_SET_TSC, seccomp's strict mode): "
                           "what was traced there from then on is missing.",
                           name, counted(missing.count, "process"));
    return fmt::format(
        "{}: {} could not be switched on, and nothing of them was recorded ({}): choose fewer, "
        "or use shorter filters.",
        name, counted(missing.count, "event"), missing.name);
}

std::string snapshot_folder(std::uint32_t number) {
    return fmt::format("snapshot-{}", number);
}

std::string unfinished(const std::string& name) {
    return name + std::string(unfinished_end);
}

} // namespace

/* Returns where the chunk is that has ended; nothing where it holds nothing, and goes on. */
Result<std::string> SessionRecording::end_chunk() {
    if (Status there = directory_->check(); !there) return there.error().with("No chunk was ended");
    const auto directory = chunks_->make();
    if (!directory) return directory.error().with("The chunk goes on, since the next one can not begin");
    auto sink = drain_->make_next_sink(*directory);
    Status made = sink ? ok() : Status(sink.error());
    if (made && kernel_) made = kernel_->make_next_sink(*directory);
    if (made && places_) made = places_->make_next_sinks(*directory);
    if (!made) {
        chunks_->drop();
        return made.error().with("The chunk goes on, since the next one can not begin");
    }
    const std::uint64_t at = cut_soon(*drain_, [this](std::uint64_t cut) {
        drain_->announce_cut(cut);
        if (kernel_) kernel_->announce_cut(cut);
        if (places_) places_->announce_cut(cut);
    });
    Drain::Chunk ended = drain_->rotate(std::move(*sink), *directory, at);
    std::vector<Error> problems;
    if (!ended.written) problems.push_back(ended.written.error());
    if (kernel_) kernel_->rotate(*directory, at, ended, problems);
    if (places_) {
        places_->rotate(*directory, at, problems);
        add_totals(ended.totals, places_->take_chunk_totals());
    }
    note_problems(problems);
    look_at_entrance();
    std::string path = chunks_->path();
    if (finish_chunk(std::move(ended.totals), problems, at)) path = chunks_->final_path();
    chunks_->enter();
    chunk_problems_ = lasting_problems_;
    chunk_began_ = at;
    chunk_began_ns_ = read_clock(PLUMB_CLOCK_MONOTONIC);
    remove_old_chunks();
    return path;
}

WaitingChunk SessionRecording::ended_chunk(const std::string& folder, const LeftChunk& chunk) const {
    const std::int64_t begin_ns = clock_to_wall_ns(chunk.clock, chunk.began),
                       end_ns = clock_to_wall_ns(chunk.clock, chunk.ended);
    const std::string path = directory_->path() + "/" + folder;
    const std::uint64_t number = number_of_chunk(folder);
    Json summary = {{"trace", path.substr(0, path.size() - unfinished_end.size())},
                    {"chunk", {{"number", number}, {"begin_ns", begin_ns}, {"end_ns", end_ns}}},
                    {"name", description_.name},
                    {"duration_ns", end_ns - begin_ns},
                    {"complete", chunk.problems.empty() && is_whole(chunk.totals)},
                    {"problems", Json::array()}};
    for (const Error& problem : chunk.problems)
        summary["problems"].push_back(problem.message());
    for (const Unreachable& each : late_)
        summary["reached_late"].push_back({{"pid", each.process_id}, {"reason", each.reason}});
    put_totals(summary, chunk.totals, session_ ? session_->channel().config() : description_.channel_config(),
               path);
    return {folder, number, chunk.began, chunk.ended, chunk.clock, std::move(summary), {}};
}

void SessionRecording::note_problems(const std::vector<Error>& problems) {
    for (const Error& problem : problems) {
        std::string text = problem.message();
        std::erase(problems_, text); /* told when it was seen, and now as one of the chunk */
        problems_.push_back(std::move(text));
    }
    keep_last(problems_);
}

/* False: it has to wait until there is room for its summary. */
bool SessionRecording::finish_chunk(DrainTotals totals, const std::vector<Error>& at_end,
                                    std::uint64_t ended) {
    for (const NamedCount& missing : totals.not_switched_on)
        problems_.push_back(not_switched_on_in(chunks_->final_path(), missing));
    keep_last(problems_);
    LeftChunk chunk;
    chunk.totals = std::move(totals);
    chunk.began = chunk_began_;
    chunk.ended = ended;
    chunk.clock = drain_->clock_page();
    chunk.problems = std::exchange(chunk_problems_, {});
    chunk.problems.insert(chunk.problems.end(), at_end.begin(), at_end.end());
    WaitingChunk waiting = ended_chunk(chunks_->folder_name(), chunk);
    if (const std::set<uid_t> unseen = take_unseen_users(); !unseen.empty())
        waiting.summary["unseen_users"] = unseen;
    const Status finished = store_and_rename(waiting);
    if (finished) return true;
    wait_for_room(std::move(waiting), finished.error());
    return false;
}

/* What the journals of all places say: one chunk has a folder of each. */
Result<std::map<std::string, LeftTrace>>
SessionRecording::close_left_journals(std::vector<LeftChunk>& chunks) {
    std::map<std::string, LeftTrace> all;
    for (const std::string& folder : journal_folders()) {
        auto left = close_left_trace(journal_path(folder), [&](DrainJournal& journal) {
            if (kernel_ && folder == KernelPart::folder) kernel_->settle_left(journal);
        });
        if (!left && left.error().number() == ENOENT) continue;
        if (!left && left.error().number() == EBUSY) return left.error();
        if (!left) {
            log_(left.error().message());
            problems_.push_back(left.error().message());
            continue;
        }
        for (const LeftChunk& chunk : left->chunks)
            add_left_chunk(chunks, chunk);
        all.emplace(folder, std::move(*left));
    }
    std::stable_sort(chunks.begin(), chunks.end(), [](const LeftChunk& a, const LeftChunk& b) {
        return number_of_chunk(name_of_left(a)) < number_of_chunk(name_of_left(b));
    });
    return all;
}

/* In the order of the chunks: a journal knows the last two, and the next chunk makes it forget the first of them. What it says of one
 * that waits was known before. */
Result<std::map<std::string, LeftTrace>> SessionRecording::close_left_chunks() {
    chunks_.emplace(*directory_, ChunkLimits{description_.keep_chunks, description_.keep_bytes});
    load_waiting_chunks();
    std::vector<LeftChunk> chunks;
    auto left = close_left_journals(chunks);
    if (!left) return left;
    const std::vector<std::string> unfinished = chunks_->take_over([&](const std::string& name) {
        return waiting_chunks_.has(name) || std::any_of(chunks.begin(), chunks.end(), [&](const auto& each) {
                   return !each.is_empty && name_of_left(each) == name;
               });
    });
    for (const LeftChunk& chunk : chunks) {
        const std::string name = name_of_left(chunk);
        if (std::find(unfinished.begin(), unfinished.end(), name) == unfinished.end()) continue;
        if (waiting_chunks_.has(name)) continue;
        if (chunk.is_empty) {
            chunks_->drop_left(name);
            continue;
        }
        WaitingChunk waiting = ended_chunk(name, chunk);
        const Status finished = store_and_rename(waiting);
        for (const Error& problem : chunk.problems)
            tell(problem.message());
        if (!chunk.totals.write_error.empty()) tell(unwritten_text(chunk));
        if (finished) continue;
        if (is_for_want_of_room(finished.error().number()))
            wait_for_room(std::move(waiting), finished.error());
        else /* it keeps the name that it has */
            tell(finished.error().with("The chunk that was left can not be finished").message());
    }
    finish_waiting_chunks();
    return left;
}

void SessionRecording::remove_old_chunks() {
    std::vector<Error> problems;
    chunks_->remove_old(progress().chunk_bytes, problems);
    /* Who asked for fewer would otherwise not hear why there are more; at each chunk it is the same again. */
    for (const Error& problem : problems)
        if (std::find(problems_.begin(), problems_.end(), problem.message()) == problems_.end())
            tell(problem.message());
}

/* Times that were missed, as while the worker was stopped, are passed over. */
void SessionRecording::look_at_chunks(std::uint64_t now_ns) {
    const DrainProgress so_far = progress();
    const std::uint64_t period_ns = description_.rotate_period_ns;
    const bool is_time = period_ns != 0 && now_ns >= next_rotation_ns_;
    const bool is_large = description_.rotate_bytes != 0 && so_far.chunk_events != 0 &&
                          so_far.chunk_bytes >= description_.rotate_bytes;
    if (is_time) next_rotation_ns_ += ((now_ns - next_rotation_ns_) / period_ns + 1) * period_ns;
    const bool is_idle = !description_.is_started && so_far.chunk_events == 0;
    const bool may_try = !has_failed_to_rotate_ || now_ns >= chunk_began_ns_ + retry_ns;
    if ((!is_time && !is_large) || is_idle || !may_try) return;
    const auto ended = end_chunk();
    if (!ended && !has_failed_to_rotate_) log_(ended.error().message());
    has_failed_to_rotate_ = !ended;
    if (!ended) chunk_began_ns_ = now_ns;
}

Result<Json> SessionRecording::rotate() {
    if (!drain_)
        return Error("Session {} is a flight recorder.", description_.name)
            .hint("`plumb snapshot {}` writes what it holds.", description_.name);
    const auto ended = end_chunk();
    if (!ended) return ended.error();
    Json answer = {{"directory", *ended}};
    if (ended->ends_with(unfinished_end)) answer["notes"] = {waiting_text(waiting_chunks_.all().back())};
    return answer;
}

/* The last chunk, if nothing is in it and others are, says nothing. The journal stays as long as the session: behind a death of ours it
 * says that all was read. */
void SessionRecording::end_drain() {
    drain_->stop();
    std::vector<Error> problems, of_chunk;
    if (Status finished = drain_->finish(); !finished) problems.push_back(finished.error());
    if (Status written = drain_->chunk_written(); !written) of_chunk.push_back(written.error());
    DrainTotals totals = drain_->chunk_totals();
    tell_damage();
    if (kernel_) kernel_->finish(drain_->clock_page(), totals, problems, of_chunk);
    if (places_) {
        look_for_unseen_users(true);
        DrainTotals of_all;
        places_->finish(of_all, problems);
        add_totals(totals, places_->take_chunk_totals());
        for (Error& problem : places_->take_chunk_problems())
            of_chunk.push_back(std::move(problem));
        places_.reset();
    }
    note_problems(problems);
    if (is_nothing(totals) && of_chunk.empty() && chunk_problems_.empty() && unseen_users_.empty() &&
        chunks_->number() > 1)
        chunks_->drop_current();
    else
        (void)finish_chunk(std::move(totals), of_chunk, drain_->now());
    finish_waiting_chunks();
    give_up_waiting_chunks();
    drain_.reset();
}

/* A snapshot is taken when the description says so, as that is where the next one begins. It has its name from then on: the worker
 * behind a death of ours throws away what is not taken yet, and names what is. */
Result<std::string> SessionRecording::take_snapshot() {
    if (Status there = directory_->check(); !there) return there.error().with("No snapshot was taken");
    std::uint32_t number = description_.snapshots;
    const auto folder = directory_->make_unfinished_snapshot(number);
    if (!folder) return folder.error().with("No snapshot was taken");
    const std::string name = snapshot_folder(number), path = directory_->path() + "/" + name;
    const auto give_up = [&](const Error& why) {
        (void)directory_->remove_trace(unfinished(name)).has_value();
        return why.with("No snapshot was taken");
    };
    SnapshotOptions options;
    options.drain = drain_options(*folder);
    options.drain.ring_places = description_.ring_places;
    options.drain.names_found = names_found_;
    auto taken = plumb::take_snapshot(*session_, *calibration_, nullptr, options);
    if (!taken) return give_up(taken.error());
    Json summary = {
        {"trace", path},
        {"name", description_.name},
        {"complete", taken->problems.empty() && chunk_problems_.empty() && is_whole(taken->totals)},
        {"problems", taken->problems}};
    for (const Error& problem : chunk_problems_) /* of the time since the last snapshot */
        summary["problems"].push_back(problem.message());
    put_totals(summary, taken->totals, session_->channel().config(), *folder);
    const auto opened = Folder::open(*folder);
    if (!opened) return give_up(opened.error());
    if (Status stored = opened->replace_file(
            "summary.json", summary.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
        !stored)
        return give_up(stored.error());
    std::swap(description_.ring_places, taken->ring_places);
    std::swap(description_.snapshots, number);
    if (Status stored = store(); !stored) {
        std::swap(description_.ring_places, taken->ring_places);
        std::swap(description_.snapshots, number);
        return give_up(stored.error());
    }
    if (Status named = directory_->rename_folder(unfinished(name), name); !named) return named.error();
    chunk_problems_ = lasting_problems_;
    for (const NamedCount& missing : taken->totals.not_switched_on)
        problems_.push_back(not_switched_on_in(path, missing));
    keep_last(problems_);
    if (!taken->problems.empty())
        return Error("The snapshot in {} is not complete: {}", path, taken->problems.front());
    return path;
}

void SessionRecording::finish_left_snapshot() {
    const std::string last = snapshot_folder(description_.snapshots);
    Status named = directory_->rename_folder(unfinished(last), last);
    if (!named && named.error().number() != ENOENT) log_(named.error().message());
    const auto names = list_directory(directory_->path());
    for (const std::string& name : names ? *names : std::vector<std::string>())
        if (is_unfinished_snapshot(name) && name != unfinished(last))
            if (Status removed = directory_->remove_trace(name); !removed) log_(removed.error().message());
}

Result<Json> SessionRecording::snapshot() {
    if (drain_)
        return Error("Session {} is no flight recorder: what it records is in {} already.", description_.name,
                     description_.output)
            .hint("`plumb create --snapshot` makes one; `plumb rotate {}` ends a chunk.", description_.name);
    const auto taken = take_snapshot();
    if (!taken) return taken.error();
    return Json{{"directory", *taken}};
}

/* Of a flight recorder: all that it holds counts as read. */
Result<Json> SessionRecording::clear() {
    if (!drain_) {
        const auto taken = take_snapshot();
        if (!taken) return taken.error();
        for (std::uint32_t number = 1; number <= description_.snapshots; number++)
            (void)directory_->remove_trace(snapshot_folder(number)).has_value();
        return Json::object();
    }
    const auto ended = end_chunk();
    if (!ended) return ended.error();
    std::vector<Error> problems;
    const std::uint64_t removed = chunks_->remove_finished(problems);
    if (!problems.empty()) return problems.front();
    return Json{{"chunks_removed", removed}};
}

} // namespace plumb
