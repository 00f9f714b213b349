/*
 * The file that a process maps, opened without doing anything else. The path of a mapping is as the process sees it, and
 * its user may have put something else there since: a link to a FIFO that somebody waits at, or to a device that acts
 * when it is opened, as whoever looks, which may be root.
 */
#ifndef PLUMB_BASE_MAPPED_FILE_H
#define PLUMB_BASE_MAPPED_FILE_H

#include "base/file.h"
#include "base/processes.h"
#include "base/result.h"

#include <cstdint>

namespace plumb {

/* For reading; a regular file, and the one that is mapped, also if it has been deleted since. */
Result<FileDescriptor> open_mapped_file(std::uint32_t process_id, const MappedFile& file);

/* The device of a file as /proc/PID/maps shows it, where overlayfs and btrfs have another one than stat() does. The file is open
 * for reading. */
std::uint64_t device_in_maps(int fd);

} // namespace plumb

#endif
