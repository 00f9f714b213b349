/*
 * How a chunk of a session is finished: its summary comes before the name that says that all is there. Where there is no room for one,
 * the chunk waits, and what it lacks is where no kill takes it (waiting_chunks.h).
 */
#include "consumerd/daemon/session_recording.h"

#include "base/number_text.h"
#include "consumerd/drain/totals_json.h"
#include "consumerd/sink/lost_trace.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace plumb {
namespace {

/* Behind one that failed. */
constexpr std::uint64_t finish_again_ns = 1'000'000'000;

std::string finished_name(const std::string& folder) {
    return folder.substr(0, folder.size() - unfinished_end.size());
}

std::string written_summary(const Json& summary) {
    return summary.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

/* "The chunk in PATH", "The chunks 3 to 17 in PATH": as its summary is of more than one. */
std::string chunk_text(const WaitingChunk& chunk, const std::string& directory) {
    if (chunk.stands_for() == 1) return fmt::format("The chunk in {}/{}", directory, chunk.folder);
    return fmt::format("The chunks {} to {} in {}", chunk.since, chunk.number(), directory);
}

std::string sum_text(const WaitingChunk& chunk) {
    return fmt::format(
        "Chunks {} to {} waited for room at once, more than are kept apart: what they hold and lack together "
        "is in the summary of {}.",
        chunk.since, chunk.number(), finished_name(chunk.folder));
}

} // namespace

/* Where there was no room for metadata there are no records. */
Status SessionRecording::describe_lost(const std::string& path, const WaitingChunk& chunk) const {
    if (!is_without_metadata(path)) return ok();
    TraceIdentity identity = drain_ ? drain_->identity() : TraceIdentity{};
    std::array<char, 256> host{};
    (void)!::gethostname(host.data(), host.size() - 1);
    identity.trace_name = description_.name;
    identity.host_name = host.data();
    identity.is_compact = !description_.is_plain;
    identity.uuid = random_uuid(identity.uuid);
    return write_lost_trace(
        path, std::move(identity), chunk.clock,
        {chunk.began, chunk.ended, chunk.count("events_lost"), chunk.count("subbufs_lost")});
}

/* Of those that a sum stands for, all but the last. */
Status SessionRecording::finish_summed(const WaitingChunk& sum) {
    const auto names = list_directory(directory_->path());
    if (!names) return names.error();
    WaitingChunk empty = sum;
    empty.ended = empty.began;
    empty.summary = Json::object();
    for (const std::string& name : *names) {
        if (!is_chunk_folder(name) || !name.ends_with(unfinished_end)) continue;
        const std::uint64_t number = number_of_chunk(name);
        if (number < sum.since || number >= sum.number()) continue;
        const std::string path = directory_->path() + "/" + name;
        const auto folder = Folder::open(path);
        if (!folder) return folder.error();
        if (Status described = describe_lost(path, empty); !described) return described;
        Json summary = {{"trace", finished_name(path)},
                        {"chunk", {{"number", number}}},
                        {"name", description_.name},
                        {"complete", false},
                        {"problems", {sum_text(sum)}}};
        if (Status stored = folder->replace_file("summary.json", written_summary(summary)); !stored)
            return stored;
        if (Status renamed = chunks_->finish_left(name, 0, 0); !renamed) return renamed;
    }
    return ok();
}

Status SessionRecording::store_and_rename(const WaitingChunk& chunk) {
    const std::string path = directory_->path() + "/" + chunk.folder;
    const auto folder = Folder::open(path);
    if (!folder) return folder.error();
    if (Status summed = chunk.stands_for() == 1 ? ok() : finish_summed(chunk); !summed) return summed;
    if (Status described = describe_lost(path, chunk); !described) return described;
    Json summary = chunk.summary;
    summary["trace"] = finished_name(path);
    summary["files"] = files_as_json(path);
    if (chunk.stands_for() != 1) summary["problems"].push_back(sum_text(chunk));
    if (Status stored = folder->replace_file("summary.json", written_summary(summary)); !stored)
        return stored;
    return chunks_->finish_left(chunk.folder, chunk.count("events"), chunk.count("bytes"));
}

std::string SessionRecording::waiting_text(const WaitingChunk& chunk) const {
    return fmt::format("{} {} no summary yet, and {} the name that ends in {} until there is room for one: "
                       "{} It is tried again. What is in {} can be read.",
                       chunk_text(chunk, directory_->path()), chunk.stands_for() == 1 ? "has" : "have",
                       chunk.stands_for() == 1 ? "keeps" : "keep", unfinished_end, chunk.why,
                       chunk.stands_for() == 1 ? "it" : "them");
}

void SessionRecording::wait_for_room(WaitingChunk chunk, const Error& why) {
    chunk.why = why.message();
    if (Status kept = waiting_chunks_.add(std::move(chunk)); !kept)
        tell(kept.error()
                 .with("Should the session's worker end while a chunk waits for its summary, nobody will "
                       "know what "
                       "that chunk lacks")
                 .message());
    log_(waiting_text(waiting_chunks_.all().back()));
    next_finish_ns_ = read_clock(PLUMB_CLOCK_MONOTONIC) + finish_again_ns;
}

/* What those lack was told by a worker that has ended since. */
void SessionRecording::load_waiting_chunks() {
    if (Status loaded = waiting_chunks_.load(); !loaded) tell(loaded.error().message());
    std::uint64_t chunks = 0, missing = 0;
    for (const WaitingChunk& each : waiting_chunks_.all()) {
        chunks += each.stands_for();
        missing += each.events_not_written();
    }
    if (missing != 0)
        tell(fmt::format("{} of {} are missing, which waited for room when a worker ended: {}",
                         counted(missing, "event"), counted(chunks, "chunk"),
                         waiting_chunks_.all().front().why));
}

/* The disk was full. */
void SessionRecording::finish_waiting_chunks() {
    const Status kept = waiting_chunks_.finish([this](const WaitingChunk& each) {
        Status finished = store_and_rename(each);
        const std::string text = chunk_text(each, directory_->path());
        if (finished)
            log_(fmt::format("{} {} finished", text, each.stands_for() == 1 ? "is" : "are"));
        else if (finished.error().number() == ENOENT)
            log_(finished.error().message());
        return finished;
    });
    if (!kept) log_(kept.error().message());
    next_finish_ns_ = read_clock(PLUMB_CLOCK_MONOTONIC) + finish_again_ns;
}

/* Nobody will try it again. */
void SessionRecording::give_up_waiting_chunks() {
    for (const WaitingChunk& each : waiting_chunks_.all())
        problems_.push_back(fmt::format(
            "{} {} no summary: {} {} in it, {} are missing.", chunk_text(each, directory_->path()),
            each.stands_for() == 1 ? "has" : "have", each.why, counted(each.count("events"), "event"),
            counted(each.count("events_lost"), "event")));
}

} // namespace plumb
