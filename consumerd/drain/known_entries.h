/*
 * Who and what may be told of in the next chunk of a trace. A chunk is a trace of its own, and the entries of processes, threads
 * and objects are written once; so those that were written are kept, and written again at the begin of each chunk, as of then.
 *
 * Who has ended is of no chunk that begins after it was found out. What he was is needed for longer where a child that he
 * forked lives, which has his objects and does not tell of them again.
 */
#ifndef PLUMB_CONSUMERD_DRAIN_KNOWN_ENTRIES_H
#define PLUMB_CONSUMERD_DRAIN_KNOWN_ENTRIES_H

#include "consumerd/channel/channel_reader.h"
#include "consumerd/channel/entry_recycler.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

namespace plumb {

class KnownEntries {
public:
    /* Far more than a channel has room for at a time; programs may tell of any number of objects. */
    static constexpr size_t entries_max = size_t{1} << 18;

    explicit KnownEntries(EntryRecycler::Lives lives = EntryRecycler::thread_lives)
        : lives_(std::move(lives)) {}

    /* It was written. */
    void note(const ChannelEntry& entry);
    /* For a chunk that begins at that time, which is not in the future: what holds then, dated so, and what came since. */
    std::vector<ChannelEntry> at(uint64_t began);

    size_t size() const { return size_; }
    /* Entries that there was no room for. */
    uint64_t left_out() const { return left_out_; }

private:
    using Entries = std::vector<ChannelEntry>; /* in the order in which they were written */
    struct Process {
        Entries images, objects;
        std::unordered_map<uint32_t, Entries> threads;
        uint64_t needed_until = 0; /* by children that were forked until then */
        bool has_ended = false;
    };

    static void keep_newest(Entries& entries, uint64_t began);
    static void keep_newest_objects(Process& process, uint64_t began);
    void look_who_lives();
    void forget_ended();
    template <typename Use>
    static void for_each(Process& process, Use use);

    EntryRecycler::Lives lives_;
    std::map<uint32_t, Process> processes_; /* by process id */
    size_t size_ = 0, next_look_ = 4096;
    uint64_t left_out_ = 0;
};

} // namespace plumb

#endif
