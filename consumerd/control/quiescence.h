/*
 * Waiting until a generation of the state is true everywhere.
 *
 * After a rule set is published, each live process must ask again. One that listens is sent its update
 * signal, on the thread that this disturbs least; the wait is over when every process has acknowledged the
 * generation or is known to be unable to. Who can not is reported by pid and reason, never passed over.
 */
#ifndef PLUMB_CONSUMERD_CONTROL_QUIESCENCE_H
#define PLUMB_CONSUMERD_CONTROL_QUIESCENCE_H

#include "base/result.h"
#include "consumerd/control/state.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

struct QuiescenceOptions {
    std::uint64_t timeout_ns = 5'000'000'000;
    /* How long to look for a thread that the signal does not disturb. */
    std::uint64_t patience_ns = 100'000'000;
    /* Whether the change can make a difference to a process; the others are not disturbed. Asked once for
     * each process that has not acknowledged. Empty: to all. */
    std::function<bool(const ProcessSlot&)> concerns = {};
    /* Signal processes with seccomp filters, too. */
    bool filtered_too = false;
    /* Index of the session that this is for, and holds processes with filters. None: it is over. */
    std::optional<std::uint32_t> holder = {};
    /* Index of the session that a process must have opened to count as reached. None: as when it ends. */
    std::optional<std::uint32_t> session = {};
    /* Processes without a slot that are to be looked for: these, or (empty) all. None: nobody is. */
    std::optional<std::vector<std::uint32_t>> look_for = {};
};

/* Whether the process has said, when it last acknowledged, that it could not open the channel of this session. */
bool has_not_attached(const plumb_process& process, std::uint32_t session);
std::string not_attached_reason(std::int32_t error); /* of plumb_process */
/* Of everybody, where proc_has_other_numbers(). */
inline constexpr const char* foreign_proc_reason =
    "it can not be seen, since /proc is another process-id namespace's here (`mount -t proc proc /proc` in a "
    "mount "
    "namespace of one's own, as `unshare --mount-proc` does it, shows this one's)";

struct Unreachable {
    std::uint32_t process_id; /* of one that is not seen from here: its own number */
    std::string reason;
};

/* A thread that was in a call which returns EINTR even under SA_RESTART, or less than was asked for, when it was signalled. */
struct Disturbed {
    std::uint32_t process_id;
    std::uint32_t thread_id;
    std::string system_call; /* empty: it had begun when the signal came, and which one it was is not known */
    bool is_at_end = false;  /* of a session, when it was switched off */
};

struct Report {
    std::uint64_t generation = 0;
    std::vector<std::uint32_t> acknowledged; /* process ids */
    /* Of these, those that sleep, and whose first thread to go on asks before it does anything else (plumb.ko): they have not heard
     * of it yet. */
    std::vector<std::uint32_t> asleep;
    /* Have ended since they were first looked at; whether they had followed was not seen. */
    std::vector<std::uint32_t> ended;
    std::vector<Unreachable> unreachable;
    std::vector<Unreachable> reached_late; /* of a session that ends: could not attach to it at first */
    std::vector<Disturbed> disturbed;
    bool complete() const { return unreachable.empty(); }
    /* What another state's processes said; generations are not comparable. */
    void add(const Report& other);
};

Result<Report> wait_until_quiescent(StateFile& state, std::uint64_t generation,
                                    const QuiescenceOptions& options = {});
/* Of one that has followed since, why it did so late. */
std::string reason_when_late(const std::string& reason);
/* The processes of these slots that are of the state's user, which could not follow the current generation for want of what they have been told since. */
void ask_again(StateFile& state, const std::vector<std::uint32_t>& slots,
               const std::function<bool(std::uint32_t)>& is_of_user);

} // namespace plumb

#endif
