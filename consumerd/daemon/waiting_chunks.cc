#include "consumerd/daemon/waiting_chunks.h"

#include "base/file.h"
#include "base/loss_growth.h"
#include "base/trace_folders.h"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <iterator>

namespace plumb {
namespace {

/* Of several chunks. */
constexpr std::size_t summed_problems_max = 8;
constexpr std::array summed_numbers = {"events",  "kernel_events_read",  "events_lost", "subbufs_lost",
                                       "threads", "processes_not_named", "objects",     "bytes",
                                       "packets"};
constexpr std::array summed_counts = {"events_lost_by_cause", "subbufs_lost_by_cause", "missed",
                                      "not_switched_on",      "not_described",         "notes"};

std::uint64_t number_or_zero(const Json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_number_integer() || *found < 0) return 0;
    return found->get<std::uint64_t>();
}

Json clock_as_json(const plumb_clock_page& clock) {
    return {{"mode", clock.mode},
            {"mult", clock.mult},
            {"shift", clock.shift},
            {"base_cycles", clock.base_cycles},
            {"base_monotonic_ns", clock.base_monotonic_ns},
            {"realtime_offset_ns", clock.realtime_offset_ns},
            {"frequency_hz", clock.frequency_hz},
            {"uncertainty_ns", clock.uncertainty_ns},
            {"flags", clock.flags},
            {"base_fraction", clock.base_fraction}};
}

plumb_clock_page clock_in(const Json& object) {
    const auto word = [&](const char* name) {
        return static_cast<std::uint32_t>(number_or_zero(object, name));
    };
    plumb_clock_page clock{};
    clock.mode = word("mode");
    clock.mult = word("mult");
    clock.shift = word("shift");
    clock.base_cycles = number_or_zero(object, "base_cycles");
    clock.base_monotonic_ns = number_or_zero(object, "base_monotonic_ns");
    const auto offset = object.find("realtime_offset_ns");
    if (offset != object.end() && offset->is_number_integer())
        clock.realtime_offset_ns = offset->get<std::int64_t>();
    clock.frequency_hz = number_or_zero(object, "frequency_hz");
    clock.uncertainty_ns = number_or_zero(object, "uncertainty_ns");
    clock.flags = word("flags");
    clock.base_fraction = word("base_fraction");
    return clock;
}

Json as_json(const WaitingChunk& chunk) {
    return {{"folder", chunk.folder},
            {"since", chunk.since},
            {"began", chunk.began},
            {"ended", chunk.ended},
            {"clock", clock_as_json(chunk.clock)},
            {"why", chunk.why},
            {"summary", chunk.summary}};
}

std::size_t stored_bytes_of(const WaitingChunk& chunk) {
    return text_of(as_json(chunk)).size();
}

bool is_unfinished_chunk(const std::string& folder) {
    return is_chunk_folder(folder) && folder.ends_with(unfinished_end);
}

Result<WaitingChunk> read_chunk(const Json& object) {
    const auto wrong = [](const char* what) { return Error("{} is not possible", what).as(EBADMSG); };
    if (!object.is_object()) return wrong("what stands for a chunk");
    WaitingChunk chunk;
    const auto folder = text_in(object, "folder");
    if (!folder || !is_unfinished_chunk(*folder)) return wrong("the name of a chunk's folder");
    chunk.folder = *folder;
    chunk.since = number_or_zero(object, "since");
    if (chunk.since == 0 || chunk.since > chunk.number()) return wrong("the number of a chunk");
    chunk.began = number_or_zero(object, "began");
    chunk.ended = std::max(chunk.began, number_or_zero(object, "ended"));
    const auto clock = object.find("clock"), summary = object.find("summary");
    if (clock == object.end() || !clock->is_object()) return wrong("the clock of a chunk");
    if (summary == object.end() || !summary->is_object()) return wrong("the summary of a chunk");
    chunk.clock = clock_in(*clock);
    chunk.summary = *summary;
    chunk.why = text_in(object, "why", "").value_or("");
    return chunk;
}

/* What is as long as there are processes, or kinds of events, or files: these are looked for again. */
void shorten(Json& summary) {
    const auto processes = summary.find("processes");
    if (processes != summary.end() && processes->is_array() && !processes->empty()) {
        summary["processes_not_named"] = number_or_zero(summary, "processes_not_named") + processes->size();
        summary["processes"] = Json::array();
    }
    summary["events_by_name"] = Json::object();
    summary.erase("reached_late");
    summary.erase("files");
}

void add_number(Json& to, const char* name, std::uint64_t count) {
    if (count != 0) to[name] = sum_of_losses(number_or_zero(to, name), count);
}

/* `to` becomes what is true of both, told by the later one. */
void sum_up(WaitingChunk& to, WaitingChunk next) {
    Json sum = std::move(next.summary);
    const Json& before = to.summary;
    for (const char* name : summed_numbers)
        add_number(sum, name, number_or_zero(before, name));
    for (const char* name : summed_counts) {
        const auto counts = before.find(name);
        if (counts == before.end() || !counts->is_object()) continue;
        for (auto each = counts->begin(); each != counts->end(); ++each)
            add_number(sum[name], each.key().c_str(), number_or_zero(*counts, each.key().c_str()));
    }
    const auto was_complete = before.find("complete");
    if (was_complete == before.end() || *was_complete != true) sum["complete"] = false;
    if (const auto error = before.find("write_error"); error != before.end()) sum["write_error"] = *error;
    if (const auto problems = before.find("problems"); problems != before.end() && problems->is_array()) {
        Json all = *problems;
        for (const Json& problem : sum["problems"])
            if (std::find(all.begin(), all.end(), problem) == all.end() && all.size() < summed_problems_max)
                all.push_back(problem);
        sum["problems"] = std::move(all);
    }
    next.summary = std::move(sum);
    next.since = to.since;
    next.began = to.began;
    to = std::move(next);
}

} // namespace

std::uint64_t number_of_chunk(const std::string& folder) {
    return std::strtoull(folder.c_str() + folder.find('-') + 1, nullptr, 10);
}

std::uint64_t WaitingChunk::count(const char* name) const {
    return number_or_zero(summary, name);
}

std::uint64_t WaitingChunk::events_not_written() const {
    const auto causes = summary.find("events_lost_by_cause");
    if (causes == summary.end() || !causes->is_object()) return 0;
    return number_or_zero(*causes, "not_written") + number_or_zero(*causes, "kernel_not_written");
}

/* One of another trace was left by a session of the same name. */
Status WaitingChunks::load() {
    const FileDescriptor file(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file.is_open() && errno == ENOENT) return ok();
    struct stat info {};
    if (!file.is_open() || ::fstat(file.get(), &info) != 0)
        return Error::from_errno(errno, "Could not open {}", path_);
    const auto damaged = [&](const std::string& why) {
        return Error("{} can not be believed: {}. What is said there of chunks that waited for room is not "
                     "known.",
                     path_, why)
            .as(EBADMSG);
    };
    if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) return damaged("it is no file of this user's");
    /* The last one may be as long as a short one is. */
    const auto text = read_small_file("/proc/self/fd/" + std::to_string(file.get()), 2 * bytes_max_);
    if (!text) return damaged(text.error().message());
    const auto object = parse_message(*text);
    if (!object) return damaged(object.error().message());
    if (text_in(*object, "output", "").value_or("") != output_) return ok();
    const auto list = object->find("chunks");
    if (list == object->end() || !list->is_array()) return damaged("it has no list of chunks");
    std::deque<WaitingChunk> chunks;
    for (const Json& each : *list) {
        auto chunk = read_chunk(each);
        if (!chunk) return damaged(chunk.error().message());
        chunks.push_back(std::move(*chunk));
    }
    chunks_ = std::move(chunks);
    return ok();
}

Status WaitingChunks::add(WaitingChunk chunk) {
    std::size_t bytes = 0;
    for (const WaitingChunk& each : chunks_)
        bytes += stored_bytes_of(each);
    const auto fits = [&] { return bytes + stored_bytes_of(chunk) <= bytes_max_; };
    if (!fits()) shorten(chunk.summary);
    if (chunks_.empty() || fits()) {
        chunks_.push_back(std::move(chunk));
    } else {
        shorten(chunks_.back().summary);
        sum_up(chunks_.back(), std::move(chunk));
    }
    Status stored = store();
    is_stored_ = stored.has_value();
    return stored;
}

Status WaitingChunks::finish(const std::function<Status(const WaitingChunk&)>& finish) {
    bool has_changed = !is_stored_;
    for (auto each = chunks_.begin(); each != chunks_.end();) {
        const Status finished = finish(*each);
        if (!finished && finished.error().number() != ENOENT) {
            each->why = finished.error().message();
            ++each;
            continue;
        }
        each = chunks_.erase(each);
        has_changed = true;
    }
    if (!has_changed) return ok();
    Status stored = store();
    is_stored_ = stored.has_value();
    return stored;
}

bool WaitingChunks::has(const std::string& folder) const {
    const std::uint64_t number = number_of_chunk(folder);
    return std::any_of(chunks_.begin(), chunks_.end(), [&](const WaitingChunk& each) {
        return each.folder == folder || (number >= each.since && number < each.number());
    });
}

Status WaitingChunks::store() const {
    if (chunks_.empty()) {
        if (::unlink(path_.c_str()) == 0 || errno == ENOENT) return ok();
        return Error::from_errno(errno, "Could not remove {}", path_);
    }
    Json list = Json::array();
    for (const WaitingChunk& each : chunks_)
        list.push_back(as_json(each));
    return replace_file(path_, text_of({{"output", output_}, {"chunks", std::move(list)}}));
}

} // namespace plumb
