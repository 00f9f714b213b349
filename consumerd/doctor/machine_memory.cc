/*
 * The checks of shared memory, of the user's directory in it, and of what lies there. They look and try, but
 * leave nothing behind and change nothing.
 */
#include "base/mapped_file.h"
#include "base/memory_room.h"
#include "base/processes.h"
#include "consumerd/control/channel.h"
#include "consumerd/control/left_channel.h"
#include "consumerd/control/life_lock.h"
#include "consumerd/control/state.h"
#include "consumerd/control/user_directory.h"
#include "consumerd/doctor/machine_checks.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace plumb {

namespace {

/* What to do about the error of a try to make a file. */
std::string advice_for(int number, const std::string& mount_point) {
    switch (number) {
    case ENOENT:
    case ENOTDIR:
        return fmt::format("Mount it: `mount -t tmpfs -o mode=1777 tmpfs {}`, as root.", mount_point);
    case EROFS:
        return fmt::format("Make it writable: `mount -o remount,rw {}`, as root.", mount_point);
    case EACCES:
    case EPERM:
        return fmt::format("Everybody must be able to write there: `chmod 1777 {}`, as root.", mount_point);
    case ENOSPC:
    case EDQUOT:
        return fmt::format(
            "Remove what is not needed from {0}, or enlarge it: `mount -o remount,size=... {0}`, "
            "as root.",
            mount_point);
    case EOPNOTSUPP:
        return fmt::format("Mount a tmpfs at {}: the file system there has no O_TMPFILE or no fallocate.",
                           mount_point);
    default:
        return fmt::format("Mount a tmpfs at {}.", mount_point);
    }
}

MachineCheck check_state_file(const Result<StateFile>& state, const UserDirectory& directory) {
    MachineCheck check{"state-file", Finding::good, false, {}, {}};
    if (state) {
        check.found = fmt::format("version {}, {} processes registered, generation {}",
                                  PLUMB_STATE_VERSION_MAJOR, state->processes().size(), state->generation());
        if (state->slots_refused() == 0) return check;
        check.finding = Finding::limited;
        check.found += fmt::format(", {} processes found no free slot", state->slots_refused());
        check.advice = fmt::format("At most {} processes can be traced at once.", PLUMB_MAX_PROCESSES);
        return check;
    }
    if (state.error().number() == ENOENT) {
        check.found = "not there yet: made when it is needed";
        return check;
    }
    check.found = state.error().message();
    struct stat info {};
    std::vector<std::uint32_t> users;
    if (::fstatat(directory.fd(), PLUMB_STATE_FILE, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode))
        users = processes_that_map(info.st_dev, info.st_ino);
    if (state.error().number() == EPROTO && users.empty()) {
        check.finding = Finding::limited;
        check.advice = "The next `plumb record` replaces it. Programs that were started meanwhile must be "
                       "started again to be traced.";
        return check;
    }
    check.finding = Finding::missing;
    check.needed = true;
    const std::string path = directory.path_of_file(PLUMB_STATE_FILE);
    const bool is_in_module = directory.place().keeper == DirectoryKeeper::module; /* no path leads there */
    check.advice = is_in_module ? "Run `rmmod plumb; modprobe plumb`, which takes it away."
                                : fmt::format("Remove {}.", path);
    if (!users.empty())
        check.advice = fmt::format("It is in use: end the processes {}, then {}.", fmt::join(users, ", "),
                                   is_in_module ? "run `rmmod plumb; modprobe plumb`" : "remove " + path);
    return check;
}

/* ", 2.1 MiB" of shared memory; nothing if there is no such file. */
std::string memory_text(const UserDirectory& directory, const std::string& file_name) {
    struct stat info {};
    if (::fstatat(directory.fd(), file_name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return {};
    constexpr std::uint64_t block_bytes = 512; /* of st_blocks */
    return fmt::format(", {}", in_mib(static_cast<std::uint64_t>(info.st_blocks) * block_bytes));
}

/* What dead controllers left behind, and who is at work, with the memory that their channels take now. */
MachineCheck check_sessions(const plumb_rule_set& rules, const UserDirectory& directory) {
    MachineCheck check{"sessions", Finding::good, false, {}, {}};
    std::vector<std::string> live;
    std::vector<std::string> dead;
    std::vector<std::string> kept; /* that nobody reads from now */
    for (const plumb_session& session : rules.sessions) {
        if (session.cookie == 0) continue;
        const bool lives = session_lives(directory, session);
        (lives                                  ? live
         : is_kept_for_next(directory, session) ? kept
                                                : dead)
            .push_back(fmt::format("{} (pid {}{})", session.name, session.controller_process_id,
                                   memory_text(directory, channel_file_name(session.cookie))));
    }
    std::vector<std::string> stale;
    const Result<std::vector<std::string>> names = directory.file_names();
    for (const std::string& name : names ? *names : std::vector<std::string>{}) {
        const std::optional<std::uint64_t> cookie = channel_cookie_of(name);
        if (!cookie) continue;
        const bool used =
            std::any_of(std::begin(rules.sessions), std::end(rules.sessions),
                        [&](const plumb_session& session) { return session.cookie == *cookie; });
        if (!used && !channel_maker_lives(directory, name)) stale.push_back(name);
    }
    check.found =
        live.empty() ? std::string("none is active") : fmt::format("active: {}", fmt::join(live, ", "));
    if (!kept.empty())
        check.found += fmt::format("; kept, and read by nobody now: {}", fmt::join(kept, ", "));
    if (dead.empty() && stale.empty()) {
        if (!kept.empty())
            check.advice =
                "plumb-consumerd goes on with sessions that are kept when it runs again; until then "
                "their programs write as far as there is room.";
        return check;
    }
    check.finding = Finding::limited;
    if (!dead.empty()) check.found += fmt::format("; left behind: {}", fmt::join(dead, ", "));
    if (!stale.empty()) check.found += fmt::format("; channels left behind: {}", fmt::join(stale, ", "));
    check.advice =
        "`plumb extract` makes a trace of what killed recorders had not written, and removes the rest; until "
        "then it takes up room.";
    return check;
}

/* What killed recorders had not written. */
std::vector<MachineCheck> check_left_channels(const UserDirectory& directory) {
    const auto found = left_channels(directory);
    const std::vector<LeftChannel> left = found ? *found : std::vector<LeftChannel>{};
    if (left.empty()) return {};
    std::uint64_t bytes = 0;
    for (const LeftChannel& channel : left)
        bytes += channel.memory_bytes;
    return {{"left-channels", Finding::limited, false,
             fmt::format("what {} killed recorder{} had not written takes {} of shared memory", left.size(),
                         left.size() == 1 ? "" : "s", in_mib(bytes)),
             "`plumb list` shows it, `plumb extract` makes a trace of it, `plumb extract --remove` gives the "
             "memory back; "
             "else a `plumb record` does, an hour after it was found."}};
}

} // namespace

MachineCheck check_shared_memory(const std::string& mount_point) {
    MachineCheck check{"shared-memory", Finding::missing, true, {}, {}};
    const FileDescriptor file(::open(mount_point.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    /* Asked of a missing directory, an old kernel or file system says EISDIR. */
    int number = file.is_open() ? 0 : errno == EISDIR ? EOPNOTSUPP : errno;
    if (number == 0 && ::fallocate(file.get(), 0, 0, PLUMB_STATE_TOTAL_BYTES) != 0) number = errno;
    if (number != 0) {
        check.found = fmt::format("a file can not be made in {}: {}", mount_point, errno_text(number));
        check.advice = advice_for(number, mount_point);
        return check;
    }
    struct statfs system {};
    if (::fstatfs(file.get(), &system) == 0 && system.f_type != TMPFS_MAGIC) {
        check.finding = Finding::limited;
        check.found = fmt::format("{} is not a tmpfs: channels would be written to a disk", mount_point);
        check.advice = advice_for(0, mount_point);
        return check;
    }
    check.finding = Finding::good;
    check.found = fmt::format("{} is a tmpfs, writable", mount_point);
    return check;
}

/* `advice`: where there is too little. */
static MachineCheck check_room_of(const struct statvfs& room, std::string name, std::string advice) {
    MachineCheck check{std::move(name), Finding::missing, true, {}, {}};
    ChannelConfig smallest;
    smallest.subbuf_bytes = PLUMB_SUBBUF_MIN_BYTES;
    smallest.subbuf_count = PLUMB_SUBBUF_MIN_COUNT;
    const Result<ChannelLayout> usual = lay_out_channel(ChannelConfig{});
    const Result<ChannelLayout> least = lay_out_channel(smallest);
    if (!usual || !least) {
        check.found = usual ? least.error().message() : usual.error().message();
        check.advice = "Choose fewer or smaller sub-buffers (--subbuf-count, --subbuf-size).";
        return check;
    }
    const std::uint64_t available = room_of_file_system(room);
    check.found = fmt::format("{}, the smallest session takes {}",
                              room.f_blocks == 0 ? "without a limit" : in_mib(available) + " available",
                              in_mib(least->total_bytes));
    const bool takes_files = room.f_files == 0 || room.f_ffree != 0;
    if (!takes_files)
        check.found += fmt::format("; but all {} files that there may be are there", room.f_files);
    if (takes_files && available >= usual->total_bytes) {
        check.finding = Finding::good;
        return check;
    }
    if (takes_files && available >= least->total_bytes) check.finding = Finding::limited;
    check.advice = std::move(advice);
    if (check.finding == Finding::limited)
        check.advice += " Or use smaller sub-buffers: `plumb record --subbuf-size`, --subbuf-count.";
    return check;
}

MachineCheck check_room(const std::string& mount_point) {
    struct statvfs room {};
    if (::statvfs(mount_point.c_str(), &room) != 0)
        return {"room", Finding::missing, true, fmt::format("{}: {}", mount_point, errno_text(errno)),
                advice_for(ENOENT, mount_point)};
    return check_room_of(room, "room", advice_for(ENOSPC, mount_point));
}

MachineCheck check_module_room(const UserDirectory& directory) {
    struct statvfs room {};
    if (::fstatvfs(directory.fd(), &room) != 0)
        return {"module-room",
                Finding::missing,
                true,
                fmt::format("{}: {}", directory.path(), errno_text(errno)),
                {}};
    return check_room_of(
        room, "module-room",
        "Remove what others have in plumb.ko's memory: `plumb extract --remove` of its user, or "
        "`rmmod plumb; modprobe plumb` when its programs have ended.");
}

MachineCheck check_memory(const MemoryRoom& room) {
    MachineCheck check{"memory", Finding::good, false, {}, {}};
    const Result<ChannelLayout> usual = lay_out_channel(ChannelConfig{});
    check.found = room.is_limited()
                      ? fmt::format("{} may still be used of {}", in_mib(room.bytes), room.limit)
                      : std::string("no limit was found");
    if (!usual || room.bytes >= usual->total_bytes) return check;
    check.finding = Finding::limited;
    check.advice = "`plumb record` chooses smaller rings, which are full sooner.";
    return check;
}

MachineCheck check_user_directory(const std::string& path, uid_t user_id) {
    MachineCheck check{"user-directory", Finding::good, true, {}, {}};
    const Result<UserDirectory> directory = UserDirectory::open_existing_at(path, user_id);
    if (const Status is = is_of_this_namespace(path, user_id); !is) {
        check.finding = Finding::missing;
        check.found = is.error().message();
    } else if (directory) {
        check.found = path + " is yours alone";
    } else if (directory.error().number() == ENOENT) {
        check.found = path + " is not there yet: made when it is needed";
    } else {
        check.finding = Finding::missing;
        check.found = directory.error().message();
        check.advice =
            fmt::format("Until then programs leave their tracepoints off. `rm -r {}` by its owner or root "
                        "always helps.",
                        path);
    }
    return check;
}

std::vector<MachineCheck> check_state(const UserDirectory& directory) {
    const Result<StateFile> state = StateFile::open_existing(directory);
    std::vector<MachineCheck> checks = {check_state_file(state, directory)};
    const std::vector<MachineCheck> left = check_left_channels(directory);
    checks.insert(checks.end(), left.begin(), left.end());
    if (!state) return checks;
    const auto rules = state->rule_set();
    if (rules) checks.push_back(check_sessions(**rules, directory));
    return checks;
}

std::vector<MachineCheck> check_state(const std::string& path, uid_t user_id) {
    const Result<UserDirectory> directory = UserDirectory::open_existing_at(path, user_id);
    return directory ? check_state(*directory) : std::vector<MachineCheck>{};
}

} // namespace plumb
