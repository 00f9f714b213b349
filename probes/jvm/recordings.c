#include "recordings.h"

#include "agent.h"

__thread uint32_t plumb_not_told;

void plumb_emit_chosen(struct plumb_event* event, const void* payload, uint32_t payload_bytes) {
    if (plumb_not_told == 0)
        plumb_emit(event, payload, payload_bytes);
    else
        plumb_emit_to(event, __atomic_load_n(&event->enabled, __ATOMIC_RELAXED) & ~plumb_not_told, payload,
                      payload_bytes, __builtin_dwarf_cfa());
}

void plumb_emit_large_chosen(struct plumb_event* event, const void* payload, uint32_t payload_bytes,
                             int cut) {
    plumb_emit_large_to(event, ~plumb_not_told, payload, payload_bytes, cut);
}

struct plumb_recordings plumb_recordings_now(uint32_t sessions) {
    struct plumb_recordings now = {sessions, 0};
    PLUMB_FOR_EACH_SESSION(session, sessions) {
        const uint32_t epoch = plumb_epoch_of_session(session);
        if (epoch > now.newest) now.newest = epoch;
    }
    return now;
}

uint32_t plumb_recordings_left(const struct plumb_recordings* recordings, uint32_t sessions) {
    uint32_t left = 0;
    PLUMB_FOR_EACH_SESSION(session, sessions & recordings->sessions) {
        if (plumb_epoch_of_session(session) <= recordings->newest) left |= 1u << session;
    }
    return left;
}

static uint32_t unlisted(const struct plumb_listeners* listeners, uint32_t sessions) {
    uint32_t come = 0;
    PLUMB_FOR_EACH_SESSION(session, sessions) {
        if (listeners->epochs[session] != plumb_epoch_of_session(session)) come |= 1u << session;
    }
    return come;
}

uint32_t plumb_listeners_come(struct plumb_listeners* listeners, uint32_t sessions) {
    const uint32_t come = unlisted(listeners, sessions);
    PLUMB_FOR_EACH_SESSION(session, come) {
        listeners->epochs[session] = plumb_epoch_of_session(session);
    }
    return come;
}

uint32_t plumb_listeners_gone(struct plumb_listeners* listeners, uint32_t sessions) {
    uint32_t gone = 0;
    for (uint32_t session = 0; session < PLUMB_MAX_SESSIONS; session++) {
        if (listeners->epochs[session] == 0 || (sessions >> session & 1) != 0) continue;
        listeners->epochs[session] = 0;
        gone |= 1u << session;
    }
    return gone;
}

bool plumb_listeners_are(const struct plumb_listeners* listeners, uint32_t sessions) {
    return unlisted(listeners, sessions) == 0;
}

/*
 * Of each session the time before which nobody of Java's threads had seen it, in units of 16 ns, below the last 16 bits of its epoch. All in
 * one word: so who asks twice, with the same time, is answered the same. A session that is off meanwhile begins anew.
 */
enum { UNIT_BITS = 4, UNITS_BITS = PLUMB_TIME_BITS - UNIT_BITS };
static uint64_t seen[PLUMB_MAX_SESSIONS]; /* 0: nobody has */
static uint32_t ever_seen;                /* sessions */

static uint64_t epoch_in_word(uint32_t session) {
    return (uint64_t)plumb_epoch_of_session(session) << UNITS_BITS;
}

static bool is_of_epoch(uint64_t word, uint32_t session) {
    return word != 0 && (word ^ epoch_in_word(session)) >> UNITS_BITS == 0;
}

/* The words are loaded before the sessions are: one that another thread has just put there is not that of who is gone. */
static void forget_recordings(uint32_t gone, uint32_t (*sessions_now)(void)) {
    __atomic_and_fetch(&ever_seen, ~gone, __ATOMIC_ACQ_REL);
    PLUMB_FOR_EACH_SESSION(session, gone) {
        uint64_t word = __atomic_load_n(&seen[session], __ATOMIC_ACQUIRE);
        if ((sessions_now() >> session & 1) != 0)
            __atomic_or_fetch(&ever_seen, 1u << session, __ATOMIC_RELAXED);
        else
            __atomic_compare_exchange_n(&seen[session], &word, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
}

/* The time is read before the word is taken: who finds it taken reads his own behind that. */
void plumb_see_recordings(uint32_t (*sessions_now)(void)) {
    const uint32_t were_there = __atomic_load_n(&ever_seen, __ATOMIC_ACQUIRE), sessions = sessions_now();
    if ((were_there & ~sessions) != 0) forget_recordings(were_there & ~sessions, sessions_now);
    PLUMB_FOR_EACH_SESSION(session, sessions) {
        uint64_t known = __atomic_load_n(&seen[session], __ATOMIC_ACQUIRE);
        if (is_of_epoch(known, session)) continue;
        const uint64_t units = (plumb_monotonic_ns() >> UNIT_BITS) & ((1ull << UNITS_BITS) - 1);
        __atomic_compare_exchange_n(&seen[session], &known, epoch_in_word(session) | units, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
        __atomic_or_fetch(&ever_seen, 1u << session, __ATOMIC_RELAXED);
    }
}

/* Times are told apart up to half of what a word has: of a session that has lasted longer than a quarter it is set forward to that. Of calls
 * that have not returned for 13 days the end is not told then. */
uint32_t plumb_recordings_seen_now(uint32_t sessions, uint64_t now_ns) {
    const uint64_t mask = (1ull << UNITS_BITS) - 1, quarter = (mask + 1) / 4, later_put = mask / 256;
    const uint64_t now = (now_ns >> UNIT_BITS) & mask;
    uint32_t there = 0;
    PLUMB_FOR_EACH_SESSION(session, sessions) {
        uint64_t word = __atomic_load_n(&seen[session], __ATOMIC_ACQUIRE);
        const uint64_t age = (now - word) & mask;
        if (!is_of_epoch(word, session) || age > mask - later_put) continue;
        if (age > quarter + quarter / 2)
            __atomic_compare_exchange_n(&seen[session], &word,
                                        epoch_in_word(session) | ((now - quarter) & mask), false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
        there |= 1u << session;
    }
    return there;
}

uint32_t plumb_recordings_seen(uint32_t sessions, uint64_t time_ns) {
    uint32_t there = 0;
    PLUMB_FOR_EACH_SESSION(session, sessions) {
        const uint64_t word = __atomic_load_n(&seen[session], __ATOMIC_ACQUIRE);
        const uint64_t since = ((time_ns >> UNIT_BITS) - word) << (64 - UNITS_BITS);
        if (is_of_epoch(word, session) && (int64_t)since >= 0) there |= 1u << session;
    }
    return there;
}
