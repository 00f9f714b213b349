#include "consumerd/sink/trace_directory.h"

#include "base/file.h"
#include "base/output_buffer.h"
#include "base/processes.h"
#include "base/trace_folders.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <new>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

namespace plumb {

namespace {

namespace fs = std::filesystem;

bool is_stream_name(std::string_view name) {
    for (const std::string_view prefix : {std::string_view("ring_"), std::string_view("extra_ring_")}) {
        if (name.substr(0, prefix.size()) != prefix || name.size() == prefix.size()) continue;
        return name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
    }
    return name == "statedump";
}

bool is_plumb_metadata(const fs::path& path) {
    constexpr std::size_t start_bytes = 4096;
    const auto start = read_small_file(path, start_bytes);
    return start && start->find("plumb_version = \"") != std::string::npos;
}

bool is_plumb_summary(const fs::path& path) {
    constexpr std::size_t most_bytes = std::size_t{16} << 20;
    const auto text = read_small_file(path, most_bytes);
    return text && text->find("\"events_by_name\":") != std::string::npos &&
           text->find("\"events_lost_by_cause\":") != std::string::npos;
}

/* "trace/" is the directory "trace". */
std::string without_slashes(const std::string& path) {
    const std::size_t last = path.find_last_not_of('/');
    return last == std::string::npos ? path.substr(0, 1) : path.substr(0, last + 1);
}

struct TracePart {
    fs::path path;
    bool is_at_top; /* not in a folder of the trace's directory */
};

/* The files that make up the trace, or the snapshots; or why it is neither. What is in a folder comes before it. */
Result<std::vector<TracePart>> trace_files(const fs::path& path, bool may_hold_others = true) {
    std::vector<TracePart> files;
    std::error_code failed;
    /* Of a link, what it is, and not where it leads: that may be nowhere, or in a circle. */
    const auto type_of = [](const fs::directory_entry& entry) {
        std::error_code unknown;
        return entry.symlink_status(unknown).type();
    };
    for (fs::directory_iterator at(path, failed), end; !failed && at != end; at.increment(failed)) {
        const fs::directory_entry& entry = *at;
        const std::string name = entry.path().filename();
        if ((name == "summary.json" || name == ".summary.json.new" || name == journal_name) &&
            type_of(entry) == fs::file_type::regular) {
            files.push_back({entry.path(), true});
            continue;
        }
        const bool is_folder = type_of(entry) == fs::file_type::directory;
        if (may_hold_others && is_folder &&
            (is_one_of_several(name) || is_unfinished_snapshot(name) || is_aside_folder(name))) {
            auto inner = trace_files(entry.path(), is_aside_folder(name));
            if (!inner) return inner.error();
            for (TracePart& part : *inner)
                files.push_back({std::move(part.path), false});
            files.push_back({entry.path(), true});
            continue;
        }
        if (!is_domain_folder(name) || !is_folder)
            return Error("{} is not part of a Plumb trace", entry.path().string());
        std::error_code unreadable;
        for (fs::directory_iterator inner(entry.path(), unreadable); !unreadable && inner != end;
             inner.increment(unreadable)) {
            const fs::path& part = inner->path();
            const std::string file = part.filename();
            const bool is_metadata = file == "metadata" && is_plumb_metadata(part);
            if (!is_metadata && !is_stream_name(file) && file != ".metadata.new")
                return Error("{} is not part of a Plumb trace", part.string());
            files.push_back({part, false});
        }
        if (unreadable) return Error("it cannot be read: {}", unreadable.message());
        files.push_back({entry.path(), true});
    }
    if (failed) return Error("it cannot be read: {}", failed.message());
    return files;
}

/* Names alone may be anybody's: one of the files has to say that a recorder wrote it. There may be none, where one was killed
 * as it began. */
bool is_of_recorder(const std::vector<TracePart>& files) {
    bool has_files = false;
    for (const TracePart& part : files) {
        std::error_code unknown;
        if (fs::symlink_status(part.path, unknown).type() == fs::file_type::directory) continue;
        has_files = true;
        const std::string name = part.path.filename();
        if (name == "metadata" || name == ".metadata.new"    ? is_plumb_metadata(part.path)
            : name.find("summary.json") != std::string::npos ? is_plumb_summary(part.path)
                                                             : false)
            return true;
    }
    return !has_files;
}

/* But for the folder `spared` in it. */
Status remove_trace_files(const std::string& path, const std::string& spared = {}) {
    std::error_code failed;
    const auto files = trace_files(path);
    if (!files) return files.error();
    const std::string kept = spared.empty() ? "" : (fs::path(path) / spared).string();
    for (const auto& [file, is_at_top] : *files) {
        if (!kept.empty() && (file.native() == kept || file.native().starts_with(kept + "/"))) continue;
        if (!fs::remove(file, failed) && failed)
            return Error("Could not remove {}: {}.", file.string(), failed.message());
    }
    return ok();
}

/* Within a folder. On overlayfs, a folder of a lower layer can not be renamed (EXDEV), but what is in it can. Returns 0, or
 * the errno. */
int move_in(int folder, const std::string& from, const std::string& to) {
    if (::renameat(folder, from.c_str(), folder, to.c_str()) == 0) return 0;
    if (errno != EXDEV) return errno;
    struct stat info {};
    if (::fstatat(folder, from.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return errno;
    if (!S_ISDIR(info.st_mode)) return EXDEV;
    const auto names = list_directory(fmt::format("/proc/self/fd/{}/{}", folder, from));
    if (!names) return names.error().number();
    if (::mkdirat(folder, to.c_str(), info.st_mode & 07777) != 0 && errno != EEXIST) return errno;
    for (const std::string& name : *names)
        if (const int failed = move_in(folder, from + "/" + name, to + "/" + name); failed != 0)
            return failed;
    return ::unlinkat(folder, from.c_str(), AT_REMOVEDIR) == 0 ? 0 : errno;
}

void remove_aside(const std::string& path, const TraceDirectory::Say& say) try {
    Status removed = remove_trace_files(path);
    if (removed && ::rmdir(path.c_str()) != 0) removed = Error::from_errno(errno, "Could not remove it");
    if (!removed)
        say(fmt::format("the trace that was replaced is still in {}: {}", path, removed.error().message()));
} catch (const std::bad_alloc&) {
    say("the trace that was replaced is still there: memory ran out.");
}

/* The file system of an open file as /proc/locks names it, "00:2d:". That is not always what stat() says: btrfs has numbers of
 * its own for its parts, and mountinfo tells the one that is meant. */
std::string file_system_of(int fd, const struct stat& info) {
    unsigned major_number = major(info.st_dev), minor_number = minor(info.st_dev);
    const std::string mounts_key = "mnt_id:";
    std::ifstream about(fmt::format("/proc/self/fdinfo/{}", fd));
    long wanted = -1;
    for (std::string line; std::getline(about, line);)
        if (line.starts_with(mounts_key)) wanted = std::strtol(line.c_str() + mounts_key.size(), nullptr, 10);
    std::ifstream mounts("/proc/self/mountinfo");
    for (std::string line; wanted >= 0 && std::getline(mounts, line);) {
        long number = 0, parent = 0;
        unsigned a = 0, b = 0;
        if (std::sscanf(line.c_str(), "%ld %ld %u:%u", &number, &parent, &a, &b) == 4 && number == wanted) {
            major_number = a;
            minor_number = b;
        }
    }
    return fmt::format("{:02x}:{:02x}:", major_number, minor_number);
}

/* The process that has locked an open file, 0 if it can not be seen: another user's, or in another namespace. A line is
 * "1: FLOCK  ADVISORY  WRITE 1234 00:2d:56789 0 EOF". */
std::uint32_t holder_of_lock(int fd) {
    struct stat info {};
    if (::fstat(fd, &info) != 0) return 0;
    const std::string wanted = file_system_of(fd, info) + std::to_string(info.st_ino);
    std::ifstream locks("/proc/locks");
    for (std::string line; std::getline(locks, line);) {
        std::istringstream words(line);
        std::string number, kind, advisory, access, place;
        std::uint32_t process_id = 0;
        if (!(words >> number >> kind >> advisory >> access >> process_id >> place) || kind != "FLOCK")
            continue;
        if (place == wanted) return process_id;
    }
    return 0;
}

} // namespace

std::uint32_t writer_of(const std::string& path) {
    const auto folder = Folder::open(path);
    return folder ? holder_of_lock(folder->fd()) : 0;
}

bool is_being_written(const std::string& path) {
    return writer_of(path) != 0;
}

/* "plumb-trace-20240131-235959", with a number behind it if that is taken: by whoever made it first. */
Result<TraceDirectory> TraceDirectory::claim_any(bool is_private, const Say& say) {
    const std::string name = fmt::format("plumb-trace-{:%Y%m%d-%H%M%S}", fmt::localtime(std::time(nullptr)));
    constexpr int numbers_max = 10'000;
    for (int i = 1; i < numbers_max; i++) {
        auto claimed = claim(i == 1 ? name : fmt::format("{}-{}", name, i), false, is_private, say);
        if (claimed || claimed.error().number() != EEXIST) return claimed;
    }
    return Error("{} and all names like it are taken.", name).hint("Choose a directory with -o.");
}

Result<TraceDirectory> TraceDirectory::claim(const std::string& as_given, bool force, bool is_private,
                                             const Say& say) {
    if (as_given.empty()) return claim_any(is_private, say);
    const std::string path = without_slashes(as_given);
    constexpr int tries_max = 10; /* who has just finished there may remove it between our steps */
    for (int tries = 0; tries < tries_max; tries++) {
        const bool is_new = ::mkdir(path.c_str(), is_private ? 0700 : 0755) == 0;
        if (!is_new && errno != EEXIST)
            return Error::from_errno(errno, "Could not make the trace directory {}", path);
        if (!is_new && !force)
            return Error("{} exists already.", path)
                .hint("Choose another directory with -o; `plumb record --force` replaces an old trace.")
                .as(EEXIST);
        auto folder = Folder::open(path);
        if (!folder && folder.error().number() == ENOENT) continue;
        if (!folder && (folder.error().number() == ENOTDIR || folder.error().number() == ELOOP))
            return Error("{} exists, and is not a directory: --force replaces nothing but an old trace.",
                         path);
        if (!folder) return folder.error();
        TraceDirectory claimed(std::move(*folder), say);
        if (Status locked = claimed.lock(); !locked) return locked.error();
        if (!claimed.folder_.is_at(path)) continue;
        if (Status own = is_new ? ok() : claimed.check_owner(); !own) return own.error();
        claimed.is_new_ = is_new;
        if (!is_new)
            if (Status aside = claimed.put_aside(); !aside) return aside.error();
        claimed.is_ours_ = true;
        return claimed;
    }
    return Error("{} is made and removed by others all the time.", path);
}

Result<TraceDirectory> TraceDirectory::take_over(const std::string& path, const Say& say) {
    auto folder = Folder::open(path);
    if (!folder) return folder.error();
    TraceDirectory taken(std::move(*folder), say);
    if (Status locked = taken.lock(); !locked) return locked.error().as(EWOULDBLOCK);
    if (Status own = taken.check_owner(); !own) return own.error();
    return taken;
}

/* Where the file system has no locks, nobody is kept out. */
Status TraceDirectory::lock() const {
    if (::flock(folder_.fd(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return ok();
    const std::uint32_t writer = holder_of_lock(folder_.fd());
    if (writer == 0) return Error("{} is being written by another plumb.", path());
    const auto status = process_status(writer);
    return Error("{} is being written by process {}{}.", path(), writer,
                 status ? fmt::format(" ({})", escaped(status->name)) : "")
        .hint("Choose another directory with -o, or end that process first.");
}

/* Whose directory it is can change what is in it, at any time: what is written there would go where they want. */
Status TraceDirectory::check_owner() const {
    struct stat info {};
    if (::fstat(folder_.fd(), &info) != 0)
        return Error::from_errno(errno, "Could not inspect the trace directory {}", path());
    if (info.st_uid == ::geteuid() || info.st_uid == 0) return ok();
    return Error("{} was not replaced, since it belongs to user {}, who can change what is written there.",
                 path(), info.st_uid)
        .hint("Choose another directory with -o, or remove that one first.");
}

Result<std::string> TraceDirectory::make_snapshot(std::uint32_t& number) const {
    for (;;) {
        const std::string name = fmt::format("snapshot-{}", ++number);
        if (::mkdirat(folder_.fd(), name.c_str(), 0755) == 0) return folder_.path_of(name);
        if (errno != EEXIST)
            return Error::from_errno(errno, "Could not make the trace directory {}", folder_.path_of(name));
    }
}

/* One that was begun, and not finished, gives way. */
Result<std::string> TraceDirectory::make_unfinished_snapshot(std::uint32_t& number) const {
    std::string name;
    do
        name = fmt::format("snapshot-{}", ++number);
    while (::faccessat(folder_.fd(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0);
    name += unfinished_end;
    (void)remove_trace(name).has_value();
    return make_folder(name);
}

Result<std::string> TraceDirectory::make_folder(const std::string& name) const {
    if (::mkdirat(folder_.fd(), name.c_str(), 0755) == 0) return folder_.path_of(name);
    return Error::from_errno(errno, "Could not make the trace directory {}", folder_.path_of(name));
}

Status TraceDirectory::rename_folder(const std::string& from, const std::string& to) const {
    const int folder = folder_.fd();
    if (::renameat2(folder, from.c_str(), folder, to.c_str(), RENAME_NOREPLACE) == 0) return ok();
    if (errno == EINVAL || errno == ENOSYS) {
        /* File systems of the network know no such rename. An empty folder that somebody makes here meanwhile is replaced. */
        if (::faccessat(folder, to.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            errno = EEXIST;
        else if (errno == ENOENT && ::renameat(folder, from.c_str(), folder, to.c_str()) == 0)
            return ok();
    }
    return Error::from_errno(errno, "Could not rename {} to {}", folder_.path_of(from), to);
}

Status TraceDirectory::remove_trace(const std::string& name) const {
    const std::string trace = folder_.path_of(name);
    struct stat info {};
    if (::lstat(trace.c_str(), &info) != 0) return Error::from_errno(errno, "Could not remove {}", trace);
    if (Status removed = remove_trace_files(trace); !removed)
        return removed.error().with("Could not remove {}", trace);
    if (::rmdir(trace.c_str()) != 0) return Error::from_errno(errno, "Could not remove {}", trace);
    return ok();
}

Status TraceDirectory::check() const {
    const std::string now = path();
    return folder_.is_at(now) ? ok() : Status(Error("{} was removed while the trace was written.", now));
}

/* Within the directory, so that it may be the root of a file system, or who records may stand in it. */
Status TraceDirectory::put_aside() {
    const std::string now = path();
    const auto files = trace_files(now);
    if (!files)
        return Error("{} was not replaced, since {}.", now, files.error().message())
            .hint("--force removes nothing but an old trace.");
    if (files->empty()) return ok();
    if (!is_of_recorder(*files))
        return Error("{} was not replaced, since nothing in it says that Plumb wrote it: there is neither "
                     "the metadata "
                     "of a trace of Plumb nor the summary of a recording.",
                     now)
            .hint("Choose another directory with -o, or remove that one first.");
    std::string name;
    for (unsigned number = 1; aside_.empty(); number++) {
        name = fmt::format("{}{}", aside_start, number);
        if (::mkdirat(folder_.fd(), name.c_str(), 0755) == 0)
            aside_ = name;
        else if (errno != EEXIST)
            return Error::from_errno(errno, "Could not put the trace in {} aside", now);
    }
    for (const auto& [file, is_at_top] : *files) {
        if (!is_at_top) continue;
        const std::string from = file.filename(), to = aside_ + "/" + from;
        const int cause = move_in(folder_.fd(), from, to);
        if (cause == 0 || cause == ENOENT) continue;
        const Error failed = Error::from_errno(cause, "Could not put {} aside", file.string());
        if (Status back = put_back(); !back) return failed.with("{}", back.error().message());
        return failed;
    }
    Status emptied = check_emptied();
    if (emptied) return ok();
    if (Status back = put_back(); !back) return emptied.error().with("{}", back.error().message());
    return emptied;
}

/* What is there from now on is taken for ours, and removed if it comes to nothing. */
Status TraceDirectory::check_emptied() const {
    const auto names = list_directory(path());
    if (!names) return names.error();
    for (const std::string& name : *names)
        if (name != aside_) return Error("{} was not replaced, since {} came there meanwhile.", path(), name);
    return ok();
}

Status TraceDirectory::put_back() {
    if (aside_.empty()) return ok();
    const std::string folder = folder_.path_of(aside_);
    std::error_code failed;
    std::vector<std::string> names;
    for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
        names.push_back(at->path().filename());
    for (const std::string& name : names)
        if (const int cause = move_in(folder_.fd(), aside_ + "/" + name, name); cause != 0)
            return Error::from_errno(
                cause, "The trace that was to be replaced is in {}, and could not be moved back", folder);
    if (failed || ::unlinkat(folder_.fd(), aside_.c_str(), AT_REMOVEDIR) != 0)
        return Error("The trace that was to be replaced may still be in {}.", folder);
    aside_.clear();
    return ok();
}

/* It may be large, and signals wait. */
void TraceDirectory::keep() {
    is_ours_ = false;
    if (aside_.empty()) return;
    const std::string folder = folder_.path_of(aside_);
    aside_.clear();
    try {
        removal_ = std::thread([folder, say = say_] { remove_aside(folder, say); });
    } catch (const std::system_error&) {
        remove_aside(folder, say_);
    }
}

TraceDirectory::~TraceDirectory() {
    if (removal_.joinable()) removal_.join();
    if (!is_ours_ || !check()) return;
    const std::string now = path();
    const Status removed = remove_trace_files(now, aside_);
    if (Status back = put_back(); !back) say_(back.error().message());
    if (removed && is_new_) ::rmdir(now.c_str());
}

} // namespace plumb
