/*
 * The state file from the controller's side: which tracepoints are on and for whom (layout and rules:
 * <plumb/abi/state.h>).
 *
 * What always holds: a rule set is written only by the holder of the file's lock, only into the set that is
 * not in use, and published by one store; a controller killed before that store has changed nothing. Each
 * edit first removes what dead controllers left behind. Everything in the file is checked before it is used,
 * since every program of the user can write it.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_STATE_H
#define PLUMB_CONSUMERD_CONTROL_STATE_H

#include "base/file.h"
#include "base/mapped_region.h"
#include "base/process_names.h"
#include "base/result.h"
#include "consumerd/control/user_directory.h"

#include <plumb/abi/state.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace plumb {

/* A copy of one process slot, and where it came from. */
struct ProcessSlot {
    std::uint32_t index;
    plumb_process content;
    Sight sight; /* of its process, from here */

    /* What we call the process. 0: it is not seen from here, and is neither judged nor touched. */
    std::uint32_t process_id() const { return sight.kind == Sight::seen ? sight.process_id : 0; }
    OwnName own_name() const {
        return {PLUMB_CLAIM_SPACE(content.claim), PLUMB_CLAIM_PROCESS(content.claim)};
    }
    bool is_ready() const { return PLUMB_IS_READY(content.claim, content.flags); }
};

/* Indices of those that a program left by exec(): the process has a younger slot, of another program image. A signal for
 * one of them would reach whatever the new program does with that number. Only of processes that are seen. */
std::set<std::uint32_t> left_by_exec(const std::vector<ProcessSlot>& slots);

/* The sum of what an edit found dead and removed. */
struct StateCleanup {
    std::vector<std::string> sessions; /* names; their controllers were gone */
    std::vector<std::string> channels; /* file names */
    std::uint32_t process_slots = 0;
    std::vector<Error> problems; /* what is dead, and could not be removed or kept: it is tried again */
};

class StateFile {
public:
    /* The user's state file, made if it is missing. A damaged one, and one of another version, is moved aside and
     * replaced if no live process maps it; otherwise the error says which processes do. */
    static Result<StateFile> open_or_create(const UserDirectory& directory);
    /* Only if it is there and sound: number() of the error is ENOENT if there is none, EPROTO if it is
     * damaged.
     */
    static Result<StateFile> open_existing(const UserDirectory& directory);
    StateFile(StateFile&&) noexcept = default;
    StateFile& operator=(StateFile&&) noexcept = default;

    /* Changes the rule set: takes the lock, removes dead sessions, lets `change` work on a copy, and
     * publishes the copy as the next generation, which is returned. If `change` fails, nothing is changed. */
    Result<std::uint64_t> edit(const std::function<Status(plumb_rule_set&)>& change);
    /* Only removes what is dead. Publishes a generation only if sessions were. */
    Result<StateCleanup> clean_up();

    std::uint64_t generation() const;
    /* The current rule set, made sane: counts in range, strings ended. It is too large for a small stack. */
    Result<std::unique_ptr<plumb_rule_set>> rule_set() const;

    /* All slots that are taken, complete or being filled. */
    std::vector<ProcessSlot> processes() const;
    /* How the process sees itself, as its slot says, or /proc if it has none. */
    OwnName own_name_of(std::uint32_t process_id) const;
    /* Frees a slot whose process is gone; does nothing if it has been claimed anew since. Word is left of sessions that it could
     * not attach to. */
    void free_slot(const ProcessSlot& slot);
    void free_slot_left_by_exec(const ProcessSlot& slot); /* whose process goes on */
    /* Likewise, if its process has ended as far as /proc tells. Whether it has. */
    bool free_if_over(const ProcessSlot& slot);
    /* Before an update signal is sent to its process: `unanswered` of <plumb/abi/state.h>. False: the slot is somebody
     * else's by now. */
    bool count_signal(const ProcessSlot& slot);
    /* What was sent since has ended a system call of the process: PLUMB_PROCESS_INTERRUPTED. */
    bool has_ended_a_call(const ProcessSlot& slot) const;
    /* For one that has not reached it. */
    void take_back_signal(const ProcessSlot& slot);
    /* `held` of <plumb/abi/state.h>, if the slot still is that process's: for this session; no more for this one, nor for those
     * that are over (returns who holds it then); for nobody any more, if it is as it was judged. */
    void hold(const ProcessSlot& slot, std::uint32_t session);
    std::uint32_t let_go(const ProcessSlot& slot, std::uint32_t session);
    void insist(const ProcessSlot& slot);
    /* PLUMB_PROCESS_UNFILTERED, likewise. */
    void say_unfiltered(const ProcessSlot& slot);
    std::uint32_t slots_refused() const;
    /* When the slot was last taken that a process with this number finds free, or has: by it, most likely. 0: nobody ever has, or those that
     * it tries first are others'. */
    std::uint64_t left_boottime_ns(std::uint32_t process_id) const;
    std::uint32_t claims() const; /* of slots, ever: what programs with tracepoints make when they start */
    plumb_unattached unattached(std::uint32_t session) const;
    plumb_unattached reached_late(std::uint32_t session) const;

    /* For waiting on acknowledgements. */
    std::uint32_t ack_count() const;
    /* Returns when ack_count() is no longer `seen`, or after timeout_ns. */
    void wait_for_ack(std::uint32_t seen, std::uint64_t timeout_ns);

    /* Whether programs that start now would find and believe it. */
    Status check() const;

    const UserDirectory& directory() const { return *directory_; }
    std::string path() const;
    /* Identity of the file, as /proc/PID/maps shows it. */
    std::uint64_t device() const { return device_; }
    std::uint64_t inode() const { return inode_; }
    /* Whether a process has it mapped, as every process that listens has. Nothing if that can not be seen: of another user's
     * process, and of one of our own that is not dumpable (PR_SET_DUMPABLE, file capabilities, an executable that may not be
     * read). */
    std::optional<bool> mapped_by(std::uint32_t process_id) const;
    /* Whether it has one mapped that had this one's name before it was removed: what it listens to reaches nobody else. */
    bool is_predecessor_mapped_by(std::uint32_t process_id) const;
    bool is_mapped_by(std::uint32_t process_id) const { return mapped_by(process_id).value_or(false); }
    bool may_be_mapped_by(std::uint32_t process_id) const { return mapped_by(process_id).value_or(true); }

private:
    struct Lock;
    StateFile(const UserDirectory& directory, FileDescriptor fd, MappedRegion region, std::uint64_t device,
              std::uint64_t inode)
        : directory_(&directory),
          fd_(std::move(fd)),
          region_(std::move(region)),
          device_(device),
          inode_(inode) {}
    static Result<StateFile> adopt(const UserDirectory& directory, FileDescriptor fd);
    plumb_state_header& header() const { return *static_cast<plumb_state_header*>(region_.get_address()); }
    plumb_rule_set& set(std::uint64_t generation) const;
    plumb_process& slot(std::uint32_t index) const;
    void free_slot(const ProcessSlot& slot, plumb_unattached* words);
    static plumb_unattached copy_of(const plumb_unattached& shared);
    std::optional<plumb_process> copy_of(std::uint32_t index) const;
    std::uint32_t held_by_others(std::uint32_t session) const;
    std::uint32_t change_hold(const ProcessSlot& taken, std::uint32_t set, std::uint32_t kept);
    /* At all slots. Whoever writes there may have claimed each of them for the same processes. */
    struct Look {
        std::optional<ProcessTable> table;
        std::map<std::uint32_t, bool> maps_it; /* who was asked for, by number of ours */
    };
    Sight look_for(std::uint64_t claim, Look& look) const;
    void publish(const plumb_rule_set& next);
    StateCleanup remove_dead(plumb_rule_set& set);
    void remove_channels(const plumb_rule_set& rules, StateCleanup& removed);
    void remove_processes(StateCleanup& removed);
    static Status move_aside(const UserDirectory& directory, const Error& damage);
    Error locked_error() const;

    const UserDirectory* directory_; /* outlives this */
    FileDescriptor fd_;
    MappedRegion region_;
    std::uint64_t device_;
    std::uint64_t inode_;
    /* Who was looked for in other namespaces: it reads all of /proc. */
    struct Found {
        Sight sight;
        std::uint64_t looked_ns;
    };
    mutable std::map<std::uint64_t, Found> found_; /* by claim */
};

} // namespace plumb

#endif
