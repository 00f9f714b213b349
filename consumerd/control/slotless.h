/*
 * Processes that have the runtime in them and no slot: children of _Fork() and of a raw clone(), of which no fork handler
 * told the runtime. Such a child finds out by itself when it writes a record or hears the update signal (its writers' page
 * is wiped in children), and takes a slot then. While its events are off it does neither, so a session that is to
 * reach it has to look for it: a process that maps the state file, has a handler for the update signal, and no slot.
 *
 * A child that has no handler for the signal any more (CLONE_CLEAR_SIGHAND, or it took it away) can not be told: it is named. Only
 * children of those that are known are looked at for that, and who is asked for by number.
 *
 * One whose mappings can not be seen may be anybody's with such a handler, and is left alone. What it is sent names no slot
 * (PLUMB_SIGNAL_NO_SLOT): a runtime that knows who it is, or one in a child that shares its parent's memory, takes no
 * notice of it.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_SLOTLESS_H
#define PLUMB_CONSUMERD_CONTROL_SLOTLESS_H

#include "consumerd/control/quiescence.h"
#include "consumerd/control/state.h"
#include "consumerd/control/thread_choice.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace plumb {

/* In exec() the handlers go behind what was mapped, and the next program may map the state before it sets its own. */
inline constexpr std::uint64_t handler_patience_ns = 100'000'000;

/* Of a program that has a state file of ours open which is not there any more. */
inline constexpr const char* state_removed_reason =
    "the state file that it uses was removed (as logind's RemoveIPC does in /dev/shm when its user's last "
    "session ends): "
    "start it again";

inline constexpr const char* unheard_child_reason = "it was forked without a word to Plumb (by _Fork() or "
                                                    "clone()), and has no handler for Plumb's signal: it "
                                                    "can not be told of a recording";

class Slotless {
public:
    /* options.look_for: these process ids; empty: all that can be seen. */
    Slotless(const StateFile& state, const QuiescenceOptions& options) : state_(state), options_(options) {}

    /* Looks for them, again if the last look found some, since they may have children of that kind; signals each once.
     * Whether one of them may still take a slot. It ends: after three looks, and a moment for each. */
    bool may_follow(const std::vector<ProcessSlot>& slots, std::uint64_t now_ns, Report& report);

private:
    struct Found {
        std::uint32_t signal_number = 0; /* 0: it has no handler */
        std::uint64_t since_ns = 0;
        std::uint64_t sent_ns = 0; /* 0: not yet */
        SleepCounts sleeps;
    };

    std::optional<std::uint32_t> signal_for(std::uint32_t process_id) const;
    bool lost_its_state(std::uint32_t process_id) const;
    bool is_deaf(std::uint32_t process_id) const;
    bool may_be_deaf_child(std::uint32_t process_id, const std::set<std::uint32_t>& with_slot) const;
    bool is_deaf_for(std::uint32_t process_id, const Found& found, std::uint64_t now_ns,
                     Report& report) const;
    bool look(const std::set<std::uint32_t>& with_slot, std::uint64_t now_ns, Report& report);
    bool is_waited_for(std::uint32_t process_id, Found& found, std::uint64_t now_ns, Report& report) const;
    void tell_of_refused(std::uint32_t process_id, Report& report) const;
    void tell_of(std::uint32_t process_id, std::string reason, Report& report) const;

    const StateFile& state_;
    const QuiescenceOptions& options_;
    std::uint32_t looks_ = 0;
    bool is_done_ = false;
    std::set<std::uint32_t> known_;
    std::map<std::uint32_t, Found> waited_for_;
};

} // namespace plumb

#endif
