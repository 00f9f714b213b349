/*
 * Who keeps the users' directories, where state and channels live: plumb.ko, where it is loaded and we may have them from it, and
 * /dev/shm. Programs look to the module first; in /dev/shm are those that began before it was loaded, that have a seccomp
 * filter, or do not see the module's device. So a controller looks in both.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_DIRECTORY_KEEPER_H
#define PLUMB_CONSUMERD_CONTROL_DIRECTORY_KEEPER_H

#include "base/file.h"
#include "base/result.h"

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace plumb {

enum class DirectoryKeeper { module, shared_memory };

class Container; /* container_places.h */

/* Where programs of a user look. */
struct UserPlace {
    uid_t user_id = 0;
    DirectoryKeeper keeper = DirectoryKeeper::shared_memory;
    std::shared_ptr<const Container> container = {}; /* whose /dev/shm it is; nullptr: ours */
    uid_t user_there = user_id;                      /* the user's number in its user namespace */
    auto operator<=>(const UserPlace& other) const { return key() <=> other.key(); }
    bool operator==(const UserPlace& other) const { return key() == other.key(); }

private:
    std::tuple<uid_t, DirectoryKeeper, std::uint64_t, uid_t> key() const;
};

/* Those that there are, first where programs look that we start: with a filter of ours they look in /dev/shm. The first stays so;
 * the module may come later. */
std::vector<DirectoryKeeper> directory_keepers();
bool has_several_keepers();
UserPlace main_place(uid_t user_id);
std::vector<UserPlace> places_of(uid_t user_id);

/* "/dev/shm/plumb-0", or "plumb.ko:/plumb-0", which no path leads to: for messages. */
std::string shown_path_of(const UserPlace& place);
/* A path that leads there, for this process. Another user's directory in the module is out of reach for who is not root: ENOENT. */
Result<std::string> path_of(const UserPlace& place);

/* The directory of the caller, made if it is missing. */
FileDescriptor open_own_of_module();
/* Whose size nobody may change from now on; nothing happens to a file in /dev/shm. */
void fix_size(const UserPlace& place, const FileDescriptor& file);

/* A user id in decimal, and nothing else. */
std::optional<uid_t> user_number_in(std::string_view text);
/* All that there are with a directory for state and channels; in the module, for who is not root, his own. */
Result<std::vector<UserPlace>> places_with_directory();

} // namespace plumb

#endif
