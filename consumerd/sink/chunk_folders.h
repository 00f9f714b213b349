/*
 * The folders of a recording in chunks: what they are called, when they are finished, and which are kept.
 *
 * A chunk is written in "chunk-NUMBER-TIME.part" and loses that end by being renamed when it is finished: so who waits for chunks
 * watches one directory, and what was left unfinished says so. The number comes first, as time alone would not tell chunks of the
 * same second apart, and a clock may be set back.
 */
#ifndef PLUMB_CONSUMERD_SINK_CHUNK_FOLDERS_H
#define PLUMB_CONSUMERD_SINK_CHUNK_FOLDERS_H

#include "base/result.h"
#include "consumerd/sink/trace_directory.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

/* Which finished chunks are kept: nothing is said of what has no value. */
struct ChunkLimits {
    std::optional<std::uint64_t> count;
    std::optional<std::uint64_t> bytes; /* with the one that is written */
};

struct RemovedChunks {
    std::uint64_t count = 0, events = 0, bytes = 0;
    std::string first, last; /* names */
    bool by_count = false, by_bytes = false;
};

class ChunkFolders {
public:
    /* `directory` must stay. */
    ChunkFolders(const TraceDirectory& directory, ChunkLimits limits)
        : directory_(&directory), limits_(limits) {}

    /* Those that another one of these has left are known from then on, and not made again. Of the unfinished ones, those in which
     * nothing is go, unless something of them is to be told; the others are returned. */
    std::vector<std::string> take_over(const std::function<bool(const std::string& name)>& is_to_be_told);
    /* One of those: it is whole by now. Or nothing is in it. */
    Status finish_left(const std::string& name, std::uint64_t events, std::uint64_t bytes);
    void drop_left(const std::string& name);

    /* The folder of the next chunk; where it is. Then it is entered: it is the one that is written from now on. Or it is
     * dropped. */
    Result<std::string> make();
    void enter();
    void drop();

    /* Of the one that is written: where it is, and where it will be. */
    std::string path() const { return path_of(name_ + unfinished_name_end); }
    std::string final_path() const { return path_of(name_); }
    std::string folder_name() const { return name_ + unfinished_name_end; }
    std::uint64_t number() const { return number_; }
    /* It is not worth a chunk. */
    void drop_current();
    /* It is whole. */
    Status finish(std::uint64_t events, std::uint64_t bytes);

    /* Removes the oldest of the finished ones, as many as the limits ask. Why one could not be removed goes into `problems`; it
     * is not tried again. */
    void remove_old(std::uint64_t bytes_being_written, std::vector<Error>& problems);
    /* All of them, whatever the limits; how many. */
    std::uint64_t remove_finished(std::vector<Error>& problems);
    bool limits_bytes() const { return limits_.bytes.has_value(); }

    /* Names of those that were finished, and not removed here. */
    std::vector<std::string> finished() const;
    const RemovedChunks& removed() const { return removed_; }

private:
    struct Finished {
        std::string name;
        std::uint64_t events, bytes;
    };
    bool remove_oldest(std::vector<Error>& problems);
    static constexpr const char* unfinished_name_end = ".part";
    std::string path_of(const std::string& name) const { return directory_->path() + "/" + name; }

    const TraceDirectory* directory_;
    ChunkLimits limits_;
    std::uint64_t number_ = 0;
    std::string name_, next_;
    std::deque<Finished> finished_;
    std::uint64_t finished_bytes_ = 0;
    RemovedChunks removed_;
};

} // namespace plumb

#endif
