/*
 * The directory a trace goes to. Nothing that is there is ever overwritten; --force removes an old trace
 * first, and nothing but an old trace: a directory that holds anything else is left alone.
 */
#ifndef PLUMB_CLI_TRACE_DIRECTORY_H
#define PLUMB_CLI_TRACE_DIRECTORY_H

#include "base/folder.h"
#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace plumb {

/* Names of what is in one: ust, kernel, ust-65534; snapshot-1. */
bool is_domain_folder(std::string_view name);
bool is_snapshot_folder(std::string_view name);

/* Whether somebody who can be seen writes a trace there now. */
bool is_being_written(const std::string& path);

/* A directory that one process writes a trace into: locked meanwhile, so that no other --force removes it. */
class TraceDirectory {
public:
    /* Makes the directory, one named after the time if `path` is empty; with `force`, empties one that holds a trace of Plumb, if nobody writes there. */
    static Result<TraceDirectory> claim(const std::string& path, bool force);
    TraceDirectory(TraceDirectory&&) noexcept = default;
    TraceDirectory& operator=(TraceDirectory&&) = delete;
    /* Removes it with the trace in it, unless it was worth keeping. */
    ~TraceDirectory();
    void keep() { is_ours_ = false; }

    /* Where it is now, if it was moved. */
    std::string path() const { return folder_.path(); }
    /* A folder that is new there, "snapshot-3": the next number that is free behind `number`, which is set to it. */
    Result<std::string> make_snapshot(std::uint32_t& number) const;
    /* Ok, unless it is nowhere any more: then what stands at its path is not it. */
    Status check() const;

private:
    explicit TraceDirectory(Folder folder) : folder_(std::move(folder)) {}
    static Result<TraceDirectory> claim_any();
    Status lock() const;
    Status check_owner() const;

    Folder folder_; /* holds the lock */
    bool is_ours_ = false;
};

} // namespace plumb

#endif
