/*
 * The files that a process maps, and one of them opened without doing anything else. The path of a mapping is as the process
 * sees it, and its user may have put something else there since: a link to a FIFO that somebody waits at, or to a device that
 * acts when it is opened, as whoever looks, which may be root.
 */
#ifndef PLUMB_BASE_MAPPED_FILE_H
#define PLUMB_BASE_MAPPED_FILE_H

#include "base/file.h"
#include "base/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

/* A file that a process maps: an image of it, as the loader makes one of a library, or what it reads as data. */
struct MappedFile {
    std::uint64_t base; /* address of the first mapping of this image */
    std::uint64_t end;  /* behind the last */
    std::uint64_t device;
    std::uint64_t inode;
    bool executable;  /* some part of it */
    std::string path; /* as the process sees it; what the kernel says of one that was removed is not in it */
    bool removed = false; /* or replaced */
};

/* In address order of their beginnings. A file that is also read as data, or loaded twice, is there more than once. */
Result<std::vector<MappedFile>> mapped_files(std::uint32_t process_id);

/* Every process of this machine that maps the file. */
std::vector<std::uint32_t> processes_that_map(std::uint64_t device, std::uint64_t inode);

/* For reading; a regular file, and the one that is mapped, also if it has been deleted since. */
Result<FileDescriptor> open_mapped_file(std::uint32_t process_id, const MappedFile& file);

/* The device of a file as /proc/PID/maps shows it, where overlayfs and btrfs have another one than stat() does. The file is open
 * for reading. */
std::uint64_t device_in_maps(int fd);

} // namespace plumb

#endif
