#include "base/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace plumb {
namespace {

struct Identity {
    std::uint64_t device = 0, inode = 0;
};

Identity identity_of(const FileDescriptor& file) {
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) return {};
    return {info.st_dev, info.st_ino};
}

/* "/proc/1/map_files/55d0c0a00000-55d0c0a01000": the mapping that begins there. Only root may follow it. */
Result<std::string> path_of_mapping(std::uint32_t process_id, std::uint64_t base) {
    const std::string directory = fmt::format("/proc/{}/map_files", process_id);
    const Result<std::vector<std::string>> names = list_directory(directory);
    if (!names) return names.error();
    const std::string beginning = fmt::format("{:x}-", base);
    for (const std::string& name : *names)
        if (name.starts_with(beginning)) return directory + "/" + name;
    return Error("No mapping begins at {:x}.", base);
}

} // namespace

Result<FileDescriptor> open_mapped_file(std::uint32_t process_id, const MappedFile& file) {
    /* By the process's own root: it may be in a container. */
    const std::string path = proc_folder(process_id) + "/root" + file.path;
    Result<FileDescriptor> by_path = open_regular_file(path);
    const Identity found = by_path ? identity_of(*by_path) : Identity{};
    if (by_path && found.device == file.device && found.inode == file.inode) return by_path;
    /* Two ways that lead to the file itself. */
    if (const auto executable = executable_of(process_id); executable && *executable == file.path)
        if (auto by_link = open_regular_file(proc_folder(process_id) + "/exe")) return by_link;
    if (const auto mapping = path_of_mapping(process_id, file.base))
        if (auto by_mapping = open_regular_file(*mapping)) return by_mapping;
    if (!by_path) return by_path;
    /* overlayfs and btrfs show another device in /proc/PID/maps than stat() does. */
    if (found.inode == file.inode) return by_path;
    return Error("{} is not the file that process {} maps any more.", path, process_id);
}

std::uint64_t device_in_maps(int fd) {
    struct stat info {};
    if (::fstat(fd, &info) != 0) return 0;
    const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const place = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE, fd, 0);
    if (place == MAP_FAILED) return info.st_dev;
    const auto address = reinterpret_cast<std::uintptr_t>(place);
    std::uint64_t device = info.st_dev;
    const auto files = mapped_files(static_cast<std::uint32_t>(::getpid()));
    for (const MappedFile& file : files ? *files : std::vector<MappedFile>{})
        if (file.inode == info.st_ino && file.base <= address && address < file.end) device = file.device;
    ::munmap(place, bytes);
    return device;
}

} // namespace plumb
