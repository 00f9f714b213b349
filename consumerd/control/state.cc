#include "consumerd/control/state.h"

#include "base/mapped_file.h"
#include "base/processes.h"
#include "consumerd/control/channel.h"
#include "consumerd/control/left_channel.h"
#include "consumerd/control/life_lock.h"
#include "consumerd/control/shared_word.h"

#include <plumb/detail/state_layout.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace plumb {

namespace {

Status fill_state(std::span<std::byte> bytes) {
    plumb_state_begin(reinterpret_cast<plumb_state_header*>(bytes.data()));
    return ok();
}

/* Marks what may be replaced: a state file that is no good to anybody. */
Error damaged(const Error& error) {
    return error.as(EPROTO);
}

/* What is wrong with a state file, or success. */
Status check_header(const plumb_state_header& header, const std::string& path) {
    if (header.magic != PLUMB_STATE_MAGIC)
        return damaged(Error("{} is damaged: it does not begin as a state file.", path));
    if (header.version_major != PLUMB_STATE_VERSION_MAJOR)
        return damaged(Error("{} has version {}.{}; this plumb understands version {}.", path,
                             header.version_major, header.version_minor, PLUMB_STATE_VERSION_MAJOR))
            .hint("Another version of Plumb made it: end the programs that use it, or use that version.");
    if (header.total_bytes != PLUMB_STATE_TOTAL_BYTES || !plumb_state_has_parts_in_place(&header))
        return damaged(Error("{} is damaged: its parts are not where they belong.", path));
    return ok();
}

/* Makes a copy that nobody else can change sane: counts in range, strings ended. */
void make_sane(plumb_rule_set& set) {
    set.rule_count = std::min(set.rule_count, PLUMB_MAX_RULES);
    for (plumb_session& session : set.sessions)
        session.name[sizeof(session.name) - 1] = '\0';
    for (plumb_rule& rule : set.rules) {
        plumb_rule_end_strings(&rule);
        if (rule.session >= PLUMB_MAX_SESSIONS) rule.session = 0;
    }
    for (plumb_condition& condition : set.conditions)
        condition.code_bytes = std::min(condition.code_bytes, std::uint16_t{PLUMB_CONDITION_CODE_BYTES});
}

void remove_session(plumb_rule_set& set, std::uint32_t index) {
    set.sessions[index] = {};
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < set.rule_count; i++) {
        if (set.rules[i].session != index) set.rules[kept++] = set.rules[i];
    }
    for (std::uint32_t i = kept; i < set.rule_count; i++)
        set.rules[i] = {};
    set.rule_count = kept;
    for (plumb_condition& condition : set.conditions)
        if (condition.session == index) condition = {};
}

} // namespace

/* The lock among controllers; it goes with the process if that is killed. Edits hold it for
 * microseconds, who cleans up after the dead or moves a damaged file aside for as long as it takes to look through /proc.
 * So who holds it for seconds is stopped or means no good: then the edit fails instead of hanging with it. Where many
 * come at once, each has its turn in no order; as long as the generation grows, it is waited on. */
struct StateFile::Lock {
    explicit Lock(int fd, const std::function<std::uint64_t()>& generation = {}) : fd_(fd) {
        constexpr int tries_max = 5000, all_tries_max = 60000;
        constexpr useconds_t pause_us = 1000;
        std::uint64_t seen = generation ? generation() : 0;
        for (int tries = 0, all = 0; tries < tries_max && all < all_tries_max; tries++, all++) {
            const std::uint64_t now = generation ? generation() : 0;
            if (now != seen) tries = 0;
            seen = now;
            if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) {
                held_ = true;
                return;
            }
            if (errno != EWOULDBLOCK && errno != EINTR) return;
            ::usleep(pause_us);
        }
    }
    ~Lock() {
        if (held_) ::flock(fd_, LOCK_UN);
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    bool held() const { return held_; }

private:
    int fd_;
    bool held_ = false;
};

Error StateFile::locked_error() const {
    return Error("{} stays locked by another process.", path())
        .hint("`grep :{} /proc/locks` shows its pid in the fifth column; it is stopped, or not a plumb "
              "command: "
              "end it.",
              inode_);
}

Result<StateFile> StateFile::adopt(const UserDirectory& directory, FileDescriptor fd) {
    const std::string path = directory.path_of_file(PLUMB_STATE_FILE);
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) return Error::from_errno(errno, "Could not inspect {}", path);
    if (static_cast<std::uint64_t>(info.st_size) != PLUMB_STATE_TOTAL_BYTES)
        return damaged(Error("{} is damaged: it has {} bytes instead of {}.", path, info.st_size,
                             PLUMB_STATE_TOTAL_BYTES));
    /* Programs do not map one with holes, and so could not be told anything. */
    constexpr std::uint64_t block_bytes = 512; /* of st_blocks */
    if (static_cast<std::uint64_t>(info.st_blocks) * block_bytes < PLUMB_STATE_TOTAL_BYTES)
        return damaged(Error("{} is damaged: it has holes, only {} of {} bytes are reserved.", path,
                             static_cast<std::uint64_t>(info.st_blocks) * block_bytes,
                             PLUMB_STATE_TOTAL_BYTES));
    Result<MappedRegion> region = map_file(fd, PLUMB_STATE_TOTAL_BYTES, true, path);
    if (!region) return region.error();
    const Status sound = check_header(*static_cast<const plumb_state_header*>(region->get_address()), path);
    if (!sound) return sound.error();
    const std::uint64_t device = device_in_maps(fd.get());
    return StateFile(directory, std::move(fd), std::move(*region), device, info.st_ino);
}

Result<StateFile> StateFile::open_existing(const UserDirectory& directory) {
    Result<FileDescriptor> fd = directory.open_file(PLUMB_STATE_FILE, true);
    if (!fd) return fd.error();
    return adopt(directory, std::move(*fd));
}

Status StateFile::check() const {
    if (!directory_->is_named(PLUMB_STATE_FILE, fd_.get()))
        return Error("{} was removed or replaced.", path());
    if (Status sound = check_header(header(), path()); !sound) return sound;
    const std::uint64_t at = generation();
    const std::uint64_t its = load_shared(set(at).generation);
    if (its != at && generation() == at) /* not changed meanwhile */
        return damaged(Error("{} is damaged: its generation is {}, its rules are of {}.", path(), at, its));
    return ok();
}

/* Kept for who wants to know how it came to that; but not in plumb.ko, which it would keep loaded, and where no path leads to it. */
static bool put_away(const UserDirectory& directory) {
    if (directory.place().keeper == DirectoryKeeper::module)
        return ::unlinkat(directory.fd(), PLUMB_STATE_FILE, 0) == 0;
    return ::renameat(directory.fd(), PLUMB_STATE_FILE, directory.fd(), "state.damaged") == 0;
}

/* Moves a damaged file out of the way. Two controllers may find the damage at once: the lock on the damaged
 * file keeps the second from moving away what the first has put in its place. */
Status StateFile::move_aside(const UserDirectory& directory, const Error& damage) {
    const FileDescriptor file(
        ::openat(directory.fd(), PLUMB_STATE_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file.is_open()) return errno == ENOENT ? ok() : Status(damage);
    const Lock lock(file.get());
    if (!lock.held()) return damage.hint("Another process keeps it locked.");
    struct stat opened {};
    struct stat named {};
    if (::fstat(file.get(), &opened) != 0) return damage;
    if (::fstatat(directory.fd(), PLUMB_STATE_FILE, &named, AT_SYMLINK_NOFOLLOW) != 0 ||
        opened.st_ino != named.st_ino)
        return ok(); /* somebody was faster */
    const std::vector<std::uint32_t> users = processes_that_map(device_in_maps(file.get()), opened.st_ino);
    if (!users.empty())
        return damage.hint("It is in use by {} process{} (pid {}): end {}, then try again.", users.size(),
                           users.size() == 1 ? "" : "es", fmt::join(users, ", "),
                           users.size() == 1 ? "it" : "them");
    if (!put_away(directory)) return damage.hint("It could not be moved aside: {}.", errno_text(errno));
    return ok();
}

Result<StateFile> StateFile::open_or_create(const UserDirectory& directory) {
    constexpr int tries_max = 10; /* others may make, damage or replace it between our steps */
    for (int tries = 0;; tries++) {
        Result<StateFile> existing = open_existing(directory);
        if (existing || tries == tries_max) return existing;
        const int number = existing.error().number();
        if (number == EPROTO) {
            const Status moved = move_aside(directory, existing.error());
            if (!moved) return moved.error();
        } else if (number != ENOENT) {
            return existing;
        }
        Result<FileDescriptor> made =
            directory.create_file(PLUMB_STATE_FILE, PLUMB_STATE_TOTAL_BYTES, fill_state);
        if (made) return adopt(directory, std::move(*made));
        if (made.error().number() != EEXIST) return made.error();
    }
}

plumb_rule_set& StateFile::set(std::uint64_t generation) const {
    return *plumb_state_rule_set(&header(), generation);
}

plumb_process& StateFile::slot(std::uint32_t index) const {
    return plumb_state_processes(&header())[index];
}

/* With the lock held: into the set that is not in use, then the one store. */
void StateFile::publish(const plumb_rule_set& next) {
    const std::uint64_t generation = load_shared(header().generation) + 1;
    plumb_rule_set& to = set(generation);
    /* Whoever sees a byte of the new set also sees that the generation before the last is over. Pairs with
     * the fence in plumb_state_is_still_at(). */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    std::memcpy(&to, &next, sizeof(next));
    to.generation = generation;
    __atomic_store_n(&header().generation, generation, __ATOMIC_SEQ_CST);
}

StateCleanup StateFile::remove_dead(plumb_rule_set& rules) {
    StateCleanup removed;
    for (std::uint32_t i = 0; i < PLUMB_MAX_SESSIONS; i++) {
        const plumb_session session = rules.sessions[i];
        if (session.cookie == 0 || session_lives(*directory_, session) ||
            is_kept_for_next(*directory_, session))
            continue;
        removed.sessions.emplace_back(session.name);
        remove_session(rules, i);
        /* Not all of its writers may ask again soon: a closed channel stops them. */
        const std::string channel = channel_file_name(session.cookie);
        if (::faccessat(directory_->fd(), channel.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
            retire_dead_channel(*directory_, channel))
            removed.channels.push_back(channel);
    }
    return removed;
}

Result<std::uint64_t> StateFile::edit(const std::function<Status(plumb_rule_set&)>& change) {
    const Lock lock(fd_.get(), [this] { return generation(); });
    if (!lock.held()) return locked_error();
    auto next = std::make_unique<plumb_rule_set>(set(generation()));
    make_sane(*next);
    remove_dead(*next);
    const Status changed = change(*next);
    if (!changed) return changed.error();
    for (plumb_session& session : next->sessions)
        if (session.cookie != 0 && session.since_generation == 0) session.since_generation = generation() + 1;
    publish(*next);
    return generation();
}

Result<StateCleanup> StateFile::clean_up() {
    const Lock lock(fd_.get(), [this] { return generation(); });
    if (!lock.held()) return locked_error();
    auto next = std::make_unique<plumb_rule_set>(set(generation()));
    make_sane(*next);
    StateCleanup removed = remove_dead(*next);
    if (!removed.sessions.empty()) publish(*next);
    remove_channels(*next, removed);
    remove_processes(removed);
    return removed;
}

void StateFile::remove_channels(const plumb_rule_set& rules, StateCleanup& removed) {
    const Result<std::vector<std::string>> names = directory_->file_names();
    for (const std::string& name : names ? *names : std::vector<std::string>{}) {
        const std::optional<std::uint64_t> cookie = channel_cookie_of(name);
        if (!cookie) continue;
        const bool used =
            std::any_of(std::begin(rules.sessions), std::end(rules.sessions),
                        [&](const plumb_session& session) { return session.cookie == *cookie; });
        /* A channel gets its name before its session is published: one whose maker lives may be just that. */
        if (used || channel_maker_lives(*directory_, name)) continue;
        if (Status retired = retire_dead_channel(*directory_, name); retired)
            removed.channels.push_back(name);
        else
            removed.problems.push_back(retired.error());
    }
}

/* A slot whose process is gone is free. One whose process id belongs to a younger process is left over,
 * unless that process is just taking it (the claim comes first, the time later): then it maps the state file. */
bool StateFile::free_if_over(const ProcessSlot& taken) {
    if (taken.sight.kind == Sight::hidden) return false;
    const std::uint32_t process_id = taken.process_id();
    if (is_same_process(process_id, taken.content.registered_boottime_ns)) return false;
    if (process_start_boottime_ns(process_id) && may_be_mapped_by(process_id)) return false;
    free_slot(taken);
    return true;
}

void StateFile::remove_processes(StateCleanup& removed) {
    const std::vector<ProcessSlot> slots = processes();
    const std::set<std::uint32_t> left = left_by_exec(slots);
    for (const ProcessSlot& taken : slots) {
        if (left.count(taken.index) != 0) {
            free_slot_left_by_exec(taken);
            removed.process_slots++;
            continue;
        }
        if (free_if_over(taken)) removed.process_slots++;
    }
}

std::uint64_t StateFile::generation() const {
    return plumb_state_generation(&header());
}

Result<std::unique_ptr<plumb_rule_set>> StateFile::rule_set() const {
    constexpr int tries = 1000;
    auto copy = std::make_unique<plumb_rule_set>();
    for (int i = 0; i < tries; i++) {
        const std::uint64_t before = generation();
        std::memcpy(copy.get(), &set(before), sizeof(*copy));
        if (!plumb_state_is_still_at(&header(), before)) continue;
        make_sane(*copy);
        return copy;
    }
    return Error("{} changes too often to be read.", path());
}

std::optional<plumb_process> StateFile::copy_of(std::uint32_t index) const {
    if (index >= PLUMB_MAX_PROCESSES) return {};
    const plumb_process& shared = slot(index);
    plumb_process copy{};
    copy.claim = load_shared(shared.claim);
    if (PLUMB_CLAIM_PROCESS(copy.claim) == 0) return {};
    copy.flags = load_shared(shared.flags);
    copy.signal_number = load_shared(shared.signal_number);
    copy.registered_boottime_ns = load_shared(shared.registered_boottime_ns);
    copy.acknowledged = load_shared(shared.acknowledged);
    copy.error = load_shared(shared.error);
    copy.not_attached = load_shared(shared.not_attached);
    copy.handler = load_shared(shared.handler);
    copy.unanswered = load_shared(shared.unanswered);
    copy.signalled_s = load_shared(shared.signalled_s);
    copy.image = load_shared(shared.image);
    copy.held = load_shared(shared.held);
    /* Else it is of two owners: who takes a slot over while it is copied looks as ready as the last one was. */
    if (load_shared(shared.claim) != copy.claim) return {};
    return copy;
}

/* One step, from what was judged: if the slot has been freed and claimed since, it is another word. */
void StateFile::free_slot(const ProcessSlot& taken, plumb_unattached* words) {
    if (taken.index >= PLUMB_MAX_PROCESSES) return;
    std::uint64_t expected = taken.content.claim;
    if (__atomic_compare_exchange_n(&slot(taken.index).claim, &expected, std::uint64_t{0}, false,
                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
        taken.is_ready())
        plumb_state_leave_words(&header(), words, &taken.content);
}

void StateFile::free_slot(const ProcessSlot& taken) {
    free_slot(taken, header().unattached);
}

void StateFile::free_slot_left_by_exec(const ProcessSlot& taken) {
    free_slot(taken, header().reached_late);
}

std::uint32_t StateFile::slots_refused() const {
    return load_shared(header().slots_refused);
}

std::uint32_t StateFile::claims() const {
    return load_shared(header().claims);
}

plumb_unattached StateFile::unattached(std::uint32_t session) const {
    return copy_of(header().unattached[session % PLUMB_MAX_SESSIONS]);
}

plumb_unattached StateFile::reached_late(std::uint32_t session) const {
    return copy_of(header().reached_late[session % PLUMB_MAX_SESSIONS]);
}

plumb_unattached StateFile::copy_of(const plumb_unattached& shared) {
    plumb_unattached copy{};
    copy.count = load_shared(shared.count); /* first: what is read then is of that one, or of a later one */
    copy.error = load_shared(shared.error);
    copy.claim = load_shared(shared.claim);
    return copy;
}

std::uint32_t StateFile::ack_count() const {
    return load_shared(header().ack_futex);
}

void StateFile::wait_for_ack(std::uint32_t seen, std::uint64_t timeout_ns) {
    const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000),
                           static_cast<long>(timeout_ns % 1'000'000'000)};
    /* Set, never taken back: a controller may be killed while it waits. Who wakes takes it. */
    __atomic_store_n(&header().ack_waiters, 1u, __ATOMIC_SEQ_CST);
    ::syscall(SYS_futex, &header().ack_futex, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

std::string StateFile::path() const {
    return directory_->path_of_file(PLUMB_STATE_FILE);
}

} // namespace plumb
