/*
 * An open directory, whose files are made, replaced and removed by their names in it: it stays the same one when somebody
 * moves it, whatever stands at its old path by then.
 */
#ifndef PLUMB_BASE_FOLDER_H
#define PLUMB_BASE_FOLDER_H

#include "base/file.h"
#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace plumb {

/* Tells a directory from another one at its path. A file system that is mounted anew may have another device number, so where it knows
 * when a directory was made, that counts. */
struct FolderIdentity {
    std::uint64_t inode = 0; /* 0: nothing is known */
    std::uint64_t device = 0;
    std::uint64_t made_ns = 0; /* 0: it is not known when */

    bool is_known() const { return inode != 0; }
    bool is_same(const FolderIdentity& other) const {
        if (inode != other.inode) return false;
        return made_ns != 0 && other.made_ns != 0 ? made_ns == other.made_ns : device == other.device;
    }
};

class Folder {
public:
    static Result<Folder> open(const std::string& path);

    /* Where it is: as it was opened, if that is still so; else where it was moved to. As it was opened, too, if it was
     * removed, or if its place can not be told. */
    std::string path() const;
    std::string path_of(std::string_view name) const;
    bool is_at(const std::string& path) const;
    bool is_removed() const;
    int fd() const { return fd_.get(); }
    FolderIdentity identity() const;

    /* A file that must be new, open for writing. */
    Result<FileDescriptor> make_file(const std::string& name) const;
    /* As replace_file(). */
    Status replace_file(const std::string& name, std::string_view content) const;
    bool has(const std::string& name) const;
    void remove_file(const std::string& name) const;

private:
    Folder(std::string opened_as, FileDescriptor fd) : opened_as_(std::move(opened_as)), fd_(std::move(fd)) {}

    std::string opened_as_;
    FileDescriptor fd_;
};

/* As replace_file(), with `path` as openat() takes it; `shown`: what errors call it. */
Status replace_file_in(int folder, const std::string& path, std::string_view content,
                       const std::string& shown);

} // namespace plumb

#endif
