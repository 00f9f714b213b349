// The user's directory, where state file and channels live: one that plumb.ko keeps, where that is loaded, else
// /dev/shm/plumb-UID.
//
// The module is asked through its device, and by its system call only where there are no devices and no /dev/shm yet, as in the
// first process of a machine. A filter may end a program for a call that it does not expect, so who may have one asks for neither.
#include "directory.h"
#include "bytes.h"

#include "runtime.h"
#include "text.h"

#include <plumb/abi/module.h>
#include <plumb/detail/user_map.h>

namespace plumb {

namespace {

// abi/state.h's format without printf: this runs in signal handlers.
void directory_path(char* to, uint32_t user_id) {
    append_decimal(append(to, "/dev/shm/plumb-"), user_id);
}

constexpr int directory_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;

// A umask may take the owner's permissions, too. Nobody else can put a link there meanwhile: /dev/shm is sticky.
OpenFile make_directory(const char* path) {
    if (sys::call(SYS_mkdirat, AT_FDCWD, path, 0700) == 0) sys::call(SYS_fchmodat, AT_FDCWD, path, 0700);
    return OpenFile(path, directory_flags);
}

// By whose number the directory is named in a /dev/shm, where that of `user_id` is not one of his: nobody's is to be made if that
// is not known. In a user namespace he may be called by a number that is another's outside, as root's in a container without
// privileges.
uint32_t number_in_shared_memory(uint32_t user_id) {
    struct stat info;
    if (sys::status_of("/dev/shm", &info) != 0) return PLUMB_USER_HAS_NO_NUMBER;
    char map[PLUMB_USER_MAP_BYTES];
    const OpenFile file("/proc/self/uid_map", O_RDONLY);
    const long bytes = file.number() < 0 ? -1 : sys::read(file.number(), map, sizeof(map));
    if (bytes <= 0 && file.number() < 0) // no /proc, or no such namespaces
        return info.st_uid == PLUMB_USER_UNKNOWN ? PLUMB_USER_HAS_NO_NUMBER : user_id;
    const auto length = static_cast<uint32_t>(bytes < 0 ? 0 : bytes);
    return plumb_user_in_shared_memory(map, length, info.st_uid, user_id);
}

// Of who was last asked for. Where he is not called so in a /dev/shm, what his number is there.
struct {
    uint32_t user_id;
    uint32_t number;
} known_elsewhere = {PLUMB_USER_HAS_NO_NUMBER, 0};

uint32_t known_number(uint32_t user_id) {
    return load_relaxed(known_elsewhere.user_id) == user_id ? load_relaxed(known_elsewhere.number) : user_id;
}

// The kernel's.
struct linux_dirent64 {
    uint64_t d_ino;
    int64_t d_off;
    unsigned short d_reclen;
    unsigned char d_type;
    char d_name[1];
};

// PLUMB_USER_HAS_NO_NUMBER: it is no name of a user's directory.
uint32_t number_of_name(const char* name) {
    constexpr char prefix[] = "plumb-";
    for (size_t i = 0; i < sizeof(prefix) - 1; i++)
        if (name[i] != prefix[i]) return PLUMB_USER_HAS_NO_NUMBER;
    const char* const digits = name + sizeof(prefix) - 1;
    uint64_t number = 0;
    const char* at = digits;
    for (; *at >= '0' && *at <= '9' && at - digits < 10; at++)
        number = number * 10 + static_cast<uint64_t>(*at - '0');
    const bool is_number = at != digits && *at == '\0' && number < PLUMB_USER_HAS_NO_NUMBER;
    return is_number ? static_cast<uint32_t>(number) : PLUMB_USER_HAS_NO_NUMBER;
}

bool is_directory_of(uint32_t user_id, uint32_t number) {
    char path[64];
    directory_path(path, number);
    struct stat info;
    return sys::status_of(path, &info) == 0 && is_private(info, S_IFDIR, user_id);
}

// What a namespace within another one does not know its owner can tell: a directory that is there and his has his number outside. Of
// one whom nobody knows here it can not be told whether it is his.
uint32_t number_of_own_directory(uint32_t user_id) {
    const OpenFile memory("/dev/shm", directory_flags);
    if (memory.number() < 0 || user_id == PLUMB_USER_UNKNOWN) return PLUMB_USER_HAS_NO_NUMBER;
    constexpr uint32_t reads_max = 64; // of some 30 names each
    alignas(linux_dirent64) char entries[1024];
    for (uint32_t i = 0; i < reads_max; i++) {
        const long bytes = sys::call(SYS_getdents64, memory.number(), entries, sizeof(entries));
        if (bytes <= 0) break;
        for (long at = 0; at < bytes;) {
            const auto* const entry = reinterpret_cast<const linux_dirent64*>(entries + at);
            const uint32_t number = number_of_name(entry->d_name);
            if (number != PLUMB_USER_HAS_NO_NUMBER && is_directory_of(user_id, number)) return number;
            at += entry->d_reclen;
        }
    }
    return PLUMB_USER_HAS_NO_NUMBER;
}

OpenFile open_elsewhere(uint32_t user_id, uint32_t number, bool may_make) {
    store_relaxed(known_elsewhere.number, number);
    store_relaxed(known_elsewhere.user_id, user_id);
    char path[64];
    directory_path(path, number);
    OpenFile directory(path, directory_flags);
    return directory.number() == -ENOENT && may_make ? make_directory(path)
                                                     : static_cast<OpenFile&&>(directory);
}

OpenFile open_in_shared_memory(uint32_t user_id) {
    char path[64];
    directory_path(path, user_id);
    OpenFile directory(path, directory_flags);
    store_relaxed(known_elsewhere.user_id, PLUMB_USER_HAS_NO_NUMBER);
    if (directory.number() != -ENOENT && directory.number() != -EACCES) return directory;
    const uint32_t number = number_in_shared_memory(user_id);
    if (number == user_id)
        return directory.number() == -ENOENT ? make_directory(path) : static_cast<OpenFile&&>(directory);
    const uint32_t own = number_of_own_directory(user_id);
    if (own != PLUMB_USER_HAS_NO_NUMBER) return open_elsewhere(user_id, own, false);
    if (number == PLUMB_USER_HAS_NO_NUMBER) return directory;
    return open_elsewhere(user_id, number, true);
}

// Whoever starts a machine has no filter, and can not look for one before /proc is there. The first process of a container may
// have one, and can look.
bool is_before_proc() {
    return sys::process_id() == 1 && sys::effective_user_id() == 0 && may_be_told_of_filters();
}

// -errno; -ENODEV: there is a device, and it is not to be asked.
long ask_by_device(plumb_descriptor_request& asked) {
    const OpenFile device(PLUMB_DEVICE, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
    if (device.number() < 0) return device.number();
    if (inherited_filters() != 0) return -ENODEV;
    return sys::call(SYS_ioctl, device.number(), PLUMB_IOCTL(PLUMB_OPERATION_DIRECTORY, sizeof(asked)),
                     &asked);
}

long ask_by_call(plumb_descriptor_request& asked) {
    struct stat info;
    if (sys::status_of("/dev/shm", &info) != -ENOENT) return -ENODEV;
    if (inherited_filters() != 0 && !is_before_proc()) return -ENODEV;
    return sys::call(PLUMB_SYSCALL, PLUMB_OPERATION_DIRECTORY, &asked, sizeof(asked));
}

template <typename Ask>
OpenFile open_by(Ask ask) {
    plumb_descriptor_request asked = {0, -1};
    const long error = ask(asked);
    return error < 0 ? OpenFile::failed(static_cast<int>(error)) : OpenFile::taken_over(asked.descriptor);
}

// The call last: where there is a /dev/shm, which a look has found by then, it is not asked.
OpenFile open_of(uint32_t user_id, DirectoryKeeper& keeper) {
    OpenFile directory =
        keeper == DirectoryKeeper::shared_memory ? OpenFile::failed(-ENOENT) : open_by(ask_by_device);
    const bool may_ask_by_call = keeper != DirectoryKeeper::shared_memory && directory.number() == -ENOENT;
    if (directory.number() < 0 && keeper != DirectoryKeeper::module) {
        directory = open_in_shared_memory(user_id);
        if (directory.number() >= 0 || !may_ask_by_call) {
            keeper = DirectoryKeeper::shared_memory;
            return directory;
        }
    }
    const int error = directory.number();
    if (error < 0 && may_ask_by_call) directory = open_by(ask_by_call);
    if (directory.number() < 0) return OpenFile::failed(error < 0 ? error : directory.number());
    keeper = DirectoryKeeper::module;
    return directory;
}

} // namespace

bool is_private(const struct stat& info, mode_t type, uint32_t user_id) {
    return (info.st_mode & S_IFMT) == type && info.st_uid == user_id && (info.st_mode & 077) == 0;
}

OpenFile open_directory(uint32_t user_id, DirectoryKeeper& keeper) {
    OpenFile directory = open_of(user_id, keeper);
    if (directory.number() < 0) return directory;
    struct stat info;
    int error = sys::status(directory.number(), &info);
    if (error == 0 && !is_private(info, S_IFDIR, user_id)) error = -EPERM;
    return error == 0 ? static_cast<OpenFile&&>(directory) : OpenFile::failed(error);
}

OpenFile open_in_directory(uint32_t user_id, DirectoryKeeper keeper, const char* name, int flags) {
    if (keeper == DirectoryKeeper::module) {
        const OpenFile directory = open_directory(user_id, keeper);
        if (directory.number() < 0) return OpenFile::failed(directory.number());
        return OpenFile(directory.number(), name, flags);
    }
    char path[128];
    directory_path(path, known_number(user_id));
    append(append(path + length_of(path), "/"), name);
    return OpenFile(path, flags);
}

// Nobody can cut it then. In /dev/shm its owner can.
void fix_size(const OpenFile& file, DirectoryKeeper keeper) {
    plumb_descriptor_request fixed = {PLUMB_DIRECTORY_FIX_SIZE, file.number()};
    if (keeper == DirectoryKeeper::module && ask_by_device(fixed) == -ENOENT) (void)ask_by_call(fixed);
}

} // namespace plumb
