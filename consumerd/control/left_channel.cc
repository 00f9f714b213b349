#include "consumerd/control/left_channel.h"

#include "base/loss_growth.h"
#include "base/mapped_file.h"
#include "base/mapped_region.h"
#include "base/processes.h"
#include "consumerd/control/channel.h"

#include <plumb/abi/counts.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <linux/falloc.h>
#include <optional>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace plumb {

namespace {

constexpr std::string_view file_prefix = "left-";
constexpr std::uint64_t ring_unit_bytes = 4096;

/* A channel file as it lies there, mapped; nothing in it is believed before it was checked. */
struct DeadChannel {
    FileDescriptor file;
    MappedRegion region;
    plumb_channel_header header{}; /* a copy, so that nobody changes it behind the checks */

    const plumb_ring_control& ring(std::uint64_t index) const {
        const auto* base = static_cast<const std::byte*>(region.get_address()) + header.control_offset;
        return reinterpret_cast<const plumb_ring_control*>(base)[index];
    }
    std::uint64_t rings() const {
        return static_cast<std::uint64_t>(header.ring_count) + header.extra_ring_count;
    }
};

bool is_sound(const plumb_channel_header& header, std::uint64_t bytes) {
    const std::uint64_t rings = static_cast<std::uint64_t>(header.ring_count) + header.extra_ring_count;
    return rings <= PLUMB_CHANNEL_MAX_RINGS && rings > 0 && header.control_offset % 64 == 0 &&
           header.control_offset < bytes &&
           rings * PLUMB_RING_CONTROL_BYTES <= bytes - header.control_offset &&
           header.data_offset % ring_unit_bytes == 0 && header.data_offset < bytes &&
           std::has_single_bit(header.ring_bytes) && header.ring_bytes % ring_unit_bytes == 0 &&
           header.ring_bytes <= (bytes - header.data_offset) / rings;
}

/* The errno of a file that will never be a channel: it is removed. Any other error says that we can not open it now, here,
 * or with this version: another time, or somebody else, may. */
constexpr int no_channel = EBADMSG;

Result<DeadChannel> open_dead(const UserDirectory& directory, const std::string& file_name) {
    DeadChannel dead;
    Result<FileDescriptor> file = directory.open_file(file_name, true);
    if (!file) return file.error();
    const std::string path = directory.path_of_file(file_name);
    const off_t bytes = ::lseek(file->get(), 0, SEEK_END);
    if (bytes < 0) return Error::from_errno(errno, "Could not inspect {}", path);
    if (bytes < static_cast<off_t>(PLUMB_CHANNEL_HEADER_BYTES))
        return Error("{} is no channel: it has {} bytes.", path, bytes).as(no_channel);
    Result<MappedRegion> region = map_file(*file, static_cast<std::size_t>(bytes), true, path);
    if (!region) return region.error();
    dead.file = std::move(*file);
    dead.region = std::move(*region);
    std::memcpy(&dead.header, dead.region.get_address(), sizeof(dead.header));
    if (dead.header.magic == PLUMB_COUNTS_MAGIC)
        return Error("Process {} was killed while it counted: what it had counted is gone, with {}.",
                     dead.header.creator_pid, path)
            .as(no_channel);
    if (dead.header.magic != PLUMB_CHANNEL_MAGIC) return Error("{} is no channel.", path).as(no_channel);
    if (dead.header.version_major != PLUMB_CHANNEL_VERSION_MAJOR)
        return Error("{} has format version {}.{}.", path, dead.header.version_major,
                     dead.header.version_minor)
            .hint("Use the plumb command of the version that made it.")
            .as(EPROTO);
    if (!is_sound(dead.header, static_cast<std::uint64_t>(bytes)))
        return Error("{} is damaged.", path).as(no_channel);
    dead.header.session_name[sizeof(dead.header.session_name) - 1] = '\0';
    return dead;
}

/* What of a ring nobody has read, as positions of its writer; the whole ring if they make no sense. */
struct Unread {
    std::uint64_t begin, end;
    std::uint64_t bytes() const { return end - begin; }
};

Unread unread_of(const DeadChannel& dead, std::uint64_t ring) {
    const std::uint64_t ring_bytes = dead.header.ring_bytes;
    const std::uint64_t end = __atomic_load_n(&dead.ring(ring).write_pos, __ATOMIC_ACQUIRE);
    std::uint64_t begin = std::max(__atomic_load_n(&dead.ring(ring).consumed, __ATOMIC_RELAXED),
                                   __atomic_load_n(&dead.ring(ring).taken, __ATOMIC_RELAXED));
    if (dead.header.mode == PLUMB_MODE_OVERWRITE) begin = std::max(begin, end - std::min(end, ring_bytes));
    if (begin > end || end - begin > ring_bytes) return {0, ring_bytes};
    return {begin, end};
}

std::uint64_t unread_bytes(const DeadChannel& dead) {
    std::uint64_t sum = 0;
    for (std::uint64_t ring = 0; ring < dead.rings(); ring++)
        sum += unread_of(dead, ring).bytes();
    return sum;
}

/* Losses that no packet of the killed recorder's trace tells of: they came behind the last one, or could not be written
 * there. What could not be described is in none, ever. A counter that is damaged is one: it is told as such. */
std::uint64_t untold_losses(const DeadChannel& dead) {
    const auto growth = [](std::uint64_t before, const std::uint64_t& counter) {
        return loss_growth(before, __atomic_load_n(&counter, __ATOMIC_RELAXED)).value_or(1);
    };
    std::uint64_t sum = 0;
    for (std::uint64_t ring = 0; ring < dead.rings(); ring++) {
        sum = sum_of_losses(sum, growth(0, dead.ring(ring).not_stored));
        for (std::size_t cause = 0; cause < PLUMB_LOSS_COUNTERS; cause++) {
            const std::uint64_t told = __atomic_load_n(&dead.ring(ring).told[cause], __ATOMIC_RELAXED);
            sum = sum_of_losses(sum, growth(told, dead.ring(ring).lost[cause]));
        }
    }
    for (const std::uint64_t refused : dead.header.refused)
        sum = sum_of_losses(sum, growth(0, refused));
    return sum_of_losses(sum, growth(0, dead.header.left_off));
}

void punch(const DeadChannel& dead, std::uint64_t begin, std::uint64_t end) {
    begin = (begin + ring_unit_bytes - 1) / ring_unit_bytes * ring_unit_bytes;
    end = end / ring_unit_bytes * ring_unit_bytes;
    if (begin >= end) return;
    [[maybe_unused]] const int done = ::fallocate(dead.file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                                  static_cast<off_t>(begin), static_cast<off_t>(end - begin));
}

/* Only while nobody maps the file: in a writer that does not know yet that it is closed, a page that has to be made
 * anew where there is no room is a SIGBUS. */
void give_back_what_was_read(const DeadChannel& dead, const struct stat& found) {
    const std::uint64_t ring_bytes = dead.header.ring_bytes;
    for (std::uint64_t ring = 0; ring < dead.rings(); ring++) {
        const Unread unread = unread_of(dead, ring);
        const std::uint64_t data = dead.header.data_offset + ring * ring_bytes;
        const std::uint64_t begin = unread.begin % ring_bytes;
        const std::uint64_t end = begin + unread.bytes();
        if (end <= ring_bytes) {
            punch(dead, data, data + begin);
            punch(dead, data + end, data + ring_bytes);
        } else {
            punch(dead, data + end - ring_bytes, data + begin);
        }
    }
    /* Its age counts from when it was found. */
    const timespec times[2] = {{0, UTIME_OMIT}, found.st_mtim};
    [[maybe_unused]] const int kept = ::futimens(dead.file.get(), times);
}

std::string left_file_name(std::uint64_t cookie) {
    return fmt::format("{}{:016x}", file_prefix, cookie);
}

bool is_mapped(int fd, const struct stat& info) {
    const std::vector<std::uint32_t> users = processes_that_map(device_in_maps(fd), info.st_ino);
    const auto self = static_cast<std::uint32_t>(::getpid());
    return std::any_of(users.begin(), users.end(), [self](std::uint32_t user) { return user != self; });
}

} // namespace

void note_kernel_events(plumb_channel_header& header) {
    header.kernel_events = 1;
}

bool has_kernel_events(const plumb_channel_header& header) {
    return header.kernel_events != 0;
}

/* What can not be opened waits under its name until it can be. What is no channel, and one of another version, goes the way
 * of those that are kept, so that there is one place that removes, and says so. */
Status retire_dead_channel(const UserDirectory& directory, const std::string& file_name) {
    const std::optional<std::uint64_t> cookie = channel_cookie_of(file_name);
    const Result<DeadChannel> dead = open_dead(directory, file_name);
    if (!cookie) return remove_dead_channel(directory, file_name);
    if (!dead && dead.error().number() != no_channel && dead.error().number() != EPROTO) return dead.error();
    /* Before the look: what a program writes in between would be removed unseen. */
    if (dead || dead.error().number() == no_channel) close_dead_channel(directory, file_name);
    const bool is_kept =
        !dead || unread_bytes(*dead) > 0 || untold_losses(*dead) > 0 || has_kernel_events(dead->header);
    if (!is_kept) return remove_dead_channel(directory, file_name);
    const std::string kept = left_file_name(*cookie);
    /* Its age counts from now. Who tidies up may see it as soon as it has its name. */
    ::utimensat(directory.fd(), file_name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
    if (::renameat(directory.fd(), file_name.c_str(), directory.fd(), kept.c_str()) != 0)
        return Error::from_errno(errno, "Could not rename {}", directory.path_of_file(file_name));
    return ok();
}

Result<std::vector<LeftChannel>> left_channels(const UserDirectory& directory) {
    std::vector<LeftChannel> found;
    const Result<std::vector<std::string>> names = directory.file_names();
    if (!names) return names.error();
    const std::time_t now = ::time(nullptr);
    for (const std::string& name : *names) {
        if (!name.starts_with(file_prefix)) continue;
        LeftChannel channel;
        channel.file_name = name;
        struct stat info {};
        if (::fstatat(directory.fd(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
        constexpr std::uint64_t block_bytes = 512; /* of st_blocks */
        channel.memory_bytes = static_cast<std::uint64_t>(info.st_blocks) * block_bytes;
        channel.age_s = now > info.st_mtime ? static_cast<std::uint64_t>(now - info.st_mtime) : 0;
        const Result<DeadChannel> dead = open_dead(directory, name);
        if (!dead) {
            channel.problem = dead.error();
        } else {
            channel.session_name = dead->header.session_name;
            channel.recorder_process_id = dead->header.creator_pid;
            channel.recorder_user_id = dead->header.creator_user;
            channel.cookie = dead->header.session_cookie;
            channel.has_kernel_events = has_kernel_events(dead->header);
            channel.unread_bytes = unread_bytes(*dead);
            channel.untold_losses = untold_losses(*dead);
        }
        found.push_back(std::move(channel));
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const LeftChannel& a, const LeftChannel& b) { return a.age_s < b.age_s; });
    return found;
}

bool is_channel_kept(std::uint64_t cookie) {
    const auto places = places_with_directory();
    if (!places) return true;
    for (const UserPlace& place : *places) {
        const auto path = path_of(place);
        for (const std::string& name : {channel_file_name(cookie), left_file_name(cookie)})
            if (path &&
                (::access((*path + "/" + name).c_str(), F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR)))
                return true;
    }
    return false;
}

std::vector<Error> tidy_left_channels(const UserDirectory& directory, bool keeps_all) {
    std::vector<Error> removed;
    const Result<std::vector<LeftChannel>> channels = left_channels(directory);
    for (std::size_t i = 0; channels && i < channels->size(); i++) {
        const LeftChannel& channel = (*channels)[i];
        const std::string& name = channel.file_name;
        const bool is_too_much =
            !keeps_all && (i >= left_channels_max || channel.age_s > left_channel_age_max_s);
        struct stat info {};
        const Result<DeadChannel> dead = open_dead(directory, name);
        const bool is_none = !dead && dead.error().number() == no_channel;
        if (is_none || is_too_much) {
            const Status gone = directory.unlink_file(name);
            if (gone && !dead)
                removed.push_back(dead.error().hint("It was removed."));
            else if (gone)
                removed.push_back(Error(
                    "What killed process {} (session {}) had not written was removed, {} bytes: the last "
                    "{} are kept, for an hour.",
                    channel.recorder_process_id, channel.session_name, channel.unread_bytes,
                    left_channels_max));
        } else if (dead && ::fstat(dead->file.get(), &info) == 0 && !is_mapped(dead->file.get(), info)) {
            give_back_what_was_read(*dead, info);
        }
    }
    return removed;
}

} // namespace plumb
