/*
 * Containers whose programs do not look where ours do: those in a mount namespace with a /dev/shm of its own. It is reached through
 * /proc/PID/root of a process there, once, and kept open; no link in it leads out of the container.
 *
 * What is there is the container's to change, and whoever is root in it may have put anything there: as of every user's directory,
 * nothing of it is believed (user_directory.h).
 */
#ifndef PLUMB_CONSUMERD_CONTROL_CONTAINER_PLACES_H
#define PLUMB_CONSUMERD_CONTROL_CONTAINER_PLACES_H

#include "base/file.h"
#include "consumerd/control/directory_keeper.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

/* A /dev/shm: it may be a folder in another one's file system, as that of a Flatpak application is in ours. */
struct SharedMemoryFolder {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;

    /* The kernel's numbers of devices have 32 bits, those of a tmpfs's files begin with 1. */
    std::uint64_t key() const { return inode << 32 | device; }
    bool operator==(const SharedMemoryFolder&) const = default;
};

/* The shared memory of one. */
class Container {
public:
    Container(SharedMemoryFolder folder, std::uint32_t process_id, std::uint64_t mount_namespace,
              FileDescriptor shared_memory)
        : folder_(folder),
          process_id_(process_id),
          mount_namespace_(mount_namespace),
          shared_memory_(std::move(shared_memory)) {}

    std::uint64_t key() const { return folder_.key(); } /* which it is */
    std::uint64_t device() const { return folder_.device; }
    /* Why nothing is recorded there; empty: nothing is in the way. */
    std::string why_not() const;
    std::uint64_t mount_namespace() const { return mount_namespace_; }
    /* The same, by another of its namespaces; nothing if there is no descriptor left. */
    std::shared_ptr<const Container> called(std::uint64_t mount_namespace) const;
    /* A path that leads there for this process, and one for messages. */
    std::string path() const;
    std::string shown_path() const;
    /* Whether the latter leads there: as long as the process lives by which it was found. */
    bool is_shown_by_its_process() const;

private:
    SharedMemoryFolder folder_;
    std::uint32_t process_id_;
    std::uint64_t mount_namespace_;
    FileDescriptor shared_memory_;
};

/* Looks at processes for containers; of each mount namespace at one. Only root sees those of others. */
class ContainerSearch {
public:
    /* Where a process of it looks; nothing if that is where ours do, or it can not be seen. */
    std::shared_ptr<const Container> of_process(std::uint32_t process_id);
    /* One that another search found before; nothing if all() has not found it. */
    std::shared_ptr<const Container> find(std::uint64_t key, std::uint64_t mount_namespace);
    /* All that there are: a look at each process. */
    std::vector<std::shared_ptr<const Container>> all();

private:
    std::shared_ptr<const Container> look_into(std::uint32_t process_id, std::uint64_t mount_namespace);
    /* By mount namespace; nullptr: it has no shared memory of its own. Those that nobody needs any more are forgotten by all(). */
    std::map<std::uint64_t, std::shared_ptr<const Container>> known_;
};

/* Users with a directory there, by whatever number it has in a user namespace. */
std::vector<UserPlace> places_in(const std::shared_ptr<const Container>& container);

} // namespace plumb

#endif
