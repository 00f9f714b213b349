/*
 * Which recordings are told of an event, and which of them were there when something began: the end of it is told to those alone.
 *
 * A recording is known by the epoch of its session in this process, which no other session has had or will have.
 */
#ifndef PLUMB_PROBES_JVM_RECORDINGS_H
#define PLUMB_PROBES_JVM_RECORDINGS_H

#include "events.h"

#include <plumb/detail/writer.h>

#include <stdbool.h>
#include <stdint.h>

/* A bit for each session, whether it wants all of the event or what fulfils a condition. */
static inline uint32_t plumb_sessions_of_event(const struct plumb_event* event) {
    const uint32_t enabled = __atomic_load_n(&event->enabled, __ATOMIC_RELAXED);
    return (enabled | enabled >> PLUMB_MAX_SESSIONS) & ((1u << PLUMB_MAX_SESSIONS) - 1);
}
#define SESSIONS_OF(event) plumb_sessions_of_event(&plumb_event_jvm__##event)

static inline uint32_t plumb_epoch_of_session(uint32_t session) {
    return __atomic_load_n(&plumb_setup.writers[session].epoch, __ATOMIC_RELAXED);
}

#define PLUMB_FOR_EACH_SESSION(session, sessions) \
    for (uint32_t left_ = (sessions), session;    \
         left_ != 0 && ((session = (uint32_t)__builtin_ctz(left_)), true); left_ &= left_ - 1)

/* The newest of them; 0: there is none. */
static inline uint32_t plumb_newest_recording(uint32_t sessions) {
    uint32_t newest = 0;
    PLUMB_FOR_EACH_SESSION(session, sessions) {
        const uint32_t epoch = plumb_epoch_of_session(session);
        if (epoch > newest) newest = epoch;
    }
    return newest;
}

/* Whether one of them was there when `newest` was the newest. */
static inline bool plumb_was_recorded(uint32_t sessions, uint32_t newest) {
    PLUMB_FOR_EACH_SESSION(session, sessions) {
        if (plumb_epoch_of_session(session) <= newest) return true;
    }
    return false;
}

/* recordings.c, where no room is but for the time at which something began: that is to be read behind the first, and the second says whether
 * one of the sessions was there by then. */
void plumb_see_recordings(uint32_t sessions);
bool plumb_were_recordings_seen(uint32_t sessions, bool (*is_before)(uint64_t began, uint64_t seen_ns),
                                uint64_t began);

#endif
