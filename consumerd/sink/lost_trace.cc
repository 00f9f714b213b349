#include "consumerd/sink/lost_trace.h"

#include "base/file.h"
#include "base/folder.h"
#include "consumerd/sink/ctf_writer.h"
#include "consumerd/sink/trace_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace plumb {

bool is_without_metadata(const std::string& directory) {
    const TraceFiles files = files_of_trace(directory);
    return std::none_of(files.begin(), files.end(),
                        [](const auto& file) { return file.first.ends_with("/metadata"); });
}

/* The metadata comes last: until it is there, nothing is. */
Status write_lost_trace(const std::string& directory, TraceIdentity identity, const plumb_clock_page& clock,
                        const TraceLosses& losses) {
    if (identity.folder.empty()) identity.folder = identity.domain;
    const std::string path = directory + "/" + identity.folder;
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
        return Error::from_errno(errno, "Could not make the trace directory {}", path);
    const auto folder = Folder::open(path);
    if (!folder) return folder.error();
    const auto names = list_directory(path);
    if (!names) return names.error();
    for (const std::string& name : *names)
        folder->remove_file(name);
    auto writer = CtfWriter::open_left(directory, std::move(identity), 1, 0);
    if (!writer) return writer.error();
    Status written = (*writer)->write_losses(0, losses.events, losses.subbufs, losses.began, losses.ended);
    if (written) written = (*writer)->complete(losses.ended);
    if (written) written = (*writer)->close(0);
    if (written) written = (*writer)->close_statedump();
    if (written) written = (*writer)->write_metadata(clock, {});
    return written;
}

} // namespace plumb
