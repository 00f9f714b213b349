/*
 * An open directory, whose files are made, replaced and removed by their names in it: it stays the same one when somebody
 * moves it, whatever stands at its old path by then.
 */
#ifndef PLUMB_BASE_FOLDER_H
#define PLUMB_BASE_FOLDER_H

#include "base/file.h"
#include "base/result.h"

#include <string>
#include <string_view>
#include <utility>

namespace plumb {

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
