/*
 * Which recordings are told of an event: of the end of something those that were told of its begin, of what was there before them those that
 * have come since.
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

/* plumb_trace() to some sessions alone. */
#define plumb_trace_to(sessions, ...)                            \
    do {                                                         \
        const uint32_t told_ = (sessions);                       \
        plumb_not_told = ~(told_ | told_ << PLUMB_MAX_SESSIONS); \
        plumb_trace(__VA_ARGS__);                                \
        plumb_not_told = 0;                                      \
    } while (0)
extern __thread uint32_t plumb_not_told; /* bits as in `enabled` */

/* Who was there when something began. */
struct plumb_recordings {
    uint32_t sessions;
    uint32_t newest; /* epoch of one of them; 0: there is none */
};
struct plumb_recordings plumb_recordings_now(uint32_t sessions);
/* Those of the sessions that were. */
uint32_t plumb_recordings_left(const struct plumb_recordings* recordings, uint32_t sessions);

/* Who has been told something. One at a time changes it. */
struct plumb_listeners {
    uint32_t epochs[PLUMB_MAX_SESSIONS]; /* 0: not told */
};
/* Of these sessions, which are all that there are, those that have not been; and they have now. */
uint32_t plumb_listeners_come(struct plumb_listeners* listeners, uint32_t sessions);
/* Of those that have been told the sessions that are not among these any more; they have not been from now on. */
uint32_t plumb_listeners_gone(struct plumb_listeners* listeners, uint32_t sessions);
bool plumb_listeners_are(const struct plumb_listeners* listeners, uint32_t sessions);

/* Where there is no room but for the time at which something began: the first is called before that is read, and the second says behind it
 * which of the sessions were there by then: the same, whenever it is asked. A time: its lower bits. */
enum { PLUMB_TIME_BITS = 52 };
void plumb_see_recordings(uint32_t (*sessions_now)(void));
uint32_t plumb_recordings_seen(uint32_t sessions, uint64_t time_ns);
/* Of what begins: the same, for as long as a recording may last. */
uint32_t plumb_recordings_seen_now(uint32_t sessions, uint64_t now_ns);

#endif
