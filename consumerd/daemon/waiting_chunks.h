/*
 * Chunks of a session that have ended, and whose summaries found no room: the disk is full. The journal knows the last two chunks
 * alone, so what such a chunk lacks stands in shared memory, in a file of the session's own beside its description, until its summary is
 * written. It stands there before the chunk counts as ended, so the worker behind a kill knows of each chunk by its journal or by
 * this.
 *
 * What it takes is bounded. A summary that does not fit is shortened: it names no processes, nor events. Where that does not fit
 * either, it is added to the last one, which then stands for all chunks since a certain one.
 */
#ifndef PLUMB_CONSUMERD_DAEMON_WAITING_CHUNKS_H
#define PLUMB_CONSUMERD_DAEMON_WAITING_CHUNKS_H

#include "base/result.h"
#include "consumerd/daemon/message.h"

#include <plumb/abi/clock_page.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>

namespace plumb {

/* "chunk-NUMBER-TIME.part" */
std::uint64_t number_of_chunk(const std::string& folder);

struct WaitingChunk {
    std::string folder;      /* its name in the trace's directory, as of one that is unfinished */
    std::uint64_t since = 0; /* the number of the first chunk that it stands for: its own, but for a sum */
    std::uint64_t began = 0, ended = 0; /* by: */
    plumb_clock_page clock{};
    Json summary = Json::object();
    std::string why; /* it waits */

    std::uint64_t number() const { return number_of_chunk(folder); }
    std::uint64_t stands_for() const { return number() - since + 1; }
    std::uint64_t count(const char* name) const; /* in the summary; 0: it is not there */
    std::uint64_t events_not_written() const;
};

class WaitingChunks {
public:
    /* `output`: the session's, whose folders are meant. */
    WaitingChunks(std::string path, std::string output, std::size_t bytes_max = std::size_t{1} << 20)
        : path_(std::move(path)), output_(std::move(output)), bytes_max_(bytes_max) {}

    /* What the worker before this one left. EBADMSG: it can not be believed. */
    Status load();
    /* An error: it is here, but the next worker would not know of it. */
    Status add(WaitingChunk chunk);
    /* Of those that it can finish none waits any longer. ENOENT: there is no such folder any more. */
    Status finish(const std::function<Status(const WaitingChunk&)>& finish);

    /* Whether it is known what this chunk lacks. */
    bool has(const std::string& folder) const;
    const std::deque<WaitingChunk>& all() const { return chunks_; }
    bool is_empty() const { return chunks_.empty(); }

private:
    Status store() const;

    std::string path_, output_;
    std::size_t bytes_max_;
    std::deque<WaitingChunk> chunks_;
    bool is_stored_ = true;
};

} // namespace plumb

#endif
