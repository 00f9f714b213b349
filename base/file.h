/*
 * Owned file descriptors, each closed once, by its owner; and what is read or written whole.
 */
#ifndef PLUMB_BASE_FILE_H
#define PLUMB_BASE_FILE_H

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumb {

class FileDescriptor {
public:
    FileDescriptor() = default;
    explicit FileDescriptor(int fd) : fd_(fd) {}
    FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    FileDescriptor& operator=(FileDescriptor&& other) noexcept {
        if (this != &other) {
            reset();
            fd_ = std::exchange(other.fd_, -1);
        }
        return *this;
    }
    FileDescriptor(const FileDescriptor&) = delete;
    FileDescriptor& operator=(const FileDescriptor&) = delete;
    ~FileDescriptor() { reset(); }

    int get() const { return fd_; }
    bool is_open() const { return fd_ >= 0; }
    void reset();
    /* Gives it away, open. */
    int release() { return std::exchange(fd_, -1); }

private:
    int fd_ = -1;
};

/* For reading. Anything else than a regular file is not even opened: that acts on FIFOs, terminals and other devices. */
Result<FileDescriptor> open_regular_file(const std::string& path);

/* The whole of a small regular file (at most `limit_bytes`), such as those of /proc. */
Result<std::string> read_small_file(const std::string& path, std::size_t limit_bytes = std::size_t{1} << 20);
/* The same of one below /proc that the kernel makes whole at once (stat, status, syscall, wchan, auxv; not maps): fewer system calls. */
Result<std::string> read_proc_file(const std::string& path);

/* Writes a file anew, whole or not at all: until it is complete, what was there before stays. Its own temporary file is
 * hidden, ".NAME.new", and gone afterwards. */
Status replace_file(const std::string& path, std::string_view content);

/* Disk space kept for what has to be written when there is no more: a file without a name, in the directory, that holds
 * it until it is closed. Not open where the file system cannot promise space, or has none; that is no error. */
FileDescriptor reserve_space(const std::string& directory, std::uint64_t bytes);

/* The target of a symbolic link, such as /proc/PID/exe. */
Result<std::string> read_link(const std::string& path);

/* Closes every descriptor from this number on. For a child that runs on alone: what it kept by mistake would stay open for
 * as long as it runs. */
void close_files_from(int first);

/* Names in a directory, without "." and "..", sorted. */
Result<std::vector<std::string>> list_directory(const std::string& path);

} // namespace plumb

#endif
