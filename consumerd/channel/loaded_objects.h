/*
 * Programs load objects later, and nobody tells the channel of those without tracepoints (libjvm.so, plug-ins). This
 * remembers what was described, and looks at the maps of a few living processes at a time for what was not.
 *
 * It does so in the thread that empties the rings, so it takes a small part of its time, whatever programs map: a process
 * is looked at soon when it had something new, and less and less often when it had not; a look that took long is followed
 * by a pause; and what cannot be described in time is left to the next look.
 */
#ifndef PLUMB_CONSUMERD_CHANNEL_LOADED_OBJECTS_H
#define PLUMB_CONSUMERD_CHANNEL_LOADED_OBJECTS_H

#include "base/mapped_file.h"
#include "base/processes.h"
#include "consumerd/channel/channel_reader.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace plumb {

class LoadedObjects {
public:
    struct Looks {
        size_t processes;                  /* at most so many */
        uint64_t begun_until = UINT64_MAX; /* those whose own entry is younger are about to tell themselves */
        uint64_t budget_ns = UINT64_MAX;   /* so long, but for the first look */
        bool is_last = false;              /* all that may be, however recently they were looked at */
    };
    /* Four times as many as can be traced at once are looked after; further ones when some of these have ended. */
    static constexpr size_t processes_max = size_t{1} << 14;
    /* Of all of them together, as programs may tell of any number: further ones when some are gone. */
    static constexpr size_t objects_max = size_t{1} << 20;
    static constexpr uint64_t first_pause_ns = 100'000'000;
    static constexpr uint64_t longest_pause_ns = 2'000'000'000;

    /* What an entry says, and when it did. */
    void note(const ChannelEntry& entry, uint64_t boottime_ns);
    /* Entries, dated `now`, for objects that the next processes, in turn, have loaded since. `now_ns`: of
     * CLOCK_MONOTONIC. */
    std::vector<ChannelEntry> found(uint64_t now, uint64_t now_ns, const Looks& looks);
    /* Forgets which of the next processes, in turn, are gone, or can not be looked at from here. */
    void forget_gone(size_t processes);

    bool knows(uint32_t process_id) const { return processes_.contains(process_id); }
    /* How often maps were read. */
    uint64_t looks() const { return looks_; }
    size_t objects() const { return *count_; }

private:
    /* Those that are known, by base and path. */
    class Objects {
    public:
        explicit Objects(std::shared_ptr<size_t> count) : count_(std::move(count)) {}
        Objects(const Objects& other) : known_(other.known_), count_(other.count_) {
            *count_ += known_.size();
        }
        Objects& operator=(const Objects&) = delete;
        ~Objects() { *count_ -= known_.size(); }
        bool contains(uint64_t object) const { return known_.contains(object); }
        size_t size() const { return known_.size(); }
        void insert(uint64_t object) { *count_ += known_.insert(object).second ? 1 : 0; }

    private:
        std::unordered_set<uint64_t> known_;
        std::shared_ptr<size_t> count_; /* of all sets */
    };
    struct Process {
        size_t executable;                /* its hash: a program may say what it likes */
        uint64_t begun;                   /* timestamp of its entry */
        uint64_t begun_boottime_ns;       /* the same */
        std::shared_ptr<Objects> objects; /* shared with who was forked, until one of them has more */
        uint64_t program_file = 0;        /* what it was found to run; 0: not yet known */
        uint64_t next_look_ns = 0;
        uint64_t pause_ns = first_pause_ns;
    };
    using Processes = std::map<uint32_t, Process>; /* by process id */
    std::shared_ptr<Objects> no_objects() const { return std::make_shared<Objects>(count_); }
    bool add(Process& process, uint64_t object) const;
    void forget_unmapped(Process& process, const std::vector<MappedFile>& files) const;
    static bool is_of_entry(uint32_t process_id, Process& process);
    Processes::iterator next_of(uint32_t& next);
    void look_at(uint32_t process_id, Process& process, uint64_t now, uint64_t until_ns,
                 std::vector<ChannelEntry>& found);

    std::shared_ptr<size_t> count_ = std::make_shared<size_t>(0);
    Processes processes_;
    uint32_t next_ = 0, next_forgotten_ = 0; /* whose turn it is */
    uint64_t rest_until_ns_ = 0;
    uint64_t looks_ = 0;
};

} // namespace plumb

#endif
