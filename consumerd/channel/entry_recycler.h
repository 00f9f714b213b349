/*
 * Gives the entries of processes, threads and objects that are gone back to writers, so that a channel has room for as
 * many processes as a session may ever see.
 *
 * An entry may go once it is in the trace, who it speaks of writes no more, and everything that he wrote was read:
 * what is in the rings can always be attributed from the channel alone. So an entry that is found to be dispensable in
 * one pass over the rings is freed after the next. None is freed before it is needed, when half of the table or of the
 * heap is taken: a small session keeps all of them.
 *
 * Objects of a process that forked belong to its children as well, who do not describe them again.
 *
 * What was freed is known here, and not looked up in the channel: writers may put anything there.
 */
#ifndef PLUMB_CONSUMERD_CHANNEL_ENTRY_RECYCLER_H
#define PLUMB_CONSUMERD_CHANNEL_ENTRY_RECYCLER_H

#include "consumerd/channel/channel_reader.h"

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

namespace plumb {

class EntryRecycler {
public:
    /* Whether this thread of this process may still write; thread 0: any. */
    using Lives = std::function<bool(uint32_t process_id, uint32_t thread_id)>;
    explicit EntryRecycler(Lives lives = thread_lives) : lives_(std::move(lives)) {}

    /* The entry is in the trace. */
    void note(const ChannelEntry& entry);
    /* After all rings were read. The channel is a live one. */
    void pass(ChannelReader& channel);

    size_t kept() const { return kept_.size(); }

    static bool thread_lives(uint32_t process_id, uint32_t thread_id);

private:
    struct Kept {
        uint32_t slot;
        uint64_t slot_value;
        uint64_t timestamp;
        uint32_t process_id;
        uint32_t other_id; /* a process's parent, a thread's id */
        plumb_entry_type type;
        bool is_dispensable;
    };
    struct Process {
        bool lives = false;
        uint64_t newest = 0;       /* its last entry as a process: before it, it was another program */
        uint64_t needed_until = 0; /* when the last of its children that need its objects was forked */
    };

    void forget(const Kept& entry);
    void free_dispensable(ChannelReader& channel);
    void find_dispensable();
    std::unordered_map<uint32_t, Process> look_at_processes();

    Lives lives_;
    std::unordered_map<uint32_t, Kept>
        kept_; /* by slot: one that a program put something else into is what that is */
    uint64_t kept_bytes_ = 0;
    uint64_t kept_objects_ = 0;
};

} // namespace plumb

#endif
