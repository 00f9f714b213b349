/*
 * What a controller writes into the slots of processes: signals sent, who holds it, what was seen of it (<plumb/abi/state.h>).
 * Each only while the slot is that process's, as far as that can be told; the process writes there, too, and so do other
 * controllers.
 */
#include "base/processes.h"
#include "consumerd/control/shared_word.h"
#include "consumerd/control/state.h"

namespace plumb {

bool StateFile::count_signal(const ProcessSlot& taken) {
    if (taken.index >= PLUMB_MAX_PROCESSES) return false;
    plumb_process& shared = slot(taken.index);
    if (load_shared(shared.claim) != taken.content.claim) return false;
    const auto now_s = static_cast<std::uint32_t>(boottime_now_ns() / 1'000'000'000);
    __atomic_fetch_and(&shared.flags, ~PLUMB_PROCESS_INTERRUPTED, __ATOMIC_SEQ_CST);
    __atomic_store_n(&shared.signalled_s, now_s, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&shared.unanswered, 1u, __ATOMIC_SEQ_CST);
    return true;
}

void StateFile::take_back_signal(const ProcessSlot& taken) {
    if (taken.index >= PLUMB_MAX_PROCESSES) return;
    plumb_process& shared = slot(taken.index);
    std::uint32_t count = load_shared(shared.unanswered);
    while (count != 0 &&
           load_shared(shared.claim) == taken.content.claim && /* 0: it has answered another one */
           !__atomic_compare_exchange_n(&shared.unanswered, &count, count - 1, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {
    }
}

/* Others may hold it, or let it go, in this moment. */
std::uint32_t StateFile::change_hold(const ProcessSlot& taken, std::uint32_t set, std::uint32_t kept) {
    if (taken.index >= PLUMB_MAX_PROCESSES) return 0;
    plumb_process& shared = slot(taken.index);
    std::uint32_t held = load_shared(shared.held);
    while (load_shared(shared.claim) == taken.content.claim) {
        const std::uint32_t next = (held & kept) | set;
        if (next == held ||
            __atomic_compare_exchange_n(&shared.held, &held, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return next;
    }
    return 0;
}

void StateFile::hold(const ProcessSlot& taken, std::uint32_t session) {
    if (session < PLUMB_MAX_SESSIONS) change_hold(taken, PLUMB_HELD_BY_SESSION(session), ~std::uint32_t{0});
}

/* Of which sessions a hold counts, if theirs is not asked about. */
std::uint32_t StateFile::held_by_others(std::uint32_t session) const {
    std::uint32_t others = PLUMB_HELD_BY_ITSELF;
    const auto rules = rule_set();
    for (std::uint32_t other = 0; other < PLUMB_MAX_SESSIONS; other++) {
        const bool lasts = !rules || (*rules)->sessions[other].cookie != 0;
        if (other != session && lasts) others |= PLUMB_HELD_BY_SESSION(other);
    }
    return others;
}

/* A session that begins meanwhile may lay its own hold where one of a session that is over still is, which looks the same: it
 * gets it back. Whoever changes the rules may do this on the way, so the lock can not be waited for. */
std::uint32_t StateFile::let_go(const ProcessSlot& taken, std::uint32_t session) {
    if (taken.content.held == 0) return 0;
    std::uint64_t judged_at = generation();
    const std::uint32_t cleared = taken.content.held & ~held_by_others(session);
    std::uint32_t held = change_hold(taken, 0, ~cleared);
    constexpr int judgements_max = 10; /* whose state it is may change it as often as he likes */
    for (int judgements = 0; judgements < judgements_max; judgements++) {
        const std::uint64_t now = generation();
        if (now == judged_at) return held;
        judged_at = now;
        held = change_hold(taken, cleared & held_by_others(session), ~std::uint32_t{0});
    }
    return change_hold(taken, cleared, ~std::uint32_t{0});
}

void StateFile::insist(const ProcessSlot& taken) {
    if (taken.index >= PLUMB_MAX_PROCESSES) return;
    plumb_process& shared = slot(taken.index);
    if (load_shared(shared.claim) != taken.content.claim) return;
    std::uint32_t expected = taken.content.held; /* the process may say so itself in this moment */
    __atomic_compare_exchange_n(&shared.held, &expected, 0u, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

bool StateFile::has_ended_a_call(const ProcessSlot& taken) const {
    if (taken.index >= PLUMB_MAX_PROCESSES) return false;
    const plumb_process& shared = slot(taken.index);
    return (load_shared(shared.flags) & PLUMB_PROCESS_INTERRUPTED) != 0 &&
           load_shared(shared.claim) == taken.content.claim;
}

void StateFile::say_unfiltered(const ProcessSlot& taken) {
    if (taken.index >= PLUMB_MAX_PROCESSES) return;
    plumb_process& shared = slot(taken.index);
    std::uint32_t flags = load_shared(shared.flags);
    while (PLUMB_IS_READY(taken.content.claim, flags) && load_shared(shared.claim) == taken.content.claim &&
           !__atomic_compare_exchange_n(&shared.flags, &flags, flags | PLUMB_PROCESS_UNFILTERED, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
}

std::uint64_t StateFile::left_boottime_ns(std::uint32_t process_id) const {
    constexpr std::uint32_t tries = 16;
    for (std::uint32_t i = 0; i < tries; i++) {
        const plumb_process& tried = slot((process_id + i) % PLUMB_MAX_PROCESSES);
        const std::uint64_t claim = load_shared(tried.claim);
        if (claim == 0 || PLUMB_CLAIM_PROCESS(claim) == process_id)
            return load_shared(tried.registered_boottime_ns) & ~PLUMB_BOOTTIME_UNKNOWN;
    }
    return 0;
}

} // namespace plumb
