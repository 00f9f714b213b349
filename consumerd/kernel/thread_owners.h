/*
 * Whose threads they are, of which events of the kernel tell that they began, were renamed or made others.
 *
 * An event tells who made a thread, not of which process it is: that is the process of its maker, as it was known at that
 * time. Numbers of threads come again, so each is known since a time. Notes come CPU by CPU, so one that is older may still
 * come behind a younger one: names are held back until that is over, and taken in the order of time.
 *
 * Who is renamed while it is looked who is there has the new name in what that look found, which may stand a moment before the
 * thread had it. So with the next name the old one is told, too, around that; and with the first that is told of a thread at all,
 * since readers take that for all that was before it. So it is with threads of which it was lost that they began.
 *
 * A thread may make the next one and end before anybody looked who is there, and that one do likewise: of whose process they all
 * are tells the first of them that was seen there.
 */
#ifndef PLUMB_CONSUMERD_KERNEL_THREAD_OWNERS_H
#define PLUMB_CONSUMERD_KERNEL_THREAD_OWNERS_H

#include "consumerd/kernel/event_payload.h"
#include "consumerd/kernel/kernel_statedump.h"
#include "consumerd/kernel/translator.h"

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace plumb {

/* A thread that was there when it was looked. */
struct KnownThread {
    uint32_t thread_id;
    uint32_t process_id;
    uint64_t since;         /* it is of that process */
    uint64_t looked_at = 0; /* and was there; 0: that is not known */
};

class ThreadOwners {
public:
    /* What was there, for which it was looked until `time`. */
    void know(const std::vector<KnownThread>& threads, uint64_t time);

    void add(std::vector<ThreadNote> notes);
    /* Time of the first note that is held, or the end of all times. */
    uint64_t first_held() const;

    /* Threads of which no note tells, known from their times on. Their names are taken at `earliest` at the earliest: those
     * until then were. */
    void add_taken_in(std::vector<NamedThread> threads, uint64_t earliest);

    /* By the notes so far: all that are older than the fork must be there, younger ones may. Whom nobody knows counts as the
     * first thread of a process. */
    ForkProcesses of_fork(uint32_t parent_thread, uint32_t child_thread, uint64_t timestamp) const;

    /* What became of the notes up to `until`, in the order of time; they are held no longer. Nobody is asked for who
     * made whom until then any more. */
    std::vector<NamedThread> take(uint64_t until);

private:
    struct Origin {
        uint32_t id;      /* of its process, or of its maker, whose process it has */
        bool is_process;  /* the first of these */
        uint32_t made_by; /* 0: it was there already */
    };
    using Origins = std::map<std::pair<uint32_t, uint64_t>, Origin>; /* by thread and time since when */

    struct Root {
        uint32_t id; /* of the process; or of a thread, if nobody knows who made that */
        bool is_known;
    };
    struct Sight {
        uint64_t time;
        uint32_t thread_id;
        uint32_t process_id;
    };

    Origins::const_iterator find(uint32_t thread_id, uint64_t time) const;
    Root root_of(uint32_t thread_id, uint64_t time) const;
    uint32_t process_of(uint32_t thread_id, uint64_t time) const { return root_of(thread_id, time).id; }
    void learn_from_sights(uint64_t until);
    bool is_of(uint32_t process_id, uint32_t thread_id, uint64_t time) const;
    void tell_old_name(ThreadNote& note, bool is_first, uint32_t process, std::vector<NamedThread>& named);
    void forget_before(uint32_t thread_id, uint64_t time);

    Origins origins_;
    std::vector<ThreadNote> held_;
    std::vector<Sight> sights_; /* of which not all older notes have come */
    uint64_t looked_until_ = 0;
    std::map<uint32_t, uint64_t> looked_at_; /* of whom nothing was told since, until then */
    std::set<uint32_t> told_;                /* threads of which a name until then was taken */
};

} // namespace plumb

#endif
