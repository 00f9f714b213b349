/*
 * The directory a trace goes to. Nothing that is there is ever overwritten; --force puts an old trace aside, in a hidden
 * folder of the same directory, and removes it when there is another one in its place: what comes to nothing costs nobody
 * a trace. Nothing but an old trace is replaced: a directory that holds anything else is left alone.
 */
#ifndef PLUMB_CONSUMERD_SINK_TRACE_DIRECTORY_H
#define PLUMB_CONSUMERD_SINK_TRACE_DIRECTORY_H

#include "base/folder.h"
#include "base/result.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace plumb {

/* Whether somebody who can be seen writes a trace there now; and who, 0 for nobody. */
bool is_being_written(const std::string& path);
std::uint32_t writer_of(const std::string& path);

/* A directory that one process writes a trace into: locked meanwhile, so that no other --force removes it. */
class TraceDirectory {
public:
    /* Takes a line for a person, from any thread: what goes wrong with an old trace does not stop the new one. */
    using Say = std::function<void(const std::string&)>;
    /* Makes the directory, one named after the time if `path` is empty; with `force`, one that holds a trace of Plumb will do,
     * if nobody writes there: it is empty then, but for what was put aside. `is_private`: where it is made, nobody else may
     * enter it. */
    static Result<TraceDirectory> claim(const std::string& path, bool force, bool is_private, const Say& say);
    /* One that somebody else has claimed, and kept, before: what is in it stays. EWOULDBLOCK: it is being written. */
    static Result<TraceDirectory> take_over(const std::string& path, const Say& say);
    TraceDirectory(TraceDirectory&&) noexcept = default;
    TraceDirectory& operator=(TraceDirectory&&) = delete;
    /* Unless it was worth keeping, removes the trace in it, and puts the old one back; the directory goes if it was made here. */
    ~TraceDirectory();
    /* There is a trace in it: the old one is removed, meanwhile. */
    void keep();

    /* Where it is now, if it was moved. */
    std::string path() const { return folder_.path(); }
    FolderIdentity identity() const { return folder_.identity(); }
    /* A folder that is new there, "snapshot-3": the next number that is free behind `number`, which is set to it. */
    Result<std::string> make_snapshot(std::uint32_t& number) const;
    /* The same, "snapshot-3.part": to be renamed when it is finished. */
    Result<std::string> make_unfinished_snapshot(std::uint32_t& number) const;
    /* A folder that is new there. */
    Result<std::string> make_folder(const std::string& name) const;
    Status rename_folder(const std::string& from, const std::string& to) const;
    /* A trace that is in a folder of it. ENOENT: somebody else has taken it away. */
    Status remove_trace(const std::string& name) const;
    /* Ok, unless it is nowhere any more: then what stands at its path is not it. */
    Status check() const;

private:
    TraceDirectory(Folder folder, Say say) : folder_(std::move(folder)), say_(std::move(say)) {}
    static Result<TraceDirectory> claim_any(bool is_private, const Say& say);
    Status lock() const;
    Status check_owner() const;
    Status put_aside();
    Status check_emptied() const;
    Status put_back();

    Folder folder_; /* holds the lock */
    Say say_;
    bool is_ours_ = false;
    bool is_new_ = false;
    std::string aside_; /* the folder in it that holds the old trace; empty: there is none */
    std::thread removal_;
};

} // namespace plumb

#endif
