#include "consumerd/control/container_places.h"

#include "base/processes.h"

#include <plumb/abi/state.h>

#include <fmt/format.h>

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <set>

namespace plumb {
namespace {

/* Each keeps a descriptor open as long as it is recorded. */
constexpr std::size_t containers_max = 256;

std::optional<std::uint64_t> mount_namespace_of(const std::string& process) {
    struct stat info {};
    if (::stat(fmt::format("/proc/{}/ns/mnt", process).c_str(), &info) != 0) return {};
    return info.st_ino;
}

SharedMemoryFolder folder_of(const struct stat& info) {
    return {info.st_dev, info.st_ino};
}

/* Cheaper than to open it, and good enough to ask whether it is what was opened: as long as that is open, its numbers are no other's. */
bool has_memory(std::uint32_t process_id, std::uint64_t key) {
    struct stat info {};
    return ::stat(fmt::format("{}/root/dev/shm", proc_folder(process_id)).c_str(), &info) != 0 ||
           folder_of(info).key() == key;
}

/* File systems of the kernel's own, which keep nobody waiting who looks for names there. */
constexpr std::uint64_t of_disks[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,       BTRFS_SUPER_MAGIC,
                                      F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, RAMFS_MAGIC};

bool is_of_disk(std::uint64_t type) {
    return std::find(std::begin(of_disks), std::end(of_disks), type) != std::end(of_disks);
}

std::uint64_t type_of(int fd) {
    struct statfs file_system {};
    return ::fstatfs(fd, &file_system) == 0 ? static_cast<std::uint64_t>(file_system.f_type) : 0;
}

/* "dev/shm" in its root: links are followed as the container's own processes follow them. */
FileDescriptor open_shared_memory(std::uint32_t process_id) {
    const FileDescriptor root(
        ::open(fmt::format("{}/root", proc_folder(process_id)).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root.is_open()) return {};
    open_how how{};
    how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    FileDescriptor found(static_cast<int>(::syscall(SYS_openat2, root.get(), "dev/shm", &how, sizeof(how))));
    const std::uint64_t type = found.is_open() ? type_of(found.get()) : 0;
    if (type != TMPFS_MAGIC && !is_of_disk(type)) found.reset();
    return found;
}

} // namespace

std::string Container::why_not() const {
    return type_of(shared_memory_.get()) == TMPFS_MAGIC
               ? ""
               : "their /dev/shm is a folder of a disk, and Plumb's memory has to be in a tmpfs";
}

std::string Container::path() const {
    return fmt::format("/proc/self/fd/{}", shared_memory_.get());
}

std::string Container::shown_path() const {
    return fmt::format("/proc/{}/root/dev/shm", process_id_);
}

bool Container::is_shown_by_its_process() const {
    return mount_namespace_of(fmt::to_string(process_id_)) == mount_namespace_;
}

std::shared_ptr<const Container> Container::called(std::uint64_t mount_namespace) const {
    FileDescriptor again(::fcntl(shared_memory_.get(), F_DUPFD_CLOEXEC, 0));
    if (!again.is_open()) return nullptr;
    return std::make_shared<const Container>(folder_, process_id_, mount_namespace, std::move(again));
}

std::shared_ptr<const Container> ContainerSearch::look_into(std::uint32_t process_id,
                                                            std::uint64_t mount_namespace) {
    if (known_.size() >= containers_max) return nullptr;
    FileDescriptor opened = open_shared_memory(process_id);
    struct stat its {
    }, ours{};
    if (!opened.is_open() || ::fstat(opened.get(), &its) != 0 || ::stat("/dev/shm", &ours) != 0 ||
        folder_of(its) == folder_of(ours))
        return nullptr;
    const SharedMemoryFolder folder = folder_of(its);
    for (const auto& [other, container] : known_) /* that of one which several namespaces share */
        if (container && container->key() == folder.key()) return container;
    return std::make_shared<const Container>(folder, process_id, mount_namespace, std::move(opened));
}

std::shared_ptr<const Container> ContainerSearch::of_process(std::uint32_t process_id) {
    const auto ours = mount_namespace_of("self");
    const auto its = mount_namespace_of(fmt::to_string(process_id));
    if (!ours || !its || *its == *ours) return nullptr;
    /* The kernel gives a new namespace the number of one that has just gone. */
    if (const auto known = known_.find(*its);
        known != known_.end() && known->second && has_memory(process_id, known->second->key()))
        return known->second;
    return known_[*its] = look_into(process_id, *its);
}

/* Under the number by which it was called. */
std::shared_ptr<const Container> ContainerSearch::find(std::uint64_t key, std::uint64_t mount_namespace) {
    const auto found = std::find_if(known_.begin(), known_.end(), [&](const auto& each) {
        return each.second && each.second->key() == key;
    });
    if (found == known_.end()) return nullptr;
    const std::shared_ptr<const Container> container = found->second;
    if (container->mount_namespace() == mount_namespace) return container;
    auto same = container->called(mount_namespace);
    if (!same) return nullptr;
    for (auto& [other, known] : known_)
        if (known == container) known = same;
    return same;
}

std::vector<std::shared_ptr<const Container>> ContainerSearch::all() {
    std::set<std::uint64_t> there;
    std::set<std::shared_ptr<const Container>> found;
    for (const std::uint32_t process_id : all_process_ids()) {
        const auto its = mount_namespace_of(fmt::to_string(process_id));
        if (!its || !there.insert(*its).second) continue;
        if (auto container = of_process(process_id)) found.insert(std::move(container));
    }
    std::erase_if(known_, [&](const auto& each) { return !there.contains(each.first); });
    return {found.begin(), found.end()};
}

std::vector<UserPlace> places_in(const std::shared_ptr<const Container>& container) {
    std::vector<UserPlace> places;
    constexpr std::string_view prefix = "plumb-";
    const auto names = list_directory(container->path());
    for (const std::string& name : names ? *names : std::vector<std::string>{}) {
        const auto number = name.starts_with(prefix)
                                ? user_number_in(std::string_view(name).substr(prefix.size()))
                                : std::nullopt;
        struct stat info {};
        if (!number || ::lstat((container->path() + "/" + name).c_str(), &info) != 0 ||
            !S_ISDIR(info.st_mode))
            continue;
        places.push_back({info.st_uid, DirectoryKeeper::shared_memory, container, *number});
    }
    return places;
}

} // namespace plumb
