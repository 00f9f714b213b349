/*
 * The per-user directory, where the state file and the channels live (directory_keeper.h). Nobody else may be
 * able to plant or read anything there, so it is used only if it is a real directory (not a link), belongs to
 * the user, and has mode 0700; everything in it is reached through its descriptor, never again by path.
 *
 * Files come into being whole: made without a name, filled, then linked. Nobody ever sees half a file.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_USER_DIRECTORY_H
#define PLUMB_CONSUMERD_CONTROL_USER_DIRECTORY_H

#include "base/file.h"
#include "base/result.h"
#include "consumerd/control/directory_keeper.h"

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

class UserDirectory {
public:
    /* A user's directory, made if it is missing. Only root can name another user. */
    static Result<UserDirectory> open_or_create(const UserPlace& place);
    /* The same at another place, for tests and tools. */
    static Result<UserDirectory> open_or_create_at(const std::string& path, uid_t user_id);
    /* Only if it exists: number() of the error is ENOENT if it does not. */
    static Result<UserDirectory> open_existing(const UserPlace& place);
    /* All that there are of a user. */
    static Result<std::vector<UserDirectory>> all_existing(uid_t user_id);
    static Result<UserDirectory> open_existing_at(const std::string& path, uid_t user_id);

    /* For messages. */
    const std::string& path() const { return path_; }
    std::string path_of_file(const std::string& name) const { return path_ + "/" + name; }
    uid_t user_id() const { return place_.user_id; }
    const UserPlace& place() const { return place_; }
    int fd() const { return fd_.get(); }

    /* A part of a file that gets its memory later. */
    struct Hole {
        std::uint64_t begin = 0;
        std::uint64_t end = 0;
    };
    /* Makes a file of `bytes`, all of its memory reserved but for the hole; `fill` writes the content through a mapping; then
     * the file gets its name. Fails with EEXIST if the name is taken meanwhile. Too little room, for the hole too, is an
     * error that says how much is needed and how much is there. */
    Result<FileDescriptor> create_file(const std::string& name, std::uint64_t bytes,
                                       const std::function<Status(std::span<std::byte>)>& fill,
                                       const std::function<Status(int)>& before_it_is_named = {},
                                       Hole hole = {0, 0}) const;

    /* Opens a file and checks that it is a regular file of the user with mode 0600. */
    Result<FileDescriptor> open_file(const std::string& name, bool writable) const;

    Status unlink_file(const std::string& name) const;
    /* Whether it still is where its path leads, and nobody else may enter it. */
    Status check() const;
    /* Whether the name in it is that of the open file. */
    bool is_named(const std::string& name, int fd) const;
    Result<std::vector<std::string>> file_names() const;

private:
    UserDirectory(std::string path, const UserPlace& place, FileDescriptor fd)
        : path_(std::move(path)), place_(place), fd_(std::move(fd)) {}
    Status reserve(const FileDescriptor& file, const std::string& name, std::uint64_t bytes, Hole hole) const;

    std::string path_;
    UserPlace place_;
    FileDescriptor fd_;
};

/* Whether a user's directory in /dev/shm is his, or may be made: not in a user namespace that does not know whose /dev/shm is. The error says what to
 * do. */
Status is_of_this_namespace(const std::string& path, uid_t user_id);

} // namespace plumb

#endif
