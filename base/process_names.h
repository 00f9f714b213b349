/*
 * Who is who across process-id namespaces.
 *
 * A number means a process in one namespace only. Where several share /dev/shm, a process is told by the inode of its
 * namespace and its own number in it; what one does to it (look into /proc, signal it) needs the number by which oneself
 * sees it. A process of a namespace below one's own can be seen, under a number of one's own; one beside or above can not.
 */
#ifndef PLUMB_BASE_PROCESS_NAMES_H
#define PLUMB_BASE_PROCESS_NAMES_H

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>

namespace plumb {

/* A process as it sees itself. */
struct OwnName {
    std::uint32_t space = 0; /* inode of its process-id namespace; 0: it does not know, having no /proc */
    std::uint32_t process_id = 0;
    auto operator<=>(const OwnName&) const = default;
};

/* Of the calling process; 0: not known. */
std::uint32_t own_namespace();
/* Whether it is that of the machine, whose numbers the kernel itself goes by. False where it is not known. */
bool in_first_namespace();
/* Whether /proc shows the numbers that this process knows others by. In a container it may be the host's. */
bool proc_has_our_numbers();
/* Whether it is certain that it shows others: it was mounted outside. A number of ours means somebody else in it, or nobody. */
bool proc_has_other_numbers();

/* How a process that we see calls itself. What can not be found out is taken to be as with us. */
OwnName own_name_of(std::uint32_t process_id);

struct Sight {
    enum Kind {
        seen,  /* process_id: what we call it */
        gone,  /* certainly */
        hidden /* it may live where we do not see it */
    };
    Kind kind = hidden;
    std::uint32_t process_id = 0;
};

/* Everybody that we see at one moment. To read it is to read all of /proc, a millisecond or more. */
class ProcessTable {
public:
    static ProcessTable read();
    /* Those who have come since, without those who have gone: to list /proc, not to read it. Who has got the number of one
     * who was there at the last look is not noticed. */
    void look_for_newcomers();
    /* Of somebody in another namespace, who was there already when the table was read. Who has ended since is not taken for
     * one who bears that number now. `is_it`: whether a process that we see is the one, where only its own number is known
     * (space 0). Where several are, it is hidden which. */
    Sight look_for(OwnName name, const std::function<bool(std::uint32_t process_id)>& is_it);

private:
    struct Process {
        std::uint32_t process_id;
        std::optional<std::uint32_t> space; /* once it was asked for; 0: may not be seen */
    };
    static std::uint32_t space_of(Process& process);
    bool is_below_us(std::uint32_t space);

    std::multimap<std::uint32_t, Process> by_own_number_;
    std::set<std::uint32_t> process_ids_; /* in it */
    bool is_complete_ = false;
    bool has_everybody_ = false;
};

/* A thread of the process that we call process_id, and that calls itself own_process_id. 0: not seen. */
std::uint32_t look_for_thread(std::uint32_t process_id, std::uint32_t own_process_id,
                              std::uint32_t own_thread_id);

} // namespace plumb

#endif
