// Makes the rules true in this process: asks, switches off, waits for quiescence without waiting, switches
// on, and says so.
//
// The order is what makes "acknowledged" mean something:
//   1. ask: generation g and the rules
//   2. switch off every event that g does not want, and stop the slow path of sessions that are gone
//   3. begin quiescence: restart all sequences, remember busy guards
//   4. switch on what g wants (needs no quiescence)
//   5. once quiescent: unmap the channels of sessions that are gone, acknowledge g
// Steps 1 to 4 never wait. If step 5 can not be done at once, the last of the remembered guards does it.
#include "runtime.h"
#include "signals_held.h"

#include "condition/program.h"
#include "count/link.h"
#include "ring/inject.h"

#include <linux/membarrier.h>

namespace plumb {

using condition::Code, condition::Conditions;

constinit plumb_query_request request = {};
constinit plumb_query_result answer = {};

namespace {

bool matches(const plumb_rule& rule, const plumb_event_info& info, const char* full_name) {
    return info.log_level <= rule.log_level && info.log_level >= rule.log_level_from &&
           pattern_matches(rule.pattern, full_name);
}

// "provider:event"; too long a name is cut, and then only patterns with a star match it.
void full_name_of(const plumb_event_info& info, char* to, size_t bytes) {
    size_t used = 0;
    for (const char* from = info.provider; *from != '\0' && used + 2 < bytes; from++)
        to[used++] = *from;
    to[used++] = ':';
    for (const char* from = info.name; *from != '\0' && used + 1 < bytes; from++)
        to[used++] = *from;
    to[used] = '\0';
}

// What the rules in answer want of an event.
struct Wanted {
    uint32_t sessions;                       // that want it
    uint32_t conditional;                    // of these, those that want what fulfils one of
    uint32_t conditions[PLUMB_MAX_SESSIONS]; // by session: a bit for each in answer
};

Wanted wanted_of(const plumb_event_info& info) {
    char name[256];
    full_name_of(info, name, sizeof(name));
    Wanted wanted = {};
    uint32_t excluded = 0;
    uint32_t whole = 0;
    for (uint32_t i = 0; i < answer.rule_count; i++) {
        const plumb_rule& rule = answer.rules[i];
        const uint32_t bit = 1u << rule.session;
        const bool excludes = (rule.flags & PLUMB_RULE_EXCLUDE) != 0;
        if (((excludes ? excluded : whole) & bit) != 0 || !matches(rule, info, name)) continue;
        if (excludes) {
            excluded |= bit;
            continue;
        }
        wanted.sessions |= bit;
        if (rule.condition == 0)
            whole |= bit;
        else
            wanted.conditions[rule.session] |= 1u << (rule.condition - 1);
    }
    wanted.sessions &= ~excluded;
    wanted.conditional = wanted.sessions & ~whole;
    return wanted;
}

uint32_t wanted_by(const plumb_event_info& info) {
    return wanted_of(info).sessions;
}

template <typename Function>
void for_each_event(Function function) {
    for (plumb_object* object = load_acquire(runtime.objects); object != nullptr; object = object->next) {
        for (plumb_event** entry = object->events_begin; entry < object->events_end; entry++) {
            if (*entry != nullptr && (*entry)->info != nullptr &&
                (*entry)->info->version == PLUMB_RUNTIME_VERSION)
                function(**entry);
        }
    }
}

// Sessions that are attached and still what the rules speak of.
uint32_t current_sessions() {
    uint32_t sessions = 0;
    for (uint32_t s = 0; s < PLUMB_MAX_SESSIONS; s++) {
        const Attachment& attachment = attachments[s];
        if (attachment.usable != 0 && attachment.cookie == answer.sessions[s].cookie) sessions |= 1u << s;
    }
    return sessions;
}

constexpr uint32_t all_sessions = (1u << PLUMB_MAX_SESSIONS) - 1;

// The sessions in which an event is on, whole or on condition.
uint32_t sessions_of(uint32_t enabled) {
    return (enabled | enabled >> PLUMB_MAX_SESSIONS) & all_sessions;
}
uint32_t both_bits(uint32_t sessions) {
    return sessions | sessions << PLUMB_MAX_SESSIONS;
}

// FNV-1a.
uint64_t hash_of(const plumb_condition& condition, uint64_t hash) {
    for (uint32_t i = 0; i < condition.code_bytes; i++)
        hash = (hash ^ condition.code[i]) * 0x100000001b3u;
    return hash;
}

// Those of one event, in `codes`.
Conditions conditions_of(const Wanted& wanted, uint32_t session, Code (&codes)[PLUMB_MAX_CONDITIONS]) {
    Conditions conditions = {codes, 0, 0};
    if ((wanted.conditional >> session & 1) == 0) return conditions;
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint32_t left = wanted.conditions[session]; left != 0; left &= left - 1) {
        const plumb_condition& condition = answer.conditions[__builtin_ctz(left)];
        codes[conditions.count++] = {condition.code, condition.code_bytes};
        hash = hash_of(condition, hash);
    }
    conditions.identity = hash | 1;
    return conditions;
}

// Whether the event may be switched on in the session, by the bit of those that are on condition.
bool may_be_on(plumb_event& event, uint32_t session, const Conditions& conditions) {
    const condition::Linked linked = condition::install_conditions(event, session, conditions);
    if (linked == condition::Linked::no_room)
        add_seq_cst(attachments[session].header->conditions_refused, uint64_t{1});
    return linked == condition::Linked::done;
}

// The slow path may clear bits at the same time (a closed channel), never set them.
bool clear_bits(plumb_event& event, uint32_t bits) {
    return bits != 0 && (__atomic_fetch_and(&event.enabled, ~bits, __ATOMIC_SEQ_CST) & bits) != 0;
}

// Of a session in which the event is on, and stays so: by other conditions than before. Once it had some, the event keeps its
// way through them, also when everything is wanted: between one bit and the other nothing would be written. Whether
// anything has changed.
bool change_conditions(plumb_event& event, uint32_t session, const Wanted& wanted) {
    Code codes[PLUMB_MAX_CONDITIONS];
    const Conditions conditions = conditions_of(wanted, session, codes);
    const uint32_t whole = 1u << session, conditional = whole << PLUMB_MAX_SESSIONS;
    uint32_t there = load_relaxed(event.enabled);
    if ((there & conditional) == 0 && conditions.count == 0) return false;
    if ((there & conditional) != 0 && condition::are_installed(event, session, conditions.identity))
        return false;
    if (!may_be_on(event, session, conditions)) {
        clear_bits(event, both_bits(whole));
        (void)condition::remove_conditions(event, session);
        return true;
    }
    while ((there & whole) != 0 && !compare_exchange(event.enabled, there, (there & ~whole) | conditional)) {
    }
    return true;
}

// Whether anything was switched off, or is written by other conditions.
bool switch_off() {
    bool any = false;
    const uint32_t current = current_sessions();
    for (uint32_t s = 0; s < PLUMB_MAX_SESSIONS; s++) {
        Attachment& attachment = attachments[s];
        if (attachment.usable == 0 || (current >> s & 1) != 0) continue;
        store_seq_cst(attachment.usable, 0u);
        any = true;
    }
    for_each_event([&](plumb_event& event) {
        const uint32_t before = sessions_of(load_relaxed(event.enabled));
        if (before == 0 && event.conditions == nullptr) return;
        const Wanted wanted = wanted_of(*event.info);
        const uint32_t after = before & current & wanted.sessions;
        any |= clear_bits(event, both_bits(before & ~after));
        // Also where the slow path has cleared the bits: who has yet to write may be held up by anything.
        for (uint32_t left = all_sessions & ~after; left != 0 && event.conditions != nullptr;
             left &= left - 1)
            any |= condition::remove_conditions(event, static_cast<uint32_t>(__builtin_ctz(left)));
        for (uint32_t left = after; left != 0; left &= left - 1)
            any |= change_conditions(event, static_cast<uint32_t>(__builtin_ctz(left)), wanted);
    });
    return any;
}

// Sessions that want an event of this process and whose channel is not attached; those whose place is not
// free yet are left for the round that follows quiescence.
void attach_new() {
    uint32_t wanted = 0;
    NotAttached failed[PLUMB_MAX_SESSIONS] = {};
    const uint32_t not_judged = answer.not_judged & ~current_sessions();
    const bool has_no_name = runtime.executable_known && request.executable[0] == '\0';
    const int why_not_judged = has_no_name ? PLUMB_ERROR_NO_EXECUTABLE : control_group_error();
    for_each_event([&](plumb_event& event) { wanted |= wanted_by(*event.info); });
    for (uint32_t s = 0; s < PLUMB_MAX_SESSIONS; s++) {
        const uint64_t cookie = answer.sessions[s].cookie;
        if ((not_judged >> s & 1) != 0) failed[s] = {cookie, why_not_judged, false};
        if ((wanted >> s & 1) == 0 || attachments[s].cookie != 0) continue;
        const int forbidden = why_forbidden_by_filters(answer.sessions[s]);
        const int error = forbidden != 0 ? forbidden : -attach(s, cookie);
        if (error != 0) failed[s] = {cookie, error, true};
    }
    // At once: a controller that looks meanwhile, for an older generation, must not see that all is well.
    report_not_attached(failed);
}

void switch_on_in(plumb_event& event, uint32_t session, const Wanted& wanted) {
    Attachment& attachment = attachments[session];
    if (load_relaxed(attachment.header->closed) != 0) return;
    // Also where its conditions can never hold: so the controller sees that there is such an event.
    const uint16_t id = event_id_in(attachment, *event.info);
    if (id == 0) return;
    store_release(event.ids[session], id);
    if (attachment.counts_by_fields()) count::link_event(event, session, attachment);
    Code codes[PLUMB_MAX_CONDITIONS];
    const Conditions conditions = conditions_of(wanted, session, codes);
    // What has context goes the way of what is on condition, and has none.
    const bool has_program = conditions.count != 0 || attachment.context != 0;
    if (has_program && !may_be_on(event, session, conditions)) return;
    const uint32_t place = session + (has_program ? PLUMB_MAX_SESSIONS : 0);
    __atomic_fetch_or(&event.enabled, 1u << place, __ATOMIC_SEQ_CST);
}

// An event may be listed more than once (the same header in several translation units); the second time finds
// it done.
void switch_on() {
    const uint32_t current = current_sessions();
    if (current == 0) return;
    for_each_event([&](plumb_event& event) {
        const Wanted wanted = wanted_of(*event.info);
        uint32_t missing = wanted.sessions & current & ~sessions_of(load_relaxed(event.enabled));
        for (; missing != 0; missing &= missing - 1)
            switch_on_in(event, static_cast<uint32_t>(__builtin_ctz(missing)), wanted);
    });
}

// Before the generation is acknowledged: what is on has to be on in their words, too.
void tell_objects() {
    for (plumb_object* object = load_acquire(runtime.objects); object != nullptr; object = object->next)
        if (object->updated != nullptr) object->updated(object);
}

bool ask() {
    request.version = PLUMB_QUERY_VERSION;
    request.process_id = runtime.process_id;
    request.process_namespace = process_namespace();
    request.user_id = static_cast<uint32_t>(sys::call(SYS_getuid));
    return plumb_query(&request, &answer) == 0;
}

// Whether no session may have this process because of the filter that it has from the start. Then nothing is asked, since
// that takes calls, too, of which the filter may not know.
bool is_left_alone() {
    if (inherited_filters() == 0) return false;
    const uint64_t generation = load_seq_cst(runtime.state->generation);
    NotAttached forbidden[PLUMB_MAX_SESSIONS] = {};
    if (!are_all_forbidden(forbidden)) return false;
    report_not_attached(forbidden);
    if (may_be_told_of_filters()) return true; // and is asked once more
    store_relaxed(runtime.generation, generation);
    acknowledge(generation);
    return true;
}

// The way of every start without a session. It takes little of a stack, and goes no further into the program's memory.
bool is_nobody_there() {
    uint64_t generation = 0;
    if (runtime.epoch != 0 || !has_no_rules(generation)) return false;
    store_relaxed(runtime.generation, generation);
    acknowledge(generation);
    return true;
}

bool is_served_at_once() {
    if (runtime.state == nullptr) return true;
    inject(InjectionPoint::update_begun);
    return load_relaxed(runtime.quiesce_pending) == 0 && is_nobody_there();
}

// What was loaded since, to the channels that we have; new ones get all of it. An update for an object that comes or goes is of the same
// rules, and who registers it introduces it: each look reads all mappings.
void introduce_at(uint64_t generation) {
    static uint64_t introduced;
    if (introduced == generation) return;
    introduced = generation;
    introduce_new_objects();
}

void update() {
    if (runtime.state == nullptr) return;
    if (load_relaxed(runtime.quiesce_pending) != 0 && is_quiescent_without_the_dead()) quiesced();
    if (is_nobody_there()) return;
    if (runtime.epoch == 0 && is_left_alone()) return;
    if (!ask()) return;
    store_relaxed(runtime.generation, answer.generation);
    // What was left by a jump, or by a thread that is gone, may have been switched off without all that follows.
    const bool was_left = exchange_seq_cst(runtime.update_was_left, 0u) != 0;
    if (switch_off() || was_left) {
        inject(InjectionPoint::switched_off);
        // With an update still pending this one takes its place: what is busy now contains what was busy then
        // and still is.
        begin_quiescence();
        store_seq_cst(runtime.quiesce_pending, 1u);
        inject(InjectionPoint::quiesce_begun);
    }
    if (load_relaxed(runtime.quiesce_pending) != 0 && is_quiescent_without_the_dead()) quiesced();
    if (answer.rule_count != 0) {
        register_membarrier();
        introduce_at(answer.generation);
    }
    attach_new();
    switch_on();
    tell_objects();
    if (load_relaxed(runtime.quiesce_pending) == 0) acknowledge(answer.generation);
}

} // namespace

void switch_off_all() {
    for_each_event([](plumb_event& event) {
        store_seq_cst(event.enabled, 0u);
        condition::forget_conditions(event);
        count::forget_links(event);
    });
}

// Registering is cheap while the process has one thread, and may take milliseconds later (the kernel waits
// for every CPU), so it is done at start where possible, and otherwise only when the first event is switched
// on.
void register_membarrier() {
    if (runtime.rseq_offset == 0 || runtime.membarrier_registered) return;
    runtime.membarrier_registered =
        sys::call(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0) == 0;
    // Nothing was on yet: without it, nothing may be written by sequences.
    if (!runtime.membarrier_registered && runtime.epoch == 0) runtime.rseq_offset = 0;
}

// Nothing of what was switched off is in use any more.
void quiesced() {
    store_seq_cst(runtime.quiesce_pending, 0u);
    for (uint32_t s = 0; s < PLUMB_MAX_SESSIONS; s++) {
        if (attachments[s].cookie != 0 && attachments[s].usable == 0) detach(s);
    }
}

namespace {

// `updating` is the thread's id, so that one that was killed there (a child of vfork) holds nobody up, and this bit.
constexpr uint32_t somebody_waits = 1u << 31;

// This thread is in an update, and nothing that can be seen has been interrupted: a handler has jumped out of it. As
// another update on the same stack ends a program in which that is not true after all, this one must have had the time to
// end by itself.
bool has_jumped_away() {
    constexpr uint64_t update_ns_max = 1'000'000'000;
    static uint64_t first_seen_ns;
    static uint32_t first_seen_in;
    if (!is_alone()) return false;
    const uint64_t time_ns = now_ns(CLOCK_MONOTONIC);
    const uint32_t update = load_relaxed(runtime.updates_begun);
    if (exchange_seq_cst(first_seen_in, update) != update) store_relaxed(first_seen_ns, time_ns);
    return time_ns - load_relaxed(first_seen_ns) > update_ns_max;
}

bool begin_update() {
    uint32_t there = 0;
    const uint32_t mine = sys::thread_id();
    if (!compare_exchange(runtime.updating, there, mine)) {
        const uint32_t owner = there & ~somebody_waits;
        const bool is_left = owner == mine ? has_jumped_away() : is_thread_gone(owner);
        if (!is_left || !compare_exchange(runtime.updating, there, mine)) return false;
        store_seq_cst(runtime.update_was_left, 1u);
    }
    add_seq_cst(runtime.updates_begun, 1u);
    return true;
}

void end_update() {
    if ((exchange_seq_cst(runtime.updating, 0u) & somebody_waits) != 0) sys::futex_wake_all(runtime.updating);
}

} // namespace

// Asleep, and not in a loop of sched_yield(): a thread of real-time priority would keep the one it waits for from
// running. An update takes no longer than its system calls; one that has not ended after ten seconds was stopped in
// the middle by a debugger, or its thread's id belongs to somebody else by now. As it may go on, on the stack on which
// updates run, nobody takes its place; and nobody waits once more for the same one, nor for the one that he has
// interrupted (a handler for SIGSYS that ends the program).
bool hold_updates() {
    constexpr uint64_t sleep_ns = 10'000'000;
    constexpr uint32_t sleeps = 1000;
    static uint32_t
        given_up_on; // one more than `updates_begun` was: who is in the very first has yet to count it
    for (uint32_t i = 0; i < sleeps; i++) {
        if (begin_update()) return true;
        if (load_relaxed(given_up_on) == load_seq_cst(runtime.updates_begun) + 1) return false;
        uint32_t there = load_seq_cst(runtime.updating);
        if (there == 0) continue;
        if (may_have_interrupted_us() && (there & ~somebody_waits) == sys::thread_id()) return false;
        const uint32_t waited = there | somebody_waits;
        if (there == waited || compare_exchange(runtime.updating, there, waited))
            sys::futex_wait(runtime.updating, waited, sleep_ns);
    }
    store_relaxed(given_up_on, load_seq_cst(runtime.updates_begun) + 1);
    return false;
}

void release_updates() {
    end_update();
}

// Runs update() now, or leaves the request to the thread that is in it. With signals blocked: a handler that jumps out of
// an update leaves it owned, until its thread comes by again.
void request_update(uintptr_t interrupted_stack) {
    if (writers_are_wiped()) after_fork();
    if (writers_are_wiped()) return; // in a handler that came in the middle of that
    const Permit permit;
    if (!permit.given()) return;
    const SignalsHeld signals(interrupted_stack);
    request_update_within();
}

void request_update_within() {
    const Permit permit;
    if (!permit.given()) return;
    add_seq_cst(runtime.update_requests, 1u);
    while (begin_update()) {
        uint32_t served;
        do {
            served = load_seq_cst(runtime.update_requests);
            if (is_served_at_once()) continue;
            call_on_own_stack(update);
            tell_watches();
        } while (load_seq_cst(runtime.update_requests) != served);
        end_update();
        // A request that came between the last look and the store found us still there: look once more.
        if (load_seq_cst(runtime.update_requests) == served) break;
    }
}

// A process that cannot be signalled (every thread blocks the signal, or the program has a handler of its own for it)
// follows here.
void follow_if_moved() {
    if (rules_have_moved()) request_update();
}

} // namespace plumb
