#include "recordings.h"

#include "agent.h"

/* Of each session the time before which nobody of Java's threads had seen it. */
static struct {
    uint32_t epoch;
    uint64_t since_ns;
} seen[PLUMB_MAX_SESSIONS];

/* The time is read before the epoch is taken: who finds it taken reads his own behind that. */
void plumb_see_recordings(uint32_t sessions) {
    PLUMB_FOR_EACH_SESSION(session, sessions) {
        const uint32_t epoch = plumb_epoch_of_session(session);
        uint32_t known = __atomic_load_n(&seen[session].epoch, __ATOMIC_ACQUIRE);
        if (known == epoch) continue;
        const uint64_t now_ns = plumb_monotonic_ns();
        if (__atomic_compare_exchange_n(&seen[session].epoch, &known, epoch, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            __atomic_store_n(&seen[session].since_ns, now_ns, __ATOMIC_RELEASE);
    }
}

bool plumb_were_recordings_seen(uint32_t sessions, bool (*is_before)(uint64_t began, uint64_t seen_ns),
                                uint64_t began) {
    PLUMB_FOR_EACH_SESSION(session, sessions) {
        if (__atomic_load_n(&seen[session].epoch, __ATOMIC_ACQUIRE) == plumb_epoch_of_session(session) &&
            !is_before(began, __atomic_load_n(&seen[session].since_ns, __ATOMIC_ACQUIRE)))
            return true;
    }
    return false;
}
