#include "base/mapped_file.h"

#include "base/processes.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>

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

/* A line of /proc/PID/maps. */
struct Mapping {
    MappedFile file; /* this much of it */
    std::uint64_t offset = 0;
    std::string permissions;
};

bool parse_mapping(const std::string& line, Mapping& mapping) {
    unsigned long long start = 0, end = 0, offset = 0, inode = 0;
    unsigned major_number = 0, minor_number = 0;
    char permissions[8] = {};
    int path = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx %7s %llx %x:%x %llu %n", &start, &end, permissions, &offset,
                    &major_number, &minor_number, &inode, &path) < 7 ||
        inode == 0)
        return false;
    std::string name = line.substr(static_cast<std::size_t>(path));
    mapping.offset = offset;
    mapping.permissions = permissions;
    mapping.file = {
        start,           end,  ::makedev(major_number, minor_number), inode, permissions[2] == 'x',
        std::move(name), false};
    return true;
}

/* The kernel escapes newlines there, and them alone. */
std::string with_newlines(std::string path) {
    constexpr std::string_view escape = "\\012";
    for (std::size_t at = path.find(escape); at != std::string::npos; at = path.find(escape, at + 1))
        path.replace(at, escape.size(), "\n");
    return path;
}

/* From what the kernel calls it. A file may bear the very name that is made of another one's, so it is looked which of them is
 * there, by the process's own root; the process itself looks the same way (libtrace/introduce.cc). */
void settle_path(std::uint32_t process_id, MappedFile& file) {
    const bool has_mark = without_deleted(file.path).size() != file.path.size();
    const bool has_escape = file.path.find("\\012") != std::string::npos;
    if (!has_mark && !has_escape) return;
    const std::string root = proc_folder(process_id) + "/root";
    const auto is_there = [&](const std::string& path) {
        struct stat info {};
        return ::stat((root + path).c_str(), &info) == 0 && info.st_ino == file.inode;
    };
    if (is_there(file.path)) return;
    file.path = with_newlines(std::move(file.path));
    if (!has_mark || (has_escape && is_there(file.path))) return;
    file.path = without_deleted(std::move(file.path));
    file.removed = true;
}

/* Puts the mappings of a file together that are one image of it. Each image begins at the file's start, as does what
 * reads the file as data: above the image or below it, also without a gap. In an image that begins over, where its first
 * segments share the file's first page, other permissions come with each. */
class Images {
public:
    explicit Images(std::vector<MappedFile>& files) : files_(files) {}

    void add(Mapping&& mapping) {
        const std::pair key(mapping.file.device, mapping.file.inode);
        const auto [place, is_new] = last_.try_emplace(key);
        Last& last = place->second;
        if (is_new || (mapping.offset == 0 && !goes_on(last, mapping))) {
            last.image = files_.size();
            files_.push_back(std::move(mapping.file));
        } else {
            MappedFile& image = files_[last.image];
            image.end = std::max(image.end, mapping.file.end);
            image.executable |= mapping.file.executable;
        }
        last.end = files_[last.image].end;
        last.is_first_page = mapping.offset == 0 && last.end - mapping.file.base == page_bytes_;
        last.permissions = std::move(mapping.permissions);
    }

private:
    struct Last {
        std::size_t image = 0;
        std::uint64_t end = 0;
        bool is_first_page = false; /* of the file, and nothing else */
        std::string permissions;
    };
    static bool goes_on(const Last& last, const Mapping& mapping) {
        return last.is_first_page && mapping.file.base == last.end && mapping.permissions != last.permissions;
    }
    struct Hash {
        std::size_t operator()(const std::pair<std::uint64_t, std::uint64_t>& file) const {
            return file.second * 0x9e3779b97f4a7c15u ^ file.first;
        }
    };

    std::vector<MappedFile>& files_;
    const std::uint64_t page_bytes_ = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    std::unordered_map<std::pair<std::uint64_t, std::uint64_t>, Last, Hash> last_;
};

/* That of a thread is empty once it has ended: then another one's. Kernel threads have an empty one, too. */
Result<std::string> text_of_maps(std::uint32_t process_id) {
    constexpr std::size_t limit_bytes = std::size_t{64} << 20;
    constexpr int tries_max = 10;
    const std::string whole = fmt::format("/proc/{}", process_id);
    Result<std::string> text = read_small_file(whole + "/maps", limit_bytes);
    for (int tries = 0; tries < tries_max && (text ? text->empty() : text.error().number() == ESRCH);
         tries++) {
        const std::string folder = proc_folder(process_id);
        if (folder == whole) break;
        text = read_small_file(folder + "/maps", limit_bytes);
    }
    return text;
}

} // namespace

Result<std::vector<MappedFile>> mapped_files(std::uint32_t process_id) {
    const Result<std::string> text = text_of_maps(process_id);
    if (!text) return text.error();
    std::vector<MappedFile> files;
    Images images(files);
    std::size_t line = 0;
    while (line < text->size()) {
        std::size_t end = text->find('\n', line);
        if (end == std::string::npos) end = text->size();
        Mapping mapping;
        if (parse_mapping(text->substr(line, end - line), mapping)) {
            settle_path(process_id, mapping.file);
            images.add(std::move(mapping));
        }
        line = end + 1;
    }
    return files;
}

std::vector<std::uint32_t> processes_that_map(std::uint64_t device, std::uint64_t inode) {
    std::vector<std::uint32_t> processes;
    for (const std::uint32_t process_id : all_process_ids()) {
        const Result<std::vector<MappedFile>> files = mapped_files(process_id);
        if (!files) continue;
        const bool maps = std::any_of(files->begin(), files->end(), [&](const MappedFile& file) {
            return file.device == device && file.inode == inode;
        });
        if (maps) processes.push_back(process_id);
    }
    return processes;
}

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
