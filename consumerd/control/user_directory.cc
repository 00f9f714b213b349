#include "consumerd/control/user_directory.h"

#include "base/mapped_region.h"
#include "base/memory_room.h"
#include "consumerd/control/container_places.h"

#include <plumb/abi/state.h>
#include <plumb/detail/user_map.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

namespace plumb {

namespace {

/* 0, or a number of errno. */
int allocate(const FileDescriptor& file, std::uint64_t begin, std::uint64_t end) {
    int result;
    do {
        result = begin == end
                     ? 0
                     : ::fallocate(file.get(), 0, static_cast<off_t>(begin), static_cast<off_t>(end - begin));
    } while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

/* What somebody has made there himself: `by_path` where a path leads to it. */
Error with_remedy(const Error& error, const UserPlace& place, const std::string& by_path) {
    if (place.keeper != DirectoryKeeper::module) return error.hint("{}", by_path);
    return error.hint(
        "Its owner made it so, and no path leads there: `rmmod plumb; modprobe plumb` takes it away, when no "
        "program has tracepoints any more.");
}

/* As programs do: libtrace/directory.cc. */
bool may_make_in_shared_memory(uid_t user_id) {
    struct stat info {};
    if (::stat("/dev/shm", &info) != 0) return true; /* which is told of where it is used */
    const auto map = read_small_file("/proc/self/uid_map");
    if (!map) return info.st_uid != PLUMB_USER_UNKNOWN;
    return plumb_user_in_shared_memory(map->data(), static_cast<uint32_t>(map->size()), info.st_uid,
                                       user_id) == user_id;
}

constexpr const char* record_elsewhere =
    "Record from outside, or with one of its own: `unshare -m sh -c 'mount -t tmpfs tmpfs "
    "/dev/shm; plumb record ...'`.";

/* Of what could not be opened. */
Error explain_refusal(Error error, const std::string& path, uid_t user_id) {
    if (error.number() != EACCES && error.number() != EPERM) return error;
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) return error;
    if (info.st_uid != user_id && path.starts_with("/dev/shm/") && !may_make_in_shared_memory(user_id))
        return error.hint("It belongs to another user: /dev/shm is not of this user namespace. {}",
                          record_elsewhere);
    if (info.st_uid != user_id) return error.hint("It belongs to another user.");
    const bool is_directory = S_ISDIR(info.st_mode);
    const mode_t needed = is_directory ? 0700 : 0600;
    if ((info.st_mode & needed) == needed) return error;
    return error.hint("Not even its owner may use it (mode {:04o}): run `chmod {:o} {}`.",
                      info.st_mode & 07777, needed, path);
}

Error describe_missing(int number, const std::string& path, uid_t user_id) {
    Error error = Error::from_errno(number, "Could not open the directory {}", path);
    if (number == EACCES || number == EPERM) return explain_refusal(error, path, user_id);
    if (number == ELOOP || number == ENOTDIR)
        return error.hint("It must be a directory, not a link or a file: remove it.");
    if (number == EROFS)
        return error.hint("/dev/shm is mounted read-only: remount it with `mount -o remount,rw /dev/shm`.");
    return error;
}

/* Whether the open directory may be trusted. */
Status check_directory(int fd, const std::string& shown, const UserPlace& place) {
    struct stat info {};
    if (::fstat(fd, &info) != 0) return Error::from_errno(errno, "Could not inspect {}", shown);
    if (place.container && info.st_dev != place.container->device())
        return Error("The directory {} is of another file system than the /dev/shm around it.", shown);
    if (info.st_uid != place.user_id)
        return Error("The directory {} belongs to user {}, not to user {}.", shown, info.st_uid,
                     place.user_id)
            .hint("Somebody else made it: have it removed.");
    if ((info.st_mode & 077) != 0)
        return with_remedy(
            Error("The directory {} may be entered by others (mode {:04o}).", shown, info.st_mode & 07777),
            place, fmt::format("If you made it so, run `chmod 700 {}`; else remove it.", shown));
    return ok();
}

/* `shown`: for messages. */
Result<FileDescriptor> open_directory(const std::string& path, const std::string& shown,
                                      const UserPlace& place) {
    FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd.is_open()) return describe_missing(errno, path, place.user_id);
    const Status trusted = check_directory(fd.get(), shown, place);
    if (!trusted) return trusted.error();
    return fd;
}

} // namespace

/* What recorders left that were killed before they named it. Whoever is just making one is spared, and what is not empty stays. */
static void remove_unnamed(const std::string& path, uid_t user_id) {
    constexpr time_t left_after_s = 10;
    constexpr std::size_t random_characters = 6;
    const std::size_t name_at = path.rfind('/') + 1;
    const std::string beginning = path.substr(name_at) + ".";
    const auto names = list_directory(path.substr(0, name_at));
    for (const std::string& name : names ? *names : std::vector<std::string>{}) {
        if (!name.starts_with(beginning) || name.size() != beginning.size() + random_characters) continue;
        const std::string left = path.substr(0, name_at) + name;
        struct stat info {};
        if (::lstat(left.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) ||
            (info.st_uid != ::geteuid() && info.st_uid != user_id) ||
            ::time(nullptr) - info.st_mtime < left_after_s)
            continue;
        ::rmdir(left.c_str());
    }
}

/* Made under another name, which nobody looks at: a recorder that is killed before the directory is the user's would
 * lock the user out of it. */
static Status make_directory_of_other(const std::string& path, uid_t user_id) {
    remove_unnamed(path, user_id);
    if (::access(path.c_str(), F_OK) == 0) return Error::from_errno(EEXIST, "{}", path);
    std::string made = path + ".XXXXXX";
    if (::mkdtemp(made.data()) == nullptr)
        return Error::from_errno(errno, "Could not make the directory {}", made);
    Status given = ok();
    if (::chmod(made.c_str(), 0700) != 0) /* whatever the umask */
        given = Error::from_errno(errno, "Could not change the mode of {}", made);
    else if (::lchown(made.c_str(), user_id, static_cast<gid_t>(-1)) != 0)
        given = Error::from_errno(errno, "Could not give the directory {} to user {}", made, user_id);
    else if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) != 0)
        given = Error::from_errno(errno, "Could not make the directory {}", path);
    if (!given) ::rmdir(made.c_str());
    return given;
}

static Status make_directory(const std::string& path, uid_t user_id) {
    if (user_id != ::geteuid()) return make_directory_of_other(path, user_id);
    if (::mkdir(path.c_str(), 0700) != 0 || ::chmod(path.c_str(), 0700) != 0) /* whatever the umask */
        return Error::from_errno(errno, "Could not make the directory {}", path);
    return ok();
}

static Status make_if_missing(const std::string& path, const UserPlace& place) {
    const Status made = make_directory(path, place.user_id);
    if (made || made.error().number() == EEXIST) return ok();
    const Error& error = made.error();
    const int number = error.number();
    if (place.keeper == DirectoryKeeper::module)
        return number == ENOSPC ? error.hint("plumb.ko's memory is full: `plumb doctor` says what to do.")
                                : error;
    if (number == ENOENT)
        return error.hint("Is /dev/shm mounted? `mount -t tmpfs tmpfs /dev/shm` mounts it.");
    if (number == EROFS) return error.hint("/dev/shm is mounted read-only: `mount -o remount,rw /dev/shm`.");
    if (number == ENOSPC) return error.hint("/dev/shm is full: remove what is not needed there.");
    return error;
}

Status is_of_this_namespace(const std::string& path, uid_t user_id) {
    struct stat there {};
    if (may_make_in_shared_memory(user_id)) return ok();
    if (::lstat(path.c_str(), &there) == 0 && there.st_uid == user_id) return ok();
    return Error("/dev/shm is not of this user namespace, where user {} may be somebody else outside, so "
                 "nothing was made there.",
                 user_id)
        .hint("{}", record_elsewhere);
}

Result<UserDirectory> UserDirectory::open_or_create(const UserPlace& place) {
    if (place.keeper == DirectoryKeeper::module && place.user_id == ::geteuid()) return open_existing(place);
    const auto path = plumb::path_of(place);
    if (!path) return path.error();
    if (place.keeper == DirectoryKeeper::shared_memory)
        if (const Status is = is_of_this_namespace(*path, place.user_id); !is) return is.error();
    if (Status made = make_if_missing(*path, place); !made) return made.error();
    return open_existing(place);
}

Result<UserDirectory> UserDirectory::open_or_create_at(const std::string& path, uid_t user_id) {
    if (Status made = make_if_missing(path, {user_id, DirectoryKeeper::shared_memory}); !made)
        return made.error();
    return open_existing_at(path, user_id);
}

Result<UserDirectory> UserDirectory::open_existing(const UserPlace& place) {
    if (place.keeper == DirectoryKeeper::module && place.user_id == ::geteuid()) {
        FileDescriptor fd = open_own_of_module();
        if (!fd.is_open()) return Error::from_errno(ENOENT, "plumb.ko gives no directory any more");
        const std::string shown = shown_path_of(place);
        if (Status trusted = check_directory(fd.get(), shown, place); !trusted) return trusted.error();
        return UserDirectory(shown, place, std::move(fd));
    }
    const auto path = plumb::path_of(place);
    if (!path) return path.error();
    const std::string shown = shown_path_of(place);
    Result<FileDescriptor> fd = open_directory(*path, shown, place);
    if (!fd) return fd.error();
    return UserDirectory(shown, place, std::move(*fd));
}

Result<std::vector<UserDirectory>> UserDirectory::all_existing(uid_t user_id) {
    std::vector<UserDirectory> all;
    for (const UserPlace& place : places_of(user_id)) {
        auto directory = open_existing(place);
        if (directory)
            all.push_back(std::move(*directory));
        else if (directory.error().number() != ENOENT)
            return directory.error();
    }
    return all;
}

Result<UserDirectory> UserDirectory::open_existing_at(const std::string& path, uid_t user_id) {
    const UserPlace place = {user_id, DirectoryKeeper::shared_memory};
    Result<FileDescriptor> fd = open_directory(path, path, place);
    if (!fd) return fd.error();
    return UserDirectory(path, place, std::move(*fd));
}

/* The user's recorders take memory one after the other: of several who begin at once each would take a part of what there is, fail, and
 * give it back, as often as they try. Who waits for one that was stopped goes on without a turn. */
class ReservingTurn {
public:
    explicit ReservingTurn(int directory_fd)
        : own_(::openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
        constexpr int longest_wait_ms = 5'000, pause_ms = 5;
        for (int waited_ms = 0; waited_ms < longest_wait_ms; waited_ms += pause_ms) {
            if (!own_.is_open() || ::flock(own_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
                return;
            ::usleep(pause_ms * 1000);
        }
    }
    ~ReservingTurn() { ::flock(own_.get(), LOCK_UN); } /* a child may have the descriptor still */
    ReservingTurn(const ReservingTurn&) = delete;
    ReservingTurn& operator=(const ReservingTurn&) = delete;

private:
    FileDescriptor own_; /* another opening: flock() asks which one it is */
};

/* Now: a later lack of it would be a SIGBUS in the application. */
Status UserDirectory::reserve(const FileDescriptor& file, const std::string& name, std::uint64_t bytes,
                              Hole hole) const {
    const ReservingTurn turn(fd_.get());
    std::uint64_t available = 0;
    bool is_room_known = false;
    const auto try_it = [&] {
        struct statvfs room {};
        is_room_known = ::fstatvfs(fd_.get(), &room) == 0 && room.f_blocks != 0;
        available = room_of_file_system(room);
        if (is_room_known && available < bytes) return ENOSPC;
        const int number = allocate(file, 0, hole.begin == hole.end ? bytes : hole.begin);
        return number == 0 && hole.begin != hole.end ? allocate(file, hole.end, bytes) : number;
    };
    int number = try_it();
    const bool seemed_enough = available >= bytes;
    /* Another user's recorder may just take what it gives back at once. */
    constexpr int tries = 6, pause_us = 20'000;
    for (int i = 1; i < tries && number == ENOSPC && seemed_enough; i++) {
        ::usleep(static_cast<useconds_t>(pause_us * i * (1 + ::getpid() % tries) / tries));
        number = try_it();
    }
    if (number == 0) return ok();
    if ((number == ENOSPC || number == ENOMEM) && is_room_known) {
        const bool is_channel = name != PLUMB_STATE_FILE;
        return Error("Too little shared memory for {}: {} ({} bytes) are needed, {} ({} bytes) are "
                     "available{}.",
                     path_of_file(name), in_mib(bytes), bytes, in_mib(available), available,
                     available < bytes ? "" : ", of which others are just taking some")
            .hint("{} {}.{}",
                  is_channel ? "Use fewer or smaller sub-buffers (--subbuf-count, --subbuf-size), remove"
                             : "Remove",
                  place_.keeper == DirectoryKeeper::module
                      ? "what others have in plumb.ko's memory (`plumb extract --remove` of its user, or "
                        "`rmmod plumb`)"
                      : "files from /dev/shm, or enlarge it (`mount -o remount,size=... /dev/shm`)",
                  is_channel ? "" : " `plumb doctor` says how much a session takes besides.");
    }
    return Error::from_errno(number, "Could not reserve {} bytes for {}", bytes, path_of_file(name));
}

/* On a file system of a user namespace whoever has no number there, as root of outside, makes no files. This thread does it as the
 * directory's owner. */
class AsOwner {
public:
    explicit AsOwner(const UserPlace& place, int directory_fd) {
        struct stat info {};
        if (!place.container || place.user_there == place.user_id || ::fstat(directory_fd, &info) != 0)
            return;
        group_id_ = static_cast<gid_t>(::setfsgid(info.st_gid));
        user_id_ = static_cast<uid_t>(::setfsuid(info.st_uid));
        is_on_ = true;
    }
    ~AsOwner() {
        if (!is_on_) return;
        ::setfsuid(user_id_);
        ::setfsgid(group_id_);
    }
    AsOwner(const AsOwner&) = delete;
    AsOwner& operator=(const AsOwner&) = delete;

private:
    bool is_on_ = false;
    uid_t user_id_ = 0;
    gid_t group_id_ = 0;
};

static FileDescriptor open_unnamed(const UserPlace& place, int directory_fd) {
    const AsOwner as_owner(place, directory_fd);
    return FileDescriptor(::openat(directory_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
}

static int name_file(const UserPlace& place, int directory_fd, int file_fd, const std::string& name) {
    const AsOwner as_owner(place, directory_fd);
    const std::string unnamed = fmt::format("/proc/self/fd/{}", file_fd);
    return ::linkat(AT_FDCWD, unnamed.c_str(), directory_fd, name.c_str(), AT_SYMLINK_FOLLOW);
}

Result<FileDescriptor> UserDirectory::create_file(const std::string& name, std::uint64_t bytes,
                                                  const std::function<Status(std::span<std::byte>)>& fill,
                                                  const std::function<Status(int)>& before_it_is_named,
                                                  Hole hole) const {
    FileDescriptor file = open_unnamed(place_, fd_.get());
    if (!file.is_open())
        return explain_refusal(Error::from_errno(errno, "Could not make a file in {}", path_), path_,
                               user_id());
    if (::fchmod(file.get(), 0600) != 0) /* whatever the umask */
        return Error::from_errno(errno, "Could not change the mode of a file in {}", path_);
    if (user_id() != ::geteuid() && ::fchown(file.get(), user_id(), static_cast<gid_t>(-1)) != 0)
        return Error::from_errno(errno, "Could not give a file in {} to user {}", path_, user_id());
    const Status reserved = reserve(file, name, bytes, hole);
    if (!reserved) return reserved.error();
    fix_size(place_, file);
    {
        Result<MappedRegion> region = map_file(file, bytes, true, path_of_file(name));
        if (!region) return region.error();
        const Status filled = fill({static_cast<std::byte*>(region->get_address()), region->get_size()});
        if (!filled) return filled.error();
    }
    if (before_it_is_named) {
        const Status done = before_it_is_named(file.get());
        if (!done) return done.error();
    }
    if (name_file(place_, fd_.get(), file.get(), name) != 0)
        return Error::from_errno(errno, "Could not name {}", path_of_file(name));
    return file;
}

Result<FileDescriptor> UserDirectory::open_file(const std::string& name, bool writable) const {
    const int access = writable ? O_RDWR : O_RDONLY;
    FileDescriptor file(::openat(fd_.get(), name.c_str(), access | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file.is_open())
        return explain_refusal(Error::from_errno(errno, "Could not open {}", path_of_file(name)),
                               path_of_file(name), user_id());
    struct stat info {};
    if (::fstat(file.get(), &info) != 0)
        return Error::from_errno(errno, "Could not inspect {}", path_of_file(name));
    if (place_.container && info.st_dev != place_.container->device())
        return Error("{} is of another file system than the directory that it is in.", path_of_file(name));
    if (!S_ISREG(info.st_mode) || info.st_uid != user_id() || (info.st_mode & 077) != 0)
        return with_remedy(Error("{} is not a private file of user {}.", path_of_file(name), user_id()),
                           place_, "Nothing of Plumb makes such a file: remove it.");
    return file;
}

Status UserDirectory::check() const {
    struct stat own {};
    if (::fstat(fd_.get(), &own) != 0) return Error::from_errno(errno, "Could not inspect {}", path_);
    const auto is_named_at = [&](const std::string& path) {
        struct stat named {};
        return ::lstat(path.c_str(), &named) == 0 && named.st_ino == own.st_ino && named.st_dev == own.st_dev;
    };
    /* A path leads there in /dev/shm alone. In the module it is its own user's by its name, unless root has removed it. That of a
     * container's is some process's, which may have ended while others go on, or as the last one. */
    const auto is_still_there = [&] {
        if (place_.keeper == DirectoryKeeper::module) return own.st_nlink != 0;
        if (!place_.container || place_.container->is_shown_by_its_process()) return is_named_at(path_);
        const auto path = path_of(place_);
        return path && is_named_at(*path);
    };
    if (!is_still_there()) return Error("The directory {} was removed or replaced.", path_);
    return check_directory(fd_.get(), path_, place_);
}

bool UserDirectory::is_named(const std::string& name, int fd) const {
    struct stat own {};
    struct stat named {};
    return ::fstat(fd, &own) == 0 && ::fstatat(fd_.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           named.st_ino == own.st_ino && named.st_dev == own.st_dev;
}

Status UserDirectory::unlink_file(const std::string& name) const {
    if (::unlinkat(fd_.get(), name.c_str(), 0) == 0 || errno == ENOENT) return ok();
    return Error::from_errno(errno, "Could not remove {}", path_of_file(name));
}

Result<std::vector<std::string>> UserDirectory::file_names() const {
    return list_directory(fmt::format("/proc/self/fd/{}", fd_.get()));
}

} // namespace plumb
