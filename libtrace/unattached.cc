// Sessions that should have this process and whose channel it could not open. Its slot says so as long as that is so; word is
// left in the state file when the slot stops saying it: the process attaches after all, and what it traced until then is
// missing; or it gives the slot back. Sessions that have ended meanwhile are told nothing, whoever has their place now.
#include "runtime.h"

#include <plumb/detail/state_layout.h>

namespace plumb {

namespace {

// What the slot's bits say, and of which session. Of the owner of `updating`; the slot has no bits in a forked child.
constinit NotAttached told[PLUMB_MAX_SESSIONS] = {};

bool is_there(uint32_t session, uint64_t cookie) {
    const plumb_rule_set& set = *plumb_state_rule_set(runtime.state, plumb_state_generation(runtime.state));
    return load_relaxed(set.sessions[session].cookie) == cookie;
}

bool is_attached(uint32_t session, uint64_t cookie) {
    return attachments[session].usable != 0 && attachments[session].cookie == cookie;
}

// Rules that do not want it any more have wanted it; one that could not be judged was wanted if it is attached now.
void leave_word_of_past(uint32_t session) {
    const NotAttached& past = told[session];
    if (!is_there(session, past.cookie)) return;
    if (!past.is_meant && !is_attached(session, past.cookie)) return;
    plumb_state_leave_word(&runtime.state->reached_late[session], runtime.claim, past.error);
}

} // namespace

void report_not_attached(const NotAttached (&failed)[PLUMB_MAX_SESSIONS]) {
    if (runtime.slot == nullptr) return;
    const uint32_t before = load_relaxed(runtime.slot->not_attached);
    uint32_t sessions = 0;
    int last_error = 0;
    for (uint32_t s = 0; s < PLUMB_MAX_SESSIONS; s++) {
        if (failed[s].error != 0) {
            sessions |= 1u << s;
            last_error = failed[s].error;
            told[s] = failed[s];
        } else if ((before >> s & 1) != 0) {
            leave_word_of_past(s);
        }
    }
    store_relaxed(runtime.slot->error, last_error);
    store_release(runtime.slot->not_attached, sessions);
}

// Who was kept away by a filter was not asked about the rules, and may be none of the session's.
void leave_word_of_unattached() {
    const uint32_t sessions = load_relaxed(runtime.slot->not_attached);
    for (uint32_t s = 0; s < PLUMB_MAX_SESSIONS; s++) {
        const NotAttached& now = told[s];
        if ((sessions >> s & 1) == 0 || !is_there(s, now.cookie)) continue;
        if (!now.is_meant && plumb_was_not_asked(now.error)) continue;
        plumb_state_leave_word(&runtime.state->unattached[s], runtime.claim, now.error);
    }
}

} // namespace plumb
